//! Repairs contents, calls and names that OpenAI would refuse, for the view.
//!
//! Pure. Everything that is fine stands as it came; the rest becomes text that says what was there, or is left out, and
//! the caller is told that something was lost. `docs/FORMAT.md` §3 is the contract, `tests/oracle/fold.py` the same in
//! Python.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use crate::model::json::{field, fields, items};
use crate::model::{JsonKind, Role, plain_name};

/// Most characters of the id of a call.
const MAX_ID: usize = 40;

/// A value as it is shown, and whether something of it is not.
pub(super) struct Repair<'a> {
    pub(super) json: Cow<'a, str>,
    pub(super) lost: bool,
}

/// A call as it is shown.
pub(super) struct RepairedCall<'a> {
    /// The id that a result asks for it by, as it came.
    pub(super) asked: Option<&'a str>,
    /// The id that it is shown with.
    pub(super) id: String,
    /// The whole call.
    json: String,
}

/// Calls as they are shown: an array, without those that are none.
pub(super) fn array_of(calls: &[RepairedCall<'_>]) -> String {
    format!("[{}]", calls.iter().map(|call| call.json.as_str()).collect::<Vec<_>>().join(","))
}

fn as_text(value: &str) -> Option<&str> {
    (JsonKind::of(value) == JsonKind::Text).then_some(value)
}

fn as_object(value: &str) -> Option<&str> {
    (JsonKind::of(value) == JsonKind::Object).then_some(value)
}

fn decoded(text: &str) -> String {
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns whether an object has fields that are not among these.
fn has_others(object: &str, known: &[&str]) -> bool {
    fields(object).iter().any(|(key, _)| !known.contains(&decoded(key).as_str()))
}

/// The content of a message of a role: text or parts; what is neither is no text.
pub(super) fn content(content: &str, role: Role) -> Repair<'_> {
    match JsonKind::of(content) {
        JsonKind::Text => Repair { json: Cow::Borrowed(content), lost: false },
        JsonKind::Array => {
            let mut lost = false;
            let mut json = String::with_capacity(content.len() + 16);
            for found in items(content) {
                json.push(if json.is_empty() { '[' } else { ',' });
                lost |= part(found, role, &mut json);
            }
            json.push_str(if json.is_empty() { "\"\"" } else { "]" });
            Repair { json: Cow::Owned(json), lost }
        }
        JsonKind::Null | JsonKind::Object | JsonKind::Other => {
            Repair { json: Cow::Borrowed("\"\""), lost: false }
        }
    }
}

/// Shows a part; true if something of it is lost.
fn part(part: &str, role: Role, out: &mut String) -> bool {
    let own = |name: &str| as_object(part).and_then(|part| field(part, name)).and_then(as_text);
    let kind = own("type").map(decoded).unwrap_or_else(|| "part".to_owned());
    let mark = as_object(part).and_then(|part| field(part, "prompt_cache_breakpoint")).and_then(as_object);
    let mark = mark.map(|mark| format!(",\"prompt_cache_breakpoint\":{mark}")).unwrap_or_default();
    if let ("text", Some(text)) = (kind.as_str(), own("text")) {
        let _ = write!(out, "{{\"type\":\"text\",\"text\":{text}{mark}}}");
        return has_others(part, &["type", "text", "prompt_cache_breakpoint"]);
    }
    if let ("refusal", Role::Assistant, Some(text)) = (kind.as_str(), role, own("refusal")) {
        let _ = write!(out, "{{\"type\":\"refusal\",\"refusal\":{text}}}");
        return has_others(part, &["type", "refusal"]);
    }
    let within = as_object(part).and_then(|part| field(part, &kind)).and_then(as_object);
    if let (Role::User, Some(within)) = (role, within)
        && let Some(shown) = media(&kind, within)
    {
        let names: Vec<&str> = shown.iter().map(|(name, _)| *name).collect();
        let shown: Vec<String> = shown.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        let _ = write!(out, "{{\"type\":\"{kind}\",\"{kind}\":{{{}}}{mark}}}", shown.join(","));
        return has_others(part, &["type", &kind, "prompt_cache_breakpoint"]) || has_others(within, &names);
    }
    let text = own("text").map(str::to_owned).unwrap_or_else(|| note(own("type")));
    let _ = write!(out, "{{\"type\":\"text\",\"text\":{text}}}");
    true
}

/// A text that stands for a part of some type.
fn note(kind: Option<&str>) -> String {
    format!("\"[{} omitted]\"", kind.map_or("part", |kind| &kind[1..kind.len() - 1]))
}

/// The fields of an image, a sound or a file that are shown, if it is one.
fn media<'a>(kind: &str, within: &'a str) -> Option<Vec<(&'static str, &'a str)>> {
    let word = |name, words: &[&str]| field(within, name).filter(|value| words.contains(value));
    let text = |name| field(within, name).and_then(as_text);
    let mut shown = Vec::new();
    match kind {
        "image_url" => {
            shown.push(("url", text("url")?));
            let detail = word("detail", &["\"auto\"", "\"low\"", "\"high\"", "\"original\""]);
            shown.extend(detail.map(|detail| ("detail", detail)));
        }
        "input_audio" => {
            shown.push(("data", text("data")?));
            shown.push(("format", word("format", &["\"wav\"", "\"mp3\""])?));
        }
        "file" => {
            // It is the one or the other.
            let id = if text("file_data").is_some() { None } else { text("file_id") };
            let given = [("file_data", text("file_data")), ("file_id", id), ("filename", text("filename"))];
            shown.extend(given.into_iter().filter_map(|(name, value)| Some((name, value?))));
            if shown.iter().all(|(name, _)| *name == "filename") {
                return None;
            }
        }
        _ => return None,
    }
    Some(shown)
}

