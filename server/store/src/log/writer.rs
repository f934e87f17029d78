//! Writes a log: one whole line at the known end, which is taken back if the write fails.

use std::io;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::commit::{Commit, LocalJournal};
use super::line::{self, BadLine, Head, Line, LogKind};
use super::signal::Signal;
use crate::infra::fs::File;
use crate::model::Durability;

/// The end of a log that can be written. Its owner's lock guards it; [`Commit`] is shared with waiters.
#[derive(Debug)]
pub struct LogWriter {
    kind: LogKind,
    len: u64,
    /// How many bytes were acknowledged, durable or not.
    kept: u64,
    commit: Arc<Commit>,
    broken: bool,
}

/// A line that was written but need not be durable yet.
#[derive(Debug)]
pub struct Appended {
    /// The offset at which it begins.
    pub offset: u64,
    /// The offset at which the next line begins.
    pub end: u64,
    kind: LogKind,
    bytes: Vec<u8>,
}

impl Appended {
    /// Parses the line as a reader would.
    pub fn line(&self) -> Result<Line<'_>, BadLine> {
        Line::parse(self.kind, &self.bytes[..self.bytes.len() - 1])
    }
}

impl LogWriter {
    /// Returns the writer of a log in a local file, whose `len` bytes are all durable.
    pub fn new(kind: LogKind, file: Arc<dyn File>, len: u64, signal: Arc<Signal>) -> Self {
        Self::with_commit(kind, Commit::new(LocalJournal::new(file), len, signal))
    }

    /// Returns the writer of a log with any journal.
    pub fn with_commit(kind: LogKind, commit: Commit) -> Self {
        let len = commit.durable();
        Self { kind, len, kept: len, commit: Arc::new(commit), broken: false }
    }

    /// Returns how many bytes are written.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the local file, for readers.
    pub fn file(&self) -> &Arc<dyn File> {
        self.commit.file()
    }

    /// Returns the group commit, which waiters share.
    pub fn commit(&self) -> &Arc<Commit> {
        &self.commit
    }

    /// Returns whether the log can no longer be written by this handle.
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
        if let Err(error) = self.file().write_all_at(&bytes, offset) {
            self.broken = self.file().truncate(offset).is_err();
            return Err(error);
        }
        self.len += bytes.len() as u64;
        self.commit.wrote(self.len);
        Ok(Appended { offset, end: self.len, kind: self.kind, bytes })
    }

    /// Returns when everything written is durable, whatever the durability of the task.
    pub fn sync(&self) -> io::Result<()> {
        self.commit.wait(self.len, Durability::Group)
    }

    /// Records that everything up to `end` was acknowledged without a sync. Fails if it was cut off before.
    pub fn keep(&mut self, end: u64) -> io::Result<()> {
        self.commit.check()?;
        self.kept = self.kept.max(end);
        self.commit.announce();
        Ok(())
    }

    /// Gives up: cuts off lines that were not acknowledged, as they must not come back. Waiting callers fail first, so that a
    /// commit that succeeds meanwhile acknowledges nothing.
    pub fn cut_back(&mut self, error: &io::Error) {
        self.broken = true;
        self.commit.fail(error);
        let end = self.kept.max(self.commit.durable());
        if let Err(error) = self.file().truncate(end) {
            tracing::warn!(%error, end, "a failed batch could not be cut off; reopening will");
        }
    }
}
