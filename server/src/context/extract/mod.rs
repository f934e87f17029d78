//! The built-in summariser: from a stream of messages it keeps what an agent must still know, without a
//! model, and tells it in sections within a budget of tokens. It reads each message once, and holds no more than a
//! budget's worth of lines. No I/O; what is summarised, and when, is decided elsewhere.

mod calls;
mod common;
mod cues;
mod fill;
mod item;
mod lexicon;
mod line;
mod outputs;
mod overrule;
mod pool;
mod prose;
mod relate;
mod scan;
mod sections;
mod signs;
mod split;
mod statement;
#[cfg(test)]
mod tests;
mod topics;
mod untrue;
mod values;
mod weights;
mod words;
mod wrong;

use std::collections::VecDeque;

use item::Item;
use outputs::Source;
pub use overrule::{Counts, LEAST};
use pool::Pool;
use prose::Voice;
use sections::Section;
pub use sections::Sections;
pub use weights::SIGNS;

use crate::model::{Role, TokenCounter};

/// A message as a summariser sees it.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Its number; 0: not in the log (a note or a summary of ours).
    pub seq: u64,
    /// Who speaks.
    pub role: Role,
    /// Its content as plain text: parts joined, media as `[image]` and the like.
    pub text: &'a str,
    /// The tool calls that it makes.
    pub calls: &'a [Call<'a>],
    /// The tool, of a tool message.
    pub tool_name: Option<&'a str>,
    /// Where the full output is, of a tool message.
    pub output_ref: Option<&'a str>,
}

impl Piece<'_> {
    /// Whether it only says that an output was trimmed.
    pub fn is_trimmed(&self) -> bool {
        self.seq > 0 && self.role == Role::Tool && self.text.starts_with(TRIMMED)
    }
}

/// How the note begins that stands for a trimmed output.
const TRIMMED: &str = "[tool output trimmed; ";

/// A tool call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool.
    pub name: &'a str,
    /// What it was given: JSON, mostly.
    pub arguments: &'a str,
}

/// A finished summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extract {
    /// As text, with a heading for each section that has something.
    pub text: String,
    /// The same by sections.
    pub sections: Sections,
}

/// A statement that was held against a remark, and what was counted of both; for who fits the weights.
#[derive(Debug, Clone)]
pub struct Weighed {
    /// What was said before.
    pub older: String,
    /// In the order of [`SIGNS`].
    pub counts: Counts,
}

/// Makes a summary of messages.
#[derive(Debug)]
pub struct Extractor {
    budget: u64,
    counter: TokenCounter,
    pool: Pool,
    /// The first request is still to come.
    awaits_goal: bool,
    /// Calls whose results are still to come.
    calls: VecDeque<(String, Source)>,
    /// What was said last, for when there is nothing else.
    last: String,
    /// Whether stored outputs are told.
    refs: bool,
}

/// Calls of one message that are remembered.
const MOST_CALLS: usize = 256;

impl Extractor {
    /// `budget`: tokens that the finished text may have, by `counter`.
    pub fn new(budget: u64, counter: TokenCounter) -> Self {
        const LEAST: usize = 32 << 10;
        const MOST: usize = 4 << 20;
        let room = usize::try_from(budget).unwrap_or(MOST).saturating_mul(8).clamp(LEAST, MOST);
        let pool = Pool::new(room);
        let (calls, last) = (VecDeque::new(), String::new());
        Self { budget, counter, pool, awaits_goal: true, calls, last, refs: true }
    }

    /// For another task, in which stored outputs cannot be read.
    #[must_use]
    pub fn without_refs(self) -> Self {
        Self { refs: false, ..self }
    }

