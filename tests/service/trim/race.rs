//! Trims beside appends and compactions: nothing is lost, no group is torn, and the budget is kept to in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::Value;

use test_support::scene::{Scene, compress};
use test_support::server::{DEADLINE, TestServer};
use test_support::service::{doctor, oracle};
use test_support::trimming::{call, output, with_budget};

const STEPS: u64 = 150;

#[tokio::test(flavor = "multi_thread")]
async fn appends_and_compactions_go_on_beside_it() {
    let mut scene = Scene::with(TestServer::start().await, with_budget(2000)).await;
    let mut api = scene.api.clone();
    let mut request = scene.ask_keeping("summarize", 20);
    request.overrides.as_mut().unwrap().min_messages = Some(1);
    let (appended, mut so_far) = tokio::sync::watch::channel(0);
    let compacted = Arc::new(AtomicU64::new(0));
    let done = Arc::clone(&compacted);
    // One for every few appends, until there are no more.
    let compactions = tokio::spawn(async move {
        let mut next = 0;
        while let Ok(now) = so_far.wait_for(|now| *now >= next).await.map(|now| *now) {
            next = now + 5;
            match compress(&mut api, request.clone()).await {
                Ok((told, _)) => {
                    done.fetch_add(u64::from(told.compressed), Ordering::Relaxed);
                }
                // A trim was first, or is going on.
                Err(status) => {
                    let reason = test_support::service::reason(&status);
                    let races = reason.ends_with("STALE_VIEW") || reason.ends_with("REWRITE_IN_FLIGHT");
                    assert!(races, "{status:?}");
                }
            }
        }
    });
    let (mut steps, end) = (0, Instant::now() + DEADLINE);
    while steps < STEPS || compacted.load(Ordering::Relaxed) == 0 {
        assert!(Instant::now() < end, "nothing is compacted after {steps} steps");
        steps += 1;
        let id = format!("call_{steps}");
        scene.append_all(&[call("read", &id), output(&id)]).await;
        appended.send_replace(steps);
    }
    drop(appended);
    compactions.await.unwrap();
    assert_eq!(scene.log().await.len() as u64, 2 * steps);
    // Every result stands behind its call, and every call has one.
    let mut open: Vec<String> = Vec::new();
    for line in scene.lines().await {
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["role"] == "tool" {
            let id = line["tool_call_id"].as_str().unwrap();
            assert_eq!(open.pop().as_deref(), Some(id));
        } else {
            assert!(open.is_empty(), "{open:?} before {line}");
            let calls = line["tool_calls"].as_array().cloned().unwrap_or_default();
            open.extend(calls.iter().map(|call| call["id"].as_str().unwrap().to_owned()));
        }
    }
    assert!(open.is_empty());
    scene.server.terminate().await;
    assert_eq!(doctor(&scene.server.data_dir()), None);
    assert_eq!(oracle(&scene.server.data_dir()), None);
}
