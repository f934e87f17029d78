//! Readers beside writers: every read is one version of the view, whole, whatever is appended or rewound meanwhile.
//!
//! The test keeps every version itself: a list of messages for each change that was made. `CONTEXTSTORE_SEED=n`
//! repeats what the writer does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use contextstore_client::tonic::{Code, Status, Streaming};
use contextstore_client::{NewMessage, RawClient, ReadMessages, StartTask, Task, v1};
use fastrand::Rng;

use test_support::number;
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::{moment, once, oracle, reason, told};

/// A message as it stands in the view.
fn line(seq: u64) -> String {
    format!("{{\"role\":\"user\",\"content\":\"{}\"}}\n", text(seq))
}

/// Messages differ in length, so that no two versions of a view are alike by chance.
fn text(seq: u64) -> String {
    format!("message {seq} {}", "x".repeat(usize::try_from(seq % 17).unwrap() * 700))
}

/// One version of the view.
#[derive(Debug, Clone, Default)]
struct Version {
    generation: u64,
    messages: Vec<u64>,
}

impl Version {
    fn bytes(&self) -> Vec<u8> {
        self.messages.iter().map(|seq| line(*seq)).collect::<String>().into_bytes()
    }
}

/// All versions there were, in order. The last one may not be there yet: it is noted before it is asked for.
#[derive(Debug, Default)]
struct History {
    versions: Vec<Version>,
    acknowledged: usize,
}

/// The one who writes: appends, and now and then takes the view back.
struct Author {
    task: Task,
    history: Arc<Mutex<History>>,
    /// The view after each message and the rewinds behind it.
    after: Vec<Vec<u64>>,
    now: Version,
    rng: Rng,
}

impl Author {
    fn new(task: Task, seed: u64) -> Self {
        let history = History { versions: vec![Version::default()], acknowledged: 0 };
        Self {
            task,
            history: Arc::new(Mutex::new(history)),
            after: vec![Vec::new()],
            now: Version::default(),
            rng: Rng::with_seed(seed),
        }
    }

    async fn append(&mut self) {
        let seq = self.after.len() as u64;
        self.now.messages.push(seq);
        self.after.push(self.now.messages.clone());
        self.note();
        let answer = self.task.append(NewMessage::user(text(seq))).await.unwrap();
        assert_eq!(answer.seq, seq);
        self.acknowledge();
    }

    async fn rewind(&mut self) {
        let last = self.after.len() - 1;
        let seq = self.rng.usize(last.saturating_sub(60).max(1)..=last);
        self.now.generation += 1;
        self.now.messages.clone_from(&self.after[seq]);
        // What was taken back is not there after the last message any more.
        self.after[last].clone_from(&self.now.messages);
        self.note();
        let answer = self.task.rewind(seq as u64).await.unwrap();
        assert_eq!(answer.generation, self.now.generation);
        self.acknowledge();
    }

    fn note(&self) {
        self.history.lock().unwrap().versions.push(self.now.clone());
    }

    fn acknowledge(&self) {
        let mut history = self.history.lock().unwrap();
        history.acknowledged = history.versions.len() - 1;
    }
}

fn read_from(
    task: &Task,
    offset: u64,
    generation: impl Into<Option<u64>>,
    chunk_bytes: u32,
) -> v1::StreamCurrentRequest {
    v1::StreamCurrentRequest {
        task_uuid: task.uuid().to_owned(),
        offset,
        generation: generation.into(),
        chunk_bytes,
        as_of_seq: 0,
    }
}

/// What was received of a view.
#[derive(Debug, Default)]
struct Received {
    generation: u64,
    total: u64,
    bytes: Vec<u8>,
}

impl Received {
    /// Takes the next chunk, which must be the one behind the last; false at the end.
    async fn take(&mut self, chunks: &mut Streaming<v1::StreamCurrentResponse>) -> bool {
        let Some(chunk) = chunks.message().await.unwrap() else { return false };
        if self.bytes.is_empty() {
            (self.generation, self.total) = (chunk.generation, chunk.total_bytes);
        }
        assert_eq!((chunk.generation, chunk.offset), (self.generation, self.bytes.len() as u64));
        self.bytes.extend_from_slice(&chunk.data);
        true
    }
}

