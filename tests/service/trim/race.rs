//! Trims beside appends and compactions: nothing is lost, no group is torn, and the budget is kept to in the end.

use serde_json::Value;

use test_support::scene::{Scene, compress};
use test_support::server::TestServer;
use test_support::service::{doctor, oracle};
use test_support::trimming::{call, output, with_budget};

const STEPS: u64 = 150;

#[tokio::test(flavor = "multi_thread")]
async fn appends_and_compactions_go_on_beside_it() {
    let mut scene = Scene::with(TestServer::start().await, with_budget(2000)).await;
    let mut api = scene.api.clone();
    let mut request = scene.ask_keeping("summarize", 20);
    request.overrides.as_mut().unwrap().min_messages = Some(1);
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let compactions = tokio::spawn(async move {
        let mut done = 0;
        while !*stopped.borrow_and_update() {
            match compress(&mut api, request.clone()).await {
                Ok((told, _)) => done += u64::from(told.compressed),
                // A trim was first, or is going on.
                Err(status) => {
                    let reason = test_support::service::reason(&status);
                    let races = reason.ends_with("STALE_VIEW") || reason.ends_with("REWRITE_IN_FLIGHT");
                    assert!(races, "{status:?}");
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        done
    });
    for number in 1..=STEPS {
        let id = format!("call_{number}");
        scene.append_all(&[call("read", &id), output(&id)]).await;
    }
    stop.send(true).unwrap();
    let done = compactions.await.unwrap();
    assert!(done > 0);
    assert_eq!(scene.log().await.len() as u64, 2 * STEPS);
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
