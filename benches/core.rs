//! Appends beside what they cannot beat and what they compete with: bare `fdatasync`, SQLite in WAL mode with full
//! syncs, a task of a million messages beside an empty one, what counting tokens and masking take of an append, and how often
//! prompt caches break.
//!
//! Everything is measured in every round, in turns, and compared within the round: the machine may be busy, but it
//! is as busy for all. `ROUNDS=n` sets how many, `ONLY=caches` measures the last of these alone. The table
//! goes to the screen and to `target/bench/core.md`.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement has no caller to tell of a failure"
)]

#[path = "core/caches.rs"]
mod caches;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use contextstore_base::model::{
    Durability, Holder, InstanceId, NewMessage, Role, StoreError, TaskConfig, TaskId, TaskKey, TokenCounter,
};
use contextstore_policy::context::count_tokens;
use contextstore_policy::mask::{MaskCounts, Masker};
use contextstore_store::store::{Append, Caller, StartTask, Store, StoreOptions};
use rusqlite::Connection;

/// How long each measurement of a round takes.
const SLICE: Duration = Duration::from_millis(60);
const CONTENT: usize = 1024;
const CALLERS: [usize; 3] = [1, 8, 64];
const LEVELS: [Durability; 3] = [Durability::Process, Durability::Group, Durability::Each];
/// Appends of each of the two tasks in one round of the last measurement.
const PAIRS: usize = 140;
const MANY: u64 = 1_000_000;

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let rounds: usize = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15);
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
    fs::create_dir_all(&out).unwrap();
    let place = tempfile::tempdir_in(&out).unwrap();
    let mut report = format!(
        "{rounds} rounds, {} processors, appends of {CONTENT} bytes of text; {:?} a measurement\n\n",
        std::thread::available_parallelism().map_or(0, usize::from),
        SLICE
    );
    let only = std::env::var("ONLY").unwrap_or_default();
    if only == "caches" {
        caches::caches(place.path(), &mut report);
        println!("{report}");
        return;
    }
    appends(place.path(), rounds, &mut report);
    counting(place.path(), rounds, &mut report);
    masking(place.path(), rounds, &mut report);
    growth(place.path(), rounds, &mut report);
    scanning(rounds, &mut report);
    caches::caches(place.path(), &mut report);
    println!("{report}");
    fs::write(out.join("core.md"), report).unwrap();
}

/// One measurement: appends a second, and the median time of one.
#[derive(Debug, Clone, Copy)]
struct Rate {
    per_second: f64,
    median: Duration,
    /// Of how many slices this is the mean.
    slices: u32,
}

impl Rate {
    fn add(&mut self, more: Self) {
        let (before, after) = (f64::from(self.slices), f64::from(self.slices + more.slices));
        self.per_second = (self.per_second * before + more.per_second) / after;
        self.median = (self.median * self.slices + more.median) / (self.slices + more.slices);
        self.slices += more.slices;
    }
}

/// Something that is measured in every round.
struct Cell {
    name: String,
    rates: Vec<Rate>,
    run: Box<dyn FnMut() -> Rate>,
}

