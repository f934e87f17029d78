//! The server: opens the store, listens, serves, and stops in order.

mod listen;
mod upkeep;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contextstore_app::{Engine, Parts};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::compress::{Compressor, CompressorConfig};
use crate::config::{Config, TcpAuth};
use crate::context::{Breakers, ServerPolicy};
use crate::grpc::{self, Access, Gate, InFlight, Serving};
use crate::hooks::Hooks;
use crate::http::{self, AdminState, prometheus};
use crate::infra::clock::SystemClock;
use crate::infra::{net, secret};
use crate::llm::Gateway;
use crate::model::{Provider, StoreError};
use crate::store::{NOT_A_TOKEN, Store, StoreOptions, is_token};
use listen::{OpenConnections, Socket};
use upkeep::Upkeep;

/// File handles besides those of connections, tasks and readers.
const OTHER_FILES: u64 = 64;
/// Most file handles of an open task.
const FILES_PER_TASK: u64 = 8;
/// Fewest open tasks, whatever the limit of open files is.
const LEAST_OPEN_TASKS: usize = 128;
/// Largest headers of a call: a path, a token, a deadline.
const HEADER_BYTES: u32 = 8 << 10;
/// Bytes of a call's requests that can wait to be read.
const STREAM_WINDOW: u32 = 128 << 10;
/// Bytes of all requests of a connection that can wait to be read. h2 closes a connection when small waiting frames
/// cost more than half of this, at up to three bytes per byte received. It is much more than one call can fill, so
/// that a client that pipelines small messages is slowed down instead of closed.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// How long the callers of interrupted chats have to receive the error.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// The reason why a server could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The server cannot listen on an address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A part of the server cannot start.
    #[error("the server cannot start: {0}")]
    Start(String),
    /// A background task ended.
    #[error("a background task ended: {0}")]
    Background(String),
    /// The transport failed while the server was running.
    #[error("the server failed")]
    Transport(#[from] tonic::transport::Error),
}

/// Serves until `stop` is ready, or until no client has been connected for the time `idle`. Then lets running calls
/// end within the configured time, and closes the store.
pub async fn run(
    config: Config,
    idle: Option<Duration>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let limits = &config.limits;
    let reflection = spawn_blocking(grpc::reflection);
    // The lock of the data directory comes first: a second server reports that, not that a port is in use.
    let options = options(&config, open_tasks(&config))?;
    let store = open(&config, &options)?;
    let token = match config.tcp_auth {
        TcpAuth::Token => Some(token(&store, config.tcp_token_file.as_deref())?),
        TcpAuth::None => None,
    };
    let (addresses, sockets) = bind_all(&config)?;
    let admin = match config.admin_listen {
        Some(address) => Some(bind_admin(address).await?),
        None => None,
    };

    let (stopping, stopped) = watch::channel(false);
    let serving = serving(&config, store, stopped.clone());
    let in_flight = InFlight::new(limits.bytes_in_flight as u64, limits.message_bytes as u64);
    let start = |error: &dyn std::error::Error| ServeError::Start(error.to_string());
    let reflection = reflection.await.map_err(|error| start(&error))?.map_err(|error| start(&error))?;
    let (routes, health) = grpc::routes(Arc::clone(&serving), reflection);
    let access = Arc::new(Access::new(net::user_id(), token.as_deref()));
    let (connections, pace) = (limits.connections as u64, Arc::clone(&serving.pace));
    let gate = Gate::new(routes, access, Arc::clone(&in_flight), connections, pace);

    publish_addresses(&serving, &addresses);
    let token = (token, addresses.clone());
    let mut upkeep = Upkeep::new(Arc::clone(&serving), in_flight, health.clone(), &config, options, token);
    upkeep.first().await;
    let mut background = JoinSet::new();
    background.spawn(upkeep.run(stopped.clone()));
    if let Some((listener, metrics)) = admin {
        background.spawn(serve_admin(listener, metrics, Arc::clone(&serving), stopped.clone()));
    }
    let (addresses, data_dir) = (addresses.join(" "), config.data_dir.display());
    tracing::info!(addresses, %data_dir, version = env!("CARGO_PKG_VERSION"), "serving");

    let needs_token = matches!(config.tcp_auth, TcpAuth::Token);
    let open = OpenConnections::default();
    let incoming = listen::incoming(sockets, limits.connections, needs_token, &open, stopped.clone());
    let server = transport(&config).serve_with_incoming_shutdown(gate, incoming, until(stopped));
    let mut server = std::pin::pin!(server);
    let drain = config.server.drain;
    let (mut stopped_at, mut is_over, mut died) = (Instant::now(), true, Ok(()));
    tokio::select! {
        ended = &mut server => ended?,
        // Without its background tasks the server would run unobserved and never recover, so it stops.
        Some(ended) = background.join_next() => {
            let reason = ended.err().map_or_else(|| "it ended".to_owned(), |error| error.to_string());
            tracing::error!(reason, "a background task ended; stopping");
            died = Err(ServeError::Background(reason));
            stopped_at = Instant::now();
            is_over = end_calls(server.as_mut(), &stopping, health, drain).await.unwrap_or(true);
        }
        () = stop_or_idle(stop, &open, idle) => {
            tracing::info!("stopping");
            stopped_at = Instant::now();
            is_over = end_calls(server.as_mut(), &stopping, health, drain).await?;
        }
    }
    let _ = stopping.send(true);
    if serving.engine.chats.end_all().await && !is_over {
        let _ = tokio::time::timeout(LAST_ANSWERS, &mut server).await;
    }
    serving.engine.compressor.end_all().await;
    serving.engine.hooks.end(drain.saturating_sub(stopped_at.elapsed())).await;
    // The background tasks hold the store.
    while background.join_next().await.is_some() {}
    close(&serving).await?;
    died
}

