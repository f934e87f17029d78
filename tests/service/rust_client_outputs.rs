//! Outputs that the Rust client sends while connections break, servers stand still and inputs end early; and the tools with
//! which a model reads them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use contextstore_client::{Client, Error, PutOutput, StartTask, Task, tools};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncSeek, ReadBuf};

use test_support::proxy::Proxy;
use test_support::server::{DEADLINE, TestServer, eventually};

const CHUNK: usize = 64 << 10;
const CHUNKS: usize = 50;

async fn start(client: &Client) -> Task {
    client.start_task(StartTask::default()).await.unwrap()
}

fn chunk(number: usize) -> Vec<u8> {
    let mut text = format!("{number} {}", "x".repeat(CHUNK)).into_bytes();
    text.truncate(CHUNK - 1);
    [text, b"\n".to_vec()].concat()
}

fn whole() -> Vec<u8> {
    (0..CHUNKS).flat_map(chunk).collect()
}

async fn read(server: &TestServer, task: &Task, id: &str) -> Vec<u8> {
    let mut chunks = server.client().await.task(task.uuid()).outputs().read_raw(id, 0, 0);
    let mut all = Vec::new();
    while let Some(chunk) = chunks.try_next().await.unwrap() {
        all.extend_from_slice(&chunk);
    }
    all
}

/// A file that is read slowly: in the middle of its first reading the connection breaks.
struct Slow {
    file: io::Cursor<Vec<u8>>,
    breaks: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl AsyncRead for Slow {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let at = usize::try_from(self.file.position()).unwrap();
        if at > self.file.get_ref().len() / 2
            && let Some(breaks) = self.breaks.take()
        {
            breaks();
        }
        let data = self.file.get_ref();
        let end = data.len().min(at + buf.remaining().min(10_000));
        buf.put_slice(&data[at..end]);
        self.file.set_position(end as u64);
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for Slow {
    fn start_seek(mut self: Pin<&mut Self>, position: io::SeekFrom) -> io::Result<()> {
        io::Seek::seek(&mut self.file, position).map(drop)
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.file.position()))
    }
}

// feature: outputs-retry
#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_can_be_read_again_is_kept_whole() {
    let server = TestServer::start().await;
    let proxy = Arc::new(Proxy::new(&server.socket()));
    let task = start(&proxy.builder().connect().await.unwrap()).await;
    let outputs = task.outputs();
    let cut = Arc::clone(&proxy);
    let breaks: Arc<dyn Fn() + Send + Sync> = Arc::new(move || cut.cut());

    // From where it stands.
    let mut file = io::Cursor::new([b"header".to_vec(), whole()].concat());
    file.set_position(6);
    let before = proxy.connections();
    let kept =
        outputs.put_seekable(PutOutput::default(), Slow { file, breaks: Some(Arc::clone(&breaks)) }).await;
    let id = kept.unwrap().r#ref.unwrap().id;
    assert!(proxy.connections() > before, "it never broke");
    assert!(read(&server, &task, &id).await == whole(), "it is not whole");

    let opened = Arc::new(AtomicUsize::new(0));
    let open = || {
        let first = opened.fetch_add(1, Ordering::SeqCst) == 0;
        let breaks = Arc::clone(&breaks);
        let chunks = (0..CHUNKS).map(move |number| {
            if first && number == CHUNKS / 2 {
                breaks();
            }
            Ok::<_, io::Error>(chunk(number))
        });
        // Bytes that come one by one, so that the break is noticed in between.
        let chunks = stream::iter(chunks).then(|chunk| async {
            tokio::task::yield_now().await;
            chunk
        });
        async { Ok::<_, io::Error>(chunks) }
    };
    let put = PutOutput {
        tool_name: "bash".to_owned(),
        tool_call_id: "c1".to_owned(),
        append: true,
        ..Default::default()
    };
    let kept = outputs.put_with(put, open).await.unwrap();
    assert_eq!((kept.r#ref.unwrap().id, opened.load(Ordering::SeqCst)), (id, 2));
    assert_eq!(task.get().await.unwrap().task.unwrap().last_seq, 1, "it is appended once");

    // What comes once cannot be sent again: the caller has to.
    let cut = Arc::clone(&breaks);
    let once = (0..CHUNKS).map(move |number| {
        if number == CHUNKS / 2 {
            cut();
        }
        Bytes::from(chunk(number))
    });
    let once = stream::iter(once).then(|chunk| async {
        tokio::task::yield_now().await;
        chunk
    });
    let failed = outputs.put_stream(PutOutput::default(), once).await.unwrap_err();
    assert!(failed.is_transient(), "{failed:?}");
    assert_eq!(outputs.list(0, "").await.unwrap().outputs.len(), 1);
}

/// The server, not the source, has to be in time.
#[tokio::test(flavor = "multi_thread")]
async fn an_output_does_not_wait_for_a_server_that_stands_still() {
    let server = TestServer::start().await;
    let proxy = Proxy::new(&server.socket());
    // Long enough for a server that works, on a busy machine, and shorter than the source takes.
    let patience = Duration::from_secs(4);
    let task = start(&server.builder().timeout(patience).connect().await.unwrap()).await;
    let slow = stream::unfold(0, move |number| async move {
        if number == 2 {
            tokio::time::sleep(patience + patience / 4).await;
        }
        (number < 4).then_some((Bytes::from_static(b"line\n"), number + 1))
    });
    task.outputs().put_stream(PutOutput::default(), slow).await.unwrap();

    let timeout = Duration::from_millis(300);
    let hasty = proxy.builder().timeout(timeout).connect_lazy().unwrap();
    hasty.wait_until_ready(DEADLINE).await.unwrap();
    proxy.hold(true);
    let task = hasty.task_under(task.uuid(), task.lease_generation());
    let outputs = task.outputs();
    let put = outputs.put_stream(PutOutput::default(), stream::iter([Bytes::from_static(b"more\n")]));
    let late = tokio::time::timeout(DEADLINE, put).await.unwrap().unwrap_err();
    assert!(matches!(late, Error::Deadline { after } if after == timeout), "{late:?}");
    // A server that takes nothing: more than fits in between.
    let endless = stream::repeat(Bytes::from(vec![b'x'; 1 << 20]));
    let put = outputs.put_stream(PutOutput::default(), endless);
    let late = tokio::time::timeout(DEADLINE, put).await.unwrap().unwrap_err();
    assert!(matches!(late, Error::Deadline { .. }), "{late:?}");
}

// feature: outputs-input-breaks
#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_breaks_off_leaves_nothing() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    let broken = || stream::iter([Ok("one\n"), Err(io::Error::other("the pipe is broken"))]);
    let put = PutOutput {
        tool_name: "bash".to_owned(),
        tool_call_id: "c1".to_owned(),
        append: true,
        ..Default::default()
    };
    let failed = task.outputs().try_put_stream(put.clone(), broken()).await.unwrap_err();
    assert_eq!(failed.to_string(), "the source failed: the pipe is broken");
    let failed = task.outputs().put_with(put, || async { Ok::<_, io::Error>(broken()) }).await.unwrap_err();
    assert!(matches!(failed, Error::Source { .. }), "{failed:?}");
    // Another output gets through behind them, so they are over.
    task.outputs().put(PutOutput::default(), "whole").await.unwrap();
    assert_eq!(task.outputs().list(0, "").await.unwrap().outputs.len(), 1);
    assert_eq!(task.get().await.unwrap().task.unwrap().last_seq, 0);
    let dir = server.running(task.uuid()).join("outputs");
    eventually(DEADLINE, || async { (std::fs::read_dir(&dir).unwrap().count() == 2).then_some(()) }).await;
}

