//! The error type of the store. Variants carry data; only this file turns them into messages.

use std::borrow::Cow;
use std::io;

use super::{Holder, Status, TaskId};

/// An invalid field of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct InvalidField {
    /// The name of the field in the API.
    pub field: Cow<'static, str>,
    /// The problem, with the limit if there is one.
    pub problem: String,
}

impl InvalidField {
    /// Creates the error. `field` is the API's name; `problem` continues the sentence that begins with it.
    pub fn new(field: &'static str, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }

    /// Prefixes the field with the name of the field that contains it.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        Self { field: format!("{outer}.{}", self.field).into(), ..self }
    }
}

/// Formats an error with its causes, on one line.
pub fn in_full(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(&format!(": {error}"));
        cause = error.source();
    }
    words
}

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A field of the request is invalid; nothing was changed.
    #[error(transparent)]
    Invalid(#[from] InvalidField),
    /// The message exceeds the size limit; nothing was changed.
    #[error("the message has {size} bytes; at most {limit} are allowed (limits.message_bytes)")]
    TooLarge {
        /// The size of the message in the log.
        size: usize,
        /// The largest allowed size.
        limit: usize,
    },
    /// A request to a provider would exceed the size limit.
    #[error("the request has {size} {unit}; at most {limit} are allowed: {}", unit.advice())]
    RequestTooLarge {
        /// The measured size; measuring may stop at the limit.
        size: u64,
        /// The largest allowed size.
        limit: u64,
        /// The unit of both numbers.
        unit: SizeUnit,
    },
    /// The task does not exist.
    #[error("there is no task {id}")]
    TaskNotFound {
        /// The requested id.
        id: TaskId,
    },
    /// A task with that id already exists.
    #[error("task {id} exists already")]
    TaskExists {
        /// The requested id.
        id: TaskId,
    },
    /// The message does not exist.
    #[error("task {id} has no message {seq}; the last one is {last}")]
    MessageNotFound {
        /// The task.
        id: TaskId,
        /// The requested message.
        seq: u64,
        /// The last message of the task.
        last: u64,
    },
    /// The task's status does not allow the call.
    #[error("task {id} is {status}: cannot {action}", status = status.as_str())]
    WrongStatus {
        /// The task.
        id: TaskId,
        /// The current status.
        status: Status,
        /// The refused action.
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
        /// The current holder.
        holder: Holder,
        /// The newest generation.
        generation: u64,
    },
    /// The caller's lease is not the newest.
    #[error(
        "lease_generation {given} of task {id} is not the newest ({newest}); start the task again to get a new lease"
    )]
    StaleLease {
        /// The task.
        id: TaskId,
        /// The caller's generation.
        given: u64,
        /// The newest generation.
        newest: u64,
    },
    /// The request id was used for a different call.
    #[error("request_id {request_id} was used for a different call; use a new id for each call")]
    RequestIdReused {
        /// The id.
        request_id: String,
    },
    /// The context limit of the task's model is unknown, and the call must not guess it.
    #[error(
        "the context limit of task {id} is unknown, and `compact` needs it: pass context_length, or set the limit of the model under `models`"
    )]
    LimitUnknown {
        /// The task.
        id: TaskId,
    },
    /// No compaction has that token.
    #[error("task {id} has no compaction with that token; it may have expired")]
    CompactionNotFound {
        /// The task.
        id: TaskId,
    },
    /// A summary fails the checks that a summary must pass.
    #[error("the summary {problem}")]
    SummaryRefused {
        /// The failed check.
        problem: String,
    },
    /// A view has nothing that an agent could summarise.
    #[error("task {id} has nothing to summarise: {why}")]
    NothingToSummarize {
        /// The task.
        id: TaskId,
        /// The reason, as a compression reports it.
        why: &'static str,
    },
    /// A message to pin is no longer in the view.
    #[error(
        "message {seq} of task {id} is no longer in the view, and a pin does not restore it; undo the compaction first"
    )]
    NotInView {
        /// The task.
        id: TaskId,
        /// The message.
        seq: u64,
    },
    /// A task has nothing that another task could inherit.
    #[error("task {id} has neither a summary nor a plan to inherit")]
    NothingToInherit {
        /// The task.
        id: TaskId,
    },
    /// The view was rewritten since the caller read it.
    #[error("the view of task {id} is at rewrite {newest}, not {given}; read it again")]
    StaleView {
        /// The task.
        id: TaskId,
        /// The rewrite that the caller named.
        given: u64,
        /// The newest rewrite.
        newest: u64,
    },
    /// Another rewrite of the task is in progress.
    #[error("another rewrite of task {id} is in progress; retry later")]
    RewriteInFlight {
        /// The task.
        id: TaskId,
    },
    /// No compaction is in force that could be undone.
    #[error("task {id} has no compaction to undo")]
    NothingToUndo {
        /// The task.
        id: TaskId,
    },
    /// The task's log is damaged; it can be read but not written.
    #[error("task {id} is in quarantine: {reason}")]
    Quarantined {
        /// The task.
        id: TaskId,
        /// The damage found.
        reason: String,
    },
    /// The task holds data of a newer version; it can be read but not written.
    #[error("task {id} was written by a newer version ({found}): it can only be read")]
    NewerFormat {
        /// The task.
        id: TaskId,
        /// The unknown data.
        found: String,
    },
    /// A sync of the task's log failed, and the store removed what was not durable. If the removal failed too, the
    /// data may reappear: only a retry with the same request id is guaranteed to take effect once.
    #[error("writing task {id} failed; retry with the same request_id")]
    WriteFailed {
        /// The task.
        id: TaskId,
        /// The first error.
        #[source]
        source: io::Error,
    },
    /// The disk is full; nothing was changed. If a sync reported it, the rule of a failed write applies: only a retry
    /// with the same request id is guaranteed to take effect once.
    #[error("the disk is full")]
    DiskFull {
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The task or the store has reached its quota; nothing was changed.
    #[error("{quota} allows {limit} bytes, and {used} are used; remove data or raise the quota")]
    QuotaExceeded {
        /// The setting of the quota.
        quota: &'static str,
        /// Used bytes.
        used: u64,
        /// Allowed bytes.
        limit: u64,
    },
    /// The task has no output with that ref.
    #[error("task {id} has no output {output}")]
    OutputNotFound {
        /// The task.
        id: TaskId,
        /// The requested ref.
        output: String,
    },
    /// The stored bytes of an output differ from the uploaded ones.
    #[error("output {output} of task {id} is damaged: {problem}")]
    OutputDamaged {
        /// The task.
        id: TaskId,
        /// The ref of the output.
        output: String,
        /// The damage found.
        problem: String,
    },
    /// The parts of an output arrive in the wrong order.
    #[error("the parts of the output are out of order: {problem}")]
    OutputMalformed {
        /// The violated rule.
        problem: &'static str,
    },
    /// The whole store refuses writes.
    #[error("the store is read-only: {reason}")]
    ReadOnly {
        /// The reason.
        reason: String,
    },
    /// Another server uses the data directory.
    #[error("{path} is in use by process {pid}")]
    Locked {
        /// The data directory.
        path: String,
        /// The process id in the lock file, as text.
        pid: String,
    },
    /// The data directory is not usable in its current state.
    #[error("{path} cannot be used: {problem}")]
    BadDataDir {
        /// The path.
        path: String,
        /// The problem.
        problem: String,
    },
    /// A log or view differs from what was written.
    #[error("{path} is damaged at byte {offset}: {problem}")]
    Damaged {
        /// The file.
        path: String,
        /// The byte offset of the damage.
        offset: u64,
        /// The damage found.
        problem: String,
    },
    /// The catalog cannot be read or written.
    #[error("the catalog failed: {problem}")]
    Catalog {
        /// The message of SQLite.
        problem: String,
    },
    /// The disk reported an error.
    #[error("{action} failed")]
    Io {
        /// The attempted action, with the file.
        action: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

/// The unit of a request's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeUnit {
    /// Bytes of the body.
    Bytes,
    /// Tokens of the context and the tools.
    Tokens,
}

impl SizeUnit {
    /// Returns the advice for a request that is too large.
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
    /// Converts an I/O error of a named action; a full disk becomes [`StoreError::DiskFull`].
    #[expect(clippy::wildcard_enum_match_arm, reason = "the list of I/O error kinds is open")]
    pub fn io(action: impl Into<String>, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { source },
            io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { reason: "the file system is mounted read-only".to_owned() }
            }
            _ => Self::Io { action: action.into(), source },
        }
    }

    /// Returns the reason in the API's vocabulary (`ErrorReason` in the proto).
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

    /// Returns whether the same call may succeed later without any other action.
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
