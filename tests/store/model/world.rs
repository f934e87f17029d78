//! The world of one sequence: a disk that forgets, a store on it, and the model of every task in it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contextstore_base::infra::clock::{Clock, ManualClock};
use contextstore_base::infra::fs::StorePath;
use contextstore_base::infra::fs::fault::{Errno, Fault, FaultFs};
use contextstore_base::infra::fs::sim::SimFs;
use contextstore_base::model::{Durability, TaskId};
use contextstore_store::store::layout::{self, Folder};
use contextstore_store::store::{CurrentReader, Store, StoreOptions};
use fastrand::Rng;
use tempfile::TempDir;

use super::task::{DIGEST, LOG, Line, PLANS, TOOLS, Task, What};
use super::words::one_in;
use test_support::store as support;

/// How a store stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Close,
    Kill,
    PowerCut,
}

/// What may happen to the disk in the middle of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Danger {
    None,
    /// The process dies.
    Death,
    /// One call fails.
    Error,
}

/// What an operation does to the model.
#[derive(Debug, Clone)]
pub(crate) enum Effect {
    Nothing,
    Lines(usize, Vec<Line>),
    Create(Box<Task>),
    Delete,
}

pub(crate) struct World {
    seed: u64,
    pub(crate) rng: Rng,
    pub(crate) sim: Arc<SimFs>,
    pub(crate) fault: Arc<FaultFs>,
    pub(crate) store: Option<Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) catalog: TempDir,
    pub(crate) options: StoreOptions,
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    /// The highest lease of those that were deleted.
    pub(crate) deleted: u64,
    pub(crate) renewed: HashMap<TaskId, Duration>,
    pub(crate) opened: Duration,
    /// What was asked for and not acknowledged when the store died.
    pub(crate) in_flight: Option<(TaskId, Effect)>,
    pub(crate) readers: Vec<(CurrentReader, Vec<u8>, String)>,
    trace: Vec<String>,
    pub(crate) crashes: u32,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let durability = [Durability::Group, Durability::Each, Durability::Process][rng.usize(..3)];
        let options = StoreOptions {
            durability,
            checkpoint_bytes: [1, 300, 5000, 1 << 20][rng.usize(..4)],
            max_open_tasks: rng.usize(1..4),
            ..support::options()
        };
        let sim = SimFs::new();
        let mut world = Self {
            seed,
            rng,
            fault: FaultFs::new(Arc::clone(&sim) as _),
            sim,
            store: None,
            clock: ManualClock::shared(),
            catalog: scratch(),
            options,
            tasks: BTreeMap::new(),
            deleted: 0,
            renewed: HashMap::new(),
            opened: Duration::ZERO,
            in_flight: None,
            readers: Vec::new(),
            trace: Vec::new(),
            crashes: 0,
        };
        let options = &world.options;
        world.note(format!(
            "{:?}, checkpoint_bytes {}, max_open_tasks {}",
            options.durability, options.checkpoint_bytes, options.max_open_tasks
        ));
        world.open();
        world
    }

    pub(crate) fn note(&mut self, what: String) {
        let mut what = what;
        if what.len() > 600 {
            let cut = (0..=500).rev().find(|at| what.is_char_boundary(*at)).unwrap();
            what = format!("{} … ({} bytes)", &what[..cut], what.len());
        }
        self.trace.push(what);
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    pub(crate) fn lease_is_live(&self, id: TaskId) -> bool {
        let renewed = self.renewed.get(&id).copied().unwrap_or(self.opened);
        self.clock.monotonic() - renewed < self.options.lease_ttl
    }

    pub(crate) fn renew(&mut self, id: TaskId) {
        self.renewed.insert(id, self.clock.monotonic());
    }

    pub(crate) fn durability(&self, task: &Task) -> Durability {
        task.state().config.durability.unwrap_or(self.options.durability)
    }

    /// Sets what happens to the disk at some call of the next operation.
    pub(crate) fn arm(&mut self, danger: Danger) {
        self.fault.reset_counts();
        let most = [4, 12, 24, 40][self.rng.usize(..4)];
        let at = self.rng.u64(..most);
        let fault = match danger {
            Danger::None => return,
            Danger::Death => Fault::Death { seed: self.rng.u64(..) },
            Danger::Error => Fault::Error([Errno::IO, Errno::NOSPC][self.rng.usize(..2)]),
        };
        self.fault.arm(at, fault);
    }

    /// Looks whether a call that failed has left the logs as they were.
    pub(crate) fn check_unchanged(&mut self, id: TaskId) {
        if !self.tasks.contains_key(&id) {
            assert_eq!(self.folder(id), None, "{id} is there after a call that failed");
            return;
        }
        for log in [LOG, TOOLS, PLANS] {
            let path = self.log_path(id, log);
            let found = lines_of(&self.sim, &path, true).0;
            let task = self.tasks.get_mut(&id).unwrap();
            assert_eq!(found.len(), task.logs[log].len(), "{path} after a call that failed");
            take_lines(task, log, &found, vec![]);
        }
    }

    /// Makes the model what an acknowledged operation makes of the store, and looks whether it is so on disk.
    pub(crate) fn apply(&mut self, id: TaskId, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Lines(log, lines) => {
                let path = self.log_path(id, log);
                let found = lines_of(&self.sim, &path, true).0;
                let task = self.tasks.get_mut(&id).unwrap();
                assert_eq!(found.len(), task.logs[log].len() + lines.len(), "lines of {path}");
                take_lines(task, log, &found, lines);
            }
            Effect::Create(task) => {
                self.tasks.insert(id, *task);
                self.settle_created(id);
                self.tasks.get_mut(&id).unwrap().told = true;
            }
            Effect::Delete => {
                let task = self.tasks.remove(&id).unwrap();
                self.deleted = self.deleted.max(task.state().generation);
            }
        }
    }

    /// Takes a task into the model that was made, though nobody was told. Answers whether it was.
    pub(crate) fn adopt(&mut self, id: TaskId, effect: &Effect) -> bool {
        let made = self.folder(id).is_some();
        match effect {
            Effect::Create(task) if made => {
                self.tasks.insert(id, (**task).clone());
                self.settle_created(id);
                true
            }
            _ => false,
        }
    }

    fn settle_created(&mut self, id: TaskId) {
        let dir = self.folder(id).unwrap().task(id);
        let metadata = self.sim.read_file(&dir.join(layout::METADATA)).unwrap();
        self.tasks.get_mut(&id).unwrap().metadata = Some(serde_json::from_slice(&metadata).unwrap());
        for log in [LOG, TOOLS, PLANS] {
            let path = self.log_path(id, log);
            let found = lines_of(&self.sim, &path, true).0;
            let task = self.tasks.get_mut(&id).unwrap();
            let lines = std::mem::take(&mut task.logs[log]);
            assert_eq!(found.len(), lines.len(), "lines of {path}");
            take_lines(task, log, &found, lines);
            task.safe[log] = task.logs[log].len();
        }
    }

    /// The folder a task is in; there must not be two.
    pub(crate) fn folder(&self, id: TaskId) -> Option<Folder> {
        let folders = Folder::HEALTHY.into_iter().chain([Folder::Quarantine]);
        let mut found =
            folders.filter(|folder| self.sim.read_file(&folder.task(id).join(layout::METADATA)).is_some());
        let first = found.next();
        assert_eq!(found.next(), None, "{id} is there twice");
        first
    }

    pub(crate) fn log_path(&self, id: TaskId, log: usize) -> StorePath {
        let names = [layout::MESSAGES, layout::TOOLS, layout::PLANS];
        self.folder(id).unwrap().task(id).join(names[log].clone())
    }

    /// Opens a view to be read later, when much has happened.
    pub(crate) fn open_reader(&mut self, id: TaskId, as_of: Option<u64>) {
        let reader = self.store().current(id, as_of).unwrap();
        let expected = self.tasks[&id].view(as_of).text();
        self.readers.push((reader, Vec::new(), expected));
    }

    /// Reads on in the views that are open; to their ends if `all`.
    pub(crate) fn read_on(&mut self, all: bool) {
        for (mut reader, mut read, expected) in std::mem::take(&mut self.readers) {
            assert_eq!(reader.total_bytes, expected.len() as u64, "a reader's snapshot");
            let mut chunk = Vec::new();
            let mut more = true;
            while more && (all || one_in(&mut self.rng, 2)) {
                more = reader.read(&mut chunk, self.rng.usize(1..5000)).unwrap();
                read.extend_from_slice(&chunk);
            }
            assert!(expected.as_bytes().starts_with(&read), "a reader sees its snapshot");
            if more && !all {
                self.readers.push((reader, read, expected));
            } else {
                assert_eq!(read.len(), expected.len(), "a reader sees all of its snapshot");
            }
        }
    }

    /// Compares the views on disk with the model.
    pub(crate) fn check_files(&self, id: TaskId) {
        let (task, dir) = (&self.tasks[&id], self.folder(id).unwrap().task(id));
        let read = |name| self.sim.read_file(&dir.join(name)).map(|bytes| String::from_utf8(bytes).unwrap());
        let view = task.view(None);
        same(&read(layout::CURRENT).unwrap(), &view.text(), "current.jsonl");
        same(&read(layout::EXTRA).unwrap_or_default(), &view.extra_text(), "current.extra.jsonl");
        assert_eq!(read(layout::EXTRA).is_some(), !view.extra.is_empty(), "current.extra.jsonl is there");
        same(&read(layout::SUMMARIES).unwrap_or_default(), &task.summaries(), "summaries.jsonl");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "what is needed to see it again")]
            {
                eprintln!("CONTEXTSTORE_SEED={}\n  {}", self.seed, self.trace.join("\n  "));
            }
        }
    }
}

