//! The user's words in front of a summary that a model or an agent wrote: the goal, the current request and the instructions
//! that the summary lacks.

use serde_json::Value;

use super::partition::Partition;
use super::reply;
use super::reply::ModelReply;
use super::summary::read_all;
use crate::context::count_text;
use crate::model::StoreError;
use crate::store::Outline;
use crate::summarizer::{Extractor, Section, Sections};

/// The share of a summary's budget that the user's words may have.
const SHARE: u64 = 3;

/// What the user asked for, as the built-in summariser finds it.
#[derive(Debug, Default)]
pub(super) struct Preface {
    sections: Sections,
    pub(super) tokens: u64,
}

impl Preface {
    /// Reads what is to be summarised in so many tokens. Blocks.
    pub(super) fn of(partition: &Partition, outline: &Outline, budget: u64) -> Result<Self, StoreError> {
        let counter = outline.counter;
        let mut extractor = Extractor::new(budget / SHARE, counter);
        read_all(&mut extractor, partition, outline)?;
        let made = extractor.finish_users();
        Ok(Self { tokens: count_text(counter, &made.text), sections: made.sections })
    }

    /// Puts in front of a summary what it lacks.
    pub(super) fn put_before(&self, reply: &mut ModelReply) {
        let told = format!("{} {}", reply.summary, reply.retain.as_deref().unwrap_or_default());
        let lacking = self.lacking(&even(&told));
        let text = lacking.to_text();
        if text.is_empty() {
            return;
        }
        match reply
            .sections
            .as_mut()
            .and_then(|sections| sections.get_mut("goal"))
            .and_then(Value::as_array_mut)
        {
            Some(goal) => {
                let lines = Section::ALL.into_iter().flat_map(|section| lacking.of(section));
                goal.splice(0..0, lines.map(|line| Value::from(line.as_str())));
                reply.summary = reply.sections.as_ref().map(reply::told).unwrap_or_default();
            }
            None => reply.summary = format!("{text}\n\n{}", reply.summary),
        }
    }

    /// The lines of which a sentence is not in a text.
    fn lacking(&self, told: &str) -> Sections {
        let mut lacking = Sections::default();
        for section in Section::OF_USER {
            for line in self.sections.of(section) {
                if !told.contains(&even(line)) {
                    lacking.of_mut(section).push(line.clone());
                }
            }
        }
        lacking
    }
}

/// A text of which case, white space and the mark at its end do not count.
fn even(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ").trim_end_matches(['.', '!', '。']).to_owned()
}
