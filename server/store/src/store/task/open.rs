//! Opening a task that is there: what the log says, with a torn tail cut off.

use std::io;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};

use crate::infra::fs::{File, Open, StorePath, optional};
use crate::log::{
    Damage, DamageNote, FORMAT_VERSION, Forward, Index, Line, LogKind, LogState, LogWriter, Signal,
    TailVerdict, check_tail, read_exact_at,
};
use crate::model::{StoreError, TaskId};

use super::context_usage::{CounterCell, chosen};
use super::records::RecordLog;
use super::{Inner, ReadOnly, Task, TaskLog, TaskView};
use crate::context::ContextPolicy;
use crate::store::checkpoint::{Checkpoint, RecordMark};
use crate::store::env::Env;
use crate::store::files;
use crate::store::layout::{self, Folder};
use crate::store::metadata;

const MAX_NOTE_BYTES: u64 = 1 << 20;

/// The changes that opening a task may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Cut torn tails, sync; refuse a log that is damaged where it was durable.
    Write,
    /// Change nothing; show a damaged log up to the damage.
    Look,
}

impl Task {
    /// Opens the task that is in a folder.
    pub(crate) fn open(
        env: &Arc<Env>,
        id: TaskId,
        folder: Folder,
        mode: OpenMode,
    ) -> Result<Self, StoreError> {
        let dir = folder.task(id);
        let metadata = if folder == Folder::Quarantine {
            metadata::for_quarantined(env, &dir, id, || begun_at(env, &dir))
        } else {
            metadata::read(env, &dir, id)?
        };
        if metadata.format_version > FORMAT_VERSION && mode == OpenMode::Write {
            let found = format!("format {}", metadata.format_version);
            return Err(StoreError::NewerFormat { id, found });
        }
        let checkpoint = Checkpoint::read(env.fs.as_ref(), &dir.join(layout::CHECKPOINT))?;
        // A damaged log is read from its start: what the checkpoint says may lie behind the damage.
        let checkpoint =
            checkpoint.filter(|checkpoint| checkpoint.state.uuid == Some(id) && folder != Folder::Quarantine);
        let signal = env.signal(id);
        let mut opener = Opener { env, dir: &dir, mode, signal: &signal, damage: None, torn: None };
        let (writer, state, index) = opener.messages(checkpoint.as_ref())?;
        if state.uuid != Some(id) && opener.damage.is_none() {
            let problem = format!("the log belongs to {:?}, not to this task", state.uuid);
            return Err(StoreError::Damaged {
                path: dir.join(layout::MESSAGES).to_string(),
                offset: 0,
                problem,
            });
        }
        let marks = checkpoint.as_ref().map(|checkpoint| (&checkpoint.tools, &checkpoint.plans));
        let tools = opener.records(LogKind::Tools, marks.map(|(tools, _)| tools))?;
        let plans = opener.records(LogKind::Plans, marks.map(|(_, plans)| plans))?;
        let damage = match opener.damage {
            // Whatever brought it here, a person has to look at it.
            None if folder == Folder::Quarantine => Some(quarantine_note(env, &dir)),
            damage => damage,
        };
        let read_only = read_only(damage, &state, metadata.format_version, folder, &dir);
        let config = state.config.as_ref().unwrap_or(&metadata.config);
        let counter = CounterCell::new(chosen(env, config));
        let durability = config.durability.unwrap_or(env.options.durability);
        let context = ContextPolicy::new(config, &env.options.compression);
        let notes = DamageNote::new(&env.damage, id);
        let mut log = TaskLog::new(id, folder, writer, state, index, durability, notes);
        log.note_checkpoint(checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.log_len).min(log.len()));
        let view = TaskView::of_checkpoint(checkpoint.and_then(|checkpoint| checkpoint.view));
        let inner =
            Inner::new(log, tools, plans, view, context, metadata.inherited_from.is_some(), read_only);
        Ok(Self {
            id,
            counter,
            env: Arc::clone(env),
            source: metadata.task_key.task_source.as_str().into(),
            metadata,
            signal: Arc::clone(&signal),
            outputs: super::TaskOutputs::default(),
            inner: Mutex::new(inner),
        })
    }
}

