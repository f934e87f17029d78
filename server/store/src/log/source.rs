//! A log to read from: its rewrites, and its messages one after the other.

use std::io;
use std::sync::Arc;

use super::damage::DamageNote;
use super::index::{Index, IndexRow};
use super::line::{Head, Line, LogKind};
use super::scan::{Forward, ScannedLine};
use super::state::RewriteMark;
use crate::infra::fs::File;
use crate::model::{Event, Rewrite, StoreError};

/// A log up to an offset that does not move any more, and where things stand in it.
#[derive(Debug, Clone)]
pub struct LogSource {
    /// What to call it in messages.
    pub path: String,
    /// The log.
    pub file: Arc<dyn File>,
    /// How much of it is to be seen.
    pub end: u64,
    /// Its index; without one it is read from the start.
    pub index: Option<Index>,
    /// Where damage is noted; none: only the reader sees it.
    pub notes: Option<DamageNote>,
}

/// A rewrite where it stands in the log.
#[derive(Debug, Clone)]
pub struct FoundRewrite {
    /// The rewrite.
    pub rewrite: Rewrite,
    /// Where its line begins.
    pub offset: u64,
    /// The last message before it.
    pub after: u64,
}

impl LogSource {
    /// The place to start reading in order to find message `seq`.
    fn before_message(&self, seq: u64) -> IndexRow {
        let row = self.index.as_ref().map(|index| index.before_message(seq));
        self.checked(row, seq)
    }

    /// A row of the index is used only if it leads to a line; else the log is read from its start.
    fn checked(&self, row: Option<io::Result<IndexRow>>, wanted: u64) -> IndexRow {
        let row = match row {
            Some(Ok(row)) if row.offset < self.end || row == IndexRow::FIRST => row,
            Some(Err(error)) => {
                tracing::warn!(%error, path = self.path, wanted, "the index cannot be used");
                IndexRow::FIRST
            }
            _ => return IndexRow::FIRST,
        };
        let mut first = Forward::new(Arc::clone(&self.file), row.offset, self.end);
        let fits = match first.next() {
            Ok(Some(found)) => found.line(LogKind::Messages).is_ok_and(|line| match line.head {
                Head::Message { seq, .. } => seq == row.seq,
                Head::Event { after, .. } => after.checked_add(1) == Some(row.seq),
                Head::Record { .. } => false,
            }),
            Ok(None) => true,
            Err(_) => false,
        };
        if fits { row } else { IndexRow::FIRST }
    }

    /// Rewrite `ordinal`.
    pub fn rewrite(&self, ordinal: u64) -> Result<Rewrite, StoreError> {
        self.find_rewrite(ordinal).map(|found| found.rewrite)
    }

    /// Rewrite `ordinal`, and where it stands.
    pub fn find_rewrite(&self, ordinal: u64) -> Result<FoundRewrite, StoreError> {
        let row = self.index.as_ref().map(|index| index.before_rewrite(ordinal));
        let mut from = self.checked(row, ordinal).offset;
        loop {
            let mut lines = Forward::new(Arc::clone(&self.file), from, self.end);
            while let Some(found) = self.read(lines.next())? {
                if let Head::Event { name: "rewrite", after, .. } = found.1.head
                    && let Some(rewrite) = self.as_rewrite(found.0, &found.1)?
                    && rewrite.ordinal == ordinal
                {
                    return Ok(FoundRewrite { rewrite, offset: found.0, after });
                }
            }
            if from == 0 {
                return Err(self.damaged(self.end, format!("rewrite {ordinal} is not in the log")));
            }
            from = 0;
        }
    }

    /// The rewrite whose line begins at `offset`.
    pub fn rewrite_at(&self, offset: u64) -> Result<Rewrite, StoreError> {
        let mut lines = Forward::new(Arc::clone(&self.file), offset, self.end);
        let rewrite = match self.read(lines.next())? {
            Some((at, line)) => self.as_rewrite(at, &line)?,
            None => None,
        };
        rewrite.ok_or_else(|| self.damaged(offset, "no rewrite is here".to_owned()))
    }

    /// Returns the rewrite that a mark leads to.
    pub fn marked_rewrite(&self, mark: Option<&RewriteMark>) -> Result<Option<Rewrite>, StoreError> {
        mark.map(|mark| self.rewrite_at(mark.offset)).transpose()
    }

