//! JSON that callers send: checked strictly, then kept as text.
//!
//! Values are never converted to numbers and back (a 30-digit integer would not survive that). The stored text is the
//! caller's without the white space between tokens, so that it fits on one line.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// One JSON value as compact text without raw line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(Box<str>);

impl Json {
    /// Parses a value strictly: well formed, no duplicate keys, depth below 128. Lone surrogates become U+FFFD: the
    /// output of a tool may contain such half characters, and they must not stop an agent.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let text = without_lone_surrogates(text);
        serde_json::from_str::<Strict>(&text)?;
        Ok(Self(compact(&text).into_boxed_str()))
    }

    /// Wraps text that is known to be one compact JSON value.
    pub fn kept(text: String) -> Self {
        Self(text.into_boxed_str())
    }

    /// Creates a JSON string.
    pub fn text(value: &str) -> Self {
        Self(serde_json::Value::from(value).to_string().into_boxed_str())
    }

    /// Returns the value as JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the kind of the value, by its first byte.
    pub fn kind(&self) -> JsonKind {
        JsonKind::of(&self.0)
    }
}

/// The kind of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`
    Null,
    /// `"…"`
    Text,
    /// `[…]`
    Array,
    /// `{…}`
    Object,
    /// A number or a boolean.
    Other,
}

impl JsonKind {
    /// Returns the kind of a value by its first byte.
    pub fn of(text: &str) -> Self {
        match text.as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b'"') => Self::Text,
            Some(b'[') => Self::Array,
            Some(b'{') => Self::Object,
            _ => Self::Other,
        }
    }
}

/// Returns the fields of an object in order: raw key (with its quotes) and raw value. The text must be a compact JSON
/// object; escapes in keys and values are unchanged.
pub fn fields(object: &str) -> Vec<(&str, &str)> {
    let mut fields = Vec::new();
    let mut rest = object.strip_prefix('{').unwrap_or_default();
    while rest.starts_with('"') {
        let (key, after) = rest.split_at(value_len(rest));
        let after = after.strip_prefix(':').unwrap_or_default();
        let (value, after) = after.split_at(value_len(after));
        fields.push((key, value));
        rest = after.strip_prefix(',').unwrap_or_default();
    }
    fields
}

/// Returns the items of an array in order. The text must be a compact JSON array.
pub fn items(array: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let mut rest = array.strip_prefix('[').unwrap_or_default();
    while !rest.is_empty() && rest != "]" {
        let (item, after) = rest.split_at(value_len(rest));
        items.push(item);
        rest = after.strip_prefix(',').unwrap_or_default();
    }
    items
}

/// Returns the field of an object with a given name, if present. The text must be a compact JSON object.
pub fn field<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let named = |key: &str| match key.contains('\\') {
        true => serde_json::from_str::<String>(key).is_ok_and(|key| key == name),
        false => key.get(1..key.len() - 1) == Some(name),
    };
    fields(object).into_iter().find(|(key, _)| named(key)).map(|(_, value)| value)
}

/// Replaces every escape of a lone surrogate by U+FFFD.
pub fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return Cow::Borrowed(json);
    }
    let half = |text: &str| {
        let digits = text.strip_prefix("\\u").and_then(|rest| rest.get(..4));
        digits.and_then(|digits| u16::from_str_radix(digits, 16).ok())
    };
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = &rest[at..];
        let second = || escape.get(6..).and_then(half);
        let len = match half(escape) {
            Some(0xd800..=0xdbff) if matches!(second(), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                out.push_str("\\ufffd");
                rest = &escape[6..];
                continue;
            }
            Some(_) => 6,
            // A backslash and the character it escapes, which may be another backslash.
            None => escape.chars().take(2).map(char::len_utf8).sum(),
        };
        out.push_str(&escape[..len]);
        rest = &escape[len..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns the length of the compact JSON value at the beginning of a text.
fn value_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at += text_len(&bytes[at..]) - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            b',' | b':' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Removes the white space between tokens. The text must be valid JSON.
pub(crate) fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    let (mut kept, mut at) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at += text_len(&bytes[at..]),
            b' ' | b'\n' | b'\r' | b'\t' => {
                out.push_str(&text[kept..at]);
                at += 1;
                kept = at;
            }
            _ => at += 1,
        }
    }
    out.push_str(&text[kept..]);
    out
}

