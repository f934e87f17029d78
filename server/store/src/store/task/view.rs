//! The view of a task on disk: appended to, checked when it is first used, made again when it is not right.

use std::io;
use std::sync::Arc;

use crate::infra::fs::{File, Fs, Name, Open, StorePath};
use crate::log::{Fold, Line, RENDER_VERSION, ViewState, read_exact_at, show};
use crate::model::{StoreError, TaskId};

use super::{Inner, Task};
use crate::store::checkpoint::ViewMark;
use crate::store::env::Env;
use crate::store::files;
use crate::store::layout::{CHECKPOINT, CURRENT, EXTRA, FINAL_SUMMARY, Folder, INDEX, NEXT, SUMMARIES, TASK};

const BUFFER: usize = 256 << 10;

/// The open files of a view that is the fold of the log.
#[derive(Debug)]
pub(super) struct View {
    pub(super) file: Arc<dyn File>,
    pub(super) extra: Option<Arc<dyn File>>,
    state: ViewState,
}

impl View {
    pub(super) fn state(&self) -> &ViewState {
        &self.state
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.extra.as_ref().map_or(Ok(()), |extra| extra.sync_data())
    }

    pub(super) fn mark(&self, boot_id: &str, last_seq: u64, generation: u64, clean: bool) -> ViewMark {
        ViewMark {
            last_seq,
            generation,
            render_version: RENDER_VERSION,
            clean,
            boot_id: boot_id.to_owned(),
            state: self.state.clone(),
        }
    }

    /// Adds a message of the log. After an error the view is marked as it was before.
    pub(super) fn append(
        &mut self,
        fs: &dyn Fs,
        dir: &StorePath,
        seq: u64,
        line: &Line<'_>,
    ) -> io::Result<()> {
        let (mut view, mut extra) = (Vec::new(), Vec::new());
        let mut state = self.state.clone();
        show(&mut state, seq, line, &mut view, &mut extra)?;
        self.file.write_all_at(&view, self.state.len)?;
        if !extra.is_empty() {
            if self.extra.is_none() {
                self.extra = Some(fs.open(&dir.join(EXTRA), Open::Truncate)?);
            }
            if let Some(file) = &self.extra {
                file.write_all_at(&extra, self.state.extra_len)?;
            }
        }
        self.state = state;
        Ok(())
    }
}

/// Writes the two files of a view, buffered.
#[derive(Debug)]
pub(super) struct ViewWriter {
    dir: StorePath,
    suffix: &'static str,
    file: Arc<dyn File>,
    extra: Option<Arc<dyn File>>,
    view_at: u64,
    extra_at: u64,
    view: Vec<u8>,
    extra_bytes: Vec<u8>,
}

impl ViewWriter {
    /// A new view beside the old one.
    pub(super) fn beside(fs: &dyn Fs, dir: StorePath) -> io::Result<Self> {
        // Always a new file: a handle that is spent may still be writing to an older one of the same name.
        for name in [CURRENT, EXTRA] {
            files::remove_if_there(fs, &dir.join(name.with_suffix(NEXT)))?;
        }
        let file = fs.open(&dir.join(CURRENT.with_suffix(NEXT)), Open::New)?;
        Ok(Self {
            dir,
            suffix: NEXT,
            file,
            extra: None,
            view_at: 0,
            extra_at: 0,
            view: Vec::new(),
            extra_bytes: Vec::new(),
        })
    }

    /// Folds on until there is nothing more to show.
    pub(super) fn run(&mut self, fs: &dyn Fs, fold: &mut Fold) -> Result<(), StoreError> {
        let failed = |error| StoreError::io("writing a view", error);
        while fold.step(&mut self.view, &mut self.extra_bytes)? {
            if self.view.len() + self.extra_bytes.len() >= BUFFER {
                self.flush(fs).map_err(failed)?;
            }
        }
        self.flush(fs).map_err(failed)
    }

    fn flush(&mut self, fs: &dyn Fs) -> io::Result<()> {
        self.file.write_all_at(&self.view, self.view_at)?;
        self.view_at += self.view.len() as u64;
        self.view.clear();
        if !self.extra_bytes.is_empty() {
            let extra = match &self.extra {
                Some(extra) => Arc::clone(extra),
                None => {
                    let name = if self.suffix.is_empty() { EXTRA } else { EXTRA.with_suffix(self.suffix) };
                    let made = fs.open(&self.dir.join(name), Open::Truncate)?;
                    Arc::clone(self.extra.insert(made))
                }
            };
            extra.write_all_at(&self.extra_bytes, self.extra_at)?;
            self.extra_at += self.extra_bytes.len() as u64;
            self.extra_bytes.clear();
        }
        // One huge message must not leave its room behind.
        self.view.shrink_to(BUFFER * 2);
        self.extra_bytes.shrink_to(BUFFER * 2);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.extra.as_ref().map_or(Ok(()), |extra| extra.sync_data())
    }

