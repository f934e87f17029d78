//! How likely a remark takes the place of a statement that was made before. Nothing of it is a rule: what speaks for it and
//! what against it is counted, weighed ([`SIGNS`]) and added up. All that was said before competes for
//! what a remark means, and so does that it means nothing of it.
//!
//! The weights are fitted to conversations of which is known what held at the end: `tests/tools/fit_overrule.rs`.

use super::common::telling;
use super::cues::Cues;
use super::signs::Signs;
use super::statement::{Statement, both, common};
use super::topics::Topics;
use super::values::{NO_UNIT, PATHS, URLS};
use super::weights::SIGNS;

/// What was counted of one pair, in the order of [`SIGNS`].
pub type Counts = [f64; SIGNS.len()];

/// A message, or of a long one a sentence with those around it.
#[derive(Debug)]
pub(super) struct Remark<'a> {
    sentences: &'a [&'a Statement],
    /// The signs of each.
    signs_of: &'a [Signs],
    /// Words, names, values and so on of all of them, sorted.
    words: Vec<u32>,
    proper: Vec<u32>,
    values: Vec<u32>,
    units: Vec<u32>,
    near: Vec<u32>,
    sorts: Vec<(u32, u32)>,
    kinds: u8,
    bits: u64,
    signs: Signs,
    /// It is somebody else's text, or a table.
    quoted: bool,
    /// Sentences of its message.
    of: usize,
    when: When,
}

/// Who said something, and when.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct When {
    pub(super) by_user: bool,
    /// Counts what the user has said.
    pub(super) turn: u64,
    /// Counts what anybody has said.
    pub(super) message: u64,
}

/// A statement that may no longer hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Older<'a> {
    pub(super) said: &'a Statement,
    pub(super) signs: Signs,
    pub(super) asks: bool,
    pub(super) when: When,
}

/// How much of what an older statement speaks about a remark speaks about too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared {
    own: f64,
    has_value: bool,
    puts: Puts,
}

/// Which values a remark has in the place of those of an older statement.
#[derive(Debug, Clone, Copy, Default)]
struct Puts {
    same_sort: bool,
    path: bool,
    number: bool,
    /// Behind the same word.
    near: bool,
}

/// What others share of which a remark has so much in common with the best of them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Others {
    best: f64,
    alike: f64,
}

/// Less than this of a telling word in common is nothing in common.
const LITTLE: f64 = 0.3;
/// Of a word that both only count by, and of a number that may mean anything.
const UNIT: f64 = 0.4;
const PLAIN_VALUE: f64 = 0.4;
/// What was said so few messages ago is still being talked about.
const NEAR: u64 = 3;

