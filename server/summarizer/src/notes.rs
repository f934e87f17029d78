//! The lines that may become part of a summary, in the order in which they came, within a bound of bytes.
//!
//! A line is replaced only by its exact repetition, or by a newer one of the same name: the same file, the same command, the
//! same setting. Nothing is removed because something later looks like a contradiction.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::section::Section;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// It fills what room is left.
    Low,
    /// It has an id, a number, a path.
    Medium,
    /// It is a decision, a finding, an error, an open item, a statement of the user.
    High,
    /// It is a rule or a request of the user, or the newest error of a command.
    Critical,
}

/// A line that may become part of a summary.
#[derive(Debug, Clone)]
pub(super) struct Note {
    pub(super) section: Section,
    pub(super) text: String,
    pub(super) priority: Priority,
    /// Its place in the order of all that came; 0: none yet.
    pub(super) order: u64,
    /// The hash of the text, or of the name.
    pub(super) key: u64,
    /// The hash of the command that failed with this error; 0: none.
    command: u64,
}

impl Note {
    pub(super) fn new(section: Section, text: String, priority: Priority) -> Self {
        let key = folded(&text);
        Self { section, text, priority, order: 0, key, command: 0 }
    }

    /// Returns the note under a name of its section: a newer note of that name replaces it.
    pub(super) fn named(self, name: &str) -> Self {
        Self { key: hash(&(self.section as u8, name)), ..self }
    }

    /// Returns the note as an error of a command.
    pub(super) fn of_command(self, command: &str) -> Self {
        Self { command: if command.is_empty() { 0 } else { hash(&command) }, ..self }
    }

    /// Returns how many bytes it takes.
    fn size(&self) -> usize {
        const AROUND: usize = 96;
        self.text.len() + AROUND
    }
}

/// The notes of a summary that is being made.
#[derive(Debug)]
pub(super) struct Notes {
    list: Vec<Option<Note>>,
    places: HashMap<u64, usize>,
    bytes: usize,
    room: usize,
    order: u64,
    removed: usize,
}

impl Notes {
    /// Returns an empty list that holds at most `room` bytes.
    pub(super) fn new(room: usize) -> Self {
        Self { list: Vec::new(), places: HashMap::new(), bytes: 0, room, order: 0, removed: 0 }
    }

    /// Gives a note its place in the order, if it has none.
    pub(super) fn date(&mut self, note: &mut Note) {
        if note.order == 0 {
            self.order += 1;
            note.order = self.order;
        }
    }

    /// Adds a note. Its exact repetition, or an older note of the same name, goes; what the user said is not replaced by what
    /// somebody else says.
    pub(super) fn add(&mut self, mut note: Note) {
        self.date(&mut note);
        if let Some(&at) = self.places.get(&note.key)
            && let Some(old) = &self.list[at]
        {
            if old.section.is_of_user() && !note.section.is_of_user() {
                return;
            }
            note.priority = note.priority.max(old.priority);
            self.bytes -= old.size();
            self.list[at] = None;
            self.removed += 1;
        }
        self.bytes += note.size();
        self.places.insert(note.key, self.list.len());
        self.list.push(Some(note));
        if self.bytes > self.room || self.removed > self.list.len() / 2 + 64 {
            self.tidy();
        }
    }

    /// Returns whether there is a note of a name.
    pub(super) fn has(&self, section: Section, name: &str) -> bool {
        self.places.contains_key(&hash(&(section as u8, name)))
    }

    /// Returns all notes in order.
    pub(super) fn into_list(mut self) -> Vec<Note> {
        self.tidy();
        let mut list: Vec<Note> = self.list.into_iter().flatten().collect();
        list.sort_by_key(|note| note.order);
        list
    }

    /// Returns how many bytes are held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lowers outdated errors and, where there is too much, drops what matters least and came first, down to half of the
    /// room: so each note is looked at a few times at most. What the user said goes last.
    fn tidy(&mut self) {
        let mut list: Vec<Note> = std::mem::take(&mut self.list).into_iter().flatten().collect();
        list.sort_by_key(|note| Reverse(note.order));
        let mut failed = HashSet::new();
        for note in list.iter_mut().filter(|note| note.command != 0) {
            if !failed.insert(note.command) {
                note.priority = note.priority.min(Priority::Medium);
            }
        }
        if self.bytes > self.room {
            list.sort_by_key(|note| Reverse((note.section.is_of_user(), note.priority, note.order)));
            let mut bytes = 0;
            list.retain(|note| {
                bytes += note.size();
                bytes <= self.room / 2
            });
        }
        list.sort_by_key(|note| note.order);
        #[cfg(test)]
        super::tests::work(list.len() * 16);
        self.bytes = list.iter().map(Note::size).sum();
        self.places = list.iter().enumerate().map(|(at, note)| (note.key, at)).collect();
        self.list = list.into_iter().map(Some).collect();
        self.removed = 0;
    }
}

/// Returns the hash of what two repetitions of a sentence have in common: not the case, the white space and the mark at its
/// end.
fn folded(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for word in text.trim_end_matches(['.', '!', '。', '！', ' ']).split_whitespace() {
        word.chars().flat_map(char::to_lowercase).for_each(|c| c.hash(&mut hasher));
        ' '.hash(&mut hasher);
    }
    hasher.finish() | 1
}

/// Returns the hash of a value, the same each time and never 0.
pub(super) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish() | 1
}
