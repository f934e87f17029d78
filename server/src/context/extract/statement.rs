//! What a sentence speaks about and what it says of it, and from that whether one sentence takes the place of another:
//! the same subject with another value, a change that is announced, something open that is done.
//!
//! Words are compared by hashes of their first letters, which is stemming enough for English; kanji by pairs.

use std::ops::Range;

use super::cues::Cues;
use super::scan::{Kind, tokens};
use super::topics::Topics;
use super::words::{is_small, is_small_run};

/// A sentence, taken apart. Words and values are hashes, sorted.
#[derive(Debug, Clone, Default)]
pub(super) struct Statement {
    pub(super) cues: Cues,
    /// What it speaks about.
    words: Vec<u32>,
    /// Names of things: they are words too, but what is said rather than what it is said of.
    proper: Vec<u32>,
    /// Numbers, ids, paths and quotations.
    values: Vec<u32>,
    /// Of the values those that are unlikely to mean something else elsewhere.
    rare: Vec<u32>,
    /// Of those the ids.
    codes: Vec<u32>,
    /// In Japanese, how many of the words stand before the first は: what it is about.
    topic: usize,
    /// The words of the clauses that have values in them, and names; if none has, all of them.
    core: Vec<u32>,
    /// What it says is no longer so: what follows "instead of", what stands before ではなく.
    rejected: Vec<u32>,
    /// The words right after numbers: rows, seconds.
    units: Vec<u32>,
    /// The words right before numbers: port, limit.
    near: Vec<u32>,
    /// The kinds of values there are, as bits.
    kinds: u8,
    /// One bit for each word, name and value, so that most pairs are told apart at once.
    bits: u64,
    /// How many ids, names, paths and addresses there are.
    pub(super) names: u32,
    /// How many numbers.
    pub(super) numbers: u32,
}

/// The bit of numbers among the kinds of values.
const NUMBER: u8 = 1;
/// More of them say no more.
const MOST: usize = 48;
/// Letters of a word that count.
const STEM: usize = 6;

impl Statement {
    pub(super) fn of(text: &str) -> Self {
        let mut found = Self { cues: Cues::of(text), ..Self::default() };
        let mut number = 0..0;
        let rejections = Rejections::of(text, found.cues);
        let mut clause = Clause::default();
        let mut end = 0;
        let about = text.find('は');
        // Latin letters among others are names.
        let foreign = text.bytes().filter(|byte| *byte >= 0x80).count() * 3 > text.len();
        tokens(text, |kind, range| {
            if found.words.len() >= MOST || found.values.len() >= MOST {
                return;
            }
            // A date is one value.
            if kind == Kind::Number && number.end > 0 && is_date(&text[number.end..range.start]) {
                found.values.pop();
                number.end = range.end;
                found.values.push(hash(&text[number.clone()]));
                return;
            }
            if kind == Kind::Number {
                number = range.clone();
            }
            if found.topic == 0 && about.is_some_and(|about| range.start > about) {
                found.topic = found.words.len();
            }
            if text.get(end..range.start).is_some_and(|gap| gap.contains(CLAUSE_MARKS))
                || kind == Kind::Word && is_joint(&text[range.clone()])
            {
                clause.close(&mut found);
            }
            if number.end > 0 && number.end == end && matches!(kind, Kind::Word | Kind::Run) {
                found.unit(&text[number.end..range.end]);
            }
            if kind != Kind::Quoted {
                end = range.end;
            }
            // A name, unless it is only the first word.
            let capital = text[range.clone()].find(|c: char| c.is_ascii_uppercase());
            let is_name = foreign || capital.is_some_and(|at| range.start + at > 0);
            let before = (found.words.len(), found.proper.len(), found.values.len());
            let is_rejected = rejections.reject(&range);
            found.take(kind, &text[range], is_name);
            if is_rejected {
                let Self { words, proper, values, rejected, .. } = &mut found;
                rejected
                    .extend(words[before.0..].iter().chain(&proper[before.1..]).chain(&values[before.2..]));
            }
        });
        clause.close(&mut found);
        if found.core.is_empty() {
            found.core.clone_from(&found.words);
        }
        let Self { words, proper, values, rare, codes, core, rejected, units, near, .. } = &mut found;
        for list in [words, proper, values, rare, codes, core, rejected, units, near] {
            list.sort_unstable();
            list.dedup();
        }
        let all = found.words.iter().chain(&found.values).chain(&found.proper);
        found.bits = all.fold(0, |bits, hash| bits | 1 << (hash % 64));
        found
    }

