//! The layout of a data directory. The only place that makes paths.

use crate::infra::fs::{Name, StorePath};
use crate::model::{Status, TaskId};

/// A folder that holds task directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Folder {
    /// Tasks that are worked on.
    Running,
    /// Tasks that were put aside.
    Paused,
    /// Tasks that ended, well or not.
    Completed,
    /// Tasks whose logs are damaged.
    Quarantine,
}

impl Folder {
    /// Those a healthy task can be in, live ones first.
    pub const HEALTHY: [Self; 3] = [Self::Running, Self::Paused, Self::Completed];

    /// Returns where a task of a status belongs.
    pub fn of(status: Status) -> Self {
        match status {
            Status::Running => Self::Running,
            Status::Paused => Self::Paused,
            Status::Completed | Status::Failed => Self::Completed,
        }
    }

    /// Its name.
    pub fn name(self) -> Name {
        Name::fixed(match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Quarantine => "quarantine",
        })
    }

    /// Its path.
    pub fn path(self) -> StorePath {
        StorePath::ROOT.join(self.name())
    }

    /// The directory of a task in it.
    pub fn task(self, id: TaskId) -> StorePath {
        self.path().join(id.uuid())
    }
}

/// Tasks being made, and files that have no name for long.
pub const TMP: Name = Name::fixed(".tmp");
/// The directory of tasks that are being removed.
pub const TRASH: Name = Name::fixed(".trash");
/// The highest lease that any deleted task had.
pub const LEASE_FLOOR: Name = Name::fixed("lease_floor");
/// Archives.
pub const ARCHIVED: Name = Name::fixed("archived");
/// The catalog.
pub const CATALOG: Name = Name::fixed("tasks.db");
/// The token that callers over TCP must carry.
pub const TOKEN: Name = Name::fixed("token");
/// The addresses at which a running server listens.
pub const ADDRESSES: Name = Name::fixed("addresses");
/// The lock of the directory.
pub const LOCK: Name = Name::fixed("LOCK");
/// Room that is freed when the disk is full.
pub const BALLAST: Name = Name::fixed("ballast");

/// Written to see whether the disk takes writes.
pub const PROBE: Name = Name::fixed("probe");

/// Files of a task.
pub const METADATA: Name = Name::fixed("metadata.json");
/// The metadata that stood there before they were restored from a copy.
pub const DAMAGED_METADATA: Name = Name::fixed("metadata.json.damaged");
/// A copy of `metadata.json` that contradicted it.
pub const CONTRADICTING_METADATA: Name = Name::fixed("metadata.json.copy");
/// The log.
pub const MESSAGES: Name = Name::fixed("messages.jsonl");
/// The log of tool calls.
pub const TOOLS: Name = Name::fixed("tools.jsonl");
/// The log of plans.
pub const PLANS: Name = Name::fixed("planning.jsonl");
/// The view.
pub const CURRENT: Name = Name::fixed("current.jsonl");
/// The fields of the view's messages that OpenAI does not know.
pub const EXTRA: Name = Name::fixed("current.extra.jsonl");
/// The checkpoint: how far log and views have come.
pub const CHECKPOINT: Name = Name::fixed("checkpoint.json");
/// The index of the log.
pub const INDEX: Name = Name::fixed("index");
/// One line a summary.
pub const SUMMARIES: Name = Name::fixed("summaries.jsonl");
/// The final row of the catalog.
pub const TASK: Name = Name::fixed("task.json");
/// The final summary of a task.
pub const FINAL_SUMMARY: Name = Name::fixed("final_summary.txt");
/// The reason why a task is in quarantine.
pub const QUARANTINE_NOTE: Name = Name::fixed("quarantine.json");
/// Full outputs of tools.
pub const OUTPUTS: Name = Name::fixed("outputs");

/// The request that is being sent to a provider.
pub const REQUEST: Name = Name::fixed("request.json");
/// The messages that a summary replaces.
pub const TO_SUMMARIZE: Name = Name::fixed("to_summarize.jsonl");
/// The messages that stay beside it.
pub const UNSUMMARIZED: Name = Name::fixed("unsummarized.jsonl");
/// The request to the model that summarises.
pub const SUMMARY_REQUEST: Name = Name::fixed("summary_request.json");

/// The ending of a name while its file is being made.
pub const NEXT: &str = ".next";

/// Returns whether a file of a task directory is only there while something is going on. A second one at the same time has
/// a number behind its name.
pub fn is_transient(name: &Name) -> bool {
    const TRANSIENT: [&str; 6] = [
        "request.json",
        "request.jsonl",
        "to_summarize.jsonl",
        "unsummarized.jsonl",
        "all_messages.jsonl",
        "summary_request.json",
    ];
    let name = name.as_str();
    let known =
        |known: &&str| name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    name.ends_with(NEXT) || name.ends_with(".tmp") || TRANSIENT.iter().any(known)
}

/// Returns whether a file or folder is one that a task directory may hold.
pub fn is_known(name: &Name) -> bool {
    let known = [
        METADATA,
        DAMAGED_METADATA,
        CONTRADICTING_METADATA,
        MESSAGES,
        TOOLS,
        PLANS,
        CURRENT,
        EXTRA,
        CHECKPOINT,
        INDEX,
        SUMMARIES,
        TASK,
        FINAL_SUMMARY,
        QUARANTINE_NOTE,
        OUTPUTS,
    ];
    known.contains(name) || name.as_str().contains(".jsonl.cut.")
}
