//! Messages that take something back. People and models change what was said in other words: a value of the same sort, a
//! refusal, news from somebody else. Each sentence is held against all that was said before, together with what stands
//! around it, and takes the place of what it most likely means, if that is likely enough.

use std::ops::Range;
use std::sync::Arc;

use super::cues::Cues;
use super::item::Item;
use super::overrule::{Newer, Older};
use super::pool::Pool;
use super::prose::is_question;
use super::sections::Section;
use super::statement::Statement;

/// Longer messages speak of several things, and so do those of more sentences.
const LONGEST: usize = 1000;
const FEW_SENTENCES: usize = 4;
/// Longer ones are documents.
pub(super) const LONGEST_OF_PARTS: usize = 8000;
/// A message of so few words is about what was said before it.
const FEW_WORDS: usize = 6;

/// What shows that a model may take something back.
const TELLING: Cues = Cues::all(&[
    Cues::CHANGED,
    Cues::REVISED,
    Cues::SWAP,
    Cues::TURN,
    Cues::VOID,
    Cues::FORMER,
    Cues::DRAWBACK,
    Cues::NEWS,
    Cues::REFUSE,
]);

impl Pool {
    /// A message was taken, of which this is all, and its sentences.
    pub(super) fn said_all(&mut self, text: &str, sentences: &[(Range<usize>, Statement)], by_user: bool) {
        let cues = sentences.iter().fold(Cues::default(), |all, (_, said)| all | said.cues);
        let begins = |cue: Cues| sentences.first().is_some_and(|(_, said)| said.cues.any(cue));
        let agrees = begins(Cues::AGREED | Cues::CHAT) && !cues.any(Cues::DRAWBACK | Cues::TURN);
        if agrees && by_user {
            self.accept();
        }
        let before = self.asked().map(Statement::of).unwrap_or_default();
        let is_one = text.len() <= LONGEST && sentences.len() <= FEW_SENTENCES;
        for (at, (_, said)) in sentences.iter().enumerate() {
            // What the model does is told all the time, and hardly ever changes anything unless it says so.
            if !by_user && !cues.any(TELLING) {
                break;
            }
            let (start, end) = if is_one {
                (0, sentences.len())
            } else {
                (at.saturating_sub(1), (at + 2).min(sentences.len()))
            };
            let around = &sentences[start..end];
            let around = text.get(around[0].0.start..around[around.len() - 1].0.end);
            let around = around.filter(|text| text.len() <= LONGEST).map(Statement::of);
            let around = around.as_ref().unwrap_or(said);
            let before: &[u32] = if around.weight() <= FEW_WORDS { &before.words } else { &[] };
            let new = Newer {
                said,
                around,
                names: &sorted(said.words.iter().chain(&said.proper)),
                spoken: &sorted(
                    around
                        .words
                        .iter()
                        .chain(&around.proper)
                        .chain(&said.words)
                        .chain(&said.proper)
                        .chain(before),
                ),
                by_user,
                agrees,
                refuses: sentences[..=at.min(1)].iter().any(|(_, said)| said.cues.any(Cues::REFUSE)),
                has_changed: self.has_changed,
                turn: self.turn,
            };
            if let Some(meant) = self.meant(&new) {
                self.drop_untrue(&[meant], around, by_user);
            }
        }
        if text.len() <= LONGEST {
            let words = sentences.iter().flat_map(|(_, said)| said.words.iter().chain(&said.proper));
            self.set_context(&Arc::from(sorted(words)));
        }
    }

    /// What a sentence most likely takes the place of.
    fn meant(&self, new: &Newer<'_>) -> Option<(Section, u64)> {
        let valued = |(_, _, item): &(Section, u64, &Item)| {
            let old = item.statement.as_deref();
            old.is_some_and(|old| new.said.put(old).next().is_some() || new.said.is_kin(old))
        };
        let has_values = !new.said.sorts.is_empty();
        let latest =
            self.said_before().filter(|item| has_values && valued(item)).map(|(_, _, item)| item.order).max();
        let sure = self.said_before().filter_map(|(section, id, item)| {
            let said = item.statement.as_deref()?;
            let old = Older {
                said,
                context: item.context.as_deref().unwrap_or_default(),
                by_user: item.by_user,
                asks: is_question(&item.text),
                firm: super::pool::is_firm(section, said),
                goal: section == Section::Goal,
                accepted: item.accepted,
                latest: latest == Some(item.order),
                turn: item.turn,
            };
            // The rules of the user are for the user to change.
            let may = new.by_user || !old.by_user || !old.firm;
            let sure = if may { new.overrules(&old, &self.topics)? } else { return None };
            Some((sure, item.order, section, id))
        });
        sure.max_by_key(|(sure, order, ..)| (*sure, *order)).map(|(_, _, section, id)| (section, id))
    }
}

fn sorted<'a>(words: impl Iterator<Item = &'a u32>) -> Vec<u32> {
    let mut words: Vec<u32> = words.copied().collect();
    words.sort_unstable();
    words.dedup();
    words
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
                "The greenhouse sensors report over Zigbee.",
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
            (
                "I think the greenhouse door opens at 7.",
                "No, I asked the gardener: it opens at 9.",
                "at 7",
                "at 9",
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
