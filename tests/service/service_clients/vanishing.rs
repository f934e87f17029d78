//! Clients that are gone from one moment to the next, in the middle of whatever they did.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use contextstore_client::{NewMessage, v1};
use futures_util::stream;

use super::wire::Wire;
use super::{Footprint, MIB, TASK, current, large_task, one_of_many, still_serves};
use test_support::server::TestServer;
use test_support::service::{metric, once, serve};

const CHILD: &str = "CONTEXTSTORE_TEST_CHILD";
const LEASE: &str = "CONTEXTSTORE_TEST_LEASE";
/// Clients in a process, each with a connection of its own.
const CLIENTS: usize = 100;

/// Processes that are to be killed. Each says so when it is in the middle of everything.
fn children(server: &TestServer, lease: u64, count: usize) -> Vec<Child> {
    let start = |_| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "service_clients::vanishing::one_process_with_many_clients", "--nocapture"])
            .env(CHILD, format!("{} {} {}", server.socket().display(), server.tcp_address(), server.token()))
            .env(LEASE, lease.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut children: Vec<Child> = (0..count).map(start).collect();
    for child in &mut children {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("in the middle")), "a process did not come to work");
    }
    children
}

#[test]
fn one_process_with_many_clients() {
    // Only what the test below starts has something to do.
    let Ok(server) = std::env::var(CHILD) else { return };
    let lease: u64 = std::env::var(LEASE).unwrap().parse().unwrap();
    let [socket, tcp, token] = server.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let begin = |number: usize| {
        let mut wire = if number.is_multiple_of(2) { Wire::unix(Path::new(socket)) } else { Wire::tcp(tcp) };
        wire.hello(1 << 20);
        match number % 5 {
            0 | 1 => {
                wire.call(1, "StreamCurrent", token);
                wire.message(1, &current(), true).unwrap();
                wire.answered();
            }
            2 => {
                let follow = v1::StreamMessagesRequest {
                    task_uuid: TASK.to_owned(),
                    follow: true,
                    ..Default::default()
                };
                wire.call(1, "StreamMessages", token);
                wire.message(1, &follow, true).unwrap();
                wire.answered();
            }
            3 => {
                let watch = v1::WatchTaskRequest { task_uuid: TASK.to_owned(), ..Default::default() };
                wire.call(1, "WatchTask", token);
                wire.message(1, &watch, true).unwrap();
            }
            _ => {
                // Messages are on their way, and nobody will read all of the answers.
                wire.call(1, "AppendMessages", token);
                for number in 0..40 {
                    wire.message(1, &one_of_many(lease, format!("message {number}")), false).unwrap();
                }
                wire.answered();
            }
        }
        wire
    };
    let _all: Vec<Wire> = (0..CLIENTS).map(begin).collect();
    println!("in the middle");
    loop {
        std::thread::park();
    }
}

fn vanish(server: &TestServer, lease: u64, processes: usize) {
    let children = children(server, lease, processes);
    let there = metric(server, "contextstore_connections");
    assert!(there >= (processes * CLIENTS) as f64, "only {there} connections");
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_that_are_killed_leave_nothing_behind() {
    let server = serve("").await;
    let lease = large_task(&mut once(&server).await.raw()).await;
    still_serves(&server, lease).await;
    let before = Footprint::at_rest(&server).await;
    for _ in 0..2 {
        vanish(&server, lease, test_support::sized(2, 5));
        // Hundreds of streams that leak each time would soon be more; this is what an allocator may keep.
        before.returns(&server, 64 * MIB).await;
    }
    let after = Footprint::of(&server);
    println!(
        "after they are gone: {} files ({} before), {} threads ({}), {:.1} MiB ({:.1})",
        after.fds,
        before.fds,
        after.threads,
        before.threads,
        after.rss as f64 / MIB as f64,
        before.rss as f64 / MIB as f64,
    );
    still_serves(&server, lease).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_given_up_take_no_threads() {
    let server = serve("").await;
    let client = once(&server).await;
    let lease = large_task(&mut client.raw()).await;
    let before = Footprint::at_rest(&server).await;
    let mut most = 0;
    for round in 0..20 {
        let messages = (0..800).map(move |number| NewMessage::user(format!("{round} {number}")));
        let task = client.start_task(Default::default()).await.unwrap();
        let mut answers = task.append_many(stream::iter(messages)).await.unwrap();
        answers.try_next().await.unwrap();
        drop(answers);
        most = most.max(server.threads());
    }
    println!("at most {most} threads, {} before", before.threads);
    assert!(most < 64, "{most} threads, {} before", before.threads);
    still_serves(&server, lease).await;
}
