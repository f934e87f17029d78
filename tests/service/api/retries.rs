//! A call that is repeated with the same request_id changes nothing, also across restarts; with other content it
//! is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use serde_json::{Value, json};

use test_support::dynamic::{Answers, Caller, service};
use test_support::server::TestServer;
use test_support::wire::{Appending, Work, all, api, piped, reason, refused, start, start_as, task, why};

/// One call that changes something.
struct Change {
    method: &'static str,
    request: Value,
    /// The same call with other content, if it has any.
    other: Option<Value>,
    /// What must have been done before, to the same task.
    before: Vec<(&'static str, Value)>,
}

fn change(method: &'static str, request: Value, other: Option<Value>) -> Change {
    Change { method, request, other, before: Vec::new() }
}

fn holder(instance: &str) -> Value {
    json!({"instanceId": instance, "processId": 7, "hostname": "here"})
}

/// Every call that has a request_id but DeleteTask, which leaves nothing that could remember one.
fn changes() -> Vec<Change> {
    let say = |text: &str| json!({"role": "user", "content": text}).to_string();
    vec![
        change(
            "StartTask",
            json!({"holder": holder("a"), "user": "u"}),
            Some(json!({"holder": holder("a"), "user": "v"})),
        ),
        change("PauseTask", json!({}), None),
        Change {
            before: vec![("PauseTask", json!({}))],
            ..change("ResumeTask", json!({"holder": holder("b")}), Some(json!({"holder": holder("c")})))
        },
        change("CompleteTask", json!({"finalSummary": "s"}), Some(json!({"finalSummary": "t"}))),
        change("CompleteTask", json!({}), Some(json!({"finalSummary": "t"}))),
        change("FailTask", json!({"errorMessage": "e"}), Some(json!({"errorMessage": "f"}))),
        change("UpdateTask", json!({"config": {"model": "m"}}), Some(json!({"config": {"model": "n"}}))),
        change(
            "AppendMessage",
            json!({"message": {"json": say("a")}}),
            Some(json!({"message": {"json": say("b")}})),
        ),
        change(
            "AppendMessages",
            json!({"messages": [{"json": say("a")}]}),
            Some(json!({"messages": [{"json": say("b")}]})),
        ),
        change("PinMessage", json!({"seq": 1}), Some(json!({"seq": 2}))),
        change("UnpinMessage", json!({"seq": 1}), Some(json!({"seq": 2}))),
        change("RewindTask", json!({"seq": 1}), Some(json!({"seq": 2}))),
        change("RecordToolCall", json!({"toolName": "ls"}), Some(json!({"toolName": "cat"}))),
        change("AppendPlan", json!({"planContentJson": "1"}), Some(json!({"planContentJson": "2"}))),
        change("RecordUsage", json!({"inputTokens": 5}), Some(json!({"inputTokens": 6}))),
        change("UpdateStatistics", json!({"tokens": 5}), Some(json!({"tokens": 6}))),
    ]
}

#[test]
fn no_call_with_a_request_id_is_left_out() {
    let with_id: BTreeSet<String> = service()
        .methods()
        .filter(|method| {
            let named = ["request_id", "message", "messages"];
            named.into_iter().any(|field| method.input().get_field_by_name(field).is_some())
        })
        .map(|method| method.name().to_owned())
        .collect();
    // Some have stories of their own: `tests/chat/repeat.rs`, `tests/compress`, `tests/service/fork.rs`.
    let elsewhere = ["DeleteTask", "Chat", "Compress", "CommitCompaction", "UndoCompaction", "ForkTask"]
        .map(str::to_owned);
    let here = changes().into_iter().map(|change| change.method.to_owned()).chain(elsewhere);
    assert_eq!(with_id, here.collect());
}

fn with(request: &Value, more: Value) -> Value {
    let mut request = request.clone();
    let fields = request.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    // The name of an append is in its message.
    for path in ["/message", "/messages/0"] {
        if request.pointer(path).is_some()
            && let Some(name) = request.as_object_mut().unwrap().remove("requestId")
        {
            request.pointer_mut(path).unwrap()["requestId"] = name;
        }
    }
    request
}

async fn call(caller: &Caller, method: &str, request: &Value) -> Answers {
    caller.call(method, std::slice::from_ref(request), |_| false).await.unwrap()
}

/// The first answer, without what is of the moment, or that says that it is told again.
async fn told(caller: &Caller, method: &str, request: &Value) -> Value {
    let answers = call(caller, method, request).await;
    assert!(answers.error.is_none(), "{method} {request}: {:?}", answers.error);
    let mut told = answers.json().remove(0);
    if let Some(task) = told["task"].as_object_mut() {
        if let Some(lease) = task.get_mut("lease").and_then(Value::as_object_mut) {
            lease.remove("renewTime");
            lease.remove("expireTime");
        }
        task["statistics"].as_object_mut().unwrap().remove("bytesOnDisk");
    }
    if let Some(statistics) = told["statistics"].as_object_mut() {
        statistics.remove("bytesOnDisk");
    }
    told.as_object_mut().unwrap().remove("duplicate");
    if let Some(first) = told.pointer_mut("/responses/0").and_then(Value::as_object_mut) {
        first.remove("duplicate");
    }
    told
}

/// The three logs of a task, wherever it is.
fn logs(data: &Path, uuid: &str) -> BTreeMap<&'static str, Vec<u8>> {
    let folders = ["running", "paused", "completed"].map(|folder| data.join(folder).join(uuid));
    let dir = folders.iter().find(|dir| dir.exists()).unwrap();
    ["messages.jsonl", "tools.jsonl", "planning.jsonl"]
        .into_iter()
        .filter_map(|name| Some((name, fs::read(dir.join(name)).ok()?)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_call_changes_nothing_and_is_answered_like_the_first() {
    let mut server = TestServer::start().await;
    let mut caller = Caller::unix(&server.socket()).await;
    let mut calls = Vec::new();
    for change in changes() {
        let uuid = uuid::Uuid::now_v7().to_string();
        let mut lease = "0".to_owned();
        if change.method != "StartTask" {
            let started = told(&caller, "StartTask", &json!({"taskUuid": uuid, "holder": holder("a")})).await;
            lease = started["leaseGeneration"].as_str().unwrap().to_owned();
            for text in ["one", "two"] {
                let request = json!({
                    "taskUuid": uuid, "leaseGeneration": lease,
                    "message": {
                        "json": json!({"role": "user", "content": text}).to_string(), "requestId": text,
                    },
                });
                told(&caller, "AppendMessage", &request).await;
            }
        }
        let whose = json!({"taskUuid": uuid, "leaseGeneration": lease});
        for (method, request) in &change.before {
            told(&caller, method, &with(request, whose.clone())).await;
        }
        let whose = with(&whose, json!({"requestId": "the-call"}));
        let request = with(&change.request, whose.clone());
        let first = told(&caller, change.method, &request).await;
        calls.push((change, uuid, request, whose, first));
    }
    // At once, after an orderly stop, and after a kill.
    for round in 0..3 {
        if round == 2 {
            server.kill();
        }
        if round > 0 {
            server.restart().await;
            caller = Caller::unix(&server.socket()).await;
        }
        for (change, uuid, request, whose, first) in &calls {
            let method = change.method;
            let before = logs(&server.data_dir(), uuid);
            assert_eq!(told(&caller, method, request).await, *first, "{method}, round {round}");
            assert_eq!(logs(&server.data_dir(), uuid), before, "{method}, round {round}");
            if let Some(other) = &change.other {
                let answers = call(&caller, method, &with(other, whose.clone())).await;
                let why = why(&answers.error.unwrap());
                assert_eq!(why.reason, ErrorReason::RequestIdReused, "{method}, round {round}");
                assert_eq!(why.data["request_id"], "the-call");
            }
            // The same id for another call of the same log is other content too.
            if !matches!(method, "StartTask" | "RecordToolCall" | "AppendPlan") {
                let used = with(whose, json!({"requestId": "one", "seq": 9}));
                let used = if method == "AppendMessage" || method == "AppendMessages" {
                    with(&change.request, with(whose, json!({"requestId": "one"})))
                } else if method == "PinMessage" || method == "UnpinMessage" || method == "RewindTask" {
                    used
                } else {
                    with(&change.request, with(whose, json!({"requestId": "one"})))
                };
                let answers = call(&caller, method, &used).await;
                assert_eq!(why(&answers.error.unwrap()).reason, ErrorReason::RequestIdReused, "{method}");
            }
            assert_eq!(logs(&server.data_dir(), uuid), before, "{method}, round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_append_says_so() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let named = |request: pb::AppendMessageRequest| request.named("r");
    assert!(!api.append_message(named(work.say("a"))).await.unwrap().into_inner().duplicate);
    let again = api.append_message(named(work.say("a"))).await.unwrap().into_inner();
    assert!(again.duplicate && again.seq == 1);
    let piped_again = all(api.append_messages(tokio_stream::iter([piped(named(work.say("a")))])).await).await;
    assert!(piped_again.unwrap()[0].responses[0].duplicate);
    // Both forms of a message are the same call; what differs in anything is not.
    let fields = pb::Message { role: pb::Role::User.into(), content: "a".to_owned(), ..Default::default() };
    let fields = named(work.fields(fields));
    assert!(api.append_message(fields).await.unwrap().into_inner().duplicate);
    for other in [
        work.say("a").pinned(),
        work.say("a").output_ref("o"),
        work.json(r#"{"role":"system","content":"a"}"#),
        work.json(r#"{"role":"user","content":"a","x":1}"#),
    ] {
        assert_eq!(reason(api.append_message(named(other)).await), ErrorReason::RequestIdReused);
    }
    // The two other logs remember their own.
    let call = pb::RecordToolCallRequest {
        task_uuid: work.uuid.clone(),
        tool_name: "ls".to_owned(),
        request_id: "r".to_owned(),
        lease_generation: work.lease,
        ..Default::default()
    };
    for duplicate in [false, true] {
        let told = api.record_tool_call(call.clone()).await.unwrap().into_inner();
        assert_eq!((told.seq, told.duplicate), (1, duplicate));
    }
    let plan = pb::AppendPlanRequest {
        task_uuid: work.uuid.clone(),
        plan_content_json: "1".to_owned(),
        request_id: "r".to_owned(),
        lease_generation: work.lease,
        ..Default::default()
    };
    for duplicate in [false, true] {
        let told = api.append_plan(plan.clone()).await.unwrap().into_inner();
        assert_eq!((told.id, told.duplicate), (1, duplicate));
    }
    // Without an id a call is carried out each time.
    for seq in 2..4 {
        assert_eq!(api.append_message(work.say("a")).await.unwrap().into_inner().seq, seq);
    }
    // A retry is answered whoever holds the task by now: it changes nothing.
    let again = pb::StartTaskRequest { task_uuid: work.uuid.clone(), ..Default::default() };
    start_as(&mut api, again).await;
    assert!(api.append_message(named(work.say("a"))).await.unwrap().into_inner().duplicate);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_1024_are_remembered() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let config = pb::TaskConfig { durability: pb::Durability::Process.into(), ..Default::default() };
    let work =
        start_as(&mut client, pb::StartTaskRequest { config: Some(config), ..Default::default() }).await;
    let named = |work: &Work, number: u64| work.say(&format!("message {number}")).named(format!("r{number}"));
    let requests: Vec<_> = (1..=1025).map(|number| piped(named(&work, number))).collect();
    all(client.append_messages(tokio_stream::iter(requests)).await).await.unwrap();
    for round in 0..2 {
        for number in [2, 500, 1025] {
            let told = client.append_message(named(&work, number)).await.unwrap().into_inner();
            assert_eq!((told.seq, told.duplicate), (number, true), "round {round}");
        }
        server.kill();
        server.restart().await;
        client = api(&server).await;
    }
    let forgotten = client.append_message(named(&work, 1)).await.unwrap().into_inner();
    assert_eq!((forgotten.seq, forgotten.duplicate), (1026, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_task_remembers_nothing() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let delete = pb::DeleteTaskRequest {
        task_uuid: work.uuid.clone(),
        request_id: "r".to_owned(),
        lease_generation: work.lease,
    };
    api.delete_task(delete.clone()).await.unwrap();
    assert_eq!(reason(api.delete_task(delete).await), ErrorReason::TaskNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_is_visible_ascii() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let named = |id: &str| work.say("a").named(id);
    let longest = "!#~".repeat(42) + "zz";
    for fine in ["x", longest.as_str()] {
        assert!(!api.append_message(named(fine)).await.unwrap().into_inner().duplicate);
        assert!(api.append_message(named(fine)).await.unwrap().into_inner().duplicate);
    }
    for bad in [format!("{longest}z"), "a b".to_owned(), "é".to_owned(), "\u{7f}".to_owned(), "\n".to_owned()]
    {
        assert_eq!(refused(api.append_message(named(&bad)).await).fields, ["message.request_id"], "{bad:?}");
    }
    assert_eq!(task(&mut api, &work).await.last_seq, 2);
}
