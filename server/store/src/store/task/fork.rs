//! Forks: a new task out of the first messages of another. Nothing is shared between the two but blocks of the disk.
//!
//! The log is copied byte by byte, with another first line of the same length, so everything in it stays where it was. What
//! was written after the cut is not copied, what was written of it before is: pins, rewrites, usage, configuration.

use std::io;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::infra::fs::{File, Kind, Open, StorePath};
use crate::log::{
    Digest, Forward, Head, Index, Line, LogKind, LogSource, LogState, LogWriter, Signal, seal,
    without_request_id,
};
use crate::model::{Durability, Event, Holder, InheritedFrom, Metadata, RequestId, StoreError, TaskId};
use crate::outputs::Entry;

use super::create::{NewLog, assemble, begin, put_in_place};
use super::open::copy;
use super::{Inner, ReadOnly, Task};
use crate::store::files;
use crate::store::layout;

/// Bytes of records that are written between two syncs.
const BATCH: u64 = 4 << 20;

/// A fork that is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Fork {
    /// The new task.
    pub(crate) id: TaskId,
    /// The last message; 0: the last there is.
    pub(crate) at_seq: u64,
    /// Who works on it.
    pub(crate) holder: Holder,
    /// Names the call.
    pub(crate) request: Option<(RequestId, Digest)>,
}

/// The part of a task that a fork copies, as it was at one moment.
struct ForkSource {
    source: LogSource,
    at_seq: u64,
    /// When the first message was written that is not copied, if there is one.
    until: Option<DateTime<Utc>>,
    tools: Option<(Arc<dyn File>, u64)>,
    plans: Option<(Arc<dyn File>, u64)>,
}

impl ForkSource {
    fn bytes(&self) -> u64 {
        [&self.tools, &self.plans].into_iter().flatten().fold(self.source.end, |sum, (_, len)| sum + len)
    }
}

impl Task {
    /// Makes another task out of the first messages of this one. It goes on meanwhile.
    pub(crate) fn fork(&self, fork: Fork) -> Result<Self, StoreError> {
        let cut = self.cut(fork.at_seq)?;
        let id = fork.id;
        let bytes = cut.bytes();
        self.env.check_quota(bytes)?;
        let now = self.env.clock.now();
        let metadata = Metadata {
            uuid: id,
            created_at: now,
            process_id: fork.holder.process_id,
            hostname: fork.holder.hostname.clone(),
            ..self.metadata.clone()
        };
        let made = begin(&self.env, &metadata).and_then(|making| {
            let built = self.build_fork(&cut, metadata, fork, &making).inspect_err(|_| {
                // It may be large. What is left of it goes at the next start.
                let _ = files::remove_tree(self.env.fs.as_ref(), &making);
            });
            // Once it had its place it is not taken apart: a power cut could bring it back there.
            built.and_then(|task| put_in_place(&self.env, id, &making).map(|()| task))
        });
        if let Ok(task) = &made
            && let Err(error) = task.ensure_summaries(&task.lock())
        {
            tracing::warn!(%id, %error, "a fork's summaries could not be written; they will be made when asked for");
        }
        made.inspect_err(|error| {
            if let StoreError::Damaged { path, offset, problem } = error {
                self.lock().log.notes().found(path, *offset, problem.clone());
            }
            self.env.note_removed(bytes);
        })
    }

    /// Returns the lease of an earlier call with the same id that made this task as a fork.
    pub(crate) fn forked_before(&self, request: Option<&(RequestId, Digest)>) -> Result<u64, StoreError> {
        let inner = self.lock();
        let seen = request.map(|(request_id, digest)| self.seen_before(&inner, Some(request_id), *digest));
        let Some((generation, end)) = seen.transpose()?.flatten() else {
            return Err(StoreError::TaskExists { id: self.id });
        };
        drop(inner);
        self.wait_durable(end, Durability::Group)?;
        Ok(generation)
    }

    /// The task that this one took over from.
    pub(crate) fn inherited_from(&self) -> Option<InheritedFrom> {
        self.metadata.inherited_from.clone()
    }

    /// The newest lease there was.
    pub(crate) fn lease_generation(&self) -> u64 {
        self.lock().log.state().lease_generation
    }

