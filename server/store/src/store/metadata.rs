//! `metadata.json`: written once, with a checksum. Two views hold a copy of it: the catalog's row and `task.json`.

use chrono::{DateTime, Utc};

use super::env::Env;
use super::files::{self, Sync};
use super::layout::{self, Folder};
use super::recover::read_row;
use crate::infra::fs::StorePath;
use crate::log::{FORMAT_VERSION, seal, unseal};
use crate::model::{Metadata, StoreError, TaskConfig, TaskId, TaskKey};

const MAX_BYTES: u64 = 1 << 20;

/// The whole file.
pub(super) fn to_bytes(metadata: &Metadata) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec(metadata)?;
    bytes.pop();
    seal(&mut bytes);
    Ok(bytes)
}

/// Reads the file; one that is missing, not as it was written, or of another task is damage.
pub(crate) fn read(env: &Env, dir: &StorePath, id: TaskId) -> Result<Metadata, StoreError> {
    let path = dir.join(layout::METADATA);
    let damaged = |problem: String| StoreError::Damaged { path: path.to_string(), offset: 0, problem };
    let bytes = files::read_small(env.fs.as_ref(), &path, MAX_BYTES)?;
    let bytes = bytes.ok_or_else(|| damaged("it is missing".to_owned()))?;
    parse(&bytes, id).map(|(metadata, _)| metadata).map_err(damaged)
}

/// Returns what a file says, and whether a checksum vouches for it: those of older versions have none.
fn parse(bytes: &[u8], id: TaskId) -> Result<(Metadata, bool), String> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let is_sealed = unseal(line).is_some();
    // Without a checksum the last thing in it is an object.
    if !is_sealed && !line.ends_with(b"}}") {
        return Err("the checksum does not match".to_owned());
    }
    let metadata: Metadata = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if metadata.uuid != id {
        return Err(format!("it belongs to task {}", metadata.uuid));
    }
    Ok((metadata, is_sealed))
}

/// The verdict on the file and its copies together.
pub(super) enum MetadataVerdict {
    /// The file is right, as far as can be told.
    Right,
    /// The file is not; this is what the copies say.
    Restore(Box<Metadata>, String),
    /// The file and this copy contradict each other, and nothing decides between them.
    Contradicted(Box<Metadata>),
    /// The file is damaged, as this says, and no copy tells what stood in it.
    Lost(String),
}

/// Compares the file with its copies. A checksum decides; without one the majority does.
pub(super) fn judge(env: &Env, folder: Folder, id: TaskId) -> Result<MetadataVerdict, StoreError> {
    let path = folder.task(id).join(layout::METADATA);
    let file = match files::read_small(env.fs.as_ref(), &path, MAX_BYTES) {
        Ok(bytes) => bytes.ok_or_else(|| "it is missing".to_owned()).and_then(|bytes| parse(&bytes, id)),
        Err(StoreError::Damaged { problem, .. }) => Err(problem),
        Err(error) => return Err(error),
    };
    if matches!(file, Ok((_, true))) {
        return Ok(MetadataVerdict::Right);
    }
    let copies = copies(env, folder, id)?;
    let agreed = copies.first().filter(|first| copies.iter().all(|copy| copy == *first));
    let contradicts = |file: &Metadata| copies.iter().find(|copy| *copy != file).cloned().map(Box::new);
    Ok(match (file, agreed) {
        (Ok((file, false)), Some(copy)) if file != *copy && copies.len() > 1 => {
            MetadataVerdict::Restore(Box::new(copy.clone()), "is not what its copies say".to_owned())
        }
        (Ok((file, _)), _) => {
            contradicts(&file).map_or(MetadataVerdict::Right, MetadataVerdict::Contradicted)
        }
        (Err(problem), Some(copy)) => MetadataVerdict::Restore(
            Box::new(copy.clone()),
            format!("is damaged ({problem}); there is a copy of it"),
        ),
        (Err(problem), None) => MetadataVerdict::Lost(problem),
    })
}

