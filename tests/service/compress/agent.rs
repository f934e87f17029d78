//! Agents that summarise themselves: what they are told, what is taken of them, and how long.

use std::time::Duration;

use contextstore_proto::v1 as pb;
use pb::ErrorReason;
use serde_json::json;

use test_support::scene::{Scene, assistant, by_hand, calls, content, result, user, words};
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire::{Appending, reason, refused, task, view};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_told_what_to_summarise_and_its_summary_is_put_there() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    scene.pin(4).await;
    let before = scene.lines().await;
    let (begun, lines) = scene.begin(scene.agent("")).await.unwrap();
    assert_eq!((begun.start_seq, begun.end_seq, begun.messages), (2, 16, 14));
    assert_eq!(begun.previous_summary, "");
    assert!(begun.summary_tokens > 0 && begun.summary_tokens < begun.tokens, "{begun:?}");
    assert!(begun.prompt.contains("ummar"), "{}", begun.prompt);
    assert!(begun.expire_time.is_some());
    let seqs: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    assert!(lines.iter().zip(&seqs).all(|(line, seq)| line["content"] == words(*seq)), "{lines:?}");
    assert_eq!(lines[1]["role"], "assistant");
    let tokens: u64 = lines.iter().map(|line| line["tokens"].as_u64().unwrap()).sum();
    assert_eq!(tokens, begun.tokens);

    // Until it comes back nothing is changed, and the task goes on.
    assert_eq!(scene.lines().await, before);
    let meanwhile = scene.append(&user("meanwhile")).await.tokens;
    let summary = "Parts 2 to 16 were looked at; all are short enough.";
    let commit = pb::CommitCompactionRequest {
        keep_seqs: vec![7],
        model: "my-model".to_owned(),
        request_id: "mine".to_owned(),
        ..scene.commit(&begun.token, summary)
    };
    let done = scene.committed(commit.clone()).await;
    let after = scene.lines().await;
    assert_eq!(after[..3], [before[0].clone(), before[3].clone(), before[6].clone()]);
    // What the user asked for stands in front of it.
    let shown = content(&after[3]);
    assert!(shown.starts_with("[Summary of messages 2–16]\n## Goal\n- Step 2: ") && shown.ends_with(summary));
    assert_eq!(after[4..9], before[16..]);
    assert_eq!(content(&after[9]), "meanwhile");
    assert_eq!((done.summary_author().name(), done.model.as_str()), ("agent", "my-model"));
    assert!(done.compressed && done.summary_id == 1 && done.generation == 1, "{done:?}");
    assert_eq!((done.messages_before, done.messages_after, done.messages_removed), (21, 9, 13));
    assert!(done.tokens_after < done.tokens_before);
    assert_eq!(done.tokens_after + meanwhile, scene.pressure().await.tokens);
    let request = pb::GetLatestSummaryRequest { task_uuid: scene.work.uuid.clone() };
    let latest = scene.api.get_latest_summary(request).await.unwrap().into_inner().summary.unwrap();
    assert_eq!(latest.model, "my-model");
    assert!(latest.summary.starts_with("## Goal\n") && latest.summary.ends_with(summary), "{latest:?}");
    assert_eq!(scene.work_files(), [""; 0]);

    // A token is good once; the same call again is told what it did, also by another server.
    for _ in 0..2 {
        let again = scene.committed(commit.clone()).await;
        assert_eq!((again.compressed, again.duplicate, again.generation), (true, true, 1));
        assert_eq!((again.summary_author().name(), again.model.as_str()), ("agent", "my-model"));
        // The one message more came while the agent was at it.
        assert_eq!((again.messages_before, again.messages_after, again.messages_removed), (22, 10, 13));
        assert_eq!(again.tokens_removed, done.tokens_removed);
        let other = scene.commit(&begun.token, "another");
        assert_eq!(reason(scene.api.commit_compaction(other).await), ErrorReason::CompactionNotFound);
        scene.kill_and_restart().await;
    }
    assert_eq!(scene.lines().await, after);
}

