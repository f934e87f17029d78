//! Masking of bytes that may be anything. Their first bytes decide how they are read, not what somebody says they are: whatever
//! may be shown to anybody is masked, and only what is known to be an image, a document, an archive or a program is left alone.

use super::{Found, MaskStream, Masker};

/// Bytes by which it is decided.
const LOOK: usize = 8 << 10;

/// What files begin with that no one reads as text.
const SIGNATURES: &[&[u8]] = &[
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF87a",
    b"GIF89a",
    b"II*\0",
    b"MM\0*",
    b"\0\0\x01\0",
    b"%PDF-",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\0",
    b"7z\xbc\xaf\x27\x1c",
    b"\x04\x22\x4d\x18",
    b"\x7fELF",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"\0asm",
    b"SQLite format 3\0",
    b"OggS",
    b"fLaC",
    b"\xff\xfb",
    b"wOFF",
    b"wOF2",
];

/// Where an archive of tar says what it is: behind the name of its first file.
const TAR_AT: usize = 257;

/// Bytes on their way through a [`Masker`].
#[derive(Debug)]
pub struct MaskBytes {
    masker: Masker,
    state: State,
    /// Whether they are known to be text.
    is_text: bool,
}

#[derive(Debug)]
enum State {
    /// So many are not there yet that it can be decided.
    Unknown(Vec<u8>),
    Text(MaskStream),
    Utf16(Box<Utf16>),
    Opaque,
}

impl MaskBytes {
    /// Takes the next bytes; `out` gets what is certain by now.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match &mut self.state {
            State::Unknown(first) => {
                first.extend_from_slice(bytes);
                if first.len() >= LOOK {
                    self.decide(out);
                }
            }
            State::Text(stream) => stream.push(bytes, out),
            State::Utf16(text) => text.push(bytes, out),
            State::Opaque => out.extend_from_slice(bytes),
        }
    }

    /// There are no more; `out` gets the rest. Returns what was masked.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Found {
        self.decide(out);
        match self.state {
            State::Text(stream) => stream.finish(out),
            State::Utf16(text) => text.finish(out),
            State::Unknown(_) | State::Opaque => Found::default(),
        }
    }

    fn decide(&mut self, out: &mut Vec<u8>) {
        let State::Unknown(first) = &mut self.state else { return };
        let first = std::mem::take(first);
        self.state = match &first[..first.len().min(LOOK)] {
            _ if self.masker.is_off() => State::Opaque,
            look if !self.is_text && is_opaque(look) => State::Opaque,
            look => match Order::of(look) {
                Some(order) => State::Utf16(Box::new(Utf16::new(self.masker.clone(), order))),
                None => State::Text(self.masker.stream()),
            },
        };
        self.push(&first, out);
    }
}

impl Masker {
    /// Bytes that arrive in pieces, whatever they are; with `is_text` they are read as text in any case.
    pub fn bytes(&self, is_text: bool) -> MaskBytes {
        MaskBytes { masker: self.clone(), state: State::Unknown(Vec::new()), is_text }
    }
}

/// Whether bytes begin like a file that no one reads as text, and are none.
fn is_opaque(first: &[u8]) -> bool {
    let is_text = match std::str::from_utf8(first) {
        Ok(text) => !text.contains('\0'),
        // The last character may be cut.
        Err(error) => error.error_len().is_none() && !first.contains(&0),
    };
    let has = |at: usize, bytes: &[u8]| first.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    // Two or three letters alone may be the beginning of a text.
    let is_known = has(TAR_AT, b"ustar")
        || (has(0, b"BM") && has(6, &[0; 4]))
        || (has(0, b"MZ")
            && first.get(2..16).is_some_and(|head| head.iter().filter(|byte| **byte == 0).count() > 3))
        || (has(0, b"BZh") && has(4, b"1AY&SY"))
        || (has(0, b"ID3") && first.get(3).is_some_and(|version| *version < 16))
        || (has(0, b"RIFF") && [b"WAVE", b"AVI ", b"WEBP"].iter().any(|kind| has(8, *kind)));
    !is_text && (is_known || SIGNATURES.iter().any(|signature| first.starts_with(signature)))
}

