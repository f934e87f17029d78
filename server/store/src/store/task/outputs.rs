//! The outputs of tools of one task: where they are written to, put in place, found and listed.
//!
//! Files are written and synced without the task's lock; it is held while names change, as the directory moves under it too.
//! Whoever changes which outputs there are takes the turn first.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::infra::fs::{File, Fs, Kind, Name, Open, StorePath, optional};
use crate::model::{StoreError, TaskId};
use crate::outputs::{
    Content, Counted, Entry, Meta, OutputHead, OutputId, OutputName, Written, pack, put_names,
};

use super::{Caller, Inner, Task};
use crate::store::env::{Env, lock};
use crate::store::files;
use crate::store::layout;

/// The outputs of an open task, as far as they are in memory.
#[derive(Debug, Default)]
pub(super) struct TaskOutputs {
    /// Held by whoever puts an output in place, packs or removes one.
    pub(super) turn: Mutex<()>,
    /// Their bytes, once they were counted.
    used: Mutex<Option<u64>>,
    /// Whether the name of their directory is known to be durable.
    synced: AtomicBool,
    /// Outputs that a log is about to name.
    naming: Mutex<Vec<OutputId>>,
    /// How often files of theirs were changed, and the refs there were at one of these times, in order: whoever lists them page
    /// by page does not read the whole directory for each page.
    changes: AtomicU64,
    listed: Mutex<Option<(u64, Arc<[OutputId]>)>>,
}

/// The files of outputs are being changed; counted when this is dropped, however it ended.
pub(super) struct Changing<'a>(&'a TaskOutputs);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.changes.fetch_add(1, Ordering::AcqRel);
    }
}

/// Refs that are remembered at most. Of a task with more, each page is read from the directory.
const MAX_LISTED: usize = 1 << 16;

impl TaskOutputs {
    pub(super) fn changing(&self) -> Changing<'_> {
        Changing(self)
    }

    /// Returns whether a log is about to name an output.
    pub(super) fn is_being_named(&self, id: OutputId) -> bool {
        lock(&self.naming).contains(&id)
    }
}

/// An output stays while this is there, whoever collects: it has its place, or gets one, and a log is about to name it.
#[derive(Debug)]
pub(crate) struct Naming {
    task: Arc<Task>,
    id: OutputId,
}

impl Drop for Naming {
    fn drop(&mut self) {
        let mut naming = lock(&self.task.outputs.naming);
        if let Some(at) = naming.iter().position(|id| *id == self.id) {
            naming.swap_remove(at);
        }
    }
}

/// The files of an output that is being written. They have no name that counts yet.
#[derive(Debug)]
pub(crate) struct PutFiles {
    name: Name,
    meta_name: Name,
    pub(crate) data: Arc<dyn File>,
    meta: Arc<dyn File>,
}

impl PutFiles {
    /// Writes what is known of an output; answers how many bytes that takes.
    pub(super) fn write_meta(&self, head: &OutputHead, counted: &Counted) -> io::Result<u64> {
        let bytes = head.file(counted)?;
        self.meta.write_all_at(&bytes, 0)?;
        self.meta.sync_data()?;
        Ok(bytes.len() as u64)
    }

    /// Puts that in its place.
    pub(super) fn place_meta(&self, fs: &dyn Fs, dir: &StorePath, id: OutputId) -> io::Result<()> {
        fs.rename(&dir.join(self.meta_name.clone()), &dir.join(id.meta()))
    }

    /// Writes an output packed.
    pub(super) fn pack(&self, content: &mut Content, id: OutputId) -> io::Result<u64> {
        pack(content, id, self.data.as_ref())
    }

    /// Puts the bytes in their place, under one of the names that an output may have.
    pub(super) fn place_data(&self, fs: &dyn Fs, dir: &StorePath, name: Name) -> io::Result<()> {
        fs.rename(&dir.join(self.name.clone()), &dir.join(name))
    }

    /// Nobody writes to them any more.
    pub(crate) fn end(&self, env: &Env) {
        for name in [&self.name, &self.meta_name] {
            env.end_put(name);
        }
    }
}

/// An output that is open.
#[derive(Debug)]
pub struct Output {
    /// What it is asked for by.
    pub name: OutputName,
    /// Its bytes.
    pub content: Content,
    /// What is known of it.
    pub meta: Meta,
}

impl Output {
    /// Bytes that it takes on disk, with its index.
    pub fn bytes_on_disk(&self) -> u64 {
        self.content.on_disk() + self.meta.len
    }
}