/// What is kept on an agent's wish counts: the tokens that are told are those of the view.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_keeps_is_counted() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(30).await;
    let (begun, _) = scene.begin(scene.agent("summarize")).await.unwrap();
    let commit = pb::CommitCompactionRequest {
        keep_seqs: vec![3, 9, 10, 29, 4711],
        ..scene.commit(&begun.token, "Nothing of note.")
    };
    let done = scene.committed(commit).await;
    assert_eq!(done.tokens_after, scene.pressure().await.tokens);
    assert_eq!(done.messages_after, scene.lines().await.len() as u64);
    assert_eq!(done.messages_after, 1 + 3 + 1 + 5);
    // It was the agent's, of whatever model.
    let request = pb::GetLatestSummaryRequest { task_uuid: scene.work.uuid.clone() };
    let latest = scene.api.get_latest_summary(request).await.unwrap().into_inner().summary.unwrap();
    assert_eq!((latest.model.as_str(), done.model.as_str()), ("agent", ""));
}

/// With `compact` there is something to be kept beside the summary, and the next one is told of both.
#[tokio::test(flavor = "multi_thread")]
async fn compact_takes_what_is_to_be_kept_word_for_word() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(20).await;
    let (begun, _) = scene.begin(scene.agent("compact")).await.unwrap();
    let commit = pb::CommitCompactionRequest {
        retain: "The password is in the safe.".to_owned(),
        ..scene.commit(&begun.token, "All was looked at.")
    };
    scene.committed(commit).await;
    let lines = scene.lines().await;
    assert_eq!(content(&lines[1]), "[Kept information]\nThe password is in the safe.");
    let summary = content(&lines[2]);
    assert!(summary.starts_with("[Summary of messages 2–19]\n") && summary.ends_with("\nAll was looked at."));
    for number in 30..=40 {
        scene.append(&user(&words(number))).await;
    }
    let (begun, _) = scene.begin(scene.agent("compact")).await.unwrap();
    assert!(begun.previous_summary.ends_with("\nAll was looked at."), "{begun:?}");
    assert_eq!(begun.start_seq, 2);
    scene.api.abort_compaction(scene.abort(&begun.token)).await.unwrap();
    // The built-in summariser has nobody to ask what to keep: what was kept stays.
    scene.compressed(scene.ask("compact")).await;
    let lines = scene.lines().await;
    assert_eq!(content(&lines[1]), "[Kept information]\nThe password is in the safe.");
}

/// What is kept beside a summary is none: without a word of what went, both it and the summary before would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_retained_is_no_summary() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(20).await;
    let (begun, _) = scene.begin(scene.agent("compact")).await.unwrap();
    scene.committed(scene.commit(&begun.token, "All was looked at.")).await;
    for number in 21..=40 {
        scene.append(&user(&words(number))).await;
    }
    let before = scene.lines().await;
    for (strategy, summary) in [("compact", ""), ("summarize", " \n"), ("compact", "-")] {
        let (begun, _) = scene.begin(scene.agent(strategy)).await.unwrap();
        let commit = pb::CommitCompactionRequest {
            retain: "The password is in the safe.".to_owned(),
            ..scene.commit(&begun.token, summary)
        };
        let why = refused(scene.api.commit_compaction(commit).await);
        assert_eq!(why.reason, ErrorReason::SummaryRefused, "{strategy} {summary:?}");
        assert!(why.words.contains("is empty"), "{why:?}");
        scene.api.abort_compaction(scene.abort(&begun.token)).await.unwrap();
    }
    assert_eq!(scene.lines().await, before);
}

