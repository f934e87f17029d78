//! What is on disk is for the owner alone, and the token is made once.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use contextstore_proto::v1 as pb;

use test_support::refusal::cannot_start;
use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire::{Api, endpoint, say, start};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Everything below a directory.
fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&entry.path()));
        }
    }
    found
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_private_whatever_the_umask() {
    for umask in ["000", "022", "777"] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("deep/data");
        fs::create_dir(dir.path().join("deep")).unwrap();
        let socket = data.join("contextstore.sock");
        let program = test_support::program("contextstore");
        let script = format!(
            "umask {umask}; exec {} serve --data-dir {} --listen unix:{} --listen tcp:127.0.0.1:0",
            program.display(),
            data.display(),
            socket.display()
        );
        let server = Command::new("/bin/sh")
            .args(["-c", &script])
            .env_clear()
            .env("CONTEXTSTORE_COMPRESSION__AUTO", "false")
            .stderr(Stdio::null())
            .spawn();
        let _server = Server(server.unwrap());
        let connect = || async { endpoint(&socket).connect().await.ok() };
        let mut api = Api::new(eventually(DEADLINE, connect).await);

        // Everything that makes a file.
        let mut works = Vec::new();
        for _ in 0..3 {
            let work = start(&mut api).await;
            say(&mut api, &work, &"x".repeat(1 << 20)).await;
            api.append_message(work.json(r#"{"role":"user","content":"x","extra":1}"#)).await.unwrap();
            let call = pb::RecordToolCallRequest {
                task_uuid: work.uuid.clone(),
                tool_name: "ls".to_owned(),
                lease_generation: 1,
                ..Default::default()
            };
            api.record_tool_call(call).await.unwrap();
            let plan = pb::AppendPlanRequest {
                task_uuid: work.uuid.clone(),
                plan_content_json: "1".to_owned(),
                lease_generation: 1,
                ..Default::default()
            };
            api.append_plan(plan).await.unwrap();
            api.rewind_task(work.rewind(1)).await.unwrap();
            works.push(work.uuid);
        }
        let task_uuid = works[0].clone();
        let pause = pb::PauseTaskRequest { task_uuid, lease_generation: 1, ..Default::default() };
        api.pause_task(pause).await.unwrap();
        let complete = pb::CompleteTaskRequest {
            task_uuid: works[1].clone(),
            final_summary: "s".to_owned(),
            lease_generation: 1,
            ..Default::default()
        };
        api.complete_task(complete).await.unwrap();
        api.list_tasks(pb::ListTasksRequest::default()).await.unwrap();

        let found = walk(&data);
        for name in ["token", "LOCK", "tasks.db", "tasks.db-wal", "addresses", "contextstore.sock"] {
            assert!(found.contains(&data.join(name)), "{name} is not there");
        }
        assert!(found.len() > 30, "{found:?}");
        assert_eq!(mode(&data), 0o700);
        for path in found {
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            assert!(kind.is_dir() || kind.is_file() || kind.is_socket(), "{}", path.display());
            let expected = if kind.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), expected, "{} under umask {umask}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_made_once_and_stays() {
    let mut server = TestServer::start().await;
    let path = server.data_dir().join("token");
    let first = fs::read_to_string(&path).unwrap();
    assert!(first.ends_with('\n') && server.token().bytes().all(|byte| byte.is_ascii_alphanumeric()));
    for orderly in [true, false] {
        if !orderly {
            server.kill();
        }
        server.restart().await;
        assert_eq!(fs::read_to_string(&path).unwrap(), first);
        server.tcp_client().await.server_info().await.unwrap();
    }
    // Another directory has another one.
    assert_ne!(TestServer::start().await.token(), server.token());
    // The owner may write one; what others could read until then is closed.
    server.terminate().await;
    fs::write(&path, "my-own-token-0123456789\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    server.restart().await;
    assert_eq!((mode(&path), server.token().as_str()), (0o600, "my-own-token-0123456789"));
    server.tcp_client().await.server_info().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_token_file_is_told_not_replaced() {
    let mut server = TestServer::start().await;
    server.terminate().await;
    let path = server.data_dir().join("token");
    for bad in [
        &b""[..],
        b"short",
        b"with a space in between 0123456789",
        b"\xff\xfe\xfd0123456789abcdef",
        &[b'x'; 5000],
    ] {
        fs::write(&path, bad).unwrap();
        let said = cannot_start(&server.data_dir(), &["--listen", "tcp:127.0.0.1:0"]);
        assert!(said.lines().last().unwrap().contains("token"), "{said}");
        assert_eq!(fs::read(&path).unwrap(), bad);
    }
    // Without one it is made anew.
    fs::remove_file(&path).unwrap();
    server.restart().await;
    server.tcp_client().await.server_info().await.unwrap();
}
