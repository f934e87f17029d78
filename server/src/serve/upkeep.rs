//! Background work of the server: the catalog, stalled readers, health, packing of outputs, and recovery from a full
//! disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::until;
use crate::config::Config;
use crate::grpc::{self, InFlight, Serving};
use crate::infra::metrics;
use crate::model::{Provider, StoreError};
use crate::store::{Ground, Store, StoreOptions};

/// Interval for catalog updates and for checks of stalled readers.
const TICK: Duration = Duration::from_millis(500);
/// Interval of retries while the store is read-only.
const HEAL: Duration = Duration::from_secs(2);
/// Interval for measuring the size of all tasks.
const MEASURE: Duration = Duration::from_secs(60);

/// Interval for packing outputs.
const PACK: Duration = Duration::from_secs(600);

/// The background work of the server.
pub(super) struct Upkeep {
    serving: Arc<Serving>,
    in_flight: Arc<InFlight>,
    health: HealthReporter,
    data_dir: PathBuf,
    options: StoreOptions,
    measures: bool,
    /// The token for calls over TCP, if one is required.
    token: Option<String>,
    addresses: Vec<String>,
    serves: Option<bool>,
    healed_at: Instant,
    measured_at: Instant,
    /// The age at which outputs are packed; `None` for never.
    pack_after: Option<Duration>,
    packed_at: Instant,
    packing: Option<JoinHandle<()>>,
    /// Checks damaged logs again.
    checking: Option<JoinHandle<()>>,
}

impl Upkeep {
    pub(super) fn new(
        serving: Arc<Serving>,
        in_flight: Arc<InFlight>,
        health: HealthReporter,
        config: &Config,
        options: StoreOptions,
        (token, addresses): (Option<String>, Vec<String>),
    ) -> Self {
        let now = Instant::now();
        Self {
            serving,
            in_flight,
            health,
            data_dir: config.data_dir.clone(),
            // The size of all tasks is measured only if a limit or the metrics need it.
            measures: config.limits.store_bytes > 0 || config.admin_listen.is_some(),
            options,
            token,
            addresses,
            serves: None,
            healed_at: now,
            measured_at: now,
            pack_after: Some(config.outputs.pack_after).filter(|after| !after.is_zero()),
            packed_at: now,
            packing: None,
            checking: None,
        }
    }

    /// Runs the work that must be done before the first call.
    pub(super) async fn first(&mut self) {
        self.tell_health().await;
        if self.options.max_store_bytes > 0 {
            self.measure().await;
        }
    }

    pub(super) async fn run(mut self, stopped: watch::Receiver<bool>) {
        let mut stopped = std::pin::pin!(until(stopped));
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = &mut stopped => return,
                _ = ticks.tick() => self.tick().await,
            }
        }
    }

    async fn tick(&mut self) {
        let store = self.serving.engine.store();
        if store.is_catalog_behind() {
            // Only then: an idle server would keep as many threads as there are ticks in their time to live.
            let refreshed = store.clone();
            let _ = spawn_blocking(move || refreshed.refresh_catalog()).await;
        }
        if store.has_trash() {
            let store = store.clone();
            // It was said when they were deleted.
            let _ = spawn_blocking(move || store.empty_trash()).await;
        }
        let checking = self.checking.as_ref().is_some_and(|checking| !checking.is_finished());
        if store.has_damage() && store.read_only().is_none() && !checking {
            let store = store.clone();
            // A large log takes a while to read.
            self.checking = Some(spawn_blocking(move || store.set_apart_damaged()));
        }
        for _ in 0..self.serving.pace.sweep() {
            metrics::reader_stalled();
        }
        if store.read_only().is_some() && self.healed_at.elapsed() >= HEAL {
            self.heal(store.clone()).await;
            self.healed_at = Instant::now();
        }
        self.tell_health().await;
        self.serving.engine.compressor.sweep(&store);
        let open = self.serving.engine.compressor.open_breakers();
        for provider in Provider::ALL {
            metrics::set_breaker(provider.as_str(), open.contains(&provider));
        }
        metrics::set_open_tasks(store.open_tasks());
        metrics::set_bytes_in_flight(self.in_flight.used());
        metrics::set_read_streams(self.serving.pace.open());
        if self.measures && self.measured_at.elapsed() >= MEASURE {
            self.measure().await;
            self.measured_at = Instant::now();
        }
        self.pack(store);
    }

    /// Packs outputs beside everything else, one round at a time.
    fn pack(&mut self, store: Store) {
        let going = self.packing.as_ref().is_some_and(|packing| !packing.is_finished());
        let Some(age) = self.pack_after.filter(|_| self.packed_at.elapsed() >= PACK && !going) else {
            return;
        };
        self.packed_at = Instant::now();
        self.packing = Some(spawn_blocking(move || match store.pack_outputs(age) {
            Ok(count) => metrics::outputs_packed(count),
            Err(error) => tracing::warn!(%error, "outputs could not be packed"),
        }));
    }

    /// A store that took no writes when it was opened is opened again once the disk takes some.
    async fn heal(&self, store: Store) {
        let (serving, data_dir) = (Arc::clone(&self.serving), self.data_dir.clone());
        let (token, addresses) = (self.token.clone(), self.addresses.clone());
        let healed = spawn_blocking(move || {
            if !store.may_be_healed() {
                return Ok(false);
            }
            let (opened, _) = store.open_again(Ground::disk(&data_dir)?)?;
            if token.is_some() {
                // Where nothing could be written, callers could not learn it.
                opened.renew_token(token)?;
            }
            opened.note_addresses(&addresses)?;
            serving.engine.replace(opened);
            store.retire();
            Ok::<_, StoreError>(true)
        });
        match healed.await {
            Ok(Ok(true)) => tracing::info!("the disk takes writes again"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the store could not be opened again"),
            Err(error) => tracing::error!(%error, "opening the store again failed"),
        }
    }

    /// Health is about writes: a server that only reads is alive, but not what an agent needs.
    async fn tell_health(&mut self) {
        let store = self.serving.engine.store();
        let read_only = store.read_only();
        metrics::set_read_only(read_only.is_some());
        let serves = read_only.is_none();
        if self.serves.replace(serves) == Some(serves) {
            return;
        }
        if let Some(reason) = read_only {
            tracing::error!(reason, "not serving writes");
        }
        let status = if serves { ServingStatus::Serving } else { ServingStatus::NotServing };
        self.health.set_service_status("", status).await;
        for service in grpc::SERVICES {
            self.health.set_service_status(service, status).await;
        }
    }

    async fn measure(&self) {
        let store = self.serving.engine.store();
        let measured = spawn_blocking(move || store.measure().map(|bytes| bytes + store.catalog_bytes()));
        match measured.await {
            Ok(Ok(bytes)) => metrics::set_db_size(bytes),
            Ok(Err(error)) => tracing::warn!(%error, "the store could not be measured"),
            Err(error) => tracing::error!(%error, "measuring the store failed"),
        }
    }
}
