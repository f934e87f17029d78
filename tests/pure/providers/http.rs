//! The program `fake-llm` over real HTTP: it checks, answers, fails as it is told, and remembers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use contextstore_providers::{anthropic, openai_responses};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use test_support::fake_llm::FakeLlm;

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";
const OLLAMA: &str = "/api/chat";
const OTHERS: &str = "/lmstudio/v1/chat/completions";
const PATHS: [&str; 4] = [CHAT, RESPONSES, MESSAGES, OLLAMA];

const KEYS: &str =
    "authorization: Bearer sk-secret\r\nx-api-key: sk-secret\r\nanthropic-version: 2023-06-01\r\n";

/// A good body for a path.
fn good(path: &str, stream: bool) -> Value {
    let messages = json!([{"role": "user", "content": "Hello there"}]);
    match path {
        RESPONSES => json!({"model": "m", "input": messages, "stream": stream}),
        MESSAGES => json!({"model": "m", "max_tokens": 10, "messages": messages, "stream": stream}),
        CHAT | OTHERS if stream => {
            json!({"model": "m", "messages": messages, "stream": true, "stream_options": {"include_usage": true}})
        }
        _ => json!({"model": "m", "messages": messages, "stream": stream}),
    }
}

fn head(path: &str, headers: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: fake\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}\
         content-length: {length}\r\n\r\n"
    )
}

/// The whole answer to a body, with its head.
fn post(fake: &FakeLlm, path: &str, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    fake.raw(&format!("{}{body}", head(path, headers, body.len())))
}

fn status(answer: &str) -> u16 {
    answer[9..12].parse().unwrap()
}

/// The JSON of a whole answer.
fn object(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap_or_else(|_| panic!("{answer}"))
}

/// The JSON values of a stream.
fn events(answer: &str) -> Vec<Value> {
    answer
        .lines()
        .filter_map(|line| line.strip_prefix("data: ").or_else(|| line.starts_with('{').then_some(line)))
        .filter(|line| *line != "[DONE]")
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect()
}

/// Whether the answer came to its end, as HTTP/1.1 tells.
fn is_whole(answer: &str) -> bool {
    answer.ends_with("0\r\n\r\n")
}

/// Strings at a pointer, joined.
fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}

#[test]
fn a_good_request_gets_an_answer_of_its_provider() {
    let fake = FakeLlm::start();
    let whole = PATHS.map(|path| object(&post(&fake, path, KEYS, &good(path, false))));
    assert_eq!(whole[0]["choices"][0]["message"]["content"], "Echo: Hello there");
    assert_eq!(whole[0]["choices"][0]["finish_reason"], "stop");
    assert_eq!(whole[1]["output"][0]["content"][0]["text"], "Echo: Hello there");
    assert_eq!(whole[1]["status"], "completed");
    assert_eq!(whole[2]["content"], json!([{"type": "text", "text": "Echo: Hello there"}]));
    assert_eq!(whole[2]["stop_reason"], "end_turn");
    assert_eq!(whole[3]["message"]["content"], "Echo: Hello there");
    assert_eq!(whole[3]["done"], true);

    let streams = PATHS.map(|path| post(&fake, path, KEYS, &good(path, true)));
    assert!(streams.iter().all(|stream| is_whole(stream)));
    assert!(streams[0].contains("text/event-stream") && streams[0].contains("data: [DONE]"));
    assert!(streams[3].contains("application/x-ndjson"));
    let streams = streams.each_ref().map(|stream| events(stream));
    let last = streams.each_ref().map(|stream| stream.last().unwrap());
    assert_eq!(joined(&streams[0], "/choices/0/delta/content"), "Echo: Hello there");
    assert!(last[0]["usage"]["prompt_tokens"].as_u64().unwrap() > 1);
    assert_eq!(last[0]["choices"], json!([]));
    assert_eq!(joined(&streams[1], "/delta"), "Echo: Hello there");
    assert_eq!(last[1]["type"], "response.completed");
    assert_eq!(last[1]["sequence_number"], streams[1].len() - 1);
    assert_eq!(joined(&streams[2], "/delta/text"), "Echo: Hello there");
    assert_eq!(last[2]["type"], "message_stop");
    assert_eq!(joined(&streams[3], "/message/content"), "Echo: Hello there");
    assert_eq!((&last[3]["done"], &last[3]["done_reason"]), (&json!(true), &json!("stop")));

    let seen = fake.requests();
    assert_eq!(seen.len(), 8);
    assert!(seen.iter().all(|request| request["verdict"] == "ok" && request["answer"] == "sent"));
    assert_eq!(seen[0]["headers"]["authorization"], "hidden");
    assert!(!serde_json::to_string(&seen).unwrap().contains("sk-secret"));
    let body = fake.body(seen[0]["number"].as_u64().unwrap());
    assert_eq!(body, good(CHAT, false).to_string());
    assert_eq!(seen[0]["blake3"], blake3::hash(body.as_bytes()).to_hex().to_string());
    fake.reset();
    assert!(fake.requests().is_empty());
}

