//! Random calls of every method, many at once, on few tasks that are deleted and made again under the same ids. Whatever
//! they hold, the server does not panic, its memory stays bounded, and an agent beside them is served.
//!
//! `make test-long` makes 200 000 calls, a push 2 000. `CONTEXTSTORE_SEED=n` repeats a run as far as threads allow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use prost_reflect::prost::Message;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, MethodDescriptor, Value,
};
use tonic::transport::Channel;

use contextstore_client::{NewMessage, StartTask};
use test_support::dynamic::methods;
use test_support::server::{DEADLINE, TestServer};
use test_support::service::doctor;
use test_support::wire::{channel, collect, framed, raw};
use test_support::{number, sized};

const CALLERS: usize = 16;
/// How long a call may take; streams that wait for news have no end.
const PATIENCE: Duration = Duration::from_secs(2);
/// No caller may make the server need more than its limits allow.
const MOST_MEMORY: u64 = 768 << 20;
/// Few, so that calls meet.
const TASKS: usize = 6;
/// Levels of messages in messages.
const LEVELS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn random_calls_neither_stop_the_server_nor_shut_anybody_out() {
    let calls = number("CONTEXTSTORE_CALLS").unwrap_or(sized(2_000, 200_000));
    let seed = number("CONTEXTSTORE_SEED").unwrap_or(1);
    let mut server = TestServer::start_configured(&[("lease.ttl", "1s"), ("limits.read_idle", "2s")]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let agent = tokio::spawn(agent(server.client().await, Arc::clone(&stop)));
    let tally = Arc::new(Tally::default());
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let channel = channel(&server.socket()).await;
        let rng = Rng::with_seed(seed * 1_000 + caller as u64);
        callers.push(tokio::spawn(fuzz(channel, rng, calls / CALLERS as u64, Arc::clone(&tally))));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let served = agent.await.unwrap();
    let peak = peak(&server);
    println!(
        "{} calls ({} answered OK, {} refused, {} without an end), an agent served {served} times, peak {} MiB",
        calls,
        tally.fine.load(Ordering::Relaxed),
        tally.refused.load(Ordering::Relaxed),
        tally.endless.load(Ordering::Relaxed),
        peak >> 20,
    );
    assert!(tally.fine.load(Ordering::Relaxed) > calls / 50, "the calls are all refused: they test nothing");
    assert!(served > 0);
    assert!(peak < MOST_MEMORY, "{} MiB", peak >> 20);
    assert!(server.terminate().await.success());
    let log = server.log();
    assert!(!log.contains("panicked") && !log.contains("a background task ended"), "{log}");
    assert_eq!(doctor(&server.data_dir()), None);
}

#[derive(Default)]
struct Tally {
    fine: AtomicU64,
    refused: AtomicU64,
    endless: AtomicU64,
}

/// Works as an agent does, and answers how often it was served.
async fn agent(client: contextstore_client::Client, stop: Arc<AtomicBool>) -> u64 {
    let task = client.start_task(StartTask::default()).await.unwrap();
    let mut served = 0;
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        task.append(NewMessage::user(format!("turn {served}"))).await.unwrap();
        task.get().await.unwrap();
        assert!(began.elapsed() < DEADLINE, "an agent waited for {:?}", began.elapsed());
        served += 1;
        tokio::task::yield_now().await;
    }
    served
}

async fn fuzz(channel: Channel, mut rng: Rng, calls: u64, tally: Arc<Tally>) {
    let methods = methods();
    for _ in 0..calls {
        let method = &methods[rng.usize(..methods.len())];
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        let frames = frames(&mut rng, method);
        let call = async { collect(raw(&channel, &path, &[], frames).await?).await };
        match tokio::time::timeout(PATIENCE, call).await {
            Err(_) => tally.endless.fetch_add(1, Ordering::Relaxed),
            Ok(Ok(answer)) if answer.code == tonic::Code::Ok => tally.fine.fetch_add(1, Ordering::Relaxed),
            Ok(Ok(answer)) => {
                assert_ne!(answer.code, tonic::Code::Unknown, "{path}: {:?}", answer.status);
                tally.refused.fetch_add(1, Ordering::Relaxed)
            }
            Ok(Err(problem)) => panic!("{path} was answered without a status: {problem}"),
        };
    }
}

