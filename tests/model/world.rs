//! The world of one sequence: a disk that forgets, a store on it, and the model of every task in it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contextstore::infra::clock::{Clock, ManualClock};
use contextstore::infra::fs::StorePath;
use contextstore::infra::fs::fault::{Errno, Fault, FaultFs};
use contextstore::infra::fs::sim::SimFs;
use contextstore::model::{Durability, StoreError, TaskId};
use contextstore::store::layout::{self, Folder};
use contextstore::store::{CurrentReader, Recovered, Store, StoreOptions};
use fastrand::Rng;
use tempfile::TempDir;

use super::support;
use super::task::{DIGEST, LOG, Line, PLANS, TOOLS, Task, What};
use super::words::one_in;

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
    store: Option<Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) catalog: TempDir,
    pub(crate) options: StoreOptions,
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    pub(crate) renewed: HashMap<TaskId, Duration>,
    pub(crate) opened: Duration,
    /// What was asked for and not acknowledged when the store died.
    pub(crate) in_flight: Option<(TaskId, Effect)>,
    readers: Vec<(CurrentReader, Vec<u8>, String)>,
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
        let most = [4, 12, 40][self.rng.usize(..3)];
        let at = self.rng.u64(..most);
        let fault = match danger {
            Danger::None => return,
            Danger::Death => Fault::Death { seed: self.rng.u64(..) },
            Danger::Error => Fault::Error([Errno::IO, Errno::NOSPC][self.rng.usize(..2)]),
        };
        self.fault.arm(at, fault);
    }

    /// Looks at what a call that failed has left of its lines: nothing, unless callers are told before lines
    /// are durable.
    pub(crate) fn check_failed(&mut self, id: TaskId, effect: &Effect, durability: Option<Durability>) {
        let Effect::Lines(log, lines) = effect else { return };
        let path = self.log_path(id, *log);
        let found = lines_of(&self.sim, &path, true).0;
        let task = self.tasks.get_mut(&id).unwrap();
        let left = found.len() - task.logs[*log].len();
        assert!(
            left == 0 || durability == Some(Durability::Process),
            "{path}: a call that failed left lines"
        );
        take_lines(task, *log, &found, lines.iter().take(left).cloned().collect());
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
            }
            Effect::Delete => {
                self.tasks.remove(&id);
            }
        }
    }

    fn settle_created(&mut self, id: TaskId) {
        let dir = self.folder(id).unwrap().task(id);
        let found = lines_of(&self.sim, &dir.join(layout::MESSAGES), true).0;
        let metadata = self.sim.read_file(&dir.join(layout::METADATA)).unwrap();
        let task = self.tasks.get_mut(&id).unwrap();
        task.metadata = Some(serde_json::from_slice(&metadata).unwrap());
        let lines = std::mem::take(&mut task.logs[LOG]);
        assert_eq!(found.len(), lines.len());
        take_lines(task, LOG, &found, lines);
        task.safe[LOG] = task.logs[LOG].len();
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

    /// Stops the store and starts it again, perhaps dying on the way, and looks at what is there.
    pub(crate) fn restart(&mut self, stop: Stop) {
        self.note(format!("{stop:?}"));
        let dead = self.fault.is_dead();
        assert!(!dead || stop != Stop::Close);
        if dead {
            self.readers.clear();
        } else {
            self.read_on(true);
        }
        let mut cut = stop == Stop::PowerCut;
        if stop == Stop::Close {
            self.close();
            // What was closed in order has nothing to lose.
            if one_in(&mut self.rng, 4) {
                self.note("power cut after the close".to_owned());
                self.sim = self.sim.crash(self.rng.u64(..));
            }
        } else {
            self.store = None;
            self.die(cut);
        }
        self.vandalise(cut);
        while one_in(&mut self.rng, 4) {
            self.fault = FaultFs::new(Arc::clone(&self.sim) as _);
            self.arm(Danger::Death);
            let opened = self.try_open();
            let died = self.fault.is_dead();
            self.note(format!("start, dying: {:?}", self.fault.fired()));
            if !died {
                // It was over before.
                self.fault.disarm();
                opened.unwrap();
                self.check_recovered(cut);
                return;
            }
            drop(opened);
            self.store = None;
            let power = self.rng.bool();
            cut |= power;
            self.note(format!("… by {}", if power { "power cut" } else { "kill" }));
            self.die(power);
        }
        self.fault = FaultFs::new(Arc::clone(&self.sim) as _);
        self.open();
        self.check_recovered(cut);
    }

    fn die(&mut self, power: bool) {
        self.crashes += 1;
        self.sim = if power { self.sim.crash(self.rng.u64(..)) } else { self.sim.kill() };
    }

    /// Closes the store; what was looked at before must stand on disk as the model has it.
    fn close(&mut self) {
        let mut settled = Vec::new();
        for id in self.tasks.keys().copied().collect::<Vec<_>>() {
            if self.rng.bool() {
                self.store().current(id, None).unwrap();
                self.store().summaries(id).unwrap();
                settled.push(id);
            }
        }
        self.store.take().unwrap().close().unwrap();
        for id in settled {
            self.check_files(id);
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

    /// Damages what can be made again.
    fn vandalise(&mut self, cut: bool) {
        let database = self.catalog.path().join("tasks.db");
        match self.rng.u32(..12) {
            0 => {
                self.note("tasks.db is deleted".to_owned());
                for name in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
                    let _ = std::fs::remove_file(self.catalog.path().join(name));
                }
            }
            1 => {
                self.note("tasks.db is overwritten".to_owned());
                let _ = std::fs::remove_file(self.catalog.path().join("tasks.db-wal"));
                std::fs::write(database, "no database at all").unwrap();
            }
            _ => {}
        }
        let views = [
            layout::CURRENT,
            layout::EXTRA,
            layout::CHECKPOINT,
            layout::INDEX,
            layout::SUMMARIES,
            layout::TASK,
            layout::FINAL_SUMMARY,
        ];
        for id in self.tasks.keys().copied().collect::<Vec<_>>() {
            if !one_in(&mut self.rng, 4) {
                continue;
            }
            // In the middle of a death a task need not be where the model has it, or be at all.
            let Some(folder) = self.folder(id) else { continue };
            let name = views[self.rng.usize(..views.len())].clone();
            let path = folder.task(id).join(name.clone());
            let Some(mut bytes) = self.sim.read_file(&path) else { continue };
            let checkpoint =
                self.sim.read_file(&folder.task(id).join(layout::CHECKPOINT)).unwrap_or_default();
            let clean = String::from_utf8_lossy(&checkpoint).contains("\"clean\":true");
            // What was synced is believed to be what it was, if it has its length.
            let believed = [layout::CURRENT, layout::EXTRA].contains(&name) && (clean || !cut);
            match self.rng.u32(..4) {
                0 => {
                    self.note(format!("{path} is deleted"));
                    self.sim.remove(&path).unwrap();
                    continue;
                }
                1 => bytes.truncate(self.rng.usize(..bytes.len().max(1))),
                2 if !believed => bytes.fill(0),
                // The row of an ended task was synced too; it has no checksum.
                3 if !believed && name != layout::TASK && !bytes.is_empty() => {
                    let at = self.rng.usize(..bytes.len());
                    bytes[at] ^= 1;
                }
                _ => continue,
            }
            self.note(format!("{path} is damaged"));
            self.sim.write_file(&path, &bytes).unwrap();
        }
    }

    /// Closes the store, with every view in place.
    pub(crate) fn close_all(&mut self) {
        for id in self.tasks.keys() {
            self.store().current(*id, None).unwrap();
            self.store().summaries(*id).unwrap();
        }
        self.read_on(true);
        self.store.take().unwrap().close().unwrap();
    }

    pub(crate) fn open(&mut self) {
        self.try_open().unwrap();
    }

    fn try_open(&mut self) -> Result<(), StoreError> {
        let ground = support::ground(Arc::clone(&self.fault) as _, self.catalog.path(), &self.clock);
        self.renewed.clear();
        self.opened = self.clock.monotonic();
        let (store, recovered) = Store::open_on(ground, self.options.clone())?;
        self.store = Some(store);
        if !self.fault.is_dead() {
            for what in recovered {
                let fine = match &what {
                    Recovered::Removed(_) | Recovered::Moved(..) | Recovered::Catalogued(_) => true,
                    Recovered::Quarantined(..)
                    | Recovered::NewerFormat(..)
                    | Recovered::Missing(_)
                    | Recovered::Failed(..) => false,
                };
                assert!(fine, "{what}");
            }
        }
        Ok(())
    }

    /// Looks at what a restart has left of the logs, and takes it into the model where it may be so.
    fn check_recovered(&mut self, cut: bool) {
        let in_flight = self.in_flight.take();
        match &in_flight {
            Some((id, Effect::Create(task))) if self.folder(*id).is_some() => {
                self.tasks.insert(*id, (**task).clone());
                self.settle_created(*id);
            }
            Some((id, Effect::Delete)) if self.folder(*id).is_none() => {
                self.tasks.remove(id);
            }
            _ => {}
        }
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        for id in ids {
            let folder = self.folder(id).unwrap_or_else(|| panic!("{id} is lost"));
            for log in [LOG, TOOLS, PLANS] {
                let path = self.log_path(id, log);
                let (found, rest) = lines_of(&self.sim, &path, false);
                assert_eq!(rest, 0, "{path} ends in the middle of a line");
                let task = self.tasks.get_mut(&id).unwrap();
                let known = task.logs[log].len();
                if found.len() < known {
                    let (safe, has) = (task.safe[log], found.len());
                    assert!(cut && has >= safe, "{path} has {has} of {known} lines; {safe} were safe");
                    task.logs[log].truncate(has);
                }
                let known = task.logs[log].len();
                let new: Vec<Line> = match &in_flight {
                    Some((flying, Effect::Lines(of, lines))) if *flying == id && *of == log => {
                        lines.iter().take(found.len() - known).cloned().collect()
                    }
                    _ => Vec::new(),
                };
                assert_eq!(found.len(), known + new.len(), "{path} has lines that nobody wrote");
                take_lines(task, log, &found, new);
                // What was found at a start was made durable.
                task.safe[log] = task.logs[log].len();
            }
            assert_eq!(folder, Folder::of(self.tasks[&id].state().status()), "{id} is in the wrong folder");
        }
        self.check_directories();
    }

    /// There are no tasks but those of the model, and nothing is left of what was going on.
    fn check_directories(&self) {
        use contextstore::infra::fs::Fs;
        for folder in Folder::HEALTHY.map(Folder::name).into_iter().chain([
            Folder::Quarantine.name(),
            layout::TMP,
            layout::TRASH,
        ]) {
            let path = StorePath::ROOT.join(folder);
            self.sim
                .list(&path, &mut |entry| {
                    let task = TaskId::parse(entry.name.as_str()).ok().and_then(|id| self.tasks.get(&id));
                    let here = task.is_some_and(|task| Folder::of(task.state().status()).path() == path);
                    assert!(here, "{path}/{} is nobody's", entry.name);
                    Ok(())
                })
                .unwrap();
        }
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
fn take_lines(task: &mut Task, log: usize, found: &[String], new: Vec<Line>) {
    let known = task.logs[log].len();
    for (line, found) in task.logs[log].iter().zip(found) {
        assert!(line.text == *found, "an acknowledged line has changed:\n{}\n{found}", line.text);
    }
    let mut offset: u64 = found[..known].iter().map(|line| line.len() as u64 + 1).sum();
    for (mut line, text) in new.into_iter().zip(&found[known..]) {
        let number = if log == LOG { task.state().last_seq } else { task.logs[log].len() as u64 };
        check_line(&line, log, number, text, offset);
        offset += text.len() as u64 + 1;
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
        What::Usage(_) => event("usage"),
        What::Statistics { .. } => event("statistics"),
        What::Pin { .. } => event("pin"),
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
