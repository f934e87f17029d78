//! The examination of one task: its logs line by line, and every view against them.

use std::io;
use std::sync::Arc;

use crate::infra::fs::{File, Kind, Name, Open, StorePath, optional};
use crate::log::{
    Damage, FORMAT_VERSION, Fold, Forward, Head, Index, IndexRow, Line, LogKind, LogSource, LogState,
    RecordState, TailVerdict, ViewState, check_tail, read_exact_at,
};
use crate::model::{Health, Metadata, StoreError, TaskId, TaskRow};

use super::outputs::Named;
use super::{Cure, Doctor, belongs, difference};
use crate::store::Store;
use crate::store::checkpoint::Checkpoint;
use crate::store::files;
use crate::store::layout::{self, Folder};
use crate::store::metadata::{self, MetadataVerdict};
use crate::store::recover::read_row;
use crate::store::task::{build_row, crc_of};

/// A running server writes the view a moment after the log: what differs is looked at again.
const LOOKS: usize = 4;

/// A state without the first lease, which earlier versions did not write down.
fn without_lease(mut state: serde_json::Value) -> serde_json::Value {
    if let Some(fields) = state.as_object_mut() {
        fields.remove("first_lease");
    }
    state
}

/// The contents of the logs of a task.
struct Logs {
    state: LogState,
    end: u64,
    tool_calls: u64,
    named: Named,
}