    /// Puts a view made beside the old one in its place.
    pub(super) fn publish(self, fs: &dyn Fs, state: ViewState) -> io::Result<View> {
        let path = |name: Name| self.dir.join(name);
        fs.rename(&path(CURRENT.with_suffix(NEXT)), &path(CURRENT))?;
        if self.extra.is_some() {
            fs.rename(&path(EXTRA.with_suffix(NEXT)), &path(EXTRA))?;
        } else {
            files::remove_if_there(fs, &path(EXTRA))?;
        }
        Ok(View { file: self.file, extra: self.extra, state })
    }

    /// The file, for whoever reads it without a name.
    pub(super) fn file(&self) -> Arc<dyn File> {
        Arc::clone(&self.file)
    }

    /// Removes what was made from the directory of the task, wherever that is now.
    pub(super) fn abandon(self, fs: &dyn Fs, dir: &StorePath) {
        for name in [CURRENT, EXTRA] {
            // Start-up removes what this leaves.
            let _ = files::remove_if_there(fs, &dir.join(name.with_suffix(NEXT)));
        }
    }
}

impl Task {
    /// Sees that the view is there and right, if it can be. Without one, reads fold the log as they go.
    pub(super) fn ensure_view(&self, inner: &mut Inner) {
        let hands_off = inner.deleted || inner.frozen.is_some() || self.env.read_only().is_some();
        if inner.view.is_some() || hands_off {
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
        if !inner.pending.is_empty() {
            // How long the view was behind each of these lines is not known; make them all readable.
            self.sync(inner)?;
        }
        // The mark stays until there is a view: should this fail, the next try can go on from it too.
        let kept = match &inner.view_mark {
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
        inner.view = Some(view);
        inner.view_mark = None;
        inner.changed = true;
        inner.pending.clear();
        inner.shown = inner.mark();
        Ok(())
    }

    /// Goes on with the view that the checkpoint knows, if it still is what it was.
    fn resume_view(&self, inner: &Inner, mark: &ViewMark) -> Result<Option<View>, StoreError> {
        let fs = self.env.fs.as_ref();
        let current = mark.render_version == RENDER_VERSION
            && mark.generation == inner.log.state().view_generation()
            && mark.last_seq <= inner.log.state().last_seq;
        if !current {
            return Ok(None);
        }
        let dir = inner.log.dir();
        let trusted = mark.clean || mark.boot_id == self.env.boot_id;
        let place = dir.clone();
        let failed = |error| StoreError::io(format!("reading the view in {place}"), error);
        let state = &mark.state;
        let Some(file) =
            open_checked(fs, &dir.join(CURRENT), state.len, state.crc, trusted).map_err(failed)?
        else {
            return Ok(None);
        };
        let extra = if state.extra_len == 0 {
            files::remove_if_there(fs, &dir.join(EXTRA)).map_err(failed)?;
            None
        } else {
            let path = dir.join(EXTRA);
            match open_checked(fs, &path, state.extra_len, state.extra_crc, trusted).map_err(failed)? {
                Some(extra) => Some(extra),
                None => return Ok(None),
            }
        };
        let source = inner.log.source();
        let mut writer = ViewWriter {
            dir,
            suffix: "",
            file,
            extra,
            view_at: state.len,
            extra_at: state.extra_len,
            view: Vec::new(),
            extra_bytes: Vec::new(),
        };
        let mut fold = Fold::resume(source, state.clone(), mark.last_seq + 1, inner.log.state().last_seq);
        writer.run(fs, &mut fold)?;
        let state = fold.state().clone();
        // Cut only now: somebody may be reading what lies behind the mark, and it was the same bytes.
        writer.file.truncate(state.len).map_err(failed)?;
        if let Some(extra) = &writer.extra {
            extra.truncate(state.extra_len).map_err(failed)?;
        }
        Ok(Some(View { file: writer.file, extra: writer.extra, state }))
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

/// Opens a file whose first `len` bytes are to be what they were.
fn open_checked(
    fs: &dyn Fs,
    path: &StorePath,
    len: u64,
    crc: u32,
    trusted: bool,
) -> io::Result<Option<Arc<dyn File>>> {
    let file = match fs.open(path, Open::Write) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = file.len()?;
    if found < len || (!trusted && crc_of(file.as_ref(), len)? != crc) {
        return Ok(None);
    }
    Ok(Some(file))
}

/// The checksum of the first `len` bytes of a file.
pub(crate) fn crc_of(file: &dyn File, len: u64) -> io::Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; BUFFER];
    let mut at = 0;
    while at < len {
        let part = usize::try_from(len - at).unwrap_or(usize::MAX).min(BUFFER);
        read_exact_at(file, &mut buffer[..part], at)?;
        hasher.update(&buffer[..part]);
        at += part as u64;
    }
    Ok(hasher.finalize())
}
