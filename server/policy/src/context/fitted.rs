//! An estimate of `o200k` without its tables: one pass that cuts text where the encoding's own pattern cuts it, and
//! a weight for each kind of piece.
//!
//! It is on the way of every append, so it goes over bytes, and what is done for each of them is always inlined.
//!
//! What kinds of pieces there are is decided here; the weights come from `tests/tools/fit_tokens.rs`, which says how
//! to make them again.

mod weights;

use weights::WEIGHTS;

/// Kinds of pieces.
pub const FEATURES: usize = OTHER + 1;

/// Letters of a word that have a weight of their own; those behind have one together.
const WORD: usize = 14;
/// Words by what stands before them, which is part of the piece: nothing, a space, a punctuation mark.
const WORDS: usize = 0;
const WORD_MORE: usize = WORDS + 3 * WORD;
/// Added to a word that begins with a capital.
const CAPITAL: usize = WORD_MORE + 1;
/// Added to a word that begins with a capital and has nothing before it: a part of a name in code.
const CAMEL: usize = CAPITAL + 1;
/// Added for each letter that is not ASCII.
const ACCENT: usize = CAMEL + 1;
/// Added for three and more consonants in a row, and for each further one.
const HARSH: usize = ACCENT + 1;
/// Words of two capitals and more: for each, by its length, and for each letter behind.
const CAPS: usize = HARSH + 1;
const CAPS_WORD: usize = 6;
const CAPS_MORE: usize = CAPS + CAPS_WORD;
/// `'s`, `'t`, `'re` and so on.
const CONTRACTION: usize = CAPS_MORE + 1;
/// Up to three digits.
const DIGITS: usize = CONTRACTION + 1;
/// A space that belongs to nothing; more of them.
const SPACE: usize = DIGITS + 1;
const SPACES: usize = SPACE + 1;
/// Line ends, and those right after punctuation.
const NEWLINE: usize = SPACES + 1;
const NEWLINE_AFTER: usize = NEWLINE + 1;
/// Punctuation by how much there is of it in a row, and each mark behind.
const PUNCT: usize = NEWLINE_AFTER + 1;
const PUNCT_RUN: usize = 4;
const PUNCT_MORE: usize = PUNCT + PUNCT_RUN;
/// The same mark four times and more: once, and each.
const REPEAT: usize = PUNCT_MORE + 1;
const REPEAT_MORE: usize = REPEAT + 1;
/// A space before letters of East Asia.
const SPACE_BEFORE_CJK: usize = REPEAT_MORE + 1;
/// Scripts: for each run, by its length up to four, and for each letter behind.
const SCRIPT_RUN: usize = 5;
const SCRIPTS: usize = SPACE_BEFORE_CJK + 1;
const HAN: usize = SCRIPTS;
const HIRAGANA: usize = HAN + SCRIPT_RUN;
const KATAKANA: usize = HIRAGANA + SCRIPT_RUN;
const HANGUL: usize = KATAKANA + SCRIPT_RUN;
const CYRILLIC: usize = HANGUL + SCRIPT_RUN;
const GREEK: usize = CYRILLIC + SCRIPT_RUN;
const ARABIC: usize = GREEK + SCRIPT_RUN;
const HEBREW: usize = ARABIC + SCRIPT_RUN;
const INDIC: usize = HEBREW + SCRIPT_RUN;
const THAI: usize = INDIC + SCRIPT_RUN;
const OTHER_LETTER: usize = THAI + SCRIPT_RUN;
/// Marks of East Asia, and full-width forms.
const CJK_MARK: usize = OTHER_LETTER + SCRIPT_RUN;
const FULL_WIDTH: usize = CJK_MARK + 1;
/// Quotation marks, dashes and the like; arrows, boxes and the like; pictures; what joins and varies them.
const TYPOGRAPHIC: usize = FULL_WIDTH + 1;
const SYMBOL: usize = TYPOGRAPHIC + 1;
const EMOJI: usize = SYMBOL + 1;
const JOINER: usize = EMOJI + 1;
/// Anything else.
const OTHER: usize = JOINER + 1;

/// Kinds that only correct the weight of a word, up or down.
pub const ADDED: [usize; 4] = [CAPITAL, CAMEL, ACCENT, HARSH];

/// The estimate.
pub(super) fn count(text: &str) -> u64 {
    let mut sum = 0_i64;
    scan(text, |feature, times| sum += i64::from(WEIGHTS[feature]) * times);
    u64::try_from((sum + 500) / 1000).unwrap_or(0)
}

/// How often each kind of piece is in a text, for fitting.
pub fn features(text: &str) -> [i64; FEATURES] {
    let mut found = [0; FEATURES];
    scan(text, |feature, times| found[feature] += times);
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    /// A lower-case letter that is not ASCII.
    Accented,
    Digit,
    Space,
    Newline,
    Punct,
    /// Letters of a script, by its first feature.
    Script(usize),
    /// Anything that counts by itself, by its feature.
    Single(usize),
}

