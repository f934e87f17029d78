//! A server under mixed load for a while: after it has warmed up, neither its memory nor its files become more.
//!
//! `make test-long` runs it for a minute and checks the slopes; a push runs it for 3 seconds, to see that it works.
//! `CONTEXTSTORE_SECONDS=n` sets the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use contextstore_client::{
    Builder, NewMessage, ReadCurrent, ReadMessages, StartTask, Task, TaskQuery, ToolCall, Usage,
};
use futures_util::stream;

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::{doctor, metric, oracle, serve};
use test_support::{is_long, number, sized};

const MIB: f64 = (1 << 20) as f64;

/// Few tasks stay open, so that a short run comes to where a long one stays.
const SETTINGS: &str = "limits:\n  open_tasks: 16\n  read_idle: 2s\n";

/// What is done meanwhile, and until when.
#[derive(Clone)]
struct Load {
    builder: Builder,
    until: Instant,
    calls: Arc<AtomicU64>,
}

impl Load {
    fn goes_on(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Instant::now() < self.until
    }

    /// An agent after the other: a task from its start to its end, then the next.
    async fn agents(self) {
        let mut round = 0_usize;
        while self.goes_on() {
            round += 1;
            // Each has a connection of its own.
            let client = self.builder.clone().connect().await.unwrap();
            let task = client.start_task(StartTask::default()).await.unwrap();
            for turn in 0..10 {
                let text = "word ".repeat((round * 37 + turn * 101) % 2000);
                let seq = task.append(NewMessage::user(text)).await.unwrap().seq;
                let tool = ToolCall { tool_name: "ls".to_owned(), ..Default::default() };
                task.record_tool_call(tool).await.unwrap();
                task.record_usage(Usage { input_tokens: 5, ..Default::default() }).await.unwrap();
                if turn == 5 {
                    task.append_plan("initial", "{}").await.unwrap();
                    task.pin(seq).await.unwrap();
                    task.rewind(seq - 2).await.unwrap();
                    task.pause().await.unwrap();
                    task.resume().await.unwrap();
                }
                read(&task).await;
                self.calls.fetch_add(4, Ordering::Relaxed);
            }
            client.list_tasks(&TaskQuery { page_size: 10, ..Default::default() }, "").await.unwrap();
            match round % 3 {
                0 => task.complete("done").await.map(drop).unwrap(),
                1 => task.fail("broken", "").await.map(drop).unwrap(),
                _ => task.delete().await.unwrap(),
            }
        }
    }

    /// Many messages at once, of which some are left behind unanswered.
    async fn pipelines(self) {
        let client = self.builder.clone().connect().await.unwrap();
        while self.goes_on() {
            let task = client.start_task(StartTask::default()).await.unwrap();
            let messages = (0..400).map(|number| NewMessage::user(format!("{number}")));
            let mut answers = task.append_many(stream::iter(messages)).await.unwrap();
            for _ in 0..300 {
                answers.try_next().await.unwrap().unwrap();
                self.calls.fetch_add(1, Ordering::Relaxed);
            }
            drop(answers);
            task.delete().await.unwrap();
        }
    }

    /// Readers that come and go, whole and halfway, of a task that grows.
    async fn readers(self, task: Task) {
        while self.goes_on() {
            let client = self.builder.clone().connect().await.unwrap();
            let mine = client.task(task.uuid());
            read(&mine).await;
            let mut follower = mine.messages(ReadMessages { follow: true, ..Default::default() });
            let mut watcher = mine.watch("");
            task.append(NewMessage::user("x".repeat(3000))).await.unwrap();
            follower.try_next().await.unwrap().unwrap();
            let _ = tokio::time::timeout(Duration::from_millis(20), watcher.try_next()).await;
            let mut current = mine.current(ReadCurrent::default()).await.unwrap();
            current.try_next().await.unwrap();
        }
    }
}

async fn read(task: &Task) {
    let mut current = task.current(ReadCurrent::default()).await.unwrap();
    while current.try_next().await.unwrap().is_some() {}
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    rss: u64,
    fds: usize,
    threads: usize,
}

