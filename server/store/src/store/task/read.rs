//! Readers: each sees one snapshot from start to end, and nothing that a crash could take back.

use std::io;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::infra::fs::{File, StorePath};
use crate::log::{
    Backward, BadLine, DamageNote, Fold, Forward, Head, Line, LogKind, LogSource, LogState, RecordState,
};
use crate::model::TaskId;
use crate::model::{InvalidField, Plan, Rewrite, StoreError};
use crate::store::Store;

use super::Task;
use super::task_info::count_view;
use super::view_files::{ViewFiles, ViewWriter};
use crate::store::layout;

/// A view, chunk by chunk, straight from disk.
#[derive(Debug)]
pub struct CurrentReader {
    /// The generation of the view.
    pub generation: u64,
    /// The last message it was folded from.
    pub last_seq: u64,
    /// Its length.
    pub total_bytes: u64,
    offset: u64,
    bytes: ViewBytes,
    /// What it is read from, for errors.
    path: String,
}

#[derive(Debug)]
enum ViewBytes {
    File(Arc<dyn File>),
    /// Where nothing can be written, the log is folded as it is read.
    Folded {
        fold: Box<Fold>,
        ready: Vec<u8>,
        passed: u64,
    },
}

impl CurrentReader {
    /// Largest chunk, whatever is asked for.
    pub const MAX_CHUNK_BYTES: usize = 4 << 20;

    /// Returns where the next chunk begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Goes on from a later offset.
    pub fn skip_to(&mut self, offset: u64) -> Result<(), InvalidField> {
        if offset < self.offset || offset > self.total_bytes {
            let problem = format!("is {offset}, not between {} and {}", self.offset, self.total_bytes);
            return Err(InvalidField::new("offset", problem));
        }
        self.offset = offset;
        Ok(())
    }

    /// The same as [`Self::read`] if the bytes are in memory already; none if the disk would have to be waited for.
    pub fn read_cached(&mut self, chunk: &mut Vec<u8>, max: usize) -> Option<Result<bool, StoreError>> {
        let ViewBytes::File(file) = &self.bytes else { return None };
        chunk.clear();
        chunk.resize(self.next_len(max), 0);
        if chunk.is_empty() {
            return Some(Ok(false));
        }
        let read = match file.read_cached_at(chunk, self.offset) {
            Ok(read) => read.filter(|read| *read > 0)?,
            Err(error) => return Some(Err(StoreError::io(format!("reading {}", self.path), error))),
        };
        chunk.truncate(read);
        self.offset += read as u64;
        Some(Ok(true))
    }

    fn next_len(&self, max: usize) -> usize {
        let left = usize::try_from(self.total_bytes.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        left.min(max.clamp(1, Self::MAX_CHUNK_BYTES))
    }

    /// Fills `chunk` with the next bytes, at most `max`; false at the end.
    pub fn read(&mut self, chunk: &mut Vec<u8>, max: usize) -> Result<bool, StoreError> {
        chunk.clear();
        let want = self.next_len(max);
        if want == 0 {
            return Ok(false);
        }
        match &mut self.bytes {
            ViewBytes::File(file) => {
                chunk.resize(want, 0);
                let failed = |error| StoreError::io(format!("reading {}", self.path), error);
                let read = file.read_at(chunk, self.offset).map_err(failed)?;
                if read == 0 {
                    return Err(failed(io::ErrorKind::UnexpectedEof.into()));
                }
                chunk.truncate(read);
            }
            ViewBytes::Folded { fold, ready, passed } => {
                let mut aside = Vec::new();
                loop {
                    // What lies before the offset is folded too, but not kept.
                    let skip = usize::try_from(self.offset - *passed).unwrap_or(usize::MAX).min(ready.len());
                    ready.drain(..skip);
                    *passed += skip as u64;
                    if *passed == self.offset && ready.len() >= want {
                        break;
                    }
                    aside.clear();
                    if !fold.step(ready, &mut aside)? {
                        break;
                    }
                }
                let take = ready.len().min(want);
                chunk.extend(ready.drain(..take));
                *passed += take as u64;
            }
        }
        self.offset += chunk.len() as u64;
        Ok(!chunk.is_empty())
    }
}

/// A file and how much of it to read.
pub type FilePart = (Arc<dyn File>, u64);

/// Lines of a log, as they stand on disk.
#[derive(Debug)]
pub struct LineReader {
    kind: LogKind,
    path: String,
    lines: Option<Forward>,
    from: u64,
    to: u64,
    notes: DamageNote,
}

impl LineReader {
    /// All lines that are handed in.
    pub(super) fn whole(kind: LogKind, path: String, lines: Option<Forward>, notes: DamageNote) -> Self {
        Self { kind, path, lines, from: 0, to: u64::MAX, notes }
    }

