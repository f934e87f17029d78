//! The view of a task: appended to, checked when it is first used, made again when it is not right.

use std::io;

use crate::infra::fs::{Fs, StorePath};
use crate::log::{Fold, Head, Line, LogState, RENDER_VERSION, ViewState};
use crate::model::{StoreError, TaskId};

use super::view_files::{ViewFiles, ViewWriter};
use super::{Inner, Task};
use crate::store::checkpoint::ViewMark;
use crate::store::env::Env;
use crate::store::files;
use crate::store::layout::{CHECKPOINT, CURRENT, EXTRA, FINAL_SUMMARY, Folder, INDEX, SUMMARIES, TASK};

/// The view of an open task.
#[derive(Debug, Default)]
pub(super) struct TaskView {
    /// The files, once they were found right; none if they have to be restored.
    files: Option<ViewFiles>,
    /// The tokens of a view without files, once they were counted.
    tokens: Option<u64>,
    /// What the checkpoint says of the view, until the files are open.
    mark: Option<ViewMark>,
}

impl TaskView {
    /// Returns a view that is not open yet, as a checkpoint knows it.
    pub(super) fn of_checkpoint(mark: Option<ViewMark>) -> Self {
        Self { files: None, tokens: None, mark }
    }

    pub(super) fn files(&self) -> Option<&ViewFiles> {
        self.files.as_ref()
    }

    /// Returns how the view stands; none if it is not open.
    pub(super) fn state(&self) -> Option<&ViewState> {
        self.files.as_ref().map(ViewFiles::state)
    }

    pub(super) fn is_open(&self) -> bool {
        self.files.is_some()
    }

    /// Returns the bytes of both files; 0 if the view is not open.
    pub(super) fn bytes(&self) -> u64 {
        self.state().map_or(0, |state| state.len + state.extra_len)
    }

    /// Returns the tokens of the view, if they are known.
    pub(super) fn tokens(&self) -> Option<u64> {
        self.state().map_or(self.tokens, |state| Some(state.tokens))
    }

    /// Records the tokens of a view without files.
    pub(super) fn note_tokens(&mut self, tokens: u64) {
        self.tokens = Some(tokens);
    }

    /// Goes on with files that are the fold of the log.
    pub(super) fn open(&mut self, files: ViewFiles) {
        (self.files, self.mark) = (Some(files), None);
    }

    /// Takes the view of a rewrite; without files it is restored when it is next used.
    pub(super) fn replace(&mut self, files: Option<ViewFiles>, tokens: u64) {
        *self = Self { files, tokens: Some(tokens), mark: None };
    }

    /// Forgets the view: it is made again when it is next used.
    pub(super) fn discard(&mut self) {
        *self = Self::default();
    }

    /// Adds a message of the log, which is in a generation of the view. A view that cannot be written is closed, and
    /// restored when it is next used.
    pub(super) fn append(
        &mut self,
        fs: &dyn Fs,
        dir: &StorePath,
        boot_id: &str,
        generation: u64,
        line: &Line<'_>,
    ) -> io::Result<()> {
        let Head::Message { seq, tokens, .. } = line.head else { return Ok(()) };
        let Some(files) = &mut self.files else {
            self.tokens = self.tokens.map(|before| before.saturating_add(tokens));
            return Ok(());
        };
        let appended = files.append(fs, dir, seq, line);
        if appended.is_err() {
            self.mark = Some(files.mark(boot_id, seq - 1, generation, false));
            self.tokens = Some(files.state().tokens.saturating_add(tokens));
            self.files = None;
        }
        appended
    }

    /// Returns what a checkpoint is to say of the view; a clean one syncs it.
    pub(super) fn checkpoint(
        &self,
        boot_id: &str,
        state: &LogState,
        clean: bool,
    ) -> io::Result<Option<ViewMark>> {
        let Some(files) = &self.files else { return Ok(self.mark.clone()) };
        if clean {
            files.sync()?;
        }
        Ok(Some(files.mark(boot_id, state.last_seq, state.view_generation(), clean)))
    }
}

impl Task {
    /// Sees that the view is there and right, if it can be. Without one, reads fold the log as they go.
    pub(super) fn ensure_view(&self, inner: &mut Inner) {
        let hands_off = inner.deleted || inner.read_only.is_some() || self.env.read_only().is_some();
        if inner.view.is_open() || hands_off {
            return;
        }
        if let Err(error) = self.restore_view(inner) {
            tracing::warn!(id = %self.id, %error, "the view could not be restored");
            if let StoreError::Damaged { .. } = error {
                inner.freeze(error.to_string());
            }
        }
    }

    pub(super) fn restore_view(&self, inner: &mut Inner) -> Result<(), StoreError> {
        let fs = self.env.fs.as_ref();
        if inner.readers.is_behind() {
            // How long the view was behind each of these lines is not known; make them all readable.
            self.sync(inner)?;
        }
        // The mark stays until there is a view: should this fail, the next try can go on from it too.
        let kept = match &inner.view.mark {
            Some(mark) => self.resume_view(inner, mark)?,
            None => None,
        };
        let view = match kept {
            Some(view) => view,
            None => {
                let rewrite = inner.log.newest_rewrite()?;
                let source = inner.log.source();
                let dir = inner.log.dir();
                let failed = |error| StoreError::io("writing a view", error);
                let mut writer = ViewWriter::beside(fs, dir).map_err(failed)?;
                let mut fold = Fold::new(source, rewrite, inner.log.state().last_seq);
                match writer.run(fs, &mut fold) {
                    // A checkpoint of an orderly stop may still vouch for a view of this generation: what
                    // takes its place must be as durable.
                    Ok(()) => {
                        let view = writer.sync().and_then(|()| writer.publish(fs, fold.state().clone()));
                        view.map_err(failed)?
                    }
                    Err(error) => {
                        writer.abandon(fs, &inner.log.dir());
                        return Err(error);
                    }
                }
            }
        };
        inner.view.open(view);
        inner.changed = true;
        inner.show_all();
        Ok(())
    }

