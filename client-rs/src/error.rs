//! The one error of the client: what went wrong, in a form that programs can decide by.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use contextstore_proto::ERROR_DOMAIN;
use contextstore_proto::v1::ErrorReason;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Why a call did not succeed.
///
/// Decide by [`Error::reason`], or by [`Error::code`] where there is none; the words may change.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client cannot be made: a setting is missing or cannot be used.
    #[error("{setting} {problem}")]
    Config {
        /// The setting, as the builder or the environment names it.
        setting: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// No server could be reached, or the connection broke. Whether a call that was under way happened is not
    /// known.
    #[error("no connection to {address}: {}", root_cause(.status))]
    Connection {
        /// The server's address.
        address: String,
        /// What the transport said.
        status: Status,
    },
    /// No answer came in time. Whether the call happened is not known: repeat it with the same request id.
    #[error("no answer within {after:?}")]
    Deadline {
        /// The time it was given.
        after: Duration,
    },
    /// The server refused the call.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// A hook failed, and hooks of its task may stop it: the call was not made.
    #[error("the hook {name} failed, so the task was not {status}: {error}")]
    Hook {
        /// Its name.
        name: String,
        /// What the task would have become.
        status: &'static str,
        /// What it said.
        #[source]
        error: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// No private server could be started; see [`spawn`](crate::spawn()).
    #[error("no server could be started: {problem}")]
    Spawn {
        /// What went wrong, with what the server said.
        problem: String,
    },
    /// The server's answer is not one of the protocol.
    #[error("the server broke the protocol: {problem}")]
    Protocol {
        /// What was wrong with it.
        problem: String,
    },
}

/// What the server said when it refused a call.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Refusal {
    /// The gRPC code.
    pub code: Code,
    /// The reason; [`ErrorReason::Unspecified`] if there is none that this client knows.
    pub reason: ErrorReason,
    /// In words, for people.
    pub message: String,
    /// The fields of the request that cannot be accepted.
    pub fields: Vec<FieldViolation>,
    /// The data that comes with the reason: a status, a limit, the holder of a lease.
    pub metadata: BTreeMap<String, String>,
    /// After how long to try again, where that helps.
    pub retry_after: Option<Duration>,
}

/// A field of a request that cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldViolation {
    /// The field, by its path in the request.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Error {
    /// The gRPC code; failures that no server spoke of have the code that gRPC gives them.
    pub fn code(&self) -> Code {
        match self {
            Self::Config { .. } => Code::InvalidArgument,
            Self::Connection { .. } | Self::Spawn { .. } => Code::Unavailable,
            Self::Deadline { .. } => Code::DeadlineExceeded,
            Self::Refused(refusal) => refusal.code,
            Self::Hook { .. } => Code::Aborted,
            Self::Protocol { .. } => Code::Internal,
        }
    }

    /// The reason, if the server gave one that this client knows.
    pub fn reason(&self) -> Option<ErrorReason> {
        let reason = self.refusal()?.reason;
        (reason != ErrorReason::Unspecified).then_some(reason)
    }

    /// The fields of the request that cannot be accepted.
    pub fn fields(&self) -> &[FieldViolation] {
        self.refusal().map_or(&[], |refusal| &refusal.fields)
    }

    /// A piece of the data that comes with the reason.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.refusal()?.metadata.get(key).map(String::as_str)
    }

    /// After how long to try again, if the server said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.refusal()?.retry_after
    }

    /// What the server said, if it was the server that refused.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Config { .. }
            | Self::Connection { .. }
            | Self::Deadline { .. }
            | Self::Hook { .. }
            | Self::Spawn { .. }
            | Self::Protocol { .. } => None,
        }
    }

    /// Whether the same call, with the same request id, may succeed soon without anything else being done: the
    /// connection broke, or the server said after how long to try again. A task that somebody else works on may take
    /// any time, so whether to wait for it is the caller's to decide.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connection { .. } => true,
            Self::Refused(refusal) => {
                // A reason that is none of the server's own: something in between said it.
                let unreachable =
                    refusal.code == Code::Unavailable && refusal.reason == ErrorReason::Unspecified;
                unreachable || refusal.retry_after.is_some() && refusal.reason != ErrorReason::LeaseHeld
            }
            Self::Config { .. }
            | Self::Deadline { .. }
            | Self::Hook { .. }
            | Self::Spawn { .. }
            | Self::Protocol { .. } => false,
        }
    }

    /// What a status means. One that the transport made has a source; one that a server sent has none.
    pub(crate) fn from_status(status: Status, address: &str) -> Self {
        if status.source().is_some() {
            return Self::Connection { address: address.to_owned(), status };
        }
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == ERROR_DOMAIN);
        let reason = info.and_then(|info| ErrorReason::from_str_name(&info.reason));
        let fields = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
        let violation = |field: &tonic_types::FieldViolation| FieldViolation {
            field: field.field.clone(),
            problem: field.description.clone(),
        };
        Self::Refused(Box::new(Refusal {
            code: status.code(),
            reason: reason.unwrap_or_default(),
            message: if status.message().is_empty() {
                status.code().to_string()
            } else {
                status.message().to_owned()
            },
            fields: fields.iter().map(violation).collect(),
            metadata: info.map(|info| info.metadata.clone().into_iter().collect()).unwrap_or_default(),
            retry_after: details.retry_info().and_then(|retry| retry.retry_delay),
        }))
    }

    pub(crate) fn config(setting: &'static str, problem: impl Into<String>) -> Self {
        Self::Config { setting, problem: problem.into() }
    }

    pub(crate) fn protocol(problem: impl Into<String>) -> Self {
        Self::Protocol { problem: problem.into() }
    }
}

