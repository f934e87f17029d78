//! What the server counts and measures: one table of metrics, and one function or guard for each.
//!
//! Without a recorder in the process everything here does nothing and costs next to nothing. No label is a task, and
//! labels that callers choose are bounded.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{Gauge, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use super::clock::SystemClock;

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// What it is told apart by.
    pub labels: &'static [&'static str],
    /// What it is, in one line.
    pub about: &'static str,
}

/// How a metric behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How often which size.
    Histogram,
}

impl MetricKind {
    /// The word that Prometheus has for it.
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
/// The duration of requests to providers.
pub const LLM_DURATION: &str = "contextstore_llm_request_duration_seconds";
const LLM_RETRIES: &str = "contextstore_llm_retries_total";
const LLM_TOKENS: &str = "contextstore_llm_tokens_total";
const SUMMARIES: &str = "context_summaries_total";
/// The duration of compressions.
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

/// Every metric there is. `docs/METRICS.md` lists them too.
pub const METRICS: &[Metric] = &[
    metric(MESSAGES, MetricKind::Counter, &["task_source", "role"], "Messages appended"),
    metric(
        DB_SIZE,
        MetricKind::Gauge,
        &[],
        "Bytes that all tasks and the catalog take on disk, when last measured",
    ),
    metric(REQUESTS, MetricKind::Counter, &["service", "method", "code"], "Calls that ended"),
    metric(
        REQUEST_DURATION,
        MetricKind::Histogram,
        &["method"],
        "How long calls took; of a stream, from its first byte to its end",
    ),
    metric(
        APPEND_DURATION,
        MetricKind::Histogram,
        &[],
        "From a message read to its acknowledgement, in unary calls and in streams",
    ),
    metric(STREAM_BYTES, MetricKind::Counter, &["method"], "Bytes of files sent to readers"),
    metric(REJECTED, MetricKind::Counter, &["reason"], "Calls and connections refused because of a limit"),
    metric(STALLED, MetricKind::Counter, &[], "Reads that ended because the reader took nothing"),
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
        "From a request to a provider to the end of its answer, with all tries",
    ),
    metric(LLM_RETRIES, MetricKind::Counter, &["provider"], "Requests to providers that were sent again"),
    metric(
        LLM_TOKENS,
        MetricKind::Counter,
        &["provider", "kind"],
        "Tokens that providers charged: input, output, cache_creation or cache_read",
    ),
    metric(OUTPUTS_PUT, MetricKind::Counter, &["kind"], "Outputs of tools put: text or binary"),
    metric(OUTPUT_BYTES, MetricKind::Counter, &[], "Bytes of outputs of tools received"),
    metric(OUTPUTS_REMOVED, MetricKind::Counter, &[], "Outputs of tools removed, as no log named them"),
    metric(
        OUTPUTS_PACKED,
        MetricKind::Counter,
        &[],
        "Outputs of tools packed, as their task ended or they were old",
    ),
    metric(SUMMARIES, MetricKind::Counter, &["task_source"], "Summaries put in the place of messages"),
    metric(
        COMPRESSION_DURATION,
        MetricKind::Histogram,
        &["strategy"],
        "From looking at a view to a smaller one in its place",
    ),
    metric(
        COMPRESSION_FAILURES,
        MetricKind::Counter,
        &["reason"],
        "Compressions that failed (store), and those in which the built-in summariser had to step in (summarizer)",
    ),
    metric(TRIMS, MetricKind::Counter, &[], "Rewrites that trimmed outputs of tools in a view"),
    metric(TRIMMED_OUTPUTS, MetricKind::Counter, &[], "Outputs of tools that became notes in a view"),
    metric(
        BREAKERS,
        MetricKind::Gauge,
        &["provider"],
        "1 if a model is not asked for summaries, as it failed too often",
    ),
    metric(MASKED, MetricKind::Counter, &["rule"], "Secrets that were replaced before anything was written"),
    metric(LOG_DROPPED, MetricKind::Counter, &[], "Lines of the process log that stderr did not take"),
    metric(
        HOOKS,
        MetricKind::Counter,
        &["event", "outcome"],
        "Hooks that ended: ok, failed (with all tries) or dropped",
    ),
    metric(HOOKS_WAITING, MetricKind::Gauge, &[], "Events that wait for their hooks"),
    metric(CONNECTIONS, MetricKind::Gauge, &[], "Open connections"),
    metric(READ_STREAMS, MetricKind::Gauge, &[], "Streaming reads that are going on"),
    metric(BYTES_IN_FLIGHT, MetricKind::Gauge, &[], "Bytes of the requests that are being worked on"),
    metric(OPEN_TASKS, MetricKind::Gauge, &[], "Tasks whose files are open"),
    metric(READ_ONLY, MetricKind::Gauge, &[], "1 if no writes are taken, else 0"),
    metric(BUILD_INFO, MetricKind::Gauge, &["version"], "1; the version is in the label"),
    metric(RESIDENT, MetricKind::Gauge, &[], "Memory of the process in RAM"),
    metric(OPEN_FDS, MetricKind::Gauge, &[], "Open file handles of the process"),
    metric(MAX_FDS, MetricKind::Gauge, &[], "File handles that the process may open"),
    metric(START_TIME, MetricKind::Gauge, &[], "When the process started, in seconds since 1970"),
];

/// Values of `task_source` that are told apart; callers choose them.
const MAX_SOURCES: usize = 32;

/// A longer one is no name of a source.
const MAX_SOURCE_BYTES: usize = 64;

static SOURCES: Sources = Sources::new();

/// Describes every metric to the recorder of this process, and sets those that never change.
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

/// Reads memory and file handles of the process from the system. Where there is no /proc, the values are missing
/// rather than wrong.
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

