//! What stays however a context is compressed: what is pinned meanwhile, what was retained before, and the newest plan; and
//! what was taken back does not.

use std::fs;

use contextstore_proto::v1 as pb;
use pb::ErrorReason;
use serde_json::json;

use test_support::scene::{Scene, assistant, calls, content, result, user, words};
use test_support::wire::{holder, inherit, refused, start_as, task};

/// A message that is pinned while somebody summarises it stays, with its group, and one that would be cut stays whole.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_pinned_meanwhile_stays() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(12).await;
    scene.append_all(&[calls(&["a"]), result("a", "one"), assistant("Good.")]).await;
    for number in 16..=30 {
        scene.append(&user(&words(number))).await;
    }
    let long = "All of this is needed. ".repeat(200);
    scene.append_all(&[assistant(&long), user("And now?")]).await;
    let before = scene.lines().await;
    let request = pb::BeginCompactionRequest { target_tokens: Some(1000), ..scene.agent("summarize") };
    let (begun, _) = scene.begin(request).await.unwrap();
    // One that would go, a result, and one of the last, which is too long.
    for seq in [5, 14, 31] {
        scene.pin(seq).await;
    }
    let done = scene.committed(scene.commit(&begun.token, "All is well.")).await;
    let after = scene.lines().await;
    assert!(done.compressed, "{done:?}");
    assert_eq!(after[0], before[0]);
    assert_eq!(after[1..4], [before[4].clone(), before[12].clone(), before[13].clone()]);
    let summary = content(&after[4]);
    assert!(summary.starts_with("[Summary of messages 2–27]\n") && summary.ends_with("\nAll is well."));
    assert_eq!(after[after.len() - 2..], before[30..]);
    assert_eq!(done.tokens_after, scene.pressure().await.tokens);
    assert_eq!(done.messages_after, after.len() as u64);
}

/// A system message that came later and stayed for a while, as it was pinned or an agent wanted it, is no part of the system
/// prompt: it can go.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_system_message_stays_an_ordinary_one() {
    for (by, has_prompt) in
        [("agent", true), ("summarize", true), ("summarize", false), ("window", true), ("prune", true)]
    {
        for role in ["developer", "system"] {
            let mut scene = Scene::new(100_000).await;
            if has_prompt {
                scene.append(&json!({"role": "system", "content": "Be brief."})).await;
            }
            for number in 1..=6 {
                scene.append(&user(&words(number))).await;
            }
            let seq = scene.append(&json!({"role": role, "content": "Hurry up."})).await.seq;
            for number in 8..=30 {
                scene.append(&user(&words(number))).await;
            }
            let is_there = async |scene: &mut Scene| {
                scene.lines().await.iter().filter(|line| content(line) == "Hurry up.").count()
            };
            if by == "agent" {
                let (begun, _) = scene.begin(scene.agent("")).await.unwrap();
                let commit = scene.commit(&begun.token, "All is well.");
                scene.committed(pb::CommitCompactionRequest { keep_seqs: vec![seq], ..commit }).await;
            } else {
                // Also if others are pinned around it.
                for pinned in [seq - 2, seq, seq + 2] {
                    scene.pin(pinned).await;
                }
                let request = pb::CompressRequest { target_tokens: Some(500), ..scene.ask(by) };
                scene.compressed(request).await;
            }
            assert_eq!(is_there(&mut scene).await, 1, "{by} {role}");
            if by != "agent" {
                for seq in [seq - 2, seq, seq + 2] {
                    let request = pb::UnpinMessageRequest {
                        task_uuid: scene.work.uuid.clone(),
                        seq,
                        lease_generation: scene.work.lease,
                        ..Default::default()
                    };
                    scene.api.unpin_message(request).await.unwrap();
                }
            }
            for number in 31..=50 {
                scene.append(&user(&words(number))).await;
            }
            let strategy = if by == "agent" { "summarize" } else { by };
            let request = pb::CompressRequest { target_tokens: Some(300), ..scene.ask(strategy) };
            scene.compressed(request).await;
            let lines = scene.lines().await;
            assert_eq!(is_there(&mut scene).await, 0, "{by} {role}: {lines:#?}");
            assert_eq!(content(&lines[0]) == "Be brief.", has_prompt, "{by} {role}: {lines:#?}");
        }
    }
}

