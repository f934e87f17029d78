//! The one error table: what went wrong, as a gRPC code with a reason, its data, and whether a retry helps.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::time::Duration;

use contextstore_app::AppError;
use contextstore_proto::ERROR_DOMAIN;
use contextstore_proto::v1::ErrorReason;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::llm::LlmError;
use crate::model::{InvalidField, StoreError, TaskId, in_full};

/// Most bytes of a text in an error. Errors travel in headers, of which nobody takes many; they may repeat what the
/// caller sent, and that can be long.
const MAX_TEXT: usize = 1024;

/// Why the service refused a call that never came to the store, or that the store had no answer to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("no valid token: send `authorization: Bearer TOKEN` with the token in DATA_DIR/token")]
    Unauthenticated { is_new: bool },
    #[error("the socket is for user {server} only, and you are user {caller}")]
    Forbidden { caller: u32, server: u32 },
    #[error("the request has {size} bytes; at most {limit} are allowed (limits.message_bytes)")]
    TooLarge { size: u64, limit: u64 },
    #[error("the request is not one of the protocol: {0}")]
    Malformed(&'static str),
    #[error("the server is at its limit of {limit} {what}")]
    Overloaded { what: &'static str, limit: u64 },
    #[error("the server is stopping")]
    Stopping,
    #[error("nothing was read from the stream for {0:?}, so it was closed")]
    Stalled(Duration),
    #[error("task {0} has no plan")]
    PlanNotFound(TaskId),
    #[error("task {0} has no summary")]
    SummaryNotFound(TaskId),
    #[error(
        "no provider is named: set provider in the call, llm_provider in the task's configuration, or llm.provider in \
         the server's"
    )]
    NoProvider,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Provider(#[from] LlmError),
    #[error("{}", .0.message())]
    Transport(#[from] Status),
    #[error("the server failed: {0}")]
    Internal(String),
}

impl From<AppError> for Refusal {
    fn from(error: AppError) -> Self {
        match error {
            AppError::Store(error) => Self::Store(error),
            AppError::Provider(error) => Self::Provider(error),
            AppError::NoProvider => Self::NoProvider,
            AppError::Stopping => Self::Stopping,
            AppError::CallerGone => Self::Transport(Status::cancelled(error.to_string())),
            AppError::Internal(problem) => Self::Internal(problem),
        }
    }
}

impl From<InvalidField> for Refusal {
    fn from(error: InvalidField) -> Self {
        Self::Store(error.into())
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        use ErrorReason as R;
        let words = refusal.to_string();
        let fault = |code, reason: R, data| fault(code, reason.as_str_name(), words.clone(), data, None);
        match refusal {
            Refusal::Unauthenticated { is_new } => {
                let refused = fault(Code::Unauthenticated, R::Unauthenticated, vec![]);
                if is_new { retry(refused, Duration::from_millis(100)) } else { refused }
            }
            Refusal::Forbidden { caller, .. } => {
                fault(Code::PermissionDenied, R::Forbidden, vec![("uid", caller.to_string())])
            }
            Refusal::TooLarge { size, limit } => {
                let data = vec![("size", size.to_string()), ("limit", limit.to_string())];
                fault(Code::InvalidArgument, R::TooLarge, data)
            }
            Refusal::Malformed(_) => fault(Code::InvalidArgument, R::Malformed, vec![]),
            Refusal::Overloaded { what, limit } => retry(
                fault(
                    Code::ResourceExhausted,
                    R::Overloaded,
                    vec![("what", what.to_owned()), ("limit", limit.to_string())],
                ),
                Duration::from_millis(200),
            ),
            Refusal::Stopping => retry(fault(Code::Unavailable, R::Stopping, vec![]), Duration::from_secs(1)),
            Refusal::Stalled(after) => {
                fault(Code::Aborted, R::Stalled, vec![("seconds", after.as_secs().to_string())])
            }
            Refusal::PlanNotFound(id) => {
                fault(Code::NotFound, R::PlanNotFound, vec![("task_uuid", id.to_string())])
            }
            Refusal::SummaryNotFound(id) => {
                fault(Code::NotFound, R::SummaryNotFound, vec![("task_uuid", id.to_string())])
            }
            Refusal::Store(error) => store_status(&error),
            Refusal::Transport(status) => status,
            Refusal::NoProvider => fault(Code::FailedPrecondition, R::ProviderNotConfigured, vec![]),
            Refusal::Provider(LlmError::NotConfigured { provider, .. }) => {
                let data = vec![("provider", provider.as_str().to_owned())];
                fault(Code::FailedPrecondition, R::ProviderNotConfigured, data)
            }
            Refusal::Provider(LlmError::Refused { provider, status, kind, message, .. }) => {
                let data = [
                    ("provider", provider.as_str().to_owned()),
                    ("status", status.to_string()),
                    ("type", kind),
                    ("message", message),
                ];
                let data = data.into_iter().filter(|(_, value)| !value.is_empty()).collect();
                fault(Code::FailedPrecondition, R::ProviderRefused, data)
            }
            Refusal::Provider(LlmError::Failed { provider, retry_after, .. }) => {
                let data = vec![("provider", provider.as_str().to_owned())];
                let pause = retry_after.unwrap_or(Duration::from_secs(1)).max(Duration::from_millis(1));
                retry(fault(Code::Unavailable, R::ProviderFailed, data), pause)
            }
            Refusal::Internal(_) => {
                tracing::error!(error = words, "a call failed");
                fault(Code::Internal, R::Internal, vec![])
            }
        }
    }
}

type Data = Vec<(&'static str, String)>;

/// Returns the gRPC code of an error of the store.
fn code(error: &StoreError) -> Code {
    use StoreError as E;
    match error {
        E::Invalid(_) | E::TooLarge { .. } | E::SummaryRefused { .. } | E::OutputMalformed { .. } => {
            Code::InvalidArgument
        }
        E::RequestTooLarge { .. }
        | E::WrongStatus { .. }
        | E::RequestIdReused { .. }
        | E::LimitUnknown { .. }
        | E::NothingToSummarize { .. }
        | E::NothingToUndo { .. }
        | E::NotInView { .. }
        | E::Quarantined { .. }
        | E::NewerFormat { .. }
        | E::Locked { .. }
        | E::BadDataDir { .. } => Code::FailedPrecondition,
        E::TaskNotFound { .. }
        | E::MessageNotFound { .. }
        | E::CompactionNotFound { .. }
        | E::NothingToInherit { .. }
        | E::OutputNotFound { .. } => Code::NotFound,
        E::TaskExists { .. } => Code::AlreadyExists,
        E::LeaseHeld { .. } | E::StaleLease { .. } | E::StaleView { .. } | E::RewriteInFlight { .. } => {
            Code::Aborted
        }
        E::DiskFull { .. } | E::QuotaExceeded { .. } => Code::ResourceExhausted,
        E::OutputDamaged { .. } | E::Damaged { .. } => Code::DataLoss,
        E::WriteFailed { .. } | E::ReadOnly { .. } | E::Catalog { .. } | E::Io { .. } => Code::Unavailable,
    }
}

/// Returns how long to wait before a retry, or `None` if a retry alone does not help.
fn pause(error: &StoreError) -> Option<Duration> {
    let is_slow = matches!(
        error,
        StoreError::LeaseHeld { .. } | StoreError::DiskFull { .. } | StoreError::ReadOnly { .. }
    );
    error.is_retryable().then(|| Duration::from_millis(if is_slow { 1000 } else { 100 }))
}

/// Returns the values that a program needs to act on an error of the store.
fn data(error: &StoreError) -> Data {
    use StoreError as E;
    let task = |id: &TaskId| ("task_uuid", id.to_string());
    let text = |name: &'static str, value: &dyn ToString| (name, value.to_string());
    match error {
        E::Invalid(InvalidField { field, .. }) => vec![text("field", field)],
        E::TooLarge { size, limit } => vec![text("size", size), text("limit", limit)],
        E::RequestTooLarge { size, limit, .. } => vec![text("size", size), text("limit", limit)],
        E::TaskNotFound { id }
        | E::TaskExists { id }
        | E::LimitUnknown { id }
        | E::CompactionNotFound { id }
        | E::NothingToInherit { id }
        | E::RewriteInFlight { id }
        | E::NothingToUndo { id }
        | E::WriteFailed { id, .. } => vec![task(id)],
        E::MessageNotFound { id, seq, last } => vec![task(id), text("seq", seq), text("last_seq", last)],
        E::WrongStatus { id, status, .. } => vec![task(id), text("status", &status.as_str())],
        E::LeaseHeld { id, holder, generation } => vec![
            task(id),
            text("instance_id", &holder.instance_id),
            text("process_id", &holder.process_id),
            text("hostname", &holder.hostname),
            text("lease_generation", generation),
        ],
        E::StaleLease { id, given, newest } => {
            vec![task(id), text("given", given), text("lease_generation", newest)]
        }
        E::StaleView { id, given, newest } => {
            vec![task(id), text("given", given), text("generation", newest)]
        }
        E::RequestIdReused { request_id } => vec![text("request_id", request_id)],
        E::SummaryRefused { problem } => vec![text("problem", problem)],
        E::OutputMalformed { problem } => vec![text("problem", problem)],
        E::Catalog { problem } => vec![text("problem", problem)],
        E::NothingToSummarize { id, why } => vec![task(id), text("cause", why)],
        E::NotInView { id, seq } => vec![task(id), text("seq", seq)],
        E::Quarantined { id, reason } => vec![task(id), text("finding", reason)],
        E::NewerFormat { id, found } => vec![task(id), text("found", found)],
        E::DiskFull { .. } => vec![],
        E::QuotaExceeded { quota, used, limit } => {
            vec![text("quota", quota), text("used", used), text("limit", limit)]
        }
        E::OutputNotFound { id, output } => vec![task(id), text("ref_id", output)],
        E::OutputDamaged { id, output, problem } => {
            vec![task(id), text("ref_id", output), text("problem", problem)]
        }
        E::ReadOnly { reason } => vec![text("cause", reason)],
        E::Locked { path, pid } => vec![text("path", path), text("process_id", pid)],
        E::BadDataDir { path, problem } => vec![text("path", path), text("problem", problem)],
        E::Damaged { path, offset, problem } => {
            vec![text("path", path), text("offset", offset), text("problem", problem)]
        }
        E::Io { action, .. } => vec![text("action", action)],
    }
}

/// Returns the status of an error of the store.
fn store_status(error: &StoreError) -> Status {
    use StoreError as E;
    // The operator has to see these in the log. A failed write is logged once, where it fails.
    let is_cut_off = matches!(error, E::Io { source, .. } if source.kind() == ErrorKind::Interrupted);
    if matches!(error, E::Io { .. } | E::Catalog { .. } | E::Damaged { .. } | E::OutputDamaged { .. })
        && !is_cut_off
    {
        tracing::error!(error = in_full(error), "a call failed");
    }
    let violation = if let E::Invalid(invalid) = error { Some(invalid) } else { None };
    let status = fault(code(error), error.reason(), in_full(error), data(error), violation);
    match pause(error) {
        Some(pause) => retry(status, pause),
        None => status,
    }
}

fn fault(
    code: Code,
    reason: &str,
    words: String,
    data: Vec<(&'static str, String)>,
    violation: Option<&InvalidField>,
) -> Status {
    let mut details = ErrorDetails::new();
    let data: HashMap<String, String> =
        data.into_iter().map(|(key, value)| (key.to_owned(), short(&value))).collect();
    details.set_error_info(reason, ERROR_DOMAIN, data);
    if let Some(violation) = violation {
        details.add_bad_request_violation(violation.field.as_ref(), short(&violation.problem));
    }
    Status::with_error_details(code, short(&words), details)
}

/// A text with its middle left out if it is long: what is wrong stands at the beginning or at the end.
fn short(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    let (head, tail) =
        (text.floor_char_boundary(MAX_TEXT / 2), text.ceil_char_boundary(text.len() - MAX_TEXT / 2));
    format!("{} … {}", &text[..head], &text[tail..])
}

fn retry(status: Status, pause: Duration) -> Status {
    let mut details = status.get_error_details();
    details.set_retry_info(Some(pause));
    Status::with_error_details(status.code(), status.message(), details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_ends() {
        assert_eq!(short("a problem"), "a problem");
        let long = short(&format!("kinds has {:?}; allowed are message", "é".repeat(100_000)));
        assert!(long.starts_with("kinds has \"é") && long.ends_with("allowed are message"), "{long}");
        assert!(long.len() <= MAX_TEXT + 8);
    }
}