/// Reads the view again and again, as fast as it can or a chunk after so many changes; each time it must be one version that was there meanwhile.
async fn read_again_and_again(
    mut raw: RawClient,
    task: Task,
    history: Arc<Mutex<History>>,
    done: Arc<AtomicBool>,
    changes: Option<usize>,
) -> (u64, u64) {
    let (mut reads, mut rewound) = (0, 0);
    while !done.load(Ordering::Relaxed) || reads == 0 {
        let first = history.lock().unwrap().acknowledged;
        let chunk_bytes = if changes.is_some() { 20_000 } else { 3_000 };
        let mut chunks =
            raw.stream_current(read_from(&task, 0, None, chunk_bytes)).await.unwrap().into_inner();
        let mut received = Received::default();
        received.take(&mut chunks).await;
        // What is changed from here on is not in it.
        let last = history.lock().unwrap().versions.len() - 1;
        while received.take(&mut chunks).await {
            let Some(changes) = changes else { continue };
            let next = history.lock().unwrap().versions.len() + changes;
            while history.lock().unwrap().versions.len() < next && !done.load(Ordering::Relaxed) {
                moment().await;
            }
        }
        assert_eq!(received.bytes.len() as u64, received.total);
        let history = history.lock().unwrap();
        let mut possible = history.versions[first..=last].iter();
        let is_it = |version: &Version| {
            version.generation == received.generation && version.bytes() == received.bytes
        };
        assert!(
            possible.any(is_it),
            "what was read (generation {}, {} bytes) is none of the versions {first} to {last}",
            received.generation,
            received.total
        );
        reads += 1;
        rewound += u64::from(history.versions.last().unwrap().generation > received.generation);
    }
    (reads, rewound)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_is_one_version_whole() {
    let seed = number("CONTEXTSTORE_SEED").unwrap_or_else(|| fastrand::u64(..1 << 40));
    println!("CONTEXTSTORE_SEED={seed}");
    let mut server = TestServer::start().await;
    let client = once(&server).await;
    let task = client.start_task(StartTask::default()).await.unwrap();
    let mut author = Author::new(task.clone(), seed);
    for _ in 0..100 {
        author.append().await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for changes in [None, None, Some(1), Some(10)] {
        let raw = once(&server).await.raw();
        let (history, done) = (Arc::clone(&author.history), Arc::clone(&done));
        readers.push(tokio::spawn(read_again_and_again(raw, task.clone(), history, done, changes)));
    }
    // One who follows the log meanwhile is told every line once.
    let mut follower = task.messages(ReadMessages { follow: true, ..Default::default() });
    let follower = tokio::spawn(async move {
        let mut records = Vec::new();
        while let Ok(Some(record)) = follower.try_next().await {
            let is_last = record.windows(9).any(|bytes| bytes == b"completed");
            records.push(record);
            if is_last {
                break;
            }
        }
        records
    });
    for _ in 0..400 {
        if author.rng.u8(..5) == 0 { author.rewind().await } else { author.append().await }
    }
    done.store(true, Ordering::Relaxed);
    let (mut reads, mut rewound) = (0, 0);
    for reader in readers {
        let (more, rewound_meanwhile) = reader.await.unwrap();
        reads += more;
        rewound += rewound_meanwhile;
    }
    println!("{reads} reads, {rewound} of which the view was rewound meanwhile");
    assert!(rewound > 0, "no view was rewound while it was read");
    task.complete("").await.unwrap();
    let followed = follower.await.unwrap();
    let mut all = task.messages(ReadMessages::default());
    for record in followed {
        assert_eq!(all.try_next().await.unwrap(), Some(record));
    }
    assert!(all.try_next().await.unwrap().is_none());
    assert!(server.terminate().await.success());
    assert_eq!(oracle(&server.data_dir()), None);
}

/// What a resumed read is refused with.
async fn refused(raw: &mut RawClient, request: v1::StreamCurrentRequest) -> Status {
    match raw.stream_current(request).await {
        Err(status) => status,
        Ok(chunks) => chunks.into_inner().message().await.unwrap_err(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_read_goes_on_seamlessly_until_the_view_is_rewritten() {
    let mut server = TestServer::start().await;
    let mut client = server.client().await;
    let task = client.start_task(StartTask::default()).await.unwrap();
    let mut author = Author::new(task.clone(), 1);
    // Before and after the first rewrite: its generation is not 0 any more.
    for round in 0..2 {
        for _ in 0..50 {
            author.append().await;
        }
        let mut raw = client.raw();
        let mut received = Received::default();
        let mut interrupted = 0;
        let whole = loop {
            let (offset, generation) = (received.bytes.len() as u64, author.now.generation);
            let request = read_from(&task, offset, generation, 7_000);
            let mut chunks = raw.stream_current(request).await.unwrap().into_inner();
            let mut more = true;
            for _ in 0..6 {
                more = more && received.take(&mut chunks).await;
            }
            if !more {
                break author.now.bytes();
            }
            drop(chunks);
            interrupted += 1;
            if interrupted <= 4 {
                author.append().await;
            }
            // The server may even have died in between.
            if interrupted == 3 {
                server.kill();
                server.restart().await;
                client = server.client().await;
                raw = client.raw();
            }
        };
        assert!(interrupted > 4, "the read was never interrupted");
        assert!(received.bytes == whole, "the parts do not fit together");
        // At the very end there is nothing more, and behind it nothing at all.
        let end = whole.len() as u64;
        let at_end = raw.stream_current(read_from(&task, end, author.now.generation, 0)).await.unwrap();
        let at_end = at_end.into_inner().message().await.unwrap().unwrap();
        assert_eq!((at_end.data.len(), at_end.offset, at_end.total_bytes), (0, end, end));
        let behind = refused(&mut raw, read_from(&task, end + 1, author.now.generation, 0)).await;
        assert_eq!(
            (behind.code(), reason(&behind).as_str()),
            (Code::InvalidArgument, "ERROR_REASON_INVALID_FIELD")
        );

        let before = author.now.generation;
        author.rewind().await;
        author.append().await;
        for (offset, generation) in [(10_000, before), (1, before), (10_000, before + 7)] {
            let stale = refused(&mut raw, read_from(&task, offset, generation, 0)).await;
            assert_eq!((stale.code(), reason(&stale).as_str()), (Code::Aborted, "ERROR_REASON_STALE_VIEW"));
            assert_eq!(told(&stale, "generation"), Some((before + 1).to_string()), "round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_has_begun_outlives_rewrites_and_the_task_itself() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let task = client.start_task(StartTask::default()).await.unwrap();
    let mut author = Author::new(task.clone(), 2);
    for _ in 0..300 {
        author.append().await;
    }
    let expected = author.now.bytes();
    let mut raw = client.raw();
    let mut reads = Vec::new();
    for chunk_bytes in [1_000, 100_000] {
        let request = read_from(&task, 0, None, chunk_bytes);
        let mut chunks = raw.stream_current(request).await.unwrap().into_inner();
        let mut received = Received::default();
        assert!(received.take(&mut chunks).await);
        reads.push((chunks, received));
    }
    for _ in 0..5 {
        author.rewind().await;
        author.append().await;
    }
    for (chunks, received) in &mut reads {
        received.take(chunks).await;
    }
    task.delete().await.unwrap();
    let dir = server.running(task.uuid());
    eventually(DEADLINE, || async { (!dir.exists()).then_some(()) }).await;
    for (mut chunks, mut received) in reads {
        while received.take(&mut chunks).await {}
        assert!(received.bytes == expected, "{} bytes, not {}", received.bytes.len(), expected.len());
    }
    let gone = refused(&mut raw, read_from(&task, 0, None, 0)).await;
    assert_eq!(reason(&gone), "ERROR_REASON_TASK_NOT_FOUND");
}