/// What a compaction has taken already cannot be pinned; after an undo it can.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_gone_is_not_pinned() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    scene.pin(4).await;
    scene.compressed(scene.ask("summarize")).await;
    let pin = |seq| pb::PinMessageRequest {
        task_uuid: scene.work.uuid.clone(),
        seq,
        lease_generation: scene.work.lease,
        ..Default::default()
    };
    let (gone, again) = (pin(5), pin(4));
    let why = refused(scene.api.pin_message(gone.clone()).await);
    assert_eq!((why.reason, why.data["seq"].as_str()), (ErrorReason::NotInView, "5"));
    // What is pinned already stays so.
    scene.api.pin_message(again).await.unwrap();
    scene.pin(19).await;
    scene.undo().await.unwrap();
    scene.api.pin_message(gone).await.unwrap();
    scene.compressed(scene.ask("summarize")).await;
    assert!(scene.lines().await.iter().any(|line| content(line) == words(5)));
}

/// What was retained stays when nothing else is said, and the agent is told of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_retained_stays_until_something_takes_its_place() {
    const KEPT: &str = "NEVER touch config/prod.yaml. Ticket ABC-123.";
    let mut scene = Scene::new(100_000).await;
    scene.talk(30).await;
    let (begun, _) = scene.begin(scene.agent("compact")).await.unwrap();
    assert_eq!(begun.retained, "");
    let commit = pb::CommitCompactionRequest {
        retain: KEPT.to_owned(),
        ..scene.commit(&begun.token, "The first parts were looked at.")
    };
    scene.committed(commit).await;
    let kept = async |scene: &mut Scene| -> Vec<String> {
        let lines = scene.lines().await;
        let texts = lines.iter().map(|line| content(line));
        texts.filter_map(|text| text.strip_prefix("[Kept information]\n").map(str::to_owned)).collect()
    };
    let mut number = 30;
    for (strategy, retain, expected) in [
        ("compact", "", KEPT),
        ("summarize", "", KEPT),
        ("compact", "Ticket ABC-123 is closed.", "Ticket ABC-123 is closed."),
    ] {
        for _ in 0..20 {
            number += 1;
            scene.append(&user(&words(number))).await;
        }
        let (begun, _) = scene.begin(scene.agent(strategy)).await.unwrap();
        assert_eq!(begun.retained, KEPT, "{strategy}");
        let commit = pb::CommitCompactionRequest {
            retain: retain.to_owned(),
            ..scene.commit(&begun.token, "The next parts were looked at.")
        };
        let done = scene.committed(commit).await;
        assert_eq!(kept(&mut scene).await, [expected], "{strategy}");
        assert_eq!(done.tokens_after, scene.pressure().await.tokens, "{strategy}");
    }
    for strategy in ["summarize", "window", "prune"] {
        for _ in 0..20 {
            number += 1;
            scene.append(&user(&words(number))).await;
        }
        let request = pb::CompressRequest { target_tokens: Some(900), ..scene.ask(strategy) };
        scene.compressed(request).await;
        assert_eq!(kept(&mut scene).await, ["Ticket ABC-123 is closed."], "{strategy}");
    }
}

/// It counts: the view is as small as it was to be, with it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_retained_is_within_the_goal() {
    let mut scene = Scene::new(4000).await;
    scene.talk(60).await;
    let (begun, _) = scene.begin(scene.agent("compact")).await.unwrap();
    // Half of what the view is to have in the end.
    let retain = "K".repeat(4 * 400);
    let commit = pb::CommitCompactionRequest { retain, ..scene.commit(&begun.token, "Short.") };
    scene.committed(commit).await;
    for number in 60..90 {
        scene.append(&user(&words(number))).await;
    }
    let request = pb::CompressRequest { target_tokens: Some(800), ..scene.ask("compact") };
    let done = scene.compressed(request).await;
    assert!(done.tokens_after <= 800, "{done:?}: {:#?}", scene.lines().await);
}

