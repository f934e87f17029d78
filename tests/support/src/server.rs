//! A server of its own for each test: the real binary on a directory of its own, with a socket and a TCP port.

use std::fs::{self, File};
use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use contextstore_client::{Builder, Client};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Long enough for a slow machine; nothing waits that long unless it fails.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Whether contexts are compressed without being asked.
const AUTO: &str = "CONTEXTSTORE_COMPRESSION__AUTO";

/// A running server. Stopped and removed when it is dropped.
pub struct TestServer {
    root: PathBuf,
    /// Removed with the server, if it is the server's own.
    _own: Option<TempDir>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    child: Option<Child>,
    tcp: String,
    /// Where its log goes, if not to a file.
    stderr: Option<OwnedFd>,
}

impl TestServer {
    /// Starts a server on a new directory.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with more arguments of `serve`.
    pub async fn start_with(arguments: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), arguments).await
    }

    /// The same with values of the configuration, by their keys: `("lease.ttl", "1s")`.
    pub async fn start_configured(keys: &[(&str, &str)]) -> Self {
        let own = tempfile::tempdir().unwrap();
        Self::make(own.path().to_owned(), Some(own), &[], keys).await
    }

    /// The same in a directory that is removed with the server: the data is in its `data`.
    pub async fn start_in(own: TempDir, arguments: &[&str]) -> Self {
        Self::make(own.path().to_owned(), Some(own), arguments, &[]).await
    }

    /// The same in a directory that stays.
    pub async fn start_on(root: &Path) -> Self {
        Self::make(root.to_owned(), None, &[], &[]).await
    }

    async fn make(root: PathBuf, own: Option<TempDir>, arguments: &[&str], keys: &[(&str, &str)]) -> Self {
        let variable = |(key, value): &(&str, &str)| {
            // A key of the configuration, or a variable of another kind as it is.
            if key.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
                return ((*key).to_owned(), (*value).to_owned());
            }
            (format!("CONTEXTSTORE_{}", key.to_uppercase().replace('.', "__")), (*value).to_owned())
        };
        let mut environment: Vec<(String, String)> = keys.iter().map(variable).collect();
        // Views are to stay as they are, but where that is what is tested; a file says so itself.
        let says = environment.iter().any(|(name, _)| name == AUTO) || arguments.contains(&"--config");
        if !says {
            environment.push((AUTO.to_owned(), "false".to_owned()));
        }
        let mut server = Self {
            root,
            _own: own,
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment,
            child: None,
            tcp: String::new(),
            stderr: None,
        };
        server.spawn().await;
        server
    }

    /// Starts it again with another place for its log.
    pub async fn restart_logging_to(&mut self, stderr: OwnedFd) {
        self.stderr = Some(stderr);
        self.restart().await;
    }

    async fn spawn(&mut self) {
        self.launch();
        self.ready().await;
    }

    /// Starts it, and does not wait until it is ready.
    pub fn launch(&mut self) {
        // One that was killed has left its own behind.
        let _ = fs::remove_file(self.data_dir().join("addresses"));
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let stderr = match &self.stderr {
            Some(stderr) => Stdio::from(stderr.try_clone().unwrap()),
            None => Stdio::from(log.try_clone().unwrap()),
        };
        let child = Command::new(crate::program("contextstore"))
            .arg("serve")
            .arg("--data-dir")
            .arg(self.data_dir())
            .arg("--listen")
            .arg(format!("unix:{}", self.socket().display()))
            .args(["--listen", "tcp:127.0.0.1:0"])
            .args(&self.arguments)
            .env_clear()
            // Without jemalloc every thread would keep what it once needed, and memory could not be measured.
            .env("MALLOC_ARENA_MAX", "2")
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(log)
            .stderr(stderr)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// Waits until it takes calls.
    pub async fn ready(&mut self) {
        let end = Instant::now() + DEADLINE;
        self.tcp = loop {
            let listed = fs::read_to_string(self.data_dir().join("addresses")).unwrap_or_default();
            if let Some(tcp) = listed.lines().find(|line| line.starts_with("tcp:")) {
                break tcp.to_owned();
            }
            self.expect_to_run(end);
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let client = self.builder().connect_lazy().unwrap();
        while client.wait_until_ready(Duration::from_millis(200)).await.is_err() {
            self.expect_to_run(end);
        }
    }

    fn expect_to_run(&mut self, end: Instant) {
        let ended = self.child.as_mut().and_then(|child| child.try_wait().unwrap());
        assert!(ended.is_none(), "the server ended by itself ({ended:?}):\n{}", self.log());
        assert!(Instant::now() < end, "the server is not ready after {DEADLINE:?}:\n{}", self.log());
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.root.join("data")
    }

    /// Its socket, where clients look for it.
    pub fn socket(&self) -> PathBuf {
        self.data_dir().join("contextstore.sock")
    }

    /// Its TCP port, as an address.
    pub fn tcp_address(&self) -> &str {
        &self.tcp
    }

    /// Its token.
    pub fn token(&self) -> String {
        fs::read_to_string(self.data_dir().join("token")).unwrap().trim_end().to_owned()
    }

    /// The directory of a task that is running.
    pub fn running(&self, uuid: &str) -> PathBuf {
        self.data_dir().join("running").join(uuid)
    }

    fn log_path(&self) -> PathBuf {
        self.root.join("log")
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        fs::read(self.log_path()).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    /// A client over the socket, to be made as one likes.
    pub fn builder(&self) -> Builder {
        Client::builder().data_dir(self.data_dir())
    }

    /// A new client over the socket.
    pub async fn client(&self) -> Client {
        self.builder().connect().await.unwrap()
    }

    /// A new client over TCP.
    pub async fn tcp_client(&self) -> Client {
        self.builder().address(&self.tcp).connect().await.unwrap()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Closes the pipe that is its standard input.
    pub fn close_stdin(&mut self) {
        drop(self.child.as_mut().unwrap().stdin.take());
    }

    /// Ends it without a warning.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Asks it to end, and waits until it has.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.as_mut().unwrap().try_wait().unwrap() {
                self.child = None;
                return status;
            }
            assert!(Instant::now() < end, "the server does not end:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts it again on the same directory, in an orderly way if it runs. Its TCP port is another one.
    pub async fn restart(&mut self) {
        if self.child.is_some() {
            let status = self.terminate().await;
            assert!(status.success(), "{status}:\n{}", self.log());
        }
        self.spawn().await;
    }

    /// Bytes of memory it has.
    pub fn rss(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Threads it has.
    pub fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().count()
    }

    /// Files and sockets it has open.
    pub fn open_fds(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Runs a command of the binary with nothing in its environment but what is said.
    pub fn run(arguments: &[&str], environment: &[(&str, &Path)]) -> (i32, String, String) {
        let output = Command::new(crate::program("contextstore"))
            .args(arguments)
            .env_clear()
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}

/// Looks again and again until there is something to see, and answers that.
pub async fn eventually<T, F>(deadline: Duration, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let end = Instant::now() + deadline;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < end, "not so after {deadline:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
