//! What a sentence speaks about and what it says of it: words, names, values with what they count.
//!
//! Words are compared by hashes of their stems; kanji by pairs.

use super::cues::Cues;
use super::scan::{Kind, tokens};
use super::values::{
    NO_UNIT, PERSON, SHARE, digits, is_date, is_month, is_thousands, is_title, person, sort, weekday,
    weekday_in, weekdays,
};
use super::words::{is_small, is_small_run, stem};

/// A sentence, taken apart. Words and values are hashes, sorted.
#[derive(Debug, Clone, Default)]
pub(super) struct Statement {
    pub(super) cues: Cues,
    /// What it speaks about.
    pub(super) words: Vec<u32>,
    /// Names of things: they are words too, but what is said rather than what it is said of.
    pub(super) proper: Vec<u32>,
    /// Numbers, ids, paths and quotations.
    pub(super) values: Vec<u32>,
    /// Of the values those that are unlikely to mean something else elsewhere.
    pub(super) rare: Vec<u32>,
    /// Of those the ids.
    pub(super) codes: Vec<u32>,
    /// The words and names of its first two tokens that have any.
    pub(super) lead: Vec<u32>,
    /// It is mostly of another script than Latin.
    pub(super) wide: bool,
    /// In Japanese, it says what it is about: there is a word before the first は.
    pub(super) has_topic: bool,
    /// The words right after numbers: rows, seconds.
    pub(super) units: Vec<u32>,
    /// The words right before numbers: port, limit.
    pub(super) near: Vec<u32>,
    /// What sort of value each of them is, and the value: numbers by what they count, ids by how they look.
    pub(super) sorts: Vec<(u32, u32)>,
    /// Settings by their names, and their values.
    pub(super) settings: Vec<(u32, u32)>,
    /// The kinds of values there are, as bits.
    pub(super) kinds: u8,
    /// One bit for each word, name and value, so that most pairs are told apart at once.
    pub(super) bits: u64,
    /// How many ids, names, paths and addresses there are.
    pub(super) names: u32,
    /// How many numbers.
    pub(super) numbers: u32,
}

/// The bits of numbers and of paths among the kinds of values.
const NUMBER: u8 = 1;
const PATH: u8 = 4;
/// So many tokens lead a sentence.
const LEAD: usize = 2;
/// More of them say no more.
const MOST: usize = 48;

impl Statement {
    pub(super) fn of(text: &str) -> Self {
        let mut found = Self { cues: Cues::of(text), ..Self::default() };
        let mut number = 0..0;
        let mut after_month = false;
        let mut end = 0;
        let mut unit_end = 0;
        let mut last = 0..0;
        let about = text.find('は');
        let mut passed = false;
        let mut leading = 0;
        // Latin letters among others are names.
        let foreign = text.bytes().filter(|byte| *byte >= 0x80).count() * 3 > text.len();
        found.wide = foreign;
        tokens(text, |kind, range| {
            if found.words.len() >= MOST || found.values.len() >= MOST {
                return;
            }
            // A date is one value, and so is 4,200.
            let between = text.get(number.end..range.start).unwrap_or_default();
            if kind == Kind::Number && number.end > 0 && is_thousands(between, &text[range.clone()]) {
                found.values.pop();
                found.sorts.pop();
                found.numbers = found.numbers.saturating_sub(1);
                number.end = range.end;
                end = range.end;
                found.take(kind, &text[number.clone()], false);
                return;
            }
            if kind == Kind::Number && number.end > 0 && is_date(between) {
                found.values.pop();
                found.sorts.pop();
                number.end = range.end;
                let date = hash(&text[number.clone()]);
                found.values.push(date);
                found.sorts.push((hash("month"), date));
                end = range.end;
                return;
            }
            let spelled = if kind == Kind::Word { digits(&text[range.clone()]) } else { None };
            if kind == Kind::Number || spelled.is_some() {
                number = range.clone();
            }
            if about.is_some_and(|about| range.start > about && !std::mem::replace(&mut passed, true)) {
                found.has_topic = !found.words.is_empty();
            }
            if number.end > 0 && number.end == end && matches!(kind, Kind::Word | Kind::Run) {
                found.unit(&text[number.end..range.end]);
                unit_end = range.end;
            } else if unit_end > 0 && unit_end == end && kind == Kind::Word {
                // 300 paying customers: what is counted may be the second word.
                found.unit_behind(&text[range.clone()]);
            }
            let is_set = found.assigns(&text[..range.start], end, kind);
            let name = last.clone();
            last = range.clone();
            if kind != Kind::Quoted {
                end = range.end;
            }
            // A name, unless it is only the first word.
            let capital = text[range.clone()].find(|c: char| c.is_ascii_uppercase());
            let is_name = foreign || capital.is_some_and(|at| range.start + at > 0);
            let named = if kind == Kind::Run {
                person(&text[range.clone()], &text[range.end..])
            } else {
                let titled = kind == Kind::Word && is_title(text.get(name.clone()).unwrap_or_default());
                titled.then(|| &text[range.clone()])
            };
            if let Some(who) = named {
                found.sorts.push((PERSON, hash(who)));
            }
            // Next Tuesday and April 4 are dates, whatever the month is.
            let month = kind == Kind::Word && is_month(&text[range.clone()]);
            let before = (found.words.len(), found.proper.len());
            match spelled {
                Some(digits) => {
                    found.near.extend(found.words.last());
                    found.values.push(hash(digits));
                    found.sorts.push((NO_UNIT, hash(digits)));
                }
                None => found.take(kind, &text[range], is_name && !month),
            }
            if let Some(value) = found.values.last().copied().filter(|_| is_set) {
                found.settings.push((hash(&text[name]), value));
            }
            let (words, proper) = (&found.words[before.0..], &found.proper[before.1..]);
            if leading < LEAD && words.len() + proper.len() > 0 {
                leading += 1;
                found.lead.extend(words.iter().chain(proper));
            }
            if kind == Kind::Number && std::mem::take(&mut after_month) {
                found.count(hash("month"));
            }
            after_month = month;
        });
        found.sorts.sort_unstable();
        found.sorts.dedup();
        let Self { words, proper, values, rare, codes, units, near, lead, .. } = &mut found;
        for list in [words, proper, values, rare, codes, units, near, lead] {
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
            Kind::Path => PATH,
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
                let sort = if digits.starts_with("0.") { SHARE } else { NO_UNIT };
                self.sorts.push((sort, hash(digits)));
                if digits.len() < token.len() {
                    let unit = &token[digits.len()..];
                    let is_day = ["st", "nd", "rd", "th"].contains(&unit);
                    self.count(hash(if is_day { "month" } else { unit }));
                }
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
                self.sorts.push((sort(kind, token), hash(token)));
                self.rare.push(hash(token));
                self.near.extend(self.words.last());
            }
            Kind::Name => {
                self.names += 1;
                self.words.push(hash(token));
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
            if is_month(word) {
                self.count(hash("month"));
            } else if !is_small(word) {
                self.count(stem(word));
            }
        } else if text.len() == word.len() {
            self.count(hash(&word[..first.len_utf8()]));
        }
    }