    /// Goes on with the view that the checkpoint knows, if it still is what it was.
    fn resume_view(&self, inner: &Inner, mark: &ViewMark) -> Result<Option<ViewFiles>, StoreError> {
        let fs = self.env.fs.as_ref();
        let current = mark.render_version == RENDER_VERSION
            && mark.generation == inner.log.state().view_generation()
            && mark.last_seq <= inner.log.state().last_seq;
        if !current {
            return Ok(None);
        }
        let trusted = mark.clean || mark.boot_id == self.env.boot_id;
        let log = &inner.log;
        ViewFiles::resume(fs, log.dir(), mark, trusted, log.source(), log.state().last_seq)
    }
}

/// Removes every view of a task; its logs give them again.
pub(crate) fn remove_views(env: &Env, id: TaskId, folder: Folder) -> Result<(), StoreError> {
    for name in [CURRENT, EXTRA, CHECKPOINT, INDEX, SUMMARIES, TASK, FINAL_SUMMARY] {
        let path = folder.task(id).join(name);
        files::remove_if_there(env.fs.as_ref(), &path)
            .map_err(|error| StoreError::io(format!("removing {path}"), error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::log::TaskLog;
    use super::super::log::tests::{message, started_on};
    use super::*;
    use crate::infra::fs::sim::SimFs;

    /// Makes the view of a log, in the root of a disk.
    fn open_view(disk: &SimFs, log: &TaskLog) -> TaskView {
        let mut writer = ViewWriter::beside(disk, StorePath::ROOT).unwrap();
        let mut fold = Fold::new(log.source(), None, log.state().last_seq);
        writer.run(disk, &mut fold).unwrap();
        let mut view = TaskView::default();
        view.open(writer.publish(disk, fold.state().clone()).unwrap());
        view
    }

    /// Adds the last message of a log to its view.
    fn append_last(view: &mut TaskView, disk: &SimFs, log: &TaskLog) -> io::Result<()> {
        let mut appended = Ok(());
        let last = log.state().last_seq;
        let mut messages = log.source().messages(last, last);
        let step = messages.step(|_, line| {
            appended = view.append(disk, &StorePath::ROOT, "boot", 0, line);
            Ok(())
        });
        assert!(step.unwrap());
        appended
    }

    fn file(disk: &SimFs) -> Vec<u8> {
        disk.read_file(&StorePath::ROOT.join(CURRENT)).unwrap()
    }

    #[test]
    fn an_open_view_grows_with_the_log() {
        let disk = SimFs::new();
        let mut log = started_on(&disk);
        message(&mut log, 1).unwrap();
        let mut view = open_view(&disk, &log);
        message(&mut log, 2).unwrap();
        append_last(&mut view, &disk, &log).unwrap();
        assert_eq!((view.state().unwrap().lines, view.tokens()), (2, Some(20)));
        assert_eq!(view.bytes(), file(&disk).len() as u64);
        let grown = file(&disk);
        open_view(&disk, &log);
        assert_eq!(file(&disk), grown);
    }

    #[test]
    fn a_view_that_cannot_be_written_is_closed_counted_on_and_resumed() {
        let disk = SimFs::new();
        let mut log = started_on(&disk);
        message(&mut log, 1).unwrap();
        let mut view = open_view(&disk, &log);
        message(&mut log, 2).unwrap();
        disk.set_read_only(true);
        assert!(append_last(&mut view, &disk, &log).is_err());
        disk.set_read_only(false);
        assert_eq!((view.is_open(), view.tokens()), (false, Some(20)));
        message(&mut log, 3).unwrap();
        append_last(&mut view, &disk, &log).unwrap();
        assert_eq!(view.tokens(), Some(30));
        let mark = view.checkpoint("boot", log.state(), false).unwrap().unwrap();
        assert_eq!((mark.last_seq, mark.state.lines), (1, 1));
        let resumed = ViewFiles::resume(disk.as_ref(), StorePath::ROOT, &mark, false, log.source(), 3);
        view.open(resumed.unwrap().unwrap());
        assert_eq!((view.state().unwrap().lines, view.tokens()), (3, Some(30)));
        let resumed = file(&disk);
        open_view(&disk, &log);
        assert_eq!(file(&disk), resumed);
    }

    #[test]
    fn a_view_of_other_bytes_than_the_checkpoint_knows_is_not_resumed() {
        let disk = SimFs::new();
        let mut log = started_on(&disk);
        message(&mut log, 1).unwrap();
        let view = open_view(&disk, &log);
        let mark = view.checkpoint("boot", log.state(), true).unwrap().unwrap();
        view.files().unwrap().file().write_all_at(b"X", 3).unwrap();
        let resume =
            |trusted| ViewFiles::resume(disk.as_ref(), StorePath::ROOT, &mark, trusted, log.source(), 1);
        assert!(resume(false).unwrap().is_none());
        assert!(resume(true).unwrap().is_some());
    }
}