/// A directory for real files, in memory where that can be.
pub(crate) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

/// Compares two texts; says in which line they differ.
pub(crate) fn same(found: &str, expected: &str, what: &str) {
    if found == expected {
        return;
    }
    let (mut found, mut expected) = (found.split_inclusive('\n'), expected.split_inclusive('\n'));
    for number in 1.. {
        let (here, there) = (found.next(), expected.next());
        assert_eq!(here, there, "line {number} of {what}: found, expected");
    }
}

/// The whole lines of a log, without their ends, and how many bytes follow them.
pub(crate) fn lines_of(sim: &SimFs, path: &StorePath, whole: bool) -> (Vec<String>, usize) {
    let bytes = sim.read_file(path).unwrap_or_default();
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let rest = lines.pop().map_or(0, <[u8]>::len);
    assert!(!whole || rest == 0, "{path} ends in the middle of a line");
    (lines.iter().map(|line| String::from_utf8(line.to_vec()).unwrap()).collect(), rest)
}

/// Compares the lines found with those of the model, byte by byte, and adds new ones to it.
pub(crate) fn take_lines(task: &mut Task, log: usize, found: &[String], new: Vec<Line>) {
    let known = task.logs[log].len();
    for (line, found) in task.logs[log].iter().zip(found) {
        assert!(line.text == *found, "an acknowledged line has changed:\n{}\n{found}", line.text);
    }
    let mut offset: u64 = found[..known].iter().map(|line| line.len() as u64 + 1).sum();
    for (mut line, text) in new.into_iter().zip(&found[known..]) {
        let number = if log == LOG { task.state().last_seq } else { task.logs[log].len() as u64 };
        check_line(&line, log, number, text, offset);
        offset += text.len() as u64 + 1;
        assert!(line.text.is_empty() || line.text == *text, "a copy is another line:\n{}\n{text}", line.text);
        line.text.clone_from(text);
        task.logs[log].push(line);
    }
}