async fn append_plan(scene: &mut Scene, plan: &serde_json::Value) {
    let plan = pb::AppendPlanRequest {
        task_uuid: scene.work.uuid.clone(),
        plan_type: "planning".to_owned(),
        plan_content_json: plan.to_string(),
        lease_generation: scene.work.lease,
        ..Default::default()
    };
    scene.api.append_plan(plan).await.unwrap();
}

/// The newest plan stays whatever the strategy, also where an agent summarises, and its tokens count.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_plan_stays_whatever_the_strategy() {
    for strategy in ["summarize", "compact", "prune", "window", "agent"] {
        let mut scene = Scene::new(100_000).await;
        scene.talk(40).await;
        for (round, text) in ["First look, then leap.", "Leap at once."].into_iter().enumerate() {
            append_plan(&mut scene, &json!(text)).await;
            let overrides = Some(pb::CompressionConfig {
                keep_plan: Some(true),
                min_messages: Some(1),
                ..Default::default()
            });
            let done = if strategy == "agent" {
                let target_tokens = Some(700);
                let begin = pb::BeginCompactionRequest { overrides, target_tokens, ..scene.agent("") };
                let (begun, _) = scene.begin(begin).await.unwrap();
                scene.committed(scene.commit(&begun.token, "It went well.")).await
            } else {
                let request =
                    pb::CompressRequest { overrides, target_tokens: Some(700), ..scene.ask(strategy) };
                scene.compressed(request).await
            };
            let lines = scene.lines().await;
            let plans: Vec<usize> = (0..lines.len())
                .filter(|at| content(&lines[*at]).starts_with("[Current plan as of"))
                .collect();
            assert_eq!(plans, [1], "{strategy} {round}: {lines:#?}");
            assert_eq!(content(&lines[1]).split_once('\n').unwrap().1, text, "{strategy} {round}");
            assert_eq!(done.messages_after, lines.len() as u64, "{strategy} {round}");
            assert!(done.tokens_after <= 700, "{strategy} {round}: {done:?}");
            assert_eq!(done.tokens_after, scene.pressure().await.tokens, "{strategy} {round}");
            for number in 41..=60 {
                scene.append(&user(&words(number))).await;
            }
        }
    }
}

/// It stands behind the system prompt, also where a summary stays that was made before.
#[tokio::test(flavor = "multi_thread")]
async fn the_plan_stands_in_front_of_an_older_summary() {
    for strategy in ["window", "prune"] {
        let mut scene = Scene::new(100_000).await;
        scene.talk(30).await;
        scene.compressed(scene.ask("summarize")).await;
        append_plan(&mut scene, &json!("Look.")).await;
        for number in 31..=50 {
            scene.append(&user(&words(number))).await;
        }
        let overrides = pb::CompressionConfig { keep_plan: Some(true), ..Default::default() };
        let ask = pb::CompressRequest { overrides: Some(overrides), ..scene.ask(strategy) };
        scene.compressed(pb::CompressRequest { target_tokens: Some(1200), ..ask }).await;
        let lines = scene.lines().await;
        assert!(
            content(&lines[1]).starts_with("[Current plan as of message 50]\n"),
            "{strategy}: {lines:#?}"
        );
        assert!(content(&lines[2]).starts_with("[Summary of messages 2–"), "{strategy}: {lines:#?}");
    }
}

/// A plan that is too large for the view is cut, and says where all of it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_does_not_push_the_view_over_the_limit() {
    for strategy in ["summarize", "compact", "prune", "window"] {
        let mut scene = Scene::new(4000).await;
        let steps: Vec<String> =
            (0..350).map(|step| format!("step {step}: do one thing, then another")).collect();
        append_plan(&mut scene, &json!({ "steps": steps })).await;
        scene.talk(90).await;
        let overrides = pb::CompressionConfig { keep_plan: Some(true), ..Default::default() };
        let request = pb::CompressRequest { overrides: Some(overrides), ..scene.ask(strategy) };
        let done = scene.compressed(request).await;
        let pressure = done.pressure.unwrap();
        assert!(pressure.ratio < 0.7 && !pressure.incompressible, "{strategy}: {pressure:?}");
        let lines = scene.lines().await;
        let note = content(&lines[1]);
        let (head, plan) = note.split_once('\n').unwrap();
        assert_eq!(head, "[Current plan as of message 90]", "{strategy}");
        assert!(
            plan.starts_with(r#"{"steps":["step 0:"#) && plan.ends_with(r#"another"]}"#),
            "{strategy}: {plan}"
        );
        assert!(
            plan.contains("characters left out of the plan; GetLatestPlan has all of it, plan 1 …]"),
            "{plan}"
        );
        assert!((2000..4100).contains(&note.len()), "{strategy}: {}", note.len());
        assert!(lines.len() > 3, "{strategy}: {lines:#?}");
    }
}

