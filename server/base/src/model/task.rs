//! What a task is: its key, configuration, status, and the row that the catalog keeps of it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{InstanceId, InvalidField, StoreError, TaskId};

/// Where a task comes from: the issue or pull request it works on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskKey {
    /// `github`, `gitlab`, …
    pub task_source: String,
    /// Owner of the repository.
    pub owner: String,
    /// Name of the repository.
    pub repo: String,
    /// `issue`, `pull_request`, …; compared exactly.
    pub task_type: String,
    /// The number or name of the issue.
    pub task_id: String,
}

impl TaskKey {
    /// `owner/repo`, or what there is of it.
    pub fn repository(&self) -> String {
        match (self.owner.is_empty(), self.repo.is_empty()) {
            (true, _) => self.repo.clone(),
            (false, true) => self.owner.clone(),
            (false, false) => format!("{}/{}", self.owner, self.repo),
        }
    }
}

/// How far a record must have come before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// On disk; syncs are shared by everything that arrived meanwhile.
    #[default]
    Group,
    /// On disk, by a sync of its own.
    Each,
    /// In the operating system's cache: survives a killed process, not a power cut.
    Process,
}

/// The configuration of a task. Keys the core does not use are kept as they came.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TaskConfig {
    /// The provider the agent talks to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub llm_provider: String,
    /// The model the agent talks to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Tokens the model takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u64>,
    /// Overrides the server's durability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Everything else.
    #[serde(flatten)]
    pub other: serde_json::Map<String, serde_json::Value>,
}

/// The client that works on a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Random per client; the lease belongs to it.
    pub instance_id: InstanceId,
    /// For people who look.
    #[serde(default)]
    pub process_id: u32,
    /// For people who look.
    #[serde(default)]
    pub hostname: String,
}

/// What stands in `metadata.json`: written once, when the task is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// Version of the formats in the task's directory.
    pub format_version: u32,
    /// The task.
    pub uuid: TaskId,
    /// Where it comes from.
    pub task_key: TaskKey,
    /// `owner/repo`.
    pub repository: String,
    /// Who it is for.
    pub user: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// The first holder's.
    pub process_id: u32,
    /// The first holder's.
    pub hostname: String,
    /// As it was at the start; `config` events change it.
    pub config: TaskConfig,
    /// The task that it took over from, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<InheritedFrom>,
}

/// A task that ended, as the one that took over from it knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InheritedFrom {
    /// Which.
    pub uuid: TaskId,
    /// How it ended.
    pub status: Status,
    /// When it ended.
    pub completed_at: DateTime<Utc>,
}

impl InheritedFrom {
    /// How and when it ended, in words.
    pub fn ending(&self) -> String {
        let time = self.completed_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        format!("{} {time}", self.status.as_str())
    }

    /// A comment for people.
    pub fn comment(&self) -> String {
        let time = self.completed_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        let (uuid, status) = (self.uuid, self.status.as_str());
        format!(
            "This work goes on from an earlier task, whose summary and plans were taken over.\n\n\
             - Task: `{uuid}`\n- Status: {status}\n- Ended: {time}\n"
        )
    }
}

/// What a task is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Being worked on.
    Running,
    /// Put aside; can be resumed.
    Paused,
    /// Ended well.
    Completed,
    /// Ended with an error.
    Failed,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Running, Self::Paused, Self::Completed, Self::Failed];

    /// The word used in files, the catalog and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn parse(text: &str) -> Result<Self, InvalidField> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| InvalidField::new("status", "is not running, paused, completed or failed"))
    }

    /// Whether nothing can follow it.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// Whether a task can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It can.
    #[default]
    Ok,
    /// Its log is damaged: it can be read as far as it goes, not written.
    Quarantined,
    /// The catalog knows it, but there is no directory of it.
    Missing,
    /// A newer version of contextstore wrote it.
    NewerFormat,
}

impl Health {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Quarantined, Self::Missing, Self::NewerFormat];

    /// The word used in the catalog.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Quarantined => "quarantined",
            Self::Missing => "missing",
            Self::NewerFormat => "newer_format",
        }
    }
}

