//! The lease of a task: which one is held, and how it is kept alive.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contextstore_proto::v1;
use tokio::task::JoinHandle;
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
}

impl Lease {
    pub(crate) fn new(generation: u64, ttl: Option<Duration>) -> Self {
        Self { state: Mutex::new(State { held: generation, had: generation, ttl }) }
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
        *self.lock() = State { held: generation, had: generation, ttl };
    }

    /// It has ended with the task, or with this part of its life.
    pub(crate) fn let_go(&self) {
        self.lock().held = 0;
    }
}

impl Task {
    /// Keeps the lease alive; answers how long it lives without being renewed again.
    pub async fn renew_lease(&self) -> Result<Duration, Error> {
        let request = v1::RenewLeaseRequest {
            task_uuid: self.uuid().to_owned(),
            lease_generation: self.lease_generation(),
        };
        lives(call!(self.client(), renew_lease, request)?)
    }

    /// Keeps the lease alive in the background until the answer is dropped: for times in which nothing is
    /// changed, as while a model is thinking. What fails in passing is tried again for as long as the lease lives. Must
    /// be called within a tokio runtime.
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
    error.is_transient() || matches!(error, Error::Deadline { .. })
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