impl Doctor<'_> {
    pub(super) fn task(&mut self, id: TaskId, folder: Folder) -> Result<(), StoreError> {
        self.seen.tasks += 1;
        let dir = folder.task(id);
        self.files(id, &dir)?;
        match metadata::judge(&self.env, folder, id)? {
            MetadataVerdict::Right => {}
            MetadataVerdict::Restore(_, problem) => {
                self.problem(Some(id), &dir.join(layout::METADATA), &problem);
                return Ok(());
            }
            MetadataVerdict::Contradicted(_) => {
                let path = dir.join(layout::METADATA).to_string();
                let problem = "and its copy in tasks.db contradict each other: one of them is damaged";
                self.tell(Some(id), path, problem, Cure::Attention);
                return Ok(());
            }
            MetadataVerdict::Lost(problem) => {
                let path = dir.join(layout::METADATA).to_string();
                let problem = format!("is damaged ({problem}), and there is no copy of it");
                self.tell(Some(id), path, &problem, Cure::Quarantine);
                return Ok(());
            }
        }
        let metadata = match metadata::read(&self.env, &dir, id) {
            Ok(metadata) => metadata,
            Err(StoreError::Damaged { path, problem, .. }) => {
                self.tell(Some(id), path, &problem, Cure::Quarantine);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if metadata.format_version > FORMAT_VERSION {
            self.note(Some(id), &dir, &format!("has format {}, which is newer", metadata.format_version));
            return Ok(());
        }
        let Some(logs) = self.logs(id, &dir)? else { return Ok(()) };
        if logs.state.uuid != Some(id) {
            let path = dir.join(layout::MESSAGES);
            self.tell(Some(id), path.to_string(), "belongs to another task", Cure::Quarantine);
            return Ok(());
        }
        if let Some(event) = &logs.state.unknown_event {
            self.note(
                Some(id),
                &dir,
                &format!("has the event {event} of a newer version: it can only be read"),
            );
        }
        if folder != Folder::of(logs.state.status) {
            let status = logs.state.status;
            let problem = format!("is {}, so it belongs into {}", status.as_str(), belongs(status));
            self.problem(Some(id), &dir, &problem);
        }
        let view = self.view(id, &dir, &logs)?;
        self.views_of_the_log(id, &dir, &logs)?;
        self.outputs(id, &dir, &logs.named)?;
        self.ended(id, folder, &metadata, &logs, view.as_ref())
    }

    /// Names, kinds and permissions of what is in the directory.
    fn files(&mut self, id: TaskId, dir: &StorePath) -> Result<(), StoreError> {
        self.permissions(Some(id), dir)?;
        for entry in self.entries(dir)? {
            let path = dir.join(entry.name.clone());
            if layout::is_known(&entry.name) || layout::is_transient(&entry.name) {
                self.permissions(Some(id), &path)?;
            }
            if entry.kind == Kind::Other {
                self.note(Some(id), &path, "is neither a file nor a directory; it is never followed");
            } else if layout::is_transient(&entry.name) {
                if self.seen.in_use_by.is_none() {
                    self.problem(Some(id), &path, "was left by a crash");
                }
            } else if entry.name.as_str().contains(".cut.") {
                self.note(Some(id), &path, "is a torn tail that was cut off; it can be removed");
            } else if entry.name == layout::DAMAGED_METADATA {
                self.note(Some(id), &path, "is a damaged file that a copy replaced; it can be removed");
            } else if entry.name == layout::CONTRADICTING_METADATA {
                let problem = "is a copy that contradicted metadata.json; compare them, then remove it";
                self.tell(Some(id), path.to_string(), problem, Cure::Attention);
            } else if !layout::is_known(&entry.name) {
                self.note(Some(id), &path, "is nothing that belongs here; it is left alone");
            }
        }
        Ok(())
    }

    fn logs(&mut self, id: TaskId, dir: &StorePath) -> Result<Option<Logs>, StoreError> {
        let checkpoint = Checkpoint::read(self.env.fs.as_ref(), &dir.join(layout::CHECKPOINT))?;
        let known = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.log_len);
        let marks =
            checkpoint.as_ref().map_or((0, 0), |checkpoint| (checkpoint.tools.len, checkpoint.plans.len));
        let mut state = LogState::default();
        let mut index = RowCheck::open(self, dir)?;
        let (mut at_checkpoint, mut named) = (None, Named::default());
        let mut take = |offset: u64, end: u64, line: &Line<'_>| {
            let row = IndexRow { seq: state.last_seq + 1, rewrites: state.view_generation(), offset };
            let is_rewrite = matches!(line.head, Head::Event { name: "rewrite", .. });
            state.apply(offset, end, line)?;
            named.note(line);
            index.check(row, is_rewrite);
            if end == known {
                at_checkpoint = serde_json::to_value(&state).ok();
            }
            Ok(())
        };
        let Some(end) = self.log(id, &dir.join(layout::MESSAGES), LogKind::Messages, known, &mut take)?
        else {
            return Ok(None);
        };
        if let Some(problem) = index.problem {
            self.problem(Some(id), &dir.join(layout::INDEX), &problem);
        }
        if let Some(checkpoint) = &checkpoint
            && serde_json::to_value(&checkpoint.state).ok().map(without_lease)
                != at_checkpoint.map(without_lease)
        {
            let path = dir.join(layout::CHECKPOINT);
            self.problem(Some(id), &path, "is not what follows from the log");
        }
        if checkpoint.is_none()
            && Checkpoint::is_damaged(self.env.fs.as_ref(), &dir.join(layout::CHECKPOINT))?
        {
            self.problem(Some(id), &dir.join(layout::CHECKPOINT), "is damaged");
        }
        let mut tools = RecordState::default();
        let mut take = |offset: u64, end: u64, line: &Line<'_>| {
            named.note(line);
            tools.apply(offset, end, line, true)
        };
        self.log(id, &dir.join(layout::TOOLS), LogKind::Tools, marks.0, &mut take)?;
        let mut plans = RecordState::default();
        let mut take = |offset: u64, end: u64, line: &Line<'_>| plans.apply(offset, end, line, false);
        self.log(id, &dir.join(layout::PLANS), LogKind::Plans, marks.1, &mut take)?;
        Ok(Some(Logs { state, end, tool_calls: tools.last, named }))
    }

    /// Reads a log to its end; `None` if it is damaged where it was durable.
    fn log(
        &mut self,
        id: TaskId,
        path: &StorePath,
        kind: LogKind,
        known: u64,
        take: &mut dyn FnMut(u64, u64, &Line<'_>) -> Result<(), Damage>,
    ) -> Result<Option<u64>, StoreError> {
        let failed = |error| StoreError::io(format!("reading {path}"), error);
        let file = match self.env.fs.open(path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let missing = kind == LogKind::Messages || known > 0;
                if missing {
                    self.tell(Some(id), path.to_string(), "is missing", Cure::Quarantine);
                }
                return Ok((!missing).then_some(0));
            }
            Err(error) => return Err(failed(error)),
        };
        let len = file.len().map_err(failed)?;
        if len < known {
            self.damage(id, path, len, &format!("the file ends here, but {known} bytes were durable"));
            return Ok(None);
        }
        let mut durable = known;
        let mut lines = Forward::new(Arc::clone(&file), 0, len);
        while let Some(found) = lines.next().map_err(failed)? {
            self.seen.lines += 1;
            let offset = found.offset;
            match found.line(kind) {
                Ok(line) => {
                    if let Err(damage) = take(offset, found.end, &line) {
                        self.damage(id, path, damage.offset, &damage.problem);
                        return Ok(None);
                    }
                    durable = durable.max(line.durable_to);
                }
                Err(bad) => {
                    let verdict = check_tail(kind, &file, offset, len, durable).map_err(failed)?;
                    if verdict == TailVerdict::Acknowledged {
                        self.damage(id, path, offset, &format!("{bad}; it was acknowledged"));
                        return Ok(None);
                    }
                    if self.seen.in_use_by.is_none() {
                        let left = len - offset;
                        let problem = format!(
                            "ends in {left} torn bytes ({bad}), not known to be acknowledged; a repair saves them"
                        );
                        self.problem(Some(id), path, &problem);
                    }
                    return Ok(Some(offset));
                }
            }
        }
        Ok(Some(len))
    }

    /// Folds the log and compares, byte by byte.
    fn view(&mut self, id: TaskId, dir: &StorePath, logs: &Logs) -> Result<Option<ViewState>, StoreError> {
        let looks = if self.seen.in_use_by.is_some() { LOOKS } else { 1 };
        let mut problem = None;
        for _ in 0..looks {
            match self.compare_view(dir, logs)? {
                (state, None) => return Ok(Some(state)),
                (_, Some(found)) => problem = Some(found),
            }
        }
        if let Some((name, found)) = problem {
            self.problem(Some(id), &dir.join(name), &found);
        }
        Ok(None)
    }

    fn compare_view(
        &self,
        dir: &StorePath,
        logs: &Logs,
    ) -> Result<(ViewState, Option<(Name, String)>), StoreError> {
        let failed = |error| StoreError::io(format!("reading the view in {dir}"), error);
        let source = self.source(dir, logs.end)?;
        let rewrite = logs.state.rewrite.as_ref().map(|mark| source.rewrite_at(mark.offset)).transpose()?;
        let mut fold = Fold::new(source, rewrite, logs.state.last_seq);
        let mut current = Compare::open(self, &dir.join(layout::CURRENT));
        let mut extra = Compare::open(self, &dir.join(layout::EXTRA));
        let (mut view, mut aside) = (Vec::new(), Vec::new());
        while fold.step(&mut view, &mut aside)? {
            current.expect(&view).map_err(failed)?;
            extra.expect(&aside).map_err(failed)?;
            view.clear();
            aside.clear();
        }
        let growing = self.seen.in_use_by.is_some();
        let lines = fold.state().lines;
        let problem = current
            .verdict(growing)
            .map_err(failed)?
            .map(|found| (layout::CURRENT, format!("is not what the log gives ({lines} lines): {found}")));
        let aside = extra
            .verdict(growing)
            .map_err(failed)?
            .map(|found| (layout::EXTRA, format!("is not what the log gives: {found}")));
        Ok((fold.state().clone(), problem.or(aside)))
    }

    fn views_of_the_log(&mut self, id: TaskId, dir: &StorePath, logs: &Logs) -> Result<(), StoreError> {
        let path = dir.join(layout::SUMMARIES);
        let (len, crc) = (logs.state.summaries_len, logs.state.summaries_crc);
        let failed = |error| StoreError::io(format!("reading {path}"), error);
        let right = match self.env.fs.open(&path, Open::Read) {
            Ok(file) => {
                let found = file.len().map_err(failed)?;
                found == len && crc_of(file.as_ref(), len).map_err(failed)? == crc
            }
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !right && self.seen.in_use_by.is_none() {
            self.problem(Some(id), &path, "is not what the log gives");
        }
        Ok(())
    }

    /// Returns what only ended tasks have, and the catalog's row.
    fn ended(
        &mut self,
        id: TaskId,
        folder: Folder,
        metadata: &Metadata,
        logs: &Logs,
        view: Option<&ViewState>,
    ) -> Result<(), StoreError> {
        let Some(view) = view else { return Ok(()) };
        let row = build_row(metadata, &logs.state, logs.tool_calls, Some(view));
        let health = if logs.state.unknown_event.is_some() { Health::NewerFormat } else { Health::Ok };
        let row = TaskRow { health, ..row };
        if folder == Folder::Completed && logs.state.status.is_final() {
            self.final_summary(id, &folder.task(id), logs)?;
            let path = folder.task(id).join(layout::TASK);
            match read_row(&self.env, folder, id) {
                None => self.problem(Some(id), &path, "is missing or cannot be read"),
                Some(found) if found != row => {
                    self.problem(Some(id), &path, &format!("differs: {}", difference(&found, &row)));
                }
                Some(_) => {}
            }
        }
        self.row(id, &row)
    }
}

