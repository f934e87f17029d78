//! What a model answered, read with patience: tags in any order, without their ends, in fences of code, with
//! thoughts before it. Text without any tag is no answer.

mod sections;
mod tags;

use serde_json::Value;

use sections::sections;
pub(super) use sections::told;
pub(super) use tags::begins_at;
use tags::{blocks, content, outside, tag, without_thoughts};

/// Most messages that an answer can name.
const MAX_KEPT: usize = 256;
/// An answer that is shorter may be a refusal.
const MAX_REFUSAL_CHARS: usize = 400;
/// How refusals begin, in lower case.
const REFUSALS: [&str; 16] = [
    "i'm sorry",
    "i’m sorry",
    "i am sorry",
    "sorry,",
    "i can't",
    "i can’t",
    "i cannot",
    "i'm unable",
    "i am unable",
    "i'm not able",
    "i won't",
    "as an ai",
    "unfortunately, i",
    "申し訳",
    "すみません",
    "お手伝いできません",
];

/// A summary by a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ModelReply {
    /// The summary.
    pub(crate) summary: String,
    /// What is to be kept word for word.
    pub(crate) retain: Option<String>,
    /// Messages that are to stay, in order, none twice. The model may name any number.
    pub(crate) keep: Vec<u64>,
    /// The sections of the summary, if they were asked for: an object of lists of strings.
    pub(crate) sections: Option<Value>,
}

/// Why an answer says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoSummary {
    Empty,
    /// There is text, but not between the tags that were asked for: it may be anything.
    Untagged,
    /// The model does not want to.
    Declined(String),
}

/// What was asked for beside a summary.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExpectedParts {
    pub(super) retain: bool,
    pub(super) structured: bool,
}

/// Reads an answer.
pub(super) fn read(answer: &str, asked: ExpectedParts) -> Result<ModelReply, NoSummary> {
    let (text, keep) = without_keeps(without_thoughts(answer));
    let names: &[&str] = if asked.retain { &["summary", "retain"] } else { &["summary"] };
    let blocks = blocks(&text, names);
    let summary = content(&text, &blocks, "summary");
    let tagged = summary.is_some();
    let said = summary.unwrap_or_else(|| outside(&text, &blocks));
    let said = unfenced(strip_ends(&said));
    if !says_something(said) {
        return Err(NoSummary::Empty);
    }
    if is_refusal(said) {
        return Err(NoSummary::Declined(said.chars().take(200).collect()));
    }
    let retain = content(&text, &blocks, "retain").map(|retained| unfenced(&retained).to_owned());
    let retain = retain.filter(|retained| says_something(retained));
    let sections = if asked.structured { sections(said, tagged) } else { None };
    if !tagged && sections.is_none() {
        return Err(NoSummary::Untagged);
    }
    let summary = sections.as_ref().map_or_else(|| said.to_owned(), told);
    Ok(ModelReply { summary, retain, keep, sections })
}

/// The text and the sections of a summary that an agent brings, if it has some.
pub(super) fn read_sections(summary: &str) -> Option<(String, Value)> {
    let sections = sections(unfenced(summary), true)?;
    Some((told(&sections), sections))
}

