//! Whether bytes that come piece by piece are JSON, without holding them: for bodies too large to be read.

/// A scanner. It knows the grammar and UTF-8; numbers and words only by their letters.
#[derive(Debug)]
pub(crate) struct Scanner {
    /// What is open: `true` for an object.
    open: Vec<bool>,
    state: State,
    /// The start of a character that goes on in the next piece.
    cut: Vec<u8>,
    failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value must come; in an array that has just begun, its end may.
    Value { or_end: bool },
    /// A key must come; in an object that has just begun, its end may.
    Key { or_end: bool },
    /// A colon must come.
    Colon,
    /// A comma or an end must come; after the whole value, nothing.
    Next,
    /// Inside a string.
    Text { key: bool, escaped: bool },
    /// Inside a number or a word.
    Word,
}

impl Default for Scanner {
    fn default() -> Self {
        Self { open: Vec::new(), state: State::Value { or_end: false }, cut: Vec::new(), failed: false }
    }
}

impl Scanner {
    /// Looks at the next piece.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.check_utf8(bytes);
        let mut at = 0;
        while at < bytes.len() && !self.failed {
            if let State::Text { key, escaped: false } = self.state {
                // Most of a body is text: to the next letter that ends it or begins an escape.
                let stop = bytes[at..].iter().position(|b| *b == b'"' || *b == b'\\' || *b < 0x20);
                let Some(stop) = stop else { return };
                at += stop;
                match bytes[at] {
                    b'"' => self.state = if key { State::Colon } else { State::Next },
                    b'\\' => self.state = State::Text { key, escaped: true },
                    _ => self.failed = true,
                }
            } else {
                self.step(bytes[at]);
            }
            at += 1;
        }
    }

    /// Whether what came was one whole value.
    pub(crate) fn is_json(&self) -> bool {
        let whole = matches!(self.state, State::Next | State::Word);
        !self.failed && whole && self.open.is_empty() && self.cut.is_empty()
    }

    fn check_utf8(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !self.cut.is_empty() && !rest.is_empty() {
            self.cut.push(rest[0]);
            rest = &rest[1..];
            match std::str::from_utf8(&self.cut) {
                Ok(_) => self.cut.clear(),
                Err(err) if err.error_len().is_some() => self.failed = true,
                Err(_) => {}
            }
            if self.failed {
                return;
            }
        }
        if let Err(err) = std::str::from_utf8(rest) {
            match err.error_len() {
                Some(_) => self.failed = true,
                None => self.cut = rest[err.valid_up_to()..].to_vec(),
            }
        }
    }

    fn step(&mut self, byte: u8) {
        let space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        match self.state {
            State::Text { key, .. } => {
                self.failed = !br#""\/bfnrtu"#.contains(&byte);
                self.state = State::Text { key, escaped: false };
            }
            State::Word if byte.is_ascii_alphanumeric() || b"+-.".contains(&byte) => {}
            State::Word => {
                self.state = State::Next;
                self.step(byte);
            }
            _ if space => {}
            State::Value { or_end } => match byte {
                b'{' => self.begin(true),
                b'[' => self.begin(false),
                b'"' => self.state = State::Text { key: false, escaped: false },
                b']' if or_end => self.end(false),
                b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => self.state = State::Word,
                _ => self.failed = true,
            },
            State::Key { or_end } => match byte {
                b'"' => self.state = State::Text { key: true, escaped: false },
                b'}' if or_end => self.end(true),
                _ => self.failed = true,
            },
            State::Colon if byte == b':' => self.state = State::Value { or_end: false },
            State::Colon => self.failed = true,
            State::Next => match (byte, self.open.last()) {
                (b',', Some(true)) => self.state = State::Key { or_end: false },
                (b',', Some(false)) => self.state = State::Value { or_end: false },
                (b'}', Some(true)) => self.end(true),
                (b']', Some(false)) => self.end(false),
                _ => self.failed = true,
            },
        }
    }

    fn begin(&mut self, object: bool) {
        self.failed = self.open.len() >= 1024;
        self.open.push(object);
        self.state = if object { State::Key { or_end: true } } else { State::Value { or_end: true } };
    }

    fn end(&mut self, object: bool) {
        self.failed = self.open.pop() != Some(object);
        self.state = State::Next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_json(bytes: &[u8], piece: usize) -> bool {
        let mut scanner = Scanner::default();
        bytes.chunks(piece).for_each(|piece| scanner.feed(piece));
        scanner.is_json()
    }

    #[test]
    fn it_knows_json_however_it_is_cut() {
        let good = [
            "{}",
            " [ ] ",
            r#"{"a":[1,-2.5e3,true,null,"é\u00e9\"\\"],"b":{"":"𝒳"}}"#,
            "1",
            "\"x\"",
            "[[],[{}]]",
        ];
        let bad = [
            "",
            "{",
            "[1,]",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            "{}{}",
            "[1 2]",
            "\"a\nb\"",
            r#""\x""#,
            "]",
            "{]",
            "[}",
            "{1:2}",
            "nope,",
        ];
        for piece in 1..8 {
            for text in good {
                assert!(is_json(text.as_bytes(), piece), "{text}");
            }
            for text in bad {
                assert!(!is_json(text.as_bytes(), piece), "{text}");
            }
            assert!(
                !is_json(b"\"\xff\"", piece)
                    && !is_json(b"\"\xe2\x82", piece)
                    && !is_json(b"\"\xe2\x82\"", piece)
            );
        }
    }
}
