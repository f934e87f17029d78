//! A layer over any other that counts the calls a disk can fail, and fails or dies at a chosen one.
//!
//! A sweep runs a story once to learn the number of its calls, then once per call with a fault there. The layer can
//! also break the protocol of the code above in a few named ways, to prove that the tests notice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
pub use rustix::io::Errno;

use super::{DirEntry, File, Fs, Name, Open, Stat, StorePath};

/// A fault at an armed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails once. A write leaves the first half of its bytes; every other call has no effect.
    Error(Errno),
    /// The call and every later one fail, without effect. A write may leave a first part of its bytes; the
    /// seed decides whether and how much.
    Death {
        /// The seed of the written part: the same seed and call leave the same part.
        seed: u64,
    },
}

/// A way to break the code above, for tests of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// `sync_data` on files with this last name returns at once and does nothing.
    SkipSync {
        /// The last name.
        file: &'static str,
    },
    /// The result of a rewrite is renamed before its record is written: a write to `messages.jsonl` first renames the
    /// waiting files beside it.
    RenameFirst,
}

/// The files that wait beside a log for their rename.
const WAITING: [Name; 2] = [Name::fixed("current.jsonl"), Name::fixed("current.extra.jsonl")];
const LOG: &str = "messages.jsonl";

/// A file system that fails on demand.
#[derive(Debug)]
pub struct FaultFs {
    state: Arc<FaultState>,
}

#[derive(Debug)]
struct FaultState {
    inner: Arc<dyn Fs>,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    schedule: Mutex<FaultSchedule>,
}

#[derive(Debug, Default)]
struct FaultSchedule {
    calls: u64,
    armed: BTreeMap<u64, Fault>,
    dead: bool,
    recording: bool,
    trace: Vec<String>,
    fired: Vec<String>,
    sabotage: Vec<Sabotage>,
    /// Waiting files that [`Sabotage::RenameFirst`] has renamed, but the code above has not yet.
    renamed: BTreeSet<StorePath>,
}

/// The reason why a call is not forwarded.
enum BlockedCall {
    Dead,
    Fault(Fault, u64),
}

impl From<BlockedCall> for io::Error {
    fn from(blocked: BlockedCall) -> Self {
        match blocked {
            BlockedCall::Fault(Fault::Error(errno), _) => Self::from_raw_os_error(errno.raw_os_error()),
            BlockedCall::Fault(Fault::Death { .. }, _) | BlockedCall::Dead => Self::other("dead"),
        }
    }
}

impl FaultFs {
    /// Creates a layer over `inner` that forwards everything until it is armed.
    pub fn new(inner: Arc<dyn Fs>) -> Arc<Self> {
        let schedule = Mutex::new(FaultSchedule::default());
        let (bytes_read, bytes_written) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { state: Arc::new(FaultState { inner, bytes_read, bytes_written, schedule }) })
    }

    /// Sets the fault at the call with this number; the first is 0. Several calls can be armed.
    pub fn arm(&self, at: u64, fault: Fault) {
        self.state.schedule().armed.insert(at, fault);
    }

    /// Removes the armed faults that have not happened. A dead layer stays dead.
    pub fn disarm(&self) {
        self.state.schedule().armed.clear();
    }

    /// Adds a sabotage from now on.
    pub fn sabotage(&self, sabotage: Sabotage) {
        self.state.schedule().sabotage.push(sabotage);
    }

    /// Returns the number of calls that a disk could have failed, without those after a death.
    pub fn calls(&self) -> u64 {
        self.state.schedule().calls
    }

    /// Returns whether a death has happened.
    pub fn is_dead(&self) -> bool {
        self.state.schedule().dead
    }

    /// Returns the faults that have happened, as `call 17: sync_data running/x/messages.jsonl`.
    pub fn fired(&self) -> Vec<String> {
        self.state.schedule().fired.clone()
    }

    /// Starts or stops the trace of calls.
    pub fn record(&self, on: bool) {
        self.state.schedule().recording = on;
    }

    /// Returns the trace, in the form of [`Self::fired`].
    pub fn trace(&self) -> Vec<String> {
        self.state.schedule().trace.clone()
    }

    /// Returns the bytes of contents read.
    pub fn bytes_read(&self) -> u64 {
        self.state.bytes_read.load(Ordering::Relaxed)
    }

    /// Returns the bytes of contents written.
    pub fn bytes_written(&self) -> u64 {
        self.state.bytes_written.load(Ordering::Relaxed)
    }

    /// Resets the counters: the next call is number 0. Armed faults stay armed.
    pub fn reset_counts(&self) {
        let mut schedule = self.state.schedule();
        schedule.calls = 0;
        schedule.trace.clear();
        schedule.fired.clear();
        self.state.bytes_read.store(0, Ordering::Relaxed);
        self.state.bytes_written.store(0, Ordering::Relaxed);
    }
}

impl FaultState {
    fn schedule(&self) -> MutexGuard<'_, FaultSchedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and returns an error if it must not be forwarded.
    fn enter(&self, call: &str, path: &dyn Display) -> Result<(), BlockedCall> {
        let mut schedule = self.schedule();
        if schedule.dead {
            return Err(BlockedCall::Dead);
        }
        let number = schedule.calls;
        schedule.calls += 1;
        let fault = schedule.armed.remove(&number);
        if schedule.recording {
            schedule.trace.push(format!("call {number}: {call} {path}"));
        }
        let Some(fault) = fault else { return Ok(()) };
        schedule.fired.push(format!("call {number}: {call} {path}"));
        schedule.dead = matches!(fault, Fault::Death { .. });
        Err(BlockedCall::Fault(fault, number))
    }

