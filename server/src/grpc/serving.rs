//! What all calls share: the engine, the limits, the pace of readers.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use contextstore_app::Engine;
use tokio::sync::Semaphore;

use super::paced::Pace;
use crate::config::Limits;
use crate::infra::clock::Clock;

/// Searches that run at once. More of them wait.
const SEARCHES: usize = 64;

/// Shared by all calls.
pub(crate) struct Serving {
    pub(crate) engine: Arc<Engine>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) limits: Limits,
    pub(super) data_dir: String,
    pub(super) started_at: DateTime<Utc>,
    pub(crate) pace: Arc<Pace>,
    /// Places for searches, each with a thread, whatever their readers do.
    pub(super) searches: Arc<Semaphore>,
}

impl Serving {
    pub(crate) fn new(
        engine: Arc<Engine>,
        clock: Arc<dyn Clock>,
        limits: Limits,
        data_dir: String,
    ) -> Arc<Self> {
        let pace = Pace::new(limits.read_idle, limits.read_streams);
        let started_at = clock.now();
        let searches = Arc::new(Semaphore::new(SEARCHES));
        Arc::new(Self { engine, clock, limits, data_dir, started_at, pace, searches })
    }
}
