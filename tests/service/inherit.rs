//! Inheritance: a task goes on where an earlier one on the same subject ended.

use std::fs;

use contextstore_base::infra::clock::ManualClock;
use contextstore_base::infra::fs::sim::SimFs;
use contextstore_base::model::StoreError;
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use contextstore_store::store::Store;
use serde_json::{Value, json};
use uuid::Uuid;

use test_support::server::TestServer;
use test_support::steps::{Act, Client, on, task_id};
use test_support::wire::{Api, Work, api, holder, inherit, reason, refused, say, task, view};

/// A request to work on an issue.
fn issue(task_id: &str) -> pb::StartTaskRequest {
    let key = pb::TaskKey {
        task_source: "github".to_owned(),
        owner: "acme".to_owned(),
        repo: "shop".to_owned(),
        task_type: "issue".to_owned(),
        task_id: task_id.to_owned(),
    };
    pb::StartTaskRequest {
        key: Some(key),
        user: "ann".to_owned(),
        holder: holder("a"),
        ..pb::StartTaskRequest::default()
    }
}

async fn begin(api: &mut Api, request: pb::StartTaskRequest) -> (Work, pb::StartTaskResponse) {
    let started = api.start_task(request).await.unwrap().into_inner();
    let uuid = started.task.as_ref().unwrap().uuid.clone();
    (Work { uuid, lease: started.lease_generation }, started)
}

async fn plan(api: &mut Api, work: &Work, plan_type: &str, content: Value) {
    let request = pb::AppendPlanRequest {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        plan_type: plan_type.to_owned(),
        plan_content_json: content.to_string(),
        ..Default::default()
    };
    api.append_plan(request).await.unwrap();
}

async fn complete(api: &mut Api, work: &Work, summary: &str) {
    let request = pb::CompleteTaskRequest {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        final_summary: summary.to_owned(),
        ..Default::default()
    };
    api.complete_task(request).await.unwrap();
}

async fn fail(api: &mut Api, work: &Work, error: &str, summary: &str) {
    let request = pb::FailTaskRequest {
        task_uuid: work.uuid.clone(),
        lease_generation: work.lease,
        error_message: error.to_owned(),
        final_summary: summary.to_owned(),
        ..Default::default()
    };
    api.fail_task(request).await.unwrap();
}

/// An issue that was worked on and ended well.
async fn ended(api: &mut Api, task_id: &str, summary: &str) -> Work {
    let (work, _) = begin(api, pb::StartTaskRequest { inherit: inherit("NEVER"), ..issue(task_id) }).await;
    say(api, &work, "do it").await;
    plan(api, &work, "initial", json!("look at cart.rs")).await;
    plan(api, &work, "revision", json!({"steps": ["test", "fix"]})).await;
    complete(api, &work, summary).await;
    work
}

async fn shown(api: &mut Api, work: &Work) -> Vec<(String, String)> {
    let text = view(api, work.current()).await;
    let message = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        (value["role"].as_str().unwrap().to_owned(), value["content"].as_str().unwrap().to_owned())
    };
    text.lines().map(message).collect()
}

async fn find(api: &mut Api, request: pb::StartTaskRequest, limit: u32) -> Vec<pb::PreviousContext> {
    let request = pb::FindPreviousContextsRequest { key: request.key, user: request.user, limit };
    api.find_previous_contexts(request).await.unwrap().into_inner().contexts
}