fn sample(server: &TestServer) -> Sample {
    Sample { rss: server.rss(), fds: server.open_fds(), threads: server.threads() }
}

fn most(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> u64 {
    samples.iter().map(of).max().unwrap()
}

/// Growth by the least squares, in bytes a second.
fn slope(samples: &[Sample], every: Duration) -> f64 {
    let count = samples.len() as f64;
    let mean_at = (count - 1.0) / 2.0;
    let mean_rss = samples.iter().map(|sample| sample.rss as f64).sum::<f64>() / count;
    let (mut over, mut under) = (0.0, 0.0);
    for (at, sample) in samples.iter().enumerate() {
        over += (at as f64 - mean_at) * (sample.rss as f64 - mean_rss);
        under += (at as f64 - mean_at).powi(2);
    }
    over / under / every.as_secs_f64()
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_and_files_do_not_become_more() {
    let is_long = is_long();
    let seconds = number("CONTEXTSTORE_SECONDS").unwrap_or(sized(3, 60));
    let mut server = serve(SETTINGS).await;
    let client = server.client().await;
    let task = client.start_task(StartTask::default()).await.unwrap();
    let quiet = sample(&server);
    let load = Load {
        builder: server.builder().timeout(DEADLINE),
        until: Instant::now() + Duration::from_secs(seconds),
        calls: Arc::default(),
    };
    let workers = [
        tokio::spawn(load.clone().agents()),
        tokio::spawn(load.clone().agents()),
        tokio::spawn(load.clone().pipelines()),
        tokio::spawn(load.clone().readers(task.clone())),
        tokio::spawn(load.clone().readers(task.clone())),
    ];
    let every = Duration::from_millis(250);
    let mut samples = Vec::new();
    while Instant::now() < load.until {
        samples.push(sample(&server));
        tokio::time::sleep(every).await;
    }
    for worker in workers {
        worker.await.unwrap();
    }
    drop((client, task));
    // Threads that wait for blocking work go after ten seconds, which only a long run waits for.
    let settled = eventually(DEADLINE, || async {
        let now = sample(&server);
        let is_quiet = (!is_long || now.threads <= quiet.threads + 2)
            && metric(&server, "contextstore_connections") == 0.0;
        is_quiet.then_some(now)
    })
    .await;
    let (second, third) =
        (&samples[samples.len() / 3..samples.len() * 2 / 3], &samples[samples.len() * 2 / 3..]);
    let slope = slope(&samples[samples.len() / 3..], every);
    let calls = load.calls.load(Ordering::Relaxed);
    println!(
        "{seconds} s, {calls} calls: RSS {:.1} MiB at first, at most {:.1} MiB in the second third and {:.1} MiB in the \
         last ({:+.2} MiB a minute), {:.1} MiB afterwards; files {} at first, at most {} and {}, {} afterwards; threads \
         {} at first, at most {}, {} afterwards",
        quiet.rss as f64 / MIB,
        most(second, |sample| sample.rss) as f64 / MIB,
        most(third, |sample| sample.rss) as f64 / MIB,
        slope * 60.0 / MIB,
        settled.rss as f64 / MIB,
        quiet.fds,
        most(second, |sample| sample.fds as u64),
        most(third, |sample| sample.fds as u64),
        settled.fds,
        quiet.threads,
        most(&samples, |sample| sample.threads as u64),
        settled.threads,
    );
    // Sixteen open tasks have up to seven files each.
    assert!(settled.fds <= quiet.fds + 16 * 7, "{settled:?}, {quiet:?}");
    if is_long {
        assert!(
            most(third, |sample| sample.rss) as f64 <= most(second, |sample| sample.rss) as f64 + 8.0 * MIB
        );
        assert!(most(third, |sample| sample.fds as u64) <= most(second, |sample| sample.fds as u64) + 16);
        assert!(slope * 60.0 < 8.0 * MIB, "{slope} bytes a second more");
    }
    assert!(server.terminate().await.success());
    assert_eq!(doctor(&server.data_dir()), None);
    assert_eq!(oracle(&server.data_dir()), None);
}
