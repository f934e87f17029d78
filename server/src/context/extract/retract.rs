//! Messages that take something back as a whole: the subject is named in one sentence, that it changed is said in
//! another, and what was said before stood in a message of the same subject. What sentences settle among themselves is
//! not looked at again.

use std::sync::Arc;

use super::cues::Cues;
use super::pool::Pool;
use super::relate::Puts;
use super::sections::Section;
use super::statement::Statement;
use super::topics::Topics;

/// Longer messages speak of several things.
pub(super) const LONGEST: usize = 1000;

/// How sure it must be that a statement is meant, in tenths of telling words: where somebody speaks of what was so before,
/// and where somebody only says that something is over or has changed.
const NAMED: u32 = 10;
const MEANT: u32 = 15;
/// What it adds to that if a value of the same sort is put in the place of the old one, or another.
const SAME_SORT: u32 = 8;
const OTHER: u32 = 3;
/// A message of so few words speaks of one thing.
const FEW: usize = 14;

impl Pool {
    /// A message was taken, of which this is all.
    pub(super) fn said_all(&mut self, text: &str, by_user: bool) {
        if text.len() > LONGEST {
            return;
        }
        let whole = Statement::of(text);
        if !self.has_changed
            && whole.cues.any(Cues::TURN | Cues::VOID | Cues::FORMER | Cues::CHANGED | Cues::HINT)
        {
            self.take_back(&whole, by_user);
        }
        let mut context: Vec<u32> = whole.words.iter().chain(&whole.proper).copied().collect();
        context.sort_unstable();
        context.dedup();
        self.set_context(&Arc::from(context));
    }

    /// Drops what a message most likely takes back: people change what they have said themselves.
    fn take_back(&mut self, whole: &Statement, by_user: bool) {
        let mut best: Option<(u32, u64, Section, u64)> = None;
        for section in Section::SAID {
            for (id, item) in self.items_before(section) {
                let Some(old) = item.statement.as_deref() else { continue };
                let may = if by_user { item.by_user } else { !old.cues.any(Cues::RULE) };
                if item.source != 0 || item.of_output || !may {
                    continue;
                }
                let context = item.context.as_deref().unwrap_or_default();
                let Some(fit) = whole.takes_back(old, context, by_user, &self.topics) else { continue };
                let found = (fit, item.order, section, id);
                if best.is_none_or(|best| found > best) {
                    best = Some(found);
                }
            }
        }
        if let Some((_, _, section, id)) = best {
            self.drop_untrue(&[(section, id)], whole, by_user);
        }
    }
}

impl Statement {
    /// How likely a message speaks of an older statement and says something else of it; none if it hardly does.
    fn takes_back(&self, old: &Self, context: &[u32], by_user: bool, topics: &Topics) -> Option<u32> {
        let over = self.cues.any(Cues::TURN | Cues::VOID | Cues::FORMER);
        let puts = self.puts(old);
        let may = match puts {
            Puts::Same => by_user || over,
            Puts::Other => by_user && (over || self.cues.any(Cues::SWAP)),
            Puts::Nothing => by_user && over,
        };
        if !may {
            return None;
        }
        let has = |list: &[u32], word: &u32| list.binary_search(word).is_ok();
        // What is counted says little, unless it is counted again.
        let counts = puts == Puts::Same;
        let spoken = |word: &&u32| {
            (has(&self.words, word) || has(&self.proper, word))
                && (counts || !has(&self.units, word) && !has(&old.units, word))
        };
        let tell =
            |words: &mut dyn Iterator<Item = &u32>| -> u32 { words.map(|word| topics.tenths(*word)).sum() };
        let own = tell(&mut old.words.iter().chain(&old.proper).filter(spoken));
        let around = |word: &&u32| !has(&old.words, word) && !has(&old.proper, word);
        let around = tell(&mut context.iter().filter(around).filter(spoken));
        let around = if context.len() <= FEW { around } else { around / 2 };
        let value = match puts {
            Puts::Same => SAME_SORT,
            Puts::Other => OTHER,
            Puts::Nothing => 0,
        };
        let least = if self.cues.any(Cues::FORMER | Cues::SWAP) { NAMED } else { MEANT };
        let fit = own + around + value;
        (own + around > 0 && fit >= least).then_some(fit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Extractor, Piece};
    use crate::model::{Role, TokenCounter};

    /// What is left of what a user says, message by message.
    fn told(said: &[&str]) -> String {
        let mut extractor = Extractor::new(2000, TokenCounter::Fitted);
        for (seq, text) in (1..).zip(said) {
            extractor.take(&Piece {
                seq,
                role: Role::User,
                text,
                calls: &[],
                tool_name: None,
                output_ref: None,
            });
        }
        extractor.finish().text
    }

    #[test]
    fn what_a_message_takes_back_is_gone() {
        for (old, new, gone, stays) in [
            (
                "Next topic, the greenhouse sensors. They report over Zigbee.",
                "I looked into the greenhouse sensors. LoRa it is, the former one is too weak in there.",
                "Zigbee",
                "LoRa",
            ),
            (
                "What about the harvest figures? I noted 310 crates.",
                "Correction from the barn. It is 275 crates, what I said before was a guess.",
                "310",
                "275",
            ),
            (
                "温室の暖房は灯油ボイラーで考えています。",
                "温室の暖房の件、見積もりが出ました。ヒートポンプにします。",
                "灯油",
                "ヒートポンプ",
            ),
            ("Run it with POOL_SIZE=12 for now.", "It crashed, so run it with POOL_SIZE=40.", "12", "40"),
        ] {
            let text = told(&["Help me plan the farm.", old, new]);
            assert!(!text.contains(gone) && text.contains(stays), "{text}");
        }
    }

    #[test]
    fn what_is_only_added_takes_nothing_back() {
        let (old, new) =
            ("The greenhouse sensors report over Zigbee.", "The greenhouse doors stay shut at night.");
        let text = told(&["Help me plan the farm.", old, "Great, keep going please.", new]);
        assert!(text.contains("Zigbee") && text.contains("shut at night"), "{text}");
    }
}