    fn alive(&self) -> io::Result<()> {
        if self.schedule().dead { Err(BlockedCall::Dead.into()) } else { Ok(()) }
    }

    fn sabotaged(&self, sabotage: Sabotage) -> bool {
        self.schedule().sabotage.contains(&sabotage)
    }

    /// Renames the waiting files of a directory too early.
    fn rename_waiting(&self, dir: &StorePath) -> io::Result<()> {
        for name in WAITING {
            let waiting = dir.join(name.with_suffix(".next"));
            if self.inner.stat(&waiting)?.is_some() {
                self.inner.rename(&waiting, &dir.join(name))?;
                self.schedule().renamed.insert(waiting);
            }
        }
        Ok(())
    }

    /// Returns the result of a rename; one that the sabotage has made already succeeds.
    fn renamed(&self, from: &StorePath, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.schedule().renamed.remove(from) => {
                Ok(())
            }
            result => result,
        }
    }
}

impl Fs for FaultFs {
    fn open(&self, path: &StorePath, how: Open) -> io::Result<Arc<dyn File>> {
        self.state.enter("open", path)?;
        let inner = self.state.inner.open(path, how)?;
        Ok(Arc::new(FaultFile { state: Arc::clone(&self.state), path: path.clone(), inner }))
    }

    fn create_dir(&self, path: &StorePath) -> io::Result<()> {
        self.state.enter("create_dir", path)?;
        self.state.inner.create_dir(path)
    }

    fn rename(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.state.enter("rename", &format_args!("{from} to {to}"))?;
        self.state.renamed(from, self.state.inner.rename(from, to))
    }

    fn rename_new(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.state.enter("rename_new", &format_args!("{from} to {to}"))?;
        self.state.renamed(from, self.state.inner.rename_new(from, to))
    }

    fn hard_link(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.state.enter("hard_link", &format_args!("{from} to {to}"))?;
        self.state.inner.hard_link(from, to)
    }

    fn remove_file(&self, path: &StorePath) -> io::Result<()> {
        self.state.enter("remove_file", path)?;
        self.state.inner.remove_file(path)
    }

    fn remove_dir(&self, path: &StorePath) -> io::Result<()> {
        self.state.enter("remove_dir", path)?;
        self.state.inner.remove_dir(path)
    }

    fn list(&self, path: &StorePath, visit: &mut dyn FnMut(DirEntry) -> io::Result<()>) -> io::Result<()> {
        self.state.enter("list", path)?;
        self.state.inner.list(path, visit)
    }

    fn stat(&self, path: &StorePath) -> io::Result<Option<Stat>> {
        self.state.enter("stat", path)?;
        self.state.inner.stat(path)
    }

    fn sync_dir(&self, path: &StorePath) -> io::Result<()> {
        self.state.enter("sync_dir", path)?;
        self.state.inner.sync_dir(path)
    }

    fn make_private(&self, path: &StorePath) -> io::Result<()> {
        self.state.enter("make_private", path)?;
        self.state.inner.make_private(path)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.state.enter("free_bytes", &StorePath::ROOT)?;
        self.state.inner.free_bytes()
    }

    fn boot_id(&self) -> String {
        self.state.inner.boot_id()
    }
}

#[derive(Debug)]
struct FaultFile {
    state: Arc<FaultState>,
    /// The path at the time of opening; a later rename does not change it.
    path: StorePath,
    inner: Arc<dyn File>,
}

impl FaultFile {
    fn is_named(&self, name: &str) -> bool {
        self.path.names().last().is_some_and(|last| last.as_str() == name)
    }

    fn write(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_all_at(buf, offset)?;
        self.state.bytes_written.fetch_add(buf.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl File for FaultFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.state.enter("read_at", &self.path)?;
        let read = self.inner.read_at(buf, offset)?;
        self.state.bytes_read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let blocked = match self.state.enter("write_all_at", &self.path) {
            Ok(()) => {
                if self.is_named(LOG) && self.state.sabotaged(Sabotage::RenameFirst) {
                    self.state.rename_waiting(&self.path.parent())?;
                }
                return self.write(buf, offset);
            }
            Err(blocked) => blocked,
        };
        let part = match blocked {
            BlockedCall::Dead => 0,
            BlockedCall::Fault(Fault::Error(_), _) => buf.len() / 2,
            BlockedCall::Fault(Fault::Death { seed }, number) => {
                let mut rng = Rng::with_seed(seed ^ number.rotate_left(32));
                if rng.bool() { rng.usize(..=buf.len()) } else { 0 }
            }
        };
        if part > 0 {
            // If this write fails too, the caller still gets the fault.
            let _ = self.write(buf.get(..part).unwrap_or_default(), offset);
        }
        Err(blocked.into())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.state.enter("truncate", &self.path)?;
        self.inner.truncate(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.state.enter("allocate", &self.path)?;
        self.inner.allocate(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.state.enter("sync_data", &self.path)?;
        let skipped = self.state.schedule().sabotage.iter().any(|sabotage| match sabotage {
            Sabotage::SkipSync { file } => self.is_named(file),
            Sabotage::RenameFirst => false,
        });
        if skipped { Ok(()) } else { self.inner.sync_data() }
    }

    fn len(&self) -> io::Result<u64> {
        self.state.enter("len", &self.path)?;
        self.inner.len()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.state.alive()?;
        self.inner.try_lock()
    }
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