fn appends(place: &Path, rounds: usize, report: &mut String) {
    let (store, _) = Store::open(&place.join("store"), options()).unwrap();
    let mut cells = vec![
        cell("bare write and fdatasync, 1 file", bare(place, 1)),
        cell("bare write and fdatasync, 64 files", bare(place, 64)),
        cell("SQLite, WAL and FULL, 1 caller", sqlite(place)),
    ];
    for level in LEVELS {
        for callers in CALLERS {
            for shared in [true, false] {
                if callers == 1 && !shared {
                    continue;
                }
                let name = name(level, callers, shared);
                cells.push(cell(&name, ours(&store, level, callers, shared)));
            }
        }
    }
    for round in 0..rounds {
        let count = cells.len();
        // Each round begins elsewhere, so that none always follows the same neighbour.
        for turn in 0..count {
            let cell = &mut cells[(turn + round) % count];
            let rate = (cell.run)();
            cell.rates.push(rate);
        }
        // The limit and what is held against it take turns within the round, too: the disk changes its mind.
        pair(&mut cells, "bare write and fdatasync, 1 file", &name(Durability::Group, 1, true));
        pair(&mut cells, "SQLite, WAL and FULL, 1 caller", &name(Durability::Group, 1, true));
    }
    report.push_str("| append | per second, median (quartiles) | p50 µs |\n|---|---|---|\n");
    for cell in &cells {
        let rates = cell.rates.iter().map(|rate| rate.per_second);
        let medians = cell.rates.iter().map(|rate| rate.median.as_secs_f64() * 1e6);
        let (low, middle, high) = quartiles(rates.collect());
        let (_, median, _) = quartiles(medians.collect());
        let _ = writeln!(report, "| {} | {middle:.0} ({low:.0}–{high:.0}) | {median:.0} |", cell.name);
    }
    let rate = |name: &str| &cells.iter().find(|cell| cell.name == name).unwrap().rates;
    let per_second = |name: &str| rate(name).iter().map(|rate| rate.per_second).collect::<Vec<_>>();
    let (bare, files) = ("bare write and fdatasync, 1 file", "bare write and fdatasync, 64 files");
    let one = name(Durability::Group, 1, true);
    report.push_str(
        "\n| ratio within a round | median (quartiles) | rounds won | target |\n|---|---|---|---|\n",
    );
    let mut compare = |what: &str, over: &str, under: &str, lower_wins: bool, target: &str| {
        let ratios =
            per_second(over).iter().zip(per_second(under)).map(|(over, under)| over / under).collect();
        row(report, what, ratios, lower_wins, target);
    };
    compare("time of one append, group ÷ bare fdatasync", bare, &one, true, "≤ 1.25");
    compare("appends, group ÷ SQLite", &one, "SQLite, WAL and FULL, 1 caller", false, "");
    for callers in [8, 64] {
        for shared in [true, false] {
            let many = name(Durability::Group, callers, shared);
            let target = if callers == 64 { "≥ 10" } else { "" };
            compare(&format!("appends, {many} ÷ 1 caller"), &many, &one, false, target);
        }
    }
    let own = name(Durability::Group, 64, false);
    compare("appends, group, 64 callers, a task each ÷ bare fdatasync of 64 files", &own, files, false, "");
    let each = name(Durability::Each, 1, true);
    compare("time of one append, each ÷ bare fdatasync", bare, &each, true, "");
    drop(cells);
    drop(store);
}

/// Runs two cells once more, in turns, and adds what they do to the round's rates.
fn pair(cells: &mut [Cell], first: &str, second: &str) {
    let at = |name: &str| cells.iter().position(|cell| cell.name == name).unwrap();
    let places = [at(first), at(second)];
    for place in [places[0], places[1], places[1], places[0]] {
        let cell = &mut cells[place];
        let more = (cell.run)();
        cell.rates.last_mut().unwrap().add(more);
    }
}