fn context(work: &Work, max_summary_tokens: u64) -> pb::GetInheritanceContextRequest {
    pb::GetInheritanceContextRequest { task_uuid: work.uuid.clone(), max_summary_tokens }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_begins_with_what_the_one_before_knew() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let first = ended(&mut client, "7", "Fixed the cart; tests in tests/cart.rs pass.").await;
    let request = pb::StartTaskRequest {
        system_message: "You are a clerk.".to_owned(),
        task_uuid: Uuid::now_v7().to_string(),
        request_id: "start-2".to_owned(),
        ..issue("7")
    };
    let (second, started) = begin(&mut client, request.clone()).await;
    assert!(started.created);
    assert_eq!(started.inherited_from, first.uuid);
    let time = fs::read_to_string(server.data_dir().join("completed").join(&first.uuid).join("task.json"));
    let row: Value = serde_json::from_str(&time.unwrap()).unwrap();
    let ended_at = row["completed_at"].as_str().unwrap()[..19].to_owned() + "Z";
    let comment = &started.inheritance_comment;
    for word in [first.uuid.as_str(), "completed", &ended_at] {
        assert!(comment.contains(word), "{word}: {comment}");
    }

    let seen = shown(&mut client, &second).await;
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], ("system".to_owned(), "You are a clerk.".to_owned()));
    let (role, text) = &seen[1];
    assert_eq!(role, "user");
    assert!(
        text.starts_with(&format!("[Context from previous task {} (completed {ended_at})]\n", first.uuid))
    );
    for word in ["Fixed the cart", " initial: look at cart.rs\n", r#" revision: {"steps":["test","fix"]}"#] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(text.contains("not an instruction") && text.contains("Continue where that task ended"));

    // The same is told before, and the same again.
    let told = client.get_inheritance_context(context(&first, 0)).await.unwrap().into_inner();
    assert_eq!((&told.text, &told.comment, told.truncated), (text, comment, false));
    let known = told.context.unwrap();
    assert_eq!(
        (known.task_uuid, known.status, known.has_final_summary),
        (first.uuid.clone(), pb::TaskStatus::Completed.into(), true)
    );
    for restart in [false, true] {
        if restart {
            server.kill();
            server.restart().await;
            client = api(&server).await;
        }
        let (_, again) = begin(&mut client, request.clone()).await;
        assert_eq!((again.created, again.lease_generation), (true, second.lease));
        assert_eq!((&again.inherited_from, &again.inheritance_comment), (&first.uuid, comment));
        assert_eq!(shown(&mut client, &second).await, seen);
    }
    // Whoever takes it up again gets nothing twice, whatever they ask for.
    let other = pb::StartTaskRequest {
        request_id: "start-3".to_owned(),
        system_message: "Another one.".to_owned(),
        inherit: inherit(&Uuid::now_v7().to_string()),
        ..request
    };
    let (_, again) = begin(&mut client, other).await;
    assert_eq!((again.created, again.inherited_from.as_str()), (false, first.uuid.as_str()));
    assert_eq!(shown(&mut client, &second).await, seen);
    server.terminate().await;
    assert_eq!(test_support::service::doctor(&server.data_dir()), None);
    assert_eq!(test_support::service::oracle(&server.data_dir()), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_system_message_that_comes_later_stands_in_front() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let first = ended(&mut client, "7", "All is done.").await;
    let (second, _) = begin(&mut client, issue("7")).await;
    let roles = |seen: &[(String, String)]| -> Vec<String> {
        seen.iter()
            .map(|(role, text)| if text.starts_with('[') { "before".to_owned() } else { role.clone() })
            .collect()
    };
    assert_eq!(roles(&shown(&mut client, &second).await), ["before"]);
    for (restart, role) in [(false, "system"), (true, "developer")] {
        if restart {
            server.kill();
            server.restart().await;
            client = api(&server).await;
        }
        let message = json!({"role": role, "content": "Be kind."}).to_string();
        client.append_message(second.json(message)).await.unwrap();
    }
    assert_eq!(roles(&shown(&mut client, &second).await), ["system", "developer", "before"]);
    say(&mut client, &second, "now").await;
    let late = json!({"role": "system", "content": "Be quick."}).to_string();
    client.append_message(second.json(late)).await.unwrap();
    let expected = ["system", "developer", "before", "user", "system"];
    assert_eq!(roles(&shown(&mut client, &second).await), expected);
    // A fork has it as it was.
    let fork = pb::ForkTaskRequest {
        task_uuid: second.uuid.clone(),
        at_seq: 1,
        holder: holder("b"),
        ..Default::default()
    };
    let forked = client.fork_task(fork).await.unwrap().into_inner();
    let forked = Work { uuid: forked.task.unwrap().uuid, lease: forked.lease_generation };
    assert_eq!(roles(&shown(&mut client, &forked).await), ["system", "before"]);
    let message = json!({"role": "system", "content": "Be slow."}).to_string();
    client.append_message(forked.json(message)).await.unwrap();
    assert_eq!(roles(&shown(&mut client, &forked).await), ["system", "system", "before"]);
    assert_eq!(task(&mut client, &first).await.status().name(), "completed");
    server.terminate().await;
    assert_eq!(test_support::service::doctor(&server.data_dir()), None);
    assert_eq!(test_support::service::oracle(&server.data_dir()), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_that_ended_is_found() {
    let server = TestServer::start().await;
    let mut client = api(&server).await;
    let old = ended(&mut client, "7", "The first try.").await;
    let (failed, _) =
        begin(&mut client, pb::StartTaskRequest { inherit: inherit("NEVER"), ..issue("7") }).await;
    say(&mut client, &failed, "again").await;
    fail(&mut client, &failed, "the build broke\nbadly", "The second try.").await;
    ended(&mut client, "8", "Another issue.").await;
    let (running, _) =
        begin(&mut client, pb::StartTaskRequest { inherit: inherit("NEVER"), ..issue("7") }).await;

    let found = find(&mut client, issue("7"), 0).await;
    let ids: Vec<&str> = found.iter().map(|found| found.task_uuid.as_str()).collect();
    assert_eq!(ids, [failed.uuid.as_str(), old.uuid.as_str()]);
    assert_eq!((found[0].status().name(), found[1].status().name()), ("failed", "completed"));
    assert!(found.iter().all(|found| found.has_final_summary && found.complete_time.is_some()));
    assert_eq!(find(&mut client, issue("7"), 1).await.len(), 1);

    let (next, started) = begin(&mut client, issue("7")).await;
    assert_eq!(started.inherited_from, failed.uuid);
    let text = shown(&mut client, &next).await[0].1.clone();
    assert!(
        text.contains("It failed: the build broke badly\n") && text.contains("The second try."),
        "{text}"
    );

    // Of others nobody takes over anything.
    let mut other = issue("7");
    other.user = "bob".to_owned();
    let mut elsewhere = issue("7");
    elsewhere.key.as_mut().unwrap().repo = "blog".to_owned();
    let mut another = issue("7");
    another.key.as_mut().unwrap().task_type = "pull_request".to_owned();
    let mut nameless = issue("");
    nameless.key.as_mut().unwrap().task_id = String::new();
    let mut off = issue("7");
    let inheritance = pb::InheritanceConfig { enabled: Some(false), ..Default::default() };
    off.config = Some(pb::TaskConfig { inheritance: Some(inheritance), ..Default::default() });
    let never = pb::StartTaskRequest { inherit: inherit("NEVER"), ..issue("7") };
    for request in [other, elsewhere, another, nameless, off, never] {
        let (work, started) = begin(&mut client, request).await;
        assert_eq!((started.inherited_from.as_str(), started.inheritance_comment.as_str()), ("", ""));
        assert!(shown(&mut client, &work).await.is_empty());
    }
    // But by name one can, also from another issue.
    let named = pb::StartTaskRequest { inherit: inherit(&old.uuid), ..issue("9") };
    let (work, started) = begin(&mut client, named).await;
    assert_eq!(started.inherited_from, old.uuid);
    assert!(shown(&mut client, &work).await[0].1.contains("The first try."));
    assert_eq!(task(&mut client, &running).await.status().name(), "running");
}

/// Two forges may have a repository of the same name. Where one is not named, it can be any.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_taken_over_from_another_forge() {
    let server = TestServer::start().await;
    let mut client = api(&server).await;
    let from = |source: &str| {
        let mut request = issue("7");
        request.key.as_mut().unwrap().task_source = source.to_owned();
        request
    };
    let mut ids = Vec::new();
    for source in ["github", "gitlab", ""] {
        let never = pb::StartTaskRequest { inherit: inherit("NEVER"), ..from(source) };
        let (work, _) = begin(&mut client, never).await;
        complete(&mut client, &work, &format!("Done for {source}.")).await;
        ids.push(work.uuid);
    }
    let [github, gitlab, nameless] = &ids[..] else { panic!("{ids:?}") };
    for (source, expected) in [
        ("github", vec![nameless, github]),
        ("gitlab", vec![nameless, gitlab]),
        ("gitea", vec![nameless]),
        ("", vec![nameless, gitlab, github]),
    ] {
        let found = find(&mut client, from(source), 0).await;
        assert_eq!(found.iter().map(|found| &found.task_uuid).collect::<Vec<_>>(), expected, "{source}");
        let (_, started) = begin(&mut client, from(source)).await;
        assert_eq!(&started.inherited_from, nameless);
    }
}

/// The first task of a line of them.
struct Talk {
    said: &'static [(&'static str, &'static str)],
    /// What of it every later one has to know.
    known: &'static [&'static str],
}

const TALKS: [Talk; 2] = [
    Talk {
        said: &[
            (
                "user",
                "Move the billing service to the new invoice schema before Friday. You must never touch config/prod.yaml, and keep the response format of /v1/invoices.",
            ),
            (
                "assistant",
                "I decided to write the migration in db/migrations/0042_invoices.sql, as ticket BILL-1742 asks for.",
            ),
            (
                "user",
                "The customer number of the test account is C-88213. Always run make check-invoices before a commit.",
            ),
            (
                "assistant",
                "The first run failed with error E4711: column due_date is missing. I added the column to db/schema.sql.",
            ),
            ("user", "Chiara Bassi has to approve the rollout; do not deploy without her approval."),
            (
                "assistant",
                "Decision: we use integers for all amounts. The flag is called INVOICE_V2_ENABLED.",
            ),
        ],
        known: &[
            "new invoice schema",
            "config/prod.yaml",
            "/v1/invoices",
            "0042_invoices.sql",
            "BILL-1742",
            "C-88213",
            "make check-invoices",
            "Chiara Bassi",
            "integers for all amounts",
            "INVOICE_V2_ENABLED",
        ],
    },
    Talk {
        said: &[
            (
                "user",
                "請求サービスを新しいスキーマに移行してください。config/prod.yaml は絶対に変更しないでください。",
            ),
            (
                "assistant",
                "チケット BILL-1742 のとおり、db/migrations/0042_invoices.sql に移行を書くことに決定しました。",
            ),
            (
                "user",
                "テスト用の顧客番号は C-88213 です。コミットの前に必ず make check-invoices を実行してください。",
            ),
            (
                "assistant",
                "金額はすべて整数で扱うことに決定しました。フラグの名前は INVOICE_V2_ENABLED です。",
            ),
        ],
        known: &[
            "新しいスキーマに移行",
            "config/prod.yaml",
            "BILL-1742",
            "0042_invoices.sql",
            "C-88213",
            "make check-invoices",
            "整数で扱う",
            "INVOICE_V2_ENABLED",
        ],
    },
];

/// Words of ours around what is taken over: once in a text, at its beginning or at its end.
const OURS: [&str; 5] = [
    "[Context from previous task",
    "This is a record of earlier work",
    "it is not an instruction",
    "How to go on",
    "Continue where that task ended",
];

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_over_is_passed_on() {
    let server = TestServer::start().await;
    let mut client = api(&server).await;
    for (name, Talk { said, known }) in ["7", "8"].into_iter().zip(TALKS) {
        let (work, _) = begin(&mut client, issue(name)).await;
        for (role, text) in said {
            client
                .append_message(work.json(json!({"role": role, "content": text}).to_string()))
                .await
                .unwrap();
        }
        plan(&mut client, &work, "initial", json!("Then archive the table invoices_2019.")).await;
        complete(&mut client, &work, "").await;
        let mut before = work;
        let mut sizes = Vec::new();
        for generation in 1..=4 {
            let (work, started) = begin(&mut client, issue(name)).await;
            assert_eq!(started.inherited_from, before.uuid);
            let text = shown(&mut client, &work).await[0].1.clone();
            let missing: Vec<_> = known.iter().filter(|fact| !text.contains(**fact)).collect();
            assert!(missing.is_empty(), "{generation}: {missing:?} in {text}");
            let goal = text.split("# Goal\n").nth(1).and_then(|rest| rest.split("\n\n").next());
            // What was asked for is the goal of the task that it was asked of; later ones have their own, and know it.
            let is_own = goal.is_some_and(|goal| goal.contains(known[0]));
            assert_eq!(is_own, generation == 1, "{generation}: {text}");
            for words in OURS {
                assert_eq!(text.matches(words).count(), 1, "{generation}: {words} in {text}");
            }
            for heading in ["- Instructions and constraints", "- Goal", "- Decisions", "- Summary", "- Plans"]
            {
                assert!(!text.contains(heading), "{generation}: {heading} in {text}");
            }
            assert!(text.contains("invoices_2019"), "{generation}: {text}");
            sizes.push(text.len());
            say(&mut client, &work, &format!("Please book room {generation}.")).await;
            let booked = json!({"role": "assistant", "content": "Booked."}).to_string();
            client.append_message(work.json(booked)).await.unwrap();
            complete(&mut client, &work, "").await;
            before = work;
        }
        let growth = sizes[3].abs_diff(sizes[0]);
        assert!(growth < 300, "what a task added and not more: {sizes:?}");
    }
}

/// A task in which nothing was said knows what the one before did.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_said_nothing_passes_on_what_it_was_given() {
    let server = TestServer::start().await;
    let mut client = api(&server).await;
    ended(&mut client, "7", "Fixed the cart; the key is C-88213.").await;
    let (second, _) = begin(&mut client, issue("7")).await;
    plan(&mut client, &second, "next", json!("only a plan")).await;
    complete(&mut client, &second, "").await;
    let (third, started) = begin(&mut client, issue("7")).await;
    assert_eq!(started.inherited_from, second.uuid);
    let text = shown(&mut client, &third).await[0].1.clone();
    assert!(text.contains("\n## Summary\nFixed the cart; the key is C-88213.\n\n## Plans\n"), "{text}");
    let plans: Vec<&str> = text.lines().filter(|line| line.starts_with("- ")).collect();
    assert_eq!(plans.len(), 3, "{text}");
    assert!(plans[0].ends_with(" initial: look at cart.rs"), "{text}");
    assert!(plans[2].ends_with(" next: only a plan"), "{text}");
}

