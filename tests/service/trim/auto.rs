//! Trimming that nobody asks for: when, what, how often, and what it leaves alone.

use contextstore_proto::v1 as pb;
use serde_json::{Value, json};

use test_support::scene::{Scene, assistant, user};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service::{self, doctor, oracle};
use test_support::trimming::{call, output, with_budget};
use test_support::wire::Appending;

const BUDGET: u64 = 1000;

async fn scene() -> Scene {
    Scene::with(TestServer::start().await, with_budget(BUDGET)).await
}

/// The budget is kept to, by few rewrites, and between two of them the view only grows: a prompt cache stays good.
#[tokio::test(flavor = "multi_thread")]
async fn old_outputs_go_in_batches_and_new_ones_stay() {
    let mut scene = scene().await;
    scene.append(&user("Look at everything.")).await;
    let (mut before, mut breaks, mut first) = (scene.lines().await, 0, 0);
    for number in 1..=100 {
        first = scene.step(number).await;
        let outputs = scene.settled(BUDGET).await;
        // All up to some output are notes, and none behind it.
        let trimmed = outputs.iter().filter(|output| output.is_trimmed()).count();
        assert!(outputs[..trimmed].iter().all(|output| output.is_trimmed()), "{outputs:?}");
        let lines = scene.lines().await;
        breaks += u64::from(!lines.starts_with(&before));
        before = lines;
    }
    let generation = scene.task().await.view_generation;
    let tokens: u64 = scene.outputs().await.iter().map(|output| output.tokens).sum();
    assert_eq!(breaks, generation, "each of them broke it once");
    // Each made room for two thirds of the budget.
    assert!(generation <= tokens / (BUDGET * 3 / 5) + 1, "{generation} rewrites for {tokens} tokens");
    assert!(generation >= (tokens - BUDGET) / (BUDGET * 4 / 5), "{generation} rewrites for {tokens} tokens");

    // What became a note can be read: the log has it.
    let note = scene.outputs().await.remove(0);
    assert_eq!(note.content, format!("[tool output trimmed; seq={}]", note.seq));
    let request = pb::GetMessageRequest { task_uuid: scene.work.uuid.clone(), seq: note.seq };
    let record = scene.api.get_message(request).await.unwrap().into_inner().record;
    let message: Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(message["content"], output("call_1")["content"]);
    assert!(!scene.trimmed().await.contains(&first));
    checked(&mut scene).await;
}

/// Nothing is wrong with the files of a server.
async fn checked(scene: &mut Scene) {
    scene.server.terminate().await;
    assert_eq!(doctor(&scene.server.data_dir()), None);
    assert_eq!(oracle(&scene.server.data_dir()), None);
}