/// An append to a task of a million messages beside one to an empty task, in turns; and the same with bare files
/// of the same lengths, as a file system has its own price for a long file.
fn growth(place: &Path, rounds: usize, report: &mut String) {
    let dir = place.join("growth");
    let (store, _) = Store::open(&dir, options()).unwrap();
    let long = start(&store, Durability::Process);
    let message = append_of(&"y".repeat(60));
    let began = Instant::now();
    for _ in 0..MANY {
        store.append(long, &message).unwrap();
    }
    let filled = began.elapsed();
    let config = TaskConfig { durability: Some(Durability::Group), ..TaskConfig::default() };
    store.update_config(long, config, &caller()).unwrap();
    // Nothing is left to be written back when the measurement begins.
    store.close().unwrap();
    let (store, _) = Store::open(&dir, options()).unwrap();
    let log = dir.join("running").join(long.to_string()).join("messages.jsonl");
    let bare_long = Bare::new(&place.join("bare-long"), Some(&log));
    let message = append_of(&"x".repeat(CONTENT));
    let (mut ratios, mut bare_ratios) = (Vec::new(), Vec::new());
    let mut medians = [const { Vec::new() }; 4];
    for round in 0..rounds {
        let short = start(&store, Durability::Group);
        let bare_short = Bare::new(&place.join(format!("bare-short-{round}")), None);
        let mut times = [const { Vec::new() }; 4];
        for turn in 0..PAIRS {
            for step in 0..4 {
                let which = (turn + step) % 4;
                let began = Instant::now();
                match which {
                    0 => drop(store.append(long, &message).unwrap()),
                    1 => bare_long.append(),
                    2 => drop(store.append(short, &message).unwrap()),
                    _ => bare_short.append(),
                }
                times[which].push(began.elapsed().as_secs_f64() * 1e6);
            }
        }
        let round = times.map(|times| quartiles(times).1);
        ratios.push(round[0] / round[2]);
        bare_ratios.push(round[1] / round[3]);
        for (medians, round) in medians.iter_mut().zip(round) {
            medians.push(round);
        }
        store.delete_task(short, &caller()).unwrap();
    }
    row(report, "p50 of an append at 1 000 000 messages ÷ at 0", ratios, true, "≤ 1.1");
    row(report, "the same for bare fdatasync to files of these lengths", bare_ratios, true, "");
    let [at_many, bare_many, at_none, bare_none] = medians.map(|medians| quartiles(medians).1);
    let _ = writeln!(
        report,
        "\nAt a million messages p50 is {at_many:.0} µs (bare {bare_many:.0}), at none {at_none:.0} µs (bare \
         {bare_none:.0}); {PAIRS} appends each a round, in turns. Appending the million with durability `process` \
         took {:.1} s: {:.1} µs each.",
        filled.as_secs_f64(),
        filled.as_secs_f64() * 1e6 / MANY as f64,
    );
}

/// The time that each counter takes for a message beside that of a durable append of it.
fn counting(place: &Path, rounds: usize, report: &mut String) {
    const TIMES: u32 = 500;
    let (store, _) = Store::open(&place.join("counting"), options()).unwrap();
    let task = start(&store, Durability::Group);
    let words =
        "The log is read from its end: `fn tail(&self, n: usize) -> Vec<Line>` gives {\"n\": 1024} lines.\n";
    let append = append_of(&words.repeat(CONTENT / words.len() + 1)[..CONTENT]);
    for counter in TokenCounter::ALL {
        let (mut shares, mut taken) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let rate = measure(1, |_| drop(store.append(task, &append).unwrap()));
            let began = Instant::now();
            for _ in 0..TIMES {
                black_box(count_tokens(counter, black_box(&append.message)));
            }
            let count = began.elapsed() / TIMES;
            shares.push(count.as_secs_f64() / rate.median.as_secs_f64());
            taken.push(count.as_secs_f64() * 1e6);
        }
        let what =
            format!("counting by `{}`, {:.2} µs ÷ p50 of an append", counter.as_str(), quartiles(taken).1);
        row(report, &what, shares, true, if counter == TokenCounter::Fitted { "≤ 0.1" } else { "" });
    }
}

/// What masking takes of a durable append of text without secrets.
fn masking(place: &Path, rounds: usize, report: &mut String) {
    const TIMES: u32 = 500;
    let (store, _) = Store::open(&place.join("masking"), options()).unwrap();
    let task = start(&store, Durability::Group);
    let masker = Masker::standard();
    let text = &ENGLISH[..ENGLISH.floor_char_boundary(CONTENT)];
    let append = append_of(text);
    let (mut shares, mut taken) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let rate = measure(1, |_| drop(store.append(task, &append).unwrap()));
        let began = Instant::now();
        for _ in 0..TIMES {
            black_box(masker.text(black_box(text), &mut MaskCounts::default()));
        }
        let mask = began.elapsed() / TIMES;
        shares.push(mask.as_secs_f64() / rate.median.as_secs_f64());
        taken.push(mask.as_secs_f64() * 1e6);
    }
    let what = format!("masking 1 KiB, {:.2} µs ÷ p50 of an append", quartiles(taken).1);
    row(report, &what, shares, true, "≤ 0.1");
}

