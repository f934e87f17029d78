//! The built-in summariser: from a stream of messages it keeps what an agent must still know, without a model, and writes it
//! in sections within a budget of tokens. It reads each message once, in time that grows with its length, and holds no more
//! than a budget's worth of lines. No I/O; what is summarised, and when, is decided elsewhere.

mod assistant;
mod calls;
mod keywords;
mod line;
mod names;
mod notes;
mod outputs;
mod section;
mod selection;
mod sentences;
#[cfg(test)]
mod tests;
mod user;

use std::collections::VecDeque;

use calls::OutputSource;
use keywords::KeywordSet;
use line::one_line;
use notes::{Note, Notes, Priority};
pub use section::{Section, Sections};
use selection::UserRequests;
use sentences::{ProseUnit, units};
use user::Statement;

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
    /// Returns whether it only says that an output was trimmed.
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
    requests: UserRequests,
    /// What the model asked last, if its newest message asks.
    question: Option<String>,
    /// The model's newest message says that something is done.
    is_done: bool,
    /// Calls whose results are still to come, by tool.
    calls: VecDeque<(String, OutputSource)>,
    /// The last line of anybody, for when there is nothing else.
    last: String,
    with_refs: bool,
}

/// Calls of one message that are remembered.
const MOST_CALLS: usize = 256;
/// Characters of a line of which nothing else is known, of a question, and of a sentence of another summary.
const LONGEST_LAST: usize = 400;
const LONGEST_QUESTION: usize = 160;
const LONGEST_OF_OTHERS: usize = 700;

impl Extractor {
    /// Returns an empty summary; its text may have `budget` tokens, by `counter`.
    pub fn new(budget: u64, counter: TokenCounter) -> Self {
        const LEAST: usize = 32 << 10;
        const MOST: usize = 4 << 20;
        let room = usize::try_from(budget).unwrap_or(MOST).saturating_mul(12).clamp(LEAST, MOST);
        Self {
            budget,
            counter,
            notes: Notes::new(room),
            requests: UserRequests::default(),
            question: None,
            is_done: false,
            calls: VecDeque::new(),
            last: String::new(),
            with_refs: true,
        }
    }

    /// Leaves out stored outputs, for another task, which cannot read them.
    #[must_use]
    pub fn without_refs(self) -> Self {
        Self { with_refs: false, ..self }
    }

    /// Takes in an earlier summary: one of ours section by section, any other text as something important.
    pub fn previous(&mut self, summary: &str) {
        let text = without_title(summary);
        self.remember(text);
        let mut requests = UserRequests::default();
        section::read(text, |section, line| self.recall(section, line, &mut requests));
        if !requests.goal.is_empty() || !requests.current.is_empty() {
            self.retire_goal();
            self.requests = requests;
        }
    }

    /// Takes in the summary of a task before this one: the request there is not the goal here.
    pub fn inherited(&mut self, summary: &str) {
        self.previous(summary);
        self.retire_goal();
    }

    /// Takes in an error that is not among the messages.
    pub fn failed(&mut self, error: &str) {
        self.notes.add(Note::new(Section::Errors, one_line(error, LONGEST_LAST, 0), Priority::High));
    }

    /// Takes in the next message.
    pub fn take(&mut self, piece: &Piece<'_>) {
        if piece.seq == 0 {
            self.previous(piece.text);
            return;
        }
        self.remember(piece.text);
        match piece.role {
            Role::System | Role::Developer => self.add_statements(user::read(piece.text).0),
            Role::User => match piece.text.strip_prefix(LATE).and_then(|late| late.split_once(']')) {
                Some((tool, text)) => {
                    outputs::take(&mut self.notes, text, &OutputSource::unknown(tool));
                }
                None => self.user(piece.text),
            },
            Role::Assistant => self.assistant(piece),
            Role::Tool => {
                let source = self.source(piece.tool_name);
                let result = outputs::take(&mut self.notes, piece.text, &source);
                if let Some(output_ref) = piece.output_ref.filter(|_| self.with_refs) {
                    calls::add_ref(&mut self.notes, output_ref, &source, result.as_deref());
                }
            }
        }
    }

    /// Takes in a message that stays in the view: what the user asks for there is the current request, in short.
    pub fn stays(&mut self, piece: &Piece<'_>) {
        if piece.role == Role::User && !piece.text.starts_with(LATE) {
            let mut request = self.take_request(&mut user::read(piece.text).0);
            user::shorten(&mut request);
            self.set_request(piece.text, request);
        }
    }

    /// Returns the goal, the current request and the user's instructions alone.
    pub fn finish_users(mut self) -> Extract {
        self.last.clear();
        self.select(|note| note.section == Section::Constraints && note.priority >= Priority::High)
    }

    /// Returns the summary.
    pub fn finish(self) -> Extract {
        self.select(|_| true)
    }

    fn select(self, is_wanted: impl Fn(&Note) -> bool) -> Extract {
        let mut notes = self.notes.into_list();
        notes.retain(is_wanted);
        let UserRequests { goal, current } = &self.requests;
        if notes.is_empty() && goal.is_empty() && current.is_empty() && !self.last.is_empty() {
            notes.push(Note::new(Section::Facts, self.last, Priority::Low));
        }
        let sections = selection::select(&self.requests, &notes, self.budget, self.counter);
        Extract { text: sections.to_text(), sections }
    }

    /// Takes in a message of the user.
    fn user(&mut self, text: &str) {
        let (mut statements, code) = user::read(text);
        if !code.is_empty() {
            outputs::take(&mut self.notes, &code, &OutputSource::default());
        }
        let question = self.question.take().filter(|_| statements.len() <= 1);
        if let Some(answer) = question.and_then(|question| user::answer(text, &question)) {
            self.notes.add(answer);
            return;
        }
        let request = self.take_request(&mut statements);
        let rest = self.set_request(text, request);
        self.add_statements(rest);
        self.add_statements(statements);
    }

