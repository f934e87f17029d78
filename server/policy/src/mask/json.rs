//! Masking of JSON: strings are masked in their decoded form, and only a string with a secret is encoded again.
//! Opaque fields stay unchanged: ids, signatures, encrypted content, base64.
//!
//! One pass over the tokens with an explicit stack, so the depth of the JSON costs neither stack nor time. A string
//! that is itself JSON is masked in the same way, down to [`LEVELS`].

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use serde::de::IgnoredAny;

use super::rule::Rule;
use super::scan::Span;
use super::window::CharClass;
use super::{MaskCounts, Masker, Rules};
use crate::model::json::{depth, text_len, without_lone_surrogates};

/// The meaning of a value's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fields {
    /// Arbitrary fields: all strings are masked.
    Any,
    /// The fields of a message or of a part of one, some of which are opaque.
    Message,
}

/// Levels of JSON in strings that are read as JSON. A deeper one is masked as plain text. Each level is one more pass
/// over the text, so this bounds the time.
const LEVELS: usize = 8;

/// Deepest nesting of JSON in a string. Deeper JSON is masked as plain text, because each level takes memory.
const MAX_DEPTH: usize = 10_000;

/// Most secrets of a string that are checked one by one; with more of them all are cut out.
const MAX_CHECKED: usize = 16;

/// Length from which a string of base64 only is data.
const LONG_BASE64: usize = 512;

/// The same length in a field for data.
const SHORT_BASE64: usize = 64;

/// Fewest digits of a number that may be a password.
const SHORTEST_NUMBER: usize = 6;

impl Masker {
    /// Returns the JSON with its secrets replaced, or `None` without secrets. The text must be valid JSON.
    pub fn json(&self, json: &str, fields: Fields, found: &mut MaskCounts) -> Option<String> {
        self.json_level(json, fields, LEVELS, found)
    }

    fn json_level(
        &self,
        json: &str,
        fields: Fields,
        levels: usize,
        found: &mut MaskCounts,
    ) -> Option<String> {
        let rules = self.rules()?;
        rules.may_find(json).then(|| JsonMasker::new(self, rules, json, levels, found).run(fields)).flatten()
    }
}

impl Rules {
    /// Returns whether JSON may contain a secret: it has a literal of a rule, or an escape that could hide one.
    fn may_find(&self, json: &str) -> bool {
        let has = |text: &str| memchr::memmem::find(json.as_bytes(), text.as_bytes()).is_some();
        self.custom.is_some() || self.scanner.has_literal(json.as_bytes()) || has("\\u00") || has("\\/")
    }
}

/// An array or object that contains the current token.
struct Container {
    is_object: bool,
    /// True if the next string is the name of a field.
    name_next: bool,
    /// The meaning of this object's fields.
    fields: Fields,
    /// True if the object has the field `"type":"text"`: then `data` is text, as in a document.
    is_text: bool,
    /// The context of the next value.
    context: FieldContext,
    names: FieldNames,
}

/// The name of a value, and the meaning of its fields.
#[derive(Clone)]
struct FieldContext {
    name: Rc<str>,
    fields: Fields,
}

struct JsonMasker<'a> {
    masker: &'a Masker,
    json: &'a str,
    levels: usize,
    found: &'a mut MaskCounts,
    /// Secrets in the JSON text that span strings: a private key as an array of lines, an option before its password.
    /// Sorted, without overlaps.
    regions: Vec<Span>,
    /// The first region that ends after the start of the current token.
    next_region: usize,
    /// Start offset below which regions are counted already.
    counted: usize,
    /// Start offsets of the objects with the field `"type":"text"`.
    text_objects: HashSet<usize>,
    out: String,
    /// Bytes of `json` that are copied to `out`.
    copied: usize,
}

