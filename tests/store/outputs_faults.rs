//! Every call to the disk that puts, collections and packing make fails once, and is once the last: no ref that was told and
//! named is lost, nothing is read back other than it was put, and what is packed reads as before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use contextstore_base::infra::clock::ManualClock;
use contextstore_base::infra::fs::Fs;
use contextstore_base::infra::fs::fault::{Errno, Fault, FaultFs};
use contextstore_base::infra::fs::sim::SimFs;
use contextstore_base::model::{RequestId, StoreError, TaskId, ToolCall, ToolStatus};
use contextstore_store::outputs::{Found, Grep, GrepOptions, Lines, Matches, OutputId, Raw, ViewLimits};
use contextstore_store::store::layout::{Folder, OUTPUTS};
use contextstore_store::store::{NewOutput, Output, PutDone, Started, Store};
use test_support::store::{ground, options, start};

const LIMITS: ViewLimits =
    ViewLimits { max_line_length: 200, max_bytes: 2048, tail_bytes: 256, part_bytes: 0 };

fn text(n: usize, lines: usize) -> String {
    (1..=lines).map(|line| format!("output {n}: line {line} of many\n")).collect()
}

fn new(task: &Started, name: Option<&str>) -> NewOutput {
    let call = ToolCall {
        tool_name: "ls".to_owned(),
        arguments: None,
        result: None,
        output_ref: None,
        status: ToolStatus::Success,
        error: None,
        duration_ms: None,
        message_seq: None,
    };
    let id = |part: &str| name.map(|name| RequestId::parse(&format!("{name}/{part}")).unwrap());
    NewOutput {
        tool_name: "ls".to_owned(),
        tool_call_id: "c".to_owned(),
        media_type: String::new(),
        append: name.is_some(),
        record: name.map(|_| call),
        limits: LIMITS,
        lease_generation: task.lease_generation,
        record_id: id("record"),
        message_id: id("message"),
    }
}

fn put(store: &Store, task: &Started, name: Option<&str>, bytes: &[u8]) -> Result<PutDone, StoreError> {
    let mut put = store.begin_put(task.id, new(task, name))?;
    for piece in bytes.chunks(30_000) {
        put.write(piece)?;
    }
    put.finish()
}

fn read(store: &Store, id: TaskId, output: OutputId) -> Result<Vec<u8>, StoreError> {
    let Output { content, meta, .. } = store.output(id, output)?;
    let mut raw = Raw::new(content, &meta, 0, 0).map_err(|error| store.bad_output(id, output, error))?;
    let (mut all, mut more) = (Vec::new(), true);
    while more {
        let mut chunk = Vec::new();
        more = raw.step(&mut chunk, 10_000).map_err(|error| store.bad_output(id, output, error))?.more;
        all.extend(chunk);
    }
    Ok(all)
}

/// What was told of outputs that a log names.
type Named = BTreeMap<OutputId, Vec<u8>>;

/// Puts, twice the same, collects, packs. What fails is passed over, as a caller would that goes on.
fn story(store: &Store, task: &Started, named: &mut Named) {
    let small = text(1, 10).into_bytes();
    let large = text(2, 3000).into_bytes();
    for (name, bytes) in [("a", &small), ("b", &large), ("a", &small)] {
        if let Ok(done) = put(store, task, Some(name), bytes) {
            named.insert(done.id, bytes.clone());
        }
    }
    let _ = put(store, task, None, text(3, 2000).as_bytes());
    let _ = put(store, task, None, b"nobody names it");
    let _ = store.collect_garbage(Some(task.id), Duration::ZERO, false);
    let _ = store.pack_outputs(Duration::ZERO);
    // The same bytes again, beside those that are packed.
    if let Ok(done) = put(store, task, Some("c"), &large) {
        named.insert(done.id, large);
    }
    let _ = store.collect_garbage(None, Duration::ZERO, false);
}

struct World {
    sim: Arc<SimFs>,
    disk: Arc<FaultFs>,
    catalog: tempfile::TempDir,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> Self {
        let sim = SimFs::new();
        let disk = FaultFs::new(Arc::clone(&sim) as Arc<dyn Fs>);
        let catalog = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Self { sim, disk, catalog, clock: ManualClock::shared() }
    }

    fn open(&self) -> (Store, Started) {
        let fs = Arc::clone(&self.disk) as Arc<dyn Fs>;
        let (store, _) = Store::open_on(ground(fs, self.catalog.path(), &self.clock), options()).unwrap();
        let task = start(&store, None, "a").unwrap();
        (store, task)
    }
}

