//! Who is at the other end of a connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// What is known of the caller, for each of its calls.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// How it is connected.
    pub(crate) via: Via,
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
    /// Of the connections that the server is to have at once.
    places: Arc<Semaphore>,
    place: Mutex<Place>,
}

/// Whether a connection is one of those that the server is to have.
#[derive(Debug)]
enum Place {
    /// There were enough already.
    None,
    Taken {
        _permit: OwnedSemaphorePermit,
    },
    /// The connection has ended.
    Left,
}

impl Connection {
    /// A connection, and what tells its socket that it was cut.
    pub(crate) fn new(places: &Arc<Semaphore>) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (cut, told) = oneshot::channel();
        let (cut, place) = (Mutex::new(Some(cut)), Mutex::new(Place::None));
        let line = Self { cut, used: AtomicU64::new(0), places: Arc::clone(places), place };
        line.has_place();
        (Arc::new(line), told)
    }

    /// Whether it is one of those that the server is to have. One that came too late becomes one when another has
    /// gone: its client may stay and try again.
    pub(crate) fn has_place(&self) -> bool {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Place::None = *place
            && let Ok(permit) = Arc::clone(&self.places).try_acquire_owned()
        {
            *place = Place::Taken { _permit: permit };
        }
        matches!(*place, Place::Taken { .. })
    }

    /// Takes note that it is in use.
    pub(super) fn touch(&self, now: u64) {
        self.used.store(now, Ordering::Relaxed);
    }

    /// When it was last in use.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// It has ended.
    pub(crate) fn leave(&self) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Place::Left;
    }

    /// Ends the connection with all its calls.
    pub(crate) fn cut(&self) {
        if let Some(cut) = self.cut.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It may have ended by itself.
            let _ = cut.send(());
        }
    }
}
