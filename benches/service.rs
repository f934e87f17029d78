//! The service beside what bounds it and what it competes with, from Rust and from Python.
//!
//! Everything is measured in every round, in turns, and compared within the round: the machine may be busy, but it
//! is as busy for all; and what others disturb is measured again (`service/quiet.rs`). What is compared stands side by side, and each round goes there and back. The tables go to
//! the screen and to `target/bench/service.md`; the targets at their end say themselves whether they are reached.
//!
//! `ROUNDS=n` sets how many. `ONLY=a|b` keeps the measurements whose names contain one of these; those at the end are
//! `grep`, `growth`, `memory` and `start`. `AGAINST=binary` compares this build of the server with another one instead.
//! `MESSAGES=n`, `STREAM=gigabytes` and `TASKS=n` set how
//! much is put into the long task, the large view and the full directory. `PYTHON` runs `benches/python`. `AWAKE=1` keeps the
//! processors from going to sleep (`service/awake.rs`): what that saves is the machine's, not the server's.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a measurement has no caller to tell of a failure"
)]

#[path = "service/awake.rs"]
mod awake;
#[path = "service/calls.rs"]
mod calls;
#[path = "service/floor.rs"]
mod floor;
#[path = "service/grep.rs"]
mod grep;
#[path = "service/large.rs"]
mod large;
#[path = "service/limits.rs"]
mod limits;
#[path = "service/quiet.rs"]
mod quiet;
#[path = "service/report.rs"]
mod report;
#[path = "service/server.rs"]
mod server;
#[path = "service/targets.rs"]
mod targets;
#[path = "service/worker.rs"]
mod worker;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Runtime;

use calls::Calls;
use quiet::Quiet;
use report::{Cell, Sample};
use server::Server;
use worker::Worker;

/// How long each measurement takes, twice a round.
const SLICE: Duration = Duration::from_millis(150);
/// Bytes of text in a message.
const CONTENT: usize = 1024;
/// Bytes of the view that is streamed.
const VIEW: usize = 256 << 20;
/// Bytes of the view that is read as a context.
const CONTEXT: usize = 1 << 20;

fn main() {
    // `cargo test --benches` only wants to know that it builds and starts.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
    fs::create_dir_all(&out).unwrap();
    let out = out.canonicalize().unwrap();
    let place = tempfile::tempdir_in(&out).unwrap();
    let runtime = Arc::new(Runtime::new().unwrap());
    let rounds = setting("ROUNDS", 15);
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_contextstore"));
    let mut report = format!(
        "{rounds} rounds, {} processors; messages of {CONTENT} bytes of text, a view of {} MiB; {SLICE:?} a \
         measurement, twice a round; all on Unix sockets and one disk\n\n",
        std::thread::available_parallelism().map_or(0, usize::from),
        VIEW >> 20,
    );
    let awake = std::env::var_os("AWAKE").map(|_| awake::Awake::keep());
    if awake.is_some() {
        report.push_str("The processors were kept from going to sleep.\n\n");
    }
    match std::env::var_os("AGAINST") {
        Some(other) => {
            against(&runtime, place.path(), &binary, Path::new(&other), rounds, &mut report);
        }
        None => whole(&runtime, place.path(), &binary, rounds, &mut report),
    }
    println!("{report}");
    fs::write(out.join("service.md"), report).unwrap();
}

/// A number that the environment may set.
fn setting<T: FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

fn whole(runtime: &Arc<Runtime>, place: &Path, binary: &Path, rounds: usize, report: &mut String) {
    let server = Server::start(binary, &place.join("data"));
    let calls = Calls::new(runtime, &server);
    let mut cells = limits::cells(place, &calls);
    cells.extend(calls.cells(""));
    cells.extend(python(place, &server, &calls, "").into_iter().chain(peers(place)));
    in_order(&mut cells);
    let quiet = measure(&mut cells, rounds);
    report::cells(&cells, report);
    let _ = writeln!(report, "\n{quiet}\n");
    let mut targets = targets::of(&cells, report);
    drop(cells);
    drop(calls);
    let only = std::env::var("ONLY").ok();
    let wanted = |name| only.as_ref().is_none_or(|only| only.split('|').any(|part| part == name));
    if wanted("grep") {
        targets.extend(grep::targets(runtime, &server, place, rounds));
    }
    if wanted("growth") {
        targets.extend(large::growth(runtime, &server, place, rounds));
    }
    drop(server);
    if wanted("memory") {
        targets.extend(large::memory(runtime, binary, place));
    }
    if wanted("start") {
        targets.extend(large::start(runtime, binary, place, rounds));
    }
    targets::table(targets, report);
}