/// Which byte of a pair comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    /// The order of UTF-16, by its mark, or by the zeros that most of its pairs have where it is of letters and digits.
    fn of(first: &[u8]) -> Option<Self> {
        match first {
            [0xff, 0xfe, ..] => return Some(Self::Little),
            [0xfe, 0xff, ..] => return Some(Self::Big),
            _ => {}
        }
        const FEWEST: usize = 8;
        let pairs = first.chunks_exact(2);
        let count = pairs.len();
        let (mut little, mut big) = (0, 0);
        for pair in pairs {
            let is_letter = |byte: u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
            little += usize::from(is_letter(pair[0]) && pair[1] == 0);
            big += usize::from(pair[0] == 0 && is_letter(pair[1]));
        }
        let most = |zeros: usize| count >= FEWEST && zeros * 10 >= count * 7;
        if most(little) {
            Some(Self::Little)
        } else if most(big) {
            Some(Self::Big)
        } else {
            None
        }
    }

    fn unit(self, pair: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(pair),
            Self::Big => u16::from_be_bytes(pair),
        }
    }

    fn pair(self, unit: u16) -> [u8; 2] {
        match self {
            Self::Little => unit.to_le_bytes(),
            Self::Big => unit.to_be_bytes(),
        }
    }
}

/// A text in UTF-16: masked as UTF-8, and written as it came. Half a character stays as it is.
#[derive(Debug)]
struct Utf16 {
    masker: Masker,
    stream: MaskStream,
    found: Found,
    order: Order,
    /// A byte of a pair, or the first half of a character.
    held: Vec<u8>,
    /// Masked text that ends in the middle of a character.
    cut: Vec<u8>,
}

