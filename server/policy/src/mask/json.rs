//! Masking of JSON: texts are masked as they read, not as they are escaped, and only a text with a secret in it is written
//! anew. Opaque fields stay: ids, signatures, encrypted content, base64.
//!
//! One pass over the tokens, with a stack of its own: the depth of the JSON costs neither stack nor time. A text that is
//! itself JSON is walked in the same way, down to [`LEVELS`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use serde::de::IgnoredAny;

use super::rule::Rule;
use super::scan::Span;
use super::window::Class;
use super::{Found, Masker, Rules};
use crate::model::json::{depth, text_len, without_lone_surrogates};

/// What the fields of a value mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fields {
    /// Anything: all texts are masked.
    Any,
    /// The fields of a message, or of a part of one: some are opaque.
    Message,
}

/// JSON in a text in JSON in a text: so many levels are read as JSON. A deeper one is masked as plain text. Each level is
/// one more pass over the text, so this bounds the time.
const LEVELS: usize = 8;

/// A text that is deeper is masked as plain text: each level takes memory.
const MAX_DEPTH: usize = 10_000;

/// Secrets in a text that are looked for one by one; with more of them all are cut out.
const FEW: usize = 16;

/// A text of this length with nothing but base64 in it is data.
const LONG_BASE64: usize = 512;

/// In a field for data a shorter one is, too.
const SHORT_BASE64: usize = 64;

/// A number with fewer digits is no password.
const SHORTEST_NUMBER: usize = 6;

impl Masker {
    /// Returns the JSON with secrets replaced, or none if there are none. The text must be valid JSON.
    pub fn json(&self, json: &str, fields: Fields, found: &mut Found) -> Option<String> {
        self.json_level(json, fields, LEVELS, found)
    }

    fn json_level(&self, json: &str, fields: Fields, levels: usize, found: &mut Found) -> Option<String> {
        let rules = self.rules()?;
        rules.may_find(json).then(|| Walk::new(self, rules, json, levels, found).run(fields)).flatten()
    }
}

impl Rules {
    /// Whether there can be anything in JSON: a literal, or an escape that hides one.
    fn may_find(&self, json: &str) -> bool {
        let has = |text: &str| memchr::memmem::find(json.as_bytes(), text.as_bytes()).is_some();
        self.custom.is_some() || self.scanner.has_literal(json.as_bytes()) || has("\\u00") || has("\\/")
    }
}

/// An array or object that the walk is in.
struct Container {
    is_object: bool,
    /// Whether the next text is the name of a field.
    name_next: bool,
    /// What the fields of this object mean.
    fields: Fields,
    /// Whether it has the field `"type":"text"`: then `data` is what somebody has written, as in a document.
    is_text: bool,
    /// What the next value stands under.
    place: Place,
    names: Names,
}

/// The name that a value stands under, and what its fields mean.
#[derive(Clone)]
struct Place {
    name: Rc<str>,
    fields: Fields,
}

struct Walk<'a> {
    masker: &'a Masker,
    json: &'a str,
    levels: usize,
    found: &'a mut Found,
    /// What the rules find in the JSON as it is written, across its texts: a private key as an array of lines, an option in
    /// front of its password. Sorted, without overlaps.
    regions: Vec<Span>,
    /// The first region that has not ended before the current token.
    next_region: usize,
    /// Regions before this one are counted.
    counted: usize,
    /// Where objects begin that have the field `"type":"text"`.
    text_objects: HashSet<usize>,
    out: String,
    /// How much of `json` is in `out`.
    copied: usize,
}

impl<'a> Walk<'a> {
    fn new(masker: &'a Masker, rules: &Rules, json: &'a str, levels: usize, found: &'a mut Found) -> Self {
        let regions = rules.regions(json.as_bytes());
        let (text_objects, out) = (HashSet::new(), String::new());
        Self {
            masker,
            json,
            levels,
            found,
            regions,
            next_region: 0,
            counted: 0,
            text_objects,
            out,
            copied: 0,
        }
    }

