//! What is sent. A message follows from the names of its request and its kind alone, so that a later process
//! can send it again; a print of everything sent tells whether it came back as it was.

use std::collections::BTreeMap;

use contextstore_base::model::json::Json;
use contextstore_base::model::{NewMessage, Plan, Role, ToolCall, ToolStatus};
use fastrand::Rng;
use serde_json::value::RawValue;

pub(crate) type Fields = BTreeMap<String, Box<RawValue>>;

pub(crate) const MESSAGE: &[&str] =
    &["role", "content", "tool_name", "tool_calls", "tool_call_id", "name", "pinned", "extra"];
pub(crate) const TOOL: &[&str] =
    &["tool_name", "arguments", "result", "status", "error", "duration_ms", "message_seq"];
pub(crate) const PLAN: &[&str] = &["plan_type", "plan_content"];
pub(crate) const STATUS: &[&str] = &["status", "error_message", "final_summary"];
pub(crate) const REWRITE: &[&str] = &["strategy", "covers", "reason"];
pub(crate) const USAGE: &[&str] =
    &["input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens"];
pub(crate) const PIN: &[&str] = &["seq", "pinned"];
pub(crate) const CONFIG: &[&str] = &["config"];

/// The checksum of fields as they stand, value by value.
pub(crate) fn print<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for (key, value) in fields {
        for part in [key, "=", value, "\n"] {
            hasher.update(part.as_bytes());
        }
    }
    hasher.finalize()
}

/// The same of a line of a log, for the keys that a caller sends.
pub(crate) fn print_of(line: &Fields, keys: &[&str]) -> u32 {
    print(keys.iter().filter_map(|key| Some((*key, line.get(*key)?.get()))))
}

pub(crate) fn message_print(message: &NewMessage) -> u32 {
    let role = format!("\"{}\"", message.role.as_str());
    let text = |json: &Option<Json>| json.as_ref().map(|json| json.as_str().to_owned());
    let values = [
        Some(role),
        text(&message.content),
        text(&message.tool_name),
        text(&message.tool_calls),
        text(&message.tool_call_id),
        text(&message.name),
        message.pinned.then(|| "true".to_owned()),
        text(&message.extra),
    ];
    let present = MESSAGE.iter().zip(&values);
    print(present.filter_map(|(key, value)| Some((*key, value.as_deref()?))))
}

/// A generator for one request.
pub(crate) fn rng(request: &str) -> Rng {
    Rng::with_seed(u64::from(crc32fast::hash(request.as_bytes())) << 16 | request.len() as u64)
}

/// Text of a length that is mostly small and now and then large, with all that JSON escapes.
pub(crate) fn text(rng: &mut Rng) -> String {
    let len = match rng.u32(..100) {
        0 => rng.usize(50_000..300_000),
        1..10 => rng.usize(1_000..8_000),
        _ => rng.usize(..300),
    };
    const WORDS: [&str; 10] = [
        "context ",
        "línea ",
        "\n",
        "\"quoted\" ",
        "\\",
        "\t",
        "日本語",
        "\u{2028}",
        "\u{1}",
        "{\"seq\":1} ",
    ];
    let mut text = String::with_capacity(len + 16);
    while text.len() < len {
        text.push_str(rng.choice(WORDS).unwrap());
    }
    text
}

/// The ids of the calls in the message of a request, if it has any.
pub(crate) fn call_ids(request: &str) -> Vec<String> {
    let count = rng(request).usize(..5).saturating_sub(1);
    (0..count).map(|number| format!("call-{request}-{number}")).collect()
}

/// The message of a request; `kind` is `message:ROLE` or `message:tool:CALL`.
pub(crate) fn message(request: &str, kind: &str) -> NewMessage {
    let mut words = kind.splitn(3, ':').skip(1);
    let role =
        words.next().and_then(|name| Role::ALL.into_iter().find(|role| role.as_str() == name)).unwrap();
    let mut rng = rng(request);
    let mut message = NewMessage::text(role, &text(&mut rng));
    match role {
        Role::Assistant => {
            let call = |id: &String| {
                format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#)
            };
            let calls: Vec<String> = call_ids(request).iter().map(call).collect();
            if !calls.is_empty() {
                message.tool_calls = Some(Json::parse(&format!("[{}]", calls.join(","))).unwrap());
                message.content = rng.bool().then(|| Json::parse("null").unwrap());
            }
        }
        Role::Tool => {
            message.tool_name = Some(Json::text("f"));
            message.tool_call_id = words.next().map(Json::text);
        }
        Role::System | Role::Developer | Role::User => {
            if rng.u8(..8) == 0 {
                message.content = Some(Json::parse(r#"[{"type":"text","text":"\u0061 part"}]"#).unwrap());
            }
            message.name = (rng.u8(..8) == 0).then(|| Json::text("somebody"));
        }
    }
    if rng.u8(..6) == 0 {
        let extra = r#"{"big":123456789012345678901234567890,"e":1.50e+3,"s":"\u00e9","refusal":null}"#;
        message.extra = Some(Json::parse(extra).unwrap());
    }
    message.pinned = rng.u8(..60) == 0;
    message
}

pub(crate) fn tool_call(rng: &mut Rng, last_seq: u64) -> (ToolCall, u32) {
    let failed = rng.u8(..4) == 0;
    let call = ToolCall {
        tool_name: "f".to_owned(),
        arguments: Some(Json::parse(&format!(r#"{{"n":{}}}"#, rng.u64(..))).unwrap()),
        result: (!failed).then(|| Json::text(&text(rng))),
        output_ref: None,
        status: if failed { ToolStatus::Error } else { ToolStatus::Success },
        error: failed.then(|| "it broke".to_owned()),
        duration_ms: Some(rng.u64(..10_000)),
        message_seq: Some(last_seq).filter(|seq| *seq > 0),
    };
    let values = [
        Some("\"f\"".to_owned()),
        call.arguments.as_ref().map(|json| json.as_str().to_owned()),
        call.result.as_ref().map(|json| json.as_str().to_owned()),
        Some(if failed { "\"error\"" } else { "\"success\"" }.to_owned()),
        call.error.as_ref().map(|error| format!("\"{error}\"")),
        call.duration_ms.map(|number| number.to_string()),
        call.message_seq.map(|number| number.to_string()),
    ];
    let present = TOOL.iter().zip(&values);
    let print = print(present.filter_map(|(key, value)| Some((*key, value.as_deref()?))));
    (call, print)
}

pub(crate) fn plan(rng: &mut Rng) -> (Plan, u32) {
    let content = Json::parse(&format!(r#"{{"steps":[{},"b"],"n":1.0}}"#, rng.u64(..))).unwrap();
    let print = print([("plan_type", "\"revision\""), ("plan_content", content.as_str())]);
    (Plan { plan_type: "revision".to_owned(), plan_content: content }, print)
}
