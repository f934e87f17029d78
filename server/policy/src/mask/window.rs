//! What a rule may look at: a bounded piece of the text around the place that made it look. Since no rule sees more, what
//! it finds does not depend on how the text arrives.

use std::cell::Cell;

use super::tail::Tail;

/// How far a rule looks back from where its trigger begins.
pub(super) const BEHIND: usize = 128;

/// How far a rule looks ahead from there.
pub(super) const AHEAD: usize = 4096;

/// Long runs that were measured last, in offsets of the text. Triggers stand close together in what only looks like secrets, and
/// each would measure the same runs again: its own, and in a JSON web token those of two more parts.
#[derive(Debug, Default)]
pub(super) struct Runs {
    last: [Cell<Option<(Class, usize, usize)>>; Self::COUNT],
    next: Cell<usize>,
}

impl Runs {
    const COUNT: usize = 8;

    /// A shorter one is measured as quickly as it is looked up.
    const SHORTEST: usize = 64;

    /// Where a run reaches to from `from`, at least, and who says so.
    fn known(&self, from: usize, class: Class) -> Option<(usize, usize)> {
        self.last.iter().enumerate().find_map(|(slot, last)| match last.get() {
            Some((of, start, end)) if of == class && (start..end).contains(&from) => Some((slot, end)),
            _ => None,
        })
    }

    fn remember(&self, slot: Option<usize>, class: Class, start: usize, end: usize) {
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
pub(super) struct Window<'a> {
    pub(super) bytes: &'a [u8],
    /// Where the window begins in the text that `runs` is about.
    pub(super) offset: usize,
    pub(super) runs: &'a Runs,
    /// Where the trigger begins, and where it ends.
    pub(super) at: usize,
    pub(super) after: usize,
    /// Whether the text goes on behind the window.
    pub(super) goes_on: bool,
}

/// What a rule has found, in offsets of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    /// How it goes on behind `end`.
    pub(super) tail: Option<Tail>,
}

impl Window<'_> {
    /// The window around a trigger that stands at `at` in a text.
    pub(super) fn around<'a>(text: &'a [u8], runs: &'a Runs, at: usize, after: usize) -> Window<'a> {
        let offset = at.saturating_sub(BEHIND);
        let to = text.len().min(at + AHEAD);
        let (bytes, goes_on) = (&text[offset..to], to < text.len());
        Window { bytes, offset, runs, at: at - offset, after: after - offset, goes_on }
    }

    /// What follows the trigger.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.after..]
    }

    /// Bytes of a class that follow each other from `from` on: where they end.
    pub(super) fn run(&self, from: usize, class: Class) -> usize {
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

    /// From `start` to the end of a run that reaches to `end`, or on behind the window.
    pub(super) fn hit(&self, start: usize, end: usize, class: Class) -> Hit {
        let open = end == self.bytes.len() && self.goes_on;
        Hit { start, end, tail: open.then_some(Tail::Run(class)) }
    }

    /// Whether a word can begin at `at`: before it stands no letter or digit, other than the last of an escape (`\n`,
    /// `\u0022`, `%3D`) or of a colour in a terminal.
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

/// Whether a code of a terminal begins at the end of a text, so that one more letter ends it: as it is, or as programs write it.
fn begins_code(text: &[u8]) -> bool {
    const BEGINNINGS: &[&[u8]] =
        &[b"\x1b[", b"\\x1b[", b"\\x1B[", b"\\033[", b"\\e[", b"^[[", b"\\u001b[", b"\\u001B[", b"\\u{1b}["];
    const LONGEST: usize = 24;
    let is_number = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b';' | b':' | b'?');
    let numbers = text.iter().rev().take(LONGEST).take_while(is_number).count();
    let text = &text[..text.len() - numbers];
    // A set of characters is chosen by one letter.
    text.ends_with(b"\x1b(") || BEGINNINGS.iter().any(|beginning| text.ends_with(beginning))
}

/// A set of bytes that a token may be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// Letters and digits.
    Alnum = 1,
    /// And `_`.
    Word = 2,
    /// And `-`: base64 for addresses.
    Url = 4,
    /// And `.`.
    Dotted = 8,
    /// Letters, digits, `+`, `/` and `=`.
    Base64 = 16,
    /// Digits and the letters up to f, of one case or the other.
    Hex = 32,
    /// Capital letters and the digits 2 to 7, as AWS counts.
    Base32 = 64,
    /// All that any of them has, and `%` and `~`.
    Any = 128,
    /// What a value without quotes is made of: all signs but those that end it, and letters of two bytes, as in `ä` and `д`.
    Value = 256,
    /// What can stand between `://` and the path.
    Authority = 512,
}

impl Class {
    pub(super) fn has(self, byte: u8) -> bool {
        CLASSES[byte as usize] & self as u16 != 0
    }

    /// Whether it has bytes that stand between the words of a name.
    fn joins_words(self) -> bool {
        matches!(self, Self::Word | Self::Url | Self::Dotted | Self::Any)
    }
}

/// The classes that each byte is in.
static CLASSES: [u16; 256] = classes();

const fn classes() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        let alnum = b.is_ascii_alphanumeric();
        let mut set = 0;
        if alnum {
            set |= Class::Alnum as u16;
        }
        if alnum || b == b'_' {
            set |= Class::Word as u16;
        }
        if alnum || b == b'_' || b == b'-' {
            set |= Class::Url as u16;
        }
        if alnum || b == b'_' || b == b'-' || b == b'.' {
            set |= Class::Dotted as u16;
        }
        if alnum || b == b'+' || b == b'/' || b == b'=' {
            set |= Class::Base64 as u16;
        }
        if b.is_ascii_hexdigit() {
            set |= Class::Hex as u16;
        }
        if b.is_ascii_uppercase() || (b >= b'2' && b <= b'7') {
            set |= Class::Base32 as u16;
        }
        if alnum || matches!(b, b'_' | b'-' | b'.' | b'+' | b'/' | b'=' | b'%' | b'~') {
            set |= Class::Any as u16;
        }
        let ends = matches!(b, b'"' | b'\'' | b'`' | b'<' | b'>' | b'\\');
        let letter = matches!(b, 0x80..=0xbf | 0xc3..=0xdf);
        if letter || b.is_ascii_graphic() && !ends && !matches!(b, b',' | b';' | b'&') {
            set |= Class::Value as u16;
        }
        if b.is_ascii_graphic() && !ends && !matches!(b, b'/' | b'?' | b'#') {
            set |= Class::Authority as u16;
        }
        table[byte] = set;
        byte += 1;
    }
    table
}

/// Whether bytes look drawn by chance rather than written by somebody: not one character again and again, and, where words
/// could be joined, not letters of one case only. Of twenty random characters one in ten million has no other kind.
pub(super) fn looks_random(bytes: &[u8], class: Class) -> bool {
    let head = &bytes[..bytes.len().min(64)];
    if distinct(head) < 6 {
        return false;
    }
    !class.joins_words() || kinds(head) >= 2
}

/// How many different bytes there are.
pub(super) fn distinct(bytes: &[u8]) -> u32 {
    let mut seen = [0_u64; 4];
    for byte in bytes {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|bits| bits.count_ones()).sum()
}

/// How many there are of: small letters, capitals, digits.
pub(super) fn kinds(bytes: &[u8]) -> usize {
    let kinds: [fn(&u8) -> bool; 3] = [u8::is_ascii_lowercase, u8::is_ascii_uppercase, u8::is_ascii_digit];
    kinds.into_iter().filter(|kind| bytes.iter().any(kind)).count()
}
