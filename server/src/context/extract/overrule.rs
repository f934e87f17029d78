//! How likely a newer sentence takes the place of an older statement. Nothing of it is a rule: what speaks for it and what
//! against it is added up, and the statement with the highest sum is meant, if that is above zero.
//!
//! The weights, in hundredths, are those of a logistic regression over pairs of sentences of which is known whether the
//! older one still held at the end. Each was checked on conversations that it was not fitted to.

use super::cues::Cues;
use super::relate::{Puts, common};
use super::statement::Statement;
use super::topics::Topics;

/// A sentence that may change something.
#[derive(Debug)]
pub(super) struct Newer<'a> {
    pub(super) said: &'a Statement,
    /// With the sentences around it.
    pub(super) around: &'a Statement,
    /// Its words and names.
    pub(super) names: &'a [u32],
    /// Those of the sentences around it too, and of the message before, if this one says little by itself.
    pub(super) spoken: &'a [u32],
    pub(super) by_user: bool,
    /// Its message begins by agreeing to what was said before, or by refusing it.
    pub(super) agrees: bool,
    pub(super) refuses: bool,
    /// Its message has made something untrue already.
    pub(super) has_changed: bool,
    pub(super) turn: u64,
}

/// A statement that may no longer hold.
#[derive(Debug)]
pub(super) struct Older<'a> {
    pub(super) said: &'a Statement,
    /// The words of its message.
    pub(super) context: &'a [u32],
    pub(super) by_user: bool,
    pub(super) asks: bool,
    /// A rule, and what it is all for.
    pub(super) firm: bool,
    pub(super) goal: bool,
    /// The user has agreed to it.
    pub(super) accepted: bool,
    /// No newer one has a value of a sort that the newer sentence has.
    pub(super) latest: bool,
    pub(super) turn: u64,
}

/// Less than half a telling word in common is nothing in common, and a whole one around them is something.
const LITTLE: i32 = 5;
const SOME: i32 = 10;
/// More common words say no more.
const MOST: i32 = 40;
/// What was said so few turns ago is still being talked about, and what so few ago is remembered.
const NEAR: u64 = 2;
const NEARBY: u64 = 4;
const RECENT: u64 = 8;
/// So many words say something.
const LEAST_WORDS: usize = 3;
/// More words are not harder to take back.
const LONGEST: usize = 24;
/// What has to be overcome: nearly everything that is said holds.
const BASE: i32 = -290;