    /// Only messages from a number on, with the events behind them.
    #[must_use]
    pub fn from(mut self, from: u64) -> Self {
        self.from = from;
        self
    }

    /// Returns where the next line begins, in bytes from the beginning of the log.
    pub fn position(&self) -> u64 {
        self.lines.as_ref().map_or(0, Forward::position)
    }

    /// Hands over the next line, with its checksum and without its line end; `None` at the end. Messages and
    /// records outside of the range are passed over; an event belongs to the message before it, and those
    /// before the first message to a range from 0.
    pub fn step<T>(&mut self, take: impl FnOnce(&Line<'_>) -> T) -> Result<Option<T>, StoreError> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        let path = &self.path;
        while let Some(found) =
            lines.next().map_err(|error| StoreError::io(format!("reading {path}"), error))?
        {
            let damaged = |bad: BadLine| self.notes.found(path, found.offset, bad.to_string());
            let line = found.line(self.kind).map_err(damaged)?;
            let wanted = match line.head {
                Head::Message { seq, .. } | Head::Record { number: seq, .. } if seq > self.to => {
                    return Ok(None);
                }
                Head::Message { seq, .. } | Head::Record { number: seq, .. } => seq >= self.from,
                Head::Event { after, .. } => (self.from..=self.to).contains(&after),
            };
            if wanted {
                return Ok(Some(take(&line)));
            }
        }
        Ok(None)
    }
}

impl Task {
    /// Folds into a file without a name and reads that; where nothing can be written, folds while reading.
    fn folded(
        &self,
        source: LogSource,
        rewrite: Option<Rewrite>,
        to: u64,
    ) -> Result<CurrentReader, StoreError> {
        let generation = rewrite.as_ref().map_or(0, |rewrite| rewrite.ordinal);
        let path = format!("a view of {}", source.path);
        let reader = |bytes, total_bytes| CurrentReader {
            generation,
            last_seq: to,
            total_bytes,
            offset: 0,
            bytes,
            path,
        };
        if self.env.read_only().is_none()
            && let Ok((file, len)) = self.spool(Fold::new(source.clone(), rewrite.clone(), to))
        {
            return Ok(reader(ViewBytes::File(file), len));
        }
        let counted = count_view(Fold::new(source.clone(), rewrite.clone(), to))?;
        let fold = Box::new(Fold::new(source, rewrite, to));
        Ok(reader(ViewBytes::Folded { fold, ready: Vec::new(), passed: 0 }, counted.len))
    }

    fn spool(&self, mut fold: Fold) -> Result<(Arc<dyn File>, u64), StoreError> {
        let fs = self.env.fs.as_ref();
        let dir = StorePath::ROOT.join(layout::TMP).join(Uuid::now_v7());
        let failed = |error| StoreError::io("folding an earlier view", error);
        fs.create_dir(&dir).map_err(failed)?;
        let made = ViewWriter::beside(fs, dir.clone()).map_err(failed).and_then(|mut writer| {
            let ran = writer.run(fs, &mut fold);
            let file = writer.file();
            writer.abandon(fs, &dir);
            ran.map(|()| file)
        });
        // Start-up removes what this leaves.
        let _ = fs.remove_dir(&dir);
        Ok((made?, fold.state().len))
    }

