//! A server that is killed under load: whatever it acknowledged is there afterwards, once, under the number it was
//! told, and what was under way can be sent again.
//!
//! One directory grows over all cycles; each cycle starts the server on what the kill before has left.
//! `CONTEXTSTORE_CYCLES=n` for how many (20; `make test-long`: 1 000), `CONTEXTSTORE_SEED=n` to repeat a run; what a
//! kill hits depends on the machine too, so a repeated run is alike, not the same.

mod notes;
mod writers;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use contextstore_client::Client;
use fastrand::Rng;
use rustix::process::Signal;

use notes::{Log, Notes};
use test_support::server::{DEADLINE, TestServer};
use test_support::service::{doctor, once, oracle};
use test_support::{number, sized};
use writers::{Kind, Tally, Writer};

/// Cycles after which writers go on with a new task.
const CYCLES_OF_A_TASK: u64 = 5;

/// The four of them.
fn writers(seed: u64, tally: &Arc<Tally>) -> [Writer; 4] {
    [Kind::Unary, Kind::Pipelined, Kind::Records, Kind::Lifecycle]
        .map(|kind| Writer::new(kind, seed ^ kind as u64, Arc::clone(tally)))
}

/// When a server is killed.
#[derive(Debug)]
enum Moment {
    /// When so many calls more were acknowledged.
    Acknowledged(u64),
    /// So long after the writers began.
    After(Duration),
}

/// Lets all writers work, and ends the server.
async fn work_and(
    end: impl FnOnce(&mut TestServer),
    server: &mut TestServer,
    writers: &mut [Writer; 4],
    moment: &Moment,
    tally: &Tally,
) {
    let clients = [once(server).await, once(server).await, once(server).await, once(server).await];
    let raws = clients.each_ref().map(Client::raw);
    let [a, b, c, d] = writers;
    let before = tally.acknowledged.load(Ordering::Relaxed);
    let begun = Instant::now();
    let end = async {
        let is_due = || match moment {
            Moment::Acknowledged(more) => tally.acknowledged.load(Ordering::Relaxed) >= before + more,
            Moment::After(time) => begun.elapsed() >= *time,
        };
        while !is_due() {
            assert!(begun.elapsed() < DEADLINE, "nothing happens");
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        end(server);
    };
    tokio::join!(a.work(&raws[0]), b.work(&raws[1]), c.work(&raws[2]), d.work(&raws[3]), end);
}

async fn check<'a>(client: &Client, tasks: impl Iterator<Item = &'a Notes>) -> Vec<String> {
    let mut wrong = Vec::new();
    for task in tasks {
        wrong.append(&mut task.check(client).await);
    }
    wrong
}

fn newest(writers: &[Writer; 4]) -> impl Iterator<Item = &Notes> {
    writers.iter().flat_map(|writer| writer.tasks.iter().rev().take(2))
}