    fn take(&mut self, kind: Kind, token: &str, proper: bool) {
        self.kinds |= match kind {
            Kind::Number => NUMBER,
            Kind::Id => 2,
            Kind::Path => 4,
            Kind::Url => 8,
            Kind::Word | Kind::Run | Kind::Name | Kind::Quoted => 0,
        };
        match kind {
            Kind::Word => self.word(token, proper),
            Kind::Run => self.run(token),
            Kind::Number => {
                self.numbers += 1;
                let digits = token.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
                self.values.push(hash(digits));
                if digits.len() >= 4 {
                    self.rare.push(hash(digits));
                }
                self.near.extend(self.words.last());
                self.word(&token[digits.len()..], false);
            }
            Kind::Id | Kind::Path | Kind::Url => {
                if kind == Kind::Id {
                    self.codes.push(hash(token));
                }
                self.names += 1;
                self.values.push(hash(token));
                self.rare.push(hash(token));
                self.near.extend(self.words.last());
            }
            Kind::Name => {
                self.names += 1;
                self.proper.push(hash(token));
            }
            Kind::Quoted => {
                self.values.push(hash(token));
                if token.len() >= 6 {
                    self.rare.push(hash(token));
                }
            }
        }
    }

    /// What follows a number, with what is between: a word, or a kanji.
    fn unit(&mut self, text: &str) {
        let word = text.trim_start();
        let first = word.chars().next().unwrap_or_default();
        if first.is_ascii() {
            let is_month = MONTHS.iter().any(|month| word.len() >= 3 && word.get(..3) == Some(*month));
            let stem = &word[..word.floor_char_boundary(STEM)];
            self.units.push(if is_month {
                hash("month")
            } else {
                hash(&stem.trim_end_matches('s').to_lowercase())
            });
        } else if text.len() == word.len() {
            self.units.push(hash(&word[..first.len_utf8()]));
        }
    }

    fn word(&mut self, token: &str, proper: bool) {
        for part in token.split(['-', '/', '.', '_', ':']).filter(|part| part.len() >= 2) {
            if !is_small(part) {
                let stem = &part[..part.floor_char_boundary(STEM)];
                let list = if proper { &mut self.proper } else { &mut self.words };
                list.push(hash(&stem.trim_end_matches('s').to_lowercase()));
            }
        }
    }

    fn run(&mut self, run: &str) {
        let first = run.chars().next().unwrap_or_default();
        if !('\u{3400}'..='\u{9fff}').contains(&first) {
            if run.chars().count() >= 2 {
                self.words.push(hash(run));
            }
            return;
        }
        if run.chars().nth(1).is_none() && !is_small_run(run) {
            self.words.push(hash(run));
        }
        let mut ends: Vec<usize> = run.char_indices().map(|(at, _)| at).take(MOST).collect();
        ends.push(run.len());
        for pair in ends.windows(3) {
            let pair = &run[pair[0]..pair[2]];
            if !is_small_run(pair) {
                self.words.push(hash(pair));
            }
        }
    }

    /// How many names of things there are in it.
    pub(super) fn proper(&self) -> u32 {
        u32::try_from(self.proper.len()).unwrap_or(u32::MAX)
    }

    /// Whether it may say what the next sentence is about: it has no value of its own.
    pub(super) fn announces(&self) -> bool {
        self.values.is_empty() && self.weight() > 0
    }

    /// How many words it has that say something.
    pub(super) fn weight(&self) -> usize {
        self.words.len() + self.proper.len() + self.values.len()
    }

