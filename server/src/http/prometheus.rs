//! The metrics of this process in the text format of Prometheus.

use std::sync::{Mutex, PoisonError};

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::infra::metrics::{self, COMPRESSION_DURATION, LLM_DURATION};

/// From a cached write to a call that hangs, in seconds.
const BUCKETS: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// From an error to an answer that a model thinks about for long, in seconds.
const LLM_BUCKETS: [f64; 12] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Starts counting, for this process; a second call answers the same handle.
///
/// Somebody has to call [`PrometheusHandle::run_upkeep`] now and then, or histograms take more and more memory;
/// `http::serve` does.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*installed {
        return Ok(handle.clone());
    }
    let handle = builder()?.install_recorder()?;
    metrics::describe();
    *installed = Some(handle.clone());
    Ok(handle)
}

/// Buckets make histograms of what would be summaries, which cannot be added up.
fn builder() -> Result<PrometheusBuilder, BuildError> {
    let mut builder = PrometheusBuilder::new().set_buckets(&BUCKETS)?;
    for slow in [LLM_DURATION, COMPRESSION_DURATION] {
        builder = builder.set_buckets_for_metric(Matcher::Full(slow.to_owned()), &LLM_BUCKETS)?;
    }
    Ok(builder)
}

/// Returns all metrics in the text format of Prometheus, with memory and file handles as they are now.
pub fn render(handle: &PrometheusHandle) -> String {
    metrics::measure_process();
    handle.run_upkeep();
    handle.render()
}

#[cfg(test)]
#[path = "prometheus_tests.rs"]
mod tests;
