//! A task: its key, configuration and status, and its row in the catalog.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{InstanceId, InvalidField, StoreError, TaskId};

/// The origin of a task: the issue or pull request that it works on.
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
    /// Returns `owner/repo`, or the part of it that is set.
    pub fn repository(&self) -> String {
        match (self.owner.is_empty(), self.repo.is_empty()) {
            (true, _) => self.repo.clone(),
            (false, true) => self.owner.clone(),
            (false, false) => format!("{}/{}", self.owner, self.repo),
        }
    }
}

/// The point at which a record is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// On disk; one sync serves all records that arrived meanwhile.
    #[default]
    Group,
    /// On disk, after a separate sync.
    Each,
    /// In the operating system's cache, which survives a killed process but not a power cut.
    Process,
}

/// The configuration of a task. Keys that the core does not use are kept unchanged.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TaskConfig {
    /// The provider that the agent uses.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub llm_provider: String,
    /// The model that the agent uses.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The context length of the model, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u64>,
    /// Overrides the server's durability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// All other keys.
    #[serde(flatten)]
    pub other: serde_json::Map<String, serde_json::Value>,
}

/// The client that works on a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The id of the client, random per process; it owns the lease.
    pub instance_id: InstanceId,
    /// The process of the client, for diagnosis.
    #[serde(default)]
    pub process_id: u32,
    /// The host of the client, for diagnosis.
    #[serde(default)]
    pub hostname: String,
}

/// The contents of `metadata.json`, written once, when the task is created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// Version of the formats in the task's directory.
    pub format_version: u32,
    /// The task.
    pub uuid: TaskId,
    /// The origin of the task.
    pub task_key: TaskKey,
    /// `owner/repo`.
    pub repository: String,
    /// The user of the task.
    pub user: String,
    /// The time of creation.
    pub created_at: DateTime<Utc>,
    /// The process of the first holder.
    pub process_id: u32,
    /// The host of the first holder.
    pub hostname: String,
    /// The configuration at the start; `config` events change it.
    pub config: TaskConfig,
    /// The task whose context was inherited, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherited_from: Option<InheritedFrom>,
}

/// An ended task, as recorded by the task that inherited from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InheritedFrom {
    /// The id of the ended task.
    pub uuid: TaskId,
    /// The final status.
    pub status: Status,
    /// The time of its end.
    pub completed_at: DateTime<Utc>,
}

impl InheritedFrom {
    /// Returns the final status and its time as text.
    pub fn ending(&self) -> String {
        let time = self.completed_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        format!("{} {time}", self.status.as_str())
    }

    /// Returns a Markdown comment for people.
    pub fn comment(&self) -> String {
        let time = self.completed_at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        let (uuid, status) = (self.uuid, self.status.as_str());
        format!(
            "This task continues an earlier one, whose summary and plans it inherited.\n\n\
             - Task: `{uuid}`\n- Status: {status}\n- Ended: {time}\n"
        )
    }
}

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// In progress.
    Running,
    /// Suspended; can be resumed.
    Paused,
    /// Ended successfully.
    Completed,
    /// Ended with an error.
    Failed,
}

impl Status {
    /// All statuses.
    pub const ALL: [Self; 4] = [Self::Running, Self::Paused, Self::Completed, Self::Failed];

    /// Returns the name used in files, the catalog and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Parses the name used in files, the catalog and messages.
    pub fn parse(text: &str) -> Result<Self, InvalidField> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| InvalidField::new("status", "must be running, paused, completed or failed"))
    }

    /// Returns whether no other status can follow.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// The usability of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Readable and writable.
    #[default]
    Ok,
    /// The log is damaged: it can be read up to the damage, and not written.
    Quarantined,
    /// The catalog has a row, but the directory is missing.
    Missing,
    /// A newer version of contextstore wrote the task.
    NewerFormat,
}

impl Health {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Quarantined, Self::Missing, Self::NewerFormat];

    /// Returns the name used in the catalog.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Quarantined => "quarantined",
            Self::Missing => "missing",
            Self::NewerFormat => "newer_format",
        }
    }
}

/// A task's row in the catalog; also the contents of `task.json` once the task has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRow {
    /// The task.
    pub uuid: TaskId,
    /// The origin of the task.
    #[serde(flatten)]
    pub key: TaskKey,
    /// `owner/repo`.
    pub repository: String,
    /// The status.
    pub status: Status,
    /// The usability.
    #[serde(default)]
    pub health: Health,
    /// The user of the task.
    pub user: String,
    /// The time of creation.
    pub created_at: DateTime<Utc>,
    /// The time at which work began.
    pub started_at: DateTime<Utc>,
    /// The time of the last write to the log.
    pub updated_at: DateTime<Utc>,
    /// The time of the end.
    pub completed_at: Option<DateTime<Utc>>,
    /// The process of the newest holder.
    pub process_id: u32,
    /// The host of the newest holder.
    pub hostname: String,
    /// The provider that the agent uses.
    pub llm_provider: String,
    /// The model that the agent uses.
    pub model: String,
    /// The context length of the model, in tokens.
    pub context_length: Option<u64>,
    /// Reported calls of the LLM.
    pub llm_call_count: u64,
    /// Reported or recorded tool calls.
    pub tool_call_count: u64,
    /// Reported tokens.
    pub total_tokens: u64,
    /// Published compactions.
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
    /// The error of a failed task.
    pub error_message: Option<String>,
    /// The contents of `metadata.json`.
    pub metadata: serde_json::Value,
}

/// A filter of tasks. Empty fields match everything.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// Any of these statuses.
    pub statuses: Vec<Status>,
    /// The exact source.
    pub task_source: Option<String>,
    /// The exact owner.
    pub owner: Option<String>,
    /// The exact repository.
    pub repo: Option<String>,
    /// The exact type.
    pub task_type: Option<String>,
    /// The exact id of the issue.
    pub task_id: Option<String>,
    /// The exact user.
    pub user: Option<String>,
    /// The earliest time of creation, inclusive.
    pub created_from: Option<DateTime<Utc>>,
    /// The latest time of creation, exclusive.
    pub created_before: Option<DateTime<Utc>>,
}

/// The order of a listing. Ties are broken by id, so pages neither repeat nor skip a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TaskOrder {
    /// Newest creation first.
    #[default]
    CreatedDescending,
    /// Oldest creation first.
    CreatedAscending,
    /// Last write first.
    UpdatedDescending,
    /// Oldest write first.
    UpdatedAscending,
}

/// One page of a listing.
#[derive(Debug, Clone)]
pub struct Page {
    /// The rows.
    pub rows: Vec<TaskRow>,
    /// The token of the next page; `None` at the end.
    pub next: Option<String>,
}

impl TaskKey {
    /// Longest part of a key, in bytes.
    pub const MAX_BYTES: usize = 1024;

    /// Rejects parts that are too long or hold control characters.
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

/// Rejects text that is longer than [`TaskKey::MAX_BYTES`] or holds control characters.
pub fn plain_text(field: &'static str, value: &str) -> Result<(), InvalidField> {
    if value.len() > TaskKey::MAX_BYTES {
        return Err(InvalidField::new(field, "is longer than 1024 bytes"));
    }
    if value.chars().any(char::is_control) {
        return Err(InvalidField::new(field, "must not have control characters"));
    }
    Ok(())
}