impl Doctor<'_> {
    fn final_summary(&mut self, id: TaskId, dir: &StorePath, logs: &Logs) -> Result<(), StoreError> {
        let expected = match logs.state.final_summary_at {
            Some(offset) => self.source(dir, logs.end)?.final_summary_at(offset)?.map(|text| text + "\n"),
            None => None,
        };
        let path = dir.join(layout::FINAL_SUMMARY);
        let found = files::read_small(self.env.fs.as_ref(), &path, 2 * Store::MAX_TEXT_BYTES as u64);
        if found.ok().flatten() != expected.map(String::into_bytes) {
            self.problem(Some(id), &path, "is not what the log says");
        }
        Ok(())
    }

    fn source(&self, dir: &StorePath, end: u64) -> Result<LogSource, StoreError> {
        let path = dir.join(layout::MESSAGES);
        let file = self.env.fs.open(&path, Open::Read);
        let file = file.map_err(|error| StoreError::io(format!("reading {path}"), error))?;
        Ok(LogSource { path: path.to_string(), file, end, index: None, notes: None })
    }
}

/// A file that is compared with what it is to hold, piece by piece.
struct Compare {
    file: Option<Arc<dyn File>>,
    at: u64,
    differs: Option<u64>,
}

impl Compare {
    fn open(doctor: &Doctor<'_>, path: &StorePath) -> Self {
        let file = match optional(doctor.env.fs.open(path, Open::Read)) {
            Ok(file) => file,
            // A symlink, for example: it is no view, whatever it points to.
            Err(error) => {
                tracing::warn!(%path, %error, "a view cannot be read");
                return Self { file: None, at: 0, differs: Some(0) };
            }
        };
        Self { file, at: 0, differs: None }
    }

