//! What a model answered, read with patience: tags in any order, without their ends or not at all, in fences of code, with
//! thoughts before it. What cannot be read as asked is taken as it is.

use serde_json::{Map, Value};

use super::prompt::SECTIONS;

/// Most messages that an answer can name.
const MAX_KEPT: usize = 256;
/// The longest tag that is looked at.
const MAX_TAG_BYTES: usize = 2048;
/// An answer without tags that is shorter may be a refusal.
const MAX_REFUSAL_CHARS: usize = 400;
/// Tags of thoughts that some models have in their text.
const THOUGHTS: [&str; 4] = ["think", "thinking", "analysis", "scratchpad"];
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

/// An answer that says something.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Read {
    pub(super) summary: String,
    pub(super) retain: Option<String>,
    /// Messages to keep, in order, none twice.
    pub(super) keep: Vec<u64>,
    /// The sections, if they were asked for and are there: an object of lists of strings.
    pub(super) sections: Option<Value>,
}

/// Why an answer says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Nothing {
    Empty,
    /// The model does not want to.
    Declined(String),
}

/// Reads an answer.
pub(super) fn read(answer: &str, structured: bool) -> Result<Read, Nothing> {
    let (text, keep) = without_keeps(without_thoughts(answer));
    let retain = Block::find(&text, "retain");
    let summary = Block::find(&text, "summary");
    let (said, tagged) = match (&summary, &retain) {
        (Some(summary), other) => (summary.content(&text, other.as_ref()), true),
        (None, Some(retain)) => {
            let end = retain.end(&text, None);
            (format!("{}{}", &text[..retain.tag.start], &text[end.1..]), true)
        }
        (None, None) => (text.clone(), false),
    };
    let said = unfenced(strip_ends(&said));
    if !says_something(said) {
        return Err(Nothing::Empty);
    }
    if !tagged && is_refusal(said) {
        return Err(Nothing::Declined(said.chars().take(200).collect()));
    }
    let retained = retain.map(|block| unfenced(&block.content(&text, summary.as_ref())).to_owned());
    let retain = retained.filter(|retained| says_something(retained));
    let sections = if structured { sections(said) } else { None };
    let summary = sections.as_ref().map_or_else(|| said.to_owned(), told);
    Ok(Read { summary, retain, keep, sections })
}

/// The text and the sections of a summary that an agent brings, if it has some.
pub(super) fn read_sections(summary: &str) -> Option<(String, Value)> {
    let sections = sections(unfenced(summary))?;
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

/// Where a tag is.
#[derive(Debug, Clone)]
struct Tag {
    start: usize,
    end: usize,
}

/// The first tag of a name from a place on, of any case; `</name>` if it is to close.
fn tag(text: &str, name: &str, closes: bool, from: usize) -> Option<Tag> {
    let begin = if closes { "</" } else { "<" };
    let mut at = from;
    while let Some(found) = text[at..].find(begin) {
        let start = at + found;
        at = start + begin.len();
        let after = &text[at..];
        let named = after.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name));
        if !named {
            continue;
        }
        let rest = &after[name.len()..];
        if !rest.starts_with(|c: char| c == '>' || c == '/' || c.is_whitespace()) {
            continue;
        }
        let near = &rest[..rest.floor_char_boundary(MAX_TAG_BYTES.min(rest.len()))];
        if let Some(end) = near.find('>') {
            return Some(Tag { start, end: at + name.len() + end + 1 });
        }
    }
    None
}

/// A part of an answer between tags.
#[derive(Debug)]
struct Block {
    name: &'static str,
    tag: Tag,
}

impl Block {
    fn find(text: &str, name: &'static str) -> Option<Self> {
        let open = tag(text, name, false, 0);
        // One that only ends has begun where the answer does.
        let tag = open.or_else(|| tag(text, name, true, 0).map(|_| Tag { start: 0, end: 0 }))?;
        Some(Self { name, tag })
    }

