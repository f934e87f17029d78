//! Who is at the other end of a connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// What is known of the caller, for each of its calls.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// How it is connected.
    pub(crate) via: Via,
    /// Whether there are more connections than the server is to have: its calls are told so.
    pub(crate) one_too_many: bool,
    /// The connection.
    pub(crate) line: Arc<Connection>,
}

/// How a caller is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// Over a Unix socket, as a user.
    Unix {
        /// The user.
        uid: u32,
    },
    /// Over TCP.
    Tcp,
}

/// A connection that can be cut.
#[derive(Debug)]
pub(crate) struct Connection {
    cut: Mutex<Option<oneshot::Sender<()>>>,
    /// When a call began or an answer went out, by the clock of [`super::paced::Pace`].
    used: AtomicU64,
}

impl Connection {
    /// A connection, and what tells its socket that it was cut.
    pub(crate) fn new() -> (Arc<Self>, oneshot::Receiver<()>) {
        let (cut, told) = oneshot::channel();
        (Arc::new(Self { cut: Mutex::new(Some(cut)), used: AtomicU64::new(0) }), told)
    }

    /// Takes note that it is in use.
    pub(super) fn touch(&self, now: u64) {
        self.used.store(now, Ordering::Relaxed);
    }

    /// When it was last in use.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Ends the connection with all its calls.
    pub(crate) fn cut(&self) {
        if let Some(cut) = self.cut.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It may have ended by itself.
            let _ = cut.send(());
        }
    }
}