/// A newer plan takes the place of an older one when somebody asks, also if nothing else can be done; and while an agent
/// summarises.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_plan_is_renewed() {
    let plan_of = |line: &String| content(line).split_once('\n').unwrap().1.to_owned();
    for strategy in ["summarize", "compact", "prune", "window"] {
        let mut scene = Scene::new(100_000).await;
        scene.talk(21).await;
        append_plan(&mut scene, &json!("Look.")).await;
        let ask = |scene: &Scene, target_tokens| {
            let overrides = pb::CompressionConfig { keep_plan: Some(true), ..Default::default() };
            pb::CompressRequest { overrides: Some(overrides), target_tokens, ..scene.ask(strategy) }
        };
        scene.compressed(ask(&scene, Some(500))).await;
        scene.append(&user("Well?")).await;
        let before = scene.lines().await;
        assert_eq!(plan_of(&before[1]), "Look.", "{strategy}");

        let plan =
            "Leap at once, and do not look at anything before that, not even at what is in front of you.";
        append_plan(&mut scene, &json!(plan)).await;
        let request = pb::CompressRequest { request_id: "renews".to_owned(), ..ask(&scene, None) };
        let done = scene.compressed(request.clone()).await;
        let again = scene.compressed(request).await;
        let counts =
            |done: &pb::CompressDone| (done.messages_before, done.messages_after, done.messages_removed);
        assert_eq!(counts(&again), counts(&done), "{strategy}");
        let after = scene.lines().await;
        assert_eq!(plan_of(&after[1]), plan, "{strategy}");
        assert_eq!((&after[0], &after[2..]), (&before[0], &before[2..]), "{strategy}");
        assert_eq!(done.messages_after, after.len() as u64, "{strategy}");
        assert_eq!(done.tokens_after, scene.pressure().await.tokens, "{strategy}");

        // The same plan again is nothing new; an undo brings the older one back.
        append_plan(&mut scene, &json!(plan)).await;
        assert!(!scene.compress(ask(&scene, None)).await.unwrap().0.compressed, "{strategy}");
        scene.undo().await.unwrap();
        assert_eq!(scene.lines().await, before, "{strategy}");
    }

    let mut scene = Scene::new(100_000).await;
    scene.talk(40).await;
    append_plan(&mut scene, &json!("Look.")).await;
    let overrides = Some(pb::CompressionConfig { keep_plan: Some(true), ..Default::default() });
    let begin = pb::BeginCompactionRequest { overrides, ..scene.agent("") };
    let (begun, _) = scene.begin(begin).await.unwrap();
    append_plan(&mut scene, &json!("Leap.")).await;
    scene.committed(scene.commit(&begun.token, "It went well.")).await;
    assert_eq!(plan_of(&scene.lines().await[1]), "Leap.");
}

/// A summary that was taken back is nowhere at the end, neither by undo nor by rewind; one that holds is, what was retained
/// in front of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_back_does_not_return_at_the_end() {
    for back in ["undo", "rewind", ""] {
        let mut scene = Scene::new(100_000).await;
        scene.talk(30).await;
        let (begun, _) = scene.begin(scene.agent("compact")).await.unwrap();
        let commit = pb::CommitCompactionRequest {
            retain: "Ticket ABC-123.".to_owned(),
            ..scene.commit(&begun.token, "## Decisions\n- We decided to use port 9999.")
        };
        scene.committed(commit).await;
        match back {
            "undo" => drop(scene.undo().await.unwrap()),
            "rewind" => drop(scene.api.rewind_task(scene.work.rewind(3)).await.unwrap()),
            _ => {}
        }
        scene.append(&user("Start again.")).await;
        let request = pb::CompleteTaskRequest {
            task_uuid: scene.work.uuid.clone(),
            lease_generation: scene.work.lease,
            ..Default::default()
        };
        scene.api.complete_task(request).await.unwrap();
        let summary = task(&mut scene.api, &scene.work).await.final_summary;
        assert_eq!(summary.contains("9999"), back.is_empty(), "{back}: {summary}");
        assert_eq!(
            summary.starts_with("## Kept information\nTicket ABC-123.\n\n"),
            back.is_empty(),
            "{summary}"
        );
    }
}

