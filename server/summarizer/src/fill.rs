//! Which of the lines that were found go into the summary: the user's words first, then a share of the budget for each
//! section, and what these leave for whatever matters most.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::notes::{Note, Rank};
use super::section::{AS_THE_GOAL, Section, Sections};
use crate::context::count_text;
use crate::model::TokenCounter;

/// Below this nothing can be told.
const LEAST: u64 = 16;
/// Tokens around a line: its mark and its end.
const AROUND: u64 = 2;

/// Lines whose tokens differ by less are of one size.
const SIZE: u64 = 24;

/// In which order lines are given room: a section, the least rank, and the percent of the budget that the section may have
/// up to there.
const SHARES: [(Section, Rank, u64); 17] = [
    (Section::Constraints, Rank::Firm, 60),
    (Section::Refs, Rank::Telling, 12),
    (Section::Errors, Rank::Firm, 8),
    (Section::Constraints, Rank::Telling, 65),
    (Section::Decisions, Rank::Telling, 16),
    (Section::Pending, Rank::Telling, 8),
    (Section::Files, Rank::Telling, 10),
    (Section::Constraints, Rank::Named, 70),
    (Section::Errors, Rank::Telling, 14),
    (Section::Facts, Rank::Telling, 8),
    (Section::Facts, Rank::Named, 20),
    (Section::Changes, Rank::Named, 6),
    (Section::Commands, Rank::Named, 6),
    (Section::Files, Rank::Named, 16),
    (Section::Errors, Rank::Named, 18),
    (Section::Decisions, Rank::Named, 20),
    (Section::Constraints, Rank::Filler, 70),
];

/// What the user asked for: sentences that always come first.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) goal: Vec<Note>,
    pub(super) request: Vec<Note>,
}

struct Line {
    note: Note,
    cost: u64,
    chosen: bool,
}

/// Returns the best lines within a budget, in the order of their sections and of time.
pub(super) fn fill(asked: Asked, notes: Vec<Note>, budget: u64, counter: TokenCounter) -> Sections {
    if budget < LEAST {
        return Sections::default();
    }
    let request = asked.request.iter().map(|note| note.order).max().unwrap_or(u64::MAX);
    let known: HashSet<u64> = asked.goal.iter().chain(&asked.request).map(|note| note.key).collect();
    let notes = without_bare_names(notes).filter(|note| !known.contains(&note.key));
    let mut choice = Choice {
        left: budget,
        used: [0; Section::COUNT],
        lines: Vec::new(),
        text: String::new(),
        counter,
        request,
    };
    choice.ask(asked, budget);
    let first = choice.lines.len();
    choice.lines.extend(notes.map(|note| Line { cost: 0, note, chosen: false }));
    for line in &mut choice.lines[first..] {
        #[cfg(test)]
        super::tests::work(line.note.text.len());
        line.cost = count_text(counter, &line.note.text) + AROUND;
    }
    // Of lines that matter the same, the newest first, and what takes few words before what takes many.
    let mut ranked: Vec<usize> = (first..choice.lines.len()).collect();
    ranked.sort_by_key(|at| {
        let Line { note, cost, .. } = &choice.lines[*at];
        (Reverse(note.section.is_of_user()), Reverse(note.rank), *cost / SIZE, Reverse(note.order))
    });
    for (section, least, percent) in SHARES {
        let most = budget * percent / 100;
        for &at in &ranked {
            let note = &choice.lines[at].note;
            if note.section == section && note.rank >= least {
                choice.take(at, most);
            }
        }
    }
    for &at in &ranked {
        choice.take(at, u64::MAX);
    }
    choice.within(&ranked, budget)
}

/// What has been chosen so far.
struct Choice {
    left: u64,
    used: [u64; Section::COUNT],
    lines: Vec<Line>,
    /// All of it, to see which files have been told.
    text: String,
    counter: TokenCounter,
    /// The place of the current request in the order of all that came.
    request: u64,
}

impl Choice {
    /// Takes the goal and the current request, each cut to a quarter of the budget.
    fn ask(&mut self, asked: Asked, budget: u64) {
        let is_one = asked.request.is_empty() && !asked.goal.is_empty();
        let Asked { goal, mut request } = asked;
        if is_one {
            request.push(Note::new(Section::Request, AS_THE_GOAL.to_owned(), Rank::Firm));
        }
        for (section, notes) in [(Section::Goal, goal), (Section::Request, request)] {
            let heading = count_text(self.counter, &section.heading()) + AROUND;
            let mut room = (budget / 4).saturating_sub(heading).max(LEAST / 2).min(self.left);
            for mut note in notes {
                (note.section, note.text) = (section, cut(&note.text, room, self.counter));
                let cost = count_text(self.counter, &note.text) + AROUND;
                if room < AROUND * 2 {
                    break;
                }
                room = room.saturating_sub(cost);
                self.left = self.left.saturating_sub(cost);
                self.lines.push(Line { note, cost, chosen: true });
            }
            self.left = self.left.saturating_sub(heading);
        }
    }