    /// Returns where a fork ends: before the message after its last.
    fn cut(&self, at_seq: u64) -> Result<ForkSource, StoreError> {
        let id = self.id;
        let mut inner = self.lock_existing()?;
        match &inner.read_only {
            Some(ReadOnly::Quarantined(reason)) => {
                return Err(StoreError::Quarantined { id, reason: reason.clone() });
            }
            // What is not understood cannot be copied as if it were.
            Some(ReadOnly::NewerFormat(found)) => {
                return Err(StoreError::NewerFormat { id, found: found.clone() });
            }
            Some(ReadOnly::Failed | ReadOnly::Full) | None => {}
        }
        let mut source = inner.visible_source();
        let last = inner.readers.snapshot().last_seq;
        let mut records = |kind| {
            let end = self.records_end(&mut inner, kind);
            let writer = inner.records(kind).writer.as_ref();
            writer.map(|writer| (Arc::clone(writer.file()), end)).filter(|_| end > 0)
        };
        let (tools, plans) = (records(LogKind::Tools), records(LogKind::Plans));
        drop(inner);
        if at_seq > last {
            return Err(StoreError::MessageNotFound { id, seq: at_seq, last });
        }
        let mut until = None;
        if at_seq > 0 && at_seq < last {
            let path = source.path.clone();
            let mut lines = source.lines_from(at_seq + 1);
            while let Some(found) = lines.next().map_err(|error| reading(&path, error))? {
                let line = found.line(LogKind::Messages).map_err(|bad| torn(&path, found.offset, bad))?;
                if matches!(line.head, Head::Message { seq, .. } if seq > at_seq) {
                    (source.end, until) = (found.offset, line.time());
                    break;
                }
            }
        }
        let at_seq = if at_seq == 0 { last } else { at_seq };
        Ok(ForkSource { source, at_seq, until, tools, plans })
    }

    fn build_fork(
        &self,
        cut: &ForkSource,
        metadata: Metadata,
        fork: Fork,
        making: &StorePath,
    ) -> Result<Self, StoreError> {
        let signal = self.env.signal(fork.id);
        let begun = self.copy_log(cut, fork.id, metadata.created_at, making, &signal)?;
        let task = assemble(&self.env, metadata, begun, &signal);
        {
            let mut inner = task.lock();
            for (kind, records) in [(LogKind::Tools, &cut.tools), (LogKind::Plans, &cut.plans)] {
                if let Some((file, end)) = records {
                    let lines = Forward::new(Arc::clone(file), 0, *end);
                    task.copy_records(&mut inner, kind, lines, cut, making, &signal)?;
                }
            }
            let forked = Event::Forked { from: self.id, at_seq: cut.at_seq };
            task.write_event(&mut inner, &forked, None)?;
            task.begin_lease(&mut inner, fork.holder, fork.request)?;
            task.sync_begun(&mut inner)?;
        }
        self.link_outputs(making)?;
        Ok(task)
    }

    /// Copies the log up to the cut and reads what was copied: what is published can be read.
    fn copy_log(
        &self,
        cut: &ForkSource,
        id: TaskId,
        now: DateTime<Utc>,
        making: &StorePath,
        signal: &Arc<Signal>,
    ) -> Result<NewLog, StoreError> {
        let fs = self.env.fs.as_ref();
        let failed = |error| StoreError::io(format!("forking task {}", self.id), error);
        let LogSource { path, file: from, end, .. } = &cut.source;
        let mut lines = Forward::new(Arc::clone(from), 0, *end);
        let first = lines.next().map_err(|error| reading(path, error))?;
        let first = first.ok_or_else(|| torn(path, 0, "it is empty"))?;
        let first = first.line(LogKind::Messages).map_err(|bad| torn(path, 0, bad))?;
        let first = started_as(&first, self.id, id, now).ok_or_else(|| torn(path, 0, "it does not start"))?;

        let to = fs.open(&making.join(layout::MESSAGES), Open::New).map_err(failed)?;
        if to.share(from.as_ref()).map_err(failed)? {
            to.truncate(*end).map_err(failed)?;
        } else {
            copy(from.as_ref(), 0, *end, |bytes, at| to.write_all_at(bytes, at)).map_err(failed)?;
        }
        to.write_all_at(&first, 0).map_err(failed)?;

        let index = fs.open(&making.join(layout::INDEX), Open::New).and_then(Index::create);
        let mut index = index.map_err(failed)?;
        let mut state = LogState::default();
        let mut lines = Forward::new(Arc::clone(&to), 0, *end);
        while let Some(found) = lines.next().map_err(|error| reading(path, error))? {
            let line = found.line(LogKind::Messages).map_err(|bad| torn(path, found.offset, bad))?;
            let row = state.row_at(found.offset);
            let taken = state.apply(found.offset, found.end, &line);
            taken.map_err(|damage| torn(path, damage.offset, damage.problem))?;
            index.note(row, &line);
            index.write(false).map_err(failed)?;
        }
        // The last lines say that the rest is durable.
        to.sync_data().map_err(failed)?;
        let writer = LogWriter::new(LogKind::Messages, to, *end, Arc::clone(signal));
        Ok(NewLog { writer, state, index })
    }

