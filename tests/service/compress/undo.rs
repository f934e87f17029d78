//! Taking compactions back, and looking at what was: the bytes are the same.

use contextstore_proto::v1 as pb;
use pb::ErrorReason;
use pb::watch_task_response::Event;
use serde_json::Value;

use test_support::scene::{Scene, user, words};
use test_support::wire::{all, reason, view};

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_brings_back_the_very_bytes() {
    for strategy in ["summarize", "compact", "prune", "window"] {
        let mut scene = Scene::new(100_000).await;
        scene.talk(41).await;
        assert_eq!(reason(scene.undo().await), ErrorReason::NothingToUndo);
        let first = scene.lines().await;
        let small = |scene: &Scene, target| pb::CompressRequest {
            target_tokens: Some(target),
            ..scene.ask(strategy)
        };
        scene.compressed(small(&scene, 900)).await;
        let second = scene.lines().await;
        for number in 42..=60 {
            scene.append(&user(&words(number))).await;
        }
        let grown = scene.lines().await;
        scene.compressed(small(&scene, 600)).await;
        assert!(scene.lines().await.len() < grown.len());
        scene.append(&user("later")).await;
        let later = scene.lines().await.pop().unwrap();

        let undone = scene.undo().await.unwrap();
        assert_eq!(undone.generation, 3);
        let expected = [grown.clone(), vec![later.clone()]].concat();
        assert_eq!(scene.lines().await, expected, "{strategy}");
        assert_eq!(undone.pressure.unwrap(), scene.pressure().await);
        scene.kill_and_restart().await;
        assert_eq!(scene.lines().await, expected, "{strategy}");
        assert_eq!(grown[..second.len()], second);

        scene.undo().await.unwrap();
        let appended = grown[second.len()..].to_vec();
        let expected = [first.clone(), appended, vec![later]].concat();
        assert_eq!(scene.lines().await, expected, "{strategy}");
        assert_eq!(reason(scene.undo().await), ErrorReason::NothingToUndo);
        // And what was taken back can be done again.
        scene.compressed(small(&scene, 700)).await;
        assert_eq!(scene.task().await.view_generation, 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_undo_takes_back_one() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(41).await;
    scene.compressed(scene.ask_keeping("summarize", 20)).await;
    let first = scene.lines().await;
    scene.compressed(scene.ask_keeping("summarize", 5)).await;
    let undo = pb::UndoCompactionRequest {
        task_uuid: scene.work.uuid.clone(),
        request_id: "back".to_owned(),
        lease_generation: scene.work.lease,
    };
    for _ in 0..3 {
        let told = scene.api.undo_compaction(undo.clone()).await.unwrap().into_inner();
        assert_eq!(told.generation, 3);
        assert_eq!(scene.lines().await, first);
        scene.kill_and_restart().await;
    }
}

/// The view as it was when a message was the last one, whatever became of it since.
#[tokio::test(flavor = "multi_thread")]
async fn earlier_views_can_be_read_after_compactions_and_undos() {
    let mut scene = Scene::new(100_000).await;
    let mut seen = Vec::new();
    for number in 1..=40 {
        scene.append(&user(&words(number))).await;
        match number {
            20 => drop(scene.compressed(scene.ask_keeping("summarize", 3)).await),
            25 => drop(scene.undo().await.unwrap()),
            30 => drop(scene.compressed(scene.ask_keeping("summarize", 5)).await),
            35 => {
                let request = pb::CompressRequest { target_tokens: Some(200), ..scene.ask("prune") };
                drop(scene.compressed(request).await);
            }
            _ => {}
        }
        seen.push(scene.lines().await);
    }
    for _ in 0..2 {
        for (lines, as_of_seq) in seen.iter().zip(1..) {
            let request = pb::StreamCurrentRequest { as_of_seq, ..scene.work.current() };
            let whole = view(&mut scene.api, request).await;
            assert_eq!(whole.lines().collect::<Vec<_>>(), *lines, "after {as_of_seq}");
        }
        scene.kill_and_restart().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_are_told_of_rewrites() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    let mut events = scene.api.watch_task(scene.work.watch("")).await.unwrap().into_inner();
    scene.compressed(scene.ask("summarize")).await;
    scene.undo().await.unwrap();
    let window = pb::WindowConfig { messages: Some(4), ..Default::default() };
    scene.compressed(pb::CompressRequest { window: Some(window), ..scene.ask("window") }).await;
    let mut told = Vec::new();
    while told.len() < 3 {
        if let Event::ViewRewritten(rewritten) = events.message().await.unwrap().unwrap().event.unwrap() {
            told.push((rewritten.generation, rewritten.kind().name().to_owned(), rewritten.last_seq));
        }
    }
    let expected = [(1, "summarize", 21), (2, "undo", 0), (3, "window", 21)];
    assert_eq!(
        told,
        expected.map(|(generation, strategy, covers)| (generation, strategy.to_owned(), covers))
    );
}

/// A rewind into a group leaves calls open; that view can be compressed too.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_that_was_rewound_into_a_group_can_be_compressed() {
    use test_support::scene::{calls, result};
    for strategy in ["summarize", "compact", "prune", "window"] {
        let mut scene = Scene::new(100_000).await;
        scene.talk(31).await;
        scene.append_all(&[calls(&["a", "b"]), result("a", "one"), result("b", "two"), user("well?")]).await;
        scene.api.rewind_task(scene.work.rewind(33)).await.unwrap();
        let before = scene.lines().await;
        let request = pb::CompressRequest { target_tokens: Some(500), ..scene.ask(strategy) };
        scene.compressed(request).await;
        let after = scene.lines().await;
        let open = after.iter().position(|line| *line == before[31]).unwrap();
        assert_eq!(after[open..], before[31..], "{strategy}");
        scene.append(&result("b", "at last")).await;
        assert_eq!(scene.lines().await.len(), after.len() + 1, "{strategy}");
    }
}

/// Summaries that were taken back are history: they are marked, and none of them is the newest.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_back_is_not_the_newest_summary() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(41).await;
    assert_eq!(summaries(&mut scene).await, (None, vec![]));
    scene.compressed(scene.ask_keeping("summarize", 30)).await;
    scene.undo().await.unwrap();
    assert_eq!(summaries(&mut scene).await, (None, vec![(1, true)]));
    scene.compressed(scene.ask_keeping("summarize", 30)).await;
    scene.compressed(scene.ask_keeping("summarize", 20)).await;
    // One that a newer one was made of was not taken back.
    let expected = (Some(3), vec![(1, true), (2, false), (3, false)]);
    assert_eq!(summaries(&mut scene).await, expected);
    scene.compressed(pb::CompressRequest { target_tokens: Some(700), ..scene.ask("window") }).await;
    assert_eq!(summaries(&mut scene).await, expected);
    scene.kill_and_restart().await;
    assert_eq!(summaries(&mut scene).await, expected);
    scene.undo().await.unwrap();
    scene.undo().await.unwrap();
    assert_eq!(summaries(&mut scene).await, (Some(2), vec![(1, true), (2, false), (3, true)]));
    scene.append(&user("more")).await;
    scene.compressed(scene.ask_keeping("summarize", 5)).await;
    let all = vec![(1, true), (2, false), (3, true), (4, false)];
    assert_eq!(summaries(&mut scene).await, (Some(4), all));

    // A rewind goes back to what was there then.
    for (seq, latest, expected) in [
        (41, Some(2), vec![(1, true), (2, false), (3, true), (4, true)]),
        (12, None, vec![(1, true), (2, true), (3, true), (4, true)]),
    ] {
        let rewind = pb::RewindTaskRequest {
            task_uuid: scene.work.uuid.clone(),
            lease_generation: scene.work.lease,
            seq,
            ..Default::default()
        };
        scene.api.rewind_task(rewind).await.unwrap();
        assert_eq!(summaries(&mut scene).await, (latest, expected));
    }
}

/// The newest summary, and all there are with whether they were taken back.
async fn summaries(scene: &mut Scene) -> (Option<u64>, Vec<(u64, bool)>) {
    let request = pb::GetLatestSummaryRequest { task_uuid: scene.work.uuid.clone() };
    let latest = match scene.api.get_latest_summary(request).await {
        Ok(found) => Some(found.into_inner().summary.unwrap().id),
        Err(status) => {
            assert_eq!(reason::<()>(Err(status)), ErrorReason::SummaryNotFound);
            None
        }
    };
    let request = pb::StreamSummariesRequest { task_uuid: scene.work.uuid.clone(), ..Default::default() };
    let batches = all(scene.api.stream_summaries(request).await).await.unwrap();
    let records = batches.into_iter().flat_map(|batch| batch.records);
    let told = records.map(|record| {
        let record: Value = serde_json::from_slice(&record).unwrap();
        (record["id"].as_u64().unwrap(), record.get("undone").is_some_and(|undone| undone == true))
    });
    (latest, told.collect())
}
