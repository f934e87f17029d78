//! Compress: what each strategy leaves, what is told of it, and what is refused.

use std::fs;

use contextstore_proto::v1 as pb;
use pb::ErrorReason;
use serde_json::{Value, json};

use test_support::scene::{Scene, assistant, by_hand, calls, content, result, strategy, user, words};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire::{Work, all, holder, reason, refused, task};

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_stands_between_what_has_to_stay_and_the_newest() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    scene.pin(4).await;
    let before = scene.lines().await;
    let pressure = scene.pressure().await;

    let (done, steps) = scene.compress(scene.ask("summarize")).await.unwrap();
    let after = scene.lines().await;
    assert_eq!(after.len(), 8, "{after:#?}");
    assert_eq!(after[..2], [before[0].clone(), before[3].clone()]);
    assert_eq!(after[3..], before[16..]);
    let summary = content(&after[2]);
    assert!(summary.starts_with("[Summary of messages 2–16]\n"), "{summary}");
    assert!(serde_json::from_str::<Value>(&after[2]).unwrap()["role"] == "user");

    assert!(done.compressed && done.target_missed.is_empty() && !done.emergency, "{done:?}");
    assert_eq!((done.messages_before, done.messages_after, done.messages_removed), (21, 8, 14));
    assert_eq!((done.strategy().name(), done.generation, done.summary_id), ("summarize", 1, 1));
    assert_eq!((done.summary_author().name(), done.model.as_str()), ("extractive", ""));
    assert_eq!(done.fallback_reason, "");
    assert_eq!(done.tokens_before, pressure.tokens);
    let now = scene.pressure().await;
    assert_eq!((done.tokens_after, done.pressure.as_ref()), (now.tokens, Some(&now)));
    assert_eq!(done.tokens_removed, done.tokens_before - done.tokens_after);
    let duration = done.duration.unwrap();
    assert!((duration.seconds, duration.nanos) > (0, 0), "{duration:?}");

    let stages: Vec<&str> = steps.iter().map(|step| step.stage().name()).collect();
    assert_eq!(stages, ["extracting", "summarizing", "publishing"]);
    assert!(steps.iter().all(|step| step.messages == 14 && step.tokens > 500), "{steps:?}");
    assert_eq!(steps[1].attempt, 1);
    assert!(steps[2].summary_tokens > 0, "{steps:?}");

    // What it stands for is on record, and all of it is still in the log.
    let request = pb::GetLatestSummaryRequest { task_uuid: scene.work.uuid.clone() };
    let latest = scene.api.get_latest_summary(request).await.unwrap().into_inner().summary.unwrap();
    assert_eq!((latest.id, latest.start_seq, latest.end_seq), (1, 2, 16));
    assert_eq!((latest.compressed_message_count, latest.original_tokens), (14, steps[0].tokens));
    assert_eq!((latest.strategy().name(), latest.model.as_str()), ("summarize", "extractive"));
    assert_eq!(latest.tokens_saved, latest.original_tokens - latest.summary_tokens);
    assert_eq!(summary.split_once('\n').unwrap().1, latest.summary);
    let file = fs::read_to_string(scene.server.running(&scene.work.uuid).join("summaries.jsonl")).unwrap();
    let line: Value = serde_json::from_str(file.trim_end()).unwrap();
    assert_eq!((&line["id"], &line["summary"]), (&json!(1), &json!(latest.summary)));
    let request = pb::StreamSummariesRequest { task_uuid: scene.work.uuid.clone(), ..Default::default() };
    let batches = all(scene.api.stream_summaries(request).await).await.unwrap();
    let records: Vec<_> = batches.into_iter().flat_map(|batch| batch.records).collect();
    assert_eq!(records, [file.trim_end().as_bytes()]);

    let log = scene.log().await;
    assert_eq!(log.len(), 21);
    assert!(log.iter().zip(1..).skip(1).all(|(line, number)| line["content"] == words(number)));
    let statistics = scene.task().await.statistics.unwrap();
    assert_eq!((statistics.compression_count, statistics.total_summaries), (1, 1));
    assert_eq!((statistics.view_messages, statistics.total_messages), (8, 21));
    assert_eq!(scene.work_files(), [""; 0]);

    // The next one folds it in: there is one summary, of all.
    for number in 22..=40 {
        scene.append(&user(&words(number))).await;
    }
    let done = scene.compressed(scene.ask("")).await;
    let last = scene.lines().await;
    assert_eq!((last.len(), done.summary_id, done.messages_after), (8, 2, 8));
    assert_eq!(last[..2], after[..2]);
    assert!(content(&last[2]).starts_with("[Summary of messages 2–35]\n"), "{last:#?}");
}

