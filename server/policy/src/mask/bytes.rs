//! Masking of arbitrary bytes. The first bytes decide how they are read, not a declared type: everything that could
//! be read as text is masked, and only known images, documents, archives and programs are left unchanged.

use super::{MaskCounts, MaskStream, Masker};

/// First bytes that the decision uses.
const DETECTION_BYTES: usize = 8 << 10;

/// Signatures of files that are not text.
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

/// Offset of the signature in a tar archive: after the name of its first file.
const TAR_AT: usize = 257;

/// A stream of bytes through a [`Masker`].
#[derive(Debug)]
pub struct MaskBytes {
    masker: Masker,
    encoding: ContentEncoding,
    /// True if the bytes are known to be text.
    is_text: bool,
}

#[derive(Debug)]
enum ContentEncoding {
    /// The first bytes, too few for a decision.
    Undecided(Vec<u8>),
    Text(MaskStream),
    Utf16(Box<Utf16>),
    Opaque,
}

impl MaskBytes {
    /// Takes the next bytes; appends to `out` what is final by now.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match &mut self.encoding {
            ContentEncoding::Undecided(first) => {
                first.extend_from_slice(bytes);
                if first.len() >= DETECTION_BYTES {
                    self.detect(out);
                }
            }
            ContentEncoding::Text(stream) => stream.push(bytes, out),
            ContentEncoding::Utf16(text) => text.push(bytes, out),
            ContentEncoding::Opaque => out.extend_from_slice(bytes),
        }
    }

    /// Ends the stream; appends the rest to `out`. Returns what was masked.
    pub fn finish(mut self, out: &mut Vec<u8>) -> MaskCounts {
        self.detect(out);
        match self.encoding {
            ContentEncoding::Text(stream) => stream.finish(out),
            ContentEncoding::Utf16(text) => text.finish(out),
            ContentEncoding::Undecided(_) | ContentEncoding::Opaque => MaskCounts::default(),
        }
    }

    fn detect(&mut self, out: &mut Vec<u8>) {
        let ContentEncoding::Undecided(first) = &mut self.encoding else { return };
        let first = std::mem::take(first);
        self.encoding = match &first[..first.len().min(DETECTION_BYTES)] {
            _ if self.masker.is_off() => ContentEncoding::Opaque,
            first_bytes if !self.is_text && is_opaque(first_bytes) => ContentEncoding::Opaque,
            first_bytes => match ByteOrder::of(first_bytes) {
                Some(order) => ContentEncoding::Utf16(Box::new(Utf16::new(self.masker.clone(), order))),
                None => ContentEncoding::Text(self.masker.stream()),
            },
        };
        self.push(&first, out);
    }
}

impl Masker {
    /// Starts a stream of arbitrary bytes; with `is_text` they are always read as text.
    pub fn bytes(&self, is_text: bool) -> MaskBytes {
        MaskBytes { masker: self.clone(), encoding: ContentEncoding::Undecided(Vec::new()), is_text }
    }
}

/// Returns whether bytes begin like a file that is not text, and are not valid text.
fn is_opaque(first: &[u8]) -> bool {
    let is_text = match std::str::from_utf8(first) {
        Ok(text) => !text.contains('\0'),
        // The last character may be cut off.
        Err(error) => error.error_len().is_none() && !first.contains(&0),
    };
    let has = |at: usize, bytes: &[u8]| first.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    // Two or three letters alone may begin a text.
    let is_known = has(TAR_AT, b"ustar")
        || (has(0, b"BM") && has(6, &[0; 4]))
        || (has(0, b"MZ")
            && first.get(2..16).is_some_and(|head| head.iter().filter(|byte| **byte == 0).count() > 3))
        || (has(0, b"BZh") && has(4, b"1AY&SY"))
        || (has(0, b"ID3") && first.get(3).is_some_and(|version| *version < 16))
        || (has(0, b"RIFF") && [b"WAVE", b"AVI ", b"WEBP"].iter().any(|kind| has(8, *kind)));
    !is_text && (is_known || SIGNATURES.iter().any(|signature| first.starts_with(signature)))
}

/// The byte order of UTF-16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Detects the order of UTF-16 by the byte order mark, or by zeros in most pairs, as in text of letters and
    /// digits.
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

/// Masks UTF-16 text as UTF-8, and writes it in its original encoding. A lone surrogate stays unchanged.
#[derive(Debug)]
struct Utf16 {
    masker: Masker,
    stream: MaskStream,
    found: MaskCounts,
    order: ByteOrder,
    /// A byte of a pair, or the first half of a surrogate pair.
    held: Vec<u8>,
    /// Masked text that ends in the middle of a character.
    cut: Vec<u8>,
}

impl Utf16 {
    fn new(masker: Masker, order: ByteOrder) -> Self {
        let (stream, found) = (masker.stream(), MaskCounts::default());
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
                    self.mask(&text, out);
                    text.clear();
                    self.end(out);
                    out.extend_from_slice(&order.pair(half.unpaired_surrogate()));
                }
            }
        }
        self.mask(&text, out);
    }

    fn mask(&mut self, text: &str, out: &mut Vec<u8>) {
        let mut masked = std::mem::take(&mut self.cut);
        self.stream.push(text.as_bytes(), &mut masked);
        self.write(masked, out);
    }

    /// Ends the text so far, so that a new one can begin.
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

    fn finish(mut self, out: &mut Vec<u8>) -> MaskCounts {
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

    fn utf16(text: &str, order: ByteOrder) -> Vec<u8> {
        text.encode_utf16().flat_map(|unit| order.pair(unit)).collect()
    }

    #[test]
    fn bytes_that_may_be_text_are_masked() {
        let long = "Lorem ipsum dolor sit amet, 日本語 🦀.\n".repeat(3000);
        for text in [format!("a {TOKEN} b"), format!("{long}{TOKEN}\n{long}"), format!("{TOKEN}\n{long}")] {
            let expected = text.replace(TOKEN, "[GITHUB_TOKEN]");
            for order in [ByteOrder::Little, ByteOrder::Big] {
                for mark in ["", "\u{feff}"] {
                    let (bytes, expected) =
                        (utf16(&format!("{mark}{text}"), order), utf16(&format!("{mark}{expected}"), order));
                    for piece in [1, 3, 1000, usize::MAX] {
                        assert!(masked(&bytes, piece) == expected, "{order:?} {mark:?} {piece}");
                    }
                }
            }
            // The forms of `env -0`, and of text after the signature of images and documents.
            for (before, between) in [("", "\0\0"), ("A=1\0", "\0"), ("%PDF-1.7\n", " "), ("GIF89a ", " ")] {
                let text = format!("{before}x{between}{text}");
                let expected = text.replace(TOKEN, "[GITHUB_TOKEN]");
                assert!(masked(text.as_bytes(), 999) == expected.as_bytes(), "{before:?}");
            }
        }
    }

    #[test]
    fn a_lone_surrogate_is_unchanged() {
        let mut bytes = utf16(&format!("numbers and letters {TOKEN} "), ByteOrder::Little);
        bytes.extend([0x12, 0xd8, b'x', 0, 0x01, 0xdc]);
        let mut expected = utf16("numbers and letters [GITHUB_TOKEN] ", ByteOrder::Little);
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
    fn images_and_archives_are_unchanged() {
        for signature in SIGNATURES {
            let bytes = [signature, &b"\0\x01\xff\xfe "[..], TOKEN.as_bytes(), b" \xff"].concat();
            assert!(masked(&bytes, 7) == bytes, "{signature:?}");
        }
    }
}
