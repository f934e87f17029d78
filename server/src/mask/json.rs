//! Masking of JSON: texts are looked at as they read, not as they are escaped, and only a text with something in it is written
//! anew. What is opaque stays: ids, signatures, encrypted content, base64.

use std::collections::{HashMap, HashSet};

use serde::de::IgnoredAny;

use super::window::Class;
use super::{Found, Masker, Rules};
use crate::model::json::{JsonKind, compact, fields, items};

/// What the fields of a value mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fields {
    /// Anything: all texts are looked at.
    Any,
    /// They are a message's, or of a part of one: some are opaque.
    Message,
}

/// A text of this length with nothing but base64 in it is data.
const LONG_BASE64: usize = 512;

/// In a field for data a shorter one is, too.
const SHORT_BASE64: usize = 64;

/// A number with fewer digits is no password.
const SHORTEST_NUMBER: usize = 6;

impl Masker {
    /// The JSON with secrets replaced; none if there are none. The text must be compact.
    pub(crate) fn json(&self, json: &str, fields: Fields, found: &mut Found) -> Option<String> {
        let rules = self.rules()?;
        if !rules.may_find(json) {
            return None;
        }
        let mut out = String::new();
        Walk { masker: self, found }.value(json, fields, "", &mut out).then_some(out)
    }
}

impl Rules {
    /// Whether there can be anything in JSON: a literal, or an escape that hides one.
    fn may_find(&self, json: &str) -> bool {
        let has = |text: &str| memchr::memmem::find(json.as_bytes(), text.as_bytes()).is_some();
        self.custom.is_some() || self.scanner.has_literal(json.as_bytes()) || has("\\u00") || has("\\/")
    }
}

struct Walk<'a> {
    masker: &'a Masker,
    found: &'a mut Found,
}

impl Walk<'_> {
    /// Writes a value that stands under a key; answers whether anything in it was replaced.
    fn value(&mut self, json: &str, fields: Fields, key: &str, out: &mut String) -> bool {
        match JsonKind::of(json) {
            JsonKind::Text => self.text(json, fields, key, out),
            JsonKind::Array => {
                let mut changed = false;
                out.push('[');
                for (at, item) in items(json).into_iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    changed |= self.value(item, fields, key, out);
                }
                out.push(']');
                changed
            }
            JsonKind::Object => self.object(json, fields, out),
            JsonKind::Null => {
                out.push_str(json);
                false
            }
            JsonKind::Other => self.number(json, key, out),
        }
    }

    fn object(&mut self, json: &str, kind: Fields, out: &mut String) -> bool {
        let all = fields(json);
        let mut changed = false;
        let mut names = Names::default();
        // Then `data` is what somebody has written, as in a document.
        let is_text = all.contains(&("\"type\"", "\"text\""));
        out.push('{');
        for (at, (raw_key, value)) in all.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            let key = decoded(raw_key);
            let masked = self.masker.text(&key, self.found);
            if masked == key {
                out.push_str(raw_key);
            } else {
                changed = true;
                out.push_str(&encoded(&names.free(masked.into_owned(), &all)));
            }
            out.push(':');
            let within = match (kind, key.as_str()) {
                // What a tool is called with is the caller's own.
                (Fields::Message, "input" | "arguments") => Fields::Any,
                (Fields::Message, "data") if is_text => Fields::Any,
                _ => kind,
            };
            changed |= self.value(value, within, &key, out);
        }
        out.push('}');
        changed
    }

    fn text(&mut self, raw: &str, fields: Fields, key: &str, out: &mut String) -> bool {
        let text = decoded(raw);
        let masked = match fields == Fields::Message && is_opaque(key, &text) {
            true => None,
            false => self.decoded_text(&text, key),
        };
        out.push_str(masked.as_deref().map(encoded).as_deref().unwrap_or(raw));
        masked.is_some()
    }

    /// A number may be a password, and becomes a text then. Words of JSON are none.
    fn number(&mut self, json: &str, key: &str, out: &mut String) -> bool {
        let is_long = json.bytes().filter(u8::is_ascii_digit).count() >= SHORTEST_NUMBER;
        let masked = is_long.then(|| self.masker.assigned(key, json, self.found)).flatten();
        out.push_str(masked.as_deref().map(encoded).as_deref().unwrap_or(json));
        masked.is_some()
    }

    /// A text with secrets replaced, if there are any. One that is itself JSON stays JSON; its fields are no message's.
    fn decoded_text(&mut self, text: &str, key: &str) -> Option<String> {
        if let Some(masked) = self.masker.assigned(key, text, self.found) {
            return Some(self.masker.text(&masked, self.found).into_owned());
        }
        if text.trim_start().starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok() {
            return self.masker.json(&compact(text), Fields::Any, self.found);
        }
        if is_data(text) {
            return None;
        }
        let masked = self.masker.text(text, self.found);
        (masked != text).then(|| masked.into_owned())
    }
}

/// Names for keys that were replaced: they may be the same now, which JSON must not have.
#[derive(Default)]
struct Names {
    /// All keys of the object, as soon as one was replaced, and the names that were given.
    taken: HashSet<String>,
    /// The number that is tried next, by name.
    next: HashMap<String, usize>,
}

impl Names {
    /// The name, or the first of `name_1`, `name_2` and so on that nobody has. Numbers only grow, so that all of them together
    /// take no more steps than there are keys.
    fn free(&mut self, name: String, all: &[(&str, &str)]) -> String {
        if self.taken.is_empty() {
            self.taken.extend(all.iter().map(|(key, _)| decoded(key)));
        }
        let next = self.next.entry(name.clone()).or_default();
        loop {
            let free = if *next == 0 { name.clone() } else { format!("{name}_{next}") };
            *next += 1;
            if self.taken.insert(free.clone()) {
                return free;
            }
        }
    }
}

fn decoded(raw: &str) -> String {
    match raw.contains('\\') {
        true => serde_json::from_str(raw).unwrap_or_default(),
        false => raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default().to_owned(),
    }
}

fn encoded(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Fields of messages that nobody reads as text: whoever made them compares them byte by byte. Those for data are so only as
/// long as it is data.
fn is_opaque(key: &str, text: &str) -> bool {
    const OPAQUE: &[&str] = &[
        "id",
        "type",
        "role",
        "name",
        "signature",
        "thought_signature",
        "thoughtSignature",
        "encrypted_content",
        "media_type",
        "format",
    ];
    match key {
        "data" | "file_data" | "b64_json" => {
            let of_addresses =
                text.len() >= LONG_BASE64 && text.bytes().all(|byte| Class::Url.has(byte) || byte == b'=');
            is_base64(text, SHORT_BASE64) || of_addresses || is_data(text)
        }
        _ if key.ends_with("_id") => !key.ends_with("key_id"),
        _ => OPAQUE.contains(&key),
    }
}

fn is_base64(text: &str, least: usize) -> bool {
    // It ends with `=`; with one in the middle it is a name with a value.
    let body = text.trim_end_matches('=');
    text.len() >= least && body.bytes().all(|byte| Class::Base64.has(byte) && byte != b'=')
}

/// Whether a text is data that is only written as text: an image in an address, or base64 alone.
fn is_data(text: &str) -> bool {
    let in_address = text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let is_type = |kind: &str| kind.len() < 128 && !kind.contains(char::is_whitespace);
    in_address.is_some_and(|(kind, data)| is_type(kind) && is_base64(data, 0)) || is_base64(text, LONG_BASE64)
}
