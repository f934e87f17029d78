//! What must not grow with how much there is: appends to a long task, memory for a large view, starting a full
//! directory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use contextstore_client::{Client, ReadCurrent, Task, v1};
use futures_util::future::join_all;
use futures_util::stream::{StreamExt, iter, repeat_with};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::calls::{fill, message};
use crate::limits::Bare;
use crate::report::{Cell, Sample, quartiles};
use crate::server::{self, Server};
use crate::targets::{Bound, Target};
use crate::{CONTENT, measure, setting};

/// Appends of each kind in one round.
const PAIRS: usize = 100;
/// Streams at once.
const STREAMS: usize = 16;
/// What each of these reads.
const PART: u64 = 1 << 30;

fn target(number: u32, what: String, bound: Bound, rounds: Vec<f64>) -> Target {
    Target { number, what, bound, rounds, limit: None }
}

/// An append to a long task beside one to an empty task, in turns; and the same with bare files of the same
/// lengths, as a file system has its own price for a long file.
pub(crate) fn growth(runtime: &Runtime, server: &Server, place: &Path, rounds: usize) -> Vec<Target> {
    let count = setting("MESSAGES", 100_000);
    eprintln!("a task of {count} messages");
    let (client, long) = runtime.block_on(async {
        let client = server.client().await;
        let long = server::start(&client, "process").await;
        let mut answers = long.append_many(repeat_with(|| message(60)).take(count)).await.unwrap();
        while answers.try_next().await.unwrap().is_some() {}
        let config = v1::TaskConfig { durability: v1::Durability::Group.into(), ..Default::default() };
        long.update(config).await.unwrap();
        (client, long)
    });
    let log = server.directory(long.uuid()).join("messages.jsonl");
    File::open(&log).unwrap().sync_all().unwrap();
    let bare_long = Bare::new(&place.join("bare-long"), Some(&log));
    let bare_short = place.join("bare-short");
    let handle = runtime.handle().clone();
    let run = move || handle.block_on(pairs(&client, &long, &bare_long, &bare_short));
    let mut cells = [Cell::new(0, String::new(), run)];
    measure(&mut cells, rounds);
    let (low, middle, high) = quartiles(&cells[0].medians());
    let what = format!(
        "Rust durable append, p50, at message {count} ÷ at 0 (bare fdatasync to files of these lengths: {middle:.2}, \
         {low:.2}–{high:.2})"
    );
    vec![target(9, what, Bound::AtMost(1.1), cells[0].rates())]
}

/// Appends to both in turns; answers how much longer it takes to append to the long one, and to its bare file.
async fn pairs(client: &Client, long: &Task, bare_long: &Bare, bare_short: &Path) -> Sample {
    let short = server::start(client, "group").await;
    let bare_short = Bare::new(bare_short, None);
    let mut times = [const { Vec::new() }; 4];
    for turn in 0..PAIRS {
        for step in 0..4 {
            let which = (turn + step) % 4;
            let began = Instant::now();
            match which {
                0 => append(long).await,
                1 => bare_long.append(),
                2 => append(&short).await,
                _ => bare_short.append(),
            }
            times[which].push(began.elapsed().as_secs_f64());
        }
    }
    short.delete().await.unwrap();
    let [at_many, bare_many, at_none, bare_none] = times.map(|times| quartiles(&times).1);
    Sample::new(at_many / at_none, bare_many / bare_none)
}

async fn append(task: &Task) {
    task.append(message(CONTENT)).await.unwrap();
}

