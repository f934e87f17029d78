//! Compressing a large view takes no more memory than a small one, and appends go on meanwhile.
//!
//! `make test-long` compresses 1 GB instead of 64 MB.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contextstore_proto::v1 as pb;
use serde_json::json;

use test_support::scene::{Scene, by_hand, compress, content, user};
use test_support::server::TestServer;
use test_support::wire::{Api, Work, api, say};

const MIB: u64 = 1 << 20;
/// What compressing may take.
const GROWTH: u64 = 48 * MIB;

const ONE_MORE: &str = "And what about number ";

fn view_bytes() -> u64 {
    test_support::sized(64 * MIB, 1 << 30)
}

/// The most memory that a server has had since it was last asked.
fn peak(server: &TestServer) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
    fs::write(format!("/proc/{}/clear_refs", server.pid()), "5").unwrap();
    peak
}

/// A view of calls and long results, with some words between them.
async fn fill(scene: &Scene, bytes: u64) {
    const PIECE: u64 = 64 << 10;
    let output = "src/lib.rs:17: warning: unused variable `left`; it took 12 ms and 3 tries\n";
    let output = Arc::new(output.repeat(usize::try_from(PIECE).unwrap() / output.len()));
    let (work, mut api) = (scene.work.clone(), scene.api.clone());
    let requests = (0..bytes / PIECE).flat_map(move |number| {
        let id = format!("call_{number}");
        let messages = [
            user(&format!("Look at part {number}; do not touch config/part{number}.yaml.")),
            test_support::scene::calls(&[&id]),
            json!({"role": "tool", "tool_call_id": id, "content": format!("{number} {output}")}),
        ];
        let work = work.clone();
        messages.into_iter().map(move |message| pb::AppendMessagesRequest {
            task_uuid: work.uuid.clone(),
            messages: vec![pb::NewMessage {
                body: Some(pb::new_message::Body::Json(message.to_string())),
                ..Default::default()
            }],
            lease_generation: work.lease,
        })
    });
    let mut acks = api.append_messages(tokio_stream::iter(requests)).await.unwrap().into_inner();
    while acks.message().await.unwrap().is_some() {}
}

/// How long appends take, one after the other, until they are to end.
async fn appends(mut api: Api, work: Work, mut enough: impl FnMut(usize) -> bool) -> Vec<Duration> {
    let mut took = Vec::new();
    while !enough(took.len()) {
        let begun = Instant::now();
        say(&mut api, &work, &format!("{ONE_MORE}{}", took.len())).await;
        took.push(begun.elapsed());
    }
    took
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort();
    took[took.len() / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_view_is_compressed_from_disk_while_appends_go_on() {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = TestServer::start_in(root, &[]).await;
    let config = pb::TaskConfig { durability: pb::Durability::Process.into(), ..by_hand(200_000) };
    let mut scene = Scene::with(server, config).await;
    let bytes = view_bytes();
    fill(&scene, bytes).await;
    // A server without anything in memory, but for what every first call takes.
    scene.server.restart().await;
    scene.api = api(&scene.server).await;
    // The first ones read what is there.
    appends(scene.api.clone(), scene.work.clone(), |count| count == 200).await;
    let idle = median(appends(scene.api.clone(), scene.work.clone(), |count| count == 200).await);
    let before_all = scene.task().await.statistics.unwrap();
    assert!(before_all.view_bytes > bytes, "{before_all:?}");

    for strategy in ["summarize", "prune", "window"] {
        peak(&scene.server);
        let before = scene.server.rss();
        let request = scene.ask(strategy);
        let mut compressing = api(&scene.server).await;
        let begun = Instant::now();
        let done = tokio::spawn(async move { compress(&mut compressing, request).await.unwrap().0 });
        let last = scene.task().await.last_seq;
        let took = appends(scene.api.clone(), scene.work.clone(), |_| done.is_finished()).await;
        let done = done.await.unwrap();
        let grown = peak(&scene.server).saturating_sub(before);
        let (during, count) = (median(took.clone()), took.len() as u64);
        println!(
            "{strategy}: {} MiB in {:?}, {:.1} MiB of memory; {count} appends meanwhile, half of them within {during:?}, \
             {:.1} times as long as idle",
            bytes / MIB,
            begun.elapsed(),
            grown as f64 / MIB as f64,
            during.as_secs_f64() / idle.as_secs_f64()
        );
        assert!(done.compressed && done.tokens_after < 200_000, "{done:?}");
        assert!(grown <= GROWTH, "{strategy}: {} MiB", grown / MIB);
        // Each was acknowledged, and all are in the view.
        let after = scene.task().await;
        assert_eq!(after.last_seq, last + count);
        assert!(count > 10, "appends had to wait: {took:?}");
        let lines = scene.lines().await;
        let number =
            |line: &String| content(line).strip_prefix(ONE_MORE).and_then(|number| number.parse().ok());
        let newest: Vec<u64> = lines.iter().rev().map_while(number).take(took.len() / 2).collect();
        assert_eq!(newest, (0..count).rev().take(took.len() / 2).collect::<Vec<_>>());
        scene.undo().await.unwrap();
    }
    assert_eq!(scene.work_files(), [""; 0]);
}
