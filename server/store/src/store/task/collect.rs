//! Removing outputs that no log names, and packing those that are not read much any more.
//!
//! Logs are scanned without the task's lock; what was written to them meanwhile is scanned under it, right before an output
//! goes. So one that is named goes only if that came later than all of it.

use std::collections::BTreeSet;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Inner, PutFiles, Task};
use crate::infra::fs::{File, StorePath};
use crate::model::StoreError;
use crate::outputs::{Content, Meta, OutputId, PACK_FROM};
use crate::store::env::lock;
use crate::store::files;
use crate::store::layout;

/// Outputs that are looked at together: the logs are scanned once for all of them.
const BATCH: usize = 16 << 10;
/// Outputs that are removed under one lock.
const AT_ONCE: usize = 64;
/// Bytes of a log that are scanned at once.
const CHUNK: usize = 256 << 10;

/// The outputs that were removed, or would be, and those that stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Outputs that no log names.
    pub removed: u64,
    /// Their bytes on disk.
    pub removed_bytes: u64,
    /// Outputs that stay.
    pub kept: u64,
    /// Their bytes on disk.
    pub kept_bytes: u64,
}

impl Collected {
    /// Both together.
    pub(crate) fn add(&mut self, other: Self) {
        self.removed += other.removed;
        self.removed_bytes += other.removed_bytes;
        self.kept += other.kept;
        self.kept_bytes += other.kept_bytes;
    }
}

/// The logs that may name outputs, and how far each was scanned.
struct ScannedLogs(Vec<(Arc<dyn File>, u64)>);

impl ScannedLogs {
    /// Adds logs that have their first line since.
    fn add_new(&mut self, inner: &Inner) {
        for records in [&inner.tools, &inner.plans] {
            if let Some(writer) = &records.writer
                && !self.0.iter().any(|(log, _)| Arc::ptr_eq(log, writer.file()))
            {
                self.0.push((Arc::clone(writer.file()), 0));
            }
        }
    }
}

impl Task {
    /// Removes the outputs that no log names and that were last put before some time; or only counts them.
    pub(crate) fn collect(&self, before: DateTime<Utc>, dry_run: bool) -> Result<Collected, StoreError> {
        let mut collected = Collected::default();
        if !dry_run {
            self.check_may_free(&self.lock())?;
            self.remove_remains()?;
        }
        let mut after = None;
        loop {
            let batch = self.outputs_after(after, BATCH)?;
            let Some(last) = batch.last() else { return Ok(collected) };
            after = Some(*last);
            let mut dead = BTreeSet::new();
            for id in &batch {
                if self.is_old(*id, before, dry_run)? {
                    dead.insert(*id);
                }
            }
            let mut logs = self.logs();
            if !dead.is_empty() {
                self.spare_named(&mut logs, &mut dead)?;
            }
            for id in &batch {
                if !dead.contains(id) {
                    collected.kept += 1;
                    collected.kept_bytes += self.size_of(*id)?;
                }
            }
            collected.add(if dry_run {
                self.count_dead(&dead)?
            } else {
                self.remove(&mut logs, dead, before)?
            });
        }
    }

    fn count_dead(&self, dead: &BTreeSet<OutputId>) -> Result<Collected, StoreError> {
        let mut collected = Collected { removed: dead.len() as u64, ..Collected::default() };
        for id in dead {
            collected.removed_bytes += self.size_of(*id)?;
        }
        Ok(collected)
    }

    fn size_of(&self, id: OutputId) -> Result<u64, StoreError> {
        let inner = self.lock();
        let dir = inner.log.path(layout::OUTPUTS);
        self.bytes_of(&dir, id).map_err(|error| StoreError::io(format!("measuring {dir}"), error))
    }

