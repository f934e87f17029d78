//! `tools.jsonl` and `planning.jsonl`: logs with their own numbering. They exist once they have a line.

use std::io;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::infra::fs::{Fs, Open, StorePath};
use crate::log::{Digest, Head, LogKind, LogWriter, RecordState, Signal};
use crate::mask::MaskCounts;
use crate::model::TaskId;
use crate::model::{Durability, InvalidField, Plan, RequestId, StoreError, ToolCall};
use crate::store::Store;

use super::visibility::{RecordSnapshot, Visibility};
use super::{Caller, Inner, Task};
use crate::store::{layout, masking};

/// The outcome of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its number.
    pub number: u64,
    /// Whether a call with the same id had recorded it before.
    pub duplicate: bool,
    /// What was masked in it.
    pub masked: MaskCounts,
}

/// One of the two logs.
#[derive(Debug)]
pub(super) struct RecordLog {
    pub(super) kind: LogKind,
    pub(super) writer: Option<LogWriter>,
    pub(super) state: RecordState,
    readers: Visibility<RecordSnapshot>,
    signal: Arc<Signal>,
}

impl RecordLog {
    /// A log that has no line yet.
    pub(super) fn new(kind: LogKind, signal: &Arc<Signal>) -> Self {
        Self {
            kind,
            writer: None,
            state: RecordState::default(),
            readers: Visibility::default(),
            signal: Arc::clone(signal),
        }
    }

    fn snapshot(&self) -> RecordSnapshot {
        RecordSnapshot { end: self.len(), last: self.state.last, successes: self.state.successes }
    }

    /// Returns how the log stands for readers.
    pub(super) fn visible(&self) -> RecordSnapshot {
        *self.readers.snapshot()
    }

    /// Shows readers every line that is safe by now.
    pub(super) fn advance(&mut self, durability: Durability) {
        if let Some(writer) = &self.writer {
            self.readers.advance(writer.commit(), durability);
        }
    }

    /// Shows readers the log as it is: every line is durable.
    pub(super) fn show_all(&mut self) {
        self.readers.show_all(self.snapshot());
    }

    pub(super) fn is_ahead(&self) -> bool {
        self.readers.is_behind()
    }

    pub(super) fn len(&self) -> u64 {
        self.writer.as_ref().map_or(0, LogWriter::len)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.writer.as_ref().is_some_and(LogWriter::is_broken)
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.writer.as_ref().map_or(Ok(()), LogWriter::sync)
    }

    pub(super) fn file_name(&self) -> crate::infra::fs::Name {
        match self.kind {
            LogKind::Messages => layout::MESSAGES,
            LogKind::Tools => layout::TOOLS,
            LogKind::Plans => layout::PLANS,
        }
    }

    fn writer(&mut self, fs: &dyn Fs, dir: &StorePath) -> io::Result<&mut LogWriter> {
        match self.writer {
            Some(ref mut writer) => Ok(writer),
            None => {
                let path = dir.join(self.file_name());
                // It may be there and empty, if its directory could not be synced the last time.
                let file = fs.open(&path, Open::Create)?;
                // A record is only as durable as the name of its file.
                fs.sync_dir(dir)?;
                Ok(self.writer.insert(LogWriter::new(self.kind, file, 0, Arc::clone(&self.signal))))
            }
        }
    }
}

impl Task {
    /// Records a tool call.
    pub(crate) fn record_tool_call(&self, call: &ToolCall, caller: &Caller) -> Result<Recorded, StoreError> {
        call.validate()?;
        let mut masked = MaskCounts::default();
        let call = masking::tool_call(&self.env.options.masker, call, &mut masked);
        let body = call.body().map_err(|error| StoreError::io("recording a tool call", error.into()))?;
        self.check_size(call.largest_field(), &body)?;
        self.record(LogKind::Tools, &body, caller, masked)
    }

    /// Returns whether a call with this id was recorded.
    pub(crate) fn has_recorded(&self, request_id: &RequestId) -> bool {
        let inner = self.lock();
        inner.tools.state.requests.get(request_id).is_some_and(|seen| seen.end <= inner.tools.len())
    }

    fn check_size(&self, field: &'static str, body: &str) -> Result<(), InvalidField> {
        let limit = self.env.options.max_message_bytes;
        if body.len() <= limit {
            return Ok(());
        }
        let problem = format!("makes a record of {} bytes; at most {limit} are allowed", body.len());
        Err(InvalidField::new(field, problem))
    }

