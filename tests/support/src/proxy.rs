//! Stands between a client and a server, and loses what it is told to lose.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contextstore_client::{Builder, Client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// A socket through which a server's socket is reached.
pub struct Proxy {
    dir: tempfile::TempDir,
    state: Arc<State>,
}

struct State {
    /// Bytes of answers that a connection carries before it breaks.
    budget: AtomicU64,
    /// Connections that were made.
    connections: AtomicU64,
    /// Bytes of answers that have passed.
    passed: AtomicU64,
    /// Whether answers are held back.
    held: watch::Sender<bool>,
    /// Rises when all connections are to break.
    cut: watch::Sender<u64>,
}

impl Proxy {
    /// A proxy that loses nothing yet.
    pub fn new(server: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = Arc::new(State {
            budget: AtomicU64::new(u64::MAX),
            connections: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            held: watch::Sender::new(false),
            cut: watch::Sender::new(0),
        });
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        tokio::spawn(accept(listener, server.to_owned(), Arc::clone(&state)));
        Self { dir, state }
    }

    /// A client that comes through here.
    pub fn builder(&self) -> Builder {
        Client::builder().address(format!("unix:{}", self.dir.path().join("s").display()))
    }

    /// From the next connection on, each breaks after so many bytes of answers.
    pub fn break_after(&self, bytes: u64) {
        self.state.budget.store(bytes, Ordering::SeqCst);
    }

    /// Breaks every connection now.
    pub fn cut(&self) {
        self.state.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Holds answers back, or no more.
    pub fn hold(&self, held: bool) {
        self.state.held.send_replace(held);
    }

    /// How many bytes of answers have passed.
    pub fn passed(&self) -> u64 {
        self.state.passed.load(Ordering::SeqCst)
    }

    /// How often somebody has connected.
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::SeqCst)
    }
}

async fn accept(listener: UnixListener, server: PathBuf, state: Arc<State>) {
    while let Ok((client, _)) = listener.accept().await {
        state.connections.fetch_add(1, Ordering::SeqCst);
        let (server, state) = (server.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            // Without a server the client sees what it would see at the server's own socket: nobody.
            let Ok(server) = UnixStream::connect(server).await else { return };
            let mut cut = state.cut.subscribe();
            let cuts = *cut.borrow_and_update();
            tokio::select! {
                () = carry(client, server, &state, cuts) => {}
                _ = cut.changed() => {}
            }
        });
    }
}

async fn carry(mut client: UnixStream, mut server: UnixStream, state: &State, cuts: u64) {
    let mut left = state.budget.load(Ordering::SeqCst);
    let (mut asks, mut to_client) = client.split();
    let (mut answers, mut to_server) = server.split();
    let up = async {
        let _ = tokio::io::copy(&mut asks, &mut to_server).await;
    };
    let down = async {
        let mut buffer = vec![0; 4096];
        let mut held = state.held.subscribe();
        while let Ok(read @ 1..) = answers.read(&mut buffer).await {
            let _ = held.wait_for(|held| !held).await;
            // What was held back until a cut is lost for sure.
            if *state.cut.borrow() != cuts {
                break;
            }
            let pass = usize::try_from(left).unwrap_or(usize::MAX).min(read);
            if to_client.write_all(&buffer[..pass]).await.is_err() || pass < read {
                break;
            }
            left -= pass as u64;
            state.passed.fetch_add(pass as u64, Ordering::SeqCst);
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}
