//! Outputs of tools by the Rust client: from bytes, from a stream, from a reader; read, searched, listed, collected.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use contextstore_client::{ErrorReason, Grep, Items, PutOutput, ReadOutput, StartTask};
use tokio::io::{AsyncRead, ReadBuf};

use test_support::server::{DEADLINE, TestServer, eventually};

async fn all(mut chunks: Items<Bytes>) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(chunk) = chunks.try_next().await.unwrap() {
        all.extend_from_slice(&chunk);
    }
    all
}

/// Gives some bytes, then fails.
struct Broken(usize);

impl AsyncRead for Broken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0 == 0 {
            return Poll::Ready(Err(io::Error::other("the pipe is broken")));
        }
        self.0 -= 1;
        buf.put_slice(&vec![b'x'; buf.remaining().min(1000)]);
        Poll::Ready(Ok(()))
    }
}

// features: outputs-put, outputs-read-grep
#[tokio::test(flavor = "multi_thread")]
async fn outputs_go_in_and_come_out() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let task = client.start_task(StartTask::default()).await.unwrap();
    let outputs = task.outputs();
    let text: String = (1..=100_000).map(|n| format!("line {n}\n")).collect();
    let put = PutOutput {
        tool_name: "bash".to_owned(),
        tool_call_id: "c1".to_owned(),
        append: true,
        ..PutOutput::default()
    };
    let kept = outputs.put(put.clone(), text.clone()).await.unwrap();
    assert!(kept.truncated && kept.seq == 1);
    let id = kept.r#ref.unwrap().id;
    // The same from a stream and from a reader.
    let pieces: Vec<Bytes> = text.as_bytes().chunks(7777).map(Bytes::copy_from_slice).collect();
    let again = outputs.put_stream(PutOutput::default(), futures_util::stream::iter(pieces)).await.unwrap();
    assert_eq!(again.r#ref.unwrap().id, id);
    let reader = io::Cursor::new(text.clone().into_bytes());
    let again = outputs.put_reader(PutOutput::default(), reader).await.unwrap();
    assert_eq!(again.r#ref.unwrap().id, id);

    assert_eq!(all(outputs.read_raw(&id, 0, 0)).await, text.as_bytes());
    assert_eq!(all(outputs.read_raw(&id, 5, 300_000)).await, &text.as_bytes()[5..300_005]);
    let lines = all(outputs.read(&id, ReadOutput { offset: 99_998, limit: 0, max_line_length: 0 })).await;
    assert_eq!(String::from_utf8(lines).unwrap(), " 99999\tline 99999\n100000\tline 100000\n");
    let mut found = outputs.grep(Grep { pattern: "^line 9999.$".to_owned(), ..Grep::default() });
    let (mut lines, mut matches) = (Vec::new(), None);
    while let Some(batch) = found.try_next().await.unwrap() {
        lines.extend(batch.lines.into_iter().map(|line| line.line_number));
        matches = batch.matches.or(matches);
    }
    assert_eq!((lines, matches), ((99_990..=99_999).collect(), Some(10)));
    assert_eq!(outputs.stat(&id).await.unwrap().tool_name, "bash");

    // What fails on the way leaves nothing.
    let broken = outputs.put_reader(PutOutput::default(), Broken(600)).await.unwrap_err();
    assert!(broken.to_string().contains("the pipe is broken"), "{broken}");
    let dir = server.running(task.uuid()).join("outputs");
    eventually(DEADLINE, || async { (std::fs::read_dir(&dir).unwrap().count() == 2).then_some(()) }).await;
    let page = outputs.list(0, "").await.unwrap();
    assert_eq!((page.outputs.len(), page.next_page_token.as_str()), (1, ""));
    let missing = outputs.stat(&format!("out-{}", "0".repeat(32))).await.unwrap_err();
    assert_eq!(missing.reason(), Some(ErrorReason::OutputNotFound));

    outputs.put(PutOutput::default(), "nobody names it").await.unwrap();
    let dry = client.collect_garbage("", Some(Duration::ZERO), true).await.unwrap();
    assert_eq!((dry.removed, dry.kept), (1, 1));
    let done = client.collect_garbage(task.uuid(), Some(Duration::ZERO), false).await.unwrap();
    assert_eq!((done.removed, done.kept), (1, 1));
}