/// How much memory the server takes for streams of a view that is larger than all of it.
pub(crate) fn memory(runtime: &Arc<Runtime>, binary: &Path, place: &Path) -> Vec<Target> {
    let bytes = setting("STREAM", 10_u64) << 30;
    eprintln!("a view of {} GiB", bytes >> 30);
    let data = place.join("large");
    let server = Server::start(binary, &data);
    let uuid = runtime.block_on(async { fill(&server.client().await, 1, 1).await });
    let directory = server.directory(&uuid);
    server.stop();
    stretch(&directory, bytes);

    let mut targets = Vec::new();
    for (streams, each, most) in [(1, bytes, 8.0), (STREAMS, PART.min(bytes), 64.0)] {
        let server = Server::start(binary, &data);
        let growth = runtime.block_on(async {
            let clients = join_all((0..streams).map(|_| server.client())).await;
            for client in &clients {
                client.get_task(&uuid).await.unwrap();
            }
            let before = server.rss();
            server.forget_peak();
            let reading = clients.iter().map(|client| tokio::spawn(read(client.clone(), uuid.clone(), each)));
            for ended in join_all(reading).await {
                ended.unwrap();
            }
            server.peak().saturating_sub(before)
        });
        server.stop();
        let what = match streams {
            1 => format!("MB that the server's memory grows by for a stream of {} GiB", each >> 30),
            _ => format!("the same for {streams} streams at once, {} GiB of each", each >> 30),
        };
        targets.push(target(10, what, Bound::AtMost(most), vec![growth as f64 / 1e6]));
    }
    fs::remove_dir_all(&data).unwrap();
    targets
}

/// Reads so many bytes of a view.
async fn read(client: Client, uuid: String, bytes: u64) {
    let mut chunks = client.task(uuid).current(ReadCurrent::default()).await.unwrap();
    let mut seen = 0;
    while seen < bytes {
        seen += chunks.try_next().await.unwrap().expect("the view is long enough").len() as u64;
    }
}

/// Makes the view of a task as long as wanted with a hole behind it, and lets its checkpoint vouch for that: writing
/// so much would take longer than all the rest, and twice the disk.
fn stretch(directory: &Path, bytes: u64) {
    let view = File::options().write(true).open(directory.join("current.jsonl")).unwrap();
    view.set_len(bytes).unwrap();
    let path = directory.join("checkpoint.json");
    let mut checkpoint: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    checkpoint.as_object_mut().unwrap().remove("crc");
    checkpoint["view"]["state"]["len"] = bytes.into();
    let mut line = checkpoint.to_string();
    line.pop();
    let crc = crc32fast::hash(line.as_bytes());
    fs::write(path, format!("{line},\"crc\":\"{crc:08x}\"}}\n")).unwrap();
}

/// How long a start takes with many tasks, beside one without any and beside a process that only says its version.
pub(crate) fn start(runtime: &Arc<Runtime>, binary: &Path, place: &Path, rounds: usize) -> Vec<Target> {
    let count = setting("TASKS", 10_000);
    eprintln!("a directory of {count} tasks");
    let (full, empty) = (place.join("full"), place.join("empty"));
    let server = Server::start(binary, &full);
    runtime.block_on(async {
        let client = server.client().await;
        let starts = iter(0..count).map(|_| server::start(&client, "group"));
        starts.buffer_unordered(32).for_each(|_| std::future::ready(())).await;
    });
    server.stop();
    Server::start(binary, &empty).stop();

    let once = |data: PathBuf| {
        let (runtime, binary) = (Arc::clone(runtime), binary.to_owned());
        Cell::new(0, String::new(), move || {
            let server = Server::start(&binary, &data);
            runtime.block_on(async { server.client().await.server_info().await.unwrap() });
            let called = server.started.elapsed().as_secs_f64() * 1e3;
            let listening = server.listening.as_secs_f64() * 1e3;
            server.stop();
            Sample::new(listening, called)
        })
    };
    let binary = binary.to_owned();
    let version = move || {
        let began = Instant::now();
        assert!(Command::new(&binary).arg("--version").output().unwrap().status.success());
        Sample::new(began.elapsed().as_secs_f64() * 1e3, f64::NAN)
    };
    let mut cells = [once(full), once(empty), Cell::new(0, String::new(), version)];
    measure(&mut cells, rounds);
    let [full, empty, version] = &cells;
    let listens = format!(
        "ms until a server with {count} tasks listens (with none {:.1}; `--version` takes {:.1})",
        quartiles(&empty.rates()).1,
        quartiles(&version.rates()).1,
    );
    let answers =
        format!("ms until its first call is answered (with none {:.1})", quartiles(&empty.medians()).1);
    vec![
        target(11, listens, Bound::AtMost(10.0), full.rates()),
        target(11, answers, Bound::AtMost(25.0), full.medians()),
    ]
}
