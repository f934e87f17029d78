//! JSON text as the model sees it: characters without their escapes.

use std::borrow::Cow;

use memchr::memchr;

/// Decodes JSON text: the inside of a string, or a whole value, of which everything else stays as it is. Half a
/// surrogate pair is U+FFFD. A copy is made only where there is something to decode.
pub(super) fn plain(json: &str) -> Cow<'_, str> {
    let Some(first) = memchr(b'\\', json.as_bytes()) else { return Cow::Borrowed(json) };
    let mut text = String::with_capacity(json.len());
    let (mut before, mut rest) = json.split_at(first);
    loop {
        text.push_str(before);
        let Some(escape) = rest.strip_prefix('\\') else { return Cow::Owned(text) };
        let c;
        (c, rest) = escaped(escape);
        text.extend(c);
        let next = memchr(b'\\', rest.as_bytes()).unwrap_or(rest.len());
        (before, rest) = rest.split_at(next);
    }
}

/// The text of a value in JSON, be it a string or parts: everything in it, as the model sees it.
pub fn plain_text(json: &str) -> Cow<'_, str> {
    plain(json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(json))
}

/// The character that follows a backslash stands for, and what is behind it.
fn escaped(text: &str) -> (Option<char>, &str) {
    let mut rest = text.chars();
    let c = match rest.next() {
        Some('n') => Some('\n'),
        Some('t') => Some('\t'),
        Some('r') => Some('\r'),
        Some('b') => Some('\u{8}'),
        Some('f') => Some('\u{c}'),
        Some('u') => {
            let (c, behind) = unit(rest.as_str());
            return (Some(c), behind);
        }
        other => other,
    };
    (c, rest.as_str())
}

/// The character of what follows `\u`, with the other half of a pair, and what is behind it.
fn unit(text: &str) -> (char, &str) {
    const LOST: char = char::REPLACEMENT_CHARACTER;
    let Some((high, rest)) = hex(text) else { return (LOST, "") };
    if !(0xd800..0xdc00).contains(&high) {
        return (char::from_u32(high).unwrap_or(LOST), rest);
    }
    let low = rest.strip_prefix("\\u").and_then(hex).filter(|(low, _)| (0xdc00..0xe000).contains(low));
    let Some((low, behind)) = low else { return (LOST, rest) };
    (char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).unwrap_or(LOST), behind)
}

/// Four hex digits, and what is behind them.
fn hex(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_as_serde_does() {
        for text in [
            r"plain",
            r#"\"\\\/\b\f\n\r\t"#,
            r"\u00e9\u65e5\ud83e\udd80!",
            "日本語\\n🦀",
            r"\\n",
            r"\u005c",
            "",
        ] {
            let expected: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            assert_eq!(plain(text), expected, "{text}");
        }
        assert_eq!(plain(r"a\ud83eb\udd80\ud83e"), "a\u{fffd}b\u{fffd}\u{fffd}");
        assert_eq!(plain(r"\ud83e\ud83e\udd80"), "\u{fffd}🦀");
    }

    #[test]
    fn text_that_breaks_off_ends() {
        for text in [r"a\", r"a\u", r"a\u12", r"a\ud83e\u1"] {
            assert!(plain(text).starts_with('a'));
        }
    }
}