    /// Lines of `messages.jsonl` from the first of a range of messages on, with the events among them.
    pub(crate) fn lines(&self, from: u64, to: u64) -> Result<LineReader, StoreError> {
        let mut inner = self.lock_existing()?;
        let source = inner.visible_source();
        let notes = inner.log.notes().clone();
        drop(inner);
        let lines = source.lines_from(from);
        Ok(LineReader { kind: LogKind::Messages, path: source.path, lines: Some(lines), from, to, notes })
    }

    /// One message, as it stands in the log.
    pub(crate) fn message(&self, seq: u64) -> Result<String, StoreError> {
        let mut reader = self.lines(seq, seq)?;
        let text = |line: &Line<'_>| matches!(line.head, Head::Message { .. }).then(|| line.text.to_owned());
        while let Some(found) = reader.step(text)? {
            if let Some(text) = found {
                return Ok(text);
            }
        }
        Err(StoreError::MessageNotFound { id: self.id, seq, last: self.lock().readers.snapshot().last_seq })
    }

    /// Records of `tools.jsonl` or `planning.jsonl`.
    pub(crate) fn records(&self, kind: LogKind, from: u64, to: u64) -> Result<LineReader, StoreError> {
        let mut inner = self.lock_existing()?;
        let end = self.records_end(&mut inner, kind);
        let notes = inner.log.notes().clone();
        let name = inner.records(kind).file_name();
        let path = inner.log.path(name).to_string();
        let records = inner.records(kind);
        let lines = records.writer.as_ref().map(|writer| Forward::new(Arc::clone(writer.file()), 0, end));
        Ok(LineReader { kind, path, lines, from, to, notes })
    }

    /// The view's second file, with its length.
    pub(crate) fn extra(&self) -> Result<Option<FilePart>, StoreError> {
        let mut inner = self.lock_existing()?;
        self.ensure_view(&mut inner);
        inner.advance();
        let len = inner.readers.snapshot().extra_len;
        let extra = inner.view.files().and_then(ViewFiles::extra).filter(|_| len > 0);
        Ok(extra.map(|file| (Arc::clone(file), len)))
    }
}

impl Task {
    /// Returns whether it was not deleted.
    pub(crate) fn is_there(&self) -> bool {
        self.check_there(&self.lock()).is_ok()
    }

    /// Reads all that is durable of the logs, line by line, and tells the first damage.
    pub(crate) fn check_logs(&self) -> Result<(), StoreError> {
        let mut inner = self.lock_existing()?;
        let mut logs = vec![(LogKind::Messages, Arc::clone(inner.log.file()), inner.log.commit().durable())];
        for kind in [LogKind::Tools, LogKind::Plans] {
            let writer = inner.records(kind).writer.as_ref();
            logs.extend(writer.map(|writer| (kind, Arc::clone(writer.file()), writer.commit().durable())));
        }
        let dir = inner.log.dir();
        drop(inner);
        for (kind, file, end) in logs {
            let name = match kind {
                LogKind::Messages => layout::MESSAGES,
                LogKind::Tools => layout::TOOLS,
                LogKind::Plans => layout::PLANS,
            };
            check_log(&dir.join(name).to_string(), kind, file, end)?;
        }
        Ok(())
    }
}

fn check_log(path: &str, kind: LogKind, file: Arc<dyn File>, end: u64) -> Result<(), StoreError> {
    let damaged = |offset, problem| StoreError::Damaged { path: path.to_owned(), offset, problem };
    let (mut messages, mut records) = (LogState::default(), RecordState::default());
    let mut lines = Forward::new(file, 0, end);
    while let Some(found) = lines.next().map_err(|error| StoreError::io(format!("reading {path}"), error))? {
        let line = found.line(kind).map_err(|bad| damaged(found.offset, bad.to_string()))?;
        let taken = match kind {
            LogKind::Messages => messages.apply(found.offset, found.end, &line),
            LogKind::Tools | LogKind::Plans => {
                records.apply(found.offset, found.end, &line, kind == LogKind::Tools)
            }
        };
        taken.map_err(|damage| damaged(damage.offset, damage.problem))?;
    }
    Ok(())
}

impl Store {
    /// The view as it is, or as it was after message `as_of`.
    pub fn current(&self, id: TaskId, as_of: Option<u64>) -> Result<CurrentReader, StoreError> {
        let task = self.task(id)?;
        let mut inner = task.lock_existing()?;
        task.ensure_view(&mut inner);
        let source = inner.visible_source();
        let last_seq = inner.readers.snapshot().last_seq;
        if let Some(seq) = as_of.filter(|seq| *seq != last_seq) {
            drop(inner);
            if seq > last_seq {
                return Err(StoreError::MessageNotFound { id: task.id, seq, last: last_seq });
            }
            let rewrite = source.rewrite_as_of(seq)?;
            return task.folded(source, rewrite, seq);
        }
        let generation = inner.log.state().view_generation();
        if let Some(files) = inner.view.files() {
            return Ok(CurrentReader {
                generation,
                last_seq,
                total_bytes: inner.readers.snapshot().view_len,
                offset: 0,
                bytes: ViewBytes::File(Arc::clone(files.file())),
                path: inner.log.path(layout::CURRENT).to_string(),
            });
        }
        let rewrite = inner.log.state().rewrite.clone();
        drop(inner);
        let rewrite = source.marked_rewrite(rewrite.as_ref())?;
        task.folded(source, rewrite, last_seq)
    }