    /// Takes a line if there is room, and if its section has no more than so much then.
    fn take(&mut self, at: usize, most: u64) {
        let line = &self.lines[at];
        let section = line.note.section as usize;
        let is_first = self.used[section] == 0;
        let heading =
            if is_first { count_text(self.counter, &line.note.section.heading()) + AROUND } else { 0 };
        let cost = line.cost + heading;
        if line.chosen || cost > self.left || self.used[section] + cost > most {
            return;
        }
        if line.note.section == Section::Files && self.text.contains(&line.note.text) {
            return;
        }
        self.text.push_str(&line.note.text);
        self.left -= cost;
        self.used[section] += cost;
        self.lines[at].chosen = true;
    }

    /// Leaves out what matters least until the finished text fits.
    fn within(mut self, ranked: &[usize], budget: u64) -> Sections {
        loop {
            let sections = self.told();
            let tokens = count_text(self.counter, &sections.to_text());
            if tokens == 0 || tokens > budget && !self.lines.iter().any(|line| line.chosen) {
                return self.best(ranked, budget);
            }
            if tokens <= budget {
                return sections;
            }
            let mut over = tokens - budget;
            let asked = (0..self.lines.len() - ranked.len()).rev();
            for at in ranked.iter().rev().copied().chain(asked) {
                if over == 0 {
                    break;
                }
                if std::mem::take(&mut self.lines[at].chosen) {
                    over = over.saturating_sub(self.lines[at].cost);
                }
            }
        }
    }

    /// The one line that matters most, cut to the budget; nothing if there is none.
    fn best(&self, ranked: &[usize], budget: u64) -> Sections {
        let mut sections = Sections::default();
        let first = self.lines.first().filter(|_| ranked.len() < self.lines.len());
        let Some(best) = first.or_else(|| ranked.first().map(|at| &self.lines[*at])) else { return sections };
        let mut room = budget;
        loop {
            *sections.of_mut(best.note.section) = vec![cut(&best.note.text, room, self.counter)];
            if room == 0 || count_text(self.counter, &sections.to_text()) <= budget {
                return sections;
            }
            room -= 1;
        }
    }

    /// The chosen lines; sentences of one message that follow each other are one line.
    fn told(&self) -> Sections {
        let mut sections = Sections::default();
        let mut last: Option<&Note> = None;
        for Line { note, .. } in self.lines.iter().filter(|line| line.chosen) {
            // A reader takes what comes last for what holds, so what was said after the request stands behind it.
            let is_later = note.section == Section::Constraints && note.order > self.request;
            let told = sections.of_mut(if is_later { Section::Later } else { note.section });
            let follows =
                last.is_some_and(|last| last.section == note.section && last.message == note.message);
            let is_prose = note.section.is_prose() && note.command == 0;
            match told.last_mut() {
                Some(before) if follows && is_prose && before.ends_with(ENDS) => {
                    if !before.ends_with(['。', '！', '？']) {
                        before.push(' ');
                    }
                    before.push_str(&note.text);
                }
                _ => told.push(note.text.clone()),
            }
            last = Some(note);
        }
        sections
    }
}

/// The ends of sentences, by which they are told from each other when they are read back.
const ENDS: [char; 6] = ['.', '!', '?', '。', '！', '？'];

/// A file that is told with its folders need not be told by its name alone.
fn without_bare_names(notes: Vec<Note>) -> impl Iterator<Item = Note> {
    let path = |note: &Note| note.text.split(" (").next().unwrap_or_default().to_owned();
    let files = notes.iter().filter(|note| note.section == Section::Files).map(path);
    let names: HashSet<String> =
        files.filter_map(|path| path.rsplit_once('/').map(|(_, name)| name.to_owned())).collect();
    notes.into_iter().filter(move |note| note.section != Section::Files || !names.contains(&path(note)))
}

/// The beginning of a text that has at most so many tokens.
pub(super) fn cut(text: &str, tokens: u64, counter: TokenCounter) -> String {
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
