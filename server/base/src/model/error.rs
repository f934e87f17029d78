//! The one error of the store. Variants carry data; the words are made here and nowhere else.

use std::borrow::Cow;
use std::io;

use super::{Holder, Status, TaskId};

/// A field of a request that cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct InvalidField {
    /// The field, as the API names it.
    pub field: Cow<'static, str>,
    /// What is wrong with it, with the limit where there is one.
    pub problem: String,
}

impl InvalidField {
    /// `field` is the API's name; `problem` continues the sentence that begins with it.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    /// The same of a field that this one is in.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        Self { field: format!("{outer}.{}", self.field).into(), ..self }
    }
}

/// An error with its causes, on one line.
pub fn in_full(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(&format!(": {error}"));
        cause = error.source();
    }
    words
}

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A field of the request cannot be accepted; nothing was changed.
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    /// The message is larger than the store takes; nothing was changed.
    #[error("the message has {size} bytes; at most {limit} are allowed (limits.message_bytes)")]
    TooLarge {
        /// What it takes in the log.
        size: usize,
        /// What it may take.
        limit: usize,
    },
    /// A request to a provider would be larger than is allowed.
    #[error("the request has {size} {unit}; at most {limit} are allowed: {}", unit.advice())]
    RequestTooLarge {
        /// Its size, as far as it was looked at.
        size: u64,
        /// What it may have.
        limit: u64,
        /// What both are counted in.
        unit: SizeUnit,
    },
    /// There is no such task.
    #[error("there is no task {id}")]
    TaskNotFound {
        /// The id asked for.
        id: TaskId,
    },
    /// A task with that id exists already.
    #[error("task {id} exists already")]
    TaskExists {
        /// The id asked for.
        id: TaskId,
    },
    /// There is no such message.
    #[error("task {id} has no message {seq}; the last one is {last}")]
    MessageNotFound {
        /// The task.
        id: TaskId,
        /// The message asked for.
        seq: u64,
        /// The last message there is.
        last: u64,
    },
    /// The task's status does not allow the call.
    #[error("task {id} is {status}: cannot {action}", status = status.as_str())]
    WrongStatus {
        /// The task.
        id: TaskId,
        /// What it is.
        status: Status,
        /// What was asked.
        action: &'static str,
    },
    /// Another client holds the lease, or the caller's was taken over.
    #[error(
        "task {id} is held by {} on {} (process {}) under lease generation {generation}",
        holder.instance_id, holder.hostname, holder.process_id
    )]
    LeaseHeld {
        /// The task.
        id: TaskId,
        /// Who holds it.
        holder: Holder,
        /// The newest generation.
        generation: u64,
    },
    /// The caller's lease is not the newest.
    #[error("lease generation {given} of task {id} is not the newest ({newest})")]
    StaleLease {
        /// The task.
        id: TaskId,
        /// The caller's.
        given: u64,
        /// The newest.
        newest: u64,
    },
    /// The request id was used for something else.
    #[error("request_id {request_id} was used for a different call before")]
    RequestIdReused {
        /// The id.
        request_id: String,
    },
    /// The limit of a task's model is not known, and is not to be guessed.
    #[error(
        "the limit of task {id} is not known and `compact` does not guess: give context_length, or name the model under `models`"
    )]
    LimitUnknown {
        /// The task.
        id: TaskId,
    },
    /// There is no compaction of that token.
    #[error("task {id} has no compaction of that token; it may have expired")]
    CompactionNotFound {
        /// The task.
        id: TaskId,
    },
    /// A summary cannot stand for what it is to stand for.
    #[error("the summary {problem}")]
    SummaryRefused {
        /// What is wrong with it.
        problem: String,
    },
    /// Of a view there is nothing that an agent could summarise.
    #[error("of task {id} nothing is to be summarised ({why})")]
    NothingToSummarize {
        /// The task.
        id: TaskId,
        /// Why, as a compression tells it.
        why: &'static str,
    },
    /// A message that is to be pinned is not in the view any more.
    #[error(
        "message {seq} of task {id} is not in its view any more, and a pin brings nothing back; undo the compaction first"
    )]
    NotInView {
        /// The task.
        id: TaskId,
        /// The message.
        seq: u64,
    },
    /// A task has nothing that another could take over.
    #[error("task {id} has neither a summary nor a plan to take over")]
    NothingToInherit {
        /// The task.
        id: TaskId,
    },
    /// The view was rewritten since the caller looked.
    #[error("the view of task {id} is at rewrite {newest}, not {given}")]
    StaleView {
        /// The task.
        id: TaskId,
        /// The rewrite the caller named.
        given: u64,
        /// The newest.
        newest: u64,
    },
    /// Another rewrite of the task is being made.
    #[error("another rewrite of task {id} is in flight")]
    RewriteInFlight {
        /// The task.
        id: TaskId,
    },
    /// There is no compaction in force that could be undone.
    #[error("task {id} has no compaction to undo")]
    NothingToUndo {
        /// The task.
        id: TaskId,
    },
    /// The task's log is damaged; it can be read, not written.
    #[error("task {id} is in quarantine: {reason}")]
    Quarantined {
        /// The task.
        id: TaskId,
        /// What was found.
        reason: String,
    },
    /// The task holds something this version does not know; it can be read, not written.
    #[error("task {id} was written by a newer version ({found}): it can only be read")]
    NewerFormat {
        /// The task.
        id: TaskId,
        /// What was found.
        found: String,
    },
    /// A sync of the task's log failed, and what was not durable was taken back. Should that have failed too,
    /// it may come back: only a retry with the same request id is sure to happen once.
    #[error("writing task {id} failed; retry with the same request_id")]
    WriteFailed {
        /// The task.
        id: TaskId,
        /// The first failure.
        #[source]
        source: io::Error,
    },
    /// The disk is full; nothing was changed. If that was found by a sync, the same holds as for a failed write:
    /// only a retry with the same request id is sure to happen once.
    #[error("the disk is full")]
    DiskFull {
        /// The failure.
        #[source]
        source: io::Error,
    },
    /// The task or the store is as large as it may be; nothing was changed.
    #[error("{quota} is {limit} bytes, of which {used} are used")]
    QuotaExceeded {
        /// The setting that limits it.
        quota: &'static str,
        /// Bytes that are used.
        used: u64,
        /// Bytes that may be used.
        limit: u64,
    },
    /// The task has no output of that ref.
    #[error("task {id} has no output {output}")]
    OutputNotFound {
        /// The task.
        id: TaskId,
        /// The ref asked for.
        output: String,
    },
    /// An output is not what was put.
    #[error("output {output} of task {id} is damaged: {problem}")]
    OutputDamaged {
        /// The task.
        id: TaskId,
        /// Its ref.
        output: String,
        /// What was found.
        problem: String,
    },
    /// The parts of an output do not come in order.
    #[error("the parts of the output do not come in order: {problem}")]
    OutputMalformed {
        /// What came.
        problem: &'static str,
    },
    /// The whole store takes no writes.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// Why.
        reason: String,
    },
    /// Another server uses the data directory.
    #[error("{path} is in use by process {pid}")]
    Locked {
        /// The data directory.
        path: String,
        /// The process that holds the lock, as it wrote it down.
        pid: String,
    },
    /// The data directory cannot be used as it is.
    #[error("{path} cannot be used: {problem}")]
    BadDataDir {
        /// The path.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// A log or view holds bytes that are not what was written.
    #[error("{path} is damaged at byte {offset}: {problem}")]
    Damaged {
        /// The file.
        path: String,
        /// Where.
        offset: u64,
        /// What was found.
        problem: String,
    },
    /// The catalog cannot be read or written.
    #[error("the catalog failed: {problem}")]
    Catalog {
        /// What SQLite said.
        problem: String,
    },
    /// The disk failed.
    #[error("{action} failed")]
    Io {
        /// What was tried, with the file.
        action: String,
        /// The failure.
        #[source]
        source: io::Error,
    },
}

