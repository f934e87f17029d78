//! Messages that take something back as a whole: the subject is named in one sentence, that it changed is said in
//! another, and what was said before stood in a message of the same subject. What sentences settle among themselves is
//! not looked at again.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::cues::Cues;
use super::pool::{Item, Pool};
use super::relate::Puts;
use super::sections::Section;
use super::statement::Statement;
use super::topics::Topics;

/// Longer messages speak of several things, and so do those of more sentences.
const LONGEST: usize = 1000;
const FEW_SENTENCES: usize = 3;
/// Longer ones are documents.
pub(super) const LONGEST_OF_PARTS: usize = 8000;

/// What shows that something may be taken back.
const STRONG: Cues =
    Cues::all(&[Cues::TURN, Cues::VOID, Cues::FORMER, Cues::DRAWBACK, Cues::LEFT, Cues::REVISED]);

/// How sure it must be that a statement is meant, in tenths of telling words: where somebody speaks of what was so before,
/// and where somebody only says that something is over or has changed.
const NAMED: u32 = 10;
const MEANT: u32 = 15;
/// What it adds to that if a value of the same sort is put in the place of the old one, or another.
const SAME_SORT: u32 = 8;
const OTHER: u32 = 3;
/// And if no other statement has a value of that sort.
const ALONE: u32 = 7;
/// By how much a statement with a value of the same sort goes before others.
const VALUED: u32 = 12;
/// If it says that what was put forward does not do.
const FAILS: u32 = 5;
/// How much surer it must be of what somebody else has said.
const OF_OTHERS: u32 = 8;
/// So many words say something.
const LEAST_WORDS: usize = 2;
/// A message of so few words speaks of one thing.
const FEW: usize = 14;

impl Pool {
    /// A message was taken, of which this is all, and its sentences.
    pub(super) fn said_all(&mut self, text: &str, sentences: &[(Range<usize>, Statement)], by_user: bool) {
        if sentences.len() <= FEW_SENTENCES && text.len() <= LONGEST {
            let whole = Statement::of(text);
            self.told(&Told { whole: &whole, sentences, by_user });
        } else {
            // Of one that says several things, what stands around each change.
            for (at, (_, said)) in sentences.iter().enumerate().filter(|(_, (_, said))| said.cues.any(STRONG))
            {
                let (start, end) = (at.saturating_sub(1), (at + 2).min(sentences.len()));
                let around = &sentences[start..end];
                let place = around[0].0.start..around[around.len() - 1].0.end;
                let whole = text.get(place).filter(|text| text.len() <= LONGEST).map(Statement::of);
                self.told(&Told { whole: whole.as_ref().unwrap_or(said), sentences: around, by_user });
            }
        }
        if text.len() <= LONGEST {
            let words = sentences.iter().flat_map(|(_, said)| said.words.iter().chain(&said.proper));
            let mut context: Vec<u32> = words.copied().collect();
            context.sort_unstable();
            context.dedup();
            self.set_context(&Arc::from(context));
        }
    }

    fn told(&mut self, told: &Told<'_>) {
        if !self.has_changed && told.whole.cues.any(STRONG | Cues::CHANGED | Cues::HINT) {
            self.take_back(told);
        }
    }

    /// Drops what a message most likely takes back: people change what they have said themselves.
    fn take_back(&mut self, told: &Told<'_>) {
        let mut best: Option<(u32, u64, Section, u64)> = None;
        let sorts = self.sorts_before(told);
        for section in Section::SAID {
            for (id, item) in self.items_before(section) {
                let Some(old) = item.statement.as_deref().filter(|old| told.may_change(item, old)) else {
                    continue;
                };
                let context = item.context.as_deref().unwrap_or_default();
                let alone = told.whole.put(old).any(|sort| sorts.get(&sort) == Some(&1))
                    && told.is_about(old, context);
                let Some(fit) = told.takes_back(old, context, alone, item.by_user, &self.topics) else {
                    continue;
                };
                let found = (fit, item.order, section, id);
                if best.is_none_or(|best| found > best) {
                    best = Some(found);
                }
            }
        }
        if let Some((_, _, section, id)) = best {
            self.drop_untrue(&[(section, id)], told.whole, told.by_user);
        }
    }

    /// How many statements have a value of each sort that a message may give another value.
    fn sorts_before(&self, told: &Told<'_>) -> HashMap<u32, u32> {
        let mut counts = HashMap::new();
        for section in Section::SAID {
            for (_, item) in self.items_before(section) {
                let Some(old) = item.statement.as_deref().filter(|old| told.may_change(item, old)) else {
                    continue;
                };
                let mut sorts: Vec<u32> = told.whole.put(old).collect();
                sorts.dedup();
                for sort in sorts {
                    *counts.entry(sort).or_default() += 1;
                }
            }
        }
        counts
    }
}

/// A message that may take something back.
struct Told<'a> {
    whole: &'a Statement,
    sentences: &'a [(Range<usize>, Statement)],
    by_user: bool,
}