impl<'a> Remark<'a> {
    pub(super) fn new(
        sentences: &'a [&'a Statement],
        signs_of: &'a [Signs],
        quoted: bool,
        of: usize,
        when: When,
    ) -> Self {
        let all = |list: fn(&Statement) -> &[u32]| {
            let mut all: Vec<u32> = sentences.iter().flat_map(|said| list(said)).copied().collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let mut sorts: Vec<(u32, u32)> = sentences.iter().flat_map(|said| &said.sorts).copied().collect();
        sorts.sort_unstable();
        sorts.dedup();
        let mut words = all(|said| &said.words);
        let proper = all(|said| &said.proper);
        words.extend(&proper);
        words.sort_unstable();
        words.dedup();
        Self {
            words,
            proper,
            values: all(|said| &said.values),
            units: all(|said| &said.units),
            near: all(|said| &said.near),
            sorts,
            kinds: sentences.iter().fold(0, |kinds, said| kinds | said.kinds),
            bits: sentences.iter().fold(0, |bits, said| bits | said.bits),
            sentences,
            signs: signs_of.iter().fold(Signs::default(), |all, signs| all.with(*signs)),
            signs_of,
            quoted,
            of,
            when,
        }
    }

    /// Whether it says by itself that something changed.
    pub(super) fn changes(&self) -> bool {
        self.signs.any(Signs::CHANGE)
    }

    /// Whether it says that something is not to be as it was said.
    pub(super) fn takes_back(&self) -> bool {
        self.signs.any(Signs::CORRECTED.with(Signs::VOID).with(Signs::RELEASED).with(Signs::SWAPPED))
    }

    /// Whether it says that something changed, or how things are to be.
    pub(super) fn is_meant(&self) -> bool {
        self.signs
            .any(Signs::CHANGE.with(Signs::NOW).with(Signs::RULE).with(Signs::DECIDED).with(Signs::STATED))
    }

    /// Whether the user says no to what the model has just proposed or decided.
    pub(super) fn refuses(&self, old: &Older<'_>) -> bool {
        let no =
            Signs::REFUSES.with(Signs::NEGATED).with(Signs::FAILED).with(Signs::CORRECTED).with(Signs::VOID);
        self.when.by_user
            && !old.when.by_user
            && self.when.message == old.when.message + 1
            && self.signs.any(no)
            && !self.signs.any(Signs::AGREES)
            && (old.signs.any(Signs::TENTATIVE.with(Signs::DECIDED))
                || old.said.cues.any(Cues::DECISION | Cues::PLAN))
    }

    /// Whether both forbid something, and this one does not say that anything changed: then both hold.
    fn forbids_too(&self, old: &Older<'_>) -> bool {
        let forbids = |signs: Signs| signs.any(Signs::RULE) && signs.any(Signs::NEGATED);
        // "Never change a", "never change b": what is forbidden is no sign of a change.
        let signs = self.signs.without(old.signs);
        forbids(old.signs) && forbids(self.signs) && !signs.any(Signs::CHANGE.with(Signs::NOW))
    }

    /// What it has in common with an older statement; none if that can hardly be meant.
    pub(super) fn shares(&self, old: &Older<'_>, topics: &Topics) -> Option<Shared> {
        if self.forbids_too(old) {
            return None;
        }
        let is_near = self.when.message - old.when.message <= NEAR;
        let changes = self.changes();
        if self.bits & old.said.bits == 0 && !is_near && !changes {
            return None;
        }
        let puts = self.puts(old.said);
        let mut own = 0.0;
        for words in [&old.said.words, &old.said.proper] {
            both(words, &self.words, |word| {
                let counted =
                    self.units.binary_search(word).is_ok() && old.said.units.binary_search(word).is_ok();
                own += tell(*word, topics) * if counted { UNIT } else { 1.0 };
            });
        }
        let mut has_value = false;
        both(&old.said.values, &self.values, |value| {
            has_value = true;
            own += value_of(old.said, *value);
        });
        (own >= LITTLE || has_value || is_near || changes && puts.same_sort).then_some(Shared {
            own,
            has_value,
            puts,
        })
    }

    fn puts(&self, old: &Statement) -> Puts {
        let mut puts = Puts::default();
        for (sort, _) in self.sorts.iter().filter(|value| old.sorts.binary_search(value).is_err()) {
            let gone = |value: &&(u32, u32)| value.0 == *sort && self.sorts.binary_search(value).is_err();
            if !old.sorts.iter().any(|value| gone(&value)) {
                continue;
            }
            match *sort {
                NO_UNIT => puts.number = true,
                PATHS | URLS => puts.path = true,
                _ => puts.same_sort = true,
            }
        }
        puts.near = puts.number && common(&self.near, &old.near) > 0;
        puts
    }

    /// Which of its sentences has most in common with an older statement; the last, if none has anything.
    pub(super) fn sentence(&self, old: &Older<'_>, topics: &Topics) -> usize {
        let said = old.said;
        let mut best = (self.sentences.len().saturating_sub(1), 0.0);
        for (at, sentence) in self.sentences.iter().enumerate() {
            let mut in_both = 0.0;
            for words in [&sentence.words, &sentence.proper] {
                for others in [&said.words, &said.proper] {
                    both(words, others, |word| in_both += tell(*word, topics));
                }
            }
            both(&sentence.values, &said.values, |value| in_both += value_of(said, *value));
            if in_both > best.1 {
                best = (at, in_both);
            }
        }
        best.0
    }

    /// Counts what speaks for it that this one takes the place of an older statement, and what against it.
    pub(super) fn weigh(&self, old: &Older<'_>, shared: &Shared, others: &Others, topics: &Topics) -> Counts {
        let Shared { own, has_value, puts } = *shared;
        let said = old.said;
        let is = |holds: bool| if holds { 1.0 } else { 0.0 };
        let sign = |sign: Signs| is(self.signs.any(sign));
        let old_sign = |sign: Signs| is(old.signs.any(sign));

        let all_words = |said: &Statement| -> f64 {
            said.words.iter().chain(&said.proper).map(|word| tell(*word, topics)).sum()
        };
        let of_old = all_words(said) + said.values.iter().map(|value| value_of(said, *value)).sum::<f64>();
        let share_of_old = own / (of_old + 0.3);
        let (mut share_of_new, mut rest_of_new, mut most) = (0.0, 0.0, 0.0);
        let (mut contrast, mut several) = (0.0, 0.0);
        let (mut lead, mut alike, mut sharing) = (0.0_f64, 0.0_f64, Signs::default());
        for (sentence, signs) in self.sentences.iter().zip(self.signs_of) {
            for others in [&said.words, &said.proper] {
                both(&sentence.lead, others, |word| lead = lead.max(tell(*word, topics)));
            }
            both(&sentence.lead, &said.lead, |word| alike = alike.max(tell(*word, topics)));
            let mut in_both = 0.0;
            for words in [&sentence.words, &sentence.proper] {
                for others in [&said.words, &said.proper] {
                    both(words, others, |word| in_both += tell(*word, topics));
                }
            }
            if in_both > most {
                (most, sharing) = (in_both, *signs);
            }
            let all = all_words(sentence);
            if in_both / (all + 0.5) > share_of_new {
                (share_of_new, rest_of_new) = (in_both / (all + 0.5), all - in_both);
                (contrast, several) = (is(sentence.contrasts(said)), is(sentence.differs(said)));
            }
        }
        let apart = (of_old - own).max(0.0).min(rest_of_new).min(1.5);
        let same_names = common(&self.proper, &said.proper);
        let other_name = is(self.proper.len() > same_names && said.proper.len() > same_names);
        let bare = is(said.values.is_empty() && said.proper.is_empty());
        let empty = is(self.values.is_empty() && self.proper.is_empty());
        let withdraws =
            is(self.signs.any(Signs::CORRECTED.with(Signs::VOID).with(Signs::OVER).with(Signs::RELEASED)));
        let same_sort = is(puts.same_sort || puts.path || puts.near);
        let change = sign(Signs::CHANGE);
        let messages = self.when.message - old.when.message;
        let turns = self.when.turn - old.when.turn;
        let (near, next) = (is(messages <= NEAR), is(messages <= 2));
        let (by_user, of_user) = (self.when.by_user, old.when.by_user);
        let by_other = is(by_user != of_user);
        let tentative = is(old.signs.any(Signs::TENTATIVE));
        let for_now = old_sign(Signs::FOR_NOW);
        let length = |count: usize, most: usize| count.min(most) as f64 / 10.0;
        [
            1.0,
            own.min(4.0),
            own.min(1.0),
            share_of_old,
            share_of_new,
            share_of_old * share_of_new,
            is(has_value),
            is(puts.same_sort),
            is(puts.path),
            is(puts.number),
            is(puts.near),
            other_name,
            is(self.kinds & said.kinds != 0),
            bare,
            apart,
            is(own >= others.best),
            own - others.best,
            others.alike.max(1.0).ln(),
            is(by_user && of_user),
            is(by_user && !of_user),
            is(!by_user && of_user),
            is(messages == 1),
            near,
            is(turns <= 4),
            (turns as f64).ln_1p(),
            is(old.when.turn <= 1),
            length(said.weight(), 25),
            length(self.words.len(), 40),
            length(self.of, 20),
            is(self.quoted),
            sign(Signs::CORRECTED),
            sign(Signs::VOID),
            sign(Signs::OVER),
            sign(Signs::RELEASED),
            sign(Signs::SWAPPED),
            sign(Signs::NOW),
            sign(Signs::REVALUED),
            sign(Signs::FAILED),
            sign(Signs::FORMER),
            sign(Signs::NEWS),
            sign(Signs::NEGATED),
            sign(Signs::AGREES),
            sign(Signs::REFUSES),
            old_sign(Signs::DECIDED),
            old_sign(Signs::DONE),
            old_sign(Signs::STATED),
            is(old.asks),
            old_sign(Signs::RULE),
            for_now,
            tentative,
            change,
            change * own.min(2.0),
            change * share_of_old,
            change * share_of_new,
            change * bare,
            change * other_name,
            change * is(has_value),
            change * apart,
            same_sort * own.min(2.0),
            same_sort * share_of_old,
            same_sort * share_of_new,
            same_sort * share_of_old * share_of_new,
            same_sort * apart,
            near * is(self
                .signs
                .any(Signs::CORRECTED.with(Signs::VOID).with(Signs::OVER).with(Signs::SWAPPED))),
            near * tentative.max(is(old.asks)),
            near * sign(Signs::FAILED),
            next * sign(Signs::NEGATED),
            next * sign(Signs::AGREES) * by_other,
            next * sign(Signs::REFUSES) * by_other,
            for_now * own.min(2.0),
            for_now * is(self.signs.any(Signs::OVER.with(Signs::RELEASED))),
            old_sign(Signs::RULE) * sign(Signs::RELEASED),
            tentative * sign(Signs::FAILED),
            tentative * is(self.signs.any(Signs::CORRECTED.with(Signs::VOID))),
            lead,
            alike,
            most.min(1.0) * is(sharing.any(Signs::CHANGE)),
            most.min(1.0) * is(sharing.any(Signs::CORRECTED.with(Signs::VOID))),
            most.min(1.0) * is(sharing.any(Signs::OVER.with(Signs::RELEASED))),
            most.min(1.0) * is(sharing.any(Signs::SWAPPED)),
            most.min(1.0) * is(sharing.any(Signs::REVALUED)),
            most.min(1.0) * is(sharing.any(Signs::FAILED)),
            most.min(1.0) * is(sharing.any(Signs::NEGATED)),
            most.min(1.0) * is(sharing.any(Signs::NOW)),
            is(said.wide),
            is(said.wide) * own.min(4.0),
            is(said.wide) * share_of_old,
            is(said.wide) * share_of_new,
            is(said.wide) * change,
            is(self.sentences.iter().any(|sentence| sentence.sets(said))),
            contrast,
            contrast * change,
            contrast * same_sort,
            contrast * share_of_old * share_of_new,
            several,
            several * same_sort,
            several * change,
            is(sharing.any(Signs::ASKS)),
            empty,
            empty * (1.0 - bare),
            empty * (1.0 - bare) * (1.0 - withdraws),
            empty * (1.0 - bare) * is(!by_user && of_user),
            is(!by_user && of_user) * change,
            is(!by_user && of_user) * withdraws,
            said.values.len().min(4) as f64,
        ]
    }
}

