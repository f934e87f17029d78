//! What others are told: one JSON object for each event.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::model::{TaskId, TaskKey, TaskRow};

/// Bytes of a text that are told; `GetTask` has the whole of it.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
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

impl Happened {
    pub(crate) const ALL: [Self; 6] =
        [Self::Started, Self::Resumed, Self::Paused, Self::Completed, Self::Failed, Self::Compressed];

    /// The word for it, in the configuration and for those who are told.
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

/// Something that has happened to a task.
#[derive(Debug, Clone)]
pub struct Event {
    pub(super) happened: Happened,
    pub(super) id: TaskId,
    /// One JSON object.
    pub(super) body: String,
}

/// What a compression did.
#[derive(Debug, Clone, Serialize)]
pub struct Compression<'a> {
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
struct Body<'a> {
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
    compression: Option<&'a Compression<'a>>,
    /// Names of the fields that were cut.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    truncated: Vec<&'static str>,
}

impl Event {
    /// By what is known of the task since; `final_summary` is of one that ended.
    pub fn new(happened: Happened, row: &TaskRow, view_generation: u64, final_summary: Option<&str>) -> Self {
        Self::with(happened, row, view_generation, final_summary, None)
    }

    /// A task's context was compressed.
    pub(crate) fn compressed(row: &TaskRow, view_generation: u64, done: &Compression<'_>) -> Self {
        Self::with(Happened::Compressed, row, view_generation, None, Some(done))
    }

    fn with(
        happened: Happened,
        row: &TaskRow,
        view_generation: u64,
        final_summary: Option<&str>,
        compression: Option<&Compression<'_>>,
    ) -> Self {
        let mut truncated = Vec::new();
        let mut cut = |name, text: Option<&'_ str>| {
            if text.is_some_and(|text| text.len() > MAX_TEXT_BYTES) {
                truncated.push(name);
            }
        };
        cut("error_message", row.error_message.as_deref());
        cut("final_summary", final_summary);
        let body = Body {
            event: happened.as_str(),
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
        // Texts, numbers and times: there is nothing that could not be written.
        let body = serde_json::to_string(&body).unwrap_or_default();
        Self { happened, id: row.uuid, body }
    }
}

/// As much of a text as is told.
fn start(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}