fn all(writers: &[Writer; 4]) -> impl Iterator<Item = &Notes> {
    writers.iter().flat_map(|writer| &writer.tasks)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_or_doubled_when_the_server_is_killed() {
    let cycles = number("CONTEXTSTORE_CYCLES").unwrap_or(sized(20, 1000));
    let seed = number("CONTEXTSTORE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    println!("CONTEXTSTORE_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let tally = Arc::new(Tally::default());
    let mut writers = writers(seed, &tally);
    let mut server = TestServer::start().await;
    for cycle in 1..=cycles {
        let moment = match rng.u8(..3) {
            0 => Moment::After(Duration::from_micros(rng.u64(..100_000))),
            _ => Moment::Acknowledged(rng.u64(..400)),
        };
        work_and(TestServer::kill, &mut server, &mut writers, &moment, &tally).await;
        // Now and then it dies again while it recovers, or before it has taken a call.
        while rng.u8(..4) == 0 {
            server.launch();
            tokio::time::sleep(Duration::from_micros(rng.u64(..60_000))).await;
            server.kill();
        }
        server.restart().await;
        let wrong = check(&server.client().await, newest(&writers)).await;
        assert!(wrong.is_empty(), "after cycle {cycle} ({moment:?}):\n{}", wrong.join("\n"));
        if cycle % CYCLES_OF_A_TASK == 0 {
            writers.iter_mut().for_each(Writer::leave_task);
        }
    }
    let client = once(&server).await;
    for writer in &mut writers {
        writer.finish(&client.raw()).await;
    }
    let wrong = check(&client, all(&writers)).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(server.terminate().await.success());
    assert_eq!(doctor(&server.data_dir()), None);
    assert_eq!(oracle(&server.data_dir()), None);

    let verified: usize = all(&writers).map(Notes::acknowledged).sum();
    let [repeated, duplicates] =
        [&tally.repeated, &tally.duplicates].map(|count| count.load(Ordering::Relaxed));
    let tasks = all(&writers).count();
    println!(
        "{cycles} kills, {tasks} tasks, {verified} acknowledged records verified; {repeated} calls sent again, of \
         which at least {duplicates} had happened"
    );
    assert!(repeated > 0 && duplicates > 0, "no call was under way when the server was killed");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_or_doubled_when_the_server_is_stopped_under_load() {
    let seed = number("CONTEXTSTORE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    println!("CONTEXTSTORE_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let tally = Arc::new(Tally::default());
    let mut writers = writers(seed, &tally);
    let mut server = TestServer::start().await;
    let mut slowest = Duration::ZERO;
    for cycle in 1..=20 {
        let moment = Moment::Acknowledged(rng.u64(..300));
        let signal = if rng.bool() { Signal::TERM } else { Signal::INT };
        let mut told = Instant::now();
        let stop = |server: &mut TestServer| {
            told = Instant::now();
            server.signal(signal);
        };
        work_and(stop, &mut server, &mut writers, &moment, &tally).await;
        let status = server.ended().await;
        slowest = slowest.max(told.elapsed());
        assert_eq!(status.code(), Some(0), "{}", server.log());
        assert_eq!(doctor(&server.data_dir()), None, "after stop {cycle}");
        let said = server.log().len();
        server.restart().await;
        assert!(!server.log()[said..].contains("recovered"), "stop {cycle} was not in order");
        let wrong = check(&server.client().await, newest(&writers)).await;
        assert!(wrong.is_empty(), "after stop {cycle} ({moment:?}):\n{}", wrong.join("\n"));
        writers.iter_mut().for_each(Writer::leave_task);
    }
    let client = once(&server).await;
    for writer in &mut writers {
        writer.finish(&client.raw()).await;
    }
    let wrong = check(&client, all(&writers)).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let verified: usize = all(&writers).map(Notes::acknowledged).sum();
    println!("20 stops, the slowest took {slowest:?}; {verified} acknowledged records verified");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_finds_nothing_can_find_something() {
    let tally = Arc::new(Tally::default());
    let mut writers = writers(7, &tally);
    let mut server = TestServer::start().await;
    work_and(TestServer::kill, &mut server, &mut writers, &Moment::Acknowledged(300), &tally).await;
    server.restart().await;
    let client = once(&server).await;
    for writer in &mut writers {
        writer.finish(&client.raw()).await;
    }
    assert_eq!(check(&client, all(&writers)).await, Vec::<String>::new());

    let is_busy = |notes: &&Notes, log| notes.sent.keys().any(|(found, _)| *found == log) && !notes.removed;
    type Lie = (&'static str, Log, fn(&mut Notes, (Log, String)));
    let lies: [Lie; 7] = [
        ("an answer was another", Log::Messages, |notes, key| {
            *notes.sent.get_mut(&key).unwrap().told.as_mut().unwrap() += 1;
        }),
        ("the number of a tool call was another", Log::Tools, |notes, key| {
            *notes.sent.get_mut(&key).unwrap().told.as_mut().unwrap() += 1;
        }),
        ("a plan was another", Log::Plans, |notes, key| notes.sent.get_mut(&key).unwrap().what.push('!')),
        ("the generation of a view was another", Log::Events, |notes, _| {
            let rewrite = notes.sent.values_mut().find(|sent| sent.what == "lease").unwrap();
            *rewrite.told.as_mut().unwrap() += 1;
        }),
        ("a message was acknowledged and is not there", Log::Messages, |notes, (log, id)| {
            let sent = notes.sent[&(log, id.clone())].clone();
            notes.sent.insert((log, format!("{id}-lost")), sent);
        }),
        ("a message is there that nobody sent", Log::Messages, |notes, key| {
            notes.sent.remove(&key);
        }),
        ("a task is in another status", Log::Messages, |notes, _| notes.status = Some("archived")),
    ];
    for (name, log, lie) in lies {
        let mut notes = all(&writers).find(|notes| is_busy(notes, log)).unwrap().clone();
        let key = notes.sent.keys().rfind(|(found, _)| *found == log).unwrap().clone();
        lie(&mut notes, key);
        assert!(!notes.check(&client).await.is_empty(), "{name}: not found");
    }
    let mut removed = all(&writers).find(|notes| !notes.removed).unwrap().clone();
    removed.removed = true;
    assert!(!removed.check(&client).await.is_empty(), "a removed task is back: not found");

    // A writer that forgets an answer and says the same under another name has said it twice.
    let unary = &mut writers[0];
    unary.forget_an_answer(&client.raw()).await;
    let wrong = check(&client, unary.tasks.iter()).await;
    assert!(wrong.iter().any(|problem| problem.contains("is there 2 times")), "{wrong:?}");
}
