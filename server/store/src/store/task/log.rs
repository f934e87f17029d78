//! The message log of a task: its directory, the open log, and the state that follows from its lines.

use std::io;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::infra::fs::{File, Name, StorePath};
use crate::log::{Appended, Commit, DamageNote, Head, Index, Line, LogSource, LogState, LogWriter};
use crate::model::{Durability, Rewrite, StoreError, TaskId};
use crate::store::layout::{self, Folder};

/// The message log of an open task.
#[derive(Debug)]
pub(super) struct TaskLog {
    id: TaskId,
    folder: Folder,
    writer: LogWriter,
    state: LogState,
    /// Missing only where nothing can be written.
    index: Option<Index>,
    durability: Durability,
    /// The length of the log at the last checkpoint.
    checkpoint_at: u64,
    /// Where readers note damage of the task's logs.
    notes: DamageNote,
}

impl TaskLog {
    pub(super) fn new(
        id: TaskId,
        folder: Folder,
        writer: LogWriter,
        state: LogState,
        index: Option<Index>,
        durability: Durability,
        notes: DamageNote,
    ) -> Self {
        Self { id, folder, writer, state, index, durability, checkpoint_at: 0, notes }
    }

    /// Returns the folder that the task's directory is in.
    pub(super) fn folder(&self) -> Folder {
        self.folder
    }

    /// Records that the task's directory was moved to another folder.
    pub(super) fn move_to(&mut self, folder: Folder) {
        self.folder = folder;
    }

    /// Returns the task's directory.
    pub(super) fn dir(&self) -> StorePath {
        self.folder.task(self.id)
    }

    /// Returns the path of a file in the task's directory.
    pub(super) fn path(&self, name: Name) -> StorePath {
        self.dir().join(name)
    }

    /// Returns what follows from all lines that are written.
    pub(super) fn state(&self) -> &LogState {
        &self.state
    }

    /// Returns how many bytes are written.
    pub(super) fn len(&self) -> u64 {
        self.writer.len()
    }

    /// Returns how far a line must have come before it is acknowledged.
    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    pub(super) fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    pub(super) fn file(&self) -> &Arc<dyn File> {
        self.writer.file()
    }

    pub(super) fn commit(&self) -> &Arc<Commit> {
        self.writer.commit()
    }

    pub(super) fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// Returns where readers note damage.
    pub(super) fn notes(&self) -> &DamageNote {
        &self.notes
    }

    /// Returns the log up to an offset, for reading.
    pub(super) fn source_to(&self, end: u64) -> LogSource {
        // The directory is named only if the log says that it is this task's.
        let path = self.state.uuid.map(|id| self.folder.task(id).join(layout::MESSAGES));
        LogSource {
            path: path.map_or_else(|| layout::MESSAGES.to_string(), |path| path.to_string()),
            file: Arc::clone(self.file()),
            end,
            index: self.index.clone(),
            notes: Some(self.notes.clone()),
        }
    }

    /// Returns the whole log for reading, with lines that are not durable yet.
    pub(super) fn source(&self) -> LogSource {
        self.source_to(self.len())
    }

    /// Reads the newest rewrite of the view.
    pub(super) fn newest_rewrite(&self) -> Result<Option<Rewrite>, StoreError> {
        self.source().marked_rewrite(self.state.rewrite.as_ref())
    }

    /// Reads the final summary of a task that has ended.
    pub(super) fn final_summary(&self) -> Result<Option<String>, StoreError> {
        self.state.final_summary_at.map_or(Ok(None), |offset| self.source().final_summary_at(offset))
    }

    /// Returns the tokens of all messages of the log when the view was last compressed, or that taken back.
    pub(super) fn compressed_at(&self) -> u64 {
        self.state.rewrite.as_ref().map_or(0, |mark| mark.compressed_at)
    }

    /// Writes a line at the end. After an error the log is as it was, or broken.
    pub(super) fn append(&mut self, head: Head<'_>, now: DateTime<Utc>, body: &str) -> io::Result<Appended> {
        self.writer.append(head, now, body)
    }

