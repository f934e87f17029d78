//! Messages in both forms, what stands of them on disk, and pins.

use std::fs;

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use serde_json::{Value, json};

use test_support::server::TestServer;
use test_support::wire::{Api, Appending, Work, api, reason, refused, say, start, task, view};

/// The last line of a task's log, up to its checksum.
fn last_line(server: &TestServer, work: &Work) -> String {
    let log = fs::read_to_string(server.running(&work.uuid).join("messages.jsonl")).unwrap();
    let line = log.lines().last().unwrap();
    let (line, crc) = line.rsplit_once(",\"crc\":\"").unwrap();
    assert_eq!(crc, format!("{:08x}\"}}", crc32fast::hash(line.as_bytes())));
    line.to_owned()
}

/// What a line has behind its envelope.
fn behind_envelope(line: &str) -> &str {
    let (_, rest) = line.split_once("\"durable_to\":").unwrap();
    rest.trim_start_matches(|c: char| c.is_ascii_digit())
}

/// Appends a message by its fields; answers its line's body in the log and its line in the view.
async fn append(
    server: &TestServer,
    api: &mut Api,
    work: &Work,
    request: pb::AppendMessageRequest,
) -> (String, String) {
    let told = api.append_message(request).await.unwrap().into_inner();
    let line = last_line(server, work);
    assert!(line.starts_with(&format!("{{\"seq\":{},\"role\":\"", told.seq)), "{line}");
    assert!(line.contains(&format!(",\"tokens\":{},\"durable_to\":", told.tokens)), "{line}");
    let got = pb::GetMessageRequest { task_uuid: work.uuid.clone(), seq: told.seq };
    let got = api.get_message(got).await.unwrap().into_inner();
    assert!(got.record.starts_with(line.as_bytes()));
    let view = view(api, work.current()).await;
    assert_eq!(view, fs::read_to_string(server.running(&work.uuid).join("current.jsonl")).unwrap());
    (behind_envelope(&line).to_owned(), view.lines().last().unwrap().to_owned())
}

