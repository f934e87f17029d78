//! JSON text as the model sees it: characters without their escapes.

use std::borrow::Cow;
use std::str::Chars;

/// The characters of JSON text, escapes decoded as they come. Half a surrogate pair is U+FFFD.
#[derive(Debug, Clone)]
pub(super) struct Decoded<'a> {
    rest: Chars<'a>,
}

/// Decodes JSON text: the inside of a string, or a whole value, of which everything else stays as it is.
pub(super) fn decoded(json: &str) -> Decoded<'_> {
    Decoded { rest: json.chars() }
}

/// The same as one text; a copy only where there is something to decode.
pub(super) fn plain(json: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', json.as_bytes()).is_none() {
        return Cow::Borrowed(json);
    }
    Cow::Owned(decoded(json).collect())
}

impl Decoded<'_> {
    fn escaped(&mut self) -> Option<char> {
        Some(match self.rest.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => self.unit().unwrap_or(char::REPLACEMENT_CHARACTER),
            other => other,
        })
    }

    /// What follows `\u`, with the other half of a pair.
    fn unit(&mut self) -> Option<char> {
        let high = self.hex()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high);
        }
        let mut ahead = self.clone();
        if ahead.rest.next() != Some('\\') || ahead.rest.next() != Some('u') {
            return None;
        }
        let low = ahead.hex().filter(|low| (0xdc00..0xe000).contains(low))?;
        self.rest = ahead.rest;
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn hex(&mut self) -> Option<u32> {
        let mut value = 0;
        for _ in 0..4 {
            value = value * 16 + self.rest.next()?.to_digit(16)?;
        }
        Some(value)
    }
}

impl Iterator for Decoded<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self.rest.next()? {
            '\\' => self.escaped(),
            other => Some(other),
        }
    }
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
            assert_eq!(decoded(text).collect::<String>(), expected, "{text}");
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
