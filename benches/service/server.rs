//! A server that runs for as long as it is measured.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use contextstore_client::{Client, StartTask, Task, v1};
use rustix::process::{Pid, Signal, kill_process};

const DEADLINE: Duration = Duration::from_secs(60);

/// A process that serves a directory.
pub(crate) struct Server {
    child: Child,
    data: PathBuf,
    /// From the start of the process until it listened.
    pub(crate) listening: Duration,
    /// When it was started.
    pub(crate) started: Instant,
}

impl Server {
    /// Starts it, and waits until it listens.
    pub(crate) fn start(binary: &Path, data: &Path) -> Self {
        let socket = data.join("contextstore.sock");
        let listen = format!("unix:{}", socket.display());
        let started = Instant::now();
        let child = Command::new(binary)
            .arg("serve")
            .arg("--data-dir")
            .arg(data)
            .args(["--listen", &listen])
            .env("CONTEXTSTORE_LOG", "warn")
            // Views are to grow.
            .env("CONTEXTSTORE_COMPRESSION__AUTO", "false")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        while UnixStream::connect(&socket).is_err() {
            assert!(started.elapsed() < DEADLINE, "the server does not listen");
            std::thread::sleep(Duration::from_micros(100));
        }
        Self { child, data: data.to_owned(), listening: started.elapsed(), started }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.data.join("contextstore.sock")
    }

    /// Where the view of a running task is.
    pub(crate) fn view(&self, uuid: &str) -> PathBuf {
        self.directory(uuid).join("current.jsonl")
    }

    /// Where a running task is.
    pub(crate) fn directory(&self, uuid: &str) -> PathBuf {
        self.data.join("running").join(uuid)
    }

    /// A client of its own connection.
    pub(crate) async fn client(&self) -> Client {
        Client::builder().data_dir(&self.data).connect().await.unwrap()
    }

    /// Bytes of memory it has now.
    pub(crate) fn rss(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most it had since [`Self::forget_peak`].
    pub(crate) fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    pub(crate) fn forget_peak(&self) {
        fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").unwrap();
    }

    fn status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Stops it in order.
    pub(crate) fn stop(mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a task with a durability of its own.
pub(crate) async fn start(client: &Client, durability: &str) -> Task {
    let config = v1::TaskConfig {
        durability: v1::Durability::from_name(durability).unwrap_or_default().into(),
        ..Default::default()
    };
    let start = StartTask { config, user: "bench".to_owned(), ..Default::default() };
    Box::pin(client.start_task(start)).await.unwrap()
}
