//! The sweep: a story is told once for every call it makes to the disk and every fault that can be there.

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contextstore_base::infra::clock::ManualClock;
use contextstore_base::infra::fs::Fs;
use contextstore_base::infra::fs::fault::{Errno, Fault, FaultFs, Sabotage};
use contextstore_base::infra::fs::sim::SimFs;
use contextstore_base::model::StoreError;
use contextstore_store::store::{Store, StoreOptions};
use tempfile::TempDir;

use test_support::check::{LOOKED_AT, ask_oracle, chain, check, folders_of, path, read, rows};
use test_support::steps::{Act, Client, Outcome, Step, say, task_id};
use test_support::store::{ground, view};

/// What happens between the part of a story that is left alone and the part that is swept.
#[derive(Clone, Copy)]
pub(crate) enum Between {
    /// Nothing: the swept part goes on with the open store.
    GoOn,
    /// The store is closed in order.
    Close,
    /// The process dies, and the disk is found like this.
    Die(fn(&SimFs)),
}

/// A story.
pub(crate) struct Story {
    pub(crate) name: &'static str,
    pub(crate) before: Vec<Step>,
    pub(crate) between: Between,
    pub(crate) swept: Vec<Step>,
    /// Tasks that are to end up in quarantine.
    pub(crate) quarantined: &'static [usize],
}

/// What a sweep found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) calls: u64,
    pub(crate) runs: u64,
    pub(crate) reopened: u64,
    pub(crate) wrong: Vec<String>,
    /// The client of the first that is wrong.
    pub(crate) first: Option<Client>,
}

/// A place for catalogs: in memory, if the machine has that.
pub(crate) fn place() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

pub(crate) fn options() -> StoreOptions {
    StoreOptions { checkpoint_bytes: 1200, ..test_support::store::options() }
}

fn open(fs: Arc<dyn Fs>, catalog: &Path) -> Result<Store, StoreError> {
    Store::open_on(ground(fs, catalog, &ManualClock::shared()), options()).map(|(store, _)| store)
}

/// How many power cuts are tried at a point; `CONTEXTSTORE_CUTS=n` for more.
fn cuts() -> u64 {
    test_support::number("CONTEXTSTORE_CUTS").unwrap_or(test_support::sized(1, 5))
}

/// Reports whether a call to the disk is swept: every fifth at push size, all of them in `make test-long`. Stories begin at
/// different calls.
fn is_swept(story: &Story, call: u64) -> bool {
    (call + story.name.len() as u64).is_multiple_of(test_support::sized(5, 1))
}

/// One telling of a story.
struct Telling<'a> {
    story: &'a Story,
    sim: Arc<SimFs>,
    disk: Arc<FaultFs>,
    store: Option<Store>,
    client: Client,
    clock: Arc<ManualClock>,
    catalog: TempDir,
}

impl<'a> Telling<'a> {
    /// Tells the story up to where the sweep begins.
    fn begin(story: &'a Story, sabotage: Option<Sabotage>) -> Self {
        let sim = SimFs::new();
        let disk = FaultFs::new(Arc::clone(&sim) as Arc<dyn Fs>);
        sabotage.into_iter().for_each(|sabotage| disk.sabotage(sabotage));
        let client = Client::new([&story.before[..], &story.swept[..]].concat());
        let (clock, catalog) = (ManualClock::shared(), place());
        let mut telling = Self { story, sim, disk, store: None, client, clock, catalog };
        for at in 0..story.before.len() {
            telling.take(at).unwrap();
        }
        if let Some(store) = &telling.store {
            // The catalog knows what there is so far.
            rows(store).unwrap();
        }
        match story.between {
            Between::GoOn if telling.store.is_none() => telling.open().unwrap(),
            Between::GoOn => {}
            Between::Close => telling.store.take().unwrap().close().unwrap(),
            Between::Die(leave) => {
                telling.store = None;
                telling.sim = telling.sim.kill();
                leave(&telling.sim);
                telling.disk = FaultFs::new(Arc::clone(&telling.sim) as Arc<dyn Fs>);
                sabotage.into_iter().for_each(|sabotage| telling.disk.sabotage(sabotage));
            }
        }
        telling.disk.reset_counts();
        telling
    }

