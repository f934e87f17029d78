//! Collecting what nobody names: no ref that lives is ever lost, and all that is dead goes.

use contextstore_proto::v1 as pb;
use std::collections::BTreeMap;

use test_support::server::TestServer;
use test_support::tool_outputs::{answering, bytes_of, collect, header, keep, outputs, put};
use test_support::wire::{Work, api, say, start};

fn request(work: Option<&Work>, dry_run: bool, min_age: Option<i64>) -> pb::CollectGarbageRequest {
    let min_age = min_age.map(|seconds| prost_types::Duration { seconds, nanos: 0 });
    let task_uuid = work.map(|work| work.uuid.clone()).unwrap_or_default();
    pb::CollectGarbageRequest { task_uuid, dry_run, min_age }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_old_and_unnamed_goes() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let (work, other) = (start(&mut api).await, start(&mut api).await);
    let dead = keep(&mut outputs, &work, &[b'd'; 5000]).await;
    let recorded = pb::PutToolOutputHeader { append: false, ..answering(&work, "") };
    let recorded = put(&mut outputs, recorded, b"recorded").await.unwrap().r#ref.unwrap().id;
    let spoken = keep(&mut outputs, &work, b"spoken of").await;
    say(&mut api, &work, &format!("it is in {spoken}, I think")).await;
    // A name is one however it is escaped.
    let escaped = keep(&mut outputs, &work, b"spoken of otherwise").await;
    let text = format!(r#"{{"role":"user","content":"see {}"}}"#, escaped.replacen('-', "\\u002d", 1));
    api.append_message(work.json(text)).await.unwrap();
    keep(&mut outputs, &other, b"of another task").await;

    // New ones stay, by default for an hour.
    let all = outputs.collect_garbage(request(None, false, None)).await.unwrap().into_inner();
    assert_eq!((all.removed, all.kept, all.tasks), (0, 5, 2));
    let dry = outputs.collect_garbage(request(Some(&work), true, Some(0))).await.unwrap().into_inner();
    assert_eq!((dry.removed, dry.kept, dry.tasks), (1, 3, 1));
    assert!(dry.removed_bytes > 5000 && dry.kept_bytes > 10);
    assert!(bytes_of(&mut outputs, &work, &dead).await.is_ok());
    let done = outputs.collect_garbage(request(Some(&work), false, Some(0))).await.unwrap().into_inner();
    assert_eq!((done.removed, done.removed_bytes, done.kept), (dry.removed, dry.removed_bytes, dry.kept));
    assert!(bytes_of(&mut outputs, &work, &dead).await.is_err());
    assert!(bytes_of(&mut outputs, &work, &recorded).await.is_ok());
    assert!(bytes_of(&mut outputs, &work, &spoken).await.is_ok());
    assert!(bytes_of(&mut outputs, &work, &escaped).await.is_ok());
    let all = outputs.collect_garbage(request(None, false, Some(0))).await.unwrap().into_inner();
    assert_eq!((all.removed, all.kept, all.failed.len()), (1, 3, 0));
}

/// Puts go on, of contents that are new and of a few that come again and again, some named and some not; collections run
/// beside them, and the server dies now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_that_is_named_is_lost_beside_puts_collections_and_deaths() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut server = TestServer::start_configured(&[("durability", "process")]).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let content = |n: usize| format!("content {n}\n").repeat(200 + n % 12);
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    let rounds = test_support::number("CONTEXTSTORE_CYCLES").unwrap_or(test_support::sized(2, 4));
    for round in 0..rounds {
        let (done, over) = tokio::sync::watch::channel(false);
        let mut putters = Vec::new();
        for putter in 0..4_u64 {
            let (mut calls, work, over) = (outputs(&server).await, work.clone(), over.clone());
            let mut rng = fastrand::Rng::with_seed(seed ^ (round << 8) ^ putter);
            putters.push(tokio::spawn(async move {
                let mut told = Vec::new();
                while !*over.borrow() {
                    // A new one is named by nothing until its message is.
                    let n = if rng.bool() { rng.usize(..12) } else { rng.usize(12..600) };
                    let name = rng.bool();
                    let asked = if name { answering(&work, "c") } else { header(&work) };
                    let asked = pb::PutToolOutputHeader { lease_generation: work.lease, ..asked };
                    match put(&mut calls, asked, content(n).as_bytes()).await {
                        Ok(answer) if name => told.push((answer.r#ref.unwrap().id, n)),
                        Ok(_) => {}
                        // The server has died.
                        Err(_) => break,
                    }
                }
                told
            }));
        }
        let mut collector = outputs(&server).await;
        let whole = request(Some(&work), false, Some(0));
        let mut removed = 0;
        for _ in 0..60 {
            removed += collector.collect_garbage(whole.clone()).await.unwrap().into_inner().removed;
        }
        if round % 2 == 0 {
            server.kill();
        }
        let _ = done.send(true);
        for putter in putters {
            named.extend(putter.await.unwrap());
        }
        if round % 2 == 0 {
            server.restart().await;
        }
        let mut calls = outputs(&server).await;
        for (id, n) in &named {
            assert_eq!(
                bytes_of(&mut calls, &work, id).await.unwrap(),
                content(*n).as_bytes(),
                "{id}, seed {seed}"
            );
        }
        println!("round {round}: {} named, {removed} removed", named.len());
    }
    // All that is dead goes: files and the bytes that they took.
    let mut calls = outputs(&server).await;
    let kept = collect(&mut calls, &work).await;
    assert_eq!(collect(&mut calls, &work).await.removed, 0);
    let files = std::fs::read_dir(server.running(&work.uuid).join("outputs")).unwrap().count() as u64;
    assert_eq!(files, 2 * kept.kept, "seed {seed}");
    assert!(kept.kept >= named.len() as u64, "seed {seed}");
}
