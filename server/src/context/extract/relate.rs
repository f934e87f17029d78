//! How two sentences relate: whether the newer one takes the place of the older, settles it, or only repeats it.

use super::cues::Cues;
use super::statement::Statement;
use super::topics::Topics;
use super::values::{NO_UNIT, PATHS, URLS};

/// What a statement puts in the place of the values of an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Puts {
    Nothing,
    /// Values, but perhaps of something else.
    Other,
    /// A value of the same sort.
    Same,
}

/// What two statements are about, in tenths of telling words.
#[derive(Debug, Clone, Copy)]
struct Overlap {
    shared: u32,
    old_only: u32,
    new_only: u32,
}

impl Statement {
    /// Whether an older statement no longer holds, now that this one was made. `firm` is a rule of the user's, which
    /// goes only if this one is clearly about the same.
    pub(super) fn replaces(&self, old: &Self, firm: bool) -> bool {
        if self.bits & old.bits == 0 {
            return false;
        }
        if self.sets(old) {
            return true;
        }
        let shared = common(&old.words, &self.words);
        // Nearly all pairs end here.
        if shared == 0 && !self.cues.any(Cues::CHANGED) {
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
        let rest = |words: &[u32], others: &[u32]| {
            let is_rest = |word: &&u32| others.binary_search(word).is_err() && !self.units.contains(word);
            words.iter().filter(is_rest).count()
        };
        // Each has a word of its own: the soft limit, the hard limit.
        let contrast = rest(&self.core, &old.words) > 0 && rest(&old.core, &self.words) > 0;
        let counts_again = same_unit
            && (!contrast || self.cues.any(Cues::CHANGED))
            && about * 2 >= least
            && (about >= 2 || least <= 1 && about == 1);
        if self.cues.any(Cues::CHANGED) {
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
            let alike =
                alike && (bare || self.puts(old) != Puts::Nothing || self.cues.any(Cues::VOID | Cues::MOVED));
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
            // The same subject, of which something else is said in words.
            let again =
                bare && !old.subject.is_empty() && common(&old.subject, &self.words) == old.subject.len();
            return alike
                || again
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

    /// Whether a setting has another value now.
    pub(super) fn sets(&self, old: &Self) -> bool {
        let set = |(name, value): &(u32, u32)| {
            old.settings.iter().any(|(other, before)| other == name && before != value)
        };
        self.settings.iter().any(set)
    }

    /// Whether this one speaks about what an older one speaks about, and puts a value in the place of its value.
    pub(super) fn revalues(&self, old: &Self, topics: &Topics) -> bool {
        let puts = self.puts(old);
        if puts == Puts::Nothing {
            return false;
        }
        let Overlap { shared, old_only, new_only } = self.overlap(old, topics);
        if self.cues.any(Cues::CHANGED) {
            let covers = |rest: u32, least: u32| shared * 10 >= (shared + rest) * least;
            return shared >= 10
                && if puts == Puts::Same {
                    covers(old_only, 4) || covers(new_only, 5)
                } else {
                    covers(old_only, 6) || covers(new_only, 8)
                };
        }
        // Where both have words that the other has not, these may be what sets them apart: the soft limit, the hard limit.
        let apart = old_only > 0 && new_only > 0;
        puts == Puts::Same && !apart && shared >= 15 && shared >= old_only.max(new_only)
    }

    /// How well this one fits an older one, if it is known to take something back: the better the more of that one is
    /// spoken of. Nothing, if it can hardly be meant.
    pub(super) fn fits(&self, old: &Self, topics: &Topics) -> Option<u32> {
        const LEAST: u32 = 35;
        if self.bits & old.bits == 0 {
            return None;
        }
        let puts = self.puts(old);
        let bare = old.values.is_empty() && old.proper.is_empty();
        if puts == Puts::Nothing && !bare && !self.cues.any(Cues::VOID) {
            return None;
        }
        let Overlap { shared, old_only, new_only } = self.overlap(old, topics);
        let share = |rest: u32| 100 * shared / (shared + rest).max(1);
        let fit = share(old_only).max(share(new_only) * 2 / 3) + if puts == Puts::Same { 15 } else { 0 };
        (shared >= 10 && fit >= LEAST).then_some(fit * 100 + shared.min(99))
    }

    /// Whether a rule is lifted by this one.
    pub(super) fn lifts(&self, rule: &Self, topics: &Topics) -> bool {
        // "You can use at most 300 MB" allows nothing.
        let allows =
            self.cues.any(Cues::ALLOW) && self.numbers == 0 && rule.cues.any(Cues::RULE | Cues::WISH);
        if !allows && !self.cues.any(Cues::VOID) || self.bits & rule.bits == 0 {
            return false;
        }
        let Overlap { shared, old_only, .. } = self.overlap(rule, topics);
        let named = 10 * common(&self.proper, &rule.proper) as u32;
        let all = shared + named;
        shared >= 5 && all >= 15 && all * 10 >= (all + old_only) * 5
    }

    /// What this one puts in the place of the values of an older one.
    pub(super) fn puts(&self, old: &Self) -> Puts {
        let mut puts = Puts::Nothing;
        if self.answers
            && self.numbers > 0
            && old.numbers > 0
            && common(&self.values, &old.values) < old.values.len()
        {
            return Puts::Same;
        }
        for (sort, _) in self.sorts.iter().filter(|value| old.sorts.binary_search(value).is_err()) {
            let other =
                old.sorts.iter().any(|value| value.0 == *sort && self.sorts.binary_search(value).is_err());
            // Numbers that count nothing are the same sort if the same word leads to them.
            if other && (*sort != NO_UNIT || common(&self.near, &old.near) > 0) {
                return Puts::Same;
            }
            if other {
                puts = Puts::Other;
            }
        }
        let same = common(&self.proper, &old.proper);
        if self.proper.len() > same && old.proper.len() > same { Puts::Other } else { puts }
    }

    /// The sorts of values of which this one has others than an older one.
    pub(super) fn put<'a>(&'a self, old: &'a Self) -> impl Iterator<Item = u32> + 'a {
        let others = old.sorts.iter().filter(|value| self.sorts.binary_search(value).is_err());
        let sorts = others.map(|(sort, _)| *sort).filter(|sort| is_specific(*sort));
        sorts.filter(|sort| {
            self.sorts.iter().any(|value| value.0 == *sort && old.sorts.binary_search(value).is_err())
        })
    }

    /// How much of what they are about is the same, by what it tells.
    fn overlap(&self, old: &Self, topics: &Topics) -> Overlap {
        let tell = |words: &[u32], others: &[u32], both: bool| -> u32 {
            let counts = |word: &&u32| {
                others.binary_search(word).is_ok() == both
                    && self.units.binary_search(word).is_err()
                    && old.units.binary_search(word).is_err()
            };
            words.iter().filter(counts).map(|word| topics.tenths(*word)).sum()
        };
        // Of a sentence that says several things, only the one that is spoken of.
        let meant = old.facets.iter().find(|facet| {
            let other = |value: &&(u32, u32)| self.sorts.binary_search(value).is_err();
            let same_sort =
                |sort: u32| self.sorts.iter().any(|value| value.0 == sort && !facet.sorts.contains(value));
            facet.words.len() >= 2 && facet.sorts.iter().filter(other).any(|(sort, _)| same_sort(*sort))
        });
        let core = meant.map_or(&old.core, |facet| &facet.words);
        Overlap {
            shared: tell(core, &self.words, true),
            old_only: tell(core, &self.words, false),
            new_only: tell(&self.core, &old.words, false),
        }
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
        let rare = lost(&self.rare, &newer.values, &other.values);
        (value || name) && shared >= 2
            || value && shared >= 1 && (rare || common(&self.units, &other.units) > 0)
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

    /// The values of an older statement in whose place this one puts others of the same sort.
    pub(super) fn changes(&self, old: &Self) -> Vec<u32> {
        let others = old.sorts.iter().filter(|value| self.sorts.binary_search(value).is_err());
        let changed = others.filter(|(sort, _)| self.sorts.iter().any(|value| value.0 == *sort));
        changed.map(|(_, value)| *value).collect()
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

/// Whether values of a sort are likely to be said of the same thing: many a path may be named.
fn is_specific(sort: u32) -> bool {
    !matches!(sort, NO_UNIT | PATHS | URLS)
}

/// How many units both count in.
fn both_units(one: &Statement, other: &Statement) -> usize {
    let in_both = one
        .units
        .iter()
        .filter(|unit| one.core.binary_search(unit).is_ok() && other.core.binary_search(unit).is_ok());
    in_both.count()
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