impl Utf16 {
    fn new(masker: Masker, order: Order) -> Self {
        let (stream, found) = (masker.stream(), Found::default());
        Self { masker, stream, found, order, held: Vec::new(), cut: Vec::new() }
    }

    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let mut whole = all.len() & !1;
        let is_first_half = |at: usize| (0xd800..0xdc00).contains(&self.order.unit([all[at], all[at + 1]]));
        if whole >= 2 && is_first_half(whole - 2) {
            whole -= 2;
        }
        self.held = all.split_off(whole);
        self.take(&all, out);
    }

    fn take(&mut self, pairs: &[u8], out: &mut Vec<u8>) {
        let order = self.order;
        let units = pairs.chunks_exact(2).map(|pair| order.unit([pair[0], pair[1]]));
        let mut text = String::new();
        for char in char::decode_utf16(units) {
            match char {
                Ok(char) => text.push(char),
                Err(half) => {
                    self.hand_on(&text, out);
                    text.clear();
                    self.end(out);
                    out.extend_from_slice(&order.pair(half.unpaired_surrogate()));
                }
            }
        }
        self.hand_on(&text, out);
    }

    fn hand_on(&mut self, text: &str, out: &mut Vec<u8>) {
        let mut masked = std::mem::take(&mut self.cut);
        self.stream.push(text.as_bytes(), &mut masked);
        self.write(masked, out);
    }

    /// Ends the text so far. What comes next is another one.
    fn end(&mut self, out: &mut Vec<u8>) {
        let mut rest = std::mem::take(&mut self.cut);
        let stream = std::mem::replace(&mut self.stream, self.masker.stream());
        self.found.merge(&stream.finish(&mut rest));
        self.write(rest, out);
    }

    fn write(&mut self, masked: Vec<u8>, out: &mut Vec<u8>) {
        let text = match std::str::from_utf8(&masked) {
            Ok(text) => text,
            Err(error) => {
                self.cut = masked[error.valid_up_to()..].to_vec();
                std::str::from_utf8(&masked[..error.valid_up_to()]).unwrap_or_default()
            }
        };
        text.encode_utf16().for_each(|unit| out.extend_from_slice(&self.order.pair(unit)));
    }

    fn finish(mut self, out: &mut Vec<u8>) -> Found {
        let held = std::mem::take(&mut self.held);
        self.take(&held, out);
        self.end(out);
        if held.len() % 2 == 1 {
            out.extend(held.last());
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";

    fn masked(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (mut mask, mut out) = (Masker::standard().bytes(false), Vec::new());
        bytes.chunks(piece).for_each(|piece| mask.push(piece, &mut out));
        mask.finish(&mut out);
        out
    }

    fn utf16(text: &str, order: Order) -> Vec<u8> {
        text.encode_utf16().flat_map(|unit| order.pair(unit)).collect()
    }

    #[test]
    fn whatever_may_be_shown_is_masked() {
        let long = "Lorem ipsum dolor sit amet, 日本語 🦀.\n".repeat(3000);
        for text in [format!("a {TOKEN} b"), format!("{long}{TOKEN}\n{long}"), format!("{TOKEN}\n{long}")] {
            let expected = text.replace(TOKEN, "[GITHUB_TOKEN]");
            for order in [Order::Little, Order::Big] {
                for mark in ["", "\u{feff}"] {
                    let (bytes, expected) =
                        (utf16(&format!("{mark}{text}"), order), utf16(&format!("{mark}{expected}"), order));
                    for piece in [1, 3, 1000, usize::MAX] {
                        assert!(masked(&bytes, piece) == expected, "{order:?} {mark:?} {piece}");
                    }
                }
            }
            // As it would be written by `env -0`, and behind what images and documents begin with.
            for (before, between) in [("", "\0\0"), ("A=1\0", "\0"), ("%PDF-1.7\n", " "), ("GIF89a ", " ")] {
                let text = format!("{before}x{between}{text}");
                let expected = text.replace(TOKEN, "[GITHUB_TOKEN]");
                assert!(masked(text.as_bytes(), 999) == expected.as_bytes(), "{before:?}");
            }
        }
    }

    #[test]
    fn half_a_character_stays_as_it_is() {
        let mut bytes = utf16(&format!("numbers and letters {TOKEN} "), Order::Little);
        bytes.extend([0x12, 0xd8, b'x', 0, 0x01, 0xdc]);
        let mut expected = utf16("numbers and letters [GITHUB_TOKEN] ", Order::Little);
        expected.extend([0x12, 0xd8, b'x', 0, 0x01, 0xdc]);
        for piece in [1, 2, 7, 1000] {
            assert_eq!(masked(&bytes, piece), expected, "{piece}");
        }
    }

    #[test]
    fn two_letters_do_not_make_an_image() {
        for text in
            ["BMC_HOST=x\0TOKEN=", "MZ_HOST=x\0TOKEN=", "ID3 \0TOKEN=", "BZh \0TOKEN=", "RIFF \0TOKEN="]
        {
            let bytes = format!("{text}{TOKEN}\0");
            assert_eq!(
                masked(bytes.as_bytes(), 999),
                bytes.replace(TOKEN, "[GITHUB_TOKEN]").as_bytes(),
                "{text:?}"
            );
        }
        let image = [&b"\x89PNG\r\n\x1a\n\0 "[..], TOKEN.as_bytes()].concat();
        let (mut mask, mut out) = (Masker::standard().bytes(true), Vec::new());
        mask.push(&image, &mut out);
        assert!(!mask.finish(&mut out).is_empty());
    }

    #[test]
    fn images_and_archives_are_left_alone() {
        for signature in SIGNATURES {
            let bytes = [signature, &b"\0\x01\xff\xfe "[..], TOKEN.as_bytes(), b" \xff"].concat();
            assert!(masked(&bytes, 7) == bytes, "{signature:?}");
        }
    }
}
