//! Sockets, their connections, and the limits of connections.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::{SelectAll, unfold};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::{sleep, timeout};
use tonic::transport::server::Connected;

use super::until;
use crate::config::{Listen, MAX_SOCKET_PATH};
use crate::grpc::{Connection, Peer, Via};
use crate::infra::metrics::{self, GaugeGuard};
use crate::infra::net;

/// Connections beyond the limit that are accepted, so that their calls get an error.
const SPARE: usize = 64;
/// Time-out of a new connection: for the HTTP/2 preface, and for a first permitted call.
const GRACE: Duration = Duration::from_secs(10);
/// Length of the HTTP/2 preface.
const PREFACE_BYTES: usize = 24;
/// Pause after a failed accept, for example when no file handles are left.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening socket.
#[derive(Debug)]
pub(super) enum Socket {
    Unix(UnixListener, std::path::PathBuf),
    Tcp(TcpListener),
}

impl Socket {
    /// Binds the socket. Must be called within a runtime.
    pub(super) fn bind(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Unix(path) => {
                let socket = net::bind_unix(path)?;
                socket.set_nonblocking(true)?;
                Ok(Self::Unix(UnixListener::from_std(socket)?, path.clone()))
            }
            Listen::Tcp(address) => {
                let socket = std::net::TcpListener::bind(address)?;
                socket.set_nonblocking(true)?;
                Ok(Self::Tcp(TcpListener::from_std(socket)?))
            }
        }
    }

    /// Returns the address, with the port that was assigned.
    pub(super) fn address(&self) -> io::Result<Listen> {
        match self {
            Self::Unix(_, path) => {
                // Clients in other directories read the path. One that is too long for them is better than none.
                let absolute = std::path::absolute(path)?;
                let fits = absolute.as_os_str().len() <= MAX_SOCKET_PATH;
                Ok(Listen::Unix(if fits { absolute } else { path.clone() }))
            }
            Self::Tcp(listener) => listener.local_addr().map(Listen::Tcp),
        }
    }

    async fn accept(&self) -> io::Result<(Wire, Via)> {
        match self {
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let uid = stream.peer_cred()?.uid();
                Ok((Wire::Unix(stream), Via::Unix { uid }))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Wire::Tcp(stream), Via::Tcp))
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            net::remove_socket(path);
        }
    }
}

/// The number of open connections on all sockets.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenConnections(watch::Sender<usize>);

impl OpenConnections {
    fn enter(&self) -> OpenConnection {
        self.0.send_modify(|number| *number += 1);
        OpenConnection(self.0.clone())
    }

    /// Waits until no connection has been open for this long.
    pub(super) async fn none_for(&self, time: Duration) {
        let mut number = self.0.subscribe();
        // `self` holds the sender, so neither wait can fail.
        while number.wait_for(|number| *number == 0).await.is_ok() {
            if timeout(time, number.changed()).await.is_err() {
                return;
            }
        }
    }
}

/// An open connection; it is counted until it is dropped.
#[derive(Debug)]
struct OpenConnection(watch::Sender<usize>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.send_modify(|number| *number -= 1);
    }
}

/// Returns the connections of all sockets, each socket with its own limit.
pub(super) fn incoming(
    sockets: Vec<Socket>,
    most: usize,
    needs_token: bool,
    open: &OpenConnections,
    stopped: watch::Receiver<bool>,
) -> impl Stream<Item = io::Result<Accepted>> + Send {
    let streams = sockets.into_iter().map(|socket| {
        // Each socket has its own limits, so that callers of one cannot close the connections of another.
        let doors = Arc::new(Doors::new(most, needs_token, open.clone()));
        let stopped = stopped.clone();
        Box::pin(unfold(socket, move |socket| {
            let (doors, stopped) = (Arc::clone(&doors), stopped.clone());
            async move {
                let accepted = accept(&socket, &doors, stopped).await?;
                Some((Ok(accepted), socket))
            }
        }))
    });
    streams.collect::<SelectAll<_>>()
}

/// The connections of one socket.
struct Doors {
    /// Permits for connections within the limit, and for all connections.
    places: Arc<Semaphore>,
    doors: Arc<Semaphore>,
    /// True if callers over TCP need a token.
    needs_token: bool,
    /// Connections without a permitted call, oldest first.
    strangers: Mutex<VecDeque<Weak<Connection>>>,
    /// The connections of all sockets.
    open: OpenConnections,
}

impl Doors {
    fn new(most: usize, needs_token: bool, open: OpenConnections) -> Self {
        let (places, doors) = (Arc::new(Semaphore::new(most)), Arc::new(Semaphore::new(most + SPARE)));
        Self { places, doors, needs_token, strangers: Mutex::default(), open }
    }

    /// Returns a permit for the next connection. If there is none, the oldest connection without a permitted call is
    /// closed.
    async fn open(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(door) = Arc::clone(&self.doors).try_acquire_owned() {
            return Some(door);
        }
        if let Some(stranger) = self.oldest_stranger() {
            metrics::rejected("connections");
            stranger.cut();
        }
        Arc::clone(&self.doors).acquire_owned().await.ok()
    }

