//! The lines that may become part of a summary, in the order in which they came, within a bound of bytes.
//!
//! A line is replaced only by its exact repetition, or by a newer one of the same name: the same file, the same command, the
//! same setting. Nothing is removed because something later looks like a contradiction.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::section::Section;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// It is told if there is room.
    Filler,
    /// It names something: an id, a number, a path.
    Named,
    /// It tells a decision, a finding, an error, an open item, a wish.
    Telling,
    /// It is a rule or a request of the user, or the newest error of a command.
    Firm,
}

/// A line that may become part of a summary.
#[derive(Debug, Clone)]
pub(super) struct Note {
    pub(super) section: Section,
    pub(super) text: String,
    pub(super) rank: Rank,
    /// Its place in the order of all that came.
    pub(super) order: u64,
    /// The message that it is from.
    pub(super) message: u64,
    /// The command whose output it is; 0: none.
    pub(super) command: u64,
    /// What it is known by.
    pub(super) key: u64,
}

impl Note {
    pub(super) fn new(section: Section, text: String, rank: Rank) -> Self {
        let key = hash(&folded(&text));
        Self { section, text, rank, order: 0, message: 0, command: 0, key }
    }

    /// The same under a name of its section: a newer one of that name replaces it.
    pub(super) fn named(self, name: &str) -> Self {
        Self { key: hash(&(self.section as u8, name)), ..self }
    }

    /// The same as a line of the output of a command.
    pub(super) fn of_command(self, command: u64) -> Self {
        Self { command, ..self }
    }
}

/// Bytes that a note takes beside its text.
const AROUND: usize = 96;
/// Commands whose newest run is known; of older ones all errors stay.
const MOST_COMMANDS: usize = 4096;

/// The notes of a summary that is being made.
#[derive(Debug)]
pub(super) struct Notes {
    list: Vec<Option<Note>>,
    places: HashMap<u64, usize>,
    /// When each command was run last.
    runs: HashMap<u64, u64>,
    bytes: usize,
    room: usize,
    order: u64,
    message: u64,
    removed: usize,
}

impl Notes {
    /// Returns an empty list that holds at most so many bytes.
    pub(super) fn new(room: usize) -> Self {
        let (list, places, runs) = (Vec::new(), HashMap::new(), HashMap::new());
        Self { list, places, runs, bytes: 0, room, order: 0, message: 0, removed: 0 }
    }

    /// Begins another message.
    pub(super) fn next_message(&mut self) {
        self.message += 1;
    }

    /// Gives a note its place in the order, if it has none.
    pub(super) fn date(&mut self, note: &mut Note) {
        if note.order == 0 {
            self.order += 1;
            (note.order, note.message) = (self.order, self.message);
        }
    }

    /// Adds a note. An exact repetition, or an older note of the same name, goes; what the user said is not replaced by what
    /// somebody else says.
    pub(super) fn add(&mut self, mut note: Note) {
        self.date(&mut note);
        if let Some(&at) = self.places.get(&note.key)
            && let Some(old) = &self.list[at]
        {
            if old.section.is_of_user() && !note.section.is_of_user() {
                return;
            }
            note.rank = note.rank.max(old.rank);
            self.remove(at);
        }
        self.bytes += note.text.len() + AROUND;
        self.places.insert(note.key, self.list.len());
        self.list.push(Some(note));
        if self.bytes > self.room || self.removed > self.list.len() / 2 + 64 {
            self.tidy();
        }
    }

    /// Returns the note of a name.
    pub(super) fn named(&self, section: Section, name: &str) -> Option<&Note> {
        let at = *self.places.get(&hash(&(section as u8, name)))?;
        self.list[at].as_ref()
    }

    /// Forgets what has a name.
    pub(super) fn forget(&mut self, section: Section, name: &str) {
        if let Some(&at) = self.places.get(&hash(&(section as u8, name))) {
            self.remove(at);
        }
    }

    /// Notes that a command was run: the errors of its earlier runs matter less from now on.
    pub(super) fn ran(&mut self, command: u64) {
        if self.runs.len() >= MOST_COMMANDS {
            self.runs.clear();
        }
        self.runs.insert(command, self.order);
    }

    /// Forgets all notes but some.
    pub(super) fn keep(&mut self, wanted: impl Fn(&Note) -> bool) {
        let others =
            (0..self.list.len()).filter(|at| self.list[*at].as_ref().is_some_and(|note| !wanted(note)));
        for at in others.collect::<Vec<_>>() {
            self.remove(at);
        }
    }

    /// Returns all notes in order.
    pub(super) fn into_list(mut self) -> Vec<Note> {
        self.tidy();
        let mut list: Vec<Note> = self.list.into_iter().flatten().collect();
        list.sort_by_key(|note| note.order);
        list
    }

    /// Bytes that are held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, at: usize) {
        if let Some(old) = self.list[at].take() {
            self.bytes -= old.text.len() + AROUND;
            self.places.remove(&old.key);
            self.removed += 1;
        }
    }

    /// Lowers outdated errors and, where there is too much, drops what matters least and came first, down to half of the
    /// room: so each note is looked at a few times at most. What the user said goes last.
    fn tidy(&mut self) {
        let mut list: Vec<Note> = std::mem::take(&mut self.list).into_iter().flatten().collect();
        for note in &mut list {
            if self.runs.get(&note.command).is_some_and(|run| note.order <= *run) {
                note.rank = note.rank.min(Rank::Named);
            }
        }
        if self.bytes > self.room {
            list.sort_by_key(|note| std::cmp::Reverse((note.section.is_of_user(), note.rank, note.order)));
            let mut bytes = 0;
            list.retain(|note| {
                bytes += note.text.len() + AROUND;
                bytes <= self.room / 2
            });
            list.sort_by_key(|note| note.order);
        }
        #[cfg(test)]
        super::tests::work(list.len() * 16);
        self.bytes = list.iter().map(|note| note.text.len() + AROUND).sum();
        self.places = list.iter().enumerate().map(|(at, note)| (note.key, at)).collect();
        self.list = list.into_iter().map(Some).collect();
        self.removed = 0;
    }
}

/// What two repetitions of a sentence have in common: not the case, the white space and the mark at its end.
fn folded(text: &str) -> String {
    let text = text.trim_end_matches(['.', '!', '。', '！', ' ']);
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ")
}

/// The hash of a value, the same each time and never 0.
pub(super) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish() | 1
}