    fn open(&mut self) -> Result<(), StoreError> {
        let disk = Arc::clone(&self.disk) as Arc<dyn Fs>;
        let (store, _) = Store::open_on(ground(disk, self.catalog.path(), &self.clock), options())?;
        self.store = Some(store);
        Ok(())
    }

    fn take(&mut self, at: usize) -> Result<(), StoreError> {
        if matches!(self.client.steps[at].act, Act::Reopen) {
            if let Some(store) = self.store.take() {
                store.close()?;
            }
            self.open()?;
            self.client.note(at, 0);
            return Ok(());
        }
        if self.store.is_none() {
            self.open()?;
        }
        self.client.take(self.store.as_ref().unwrap(), at)
    }

    /// Tells the rest. A step that fails is tried again, a store without writes is opened again; what is there
    /// in between is looked at.
    fn go_on(&mut self, sweep: &mut Sweep, name: &str) {
        let wrong = self.try_to_go_on(sweep, name);
        sweep.note(self.story, name, &self.client, wrong);
    }

    fn try_to_go_on(&mut self, sweep: &mut Sweep, name: &str) -> Vec<String> {
        for at in self.story.before.len()..self.client.steps.len() {
            if matches!(self.client.outcomes[at], Outcome::Acked(_)) {
                continue;
            }
            let mut tries = 0;
            while let Err(error) = self.take(at) {
                if self.disk.is_dead() {
                    return Vec::new();
                }
                self.look(sweep, &format!("{name}, after the error of step {at}"));
                if self.store.as_ref().is_some_and(|store| store.read_only().is_some()) {
                    self.store = None;
                }
                tries += 1;
                if tries == 3 {
                    return vec![format!("step {at} fails though the disk works again: {}", chain(&error))];
                }
            }
        }
        Vec::new()
    }
}

impl Telling<'_> {
    /// A call that failed has changed nothing that a reader could see, or a power cut could bring out.
    fn look(&self, sweep: &mut Sweep, name: &str) {
        let Some(store) = self.store.as_ref().filter(|store| store.read_only().is_none()) else { return };
        for task in 0..self.client.leases.len() {
            // A task need not be there; what is wrong with one that is shows at the end.
            let _ = view(store, task_id(task), None).and_then(|_| store.summaries(task_id(task)));
        }
        sweep.export(name, &self.sim, &self.client);
        let cut = self.sim.crashed_copy(sweep.report.reopened);
        sweep.reopen(
            self.story,
            &format!("{name}, power cut"),
            cut,
            place().path(),
            self.client.clone(),
            false,
        );
    }
}

/// Tells a story with a disk that fails from a call on, for every call, until the client has tried everything.
pub(crate) fn sweep_lasting(story: &Story, errno: Errno) -> Report {
    let mut sweep = Sweep::new();
    let mut clean = Telling::begin(story, None);
    clean.disk.record(true);
    clean.go_on(&mut sweep, "without a fault");
    let trace = clean.disk.trace();
    sweep.report.calls = trace.len() as u64;
    for (call, line) in (0..).zip(&trace).filter(|(call, _)| is_swept(story, *call)) {
        let name = format!("{errno:?} from {line} on");
        let mut telling = Telling::begin(story, None);
        for at in call..call + 4 * sweep.report.calls {
            telling.disk.arm(at, Fault::Error(errno));
        }
        for at in story.before.len()..telling.client.steps.len() {
            // Some go through: not every call needs the disk.
            let _ = telling.take(at);
        }
        telling.disk.disarm();
        telling.go_on(&mut sweep, &name);
        sweep.report.runs += 1;
        sweep.end_killed(story, telling, &name);
    }
    sweep.ask();
    sweep.report
}