/// Reads the summaries of so many gaps.
pub(super) fn read_gaps(answer: &str, gaps: usize) -> Vec<Option<String>> {
    let mut found = vec![None; gaps];
    let mut put = |number: u64, text: &str| {
        let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let text = text.trim();
        if let Some(place) = at.and_then(|at| found.get_mut(at))
            && says_something(text)
        {
            *place = Some(text.to_owned());
        }
    };
    let text_of = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(item) => item.get("summary").and_then(Value::as_str).map(str::to_owned),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    };
    let answer = without_thoughts(answer);
    let value = json_in(answer, '[', ']').filter(|_| {
        // A list that is not in an object.
        answer.find('[').zip(answer.find('{')).is_none_or(|(list, object)| list < object)
    });
    let Some(value) = value.or_else(|| json_in(answer, '{', '}')) else { return found };
    let list = value.get("gaps").unwrap_or(&value);
    match list {
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let number = item.get("gap").map_or(Some(at as u64 + 1), number);
                if let (Some(number), Some(text)) = (number, text_of(item)) {
                    put(number, &text);
                }
            }
        }
        Value::Object(items) => {
            if let (1, Some(text)) = (gaps, items.get("summary").and_then(Value::as_str)) {
                put(1, text);
            }
            for (key, item) in items {
                let digits: String = key.chars().filter(char::is_ascii_digit).collect();
                if let (Ok(number), Some(text)) = (digits.parse(), text_of(item)) {
                    put(number, &text);
                }
            }
        }
        Value::String(text) if gaps == 1 => put(1, text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// An answer without its `<keep …>`, and the numbers they have.
fn without_keeps(answer: &str) -> (String, Vec<u64>) {
    let (mut text, mut keep) = (String::with_capacity(answer.len()), Vec::new());
    let mut rest = 0;
    while let Some(found) = tag(answer, "keep", false, rest) {
        text.push_str(&answer[rest..found.start]);
        rest = found.end;
        let within = &answer[found.start..found.end];
        numbers(within, &mut keep);
        if within.ends_with("/>") {
            continue;
        }
        // Numbers between two tags.
        if let Some(close) = tag(answer, "keep", true, rest)
            && is_numbers(&answer[rest..close.start])
        {
            numbers(&answer[rest..close.start], &mut keep);
            rest = close.end;
        }
    }
    text.push_str(&answer[rest..]);
    keep.sort_unstable();
    keep.dedup();
    (text, keep)
}

fn is_numbers(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_digit() || c.is_whitespace() || ",;-–".contains(c))
}

/// The numbers in a text; `3-5` are three.
fn numbers(text: &str, out: &mut Vec<u64>) {
    let mut before: Option<u64> = None;
    let mut through = false;
    for word in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
        if let Ok(number) = digits.parse::<u64>()
            && number > 0
        {
            let first = before.filter(|first| through && *first < number).map_or(number, |first| first + 1);
            let room = MAX_KEPT.saturating_sub(out.len());
            out.extend((first..=number).take(room));
            (before, through) = (Some(number), false);
        }
        match word.chars().next_back() {
            Some('-' | '–') => through = before.is_some(),
            Some(c) if c.is_whitespace() || c.is_ascii_digit() => {}
            Some(_) | None => (before, through) = (None, false),
        }
    }
}

/// A text without tags of a block that lost their partners.
fn strip_ends(text: &str) -> &str {
    let mut text = text.trim();
    for name in ["summary", "retain"] {
        for end in [format!("</{name}>"), format!("<{name}>")] {
            text = text.strip_suffix(end.as_str()).unwrap_or(text).trim_end();
        }
    }
    text
}

/// What stands in a fence of code, if there is nothing else.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(rest) = text.strip_prefix("```") else { return text };
    let Some((language, rest)) = rest.split_once('\n') else { return text };
    if !language.trim().chars().all(char::is_alphanumeric) {
        return text;
    }
    match rest.trim_end().strip_suffix("```") {
        // Several fences are a text that has some.
        Some(inner) if !inner.contains("```") => inner.trim(),
        None if !rest.contains("```") => rest.trim(),
        Some(_) | None => text,
    }
}

fn says_something(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

fn is_refusal(text: &str) -> bool {
    let begins = text.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    text.chars().count() <= MAX_REFUSAL_CHARS && REFUSALS.iter().any(|words| begins.starts_with(words))
}

/// The JSON value in a text, from the first opening to the last closing mark.
fn json_in(text: &str, open: char, close: char) -> Option<Value> {
    let (from, to) = (text.find(open)?, text.rfind(close)?);
    serde_json::from_str(text.get(from..=to)?).ok()
}

#[cfg(test)]
mod tests;