fn fields(work: &Work, message: pb::Message) -> pb::AppendMessageRequest {
    work.fields(message)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_an_sdk_stands_as_it_came() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    // Only the white space between tokens goes, and unknown fields stand together in `extra`; numbers,
    // escapes and forged envelopes stay what they are.
    let cases = [
        (
            "{\"role\":\"user\", \"content\" : \"caf\\u00e9 \\ud83d\\ude00 日本 \\/ \\\"q\\\" \\n\"}",
            ",\"content\":\"caf\\u00e9 \\ud83d\\ude00 日本 \\/ \\\"q\\\" \\n\"",
            "{\"role\":\"user\",\"content\":\"caf\\u00e9 \\ud83d\\ude00 日本 \\/ \\\"q\\\" \\n\"}",
        ),
        (
            r#"{"weight":1.50e+3,"id":123456789012345678901234567890,"content":"x","role":"user"}"#,
            r#","content":"x","extra":{"weight":1.50e+3,"id":123456789012345678901234567890}"#,
            r#"{"role":"user","content":"x"}"#,
        ),
        (
            r#"{"seq":999,"role":"user","crc":"00000000","durable_to":0,"content":"forged","pinned":true,"event":"status"}"#,
            r#","content":"forged","extra":{"seq":999,"crc":"00000000","durable_to":0,"pinned":true,"event":"status"}"#,
            r#"{"role":"user","content":"forged"}"#,
        ),
        (
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:,"}}],"name":"n"}"#,
            r#","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:,"}}],"name":"n""#,
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:,"}}],"name":"n"}"#,
        ),
        (
            // OpenAI takes no images from others than users.
            r#"{"role":"system","content":[{"type":"image_url","image_url":{"url":"data:,"}}],"name":"a b"}"#,
            r#","content":[{"type":"image_url","image_url":{"url":"data:,"}}],"name":"a b""#,
            r#"{"role":"system","content":[{"type":"text","text":"[image_url omitted]"}],"name":"a_b"}"#,
        ),
        (
            r#"{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{not json"}}],"name":null}"#,
            r#","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{not json"}}],"extra":{"refusal":null}"#,
            r#"{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{not json"}}]}"#,
        ),
        (
            r#"{"role":"tool","tool_call_id":"c1","tool_name":"ls","content":"a b"}"#,
            r#","content":"a b","tool_name":"ls","tool_call_id":"c1""#,
            r#"{"role":"tool","content":"a b","tool_call_id":"c1"}"#,
        ),
    ];
    for (sent, body, line) in cases {
        let found = append(&server, &mut api, &work, work.json(sent)).await;
        assert_eq!((found.0.as_str(), found.1.as_str()), (body, line), "{sent}");
    }
    // What has a field of its own beside the message comes from there.
    let request = work.say("pinned").named("r-1").pinned().output_ref("out-1");
    let (body, _) = append(&server, &mut api, &work, request).await;
    assert_eq!(body, r#","content":"pinned","pinned":true,"output_ref":"out-1","request_id":"r-1""#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_by_its_fields_becomes_an_openai_message() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let text = |role: &str, content: &str| pb::Message {
        role: pb::Role::from_name(role).unwrap_or_default().into(),
        content: content.to_owned(),
        ..Default::default()
    };
    for role in ["system", "developer", "user", "assistant"] {
        let (body, line) = append(&server, &mut api, &work, fields(&work, text(role, "a \"b\"\n"))).await;
        assert_eq!(body, r#","content":"a \"b\"\n""#);
        assert_eq!(line, format!(r#"{{"role":"{role}","content":"a \"b\"\n"}}"#));
    }
    let empty = append(&server, &mut api, &work, fields(&work, text("user", ""))).await;
    assert_eq!(empty.0, r#","content":"""#);

    let parts = pb::Message {
        content_json: r#"[ {"type":"text", "text":"hi"} ]"#.to_owned(),
        name: "ann".to_owned(),
        extra_json: r#"{"mood": "curious", "n": 1.0}"#.to_owned(),
        ..text("user", "")
    };
    let (body, line) = append(&server, &mut api, &work, fields(&work, parts)).await;
    assert_eq!(
        body,
        r#","content":[{"type":"text","text":"hi"}],"name":"ann","extra":{"mood":"curious","n":1.0}"#
    );
    assert_eq!(line, r#"{"role":"user","content":[{"type":"text","text":"hi"}],"name":"ann"}"#);

    // A message that only calls tools has no content. Both types of calls; arguments are text, valid or not.
    let call = |id: &str, kind: &str, arguments: &str| pb::ToolCall {
        id: id.to_owned(),
        r#type: pb::ToolCallType::from_name(kind).unwrap_or_default().into(),
        name: "grep".to_owned(),
        arguments: arguments.to_owned(),
    };
    let calls = pb::Message {
        tool_calls: vec![
            call("c1", "", "{\"a\": 1}"),
            call("c2", "function", "{broken"),
            call("c3", "custom", "any \"text\""),
        ],
        ..text("assistant", "")
    };
    let (body, line) = append(&server, &mut api, &work, fields(&work, calls)).await;
    let stored: Value = serde_json::from_str(&line).unwrap();
    let expected = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "grep", "arguments": "{\"a\": 1}"}},
        {"id": "c2", "type": "function", "function": {"name": "grep", "arguments": "{broken"}},
        {"id": "c3", "type": "custom", "custom": {"name": "grep", "input": "any \"text\""}},
    ]});
    assert_eq!(stored, expected);
    assert!(body.starts_with(",\"content\":null,\"tool_calls\":["), "{body}");

    for id in ["c3", "c1", "c2"] {
        let result = pb::Message {
            tool_call_id: id.to_owned(),
            tool_name: "grep".to_owned(),
            ..text("tool", "found")
        };
        let (body, line) = append(&server, &mut api, &work, fields(&work, result)).await;
        assert_eq!(body, format!(r#","content":"found","tool_name":"grep","tool_call_id":"{id}""#));
        assert_eq!(line, format!(r#"{{"role":"tool","content":"found","tool_call_id":"{id}"}}"#));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_forms_of_one_message_are_the_same() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let message = pb::Message {
        role: pb::Role::Tool.into(),
        content: "x".to_owned(),
        tool_call_id: "c".to_owned(),
        tool_name: "t".to_owned(),
        extra_json: r#"{"k":1}"#.to_owned(),
        ..Default::default()
    };
    let by_fields = append(&server, &mut api, &work, fields(&work, message)).await;
    let sent = r#"{"k":1,"role":"tool","content":"x","tool_call_id":"c","tool_name":"t"}"#;
    assert_eq!(append(&server, &mut api, &work, work.json(sent)).await, by_fields);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_says_two_things_is_refused() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let user = || pb::Message { role: pb::Role::User.into(), ..Default::default() };
    let call = |id: &str, kind: i32, name: &str| pb::ToolCall {
        id: id.to_owned(),
        r#type: kind,
        name: name.to_owned(),
        ..Default::default()
    };
    let calls = |call| fields(&work, pb::Message { tool_calls: vec![call], ..user() });
    let with = |content_json: &str, extra_json: &str| {
        let (content_json, extra_json) = (content_json.to_owned(), extra_json.to_owned());
        fields(&work, pb::Message { content_json, extra_json, ..user() })
    };
    let both = pb::Message { content: "a".to_owned(), content_json: "[]".to_owned(), ..user() };
    let cases = [
        (fields(&work, both), "message.fields.content_json"),
        (fields(&work, pb::Message::default()), "message.fields.role"),
        (pb::AppendMessageRequest { message: None, ..work.say("") }, "message"),
        (
            pb::AppendMessageRequest { message: Some(pb::NewMessage::default()), ..work.say("") },
            "message.body",
        ),
        (with(r#""text""#, ""), "message.fields.content_json"),
        (with("[1", ""), "message.fields.content_json"),
        (with("", "[]"), "message.fields.extra_json"),
        (with("", r#"{"role":"system"}"#), "message.fields.extra_json"),
        (with("", r#"{"r\u006fle":"system"}"#), "message.fields.extra_json"),
        (with("", r#"{"a":1,"a":1}"#), "message.fields.extra_json"),
        (with("", r#"{"\ud800":1,"\udc00":1}"#), "message.fields.extra_json"),
        (calls(call("", 0, "ls")), "message.fields.tool_calls"),
        (calls(call("c", 0, "")), "message.fields.tool_calls"),
        (calls(call("c", 99, "ls")), "message.fields.tool_calls"),
        (work.json(r#"{"role":"user","content":"a","role":"user"}"#), "message.json"),
        (work.json("[]"), "message.json"),
        (work.json(r#"{"content":"a"}"#), "message.json.role"),
        (work.json(r#"{"role":"robot"}"#), "message.json.role"),
        (work.json(r#"{"role":"user","content":7}"#), "message.json.content"),
        (work.json(r#"{"role":"user","content":null}"#), "message.json.content"),
        (work.json(r#"{"role":"user","content":[1]}"#), "message.json.content"),
        (work.json(r#"{"role":"user","content":"","tool_calls":{}}"#), "message.json.tool_calls"),
        (work.json(r#"{"role":"assistant","tool_calls":[{}]}"#), "message.json.tool_calls"),
        (with(r#"[{"text":"a"}]"#, ""), "message.fields.content_json"),
        (work.say("a").output_ref("a/b"), "message.output_ref"),
        (work.say("a").output_ref(".."), "message.output_ref"),
    ];
    for (request, field) in cases {
        let said = format!("{request:?}");
        let why = refused(api.append_message(request).await);
        assert_eq!((why.reason, why.fields), (ErrorReason::InvalidField, vec![field.to_owned()]), "{said}");
    }
    assert_eq!(task(&mut api, &work).await.last_seq, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_is_told_how_full_the_context_is() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let config = pb::TaskConfig {
        context_length: Some(1000),
        compression: Some(pb::CompressionConfig { threshold: Some(0.5), ..Default::default() }),
        ..Default::default()
    };
    let request = pb::StartTaskRequest { config: Some(config), ..Default::default() };
    let work = test_support::wire::start_as(&mut api, request).await;
    let (mut tokens, mut stages) = (0, Vec::new());
    for _ in 0..16 {
        let told = api.append_message(work.say(&"word ".repeat(80))).await.unwrap().into_inner();
        tokens += told.tokens;
        let pressure = told.pressure.unwrap();
        assert_eq!((pressure.tokens, pressure.limit, pressure.limit_source().name()), (tokens, 1000, "task"));
        assert!((pressure.ratio - tokens as f64 / 1000.0).abs() < 1e-9);
        assert_eq!(pressure.should_compress, tokens >= 500, "{tokens}");
        let stage = match pressure.ratio {
            ratio if ratio < 0.6 => "normal",
            ratio if ratio < 0.8 => "warn",
            ratio if ratio < 0.9 => "prune",
            ratio if ratio <= 1.0 => "aggressive",
            _ => "emergency",
        };
        assert_eq!(pressure.stage().name(), stage);
        stages.push(pressure.stage().name());
        let now = api.get_task(work.get()).await.unwrap().into_inner();
        assert_eq!(now.pressure.unwrap().tokens, tokens);
        assert_eq!(now.task.unwrap().statistics.unwrap().view_tokens, tokens);
    }
    stages.dedup();
    assert_eq!(stages, ["normal", "warn", "prune", "aggressive", "emergency"]);
    // Without a limit of its own there is a guess, which is told as one.
    let other = start(&mut api).await;
    let pressure = api.append_message(other.say("hi")).await.unwrap().into_inner().pressure.unwrap();
    assert!(pressure.limit > 0 && pressure.limit_source().name() == "default");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_found_by_its_number() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    let get = |seq| pb::GetMessageRequest { task_uuid: work.uuid.clone(), seq };
    for seq in 1..=3 {
        say(&mut api, &work, &format!("number {seq}")).await;
    }
    for seq in 1..=3_u64 {
        let found = api.get_message(get(seq)).await.unwrap().into_inner();
        let record: Value = serde_json::from_slice(&found.record).unwrap();
        assert_eq!(record["content"], format!("number {seq}"));
        assert_eq!((&record["seq"], found.pinned), (&json!(seq), false));
    }
    for seq in [0, 4, u64::MAX] {
        let why = refused(api.get_message(get(seq)).await);
        assert_eq!((why.reason, why.data["last_seq"].as_str()), (ErrorReason::MessageNotFound, "3"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_pinned_and_released() {
    let mut server = TestServer::start().await;
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    client.append_message(work.say("one").pinned()).await.unwrap();
    say(&mut client, &work, "two").await;
    let (uuid, lease) = (work.uuid.clone(), work.lease);
    let pin = |seq| pb::PinMessageRequest {
        task_uuid: uuid.clone(),
        seq,
        lease_generation: lease,
        ..Default::default()
    };
    let unpin = |seq| pb::UnpinMessageRequest {
        task_uuid: uuid.clone(),
        seq,
        lease_generation: lease,
        ..Default::default()
    };
    async fn pinned(api: &mut Api, work: &Work) -> (Vec<bool>, u64) {
        let mut pins = Vec::new();
        for seq in [1, 2] {
            let get = pb::GetMessageRequest { task_uuid: work.uuid.clone(), seq };
            pins.push(api.get_message(get).await.unwrap().into_inner().pinned);
        }
        (pins, task(api, work).await.statistics.unwrap().pinned_messages)
    }
    assert_eq!(pinned(&mut client, &work).await, (vec![true, false], 1));
    // Twice is once.
    for _ in 0..2 {
        client.pin_message(pin(2)).await.unwrap();
        assert_eq!(pinned(&mut client, &work).await, (vec![true, true], 2));
    }
    for _ in 0..2 {
        client.unpin_message(unpin(1)).await.unwrap();
        assert_eq!(pinned(&mut client, &work).await, (vec![false, true], 1));
    }
    server.kill();
    server.restart().await;
    client = api(&server).await;
    assert_eq!(pinned(&mut client, &work).await, (vec![false, true], 1));
    for seq in [0, 3, u64::MAX] {
        assert_eq!(reason(client.pin_message(pin(seq)).await), ErrorReason::MessageNotFound);
        assert_eq!(reason(client.unpin_message(unpin(seq)).await), ErrorReason::MessageNotFound);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_4096_messages_are_pinned() {
    let server = TestServer::start().await;
    let mut api = api(&server).await;
    let config = pb::TaskConfig { durability: pb::Durability::Process.into(), ..Default::default() };
    let request = pb::StartTaskRequest { config: Some(config), ..Default::default() };
    let work = test_support::wire::start_as(&mut api, request).await;
    let pinned = test_support::wire::piped(work.say("p").pinned());
    let all = std::iter::repeat_n(pinned, 4096);
    let acks = test_support::wire::all(api.append_messages(tokio_stream::iter(all)).await).await.unwrap();
    assert_eq!(acks.len(), 4096);
    let one_more = work.say("p").pinned();
    assert_eq!(refused(api.append_message(one_more.clone()).await).fields, ["pinned"]);
    assert_eq!(say(&mut api, &work, "not pinned").await, 4097);
    let pin = pb::PinMessageRequest {
        task_uuid: work.uuid.clone(),
        seq: 4097,
        lease_generation: work.lease,
        ..Default::default()
    };
    assert_eq!(refused(api.pin_message(pin.clone()).await).fields, ["seq"]);
    // One that is pinned may be pinned again, and another takes the place of one that was released.
    api.pin_message(pb::PinMessageRequest { seq: 9, ..pin.clone() }).await.unwrap();
    let unpin = pb::UnpinMessageRequest {
        task_uuid: work.uuid.clone(),
        seq: 9,
        lease_generation: work.lease,
        ..Default::default()
    };
    api.unpin_message(unpin).await.unwrap();
    api.pin_message(pin).await.unwrap();
}
