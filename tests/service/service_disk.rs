//! Disks that are full, or fail, under a running server and when it starts. Needs root, to mount a small one.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use contextstore_client::tonic::Code;
use contextstore_client::{
    Client, Error, ErrorReason, Health, NewMessage, ReadCurrent, ReadMessages, StartTask, Task, TaskQuery,
    ToolCall, Usage, v1,
};
use futures_util::{TryStreamExt, stream};
use tempfile::TempDir;

use test_support::server::{DEADLINE, TestServer, eventually};
use test_support::service;
use test_support::service::{doctor, moment, once, oracle};

/// A small file system for the data of a server, unmounted when it is dropped.
struct Mount {
    data: PathBuf,
}

impl Mount {
    /// One in memory, or a real one in a file; none where that is not allowed.
    fn new(root: &Path, kind: &str, mib: u64) -> Option<Self> {
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            return None;
        }
        let data = root.join("data");
        fs::create_dir(&data).unwrap();
        let mut mount = Command::new("mount");
        if kind == "tmpfs" {
            mount.args(["-t", "tmpfs", "-o", &format!("size={mib}m,mode=700"), "tmpfs"]);
        } else {
            let image = root.join("image");
            File::create(&image).unwrap().set_len(mib << 20).unwrap();
            let made = Command::new("mkfs.ext4").args(["-q", "-m0"]).arg(&image).output();
            assert!(made.unwrap().status.success());
            mount.args(["-o", "loop"]).arg(image);
        }
        let done = mount.arg(&data).output().unwrap();
        done.status.success().then_some(Self { data })
    }

    /// Takes the rest of the room, but for some.
    fn fill(&self, but: usize) -> PathBuf {
        let path = self.data.join(format!("filler-{}", fastrand::u64(..)));
        let mut file = File::create(&path).unwrap();
        for size in [1 << 20, 64 << 10, 4096, 512] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(but as u64)).unwrap();
        file.sync_all().unwrap();
        path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Processes of the test that failed may still have files open here.
        let _ = Command::new("umount").arg("-l").arg(&self.data).status();
    }
}

/// A server on a small disk. Fields are dropped in order: first the server ends, then the disk goes.
struct Place {
    server: TestServer,
    disk: Mount,
}

async fn place(kind: &str, mib: u64, settings: &str) -> Option<Place> {
    let root: TempDir = tempfile::tempdir().unwrap();
    let disk = Mount::new(root.path(), kind, mib)?;
    let settings = service::configure(root.path(), settings);
    let server = TestServer::start_in(root, &["--config", settings.to_str().unwrap()]).await;
    Some(Place { server, disk })
}

/// What has been acknowledged: the texts of a task, in order.
struct Said {
    task: Task,
    texts: Vec<String>,
}

impl Said {
    async fn start(client: &Client) -> Self {
        Self { task: client.start_task(StartTask::default()).await.unwrap(), texts: Vec::new() }
    }

    async fn say(&mut self, bytes: usize) -> Result<(), Error> {
        let text = format!("{} {}", self.texts.len(), "x".repeat(bytes));
        let answer = self.task.append(NewMessage::user(text.clone())).await?;
        self.texts.push(text);
        assert_eq!(answer.seq, self.texts.len() as u64);
        Ok(())
    }

    /// The server has all of it and nothing else, in the log and in the view.
    async fn check(&self, client: &Client) {
        let task = client.task(self.task.uuid());
        let kinds = vec![v1::RecordKind::Message];
        let records = task.messages(ReadMessages { kinds, ..Default::default() });
        let records: Vec<bytes::Bytes> = records.try_collect().await.unwrap();
        let lines = task.current(ReadCurrent::default()).await.unwrap().lines();
        let lines: Vec<bytes::Bytes> = lines.try_collect().await.unwrap();
        for found in [records, lines] {
            let texts = found.iter().map(|line| {
                let value: serde_json::Value = serde_json::from_slice(line).unwrap();
                value["content"].as_str().unwrap().to_owned()
            });
            assert!(texts.eq(self.texts.iter().cloned()), "{} of {}", found.len(), self.texts.len());
        }
    }
}

fn is_full(error: &Error) {
    assert_eq!(
        (error.code(), error.reason()),
        (Code::ResourceExhausted, Some(ErrorReason::DiskFull)),
        "{error:?}"
    );
    assert!(error.retry_after().is_some(), "{error:?}");
}

/// Every change is refused for want of room, and every read goes on.
async fn is_full_for_everybody(client: &Client, said: &mut Said) {
    for bytes in [100, 5_000, 100_000] {
        is_full(&said.say(bytes.max(5_000)).await.unwrap_err());
    }
    let large = "x".repeat(300_000);
    let tool =
        ToolCall { tool_name: "ls".to_owned(), result_json: format!("\"{large}\""), ..Default::default() };
    is_full(&said.task.record_tool_call(tool).await.unwrap_err());
    is_full(&said.task.append_plan("initial", format!("\"{large}\"")).await.unwrap_err());
    let mut many = said.task.append_many(stream::iter([NewMessage::user(large)])).await.unwrap();
    is_full(&many.try_next().await.unwrap_err());
    said.check(client).await;
    client.get_task(said.task.uuid()).await.unwrap();
    client.list_tasks(&TaskQuery::default(), "").await.unwrap();
}