    /// Whether an older statement no longer holds, now that this one was made. `firm` is a rule of the user's, which
    /// goes only if this one is clearly about the same.
    pub(super) fn replaces(&self, old: &Self, firm: bool) -> bool {
        if self.bits & old.bits == 0 {
            return false;
        }
        let shared = common(&old.words, &self.words);
        // Nearly all pairs end here.
        if shared == 0 && !self.cues.any(Cues::CHANGE) {
            return false;
        }
        let same_values = common(&self.values, &old.values);
        let same_names = common(&self.proper, &old.proper);
        let gone = old.values.len() > same_values || old.proper.len() > same_names;
        let come = self.values.len() > same_values || self.proper.len() > same_names;
        // The words without the units, which say nothing of what they count.
        let counted = |words: &[u32]| words.len() - common(words, &self.units);
        let (least, about) = (
            counted(&self.core).min(counted(&old.core)),
            common(&old.core, &self.core) - both_units(self, old),
        );
        let same_unit = gone && come && common(&self.units, &old.units) > 0;
        let counts_again = same_unit && about * 2 >= least && (about >= 2 || least <= 1 && about == 1);
        if self.cues.any(Cues::CHANGE) {
            let subject = old.core.len();
            let core = common(&old.core, &self.words);
            let alike = core * 10 >= subject * 7
                && (core >= 2 || core == 1 && self.words.len() <= 3 && (gone || come));
            let named = same_values + same_names > 0
                && shared > 0
                && shared * 10 >= old.words.len() * if firm { 6 } else { 4 };
            let is_near = |near: &[u32], words: &[u32]| !near.is_empty() && common(near, words) == near.len();
            let same_kind = self.kinds & old.kinds != 0;
            let changed = gone
                && come
                && same_kind
                && is_near(&self.near, &old.words)
                && is_near(&old.near, &self.words);
            // Another name in the place of a name: Dublin instead of Frankfurt.
            let renamed = !old.proper.is_empty()
                && self.proper.len() > same_names
                && old.values.is_empty()
                && about >= 2
                && about * 10 >= least * if firm { 8 } else { 5 };
            let bare = old.values.is_empty() && old.proper.is_empty();
            // What is said of one value is not changed by a sentence that has none, unless it takes it back.
            let alike = alike && (bare || come || self.cues.any(Cues::VOID | Cues::MOVED));
            // 担当は…です: what is said of it is one word, and a change gives it another.
            let one_word = bare
                && old.topic > 0
                && old.words.len() == old.topic + 1
                && self.topic == old.topic
                && shared == old.topic;
            let whole = self.cues.any(Cues::VOID) || self.cues.any(Cues::MOVED) && self.words.is_empty();
            let taken_back = whole && common(&self.rare, &old.rare) > 0;
            let changed = changed && shared * 2 >= old.words.len().min(self.words.len());
            let dropped = common(&self.rejected, &old.words);
            let rejects = dropped + common(&self.rejected, &old.proper) + common(&self.rejected, &old.values)
                > 0
                && shared > dropped
                && (!firm || shared * 10 >= old.core.len() * 4);
            // The old value itself is named, and another of its kind.
            let corrects = come && same_kind && common(&self.values, &old.rare) > 0;
            return alike
                || rejects
                || corrects
                || named
                || one_word
                || taken_back
                || changed
                || renamed
                || counts_again;
        }
        // The same said of the same thing with another value. Two values that both differ are of another thing.
        let one = |values: usize, names: usize| values + names == 1;
        let one_each = one(self.values.len(), self.proper.len()) && one(old.values.len(), old.proper.len());
        let all = self.words.len() + old.words.len() - shared;
        let again = gone && come && (same_values > 0 || one_each) && shared > 0 && shared * 10 >= all * 8;
        again || counts_again && (self.values.len() == 1 || same_values > 0)
    }

    /// Whether this one speaks about what an older one speaks about, and puts a value in the place of its value.
    pub(super) fn revalues(&self, old: &Self, topics: &Topics) -> bool {
        let different = |one: &[u32], other: &[u32]| {
            let same = common(one, other);
            one.len() > same && other.len() > same
        };
        let plain_numbers = |this: &Self| this.numbers as usize > this.units.len();
        let numbers = common(&self.units, &old.units) > 0 || plain_numbers(self) && plain_numbers(old);
        let kinds = self.kinds & old.kinds;
        let values =
            (kinds & NUMBER != 0 && numbers || kinds & !NUMBER != 0) && different(&self.values, &old.values);
        if !values && !different(&self.proper, &old.proper) {
            return false;
        }
        let tells = |words: &[u32]| -> u32 {
            let words = words.iter().filter(|word| self.units.binary_search(word).is_err());
            words.map(|word| topics.tenths(*word)).sum()
        };
        let shared: Vec<u32> =
            old.core.iter().copied().filter(|word| self.words.binary_search(word).is_ok()).collect();
        let shared = tells(&shared);
        let least = tells(&self.core).min(tells(&old.core));
        let enough = if self.cues.any(Cues::CHANGE) { (10, 4) } else { (20, 6) };
        shared >= enough.0 && shared * 10 >= least * enough.1
    }

