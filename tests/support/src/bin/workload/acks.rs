//! The notes: one line before and one after each operation, each by a single write, so that their order is
//! certain and a killed process leaves them whole.
//!
//! ```text
//! run SEED
//! try REQUEST TASK LOG KIND PRINT   is about to ask for it
//! ack REQUEST NUMBER                was told that it happened
//! no REQUEST WHY                    was told that it did not, for a reason that a caller can see
//! err REQUEST WHY                   was told that the disk failed: it may have happened or not
//! late REQUEST NUMBER               an `ack` that came when the power was perhaps already cut: the same
//! saw TASK BYTES                    a reader was shown logs of that length: they must not become shorter
//! gone TASK                         a task was seen to be gone: it must not come back
//! ```

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use contextstore_base::model::TaskId;

/// Which log an operation writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Log {
    Messages,
    Tools,
    Plans,
    /// None: the task goes as a whole.
    Delete,
}

impl Log {
    const NAMES: [(Self, &str); 4] = [
        (Self::Messages, "messages"),
        (Self::Tools, "tools"),
        (Self::Plans, "plans"),
        (Self::Delete, "delete"),
    ];

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(log, _)| *log == self).unwrap().1
    }

    fn parse(name: &str) -> Self {
        Self::NAMES.iter().find(|(_, known)| *known == name).unwrap().0
    }
}

/// What is known of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It may have happened or not.
    Open,
    /// It happened, and this number was told.
    Acked(u64),
    /// It did not.
    Refused,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) request: String,
    pub(crate) task: TaskId,
    pub(crate) log: Log,
    pub(crate) kind: String,
    /// The checksum of everything the caller sent.
    pub(crate) print: u32,
    pub(crate) fate: Fate,
}

/// All notes of all runs.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    /// In the order in which they were tried.
    pub(crate) entries: Vec<Entry>,
    pub(crate) by_request: HashMap<String, usize>,
    pub(crate) saw: HashMap<TaskId, u64>,
    pub(crate) gone: HashSet<TaskId>,
}

impl Acks {
    /// Reads the notes; a last line without an end was never finished.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let mut acks = Self::default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().for_each(|line| acks.take(line));
        Ok(acks)
    }

    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["try", request, task, log, kind, print] => {
                self.by_request.insert(request.to_owned(), self.entries.len());
                self.entries.push(Entry {
                    request: request.to_owned(),
                    task: TaskId::parse(task).unwrap(),
                    log: Log::parse(log),
                    kind: kind.to_owned(),
                    print: print.parse().unwrap(),
                    fate: Fate::Open,
                });
            }
            ["ack", request, number] => self.set(request, Fate::Acked(number.parse().unwrap())),
            ["no", request, ..] => self.set(request, Fate::Refused),
            ["saw", task, bytes] => {
                self.saw.insert(TaskId::parse(task).unwrap(), bytes.parse().unwrap());
            }
            ["gone", task] => {
                self.gone.insert(TaskId::parse(task).unwrap());
            }
            ["run" | "err" | "late", ..] => {}
            _ => panic!("no note looks like this: {line}"),
        }
    }

    fn set(&mut self, request: &str, fate: Fate) {
        self.entries[self.by_request[request]].fate = fate;
    }
}

/// Where notes are written.
#[derive(Debug)]
pub(crate) struct Notes {
    file: Option<File>,
}

impl Notes {
    pub(crate) fn open(path: Option<&Path>) -> Self {
        let open = |path| {
            // A line that a killed process could not finish is not a note.
            let text = std::fs::read(path).unwrap_or_default();
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let file = File::options().create(true).append(true).open(path).unwrap();
            if whole < text.len() {
                file.set_len(whole as u64).unwrap();
            }
            file
        };
        Self { file: path.map(open) }
    }

    pub(crate) fn trying(&self, entry: &Entry) {
        let Entry { request, task, log, kind, print, .. } = entry;
        self.line(&format!("try {request} {task} {} {kind} {print}", log.name()));
    }

    /// Writes a line with one call.
    pub(crate) fn line(&self, line: &str) {
        let line = format!("{line}\n");
        match &self.file {
            Some(file) => assert_eq!((&mut &*file).write(line.as_bytes()).unwrap(), line.len()),
            None => io::stdout().lock().write_all(line.as_bytes()).unwrap(),
        }
    }
}
