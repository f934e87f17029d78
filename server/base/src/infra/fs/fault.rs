//! A layer over any other that counts the calls a disk can fail, and fails or dies at a chosen one.
//!
//! A sweep runs a story once to learn how many calls it makes, then once for each of them with a fault
//! there. It can also break the protocol of the code above in a few named ways, so that the tests can be
//! seen to notice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
pub use rustix::io::Errno;

use super::{Entry, File, Fs, Name, Open, Stat, StorePath};

/// What happens at an armed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails once. A write leaves the first half of its bytes; every other call has no effect.
    Error(Errno),
    /// The call and every later one fail, without effect. A write may leave a first part of its bytes; the
    /// seed decides whether and how much.
    Death {
        /// For the same seed and call, the same part.
        seed: u64,
    },
}

/// A way to break the code above, for tests of the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// `sync_data` on files with this last name answers at once and does nothing.
    SkipSync {
        /// The last name.
        file: &'static str,
    },
    /// The result of a rewrite is put in place before the record of it: a write to `messages.jsonl` first
    /// renames the waiting files beside it.
    RenameFirst,
}

/// The files that wait beside a log for their rename.
const WAITING: [Name; 2] = [Name::fixed("current.jsonl"), Name::fixed("current.extra.jsonl")];
const LOG: &str = "messages.jsonl";

/// A file system that fails on demand.
#[derive(Debug)]
pub struct FaultFs {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<dyn Fs>,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    calls: u64,
    armed: BTreeMap<u64, Fault>,
    dead: bool,
    recording: bool,
    trace: Vec<String>,
    fired: Vec<String>,
    sabotage: Vec<Sabotage>,
    /// Waiting files that [`Sabotage::RenameFirst`] has renamed and the code above not yet.
    renamed: BTreeSet<StorePath>,
}

/// A call that is not let through.
enum Refusal {
    Dead,
    Fault(Fault, u64),
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Fault(Fault::Error(errno), _) => Self::from_raw_os_error(errno.raw_os_error()),
            Refusal::Fault(Fault::Death { .. }, _) | Refusal::Dead => Self::other("dead"),
        }
    }
}

impl FaultFs {
    /// A layer over `inner` that lets everything through until it is armed.
    pub fn new(inner: Arc<dyn Fs>) -> Arc<Self> {
        let plan = Mutex::new(Plan::default());
        let (bytes_read, bytes_written) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { shared: Arc::new(Shared { inner, bytes_read, bytes_written, plan }) })
    }

    /// Sets what happens at the call with this number; the first is 0. Several can be armed.
    pub fn arm(&self, at: u64, fault: Fault) {
        self.shared.plan().armed.insert(at, fault);
    }

    /// Forgets what is armed and has not happened. The dead stay dead.
    pub fn disarm(&self) {
        self.shared.plan().armed.clear();
    }

    /// Breaks the code above from now on.
    pub fn sabotage(&self, sabotage: Sabotage) {
        self.shared.plan().sabotage.push(sabotage);
    }

    /// How many calls were made that a disk could have failed. Those after a death do not count.
    pub fn calls(&self) -> u64 {
        self.shared.plan().calls
    }

    /// Whether a death has happened.
    pub fn is_dead(&self) -> bool {
        self.shared.plan().dead
    }

    /// The faults that have happened, as `call 17: sync_data running/x/messages.jsonl`.
    pub fn fired(&self) -> Vec<String> {
        self.shared.plan().fired.clone()
    }

    /// Starts or stops keeping a line for every call.
    pub fn record(&self, on: bool) {
        self.shared.plan().recording = on;
    }

    /// The lines kept, in the form of [`Self::fired`].
    pub fn trace(&self) -> Vec<String> {
        self.shared.plan().trace.clone()
    }

    /// Bytes of contents read.
    pub fn bytes_read(&self) -> u64 {
        self.shared.bytes_read.load(Ordering::Relaxed)
    }

    /// Bytes of contents written.
    pub fn bytes_written(&self) -> u64 {
        self.shared.bytes_written.load(Ordering::Relaxed)
    }

    /// Starts counting anew: the next call is number 0. What is armed stays armed.
    pub fn reset_counts(&self) {
        let mut plan = self.shared.plan();
        plan.calls = 0;
        plan.trace.clear();
        plan.fired.clear();
        self.shared.bytes_read.store(0, Ordering::Relaxed);
        self.shared.bytes_written.store(0, Ordering::Relaxed);
    }
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and decides whether it is let through.
    fn enter(&self, call: &str, path: &dyn Display) -> Result<(), Refusal> {
        let mut plan = self.plan();
        if plan.dead {
            return Err(Refusal::Dead);
        }
        let number = plan.calls;
        plan.calls += 1;
        let fault = plan.armed.remove(&number);
        if plan.recording {
            plan.trace.push(format!("call {number}: {call} {path}"));
        }
        let Some(fault) = fault else { return Ok(()) };
        plan.fired.push(format!("call {number}: {call} {path}"));
        plan.dead = matches!(fault, Fault::Death { .. });
        Err(Refusal::Fault(fault, number))
    }

    fn alive(&self) -> io::Result<()> {
        if self.plan().dead { Err(Refusal::Dead.into()) } else { Ok(()) }
    }

    fn sabotaged(&self, sabotage: Sabotage) -> bool {
        self.plan().sabotage.contains(&sabotage)
    }

    /// Puts the waiting files of a directory in place before their time.
    fn rename_waiting(&self, dir: &StorePath) -> io::Result<()> {
        for name in WAITING {
            let waiting = dir.join(name.with_suffix(".next"));
            if self.inner.stat(&waiting)?.is_some() {
                self.inner.rename(&waiting, &dir.join(name))?;
                self.plan().renamed.insert(waiting);
            }
        }
        Ok(())
    }

    /// The answer to a rename; one that sabotage has made already is as good as done.
    fn renamed(&self, from: &StorePath, result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.plan().renamed.remove(from) => {
                Ok(())
            }
            result => result,
        }
    }
}

