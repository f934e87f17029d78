//! Summaries with sections: JSON that becomes a text with headings.

use serde_json::{Map, Value};

use super::super::prompt::SECTIONS;
use super::{json_in, says_something};

/// The sections of a summary; none if there are none. What has other names is among the changes. With `whole`, text around
/// them would be lost, so that there are none then.
pub(super) fn sections(text: &str, whole: bool) -> Option<Value> {
    let value = json_in(text, '{', '}')?;
    let given = value.as_object()?;
    let around = |text: &str| {
        let text = text.replace("```json", "").replace("```", "");
        // "Here it is:"
        !says_something(&text) || text.trim_end().ends_with([':', '：'])
    };
    if whole && !(around(text.split('{').next()?) && around(text.rsplit('}').next()?)) {
        return None;
    }
    let lines = |value: &Value| strings(value).into_iter().map(Value::from).collect::<Vec<Value>>();
    let mut sections = Map::new();
    for (name, _) in SECTIONS {
        let own = given.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        sections.insert(name.to_owned(), Value::Array(own.map(lines).unwrap_or_default()));
    }
    let some = |sections: &Map<String, Value>| {
        sections.values().filter_map(Value::as_array).any(|lines| !lines.is_empty())
    };
    if !some(&sections) {
        return None;
    }
    let is_known = |key: &str| SECTIONS.iter().any(|(name, _)| key.eq_ignore_ascii_case(name));
    let others: Map<String, Value> = given
        .iter()
        .filter(|(key, value)| !is_known(key) && !strings(value).is_empty())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if let Some(Value::Array(changes)) = sections.get_mut("changes") {
        changes.extend(lines(&Value::Object(others)));
    }
    Some(Value::Object(sections))
}

/// The strings of a section, whatever form it has.
fn strings(value: &Value) -> Vec<String> {
    let line = |text: &str| {
        let text = text.trim();
        let text = text.strip_prefix("- ").unwrap_or(text).trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => line(text).into_iter().collect(),
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter_map(|(key, value)| line(&format!("{key}: {}", strings(value).join("; "))))
            .collect(),
        Value::Bool(_) | Value::Number(_) => vec![value.to_string()],
    }
}

/// Sections as a text with headings.
pub(in super::super) fn told(sections: &Value) -> String {
    let mut text = String::new();
    for (name, _) in SECTIONS {
        let lines = sections.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if lines.is_empty() {
            continue;
        }
        let mut letters = name.chars();
        let first = letters.next().map(|c| c.to_ascii_uppercase());
        text.push_str("## ");
        text.extend(first);
        text.push_str(letters.as_str());
        for line in lines.iter().filter_map(Value::as_str) {
            text.push_str("\n- ");
            text.push_str(line);
        }
        text.push_str("\n\n");
    }
    text.trim_end().to_owned()
}