/// Restores a damaged file from its copy, and keeps the damaged one beside it. Returns whether it did. A copy that contradicts a
/// readable file is kept beside it too, because whoever opens the task for writing replaces the copies.
pub(super) fn restore(env: &Env, folder: Folder, id: TaskId) -> Result<bool, StoreError> {
    let (metadata, problem) = match judge(env, folder, id)? {
        MetadataVerdict::Restore(metadata, problem) => (metadata, problem),
        MetadataVerdict::Contradicted(copy) => return keep_copy(env, folder, id, &copy).map(|()| false),
        MetadataVerdict::Right | MetadataVerdict::Lost(_) => return Ok(false),
    };
    let (fs, dir) = (env.fs.as_ref(), folder.task(id));
    let failed = |error| StoreError::io(format!("restoring the metadata of task {id}"), error);
    let (path, aside) = (dir.join(layout::METADATA), dir.join(layout::DAMAGED_METADATA));
    let is_there = fs.stat(&path).map_err(failed)?.is_some();
    let bytes = to_bytes(&metadata).map_err(|error| failed(error.into()))?;
    let moves = is_there && fs.stat(&aside).map_err(failed)?.is_none();
    if moves {
        fs.rename(&path, &aside).map_err(failed)?;
    }
    if let Err(error) = files::replace(fs, &path, &bytes, Sync::Contents) {
        // It may be readable, if only its copies say that it is wrong.
        if moves && let Err(error) = fs.rename(&aside, &path) {
            tracing::warn!(%id, %error, "a damaged metadata.json is kept as metadata.json.damaged");
        }
        return Err(error);
    }
    tracing::warn!(%id, problem, "metadata.json was restored from its copy");
    Ok(true)
}

fn keep_copy(env: &Env, folder: Folder, id: TaskId, copy: &Metadata) -> Result<(), StoreError> {
    let (fs, path) = (env.fs.as_ref(), folder.task(id).join(layout::CONTRADICTING_METADATA));
    let failed = |error| StoreError::io(format!("keeping a copy of the metadata of task {id}"), error);
    if fs.stat(&path).map_err(failed)?.is_none() {
        let bytes = to_bytes(copy).map_err(|error| failed(error.into()))?;
        files::replace(fs, &path, &bytes, Sync::Contents)?;
    }
    tracing::warn!(%id, kept = %path, "metadata.json and its copy contradict each other; the file counts, the copy is kept");
    Ok(())
}

/// The copies that can be read.
fn copies(env: &Env, folder: Folder, id: TaskId) -> Result<Vec<Metadata>, StoreError> {
    let rows = [read_row(env, folder, id), env.catalog.get(id)?];
    let copy = |metadata| serde_json::from_value::<Metadata>(metadata).ok().filter(|copy| copy.uuid == id);
    Ok(rows.into_iter().flatten().filter_map(|row| copy(row.metadata)).collect())
}

/// The metadata of a task in quarantine, so that it can be shown: its own, that of a copy, or what its log says.
pub(super) fn for_quarantined(
    env: &Env,
    dir: &StorePath,
    id: TaskId,
    started_at: impl FnOnce() -> Option<DateTime<Utc>>,
) -> Metadata {
    let copies = || {
        let copies = copies(env, Folder::Quarantine, id);
        copies.inspect_err(|error| tracing::warn!(%id, %error, "the copies of metadata.json cannot be read"))
    };
    let copy = || copies().ok()?.into_iter().next();
    read(env, dir, id).ok().or_else(copy).unwrap_or_else(|| Metadata {
        format_version: FORMAT_VERSION,
        uuid: id,
        task_key: TaskKey::default(),
        repository: String::new(),
        user: String::new(),
        created_at: started_at().unwrap_or_default(),
        process_id: 0,
        hostname: String::new(),
        config: TaskConfig::default(),
        inherited_from: None,
    })
}
