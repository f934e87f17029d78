//! Where a value stands that is assigned to a name, in the ways that programs, shells, documents and tools write it.

use super::window::{Class, Window};

/// Longest value in quotes.
const LONGEST: usize = 3072;

/// As much of a value tells what it is.
const HEAD: usize = 128;

/// A value and how it was assigned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value {
    pub(super) start: usize,
    pub(super) end: usize,
    /// It ends at a quote, or at the tag that closes its element.
    pub(super) quoted: bool,
    pub(super) colon: bool,
    pub(super) spaced: bool,
    /// As a variable of an environment: `NAME=value`, the name in capitals.
    pub(super) environment: bool,
}

impl Value {
    pub(super) fn bytes<'a>(&self, window: &Window<'a>) -> &'a [u8] {
        &window.bytes[self.start..self.end]
    }

    /// As much of it as tells what it is.
    pub(super) fn head<'a>(&self, window: &Window<'a>) -> &'a [u8] {
        &window.bytes[self.start..self.end.min(self.start + HEAD)]
    }
}

/// The first bytes of what may be long.
pub(super) fn head(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(HEAD)]
}

fn skip(bytes: &[u8], from: usize, of: &[u8], most: usize) -> usize {
    from + bytes[from..].iter().take(most).take_while(|byte| of.contains(byte)).count()
}

/// The value that is assigned to what stands in front of `window.after`: behind the quote that closes the name, if there is
/// one, and `=`, `:`, `:=` or `=>`. On the same line.
pub(super) fn value(window: &Window<'_>) -> Option<Value> {
    let bytes = window.bytes;
    if bytes.get(window.after) == Some(&b'>') {
        return element(window);
    }
    let mut at = skip(bytes, window.after, b"\\", 4);
    at = skip(bytes, at, b"\"'`", 1);
    at = skip(bytes, at, b"]", 1);
    // Bold in a document.
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

/// What tools show between a name and its colon: `AWS Secret Access Key [None]:`.
fn default(bytes: &[u8], at: usize) -> usize {
    const LONGEST: usize = 32;
    let shown = bytes[at..].strip_prefix(b"[").map(|rest| &rest[..rest.len().min(LONGEST)]);
    match shown.and_then(|shown| memchr::memchr(b']', shown)) {
        Some(len) if bytes.get(at + len + 2) == Some(&b':') => at + len + 2,
        _ => at,
    }
}

/// Whether the name has nothing but capitals, digits and `_`. A pass is also one of several.
fn is_variable(window: &Window<'_>) -> bool {
    let name = window.bytes[..window.after].iter().rev().take_while(|byte| Class::Word.has(**byte)).count();
    let name = &window.bytes[window.after - name..window.after];
    let is_capital = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    name.iter().all(is_capital) && !name.ends_with(b"_PASS")
}

/// The value that begins at `at`, in quotes or to where words end.
pub(super) fn quoted(window: &Window<'_>, mut at: usize) -> Value {
    let bytes = window.bytes;
    let value =
        |start, end, quoted| Value { start, end, quoted, colon: false, spaced: false, environment: false };
    // Literals of bytes and raw ones.
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
    let end = window.run(at, Class::Value);
    if end == bytes.len() && window.goes_on {
        return value(at, end, false);
    }
    let stops = bytes[at..end].iter().rev().take_while(|byte| matches!(byte, b'.' | b':')).count();
    value(at, end - stops, false)
}

/// What stands in an element of XML: `<password>…</password>`.
fn element(window: &Window<'_>) -> Option<Value> {
    let start = window.after + 1;
    let rest = &window.bytes[start..window.bytes.len().min(start + LONGEST)];
    let end = start + memchr::memchr2(b'<', b'\n', rest)?;
    let closed = end > start && window.bytes[end..].starts_with(b"</");
    closed.then_some(Value { start, end, quoted: true, colon: true, spaced: false, environment: false })
}

/// Where a quoted value ends: at a quote that is escaped as often as the one that opened it.
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