    /// The word behind the one that follows a number.
    fn unit_behind(&mut self, word: &str) {
        if let Some((_, value)) = self.sorts.last().copied().filter(|_| !is_small(word)) {
            self.sorts.push((stem(word), value));
        }
    }

    /// Whether what follows is the value of a setting: `name=`, and the name right before.
    fn assigns(&self, before: &str, end: usize, kind: Kind) -> bool {
        matches!(kind, Kind::Number | Kind::Id | Kind::Word)
            && before.len() == end + 1
            && end > 0
            && before.ends_with('=')
    }

    /// The last number counts these.
    fn count(&mut self, unit: u32) {
        self.units.push(unit);
        if let Some(last) = self.sorts.last_mut().filter(|(sort, _)| matches!(*sort, NO_UNIT | SHARE)) {
            last.0 = unit;
        }
    }

    fn word(&mut self, token: &str, proper: bool) {
        if let Some(day) = weekday(token) {
            self.day(day);
            return;
        }
        for part in token.split(['-', '/', '.', '_', ':']).filter(|part| part.len() >= 2) {
            if !is_small(part) {
                let list = if proper { &mut self.proper } else { &mut self.words };
                list.push(stem(part));
            }
        }
    }

    fn day(&mut self, day: u32) {
        self.values.push(day);
        self.sorts.push((weekdays(), day));
    }

    fn run(&mut self, run: &str) {
        if let Some(day) = weekday_in(run) {
            self.day(day);
        }
        let first = run.chars().next().unwrap_or_default();
        if !('\u{3400}'..='\u{9fff}').contains(&first) {
            // Long ones are often put together, and are spoken of by one half.
            const LONG: usize = 6;
            const HALF: usize = 4;
            let count = run.chars().count();
            if count >= LONG {
                let end = run.char_indices().nth(HALF).map_or(run.len(), |(at, _)| at);
                self.words.extend([hash(&run[..end]), hash(&run[end..])]);
            } else if count >= 2 {
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

    /// Whether it names what the next sentence of a message says is over.
    pub(super) fn is_over_by(&self, next: &Self) -> bool {
        next.cues.any(Cues::DONE) && !self.codes.is_empty() && next.codes.is_empty()
    }

    /// Whether it is an answer that says nothing of what it answers.
    pub(super) fn is_terse(&self, text: &str) -> bool {
        const LONGEST: usize = 60;
        const WORDS: usize = 2;
        let says = self.gives_a_value() || self.words.len() == 1;
        let words = self.words.len() - self.words.iter().filter(|word| self.units.contains(word)).count();
        says && words <= WORDS
            && !self.has_topic
            && self.weight() > 0
            && text.len() <= LONGEST
            && self.names <= 1
    }

    /// Whether it has a value or a name, or says what is to be.
    pub(super) fn gives_a_value(&self) -> bool {
        self.values.len() + self.proper.len() > 0 || self.cues.any(Cues::WISH | Cues::CHANGE)
    }

    /// Whether there are paths in it.
    pub(super) fn names_files(&self) -> bool {
        self.kinds & PATH != 0
    }

    /// How many words it has that say something.
    pub(super) fn weight(&self) -> usize {
        self.words.len() + self.proper.len() + self.values.len()
    }
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

/// How many are in both; both are sorted.
pub(super) fn common(one: &[u32], other: &[u32]) -> usize {
    let mut count = 0;
    both(one, other, |_| count += 1);
    count
}

/// Tells what is in both; both are sorted.
pub(super) fn both(one: &[u32], other: &[u32], mut tell: impl FnMut(&u32)) {
    let (mut at, mut behind) = (0, 0);
    while let (Some(first), Some(second)) = (one.get(at), other.get(behind)) {
        if first == second {
            tell(first);
        }
        at += usize::from(first <= second);
        behind += usize::from(second <= first);
    }
}
