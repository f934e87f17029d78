//! The choice of the lines that go into the summary: the goal and the current request, the user's instructions, a share of
//! the budget for each other section, and whatever matters most of the rest.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::notes::{Note, Priority};
use super::section::{AS_THE_GOAL, Section, Sections};
use crate::context::count_text;
use crate::model::TokenCounter;

/// Tokens below which nothing can be said.
const LEAST: u64 = 16;
/// Tokens around a line: its mark and its end.
const AROUND: u64 = 2;
/// Lines whose tokens differ by less are of one size.
const SIZE: u64 = 24;

/// In which order sections get their shares, and the percent of the budget that each may have before the rest is shared out
/// by priority.
const SHARES: [(Section, u64); 9] = [
    (Section::Constraints, 65),
    (Section::Errors, 12),
    (Section::Refs, 12),
    (Section::Decisions, 12),
    (Section::Pending, 12),
    (Section::Files, 12),
    (Section::Facts, 12),
    (Section::Changes, 12),
    (Section::Commands, 12),
];

/// The goal and the current request: sentences that always come first.
#[derive(Debug, Default)]
pub(super) struct UserRequests {
    pub(super) goal: Vec<Note>,
    pub(super) current: Vec<Note>,
}

/// Returns the best lines within a budget, in the order of their sections and of time.
pub(super) fn select(
    requests: &UserRequests,
    notes: &[Note],
    budget: u64,
    counter: TokenCounter,
) -> Sections {
    let known: HashSet<u64> = requests.goal.iter().chain(&requests.current).map(|note| note.key).collect();
    let notes = notes.iter().filter(|note| !known.contains(&note.key));
    let lines = notes.map(|note| {
        #[cfg(test)]
        super::tests::work(note.text.len());
        CountedLine { note, cost: count_text(counter, &note.text) + AROUND }
    });
    let lines: Vec<CountedLine<'_>> = lines.collect();
    let mut room = if budget < LEAST { 0 } else { budget };
    while room > 0 {
        let sections = LineSelection::new(requests, &lines, room, counter).fill(room);
        let tokens = count_text(counter, &sections.to_text());
        if tokens <= budget {
            return sections;
        }
        // The text as a whole has a few tokens more than its lines.
        room = room.saturating_sub(tokens - budget);
    }
    Sections::default()
}

/// A line that may be chosen, and its tokens.
struct CountedLine<'a> {
    note: &'a Note,
    cost: u64,
}

/// The lines that have been chosen so far.
struct LineSelection<'a> {
    requests: &'a UserRequests,
    lines: &'a [CountedLine<'a>],
    is_chosen: Vec<bool>,
    sections: Sections,
    used: [u64; Section::COUNT],
    left: u64,
    counter: TokenCounter,
}

impl<'a> LineSelection<'a> {
    fn new(
        requests: &'a UserRequests,
        lines: &'a [CountedLine<'a>],
        left: u64,
        counter: TokenCounter,
    ) -> Self {
        let (sections, used) = Default::default();
        Self { requests, lines, is_chosen: vec![false; lines.len()], sections, used, left, counter }
    }

    fn fill(mut self, budget: u64) -> Sections {
        self.add_requests(Section::Goal, &self.requests.goal, budget / 4);
        self.add_requests(Section::Request, &self.requests.current, budget / 4);
        // Of lines that matter the same, the newest first, and what takes few words before what takes many.
        let mut ranked: Vec<usize> = (0..self.lines.len()).collect();
        ranked.sort_by_key(|at| {
            let CountedLine { note, cost, .. } = &self.lines[*at];
            (Reverse((note.section.is_of_user(), note.priority)), *cost / SIZE, Reverse(note.order))
        });
        for (section, percent) in SHARES {
            for &at in &ranked {
                let note = self.lines[at].note;
                if note.section == section && note.priority > Priority::Low {
                    self.choose(at, budget * percent / 100);
                }
            }
        }
        ranked.iter().for_each(|at| self.choose(*at, u64::MAX));
        if let Some(best) = ranked.first().filter(|_| self.left == budget) {
            let note = self.lines[*best].note;
            self.sections.of_mut(note.section).push(cut(&note.text, budget, self.counter));
        }
        self.finish()
    }

    /// Adds the goal or the current request, cut to a share of the budget.
    fn add_requests(&mut self, section: Section, notes: &[Note], share: u64) {
        let heading = count_text(self.counter, section.heading()) + AROUND;
        let most = self.left.saturating_sub(heading);
        let mut room = share.saturating_sub(heading).max(LEAST / 2).min(most);
        let mut add = |text: &str| {
            let text = cut(text, room.saturating_sub(AROUND), self.counter);
            let cost = count_text(self.counter, &text) + AROUND;
            if cost <= room {
                let heading = if self.sections.of(section).is_empty() { heading } else { 0 };
                self.left = self.left.saturating_sub(cost + heading);
                self.sections.of_mut(section).push(text);
                room -= cost;
            }
        };
        notes.iter().for_each(|note| add(&note.text));
        if section == Section::Request && notes.is_empty() && !self.requests.goal.is_empty() {
            add(AS_THE_GOAL);
        }
    }

    /// Chooses a line if there is room, and if its section has no more than `most` tokens then.
    fn choose(&mut self, at: usize, most: u64) {
        let CountedLine { note, cost } = self.lines[at];
        let used = &mut self.used[note.section as usize];
        let heading = if *used == 0 { count_text(self.counter, note.section.heading()) + AROUND } else { 0 };
        let cost = cost + heading;
        if !self.is_chosen[at] && cost <= self.left && *used + cost <= most {
            self.is_chosen[at] = true;
            *used += cost;
            self.left -= cost;
        }
    }

    /// Returns the sections. What the user said after the current request stands behind it.
    fn finish(mut self) -> Sections {
        let request = self.requests.current.iter().map(|note| note.order).max().unwrap_or(u64::MAX);
        let chosen = self.lines.iter().zip(self.is_chosen).filter(|(_, is_chosen)| *is_chosen);
        for (CountedLine { note, .. }, _) in chosen {
            let is_later = note.section == Section::Constraints && note.order > request;
            let section = if is_later { Section::Later } else { note.section };
            self.sections.of_mut(section).push(note.text.clone());
        }
        self.sections
    }
}

/// Returns the beginning of a text that has at most so many tokens.
fn cut(text: &str, tokens: u64, counter: TokenCounter) -> String {
    let shortened = |length: usize| format!("{}…", text[..text.floor_char_boundary(length)].trim_end());
    if count_text(counter, text) <= tokens {
        return text.to_owned();
    }
    let (mut fits, mut over) = (0, text.len());
    while over - fits > 1 {
        let middle = usize::midpoint(fits, over);
        if count_text(counter, &shortened(middle)) <= tokens { fits = middle } else { over = middle }
    }
    shortened(fits)
}