    /// The last messages of the log, with the events among them.
    pub fn last_messages(&self, id: TaskId, count: u64) -> Result<LineReader, StoreError> {
        let task = self.task(id)?;
        let mut inner = task.lock_existing()?;
        let source = inner.visible_source();
        let last = inner.readers.snapshot().last_seq;
        let notes = inner.log.notes().clone();
        drop(inner);
        let from = last.saturating_sub(count) + 1;
        let failed = |error| StoreError::io(format!("reading {}", source.path), error);
        let mut back = Backward::new(Arc::clone(&source.file), source.end);
        let mut start = source.end;
        while let Some((offset, bytes)) = back.previous().map_err(failed)? {
            let damaged = |bad: BadLine| notes.found(&source.path, offset, bad.to_string());
            let line = Line::parse(LogKind::Messages, &bytes).map_err(damaged)?;
            if let Head::Message { seq, .. } = line.head {
                if seq < from {
                    break;
                }
                start = offset;
                if seq == from {
                    break;
                }
            }
        }
        let lines = Forward::new(Arc::clone(&source.file), start, source.end);
        Ok(LineReader {
            kind: LogKind::Messages,
            path: source.path,
            lines: Some(lines),
            from,
            to: last,
            notes,
        })
    }

    /// Returns whether a message is pinned.
    pub fn is_pinned(&self, id: TaskId, seq: u64) -> Result<bool, StoreError> {
        let task = self.task(id)?;
        let mut inner = task.lock_existing()?;
        inner.advance();
        Ok(inner.readers.pins(&inner.log.state().pins).contains(&seq))
    }

    /// The newest plan with its number and when it was appended.
    pub fn latest_plan(&self, id: TaskId) -> Result<Option<(u64, Plan, DateTime<Utc>)>, StoreError> {
        let task = self.task(id)?;
        let mut inner = task.lock();
        let end = task.records_end(&mut inner, LogKind::Plans);
        let Some(file) = inner.plans.writer.as_ref().map(|writer| Arc::clone(writer.file())) else {
            return Ok(None);
        };
        let path = inner.log.path(layout::PLANS);
        let notes = inner.log.notes().clone();
        drop(inner);
        let failed = |error| StoreError::io(format!("reading {path}"), error);
        let Some((offset, bytes)) = Backward::new(file, end).previous().map_err(failed)? else {
            return Ok(None);
        };
        let damaged = |problem: String| notes.found(&path.to_string(), offset, problem);
        let line = Line::parse(LogKind::Plans, &bytes).map_err(|bad| damaged(bad.to_string()))?;
        let Head::Record { number, .. } = line.head else { return Ok(None) };
        let plan = Plan::parse(line.text).map_err(damaged)?;
        let at = line.time().ok_or_else(|| damaged("its time cannot be read".to_owned()))?;
        Ok(Some((number, plan, at)))
    }
}