/// Returns why a task takes no writes, if it takes none.
fn read_only(
    damage: Option<String>,
    state: &LogState,
    format_version: u32,
    folder: Folder,
    dir: &StorePath,
) -> Option<ReadOnly> {
    match (damage, &state.unknown_event, format_version) {
        (Some(damage), ..) => Some(ReadOnly::Quarantined(damage)),
        // Its log may be whole: the same id twice, for example. It stays as it was found.
        (None, ..) if folder == Folder::Quarantine => {
            Some(ReadOnly::Quarantined(format!("see {}", dir.join(layout::QUARANTINE_NOTE))))
        }
        (None, Some(event), _) => Some(ReadOnly::NewerFormat(format!("event {event}"))),
        (None, None, version) if version > FORMAT_VERSION => {
            Some(ReadOnly::NewerFormat(format!("format {version}")))
        }
        (None, None, _) => None,
    }
}

/// When a log was begun, as its first line says.
fn begun_at(env: &Env, dir: &StorePath) -> Option<DateTime<Utc>> {
    let file = env.fs.open(&dir.join(layout::MESSAGES), Open::Read).ok()?;
    let len = file.len().ok()?;
    Forward::new(file, 0, len).next().ok()??.line(LogKind::Messages).ok()?.time()
}

/// Reads why a task is in quarantine.
fn quarantine_note(env: &Env, dir: &StorePath) -> String {
    #[derive(serde::Deserialize)]
    struct Note {
        problem: String,
    }
    let path = dir.join(layout::QUARANTINE_NOTE);
    let note = files::read_small(env.fs.as_ref(), &path, MAX_NOTE_BYTES).ok().flatten();
    let note = note.and_then(|note| serde_json::from_slice::<Note>(&note).ok());
    note.map_or_else(|| "it was put there".to_owned(), |note| note.problem)
}

/// Opens the logs of a task, one after the other.
struct Opener<'a> {
    env: &'a Arc<Env>,
    dir: &'a StorePath,
    mode: OpenMode,
    signal: &'a Arc<Signal>,
    /// The first damage that was found and could not be mended.
    damage: Option<String>,
    /// The tail of the log just read that was never acknowledged, and the length with it.
    torn: Option<(Damage, u64)>,
}

