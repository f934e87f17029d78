//! The built-in summariser: from a stream of messages it keeps what an agent must still know, without a model, and tells it
//! in sections within a budget of tokens. It reads each message once, in time that grows with its length, and holds no more
//! than a budget's worth of lines. No I/O; what is summarised, and when, is decided elsewhere.

mod calls;
mod cues;
mod fill;
mod lexicon;
mod line;
mod notes;
mod outputs;
mod said;
mod scan;
mod section;
mod split;
#[cfg(test)]
mod tests;
mod words;
mod wrong;

use std::collections::VecDeque;

use calls::Source;
use cues::Cues;
use fill::Asked;
use notes::{Note, Notes, Rank};
use said::{Marks, Said};
pub use section::{Section, Sections};
use split::{Unit, units};

use contextstore_base::model;
use contextstore_policy::context;
use model::{Role, TokenCounter};

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
/// How a result begins that came too late for its call, and is a message of the user in the view.
const LATE: &str = "[Tool: ";

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

/// Makes a summary of messages.
#[derive(Debug)]
pub struct Extractor {
    budget: u64,
    counter: TokenCounter,
    notes: Notes,
    /// The goal, and what the user asked for last if that is something else.
    asked: Asked,
    /// What the model asked last, if its newest message asks.
    question: Option<String>,
    /// The model's newest message says that something is done.
    is_done: bool,
    /// Calls whose results are still to come.
    calls: VecDeque<(String, Source)>,
    /// What was said last, for when there is nothing else.
    last: String,
    /// Whether stored outputs are told.
    refs: bool,
}

/// Calls of one message that are remembered.
const MOST_CALLS: usize = 256;
/// Stands between an answer and what it answers.
const ANSWERS: &str = " [re: ";

impl Extractor {
    /// `budget`: tokens that the finished text may have, by `counter`.
    pub fn new(budget: u64, counter: TokenCounter) -> Self {
        const LEAST: usize = 32 << 10;
        const MOST: usize = 4 << 20;
        let room = usize::try_from(budget).unwrap_or(MOST).saturating_mul(12).clamp(LEAST, MOST);
        Self {
            budget,
            counter,
            notes: Notes::new(room),
            asked: Asked::default(),
            question: None,
            is_done: false,
            calls: VecDeque::new(),
            last: String::new(),
            refs: true,
        }
    }

    /// For another task, in which stored outputs cannot be read.
    #[must_use]
    pub fn without_refs(self) -> Self {
        Self { refs: false, ..self }
    }

    /// Takes in an earlier summary: one of ours section by section, any other text as something important.
    pub fn previous(&mut self, summary: &str) {
        let text = without_title(summary);
        if text.is_empty() {
            return;
        }
        self.notes.next_message();
        self.remember(text);
        let mut asked = Asked::default();
        section::read(text, |section, line| self.recall(section, line, &mut asked));
        if !asked.goal.is_empty() || !asked.request.is_empty() {
            self.retire_goal();
            self.asked = asked;
        }
    }

    /// Takes in what was known in a task before this one: what was asked for there is not the goal here.
    pub fn inherited(&mut self, summary: &str) {
        self.previous(summary);
        self.retire_goal();
    }

    /// Notes that something failed which is not among the messages.
    pub fn failed(&mut self, error: &str) {
        self.notes.next_message();
        self.notes.add(Note::new(Section::Errors, line::clean(error, 400, 0), Rank::Telling));
    }

    /// Takes the next message.
    pub fn take(&mut self, piece: &Piece<'_>) {
        if piece.seq == 0 {
            self.previous(piece.text);
            return;
        }
        self.notes.next_message();
        self.remember(piece.text);
        match piece.role {
            Role::System | Role::Developer => self.rules(piece.text),
            Role::User => match piece.text.strip_prefix(LATE).and_then(|late| late.split_once(']')) {
                Some((tool, text)) => {
                    outputs::take(&mut self.notes, text, &Source::unknown(tool));
                }
                None => self.user(piece.text, false),
            },
            Role::Assistant => {
                self.model(piece.text);
                self.calls.clear();
                for call in piece.calls.iter().take(MOST_CALLS) {
                    if self.last.is_empty() {
                        self.last = line::clean(call.name, 80, 0);
                    }
                    let source = calls::take(&mut self.notes, call);
                    self.calls.push_back((call.name.to_owned(), source));
                }
            }
            Role::Tool => {
                let source = self.source(piece.tool_name);
                let result = outputs::take(&mut self.notes, piece.text, &source);
                if let Some(output_ref) = piece.output_ref.filter(|_| self.refs) {
                    calls::stored(&mut self.notes, output_ref, &source, result.as_deref());
                }
            }
        }
    }