/// With `structured` an agent is asked for the sections that a model is asked for, and they are kept if it brings them.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_can_bring_sections() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    let overrides = pb::CompressionConfig { structured: Some(true), ..Default::default() };
    let names = ["goal", "decisions", "changes", "files", "errors", "pending"];
    for (structured, strategy) in [(false, ""), (true, ""), (true, "compact")] {
        let overrides = structured.then(|| overrides.clone());
        let request = pb::BeginCompactionRequest { overrides, ..scene.agent(strategy) };
        let (begun, _) = scene.begin(request).await.unwrap();
        for name in names {
            let is_asked_for = begun.prompt.contains(&format!("- \"{name}\": "));
            assert_eq!(is_asked_for, structured, "{name}: {}", begun.prompt);
        }
        scene.api.abort_compaction(scene.abort(&begun.token)).await.unwrap();
    }
    let object = json!({"goal": ["Count the parts"], "files": ["a.rs"], "pending": []}).to_string();
    let text = "\n- Count the parts\n\n## Files\n- a.rs";
    for (structured, brought, shown) in [
        (true, format!("```json\n{object}\n```"), text),
        (true, "Just words.".to_owned(), "Just words."),
        (false, object.clone(), object.as_str()),
    ] {
        let overrides = structured.then(|| overrides.clone());
        let request = pb::BeginCompactionRequest { overrides, ..scene.agent("") };
        let (begun, _) = scene.begin(request).await.unwrap();
        scene.committed(scene.commit(&begun.token, &brought)).await;
        let request = pb::GetLatestSummaryRequest { task_uuid: scene.work.uuid.clone() };
        let latest = scene.api.get_latest_summary(request).await.unwrap().into_inner().summary.unwrap();
        assert!(latest.summary.ends_with(shown), "{latest:?}");
        if shown == text {
            let sections: serde_json::Value = serde_json::from_str(&latest.sections_json).unwrap();
            // Behind what the user asked for.
            assert_eq!(sections["goal"].as_array().unwrap().last(), Some(&json!("Count the parts")));
            assert_eq!(sections["errors"], json!([]));
        } else {
            assert_eq!(latest.sections_json, "");
        }
        let undo = pb::UndoCompactionRequest {
            task_uuid: scene.work.uuid.clone(),
            lease_generation: scene.work.lease,
            ..Default::default()
        };
        scene.api.undo_compaction(undo).await.unwrap();
    }
}