impl Class {
    fn is_word(self) -> bool {
        matches!(self, Self::Lower | Self::Upper | Self::Accented)
    }
}

/// The class of the character that begins at a byte, and its length; none at the end.
#[inline(always)]
fn class_at(bytes: &[u8], at: usize) -> Option<(Class, usize)> {
    let class = match bytes.get(at)? {
        b'a'..=b'z' => Class::Lower,
        b' ' | b'\t' => Class::Space,
        b'A'..=b'Z' => Class::Upper,
        b'0'..=b'9' => Class::Digit,
        b'\n' | b'\r' => Class::Newline,
        b'!'..=b'~' => Class::Punct,
        ..0x80 => Class::Single(OTHER),
        0x80.. => return Some(wide_class_at(bytes, at)),
    };
    Some((class, 1))
}

/// The same for one of several bytes. They are UTF-8.
fn wide_class_at(bytes: &[u8], at: usize) -> (Class, usize) {
    let bits = |behind: usize| u32::from(bytes.get(at + behind).copied().unwrap_or_default() & 0x3f);
    let first = u32::from(bytes[at]);
    let (code, len) = match first {
        ..0xe0 => ((first & 0x1f) << 6 | bits(1), 2),
        0xe0..0xf0 => ((first & 0xf) << 12 | bits(1) << 6 | bits(2), 3),
        0xf0.. => ((first & 0x7) << 18 | bits(1) << 12 | bits(2) << 6 | bits(3), 4),
    };
    (class_beyond_ascii(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)), len)
}

fn class_beyond_ascii(c: char) -> Class {
    match u32::from(c) {
        // First what whole texts are made of.
        0x3041..=0x309f => Class::Script(HIRAGANA),
        0x4e00..=0x9fff => Class::Script(HAN),
        0xa0 | 0x3000 => Class::Space,
        0xa1..=0xa9 | 0xab..=0xb4 | 0xb6..=0xb9 | 0xbb..=0xbf | 0xd7 | 0xf7 => Class::Single(TYPOGRAPHIC),
        0xaa..=0x24f | 0x1e00..=0x1eff if c.is_uppercase() => Class::Upper,
        0xaa..=0x2af | 0x300..=0x36f | 0x1e00..=0x1eff => Class::Accented,
        0x370..=0x3ff | 0x1f00..=0x1fff => Class::Script(GREEK),
        0x400..=0x52f => Class::Script(CYRILLIC),
        0x590..=0x5ff => Class::Script(HEBREW),
        0x600..=0x77f | 0xfb50..=0xfdff | 0xfe70..=0xfefe => Class::Script(ARABIC),
        0x900..=0xdff => Class::Script(INDIC),
        0xe00..=0xe7f => Class::Script(THAI),
        0x200b..=0x200f | 0xfe00..=0xfe0f | 0x1f3fb..=0x1f3ff | 0xe0100..=0xe01ef => Class::Single(JOINER),
        0x2010..=0x206f | 0x20a0..=0x20cf | 0x2122 => Class::Single(TYPOGRAPHIC),
        0x2070..=0x2bff => Class::Single(SYMBOL),
        0x2e80..=0x2fdf | 0x3005..=0x3007 | 0x3400..=0x4dff | 0xf900..=0xfaff | 0x20000..=0x3ffff => {
            Class::Script(HAN)
        }
        0x3001..=0x303f | 0x30fb => Class::Single(CJK_MARK),
        0x30a0..=0x30ff | 0x31f0..=0x31ff | 0xff66..=0xff9f => Class::Script(KATAKANA),
        0x1100..=0x11ff | 0x3130..=0x318f | 0xac00..=0xd7af => Class::Script(HANGUL),
        0xff01..=0xffee => Class::Single(FULL_WIDTH),
        0x1f000..=0x1faff => Class::Single(EMOJI),
        _ if c.is_alphabetic() => Class::Script(OTHER_LETTER),
        _ => Class::Single(OTHER),
    }
}

/// What stands before a word and belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing = 0,
    Space = 1,
    Mark = 2,
}

/// What the piece before says of the one that follows.
#[derive(Debug, Clone, Copy)]
struct Context {
    before: Before,
    /// The mark is an apostrophe at the end of a word.
    contracts: bool,
    after_word: bool,
    after_punct: bool,
    /// Line ends stand before it and were counted; white space and more of them are part of the same piece.
    after_newlines: bool,
}

const FRESH: Context = Context {
    before: Before::Nothing,
    contracts: false,
    after_word: false,
    after_punct: false,
    after_newlines: false,
};