    /// What it is about.
    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }

    /// Whether a third statement only repeats what this one said before a newer one took its place.
    pub(super) fn is_echoed_by(&self, other: &Self, newer: &Self) -> bool {
        let lost = |list: &[u32], new: &[u32], other: &[u32]| {
            list.iter().any(|value| new.binary_search(value).is_err() && other.binary_search(value).is_ok())
        };
        let value = lost(&self.values, &newer.values, &other.values);
        let name = lost(&self.proper, &newer.proper, &other.proper);
        let shared = common(&self.words, &other.words);
        (value || name) && shared >= 2 || value && shared >= 1 && common(&self.units, &other.units) > 0
    }

    /// Whether this one says that something open, or an error, is over.
    pub(super) fn settles(&self, open: &Self) -> bool {
        let done = self.cues.any(Cues::DONE);
        if !(done || self.cues.any(Cues::MADE)) || self.cues.any(Cues::STILL) || self.bits & open.bits == 0 {
            return false;
        }
        let shared = common(&self.words, &open.words);
        let all = open.words.len();
        if !done {
            return shared > 0
                && shared * 10 >= all * 7
                && common(&self.values, &open.values) == open.values.len();
        }
        shared >= 2 && shared * 2 >= all
            || shared >= 3 && shared * 10 >= all * 4
            || shared == 1 && all == 1 && self.words.len() <= 3
            || common(&self.codes, &open.codes) > 0
    }

    /// The values of this statement that another does not have, where they are unlikely to mean something else.
    pub(super) fn lost(&self, newer: &Self) -> Vec<u32> {
        self.rare.iter().copied().filter(|value| newer.values.binary_search(value).is_err()).collect()
    }

    /// Whether one of these values is in it.
    pub(super) fn has_any(&self, values: &[u32]) -> bool {
        values.iter().any(|value| self.values.binary_search(value).is_ok())
    }
}

/// Where a sentence says what is no longer so.
#[derive(Debug, Default)]
struct Rejections {
    /// Ends of words that it follows, and beginnings of those that follow it.
    behind: Vec<usize>,
    before: Vec<usize>,
}

impl Rejections {
    fn of(text: &str, cues: Cues) -> Self {
        const BEHIND: [&str; 8] = [
            "instead of ",
            "rather than ",
            " not ",
            "dropping ",
            "dropped ",
            "replaced ",
            "replace ",
            "no longer ",
        ];
        const BEFORE: [&str; 9] =
            ["ではなく", "じゃなく", "でなく", "をやめ", "はやめ", "の代わり", "に代わ", "は廃止", "から"];
        if !cues.any(Cues::CHANGE) {
            return Self::default();
        }
        let ends = |word: &&str| text.find(*word).map(|at| at + word.len());
        let behind = BEHIND.iter().filter_map(ends).collect();
        Self { behind, before: BEFORE.iter().filter_map(|word| text.find(*word)).collect() }
    }

    fn reject(&self, token: &Range<usize>) -> bool {
        // An article or a quotation mark may be between.
        const NEAR: usize = 5;
        self.before.contains(&token.end)
            || self.behind.iter().any(|at| (*at..=at + NEAR).contains(&token.start))
    }
}

/// A part of a sentence.
#[derive(Debug, Default)]
struct Clause {
    /// How many words and values there were before it.
    words: usize,
    values: usize,
}

impl Clause {
    /// It ends here; its words count if it has a value.
    fn close(&mut self, found: &mut Statement) {
        let values = found.values.len() + found.proper.len();
        if values > self.values {
            found.core.extend_from_slice(&found.words[self.words..]);
        }
        *self = Self { words: found.words.len(), values };
    }
}

/// What stands between clauses.
const CLAUSE_MARKS: [char; 7] = [',', ';', '、', '：', '(', '（', '—'];

/// Whether a word begins a clause.
fn is_joint(word: &str) -> bool {
    ["because", "since", "otherwise", "so", "which", "although", "while", "unless", "but", "as"]
        .contains(&word)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// How many units both count in.
fn both_units(one: &Statement, other: &Statement) -> usize {
    let in_both = one
        .units
        .iter()
        .filter(|unit| one.core.binary_search(unit).is_ok() && other.core.binary_search(unit).is_ok());
    in_both.count()
}

/// Whether what stands between two numbers makes them one date.
fn is_date(between: &str) -> bool {
    matches!(between, "年" | "月")
}

/// How many are in both; both are sorted.
fn common(one: &[u32], other: &[u32]) -> usize {
    let (mut at, mut behind, mut count) = (0, 0, 0);
    while let (Some(first), Some(second)) = (one.get(at), other.get(behind)) {
        count += usize::from(first == second);
        at += usize::from(first <= second);
        behind += usize::from(second <= first);
    }
    count
}

/// FNV-1a: the same in every run, so that the same history gives the same summary.
pub(super) fn hash(text: &str) -> u32 {
    short(long_hash(text))
}

/// The short form of a long hash.
pub(super) fn short(long: u64) -> u32 {
    (long ^ long >> 32) as u32
}

/// The same with 64 bits.
pub(super) fn long_hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