/// The last of a chain of causes is the one that a person can do something about.
fn root_cause(status: &Status) -> String {
    let Some(mut cause) = status.source() else { return status.message().to_owned() };
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    use tonic_types::ErrorDetails;

    fn refused(code: Code, reason: ErrorReason, retry_after: Option<Duration>) -> Error {
        let mut details = ErrorDetails::new();
        let metadata = [("limit".to_owned(), "16".to_owned())];
        details.set_error_info(
            reason.as_str_name(),
            ERROR_DOMAIN,
            metadata.into_iter().collect::<std::collections::HashMap<_, _>>(),
        );
        details.add_bad_request_violation("key.owner", "is too long");
        if retry_after.is_some() {
            details.set_retry_info(retry_after);
        }
        Error::from_status(Status::with_error_details(code, "no", details), "unix:/s")
    }

    #[test]
    fn an_answer_of_the_server_keeps_all_it_said() {
        let error = refused(Code::InvalidArgument, ErrorReason::InvalidField, Some(Duration::from_secs(2)));
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(error.reason(), Some(ErrorReason::InvalidField));
        assert_eq!(
            error.fields(),
            [FieldViolation { field: "key.owner".to_owned(), problem: "is too long".to_owned() }]
        );
        assert_eq!(error.metadata("limit"), Some("16"));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
        assert_eq!(error.to_string(), "no");
    }

    #[test]
    fn a_reason_of_another_service_is_none_of_ours() {
        let mut details = ErrorDetails::new();
        details.set_error_info("ERROR_REASON_STOPPING", "elsewhere", std::collections::HashMap::new());
        let error = Error::from_status(Status::with_error_details(Code::Internal, "", details), "unix:/s");
        assert_eq!(error.reason(), None);
        assert!(!error.to_string().is_empty());
    }

    #[test]
    fn what_the_transport_says_is_a_broken_connection() {
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let error = Error::from_status(Status::from_error(Box::new(broken)), "unix:/s");
        assert!(matches!(error, Error::Connection { .. }), "{error:?}");
        assert_eq!(error.code(), Code::Unavailable);
        assert_eq!(error.to_string(), "no connection to unix:/s: connection reset");
        assert!(error.is_transient());
    }

    #[test]
    fn only_what_may_pass_by_itself_is_transient() {
        let soon = Some(Duration::from_millis(5));
        assert!(refused(Code::Unavailable, ErrorReason::Stopping, soon).is_transient());
        assert!(refused(Code::Unavailable, ErrorReason::Unspecified, None).is_transient());
        assert!(!refused(Code::Unavailable, ErrorReason::ReadOnly, None).is_transient());
        assert!(refused(Code::Unavailable, ErrorReason::ReadOnly, soon).is_transient());
        assert!(refused(Code::ResourceExhausted, ErrorReason::Overloaded, soon).is_transient());
        assert!(!refused(Code::ResourceExhausted, ErrorReason::QuotaExceeded, None).is_transient());
        assert!(refused(Code::Aborted, ErrorReason::RewriteInFlight, soon).is_transient());
        assert!(!refused(Code::Aborted, ErrorReason::StaleLease, None).is_transient());
        assert!(!refused(Code::Aborted, ErrorReason::LeaseHeld, soon).is_transient());
    }
}