impl Opener<'_> {
    fn messages(
        &mut self,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<(LogWriter, LogState, Option<Index>), StoreError> {
        let fs = self.env.fs.as_ref();
        let path = self.dir.join(layout::MESSAGES);
        let how = if self.mode == OpenMode::Write { Open::Write } else { Open::Read };
        let opened = optional(fs.open(&path, how));
        let file = opened
            .map_err(|error| StoreError::io(format!("opening {path}"), error))?
            .ok_or_else(|| damaged(&path, &Damage::new(0, "it is missing")))?;
        let index = self.index(checkpoint)?;
        // Without the index that belongs to it, a checkpoint would leave the first part of the log unindexed.
        let known = checkpoint.map_or(0, |checkpoint| checkpoint.log_len);
        let checkpoint = checkpoint.filter(|_| index.is_some() || self.mode == OpenMode::Look);
        let mut index = match index {
            None if self.mode == OpenMode::Write => Some(self.new_index()?),
            index => index,
        };
        let mut state = checkpoint.map_or_else(LogState::default, |checkpoint| checkpoint.state.clone());
        let from = checkpoint.map_or(0, |checkpoint| checkpoint.log_len);
        let writes = self.mode == OpenMode::Write;
        let (durable, end) = {
            let mut take = |offset, end, line: &Line<'_>| {
                let row = state.row_at(offset);
                state.apply(offset, end, line)?;
                if let Some(index) = &mut index {
                    index.note(row, line);
                    if writes && let Err(error) = index.write(false) {
                        tracing::warn!(%path, %error, "the index could not be written");
                    }
                }
                Ok(())
            };
            let end = self.scan(LogKind::Messages, &path, &file, from, known, &mut take)?;
            (known.max(state.durable_to), end)
        };
        if state.unknown_event.is_some() {
            // Nothing is written to what a newer version wrote.
            self.torn = None;
        } else {
            self.cut(&path, &file)?;
            self.make_durable(&path, &file, durable, end)?;
        }
        Ok((LogWriter::new(LogKind::Messages, file, end, Arc::clone(self.signal)), state, index))
    }

    fn records(&mut self, kind: LogKind, mark: Option<&RecordMark>) -> Result<RecordLog, StoreError> {
        let mut records = RecordLog::new(kind, self.signal);
        let path = self.dir.join(records.file_name());
        let known = mark.map_or(0, |mark| mark.len);
        let how = if self.mode == OpenMode::Write { Open::Write } else { Open::Read };
        let opened = optional(self.env.fs.open(&path, how));
        let opened = opened.map_err(|error| StoreError::io(format!("opening {path}"), error))?;
        let Some(file) = opened else {
            if known > 0 {
                self.unmendable(&path, &Damage::new(0, "it is missing"))?;
            }
            return Ok(records);
        };
        if let Some(mark) = mark {
            records.state = mark.state.clone();
        }
        let state = &mut records.state;
        let mut take = |offset, end, line: &Line<'_>| state.apply(offset, end, line, kind == LogKind::Tools);
        let end = self.scan(kind, &path, &file, known, known, &mut take)?;
        let durable = known.max(state.durable_to);
        self.cut(&path, &file)?;
        self.make_durable(&path, &file, durable, end)?;
        if durable == 0 && self.mode == OpenMode::Write {
            // Nothing says that the file's name was ever synced.
            let synced = self.env.fs.sync_dir(self.dir);
            synced.map_err(|error| StoreError::io(format!("syncing {}", self.dir), error))?;
        }
        records.writer = Some(LogWriter::new(kind, file, end, Arc::clone(self.signal)));
        records.show_all();
        Ok(records)
    }

    /// Reads a log from an offset and answers where it ends: behind its last valid line. It is known to have
    /// been durable up to `known`. A tail that is to be cut off is noted in `torn`.
    fn scan(
        &mut self,
        kind: LogKind,
        path: &StorePath,
        file: &Arc<dyn File>,
        from: u64,
        known: u64,
        take: &mut dyn FnMut(u64, u64, &Line<'_>) -> Result<(), Damage>,
    ) -> Result<u64, StoreError> {
        let failed = |error| StoreError::io(format!("reading {path}"), error);
        let len = file.len().map_err(failed)?;
        if len < known {
            let problem = format!("{known} bytes were durable, {len} are there");
            self.unmendable(path, &Damage { offset: len, problem })?;
            return Ok(len);
        }
        let mut durable = known;
        let mut lines = Forward::new(Arc::clone(file), from, len);
        while let Some(found) = lines.next().map_err(failed)? {
            let offset = found.offset;
            match found.line(kind) {
                Ok(line) => {
                    // A whole line in the wrong place is nothing that a crash leaves behind.
                    if let Err(damage) = take(offset, found.end, &line) {
                        self.unmendable(path, &damage)?;
                        return Ok(offset);
                    }
                    durable = durable.max(line.durable_to);
                }
                Err(bad) => {
                    let damage = Damage { offset, problem: bad.to_string() };
                    match check_tail(kind, file, offset, len, durable).map_err(failed)? {
                        TailVerdict::Acknowledged => self.unmendable(path, &damage)?,
                        TailVerdict::Cut => self.torn = Some((damage, len)),
                    }
                    return Ok(offset);
                }
            }
        }
        Ok(len)
    }

    fn unmendable(&mut self, path: &StorePath, damage: &Damage) -> Result<(), StoreError> {
        let error = damaged(path, damage);
        if self.mode == OpenMode::Write {
            return Err(error);
        }
        self.damage.get_or_insert(error.to_string());
        Ok(())
    }

    /// Saves the tail that was never acknowledged, then cuts it off.
    fn cut(&mut self, path: &StorePath, file: &Arc<dyn File>) -> Result<(), StoreError> {
        let Some((Damage { offset, problem }, len)) =
            self.torn.take().filter(|_| self.mode == OpenMode::Write)
        else {
            return Ok(());
        };
        let fs = self.env.fs.as_ref();
        let failed = |error| StoreError::io(format!("cutting {path}"), error);
        let Some((dir, name)) = path.split() else { return Ok(()) };
        let mut saved = dir.join(name.with_suffix(".cut").numbered(offset));
        let mut number = 2;
        let tail = loop {
            match fs.open(&saved, Open::New) {
                Ok(tail) => break tail,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    saved = dir.join(name.with_suffix(".cut").numbered(offset).numbered(number));
                    number += 1;
                }
                Err(error) => return Err(failed(error)),
            }
        };
        let copied = copy(file.as_ref(), offset, len, |bytes, at| tail.write_all_at(bytes, at - offset));
        copied.and_then(|()| tail.sync_data()).map_err(|error| {
            // Half of it would be in the way of the next try, as would the room it takes.
            let _ = fs.remove_file(&saved);
            failed(error)
        })?;
        fs.sync_dir(&dir).map_err(failed)?;
        file.truncate(offset).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        tracing::warn!(%path, offset, bytes = len - offset, %saved, %problem, "a tail that was never acknowledged was cut off");
        Ok(())
    }

    /// Writes the lines above the last durable mark again, in place, and syncs them: after a failed sync the kernel may call
    /// lost pages clean, so bytes that can be read need not be on disk.
    fn make_durable(
        &self,
        path: &StorePath,
        file: &Arc<dyn File>,
        durable: u64,
        end: u64,
    ) -> Result<(), StoreError> {
        if durable >= end || self.mode == OpenMode::Look {
            return Ok(());
        }
        let failed = |error| StoreError::io(format!("syncing {path}"), error);
        copy(file.as_ref(), durable, end, |bytes, at| file.write_all_at(bytes, at)).map_err(failed)?;
        file.sync_data().map_err(failed)
    }

    fn index(&self, checkpoint: Option<&Checkpoint>) -> Result<Option<Index>, StoreError> {
        let Some(checkpoint) = checkpoint else { return Ok(None) };
        let path = self.dir.join(layout::INDEX);
        let how = if self.mode == OpenMode::Write { Open::Write } else { Open::Read };
        let trusted = checkpoint.clean || checkpoint.boot_id == self.env.boot_id;
        let opened = self.env.fs.open(&path, how);
        let index = opened.and_then(|file| Index::open(file, checkpoint.index_rows, trusted));
        Ok(optional(index).map_err(|error| StoreError::io(format!("reading {path}"), error))?.flatten())
    }

    fn new_index(&self) -> Result<Index, StoreError> {
        let path = self.dir.join(layout::INDEX);
        let made = self.env.fs.open(&path, Open::Truncate).and_then(Index::create);
        made.map_err(|error| StoreError::io(format!("writing {path}"), error))
    }
}

fn damaged(path: &StorePath, damage: &Damage) -> StoreError {
    StoreError::Damaged { path: path.to_string(), offset: damage.offset, problem: damage.problem.clone() }
}

/// Hands a part of a file over in chunks.
pub(super) fn copy(
    file: &dyn File,
    from: u64,
    to: u64,
    mut give: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut at = from;
    while at < to {
        let part = usize::try_from(to - at).unwrap_or(usize::MAX).min(buffer.len());
        read_exact_at(file, &mut buffer[..part], at)?;
        give(&buffer[..part], at)?;
        at += part as u64;
    }
    Ok(())
}