const ENGLISH: &str = include_str!("../ARCHITECTURE.md");

/// How fast text without secrets is looked through on one core, whole and in pieces.
fn scanning(rounds: usize, report: &mut String) {
    const BYTES: usize = 4 << 20;
    const PIECE: usize = 64 << 10;
    let json = r#"{"name":"left-pad","version":"1.3.0","resolved":"https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz","integrity":"sha512-XI5MPzVNApjAyhQzphX8BkmKsKUxD4LdyK24iZeQGinBN9yTQT3bFlCBy/aVx2HrNcqQGsdot8ghrjyrvMCoEA==","engines":{"node":">=0.10.0"},"deprecated":"use String.prototype.padStart()"},"#;
    let japanese = "エージェントの文脈はすべてディスクに置かれ、要約されても元の記録は失われません。タスクを再開すると、最後のメッセージから続きます。";
    let masker = Masker::standard();
    report.push_str("\n| masking text without secrets, one core | MB/s, median (quartiles) | in pieces of 64 KiB | target |\n|---|---|---|---|\n");
    let texts = [
        ("English", ENGLISH),
        ("code", include_str!("../server/store/src/store/task/append.rs")),
        ("Japanese", japanese),
        ("JSON", json),
    ];
    for (name, part) in texts {
        let text = part.repeat(BYTES / part.len() + 1);
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let rate = |began: Instant| text.len() as f64 / 1e6 / began.elapsed().as_secs_f64();
            let began = Instant::now();
            let mut found = MaskCounts::default();
            black_box(masker.text(black_box(&text), &mut found));
            whole.push(rate(began));
            assert!(found.is_empty(), "{name}: {found:?}");
            let (mut stream, mut out, began) =
                (masker.stream(), Vec::with_capacity(2 * PIECE), Instant::now());
            for piece in text.as_bytes().chunks(PIECE) {
                out.clear();
                stream.push(black_box(piece), &mut out);
            }
            stream.finish(&mut out);
            pieces.push(rate(began));
        }
        let ((low, middle, high), pieces) = (quartiles(whole), quartiles(pieces).1);
        let _ = writeln!(report, "| {name} | {middle:.0} ({low:.0}–{high:.0}) | {pieces:.0} | ≥ 200 |");
    }
}

/// A file that lines are appended to and synced, with nothing around it.
struct Bare {
    file: File,
    end: AtomicU64,
    line: Vec<u8>,
}

impl Bare {
    /// An empty file, or one that begins as a copy.
    fn new(path: &Path, from: Option<&Path>) -> Self {
        let file = match from {
            Some(from) => {
                fs::copy(from, path).unwrap();
                File::options().write(true).open(path).unwrap()
            }
            None => File::create(path).unwrap(),
        };
        file.sync_all().unwrap();
        let end = AtomicU64::new(file.metadata().unwrap().len());
        Self { file, end, line: line() }
    }

