//! A listener with a limit of connections and an idle time-out, so that the admin address leaves file handles for the
//! service.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Concurrent connections; further ones wait.
const MAX_CONNECTIONS: usize = 32;

/// Idle time-out of a connection. Scrapers return within a minute, or connect again.
const IDLE: Duration = Duration::from_secs(90);

/// A listener with a limit of connections.
#[derive(Debug)]
pub(super) struct Bounded {
    listener: TcpListener,
    room: Arc<Semaphore>,
    idle: Duration,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self::with(listener, MAX_CONNECTIONS, IDLE)
    }

    fn with(listener: TcpListener, most: usize, idle: Duration) -> Self {
        Self { listener, room: Arc::new(Semaphore::new(most)), idle }
    }
}

impl Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        // The semaphore is never closed; without a permit the connection is only not counted.
        let permit = self.room.clone().acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (
            Connection { stream, idle: self.idle, deadline: Box::pin(sleep(self.idle)), _permit: permit },
            address,
        )
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection with an idle time-out.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    idle: Duration,
    deadline: Pin<Box<Sleep>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// Returns the result of the stream, or an error after the idle time-out.
    fn moved<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            let deadline = Instant::now() + self.idle;
            self.deadline.as_mut().reset(deadline);
            return polled;
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.moved(cx, polled)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.moved(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.moved(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;

    use super::*;

    /// Answers `ok` to everything, for at most one connection at a time.
    fn one_at_a_time(idle: Duration) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = Bounded::with(TcpListener::from_std(listener).unwrap(), 1, idle);
                let router = axum::Router::new().fallback(|| async { "ok" });
                axum::serve(listener, router).await.unwrap();
            });
        });
        address
    }

    fn connect(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    fn ask(stream: &mut TcpStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_silent_connection_is_ended_and_makes_room_for_the_next() {
        let address = one_at_a_time(Duration::from_millis(200));
        let mut silent = connect(address);
        let mut next = connect(address);
        assert!(ask(&mut next).ends_with("ok"));
        // By then the first one has been ended.
        assert_eq!(silent.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn a_connection_waits_while_there_is_no_room() {
        let address = one_at_a_time(Duration::from_secs(3600));
        let first = connect(address);
        let mut next = connect(address);
        next.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        next.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert!(next.read(&mut [0; 1]).is_err());
        drop(first);
        next.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(next.read(&mut [0; 1]).unwrap(), 1);
    }
}
