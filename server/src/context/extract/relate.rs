//! How two sentences relate: whether the newer one settles what is open, and what of an older one that no longer holds is still
//! true, or only repeated elsewhere.

use super::cues::Cues;
use super::statement::{Statement, common};

impl Statement {
    /// Whether a setting has another value now.
    pub(super) fn sets(&self, old: &Self) -> bool {
        let set = |(name, value): &(u32, u32)| {
            old.settings.iter().any(|(other, before)| other == name && before != value)
        };
        self.settings.iter().any(set)
    }

    /// Whether each has a word or a name that the other has not, beside what is counted: the soft limit, the hard limit.
    pub(super) fn contrasts(&self, old: &Self) -> bool {
        let own = |one: &Self, other: &Self| {
            let mut words = one.words.iter().chain(&one.proper);
            words.any(|word| {
                ![&other.words, &other.proper, &one.units].iter().any(|list| list.binary_search(word).is_ok())
            })
        };
        own(self, old) && own(old, self)
    }

    /// Whether each has two values or names and more that the other has not: of another thing another value.
    pub(super) fn differs(&self, old: &Self) -> bool {
        let same = common(&self.values, &old.values) + common(&self.proper, &old.proper);
        let all = |said: &Self| said.values.len() + said.proper.len();
        all(self) >= same + 2 && all(old) >= same + 2
    }

    /// Whether another statement says the same, or nearly so.
    pub(super) fn is_repeated_by(&self, other: &Self) -> bool {
        let most = self.words.len().max(other.words.len());
        self.values == other.values && common(&self.words, &other.words) * 10 >= most * 8
            || !self.rare.is_empty() && common(&self.rare, &other.rare) == self.rare.len()
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
        // "it's etl-05 now, etl-02 is retired" names both.
        let is_new = |value: &(u32, u32)| old.sorts.binary_search(value).is_err();
        let changed = old
            .sorts
            .iter()
            .filter(|(sort, _)| self.sorts.iter().any(|value| value.0 == *sort && is_new(value)));
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