/// Returns the nesting depth of a value. The text must be valid JSON.
pub fn depth(json: &str) -> usize {
    let bytes = json.as_bytes();
    let (mut at, mut depth, mut deepest) = (0, 0_usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at += text_len(&bytes[at..]) - 1,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    deepest
}

/// Returns the length of the JSON string at the beginning of `bytes`, with its quotes. Searches for quotes and
/// backslashes only, because strings are long and have few of both.
pub fn text_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

/// Visits a whole value and keeps nothing: an error means that two readers could interpret it differently.
struct Strict;

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_str<E>(self, _: &str) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Strict, A::Error> {
        while seq.next_element::<Strict>()?.is_some() {}
        Ok(Strict)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Strict, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value::<Strict>()?;
            if let Some(twice) = seen.replace(key) {
                return Err(A::Error::custom(format_args!("the key {twice:?} appears twice in one object")));
            }
        }
        Ok(Strict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_removed_between_tokens_only() {
        let text = " { \"a b\" : [ 1 ,\t2 , \"x \\\" y\\\\\" ] ,\n\"n\" : 1.0e5 } ";
        assert_eq!(compact(text), r#"{"a b":[1,2,"x \" y\\"],"n":1.0e5}"#);
    }

    #[test]
    fn fields_are_returned_unchanged() {
        let text = r#"{"a\"":[1,{"x":"}"}],"caf\u00e9":"y\\","n":-1.50e3,"e":{}}"#;
        let expected = [
            (r#""a\"""#, r#"[1,{"x":"}"}]"#),
            (r#""caf\u00e9""#, r#""y\\""#),
            (r#""n""#, "-1.50e3"),
            (r#""e""#, "{}"),
        ];
        assert_eq!(fields(text), expected);
        assert_eq!(fields("{}"), []);
        assert_eq!(items(r#"["a\\",["]"],{"b":[]}]"#), [r#""a\\""#, r#"["]"]"#, r#"{"b":[]}"#]);
        assert_eq!(depth(r#"{"[[":[1,{"a":"]]]"}],"b":[]}"#), 3);
    }

    #[test]
    fn a_lone_surrogate_becomes_a_replacement_character() {
        for (text, kept) in [
            (r#""\ud800""#, r#""\ufffd""#),
            (r#""\udc00\ud800""#, r#""\ufffd\ufffd""#),
            (r#""\uD83D\uDE00 \ud83d\ude00""#, r#""\uD83D\uDE00 \ud83d\ude00""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d\u0041\\ud800\"\ud800x""#, r#""\ufffd\u0041\\ud800\"\ufffdx""#),
            (r#"{"\udfff":["\ud800"]}"#, r#"{"\ufffd":["\ufffd"]}"#),
        ] {
            assert_eq!(Json::parse(text).unwrap().as_str(), kept, "{text}");
        }
        for bad in [r#""\ud80""#, r#""\ud8é""#, r#""\ud800\""#, "\\ud800", "\\"] {
            assert!(Json::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ambiguous_json_is_rejected() {
        for bad in [
            r#"{"a":1,"a":2}"#,
            r#"[{"b":{"x":1,"x":1}}]"#,
            r#"{"\ud800":1,"\udc00":1}"#,
            "1e400",
            "{",
            "nul",
            "[1] 2",
        ] {
            assert!(Json::parse(bad).is_err(), "{bad}");
        }
        assert!(Json::parse(&"[".repeat(200)).is_err());
        let long = "123456789012345678901234567890";
        assert_eq!(Json::parse(long).unwrap().as_str(), long);
    }
}
