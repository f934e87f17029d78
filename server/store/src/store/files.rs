//! Small files: read with a limit, replaced whole. What every part of the store does with them.

use std::io;

use crate::infra::fs::{DirEntry, Fs, Kind, Open, StorePath, optional};
use crate::model::StoreError;

use super::layout::NEXT;

/// Reads a file of at most `limit` bytes; `None` if it is not there.
pub(crate) fn read_small(fs: &dyn Fs, path: &StorePath, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let failed = |error| StoreError::io(format!("reading {path}"), error);
    let Some(file) = optional(fs.open(path, Open::Read)).map_err(failed)? else { return Ok(None) };
    let len = file.len().map_err(failed)?;
    if len > limit {
        let problem = format!("it has {len} bytes, more than {limit}");
        return Err(StoreError::Damaged { path: path.to_string(), offset: limit, problem });
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], done as u64).map_err(failed)? {
            0 => break,
            read => done += read,
        }
    }
    bytes.truncate(done);
    Ok(Some(bytes))
}

/// The durability that a replaced file must have before anything else happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// Its contents are synced before the rename; the directory is synced by whoever needs it.
    Contents,
    /// A view: it is checked when it is read.
    No,
}

/// Writes a file beside the old one and renames it over it: a reader sees one or the other, whole.
pub(crate) fn replace(fs: &dyn Fs, path: &StorePath, bytes: &[u8], sync: Sync) -> Result<(), StoreError> {
    let failed = |error| StoreError::io(format!("writing {path}"), error);
    let Some((parent, name)) = path.split() else { return Ok(()) };
    let next = parent.join(name.with_suffix(NEXT));
    let written = fs.open(&next, Open::Truncate).and_then(|file| {
        file.write_all_at(bytes, 0)?;
        if sync == Sync::Contents { file.sync_data() } else { Ok(()) }
    });
    written.and_then(|()| fs.rename(&next, path)).map_err(|error| {
        // What is left of it would only be removed by the next start.
        let _ = fs.remove_file(&next);
        failed(error)
    })
}

/// Returns the entries of a directory.
pub(crate) fn entries(fs: &dyn Fs, path: &StorePath) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    fs.list(path, &mut |entry| {
        entries.push(entry);
        Ok(())
    })?;
    Ok(entries)
}

/// Returns the bytes of all files in a directory and below; files that are moved away meanwhile may be missed.
pub(crate) fn tree_bytes(fs: &dyn Fs, path: &StorePath) -> io::Result<u64> {
    let mut bytes = 0;
    // It may have been moved or removed since.
    for entry in optional(entries(fs, path))?.unwrap_or_default() {
        let path = path.join(entry.name);
        bytes += match entry.kind {
            Kind::Dir => tree_bytes(fs, &path)?,
            Kind::File => fs.stat(&path)?.map_or(0, |stat| stat.len),
            Kind::Other => 0,
        };
    }
    Ok(bytes)
}

/// Removes a file if it is there.
pub(crate) fn remove_if_there(fs: &dyn Fs, path: &StorePath) -> io::Result<()> {
    optional(fs.remove_file(path)).map(drop)
}

/// Removes all that is in a directory.
pub(crate) fn empty_dir(fs: &dyn Fs, path: &StorePath) -> io::Result<()> {
    entries(fs, path)?.into_iter().try_for_each(|entry| remove_tree(fs, &path.join(entry.name)))
}

/// Removes a directory with all that is in it, or a file.
pub(crate) fn remove_tree(fs: &dyn Fs, path: &StorePath) -> io::Result<()> {
    match fs.stat(path)?.map(|stat| stat.kind) {
        None => Ok(()),
        Some(Kind::Dir) => {
            empty_dir(fs, path)?;
            fs.remove_dir(path)
        }
        Some(Kind::File | Kind::Other) => fs.remove_file(path),
    }
}

/// Renames and makes the move durable: the target's parent first, so that it is never in neither place.
pub(crate) fn move_durably(fs: &dyn Fs, from: &StorePath, to: &StorePath) -> io::Result<()> {
    fs.rename_new(from, to)?;
    fs.sync_dir(&to.parent())?;
    fs.sync_dir(&from.parent())
}