/// Looks whether a line is what the model says; `before` is the number of the last message or record.
fn check_line(line: &Line, log: usize, before: u64, text: &str, offset: u64) {
    let (covered, seal) = text.split_at(text.len() - 18);
    assert_eq!(seal, format!(",\"crc\":\"{:08x}\"}}", crc32fast::hash(covered.as_bytes())), "{text}");
    let event =
        |name: &str| (format!("{{\"event\":\"{name}\",\"after\":{before},\"timestamp\":\""), String::new());
    let (head, tokens) = match &line.what {
        What::Message(message) => (
            format!("{{\"seq\":{},\"role\":\"{}\",\"timestamp\":\"", before + 1, message.role.as_str()),
            format!(",\"tokens\":{}", message.tokens),
        ),
        What::Tool { .. } => (format!("{{\"seq\":{},\"timestamp\":\"", before + 1), String::new()),
        What::Plan { .. } => (format!("{{\"id\":{},\"created_at\":\"", before + 1), String::new()),
        What::Started => event("started"),
        What::Lease { .. } => event("lease"),
        What::Config(_) => event("config"),
        What::Rewrite(_) => event("rewrite"),
        What::Status { .. } => event("status"),
        What::Usage { .. } => event("usage"),
        What::Statistics { .. } => event("statistics"),
        What::Pin { .. } => event("pin"),
        What::Forked => event("forked"),
    };
    assert_eq!(log == TOOLS, matches!(line.what, What::Tool { .. }));
    let rest = covered.strip_prefix(&head).unwrap_or_else(|| panic!("{text}\ndoes not begin with {head}"));
    let (time, rest) = rest.split_at(27);
    assert!(time.ends_with('Z') && time.parse::<chrono::DateTime<chrono::Utc>>().is_ok(), "{text}");
    let rest = rest.strip_prefix(&format!("\"{tokens},\"durable_to\":")).unwrap_or_else(|| panic!("{text}"));
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (durable, body) = rest.split_at(digits);
    assert!(durable.parse::<u64>().unwrap() <= offset, "{text}");
    match line.body.split_once(DIGEST) {
        None => assert_eq!(body, line.body),
        Some((front, back)) => {
            let digest = body.strip_prefix(front).and_then(|rest| rest.strip_suffix(back));
            let digest = digest.unwrap_or_else(|| panic!("{body}\nis not\n{}", line.body));
            assert!(digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{body}");
        }
    }
}