impl Fs for FaultFs {
    fn open(&self, path: &StorePath, how: Open) -> io::Result<Arc<dyn File>> {
        self.shared.enter("open", path)?;
        let inner = self.shared.inner.open(path, how)?;
        Ok(Arc::new(FaultFile { shared: Arc::clone(&self.shared), path: path.clone(), inner }))
    }

    fn create_dir(&self, path: &StorePath) -> io::Result<()> {
        self.shared.enter("create_dir", path)?;
        self.shared.inner.create_dir(path)
    }

    fn rename(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.shared.enter("rename", &format_args!("{from} to {to}"))?;
        self.shared.renamed(from, self.shared.inner.rename(from, to))
    }

    fn rename_new(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.shared.enter("rename_new", &format_args!("{from} to {to}"))?;
        self.shared.renamed(from, self.shared.inner.rename_new(from, to))
    }

    fn hard_link(&self, from: &StorePath, to: &StorePath) -> io::Result<()> {
        self.shared.enter("hard_link", &format_args!("{from} to {to}"))?;
        self.shared.inner.hard_link(from, to)
    }

    fn remove_file(&self, path: &StorePath) -> io::Result<()> {
        self.shared.enter("remove_file", path)?;
        self.shared.inner.remove_file(path)
    }

    fn remove_dir(&self, path: &StorePath) -> io::Result<()> {
        self.shared.enter("remove_dir", path)?;
        self.shared.inner.remove_dir(path)
    }

    fn list(&self, path: &StorePath, visit: &mut dyn FnMut(Entry) -> io::Result<()>) -> io::Result<()> {
        self.shared.enter("list", path)?;
        self.shared.inner.list(path, visit)
    }

    fn stat(&self, path: &StorePath) -> io::Result<Option<Stat>> {
        self.shared.enter("stat", path)?;
        self.shared.inner.stat(path)
    }

    fn sync_dir(&self, path: &StorePath) -> io::Result<()> {
        self.shared.enter("sync_dir", path)?;
        self.shared.inner.sync_dir(path)
    }

    fn make_private(&self, path: &StorePath) -> io::Result<()> {
        self.shared.enter("make_private", path)?;
        self.shared.inner.make_private(path)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.shared.enter("free_bytes", &StorePath::ROOT)?;
        self.shared.inner.free_bytes()
    }

    fn boot_id(&self) -> String {
        self.shared.inner.boot_id()
    }
}

#[derive(Debug)]
struct FaultFile {
    shared: Arc<Shared>,
    /// Where it was opened; a later rename does not change it.
    path: StorePath,
    inner: Arc<dyn File>,
}

impl FaultFile {
    fn is_named(&self, name: &str) -> bool {
        self.path.names().last().is_some_and(|last| last.as_str() == name)
    }

    fn write(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_all_at(buf, offset)?;
        self.shared.bytes_written.fetch_add(buf.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl File for FaultFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.shared.enter("read_at", &self.path)?;
        let read = self.inner.read_at(buf, offset)?;
        self.shared.bytes_read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let refusal = match self.shared.enter("write_all_at", &self.path) {
            Ok(()) => {
                if self.is_named(LOG) && self.shared.sabotaged(Sabotage::RenameFirst) {
                    self.shared.rename_waiting(&self.path.parent())?;
                }
                return self.write(buf, offset);
            }
            Err(refusal) => refusal,
        };
        let part = match refusal {
            Refusal::Dead => 0,
            Refusal::Fault(Fault::Error(_), _) => buf.len() / 2,
            Refusal::Fault(Fault::Death { seed }, number) => {
                let mut rng = Rng::with_seed(seed ^ number.rotate_left(32));
                if rng.bool() { rng.usize(..=buf.len()) } else { 0 }
            }
        };
        if part > 0 {
            // Should this fail too, it is the refusal that is told.
            let _ = self.write(buf.get(..part).unwrap_or_default(), offset);
        }
        Err(refusal.into())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.shared.enter("truncate", &self.path)?;
        self.inner.truncate(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.shared.enter("allocate", &self.path)?;
        self.inner.allocate(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.shared.enter("sync_data", &self.path)?;
        let skipped = self.shared.plan().sabotage.iter().any(|sabotage| match sabotage {
            Sabotage::SkipSync { file } => self.is_named(file),
            Sabotage::RenameFirst => false,
        });
        if skipped { Ok(()) } else { self.inner.sync_data() }
    }

    fn len(&self) -> io::Result<u64> {
        self.shared.enter("len", &self.path)?;
        self.inner.len()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.shared.alive()?;
        self.inner.try_lock()
    }
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