    /// Where it ends, and where its last tag does: the last one before the other block, as a summary may speak of tags.
    fn end(&self, text: &str, other: Option<&Self>) -> (usize, usize) {
        let begins = other.map(|other| other.tag.start).filter(|start| *start >= self.tag.end);
        let limit = begins.unwrap_or(text.len());
        let (mut last, mut from) = (None, self.tag.end);
        while let Some(found) = tag(text, self.name, true, from).filter(|found| found.start < limit) {
            from = found.end;
            last = Some((found.start, found.end));
        }
        last.unwrap_or((limit, limit))
    }

    /// What stands in it, and in others of its name: some models give several.
    fn content(&self, text: &str, other: Option<&Self>) -> String {
        let mut parts = self.parts(text, self.end(text, other).0);
        // One more may stand behind the other block.
        let behind =
            other.filter(|other| other.tag.start >= self.tag.end).map(|other| other.end(text, None).1);
        if let Some(tag) = behind.and_then(|from| tag(text, self.name, false, from)) {
            let block = Self { name: self.name, tag };
            parts.extend(block.parts(text, block.end(text, None).0));
        }
        parts.retain(|part| says_something(part));
        parts.join("\n\n")
    }

    /// The blocks that stand one behind the other up to its end. Tags in pairs, and ends alone, are what a text speaks of.
    fn parts<'a>(&self, text: &'a str, end: usize) -> Vec<&'a str> {
        let (mut parts, mut from, mut depth) = (Vec::new(), self.tag.end, 1_usize);
        let tags = tags(&text[..end], self.name, from);
        for (at, (tag, closes)) in tags.iter().enumerate() {
            if !closes {
                depth += 1;
            } else if depth > 1 {
                depth -= 1;
            } else if let Some((open, false)) = tags.get(at + 1) {
                parts.push(text[from..tag.start].trim());
                (from, depth) = (open.end, 0);
            }
        }
        parts.push(text[from..end].trim());
        parts
    }
}

/// All tags of a name from a place on, and whether they close.
fn tags(text: &str, name: &str, from: usize) -> Vec<(Tag, bool)> {
    let (mut tags, mut at) = (Vec::new(), from);
    let mut next = [false, true].map(|closes| (tag(text, name, closes, at), closes));
    loop {
        let first = next.iter().filter_map(|(tag, closes)| Some((tag.clone()?, *closes)));
        let Some(first) = first.min_by_key(|(tag, _)| tag.start) else { return tags };
        at = first.0.end;
        tags.push(first);
        for (found, closes) in &mut next {
            if found.as_ref().is_some_and(|found| found.start < at) {
                *found = tag(text, name, *closes, at);
            }
        }
    }
}

/// An answer without the thoughts that it begins with.
fn without_thoughts(answer: &str) -> &str {
    let mut text = answer.trim();
    loop {
        let thought = THOUGHTS.iter().find_map(|name| {
            let open = tag(text, name, false, 0).filter(|open| open.start == 0)?;
            // One that has no end is all there is.
            Some(tag(text, name, true, open.end).map_or(text.len(), |close| close.end))
        });
        // The beginning may have been left out, as it is part of what some models are asked.
        let thought = thought.or_else(|| {
            let close = tag(text, "think", true, 0)?;
            tag(text, "think", false, 0).is_none().then_some(close.end)
        });
        match thought {
            Some(end) => text = text[end..].trim_start(),
            None => return text,
        }
    }
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

/// The sections of a summary; none if there are none.
fn sections(text: &str) -> Option<Value> {
    let value = json_in(text, '{', '}')?;
    let given = value.as_object()?;
    let mut sections = Map::new();
    let mut some = false;
    for (name, _) in SECTIONS {
        let own = given.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let lines: Vec<Value> = own.map(strings).unwrap_or_default().into_iter().map(Value::from).collect();
        some |= !lines.is_empty();
        sections.insert(name.to_owned(), Value::Array(lines));
    }
    some.then_some(Value::Object(sections))
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
fn told(sections: &Value) -> String {
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

#[cfg(test)]
mod tests;
