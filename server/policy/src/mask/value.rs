//! Finds the value assigned to a name, in the syntax of programs, shells, documents and tools.

use super::window::{CharClass, TextWindow};

/// Longest quoted value.
const LONGEST: usize = 3072;

/// Bytes at the beginning of a value that determine its kind.
const HEAD: usize = 128;

/// A value and how it was assigned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    pub(super) start: usize,
    pub(super) end: usize,
    /// True if the value ends at a quote, or at the closing tag of its element.
    pub(super) quoted: bool,
    pub(super) colon: bool,
    pub(super) spaced: bool,
    /// True if the assignment has the form of an environment variable: `NAME=value`, the name in capitals.
    pub(super) environment: bool,
}

impl Value {
    pub(super) fn bytes<'a>(&self, window: &TextWindow<'a>) -> &'a [u8] {
        &window.bytes[self.start..self.end]
    }

    /// Returns the beginning of the value, which determines its kind.
    pub(super) fn head<'a>(&self, window: &TextWindow<'a>) -> &'a [u8] {
        &window.bytes[self.start..self.end.min(self.start + HEAD)]
    }
}

/// Returns the first bytes of a value that may be long.
pub(super) fn head(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(HEAD)]
}

fn skip(bytes: &[u8], from: usize, of: &[u8], most: usize) -> usize {
    from + bytes[from..].iter().take(most).take_while(|byte| of.contains(byte)).count()
}

/// Finds the value assigned to the name before `window.after`: after the closing quote of the name, if any, and `=`,
/// `:`, `:=` or `=>`, on the same line.
pub(super) fn value(window: &TextWindow<'_>) -> Option<Value> {
    let bytes = window.bytes;
    if bytes.get(window.after) == Some(&b'>') {
        return element(window);
    }
    let mut at = skip(bytes, window.after, b"\\", 4);
    at = skip(bytes, at, b"\"'`", 1);
    at = skip(bytes, at, b"]", 1);
    // Bold text of a document.
    at = skip(bytes, at, b"*", 2);
    let before = at;
    at = default(bytes, skip(bytes, at, b" \t", 16));
    let spaced_before = at > before;
    let colon = bytes.get(at) == Some(&b':');
    at = match bytes.get(at..)? {
        [b'=', b'=' | b'~', ..] | [b':', b':', ..] => return None,
        [b':', b'=', ..] | [b'=', b'>', ..] => at + 2,
        [b':', b'*', b'*', b' ', ..] => at + 3,
        [b'=' | b':', ..] => at + 1,
        _ => return None,
    };
    let before = at;
    at = skip(bytes, at, b" \t", 64);
    let spaced = spaced_before || at > before;
    let value = quoted(window, at);
    let alone = bytes.get(value.end).is_none_or(u8::is_ascii_whitespace);
    let environment =
        !spaced && alone && before == window.after + 1 && bytes[window.after] == b'=' && is_variable(window);
    Some(Value { colon, spaced, environment, ..value })
}

/// Skips the default value that tools print between a name and its colon: `AWS Secret Access Key [None]:`.
fn default(bytes: &[u8], at: usize) -> usize {
    const LONGEST: usize = 32;
    let shown = bytes[at..].strip_prefix(b"[").map(|rest| &rest[..rest.len().min(LONGEST)]);
    match shown.and_then(|shown| memchr::memchr(b']', shown)) {
        Some(len) if bytes.get(at + len + 2) == Some(&b':') => at + len + 2,
        _ => at,
    }
}

/// Returns whether the name has only capitals, digits and `_`. Names in `_PASS` are excluded: a pass may also be one
/// of several.
fn is_variable(window: &TextWindow<'_>) -> bool {
    let name =
        window.bytes[..window.after].iter().rev().take_while(|byte| CharClass::Word.has(**byte)).count();
    let name = &window.bytes[window.after - name..window.after];
    let is_capital = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    name.iter().all(is_capital) && !name.ends_with(b"_PASS")
}

/// Returns the value that begins at `at`, in quotes or up to the end of the word.
pub(super) fn quoted(window: &TextWindow<'_>, mut at: usize) -> Value {
    let bytes = window.bytes;
    let value =
        |start, end, quoted| Value { start, end, quoted, colon: false, spaced: false, environment: false };
    // Quotes of byte strings and raw strings.
    let quote = |at: usize| matches!(bytes.get(at), Some(b'"' | b'\'' | b'`'));
    if matches!(bytes.get(at), Some(b'b' | b'r' | b'u')) && quote(at + 1) {
        at += 1;
    }
    let start = skip(bytes, at, b"\\", 4);
    if quote(start) {
        let (escapes, quote) = (start - at, bytes[start]);
        if let Some(end) = closing(&bytes[..bytes.len().min(start + LONGEST)], start + 1, quote, escapes) {
            return value(start + 1, end, true);
        }
        at = start + 1;
    }
    let end = window.run(at, CharClass::Value);
    if end == bytes.len() && window.has_more {
        return value(at, end, false);
    }
    let stops = bytes[at..end].iter().rev().take_while(|byte| matches!(byte, b'.' | b':')).count();
    value(at, end - stops, false)
}

/// Returns the content of an XML element: `<password>…</password>`.
fn element(window: &TextWindow<'_>) -> Option<Value> {
    let start = window.after + 1;
    let rest = &window.bytes[start..window.bytes.len().min(start + LONGEST)];
    let end = start + memchr::memchr2(b'<', b'\n', rest)?;
    let closed = end > start && window.bytes[end..].starts_with(b"</");
    closed.then_some(Value { start, end, quoted: true, colon: true, spaced: false, environment: false })
}

/// Returns the end of a quoted value: a quote with as many escapes as the opening one.
fn closing(bytes: &[u8], start: usize, quote: u8, escapes: usize) -> Option<usize> {
    for (offset, byte) in bytes.get(start..)?.iter().enumerate() {
        let at = start + offset;
        if *byte == b'\n' {
            return None;
        }
        if *byte == quote {
            let before = bytes[start..at].iter().rev().take_while(|byte| **byte == b'\\').count();
            if before == escapes || (escapes == 0 && before % 2 == 0) {
                return Some(at - escapes.min(before));
            }
        }
    }
    None
}
