//! Memory: a server needs no more of it for a large view than for a small one, however many read and however slowly.
//!
//! `make test-long` reads views of 256 MB, 1 GB and 10 GB instead of 64 MB.

use std::fs::{self, File};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use contextstore_client::{RawClient, v1};
use futures_util::stream;
use tokio::sync::watch;

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::{metric, once, serve_in, start_task};
use test_support::sized;

const MIB: u64 = 1 << 20;
const TASK: &str = "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10";
/// What a message of the large view has.
const MESSAGE_BYTES: u64 = MIB;

/// One at a time: what they measure is the machine's.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB as f64
}

/// A server without anything in memory, and a task with a view of so many bytes.
async fn server_with_view(bytes: u64) -> (TestServer, u32) {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut server = serve_in(root, "limits:\n  read_idle: 10m\n").await;
    let mut raw = once(&server).await.raw();
    let lease = start_task(&mut raw, TASK, "process").await;
    let text = Arc::new(
        "All work and no play makes Jack a dull boy. ".repeat(usize::try_from(MESSAGE_BYTES / 44).unwrap()),
    );
    let begun = Instant::now();
    let requests = (0..bytes / MESSAGE_BYTES).map(move |number| {
        let content = format!("{number} {text}");
        let message = v1::Message { role: v1::Role::User.into(), content, ..Default::default() };
        v1::AppendMessagesRequest {
            task_uuid: TASK.to_owned(),
            messages: vec![v1::NewMessage {
                body: Some(v1::new_message::Body::Fields(message)),
                ..Default::default()
            }],
            lease_generation: lease,
        }
    });
    let mut answers = raw.append_messages(stream::iter(requests)).await.unwrap().into_inner();
    while answers.message().await.unwrap().is_some() {}
    println!("a view of {:.0} MiB was made in {:.1?}", mib(bytes), begun.elapsed());
    server.restart().await;
    let crc = crc_of(&server);
    (server, crc)
}

