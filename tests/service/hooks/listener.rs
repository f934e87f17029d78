//! Somebody who is posted to, and answers as a test says.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is answered to one request.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// With this status.
    Status(u16),
    /// Not at all: the connection is closed.
    Close,
    /// Not at all: the connection stays.
    Never,
}

/// A request as it came.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Answers requests, one after the other.
pub(crate) struct Listener {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Listener {
    pub(crate) async fn start<const N: usize>(answers: [Answer; N]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let noted = Arc::clone(&seen);
        tokio::spawn(async move {
            // What is not answered stays open.
            let mut open = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read(&mut stream).await;
                noted.lock().unwrap().push(request);
                match answer {
                    Answer::Status(status) => {
                        let answer =
                            format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                    Answer::Close => {}
                    Answer::Never => open.push(stream),
                }
            }
            std::future::pending::<()>().await;
        });
        Self { address, seen }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What came so far.
    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn read(stream: &mut TcpStream) -> Seen {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Seen { head: format!("{head}\r\n"), body: body.to_owned() };
            }
        }
        let read = stream.read(&mut chunk).await.unwrap();
        assert!(read > 0, "a request breaks off: {text}");
        bytes.extend_from_slice(&chunk[..read]);
    }
}