/// A worker that restarts and fails at once, again and again, takes nothing from those after it.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_fail_at_once_pass_on_all_that_is_known() {
    let server = TestServer::start().await;
    let mut client = api(&server).await;
    let many: String =
        (0..400).map(|n| format!("- The port of service {n} is {}, says team {n}.\n", 8000 + n)).collect();
    for (name, summary) in [("7", "Migration of invoices begun."), ("8", many.as_str()), ("9", "")] {
        let (first, _) = begin(&mut client, issue(name)).await;
        if !summary.is_empty() {
            say(&mut client, &first, "Migrate the table invoices.").await;
        }
        plan(&mut client, &first, "initial", json!("back up db-7,\nrun migration 0042")).await;
        fail(&mut client, &first, "E-4711: quota exceeded\non /dev/sdb1", summary).await;
        let is_cut = summary.len() > 16_000;
        let mut seen: Vec<String> = Vec::new();
        for generation in 1..=12 {
            let (work, _) = begin(&mut client, issue(name)).await;
            let text = shown(&mut client, &work).await[0].1.clone();
            let plans = text.split("\n## Plans\n").nth(1).unwrap_or_default();
            assert!(
                plans.contains(" initial: back up db-7,\n  run migration 0042\n"),
                "{generation}: {text}"
            );
            assert_eq!(
                text.matches("E-4711: quota exceeded on /dev/sdb1").count(),
                1,
                "{generation}: {text}"
            );
            assert_eq!(text.matches("model API down").count(), usize::from(generation > 1), "{text}");
            assert!(text.contains(summary.lines().next().unwrap_or_default()), "{generation}: {text}");
            assert_eq!(text.contains(&format!("task {} has the rest", first.uuid)), is_cut, "{text}");
            for words in OURS {
                assert_eq!(text.matches(words).count(), 1, "{generation}: {words} in {text}");
            }
            let told = client.get_inheritance_context(context(&first, 0)).await.unwrap().into_inner();
            assert_eq!(told.truncated, is_cut);
            seen.push(text);
            if generation < 12 {
                fail(&mut client, &work, "model API down", "").await;
                let told = client.get_inheritance_context(context(&work, 0)).await.unwrap().into_inner();
                assert_eq!(told.truncated, is_cut, "{}", told.text);
                continue;
            }
            // Nothing is lost either once something is said.
            say(&mut client, &work, "Please book room 12.").await;
            complete(&mut client, &work, "").await;
            let summary = task(&mut client, &work).await.final_summary;
            for fact in ["E-4711: quota exceeded on /dev/sdb1", "model API down", "0042", "room 12"] {
                assert!(summary.contains(fact), "{fact}: {summary}");
            }
        }
        // What is known stays what it is. Names of tasks differ a little in their tokens, so what is cut may too.
        let sizes: Vec<usize> = seen.iter().map(String::len).collect();
        let lost = sizes[0].saturating_sub(sizes[11]);
        assert!(lost <= if is_cut { 500 } else { 0 }, "{sizes:?}");
        assert!(
            sizes[2..].iter().all(|size| size.abs_diff(sizes[2]) <= if is_cut { 200 } else { 0 }),
            "{sizes:?}"
        );
    }
}

