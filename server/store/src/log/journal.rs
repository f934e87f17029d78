//! The journal of a log: the step that makes written lines durable, so that they can be acknowledged.
//!
//! A log is written to and read from a local file, whatever its journal is. A second journal ships the same bytes elsewhere;
//! `journal_tests.rs` says what each of them has to keep.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

use crate::infra::fs::File;

/// Makes the lines of one log durable.
pub trait Journal: Debug + Send + Sync {
    /// Returns the local file of the log.
    fn file(&self) -> &Arc<dyn File>;

    /// Makes the bytes `from..to` of the local file durable; everything before `from` is. Blocks. After an error it is
    /// unknown which of these bytes survive a crash, and the log commits nothing more.
    fn commit(&self, from: u64, to: u64) -> io::Result<()>;
}

/// The journal of a log that stands in its local file alone.
#[derive(Debug)]
pub struct LocalJournal(Arc<dyn File>);

impl LocalJournal {
    /// Returns the journal of a file.
    pub fn new(file: Arc<dyn File>) -> Self {
        Self(file)
    }
}

impl Journal for LocalJournal {
    fn file(&self) -> &Arc<dyn File> {
        &self.0
    }

    fn commit(&self, _from: u64, _to: u64) -> io::Result<()> {
        self.0.sync_data()
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
