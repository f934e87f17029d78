//! The part of a text that a rule may see: a bounded window around its trigger. Since no rule sees more, the result
//! does not depend on how the text arrives.

use std::cell::Cell;

use super::continuation::Continuation;

/// Most bytes that a rule looks back from the start of its trigger.
pub(super) const BEHIND: usize = 128;

/// Most bytes that a rule looks ahead from there.
pub(super) const AHEAD: usize = 4096;

/// A cache of the last measured long runs, in offsets of the text. Texts that resemble secrets have many triggers
/// close together, and each would measure the same runs again: its own, and in a JSON web token those of two more
/// parts.
#[derive(Debug, Default)]
pub(super) struct Runs {
    last: [Cell<Option<(CharClass, usize, usize)>>; Self::COUNT],
    next: Cell<usize>,
}

impl Runs {
    const COUNT: usize = 8;

    /// Shortest cached run; a shorter one is measured as quickly as it is looked up.
    const SHORTEST: usize = 64;

    /// Returns the cache slot and the known end of the run at `from`, which may be longer.
    fn known(&self, from: usize, class: CharClass) -> Option<(usize, usize)> {
        self.last.iter().enumerate().find_map(|(slot, last)| match last.get() {
            Some((of, start, end)) if of == class && (start..end).contains(&from) => Some((slot, end)),
            _ => None,
        })
    }

    fn remember(&self, slot: Option<usize>, class: CharClass, start: usize, end: usize) {
        if let Some(slot) = slot {
            let known = self.last[slot].get().map_or(start, |(_, known, _)| known);
            self.last[slot].set(Some((class, known, end)));
        } else if end - start >= Self::SHORTEST {
            let slot = self.next.get();
            self.last[slot].set(Some((class, start, end)));
            self.next.set((slot + 1) % Self::COUNT);
        }
    }
}

/// The text around a trigger.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextWindow<'a> {
    pub(super) bytes: &'a [u8],
    /// The offset of the window in the text that `runs` refers to.
    pub(super) offset: usize,
    pub(super) runs: &'a Runs,
    /// The start and the end of the trigger.
    pub(super) at: usize,
    pub(super) after: usize,
    /// True if the text continues after the window.
    pub(super) has_more: bool,
}

/// A match of a rule, in offsets of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The continuation after `end`.
    pub(super) continuation: Option<Continuation>,
}

impl TextWindow<'_> {
    /// Creates the window around a trigger at `at`.
    pub(super) fn around<'a>(text: &'a [u8], runs: &'a Runs, at: usize, after: usize) -> TextWindow<'a> {
        let offset = at.saturating_sub(BEHIND);
        let to = text.len().min(at + AHEAD);
        let (bytes, has_more) = (&text[offset..to], to < text.len());
        TextWindow { bytes, offset, runs, at: at - offset, after: after - offset, has_more }
    }

    /// Returns the text after the trigger.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.after..]
    }

    /// Returns the end of the run of a class that begins at `from`.
    pub(super) fn run(&self, from: usize, class: CharClass) -> usize {
        let (slot, known) = match self.runs.known(self.offset + from, class) {
            Some((slot, end)) => (Some(slot), end.min(self.offset + self.bytes.len()) - self.offset),
            None => (None, from),
        };
        let to = known + self.bytes[known..].iter().take_while(|byte| class.has(**byte)).count();
        if to > known {
            self.runs.remember(slot, class, self.offset + from, self.offset + to);
        }
        to
    }

    /// Returns the match from `start` to the end of a run, which may continue after the window.
    pub(super) fn hit(&self, start: usize, end: usize, class: CharClass) -> Hit {
        let open = end == self.bytes.len() && self.has_more;
        Hit { start, end, continuation: open.then_some(Continuation::Run(class)) }
    }

    /// Returns whether a word can begin at `at`: no letter or digit precedes it, except the last one of an escape (`
    /// `, `\u0022`, `%3D`) or of a terminal colour.
    pub(super) fn begins_word(&self, at: usize) -> bool {
        let before = &self.bytes[..at];
        let Some(last) = before.last().filter(|byte| byte.is_ascii_alphanumeric()) else { return true };
        let hex = |count: usize| {
            before.len() >= count && before[before.len() - count..].iter().all(u8::is_ascii_hexdigit)
        };
        let escape =
            |start: &[u8], count: usize| hex(count) && before[..before.len() - count].ends_with(start);
        if escape(b"\\u", 4) || escape(b"\\x", 2) || escape(b"%", 2) {
            return true;
        }
        let before = &before[..before.len() - 1];
        let is_escape = matches!(last, b'n' | b'r' | b't' | b'b' | b'f') && before.ends_with(b"\\");
        is_escape || (last.is_ascii_alphabetic() && begins_code(before))
    }
}

