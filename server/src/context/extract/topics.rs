//! How often words were said, so that two sentences that share a rare one are known to be about the same thing.

use std::collections::HashMap;

use super::scan::{Kind, tokens};
use super::statement::{Statement, hash};

/// Words that are remembered; then those said once are forgotten.
const MOST: usize = 1 << 14;

/// How often words were said, by their hashes.
#[derive(Debug, Default)]
pub(super) struct Topics(HashMap<u32, u32>);

impl Topics {
    /// Takes the words of a sentence.
    pub(super) fn count(&mut self, words: &[u32]) {
        for word in words {
            let count = self.0.entry(*word).or_default();
            *count = count.saturating_add(1);
        }
        while self.0.len() > MOST {
            self.0.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
        }
    }

    /// How much of a sentence hardly anybody else has said, in percent.
    pub(super) fn rare_in(&self, said: &Statement) -> u32 {
        let words = said.words.iter().chain(&said.proper);
        let (all, tenths) = words.fold((0, 0), |(all, tenths), word| (all + 1, tenths + self.tenths(*word)));
        10 * tenths / all.max(1)
    }

    /// How rare a word is, between 0 and 1.
    pub(super) fn rare(&self, word: u32) -> f64 {
        match self.0.get(&word).copied().unwrap_or_default() {
            0..=2 => 1.0,
            3..=4 => 0.75,
            5..=7 => 0.5,
            8..=14 => 0.25,
            _ => 0.1,
        }
    }

    /// How much a word tells of what a sentence is about, in tenths: all if hardly anybody else has said it.
    fn tenths(&self, word: u32) -> u32 {
        match self.0.get(&word).copied().unwrap_or_default() {
            0..=3 => 10,
            4..=6 => 5,
            7..=12 => 2,
            _ => 1,
        }
    }
}

/// How often words stood in what tools put out, roughly: what is in every log says little.
#[derive(Debug)]
pub(super) struct Shown(Box<[u8]>);

impl Default for Shown {
    fn default() -> Self {
        Self(vec![0; Self::PLACES].into_boxed_slice())
    }
}

impl Shown {
    const PLACES: usize = 1 << 14;
    /// A word that stood there so often is still rare.
    const RARE: u8 = 2;

    /// Takes a token of a line.
    pub(super) fn count(&mut self, kind: Kind, token: &str) {
        if let Some(place) = Self::place(kind, token) {
            self.0[place] = self.0[place].saturating_add(1);
        }
    }

    /// How many of the words of a line are rare, in percent.
    pub(super) fn rare(&self, line: &str) -> u32 {
        let (mut all, mut rare) = (0, 0);
        tokens(line, |kind, range| {
            if let Some(place) = Self::place(kind, &line[range]) {
                all += 1;
                rare += u32::from(self.0[place] <= Self::RARE);
            }
        });
        100 * rare / all.max(1)
    }

    fn place(kind: Kind, word: &str) -> Option<usize> {
        matches!(kind, Kind::Word | Kind::Run | Kind::Name).then(|| hash(word) as usize % Self::PLACES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_said_often_tell_less() {
        let mut topics = Topics::default();
        assert_eq!(topics.tenths(1), 10);
        (0..20).for_each(|_| topics.count(&[1]));
        assert_eq!((topics.tenths(1), topics.tenths(2)), (1, 10));
        (0..40_000).for_each(|word| topics.count(&[word]));
        assert!(topics.0.len() <= MOST);
    }
}