/// A message was appended.
pub fn message_appended(task_source: &str, role: &'static str) {
    counter!(MESSAGES, "task_source" => SOURCES.label(task_source), "role" => role).increment(1);
}

/// How many bytes all tasks and the catalog take.
pub fn set_db_size(bytes: u64) {
    gauge!(DB_SIZE).set(bytes as f64);
}

/// A call ended with a gRPC code (`OK`, `NOT_FOUND`, …). Names are static, so that no caller can invent some.
pub fn request_ended(service: &'static str, method: &'static str, code: &'static str, took: Duration) {
    counter!(REQUESTS, "service" => service, "method" => method, "code" => code).increment(1);
    histogram!(REQUEST_DURATION, "method" => method).record(took.as_secs_f64());
}

/// A message was acknowledged.
pub fn append_took(took: Duration) {
    histogram!(APPEND_DURATION).record(took.as_secs_f64());
}

/// Bytes of a file were sent to a reader.
pub fn bytes_streamed(method: &'static str, bytes: usize) {
    counter!(STREAM_BYTES, "method" => method).increment(bytes as u64);
}

/// An output of a tool was put.
pub fn output_put(kind: &'static str) {
    counter!(OUTPUTS_PUT, "kind" => kind).increment(1);
}

/// Bytes of an output have come.
pub fn output_bytes_put(bytes: usize) {
    counter!(OUTPUT_BYTES).increment(bytes as u64);
}

/// A line of the process log was dropped.
pub fn log_line_dropped() {
    counter!(LOG_DROPPED).increment(1);
}

/// Outputs were removed.
pub fn outputs_removed(count: u64) {
    counter!(OUTPUTS_REMOVED).increment(count);
}

/// Outputs were packed.
pub fn outputs_packed(count: u64) {
    counter!(OUTPUTS_PACKED).increment(count);
}

/// A call or a connection was refused because of a limit.
pub fn rejected(reason: &'static str) {
    counter!(REJECTED, "reason" => reason).increment(1);
}

/// A read ended because the reader took nothing.
pub fn reader_stalled() {
    counter!(STALLED).increment(1);
}

/// A request to a provider ended, with all its tries.
pub fn llm_request_ended(provider: &'static str, outcome: &'static str, took: Duration) {
    counter!(LLM_REQUESTS, "provider" => provider, "outcome" => outcome).increment(1);
    histogram!(LLM_DURATION, "provider" => provider).record(took.as_secs_f64());
}

/// A request to a provider is sent again.
pub fn llm_retried(provider: &'static str) {
    counter!(LLM_RETRIES, "provider" => provider).increment(1);
}

/// A provider charged tokens of a kind.
pub fn llm_tokens(provider: &'static str, kind: &'static str, tokens: u64) {
    counter!(LLM_TOKENS, "provider" => provider, "kind" => kind).increment(tokens);
}

/// A view was compressed.
pub fn compressed(strategy: &'static str, took: Duration) {
    histogram!(COMPRESSION_DURATION, "strategy" => strategy).record(took.as_secs_f64());
}

/// A summary was put in the place of messages.
pub fn summary_made(task_source: &str) {
    counter!(SUMMARIES, "task_source" => SOURCES.label(task_source)).increment(1);
}

/// A compression failed, wholly or in part.
pub fn compression_failed(reason: &'static str) {
    counter!(COMPRESSION_FAILURES, "reason" => reason).increment(1);
}

/// Outputs of tools became notes, by one rewrite.
pub fn outputs_trimmed(outputs: u64) {
    counter!(TRIMS).increment(1);
    counter!(TRIMMED_OUTPUTS).increment(outputs);
}

/// Whether a model is not asked for summaries.
pub fn set_breaker(provider: &'static str, is_open: bool) {
    gauge!(BREAKERS, "provider" => provider).set(f64::from(u8::from(is_open)));
}

/// Secrets were replaced. The rules are those of the configuration, so their names are few.
pub fn masked(rule: &str, times: u64) {
    counter!(MASKED, "rule" => rule.to_owned()).increment(times);
}

/// A hook ended, with all its tries, or was never tried.
pub fn hook_ended(event: &'static str, outcome: &'static str) {
    counter!(HOOKS, "event" => event, "outcome" => outcome).increment(1);
}

/// How many events wait for their hooks.
pub fn set_hooks_waiting(count: usize) {
    gauge!(HOOKS_WAITING).set(count as f64);
}

/// How many tasks are open.
pub fn set_open_tasks(count: usize) {
    gauge!(OPEN_TASKS).set(count as f64);
}

/// Whether writes are refused.
pub fn set_read_only(is_read_only: bool) {
    gauge!(READ_ONLY).set(f64::from(u8::from(is_read_only)));
}

/// How many streaming reads are going on.
pub fn set_read_streams(count: usize) {
    gauge!(READ_STREAMS).set(count as f64);
}

/// How many bytes of requests are in flight.
pub fn set_bytes_in_flight(bytes: u64) {
    gauge!(BYTES_IN_FLIGHT).set(bytes as f64);
}

/// Counts an open connection, until it is dropped.
pub fn connection() -> Counted {
    let gauge = gauge!(CONNECTIONS);
    gauge.increment(1.0);
    Counted(gauge)
}

/// What is counted as long as this lives.
#[must_use = "it counts as long as it lives"]
pub struct Counted(Gauge);

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").finish_non_exhaustive()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// The values of `task_source` that are told apart.
struct Sources(Mutex<BTreeSet<String>>);

impl Sources {
    const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    /// A source as a label: the first ones by name, all others together.
    fn label(&self, source: &str) -> String {
        if source.is_empty() {
            // An empty label is none to Prometheus.
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
    // One of them is the listing itself.
    Some(entries.ok()?.len().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_cannot_make_labels_without_end() {
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
