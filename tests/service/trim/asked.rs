//! Trimming that somebody asks for: `TrimToolOutputs`, and `contextstore output trim`.

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::tool_outputs_client::ToolOutputsClient;
use tonic::Status;

use test_support::scene::{Scene, assistant, calls, result, user};
use test_support::server::TestServer;
use test_support::service::reason;
use test_support::trimming::with_budget;
use test_support::wire::channel;

async fn scene() -> Scene {
    Scene::with(TestServer::start().await, with_budget(100_000)).await
}

async fn trim(
    scene: &Scene,
    budget: Option<u64>,
    request_id: &str,
) -> Result<pb::TrimToolOutputsResponse, Status> {
    let request = pb::TrimToolOutputsRequest {
        task_uuid: scene.work.uuid.clone(),
        budget_tokens: budget,
        request_id: request_id.to_owned(),
        lease_generation: scene.work.lease,
    };
    let mut outputs = ToolOutputsClient::new(channel(&scene.server.socket()).await);
    outputs.trim_tool_outputs(request).await.map(tonic::Response::into_inner)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_trims_to_its_budget_once() {
    let mut scene = scene().await;
    for number in 1..=10 {
        scene.step(number).await;
    }
    let whole = scene.output_tokens().await;
    // The task's own budget leaves all of them.
    let nothing = trim(&scene, None, "").await.unwrap();
    assert_eq!((nothing.trimmed, nothing.generation, nothing.duplicate), (0, 0, false));
    assert_eq!((nothing.tokens_before, nothing.tokens_after), (whole, whole));

    let done = trim(&scene, Some(500), "once").await.unwrap();
    assert_eq!((done.tokens_before, done.generation, done.duplicate), (whole, 1, false));
    assert_eq!(done.tokens_after, scene.output_tokens().await);
    assert!(done.tokens_after <= 500 && done.tokens_after > 250, "{done:?}");
    assert_eq!(done.trimmed, scene.trimmed().await.len() as u64);
    assert_eq!(done.pressure, Some(scene.pressure().await));
    let again = trim(&scene, Some(500), "once").await.unwrap();
    assert_eq!((again.generation, again.duplicate, again.trimmed), (1, true, 0));
    assert_eq!(again.tokens_after, done.tokens_after);
    let other = trim(&scene, Some(400), "once").await.unwrap_err();
    assert!(reason(&other).ends_with("REQUEST_ID_REUSED"), "{other:?}");

    // As few as can be: the last one is not answered.
    let done = trim(&scene, Some(0), "").await.unwrap();
    assert_eq!(scene.trimmed().await.len(), 9);
    assert_eq!((done.generation, done.tokens_after), (2, scene.output_tokens().await));
    scene.answered().await;
    trim(&scene, Some(0), "").await.unwrap();
    assert_eq!(scene.output_tokens().await, 0);
    assert_eq!(trim(&scene, Some(0), "").await.unwrap().generation, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_change_a_task_may_not_trim() {
    let mut scene = scene().await;
    scene.step(1).await;
    scene.work.lease += 1;
    let stale = trim(&scene, Some(0), "").await.unwrap_err();
    assert!(reason(&stale).contains("LEASE"), "{stale:?}");
    scene.work.uuid = "00000000-0000-7000-8000-000000000000".to_owned();
    let missing = trim(&scene, Some(0), "").await.unwrap_err();
    assert!(reason(&missing).ends_with("TASK_NOT_FOUND"), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_trim_by_hand() {
    let mut scene = scene().await;
    for number in 1..=10 {
        scene.step(number).await;
    }
    let (dir, uuid) = (scene.server.data_dir(), scene.work.uuid.clone());
    let run = |more: &[&str]| {
        let common = ["output", "trim", &uuid, "--data-dir", dir.to_str().unwrap(), "--budget-tokens"];
        TestServer::run(&[&common, more].concat(), &[])
    };
    let (code, out, err) = run(&["500"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("trimmed   ") && out.contains(" outputs, generation 1\n"), "{out}");
    let (code, out, _) = run(&["0", "--output", "json"]);
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["generation"]), (0, &2.into()));
    assert_eq!(scene.trimmed().await.len(), 9);
}

/// Outputs are trimmed for their size: what they told is in a summary all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_knows_what_trimmed_outputs_told() {
    let mut scene = scene().await;
    scene.append(&user("Find out why the importer fails, ticket SHOP-12.")).await;
    for number in 1..=8 {
        let id = format!("call_{number}");
        let noise = "compiling one more of the many parts\n".repeat(60);
        let told = format!("{noise}error[E071{number}]: cannot open src/part{number}.rs\n{noise}");
        let aside = assistant(&"Let me look at the next one, and then at the one behind it. ".repeat(8));
        scene.append_all(&[calls(&[&id]), result(&id, &told), aside]).await;
    }
    trim(&scene, Some(0), "").await.unwrap();
    assert_eq!(scene.trimmed().await.len(), 8);
    scene.kill_and_restart().await;
    scene.compressed(scene.ask_keeping("summarize", 2)).await;
    let view = scene.lines().await.join("\n");
    for number in 1..=7 {
        assert!(view.contains(&format!("src/part{number}.rs")), "{number}: {view}");
    }
}