    fn append(&self) {
        let at = self.end.fetch_add(self.line.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(&self.line, at).unwrap();
        self.file.sync_data().unwrap();
    }
}

fn row(report: &mut String, what: &str, ratios: Vec<f64>, lower_wins: bool, target: &str) {
    let won = ratios.iter().filter(|ratio| if lower_wins { **ratio < 1.0 } else { **ratio > 1.0 }).count();
    let rounds = ratios.len();
    let (low, middle, high) = quartiles(ratios);
    let _ = writeln!(report, "| {what} | {middle:.2} ({low:.2}–{high:.2}) | {won}/{rounds} | {target} |");
}

fn quartiles(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let at =
        |part: usize| values.get((values.len().saturating_sub(1)) * part / 4).copied().unwrap_or(f64::NAN);
    (at(1), at(2), at(3))
}

fn cell(name: &str, run: impl FnMut() -> Rate + 'static) -> Cell {
    Cell { name: name.to_owned(), rates: Vec::new(), run: Box::new(run) }
}

fn name(level: Durability, callers: usize, shared: bool) -> String {
    let level = match level {
        Durability::Process => "process",
        Durability::Group => "group",
        Durability::Each => "each",
    };
    match (callers, shared) {
        (1, _) => format!("{level}, 1 caller"),
        (_, true) => format!("{level}, {callers} callers, one task"),
        (_, false) => format!("{level}, {callers} callers, a task each"),
    }
}

/// Lets callers append for one slice, all at once.
fn measure(callers: usize, append: impl Fn(usize) + Sync) -> Rate {
    let barrier = Barrier::new(callers);
    let (append, barrier) = (&append, &barrier);
    let began = Instant::now();
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|caller| {
                scope.spawn(move || {
                    let mut times = Vec::new();
                    barrier.wait();
                    let began = Instant::now();
                    while began.elapsed() < SLICE {
                        let began = Instant::now();
                        append(caller);
                        times.push(began.elapsed().as_secs_f64());
                    }
                    times
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let taken = began.elapsed();
    let count = times.len();
    times.sort_by(f64::total_cmp);
    let median = Duration::from_secs_f64(times.get(count / 2).copied().unwrap_or(0.0));
    Rate { per_second: count as f64 / taken.as_secs_f64(), median, slices: 1 }
}

fn ours(store: &Store, level: Durability, callers: usize, shared: bool) -> impl FnMut() -> Rate + 'static {
    let store = store.clone();
    let tasks: Vec<TaskId> = (0..if shared { 1 } else { callers }).map(|_| start(&store, level)).collect();
    let message = append_of(&"x".repeat(CONTENT));
    move || {
        measure(callers, |caller| {
            store.append(tasks[caller % tasks.len()], &message).unwrap();
        })
    }
}

/// What a line of ours comes to on disk.
fn line() -> Vec<u8> {
    let envelope =
        "{\"seq\":100000,\"role\":\"user\",\"timestamp\":\"2026-11-16T03:15:31.123456Z\",\"tokens\":300,";
    format!(
        "{envelope}\"durable_to\":100000000,\"content\":\"{}\",\"crc\":\"9a3f01c2\"}}\n",
        "x".repeat(CONTENT)
    )
    .into_bytes()
}

fn bare(place: &Path, files: usize) -> impl FnMut() -> Rate + 'static {
    let files: Vec<Bare> =
        (0..files).map(|number| Bare::new(&place.join(format!("bare-{files}-{number}")), None)).collect();
    move || measure(files.len(), |caller| files[caller].append())
}

fn sqlite(place: &Path) -> impl FnMut() -> Rate + 'static {
    let path: PathBuf = place.join("peer.db");
    let conn = Connection::open(path).unwrap();
    let mode: String = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    conn.pragma_update(None, "synchronous", "FULL").unwrap();
    conn.execute("CREATE TABLE messages (seq INTEGER PRIMARY KEY, body TEXT NOT NULL)", []).unwrap();
    let line = String::from_utf8(line()).unwrap();
    let conn = Mutex::new(conn);
    move || {
        measure(1, |_| {
            let conn = conn.lock().unwrap();
            conn.prepare_cached("INSERT INTO messages (body) VALUES (?1)").unwrap().execute([&line]).unwrap();
        })
    }
}

fn options() -> StoreOptions {
    StoreOptions { ballast_bytes: 0, max_open_tasks: 1024, ..StoreOptions::default() }
}

fn start(store: &Store, level: Durability) -> TaskId {
    let started: Result<_, StoreError> = store.start_task(StartTask {
        id: None,
        key: TaskKey::default(),
        user: "bench".to_owned(),
        config: TaskConfig { durability: Some(level), ..TaskConfig::default() },
        holder: Holder {
            instance_id: InstanceId::parse("bench").unwrap(),
            process_id: std::process::id(),
            hostname: "here".to_owned(),
        },
        request_id: None,
    });
    started.unwrap().id
}

fn caller() -> Caller {
    Caller { request_id: None, lease_generation: 1 }
}

fn append_of(text: &str) -> Append {
    Append { message: NewMessage::text(Role::User, text), caller: caller() }
}
