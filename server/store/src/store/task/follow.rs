//! Following a task: where its logs end for readers, reading on from an offset, and being told when there is more.

use std::sync::Arc;

use tokio::sync::watch;

use crate::log::{Forward, LogKind, Signal};
use crate::model::TaskId;
use crate::model::{InvalidField, StoreError};
use crate::store::Store;

use super::Task;
use super::read::LineReader;

/// Tells one who follows a task that there may be more. Stays valid when the task is closed and opened again.
#[derive(Debug)]
pub struct Subscription {
    /// Keeps the sender alive.
    _signal: Arc<Signal>,
    changed: watch::Receiver<()>,
}

impl Subscription {
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        let changed = signal.subscribe();
        Self { _signal: signal, changed }
    }

    /// Returns when something has happened since the last time, or since this was made.
    pub async fn changed(&mut self) {
        // It cannot fail while the sender lives.
        let _ = self.changed.changed().await;
    }
}

/// The ends of the logs of a task for readers. Each is the offset of the next line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnds {
    /// `messages.jsonl`.
    pub messages: u64,
    /// `tools.jsonl`.
    pub tools: u64,
    /// `planning.jsonl`.
    pub plans: u64,
}

impl Task {
    /// Returns where the logs end for readers.
    pub(crate) fn ends(&self) -> Result<LogEnds, StoreError> {
        let mut inner = self.lock_existing()?;
        inner.advance();
        Ok(LogEnds {
            messages: inner.readers.snapshot().log_end,
            tools: self.records_end(&mut inner, LogKind::Tools),
            plans: self.records_end(&mut inner, LogKind::Plans),
        })
    }
}

impl Store {
    /// Lines of a log from an offset on, which must be the beginning of a line.
    pub fn lines_at(&self, id: TaskId, kind: LogKind, offset: u64) -> Result<LineReader, StoreError> {
        let task = self.task(id)?;
        let ends = task.ends()?;
        let mut inner = task.lock();
        let (end, file, name) = match kind {
            LogKind::Messages => {
                (ends.messages, Some(Arc::clone(inner.log.file())), crate::store::layout::MESSAGES)
            }
            LogKind::Tools | LogKind::Plans => {
                let end = if kind == LogKind::Tools { ends.tools } else { ends.plans };
                let records = inner.records(kind);
                (end, records.writer.as_ref().map(|writer| Arc::clone(writer.file())), records.file_name())
            }
        };
        let path = inner.log.path(name.clone());
        let notes = inner.log.notes().clone();
        drop(inner);
        let misplaced = || InvalidField::new("resume_token", format!("is not the end of a line of {name}"));
        if offset > end {
            return Err(misplaced().into());
        }
        if let Some(file) = file.as_ref().filter(|_| offset > 0) {
            let mut before = [0];
            let read = file.read_at(&mut before, offset - 1);
            let read = read.map_err(|error| StoreError::io(format!("reading {path}"), error))?;
            if read != 1 || before != *b"\n" {
                return Err(misplaced().into());
            }
        }
        let lines = file.map(|file| Forward::new(file, offset, end));
        Ok(LineReader::whole(kind, path.to_string(), lines, notes))
    }
}