/// What is asked for at the end is rounded outwards to whole groups, and a group that is open stays.
#[tokio::test(flavor = "multi_thread")]
async fn groups_stay_whole() {
    for (keep, expected) in [(1, 1), (2, 4), (3, 4), (4, 4), (5, 5)] {
        let mut scene = Scene::new(100_000).await;
        scene.talk(12).await;
        let group = [calls(&["a", "b"]), result("a", "one"), result("b", "two"), user("and now?")];
        scene.append_all(&group).await;
        let before = scene.lines().await;
        scene.compressed(scene.ask_keeping("summarize", keep)).await;
        let after = scene.lines().await;
        assert_eq!(after[2..], before[before.len() - expected..], "{keep}");
    }
    let mut scene = Scene::new(100_000).await;
    scene.talk(12).await;
    scene.append_all(&[calls(&["a", "b"]), result("a", "one")]).await;
    let before = scene.lines().await;
    scene.compressed(scene.ask_keeping("summarize", 0)).await;
    let after = scene.lines().await;
    // The last message of the user, and calls that wait for results.
    assert_eq!(after[2..], before[11..]);
    scene.append_all(&[result("b", "two"), user("and now?")]).await;
    assert_eq!(scene.lines().await.len(), after.len() + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_result_keeps_its_call() {
    for strategy in ["summarize", "compact", "prune", "window"] {
        let mut scene = Scene::new(100_000).await;
        scene.talk(6).await;
        scene.append_all(&[calls(&["a", "b"]), result("a", "one"), result("b", "two")]).await;
        for number in 10..=40 {
            scene.append(&user(&words(number))).await;
        }
        scene.pin(9).await;
        let before = scene.lines().await;
        let request = pb::CompressRequest { target_tokens: Some(400), ..scene.ask(strategy) };
        scene.compressed(request).await;
        let after = scene.lines().await;
        let at = after.iter().position(|line| *line == before[6]).unwrap();
        assert_eq!(after[at..at + 3], before[6..9], "{strategy}");
        assert_eq!(after[0], before[0], "{strategy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compact_keeps_the_last_turns() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(20).await;
    scene.append_all(&[calls(&["a"]), result("a", "found"), assistant("It is done.")]).await;
    let before = scene.lines().await;
    let done = scene.compressed(scene.ask("compact")).await;
    let after = scene.lines().await;
    // The last turn begins with message 20.
    assert_eq!(after[2..], before[19..]);
    assert_eq!((done.strategy().name(), done.messages_removed), ("compact", 18));
    scene.undo().await.unwrap();
    let overrides = pb::CompressionConfig { retain_last_turns: Some(3), ..Default::default() };
    let request = pb::CompressRequest { overrides: Some(overrides), ..scene.ask("compact") };
    scene.compressed(request).await;
    assert_eq!(scene.lines().await[2..], before[15..]);
}

/// `compact` does not guess what a model takes; what is to be left can be said instead.
#[tokio::test(flavor = "multi_thread")]
async fn compact_wants_to_know_the_limit() {
    let config = pb::TaskConfig { context_length: None, ..by_hand(0) };
    let mut scene = Scene::with(TestServer::start().await, config).await;
    scene.talk(20).await;
    let why = refused(scene.compress(scene.ask("compact")).await);
    assert_eq!(why.reason, ErrorReason::LimitUnknown);
    assert_eq!(why.data["task_uuid"], scene.work.uuid);
    assert_eq!(reason(scene.begin(scene.agent("compact")).await), ErrorReason::LimitUnknown);
    let request = pb::CompressRequest { target_tokens: Some(500), ..scene.ask("compact") };
    assert!(scene.compressed(request).await.tokens_after <= 500);

    // A task that asks for it in vain is told so at once.
    let compact = |context_length| {
        let compression =
            pb::CompressionConfig { strategy: pb::CompressionStrategy::Compact.into(), ..Default::default() };
        Some(pb::TaskConfig { context_length, compression: Some(compression), ..Default::default() })
    };
    let start = pb::StartTaskRequest { config: compact(None), holder: holder("a"), ..Default::default() };
    assert_eq!(reason(scene.api.start_task(start.clone()).await), ErrorReason::LimitUnknown);
    let known = pb::StartTaskRequest { config: compact(Some(1000)), ..start };
    scene.api.start_task(known).await.unwrap();
    let mut update = pb::UpdateTaskRequest {
        task_uuid: scene.work.uuid.clone(),
        config: compact(None),
        lease_generation: scene.work.lease,
        ..Default::default()
    };
    assert_eq!(reason(scene.api.update_task(update.clone()).await), ErrorReason::LimitUnknown);
    update.config = compact(Some(1000));
    scene.api.update_task(update).await.unwrap();
}

/// Where it is the server's strategy, and nobody was there to be told, `summarize` takes its place.
#[tokio::test(flavor = "multi_thread")]
async fn what_compact_cannot_do_is_done_otherwise() {
    let server = TestServer::start_configured(&[("compression.strategy", "compact")]).await;
    let compression =
        pb::CompressionConfig { auto: Some(true), token_threshold: Some(1000), ..Default::default() };
    let config = pb::TaskConfig { compression: Some(compression), ..Default::default() };
    let mut scene = Scene::with(server, config).await;
    scene.talk(40).await;
    eventually(DEADLINE, async || {
        (task(&mut scene.api.clone(), &scene.work).await.view_generation > 0).then_some(())
    })
    .await;
    assert!(scene.lines().await.len() < 40);
    assert!(scene.server.log().contains("takes the place of `compact`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn window_keeps_the_end_and_says_what_is_missing() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    let before = scene.lines().await;
    let window = pb::WindowConfig { messages: Some(4), ..Default::default() };
    let request = pb::CompressRequest { window: Some(window), ..scene.ask("window") };
    let done = scene.compressed(request).await;
    let after = scene.lines().await;
    assert_eq!(after[0], before[0]);
    assert_eq!(content(&after[1]), "[16 messages omitted]");
    assert_eq!(after[2..], before[17..]);
    assert_eq!((done.summary_id, done.summary_author().name()), (0, ""));
    // By tokens: as many as fit.
    let tokens = pb::WindowConfig { tokens: Some(150), ..Default::default() };
    let request = pb::CompressRequest { window: Some(tokens), ..scene.ask("window") };
    let done = scene.compressed(request).await;
    let again = scene.lines().await;
    let kept = again.len() - 2;
    assert!((1..4).contains(&kept), "{again:#?}");
    assert_eq!(again[2..], before[21 - kept..]);
    assert_eq!(content(&again[1]), format!("[{} messages omitted]", 20 - kept));
    assert!(done.tokens_after <= 150 + 30, "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prune_keeps_the_best_and_notes_the_gaps() {
    let mut scene = Scene::new(100_000).await;
    scene.append(&json!({"role": "system", "content": "Be brief."})).await;
    // Of two that are as old, the user's counts more; one of the assistant's has a word that counts.
    for number in 2..=30 {
        let text = if number == 9 { format!("{} It failed with an error.", words(9)) } else { words(number) };
        let message = if number % 2 == 0 { user(&text) } else { assistant(&text) };
        scene.append(&message).await;
    }
    let before = scene.lines().await;
    let tokens = scene.pressure().await.tokens;
    let request = pb::CompressRequest { target_tokens: Some(tokens * 17 / 20), ..scene.ask("prune") };
    let done = scene.compressed(request).await;
    let after = scene.lines().await;
    assert_eq!(after[0], before[0]);
    assert!(after.contains(&before[8]) && !after.contains(&before[6]), "{after:#?}");
    let gaps: Vec<String> =
        after.iter().map(|line| content(line)).filter(|text| text.starts_with('[')).collect();
    assert!(!gaps.is_empty() && gaps.iter().all(|text| text.ends_with("omitted]")), "{gaps:?}");
    let omitted: u64 =
        gaps.iter().map(|text| text[1..].split(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(omitted, done.messages_removed);
    assert_eq!(done.messages_after, after.len() as u64);
    // What stays is in its order.
    let places = after.iter().filter_map(|line| before.iter().position(|known| known == line));
    assert!(places.collect::<Vec<_>>().is_sorted());
}

/// A strategy brings its own threshold, wherever the call names it, unless the task says when it is time.
#[tokio::test(flavor = "multi_thread")]
async fn a_strategy_brings_its_own_threshold() {
    for (task, least, most) in [
        (pb::CompressionConfig::default(), 2600, 2800),
        (pb::CompressionConfig { threshold: Some(0.4), ..Default::default() }, 1100, 1400),
    ] {
        let config = pb::TaskConfig {
            compression: Some(pb::CompressionConfig { auto: Some(false), ..task }),
            ..by_hand(4000)
        };
        let mut scene = Scene::with(TestServer::start().await, config).await;
        scene.talk(75).await;
        let overrides =
            pb::CompressionConfig { strategy: pb::CompressionStrategy::Prune.into(), ..Default::default() };
        let named = pb::CompressRequest { overrides: Some(overrides), ..scene.ask("") };
        for request in [scene.ask("prune"), named] {
            let done = scene.compressed(request).await;
            assert!((least..=most).contains(&done.tokens_after), "{done:?}");
            assert_eq!(done.strategy().name(), "prune");
            scene.undo().await.unwrap();
        }
    }
}

/// The words of a gap that grows count all that it stands for.
#[tokio::test(flavor = "multi_thread")]
async fn gaps_of_gaps_count_all() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(41).await;
    for target in [1200, 800, 400] {
        let request = pb::CompressRequest { target_tokens: Some(target), ..scene.ask("prune") };
        scene.compressed(request).await;
        let lines = scene.lines().await;
        let (mut omitted, mut there) = (0, 0);
        for text in lines.iter().map(|line| content(line)) {
            match text.strip_prefix('[').and_then(|text| text.split(' ').next()?.parse::<u64>().ok()) {
                Some(count) => omitted += count,
                None => there += 1,
            }
        }
        assert_eq!(omitted + there, 41, "{lines:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_view_is_as_small_as_it_was_to_be() {
    for strategy in ["summarize", "compact", "prune", "window"] {
        let mut scene = Scene::new(100_000).await;
        scene.talk(101).await;
        for target in [3000, 1000, 500, 250] {
            let request = pb::CompressRequest { target_tokens: Some(target), ..scene.ask(strategy) };
            let done = scene.compressed(request).await;
            let tokens = scene.pressure().await.tokens;
            assert!(tokens <= target, "{strategy} to {target}: {tokens}, {:#?}", scene.lines().await);
            assert_eq!(done.tokens_after, tokens, "{strategy} to {target}");
            assert_eq!(done.messages_after, scene.lines().await.len() as u64, "{strategy} to {target}");
            scene.undo().await.unwrap();
        }
    }
}

/// What the user asked for is not lost for want of room where there is some, in small contexts too.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_in_a_small_context_tells_what_was_asked() {
    const RULES: [&str; 14] = [
        "Never delete rows of the table payments, not even those of test customers.",
        "All error messages must be in French, as the support team reads nothing else.",
        "Do not add dependencies whose licence is the GPL or anything like it.",
        "The login page has to load within 800 milliseconds on a slow phone.",
        "Only Ms. Okafor may approve changes to the firewall of the warehouse.",
        "Always write dates as day, month and year in the monthly invoices.",
        "Never log the passport numbers of travellers, neither whole nor in part.",
        "The nightly backup must not begin before 02:30, when the shop has closed.",
        "Do not rename the endpoint /v2/orders; the partners in Osaka call it.",
        "The mobile application must go on working with Android 9 until summer.",
        "Never push to the branch release-7 without a green run of the tests.",
        "All prices are stored in cents as whole numbers and never as floats.",
        "Do not send more than three mails a day to any one subscriber.",
        "Uploads of pictures must be refused if they are over 12 megabytes.",
    ];
    let mut scene = Scene::new(3000).await;
    scene.append(&json!({"role": "system", "content": "Be brief."})).await;
    for (rule, number) in RULES.into_iter().zip(1..) {
        scene.append_all(&[user(rule), assistant(&words(number)), assistant(&words(number + 30))]).await;
    }
    for number in 60..=80 {
        scene.append(&assistant(&words(number))).await;
    }
    let tokens = scene.pressure().await.tokens;
    let done = scene.compressed(scene.ask("summarize")).await;
    let summary = content(&scene.lines().await[1]);
    // What was said last stays word for word beside it.
    let (last, earlier) = RULES.split_last().unwrap();
    let lost: Vec<&&str> = earlier.iter().filter(|rule| !summary.contains(**rule)).collect();
    assert!(lost.is_empty(), "{lost:#?} of {summary}");
    assert_eq!(content(&scene.lines().await[2]), *last);
    // It is a third of what went at most, and leaves room for more.
    let request = pb::GetLatestSummaryRequest { task_uuid: scene.work.uuid.clone() };
    let latest = scene.api.get_latest_summary(request).await.unwrap().into_inner().summary.unwrap();
    assert!(latest.summary_tokens > 300 && latest.summary_tokens <= tokens / 3 + 20, "{latest:?}");
    assert!(done.tokens_after < 2100 - 300, "{done:?}");
}

/// What stays is too large by itself: outputs are trimmed, long texts cut; what has to stay is not.
#[tokio::test(flavor = "multi_thread")]
async fn what_stays_is_made_smaller_if_need_be() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(12).await;
    let long = "All of this is needed. ".repeat(200);
    scene.append_all(&[calls(&["a"]), result("a", &long), user(&long), assistant("Well.")]).await;
    scene.append(&user(&format!("pinned {long}"))).await;
    scene.pin(17).await;
    let before = scene.lines().await;
    let request = pb::CompressRequest { target_tokens: Some(2200), ..scene.ask("summarize") };
    let done = scene.compressed(request).await;
    let after = scene.lines().await;
    let tokens = scene.pressure().await.tokens;
    assert!(tokens <= 2200, "{tokens}: {after:#?}");
    assert_eq!(done.tokens_after, tokens);
    assert!(after.contains(&before[16]), "{after:#?}");
    assert!(after.iter().any(|line| content(line) == "[tool output trimmed; seq=14]"), "{after:#?}");
    let cut = after.iter().map(|line| content(line)).find(|text| text.contains("left out; seq=15")).unwrap();
    assert!(cut.starts_with("All of this") && cut.trim_end().ends_with("needed."), "{cut}");
    // Once more: what was cut is not cut away, and what is told is so.
    let again = pb::CompressRequest { target_tokens: Some(1600), ..scene.ask("summarize") };
    let (done, _) = scene.compress(again).await.unwrap();
    assert_eq!(done.tokens_after, scene.pressure().await.tokens, "{:#?}", scene.lines().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_when_there_is_nothing_to_do() {
    let mut scene = Scene::new(100_000).await;
    let (done, _) = scene.compress(scene.ask("")).await.unwrap();
    assert_eq!((done.compressed, done.skip_reason().name()), (false, "nothing"));
    scene.talk(10).await;
    // Four could go, and five must be there.
    let (done, _) = scene.compress(scene.ask("summarize")).await.unwrap();
    assert_eq!((done.compressed, done.skip_reason().name(), done.generation), (false, "nothing", 0));
    assert_eq!((done.messages_before, done.messages_after, done.messages_removed), (10, 10, 0));
    // However many have to be there, a goal that only they would reach changes nothing of it.
    let overrides = pb::CompressionConfig { min_messages: Some(10), ..Default::default() };
    let ask = pb::CompressRequest { overrides: Some(overrides), ..scene.ask("summarize") };
    let request = pb::CompressRequest { target_tokens: Some(300), ..ask };
    let (done, _) = scene.compress(request).await.unwrap();
    assert_eq!((done.compressed, done.skip_reason().name()), (false, "nothing"));
    assert!(done.tokens_after > 300, "{done:?}");
    let window = pb::WindowConfig { messages: Some(50), ..Default::default() };
    let request = pb::CompressRequest { window: Some(window), ..scene.ask("window") };
    let (done, _) = scene.compress(request).await.unwrap();
    assert_eq!((done.compressed, done.skip_reason().name()), (false, "not_worth_it"));
    assert_eq!(scene.task().await.view_generation, 0);
    assert_eq!(scene.work_files(), [""; 0]);
    let overrides = pb::CompressionConfig { min_messages: Some(4), ..Default::default() };
    let request = pb::CompressRequest { overrides: Some(overrides), ..scene.ask("summarize") };
    assert_eq!(scene.compressed(request).await.messages_removed, 4);
}

/// What is said in the place of results that never came is in the view, and counts.
#[tokio::test(flavor = "multi_thread")]
async fn what_stands_for_missing_results_is_counted() {
    let counts = |done: &pb::CompressDone| (done.messages_before, done.messages_after, done.messages_removed);
    for strategy in ["summarize", "compact", "prune", "window"] {
        let mut scene = Scene::new(100_000).await;
        scene.talk(20).await;
        // The model's own word is of the last turn.
        let last = if strategy == "compact" { assistant("No more.") } else { user("No more.") };
        scene.append_all(&[calls(&["a", "b", "c"]), result("a", "one of three"), last]).await;
        // Their call stays first, and then goes too.
        for round in ["first", "second"] {
            let ask = pb::CompressRequest { target_tokens: Some(400), ..scene.ask_keeping(strategy, 5) };
            let ask = pb::CompressRequest { request_id: round.to_owned(), ..ask };
            let (before, tokens) = (scene.lines().await, scene.pressure().await.tokens);
            let done = scene.compressed(ask.clone()).await;
            let after = scene.lines().await;
            let missing = after.iter().filter(|line| line.contains("[no result")).count();
            assert_eq!(missing, if round == "first" { 2 } else { 0 }, "{strategy}: {after:#?}");
            assert_eq!((done.tokens_before, done.tokens_after), (tokens, scene.pressure().await.tokens));
            assert_eq!(done.tokens_removed, done.tokens_before - done.tokens_after);
            // Notes of gaps may be the same, and are new.
            let is_gap = |line: &&String| content(line).ends_with(" omitted]");
            let stayed = after.iter().filter(|line| before.contains(line) && !is_gap(line)).count() as u64;
            let (then, now) = (before.len() as u64, after.len() as u64);
            assert_eq!(counts(&done), (then, now, then - stayed), "{strategy} {round}: {after:#?}");
            let again = scene.compressed(ask).await;
            assert_eq!(counts(&again), counts(&done), "{strategy} {round}");
            for number in 30..=50 {
                scene.append(&user(&words(number))).await;
            }
        }
    }
}

/// The system prompt alone is more than may be there: that is said, here and in the pressure.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_to_stay_can_be_too_large() {
    let mut scene = Scene::new(1000).await;
    scene.append(&json!({"role": "system", "content": "Always be careful. ".repeat(200)})).await;
    let (done, _) = scene.compress(scene.ask("summarize")).await.unwrap();
    assert_eq!(
        (done.compressed, done.skip_reason().name(), done.emergency),
        (false, "incompressible", false)
    );
    assert!(done.pressure.unwrap().incompressible);
    let pressure = scene.pressure().await;
    assert!(pressure.incompressible && pressure.should_compress, "{pressure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_change_a_task_can_compress_it() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    for (lease, why) in [(0, ErrorReason::LeaseHeld), (7, ErrorReason::StaleLease)] {
        let work = Work { lease, ..scene.work.clone() };
        let other = pb::CompressRequest { lease_generation: work.lease, ..scene.ask("") };
        assert_eq!(reason(scene.compress(other).await), why);
        let other = pb::BeginCompactionRequest { lease_generation: work.lease, ..scene.agent("") };
        assert_eq!(reason(scene.begin(other).await), why);
        let undo =
            pb::UndoCompactionRequest { task_uuid: work.uuid, lease_generation: lease, ..Default::default() };
        assert_eq!(reason(scene.api.undo_compaction(undo).await), why);
    }
    let pause = pb::PauseTaskRequest {
        task_uuid: scene.work.uuid.clone(),
        lease_generation: scene.work.lease,
        ..Default::default()
    };
    scene.api.pause_task(pause).await.unwrap();
    assert_eq!(reason(scene.compress(scene.ask("")).await), ErrorReason::WrongStatus);
    assert_eq!(reason(scene.begin(scene.agent("")).await), ErrorReason::WrongStatus);
    assert_eq!(reason(scene.undo().await), ErrorReason::WrongStatus);
    let nobody = pb::CompressRequest { task_uuid: scene.server.token(), ..scene.ask("") };
    assert_eq!(reason(scene.compress(nobody).await), ErrorReason::InvalidField);
    let uuid = "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10".to_owned();
    let nobody = pb::CompressRequest { task_uuid: uuid, ..scene.ask("") };
    assert_eq!(reason(scene.compress(nobody).await), ErrorReason::TaskNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_by_name() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    let overrides = |compression: pb::CompressionConfig| pb::CompressRequest {
        overrides: Some(compression),
        ..scene.ask("")
    };
    let requests = [
        (pb::CompressRequest { strategy: 99, ..scene.ask("") }, "strategy"),
        (pb::CompressRequest { target_tokens: Some(0), ..scene.ask("") }, "target_tokens"),
        (overrides(pb::CompressionConfig { threshold: Some(1.5), ..Default::default() }), "threshold"),
        (overrides(pb::CompressionConfig { summarizer: 99, ..Default::default() }), "summarizer"),
        (overrides(pb::CompressionConfig { strategy: 99, ..Default::default() }), "strategy"),
        // What would change nothing for one call.
        (overrides(pb::CompressionConfig { enabled: Some(true), ..Default::default() }), "overrides.enabled"),
        (overrides(pb::CompressionConfig { auto: Some(false), ..Default::default() }), "overrides.auto"),
        (
            overrides(pb::CompressionConfig { max_request_bytes: Some(1), ..Default::default() }),
            "overrides.max_request_bytes",
        ),
    ];
    for (request, field) in requests {
        let why = refused(scene.compress(request).await);
        assert_eq!(why.reason, ErrorReason::InvalidField);
        assert!(why.fields[0].ends_with(field), "{why:?}");
    }
    for strategy in [strategy("prune"), strategy("window"), 99] {
        let request = pb::BeginCompactionRequest { strategy, ..scene.agent("") };
        assert_eq!(refused(scene.begin(request).await).fields, ["strategy"]);
    }
    assert_eq!(scene.task().await.view_generation, 0);
}

/// A plan that is to stay does, once, and the newest one.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_plan_stays_if_that_is_wanted() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    for (number, text) in ["First look, then leap.", "Leap at once."].into_iter().enumerate() {
        let plan = pb::AppendPlanRequest {
            task_uuid: scene.work.uuid.clone(),
            plan_type: "planning".to_owned(),
            plan_content_json: json!(text).to_string(),
            lease_generation: scene.work.lease,
            ..Default::default()
        };
        scene.api.append_plan(plan).await.unwrap();
        let overrides = pb::CompressionConfig { keep_plan: Some(true), ..Default::default() };
        let request = pb::CompressRequest { overrides: Some(overrides), ..scene.ask("summarize") };
        let done = scene.compressed(request).await;
        let lines = scene.lines().await;
        let plans: Vec<String> =
            lines.iter().map(|line| content(line)).filter(|text| text.starts_with("[Current plan")).collect();
        let last = 21 + 16 * number;
        assert_eq!(plans, [format!("[Current plan as of message {last}]\n{text}")], "{number}");
        assert_eq!(done.messages_after, lines.len() as u64);
        for number in 30..=45 {
            scene.append(&user(&words(number))).await;
        }
    }
}

/// Clients call again by themselves when a connection breaks: whoever asks whether the view was compressed has to be told so.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_call_is_told_what_the_first_one_did() {
    for strategy in ["summarize", "compact", "prune", "window"] {
        let mut scene = Scene::new(3000).await;
        scene.talk(61).await;
        scene.append_all(&[calls(&["a"]), result("a", &words(70)), calls(&["b"])]).await;
        let request = |scene: &Scene, name: &str, target| pb::CompressRequest {
            request_id: name.to_owned(),
            target_tokens: Some(target),
            ..scene.ask(strategy)
        };
        for (name, target) in [("first", 1500), ("second", 700)] {
            let first = scene.compressed(request(&scene, name, target)).await;
            let missed = first.target_missed.contains(" tokens too many") && first.tokens_after > target;
            assert!(first.compressed && (first.target_missed.is_empty() || missed), "{first:?}");
            for _ in 0..2 {
                let (again, steps) = scene.compress(request(&scene, name, target)).await.unwrap();
                assert!(steps.is_empty() && again.duplicate, "{again:?}");
                let expected = pb::CompressDone {
                    duplicate: true,
                    target_missed: String::new(),
                    duration: again.duration,
                    summary_author: again.summary_author,
                    provider: again.provider,
                    ..first.clone()
                };
                assert_eq!(again, expected, "{strategy} {name}");
                assert_eq!(again.summary_id > 0, again.summary_author().name() == "extractive", "{again:?}");
                scene.kill_and_restart().await;
            }
            scene.append_all(&[result("b", &words(80)), user(&words(81)), calls(&["b"])]).await;
        }
        // What has become of the view since does not change what was done.
        let done = scene.compress(request(&scene, "first", 1500)).await.unwrap().0;
        assert_eq!((done.compressed, done.generation), (true, 1));
        assert_eq!(scene.task().await.view_generation, 2);
        assert_eq!(scene.task().await.statistics.unwrap().compression_count, 2);
        let other = request(&scene, "first", 1499);
        assert_eq!(reason(scene.compress(other).await), ErrorReason::RequestIdReused);
    }
    // One that did nothing is done anew.
    let mut scene = Scene::new(3000).await;
    for _ in 0..2 {
        let request = pb::CompressRequest { request_id: "none".to_owned(), ..scene.ask("") };
        let done = scene.compress(request).await.unwrap().0;
        assert_eq!((done.compressed, done.skip_reason().name()), (false, "nothing"));
    }
}