impl Told<'_> {
    /// Whether it is not for others to say.
    fn may_change(&self, item: &Item, old: &Statement) -> bool {
        item.source == 0 && !item.of_output && (self.by_user || !old.cues.any(Cues::RULE))
    }

    /// How likely it speaks of an older statement and says something else of it; none if it hardly does.
    fn takes_back(
        &self,
        old: &Statement,
        context: &[u32],
        alone: bool,
        of_user: bool,
        topics: &Topics,
    ) -> Option<u32> {
        let Self { whole, by_user, .. } = *self;
        let fails = self.fails(old, topics);
        let over = fails || whole.cues.any(Cues::TURN | Cues::VOID | Cues::FORMER);
        let revised = whole.cues.any(Cues::REVISED);
        let puts = whole.puts(old);
        let proposed = old.cues.any(Cues::DECISION | Cues::PLAN | Cues::FOUND);
        let back = fails || whole.cues.any(Cues::FORMER) && (revised || whole.cues.any(Cues::VOID));
        let may = match puts {
            Puts::Same => by_user || over || revised && whole.put(old).next().is_some(),
            Puts::Other if by_user => over || whole.cues.any(Cues::SWAP | Cues::REVISED),
            Puts::Nothing if by_user => over,
            Puts::Other | Puts::Nothing => back && proposed && !of_user && !old.has_paths(),
        };
        if !may {
            return None;
        }
        let has = |list: &[u32], word: &u32| list.binary_search(word).is_ok();
        // What is counted says little, unless it is counted again.
        let counts = puts == Puts::Same;
        let spoken = |word: &&u32| {
            (has(&whole.words, word) || has(&whole.proper, word))
                && (counts || !has(&whole.units, word) && !has(&old.units, word))
        };
        let own = tell(old.words.iter().chain(&old.proper).filter(spoken), topics);
        let named = NAMED * u32::from(old.values.iter().any(|value| has(&whole.values, value)));
        let around = |word: &&u32| !has(&old.words, word) && !has(&old.proper, word);
        let around = tell(context.iter().filter(around).filter(spoken), topics);
        let around = if context.len() <= FEW { around } else { around / 2 };
        let value = match puts {
            Puts::Same if alone && revised => SAME_SORT + ALONE,
            Puts::Same => SAME_SORT,
            Puts::Other => OTHER,
            Puts::Nothing => 0,
        };
        let least = if fails || whole.cues.any(Cues::FORMER | Cues::SWAP) { NAMED } else { MEANT };
        let about = own + named + around;
        let fit = about + value + if fails { FAILS } else { 0 };
        let fit = if by_user == of_user { fit } else { fit.saturating_sub(OF_OTHERS) };
        ((about > 0 || alone && revised) && fit >= least)
            // Who tells a value most likely changes one.
            .then_some(if counts && whole.put(old).next().is_some() { fit + VALUED } else { fit })
    }

    /// Whether what it says of its values may be said of what an older statement is about: it names that, or nothing
    /// else.
    fn is_about(&self, old: &Statement, context: &[u32]) -> bool {
        const FEW_OTHERS: usize = 2;
        let known = |word: &&u32| {
            [&*old.words, &*old.proper, context].iter().any(|words| words.binary_search(word).is_ok())
        };
        let mut telling = self.sentences.iter().filter(|(_, said)| said.put(old).next().is_some());
        telling.any(|(_, said)| {
            let others = said.words.iter().filter(|word| !known(word) && !said.units.contains(word)).count();
            let named = said.about.iter().any(|word| known(&word));
            if said.wide { said.about.is_empty() || named } else { others <= FEW_OTHERS }
        })
    }

    /// Whether it says that what an older statement puts forward does not do, or who it names is not there, and then
    /// what takes its place.
    fn fails(&self, old: &Statement, topics: &Topics) -> bool {
        // What follows need not say that it is a decision.
        let decides = |(_, said): &(Range<usize>, Statement)| {
            said.weight() >= LEAST_WORDS && !said.cues.any(Cues::NARRATION)
        };
        let is_over = |(at, (_, said)): (usize, &(Range<usize>, Statement))| {
            let has = |word: &&u32| {
                said.words.binary_search(word).is_ok()
                    || said.proper.binary_search(word).is_ok()
                    || said.values.binary_search(word).is_ok()
            };
            // What was decided for a reason is not at fault.
            said.cues.any(Cues::DRAWBACK | Cues::LEFT)
                && !said.cues.any(Cues::DECISION)
                && self.sentences.iter().skip(at + 1).any(decides)
                && tell(old.words.iter().chain(&old.proper).chain(&old.values).filter(has), topics) >= NAMED
        };
        let proposes = Cues::DECISION | Cues::PLAN | Cues::RULE | Cues::WISH | Cues::FOUND;
        (old.cues.any(proposes) || self.by_user) && self.sentences.iter().enumerate().any(is_over)
    }
}

/// How much words tell, in tenths.
fn tell<'a>(words: impl Iterator<Item = &'a u32>, topics: &Topics) -> u32 {
    words.map(|word| topics.tenths(*word)).sum()
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
            (
                "The orchard inspection is on 4 May.",
                "The inspector is ill. We have until 19 May now.",
                "4 May",
                "19 May",
            ),
            (
                "Only Ruprecht signs the delivery notes.",
                "Ruprecht is on leave. Please ask Yolanda.",
                "Ruprecht signs",
                "Yolanda",
            ),
            (
                "出荷の承認は小田部長です。",
                "人事異動がありました。今後は早川部長が承認します。",
                "小田",
                "早川",
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
        // A date of something else.
        let (old, new) = ("収穫祭は9月5日です。", "温室の工事は10月8日に延期になりました。");
        let text = told(&["Help me plan the farm.", old, new]);
        assert!(text.contains("9月5日") && text.contains("10月8日"), "{text}");
    }
}