/// A prompt cache is not broken for outputs that have room: below half of the limit nothing is trimmed.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_trimmed_below_half_of_the_limit() {
    let config = pb::TaskConfig { context_length: Some(4 * BUDGET), ..with_budget(BUDGET) };
    let mut scene = Scene::with(TestServer::start().await, config).await;
    let mut number = 0;
    while scene.pressure().await.tokens < 2 * BUDGET - 200 {
        number += 1;
        scene.step(number).await;
    }
    assert!(scene.output_tokens().await > BUDGET + 200);
    assert_eq!(scene.task().await.view_generation, 0);
    for number in number..number + 5 {
        scene.step(number).await;
    }
    scene.settled(BUDGET).await;
    assert_eq!(scene.task().await.view_generation, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pinned_protected_small_or_unanswered_stays() {
    let outputs = pb::OutputsConfig {
        budget_tokens: Some(BUDGET),
        protected_tools: vec!["plan".to_owned()],
        ..Default::default()
    };
    let config = pb::TaskConfig { outputs: Some(outputs), ..with_budget(BUDGET) };
    let mut scene = Scene::with(TestServer::start().await, config).await;
    // By its call, by its own name, pinned, of a call that is pinned, and small.
    scene.append_all(&[call("plan", "a"), output("a"), call("read", "b")]).await;
    let mut named = output("b");
    named["tool_name"] = "plan".into();
    scene.append_all(&[named, call("read", "c"), output("c"), call("read", "d"), output("d")]).await;
    scene.pin(6).await;
    scene.pin(7).await;
    scene
        .append_all(&[call("read", "e"), json!({"role": "tool", "tool_call_id": "e", "content": "ok"})])
        .await;
    // Another is pinned and released again.
    let released = scene.step(1).await;
    scene.pin(released).await;
    let request = pb::UnpinMessageRequest {
        task_uuid: scene.work.uuid.clone(),
        seq: released,
        lease_generation: scene.work.lease,
        ..Default::default()
    };
    scene.api.unpin_message(request).await.unwrap();
    for number in 2..=8 {
        scene.step(number).await;
    }
    let outputs = scene.settled(BUDGET).await;
    let stays: Vec<u64> =
        outputs.iter().filter(|output| !output.is_trimmed()).map(|output| output.seq).collect();
    assert!(stays.starts_with(&[2, 4, 6, 8, 10]) && !stays.contains(&released), "{outputs:?}");
    assert!(stays.contains(&outputs.last().unwrap().seq));

    // Calls that come at once are not answered: they stay, whatever they take.
    let generation = scene.task().await.view_generation;
    let ids: Vec<String> = (0..20).map(|number| format!("together_{number}")).collect();
    let calls: Vec<Value> = ids.iter().map(|id| call("read", id)["tool_calls"][0].clone()).collect();
    scene.append(&json!({"role": "assistant", "content": null, "tool_calls": calls})).await;
    for id in &ids {
        scene.append(&output(id)).await;
    }
    scene.rewritten(generation).await;
    let outputs = scene.outputs().await;
    assert!(outputs[outputs.len() - 20..].iter().all(|output| !output.is_trimmed()), "{outputs:?}");
    // Then the model answers, and with the next output they go.
    scene.append(&assistant("I see.")).await;
    scene.step(99).await;
    let outputs = scene.settled(BUDGET).await;
    assert!(outputs[outputs.len() - 10].is_trimmed() && !outputs[outputs.len() - 1].is_trimmed());
    let stays: Vec<u64> =
        outputs.iter().filter(|output| !output.is_trimmed()).map(|output| output.seq).collect();
    assert!(stays.starts_with(&[2, 4, 6, 8, 10]), "{outputs:?}");
    checked(&mut scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_note_names_the_ref_of_what_is_stored() {
    let mut scene = scene().await;
    scene.append(&call("read", "stored")).await;
    let stored = scene.work.json(output("stored").to_string());
    let output_ref = "kept-0123456789abcdef".to_owned();
    scene.api.append_message(stored.output_ref(output_ref)).await.unwrap();
    for number in 1..=12 {
        scene.step(number).await;
    }
    let outputs = scene.settled(BUDGET).await;
    assert_eq!(outputs[0].content, "[tool output trimmed; ref=kept-0123456789abcdef]");
    checked(&mut scene).await;
}

/// It can be switched off, and on again; the budget follows the limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_or_a_server_may_not_want_it() {
    let off = pb::OutputsConfig { enabled: Some(false), budget_tokens: Some(BUDGET), ..Default::default() };
    let config = pb::TaskConfig { outputs: Some(off), ..with_budget(BUDGET) };
    let mut scene = Scene::with(TestServer::start().await, config).await;
    for number in 1..=15 {
        scene.step(number).await;
    }
    assert_eq!(scene.task().await.view_generation, 0);
    let config = pb::TaskConfig { outputs: None, ..with_budget(BUDGET) };
    // A limit of 3000 gives a budget of half of it.
    let config = pb::TaskConfig { context_length: Some(3000), ..config };
    scene.update(config).await;
    assert!(scene.output_tokens().await > 1500);
    scene.step(16).await;
    let outputs = scene.settled(1500).await;
    assert!(!outputs.last().unwrap().is_trimmed());

    let server = TestServer::start_configured(&[("outputs.enabled", "false")]).await;
    let mut scene = Scene::with(server, with_budget(BUDGET)).await;
    for number in 1..=15 {
        scene.step(number).await;
    }
    assert_eq!(scene.task().await.view_generation, 0);
}

/// A trim cannot be taken back by itself; the compaction below it can, and what was trimmed since comes back with it.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_takes_back_the_compaction_below() {
    let mut scene = scene().await;
    for number in 1..=12 {
        scene.step(number).await;
    }
    scene.settled(BUDGET).await;
    let trimmed = scene.lines().await;
    let refused = scene.undo().await.unwrap_err();
    assert!(service::reason(&refused).ends_with("NOTHING_TO_UNDO"), "{refused:?}");
    scene.answered().await;
    scene.compressed(scene.ask_keeping("summarize", 2)).await;
    let generation = scene.task().await.view_generation;
    for number in 13..=24 {
        scene.step(number).await;
    }
    scene.rewritten(generation).await;
    scene.undo().await.unwrap();
    let lines = scene.lines().await;
    // What stood there before it is there as it was; what came since is whole again.
    assert!(lines.starts_with(&trimmed));
    assert!(lines[trimmed.len()..].iter().all(|line| !line.contains("[tool output trimmed")));
    checked(&mut scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_goes_on_after_a_restart() {
    let mut scene = scene().await;
    for number in 1..=9 {
        scene.step(number).await;
    }
    assert_eq!(scene.task().await.view_generation, 0);
    scene.kill_and_restart().await;
    for number in 10..=12 {
        scene.step(number).await;
    }
    let outputs = scene.settled(BUDGET).await;
    scene.kill_and_restart().await;
    assert_eq!(scene.outputs().await, outputs);
    scene.server.restart().await;
    scene.api = test_support::wire::api(&scene.server).await;
    for number in 13..=20 {
        scene.step(number).await;
        scene.settled(BUDGET).await;
    }
    checked(&mut scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trims_are_counted() {
    let settings = "outputs:\n  budget_tokens: 1000\n";
    let config = pb::TaskConfig { outputs: None, ..with_budget(BUDGET) };
    let mut scene = Scene::with(service::serve(settings).await, config).await;
    for number in 1..=20 {
        scene.step(number).await;
        scene.settled(BUDGET).await;
    }
    let generation = scene.task().await.view_generation as f64;
    let trimmed = scene.trimmed().await.len() as f64;
    // A trim is counted when it is done, which is after it can be seen.
    let counted = || async {
        let metric = |name| service::metric(&scene.server, name);
        let counts = (metric("context_trims_total"), metric("context_trimmed_outputs_total"));
        (counts == (generation, trimmed)).then_some(())
    };
    eventually(DEADLINE, counted).await;
}
