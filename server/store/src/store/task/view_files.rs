//! The files of a view: opened and checked, appended to, written anew beside the old ones.

use std::io;
use std::sync::Arc;

use crate::infra::fs::{File, Fs, Name, Open, StorePath, optional};
use crate::log::{Fold, Line, LogSource, RENDER_VERSION, ViewState, read_exact_at, show};
use crate::model::StoreError;
use crate::store::checkpoint::ViewMark;
use crate::store::files;
use crate::store::layout::{CURRENT, EXTRA, NEXT};

const BUFFER: usize = 256 << 10;

/// The open files of a view that is the fold of the log.
#[derive(Debug)]
pub(super) struct ViewFiles {
    file: Arc<dyn File>,
    extra: Option<Arc<dyn File>>,
    state: ViewState,
}

impl ViewFiles {
    pub(super) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    pub(super) fn extra(&self) -> Option<&Arc<dyn File>> {
        self.extra.as_ref()
    }

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

    /// Goes on with the files of a view.
    fn behind(dir: StorePath, files: ViewFiles) -> Self {
        let ViewFiles { file, extra, state } = files;
        Self {
            dir,
            suffix: "",
            file,
            extra,
            view_at: state.len,
            extra_at: state.extra_len,
            view: Vec::new(),
            extra_bytes: Vec::new(),
        }
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

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.extra.as_ref().map_or(Ok(()), |extra| extra.sync_data())
    }

    /// Puts a view made beside the old one in its place.
    pub(super) fn publish(self, fs: &dyn Fs, state: ViewState) -> io::Result<ViewFiles> {
        let path = |name: Name| self.dir.join(name);
        fs.rename(&path(CURRENT.with_suffix(NEXT)), &path(CURRENT))?;
        if self.extra.is_some() {
            fs.rename(&path(EXTRA.with_suffix(NEXT)), &path(EXTRA))?;
        } else {
            files::remove_if_there(fs, &path(EXTRA))?;
        }
        Ok(ViewFiles { file: self.file, extra: self.extra, state })
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

impl ViewFiles {
    /// Goes on with the files that a checkpoint knows, and adds the messages up to `last_seq`; none if they are not what they
    /// were.
    pub(super) fn resume(
        fs: &dyn Fs,
        dir: StorePath,
        mark: &ViewMark,
        trusted: bool,
        source: LogSource,
        last_seq: u64,
    ) -> Result<Option<Self>, StoreError> {
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
        let mut writer = ViewWriter::behind(dir, Self { file, extra, state: state.clone() });
        let mut fold = Fold::resume(source, state.clone(), mark.last_seq + 1, last_seq);
        writer.run(fs, &mut fold)?;
        let state = fold.state().clone();
        // Cut only now: somebody may be reading what lies behind the mark, and it was the same bytes.
        writer.file.truncate(state.len).map_err(failed)?;
        if let Some(extra) = &writer.extra {
            extra.truncate(state.extra_len).map_err(failed)?;
        }
        Ok(Some(Self { file: writer.file, extra: writer.extra, state }))
    }
}

/// Opens a file whose first `len` bytes are to be what they were.
fn open_checked(
    fs: &dyn Fs,
    path: &StorePath,
    len: u64,
    crc: u32,
    trusted: bool,
) -> io::Result<Option<Arc<dyn File>>> {
    let Some(file) = optional(fs.open(path, Open::Write))? else { return Ok(None) };
    let is_same = file.len()? >= len && (trusted || crc_of(file.as_ref(), len)? == crc);
    Ok(is_same.then_some(file))
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
