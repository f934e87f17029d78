//! Clients that misbehave: they vanish, stand still, never speak, or speak nonsense. None of them costs the server
//! anything once they are gone, or keeps others from their work.

mod silent;
mod stalled;
mod strangers;
mod vanishing;
mod wire;

use std::time::{Duration, Instant};

use contextstore_client::{RawClient, v1};

use test_support::is_long;
use test_support::server::{DEADLINE, TestServer};
use test_support::service::{metric, once, start_task};
use test_support::wire::new_fields;

const TASK: &str = "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10";
const MIB: u64 = 1 << 20;

/// What a server takes of the machine.
#[derive(Debug, Clone, Copy)]
struct Footprint {
    fds: usize,
    threads: usize,
    connections: f64,
    read_streams: f64,
    rss: u64,
}

impl Footprint {
    fn of(server: &TestServer) -> Self {
        Self {
            fds: server.open_fds(),
            threads: server.threads(),
            connections: metric(server, "contextstore_connections"),
            read_streams: metric(server, "contextstore_read_streams"),
            rss: server.rss(),
        }
    }

    /// What a server takes that has nothing to do. Threads that have none go after ten seconds.
    async fn at_rest(server: &TestServer) -> Self {
        let end = Instant::now() + DEADLINE;
        let mut last = Self::of(server);
        let mut same = 0;
        while same < 4 {
            assert!(Instant::now() < end, "the server does not come to rest: {last:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = Self::of(server);
            same = if (now.fds, now.threads) == (last.fds, last.threads) { same + 1 } else { 0 };
            last = now;
        }
        last
    }

    /// Waits until the server takes no more than this again; of memory up to `more` bytes more. The allocator of the system,
    /// which the tests at push size have, keeps what many streams once took.
    async fn returns(&self, server: &TestServer, more: u64) -> Self {
        let end = Instant::now() + DEADLINE;
        loop {
            let now = Self::of(server);
            if now.fds <= self.fds
                && now.threads <= self.threads + 3
                && now.connections <= self.connections
                && now.read_streams <= self.read_streams
                && (now.rss <= self.rss + more || !is_long())
            {
                return now;
            }
            assert!(Instant::now() < end, "before: {self:?}\nnow: {now:?}\n{}", server.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A task with a view that no connection can hold; answers its lease.
async fn large_task(raw: &mut RawClient) -> u64 {
    let lease = start_task(raw, TASK, "process").await;
    for _ in 0..96 {
        let message = message("x".repeat(256 << 10));
        let request = v1::AppendMessageRequest {
            task_uuid: TASK.to_owned(),
            message: Some(new_fields(message)),
            lease_generation: lease,
        };
        raw.append_message(request).await.unwrap();
    }
    lease
}

fn message(content: String) -> v1::Message {
    v1::Message { role: v1::Role::User.into(), content, ..Default::default() }
}

fn one_of_many(lease_generation: u64, content: String) -> v1::AppendMessagesRequest {
    v1::AppendMessagesRequest {
        task_uuid: TASK.to_owned(),
        messages: vec![new_fields(message(content))],
        lease_generation,
    }
}

fn current() -> v1::StreamCurrentRequest {
    v1::StreamCurrentRequest { task_uuid: TASK.to_owned(), ..Default::default() }
}

/// The server serves: a new client can write and read.
async fn still_serves(server: &TestServer, lease: u64) {
    let mut raw = once(server).await.raw();
    let request = v1::RenewLeaseRequest { task_uuid: TASK.to_owned(), lease_generation: lease };
    raw.renew_lease(request).await.unwrap();
    let request = v1::StreamCurrentRequest { as_of_seq: 1, ..current() };
    let mut chunks = raw.stream_current(request).await.unwrap().into_inner();
    let mut bytes = 0;
    while let Some(chunk) = chunks.message().await.unwrap() {
        bytes += chunk.data.len() as u64;
    }
    assert!(bytes > MIB / 4);
}
