//! The metrics of this process in the text format of Prometheus.

use std::sync::{Mutex, PoisonError};

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::infra::metrics::{self, COMPRESSION_DURATION, LLM_DURATION};

/// Buckets from a cached write to a hanging call, in seconds.
const BUCKETS: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Buckets from an immediate error to an answer after long reasoning, in seconds.
const LLM_BUCKETS: [f64; 12] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Installs the recorder of this process. A second call returns the same handle.
///
/// [`PrometheusHandle::run_upkeep`] must be called from time to time, or histograms grow without limit; `http::serve`
/// does it.
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

/// Without buckets, the exporter makes summaries, which cannot be aggregated.
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