    fn record(
        &self,
        kind: LogKind,
        body: &str,
        caller: &Caller,
        masked: MaskCounts,
    ) -> Result<Recorded, StoreError> {
        let body = with_request_id(body, caller.request_id.as_ref());
        let digest = Digest::of(&[&body]);
        let mut inner = self.lock();
        let durability = inner.log.durability();
        let records = inner.records(kind);
        let len = records.len();
        let seen = caller.request_id.as_ref().and_then(|id| Some((id, records.state.requests.get(id)?)));
        let (number, end, duplicate) = match seen {
            Some((id, seen)) if seen.digest != digest => {
                return Err(StoreError::RequestIdReused { request_id: id.to_string() });
            }
            Some((_, seen)) if seen.end <= len => (seen.outcome, seen.end, true),
            // One that is beyond the end was lost with a damaged log, which takes no writes.
            Some(_) | None => {
                self.check_writable(&inner)?;
                self.check_running(&inner, "record to it")?;
                self.admit(&inner, caller.lease_generation)?;
                self.check_quota(&inner, body.len())?;
                let now = self.env.clock.now();
                let after = Some(inner.log.state().last_seq);
                let (number, end) = self.write_record(&mut inner, kind, now, after, &body)?;
                self.mark_dirty(&mut inner);
                (number, end, false)
            }
        };
        if !duplicate {
            masking::count(&masked);
        }
        let recorded = Recorded { number, duplicate, masked };
        let Some(writer) = &mut inner.records(kind).writer else { return Ok(recorded) };
        if durability == Durability::Process {
            let kept = writer.keep(end);
            kept.map_err(|error| self.give_up(&mut inner, error))?;
        } else {
            let commit = Arc::clone(writer.commit());
            drop(inner);
            let synced = commit.wait(end, durability);
            synced.map_err(|error| self.give_up(&mut self.lock(), error))?;
        }
        Ok(recorded)
    }

    /// Writes a record; answers its number and where it ends. `after` is the last message before it.
    pub(super) fn write_record(
        &self,
        inner: &mut Inner,
        kind: LogKind,
        time: DateTime<Utc>,
        after: Option<u64>,
        body: &str,
    ) -> Result<(u64, u64), StoreError> {
        let dir = inner.log.dir();
        let records = inner.records(kind);
        let name = records.file_name();
        let number = records.state.last + 1;
        let written = records
            .writer(self.env.fs.as_ref(), &dir)
            .and_then(|writer| writer.append(Head::Record { number, after }, time, body));
        let appended = match written {
            Ok(appended) => appended,
            Err(error) if records.is_broken() => return Err(self.give_up(inner, error)),
            Err(error) => return Err(StoreError::io(format!("appending to {name}"), error)),
        };
        let taken = appended.line().map_err(|bad| bad.to_string()).and_then(|line| {
            let (offset, end) = (appended.offset, appended.end);
            let tools = kind == LogKind::Tools;
            records.state.apply(offset, end, &line, tools).map_err(|damage| damage.to_string())
        });
        if let Err(problem) = taken {
            let error = io::Error::other(problem);
            if let Some(writer) = &mut records.writer {
                writer.cut_back(&error);
            }
            return Err(self.give_up(inner, error));
        }
        records.readers.push(records.snapshot());
        inner.changed = true;
        inner.advance();
        Ok((number, appended.end))
    }
}

fn with_request_id(body: &str, request_id: Option<&RequestId>) -> String {
    match request_id {
        Some(id) => format!("{body},\"request_id\":\"{id}\""),
        None => body.to_owned(),
    }
}

impl Store {
    /// Appends a plan.
    pub fn append_plan(&self, id: TaskId, plan: &Plan, caller: &Caller) -> Result<Recorded, StoreError> {
        let task = self.task(id)?;
        plan.validate()?;
        let mut masked = MaskCounts::default();
        let plan = masking::plan(&task.env.options.masker, plan, &mut masked);
        let body = plan.body().map_err(|error| StoreError::io("appending a plan", error.into()))?;
        task.check_size("plan_content_json", &body)?;
        task.record(LogKind::Plans, &body, caller, masked)
    }
}