/// A name that OpenAI takes; none if nothing is left of it.
pub(super) fn name(name: &str) -> Option<Cow<'_, str>> {
    let given = decoded(as_text(name)?);
    let plain = plain_name(&given)?;
    Some(if plain == given { Cow::Borrowed(name) } else { Cow::Owned(format!("\"{plain}\"")) })
}

/// The calls of message `seq`, and whether something of them is lost.
pub(super) fn calls(calls: &str, seq: u64) -> (Vec<RepairedCall<'_>>, bool) {
    let (mut shown, mut used, mut lost): (Vec<RepairedCall<'_>>, HashSet<String>, bool) = Default::default();
    let calls = if JsonKind::of(calls) == JsonKind::Array { items(calls) } else { Vec::new() };
    for (index, call) in calls.into_iter().enumerate() {
        let kind = as_object(call).and_then(|call| match field(call, "type") {
            None | Some("null" | "\"function\"") => Some(("function", "arguments")),
            Some("\"custom\"") => Some(("custom", "input")),
            Some(_) => None,
        });
        let within = kind.and_then(|(kind, _)| field(call, kind)).and_then(as_object);
        let (Some((kind, input)), Some(within)) = (kind, within) else {
            lost = true;
            continue;
        };
        let given_name = field(within, "name");
        let plain = given_name.and_then(name).unwrap_or(Cow::Borrowed("\"unknown\""));
        let given_input = field(within, input).and_then(as_text);
        let asked = field(call, "id").and_then(as_text);
        let mut text = asked.map(decoded).unwrap_or_default();
        let fits = (1..=MAX_ID).contains(&text.chars().count()) && !used.contains(&text);
        if !fits {
            text = format!("call_{seq}_{index}");
            while used.contains(&text) {
                text.push('x');
            }
        }
        let id = asked.filter(|_| fits).map_or_else(|| format!("\"{text}\""), str::to_owned);
        lost |= !fits
            || given_name != Some(plain.as_ref())
            || given_input.is_none()
            || has_others(call, &["id", "type", kind])
            || has_others(within, &["name", input]);
        let input_text = given_input.unwrap_or("\"\"");
        let json = format!(
            "{{\"id\":{id},\"type\":\"{kind}\",\"{kind}\":{{\"name\":{plain},\"{input}\":{input_text}}}}}"
        );
        used.insert(text);
        shown.push(RepairedCall { asked, id, json });
    }
    (shown, lost)
}
