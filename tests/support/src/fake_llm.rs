//! The strict fake of the providers, as a process of its own, and the control of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Long enough for a slow machine; nothing waits that long unless it fails.
const DEADLINE: Duration = Duration::from_secs(60);

/// A running fake. It ends when this is dropped.
#[derive(Debug)]
pub struct FakeLlm {
    child: Child,
    /// While it is open, the fake runs.
    input: Option<ChildStdin>,
    address: String,
    /// Where it serves HTTPS, if it was asked to.
    secure: Option<String>,
}

impl FakeLlm {
    /// Starts one.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with options: `--key`, `--max-bytes`, `--check-bytes`, `--count-only`, `--lenient`.
    pub fn start_with(options: &[&str]) -> Self {
        let mut child = Command::new(crate::program("fake-llm"))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said = line.strip_prefix("listening ").unwrap_or_else(|| panic!("it said {line:?}")).trim();
        let (address, secure) = said.split_once(" tls ").map_or((said, None), |(own, tls)| (own, Some(tls)));
        let (address, secure) = (address.to_owned(), secure.map(str::to_owned));
        Self { input: child.stdin.take(), child, address, secure }
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The base of its addresses: for OpenAI `/v1` follows.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The same over HTTPS, for one that was started with `--tls`.
    pub fn secure_url(&self) -> String {
        format!("https://{}", self.secure.as_ref().unwrap())
    }

    /// Its process, to look at what it uses.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Tells it what to do with requests to come; `src/fake/script.rs` of its crate has the fields.
    pub fn script(&self, script: &Value) {
        let (status, body) = self.control("POST", "/control", &script.to_string());
        assert_eq!(status, 200, "{body}");
    }

    /// Lets the answers go on that were to wait (`wait_mid_stream`), of all requests that have come.
    pub fn go_on(&self) {
        assert_eq!(self.control("POST", "/control/go_on", "").0, 200);
    }

    /// Forgets scripts and requests.
    pub fn reset(&self) {
        assert_eq!(self.control("DELETE", "/control", "").0, 200);
    }

    /// What it got so far, in order.
    pub fn requests(&self) -> Vec<Value> {
        let (status, body) = self.control("GET", "/control/requests", "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The body of a request by its number.
    pub fn body(&self, number: u64) -> String {
        let (status, body) = self.control("GET", &format!("/control/requests/{number}/body"), "");
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Waits until the requests are as they are to be.
    pub fn wait(&self, what: &str, done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let start = Instant::now();
        loop {
            let requests = self.requests();
            if done(&requests) {
                return requests;
            }
            assert!(start.elapsed() < DEADLINE, "{what} did not happen: {requests:#?}");
            std::thread::yield_now();
        }
    }

    /// A request with a whole answer.
    fn control(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let answer = self.raw(&format!(
            "{method} {path} HTTP/1.1\r\nhost: fake\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// Sends bytes and gives what comes until the connection ends.
    pub fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }

    /// Ends it, and says whether it ended well by itself.
    pub fn stop(mut self) -> bool {
        self.input.take();
        self.child.wait().unwrap().success()
    }
}

impl Drop for FakeLlm {
    fn drop(&mut self) {
        self.input.take();
        // It ends by itself; a wait leaves no dead process behind.
        let _ = self.child.wait();
    }
}