    fn run(mut self, fields: Fields) -> Option<String> {
        if fields == Fields::Message {
            self.text_objects = text_objects(self.json);
        }
        let mut outermost = Place { name: Rc::from(""), fields };
        let mut containers: Vec<Container> = Vec::new();
        for token in Tokens::of(self.json) {
            let first = self.json.as_bytes()[token.start];
            match (first, containers.last_mut()) {
                (b'{' | b'[', within) => {
                    let place = within.map_or(&outermost, |within| &within.place).clone();
                    let is_text = self.text_objects.contains(&token.start);
                    containers.push(Container::new(first == b'{', place, is_text));
                }
                (b'}' | b']', _) => drop(containers.pop()),
                (b',', Some(within)) => within.name_next = within.is_object,
                (b'"', Some(within)) if within.name_next => self.name(&token, within),
                (b'"', within) => {
                    let place = within.map_or(&mut outermost, |within| &mut within.place);
                    self.text(&token, place);
                }
                (b'-' | b'0'..=b'9', Some(within)) => self.number(&token, &within.place.name),
                _ => {}
            }
        }
        if self.copied == 0 {
            return None;
        }
        self.out.push_str(&self.json[self.copied..]);
        Some(self.out)
    }

    fn replace(&mut self, token: &Range<usize>, text: &str) {
        self.out.push_str(&self.json[self.copied..token.start]);
        self.out.push_str(&encoded(text));
        self.copied = token.end;
    }

    fn name(&mut self, token: &Range<usize>, object: &mut Container) {
        let name = decoded(&self.json[token.clone()]);
        object.name_next = false;
        object.place.fields = match (object.fields, name.as_ref()) {
            // What a tool is called with is the caller's own.
            (Fields::Message, "input" | "arguments") => Fields::Any,
            (Fields::Message, "data") if object.is_text => Fields::Any,
            (fields, _) => fields,
        };
        let masked = self.masker.text(&name, self.found);
        let free = object.names.free(&masked);
        if free != name {
            self.replace(token, &free);
        }
        object.place.name = Rc::from(name);
    }

    fn text(&mut self, token: &Range<usize>, place: &Place) {
        let text = decoded(&self.json[token.clone()]);
        if place.fields == Fields::Message && is_opaque(&place.name, &text) {
            return;
        }
        if let Some(masked) = self.masked(token, &text, &place.name) {
            self.replace(token, &masked);
        }
    }

    /// A number may be a password, and becomes a text then.
    fn number(&mut self, token: &Range<usize>, name: &str) {
        let number = &self.json[token.clone()];
        let is_long = number.bytes().filter(u8::is_ascii_digit).count() >= SHORTEST_NUMBER;
        if let Some(masked) = is_long.then(|| self.masker.assigned(name, number, self.found)).flatten() {
            self.replace(token, &masked);
        }
    }

    /// Returns a text with secrets replaced, if there are any: those that it has alone, and its share of those that reach
    /// over several texts.
    fn masked(&mut self, token: &Range<usize>, text: &str, name: &str) -> Option<String> {
        let regions = self.regions_in(token, is_data(text));
        let mut found = Found::default();
        let masked = self.text_alone(text, name, &mut found);
        let is_gone = |region: &Span| {
            let inside = region.start > token.start && region.end < token.end;
            let left = masked.as_deref().unwrap_or(text);
            inside
                && !left.contains(decoded(&format!("\"{}\"", &self.json[region.start..region.end])).as_ref())
        };
        if regions.is_empty() || (regions.len() <= FEW && regions.iter().all(is_gone)) {
            self.found.merge(&found);
            return masked;
        }
        let cut = self.cut(token, &regions);
        let mut found = Found::default();
        let masked = self.text_alone(&cut, name, &mut found);
        self.found.merge(&found);
        Some(masked.unwrap_or(cut))
    }

    /// Returns the text with secrets replaced that it has alone. One that is itself JSON stays JSON; its fields are no
    /// message's.
    fn text_alone(&self, text: &str, name: &str, found: &mut Found) -> Option<String> {
        if let Some(masked) = self.masker.assigned(name, text, found) {
            return Some(self.masker.text(&masked, found).into_owned());
        }
        if self.levels > 0 && is_json(text) {
            return self.masker.json_level(text, Fields::Any, self.levels - 1, found);
        }
        if is_data(text) {
            return None;
        }
        match self.masker.text(text, found) {
            Cow::Owned(masked) => Some(masked),
            Cow::Borrowed(_) => None,
        }
    }

    /// The regions that reach into a text. Base64 alone has something in it that looks like a token now and then; only a
    /// private key is made of it.
    fn regions_in(&mut self, token: &Range<usize>, is_data: bool) -> Vec<Span> {
        let ended =
            self.regions[self.next_region..].iter().take_while(|region| region.end <= token.start + 1);
        self.next_region += ended.count();
        let here = self.regions[self.next_region..].iter().take_while(|region| region.start < token.end - 1);
        here.filter(|region| !is_data || region.rule == Rule::PrivateKey).copied().collect()
    }