    /// Returns whether an output was last put before some time. One of which that is not known gets a new index, and counts
    /// as new.
    fn is_old(&self, id: OutputId, before: DateTime<Utc>, dry_run: bool) -> Result<bool, StoreError> {
        let meta = {
            let inner = self.lock();
            let path = inner.log.path(layout::OUTPUTS).join(id.meta());
            Meta::read(self.env.fs.as_ref(), &path)
                .map_err(|error| StoreError::io(format!("reading {path}"), error))?
        };
        match meta {
            Some(meta) => Ok(meta.head.put_at < before),
            None if dry_run => Ok(false),
            None => {
                // What cannot be mended is for `doctor` to tell, and what has no room waits.
                match self.mend_output(id) {
                    Err(
                        StoreError::OutputDamaged { .. }
                        | StoreError::OutputNotFound { .. }
                        | StoreError::ReadOnly { .. }
                        | StoreError::DiskFull { .. },
                    )
                    | Ok(()) => Ok(false),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// Makes the indexes of outputs anew that are not what the outputs give, and removes what puts have left.
    pub(crate) fn mend_outputs(&self) -> Result<(), StoreError> {
        self.remove_remains()?;
        let mut after = None;
        loop {
            let batch = self.outputs_after(after, BATCH)?;
            let Some(last) = batch.last() else { return Ok(()) };
            after = Some(*last);
            for id in batch {
                let mended = self.stored(id).and_then(|mut output| {
                    // The checksums may be what is wrong.
                    output.content.uncheck();
                    let counted = output.content.count().map_err(|error| self.bad_output(id, error))?;
                    let agrees = output.meta.len > 0 && output.meta.agrees(&counted).unwrap_or(false);
                    if agrees { Ok(()) } else { self.mend_output(id) }
                });
                match mended {
                    // What is damaged is for a person to look at.
                    Err(StoreError::OutputDamaged { .. } | StoreError::OutputNotFound { .. }) | Ok(()) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Writes the index of an output anew, from its bytes.
    pub(crate) fn mend_output(&self, id: OutputId) -> Result<(), StoreError> {
        let _turn = lock(&self.outputs.turn);
        let (mut content, dir) = {
            let inner = self.lock();
            self.check_writable(&inner)?;
            let dir = inner.log.path(layout::OUTPUTS);
            let found = self.look(&dir, id).map_err(|error| self.bad_output(id, error))?;
            let Some((content, _)) = found else {
                return Err(StoreError::OutputNotFound { id: self.id, output: id.to_string() });
            };
            (content, dir)
        };
        let (counted, head) = self.count_again(&mut content, id)?;
        let files = self.make_put(&dir)?;
        let mended =
            files.write_meta(&head, &counted).map_err(|error| self.not_synced(error)).and_then(|_| {
                let inner = self.lock();
                self.check_writable(&inner)?;
                let dir = inner.log.path(layout::OUTPUTS);
                let placed = files.place_meta(self.env.fs.as_ref(), &dir, id);
                placed
                    .and_then(|()| self.sync_outputs(&inner, &dir))
                    .map_err(|error| self.bad_output(id, error))
            });
        // The file for bytes was not needed.
        self.abandon_put(&files);
        mended
    }

    /// The logs there are, none of them scanned.
    fn logs(&self) -> ScannedLogs {
        let inner = self.lock();
        let mut logs = ScannedLogs(vec![(Arc::clone(inner.log.file()), 0)]);
        logs.add_new(&inner);
        logs
    }

    /// Takes those out of a set that the logs name, as far as they were not scanned yet.
    fn spare_named(&self, logs: &mut ScannedLogs, dead: &mut BTreeSet<OutputId>) -> Result<(), StoreError> {
        for (log, scanned) in &mut logs.0 {
            let found = spare(log.as_ref(), scanned, dead);
            found.map_err(|error| StoreError::io(format!("reading the logs of task {}", self.id), error))?;
        }
        Ok(())
    }

    /// Removes outputs, but for those that were named or put again meanwhile.
    fn remove(
        &self,
        logs: &mut ScannedLogs,
        mut dead: BTreeSet<OutputId>,
        before: DateTime<Utc>,
    ) -> Result<Collected, StoreError> {
        let mut collected = Collected::default();
        let mut after = None;
        loop {
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let some: Vec<OutputId> = dead.range((from, Bound::Unbounded)).take(AT_ONCE).copied().collect();
            let Some(last) = some.last() else { return Ok(collected) };
            after = Some(*last);
            let _turn = lock(&self.outputs.turn);
            let inner = self.lock();
            self.check_may_free(&inner)?;
            logs.add_new(&inner);
            self.spare_named(logs, &mut dead)?;
            let _changing = self.outputs.changing();
            let dir = inner.log.path(layout::OUTPUTS);
            let failed = |error| StoreError::io(format!("removing outputs in {dir}"), error);
            for id in some {
                let bytes = self.bytes_of(&dir, id).map_err(failed)?;
                let put_again = Meta::read(self.env.fs.as_ref(), &dir.join(id.meta()))
                    .map_err(failed)?
                    .is_none_or(|meta| meta.head.put_at >= before);
                if put_again || !dead.contains(&id) || self.outputs.is_being_named(id) {
                    collected.kept += 1;
                    collected.kept_bytes += bytes;
                    continue;
                }
                self.forget_outputs_bytes();
                // The index first: one without bytes means that they are lost.
                for name in [id.meta(), id.plain(), id.packed()] {
                    files::remove_if_there(self.env.fs.as_ref(), &dir.join(name)).map_err(failed)?;
                }
                self.env.note_removed(bytes);
                collected.removed += 1;
                collected.removed_bytes += bytes;
            }
            self.sync_outputs(&inner, &dir).map_err(failed)?;
        }
    }

    fn bytes_of(&self, dir: &StorePath, id: OutputId) -> io::Result<u64> {
        let mut bytes = 0;
        for name in [id.plain(), id.packed(), id.meta()] {
            bytes += self.env.fs.stat(&dir.join(name))?.map_or(0, |stat| stat.len);
        }
        Ok(bytes)
    }

    /// Removes what puts that broke off have left: files being written that nobody writes.
    fn remove_remains(&self) -> Result<(), StoreError> {
        let _turn = lock(&self.outputs.turn);
        let inner = self.lock();
        self.check_may_free(&inner)?;
        let fs = self.env.fs.as_ref();
        let dir = inner.log.path(layout::OUTPUTS);
        let failed = |error| StoreError::io(format!("removing what is left in {dir}"), error);
        let left = self.abandoned_puts(&dir).map_err(failed)?;
        left.iter().take(BATCH).try_for_each(|path| files::remove_if_there(fs, path)).map_err(failed)
    }

    /// Packs the outputs that were last put before some time, or all if the task has ended; answers how many.
    pub(crate) fn pack_outputs(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let ended = {
            let inner = self.lock();
            self.check_writable(&inner)?;
            inner.log.state().status.is_final()
        };
        let (mut after, mut packed) = (None, 0);
        loop {
            let batch = self.outputs_after(after, BATCH)?;
            let Some(last) = batch.last() else { return Ok(packed) };
            after = Some(*last);
            for id in batch {
                packed += u64::from(self.is_cold(id, before, ended)? && self.pack_output(id)?);
            }
        }
    }

    fn is_cold(&self, id: OutputId, before: DateTime<Utc>, ended: bool) -> Result<bool, StoreError> {
        let inner = self.lock();
        let dir = inner.log.path(layout::OUTPUTS);
        let failed = |error| StoreError::io(format!("looking into {dir}"), error);
        let stat = self.env.fs.stat(&dir.join(id.plain())).map_err(failed)?;
        if stat.is_none_or(|stat| stat.len < PACK_FROM) {
            return Ok(false);
        }
        let put_before = || {
            Ok(Meta::read(self.env.fs.as_ref(), &dir.join(id.meta()))?
                .is_some_and(|meta| meta.head.put_at < before))
        };
        Ok(ended || put_before().map_err(failed)?)
    }

    /// Packs one output; false if it went or is packed already. What is damaged stays as it is.
    fn pack_output(&self, id: OutputId) -> Result<bool, StoreError> {
        let fs = self.env.fs.as_ref();
        let (content, files) = {
            let inner = self.lock();
            self.check_writable(&inner)?;
            let dir = inner.log.path(layout::OUTPUTS);
            let content = Content::open(fs, &dir, id).map_err(|error| self.bad_output(id, error))?;
            let Some(content) = content.filter(|content| !content.is_packed()) else { return Ok(false) };
            (content, self.make_put(&dir)?)
        };
        let packed = self.pack_into(content, id, &files);
        self.abandon_put(&files);
        match packed {
            Err(StoreError::OutputDamaged { problem, .. }) => {
                tracing::error!(id = %self.id, output = %id, problem, "an output is damaged; it is not packed");
                Ok(false)
            }
            packed => packed,
        }
    }

    fn pack_into(&self, mut content: Content, id: OutputId, files: &PutFiles) -> Result<bool, StoreError> {
        let fs = self.env.fs.as_ref();
        files.pack(&mut content, id).map_err(|error| self.bad_output(id, error))?;
        let _turn = lock(&self.outputs.turn);
        let inner = self.lock();
        self.check_writable(&inner)?;
        let dir = inner.log.path(layout::OUTPUTS);
        let failed = |error| StoreError::io(format!("packing output {id}"), error);
        if fs.stat(&dir.join(id.plain())).map_err(failed)?.is_none() {
            return Ok(false);
        }
        self.forget_outputs_bytes();
        // It has both names for a moment; whoever opens it takes the first.
        files
            .place_data(fs, &dir, id.packed())
            .and_then(|()| self.sync_outputs(&inner, &dir))
            .map_err(failed)?;
        fs.remove_file(&dir.join(id.plain())).map_err(failed)?;
        Ok(true)
    }
}

/// Characters of a ref behind its prefix, and bytes that a ref may have in a log.
const DIGITS: usize = OutputId::LEN - OutputId::PREFIX.len();
const LONGEST_NAME: usize = OutputId::LEN + "\\u002d".len() - "-".len();

/// Takes those out of a set that a log names behind a place in it, and moves that place to its end. A name counts wherever
/// it stands: in a message, a record, a summary.
fn spare(log: &dyn File, scanned: &mut u64, dead: &mut BTreeSet<OutputId>) -> io::Result<()> {
    let finder = memchr::memmem::Finder::new("out");
    let mut buf = vec![0; CHUNK];
    // What was scanned may end within a name.
    let mut at = scanned.saturating_sub(LONGEST_NAME as u64 - 1);
    loop {
        let mut filled = 0;
        while filled < buf.len() {
            match log.read_at(&mut buf[filled..], at + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        let bytes = &buf[..filled];
        for begins in finder.find_iter(bytes) {
            // Whoever writes JSON may write any character by its number.
            for prefix in ["out-", "out\\u002d", "out\\u002D"] {
                let name = bytes[begins..].strip_prefix(prefix.as_bytes()).unwrap_or_default();
                if let Some(id) = name.get(..DIGITS).and_then(OutputId::of_digits) {
                    dead.remove(&id);
                }
            }
        }
        if filled < buf.len() {
            *scanned = at + filled as u64;
            return Ok(());
        }
        at += (filled - (LONGEST_NAME - 1)) as u64;
    }
}