    /// Parses a line that was appended and applies it to state and index. A line that does not fit would look like damage, so
    /// it is cut off again, and the log is broken.
    pub(super) fn apply<'a>(&mut self, appended: &'a Appended) -> io::Result<Line<'a>> {
        let row = self.state.row_at(appended.offset);
        let applied = appended.line().map_err(|bad| bad.to_string()).and_then(|line| {
            let applied = self.state.apply(appended.offset, appended.end, &line);
            applied.map(|()| line).map_err(|damage| damage.to_string())
        });
        let line = applied.map_err(io::Error::other).inspect_err(|error| self.writer.cut_back(error))?;
        if let Some(index) = &mut self.index {
            index.note(row, &line);
            if let Err(error) = index.write(false) {
                tracing::warn!(id = %self.id, %error, "the index could not be written");
            }
        }
        Ok(line)
    }

    /// Returns when every line that is written is durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.writer.sync()
    }

    /// Records that the lines up to `end` were acknowledged without a sync.
    pub(super) fn keep(&mut self, end: u64) -> io::Result<()> {
        self.writer.keep(end)
    }

    pub(super) fn is_broken(&self) -> bool {
        self.writer.is_broken()
    }

    /// Cuts off the lines that were never acknowledged, if the log is broken.
    pub(super) fn cut_back_if_broken(&mut self, error: &io::Error) {
        if self.writer.is_broken() {
            self.writer.cut_back(error);
        }
    }

    /// Returns how far the log has grown since the last checkpoint.
    pub(super) fn since_checkpoint(&self) -> u64 {
        self.len().saturating_sub(self.checkpoint_at)
    }

    /// Records a checkpoint of the log at some length.
    pub(super) fn note_checkpoint(&mut self, len: u64) {
        self.checkpoint_at = len;
    }

    /// Writes the rows of the index that are only in memory, and returns how many rows there are.
    pub(super) fn flush_index(&mut self, sync: bool) -> Result<u64, StoreError> {
        let Some(index) = &mut self.index else { return Ok(0) };
        index.write(true).map_err(|error| StoreError::io("writing the index", error))?;
        if sync {
            index.sync().map_err(|error| StoreError::io("syncing the index", error))?;
        }
        Ok(index.rows())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::infra::fs::sim::SimFs;
    use crate::infra::fs::{Fs, Open};
    use crate::log::LogKind;
    use crate::model::{Event, Role};

    fn started() -> TaskLog {
        started_on(SimFs::new().as_ref())
    }

    /// Returns a log that has started, in the root of a disk.
    pub(in super::super) fn started_on(disk: &SimFs) -> TaskLog {
        let id = TaskId::default();
        let open = |name| disk.open(&StorePath::ROOT.join(name), Open::New).unwrap();
        let writer = LogWriter::new(LogKind::Messages, open(layout::MESSAGES), 0, Arc::default());
        let index = Index::create(open(layout::INDEX)).unwrap();
        let notes = DamageNote::new(&Arc::default(), id);
        let (state, durability) = (LogState::default(), Durability::Group);
        let mut log = TaskLog::new(id, Folder::Running, writer, state, Some(index), durability, notes);
        let event = Event::Started { uuid: id, format_version: crate::log::FORMAT_VERSION };
        let head = Head::Event { name: event.name(), after: 0 };
        append(&mut log, head, &event.body().unwrap()).unwrap();
        log
    }

    fn append(log: &mut TaskLog, head: Head<'_>, body: &str) -> io::Result<()> {
        let appended = log.append(head, DateTime::UNIX_EPOCH, body)?;
        log.apply(&appended).map(drop)
    }

    /// Appends a message of ten tokens.
    pub(in super::super) fn message(log: &mut TaskLog, seq: u64) -> io::Result<()> {
        append(log, Head::Message { seq, role: Role::User, tokens: 10 }, ",\"content\":\"hello\"")
    }

    #[test]
    fn state_and_readers_follow_what_is_appended() {
        let mut log = started();
        for seq in 1..=3 {
            message(&mut log, seq).unwrap();
        }
        assert_eq!((log.state().last_seq, log.state().tally.message_tokens), (3, 30));
        let (mut messages, mut read) = (log.source().messages(2, 3), Vec::new());
        while messages
            .step(|seq, line| {
                read.push((seq, line.body().to_owned()));
                Ok(())
            })
            .unwrap()
        {}
        assert_eq!(read, [2, 3].map(|seq| (seq, ",\"content\":\"hello\"".to_owned())));
        assert_eq!(log.commit().durable(), 0);
        log.sync().unwrap();
        assert_eq!(log.commit().durable(), log.len());
    }

    #[test]
    fn a_line_that_does_not_fit_is_cut_off_and_nothing_follows_it() {
        let mut log = started();
        message(&mut log, 1).unwrap();
        log.sync().unwrap();
        let before = (log.len(), log.state().last_seq);
        assert!(message(&mut log, 3).is_err());
        assert!(log.is_broken());
        assert_eq!((log.file().len().unwrap(), log.state().last_seq), before);
        assert!(message(&mut log, 2).is_err());
    }

    #[test]
    fn a_checkpoint_is_due_by_what_was_written_since_the_last() {
        let mut log = started();
        let first = log.len();
        log.note_checkpoint(first);
        assert_eq!(log.since_checkpoint(), 0);
        message(&mut log, 1).unwrap();
        assert_eq!(log.since_checkpoint(), log.len() - first);
    }

    #[test]
    fn paths_follow_the_directory() {
        let mut log = started();
        log.move_to(Folder::Paused);
        assert_eq!(log.path(layout::MESSAGES).to_string(), log.source().path);
        assert!(log.source().path.starts_with(&Folder::Paused.path().to_string()));
    }
}
