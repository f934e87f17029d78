//! The process log: whatever becomes of stderr, every call is served and nothing is lost.

use std::fs::File;
use std::io::pipe;
use std::os::fd::OwnedFd;

use test_support::server::TestServer;
use test_support::wire::{api, say, start, task, view};

/// A pipe takes 64 KiB, and a queue of the server some more: so many calls fill both several times over.
const CALLS: u64 = 600;

async fn is_served(server: &mut TestServer, stderr: OwnedFd) {
    server.restart_logging_to(stderr).await;
    let mut client = api(server).await;
    let work = start(&mut client).await;
    for number in 1..=CALLS {
        assert_eq!(say(&mut client, &work, "hello").await, number);
    }
    // What is logged while the task is locked comes too: a view that cannot be written is.
    let view_file = server.running(&work.uuid).join("current.jsonl");
    std::fs::remove_file(&view_file).unwrap();
    std::fs::create_dir(&view_file).unwrap();
    assert_eq!(say(&mut client, &work, "hello").await, CALLS + 1);
    std::fs::remove_dir(&view_file).unwrap();
    assert_eq!(say(&mut client, &work, "hello").await, CALLS + 2);
    assert_eq!(view(&mut client, work.current()).await.lines().count() as u64, CALLS + 2);
    assert_eq!(task(&mut client, &work).await.last_seq, CALLS + 2);
    assert!(server.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_served_whatever_becomes_of_stderr() {
    let mut server = TestServer::start_configured(&[("log.level", "debug")]).await;
    let full = File::options().write(true).open("/dev/full").unwrap();
    is_served(&mut server, full.into()).await;
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    is_served(&mut server, writer.into()).await;
    let (_unread, writer) = pipe().unwrap();
    is_served(&mut server, writer.into()).await;
}
