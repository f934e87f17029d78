//! What a tool said that nobody stored apart is read like any other output, by the number of its message.

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;

use test_support::server::TestServer;
use test_support::tool_outputs::{answering, bytes_of, grep, lines_of, outputs, put, reading, searching};
use test_support::wire::{Work, api, reason, say, start, view};

fn stat(work: &Work, id: &str) -> pb::StatToolOutputRequest {
    pb::StatToolOutputRequest { task_uuid: work.uuid.clone(), ref_id: id.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trimmed_message_is_read_by_its_number() {
    let server = TestServer::start().await;
    let (mut api, mut outs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let text: String = (1..=900).map(|line| format!("line {line} says \"hé\"\r\n")).collect();
    say(&mut api, &work, "Look.").await;
    let calls = r#"{"role":"assistant","content":null,"tool_calls":[
        {"id":"a","type":"function","function":{"name":"bash","arguments":"{}"}},
        {"id":"b","type":"function","function":{"name":"bash","arguments":"{}"}},
        {"id":"c","type":"function","function":{"name":"bash","arguments":"{}"}}]}"#;
    api.append_message(work.json(calls)).await.unwrap();
    let message = serde_json::json!({"role": "tool", "tool_call_id": "a", "content": text});
    api.append_message(work.json(message.to_string())).await.unwrap();
    let parts = serde_json::json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two\nthree"}]);
    let message = serde_json::json!({"role": "tool", "tool_call_id": "b", "content": parts});
    api.append_message(work.json(message.to_string())).await.unwrap();
    let stored = put(&mut outs, answering(&work, "c"), text.as_bytes()).await.unwrap().r#ref.unwrap();
    let done = serde_json::json!({"role": "assistant", "content": "I have seen it."});
    api.append_message(work.json(done.to_string())).await.unwrap();
    let trim = pb::TrimToolOutputsRequest {
        task_uuid: work.uuid.clone(),
        budget_tokens: Some(0),
        lease_generation: work.lease,
        ..Default::default()
    };
    assert!(outs.trim_tool_outputs(trim).await.unwrap().into_inner().trimmed > 0);
    assert!(view(&mut api, work.current()).await.contains("[tool output trimmed; seq=3]"));

    assert_eq!(bytes_of(&mut outs, &work, "seq=3").await.unwrap(), text.as_bytes());
    assert_eq!(lines_of(&mut outs, &work, "seq=3", (898, 1)).await, "   899\tline 899 says \"hé\"\n");
    assert_eq!(bytes_of(&mut outs, &work, "seq=4").await.unwrap(), b"one\ntwo\nthree");
    let (found, matches, _) = grep(&mut outs, searching(&work, "seq=3", "line 45[0-9] ")).await.unwrap();
    assert_eq!((matches, found[0].ref_id.as_str(), found[0].line_number), (10, "seq=3", 450));
    let known = outs.stat_tool_output(stat(&work, "seq=3")).await.unwrap().into_inner().output.unwrap();
    let told = known.r#ref.unwrap();
    assert_eq!((told.id.as_str(), told.byte_size, told.line_count), ("seq=3", text.len() as u64, 900));
    assert_eq!((told.media_type.as_str(), known.tool_call_id.as_str()), ("text/plain", "a"));

    // A message that names an output stands for it.
    let known = outs.stat_tool_output(stat(&work, "seq=5")).await.unwrap().into_inner().output.unwrap();
    assert_eq!(known.r#ref.unwrap().id, stored.id);
    for bad in ["seq=0", "seq=", "seq=x", "seq=3 ", "3"] {
        let why = test_support::wire::refused(outs.read_tool_output(reading(&work, bad)).await);
        assert_eq!((why.reason, why.fields[0].as_str()), (ErrorReason::InvalidField, "ref_id"), "{bad}");
    }
    assert_eq!(reason(outs.read_tool_output(reading(&work, "seq=7")).await), ErrorReason::MessageNotFound);
}
