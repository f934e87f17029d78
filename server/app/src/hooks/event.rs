//! The events that hooks receive: one JSON object each.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::model::{TaskId, TaskKey, TaskRow};

/// Longest text in an event; `GetTask` returns all of it.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookTrigger {
    /// A task was started.
    Started,
    /// A task was resumed.
    Resumed,
    /// A task was paused.
    Paused,
    /// A task was completed.
    Completed,
    /// A task failed.
    Failed,
    /// The view of a task was compressed.
    Compressed,
}

impl HookTrigger {
    pub(crate) const ALL: [Self; 6] =
        [Self::Started, Self::Resumed, Self::Paused, Self::Completed, Self::Failed, Self::Compressed];

    /// Returns the name in the configuration and in the event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Resumed => "resumed",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Compressed => "compressed",
        }
    }
}

/// An event of a task.
#[derive(Debug, Clone)]
pub struct HookEvent {
    pub(super) trigger: HookTrigger,
    pub(super) id: TaskId,
    /// One JSON object.
    pub(super) body: String,
}

/// The result of a compression.
#[derive(Debug, Clone, Serialize)]
pub struct CompressionReport<'a> {
    pub(crate) strategy: &'static str,
    pub(crate) automatic: bool,
    pub(crate) emergency: bool,
    pub(crate) messages_before: u64,
    pub(crate) messages_after: u64,
    pub(crate) tokens_before: u64,
    pub(crate) tokens_after: u64,
    pub(crate) summary_id: u64,
    pub(crate) summarizer: &'a str,
    pub(crate) model: &'a str,
}

#[derive(Serialize)]
struct HookBody<'a> {
    event: &'static str,
    task_uuid: String,
    key: &'a TaskKey,
    user: &'a str,
    status: &'static str,
    time: DateTime<Utc>,
    view_generation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    final_summary: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<&'a CompressionReport<'a>>,
    /// Names of the fields that were truncated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    truncated: Vec<&'static str>,
}

impl HookEvent {
    /// Returns an event about a task. `final_summary` is set when a task ends.
    pub fn new(
        trigger: HookTrigger,
        row: &TaskRow,
        view_generation: u64,
        final_summary: Option<&str>,
    ) -> Self {
        Self::with(trigger, row, view_generation, final_summary, None)
    }

    /// Returns the event for a compressed context.
    pub(crate) fn compressed(row: &TaskRow, view_generation: u64, done: &CompressionReport<'_>) -> Self {
        Self::with(HookTrigger::Compressed, row, view_generation, None, Some(done))
    }

    fn with(
        trigger: HookTrigger,
        row: &TaskRow,
        view_generation: u64,
        final_summary: Option<&str>,
        compression: Option<&CompressionReport<'_>>,
    ) -> Self {
        let mut truncated = Vec::new();
        let mut cut = |name, text: Option<&'_ str>| {
            if text.is_some_and(|text| text.len() > MAX_TEXT_BYTES) {
                truncated.push(name);
            }
        };
        cut("error_message", row.error_message.as_deref());
        cut("final_summary", final_summary);
        let body = HookBody {
            event: trigger.as_str(),
            task_uuid: row.uuid.to_string(),
            key: &row.key,
            user: &row.user,
            status: row.status.as_str(),
            time: row.updated_at,
            view_generation,
            error_message: row.error_message.as_deref().map(start),
            final_summary: final_summary.map(start),
            compression,
            truncated,
        };
        // The body holds only texts, numbers and times, which always serialise.
        let body = serde_json::to_string(&body).unwrap_or_default();
        Self { trigger, id: row.uuid, body }
    }
}

/// Returns the start of a text, up to the limit.
fn start(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}
