//! The log of the process: lines on stderr, as text for people or as JSON for programs.
//!
//! A filter in the syntax of tracing selects the lines: `info`, or `warn,contextstore=debug`. Metrics are in
//! [`crate::infra::metrics`].

mod queue;

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use queue::LineQueue;
use tracing_subscriber::EnvFilter;

/// Environment variable with a filter that overrides the configuration.
pub const FILTER_VARIABLE: &str = "CONTEXTSTORE_LOG";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The reason why the log cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error("{FILTER_VARIABLE}: {0}")]
    Filter(BadFilter),
    /// The filter is not UTF-8.
    #[error("{FILTER_VARIABLE} is not UTF-8")]
    NotText,
    /// The process already has a log.
    #[error("the log was started before")]
    Started,
    /// The thread that writes the log cannot be started.
    #[error("the thread that writes the log could not be started")]
    Thread(#[source] io::Error),
}

/// An invalid part of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadFilter {
    /// The part.
    pub part: String,
}

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = LEVELS.join(", ");
        write!(f, "{:?} is neither a level ({levels}) nor a target with one (target=level)", self.part)
    }
}

/// Checks a filter.
pub fn check_filter(filter: &str) -> Result<(), BadFilter> {
    read(filter).map(drop)
}

/// A single word must be a level: tracing would take another word for a target and log nothing else.
fn read(filter: &str) -> Result<EnvFilter, BadFilter> {
    let bad = |part: &str| BadFilter { part: part.to_owned() };
    let parts: Vec<_> = filter.split(',').map(str::trim).collect();
    for part in &parts {
        let is_level = LEVELS.iter().any(|level| part.eq_ignore_ascii_case(level));
        if !is_level && !part.contains(['=', '[', ']', '{', '}']) {
            return Err(bad(part));
        }
    }
    EnvFilter::try_new(parts.join(",")).map_err(|_| bad(filter))
}

/// The queue of lines for stderr, once the log is started.
static LINES: OnceLock<LineQueue> = OnceLock::new();

/// Starts the log of a server. Lines pass through `mask`, because some quote providers and programs. Logging never
/// fails and never blocks: a line that stderr does not accept is dropped and counted.
pub fn start(
    format: LogFormat,
    filter: &str,
    mask: impl Fn(&str) -> String + Send + 'static,
) -> Result<(), TelemetryError> {
    let filter = read(filter).map_err(TelemetryError::Filter)?;
    let lines = LineQueue::start(mask, io::stderr()).map_err(TelemetryError::Thread)?;
    LINES.set(lines.clone()).map_err(|_| TelemetryError::Started)?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || lines.clone());
    let started = match format {
        LogFormat::Text => log.with_ansi(wants_colour()).try_init(),
        LogFormat::Json => log.json().flatten_event(true).with_span_list(false).try_init(),
    };
    started.map_err(|_| TelemetryError::Started)
}

/// Waits up to a second until queued lines are written. A process calls this before it exits.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush();
    }
}

/// Starts the log of a command other than `serve`: it is off unless the environment sets a filter.
pub fn start_if_asked(mask: impl Fn(&str) -> String + Send + 'static) -> Result<(), TelemetryError> {
    match std::env::var_os(FILTER_VARIABLE) {
        None => Ok(()),
        Some(filter) => start(LogFormat::Text, filter.to_str().ok_or(TelemetryError::NotText)?, mask),
    }
}

fn wants_colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_levels_and_targets_with_levels() {
        for good in ["info", "OFF", "warn,contextstore=debug", "info, h2=off", "contextstore[x]=trace"] {
            assert_eq!(check_filter(good), Ok(()), "{good}");
        }
        for (bad, part) in
            [("inof", "inof"), ("info,h2", "h2"), ("info,", ""), ("h2=loud", "h2=loud"), ("", "")]
        {
            assert_eq!(check_filter(bad), Err(BadFilter { part: part.to_owned() }), "{bad}");
        }
    }
}