impl<'a> JsonMasker<'a> {
    fn new(
        masker: &'a Masker,
        rules: &Rules,
        json: &'a str,
        levels: usize,
        found: &'a mut MaskCounts,
    ) -> Self {
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
        let mut outermost = FieldContext { name: Rc::from(""), fields };
        let mut containers: Vec<Container> = Vec::new();
        for token in JsonTokens::of(self.json) {
            let first = self.json.as_bytes()[token.start];
            match (first, containers.last_mut()) {
                (b'{' | b'[', within) => {
                    let context = within.map_or(&outermost, |within| &within.context).clone();
                    let is_text = self.text_objects.contains(&token.start);
                    containers.push(Container::new(first == b'{', context, is_text));
                }
                (b'}' | b']', _) => drop(containers.pop()),
                (b',', Some(within)) => within.name_next = within.is_object,
                (b'"', Some(within)) if within.name_next => self.name(&token, within),
                (b'"', within) => {
                    let context = within.map_or(&mut outermost, |within| &mut within.context);
                    self.text(&token, context);
                }
                (b'-' | b'0'..=b'9', Some(within)) => self.number(&token, &within.context.name),
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
        object.context.fields = match (object.fields, name.as_ref()) {
            // The arguments of a tool call are arbitrary JSON.
            (Fields::Message, "input" | "arguments") => Fields::Any,
            (Fields::Message, "data") if object.is_text => Fields::Any,
            (fields, _) => fields,
        };
        let masked = self.masker.text(&name, self.found);
        let free = object.names.free(&masked);
        if free != name {
            self.replace(token, &free);
        }
        object.context.name = Rc::from(name);
    }

    fn text(&mut self, token: &Range<usize>, context: &FieldContext) {
        let text = decoded(&self.json[token.clone()]);
        if context.fields == Fields::Message && is_opaque(&context.name, &text) {
            return;
        }
        if let Some(masked) = self.masked(token, &text, &context.name) {
            self.replace(token, &masked);
        }
    }

    /// Masks a number that may be a password; it becomes a string.
    fn number(&mut self, token: &Range<usize>, name: &str) {
        let number = &self.json[token.clone()];
        let is_long = number.bytes().filter(u8::is_ascii_digit).count() >= SHORTEST_NUMBER;
        if let Some(masked) = is_long.then(|| self.masker.assigned(name, number, self.found)).flatten() {
            self.replace(token, &masked);
        }
    }

    /// Returns a string with its secrets replaced, if it has any: its own, and its share of those that span strings.
    fn masked(&mut self, token: &Range<usize>, text: &str, name: &str) -> Option<String> {
        let regions = self.regions_in(token, is_data(text));
        let mut found = MaskCounts::default();
        let masked = self.text_alone(text, name, &mut found);
        let is_gone = |region: &Span| {
            let inside = region.start > token.start && region.end < token.end;
            let left = masked.as_deref().unwrap_or(text);
            inside
                && !left.contains(decoded(&format!("\"{}\"", &self.json[region.start..region.end])).as_ref())
        };
        if regions.is_empty() || (regions.len() <= MAX_CHECKED && regions.iter().all(is_gone)) {
            self.found.merge(&found);
            return masked;
        }
        let cut = self.cut(token, &regions);
        let mut found = MaskCounts::default();
        let masked = self.text_alone(&cut, name, &mut found);
        self.found.merge(&found);
        Some(masked.unwrap_or(cut))
    }

    /// Returns a string with its own secrets replaced. A string that is itself JSON stays JSON, with arbitrary
    /// fields.
    fn text_alone(&self, text: &str, name: &str, found: &mut MaskCounts) -> Option<String> {
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

    /// Returns the regions that overlap a string. Base64 data sometimes looks like a token by chance, so only private
    /// keys count in it.
    fn regions_in(&mut self, token: &Range<usize>, is_data: bool) -> Vec<Span> {
        let ended =
            self.regions[self.next_region..].iter().take_while(|region| region.end <= token.start + 1);
        self.next_region += ended.count();
        let here = self.regions[self.next_region..].iter().take_while(|region| region.start < token.end - 1);
        here.filter(|region| !is_data || region.rule == Rule::PrivateKey).copied().collect()
    }

    /// Returns the string with a label for each region that overlaps it. An escape is cut out as a whole.
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
    fn new(is_object: bool, context: FieldContext, is_text: bool) -> Self {
        let (name_next, fields) = (is_object, context.fields);
        Self { is_object, name_next, fields, is_text, context, names: FieldNames::default() }
    }
}

/// Returns the start offsets of the objects with the field `"type":"text"`.
fn text_objects(json: &str) -> HashSet<usize> {
    let (mut found, mut containers, mut before) = (HashSet::new(), Vec::new(), ["", ""]);
    for token in JsonTokens::of(json) {
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

/// The tokens of valid JSON: brackets, commas, colons, strings, numbers and literals.
struct JsonTokens<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> JsonTokens<'a> {
    fn of(json: &'a str) -> Self {
        Self { json: json.as_bytes(), at: 0 }
    }
}

impl Iterator for JsonTokens<'_> {
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

/// Returns the length of the first character of an escaped text, or of its escape.
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

/// The field names of an object. Two replaced names may be equal, which JSON must not contain.
#[derive(Default)]
struct FieldNames {
    /// Names with a bracket, as labels have: no other name can equal a replaced one.
    taken: HashSet<String>,
    /// The next number to try, by name.
    next: HashMap<String, usize>,
}

impl FieldNames {
    /// Returns the name, or the first free one of `name_1`, `name_2` and so on. Numbers only grow, so the total
    /// number of attempts is at most the number of names.
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

/// Decodes a string token. A lone surrogate becomes U+FFFD, and an undecodable string is masked as written.
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

/// Returns whether a field of a message is opaque: its creator compares it byte by byte. A field for data is opaque
/// only while it holds data.
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
            let of_addresses = text.len() >= LONG_BASE64
                && text.bytes().all(|byte| CharClass::Url.has(byte) || byte == b'=');
            is_base64(text, SHORT_BASE64) || of_addresses || is_data(text)
        }
        _ if key.ends_with("_id") => !key.ends_with("key_id"),
        _ => OPAQUE.contains(&key),
    }
}

fn is_base64(text: &str, least: usize) -> bool {
    // Padding is at the end; with `=` in the middle the text is a name with a value.
    let body = text.trim_end_matches('=');
    text.len() >= least && body.bytes().all(|byte| CharClass::Base64.has(byte) && byte != b'=')
}

/// Returns whether a string is encoded data: an image in a URL, or base64 only.
fn is_data(text: &str) -> bool {
    let in_address = text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let is_type = |kind: &str| kind.len() < 128 && !kind.contains(char::is_whitespace);
    in_address.is_some_and(|(kind, data)| is_type(kind) && is_base64(data, 0)) || is_base64(text, LONG_BASE64)
}
