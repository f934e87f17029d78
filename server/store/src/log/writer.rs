//! Writing a log: one whole line at the known end, taken back if it does not go through.

use std::io;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::commit::Commit;
use super::line::{self, Head, LogKind};
use super::signal::Signal;
use crate::infra::fs::File;
use crate::model::Durability;

/// The end of a log that can be written. Its owner's lock guards it; [`Commit`] is shared with waiters.
#[derive(Debug)]
pub struct LogWriter {
    kind: LogKind,
    file: Arc<dyn File>,
    len: u64,
    /// How much was acknowledged, synced or not.
    kept: u64,
    commit: Arc<Commit>,
    broken: bool,
}

/// A line that was written but need not be durable yet.
#[derive(Debug)]
pub struct Appended {
    /// Where it begins.
    pub offset: u64,
    /// Where the next one will.
    pub end: u64,
    /// The line with its line end.
    pub bytes: Vec<u8>,
}

impl LogWriter {
    /// A log of `len` bytes that are all durable.
    pub fn new(kind: LogKind, file: Arc<dyn File>, len: u64, signal: Arc<Signal>) -> Self {
        let commit = Arc::new(Commit::new(len, signal));
        Self { kind, file, len, kept: len, commit, broken: false }
    }

    /// Bytes written.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The file, for readers.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// How far it is durable.
    pub fn commit(&self) -> &Arc<Commit> {
        &self.commit
    }

    /// Whether the log can no longer be written by this handle.
    pub fn is_broken(&self) -> bool {
        self.broken || self.commit.check().is_err()
    }

    /// Writes one line at the end. After an error the log is as it was, or the writer is broken.
    pub fn append(&mut self, head: Head<'_>, now: DateTime<Utc>, body: &str) -> io::Result<Appended> {
        if self.broken {
            return Err(io::Error::other("an earlier write could not be taken back"));
        }
        self.commit.check()?;
        let mut bytes = line::begin(self.kind, head, now, self.commit.durable());
        bytes.extend_from_slice(body.as_bytes());
        line::seal(&mut bytes);
        let offset = self.len;
        if let Err(error) = self.file.write_all_at(&bytes, offset) {
            self.broken = self.file.truncate(offset).is_err();
            return Err(error);
        }
        self.len += bytes.len() as u64;
        self.commit.wrote(self.len);
        Ok(Appended { offset, end: self.len, bytes })
    }

    /// Returns when everything written is durable, whatever the durability of the task.
    pub fn sync(&self) -> io::Result<()> {
        self.commit.wait(self.len, Durability::Group, self.file.as_ref())
    }

    /// Says that everything up to `end` was acknowledged without a sync. Fails if it was cut off before.
    pub fn keep(&mut self, end: u64) -> io::Result<()> {
        self.commit.check()?;
        self.kept = self.kept.max(end);
        self.commit.announce();
        Ok(())
    }

    /// Gives up: cuts off what was not acknowledged, as it must not come back. Whoever waits for it is told
    /// first, so that a sync that goes through meanwhile acknowledges nothing.
    pub fn cut_back(&mut self, error: &io::Error) {
        self.broken = true;
        self.commit.fail(error);
        let end = self.kept.max(self.commit.durable());
        if let Err(error) = self.file.truncate(end) {
            tracing::warn!(%error, end, "a failed batch could not be cut off; reopening will");
        }
    }
}