impl Others {
    /// Of all that share something.
    pub(super) fn of<'a>(all: impl Iterator<Item = &'a Shared> + Clone) -> Self {
        const ALIKE: f64 = 0.6;
        let best = all.clone().fold(0.0_f64, |best, shared| best.max(shared.own));
        Self { best, alike: all.filter(|shared| shared.own >= ALIKE * best).count() as f64 }
    }
}

/// How sure it is, on a scale without ends.
pub(super) fn sum(counts: &Counts) -> f64 {
    counts.iter().zip(&SIGNS).map(|(count, (_, weight))| count * weight).sum()
}

/// How likely it must be that a statement is meant.
pub const LEAST: f64 = 0.45;

/// The same of what the model has just proposed, when the user says no.
pub(super) const LEAST_OF_REFUSED: f64 = 0.12;

/// Which of these statements is likelier than that another one is meant, or nothing; the newest come first. What only repeats the
/// likeliest speaks for it.
pub(super) fn likeliest(sums: &[(f64, &Statement)], least: f64) -> Option<usize> {
    let newer_wins =
        |(one, other): &(usize, usize)| sums[*one].0.total_cmp(&sums[*other].0).then(other.cmp(one));
    let best = (0..sums.len()).max_by(|one, other| newer_wins(&(*one, *other)))?;
    let said = sums[best].1;
    let all: f64 = sums.iter().map(|(sum, _)| sum.exp()).sum();
    let meant: f64 =
        sums.iter().filter(|(_, other)| said.is_repeated_by(other)).map(|(sum, _)| sum.exp()).sum();
    (meant / (1.0 + all) > least).then_some(best)
}

/// How much a word tells of what is spoken about: little if many say it, and if it was said over and over here.
fn tell(word: u32, topics: &Topics) -> f64 {
    (telling(word) * topics.rare(word)).max(0.02)
}

fn value_of(said: &Statement, value: u32) -> f64 {
    if said.rare.binary_search(&value).is_ok() { 1.0 } else { PLAIN_VALUE }
}
