//! What is on disk is for the owner alone, and every start makes a new token.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use contextstore_client::{ErrorReason, RetryPolicy};
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
async fn every_start_makes_a_new_token() {
    let mut server = TestServer::start().await;
    let path = server.data_dir().join("token");
    let mut before = server.token();
    assert!(before.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    for orderly in [true, false] {
        if !orderly {
            server.kill();
        }
        server.restart().await;
        let now = server.token();
        assert_ne!(now, before);
        server.tcp_client().await.server_info().await.unwrap();
        // Whoever has read the old one is told to read it again.
        let stale = server
            .builder()
            .address(server.tcp_address())
            .token(&before)
            .retry(RetryPolicy::none())
            .connect()
            .await
            .unwrap();
        let refused = stale.server_info().await.unwrap_err();
        assert_eq!(refused.reason(), Some(ErrorReason::Unauthenticated));
        assert!(refused.retry_after().is_some());
        before = now;
    }
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_token_stays() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    fs::write(&file, "my-own-token-0123456789\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let mut server = TestServer::start_configured(&[("tcp_token_file", file.to_str().unwrap())]).await;
    for _ in 0..2 {
        // Clients that know the data directory find it there.
        assert_eq!(server.token(), "my-own-token-0123456789");
        server.tcp_client().await.server_info().await.unwrap();
        server.restart().await;
    }
    server.terminate().await;
    let config = dir.path().join("config.yaml");
    fs::write(&config, format!("tcp_token_file: {}\n", file.display())).unwrap();
    let refused = |problem: &str| {
        let said = cannot_start(&server.data_dir(), &["--config", config.to_str().unwrap()]);
        assert!(
            said.contains(&format!("tcp_token_file {}", file.display())) && said.contains(problem),
            "{said}"
        );
    };
    for bad in ["", "short", "with a space in between 0123456789"] {
        fs::write(&file, bad).unwrap();
        refused("is no token");
    }
    fs::write(&file, "my-own-token-0123456789\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    refused("everybody may read");
    fs::remove_file(&file).unwrap();
    refused("No such file");
}

/// Tests run as root, so that a file can belong to somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_somebody_else_is_refused() {
    let mut server = TestServer::start().await;
    server.terminate().await;
    let path = server.data_dir().join("token");
    if std::os::unix::fs::chown(&path, Some(65_534), None).is_err() {
        // Only root can give a file away, and without root nobody else can put one here.
        return;
    }
    let said = cannot_start(&server.data_dir(), &["--listen", "tcp:127.0.0.1:0"]);
    assert!(said.contains("token cannot be used: belongs to user 65534"), "{said}");
    fs::remove_file(&path).unwrap();
    server.restart().await;
    server.tcp_client().await.server_info().await.unwrap();
}