/// What the size of a request is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeUnit {
    /// Bytes of its body.
    Bytes,
    /// Tokens of the context and the tools.
    Tokens,
}

impl SizeUnit {
    /// Returns what can be done about a request that is too large.
    fn advice(self) -> &'static str {
        match self {
            Self::Bytes => "send less or raise max_bytes",
            Self::Tokens => {
                "compress the context, shorten the system prompt, unpin messages, send fewer tools, or set \
                 config.context_length if the model takes more"
            }
        }
    }
}

impl std::fmt::Display for SizeUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes or more",
            Self::Tokens => "tokens",
        })
    }
}

impl StoreError {
    /// An I/O failure of a named action; a full disk is told apart.
    #[expect(clippy::wildcard_enum_match_arm, reason = "kinds of I/O errors are not ours to list")]
    pub fn io(action: impl Into<String>, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { source },
            io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { reason: "the file system is mounted read-only".to_owned() }
            }
            _ => Self::Io { action: action.into(), source },
        }
    }

    /// The reason in the API's vocabulary (`ErrorReason` in the proto).
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "ERROR_REASON_INVALID_FIELD",
            Self::TooLarge { .. } => "ERROR_REASON_TOO_LARGE",
            Self::RequestTooLarge { .. } => "ERROR_REASON_REQUEST_TOO_LARGE",
            Self::TaskNotFound { .. } => "ERROR_REASON_TASK_NOT_FOUND",
            Self::TaskExists { .. } => "ERROR_REASON_TASK_EXISTS",
            Self::MessageNotFound { .. } => "ERROR_REASON_MESSAGE_NOT_FOUND",
            Self::WrongStatus { .. } => "ERROR_REASON_WRONG_STATUS",
            Self::LeaseHeld { .. } => "ERROR_REASON_LEASE_HELD",
            Self::StaleLease { .. } => "ERROR_REASON_STALE_LEASE",
            Self::RequestIdReused { .. } => "ERROR_REASON_REQUEST_ID_REUSED",
            Self::StaleView { .. } => "ERROR_REASON_STALE_VIEW",
            Self::LimitUnknown { .. } => "ERROR_REASON_LIMIT_UNKNOWN",
            Self::CompactionNotFound { .. } => "ERROR_REASON_COMPACTION_NOT_FOUND",
            Self::SummaryRefused { .. } => "ERROR_REASON_SUMMARY_REFUSED",
            Self::NothingToSummarize { .. } => "ERROR_REASON_NOTHING_TO_SUMMARIZE",
            Self::NothingToInherit { .. } => "ERROR_REASON_NOTHING_TO_INHERIT",
            Self::NotInView { .. } => "ERROR_REASON_NOT_IN_VIEW",
            Self::RewriteInFlight { .. } => "ERROR_REASON_REWRITE_IN_FLIGHT",
            Self::NothingToUndo { .. } => "ERROR_REASON_NOTHING_TO_UNDO",
            Self::Quarantined { .. } => "ERROR_REASON_QUARANTINED",
            Self::NewerFormat { .. } => "ERROR_REASON_NEWER_FORMAT",
            Self::WriteFailed { .. } => "ERROR_REASON_WRITE_FAILED",
            Self::DiskFull { .. } => "ERROR_REASON_DISK_FULL",
            Self::QuotaExceeded { .. } => "ERROR_REASON_QUOTA_EXCEEDED",
            Self::OutputNotFound { .. } => "ERROR_REASON_OUTPUT_NOT_FOUND",
            Self::OutputDamaged { .. } => "ERROR_REASON_OUTPUT_DAMAGED",
            Self::OutputMalformed { .. } => "ERROR_REASON_OUTPUT_MALFORMED",
            Self::ReadOnly { .. } => "ERROR_REASON_READ_ONLY",
            Self::Locked { .. } => "ERROR_REASON_LOCKED",
            Self::BadDataDir { .. } => "ERROR_REASON_BAD_DATA_DIR",
            Self::Damaged { .. } => "ERROR_REASON_DAMAGED",
            Self::Catalog { .. } => "ERROR_REASON_CATALOG",
            Self::Io { .. } => "ERROR_REASON_IO",
        }
    }

    /// Whether the same call may succeed later without anything else being done.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::RewriteInFlight { .. }
            | Self::WriteFailed { .. }
            | Self::DiskFull { .. }
            | Self::ReadOnly { .. }
            | Self::LeaseHeld { .. }
            | Self::Catalog { .. }
            | Self::Io { .. } => true,
            Self::Invalid(_)
            | Self::TooLarge { .. }
            | Self::RequestTooLarge { .. }
            | Self::TaskNotFound { .. }
            | Self::TaskExists { .. }
            | Self::MessageNotFound { .. }
            | Self::WrongStatus { .. }
            | Self::StaleLease { .. }
            | Self::RequestIdReused { .. }
            | Self::StaleView { .. }
            | Self::LimitUnknown { .. }
            | Self::CompactionNotFound { .. }
            | Self::SummaryRefused { .. }
            | Self::NothingToSummarize { .. }
            | Self::NothingToInherit { .. }
            | Self::NotInView { .. }
            | Self::NothingToUndo { .. }
            | Self::Quarantined { .. }
            | Self::NewerFormat { .. }
            | Self::Locked { .. }
            | Self::BadDataDir { .. }
            | Self::QuotaExceeded { .. }
            | Self::OutputNotFound { .. }
            | Self::OutputDamaged { .. }
            | Self::OutputMalformed { .. }
            | Self::Damaged { .. } => false,
        }
    }
}
