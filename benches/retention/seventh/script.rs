//! Reads a script: the hand-written part of a session, with its planted facts marked in place.
//!
//! A script is a text of lines. A line that starts with two spaces continues the one before.
//!
//! - `@key value`: what the script is about (name, system prompt, words for the noise, calls to draw from).
//! - `U: …` the user speaks and the agent goes to work; `u: …` the user speaks and is answered; `A: …` the agent speaks.
//! - `> tool kind target :: remark`: a call whose result is noise of that kind; `+ …` lines stand in its result.
//! - `U1:`, `A2:`, `>1`: only in the first or second session of the script; `<<a||b>>` is `a` in one and `b` in the other.
//! - `[[i:probe]]` plants a fact (c, d, p, e, i for its kind), `[[-i1:probe]]` one that is superseded by the fact
//!   `[[i>1:probe]]` or withdrawn where `[[>1:]]` stands.

use super::super::session::Kind;

/// A call of a tool: what is called, with what, and what kind of text comes back.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) kind: String,
    pub(super) target: String,
    pub(super) says: Option<String>,
    pub(super) lines: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Step {
    User { text: String, works: bool },
    Assistant(String),
    Call(Call),
}

/// What the noise of a session is about.
#[derive(Debug, Default)]
pub(super) struct Topic {
    pub(super) japanese: bool,
    pub(super) words: Vec<String>,
    pub(super) nouns: Vec<String>,
    pub(super) people: Vec<String>,
    pub(super) dirs: Vec<String>,
    pub(super) ext: String,
    pub(super) prose: Vec<String>,
    /// When the day begins, in seconds, if it matters.
    pub(super) clock: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) name: String,
    pub(super) system: String,
    pub(super) end: String,
    pub(super) topic: Topic,
    pub(super) pool: Vec<Call>,
    pub(super) steps: Vec<Step>,
}

/// A fact as it is marked in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// None where something is only withdrawn.
    pub(super) kind: Option<Kind>,
    pub(super) probe: String,
    /// The label of a fact that gets superseded.
    pub(super) old: Option<char>,
    /// The labels of those it supersedes.
    pub(super) replaces: String,
}

impl Script {
    pub(super) fn parse(text: &str, session: usize) -> Self {
        let mut script = Self::default();
        let mut skipped = false;
        for line in joined(text) {
            let line = chosen(&line, session);
            if let Some(rest) = line.strip_prefix('@') {
                let (key, value) = rest.split_once(' ').unwrap_or((rest, ""));
                script.set(key, value.trim());
                continue;
            }
            if let Some(rest) = line.strip_prefix("+ ") {
                if let (false, Some(Step::Call(call))) = (skipped, script.steps.last_mut()) {
                    call.lines.push(rest.to_owned());
                }
                continue;
            }
            let (head, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let only = head.chars().find_map(|c| c.to_digit(10));
            skipped = only.is_some_and(|only| usize::try_from(only).unwrap() != session + 1);
            if skipped {
                continue;
            }
            let step = match head.chars().next().unwrap() {
                'U' => Step::User { text: rest.to_owned(), works: true },
                'u' => Step::User { text: rest.to_owned(), works: false },
                'A' => Step::Assistant(rest.to_owned()),
                '>' => Step::Call(call(rest)),
                _ => panic!("{}: cannot read {line:?}", script.name),
            };
            script.steps.push(step);
        }
        script
    }

    fn set(&mut self, key: &str, value: &str) {
        let list = |by: &[char]| -> Vec<String> {
            value.split(by).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        match key {
            "name" => {
                self.topic.japanese = value.starts_with("ja-");
                self.name = value.to_owned();
            }
            "system" => self.system = value.to_owned(),
            "end" => self.end = value.to_owned(),
            "words" => self.topic.words = list(&[' ']),
            "nouns" => self.topic.nouns = list(&[',', '、']),
            "people" => self.topic.people = list(&[',', '、']),
            "dirs" => self.topic.dirs = list(&[' ']),
            "clock" => self.topic.clock = value.parse().ok(),
            "ext" => self.topic.ext = value.to_owned(),
            "prose" => self.topic.prose.push(value.to_owned()),
            "pool" => self.pool.push(call(value)),
            _ => panic!("{}: no such key: {key}", self.name),
        }
    }
}

/// The lines of a script, with continued ones put together.
fn joined(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("  "), lines.last_mut()) {
            (Some(rest), Some(last)) => {
                last.push('\n');
                last.push_str(rest);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// The text with one of each `<<a||b>>`.
fn chosen(text: &str, session: usize) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<<") {
        let (inside, after) = after.split_once(">>").unwrap_or_else(|| panic!("no end: {text}"));
        let (one, other) = inside.split_once("||").unwrap_or_else(|| panic!("no choice: {text}"));
        out.push_str(before);
        out.push_str(if session == 0 { one } else { other });
        rest = after;
    }
    out + rest
}

fn call(text: &str) -> Call {
    let (call, says) = match text.split_once(" :: ") {
        Some((call, says)) => (call, Some(says.to_owned())),
        None => (text, None),
    };
    let mut parts = call.splitn(3, ' ');
    let mut part = || parts.next().unwrap_or_else(|| panic!("not a call: {text}")).to_owned();
    Call { tool: part(), kind: part(), target: part(), says, lines: Vec::new() }
}

/// The text without its marks, and the marks.
pub(super) fn unmarked(text: &str) -> (String, Vec<Mark>) {
    let (mut out, mut marks, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once("[[") {
        let (inside, after) = after.split_once("]]").unwrap_or_else(|| panic!("no end of mark: {text}"));
        let (head, probe) = inside.split_once(':').unwrap_or_else(|| panic!("no kind of mark: {text}"));
        out.push_str(before);
        out.push_str(probe);
        marks.push(mark(head, probe));
        rest = after;
    }
    (out + rest, marks)
}

fn mark(head: &str, probe: &str) -> Mark {
    let (head, gone) = head.strip_prefix('-').map_or((head, false), |rest| (rest, true));
    let (head, replaces) = head.split_once('>').unwrap_or((head, ""));
    let mut chars = head.chars();
    let kind = chars.next().map(|c| match c {
        'c' => Kind::Constraint,
        'd' => Kind::Decision,
        'p' => Kind::Path,
        'e' => Kind::Error,
        'i' => Kind::Id,
        _ => panic!("no such kind: {head}:{probe}"),
    });
    let old = gone.then(|| chars.next().unwrap_or_else(|| panic!("no label: {probe}")));
    Mark { kind, probe: probe.to_owned(), old, replaces: replaces.to_owned() }
}