/// The same form at another address, with rules of its own.
#[test]
fn others_speak_like_openai_and_take_less() {
    let fake = FakeLlm::start();
    let whole = object(&post(&fake, OTHERS, "", &good(OTHERS, false)));
    assert_eq!(whole["choices"][0]["message"]["content"], "Echo: Hello there");
    let streamed = post(&fake, OTHERS, "", &good(OTHERS, true));
    assert_eq!(joined(&events(&streamed), "/choices/0/delta/content"), "Echo: Hello there");
    let mut body = good(OTHERS, false);
    body["messages"][0]["role"] = json!("developer");
    assert_eq!(status(&post(&fake, CHAT, KEYS, &body)), 200);
    assert_eq!(status(&post(&fake, OTHERS, "", &body)), 400);
    let fake = FakeLlm::start_with(&["--key", "sk-secret"]);
    assert_eq!(status(&post(&fake, OTHERS, "", &good(OTHERS, false))), 401);
    assert_eq!(status(&post(&fake, OTHERS, KEYS, &good(OTHERS, false))), 200);
}

#[test]
fn a_bad_request_is_refused_in_the_form_of_its_provider() {
    let fake = FakeLlm::start();
    for (path, pointer, words) in [
        (CHAT, "/error/message", "Unrecognized request argument supplied: foo"),
        (RESPONSES, "/error/message", "Unrecognized request argument supplied: foo"),
        (MESSAGES, "/error/message", "foo: Extra inputs are not permitted"),
        (OLLAMA, "/error", "json: unknown field \"foo\""),
    ] {
        let mut body = good(path, true);
        body["foo"] = json!(1);
        let answer = post(&fake, path, KEYS, &body);
        assert_eq!((status(&answer), object(&answer).pointer(pointer).unwrap()), (400, &json!(words)));
        let seen = fake.requests();
        assert_eq!(
            (&seen.last().unwrap()["verdict"], &seen.last().unwrap()["status"]),
            (&json!(words), &json!(400))
        );
    }
    let lenient = FakeLlm::start_with(&["--lenient"]);
    let mut body = good(OLLAMA, false);
    body["foo"] = json!(1);
    assert_eq!(status(&post(&lenient, OLLAMA, "", &body)), 200);
}

