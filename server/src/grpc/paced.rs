//! Streams that readers take at their own pace, but not for ever: one who takes nothing for too long is closed.
//!
//! A reader that does not read is not polled, so somebody else has to look: [`Pace::sweep`], now and then. First
//! the stream ends and lets go of its files; if the reader does not even take notice of that, and nothing else goes
//! on over its connection, the connection is cut. What a reader has taken shows at the body of the answer ([`Taken`]),
//! as small items are put together on their way there.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Response, Status};

use super::peer::Connection;
use super::status::Refusal;

/// What a streaming call answers with.
pub(super) type Items<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// All streams that are being read.
pub(crate) struct Pace {
    idle: Duration,
    limit: usize,
    permits: Arc<Semaphore>,
    began: Instant,
    streams: Mutex<Vec<Weak<dyn Sweep>>>,
}

/// What can be done to a stream from outside.
trait Sweep: Send + Sync {
    /// Since when its reader has taken nothing, in milliseconds since the beginning; none if it is the reader
    /// that waits.
    fn waits_since(&self) -> Option<u64>;
    /// Ends the stream; false if that was done before.
    fn end(&self) -> bool;
    /// The connection it is on.
    fn connection(&self) -> &Connection;
}

impl Pace {
    pub(crate) fn new(idle: Duration, limit: usize) -> Arc<Self> {
        Arc::new(Self {
            idle,
            limit,
            permits: Arc::new(Semaphore::new(limit)),
            began: Instant::now(),
            streams: Mutex::default(),
        })
    }

    /// How long a reader may take nothing.
    pub(super) fn idle(&self) -> Duration {
        self.idle
    }

    /// How many streams are being read.
    pub(crate) fn open(&self) -> usize {
        self.limit - self.permits.available_permits()
    }

    /// A place for one more stream.
    pub(super) fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let refused = |_| Refusal::Overloaded { what: "streams being read", limit: self.limit as u64 };
        Arc::clone(&self.permits).try_acquire_owned().map_err(refused)
    }

    /// Answers with a stream, at the pace of its reader. One without a place is not counted.
    pub(super) fn answer<S, T>(
        self: &Arc<Self>,
        stream: S,
        place: Option<OwnedSemaphorePermit>,
        connection: Arc<Connection>,
    ) -> Response<Items<T>>
    where
        S: Stream<Item = Result<T, Refusal>> + Send + Unpin + 'static,
        T: 'static,
    {
        let taken = Arc::new(Taken { handed_out: AtomicU64::new(0), connection, pace: Arc::clone(self) });
        let shared = Arc::new(Shared { stream: Mutex::new(Some(stream)), taken: Arc::clone(&taken) });
        self.watch(Arc::clone(&shared) as Arc<dyn Sweep>);
        let paced = Paced { shared, told: false, _place: place };
        let mut answer: Response<Items<T>> = Response::new(Box::pin(paced));
        answer.extensions_mut().insert(taken);
        answer
    }

    /// Keeps the rest of a large answer, to be taken piece by piece.
    pub(super) fn rest(self: &Arc<Self>, bytes: Bytes, connection: Arc<Connection>) -> Arc<Rest> {
        let handed_out = AtomicU64::new(self.now());
        let rest = Rest { bytes: Mutex::new(Some(bytes)), handed_out, connection, pace: Arc::clone(self) };
        let rest = Arc::new(rest);
        self.watch(Arc::clone(&rest) as Arc<dyn Sweep>);
        rest
    }

    fn watch(&self, stream: Arc<dyn Sweep>) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&stream));
    }

    /// Looks for readers that take nothing; answers how many streams were ended. To be called now and then.
    pub(crate) fn sweep(&self) -> usize {
        let now = self.now();
        let idle = u64::try_from(self.idle.as_millis()).unwrap_or(u64::MAX);
        let mut alive = Vec::new();
        self.streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|stream| stream.upgrade().map(|stream| alive.push(stream)).is_some());
        let mut ended = 0;
        for stream in alive {
            let Some(waiting) = stream.waits_since().map(|since| now.saturating_sub(since)) else { continue };
            if waiting >= idle && stream.end() {
                ended += 1;
            } else if waiting >= idle.saturating_mul(2)
                && now.saturating_sub(stream.connection().used()) >= idle.saturating_mul(2)
            {
                stream.connection().cut();
            }
        }
        ended
    }

    pub(super) fn now(&self) -> u64 {
        // 0 stands for "nobody waits".
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }
}

/// Whether the reader of a stream has taken what it was given. The body of the answer keeps it up to date.
pub(super) struct Taken {
    /// When something was last handed out that the reader has not come back from; 0: it is the reader that waits.
    handed_out: AtomicU64,
    connection: Arc<Connection>,
    pace: Arc<Pace>,
}

impl Taken {
    /// Something was handed out.
    pub(super) fn hand_out(&self) {
        let now = self.pace.now();
        self.handed_out.store(now, Ordering::Relaxed);
        self.connection.touch(now);
    }

    /// The reader has taken everything, and waits for more.
    pub(super) fn wait(&self) {
        self.handed_out.store(0, Ordering::Relaxed);
    }
}

struct Shared<S> {
    stream: Mutex<Option<S>>,
    taken: Arc<Taken>,
}

impl<S: Send> Sweep for Shared<S> {
    fn waits_since(&self) -> Option<u64> {
        Some(self.taken.handed_out.load(Ordering::Relaxed)).filter(|since| *since > 0)
    }

    fn end(&self) -> bool {
        // One that is being polled does not stand still, and may wait for a disk: nobody is to wait for it here.
        match self.stream.try_lock() {
            Ok(mut stream) => stream.take().is_some(),
            Err(TryLockError::Poisoned(stream)) => stream.into_inner().take().is_some(),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    fn connection(&self) -> &Connection {
        &self.taken.connection
    }
}

/// What its reader has not taken yet of a large answer.
pub(super) struct Rest {
    bytes: Mutex<Option<Bytes>>,
    handed_out: AtomicU64,
    connection: Arc<Connection>,
    pace: Arc<Pace>,
}

impl Rest {
    /// The next piece; none at the end.
    pub(super) fn next(&self, most: usize) -> Option<Result<Bytes, Status>> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = bytes.as_mut() else {
            return Some(Err(Refusal::Stalled(self.pace.idle).into()));
        };
        self.handed_out.store(self.pace.now(), Ordering::Relaxed);
        let piece = left.split_to(left.len().min(most));
        (!piece.is_empty()).then_some(Ok(piece))
    }
}

impl Sweep for Rest {
    fn waits_since(&self) -> Option<u64> {
        Some(self.handed_out.load(Ordering::Relaxed))
    }

    fn end(&self) -> bool {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// A stream as its reader has it.
struct Paced<S> {
    shared: Arc<Shared<S>>,
    told: bool,
    _place: Option<OwnedSemaphorePermit>,
}

impl<S, T> Stream for Paced<S>
where
    S: Stream<Item = Result<T, Refusal>> + Unpin,
{
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let shared = Arc::clone(&self.shared);
        let mut stream = shared.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stream) = stream.as_mut() else {
            let told = std::mem::replace(&mut self.told, true);
            let stalled = || Err(Refusal::Stalled(shared.taken.pace.idle).into());
            return Poll::Ready((!told).then(stalled));
        };
        Pin::new(stream).poll_next(context).map_err(Status::from)
    }
}