/// Tells a story with every fault at every call.
pub(crate) fn sweep(story: &Story, sabotage: Option<Sabotage>) -> Report {
    let mut sweep = Sweep::new();
    let mut clean = Telling::begin(story, sabotage);
    clean.disk.record(true);
    clean.go_on(&mut sweep, "without a fault");
    let trace = clean.disk.trace();
    sweep.end_in_order(story, clean, "without a fault");
    sweep.report.calls = trace.len() as u64;
    for (call, line) in (0..).zip(&trace).filter(|(call, _)| sabotage.is_some() || is_swept(story, *call)) {
        for errno in [Errno::IO, Errno::NOSPC] {
            let name = format!("{} at {line}", if errno == Errno::IO { "EIO" } else { "ENOSPC" });
            let mut telling = Telling::begin(story, sabotage);
            telling.disk.arm(call, Fault::Error(errno));
            telling.go_on(&mut sweep, &name);
            sweep.report.runs += 1;
            if errno == Errno::IO {
                sweep.end_in_order(story, telling, &format!("{name}, closed"));
                continue;
            }
            for seed in (0..cuts()).map(|cut| cut << 32 | call) {
                let after = telling.sim.crashed_copy(seed);
                let name = format!("{name}, power cut {seed} at the end");
                sweep.reopen(story, &name, after, place().path(), telling.client.clone(), false);
            }
            sweep.end_killed(story, telling, &format!("{name}, killed at the end"));
        }
        let name = format!("death at {line}");
        let mut telling = Telling::begin(story, sabotage);
        telling.disk.arm(call, Fault::Death { seed: call });
        telling.go_on(&mut sweep, &name);
        sweep.report.runs += 1;
        telling.store = None;
        for seed in (0..=cuts()).map(|cut| cut << 32 | call) {
            let after = telling.sim.crashed_copy(seed);
            let name = format!("{name}, power cut {seed}");
            let catalog = place();
            if seed == call {
                copy(telling.catalog.path(), catalog.path());
            }
            sweep.reopen(story, &name, after, catalog.path(), telling.client.clone(), false);
        }
        sweep.end_killed(story, telling, &format!("{name}, killed"));
    }
    sweep.ask();
    sweep.report
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

struct Sweep {
    report: Report,
    /// States that the oracle will see.
    seen: HashSet<u64>,
    exported: Vec<(PathBuf, String)>,
    place: TempDir,
}

impl Sweep {
    fn new() -> Self {
        Self { report: Report::default(), seen: HashSet::new(), exported: Vec::new(), place: place() }
    }

    fn note(&mut self, story: &Story, name: &str, client: &Client, wrong: Vec<String>) {
        let problems = wrong.iter().map(|problem| format!("{}: {name}: {problem}", story.name));
        if !wrong.is_empty() && self.report.wrong.is_empty() {
            self.report.first = Some(client.clone());
        }
        self.report.wrong.extend(problems);
    }

    fn end_in_order(&mut self, story: &Story, mut telling: Telling<'_>, name: &str) {
        if let Some(store) = telling.store.take()
            && let Err(error) = store.close()
        {
            self.note(story, name, &telling.client, vec![format!("it does not close: {error}")]);
        }
        let sim = Arc::clone(&telling.sim);
        self.reopen(story, name, sim, telling.catalog.path(), telling.client, true);
    }

    fn end_killed(&mut self, story: &Story, mut telling: Telling<'_>, name: &str) {
        telling.store = None;
        let after = telling.sim.kill();
        self.reopen(story, name, after, telling.catalog.path(), telling.client, true);
    }

    /// Opens what is left on a disk without faults, looks at it, tries again what was in flight, goes on, and
    /// looks again; `compare` also makes the catalog again.
    fn reopen(
        &mut self,
        story: &Story,
        name: &str,
        sim: Arc<SimFs>,
        catalog: &Path,
        mut client: Client,
        compare: bool,
    ) {
        self.report.reopened += 1;
        let disk = Arc::clone(&sim) as Arc<dyn Fs>;
        let store = match open(Arc::clone(&disk), catalog) {
            Ok(store) => store,
            Err(error) => {
                return self.note(story, name, &client, vec![format!("it does not open: {}", chain(&error))]);
            }
        };
        let spared = story.quarantined;
        let mut wrong = check(&store, disk.as_ref(), &client, spared);
        for task in spared {
            let folders = folders_of(disk.as_ref(), task_id(*task));
            if folders != ["quarantine"] {
                wrong.push(format!("task {task} is in {folders:?}, not in quarantine"));
            }
        }
        self.export(name, &sim, &client);
        for at in 0..client.steps.len() {
            if client.outcomes[at] != Outcome::Tried {
                continue;
            }
            if matches!(client.steps[at].act, Act::Reopen) {
                client.note(at, 0);
            } else if let Err(error) = client.take(&store, at) {
                wrong.push(format!("step {at} cannot be tried again: {}", chain(&error)));
            }
        }
        for task in 0..client.leases.len() {
            if client.leases[task] > 0 && !spared.contains(&task) {
                client.steps.push(Step { task, act: say("user", "and so on") });
                client.outcomes.push(Outcome::Untried);
                if let Err(error) = client.take(&store, client.steps.len() - 1) {
                    wrong.push(format!("task {task} does not go on: {}", chain(&error)));
                }
            }
        }
        wrong.extend(
            check(&store, disk.as_ref(), &client, spared)
                .into_iter()
                .map(|problem| format!("later, {problem}")),
        );
        self.export(&format!("later, {name}"), &sim, &client);
        if compare {
            // What a client is told now must be as durable as what it was told before.
            let (cut, elsewhere) = (sim.crashed_copy(self.report.reopened), place());
            match open(Arc::clone(&cut) as Arc<dyn Fs>, elsewhere.path()) {
                Ok(store) => wrong.extend(
                    check(&store, cut.as_ref(), &client, spared)
                        .into_iter()
                        .map(|problem| format!("after a power cut later, {problem}")),
                ),
                Err(error) => {
                    wrong.push(format!("it does not open after a power cut later: {}", chain(&error)))
                }
            }
            self.export(&format!("a power cut after {name}"), &cut, &client);
            wrong.extend(same_without_catalog(store, disk, catalog));
        }
        self.note(story, name, &client, wrong);
    }

    /// Keeps the tasks for the oracle, if it has not seen the like.
    fn export(&mut self, name: &str, sim: &SimFs, client: &Client) {
        for task in 0..client.leases.len() {
            let id = task_id(task);
            let folder = folders_of(sim, id).first().copied().filter(|folder| *folder != "quarantine");
            let Some(folder) = folder else { continue };
            let files = LOOKED_AT.map(|file| read(sim, &path(&[folder, &id.to_string(), file])));
            let mut hasher = DefaultHasher::new();
            files.hash(&mut hasher);
            if !self.seen.insert(hasher.finish()) {
                continue;
            }
            let dir = self.place.path().join(self.exported.len().to_string());
            fs::create_dir(&dir).unwrap();
            for (file, bytes) in LOOKED_AT.iter().zip(files) {
                if let Some(bytes) = bytes {
                    fs::write(dir.join(file), bytes).unwrap();
                }
            }
            self.exported.push((dir, name.to_owned()));
        }
    }

    fn ask(&mut self) {
        let dirs: Vec<&PathBuf> = self.exported.iter().map(|(dir, _)| dir).collect();
        for problem in ask_oracle(&dirs) {
            let state =
                self.exported.iter().find(|(dir, _)| problem.starts_with(&format!("{}/", dir.display())));
            self.report.wrong.push(format!("{}: the oracle: {problem}", state.map_or("?", |(_, name)| name)));
        }
    }
}

/// The catalog without its file is the same again.
fn same_without_catalog(store: Store, disk: Arc<dyn Fs>, catalog: &Path) -> Vec<String> {
    let listed = rows(&store).and_then(|rows| store.close().map(|()| rows));
    let before = match listed {
        Ok(rows) => rows,
        Err(error) => return vec![format!("tasks cannot be listed: {}", chain(&error))],
    };
    for file in ["tasks.db", "tasks.db-wal", "tasks.db-shm"] {
        let _ = fs::remove_file(catalog.join(file));
    }
    let after = open(disk, catalog).and_then(|store| rows(&store));
    match after {
        Ok(after) if after == before => Vec::new(),
        Ok(after) => vec![format!("without tasks.db the list is another:\n    {before:?}\n    {after:?}")],
        Err(error) => vec![format!("it does not open without tasks.db: {}", chain(&error))],
    }
}
