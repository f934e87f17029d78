//! A disk that is full: writes are refused, reads go on, and when there is room again so do writes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use tempfile::TempDir;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::wire::{Api, Work, all, api, endpoint, reason, say, start, task, view};

/// A small file system of its own, unmounted when it is dropped; `None` where that is not allowed.
struct Mount {
    place: TempDir,
}

impl Mount {
    fn new(size: &str) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            return None;
        }
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"])
            .arg(place.path())
            .output();
        done.is_ok_and(|done| done.status.success()).then_some(Self { place })
    }

    /// Leaves no byte free; answers the file that takes them.
    fn fill(&self) -> PathBuf {
        let path = self.place.path().join("filler");
        let mut file = fs::File::create(&path).unwrap();
        for size in [65536, 4096, 512, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.place.path()).status();
    }
}

/// A server that need not be ready for writes.
struct Plain(Child);

impl Plain {
    async fn start(root: &Path) -> (Self, tonic::transport::Channel) {
        let socket = root.join("data/contextstore.sock");
        let _ = fs::remove_file(&socket);
        let child = Command::new(test_support::program("contextstore"))
            .args(["serve", "--listen", &format!("unix:{}", socket.display()), "--data-dir"])
            .arg(root.join("data"))
            .env_clear()
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self(child);
        let connect = || async { endpoint(&socket).connect().await.ok() };
        (server, eventually(DEADLINE, connect).await)
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn reads_go_on(api: &mut Api, work: &Work, messages: u64) {
    assert_eq!(task(api, work).await.last_seq, messages);
    assert_eq!(view(api, work.current()).await.lines().count() as u64, messages);
    let ask = pb::StreamMessagesRequest { kinds: vec![pb::RecordKind::Message.into()], ..work.messages() };
    let lines = all(api.stream_messages(ask).await).await.unwrap();
    assert_eq!(lines.iter().map(|batch| batch.records.len() as u64).sum::<u64>(), messages);
    assert_eq!(api.list_tasks(pb::ListTasksRequest::default()).await.unwrap().into_inner().tasks.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fills_up_refuses_writes_until_there_is_room() {
    let Some(mount) = Mount::new("48m") else { return };
    let server = TestServer::start_on(mount.place.path()).await;
    let mut api = api(&server).await;
    let work = start(&mut api).await;
    say(&mut api, &work, "one").await;
    api.list_tasks(pb::ListTasksRequest::default()).await.unwrap();
    let filler = mount.fill();
    let large = "x".repeat(100_000);
    for _ in 0..3 {
        assert_eq!(reason(api.append_message(work.say(&large)).await), ErrorReason::DiskFull);
        reads_go_on(&mut api, &work, 1).await;
    }
    fs::remove_file(filler).unwrap();
    assert_eq!(say(&mut api, &work, &large).await, 2);
    reads_go_on(&mut api, &work, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_at_the_start_is_served_read_only_until_there_is_room() {
    let Some(mount) = Mount::new("48m") else { return };
    let root = mount.place.path();
    let mut server = TestServer::start_on(root).await;
    let mut client = api(&server).await;
    let work = start(&mut client).await;
    say(&mut client, &work, "one").await;
    server.terminate().await;
    // What is set aside for recovery goes first.
    let _ = fs::remove_file(root.join("data/ballast"));
    let filler = mount.fill();

    let (_server, channel) = Plain::start(root).await;
    let mut api = Api::new(channel.clone());
    let why = test_support::wire::refused(api.append_message(work.say("two")).await);
    assert_eq!(why.reason, ErrorReason::ReadOnly);
    let info = api.get_server_info(pb::GetServerInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.read_only_reason, why.data["cause"]);
    reads_go_on(&mut api, &work, 1).await;
    let health = || {
        let mut health = HealthClient::new(channel.clone());
        async move {
            let request = HealthCheckRequest { service: String::new() };
            health.check(request).await.unwrap().into_inner().status()
        }
    };
    assert_eq!(health().await, ServingStatus::NotServing);
    fs::remove_file(filler).unwrap();
    eventually(DEADLINE, || async { (health().await == ServingStatus::Serving).then_some(()) }).await;
    assert_eq!(say(&mut api, &work, "two").await, 2);
    reads_go_on(&mut api, &work, 2).await;
}