    fn expect(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(file) = &self.file
            && self.differs.is_none()
            && !bytes.is_empty()
        {
            let mut found = vec![0; bytes.len()];
            let same = match read_exact_at(file.as_ref(), &mut found, self.at) {
                Ok(()) => found == bytes,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
                Err(error) => return Err(error),
            };
            if !same {
                self.differs = Some(self.at);
            }
        }
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Returns what is wrong, if anything is. A file that is being written may be longer.
    fn verdict(&self, growing: bool) -> io::Result<Option<String>> {
        let Some(file) = &self.file else {
            let unreadable = self.differs.map(|_| "it cannot be read".to_owned());
            return Ok(unreadable.or((self.at > 0).then(|| "it is missing".to_owned())));
        };
        let len = file.len()?;
        Ok(match self.differs {
            Some(at) => Some(format!("the line at byte {at} differs")),
            None if len < self.at => Some(format!("it has {len} bytes, not {}", self.at)),
            None if len > self.at && !growing => Some(format!("it has {len} bytes, not {}", self.at)),
            None => None,
        })
    }
}

/// The index, compared row by row while the log is read.
struct RowCheck {
    rows: Option<Index>,
    next: u64,
    problem: Option<String>,
}

impl RowCheck {
    fn open(doctor: &Doctor<'_>, dir: &StorePath) -> Result<Self, StoreError> {
        let path = dir.join(layout::INDEX);
        let failed = |error| StoreError::io(format!("reading {path}"), error);
        let checkpoint = Checkpoint::read(doctor.env.fs.as_ref(), &dir.join(layout::CHECKPOINT))?;
        // Rows behind those that the checkpoint counts are written again before they are used.
        let count = checkpoint.map_or(0, |checkpoint| checkpoint.index_rows);
        let (rows, problem) = match doctor.env.fs.open(&path, Open::Read) {
            Ok(file) => match Index::open(file, count, false).map_err(failed)? {
                Some(index) => (Some(index), None),
                None => (None, Some(format!("does not hold the {count} rows it is to have"))),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (None, (count > 0).then(|| "is missing".to_owned()))
            }
            Err(error) => return Err(failed(error)),
        };
        Ok(Self { rows, next: 0, problem })
    }

    fn check(&mut self, line: IndexRow, is_rewrite: bool) {
        let Some(index) = &self.rows else { return };
        if self.problem.is_some() || self.next >= index.rows() {
            return;
        }
        match index.row(self.next) {
            Ok(Some(row)) if row.offset == line.offset && row == line => self.next += 1,
            Ok(Some(row)) if row.offset > line.offset && !is_rewrite => {}
            Ok(row) => self.problem = Some(format!("row {} is {row:?}, not {line:?}", self.next)),
            Err(error) => self.problem = Some(format!("row {} cannot be read: {error}", self.next)),
        }
    }
}