    /// Takes the request out of a message. The first message is one, whatever it says.
    fn take_request(&self, statements: &mut Vec<Statement>) -> Vec<Statement> {
        let request = user::take_request(statements);
        let is_first = request.is_empty() && self.requests.goal.is_empty();
        if is_first { std::mem::take(statements) } else { request }
    }

    /// Sets the current request, and the goal if there is none yet or another task begins: the message says so, or the model
    /// has said that it is done and the user goes on. The earlier request becomes an instruction, in its old place. Returns
    /// what of the request is not in the goal.
    fn set_request(&mut self, text: &str, mut request: Vec<Statement>) -> Vec<Statement> {
        if request.is_empty() {
            return request;
        }
        let keywords = KeywordSet::of(&text[..text.floor_char_boundary(400)]);
        let is_next = self.is_done && keywords.any(KeywordSet::NEXT);
        if self.requests.goal.is_empty() || keywords.any(KeywordSet::NEW_TASK) || is_next {
            self.retire_goal();
            self.requests.goal = self.date(user::take_goal(&mut request));
            return request;
        }
        self.retire_request();
        self.requests.current = self.date(request);
        Vec::new()
    }

    /// Takes in a message of the model, and its calls.
    fn assistant(&mut self, piece: &Piece<'_>) {
        (self.question, self.is_done) = (None, false);
        units(piece.text, |unit| {
            let ProseUnit::Sentence { text, .. } = unit else { return };
            let keywords = KeywordSet::of(text);
            self.question = user::is_question(text).then(|| one_line(text, LONGEST_QUESTION, 0));
            self.is_done |= keywords.any(KeywordSet::DONE) && !keywords.any(KeywordSet::OPEN);
            if let Some(note) = assistant::note(text, keywords) {
                self.notes.add(note);
            }
        });
        self.calls.clear();
        for call in piece.calls.iter().take(MOST_CALLS) {
            if self.last.is_empty() {
                self.remember(call.name);
            }
            self.calls.push_back((call.name.to_owned(), calls::take(&mut self.notes, call)));
        }
    }

    /// Takes in a line of an earlier summary; without a section it is of no summary of ours.
    fn recall(&mut self, section: Option<Section>, line: &str, requests: &mut UserRequests) {
        let notes = &mut self.notes;
        let text = line.to_owned();
        match section {
            None => sentences::sentences(line, |text| {
                let text = one_line(text, LONGEST_OF_OTHERS, 0);
                notes.add(Note::new(Section::Facts, text, Priority::Critical));
            }),
            Some(Section::Goal | Section::Request) if line == section::AS_THE_GOAL => {}
            Some(section) if section.is_of_user() => {
                let mut note = user::recall(line).into_note();
                notes.date(&mut note);
                if section == Section::Goal {
                    requests.goal.push(note);
                } else if section == Section::Request {
                    requests.current.push(note);
                } else {
                    notes.add(note);
                }
            }
            Some(Section::Files) => {
                let path = line.split(" (").next().unwrap_or_default();
                let priority = if path == line { Priority::Low } else { Priority::High };
                notes.add(Note::new(Section::Files, text, priority).named(path));
            }
            Some(Section::Commands) => {
                let command = line.split(calls::RESULT).next().unwrap_or_default();
                notes.add(Note::new(Section::Commands, text, Priority::Medium).named(command));
            }
            Some(Section::Refs) => {
                let output_ref = line.rsplit(": ").next().unwrap_or_default();
                if self.with_refs {
                    notes.add(Note::new(Section::Refs, text, Priority::High).named(output_ref));
                }
            }
            Some(Section::Errors) => outputs::recall(notes, line),
            Some(section) => notes.add(assistant::recall(section, line)),
        }
    }

    fn add_statements(&mut self, statements: Vec<Statement>) {
        statements.into_iter().for_each(|statement| self.notes.add(statement.into_note()));
    }

    /// Returns statements as notes with their place in the order.
    fn date(&mut self, statements: Vec<Statement>) -> Vec<Note> {
        let mut dated: Vec<Note> = statements.into_iter().map(Statement::into_note).collect();
        dated.iter_mut().for_each(|note| self.notes.date(note));
        dated
    }

    /// Makes the goal and the current request instructions like others.
    fn retire_goal(&mut self) {
        self.retire_request();
        std::mem::take(&mut self.requests.goal).into_iter().for_each(|note| self.notes.add(note));
    }

    fn retire_request(&mut self) {
        std::mem::take(&mut self.requests.current).into_iter().for_each(|note| self.notes.add(note));
    }

    /// Returns the source of the next result: results come in the order of their calls, or say of which tool they are.
    fn source(&mut self, tool: Option<&str>) -> OutputSource {
        let place = tool.and_then(|tool| self.calls.iter().position(|(name, _)| name == tool)).unwrap_or(0);
        let found = self.calls.remove(place).map(|(_, source)| source);
        found.unwrap_or_else(|| OutputSource::unknown(tool.unwrap_or_default()))
    }

    fn remember(&mut self, text: &str) {
        let line = one_line(text, LONGEST_LAST, 0);
        if !line.is_empty() {
            self.last = line;
        }
    }
}

/// Returns a text without the line in brackets by which the view says what a message is.
fn without_title(text: &str) -> &str {
    let text = text.trim();
    let first = text.lines().next().unwrap_or_default();
    let is_title = first.starts_with('[') && first.ends_with(']');
    if is_title { text[first.len()..].trim() } else { text }
}