/// This build of the server beside another, and nothing else.
fn against(
    runtime: &Arc<Runtime>,
    place: &Path,
    this: &Path,
    other: &Path,
    rounds: usize,
    report: &mut String,
) {
    let mut sides = Vec::new();
    for (name, binary) in [("this", this), ("other", other)] {
        let place = place.join(name);
        fs::create_dir(&place).unwrap();
        let server = Server::start(binary, &place.join("data"));
        let calls = Calls::new(runtime, &server);
        let mut cells = calls.cells("");
        cells.extend(python(&place, &server, &calls, ""));
        in_order(&mut cells);
        sides.push((server, cells));
    }
    let (_other, theirs) = sides.pop().unwrap();
    let (_this, ours) = sides.pop().unwrap();
    let mut cells = Vec::new();
    for (mut ours, mut theirs) in ours.into_iter().zip(theirs) {
        ours.name += ", this build";
        theirs.name += ", the other";
        cells.extend([ours, theirs]);
    }
    let quiet = measure(&mut cells, rounds);
    report::cells(&cells, report);
    let _ = writeln!(report, "\n{quiet}\n");
    report::ratios_head(report);
    for pair in cells.chunks(2) {
        let ratios = report::ratios(&pair[0].rates(), &pair[1].rates());
        let what = pair[0].name.replace(", this build", ": this build ÷ the other");
        report::ratio_row(&what, &ratios, report);
    }
}

/// Keeps what is asked for, with those side by side that are compared.
fn in_order(cells: &mut Vec<Cell>) {
    if let Ok(only) = std::env::var("ONLY") {
        cells.retain(|cell| only.split('|').any(|part| cell.name.contains(part)));
    }
    cells.sort_by_key(|cell| cell.place);
}

/// Runs everything once there and once back in each round; each round begins elsewhere.
fn measure(cells: &mut [Cell], rounds: usize) -> Quiet {
    let mut quiet = Quiet::default();
    let count = cells.len();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        let there: Vec<usize> = (0..count).map(|turn| (turn + round) % count).collect();
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); count];
        for at in there.iter().chain(there.iter().rev()) {
            samples[*at].push(quiet.measure(&mut cells[*at].run));
        }
        for (cell, samples) in cells.iter_mut().zip(samples) {
            cell.samples.push(Sample::mean(&samples));
        }
    }
    quiet
}

/// The Python client. The order is that of `place`: beside what bounds it.
fn python(place: &Path, server: &Server, calls: &Calls, note: &str) -> Vec<Cell> {
    let worker = Worker::start("ours", &format!("unix:{}", server.socket().display()));
    let seconds = SLICE.as_secs_f64();
    let cell = |at: u32, name: &str, request: serde_json::Value| {
        Cell::new(at, format!("Python, {name}{note}"), worker.cell(request))
    };
    let mut cells = vec![
        cell(11, "no-op", json!({"cell": "no-op", "seconds": seconds})),
        cell(
            13,
            "bare no-op (health, without the client)",
            json!({"cell": "no-op, bare", "seconds": seconds}),
        ),
        cell(4, "stream", json!({"cell": "stream", "task_uuid": calls.view})),
        cell(
            51,
            "1 MB context as messages",
            json!({"cell": "context", "task_uuid": calls.context, "seconds": seconds}),
        ),
    ];
    let words = [("group", "durable", 12), ("process", "not durable", 42)];
    for (durability, word, at) in words {
        let pipelined = json!({"cell": "pipelined", "durability": durability, "seconds": seconds});
        cells.push(cell(at + 2, &format!("{word}, pipelined"), pipelined));
        for (callers, name, at) in
            [(1, "one by one", at), (8, "8 callers", at + 18), (64, "64 callers", at + 19)]
        {
            let append =
                json!({"cell": "append", "durability": durability, "callers": callers, "seconds": seconds});
            cells.push(cell(at, &format!("{word}, {name}"), append));
        }
    }
    let floor = format!("unix:{}", floor::serve(place).display());
    for (at, name, method) in [(11, targets::FLOOR_NO_OP, "No"), (12, targets::FLOOR, "Sync")] {
        let call = json!({"cell": "floor", "address": floor, "method": method, "seconds": seconds});
        cells.push(cell(at, name, call));
    }
    let context = json!({"cell": "file", "path": server.view(&calls.context), "seconds": seconds});
    cells.push(cell(52, "1 MB file, read and parsed by orjson", context));
    let replay = place.join("replay.sock");
    limits::replay(&calls.runtime, &replay, VIEW);
    cells.push(cell(
        5,
        "grpcio alone, same bytes",
        json!({"cell": "ceiling", "address": format!("unix:{}", replay.display())}),
    ));
    cells
}

/// What agents use otherwise.
fn peers(place: &Path) -> Vec<Cell> {
    let place = place.join("peers");
    fs::create_dir(&place).unwrap();
    let worker = Worker::start("peers", &place.display().to_string());
    let seconds = SLICE.as_secs_f64();
    let mut cells = Vec::new();
    let mut add = |at: u32, name: &str, request: serde_json::Value| {
        if worker.knows(request["cell"].as_str().unwrap()) {
            cells.push(Cell::new(at, format!("Python, {name}"), worker.cell(request)));
        }
    };
    add(15, targets::SQLITE, json!({"cell": "sqlite", "seconds": seconds}));
    add(16, "OpenAI Agents SQLiteSession", json!({"cell": "session", "seconds": seconds}));
    add(17, "Redis, appendfsync always", json!({"cell": "redis", "seconds": seconds}));
    add(
        18,
        "LangGraph SqliteSaver behind 1000 messages",
        json!({"cell": "langgraph", "behind": 1000, "seconds": seconds}),
    );
    add(
        19,
        "LangGraph SqliteSaver behind 100 messages",
        json!({"cell": "langgraph", "behind": 100, "seconds": seconds}),
    );
    cells
}