/// All that was told is there on a disk, and nothing is left that nobody needs.
fn check(sim: &Arc<SimFs>, world: &World, id: TaskId, named: &Named, what: &str) {
    let elsewhere = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let fs = Arc::clone(sim) as Arc<dyn Fs>;
    let (store, _) = Store::open_on(ground(fs, elsewhere.path(), &world.clock), options()).unwrap();
    for (output, bytes) in named {
        let found = read(&store, id, *output).unwrap_or_else(|error| panic!("{what}: {output}: {error}"));
        assert!(found == *bytes, "{what}: {output} is other than it was put");
    }
    store.collect_garbage(Some(id), Duration::ZERO, false).unwrap();
    let mut names = Vec::new();
    let dir = Folder::Running.task(id).join(OUTPUTS);
    let listed = sim.list(&dir, &mut |entry| {
        names.push(entry.name.to_string());
        Ok(())
    });
    assert!(listed.is_ok() || named.is_empty(), "{what}");
    assert!(!names.iter().any(|name| name.starts_with("put-")), "{what}: {names:?}");
    for (output, bytes) in named {
        assert!(read(&store, id, *output).unwrap() == *bytes, "{what}: {output} was collected");
    }
    let indexes = names.iter().filter(|name| name.ends_with(".meta")).count();
    let outputs = store.outputs_after(id, None, 100).unwrap();
    assert_eq!(outputs.len(), indexes, "{what}: {names:?}");
}

#[test]
fn no_ref_is_lost_whichever_call_fails_or_is_the_last() {
    let world = World::new();
    let (store, task) = world.open();
    world.disk.reset_counts();
    let mut named = Named::new();
    story(&store, &task, &mut named);
    assert_eq!(named.len(), 2);
    let calls = world.disk.calls();
    check(&world.sim.crash(1), &world, task.id, &named, "without a fault");
    let step = test_support::sized(5, 1);
    let mut faults = 0;
    for call in (0..calls).filter(|call| call % step == 0 || *call < 60) {
        for fault in [Fault::Error(Errno::IO), Fault::Error(Errno::NOSPC), Fault::Death { seed: call }] {
            let world = World::new();
            let (store, task) = world.open();
            world.disk.reset_counts();
            world.disk.arm(call, fault);
            let mut named = Named::new();
            story(&store, &task, &mut named);
            let what = format!("{fault:?} at {:?}", world.disk.fired());
            faults += usize::from(!world.disk.fired().is_empty());
            for seed in 0..2 {
                check(&world.sim.crashed_copy(seed), &world, task.id, &named, &format!("{what}, cut {seed}"));
            }
            check(&world.sim.kill(), &world, task.id, &named, &format!("{what}, killed"));
        }
    }
    println!("{faults} faults at {calls} calls");
    assert!(faults > 100);
}

struct Taken(Vec<u64>);

impl Matches for Taken {
    fn take(&mut self, found: Found) -> bool {
        self.0.push(found.line_number);
        true
    }

    fn waits(&self) -> bool {
        true
    }
}

#[test]
fn what_is_packed_reads_and_is_searched_as_before() {
    let world = World::new();
    let (store, task) = world.open();
    let bytes = text(7, 60_000).into_bytes();
    let done = put(&store, &task, Some("a"), &bytes).unwrap();
    let before = store.output(task.id, done.id).unwrap();
    let on_disk = before.bytes_on_disk();
    assert_eq!(store.pack_outputs(Duration::from_secs(3600)).unwrap(), 0, "it is new");
    assert_eq!(store.pack_outputs(Duration::ZERO).unwrap(), 1);
    assert_eq!(store.pack_outputs(Duration::ZERO).unwrap(), 0);
    let packed = store.output(task.id, done.id).unwrap();
    assert!(packed.content.is_packed() && packed.bytes_on_disk() < on_disk / 4, "{}", packed.bytes_on_disk());
    assert_eq!(packed.meta.head, before.meta.head);
    assert!(read(&store, task.id, done.id).unwrap() == bytes);
    // Whoever has it open reads on.
    let mut old = Raw::new(before.content, &before.meta, 0, 0).unwrap();
    assert!(old.step(&mut Vec::new(), 1 << 30).is_ok());

    // A line far behind unpacks one frame.
    world.disk.reset_counts();
    let Output { content, meta, .. } = store.output(task.id, done.id).unwrap();
    let mut lines = Lines::new(content, &meta, 59_998, 1, 0).unwrap();
    let mut out = Vec::new();
    while lines.step(&mut out, 100).unwrap().more {}
    assert_eq!(String::from_utf8(out).unwrap(), " 59999\toutput 7: line 59999 of many\n");
    assert!(world.disk.bytes_read() < 256 << 10, "{}", world.disk.bytes_read());

    let options = GrepOptions {
        pattern: "line (1|59998|60000) ".to_owned(),
        ignore_case: false,
        fixed: false,
        before: 0,
        after: 0,
        max_line_length: 100,
    };
    let mut taken = Taken(Vec::new());
    let grep = Grep::new(options).unwrap();
    grep.search(store.output(task.id, done.id).unwrap().content, 0, &mut taken, &mut Duration::MAX.clone())
        .unwrap();
    assert_eq!(taken.0, [1, 59_998, 60_000]);

    // One bit is enough to be noticed.
    let path = Folder::Running.task(task.id).join(OUTPUTS).join(done.id.packed());
    let mut damaged = world.sim.read_file(&path).unwrap();
    damaged[5000] ^= 4;
    world.sim.write_file(&path, &damaged).unwrap();
    let told = read(&store, task.id, done.id);
    assert!(matches!(told, Err(StoreError::OutputDamaged { .. })), "{told:?}");
}