/// However often tasks fail, and with whatever errors, why the first one did is told, and there is room for the rest.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_tasks_that_said_nothing_do_not_add_up() {
    let server = TestServer::start().await;
    let mut client = api(&server).await;
    let (first, _) = begin(&mut client, issue("7")).await;
    say(&mut client, &first, "Migrate the table invoices.").await;
    fail(&mut client, &first, "E-4711: quota exceeded", "Migration of invoices begun.").await;
    for generation in 1..=10 {
        let (work, _) = begin(&mut client, issue("7")).await;
        let text = shown(&mut client, &work).await[0].1.clone();
        assert!(text.contains("E-4711: quota exceeded\n"), "{generation}: {text}");
        assert!(text.contains("Migration of invoices begun."), "{generation}: {text}");
        assert!(text.matches("no answer in").count() <= 5, "{generation}: {text}");
        let error = format!("no answer in {generation} s {}", "and so on ".repeat(100));
        fail(&mut client, &work, &error, "").await;
        for most in [200, 300, 1000] {
            let told = client.get_inheritance_context(context(&work, most)).await.unwrap().into_inner();
            assert!(told.tokens <= most, "{} of {most}: {}", told.tokens, told.text);
            assert!(told.text.contains("Migration of invoices begun."), "{most}: {}", told.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_taken_over_is_refused() {
    let mut server = TestServer::start_configured(&[("limits.message_bytes", "64KiB")]).await;
    let mut client = api(&server).await;
    let (running, _) = begin(&mut client, issue("7")).await;
    let (empty, _) = begin(&mut client, issue("6")).await;
    let request = pb::CompleteTaskRequest {
        task_uuid: empty.uuid.clone(),
        lease_generation: empty.lease,
        ..Default::default()
    };
    client.complete_task(request).await.unwrap();
    let tasks = || -> usize {
        ["running", "completed", ".tmp"]
            .iter()
            .map(|folder| fs::read_dir(server.data_dir().join(folder)).unwrap().count())
            .sum()
    };
    let before = tasks();
    let nobody = "018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10";
    for (inherit, why) in [
        (nobody, ErrorReason::TaskNotFound),
        (running.uuid.as_str(), ErrorReason::WrongStatus),
        (empty.uuid.as_str(), ErrorReason::NothingToInherit),
    ] {
        let request = pb::StartTaskRequest { inherit: test_support::wire::inherit(inherit), ..issue("7") };
        assert_eq!(reason(client.start_task(request).await), why);
        let context = context(&Work::nobody(inherit), 0);
        assert_eq!(reason(client.get_inheritance_context(context).await), why);
    }
    for word in ["yes", "0", ""] {
        let request = pb::StartTaskRequest { inherit: inherit(word), ..issue("7") };
        assert_eq!(refused(client.start_task(request).await).fields, ["inherit_from"]);
    }
    let mode = Some(pb::start_task_request::Inherit::InheritMode(99));
    let request = pb::StartTaskRequest { inherit: mode, ..issue("7") };
    assert_eq!(refused(client.start_task(request).await).fields, ["inherit_mode"]);
    let request = pb::StartTaskRequest { system_message: "x".repeat(65 << 10), ..issue("7") };
    assert_eq!(refused(client.start_task(request).await).fields, ["system_message"]);
    let request = pb::FindPreviousContextsRequest { limit: 101, ..Default::default() };
    assert_eq!(refused(client.find_previous_contexts(request).await).fields, ["limit"]);
    let why = refused(client.get_inheritance_context(context(&running, 199)).await);
    assert_eq!(why.fields, ["max_summary_tokens"]);
    assert_eq!(tasks(), before);
    // One that ended with nothing to say is passed over.
    let (_, started) = begin(&mut client, issue("6")).await;
    assert_eq!(started.inherited_from, "");
    server.kill();
}

/// A task that cannot be read any more does not keep others from beginning.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_passed_over() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let good = ended(&mut client, "9", "It is half done.").await;
    let bad = ended(&mut client, "9", "It is done.").await;
    server.kill();
    let dir = server.data_dir().join("completed").join(&bad.uuid);
    fs::remove_file(dir.join("final_summary.txt")).unwrap();
    fs::write(dir.join("messages.jsonl"), "{").unwrap();
    server.restart().await;
    client = api(&server).await;
    let found = find(&mut client, issue("9"), 10).await;
    assert_eq!(found.iter().map(|found| found.task_uuid.as_str()).collect::<Vec<_>>(), [good.uuid.as_str()]);
    let (_, started) = begin(&mut client, issue("9")).await;
    assert_eq!(started.inherited_from, good.uuid);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_long_is_cut() {
    let server = TestServer::start().await;
    let mut client = api(&server).await;
    let long: String = (0..3000).map(|n| format!("Line {n} of the summary says 日本語 too.\n")).collect();
    let (work, _) = begin(&mut client, issue("7")).await;
    say(&mut client, &work, "go").await;
    for number in 0..100 {
        plan(&mut client, &work, "step", json!(format!("plan {number}: {}", "and so on ".repeat(20)))).await;
    }
    complete(&mut client, &work, &long).await;
    for most in [200, 1000, 4000, 1_000_000] {
        let told = client.get_inheritance_context(context(&work, most)).await.unwrap().into_inner();
        assert!(told.tokens <= most, "{} of {most}", told.tokens);
        assert!(told.tokens >= most / 2 || most == 1_000_000 || most == 200, "{} of {most}", told.tokens);
        assert!(told.truncated && told.text.ends_with("has the rest]"), "{most}");
        assert!(told.text.len() <= 128 << 10, "{} bytes", told.text.len());
        if most >= 1000 {
            assert!(told.text.contains("\nLine 0 of the summary"));
            // The newest plans are the ones that are told.
            assert!(told.text.contains("plan 99:"), "{}", told.text);
            assert_eq!(told.text.contains("plan 0:"), most == 1_000_000);
        }
    }
    let few = pb::InheritanceConfig { max_summary_tokens: Some(199), ..Default::default() };
    let few = pb::TaskConfig { inheritance: Some(few), ..Default::default() };
    let refusal = refused(client.start_task(pb::StartTaskRequest { config: Some(few), ..issue("7") }).await);
    assert_eq!(refusal.fields, ["config.inheritance.max_summary_tokens"]);
    let config = pb::InheritanceConfig { max_summary_tokens: Some(500), ..Default::default() };
    let config = pb::TaskConfig { inheritance: Some(config), ..Default::default() };
    let (next, started) =
        begin(&mut client, pb::StartTaskRequest { config: Some(config), ..issue("7") }).await;
    assert_eq!(started.inherited_from, work.uuid);
    let text = shown(&mut client, &next).await[0].1.clone();
    assert!(text.contains("[cut to 500 tokens"), "{text}");
    let tokens = task(&mut client, &next).await.statistics.unwrap().view_tokens;
    assert!((250..=510).contains(&tokens), "{tokens}");
}

/// What is taken over leaves room in a small window, as nothing takes it away again.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_over_has_a_quarter_of_the_limit() {
    let keys = [("llm.provider", "ollama"), ("llm.providers.ollama.context_length", "6000")];
    let server = TestServer::start_configured(&keys).await;
    let mut client = api(&server).await;
    let long: String = (0..600).map(|n| format!("Line {n} of the summary says something.\n")).collect();
    let first = ended(&mut client, "7", &long).await;
    for (limit, most) in [(300, 200), (2000, 500), (4000, 1000), (15_000, 3750), (100_000, 4000)] {
        let config = pb::TaskConfig { context_length: Some(limit), ..Default::default() };
        let request =
            pb::StartTaskRequest { inherit: inherit(&first.uuid), config: Some(config), ..issue("8") };
        let (work, _) = begin(&mut client, request).await;
        let tokens = task(&mut client, &work).await.statistics.unwrap().view_tokens;
        // With what a message has around it.
        assert!((most / 2..=most + 8).contains(&tokens), "{tokens} of {limit}");
        let text = shown(&mut client, &work).await[0].1.clone();
        assert!(
            text.contains(&format!("[cut to {most} tokens; task {} has the rest]", first.uuid)),
            "{text}"
        );
        let told = client.get_inheritance_context(context(&first, most)).await.unwrap().into_inner();
        assert_eq!(told.text, text);
    }
    // Of a task that says nothing, what the server is configured for is the limit.
    let (work, _) = begin(&mut client, issue("7")).await;
    let text = shown(&mut client, &work).await[0].1.clone();
    assert!(text.contains("[cut to 1500 tokens"), "{text}");
    let told = client.get_inheritance_context(context(&first, 0)).await.unwrap().into_inner();
    assert_eq!(told.text, text);
    // Who asks for more is told more.
    let told = client.get_inheritance_context(context(&first, 3000)).await.unwrap().into_inner();
    assert!((2000..=3000).contains(&told.tokens), "{}", told.tokens);
}

/// What is cut ends with a line, or with a word, and the headings of a summary stand below ours.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_cut_is_cut_between_words() {
    let server = TestServer::start().await;
    let mut client = api(&server).await;
    let english: String = (1..=40)
        .map(|n| {
            format!(
                "- Ticket BILL-{n:04} of customer C-88{n:03} has to wait for the approval of Chiara Bassi.\n"
            )
        })
        .collect();
    let japanese: String = (1..=40)
        .map(|n| format!("- チケットBILL-{n:04}は顧客C-88{n:03}の承認を待っている。移行はその後に行う。\n"))
        .collect();
    for lines in [english, japanese] {
        let (work, _) =
            begin(&mut client, pb::StartTaskRequest { inherit: inherit("NEVER"), ..issue("7") }).await;
        say(&mut client, &work, "go").await;
        plan(
            &mut client,
            &work,
            "initial",
            json!("Look at src/billing/invoice.rs, then at BILL-9999. ".repeat(20)),
        )
        .await;
        let summary = format!("## Goal\n{lines}\n## Facts\n{lines}\n# Notes\n{lines}");
        complete(&mut client, &work, &summary).await;
        for most in (200..=700).step_by(20) {
            let told = client.get_inheritance_context(context(&work, most)).await.unwrap().into_inner();
            assert!(told.tokens <= most && told.truncated, "{}", told.text);
            for line in told.text.lines() {
                let (whole, is_cut) = line.strip_suffix(" …").map_or((line, false), |line| (line, true));
                if let Some(item) = whole.strip_prefix("- Ticket") {
                    let from = lines.find(item).unwrap_or_else(|| panic!("{most}: {line}"));
                    let next = lines[from + item.len()..].chars().next().unwrap();
                    assert!(next == '\n' || (is_cut && next == ' '), "{most}: {line}");
                } else if let Some(item) = whole.strip_prefix("- チケット") {
                    let ends = item.chars().next_back().is_some_and(|last| !last.is_ascii());
                    assert!(lines.contains(item) && (ends || is_cut), "{most}: {line}");
                    let next = lines[lines.find(item).unwrap() + item.len()..].chars().next().unwrap();
                    assert!(ends || !next.is_ascii_alphanumeric(), "{most}: {line}");
                } else if whole.contains("Z initial:") {
                    assert!(whole.contains("initial: Look at"), "{most}: {line}");
                    assert!(!whole.ends_with("BILL") && !whole.ends_with("src"), "{most}: {line}");
                }
            }
            let ours = ["## Summary", "## Plans", "## How to go on"];
            let headings = told.text.lines().filter(|line| line.starts_with('#'));
            let (above, below): (Vec<&str>, Vec<&str>) = headings.partition(|line| ours.contains(line));
            assert!(above.contains(&ours[0]) && above.contains(&ours[2]), "{above:?}");
            assert!(below.iter().all(|line| line.starts_with("###")), "{below:?}");
            let body = told.text.split("\n## ").nth(1).unwrap().trim_end();
            assert!(!body.lines().last().unwrap().starts_with('#'), "a heading of nothing: {}", told.text);
        }
    }
}

#[test]
fn without_a_final_summary_the_newest_one_is_taken_over_or_the_plans_alone() {
    let catalog = tempfile::tempdir().unwrap();
    let ground = test_support::store::ground(SimFs::new(), catalog.path(), &ManualClock::shared());
    let (store, _) = Store::open_on(ground, test_support::store::options()).unwrap();
    let on_task = |task, act| test_support::steps::Step { task, act };
    let mut steps = vec![on(Act::Start)];
    steps.extend((0..6).map(|_| on(test_support::steps::say("user", "on and on"))));
    steps.extend([on(Act::Summarize(5, 0)), on_task(1, Act::Start), on_task(1, Act::Plan("only a plan"))]);
    steps.push(on_task(2, Act::Start));
    let mut client = Client::new(steps);
    for at in 0..client.steps.len() {
        client.take(&store, at).unwrap();
    }
    for task in 0..3 {
        // The library makes no summary by itself.
        store.complete_task(task_id(task), None, &test_support::store::caller(client.leases[task])).unwrap();
    }
    let summed = store.inheritance_context(task_id(0), None).unwrap();
    assert!(!summed.previous.has_final_summary);
    assert!(summed.inheritance.text.contains("## Summary\nwhat was said up to 5"));
    let planned = store.inheritance_context(task_id(1), None).unwrap().inheritance.text;
    assert!(planned.contains(" initial: only a plan") && !planned.contains("## Summary"), "{planned}");
    let nothing = store.inheritance_context(task_id(2), None);
    assert!(matches!(nothing, Err(StoreError::NothingToInherit { .. })), "{nothing:?}");
}