    /// Returns the text of a token with a label for each region that reaches into it. An escape is cut out as a whole.
    fn cut(&mut self, token: &Range<usize>, regions: &[Span]) -> String {
        let (mut kept, mut at) = (String::from("\""), token.start + 1);
        let mut regions = regions.iter().peekable();
        let mut labelled = false;
        while at < token.end - 1 {
            let len = unit_len(&self.json[at..token.end - 1]);
            while regions.next_if(|region| region.end <= at).is_some() {
                labelled = false;
            }
            match regions.peek().filter(|region| region.start < at + len) {
                Some(_) if labelled => {}
                Some(region) => {
                    labelled = true;
                    kept.push_str(region.rule.label());
                    if region.start >= self.counted {
                        self.found.add(region.rule.name());
                        self.counted = region.start + 1;
                    }
                }
                None => kept.push_str(&self.json[at..at + len]),
            }
            at += len;
        }
        kept.push('"');
        decoded(&kept).into_owned()
    }
}

impl Container {
    fn new(is_object: bool, place: Place, is_text: bool) -> Self {
        let (name_next, fields) = (is_object, place.fields);
        Self { is_object, name_next, fields, is_text, place, names: Names::default() }
    }
}

/// Where the objects of some JSON begin that have the field `"type":"text"`.
fn text_objects(json: &str) -> HashSet<usize> {
    let (mut found, mut containers, mut before) = (HashSet::new(), Vec::new(), ["", ""]);
    for token in Tokens::of(json) {
        let text = &json[token.clone()];
        match text {
            "{" | "[" => containers.push(token.start),
            "}" | "]" => drop(containers.pop()),
            "\"text\"" if before == ["\"type\"", ":"] => found.extend(containers.last()),
            _ => {}
        }
        before = [before[1], text];
    }
    found
}

/// The tokens of valid JSON: brackets, commas, colons, texts, numbers and words.
struct Tokens<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    fn of(json: &'a str) -> Self {
        Self { json: json.as_bytes(), at: 0 }
    }
}

impl Iterator for Tokens<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let is_word = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        let rest = &self.json[self.at..];
        let start = self.at + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let rest = &self.json[start..];
        let len = match rest.first()? {
            b'"' => text_len(rest),
            _ => rest.iter().take_while(is_word).count().max(1),
        };
        self.at = start + len;
        Some(start..self.at)
    }
}

/// The length of the first character of an escaped text, or of the escape that stands for one.
fn unit_len(text: &str) -> usize {
    let escape = |text: &str| match text.as_bytes() {
        [b'\\', b'u', ..] => 6,
        [b'\\', ..] => 2,
        _ => text.chars().next().map_or(1, char::len_utf8),
    };
    let len = escape(text);
    let is_first_half =
        matches!(text.as_bytes(), [b'\\', b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..]);
    let len = if is_first_half { len + text.get(len..).map_or(0, escape) } else { len };
    len.min(text.len())
}

/// Names of an object's fields. Two that were replaced may be the same now, which JSON must not have.
#[derive(Default)]
struct Names {
    /// Names with a bracket in them, as labels have: no other can be the same as one that was replaced.
    taken: HashSet<String>,
    /// The number that is tried next, by name.
    next: HashMap<String, usize>,
}

impl Names {
    /// The name, or the first of `name_1`, `name_2` and so on that is free. Numbers only grow, so that all of them together
    /// take no more steps than there are names.
    fn free<'a>(&mut self, name: &'a str) -> Cow<'a, str> {
        if !name.contains('[') || self.taken.insert(name.to_owned()) {
            return Cow::Borrowed(name);
        }
        let next = self.next.entry(name.to_owned()).or_insert(1);
        loop {
            let free = format!("{name}_{next}");
            *next += 1;
            if self.taken.insert(free.clone()) {
                return Cow::Owned(free);
            }
        }
    }
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
        && depth(text) <= MAX_DEPTH
}

/// The text that a token stands for. Half a character is read as U+FFFD, and a text that cannot be read as it is written:
/// whatever it is, it is masked.
fn decoded(raw: &str) -> Cow<'_, str> {
    let body = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    match raw.contains('\\') {
        true => serde_json::from_str(&without_lone_surrogates(raw)).map_or(Cow::Borrowed(body), Cow::Owned),
        false => Cow::Borrowed(body),
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
