//! Who is at the other end of a connection.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Whether its caller may call more than what is open to everybody.
    permitted: AtomicBool,
    /// Calls of what is open to everybody that are going on.
    open_calls: AtomicU64,
}

/// Calls of what is open to everybody that one who may call nothing else has at once.
pub(super) const OPEN_CALLS: u64 = 4;

/// A call of a method that is open to everybody.
#[derive(Debug)]
pub(super) struct OpenCall(Arc<Connection>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.open_calls.fetch_sub(1, Ordering::Relaxed);
    }
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
        let line = Self {
            cut: Mutex::new(Some(cut)),
            used: AtomicU64::new(0),
            places: Arc::clone(places),
            place: Mutex::new(Place::None),
            permitted: AtomicBool::new(false),
            open_calls: AtomicU64::new(0),
        };
        (Arc::new(line), told)
    }

    /// Its caller may call.
    pub(crate) fn permit(&self) {
        self.permitted.store(true, Ordering::Relaxed);
    }

    /// Whether its caller may call, as far as is known.
    pub(crate) fn is_permitted(&self) -> bool {
        self.permitted.load(Ordering::Relaxed)
    }

    /// Counts a call of a method that is open to everybody; none if there are too many.
    pub(super) fn open_call(self: &Arc<Self>) -> Option<OpenCall> {
        let call = OpenCall(Arc::clone(self));
        let before = self.open_calls.fetch_add(1, Ordering::Relaxed);
        (before < OPEN_CALLS || self.is_permitted()).then_some(call)
    }

    /// Whether it is one of those that the server is to have; asked for each call by somebody who may call. One that came too late
    /// becomes one when another has gone: its client may stay and try again.
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