// feature: tool-dispatcher
#[tokio::test(flavor = "multi_thread")]
async fn a_model_reads_and_searches_outputs_by_its_tools() {
    let server = TestServer::start().await;
    let task = start(&server.client().await).await;
    let text: String = (1..=1000).map(|n| format!("line {n}\n")).collect();
    let id = task.outputs().put(PutOutput::default(), text).await.unwrap().r#ref.unwrap().id;
    let dispatch = async |call: Value| -> Option<Value> {
        let answer = tools::dispatch(&task, &call.to_string()).await.unwrap();
        answer.map(|answer| serde_json::from_str(&answer).unwrap())
    };

    let arguments = json!({"ref_id": id, "offset": 3.0, "limit": 2}).to_string();
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": tools::READ, "arguments": arguments}});
    let answer = dispatch(call).await.unwrap();
    let shown = "     4\tline 4\n     5\tline 5\n[lines 4 to 5 of 1000; offset=5 reads on]";
    assert_eq!(answer, json!({"role": "tool", "tool_call_id": "c1", "content": shown}));

    let input = json!({"ref_id": id, "pattern": "^line 9[89]$", "after": 1});
    let call = json!({"type": "tool_use", "id": "t1", "name": tools::GREP, "input": input});
    let answer = dispatch(call).await.unwrap();
    let found = "98:line 98\n99:line 99\n100-line 100\n[2 matches]";
    assert_eq!(answer, json!({"type": "tool_result", "tool_use_id": "t1", "content": found}));

    let arguments = json!({"ref_id": id, "offset": 998}).to_string();
    let call = json!({"type": "function_call", "call_id": "f1", "name": tools::READ, "arguments": arguments});
    let answer = dispatch(call).await.unwrap();
    assert_eq!(
        (answer["type"].as_str(), answer["call_id"].as_str()),
        (Some("function_call_output"), Some("f1"))
    );
    assert!(answer["output"].as_str().unwrap().ends_with("line 1000\n[end: 1000 lines]"), "{answer}");

    // What went wrong is for the model.
    for (arguments, problem) in [
        (json!({"pattern": "("}), "Error: "),
        (json!({}), "Error: pattern: a text is required"),
        (json!({"pattern": "x", "max_matches": -1}), "Error: max_matches: a whole number from 0 on"),
        (json!({"pattern": "nothing like it"}), "No line matches."),
    ] {
        let call = json!({"type": "tool_use", "id": "t2", "name": tools::GREP, "input": arguments});
        let answer = dispatch(call).await.unwrap();
        assert!(answer["content"].as_str().unwrap().starts_with(problem), "{answer}");
        assert_eq!(answer["is_error"] == true, problem.starts_with("Error"), "{answer}");
    }
    assert_eq!(dispatch(json!({"id": "c2", "function": {"name": "other", "arguments": "{}"}})).await, None);
    assert!(tools::dispatch(&task, "7").await.unwrap_err().to_string().contains("is not a JSON object"));

    // Each provider is given the same two tools.
    for (listed, name) in [
        (tools::openai(), "/0/function/name"),
        (tools::openai_responses(), "/0/name"),
        (tools::anthropic(), "/1/name"),
    ] {
        let listed: Value = serde_json::from_str(&listed).unwrap();
        assert!(listed.pointer(name).unwrap().as_str().unwrap().starts_with("tool_output_cache"), "{listed}");
    }
}
