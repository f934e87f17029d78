//! JSON text as it is in lines: copied piece by piece, and decoded only where necessary.

use std::borrow::Cow;

use memchr::memmem;

use crate::model::JsonKind;

/// The escape of U+0000, which some providers reject, and its replacement.
const ZERO: &str = "\\u0000";
const INSTEAD: &str = "\\ufffd";

/// Returns a value that is a JSON string, or `None`.
pub(super) fn as_text(value: &str) -> Option<&str> {
    (JsonKind::of(value) == JsonKind::Text && value.len() >= 2).then_some(value)
}

/// Returns the text between the quotes.
pub(super) fn inner(text: &str) -> &str {
    text.get(1..text.len() - 1).unwrap_or_default()
}

/// Decodes a JSON string.
pub(super) fn decode(text: &str) -> Cow<'_, str> {
    let inner = inner(text);
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    Cow::Owned(serde_json::from_str(text).unwrap_or_default())
}

/// Encodes a string as JSON text.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Removes U+0000 from the strings of JSON.
pub(super) fn clean(json: &str) -> Cow<'_, str> {
    if memmem::find(json.as_bytes(), ZERO.as_bytes()).is_none() {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        if let Some(after) = escape.strip_prefix(ZERO) {
            out.push_str(INSTEAD);
            rest = after;
        } else {
            // An escape is a backslash and one more character, which never starts another escape.
            let (two, after) = escape.split_at(2.min(escape.len()));
            out.push_str(two);
            rest = after;
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Appends JSON without U+0000 in its strings.
pub(super) fn push_json(out: &mut Vec<u8>, json: &str) {
    out.extend_from_slice(clean(json).as_bytes());
}

/// Appends the text between the quotes of a JSON string.
pub(super) fn push_inner(out: &mut Vec<u8>, text: &str) {
    push_json(out, inner(text));
}

/// Appends a string as JSON text.
pub(super) fn push_quoted(out: &mut Vec<u8>, text: &str) {
    push_json(out, &quote(text));
}

/// Returns whether a text has no visible character.
pub(super) fn is_blank(text: &str) -> bool {
    let mut rest = inner(text);
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c.is_control());
        let Some(escape) = rest.strip_prefix('\\') else { return rest.is_empty() };
        rest = match escape.as_bytes().first() {
            Some(b'n' | b'r' | b't' | b'b' | b'f') => &escape[1..],
            Some(b'u') => {
                let number = escape.get(1..5).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                match number.and_then(char::from_u32) {
                    // U+0000 is sent as a visible replacement.
                    Some(c) if c != '\0' && (c.is_whitespace() || c.is_control()) => &escape[5..],
                    _ => return false,
                }
            }
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_zeros_are_replaced() {
        for (text, expected) in [
            (r#""a\u0000b""#, r#""a\ufffdb""#),
            (r#""a\\u0000b""#, r#""a\\u0000b""#),
            (r#""\\\u0000\"\u00000""#, r#""\\\ufffd\"\ufffd0""#),
            (r#"{"k\u0000":["\u0001"]}"#, r#"{"k\ufffd":["\u0001"]}"#),
        ] {
            assert_eq!(clean(text), expected);
        }
    }

    #[test]
    fn text_without_visible_characters_is_blank() {
        for blank in [r#""""#, r#"" \n\t\r ""#, "\"\u{2028}\u{a0}\"", r#""\u2028\u0020\u0085\u001f""#] {
            assert!(is_blank(blank), "{blank}");
        }
        for seen in [r#""a""#, r#"" \\ ""#, r#""\u0000""#, r#""\n\u0041""#, r#""\ud83d\ude00""#, r#""\"""#] {
            assert!(!is_blank(seen), "{seen}");
        }
    }
}