    fn strangers(&self) -> MutexGuard<'_, VecDeque<Weak<Connection>>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn oldest_stranger(&self) -> Option<Arc<Connection>> {
        let mut strangers = self.strangers();
        std::iter::from_fn(|| strangers.pop_front())
            .filter_map(|stranger| stranger.upgrade())
            .find(|stranger| !stranger.is_permitted())
    }

    /// A new connection.
    fn enter(&self, via: Via) -> (Arc<Connection>, oneshot::Receiver<()>) {
        let (line, cut) = Connection::new(&self.places);
        let is_known = match via {
            Via::Unix { uid } => uid == net::user_id() || uid == 0,
            Via::Tcp => !self.needs_token,
        };
        if is_known {
            line.permit();
        } else {
            let mut strangers = self.strangers();
            if strangers.len() == strangers.capacity() {
                strangers.retain(|stranger| stranger.upgrade().is_some_and(|line| !line.is_permitted()));
            }
            strangers.push_back(Arc::downgrade(&line));
        }
        (line, cut)
    }
}

/// Returns the next connection; failed ones are skipped.
async fn accept(socket: &Socket, doors: &Doors, stopped: watch::Receiver<bool>) -> Option<Accepted> {
    let door = doors.open().await?;
    loop {
        match socket.accept().await {
            Ok((wire, via)) => {
                let (line, cut) = doors.enter(via);
                let peer = Peer { via, line };
                return Some(Accepted {
                    wire,
                    peer,
                    cut: Some(cut),
                    late: Some(Box::pin(async {
                        tokio::select! {
                            () = sleep(GRACE) => Late::Time,
                            () = until(stopped) => Late::Stopping,
                        }
                    })),
                    heard: 0,
                    _connection: metrics::connection(),
                    _open: doors.open.enter(),
                    _door: door,
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

#[derive(Debug)]
enum Wire {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// The reason why a connection is closed.
enum Late {
    Time,
    Stopping,
}

/// An accepted connection.
pub(super) struct Accepted {
    wire: Wire,
    peer: Peer,
    /// Receives the request to close; `None` after that.
    cut: Option<oneshot::Receiver<()>>,
    /// The deadline for the preface and a permitted call; `None` once both have arrived.
    late: Option<Pin<Box<dyn Future<Output = Late> + Send>>>,
    heard: usize,
    _connection: GaugeGuard,
    _open: OpenConnection,
    _door: OwnedSemaphorePermit,
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.peer.line.leave();
    }
}

impl Accepted {
    fn wire(&mut self) -> Pin<&mut dyn Duplex> {
        match &mut self.wire {
            Wire::Unix(stream) => Pin::new(stream as &mut dyn Duplex),
            Wire::Tcp(stream) => Pin::new(stream as &mut dyn Duplex),
        }
    }

    /// Returns true if the connection was closed by the server. Reads and writes both check it, because a connection
    /// whose socket accepts no writes is not read.
    fn poll_cut(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let told = self.cut.as_mut().map(|cut| Pin::new(cut).poll(context));
        match told {
            None => Poll::Ready(io::ErrorKind::ConnectionAborted.into()),
            Some(Poll::Ready(Ok(()))) => {
                self.cut = None;
                Poll::Ready(io::ErrorKind::ConnectionAborted.into())
            }
            // All calls of the connection have ended and `peer` holds the other end, so it can no longer be closed.
            Some(Poll::Ready(Err(_)) | Poll::Pending) => Poll::Pending,
        }
    }

    /// Returns true if the deadline for the preface and a permitted call has passed.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if self.heard >= PREFACE_BYTES && self.peer.line.is_permitted() {
            self.late = None;
        }
        match self.late.as_mut().map(|late| late.as_mut().poll(context)) {
            // After the preface, HTTP/2 itself announces the stop.
            Some(Poll::Ready(Late::Stopping)) if self.heard >= PREFACE_BYTES => {
                self.late = None;
                Poll::Pending
            }
            Some(Poll::Ready(_)) => Poll::Ready(io::ErrorKind::TimedOut.into()),
            Some(Poll::Pending) | None => Poll::Pending,
        }
    }
}

/// A stream of bytes in both directions.
trait Duplex: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

impl Connected for Accepted {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(error) = self.poll_cut(context) {
            return Poll::Ready(Err(error));
        }
        if let Poll::Ready(error) = self.poll_late(context) {
            return Poll::Ready(Err(error));
        }
        let before = buffer.filled().len();
        let read = self.wire().poll_read(context, buffer);
        self.heard = self.heard.saturating_add(buffer.filled().len() - before);
        read
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(error) = self.poll_cut(context) {
            return Poll::Ready(Err(error));
        }
        self.wire().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(error) = self.poll_cut(context) {
            return Poll::Ready(Err(error));
        }
        self.wire().poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            Wire::Unix(stream) => stream.is_write_vectored(),
            Wire::Tcp(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire().poll_shutdown(context)
    }
}