    /// Copies the records that were written before the cut, without the ids of their requests.
    fn copy_records(
        &self,
        inner: &mut Inner,
        kind: LogKind,
        mut lines: Forward,
        cut: &ForkSource,
        making: &StorePath,
        signal: &Arc<Signal>,
    ) -> Result<(), StoreError> {
        let name = inner.records(kind).file_name();
        let path = name.to_string();
        let failed = |error| StoreError::io(format!("making task {}", self.id), error);
        let mut batch = 0;
        while let Some(found) = lines.next().map_err(|error| reading(&path, error))? {
            let line = found.line(kind).map_err(|bad| torn(&path, found.offset, bad))?;
            let time = line.time().ok_or_else(|| torn(&path, found.offset, "its time cannot be read"))?;
            let Head::Record { after, .. } = line.head else { continue };
            // Its place decides, not its time: clocks are set back.
            if cut.until.is_some_and(|until| after.map_or(time >= until, |after| after > cut.at_seq)) {
                continue;
            }
            if inner.records(kind).writer.is_none() {
                let file = self.env.fs.open(&making.join(name.clone()), Open::New).map_err(failed)?;
                let writer = LogWriter::new(kind, file, 0, Arc::clone(signal));
                inner.records(kind).writer = Some(writer);
            }
            self.write_record(inner, kind, time, after, without_request_id(line.body()))?;
            batch += found.end - found.offset;
            if batch >= BATCH {
                inner.records(kind).sync().map_err(failed)?;
                batch = 0;
            }
        }
        inner.records(kind).sync().map_err(failed)?;
        inner.advance();
        Ok(())
    }

    /// Gives the outputs of tools a second name: they are not written any more. The task does not move meanwhile.
    fn link_outputs(&self, making: &StorePath) -> Result<(), StoreError> {
        let inner = self.lock_existing()?;
        let failed = |error| StoreError::io(format!("forking task {}", self.id), error);
        let from = inner.log.path(layout::OUTPUTS);
        if self.env.fs.stat(&from).map_err(failed)?.is_some_and(|stat| stat.kind == Kind::Dir) {
            self.link_tree(&from, &making.join(layout::OUTPUTS)).map_err(failed)?;
        }
        Ok(())
    }

    fn link_tree(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        let fs = self.env.fs.as_ref();
        fs.create_dir(to)?;
        let mut entries = Vec::new();
        fs.list(from, &mut |entry| {
            entries.push(entry);
            Ok(())
        })?;
        for entry in entries {
            let (from, to) = (from.join(entry.name.clone()), to.join(entry.name));
            match entry.kind {
                // What is being put is nobody's yet.
                Kind::File if being_put(&from) => {}
                Kind::Dir => self.link_tree(&from, &to)?,
                Kind::File => match fs.hard_link(&from, &to) {
                    Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                        let (from, to) = (fs.open(&from, Open::Read)?, fs.open(&to, Open::New)?);
                        copy(from.as_ref(), 0, from.len()?, |bytes, at| to.write_all_at(bytes, at))?;
                        to.sync_data()?;
                    }
                    linked => linked?,
                },
                Kind::Other => {}
            }
        }
        fs.sync_dir(to)
    }
}

/// The first line of a log as that of another task: as long as it was, so that nothing behind it moves.
fn started_as(line: &Line<'_>, from: TaskId, to: TaskId, now: DateTime<Utc>) -> Option<Vec<u8>> {
    let text = line.unsealed();
    let named = text.replacen(&format!("\"uuid\":\"{from}\""), &format!("\"uuid\":\"{to}\""), 1);
    let time = now.to_rfc3339_opts(SecondsFormat::Micros, true);
    let timed = named.replacen(line.timestamp, &time, 1);
    if named == text && from != to || timed.len() != text.len() {
        return None;
    }
    let mut bytes = timed.into_bytes();
    seal(&mut bytes);
    Some(bytes)
}

fn being_put(path: &StorePath) -> bool {
    path.names().last().and_then(Entry::of) == Some(Entry::Put)
}

fn reading(path: &str, error: io::Error) -> StoreError {
    StoreError::io(format!("reading {path}"), error)
}

fn torn(path: &str, offset: u64, problem: impl ToString) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), offset, problem: problem.to_string() }
}