impl Task {
    /// A log is about to name an output.
    pub(crate) fn naming(self: &Arc<Self>, id: OutputId) -> Naming {
        lock(&self.outputs.naming).push(id);
        Naming { task: Arc::clone(self), id }
    }

    /// Refuses a put that could not be made now.
    fn may_put(&self, inner: &Inner, caller: &Caller) -> Result<(), StoreError> {
        self.check_writable(inner)?;
        self.check_running(inner, "put an output to it")?;
        self.admit(inner, caller.lease_generation)
    }

    /// Begins an output: files that nobody else writes to.
    pub(crate) fn begin_put(&self, caller: &Caller) -> Result<PutFiles, StoreError> {
        let inner = self.lock();
        self.may_put(&inner, caller)?;
        self.check_quota(&inner, 0)?;
        let dir = inner.log.path(layout::OUTPUTS);
        self.make_put(&dir)
    }

    /// Files for something that is to become an output, in a directory that need not be there yet.
    pub(super) fn make_put(&self, dir: &StorePath) -> Result<PutFiles, StoreError> {
        let fs = self.env.fs.as_ref();
        let failed = |error| StoreError::io(format!("making a file in {dir}"), error);
        match fs.create_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed)?,
        }
        let (name, meta_name) = put_names();
        self.env.begin_put(&name);
        self.env.begin_put(&meta_name);
        let made = fs.open(&dir.join(name.clone()), Open::New).and_then(|data| {
            let meta = fs.open(&dir.join(meta_name.clone()), Open::New)?;
            Ok((data, meta))
        });
        match made {
            Ok((data, meta)) => Ok(PutFiles { name, meta_name, data, meta }),
            Err(error) => {
                for name in [&name, &meta_name] {
                    let _ = files::remove_if_there(fs, &dir.join(name.clone()));
                    self.env.end_put(name);
                }
                Err(failed(error))
            }
        }
    }

    /// Refuses an output that has grown beyond what the task may take.
    pub(crate) fn check_put_room(&self, written: u64) -> Result<(), StoreError> {
        self.env.check_room(written)?;
        if self.env.options.max_task_bytes == 0 {
            return Ok(());
        }
        self.check_task_room(&self.lock(), written)
    }

    /// Puts an output in its place, with what is known of it; answers that. If the same bytes are there already, they stay,
    /// and count as new. `beside` is what will be written to the logs for it.
    pub(crate) fn commit_put(
        &self,
        put: &PutFiles,
        counted: &Counted,
        written: Written,
        caller: &Caller,
        beside: usize,
    ) -> Result<OutputHead, StoreError> {
        let fs = self.env.fs.as_ref();
        let _turn = lock(&self.outputs.turn);
        let found = {
            let inner = self.lock();
            self.may_put(&inner, caller)?;
            let dir = inner.log.path(layout::OUTPUTS);
            match self.look(&dir, counted.id) {
                Err(error) if is_damage(&error) => None,
                found => found.map_err(|error| StoreError::io(format!("looking into {dir}"), error))?,
            }
        };
        // What is there counts only if it is what was put; else the new bytes take its place.
        let found = found.and_then(|(mut content, meta)| {
            let same = content.count().is_ok_and(|there| there.hash == counted.hash);
            same.then_some((content, meta))
        });
        let head = OutputHead::new(
            counted,
            written,
            found.as_ref().and_then(|(_, meta)| meta.as_ref()).map(|meta| &meta.head),
        );
        let failed = |error| StoreError::io(format!("writing output {}", counted.id), error);
        let meta_bytes = put.write_meta(&head, counted).map_err(|error| self.not_synced(error))?;

        let inner = self.lock();
        self.may_put(&inner, caller)?;
        let more = if found.is_some() { 0 } else { counted.byte_size + meta_bytes };
        let whole = usize::try_from(more).unwrap_or(usize::MAX).saturating_add(beside);
        self.check_quota(&inner, whole)?;
        // The logs count what they write themselves.
        self.env.note_removed(beside as u64);
        let dir = inner.log.path(layout::OUTPUTS);
        let _changing = self.outputs.changing();
        // The index last, which can be made again from the bytes: one without bytes means that they are lost.
        let placed = if found.is_some() {
            fs.remove_file(&dir.join(put.name.clone()))
        } else {
            put.place_data(fs, &dir, counted.id.plain())
                .and_then(|()| files::remove_if_there(fs, &dir.join(counted.id.packed())))
        };
        let placed = placed.and_then(|()| put.place_meta(fs, &dir, counted.id));
        let placed = placed.and_then(|()| self.sync_outputs(&inner, &dir));
        if let Err(error) = placed {
            self.env.note_removed(more);
            *lock(&self.outputs.used) = None;
            return Err(failed(error));
        }
        if let Some(used) = &mut *lock(&self.outputs.used) {
            *used = used.saturating_add(more);
        }
        put.end(&self.env);
        Ok(head)
    }

    /// Takes back an output that was not put in its place, wherever the task is now.
    pub(crate) fn abandon_put(&self, put: &PutFiles) {
        let inner = self.lock();
        let dir = inner.log.path(layout::OUTPUTS);
        for name in [&put.name, &put.meta_name] {
            if !inner.deleted
                && let Err(error) = files::remove_if_there(self.env.fs.as_ref(), &dir.join(name.clone()))
            {
                tracing::warn!(%dir, %name, %error, "could not be removed; it is when the task is next opened");
            }
        }
        put.end(&self.env);
    }

    /// Makes the names in the directory durable, and its own.
    pub(super) fn sync_outputs(&self, inner: &Inner, dir: &StorePath) -> io::Result<()> {
        let fs = self.env.fs.as_ref();
        fs.sync_dir(dir)?;
        if !self.outputs.synced.load(Ordering::Relaxed) {
            fs.sync_dir(&inner.log.dir())?;
            self.outputs.synced.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A sync that failed is told as one of a log is.
    pub(crate) fn not_synced(&self, error: io::Error) -> StoreError {
        let told = StoreError::io("syncing an output", error);
        if let StoreError::Io { source, .. } = told {
            return StoreError::WriteFailed { id: self.id, source };
        }
        told
    }

    /// An output in a directory, and what is known of it, if that can be read.
    pub(super) fn look(&self, dir: &StorePath, id: OutputId) -> io::Result<Option<(Content, Option<Meta>)>> {
        let fs = self.env.fs.as_ref();
        let Some(content) = Content::open(fs, dir, id)? else { return Ok(None) };
        Ok(Some((content, Meta::read(fs, &dir.join(id.meta()))?)))
    }

    /// Opens an output.
    pub(crate) fn output(&self, name: OutputName) -> Result<Output, StoreError> {
        match name {
            OutputName::Stored(id) => self.stored(id),
            OutputName::Message(seq) => self.message_output(seq),
        }
    }

    /// The same of one that was stored.
    pub(crate) fn stored(&self, id: OutputId) -> Result<Output, StoreError> {
        let found = {
            let inner = self.lock_existing()?;
            self.look(&inner.log.path(layout::OUTPUTS), id).map_err(|error| self.bad_output(id, error))?
        };
        let Some((mut content, meta)) = found else {
            return Err(StoreError::OutputNotFound { id: self.id, output: id.to_string() });
        };
        let meta = match meta {
            Some(meta) => meta,
            // It is made anew, for this reader; a repair writes it down.
            None => {
                let (counted, head) = self.count_again(&mut content, id)?;
                Meta::counted(counted, head)
            }
        };
        content.check_by(&meta);
        Ok(Output { name: id.into(), content, meta })
    }

    /// Returns what can be told of an output from its bytes alone, which are what was put.
    pub(super) fn count_again(
        &self,
        content: &mut Content,
        id: OutputId,
    ) -> Result<(Counted, OutputHead), StoreError> {
        let counted = content.count().map_err(|error| self.bad_output(id, error))?;
        if !id.is_of(&counted.hash) {
            let problem = "its hash is another than its name".to_owned();
            return Err(StoreError::OutputDamaged { id: self.id, output: id.to_string(), problem });
        }
        let media_type = if counted.is_text { "text/plain" } else { "application/octet-stream" }.to_owned();
        let at = self.env.clock.now();
        let written = Written { media_type, tool_name: String::new(), tool_call_id: String::new(), at };
        let head = OutputHead::new(&counted, written, None);
        Ok((counted, head))
    }

    pub(super) fn bad_output(&self, output: OutputId, error: io::Error) -> StoreError {
        bad_output(self.id, output.into(), error)
    }

    /// The first outputs behind one, in the order of their refs.
    pub(crate) fn outputs_after(
        &self,
        after: Option<OutputId>,
        most: usize,
    ) -> Result<Vec<OutputId>, StoreError> {
        let changes = self.outputs.changes.load(Ordering::Acquire);
        if let Some((at, listed)) = &*lock(&self.outputs.listed)
            && *at == changes
        {
            let from = after.map_or(0, |after| listed.partition_point(|id| *id <= after));
            return Ok(listed[from..].iter().take(most).copied().collect());
        }
        let mut first = BTreeSet::new();
        let mut all = Some(Vec::new());
        self.each_output(&mut |entry, _| {
            let (Entry::Plain(id) | Entry::Packed(id)) = entry else { return };
            if after.is_none_or(|after| id > after) {
                first.insert(id);
                if first.len() > most {
                    first.pop_last();
                }
            }
            all.take_if(|all| all.len() == MAX_LISTED);
            if let Some(all) = &mut all {
                all.push(id);
            }
        })?;
        if let Some(mut all) = all {
            all.sort_unstable();
            // One that is just being packed has two files.
            all.dedup();
            *lock(&self.outputs.listed) = Some((changes, all.into()));
        }
        Ok(first.into_iter().collect())
    }

    /// Visits the files of outputs.
    pub(super) fn each_output(&self, visit: &mut dyn FnMut(Entry, &Name)) -> Result<(), StoreError> {
        loop {
            let dir = {
                let inner = self.lock_existing()?;
                inner.log.path(layout::OUTPUTS)
            };
            let listed = self.env.fs.list(&dir, &mut |entry| {
                if entry.kind == Kind::File
                    && let Some(known) = Entry::of(&entry.name)
                {
                    visit(known, &entry.name);
                }
                Ok(())
            });
            match listed {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // The task may have moved just now.
                    if self.lock().log.path(layout::OUTPUTS) == dir {
                        return Ok(());
                    }
                }
                listed => return listed.map_err(|error| StoreError::io(format!("listing {dir}"), error)),
            }
        }
    }

    /// Bytes of all outputs, for the task's quota.
    pub(super) fn outputs_bytes(&self, inner: &Inner) -> Result<u64, StoreError> {
        let mut used = lock(&self.outputs.used);
        if let Some(used) = *used {
            return Ok(used);
        }
        let dir = inner.log.path(layout::OUTPUTS);
        let measured = self.measure_outputs(&dir);
        let bytes = measured.map_err(|error| StoreError::io(format!("measuring {dir}"), error))?;
        *used = Some(bytes);
        Ok(bytes)
    }

    /// Returns the bytes of all outputs that have their place.
    fn measure_outputs(&self, dir: &StorePath) -> io::Result<u64> {
        let fs = self.env.fs.as_ref();
        let mut bytes = 0;
        let listed = fs.list(dir, &mut |entry| {
            if Entry::of(&entry.name) != Some(Entry::Put) {
                bytes += fs.stat(&dir.join(entry.name))?.map_or(0, |stat| stat.len);
            }
            Ok(())
        });
        optional(listed).map(|_| bytes)
    }

    /// Outputs were removed or became smaller.
    pub(super) fn forget_outputs_bytes(&self) {
        *lock(&self.outputs.used) = None;
    }

    /// Removes what puts that broke off have left.
    pub(super) fn sweep_puts(&self, inner: &Inner, found: &mut Vec<StorePath>) -> Result<(), StoreError> {
        let dir = inner.log.path(layout::OUTPUTS);
        let left = self.abandoned_puts(&dir);
        found.extend(left.map_err(|error| StoreError::io(format!("listing {dir}"), error))?);
        Ok(())
    }

    /// Returns the files of outputs that were begun and that nobody writes.
    pub(super) fn abandoned_puts(&self, dir: &StorePath) -> io::Result<Vec<StorePath>> {
        let mut left = Vec::new();
        let listed = self.env.fs.list(dir, &mut |entry| {
            if Entry::of(&entry.name) == Some(Entry::Put) && !self.env.is_being_put(&entry.name) {
                left.push(dir.join(entry.name));
            }
            Ok(())
        });
        optional(listed).map(|_| left)
    }
}

/// Returns why an output could not be read.
pub(crate) fn bad_output(id: TaskId, output: OutputName, error: io::Error) -> StoreError {
    if is_damage(&error) {
        return StoreError::OutputDamaged { id, output: output.to_string(), problem: error.to_string() };
    }
    StoreError::io(format!("reading output {output}"), error)
}

/// Returns whether bytes are not what they were.
fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}