/// What was retained word for word is retained on by tasks that go on with it, and once.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_retained_is_passed_on_to_the_next_task() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(20).await;
    let (begun, _) = scene.begin(scene.agent("compact")).await.unwrap();
    let commit = pb::CommitCompactionRequest {
        retain: "## Never\nPush to ABC-123.".to_owned(),
        ..scene.commit(&begun.token, "All was looked at.")
    };
    scene.committed(commit).await;
    for generation in 0..3 {
        let request = pb::CompleteTaskRequest {
            task_uuid: scene.work.uuid.clone(),
            lease_generation: scene.work.lease,
            ..Default::default()
        };
        scene.api.complete_task(request).await.unwrap();
        let summary = task(&mut scene.api, &scene.work).await.final_summary;
        let kept = "## Kept information\n### Never\nPush to ABC-123.\n\n## Summary\n";
        assert!(summary.starts_with(kept), "{generation}: {summary}");
        for part in ["Kept information", "ABC-123", "## Summary"] {
            assert_eq!(summary.matches(part).count(), 1, "{generation}: {part} in {summary}");
        }
        let next = pb::StartTaskRequest { inherit: inherit(&scene.work.uuid), ..Default::default() };
        scene.work = start_as(&mut scene.api, next).await;
        scene.append(&user(&words(100 + generation))).await;
    }
}

/// Sections are the same six, whoever writes them.
#[tokio::test(flavor = "multi_thread")]
async fn sections_are_those_that_are_promised() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(40).await;
    let overrides = pb::CompressionConfig { structured: Some(true), ..Default::default() };
    let request = pb::CompressRequest { overrides: Some(overrides), ..scene.ask("summarize") };
    scene.compressed(request).await;
    let request = pb::GetLatestSummaryRequest { task_uuid: scene.work.uuid.clone() };
    let latest = scene.api.get_latest_summary(request).await.unwrap().into_inner().summary.unwrap();
    let sections: serde_json::Value = serde_json::from_str(&latest.sections_json).unwrap();
    let mut names: Vec<&String> = sections.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["changes", "decisions", "errors", "files", "goal", "pending"]);
    assert!(sections["goal"].to_string().contains("must not exceed"), "{sections}");
}

/// Where a summary stands for what the user asked, `compact` keeps what came of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_beginning_is_summarised_goes_on() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(20).await;
    for number in 0..6 {
        let id = format!("c{number}");
        scene.append_all(&[calls(&[&id]), result(&id, &words(number))]).await;
    }
    scene.compressed(scene.ask_keeping("summarize", 12)).await;
    let before = scene.lines().await;
    let request = pb::CompressRequest { target_tokens: Some(400), ..scene.ask("compact") };
    scene.compressed(request).await;
    let after = scene.lines().await;
    assert!((4..before.len()).contains(&after.len()), "{after:#?}");
    // What the user asked last, and the newest calls.
    assert_eq!(after[2], before[2]);
    assert_eq!(after[3..], before[before.len() - (after.len() - 3)..]);
}

/// A fork has the summaries of what it was made of, also as a file.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_the_summaries() {
    let mut scene = Scene::new(100_000).await;
    scene.talk(21).await;
    scene.compressed(scene.ask("summarize")).await;
    let request = pb::ForkTaskRequest {
        task_uuid: scene.work.uuid.clone(),
        holder: holder("fork"),
        ..Default::default()
    };
    let fork = scene.api.fork_task(request).await.unwrap().into_inner().task.unwrap();
    let summaries =
        |uuid: &str| fs::read_to_string(scene.server.running(uuid).join("summaries.jsonl")).unwrap();
    assert_eq!(summaries(&fork.uuid), summaries(&scene.work.uuid));
}
