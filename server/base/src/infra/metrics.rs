//! The metrics of the server: one table, and one function or guard for each metric.
//!
//! Without a recorder in the process, all calls are almost free no-ops. No label is a task, and labels with values
//! that callers choose are bounded.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{Gauge, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use super::clock::SystemClock;

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name of the metric.
    pub name: &'static str,
    /// The type of the metric.
    pub kind: MetricKind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The help text, in one line.
    pub about: &'static str,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only grows.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A distribution of values.
    Histogram,
}

impl MetricKind {
    /// Returns Prometheus' name of the type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const MESSAGES: &str = "context_messages_total";
const DB_SIZE: &str = "context_db_size_bytes";
const REQUESTS: &str = "contextstore_grpc_requests_total";
const REQUEST_DURATION: &str = "contextstore_grpc_request_duration_seconds";
const APPEND_DURATION: &str = "contextstore_append_duration_seconds";
const STREAM_BYTES: &str = "contextstore_stream_bytes_total";
const REJECTED: &str = "contextstore_rejected_total";
const STALLED: &str = "contextstore_stalled_readers_total";
const LLM_REQUESTS: &str = "contextstore_llm_requests_total";
/// Histogram of the duration of requests to providers.
pub const LLM_DURATION: &str = "contextstore_llm_request_duration_seconds";
const LLM_RETRIES: &str = "contextstore_llm_retries_total";
const LLM_TOKENS: &str = "contextstore_llm_tokens_total";
const SUMMARIES: &str = "context_summaries_total";
/// Histogram of the duration of compressions.
pub const COMPRESSION_DURATION: &str = "context_compression_duration_seconds";
const COMPRESSION_FAILURES: &str = "context_compression_failures_total";
const TRIMS: &str = "context_trims_total";
const TRIMMED_OUTPUTS: &str = "context_trimmed_outputs_total";
const BREAKERS: &str = "contextstore_breaker_open";
const OUTPUTS_PUT: &str = "contextstore_outputs_put_total";
const OUTPUT_BYTES: &str = "contextstore_output_bytes_put_total";
const OUTPUTS_REMOVED: &str = "contextstore_outputs_removed_total";
const OUTPUTS_PACKED: &str = "contextstore_outputs_packed_total";
const MASKED: &str = "contextstore_masked_total";
const LOG_DROPPED: &str = "contextstore_log_lines_dropped_total";
const HOOKS: &str = "contextstore_hooks_total";
const HOOKS_WAITING: &str = "contextstore_hooks_waiting";
const CONNECTIONS: &str = "contextstore_connections";
const READ_STREAMS: &str = "contextstore_read_streams";
const BYTES_IN_FLIGHT: &str = "contextstore_request_bytes_in_flight";
const OPEN_TASKS: &str = "contextstore_open_tasks";
const READ_ONLY: &str = "contextstore_read_only";
const BUILD_INFO: &str = "contextstore_build_info";
const RESIDENT: &str = "process_resident_memory_bytes";
const OPEN_FDS: &str = "process_open_fds";
const MAX_FDS: &str = "process_max_fds";
const START_TIME: &str = "process_start_time_seconds";

const fn metric(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    about: &'static str,
) -> Metric {
    Metric { name, kind, labels, about }
}

/// All metrics. `docs/METRICS.md` lists them too.
pub const METRICS: &[Metric] = &[
    metric(MESSAGES, MetricKind::Counter, &["task_source", "role"], "Messages appended"),
    metric(
        DB_SIZE,
        MetricKind::Gauge,
        &[],
        "Bytes on disk of all tasks and the catalog, at the last measurement",
    ),
    metric(REQUESTS, MetricKind::Counter, &["service", "method", "code"], "Calls that ended"),
    metric(
        REQUEST_DURATION,
        MetricKind::Histogram,
        &["method"],
        "Duration of calls; of a stream, from its first byte to its end",
    ),
    metric(
        APPEND_DURATION,
        MetricKind::Histogram,
        &[],
        "Time from reading a message to its acknowledgement, in unary calls and in streams",
    ),
    metric(STREAM_BYTES, MetricKind::Counter, &["method"], "Bytes of files sent to readers"),
    metric(REJECTED, MetricKind::Counter, &["reason"], "Calls and connections refused because of a limit"),
    metric(STALLED, MetricKind::Counter, &[], "Reads that ended because the reader stalled"),
    metric(
        LLM_REQUESTS,
        MetricKind::Counter,
        &["provider", "outcome"],
        "Requests to providers that ended: ok, refused, failed or interrupted",
    ),
    metric(
        LLM_DURATION,
        MetricKind::Histogram,
        &["provider"],
        "Duration of requests to providers, to the end of the answer, with all retries",
    ),
    metric(LLM_RETRIES, MetricKind::Counter, &["provider"], "Retries of requests to providers"),
    metric(
        LLM_TOKENS,
        MetricKind::Counter,
        &["provider", "kind"],
        "Tokens that providers charged: input, output, cache_creation or cache_read",
    ),
    metric(OUTPUTS_PUT, MetricKind::Counter, &["kind"], "Outputs of tools uploaded: text or binary"),
    metric(OUTPUT_BYTES, MetricKind::Counter, &[], "Bytes of outputs of tools received"),
    metric(OUTPUTS_REMOVED, MetricKind::Counter, &[], "Outputs of tools removed because no log named them"),
    metric(
        OUTPUTS_PACKED,
        MetricKind::Counter,
        &[],
        "Outputs of tools packed because their task ended or they were old",
    ),
    metric(SUMMARIES, MetricKind::Counter, &["task_source"], "Summaries that replaced messages"),
    metric(
        COMPRESSION_DURATION,
        MetricKind::Histogram,
        &["strategy"],
        "Duration of compressions, from reading the view to the new one",
    ),
    metric(
        COMPRESSION_FAILURES,
        MetricKind::Counter,
        &["reason"],
        "Compressions that failed (store), and those that fell back to the built-in summariser (summarizer)",
    ),
    metric(TRIMS, MetricKind::Counter, &[], "Rewrites that trimmed outputs of tools in a view"),
    metric(TRIMMED_OUTPUTS, MetricKind::Counter, &[], "Outputs of tools replaced by notes in a view"),
    metric(
        BREAKERS,
        MetricKind::Gauge,
        &["provider"],
        "1 if the circuit breaker of a provider is open after repeated failures, else 0",
    ),
    metric(MASKED, MetricKind::Counter, &["rule"], "Secrets masked before they were written"),
    metric(
        LOG_DROPPED,
        MetricKind::Counter,
        &[],
        "Lines of the process log dropped because stderr was blocked",
    ),
    metric(
        HOOKS,
        MetricKind::Counter,
        &["event", "outcome"],
        "Hooks that ended: ok, failed (after all retries) or dropped",
    ),
    metric(HOOKS_WAITING, MetricKind::Gauge, &[], "Events that wait for their hooks"),
    metric(CONNECTIONS, MetricKind::Gauge, &[], "Open connections"),
    metric(READ_STREAMS, MetricKind::Gauge, &[], "Active streaming reads"),
    metric(BYTES_IN_FLIGHT, MetricKind::Gauge, &[], "Bytes of requests in flight"),
    metric(OPEN_TASKS, MetricKind::Gauge, &[], "Tasks whose files are open"),
    metric(READ_ONLY, MetricKind::Gauge, &[], "1 if the store refuses writes, else 0"),
    metric(BUILD_INFO, MetricKind::Gauge, &["version"], "1; the version is in the label"),
    metric(RESIDENT, MetricKind::Gauge, &[], "Memory of the process in RAM"),
    metric(OPEN_FDS, MetricKind::Gauge, &[], "Open file handles of the process"),
    metric(MAX_FDS, MetricKind::Gauge, &[], "File handles that the process may open"),
    metric(START_TIME, MetricKind::Gauge, &[], "Start time of the process, in seconds since 1970"),
];

/// Most distinct values of the label `task_source`, which callers choose.
const MAX_SOURCES: usize = 32;

/// Longest value of the label; a longer one is counted as `other`.
const MAX_SOURCE_BYTES: usize = 64;

static SOURCES: Sources = Sources::new();

/// Describes every metric to the recorder of this process, and sets the constant ones.
pub fn describe() {
    for Metric { name, kind, about, .. } in METRICS {
        match kind {
            MetricKind::Counter => describe_counter!(*name, *about),
            MetricKind::Gauge => describe_gauge!(*name, *about),
            MetricKind::Histogram => describe_histogram!(*name, *about),
        }
    }
    gauge!(BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    let now = SystemClock::shared().now().timestamp_millis();
    gauge!(START_TIME).set(now as f64 / 1000.0);
}

/// Measures memory and file handles of the process. Without /proc, these metrics are absent rather than wrong.
pub fn measure_process() {
    if let Some(bytes) = resident_bytes() {
        gauge!(RESIDENT).set(bytes as f64);
    }
    if let Some(count) = open_files() {
        gauge!(OPEN_FDS).set(count as f64);
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        gauge!(MAX_FDS).set(most as f64);
    }
}

/// Counts an appended message.
pub fn message_appended(task_source: &str, role: &'static str) {
    counter!(MESSAGES, "task_source" => SOURCES.label(task_source), "role" => role).increment(1);
}

/// Sets the bytes of all tasks and the catalog.
pub fn set_db_size(bytes: u64) {
    gauge!(DB_SIZE).set(bytes as f64);
}

/// Counts a call that ended with a gRPC code (`OK`, `NOT_FOUND`, …). Names are static, so that callers cannot add
/// label values.
pub fn request_ended(service: &'static str, method: &'static str, code: &'static str, took: Duration) {
    counter!(REQUESTS, "service" => service, "method" => method, "code" => code).increment(1);
    histogram!(REQUEST_DURATION, "method" => method).record(took.as_secs_f64());
}

/// Records the time until a message was acknowledged.
pub fn append_took(took: Duration) {
    histogram!(APPEND_DURATION).record(took.as_secs_f64());
}

/// Counts bytes of a file that were sent to a reader.
pub fn bytes_streamed(method: &'static str, bytes: usize) {
    counter!(STREAM_BYTES, "method" => method).increment(bytes as u64);
}

/// Counts an uploaded output of a tool.
pub fn output_put(kind: &'static str) {
    counter!(OUTPUTS_PUT, "kind" => kind).increment(1);
}

/// Counts received bytes of outputs.
pub fn output_bytes_put(bytes: usize) {
    counter!(OUTPUT_BYTES).increment(bytes as u64);
}

/// Counts a dropped line of the process log.
pub fn log_line_dropped() {
    counter!(LOG_DROPPED).increment(1);
}

/// Counts removed outputs.
pub fn outputs_removed(count: u64) {
    counter!(OUTPUTS_REMOVED).increment(count);
}

/// Counts packed outputs.
pub fn outputs_packed(count: u64) {
    counter!(OUTPUTS_PACKED).increment(count);
}

/// Counts a call or a connection that was refused because of a limit.
pub fn rejected(reason: &'static str) {
    counter!(REJECTED, "reason" => reason).increment(1);
}

/// Counts a read that ended because its reader stalled.
pub fn reader_stalled() {
    counter!(STALLED).increment(1);
}

/// Counts a request to a provider that ended, with all its retries.
pub fn llm_request_ended(provider: &'static str, outcome: &'static str, took: Duration) {
    counter!(LLM_REQUESTS, "provider" => provider, "outcome" => outcome).increment(1);
    histogram!(LLM_DURATION, "provider" => provider).record(took.as_secs_f64());
}

/// Counts a retry of a request to a provider.
pub fn llm_retried(provider: &'static str) {
    counter!(LLM_RETRIES, "provider" => provider).increment(1);
}

/// Counts tokens of a kind that a provider charged.
pub fn llm_tokens(provider: &'static str, kind: &'static str, tokens: u64) {
    counter!(LLM_TOKENS, "provider" => provider, "kind" => kind).increment(tokens);
}

/// Records a compression of a view.
pub fn compressed(strategy: &'static str, took: Duration) {
    histogram!(COMPRESSION_DURATION, "strategy" => strategy).record(took.as_secs_f64());
}

/// Counts a summary that replaced messages.
pub fn summary_made(task_source: &str) {
    counter!(SUMMARIES, "task_source" => SOURCES.label(task_source)).increment(1);
}

/// Counts a compression that failed in whole or in part.
pub fn compression_failed(reason: &'static str) {
    counter!(COMPRESSION_FAILURES, "reason" => reason).increment(1);
}

/// Counts a rewrite that replaced outputs of tools by notes.
pub fn outputs_trimmed(outputs: u64) {
    counter!(TRIMS).increment(1);
    counter!(TRIMMED_OUTPUTS).increment(outputs);
}

/// Sets whether the circuit breaker of a provider is open.
pub fn set_breaker(provider: &'static str, is_open: bool) {
    gauge!(BREAKERS, "provider" => provider).set(f64::from(u8::from(is_open)));
}

/// Counts replaced secrets. The rules are those of the configuration, which bounds the label.
pub fn masked(rule: &str, times: u64) {
    counter!(MASKED, "rule" => rule.to_owned()).increment(times);
}

/// Counts a hook that ended, with all its retries, or was dropped.
pub fn hook_ended(event: &'static str, outcome: &'static str) {
    counter!(HOOKS, "event" => event, "outcome" => outcome).increment(1);
}

/// Sets the number of events that wait for their hooks.
pub fn set_hooks_waiting(count: usize) {
    gauge!(HOOKS_WAITING).set(count as f64);
}

/// Sets the number of open tasks.
pub fn set_open_tasks(count: usize) {
    gauge!(OPEN_TASKS).set(count as f64);
}

/// Sets whether the store refuses writes.
pub fn set_read_only(is_read_only: bool) {
    gauge!(READ_ONLY).set(f64::from(u8::from(is_read_only)));
}

/// Sets the number of active streaming reads.
pub fn set_read_streams(count: usize) {
    gauge!(READ_STREAMS).set(count as f64);
}

/// Sets the bytes of requests in flight.
pub fn set_bytes_in_flight(bytes: u64) {
    gauge!(BYTES_IN_FLIGHT).set(bytes as f64);
}

/// Counts an open connection until the guard is dropped.
pub fn connection() -> GaugeGuard {
    let gauge = gauge!(CONNECTIONS);
    gauge.increment(1.0);
    GaugeGuard(gauge)
}

/// A guard that counts one in a gauge while it lives.
#[must_use = "it counts as long as it lives"]
pub struct GaugeGuard(Gauge);

impl fmt::Debug for GaugeGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").finish_non_exhaustive()
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// The distinct values of the label `task_source`.
struct Sources(Mutex<BTreeSet<String>>);

impl Sources {
    const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    /// Returns the label of a source: the name of the first ones, `other` for all later ones.
    fn label(&self, source: &str) -> String {
        if source.is_empty() {
            // Prometheus treats an empty label as absent.
            return "none".to_owned();
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = source.len() <= MAX_SOURCE_BYTES && known.len() < MAX_SOURCES;
        if known.contains(source) || (fits && known.insert(source.to_owned())) {
            return source.to_owned();
        }
        "other".to_owned()
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of the kernel, not of the data directory")]
fn resident_bytes() -> Option<u64> {
    let mut status = String::new();
    std::fs::File::open("/proc/self/status").ok()?.take(64 << 10).read_to_string(&mut status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[expect(clippy::disallowed_methods, reason = "a folder of the kernel, not of the data directory")]
fn open_files() -> Option<usize> {
    let entries: io::Result<Vec<_>> = std::fs::read_dir("/proc/self/fd").ok()?.collect();
    // The listing itself holds one handle.
    Some(entries.ok()?.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_callers_are_bounded() {
        let sources = Sources::new();
        let labels: Vec<_> = (0..100).map(|number| sources.label(&format!("source-{number}"))).collect();
        assert_eq!(labels[MAX_SOURCES - 1], format!("source-{}", MAX_SOURCES - 1));
        assert!(labels[MAX_SOURCES..].iter().all(|label| label == "other"), "{labels:?}");
        assert_eq!(sources.label("source-0"), "source-0");
        assert_eq!(sources.label(""), "none");

        let sources = Sources::new();
        assert_eq!(sources.label(&"x".repeat(MAX_SOURCE_BYTES + 1)), "other");
        assert_eq!(sources.label("github"), "github");
    }
}
