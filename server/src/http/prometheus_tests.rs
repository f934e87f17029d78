//! The metrics as a scrape shows them.

use std::collections::BTreeMap;

use std::time::Duration;

use super::*;
use crate::infra::metrics::*;

/// What a recorder of its own has after some work.
fn after(work: impl FnOnce()) -> String {
    let recorder = builder().unwrap().build_recorder();
    let handle = recorder.handle();
    ::metrics::with_local_recorder(&recorder, || {
        describe();
        work();
        render(&handle)
    })
}

/// Touches every metric once.
fn everything() -> GaugeGuard {
    message_appended("github", "user");
    set_db_size(4096);
    request_ended("contextstore.v1.ContextStore", "AppendMessage", "OK", Duration::from_millis(3));
    append_took(Duration::from_micros(700));
    bytes_streamed("StreamCurrent", 512);
    log_line_dropped();
    rejected("connections");
    reader_stalled();
    llm_request_ended("openai", "ok", Duration::from_secs(3));
    llm_retried("openai");
    llm_tokens("openai", "input", 12);
    summary_made("github");
    compressed("summarize", Duration::from_millis(20));
    compression_failed("summarizer");
    output_put("text");
    output_bytes_put(10);
    outputs_removed(1);
    outputs_packed(1);
    outputs_trimmed(3);
    masked("github_token", 1);
    set_breaker("openai", true);
    hook_ended("completed", "ok");
    set_hooks_waiting(1);
    set_open_tasks(2);
    set_read_only(true);
    set_read_streams(3);
    set_bytes_in_flight(24);
    connection()
}

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "{line}\n{text}");
}

#[test]
fn every_metric_of_the_table_is_exported_with_its_type_its_words_and_its_labels() {
    let mut held = None;
    let text = after(|| held = Some(everything()));
    let mut kinds = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        kinds.insert(name.to_owned(), kind.to_owned());
    }
    let table: BTreeMap<_, _> =
        METRICS.iter().map(|metric| (metric.name.to_owned(), metric.kind.as_str().to_owned())).collect();
    assert_eq!(kinds, table);
    for Metric { name, labels, about, .. } in METRICS {
        has(&text, &format!("# HELP {name} {about}"));
        let sample = text.lines().find(|line| line.starts_with(name)).unwrap();
        let found = sample.split(['{', '}']).nth(1).unwrap_or_default();
        let found: Vec<_> =
            found.split(',').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name).collect();
        let found: Vec<_> = found.into_iter().filter(|label| *label != "le").collect();
        assert_eq!(&found, labels, "{sample}");
    }
}

#[test]
fn what_is_counted_stands_in_the_scrape() {
    let mut held = None;
    let text = after(|| {
        drop(everything());
        held = Some(connection());
    });
    has(&text, "context_messages_total{task_source=\"github\",role=\"user\"} 1");
    has(
        &text,
        "contextstore_grpc_requests_total{service=\"contextstore.v1.ContextStore\",method=\"AppendMessage\",code=\"OK\"} 1",
    );
    has(&text, "contextstore_grpc_request_duration_seconds_bucket{method=\"AppendMessage\",le=\"0.0025\"} 0");
    has(&text, "contextstore_grpc_request_duration_seconds_bucket{method=\"AppendMessage\",le=\"0.005\"} 1");
    has(&text, "contextstore_append_duration_seconds_count 1");
    has(&text, "contextstore_stream_bytes_total{method=\"StreamCurrent\"} 512");
    has(&text, "contextstore_connections 1");
    has(&text, "contextstore_request_bytes_in_flight 24");
    has(&text, "contextstore_read_only 1");
}

#[test]
fn the_process_is_measured_at_each_scrape() {
    let value = |text: &str, name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name}\n{text}")).parse().unwrap()
    };
    let text = after(|| ());
    assert!(
        value(&text, "process_resident_memory_bytes") > 1e6
            && value(&text, "process_resident_memory_bytes") < 1e10
    );
    assert!(
        value(&text, "process_open_fds") >= 3.0
            && value(&text, "process_open_fds") <= value(&text, "process_max_fds")
    );
    // After 2020 and, as a number of seconds, before 2100.
    assert!((1.5e9..4.1e9).contains(&value(&text, "process_start_time_seconds")));
}