impl Newer<'_> {
    /// How sure it is that this one takes the place of an older statement; none if nothing speaks for it.
    pub(super) fn overrules(&self, old: &Older<'_>, topics: &Topics) -> Option<i32> {
        let (new, said) = (self.said, old.said);
        let turns = self.turn.saturating_sub(old.turn);
        let near = turns <= NEAR;
        let (own, around) = self.shared(old, topics);
        let known = |word: &u32| has(&said.words, word) || has(&said.proper, word) || has(old.context, word);
        let foreign = !new.head.is_empty() && !new.head.iter().any(known);
        // Who names something else speaks of that.
        if own < LITTLE && foreign {
            return None;
        }
        let puts = new.puts(said);
        let is_linked = own >= LITTLE
            || around >= SOME
            || new.put(said).next().is_some()
            || turns <= NEARBY && puts != Puts::Same && new.is_kin(said)
            || near && new.weight() >= LEAST_WORDS;
        if !is_linked {
            return None;
        }
        let cues = new.cues | self.around.cues;
        let changed = cues.any(Cues::CHANGED | Cues::REVISED);
        let swapped = cues.any(Cues::FORMER | Cues::SWAP);
        let cue = changed || swapped || cues.any(Cues::TURN | Cues::VOID);
        let same = puts == Puts::Same;
        let bare = said.values.is_empty() && said.proper.is_empty();
        let named = common(&self.around.values, &said.values) + common(&self.around.proper, &said.proper) > 0;
        let tentative = old.asks || said.cues.any(Cues::TENTATIVE);
        // Both name something of which the other does not speak: the soft limit, the hard limit.
        let contrast =
            new.head.iter().any(|word| !known(word)) && said.head.iter().any(|word| !has(self.spoken, word));
        let of_head = new.head.iter().filter(|word| known(word)).count();
        let same_head = of_head * 2 >= new.head.len() && of_head > 0 && !contrast;

        let mut sum = BASE;
        let mut weigh = |holds: bool, weight: i32| sum += if holds { weight } else { 0 };
        // Who says it to whom.
        weigh(self.by_user && old.by_user, 148);
        weigh(self.by_user && !old.by_user, 67);
        weigh(!self.by_user && old.by_user, 21);
        weigh(near, 36);
        weigh(turns <= RECENT, 72);
        // What the newer one says of a change.
        weigh(changed, 54);
        weigh(swapped, 105);
        weigh(cues.any(Cues::TURN), 36);
        weigh(cues.any(Cues::VOID), 20);
        weigh(cues.any(Cues::DRAWBACK | Cues::LEFT | Cues::HINT), 78);
        // Who is not there any more was spoken of before.
        weigh(new.cues.any(Cues::LEFT) && own >= SOME, 120);
        weigh(cues.any(Cues::NEWS), 97);
        weigh(self.refuses && near, 101);
        weigh(self.refuses && near && self.by_user != old.by_user, 66);
        weigh(self.agrees, -81);
        weigh(self.has_changed, -204);
        weigh(new.cues.any(Cues::TENTATIVE), -82);
        weigh(new.cues.any(Cues::RULE), -69);
        // How firmly the older one was said.
        weigh(tentative, 118);
        weigh(old.asks, -85);
        weigh(said.cues.any(Cues::PLAN | Cues::DECISION), 24);
        weigh(said.cues.any(Cues::MADE | Cues::DONE), -69);
        weigh(old.firm, -20);
        weigh(old.goal, -173);
        weigh(old.accepted, -43);
        // What is put in the place of what.
        weigh(bare, -59);
        weigh(!bare && puts == Puts::Nothing, -56);
        weigh(named, 61);
        weigh(same && cue, 92);
        weigh(same && tentative, 50);
        weigh(old.latest && near, 90);
        weigh(old.latest && self.by_user && old.by_user, 76);
        // Whether they speak of the same thing.
        weigh(foreign, 19);
        weigh(contrast, -38);
        weigh(same_head && cue, 60);
        let when = |holds: bool, weight: i32| if holds { weight } else { 0 };
        let per_word = 67 + when(near, 13) + when(cue, 13) + when(tentative, 33) - when(same, 32);
        let per_around = 26 - when(near, 35) + when(tentative, 31);
        let (counted, half) = (own.min(MOST), own.min(MOST) / 2);
        sum += counted * per_word / 10 + around.min(MOST) * per_around / 10;
        let is_said = |word: &&u32| has(&said.words, word) || has(&said.proper, word);
        let old_words = said.words.iter().chain(&said.proper);
        let old_only = tell(old_words.filter(|word| !has(self.names, word)), topics);
        let new_only = tell(self.names.iter().filter(|word| !is_said(word)), topics);
        sum += 58 * own / (own + old_only).max(LITTLE) - 156 * half / (half + new_only).max(LITTLE);
        sum -= 15 * i32::try_from(said.weight().min(LONGEST)).unwrap_or_default();
        (sum > 0).then_some(sum)
    }

    /// How much they have in common, and how much what stands around them, in tenths of telling words.
    fn shared(&self, old: &Older<'_>, topics: &Topics) -> (i32, i32) {
        let said = old.said;
        let (mut own, mut around) = (0, 0);
        for words in [&said.words, &said.proper] {
            both(words, self.spoken, |word| {
                // That both count seconds says little.
                let is_unit = has(&self.said.units, word) || has(&said.units, word);
                let tenths = tell(std::iter::once(word), topics);
                if has(self.names, word) {
                    own += tenths * if is_unit { 3 } else { 10 } / 10;
                } else {
                    around += tenths;
                }
            });
        }
        both(old.context, self.spoken, |word| {
            if !has(&said.words, word) && !has(&said.proper, word) {
                around += tell(std::iter::once(word), topics) / 2;
            }
        });
        (own, around)
    }
}

/// How much words tell, in tenths.
fn tell<'a>(words: impl Iterator<Item = &'a u32>, topics: &Topics) -> i32 {
    words.map(|word| i32::try_from(topics.tenths(*word)).unwrap_or_default()).sum()
}

/// Tells what is in both; both are sorted.
fn both<'a>(one: &'a [u32], other: &[u32], mut found: impl FnMut(&'a u32)) {
    let mut rest = other.iter().peekable();
    for word in one {
        while rest.next_if(|other| *other < word).is_some() {}
        if rest.peek() == Some(&word) {
            found(word);
        }
    }
}

fn has(words: &[u32], word: &u32) -> bool {
    words.binary_search(word).is_ok()
}
