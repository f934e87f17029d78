//! The admin address over real connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;

/// A server on a thread of its own, until it is dropped.
struct Admin {
    address: SocketAddr,
    healthy: Arc<AtomicBool>,
    stop: Option<oneshot::Sender<()>>,
    ended: mpsc::Receiver<io::Result<()>>,
}

impl Admin {
    fn start() -> Self {
        let healthy = Arc::new(AtomicBool::new(true));
        let is_healthy = healthy.clone();
        let health = move || {
            if is_healthy.load(Ordering::SeqCst) {
                Ok(Vec::new())
            } else {
                Err("the disk is full".to_owned())
            }
        };
        let state = AdminState { metrics: prometheus::install().unwrap(), health: Arc::new(health) };
        let (stop, stopped) = oneshot::channel();
        let (tell_address, address) = mpsc::channel();
        let (tell_end, ended) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell_address.send(listener.local_addr().unwrap()).unwrap();
                let ended = serve(listener, state, async { drop(stopped.await) }).await;
                let _ = tell_end.send(ended);
            });
        });
        Self { address: address.recv().unwrap(), healthy, stop: Some(stop), ended }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// The status and the whole answer to a request; `head` is what stands before the empty line.
    fn ask(&self, head: &str) -> (u16, String) {
        let mut stream = self.connect();
        write!(stream, "{head}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status =
            answer.split(' ').nth(1).unwrap_or_else(|| panic!("{head}: {answer:?}")).parse().unwrap();
        (status, answer)
    }
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[test]
fn metrics_are_served_as_prometheus_text() {
    let admin = Admin::start();
    crate::infra::metrics::set_open_tasks(7);
    let (status, answer) = admin.ask("GET /metrics HTTP/1.1\r\nHost: localhost:9464");
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
    assert!(
        body(&answer).contains("# TYPE contextstore_open_tasks gauge\ncontextstore_open_tasks 7\n"),
        "{answer}"
    );
    assert!(body(&answer).contains("\nprocess_resident_memory_bytes "), "{answer}");

    let (status, answer) = admin.ask("HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1");
    assert_eq!((status, body(&answer)), (200, ""));
}

#[test]
fn health_is_told_with_its_reason() {
    let admin = Admin::start();
    let (status, answer) = admin.ask("GET /healthz HTTP/1.1\r\nHost: [::1]:1");
    assert_eq!((status, body(&answer)), (200, "serving\n"));
    admin.healthy.store(false, Ordering::SeqCst);
    let (status, answer) = admin.ask("GET /healthz HTTP/1.1\r\nHost: localhost");
    assert_eq!((status, body(&answer)), (503, "the disk is full\n"));
}

#[test]
fn there_is_nothing_else() {
    let admin = Admin::start();
    let status = |head: &str| admin.ask(head).0;
    for path in ["/", "/metrics/", "/metrics/x", "//metrics", "/debug/pprof"] {
        assert_eq!(status(&format!("GET {path} HTTP/1.1\r\nHost: localhost")), 404, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let head = format!("{method} /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0");
        assert_eq!(status(&head), 405, "{method}");
    }
}

#[test]
fn a_web_page_cannot_ask_in_its_own_name() {
    let admin = Admin::start();
    let status = |more: &str| admin.ask(&format!("GET /metrics HTTP/1.1\r\n{more}")).0;
    assert_eq!(status("Host: localhost\r\nOrigin: http://localhost:3000"), 200);
    for more in [
        "Host: evil.example",
        "Host: evil.example:9464",
        "Host: localhost\r\nHost: evil.example",
        "Host: localhost\r\nOrigin: http://evil.example",
        "Host: localhost\r\nOrigin: null",
        "X-None: no host at all",
    ] {
        assert_eq!(status(more), 403, "{more}");
    }
    let (status, answer) = admin.ask("GET /nothing HTTP/1.1\r\nHost: evil.example");
    assert_eq!(status, 403);
    assert_eq!(body(&answer), "refused: Host must be localhost, 127.0.0.1 or [::1]\n");
    assert_eq!(admin.ask("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost").0, 403);
}

#[test]
fn it_stops_when_told_even_if_somebody_hangs_on() {
    let mut admin = Admin::start();
    assert_eq!(admin.ask("GET /healthz HTTP/1.1\r\nHost: localhost").0, 200);
    let mut hanging = admin.connect();
    hanging.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    assert!(matches!(admin.ended.try_recv(), Err(mpsc::TryRecvError::Empty)));
    drop(admin.stop.take());
    admin.ended.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
    assert!(TcpStream::connect(admin.address).is_err());
}
