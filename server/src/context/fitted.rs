//! An estimate of `o200k` without its tables: one pass that cuts text where the encoding's own pattern cuts it, and
//! a weight for each kind of piece.
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
pub(super) fn count(text: impl Iterator<Item = char>) -> u64 {
    let mut sum = 0_i64;
    scan(text, |feature, times| sum += i64::from(WEIGHTS[feature]) * times);
    u64::try_from((sum + 500) / 1000).unwrap_or(0)
}

/// How often each kind of piece is in a text, for fitting.
pub fn features(text: &str) -> [i64; FEATURES] {
    let mut found = [0; FEATURES];
    scan(text.chars(), |feature, times| found[feature] += times);
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

fn class(c: char) -> Class {
    match c {
        'a'..='z' => Class::Lower,
        ' ' | '\t' => Class::Space,
        'A'..='Z' => Class::Upper,
        '0'..='9' => Class::Digit,
        '\n' | '\r' => Class::Newline,
        '!'..='~' => Class::Punct,
        _ => class_beyond_ascii(c),
    }
}

fn class_beyond_ascii(c: char) -> Class {
    match u32::from(c) {
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
        0x2e80..=0x2fdf | 0x3005..=0x3007 | 0x3400..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff => {
            Class::Script(HAN)
        }
        0x3001..=0x303f | 0x30fb => Class::Single(CJK_MARK),
        0x3041..=0x309f => Class::Script(HIRAGANA),
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

/// A piece as far as it was read.
#[derive(Debug, Clone, Copy)]
enum Piece {
    Nothing,
    Word(Word),
    Digits(i64),
    /// How many, and whether line ends that were counted stand before them.
    Spaces(i64, bool),
    /// Whether they follow punctuation, and whether they were counted.
    Newlines(bool, bool),
    Punct(Punct),
    Script(usize, i64),
}

#[derive(Debug, Clone, Copy)]
struct Word {
    before: Before,
    /// What it would be the end of: an apostrophe after another word.
    contracts: bool,
    letters: i64,
    capitals: i64,
    accents: i64,
    first: [char; 2],
    last_is_lower: bool,
    /// Consonants in a row, and those beyond three in all.
    consonants: i64,
    harsh: i64,
}

#[derive(Debug, Clone, Copy)]
struct Punct {
    first: char,
    marks: i64,
    same: bool,
    after_space: bool,
    after_word: bool,
}

fn scan(text: impl Iterator<Item = char>, mut found: impl FnMut(usize, i64)) {
    let mut piece = Piece::Nothing;
    for c in text {
        piece = next(piece, c, &mut found);
    }
    if let Piece::Spaces(..) = piece {
        found(SPACES, 1);
    }
    close(piece, &mut found);
}

fn next(mut piece: Piece, c: char, found: &mut impl FnMut(usize, i64)) -> Piece {
    let class = class(c);
    match (&mut piece, class) {
        (Piece::Word(word), Class::Lower | Class::Accented) => {
            word.push(c, class);
            return piece;
        }
        // A capital after a small letter begins a piece.
        (Piece::Word(word), Class::Upper) if !word.last_is_lower => {
            word.push(c, class);
            return piece;
        }
        (Piece::Digits(digits), Class::Digit) => {
            *digits += 1;
            return piece;
        }
        (Piece::Spaces(spaces, _), Class::Space) => {
            *spaces += 1;
            return piece;
        }
        // White space before a line end is part of it.
        (Piece::Spaces(_, counted), Class::Newline) => return Piece::Newlines(false, *counted),
        (Piece::Newlines(..), Class::Newline) => return piece,
        (Piece::Punct(punct), Class::Punct) => {
            punct.marks += 1;
            punct.same &= c == punct.first;
            return piece;
        }
        (Piece::Script(script, letters), Class::Script(same)) if *script == same => {
            *letters += 1;
            return piece;
        }
        _ => {}
    }
    begin(piece, c, class, found)
}

/// Ends a piece and begins another.
fn begin(piece: Piece, c: char, class: Class, found: &mut impl FnMut(usize, i64)) -> Piece {
    let (mut before, mut contracts, mut after_word) = (Before::Nothing, false, false);
    let (mut counted, mut after_punct) = (false, false);
    match piece {
        Piece::Spaces(spaces, _) => {
            before = Before::Space;
            if spaces > 1 {
                found(SPACES, 1);
            }
            if let Class::Script(HAN | HIRAGANA | KATAKANA) = class {
                found(SPACE_BEFORE_CJK, 1);
            } else if class == Class::Digit {
                found(SPACE, 1);
            }
        }
        Piece::Punct(punct) => {
            let single = punct.marks == 1 && !punct.after_space;
            if single && matches!(class, Class::Lower | Class::Upper | Class::Accented) {
                before = Before::Mark;
                contracts = punct.after_word && punct.first == '\'';
            } else {
                close(piece, found);
            }
            after_punct = true;
        }
        Piece::Word(_) => {
            close(piece, found);
            after_word = true;
        }
        Piece::Newlines(..) => {
            close(piece, found);
            counted = true;
        }
        Piece::Nothing | Piece::Digits(_) | Piece::Script(..) => close(piece, found),
    }
    match class {
        Class::Lower | Class::Upper | Class::Accented => {
            let mut word = Word::new(before, contracts);
            word.push(c, class);
            Piece::Word(word)
        }
        Class::Digit => Piece::Digits(1),
        Class::Space => Piece::Spaces(1, counted),
        Class::Newline => Piece::Newlines(after_punct, false),
        Class::Punct => Piece::Punct(Punct {
            first: c,
            marks: 1,
            same: true,
            after_space: before == Before::Space,
            after_word,
        }),
        Class::Script(script) => Piece::Script(script, 1),
        Class::Single(feature) => {
            found(feature, 1);
            Piece::Nothing
        }
    }
}

fn close(piece: Piece, found: &mut impl FnMut(usize, i64)) {
    match piece {
        Piece::Word(word) => word.close(found),
        Piece::Digits(digits) => found(DIGITS, (digits + 2) / 3),
        Piece::Punct(punct) => close_punct(punct, found),
        // Spaces count by what follows them.
        Piece::Newlines(_, true) | Piece::Nothing | Piece::Spaces(..) => {}
        Piece::Newlines(true, false) => found(NEWLINE_AFTER, 1),
        Piece::Newlines(false, false) => found(NEWLINE, 1),
        Piece::Script(script, letters) => {
            by_length(script, SCRIPT_RUN - 1, letters, script + SCRIPT_RUN - 1, found)
        }
    }
}

fn close_punct(punct: Punct, found: &mut impl FnMut(usize, i64)) {
    if punct.same && punct.marks >= 4 {
        found(REPEAT, 1);
        found(REPEAT_MORE, punct.marks);
    } else {
        by_length(PUNCT, PUNCT_RUN, punct.marks, PUNCT_MORE, found);
    }
}

/// The feature for a length, and one for each that is more than there are features.
fn by_length(first: usize, most: usize, length: i64, more: usize, found: &mut impl FnMut(usize, i64)) {
    let length = usize::try_from(length).unwrap_or(1).max(1);
    found(first + length.min(most) - 1, 1);
    if length > most {
        found(more, i64::try_from(length - most).unwrap_or(0));
    }
}

impl Word {
    fn new(before: Before, contracts: bool) -> Self {
        Self {
            before,
            contracts,
            letters: 0,
            capitals: 0,
            accents: 0,
            first: [' '; 2],
            last_is_lower: false,
            consonants: 0,
            harsh: 0,
        }
    }

    fn push(&mut self, c: char, class: Class) {
        if let Some(place) = usize::try_from(self.letters).ok().and_then(|at| self.first.get_mut(at)) {
            *place = c;
        }
        self.letters += 1;
        self.last_is_lower = class != Class::Upper;
        self.capitals += i64::from(class == Class::Upper);
        self.accents += i64::from(class == Class::Accented);
        if matches!(c, 'a' | 'e' | 'i' | 'o' | 'u' | 'y' | 'A' | 'E' | 'I' | 'O' | 'U' | 'Y') {
            self.consonants = 0;
        } else {
            self.consonants += 1;
            self.harsh += i64::from(self.consonants > 3);
        }
    }

    fn close(&self, found: &mut impl FnMut(usize, i64)) {
        let contraction = matches!(
            (self.letters, self.first),
            (1, ['s' | 't' | 'm' | 'd', _]) | (2, ['r' | 'v', 'e'] | ['l', 'l'])
        );
        if self.contracts && contraction {
            found(CONTRACTION, 1);
            return;
        }
        if self.accents > 0 {
            found(ACCENT, self.accents);
        }
        if self.capitals > 1 {
            by_length(CAPS, CAPS_WORD, self.letters, CAPS_MORE, found);
            return;
        }
        by_length(WORDS + self.before as usize * WORD, WORD, self.letters, WORD_MORE, found);
        if self.capitals == 1 && self.letters > 1 {
            found(if self.before == Before::Nothing { CAMEL } else { CAPITAL }, 1);
        }
        if self.harsh > 0 {
            found(HARSH, self.harsh);
        }
    }
}