fn peak(server: &TestServer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn frames(rng: &mut Rng, method: &MethodDescriptor) -> Vec<Bytes> {
    let count = if method.is_client_streaming() { rng.usize(1..4) } else { 1 };
    let frame = |_| {
        let mut bytes = message(rng, &method.input(), 0).encode_to_vec();
        match rng.u32(..40) {
            // A bit is another.
            0 if !bytes.is_empty() => {
                let at = rng.usize(..bytes.len());
                bytes[at] ^= 1 << rng.u32(..8);
            }
            // A group, which nobody has asked for, around something or in front of it.
            1 => bytes = [&[0x0b][..], &bytes, &[0x0c]].concat(),
            2 => bytes = [&[0x0b, 0x0c][..], &bytes].concat(),
            // It ends in the middle.
            3 => bytes.truncate(bytes.len() / 2),
            // The same again and again: lists become long.
            4 if !bytes.is_empty() && bytes.len() < 1_000 => bytes = bytes.repeat(20_000 / bytes.len() + 1),
            _ => {}
        }
        framed(&bytes)
    };
    (0..count).map(frame).collect()
}

fn message(rng: &mut Rng, descriptor: &MessageDescriptor, level: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        // What names a task is nearly always there, or hardly anything would be found.
        let likely = if is_id(&field) { 19 } else { 4 };
        if rng.u32(..20) >= likely {
            continue;
        }
        let value = if field.is_map() {
            let entries =
                (0..rng.usize(..4)).map(|_| (MapKey::String(text(rng, "")), single(rng, &field, level)));
            if matches!(field.kind(), Kind::Message(entry) if entry.map_entry_value_field().kind() == Kind::String)
            {
                Value::Map(entries.map(|(key, _)| (key, Value::String("value".to_owned()))).collect())
            } else {
                continue;
            }
        } else if field.is_list() {
            let count = if rng.u32(..50) == 0 && !matches!(field.kind(), Kind::Message(_)) {
                20_000
            } else {
                rng.usize(..4)
            };
            Value::List((0..count).map(|_| single(rng, &field, level)).collect())
        } else {
            single(rng, &field, level)
        };
        message.set_field(&field, value);
    }
    message
}

fn is_id(field: &FieldDescriptor) -> bool {
    ["task_uuid", "uuid", "message", "messages", "json", "append", "header", "holder", "instance_id"]
        .contains(&field.name())
}

fn single(rng: &mut Rng, field: &FieldDescriptor, level: usize) -> Value {
    let number = [0, 1, 2, 3, 7, 100, 65_536, u64::MAX][rng.usize(..8)];
    let number = if field.name() == "lease_generation" { rng.u64(..12) } else { number };
    match field.kind() {
        Kind::Bool => Value::Bool(rng.bool()),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(number as i32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number as i64),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(number as u32),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(number),
        Kind::Float => Value::F32([0.0, 0.5, -1.0, f32::NAN][rng.usize(..4)]),
        Kind::Double => Value::F64([0.0, 0.5, -1.0, f64::INFINITY][rng.usize(..4)]),
        Kind::String => Value::String(text(rng, field.name())),
        Kind::Bytes => Value::Bytes(text(rng, "bytes").into_bytes().into()),
        Kind::Enum(_) => Value::EnumNumber(rng.i32(-1..6)),
        Kind::Message(inner) if level < LEVELS => Value::Message(message(rng, &inner, level + 1)),
        Kind::Message(inner) => Value::Message(DynamicMessage::new(inner)),
    }
}

/// A text that a field of this name may hold, or should not.
fn text(rng: &mut Rng, name: &str) -> String {
    match name {
        "task_uuid" | "uuid" | "new_task_uuid" if rng.u32(..20) > 0 => {
            format!("0198c0de-0000-7000-8000-00000000000{}", rng.usize(..TASKS))
        }
        "json" if rng.u32(..8) > 0 => {
            let role = ["user", "assistant", "tool", "system"][rng.usize(..4)];
            format!(r#"{{"role":"{role}","content":{}}}"#, json(rng))
        }
        _ if name.ends_with("json") && rng.u32(..8) > 0 => json(rng),
        "pattern" => ["a", "(a|b)*c", "1[01]{300}[2-9]", "(", "\\p{L}+x", ""][rng.usize(..6)].to_owned(),
        "request_id" | "instance_id" => format!("r-{}", rng.u32(..40)),
        "page_token" | "resume_token" | "token" => ["", "v1.0.0.0", "made up"][rng.usize(..3)].to_owned(),
        _ => match rng.u32(..12) {
            0 => String::new(),
            1 => "x".repeat(rng.usize(..70_000)),
            2 => "\u{0}\u{feff}\u{202e}日本\u{1F980}\n".to_owned(),
            3 => "../../etc/passwd".to_owned(),
            4 => json(rng),
            5 => "password=Tr0ub4dor&3xQ9 ghp_0123456789abcdefghijABCDEFGHIJ012345".to_owned(),
            _ => format!("word{}", rng.u32(..50)),
        },
    }
}

/// JSON that is deep, wide, broken or harmless.
fn json(rng: &mut Rng) -> String {
    let deep =
        |open: &str, close: &str, levels: usize| open.repeat(levels) + "\"password\"" + &close.repeat(levels);
    match rng.u32(..12) {
        0 => deep("[", "]", rng.usize(..120)),
        1 => deep("[", "]", rng.usize(..20_000)),
        2 => deep("{\"a\":", "}", rng.usize(..10_000)),
        3 => {
            let nested = deep("[", "]", rng.usize(..5_000));
            serde_json::to_string(&serde_json::to_string(&nested).unwrap()).unwrap()
        }
        4 => format!("[{}]", "{\"type\":\"x\"},".repeat(rng.usize(..20_000)) + "1"),
        5 => "{\"a\":1,\"a\":2".to_owned(),
        6 => "[{\"type\":\"text\",\"text\":\"part\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:,\"}}]".to_owned(),
        7 => "null".to_owned(),
        8 => "1e999".to_owned(),
        9 => "\"\\ud800\"".to_owned(),
        _ => format!("\"text {}\"", rng.u32(..1_000)),
    }
}
