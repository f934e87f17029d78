//! `checkpoint.json`: where the log and its view stood, so that opening a task does not read its whole log.
//!
//! It is only ever believed as far as it can be checked: by its own checksum, against the lengths of the
//! files, and, if the machine was restarted, against the checksum of the view.

use serde::{Deserialize, Serialize};

use crate::infra::fs::{Fs, StorePath};
use crate::log::{LogState, RecordState, ViewState, seal, unseal};
use crate::model::StoreError;

use super::files::{self, Sync};

/// Largest checkpoint: 1 024 requests of each log, pins, configuration, and an error message.
const MAX_BYTES: u64 = 16 << 20;
const FORMAT_VERSION: u32 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    pub(crate) format_version: u32,
    /// Everything before it was synced, and the stop was orderly.
    pub(crate) clean: bool,
    /// The run of the machine in which it was written.
    pub(crate) boot_id: String,
    /// Length of the log; durable when this was written.
    pub(crate) log_len: u64,
    pub(crate) index_rows: u64,
    pub(crate) state: LogState,
    pub(crate) view: Option<ViewMark>,
    pub(crate) tools: RecordMark,
    pub(crate) plans: RecordMark,
}

/// A view that is known to be the fold of the log up to a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ViewMark {
    /// Up to which message.
    pub(crate) last_seq: u64,
    /// Of which rewrite.
    pub(crate) generation: u64,
    pub(crate) render_version: u32,
    /// It was synced.
    pub(crate) clean: bool,
    /// The run of the machine in which it was written.
    pub(crate) boot_id: String,
    pub(crate) state: ViewState,
}

/// The state of `tools.jsonl` or `planning.jsonl`, which was durable when the checkpoint was written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct RecordMark {
    pub(crate) len: u64,
    pub(crate) state: RecordState,
}

impl Checkpoint {
    /// Reads a checkpoint; anything but a whole one of this version counts as none.
    pub(crate) fn read(fs: &dyn Fs, path: &StorePath) -> Result<Option<Self>, StoreError> {
        let bytes = match files::read_small(fs, path, MAX_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) | Err(StoreError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        if unseal(line).is_none() {
            return Ok(None);
        }
        let read = serde_json::from_slice::<Self>(line).ok();
        Ok(read.filter(|checkpoint| checkpoint.format_version == FORMAT_VERSION))
    }

    /// Returns whether there is a checkpoint whose bytes are not what was written.
    pub(crate) fn is_damaged(fs: &dyn Fs, path: &StorePath) -> Result<bool, StoreError> {
        match files::read_small(fs, path, MAX_BYTES) {
            Ok(bytes) => {
                Ok(bytes.is_some_and(|bytes| unseal(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).is_none()))
            }
            Err(StoreError::Damaged { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn write(&self, fs: &dyn Fs, path: &StorePath) -> Result<(), StoreError> {
        let problem = |error: serde_json::Error| StoreError::io(format!("writing {path}"), error.into());
        let mut bytes = serde_json::to_vec(self).map_err(problem)?;
        bytes.pop();
        seal(&mut bytes);
        let sync = if self.clean { Sync::Contents } else { Sync::No };
        files::replace(fs, path, &bytes, sync)
    }

    pub(crate) fn new(log_len: u64, index_rows: u64, state: LogState) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            clean: false,
            boot_id: String::new(),
            log_len,
            index_rows,
            state,
            view: None,
            tools: RecordMark::default(),
            plans: RecordMark::default(),
        }
    }
}