/// A summary by the agent is held to what a summary by a model is held to: a word does not stand for a long history, and what
/// the user asked for stands in front of a summary that lacks it.
#[tokio::test(flavor = "multi_thread")]
async fn an_agents_summary_has_a_floor_and_the_users_words() {
    let mut scene = Scene::new(100_000).await;
    let goal = "Move the search to OpenSearch.";
    let rule = "Never restart the old index on a weekday.";
    scene.append_all(&[user(goal), assistant("I will."), user(rule)]).await;
    for number in 1..=200 {
        scene.append(&assistant(&words(number))).await;
    }
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    let why = refused(scene.api.commit_compaction(scene.commit(&begun.token, "ok")).await);
    assert_eq!(why.reason, ErrorReason::SummaryRefused);
    assert!(why.words.contains("it needs at least"), "{why:?}");
    let summary =
        "All parts were looked at, one after the other. The old index serves the search until then.";
    assert!(scene.committed(scene.commit(&begun.token, summary)).await.compressed);
    let lines = scene.lines().await;
    let shown = lines.iter().map(|line| content(line)).find(|text| text.ends_with(summary)).unwrap();
    assert!(shown.contains(goal), "{shown}");
    assert!(lines.iter().any(|line| line.contains(rule)), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_is_no_good_is_refused_and_another_one_is_taken() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(12).await;
    scene.append(&calls(&["a"])).await;
    let output = scene.work.json(result("a", "a long listing").to_string()).output_ref("out-7");
    scene.api.append_message(output).await.unwrap();
    for number in 15..=25 {
        scene.append(&user(&words(number))).await;
    }
    let (begun, lines) = scene.begin(scene.agent("")).await.unwrap();
    assert_eq!(begun.output_refs, ["out-7"]);
    assert!(lines.iter().any(|line| line["output_ref"] == "out-7" && line["tool_call_id"] == "a"));
    let generation = scene.task().await.view_generation;
    for (summary, words) in [
        (String::new(), "empty"),
        (" \n".to_owned(), "empty"),
        (format!("out-7 {}", words(1).repeat(100)), "tokens"),
        ("All done.".to_owned(), "out-7"),
    ] {
        let why = refused(scene.api.commit_compaction(scene.commit(&begun.token, &summary)).await);
        assert_eq!(why.reason, ErrorReason::SummaryRefused);
        assert!(why.words.contains(words), "{why:?}");
    }
    for (commit, field) in [
        (scene.commit(&begun.token, &"x".repeat((512 << 10) + 1)), "summary"),
        (
            pb::CommitCompactionRequest {
                retain: "x".repeat((256 << 10) + 1),
                ..scene.commit(&begun.token, "out-7")
            },
            "retain",
        ),
        (
            pb::CommitCompactionRequest { keep_seqs: vec![3; 257], ..scene.commit(&begun.token, "out-7") },
            "keep_seqs",
        ),
        (
            pb::CommitCompactionRequest { model: "m".repeat(257), ..scene.commit(&begun.token, "out-7") },
            "model",
        ),
    ] {
        assert_eq!(refused(scene.api.commit_compaction(commit).await).fields, [field]);
    }
    assert_eq!(scene.task().await.view_generation, generation);
    assert!(scene.committed(scene.commit(&begun.token, "All done; see out-7.")).await.compressed);
}

/// An agent's summary that is smaller than what it stands for makes the view smaller.
#[tokio::test(flavor = "multi_thread")]
async fn an_agents_summary_never_makes_the_view_larger() {
    let mut scene = Scene::new(100_000).await;
    scene.append(&json!({"role": "system", "content": "Be brief."})).await;
    for number in 2..=14 {
        scene.append(&user(&format!("Say {number} once more."))).await;
    }
    let before = scene.pressure().await.tokens;
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    // As long as it may be and not as long as what it stands for.
    let mut accepted = false;
    for words in (1..=begun.tokens).rev() {
        let summary = "word ".repeat(usize::try_from(words).unwrap());
        match scene.api.commit_compaction(scene.commit(&begun.token, &summary)).await {
            Ok(_) => {
                accepted = true;
                break;
            }
            refusal => assert_eq!(reason(refusal), ErrorReason::SummaryRefused),
        }
    }
    assert!(accepted);
    assert!(scene.pressure().await.tokens < before, "{before}: {:#?}", scene.lines().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_can_be_given_up() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    assert_eq!(scene.work_files(), ["to_summarize.jsonl", "unsummarized.jsonl"]);
    let wrong = scene.abort("018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10");
    assert_eq!(reason(scene.api.abort_compaction(wrong).await), ErrorReason::CompactionNotFound);
    let other = pb::AbortCompactionRequest { lease_generation: 7, ..scene.abort(&begun.token) };
    assert_eq!(reason(scene.api.abort_compaction(other).await), ErrorReason::StaleLease);
    scene.api.abort_compaction(scene.abort(&begun.token)).await.unwrap();
    assert_eq!(scene.work_files(), [""; 0]);
    let again = scene.abort(&begun.token);
    assert_eq!(reason(scene.api.abort_compaction(again).await), ErrorReason::CompactionNotFound);
    let late = scene.commit(&begun.token, "late");
    assert_eq!(reason(scene.api.commit_compaction(late).await), ErrorReason::CompactionNotFound);
    assert!(scene.compressed(scene.ask("")).await.compressed);
}

/// Whoever lost a token, as with a connection, can begin anew, or compress otherwise: the old one is worth nothing then.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_token_keeps_nobody_from_beginning_anew() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(40).await;
    let (lost, _) = scene.begin(scene.agent("")).await.unwrap();
    let (begun, _) = scene.begin(scene.agent("compact")).await.unwrap();
    let late = scene.commit(&lost.token, "late");
    assert_eq!(reason(scene.api.commit_compaction(late).await), ErrorReason::CompactionNotFound);
    let late = scene.abort(&lost.token);
    assert_eq!(reason(scene.api.abort_compaction(late).await), ErrorReason::CompactionNotFound);
    eventually(DEADLINE, async || (scene.work_files().len() == 2).then_some(())).await;
    assert!(scene.committed(scene.commit(&begun.token, "All is well.")).await.compressed);
    for number in 41..=60 {
        scene.append(&user(&words(number))).await;
    }
    let (lost, _) = scene.begin(scene.agent("")).await.unwrap();
    assert!(scene.compressed(scene.ask("")).await.compressed);
    let late = scene.commit(&lost.token, "late");
    assert_eq!(reason(scene.api.commit_compaction(late).await), ErrorReason::CompactionNotFound);
    eventually(DEADLINE, async || scene.work_files().is_empty().then_some(())).await;
}

/// While an agent summarises nothing is compressed by itself, unless the context gets over its limit. If it is time when the
/// agent has ended, however it has, what had to wait is done.
#[tokio::test(flavor = "multi_thread")]
async fn what_had_to_wait_for_an_agent_is_done_when_it_ends() {
    for end in ["commit", "abort", "expiry"] {
        let ttl = if end == "expiry" { "2s" } else { "10m" };
        let server = TestServer::start_configured(&[("compression.agent_ttl", ttl)]).await;
        let config = by_hand(2000);
        let compression = pb::CompressionConfig {
            auto: Some(true),
            min_messages: Some(2),
            ..config.compression.clone().unwrap()
        };
        let config = pb::TaskConfig { compression: Some(compression), ..config };
        let mut scene = Scene::with(server, config).await;
        scene.talk(12).await;
        let mut generation = 0;
        let request = pb::BeginCompactionRequest { target_tokens: Some(300), ..scene.agent("") };
        let (begun, _) = scene.begin(request).await.unwrap();
        // Should its time be over before that, the next append has it done.
        for number in 12..60 {
            if scene.append(&user(&words(number))).await.pressure.unwrap().tokens > 1850 {
                break;
            }
        }
        match end {
            "commit" => generation = scene.committed(scene.commit(&begun.token, "Short.")).await.generation,
            "abort" => drop(scene.api.abort_compaction(scene.abort(&begun.token)).await.unwrap()),
            _ => {}
        }
        eventually(DEADLINE, async || {
            let mut scene = Scene::on(scene.api.clone(), scene.work.clone());
            let is_done = scene.task().await.view_generation > generation;
            (is_done && !scene.pressure().await.should_compress).then_some(())
        })
        .await;
    }
}

/// A task that ends or rests while an agent summarises has nothing to take, and the agent is told so.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_has_ended_takes_no_summary() {
    for ends in [false, true] {
        let mut scene = Scene::new(100_000).await;
        scene.talk(21).await;
        let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
        let (task_uuid, lease_generation) = (scene.work.uuid.clone(), scene.work.lease);
        if ends {
            let request = pb::CompleteTaskRequest { task_uuid, lease_generation, ..Default::default() };
            scene.api.complete_task(request).await.unwrap();
        } else {
            let request = pb::PauseTaskRequest { task_uuid, lease_generation, ..Default::default() };
            scene.api.pause_task(request).await.unwrap();
        }
        let why = refused(scene.api.commit_compaction(scene.commit(&begun.token, "Late.")).await);
        assert_eq!(why.reason, ErrorReason::WrongStatus, "{ends}");
        assert!(why.words.contains("compress it"), "{why:?}");
        // There is nothing to give back either, and whoever tries is not told that it may not.
        let late = scene.abort(&begun.token);
        assert_eq!(reason(scene.api.abort_compaction(late).await), ErrorReason::CompactionNotFound, "{ends}");
        for why in [refused(scene.compress(scene.ask("")).await), refused(scene.begin(scene.agent("")).await)]
        {
            assert_eq!(why.reason, ErrorReason::WrongStatus, "{ends}");
            assert!(why.words.contains("compress it"), "{why:?}");
        }
    }
}