fn scan(text: &str, mut found: impl FnMut(usize, i64)) {
    let bytes = text.as_bytes();
    let (mut at, mut context) = (0, FRESH);
    while let Some((class, len)) = class_at(bytes, at) {
        let start = at;
        at += len;
        let last = std::mem::replace(&mut context, FRESH);
        match class {
            Class::Lower | Class::Upper | Class::Accented => {
                at = word(bytes, start, last, &mut found);
                context.after_word = true;
            }
            Class::Digit => {
                at += bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                found(DIGITS, as_times((at - start).div_ceil(3)));
            }
            Class::Space => {
                let spaces;
                (spaces, at) = run(bytes, start, class);
                match class_at(bytes, at).map(|(next, _)| next) {
                    None => found(SPACES, 1),
                    // White space before a line end is part of it.
                    Some(Class::Newline) => context.after_newlines = last.after_newlines,
                    Some(next) => {
                        if spaces > 1 {
                            found(SPACES, 1);
                        }
                        if let Class::Script(HAN | HIRAGANA | KATAKANA) = next {
                            found(SPACE_BEFORE_CJK, 1);
                        } else if next == Class::Digit {
                            found(SPACE, 1);
                        }
                        context.before = Before::Space;
                    }
                }
            }
            Class::Newline => {
                (_, at) = run(bytes, start, class);
                if !last.after_newlines {
                    found(if last.after_punct { NEWLINE_AFTER } else { NEWLINE }, 1);
                }
                context.after_newlines = true;
            }
            Class::Punct => {
                let marks;
                (marks, at) = run(bytes, start, class);
                let single = marks == 1 && last.before != Before::Space;
                if single && class_at(bytes, at).is_some_and(|(next, _)| next.is_word()) {
                    context.before = Before::Mark;
                    context.contracts = last.after_word && bytes[start] == b'\'';
                } else {
                    punct(&bytes[start..at], &mut found);
                }
                context.after_punct = true;
            }
            Class::Script(script) => {
                let letters;
                (letters, at) = run(bytes, start, class);
                by_length(script, SCRIPT_RUN - 1, letters, script + SCRIPT_RUN - 1, &mut found);
            }
            Class::Single(feature) => found(feature, 1),
        }
    }
}

/// How many characters of a class stand from a byte on, and where they end.
#[inline(always)]
fn run(bytes: &[u8], mut at: usize, class: Class) -> (usize, usize) {
    let mut characters = 0;
    while let Some((next, len)) = class_at(bytes, at)
        && next == class
    {
        characters += 1;
        at += len;
    }
    (characters, at)
}

fn as_times(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn punct(marks: &[u8], found: &mut impl FnMut(usize, i64)) {
    if marks.len() >= 4 && marks.iter().all(|mark| *mark == marks[0]) {
        found(REPEAT, 1);
        found(REPEAT_MORE, as_times(marks.len()));
    } else {
        by_length(PUNCT, PUNCT_RUN, marks.len(), PUNCT_MORE, found);
    }
}

/// The feature for a length, and one for each that is more than there are features.
#[inline(always)]
fn by_length(first: usize, most: usize, length: usize, more: usize, found: &mut impl FnMut(usize, i64)) {
    found(first + length.clamp(1, most) - 1, 1);
    if length > most {
        found(more, as_times(length - most));
    }
}

/// A word from a byte on: capitals, then small letters, as a capital after a small letter begins another. Answers
/// where it ends.
#[inline(always)]
fn word(bytes: &[u8], start: usize, last: Context, found: &mut impl FnMut(usize, i64)) -> usize {
    let (mut at, mut letters, mut accents) = (start, 0, 0);
    while let Some((Class::Upper, len)) = class_at(bytes, at) {
        at += len;
        letters += 1;
    }
    let capitals = letters;
    loop {
        match class_at(bytes, at) {
            Some((Class::Lower, _)) => at += 1,
            Some((Class::Accented, len)) => {
                at += len;
                accents += 1;
            }
            _ => break,
        }
        letters += 1;
    }
    let word = &bytes[start..at];
    if last.contracts && matches!(word, b"s" | b"t" | b"m" | b"d" | b"re" | b"ve" | b"ll") {
        found(CONTRACTION, 1);
        return at;
    }
    if accents > 0 {
        found(ACCENT, accents);
    }
    if capitals > 1 {
        by_length(CAPS, CAPS_WORD, letters, CAPS_MORE, found);
        return at;
    }
    by_length(WORDS + last.before as usize * WORD, WORD, letters, WORD_MORE, found);
    if capitals == 1 && letters > 1 {
        found(if last.before == Before::Nothing { CAMEL } else { CAPITAL }, 1);
    }
    if letters > 3 {
        let harsh = harsh(word);
        if harsh > 0 {
            found(HARSH, harsh);
        }
    }
    at
}

/// Consonants behind three others.
fn harsh(word: &[u8]) -> i64 {
    const VOWELS: u32 = 1 << 1 | 1 << 5 | 1 << 9 | 1 << 15 | 1 << 21 | 1 << 25;
    let (mut row, mut harsh) = (0, 0);
    for byte in word {
        if byte.is_ascii() && VOWELS >> (byte & 0x1f) & 1 == 1 {
            row = 0;
        } else if byte & 0xc0 != 0x80 {
            row += 1;
            harsh += i64::from(row > 3);
        }
    }
    harsh
}