async fn fills_up_and_heals(kind: &str, mib: u64) {
    // One task at a time is open, so that the others have to be opened while there is no room.
    let Some(Place { mut server, disk }) = place(kind, mib, "limits:\n  open_tasks: 1\n").await else {
        return;
    };
    let client = once(&server).await;
    let mut others = Vec::new();
    for _ in 0..4 {
        let mut other = Said::start(&client).await;
        other.say(2_000).await.unwrap();
        others.push(other);
    }
    let mut said = Said::start(&client).await;
    for _ in 0..5 {
        said.say(100).await.unwrap();
    }
    for round in 0..3 {
        let filler = disk.fill(200 << 10);
        let mut refused = None;
        while refused.is_none() {
            refused = said.say(3_000).await.err();
            assert!(said.texts.len() < 10_000, "the disk is never full");
        }
        is_full(&refused.unwrap());
        let before = said.texts.len();
        is_full_for_everybody(&client, &mut said).await;
        assert_eq!(said.texts.len(), before);
        for other in &mut others {
            is_full(&other.say(5_000).await.unwrap_err());
            other.check(&client).await;
        }
        // Views can be deleted at any time, and there may be no room to make them again.
        for other in &others[..2] {
            let dir = server.running(other.task.uuid());
            fs::remove_file(dir.join("index")).unwrap();
            fs::remove_file(dir.join("checkpoint.json")).unwrap();
        }
        let more_filler = disk.fill(0);
        for other in &mut others {
            is_full(&other.say(5_000).await.unwrap_err());
            other.check(&client).await;
        }

        fs::remove_file(filler).unwrap();
        fs::remove_file(more_filler).unwrap();
        let room = Instant::now();
        while let Err(error) = said.say(5_000).await {
            is_full(&error);
            assert!(room.elapsed() < DEADLINE, "it does not heal: {error}\n{}", server.log());
            moment().await;
        }
        println!("{kind}, round {round}: full after {before} messages, writes after {:?}", room.elapsed());
        said.task.record_usage(Usage { input_tokens: 1, ..Default::default() }).await.unwrap();
        client.start_task(StartTask::default()).await.unwrap();
        assert_eq!(client.health().await.unwrap(), Health::Serving);
        said.check(&client).await;
        for other in &mut others {
            other.say(10).await.unwrap();
            other.check(&client).await;
        }
    }
    // What was acknowledged before, while and after it was full, is there after a kill and after a stop.
    server.kill();
    server.restart().await;
    said.check(&once(&server).await).await;
    assert!(server.terminate().await.success());
    assert_eq!(doctor(&server.data_dir()), None);
    assert_eq!(oracle(&server.data_dir()), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_in_memory_fills_up_and_heals() {
    fills_up_and_heals("tmpfs", 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_of_ext4_fills_up_and_heals() {
    fills_up_and_heals("ext4", 8).await;
}

/// Waits until the server answers at all, whether or not it serves.
async fn answers(client: &Client) {
    eventually(DEADLINE, || async { client.health().await.is_ok().then_some(()) }).await;
}

async fn starts_on_a_full_disk(kind: &str, orderly: bool) {
    let Some(Place { mut server, disk }) = place(kind, 8, "").await else { return };
    let client = once(&server).await;
    let mut said = Said::start(&client).await;
    for _ in 0..20 {
        said.say(3_000).await.unwrap();
    }
    // The catalog knows it, which may be behind by a moment.
    assert_eq!(client.list_tasks(&TaskQuery::default(), "").await.unwrap().tasks.len(), 1);
    if orderly {
        assert!(server.terminate().await.success());
    } else {
        server.kill();
    }
    // This would be room.
    let _ = fs::remove_file(disk.data.join("addresses"));
    let filler = disk.fill(0);
    server.launch();
    answers(&client).await;
    assert_eq!(client.health().await.unwrap(), Health::NotServing);
    assert!(!client.server_info().await.unwrap().read_only_reason.is_empty());
    for change in [
        said.task.append(NewMessage::user("no")).await.map(drop),
        said.task.complete("").await.map(drop),
        said.task.rewind(3).await.map(drop),
        client.start_task(StartTask::default()).await.map(drop),
    ] {
        let error = change.unwrap_err();
        assert_eq!((error.code(), error.reason()), (Code::Unavailable, Some(ErrorReason::ReadOnly)));
        assert!(error.retry_after().is_some(), "{error:?}");
    }
    said.check(&client).await;
    assert_eq!(client.list_tasks(&TaskQuery::default(), "").await.unwrap().tasks.len(), 1);

    // A reader that has begun goes on while the store is opened again behind its back.
    let mut read = said.task.current(ReadCurrent { chunk_bytes: 1000, ..Default::default() }).await.unwrap();
    let mut bytes = read.try_next().await.unwrap().unwrap().len();
    fs::remove_file(filler).unwrap();
    let room = Instant::now();
    let serves = || async { (client.health().await.unwrap() == Health::Serving).then_some(()) };
    eventually(DEADLINE, serves).await;
    println!("{kind}, {}: serves after {:?}", if orderly { "stopped" } else { "killed" }, room.elapsed());
    while let Some(chunk) = read.try_next().await.unwrap() {
        bytes += chunk.len();
    }
    assert_eq!(bytes as u64, read.total_bytes());
    assert!(client.server_info().await.unwrap().read_only_reason.is_empty());
    said.say(100).await.unwrap();
    said.check(&client).await;
    assert!(server.terminate().await.success());
    assert_eq!(doctor(&server.data_dir()), None);
    server.restart().await;
    said.check(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_on_a_full_disk_reads_and_heals() {
    for kind in ["tmpfs", "ext4"] {
        for orderly in [true, false] {
            starts_on_a_full_disk(kind, orderly).await;
        }
    }
}

/// There is room for a little, but not for what opening a task after a crash takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_with_hardly_any_room_reads_and_heals() {
    let left = [4 << 10, 100 << 10, 300 << 10].into_iter();
    for (kind, left) in left.flat_map(|left| [("tmpfs", left), ("ext4", left)]) {
        let Some(Place { mut server, disk }) = place(kind, 8, "").await else { return };
        let client = once(&server).await;
        let mut all = Vec::new();
        for _ in 0..5 {
            let mut said = Said::start(&client).await;
            for _ in 0..30 {
                said.say(3_000).await.unwrap();
            }
            all.push(said);
        }
        server.kill();
        // What a crash has left half-written is saved before it is cut off, for which there is no room.
        let torn = server.running(all[0].task.uuid());
        let mut log = File::options().append(true).open(torn.join("messages.jsonl")).unwrap();
        log.write_all(format!("{{\"seq\":31,\"role\":\"{}", "x".repeat(400_000)).as_bytes()).unwrap();
        let filler = disk.fill(left);
        server.launch();
        answers(&client).await;
        for said in &mut all {
            let error = said.say(400_000).await.unwrap_err();
            let reason = error.reason().unwrap();
            assert!(matches!(reason, ErrorReason::DiskFull | ErrorReason::ReadOnly), "{error:?}");
            said.check(&client).await;
        }
        fs::remove_file(filler).unwrap();
        let room = Instant::now();
        for said in &mut all {
            while let Err(error) = said.say(100_000).await {
                assert!(room.elapsed() < DEADLINE, "{kind}, {left} left: it does not heal: {error}");
                moment().await;
            }
            said.check(&client).await;
        }
        let files = fs::read_dir(torn).unwrap().map(|file| file.unwrap());
        let saved: Vec<_> =
            files.filter(|file| file.file_name().to_str().unwrap().contains(".cut")).collect();
        assert!(saved.len() == 1 && saved[0].metadata().unwrap().len() > 400_000, "{saved:?}");
        println!("{kind}, {left} bytes left: writes after {:?}", room.elapsed());
        assert!(server.terminate().await.success());
        assert_eq!(doctor(&server.data_dir()), None);
        assert_eq!(oracle(&server.data_dir()), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_makes_the_server_read_only() {
    let Some(Place { mut server, disk }) = place("ext4", 16, "").await else { return };
    let client = once(&server).await;
    let mut tasks = [Said::start(&client).await, Said::start(&client).await];
    for task in &mut tasks {
        for _ in 0..5 {
            task.say(500).await.unwrap();
        }
    }
    // The file system takes nothing more, as after an error of the device.
    let remounted = Command::new("mount").args(["-o", "remount,abort"]).arg(&disk.data).status().unwrap();
    assert!(remounted.success());
    for task in &mut tasks {
        let error = task.say(500).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    }
    let stopped = || async { (client.health().await.unwrap() == Health::NotServing).then_some(()) };
    eventually(DEADLINE, stopped).await;
    let error = tasks[0].say(500).await.unwrap_err();
    assert_eq!(error.reason(), Some(ErrorReason::ReadOnly), "{error:?}");
    for task in &tasks {
        task.check(&client).await;
    }
    server.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_has_one_server() {
    let server = TestServer::start().await;
    let client = once(&server).await;
    let mut said = Said::start(&client).await;
    said.say(10).await.unwrap();
    let serve = |data: &str, listen: &str| {
        let (code, _, err) = TestServer::run(&["serve", "--data-dir", data, "--listen", listen], &[]);
        assert_ne!(code, 0);
        err
    };
    let (data, socket) = (server.data_dir(), format!("unix:{}", server.socket().display()));
    // Wherever it is to listen, even at the socket of the first.
    for listen in [&socket, "tcp:127.0.0.1:0"] {
        let err = serve(data.to_str().unwrap(), listen);
        assert!(err.contains(&server.pid().to_string()), "it does not say who uses it: {err}");
    }
    // A socket that somebody listens on is not taken away, whatever the directory.
    let other = tempfile::tempdir().unwrap();
    let err = serve(other.path().join("data").to_str().unwrap(), &socket);
    assert!(err.contains("another process listens there"), "{err}");
    said.say(10).await.unwrap();
    once(&server).await.server_info().await.unwrap();
    said.check(&client).await;
}