    /// Takes a message that stays in the view: what the user asks for there is the current request, told in short.
    pub fn stays(&mut self, piece: &Piece<'_>) {
        if piece.role == Role::User && !piece.text.starts_with(LATE) {
            self.notes.next_message();
            self.user(piece.text, true);
        }
    }

    /// Returns the goal, the current request and the user's instructions alone.
    pub fn finish_users(mut self) -> Extract {
        self.notes.keep(|note| note.section == Section::Constraints && note.rank >= Rank::Telling);
        self.last.clear();
        self.finish()
    }

    /// Returns the summary.
    pub fn finish(self) -> Extract {
        let (budget, counter) = (self.budget, self.counter);
        let mut sections = fill::fill(self.asked, self.notes.into_list(), budget, counter);
        if sections == Sections::default() && !self.last.is_empty() {
            let last = Note::new(Section::Facts, self.last, Rank::Filler);
            sections = fill::fill(Asked::default(), vec![last], budget, counter);
        }
        Extract { text: sections.to_text(), sections }
    }

    /// Takes a system message that came later.
    fn rules(&mut self, text: &str) {
        for said in said::user(text, |_| ()) {
            self.notes.add(Note::new(Section::Constraints, said.text, said.rank));
        }
    }

    /// Takes a message of the user. What it asks for is the current request from now on, and the goal if there is none yet or
    /// another task begins; the earlier request becomes one of the instructions, in its old place. Of a message that stays in
    /// the view nothing else is told.
    fn user(&mut self, text: &str, stays: bool) {
        let mut code = Vec::new();
        let mut said = said::user(text, |line| code.push(line));
        let question = self.question.take().filter(|_| is_short_answer(text, &said));
        if !stays {
            outputs::pasted(&mut self.notes, text, &code, true);
            self.mention(text, Rank::Telling);
            if let Some(question) = question {
                let text = format!("{}{ANSWERS}{question}]", line::clean(text, 200, 0));
                self.notes.add(Note::new(Section::Constraints, text, Rank::Firm));
                return;
            }
        }
        let mut request = said::request(&mut said);
        if self.asked.goal.is_empty() && request.is_empty() {
            request = std::mem::take(&mut said);
        }
        if stays {
            said::shorten(&mut request);
        }
        let cues = Cues::of(&text[..text.floor_char_boundary(400)]);
        let begins = self.asked.goal.is_empty() || self.is_new_task(cues);
        if !request.is_empty() && begins {
            self.retire_goal();
            let goal = said::goal(&mut request);
            self.asked.goal = goal.into_iter().map(|said| self.note(said)).collect();
        } else if !request.is_empty() {
            self.retire_request();
            self.asked.request = request.drain(..).map(|said| self.note(said)).collect();
        }
        for said in request.into_iter().chain(said).filter(|_| !stays) {
            let note = self.note(said);
            self.notes.add(note);
        }
    }

    /// Whether a request begins another task: it says so, or the model has said that it is done and the user goes on.
    fn is_new_task(&self, cues: Cues) -> bool {
        cues.any(Cues::NEW_TASK) || self.is_done && cues.any(Cues::NEXT)
    }

    /// Takes a message of the model.
    fn model(&mut self, text: &str) {
        (self.question, self.is_done) = (None, false);
        let mut code = Vec::new();
        units(text, |unit| match unit {
            Unit::Sentence(sentence) => {
                let marks = Marks::of(sentence);
                self.question = said::is_question(sentence).then(|| line::clean(sentence, 160, 0));
                self.is_done |= marks.cues.any(Cues::DONE) && !marks.cues.any(Cues::OPEN);
                if let Some((section, rank)) = said::of_model(sentence, marks) {
                    self.notes.add(model_note(section, sentence, rank));
                }
            }
            Unit::Code(line) => code.push(line),
        });
        outputs::pasted(&mut self.notes, text, &code, false);
        self.mention(text, Rank::Named);
    }

    /// Adds the files that a message names.
    fn mention(&mut self, text: &str, rank: Rank) {
        scan::tokens(text, |kind, range| {
            if kind == scan::Kind::Path {
                calls::file(&mut self.notes, &text[range], rank, None);
            }
        });
    }

