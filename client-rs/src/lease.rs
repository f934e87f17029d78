//! The lease of a task: which one is held, and how it is kept alive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use contextstore_proto::v1;
use contextstore_proto::v1::ErrorReason;
use tokio::task::{AbortHandle, JoinHandle};
use tonic::Request;

use crate::client::call;
use crate::task::there;
use crate::{Client, Error, Task};

/// A lease is renewed this often within its life.
const OFTEN: u32 = 3;
/// A renewal may take this long at least, however short the lease.
const LEAST_TIME: Duration = Duration::from_secs(1);
/// The longest pause before a renewal that failed in passing is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The lease that a handle of a task and its clones share.
#[derive(Debug)]
pub(crate) struct Lease {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The generation that changes are made under; 0 once it has ended.
    held: u64,
    /// The last one that was held.
    had: u64,
    /// How long it lives without being renewed, if that is known.
    ttl: Option<Duration>,
    /// What renews it in the background.
    renewing: Option<AbortHandle>,
    /// Why that has given up.
    lost: Option<Error>,
}

impl State {
    fn stop(&mut self) {
        if let Some(renewing) = self.renewing.take() {
            renewing.abort();
        }
    }
}

impl Lease {
    pub(crate) fn new(generation: u64, ttl: Option<Duration>) -> Self {
        let state = State { held: generation, had: generation, ttl, ..State::default() };
        Self { state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn held(&self) -> u64 {
        self.lock().held
    }

    pub(crate) fn had(&self) -> u64 {
        self.lock().had
    }

    fn ttl(&self) -> Option<Duration> {
        self.lock().ttl
    }

    pub(crate) fn take(&self, generation: u64, ttl: Option<Duration>) {
        let mut state = self.lock();
        state.stop();
        *state = State { held: generation, had: generation, ttl, ..State::default() };
    }

    /// It has ended with the task, or with this part of its life.
    pub(crate) fn let_go(&self) {
        let mut state = self.lock();
        state.stop();
        state.held = 0;
    }

    /// Has it renewed in the background, if it is held and is known to end.
    fn keep(self: &Arc<Self>, client: &Client, task_uuid: &str) {
        let mut state = self.lock();
        let (State { held: generation @ 1.., ttl: Some(ttl), .. }, true) =
            (&*state, client.settings().renew_leases)
        else {
            return;
        };
        let background = Background {
            lease: Arc::downgrade(self),
            client: client.clone(),
            task_uuid: task_uuid.to_owned(),
            generation: *generation,
            ttl: *ttl,
        };
        state.stop();
        state.renewing = Some(tokio::spawn(background.run()).abort_handle());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.lock().stop();
    }
}

/// Renews a lease for as long as somebody has the task. A server that cannot be reached may come back at any time, and
/// grants every lease one more life then.
struct Background {
    lease: Weak<Lease>,
    client: Client,
    task_uuid: String,
    generation: u64,
    ttl: Duration,
}

impl Background {
    async fn run(mut self) {
        let mut pause = self.ttl / OFTEN;
        loop {
            tokio::time::sleep(pause).await;
            let time = time_to_renew(Some(self.ttl));
            let renewed = renew_once(&self.client, &self.task_uuid, self.generation, time).await;
            let Some(lease) = self.lease.upgrade() else { return };
            let mut state = lease.lock();
            if state.held != self.generation {
                return;
            }
            match renewed {
                Ok(ttl) => {
                    (self.ttl, state.ttl) = (ttl, Some(ttl));
                    pause = ttl / OFTEN;
                }
                Err(error) if passes(&error) => pause = pause_after(&error, Some(self.ttl)),
                // It has ended: most likely by a call of this client that is not answered yet.
                Err(error)
                    if matches!(
                        error.reason(),
                        Some(ErrorReason::WrongStatus | ErrorReason::TaskNotFound)
                    ) =>
                {
                    return;
                }
                Err(error) => {
                    tracing::warn!(task = self.task_uuid, %error, "the lease could not be renewed");
                    state.lost = Some(error);
                    return;
                }
            }
        }
    }
}

impl Task {
    /// Has the lease kept alive in the background.
    pub(crate) fn keep_lease(&self) {
        self.lease().keep(self.client(), self.uuid());
    }

    pub(crate) fn kept(self) -> Self {
        self.keep_lease();
        self
    }

    /// Why the lease could not be kept alive in the background, if somebody else took the task: changes are refused.
    pub fn lease_lost(&self) -> Option<Error> {
        self.lease().lock().lost.clone()
    }

    /// Keeps the lease alive; answers how long it lives without being renewed again.
    pub async fn renew_lease(&self) -> Result<Duration, Error> {
        let request = v1::RenewLeaseRequest {
            task_uuid: self.uuid().to_owned(),
            lease_generation: self.lease_generation(),
        };
        lives(call!(self.client(), renew_lease, request)?)
    }

    /// Keeps the lease alive in the background until the answer is dropped, and tells when it is lost: for a lease that was
    /// taken elsewhere, or with [`Builder::renew_leases`](crate::Builder::renew_leases) set to false. What fails in passing is
    /// tried again for as long as the lease lives. Must be called within a tokio runtime.
    pub fn keep_alive(&self) -> KeepAlive {
        let task = self.clone();
        let renewing = tokio::spawn(async move { task.renew_until_lost().await });
        KeepAlive { renewing }
    }

    async fn renew_until_lost(&self) -> Error {
        let mut ttl = self.lease().ttl();
        // Of a lease that was taken elsewhere it is not known how long it lives.
        let mut end = Instant::now() + ttl.unwrap_or(self.client().settings().timeout);
        loop {
            let asked = Instant::now();
            let renewed =
                renew_once(self.client(), self.uuid(), self.lease_generation(), time_to_renew(ttl)).await;
            match renewed {
                Ok(lives) => {
                    ttl = Some(lives);
                    end = asked + lives;
                    tokio::time::sleep(lives / OFTEN).await;
                }
                Err(error) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() || !passes(&error) {
                        return error;
                    }
                    tokio::time::sleep(pause_after(&error, ttl).min(left)).await;
                }
            }
        }
    }
}

/// Keeps a lease alive until it is dropped.
#[derive(Debug)]
pub struct KeepAlive {
    renewing: JoinHandle<Error>,
}

impl KeepAlive {
    /// Waits until the lease cannot be renewed any more, and answers why.
    pub async fn lost(&mut self) -> Error {
        let ended = (&mut self.renewing).await;
        ended.unwrap_or_else(|error| Error::protocol(format!("renewing the lease ended: {error}")))
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// How long a lease lives that an answer tells of.
pub(crate) fn ttl_of(told: Option<prost_types::Duration>) -> Option<Duration> {
    told.and_then(|ttl| Duration::try_from(ttl).ok())
}

fn lives(renewed: v1::RenewLeaseResponse) -> Result<Duration, Error> {
    let lease_ttl = there("lease_ttl", renewed.lease_ttl)?;
    Duration::try_from(lease_ttl).map_err(|_| Error::protocol("lease_ttl is negative"))
}

/// Renews a lease in one try.
async fn renew_once(
    client: &Client,
    task_uuid: &str,
    lease_generation: u64,
    time: Duration,
) -> Result<Duration, Error> {
    let mut request =
        Request::new(v1::RenewLeaseRequest { task_uuid: task_uuid.to_owned(), lease_generation });
    request.set_timeout(time);
    let mut raw = client.raw();
    lives(client.in_time(time, raw.renew_lease(request)).await?.into_inner())
}

/// How long one try may take.
fn time_to_renew(ttl: Option<Duration>) -> Duration {
    ttl.map_or(LEAST_TIME, |ttl| (ttl / OFTEN).max(LEAST_TIME))
}

/// Whether a renewal that failed may succeed soon.
fn passes(error: &Error) -> bool {
    error.is_transient() || matches!(error, Error::Deadline { .. } | Error::Connection { .. })
}

fn pause_after(error: &Error, ttl: Option<Duration>) -> Duration {
    let pause = ttl.map_or(LONGEST_PAUSE, |ttl| ttl / 10).min(LONGEST_PAUSE);
    error.retry_after().map_or(pause, |asked| asked.max(pause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lease_that_cannot_be_renewed_in_passing_is_tried_for_as_long_as_it_lives() {
        let client = Client::builder().address("unix:/gone/s").connect_lazy().unwrap();
        let ttl = Duration::from_millis(300);
        let task = client.task("018f6b2e-5c1a-7d3e-9a41-000000000001");
        task.lease().take(1, Some(ttl));
        let begun = Instant::now();
        let lost = task.keep_alive().lost().await;
        assert!(matches!(lost, Error::Connection { .. }), "{lost:?}");
        assert!(begun.elapsed() >= ttl, "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_lease_is_renewed_until_it_ends_or_nobody_has_the_task() {
        let client = |renew| {
            let builder = Client::builder().address("unix:/gone/s").renew_leases(renew);
            builder.connect_lazy().unwrap().task("018f6b2e-5c1a-7d3e-9a41-000000000001")
        };
        let ttl = Some(Duration::from_millis(30));
        let renewing = |task: &Task| task.lease().lock().renewing.clone();
        let ended = async |renewing: AbortHandle| {
            while !renewing.is_finished() {
                tokio::task::yield_now().await;
            }
        };

        let task = client(true);
        task.keep_lease();
        assert!(renewing(&task).is_none(), "there is no lease");
        task.lease().take(1, ttl);
        task.keep_lease();
        let first = renewing(&task).unwrap();
        task.lease().take(2, ttl);
        task.keep_lease();
        ended(first).await;
        let second = renewing(&task).unwrap();
        // What passes does not end it.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!second.is_finished() && task.lease_lost().is_none());
        task.lease().let_go();
        ended(second).await;

        task.lease().take(3, ttl);
        task.keep_lease();
        let (third, clone) = (renewing(&task).unwrap(), task.clone());
        drop(task);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!third.is_finished());
        drop(clone);
        ended(third).await;

        let left = client(false);
        left.lease().take(1, ttl);
        left.keep_lease();
        assert!(renewing(&left).is_none());
    }

    #[test]
    fn a_lease_that_ended_is_remembered() {
        let lease = Lease::new(3, None);
        assert_eq!((lease.held(), lease.had()), (3, 3));
        lease.let_go();
        assert_eq!((lease.held(), lease.had()), (0, 3));
        lease.take(4, Some(Duration::from_secs(30)));
        assert_eq!((lease.held(), lease.had(), lease.ttl()), (4, 4, Some(Duration::from_secs(30))));
    }
}