/// Returns whether a text ends in an incomplete terminal escape, raw or as programs print it, which one more letter
/// completes.
fn begins_code(text: &[u8]) -> bool {
    const BEGINNINGS: &[&[u8]] =
        &[b"\x1b[", b"\\x1b[", b"\\x1B[", b"\\033[", b"\\e[", b"^[[", b"\\u001b[", b"\\u001B[", b"\\u{1b}["];
    const LONGEST: usize = 24;
    let is_number = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b';' | b':' | b'?');
    let numbers = text.iter().rev().take(LONGEST).take_while(is_number).count();
    let text = &text[..text.len() - numbers];
    // One letter selects a character set.
    text.ends_with(b"\x1b(") || BEGINNINGS.iter().any(|beginning| text.ends_with(beginning))
}

/// A class of bytes that a token may consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CharClass {
    /// Letters and digits.
    Alnum = 1,
    /// Letters, digits and `_`.
    Word = 2,
    /// Letters, digits, `_` and `-`: base64 for URLs.
    Url = 4,
    /// Letters, digits, `_`, `-` and `.`.
    Dotted = 8,
    /// Letters, digits, `+`, `/` and `=`.
    Base64 = 16,
    /// Hexadecimal digits of either case.
    Hex = 32,
    /// Capital letters and the digits 2 to 7: base32, as AWS uses it.
    Base32 = 64,
    /// All bytes of the classes above, and `%` and `~`.
    Any = 128,
    /// Bytes of a value without quotes: all signs except those that end it, and letters of two bytes, as in `ä` and
    /// `д`.
    Value = 256,
    /// Bytes between `://` and the path of a URL.
    Authority = 512,
}

impl CharClass {
    pub(super) fn has(self, byte: u8) -> bool {
        CLASSES[byte as usize] & self as u16 != 0
    }

    /// Returns whether the class has bytes that join the words of a name.
    fn joins_words(self) -> bool {
        matches!(self, Self::Word | Self::Url | Self::Dotted | Self::Any)
    }
}

/// The classes of each byte.
static CLASSES: [u16; 256] = classes();

const fn classes() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        let alnum = b.is_ascii_alphanumeric();
        let mut set = 0;
        if alnum {
            set |= CharClass::Alnum as u16;
        }
        if alnum || b == b'_' {
            set |= CharClass::Word as u16;
        }
        if alnum || b == b'_' || b == b'-' {
            set |= CharClass::Url as u16;
        }
        if alnum || b == b'_' || b == b'-' || b == b'.' {
            set |= CharClass::Dotted as u16;
        }
        if alnum || b == b'+' || b == b'/' || b == b'=' {
            set |= CharClass::Base64 as u16;
        }
        if b.is_ascii_hexdigit() {
            set |= CharClass::Hex as u16;
        }
        if b.is_ascii_uppercase() || (b >= b'2' && b <= b'7') {
            set |= CharClass::Base32 as u16;
        }
        if alnum || matches!(b, b'_' | b'-' | b'.' | b'+' | b'/' | b'=' | b'%' | b'~') {
            set |= CharClass::Any as u16;
        }
        let ends = matches!(b, b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\');
        let letter = matches!(b, 0x80..=0xbf | 0xc3..=0xdf);
        if letter || b.is_ascii_graphic() && !ends && !matches!(b, b',' | b';' | b'&') {
            set |= CharClass::Value as u16;
        }
        if b.is_ascii_graphic() && !ends && !matches!(b, b'/' | b'?' | b'#') {
            set |= CharClass::Authority as u16;
        }
        table[byte] = set;
        byte += 1;
    }
    table
}

/// Returns whether bytes look random rather than written by a person: not one repeated character, and, if the class
/// can join words, not letters of one case only. Of twenty random characters, one in ten million has one kind only.
pub(super) fn looks_random(bytes: &[u8], class: CharClass) -> bool {
    let head = &bytes[..bytes.len().min(64)];
    if distinct(head) < 6 {
        return false;
    }
    !class.joins_words() || kinds(head) >= 2
}

/// Counts the distinct bytes.
pub(super) fn distinct(bytes: &[u8]) -> u32 {
    let mut seen = [0_u64; 4];
    for byte in bytes {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|bits| bits.count_ones()).sum()
}

/// Counts the kinds of characters: small letters, capitals, digits.
pub(super) fn kinds(bytes: &[u8]) -> usize {
    let kinds: [fn(&u8) -> bool; 3] = [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_digit];
    kinds.into_iter().filter(|kind| bytes.iter().any(kind)).count()
}