    /// Tells for each sentence in `messages` what it would be held against; none of that goes.
    pub fn weigh<'a>(messages: impl Iterator<Item = Piece<'a>>) -> Vec<Vec<Weighed>> {
        let mut extractor = Self::new(u64::MAX, TokenCounter::default());
        extractor.pool.weighed = Some(Vec::new());
        messages.for_each(|piece| extractor.take(&piece));
        extractor.pool.weighed.unwrap_or_default()
    }

    /// Folds in an earlier summary: one of ours section by section, any other text as something important.
    pub fn previous(&mut self, summary: &str) {
        let text = without_title(summary);
        if text.is_empty() {
            return;
        }
        self.awaits_goal = false;
        self.pool.next_message();
        self.pool.some_time_passes();
        self.remember(text);
        let (pool, refs) = (&mut self.pool, self.refs);
        let ours = sections::read(text, |section, line| {
            pool.next_message();
            match section {
                Section::Files => match line
                    .rsplit_once(" (")
                    .and_then(|(path, done)| Some((path, done.strip_suffix(')')?)))
                {
                    Some((path, done)) => prose::file(pool, path, 420, Some(done)),
                    None => prose::file(pool, line, 150, None),
                },
                Section::Commands => calls::recall(pool, line),
                Section::Refs if !refs => {}
                Section::Refs => {
                    let name = line.split(' ').next().unwrap_or_default();
                    pool.add(Item::new(section, line.to_owned(), 600).named(name));
                }
                Section::Goal
                | Section::Constraints
                | Section::Decisions
                | Section::Changes
                | Section::Errors
                | Section::Facts
                | Section::Pending => prose::recall(pool, section, line),
            }
        });
        if !ours {
            prose::take(pool, text, Voice::Summary, false);
        }
        pool.some_time_passes();
    }

    /// Notes that something failed which is not among the messages.
    pub fn failed(&mut self, error: &str) {
        self.pool.next_message();
        prose::recall(&mut self.pool, Section::Errors, error);
    }

    /// Takes the next message.
    pub fn take(&mut self, piece: &Piece<'_>) {
        if piece.seq == 0 {
            self.previous(piece.text);
            return;
        }
        self.pool.next_message();
        self.remember(piece.text);
        match piece.role {
            Role::System | Role::Developer => {
                prose::take(&mut self.pool, piece.text, Voice::User, false);
            }
            // A result that came too late for its call is text of this form in the view.
            Role::User if piece.text.starts_with("[Tool: ") => {
                let (tool, text) = piece.text["[Tool: ".len()..].split_once(']').unwrap_or_default();
                outputs::take(&mut self.pool, text, &calls::unknown(tool));
            }
            Role::User => {
                let found = prose::take(&mut self.pool, piece.text, Voice::User, self.awaits_goal);
                self.awaits_goal &= !found;
            }
            Role::Assistant => {
                prose::take(&mut self.pool, piece.text, Voice::Assistant, false);
                self.calls.clear();
                for call in piece.calls.iter().take(MOST_CALLS) {
                    if self.last.is_empty() {
                        self.last = line::clean(call.name, 80, 0);
                    }
                    let source = calls::take(&mut self.pool, call);
                    self.calls.push_back((call.name.to_owned(), source));
                }
            }
            Role::Tool => {
                let source = self.source(piece.tool_name);
                if let Some(output_ref) = piece.output_ref.filter(|_| self.refs) {
                    calls::stored(&mut self.pool, output_ref, &source);
                }
                outputs::take(&mut self.pool, piece.text, &source);
            }
        }
    }

    /// The summary.
    pub fn finish(self) -> Extract {
        let (now, budget, counter) = (self.pool.now, self.budget, self.counter);
        let mut sections = fill::fill(self.pool.into_items(), now, budget, counter);
        if sections == Sections::default() && !self.last.is_empty() {
            let last = Item::new(Section::Facts, self.last, 100);
            sections = fill::fill(vec![last], 1, budget, counter);
        }
        Extract { text: sections.to_text(), sections }
    }

    /// Whose result comes next: results come in the order of their calls, or say of which tool they are.
    fn source(&mut self, tool: Option<&str>) -> Source {
        let place = tool.and_then(|tool| self.calls.iter().position(|(name, _)| name == tool)).unwrap_or(0);
        let found = self.calls.remove(place).map(|(_, source)| source);
        found.unwrap_or_else(|| calls::unknown(tool.unwrap_or_default()))
    }

    fn remember(&mut self, text: &str) {
        const LONGEST: usize = 400;
        let head = &text[..text.floor_char_boundary(LONGEST * 4)];
        let line = line::clean(head, LONGEST, 0);
        if !line.is_empty() {
            self.last = line;
        }
    }
}

/// Without the line in brackets by which the view says what a message is.
fn without_title(text: &str) -> &str {
    let text = text.trim();
    let first = text.lines().next().unwrap_or_default();
    let is_title = first.starts_with('[') && first.ends_with(']');
    if is_title { text[first.len()..].trim() } else { text }
}