/// Returns what the handlers of calls share.
fn serving(config: &Config, store: Store, stopped: watch::Receiver<bool>) -> Arc<Serving> {
    let data_dir = config.data_dir.display().to_string();
    let engine = engine(config, store, stopped);
    Serving::new(engine, SystemClock::shared(), config.limits.clone(), data_dir)
}

/// Returns the HTTP/2 server with the limits of the configuration.
fn transport(config: &Config) -> Server {
    Server::builder()
        .max_concurrent_streams(config.limits.streams_per_connection)
        .http2_keepalive_interval(Some(config.server.keepalive_interval))
        .http2_keepalive_timeout(Some(config.server.keepalive_timeout))
        .http2_max_header_list_size(HEADER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
}

/// Writes the addresses into the data directory, where clients and the command line find them.
fn publish_addresses(serving: &Serving, addresses: &[String]) {
    if let Err(error) = serving.engine.store().note_addresses(addresses) {
        tracing::warn!(%error, "the addresses of the server could not be written to its data directory");
    }
}

/// Returns how many tasks can be open at the same time within the system's limit of open files.
fn open_tasks(config: &Config) -> usize {
    let (files, limits) = (net::raise_open_files(), &config.limits);
    let others = OTHER_FILES + (limits.connections * config.listeners().len() + limits.read_streams) as u64;
    if files < others + FILES_PER_TASK {
        tracing::warn!(files, others, "the limits could need more open files than the system allows");
    }
    let allowed = usize::try_from(files.saturating_sub(others) / FILES_PER_TASK).unwrap_or(usize::MAX);
    // Far fewer connections are open in practice, and reopening tasks for every call would cost more.
    let open_tasks = limits.open_tasks.min(allowed.max(LEAST_OPEN_TASKS));
    if open_tasks < limits.open_tasks {
        tracing::warn!(files, open_tasks, "the system allows few open files; fewer tasks are kept open");
    }
    open_tasks
}

fn open(config: &Config, options: &StoreOptions) -> Result<Store, ServeError> {
    let (store, recovered) = Store::open(&config.data_dir, options.clone())?;
    if !recovered.is_empty() {
        tracing::info!(findings = recovered.len(), "recovered");
    }
    if let Some(reason) = store.read_only() {
        tracing::error!(reason, "the store takes no writes");
    }
    Ok(store)
}

fn bind_all(config: &Config) -> Result<(Vec<String>, Vec<Socket>), ServeError> {
    let (mut addresses, mut sockets) = (Vec::new(), Vec::new());
    for listen in config.listeners() {
        let bound = Socket::bind(&listen).and_then(|socket| Ok((socket.address()?, socket)));
        let (address, socket) =
            bound.map_err(|source| ServeError::Listen { address: listen.to_string(), source })?;
        addresses.push(address.to_string());
        sockets.push(socket);
    }
    Ok((addresses, sockets))
}

fn engine(config: &Config, store: Store, stopping: watch::Receiver<bool>) -> Arc<Engine> {
    let gateway = Gateway::new(config.llm.clone());
    if let Some(provider) = config.llm.provider
        && let Err(error) = gateway.check(provider, gateway.default_model(provider))
    {
        tracing::warn!(%error, "the model of llm.provider cannot be asked; the built-in summariser makes summaries");
    }
    let hooks = Hooks::new(&config.hooks);
    let compressor = Compressor::new(
        Arc::clone(&gateway),
        Arc::clone(&store.options().breakers),
        Arc::clone(&hooks),
        CompressorConfig { at_once: config.compression.max_at_once, agent_ttl: config.compression.agent_ttl },
    );
    let message_bytes = config.limits.message_bytes;
    Engine::new(Parts { store, gateway, compressor, hooks, message_bytes, stopping })
}

/// Serves metrics and health over HTTP until the server stops.
async fn serve_admin(
    listener: TcpListener,
    metrics: PrometheusHandle,
    serving: Arc<Serving>,
    stopped: watch::Receiver<bool>,
) {
    let health = move || match serving.engine.store().read_only() {
        Some(reason) => Err(reason),
        None => Ok(serving.engine.compressor.open_breakers().into_iter().map(not_asked).collect()),
    };
    let state = AdminState { metrics, health: Arc::new(health) };
    if let Err(error) = http::serve(listener, state, until(stopped)).await {
        tracing::error!(%error, "metrics and health are not served over HTTP");
    }
}

/// Refuses new calls and waits for the running ones. Returns false if some did not end in time.
async fn end_calls(
    server: Pin<&mut impl Future<Output = Result<(), tonic::transport::Error>>>,
    stopping: &watch::Sender<bool>,
    health: HealthReporter,
    drain: Duration,
) -> Result<bool, ServeError> {
    let _ = stopping.send(true);
    tell_health(health).await;
    match tokio::time::timeout(drain, server).await {
        Ok(ended) => ended.map(|()| true).map_err(ServeError::from),
        Err(_) => {
            tracing::warn!("some calls did not end in time; they are cut off");
            Ok(false)
        }
    }
}

/// Waits for `stop`, or until no connection has been open for the time `idle`.
async fn stop_or_idle(stop: impl Future<Output = ()>, open: &OpenConnections, idle: Option<Duration>) {
    let Some(idle) = idle else { return stop.await };
    tokio::select! {
        () = stop => {}
        () = open.none_for(idle) => tracing::info!(?idle, "no client is connected"),
    }
}

/// Describes a model that is skipped for summaries.
fn not_asked(provider: Provider) -> String {
    format!("{} failed too often: the built-in summariser is used for a while", provider.as_str())
}

/// Reports that the server no longer serves, and ends the streams of health watchers.
async fn tell_health(mut health: HealthReporter) {
    for service in [""].into_iter().chain(grpc::SERVICES) {
        health.set_service_status(service, ServingStatus::NotServing).await;
        // Clearing the status ends the watchers' streams; setting it again answers later checks.
        health.clear_service_status(service).await;
        health.set_service_status(service, ServingStatus::NotServing).await;
    }
}

async fn close(serving: &Arc<Serving>) -> Result<(), ServeError> {
    let store = serving.engine.store();
    let closed = tokio::task::spawn_blocking(move || {
        if let Err(error) = store.note_addresses(&[]) {
            tracing::warn!(%error, "the addresses could not be removed");
        }
        store.close()
    });
    closed.await.map_err(|error| ServeError::Start(error.to_string()))??;
    tracing::info!("stopped");
    Ok(())
}

pub(super) async fn until(mut stopped: watch::Receiver<bool>) {
    // A dropped sender means the same.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Returns the token for calls over TCP. If it can be neither written nor read, a random token refuses all of them.
fn token(store: &Store, file: Option<&Path>) -> Result<String, ServeError> {
    let configured = file.map(configured_token).transpose().map_err(ServeError::Start)?;
    match store.renew_token(configured) {
        Err(error) if store.read_only().is_some() => {
            tracing::warn!(%error, "calls over TCP are refused: the token can be neither read nor written");
            Ok(uuid::Uuid::new_v4().to_string())
        }
        token => Ok(token?),
    }
}

/// Returns the token of `tcp_token_file`, or the problem with it.
fn configured_token(file: &Path) -> Result<String, String> {
    let named = |problem: String| format!("tcp_token_file {}: {problem}", file.display());
    let text = secret::read(file).map_err(|error| named(error.to_string()))?;
    let token = text.trim_end();
    if is_token(token) { Ok(token.to_owned()) } else { Err(named(format!("it {NOT_A_TOKEN}"))) }
}

async fn bind_admin(address: SocketAddr) -> Result<(TcpListener, PrometheusHandle), ServeError> {
    let metrics = prometheus::install().map_err(|error| ServeError::Start(error.to_string()))?;
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| ServeError::Listen { address: address.to_string(), source })?;
    if let Ok(address) = listener.local_addr() {
        // Port 0 picks a free port, so the log states the real one.
        tracing::info!(%address, "metrics and health over HTTP");
    }
    Ok((listener, metrics))
}

fn options(config: &Config, max_open_tasks: usize) -> Result<StoreOptions, ServeError> {
    // A server without all of its masking rules must not accept any text.
    let masker = config.masking.masker();
    let masker = masker.map_err(|error| ServeError::Start(format!("a rule of masking.custom {error}")))?;
    Ok(StoreOptions {
        durability: config.durability,
        lease_ttl: config.lease.ttl,
        max_open_tasks,
        max_message_bytes: config.limits.message_bytes,
        catalog_busy_timeout: config.catalog.busy_timeout,
        catalog_retries: config.catalog.retries,
        max_task_bytes: config.limits.task_bytes,
        max_store_bytes: config.limits.store_bytes,
        compression: ServerPolicy {
            settings: config.context.clone(),
            summary_timeout: config.compression.summary_timeout,
            scoring: Arc::new(config.scoring.clone()),
            models: config.models.clone(),
            provider: config.llm.provider,
            context_lengths: Provider::ALL.map(|provider| config.llm.of(provider).context_length),
            provider_models: Provider::ALL.map(|provider| config.llm.of(provider).model.clone()),
        },
        breakers: Arc::new(Breakers::new(config.compression.breaker)),
        token_counter: config.tokens.counter,
        masker,
        ..StoreOptions::default()
    })
}
