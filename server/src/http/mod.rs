//! The admin address: metrics and health over HTTP, for this machine only.
//!
//! It serves `GET /metrics` and `GET /healthz`. A web page can make a browser send requests to a loopback address
//! (DNS rebinding); such a request carries the page's name as its host or origin and is refused.

mod guard;
mod listener;
pub mod prometheus;

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::{interval, timeout};

/// Interval of the exporter's housekeeping.
const UPKEEP: Duration = Duration::from_secs(5);

/// Time that a request has to end after the server starts to stop.
const GRACE: Duration = Duration::from_secs(1);

/// The state behind the endpoints.
#[derive(Clone)]
pub struct AdminState {
    /// The metrics.
    pub metrics: PrometheusHandle,
    /// Returns the degraded parts of a serving server, or why it does not serve.
    pub health: Arc<dyn Fn() -> Result<Vec<String>, String> + Send + Sync>,
}

impl fmt::Debug for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminState").finish_non_exhaustive()
    }
}

/// Serves until `shutdown` is ready.
pub async fn serve(
    listener: TcpListener,
    state: AdminState,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    tracing::info!(address = %listener.local_addr()?, "serving metrics and health");
    let metrics = state.metrics.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener::Bounded::new(listener), router(state)).with_graceful_shutdown(async {
        // A dropped sender means the same.
        let _ = stopped.await;
    });
    let mut server = std::pin::pin!(server.into_future());
    let mut shutdown = std::pin::pin!(shutdown);
    let mut upkeep = interval(UPKEEP);
    loop {
        tokio::select! {
            ended = &mut server => return ended,
            () = &mut shutdown => break,
            _ = upkeep.tick() => metrics.run_upkeep(),
        }
    }
    drop(stop);
    // A client that does not read its response does not delay the stop.
    timeout(GRACE, server).await.unwrap_or(Ok(()))
}

fn router(state: AdminState) -> Router {
    Router::new()
        .route("/metrics", get(show_metrics))
        .route("/healthz", get(show_health))
        .with_state(state)
        .layer(middleware::from_fn(guard::only_this_machine))
}

async fn show_metrics(State(state): State<AdminState>) -> impl IntoResponse {
    let format = "text/plain; version=0.0.4; charset=utf-8";
    (
        [(header::CONTENT_TYPE, format), (header::CACHE_CONTROL, "no-store")],
        prometheus::render(&state.metrics),
    )
}

async fn show_health(State(state): State<AdminState>) -> impl IntoResponse {
    let (status, words) = match (state.health)() {
        Ok(notes) => {
            let lines: Vec<String> = std::iter::once("serving".to_owned()).chain(notes).collect();
            (StatusCode::OK, lines.join("\n"))
        }
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
    };
    (status, [(header::CACHE_CONTROL, "no-store")], words + "\n")
}

#[cfg(test)]
mod tests;