/// A task's row in the catalog; also what `task.json` holds once the task has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRow {
    /// The task.
    pub uuid: TaskId,
    /// Where it comes from.
    #[serde(flatten)]
    pub key: TaskKey,
    /// `owner/repo`.
    pub repository: String,
    /// What it is doing.
    pub status: Status,
    /// Whether it can be used.
    #[serde(default)]
    pub health: Health,
    /// Who it is for.
    pub user: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When work on it began.
    pub started_at: DateTime<Utc>,
    /// When its log was last written.
    pub updated_at: DateTime<Utc>,
    /// When it ended.
    pub completed_at: Option<DateTime<Utc>>,
    /// The newest holder's.
    pub process_id: u32,
    /// The newest holder's.
    pub hostname: String,
    /// The provider the agent talks to.
    pub llm_provider: String,
    /// The model the agent talks to.
    pub model: String,
    /// Tokens the model takes.
    pub context_length: Option<u64>,
    /// Calls of the LLM that were reported.
    pub llm_call_count: u64,
    /// Tool calls that were reported or recorded.
    pub tool_call_count: u64,
    /// Tokens that were reported.
    pub total_tokens: u64,
    /// Compactions that were published.
    pub compression_count: u64,
    /// Messages in the log.
    pub total_messages: u64,
    /// Summaries in the log.
    pub total_summaries: u64,
    /// Records in `tools.jsonl`.
    pub total_tool_calls: u64,
    /// Tokens of the view when the task ended.
    pub final_token_count: Option<u64>,
    /// Messages of the view when the task ended.
    pub final_message_count: Option<u64>,
    /// Why it failed.
    pub error_message: Option<String>,
    /// `metadata.json` as it is.
    pub metadata: serde_json::Value,
}

/// Which tasks to list. Empty fields match everything.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// Any of these.
    pub statuses: Vec<Status>,
    /// Exactly this.
    pub task_source: Option<String>,
    /// Exactly this.
    pub owner: Option<String>,
    /// Exactly this.
    pub repo: Option<String>,
    /// Exactly this.
    pub task_type: Option<String>,
    /// Exactly this.
    pub task_id: Option<String>,
    /// Exactly this.
    pub user: Option<String>,
    /// Made at or after.
    pub created_from: Option<DateTime<Utc>>,
    /// Made before.
    pub created_before: Option<DateTime<Utc>>,
}

/// In which order to list. Ties are broken by id, so pages neither repeat nor lose a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskOrder {
    /// Newest made first.
    #[default]
    CreatedDescending,
    /// Oldest made first.
    CreatedAscending,
    /// Last written first.
    UpdatedDescending,
    /// Longest untouched first.
    UpdatedAscending,
}

/// One page of a listing.
#[derive(Debug, Clone)]
pub struct Page {
    /// The rows.
    pub rows: Vec<TaskRow>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<String>,
}

impl TaskKey {
    /// Longest of each part, in bytes.
    pub const MAX_BYTES: usize = 1024;

    /// Refuses parts that are too long or hold control characters.
    pub fn validate(&self) -> Result<(), StoreError> {
        let parts = [
            ("key.task_source", &self.task_source),
            ("key.owner", &self.owner),
            ("key.repo", &self.repo),
            ("key.task_type", &self.task_type),
            ("key.task_id", &self.task_id),
        ];
        for (field, value) in parts {
            plain_text(field, value)?;
        }
        Ok(())
    }
}

/// Refuses text that is longer than [`TaskKey::MAX_BYTES`] or holds control characters.
pub fn plain_text(field: &'static str, value: &str) -> Result<(), InvalidField> {
    if value.len() > TaskKey::MAX_BYTES {
        return Err(InvalidField::new(field, "is longer than 1024 bytes"));
    }
    if value.chars().any(char::is_control) {
        return Err(InvalidField::new(field, "has control characters"));
    }
    Ok(())
}