/// The checksum of the view on disk.
fn crc_of(server: &TestServer) -> u32 {
    let mut file = File::open(server.running(TASK).join("current.jsonl")).unwrap();
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).unwrap() {
            0 => return hasher.finalize(),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// Starts to measure the largest memory anew.
fn reset_peak(server: &TestServer) {
    fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").unwrap();
}

/// The largest memory since then.
fn peak(server: &TestServer) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn read() -> v1::StreamCurrentRequest {
    v1::StreamCurrentRequest { task_uuid: TASK.to_owned(), ..Default::default() }
}

/// Reads a view whole, and tells how far it is; answers its length and checksum.
async fn read_whole(mut raw: RawClient, so_far: Arc<watch::Sender<u64>>) -> (u64, u32) {
    let mut chunks = raw.stream_current(read()).await.unwrap().into_inner();
    let (mut bytes, mut hasher) = (0, crc32fast::Hasher::new());
    while let Some(chunk) = chunks.message().await.unwrap() {
        assert_eq!(chunk.offset, bytes);
        bytes += chunk.data.len() as u64;
        hasher.update(&chunk.data);
        so_far.send_replace(bytes);
    }
    (bytes, hasher.finalize())
}

/// Three read at once, one of them slowly: at most 32 MiB more than before.
async fn three_readers(bytes: u64) {
    let _alone = ALONE.lock().await;
    let (server, crc) = server_with_view(bytes).await;
    // What any call needs is there before it is measured: the task is open, code is loaded.
    let mut raw = once(&server).await.raw();
    raw.stream_current(read()).await.unwrap().into_inner().message().await.unwrap().unwrap();
    eventually(DEADLINE, || async { (metric(&server, "contextstore_read_streams") == 0.0).then_some(()) })
        .await;
    let idle = server.rss();
    reset_peak(&server);

    let so_far = Arc::new(watch::Sender::new(0));
    let slow = tokio::spawn({
        let (mut raw, mut others) = (once(&server).await.raw(), so_far.subscribe());
        async move {
            let (mut chunks, mut mine) = (raw.stream_current(read()).await.unwrap().into_inner(), 0);
            // It takes an eighth of what another takes meanwhile.
            while let Some(chunk) = chunks.message().await.unwrap() {
                mine += chunk.data.len() as u64;
                others.wait_for(|theirs| *theirs >= 8 * mine).await.unwrap();
            }
        }
    });
    let begun = Instant::now();
    let whole = [once(&server).await, once(&server).await]
        .map(|client| tokio::spawn(read_whole(client.raw(), Arc::clone(&so_far))));
    for read in whole {
        let (read, found) = read.await.unwrap();
        assert!(read >= bytes, "{read} bytes of {bytes}");
        assert_eq!(found, crc, "what was read is not what is on disk");
    }
    let took = begun.elapsed();
    slow.abort();
    let grown = peak(&server).saturating_sub(idle);
    println!(
        "{:.0} MiB to three readers, one of them slow: {:.1} MiB idle, at most {:.1} MiB more; {:.0} MiB/s each to two",
        mib(bytes),
        mib(idle),
        mib(grown),
        mib(bytes) / took.as_secs_f64(),
    );
    assert!(grown <= 32 * MIB, "{:.1} MiB more than the {:.1} MiB before", mib(grown), mib(idle));
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_does_not_grow_with_the_view() {
    let sizes: &[u64] = sized(&[64], &[256, 1 << 10, 10 << 10]);
    for size in sizes {
        three_readers(size * MIB).await;
    }
}

/// Renders the view for a provider; answers the bytes of the body.
async fn render(raw: &mut RawClient, provider: &str, max_bytes: u64) -> u64 {
    let asked = v1::RenderContextRequest {
        task_uuid: TASK.to_owned(),
        provider: v1::Provider::from_name(provider).unwrap().into(),
        model: "m".to_owned(),
        max_bytes,
        ..Default::default()
    };
    let mut pieces = raw.render_context(asked).await.unwrap().into_inner();
    let mut bytes = 0;
    while let Some(piece) = pieces.message().await.unwrap() {
        bytes += piece.data.len() as u64;
    }
    bytes
}

/// For each provider, with a limit, for which the body is made twice: at most 32 MiB more than before.
#[tokio::test(flavor = "multi_thread")]
async fn memory_does_not_grow_with_what_is_rendered() {
    let _alone = ALONE.lock().await;
    let size = sized(64, 256) * MIB;
    let (server, _) = server_with_view(size).await;
    let mut raw = once(&server).await.raw();
    raw.stream_current(read()).await.unwrap().into_inner().message().await.unwrap().unwrap();
    let idle = server.rss();
    reset_peak(&server);
    for provider in ["openai", "openai_responses", "anthropic", "ollama"] {
        let begun = Instant::now();
        let bytes = render(&mut raw, provider, 2 * size).await;
        let grown = peak(&server).saturating_sub(idle);
        println!(
            "{:.0} MiB for {provider} in {:.1?}: {:.1} MiB idle, at most {:.1} MiB more",
            mib(bytes),
            begun.elapsed(),
            mib(idle),
            mib(grown)
        );
        assert!(bytes >= size - MIB, "{bytes} bytes of {size}");
        assert!(grown <= 32 * MIB, "{:.1} MiB more than the {:.1} MiB before", mib(grown), mib(idle));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_grows_little_with_the_readers() {
    const READERS: u64 = 16;
    let _alone = ALONE.lock().await;
    let (server, _) = server_with_view(64 * MIB).await;
    let mut raw = once(&server).await.raw();
    raw.stream_current(read()).await.unwrap().into_inner().message().await.unwrap().unwrap();
    let idle = server.rss();
    reset_peak(&server);
    // They read for a while, and then all stand still in the middle.
    let (read_so_far, standing) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let (read_so_far, standing) = (Arc::clone(&read_so_far), Arc::clone(&standing));
        let mut raw = once(&server).await.raw();
        readers.push(tokio::spawn(async move {
            let mut chunks = raw.stream_current(read()).await.unwrap().into_inner();
            let mut mine = 0;
            while mine < 16 * MIB {
                let more = chunks.message().await.unwrap().unwrap().data.len() as u64;
                mine += more;
                read_so_far.fetch_add(more, Ordering::Relaxed);
            }
            standing.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
            drop(chunks);
        }));
    }
    let all = usize::try_from(READERS).unwrap();
    eventually(DEADLINE, || async { (standing.load(Ordering::Relaxed) == all).then_some(()) }).await;
    let grown = peak(&server).saturating_sub(idle);
    println!("{READERS} readers: {:.1} MiB idle, at most {:.1} MiB more", mib(idle), mib(grown));
    assert!(grown <= 64 * MIB, "{:.1} MiB more than the {:.1} MiB before", mib(grown), mib(idle));
    readers.iter().for_each(tokio::task::JoinHandle::abort);
}