/// A token that is not used in time is worth nothing, and what was kept for it goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_expires() {
    let server = TestServer::start_configured(&[("compression.agent_ttl", "100ms")]).await;
    let mut scene = Scene::with(server, by_hand(100_000)).await;
    scene.talk(21).await;
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    eventually(DEADLINE, async || {
        let late = scene.commit(&begun.token, "");
        (reason(scene.api.clone().commit_compaction(late).await) == ErrorReason::CompactionNotFound)
            .then_some(())
    })
    .await;
    assert!(scene.compressed(scene.ask("")).await.compressed);
    assert_eq!(scene.work_files(), [""; 0]);
    // Also if nobody asks for anything any more.
    for number in 22..=40 {
        scene.append(&user(&words(number))).await;
    }
    scene.begin(scene.agent("")).await.unwrap();
    eventually(Duration::from_secs(30), async || scene.work_files().is_empty().then_some(())).await;
}

/// A server that is killed forgets the token, and what lay around for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_does_not_outlive_the_server() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    let before = scene.lines().await;
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    assert_eq!(scene.work_files().len(), 2);
    scene.kill_and_restart().await;
    assert_eq!(scene.lines().await, before);
    assert_eq!(scene.work_files(), [""; 0]);
    let late = scene.commit(&begun.token, "late");
    assert_eq!(reason(scene.api.commit_compaction(late).await), ErrorReason::CompactionNotFound);
    // In an orderly stop they go at once.
    scene.begin(scene.agent("")).await.unwrap();
    assert_eq!(scene.work_files().len(), 2);
    scene.server.terminate().await;
    assert_eq!(scene.work_files(), [""; 0]);
    scene.server.restart().await;
}