#[test]
fn keys_and_headers_are_checked() {
    let fake = FakeLlm::start_with(&["--key", "sk-right"]);
    let say = |path: &str, headers: &str| {
        let answer = post(&fake, path, headers, &good(path, false));
        (status(&answer), object(&answer)["error"]["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(say(CHAT, "authorization: Bearer sk-right\r\n").0, 200);
    assert!(say(CHAT, "").1.starts_with("You didn't provide an API key."));
    assert_eq!(
        say(RESPONSES, "authorization: Bearer sk-wrong\r\n"),
        (401, "Incorrect API key provided.".into())
    );
    assert_eq!(say(MESSAGES, ""), (401, "x-api-key header is required".into()));
    assert_eq!(say(MESSAGES, "x-api-key: a\r\n"), (401, "invalid x-api-key".into()));
    let bearer =
        |version: &str| format!("authorization: Bearer sk-right\r\nanthropic-version: {version}\r\n");
    assert_eq!(say(MESSAGES, &bearer("2026-10-21")).0, 200);
    assert_eq!(say(MESSAGES, &bearer("1")), (400, "anthropic-version: \"1\" is not a valid version".into()));
    assert_eq!(
        say(MESSAGES, "x-api-key: sk-right\r\n"),
        (400, "anthropic-version: header is required".into())
    );
    assert_eq!(say(OLLAMA, "").0, 200);
    let body = good(CHAT, false).to_string();
    let plain = fake.raw(&format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer sk-right\r\ncontent-type: \
         text/plain\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(status(&plain), 415);
    assert!(fake.raw("GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").contains("\"fake\""));
    assert!(
        fake.raw("GET /api/tags HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").contains("fake:latest")
    );
    assert_eq!(status(&fake.raw("GET /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")), 404);
}

#[test]
fn a_model_thinks_and_calls_tools_as_it_is_told() {
    let fake = FakeLlm::start();
    let script = json!({
        "times": 8, "thinking": "Let me see.", "cached_tokens": 3,
        "tool_calls": [{"name": "read", "arguments": "{\"path\":\"a.rs\"}"}, {"id": "mine", "name": "list", "arguments": "{}"}],
    });
    fake.script(&script);
    let whole = PATHS.map(|path| object(&post(&fake, path, KEYS, &good(path, false))));
    let streams = PATHS.map(|path| events(&post(&fake, path, KEYS, &good(path, true))));

    let message = &whole[0]["choices"][0]["message"];
    assert_eq!((&message["content"], &message["reasoning_content"]), (&Value::Null, &json!("Let me see.")));
    assert_eq!(
        message["tool_calls"][0]["function"],
        json!({"name": "read", "arguments": "{\"path\":\"a.rs\"}"})
    );
    assert_eq!(message["tool_calls"][1]["id"], "mine");
    assert_eq!(whole[0]["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(whole[0]["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
    let arguments = streams[0]
        .iter()
        .filter(|event| event.pointer("/choices/0/delta/tool_calls/0/index") == Some(&json!(0)));
    let arguments: Vec<_> = arguments.cloned().collect();
    assert_eq!(joined(&arguments, "/choices/0/delta/tool_calls/0/function/arguments"), "{\"path\":\"a.rs\"}");

    let items = whole[1]["output"].as_array().unwrap();
    assert!(items[0]["encrypted_content"].as_str().unwrap().starts_with(openai_responses::ENCRYPTED));
    assert_eq!((&items[1]["type"], &items[2]["call_id"]), (&json!("function_call"), &json!("mine")));
    assert!(streams[1].iter().any(|event| event["type"] == "response.function_call_arguments.done"));
    assert_eq!(streams[1].last().unwrap()["response"]["output"].as_array().unwrap().len(), 3);

    let signature = whole[2]["content"][0]["signature"].as_str().unwrap();
    assert_eq!(signature.split('@').next().unwrap(), anthropic::sign("Let me see."));
    assert_eq!(whole[2]["content"][1]["input"], json!({"path": "a.rs"}));
    assert_eq!(
        (&whole[2]["stop_reason"], &whole[2]["usage"]["cache_read_input_tokens"]),
        (&json!("tool_use"), &json!(3))
    );
    assert_eq!(joined(&streams[2], "/delta/thinking"), "Let me see.");
    assert_eq!(joined(&streams[2], "/delta/signature"), signature);
    assert_eq!(joined(&streams[2], "/delta/partial_json"), "{\"path\":\"a.rs\"}{}");

    assert_eq!(whole[3]["message"]["tool_calls"][0]["function"]["arguments"], json!({"path": "a.rs"}));
    assert_eq!(joined(&streams[3], "/message/thinking"), "Let me see.");

    // What it says is what it takes back.
    let turn = json!({"model": "m", "max_tokens": 10,
        "tools": [{"name": "read", "input_schema": {"type": "object"}}],
        "messages": [
        {"role": "user", "content": "x"}, {"role": "assistant", "content": whole[2]["content"]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": whole[2]["content"][1]["id"], "content": "1"},
            {"type": "tool_result", "tool_use_id": "mine", "content": "2"},
        ]},
    ]});
    assert_eq!(status(&post(&fake, MESSAGES, KEYS, &turn)), 200);
    let mut input = vec![json!({"role": "user", "content": "x"})];
    input.extend(items.iter().cloned());
    input.extend(
        items[1..]
            .iter()
            .map(|item| json!({"type": "function_call_output", "call_id": item["call_id"], "output": "1"})),
    );
    assert_eq!(status(&post(&fake, RESPONSES, KEYS, &json!({"model": "m", "input": input}))), 200);
}

#[test]
fn errors_come_as_they_are_told() {
    let fake = FakeLlm::start();
    fake.script(&json!({"status": 429, "retry_after": "7", "path": MESSAGES}));
    fake.script(&json!({"status": 529, "times": 2, "path": MESSAGES}));
    assert_eq!(status(&post(&fake, CHAT, KEYS, &good(CHAT, true))), 200, "the script is for another path");
    let limited = post(&fake, MESSAGES, KEYS, &good(MESSAGES, true));
    assert!(limited.contains("retry-after: 7\r\n"), "{limited}");
    assert_eq!(object(&limited)["error"]["type"], "rate_limit_error");
    for _ in 0..2 {
        assert_eq!(status(&post(&fake, MESSAGES, KEYS, &good(MESSAGES, true))), 529);
    }
    assert_eq!(status(&post(&fake, MESSAGES, KEYS, &good(MESSAGES, true))), 200);

    let header = format!("{KEYS}x-fake-script: {}\r\n", json!({"status": 400, "message": "too many tokens"}));
    let answer = post(&fake, CHAT, &header, &good(CHAT, true));
    assert_eq!((status(&answer), &object(&answer)["error"]["message"]), (400, &json!("too many tokens")));
    let bad = format!("{KEYS}x-fake-script: {{\"statu\":1}}\r\n");
    assert!(post(&fake, CHAT, &bad, &good(CHAT, true)).contains("unknown field `statu`"));
}

#[test]
fn streams_go_wrong_as_they_are_told() {
    let fake = FakeLlm::start();
    for path in PATHS {
        let ask = |fault: &str| {
            fake.script(&json!({"fault": fault, "after": 2, "text": "A longer answer of many pieces."}));
            post(&fake, path, KEYS, &good(path, true))
        };
        let answer = ask("break_mid_stream");
        assert!(!is_whole(&answer) && events(&answer).len() == 2, "{path}: {answer}");
        fake.wait("the break", |seen| seen.last().unwrap()["answer"] == "gone");
        let answer = ask("end_early");
        assert!(is_whole(&answer) && events(&answer).len() == 2, "{path}: {answer}");
        let answer = ask("malformed_chunk");
        assert!(
            answer.contains("{\"id\":\n")
                || answer.contains("{\"model\":\n")
                || answer.contains("{\"type\":\n")
        );
        assert!(is_whole(&answer));
        let answer = ask("error_mid_stream");
        let last = events(&answer).pop().unwrap();
        assert!(last["error"] != Value::Null || last["type"] == "error", "{path}: {last}");
    }
    // One that waits has said so much, and says the rest when it is told to.
    fake.reset();
    let text = "A longer answer of many pieces.";
    fake.script(&json!({"fault": "wait_mid_stream", "after": 2, "text": text}));
    let body = good(CHAT, true).to_string();
    let mut waiting = half_open(&fake, &format!("{}{body}", head(CHAT, KEYS, body.len())));
    let mut answer = String::new();
    while events(&answer).len() < 2 {
        let mut piece = [0; 4096];
        let read = waiting.read(&mut piece).unwrap();
        assert!(read > 0, "it did not wait: {answer}");
        answer.push_str(str::from_utf8(&piece[..read]).unwrap());
    }
    // What is asked later does not wait, and does not let it go on.
    assert!(is_whole(&post(&fake, CHAT, KEYS, &good(CHAT, true))));
    assert_eq!(fake.requests()[0]["answer"], "open");
    fake.go_on();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(is_whole(&answer) && events(&answer).len() > 2, "{answer}");
    let slow = json!({"delay_ms": 20, "text": "12345678".repeat(5)});
    fake.script(&slow);
    let start = std::time::Instant::now();
    post(&fake, CHAT, KEYS, &good(CHAT, true));
    assert!(start.elapsed() >= Duration::from_millis(20 * 8));
}

/// A connection on which a request was sent, and which is to be left.
fn half_open(fake: &FakeLlm, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(fake.address()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

#[test]
fn it_hangs_and_sees_a_client_go() {
    let fake = FakeLlm::start();
    let body = good(CHAT, true).to_string();
    let request = format!("{}{body}", head(CHAT, KEYS, body.len()));
    for fault in ["hang_before_headers", "hang_mid_stream"] {
        fake.reset();
        fake.script(&json!({"fault": fault}));
        let mut stream = half_open(&fake, &request);
        fake.wait("the request", |seen| seen.first().is_some_and(|request| request["bytes"] == body.len()));
        let mut first = [0; 9];
        if fault == "hang_mid_stream" {
            stream.read_exact(&mut first).unwrap();
        }
        // Another is answered meanwhile.
        assert!(is_whole(&post(&fake, CHAT, KEYS, &good(CHAT, true))));
        stream.set_nonblocking(true).unwrap();
        let mut rest = Vec::new();
        let hung = stream.read_to_end(&mut rest).unwrap_err();
        assert_eq!(hung.kind(), std::io::ErrorKind::WouldBlock);
        assert!(rest.is_empty() || fault == "hang_mid_stream");
        assert_eq!(fake.requests()[0]["answer"], "open");
        drop(stream);
        fake.wait("the leaving", |seen| seen[0]["answer"] == "gone");
    }
}

#[test]
fn it_closes_in_the_middle_of_a_request() {
    let fake = FakeLlm::start();
    fake.script(&json!({"fault": "close_mid_request", "after": 10}));
    let mut stream =
        half_open(&fake, &format!("{}{}", head(CHAT, KEYS, 1000), "{\"model\": \"more than ten\""));
    let mut rest = Vec::new();
    // An end or a reset, but no answer.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    let seen = fake.requests();
    assert!(seen[0]["bytes"].as_u64().unwrap() < 1000 && seen[0]["status"] == 0);
}

/// A body of this many bytes, never held, that ends as told.
fn send_large(fake: &FakeLlm, bytes: usize, end: &str) -> String {
    let start = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":""#;
    let mut stream = TcpStream::connect(fake.address()).unwrap();
    stream.write_all(head(CHAT, KEYS, bytes).as_bytes()).unwrap();
    stream.write_all(start.as_bytes()).unwrap();
    let block = vec![b'a'; 1024 * 1024];
    let mut left = bytes - start.len() - end.len();
    while left > 0 {
        let piece = left.min(block.len());
        stream.write_all(&block[..piece]).unwrap();
        left -= piece;
    }
    stream.write_all(end.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn large_bodies_are_taken_without_being_held() {
    const LARGE: usize = 200_000_000;
    let fake = FakeLlm::start_with(&["--max-bytes", "1000000000", "--check-bytes", "1000000"]);
    let answer = send_large(&fake, LARGE, r#""}]}"#);
    assert_eq!(joined(&events(&answer), "/choices/0/delta/content"), "Got 200000000 bytes.");
    let seen = fake.requests();
    assert_eq!((&seen[0]["verdict"], &seen[0]["bytes"]), (&json!("not checked"), &json!(LARGE)));
    let status_of = std::fs::read_to_string(format!("/proc/{}/status", fake.process_id())).unwrap();
    let peak = status_of.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 64 * 1024, "it took {peak} kB");

    let broken = send_large(&fake, 2_000_000, r#""}]"#);
    assert!(
        object(&broken)["error"]["message"].as_str().unwrap().starts_with("We could not parse the JSON body")
    );
    let small = FakeLlm::start_with(&["--max-bytes", "1000000", "--count-only"]);
    assert_eq!(status(&send_large(&small, 2_000_000, r#""}]}"#)), 413);
    let counted = FakeLlm::start_with(&["--max-bytes", "3000000", "--check-bytes", "1000", "--count-only"]);
    assert_eq!(status(&send_large(&counted, 2_000_000, r#""}]"#)), 200);
}

#[tokio::test]
async fn it_speaks_http2_over_one_connection() {
    let fake = FakeLlm::start();
    let stream = tokio::net::TcpStream::connect(fake.address()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..2 {
        let request = http::Request::post(format!("{}{CHAT}", fake.url()))
            .header("authorization", "Bearer x")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(good(CHAT, true).to_string())))
            .unwrap();
        let answer =
            sender.send_request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        let events = events(std::str::from_utf8(&answer).unwrap());
        assert_eq!(joined(&events, "/choices/0/delta/content"), "Echo: Hello there");
    }
    let seen = fake.requests();
    assert!(seen.iter().all(|request| request["version"] == "HTTP/2.0"));
    assert_eq!(seen[0]["peer_port"], seen[1]["peer_port"]);
}

#[test]
fn it_ends_with_its_input() {
    assert!(FakeLlm::start().stop());
}
