//! Reads the scripts: text files with what is said in a domain, and which words of it are facts.
//!
//! ```text
//! @name payments          what the script is about (also @code, @nouns, @services, @groups, @prefix, @system)
//! @open                   how a session starts, one for each session of the script
//! *                       an item that stays true
//! %a                      an item that is superseded: announced (a), just stated anew (s) or withdrawn (w)
//! =>                      what supersedes it
//! U: text                 the user; `A:` is the assistant
//! T: tool ~ key=value ~ what the assistant says with it
//! | text                  a further line of the turn above, or of the tool's output
//! |@pool 12               twelve lines of noise from a pool
//! ```
//!
//! Within a text `[[c words]]` is a fact that holds (c, d, p, e, i for its kind), `[[-c words]]` one that is superseded
//! later on, and `«slot»` is filled by chance.

use super::Kind;

/// What is said in one domain.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) name: String,
    pub(super) system: String,
    /// The programming language of what is read.
    pub(super) code: String,
    pub(super) nouns: Vec<String>,
    pub(super) services: Vec<String>,
    /// The pools of tool calls that fit the domain.
    pub(super) groups: Vec<String>,
    /// Of its tickets.
    pub(super) prefix: String,
    pub(super) opens: Vec<Vec<Turn>>,
    pub(super) singles: Vec<Vec<Turn>>,
    pub(super) pairs: Vec<Pair>,
}

/// A statement, and the one that takes its place.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub(super) old: Vec<Turn>,
    pub(super) new: Vec<Turn>,
}

/// One turn of an item.
#[derive(Debug, Clone)]
pub(super) enum Turn {
    User(String),
    Assistant(String),
    Tool { name: String, key: String, value: String, says: String, output: String },
}

impl Turn {
    fn read(line: &str) -> Option<Self> {
        if let Some(text) = line.strip_prefix("U: ") {
            return Some(Self::User(text.to_owned()));
        }
        if let Some(text) = line.strip_prefix("A: ") {
            return Some(Self::Assistant(text.to_owned()));
        }
        let mut parts = line.strip_prefix("T: ")?.split(" ~ ");
        let name = parts.next()?.to_owned();
        let (key, value) = parts.next()?.split_once('=')?;
        let says = parts.next().unwrap_or_default().to_owned();
        Some(Self::Tool { name, key: key.to_owned(), value: value.to_owned(), says, output: String::new() })
    }

    fn add_line(&mut self, line: &str) {
        let (Self::User(text) | Self::Assistant(text) | Self::Tool { output: text, .. }) = self;
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line);
    }
}

/// Where the turns that are read belong.
#[derive(Clone, Copy)]
enum Place {
    Open,
    Single,
    Old,
    New,
}

impl Script {
    /// Panics on a line that it does not know.
    pub(super) fn parse(text: &str) -> Self {
        let mut script = Self::default();
        let mut place = Place::Open;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match line {
                "@open" => {
                    script.opens.push(Vec::new());
                    place = Place::Open;
                }
                "*" => {
                    script.singles.push(Vec::new());
                    place = Place::Single;
                }
                "%a" | "%s" | "%w" => {
                    script.pairs.push(Pair::default());
                    place = Place::Old;
                }
                "=>" => place = Place::New,
                _ if line.starts_with('@') => script.head(&line[1..]),
                _ => script.turn(place, line),
            }
        }
        script
    }

    fn head(&mut self, line: &str) {
        let (field, value) = line.split_once(' ').unwrap_or((line, ""));
        let words = || value.split_whitespace().map(str::to_owned).collect();
        match field {
            "name" => value.clone_into(&mut self.name),
            "system" => value.clone_into(&mut self.system),
            "code" => value.clone_into(&mut self.code),
            "prefix" => value.clone_into(&mut self.prefix),
            "nouns" => self.nouns = words(),
            "services" => self.services = words(),
            "groups" => self.groups = words(),
            _ => panic!("{}: unknown field {field:?}", self.name),
        }
    }

    fn turn(&mut self, place: Place, line: &str) {
        let turns = match place {
            Place::Open => self.opens.last_mut(),
            Place::Single => self.singles.last_mut(),
            Place::Old => self.pairs.last_mut().map(|pair| &mut pair.old),
            Place::New => self.pairs.last_mut().map(|pair| &mut pair.new),
        };
        let turns = turns.unwrap_or_else(|| panic!("{}: {line:?} belongs to no item", self.name));
        if let Some(more) = line.strip_prefix('|') {
            let last =
                turns.last_mut().unwrap_or_else(|| panic!("{}: {line:?} continues nothing", self.name));
            last.add_line(more.strip_prefix(' ').unwrap_or(more));
        } else {
            turns.push(Turn::read(line).unwrap_or_else(|| panic!("{}: cannot read {line:?}", self.name)));
        }
    }
}

/// A fact as it is marked in a text: its kind, whether it will be superseded, its words.
pub(super) type Mark = (Kind, bool, String);

/// The text without its marks, and what they say.
pub(super) fn unmarked(text: &str) -> (String, Vec<Mark>) {
    let mut plain = String::new();
    let mut marks = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[[") {
        let (inside, after) = after.split_once("]]").unwrap_or_else(|| panic!("an open mark in {text:?}"));
        let (head, words) =
            inside.split_once(' ').unwrap_or_else(|| panic!("a mark without words in {text:?}"));
        let superseded = head.starts_with('-');
        let kind = match head.trim_start_matches('-') {
            "c" => Kind::Constraint,
            "d" => Kind::Decision,
            "p" => Kind::Path,
            "e" => Kind::Error,
            "i" => Kind::Id,
            _ => panic!("unknown mark {head:?} in {text:?}"),
        };
        plain.push_str(before);
        plain.push_str(words);
        marks.push((kind, superseded, words.to_owned()));
        rest = after;
    }
    plain.push_str(rest);
    (plain, marks)
}
