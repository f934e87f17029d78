//! What a running server tells its operator: the log, metrics and health.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use contextstore_base::infra::metrics::METRICS;
use contextstore_client::{NewMessage, ReadCurrent, StartTask, v1};
use futures_util::TryStreamExt;
use serde_json::Value;

use test_support::server::{DEADLINE, TestServer, eventually};

/// A server with a configuration file.
async fn start(yaml: &str) -> TestServer {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("contextstore.yaml");
    fs::write(&file, yaml).unwrap();
    TestServer::start_in(root, &["--config", file.to_str().unwrap()]).await
}

/// The log as objects; every line must be one.
fn log(server: &TestServer) -> Vec<Value> {
    let text = server.log();
    let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
    whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// Where metrics are, as the log says.
async fn admin_address(server: &TestServer) -> String {
    eventually(DEADLINE, async || {
        let told = log(server).into_iter().find(|line| line["message"] == "serving metrics and health")?;
        told["address"].as_str().map(str::to_owned)
    })
    .await
}

fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The value of a series, with its labels.
fn value(metrics: &str, series: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_tells_what_it_does() {
    let mut server = start("admin_listen: 127.0.0.1:0\nlog:\n  format: json\n").await;
    let address = admin_address(&server).await;
    assert_eq!(get(&address, "/healthz"), (200, "serving\n".to_owned()));

    let client = server.client().await;
    let key = v1::TaskKey { task_source: "github".to_owned(), ..v1::TaskKey::default() };
    let task = client.start_task(StartTask { key, ..StartTask::default() }).await.unwrap();
    for text in ["one", "two", "three"] {
        task.append(NewMessage::user(text)).await.unwrap();
    }
    let chunks: Vec<_> = task.current(ReadCurrent::default()).await.unwrap().try_collect().await.unwrap();
    let sent: usize = chunks.iter().map(bytes::Bytes::len).sum();

    // Gauges follow within a tick of the upkeep, and a call is counted when its answer is gone.
    let calls = "contextstore_grpc_requests_total{service=\"contextstore.v1.ContextStore\",method=\"AppendMessage\",code=\"OK\"}";
    let metrics = eventually(DEADLINE, async || {
        let (status, metrics) = get(&address, "/metrics");
        assert_eq!(status, 200);
        let is_counted = value(&metrics, "contextstore_open_tasks") == Some(1.0)
            && value(&metrics, "contextstore_request_bytes_in_flight") == Some(0.0)
            && value(&metrics, calls) == Some(3.0);
        is_counted.then_some(metrics)
    })
    .await;
    let has = |series: &str, expected: f64| {
        assert_eq!(value(&metrics, series), Some(expected), "{series}\n{metrics}")
    };
    has("context_messages_total{task_source=\"github\",role=\"user\"}", 3.0);
    has("contextstore_append_duration_seconds_count", 3.0);
    has("contextstore_stream_bytes_total{method=\"StreamCurrent\"}", sent as f64);
    has("contextstore_grpc_request_duration_seconds_count{method=\"AppendMessage\"}", 3.0);
    has("contextstore_read_only", 0.0);
    assert!(value(&metrics, "contextstore_connections") >= Some(1.0), "{metrics}");

    // What is told is in the table, and the table in the documents.
    let told: BTreeSet<_> =
        metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let known: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
    assert!(told.is_subset(&known), "{:?}", told.difference(&known));

    assert!(server.terminate().await.success());
    assert!(TcpStream::connect(&address).is_err());
    let lines = log(&server);
    let messages: Vec<_> = lines.iter().filter_map(|line| line["message"].as_str()).collect();
    for said in ["serving", "stopping", "stopped"] {
        assert!(messages.contains(&said), "{said}: {messages:?}");
    }
    for line in &lines {
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
        assert!(["INFO", "WARN", "ERROR"].contains(&line["level"].as_str().unwrap()), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_text_without_colours_and_as_loud_as_configured() {
    let server = TestServer::start().await;
    assert!(server.log().contains(" INFO contextstore::serve: serving "), "{}", server.log());
    assert!(!server.log().contains('\u{1b}'), "{}", server.log());
    let mut server = start("log: {level: 'off'}").await;
    assert!(server.terminate().await.success());
    assert_eq!(server.log(), "");
}