    /// Takes a line of an earlier summary; none: of no section of ours.
    fn recall(&mut self, section: Option<Section>, line: &str, asked: &mut Asked) {
        let notes = &mut self.notes;
        notes.next_message();
        match section {
            Some(Section::Goal | Section::Request) if line == section::AS_THE_GOAL => {}
            None => split::sentences(line, |text| {
                notes.add(Note::new(Section::Facts, line::clean(text, 700, 0), Rank::Firm));
            }),
            Some(Section::Goal | Section::Request | Section::Constraints | Section::Later) => {
                let is_whole = line.ends_with(']') && line.contains(ANSWERS);
                let mut add = |text: &str| {
                    let rank = said::of_user(text, Marks::of(text)).unwrap_or(Rank::Filler);
                    let rank = if is_whole { Rank::Firm } else { rank };
                    let mut note = user_note(text.to_owned(), rank);
                    notes.date(&mut note);
                    match section {
                        Some(Section::Goal) => asked.goal.push(note),
                        Some(Section::Request) => asked.request.push(note),
                        _ => notes.add(note),
                    }
                };
                if is_whole { add(line) } else { split::sentences(line, add) }
            }
            Some(Section::Files) => {
                let done =
                    line.rsplit_once(" (").and_then(|(path, done)| Some((path, done.strip_suffix(')')?)));
                match done {
                    Some((path, done)) => calls::file(notes, path, Rank::Telling, Some(done)),
                    None => calls::file(notes, line, Rank::Named, None),
                }
            }
            Some(Section::Commands) => {
                let command = line.split(calls::RESULT).next().unwrap_or_default();
                notes.add(Note::new(Section::Commands, line.to_owned(), Rank::Named).named(command));
            }
            Some(Section::Errors) => outputs::recall(notes, line),
            Some(Section::Refs) => {
                let name = line.rsplit(' ').next().unwrap_or_default();
                if self.refs {
                    notes.add(Note::new(Section::Refs, line.to_owned(), Rank::Telling).named(name));
                }
            }
            Some(section @ Section::Facts) if line.contains(calls::RESULT) => {
                notes.add(Note::new(section, line.to_owned(), Rank::Filler));
            }
            Some(section @ (Section::Decisions | Section::Facts | Section::Changes | Section::Pending)) => {
                split::sentences(line, |text| {
                    let rank = said::of_model(text, Marks::of(text)).map_or(Rank::Filler, |(_, rank)| rank);
                    notes.add(model_note(section, text, rank));
                });
            }
        }
    }

    fn note(&mut self, said: Said) -> Note {
        let mut note = user_note(said.text, said.rank);
        self.notes.date(&mut note);
        note
    }

    /// The goal and the request are instructions like others from now on.
    fn retire_goal(&mut self) {
        self.retire_request();
        std::mem::take(&mut self.asked.goal).into_iter().for_each(|note| self.retire(note));
    }

    fn retire_request(&mut self) {
        std::mem::take(&mut self.asked.request).into_iter().for_each(|note| self.retire(note));
    }

    fn retire(&mut self, note: Note) {
        let rank = note.rank.max(Rank::Telling);
        self.notes.add(Note { section: Section::Constraints, rank, ..note });
    }

    /// Whose result comes next: results come in the order of their calls, or say of which tool they are.
    fn source(&mut self, tool: Option<&str>) -> Source {
        let place = tool.and_then(|tool| self.calls.iter().position(|(name, _)| name == tool)).unwrap_or(0);
        let found = self.calls.remove(place).map(|(_, source)| source);
        found.unwrap_or_else(|| Source::unknown(tool.unwrap_or_default()))
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

/// A sentence of the user. The same setting with a new value replaces the older one.
fn user_note(text: String, rank: Rank) -> Note {
    let setting = outputs::setting(text.trim_end_matches('.')).map(|name| format!("{name}="));
    let note = Note::new(Section::Constraints, text, rank);
    match setting {
        Some(name) => note.named(&name),
        None => note,
    }
}

/// A sentence of the model. The same item of a list of tasks replaces the older one, be it ticked off or not.
fn model_note(section: Section, sentence: &str, rank: Rank) -> Note {
    let note = Note::new(section, line::clean(sentence, 400, 0), rank);
    match ["[ ] ", "[x] ", "[X] "].iter().find_map(|mark| sentence.strip_prefix(mark)) {
        Some(item) => Note { section: Section::Pending, ..note }.named(item),
        None => note,
    }
}

/// Whether a message says so little that it must be told with the question that it answers.
fn is_short_answer(text: &str, said: &[Said]) -> bool {
    const LONGEST: usize = 80;
    let is_yes = ["yes", "no", "yep", "はい", "いいえ"];
    let text = text.trim().to_lowercase();
    text.chars().count() <= LONGEST
        && !text.ends_with(['?', '？'])
        && said.len() <= 1
        && (!said::is_acknowledgement(&text) || is_yes.iter().any(|yes| text.starts_with(yes)))
        && text.split_whitespace().count() <= 6
}

/// Without the line in brackets by which the view says what a message is.
fn without_title(text: &str) -> &str {
    let text = text.trim();
    let first = text.lines().next().unwrap_or_default();
    let is_title = first.starts_with('[') && first.ends_with(']');
    if is_title { text[first.len()..].trim() } else { text }
}