    /// The final summary in the status event whose line begins at `offset`.
    pub fn final_summary_at(&self, offset: u64) -> Result<Option<String>, StoreError> {
        let mut lines = Forward::new(Arc::clone(&self.file), offset, self.end);
        let text = self.read(lines.next())?.map(|(_, line)| Event::parse("status", line.text));
        match text {
            Some(Ok(Some(Event::Status { final_summary, .. }))) => Ok(final_summary),
            _ => Err(self.damaged(offset, "no status event is here".to_owned())),
        }
    }

    /// The newest rewrite with `after` at most `seq`.
    pub fn rewrite_as_of(&self, seq: u64) -> Result<Option<Rewrite>, StoreError> {
        let row = self.before_message(seq.saturating_add(1));
        let mut newest = None;
        let mut lines = Forward::new(Arc::clone(&self.file), row.offset, self.end);
        while let Some((offset, line)) = self.read(lines.next())? {
            match line.head {
                Head::Message { seq: found, .. } if found > seq => break,
                Head::Event { name: "rewrite", .. } => newest = self.as_rewrite(offset, &line)?,
                Head::Message { .. } | Head::Event { .. } | Head::Record { .. } => {}
            }
        }
        match newest {
            None if row.rewrites > 0 => self.rewrite(row.rewrites).map(Some),
            found => Ok(found),
        }
    }

    /// Lines from a place before message `from` on, as near as the index knows.
    pub fn lines_from(&self, from: u64) -> Forward {
        Forward::new(Arc::clone(&self.file), self.before_message(from).offset, self.end)
    }

    /// Messages `from` to `to`, with the events between them left out.
    pub fn messages(&self, from: u64, to: u64) -> MessageRange {
        MessageRange { source: self.clone(), lines: self.lines_from(from), next: from, to }
    }

    fn as_rewrite(&self, offset: u64, line: &Line<'_>) -> Result<Option<Rewrite>, StoreError> {
        let Head::Event { name, .. } = line.head else { return Ok(None) };
        match Event::parse(name, line.text) {
            Ok(Some(Event::Rewrite(rewrite))) => Ok(Some(rewrite)),
            Ok(_) => Ok(None),
            Err(problem) => Err(self.damaged(offset, problem)),
        }
    }

    /// A line that was read must be valid: this part of the log was durable.
    fn read<'a>(
        &self,
        found: io::Result<Option<ScannedLine<'a>>>,
    ) -> Result<Option<(u64, Line<'a>)>, StoreError> {
        let Some(found) = found.map_err(|error| StoreError::io(format!("reading {}", self.path), error))?
        else {
            return Ok(None);
        };
        let line =
            found.line(LogKind::Messages).map_err(|bad| self.damaged(found.offset, bad.to_string()))?;
        Ok(Some((found.offset, line)))
    }

    pub(super) fn damaged(&self, offset: u64, problem: String) -> StoreError {
        match &self.notes {
            Some(notes) => notes.found(&self.path, offset, problem),
            None => StoreError::Damaged { path: self.path.clone(), offset, problem },
        }
    }
}

/// Messages of a range, one after the other.
#[derive(Debug)]
pub struct MessageRange {
    source: LogSource,
    lines: Forward,
    next: u64,
    to: u64,
}

impl MessageRange {
    /// Calls `take` with the next message; false at the end of the range.
    pub fn step(
        &mut self,
        take: impl FnOnce(u64, &Line<'_>) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        if self.next > self.to {
            return Ok(false);
        }
        while let Some((offset, line)) = self.source.read(self.lines.next())? {
            if let Head::Message { seq, .. } = line.head
                && seq >= self.next
            {
                if seq > self.next {
                    return Err(self.source.damaged(offset, format!("message {} is missing", self.next)));
                }
                self.next += 1;
                take(seq, &line)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// None yet.
    pub(super) fn none(source: LogSource) -> Self {
        let lines = Forward::new(Arc::clone(&source.file), 0, source.end);
        Self { source, lines, next: 1, to: 0 }
    }

    /// The message that comes next.
    pub(super) fn next_seq(&self) -> u64 {
        self.next
    }

    /// Goes on with another range, reading on where that is less work than looking it up.
    pub(super) fn again(&mut self, from: u64, to: u64) {
        let row = self.source.before_message(from);
        if from < self.next || row.offset > self.lines.position() {
            self.lines = Forward::new(Arc::clone(&self.source.file), row.offset, self.source.end);
        }
        (self.next, self.to) = (from, to);
    }
}