/// What an agent is told where there is nothing to summarise is what a compression tells that did nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_told_why_there_is_nothing_to_summarise() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(6).await;
    let why = refused(scene.begin(scene.agent("")).await);
    assert_eq!((why.reason, why.data["cause"].as_str()), (ErrorReason::NothingToSummarize, "nothing"));
    assert_eq!(scene.compress(scene.ask("")).await.unwrap().0.skip_reason().name(), "nothing");
    for seq in 2..=6 {
        scene.pin(seq).await;
    }
    let begin = pb::BeginCompactionRequest { target_tokens: Some(1), ..scene.agent("") };
    assert_eq!(refused(scene.begin(begin).await).data["cause"], "incompressible");
    let ask = pb::CompressRequest { target_tokens: Some(1), ..scene.ask("") };
    assert_eq!(scene.compress(ask).await.unwrap().0.skip_reason().name(), "incompressible");
    // No place was taken for it.
    scene.talk(12).await;
    scene.begin(scene.agent("")).await.unwrap();
}

/// An undo or a rewind in between: what the agent was told of is no longer there.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_that_was_taken_back_takes_no_summary() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(40).await;
    scene.compressed(scene.ask_keeping("summarize", 20)).await;
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    scene.undo().await.unwrap();
    let commit = scene.commit(&begun.token, "This comes too late.");
    assert_eq!(reason(scene.api.commit_compaction(commit).await), ErrorReason::StaleView);
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    scene.api.rewind_task(scene.work.rewind(30)).await.unwrap();
    let commit = scene.commit(&begun.token, "This comes too late.");
    assert_eq!(reason(scene.api.commit_compaction(commit).await), ErrorReason::StaleView);
    assert!(scene.compressed(scene.ask("")).await.compressed);
}

/// Images that are trimmed meanwhile do not make a slow summary worthless.
#[tokio::test(flavor = "multi_thread")]
async fn a_trim_in_between_does_no_harm() {
    let config = by_hand(1_000_000);
    let compression =
        pb::CompressionConfig { max_request_bytes: Some(100_000), ..config.compression.clone().unwrap() };
    let config = pb::TaskConfig { compression: Some(compression), ..config };
    let mut scene = Scene::with(TestServer::start().await, config).await;
    scene.talk(21).await;
    let image = |fill: &str| {
        let url = format!("data:image/png;base64,{}", fill.repeat(60_000));
        json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    };
    scene.append_all(&[image("A"), test_support::scene::assistant("An image.")]).await;
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    let generation = scene.task().await.view_generation;
    scene.append_all(&[image("B"), test_support::scene::assistant("Another one.")]).await;
    let (mut api, work) = (scene.api.clone(), scene.work.clone());
    eventually(DEADLINE, async || {
        (task(&mut api.clone(), &work).await.view_generation > generation).then_some(())
    })
    .await;
    let trimmed = view(&mut api, work.current()).await;
    let trimmed: Vec<&str> = trimmed.lines().collect();
    let done = scene.committed(scene.commit(&begun.token, "Parts were looked at.")).await;
    assert!(done.compressed, "{done:?}");
    let after = scene.lines().await;
    let summary = content(&after[1]);
    assert!(
        summary.starts_with("[Summary of messages 2–18]\n") && summary.ends_with("Parts were looked at.")
    );
    // What the trim left stays as it left it.
    assert_eq!(after[2..], trimmed[18..]);
    scene.undo().await.unwrap();
    assert_eq!(scene.lines().await, trimmed);
}

/// A user who does not wait for a tool closes its group; the result that comes then does no harm.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_comes_too_late_does_no_harm() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    scene.append_all(&[calls(&["a"]), user("Never mind.")]).await;
    let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
    scene.append(&result("a", "too late")).await;
    let done = scene.committed(scene.commit(&begun.token, "Parts were looked at.")).await;
    assert!(done.compressed, "{done:?}");
    let lines = scene.lines().await;
    assert!(content(lines.last().unwrap()).contains("too late"), "{lines:#?}");
}
