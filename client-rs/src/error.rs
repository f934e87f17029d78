//! The one error of the client: what went wrong, in a form that programs can decide by.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use contextstore_proto::ERROR_DOMAIN;
use contextstore_proto::v1::ErrorReason;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{NewMessage, reach};

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
    ///
    /// A client that has never reached its server is answered so at once, with advice; one that has tries again first, as the
    /// server may be being restarted. [`Client::wait_until_ready`](crate::Client::wait_until_ready) waits for one that is being
    /// started, and [`connect_or_spawn`](crate::connect_or_spawn()) starts one.
    #[error("no connection to {address}: {}{advice}", root_cause(.status))]
    Connection {
        /// The server's address.
        address: String,
        /// What the transport said.
        status: Status,
        /// What to do if there has never been a server; empty otherwise.
        advice: String,
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
    /// Messages were handed over that are not in the log: [`Error::not_appended`] has them.
    #[error("{0}")]
    NotAppended(Arc<NotAppended>),
    /// What was to be sent could not be read: nothing of an output is kept, and of messages those before it are appended.
    #[error("{}the source failed: {error}", at(*.index))]
    Source {
        /// Of messages: the number of the one that did not come, from 0.
        index: Option<u64>,
        /// What the source said.
        #[source]
        error: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The tokio runtime ended before all was sent that was handed over.
    #[error("the tokio runtime ended before they were sent: call Client::close before that")]
    RuntimeEnded,
    /// The server does not have the method: it is older than this client.
    #[error(
        "the server does not have {method}: {}; upgrade the server",
        if .server_version.is_empty() { "it is older than this client".to_owned() } else { format!("it is contextstore {server_version}, and this client is {}", env!("CARGO_PKG_VERSION")) }
    )]
    UnsupportedByServer {
        /// The method, such as `contextstore.v1.ContextStore/Compress`.
        method: String,
        /// The server's version; empty if that is not known.
        server_version: String,
    },
    /// The server's answer is not one of the protocol.
    #[error("the server broke the protocol: {problem}")]
    Protocol {
        /// What was wrong with it.
        problem: String,
    },
}

/// Messages that were handed over and are not in the log, as [`Error::not_appended`] has them.
#[derive(Debug, Clone)]
pub struct NotAppended {
    pub(crate) error: Error,
    pub(crate) index: Option<u64>,
    pub(crate) messages: Vec<NewMessage>,
    /// Those of handles that are gone.
    pub(crate) lost: u64,
}

impl NotAppended {
    pub(crate) fn new(error: Error, index: Option<u64>, messages: Vec<NewMessage>) -> Self {
        Self { error, index, messages, lost: 0 }
    }

    /// The error of a call that was given a message, which comes behind those of earlier calls.
    pub(crate) fn with(error: Error, message: NewMessage) -> Error {
        // Others may have the same error.
        let mut all = if let Error::NotAppended(why) = error {
            Self::clone(&why)
        } else {
            Self::new(error, None, Vec::new())
        };
        all.messages.push(message);
        Error::NotAppended(Arc::new(all))
    }

    /// Why the first of them was not appended.
    pub fn cause(&self) -> &Error {
        &self.error
    }

    /// How many they are, with those of handles that were dropped, which are not kept.
    pub fn count(&self) -> u64 {
        self.messages.len() as u64 + self.lost
    }
}

impl fmt::Display for NotAppended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count();
        let were = if count == 1 { "message was" } else { "messages were" };
        write!(f, "{}{} ({count} {were} not appended)", at(self.index), self.error)
    }
}

fn at(index: Option<u64>) -> String {
    index.map(|index| format!("message {index}: ")).unwrap_or_default()
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
    /// The name of the reason, also of one that only a newer server knows; empty if there is none.
    pub reason_name: String,
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
            Self::NotAppended(not) => not.error.code(),
            Self::Source { .. } | Self::RuntimeEnded => Code::Cancelled,
            Self::UnsupportedByServer { .. } => Code::Unimplemented,
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
            Self::NotAppended(not) => not.error.refusal(),
            Self::Config { .. }
            | Self::Connection { .. }
            | Self::Deadline { .. }
            | Self::Hook { .. }
            | Self::Spawn { .. }
            | Self::Source { .. }
            | Self::RuntimeEnded
            | Self::UnsupportedByServer { .. }
            | Self::Protocol { .. } => None,
        }
    }

    /// Messages that are not known to be in the log, in order: those that were handed over before the call that failed, and last
    /// what that call was given, if it is one that appends, also if it is too large. Append them again as they are, with
    /// [`Task::append`](crate::Task::append) or [`Task::append_later`](crate::Task::append_later): they have kept their
    /// request ids, so each is stored once.
    ///
    /// ```no_run
    /// # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
    /// if let Err(error) = task.flush().await {
    ///     for message in error.not_appended() {
    ///         task.append(message.clone()).await?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn not_appended(&self) -> &[NewMessage] {
        if let Self::NotAppended(not) = self { &not.messages } else { &[] }
    }

    /// The number of the message that failed, from 0, where many were given: those before it are appended.
    pub fn index(&self) -> Option<u64> {
        match self {
            Self::NotAppended(not) => not.index,
            Self::Source { index, .. } => *index,
            Self::Config { .. }
            | Self::Connection { .. }
            | Self::Deadline { .. }
            | Self::Refused(_)
            | Self::Hook { .. }
            | Self::Spawn { .. }
            | Self::RuntimeEnded
            | Self::UnsupportedByServer { .. }
            | Self::Protocol { .. } => None,
        }
    }

    /// Why messages were not appended; any other error is its own cause.
    pub fn cause(&self) -> &Self {
        if let Self::NotAppended(not) = self { not.error.cause() } else { self }
    }

    /// Whether the same call, with the same request id, may succeed soon without anything else being done: the
    /// connection broke, or the server said after how long to try again. A task that somebody else works on may take
    /// any time, so whether to wait for it is the caller's to decide.
    pub fn is_transient(&self) -> bool {
        match self {
            // Where there has never been a server, there will be none.
            Self::Connection { advice, .. } => advice.is_empty(),
            Self::NotAppended(not) => not.error.is_transient(),
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
            | Self::Source { .. }
            | Self::RuntimeEnded
            | Self::UnsupportedByServer { .. }
            | Self::Protocol { .. } => false,
        }
    }

    /// What a status means. One that the transport made has a source; one that a server sent has none.
    pub(crate) fn from_status(status: Status, address: &str) -> Self {
        if reach::is_lost(&status) {
            return Self::Connection { address: address.to_owned(), status, advice: String::new() };
        }
        let details = status.get_error_details();
        let info = details.error_info().filter(|info| info.domain == ERROR_DOMAIN);
        if info.is_none()
            && let Some(method) = reach::method_of(&status)
        {
            return Self::UnsupportedByServer { method, server_version: String::new() };
        }
        let reason = info.and_then(|info| ErrorReason::from_str_name(&info.reason));
        let fields = details.bad_request().map(|bad| bad.field_violations.as_slice()).unwrap_or_default();
        let violation = |field: &tonic_types::FieldViolation| FieldViolation {
            field: field.field.clone(),
            problem: field.description.clone(),
        };
        Self::Refused(Box::new(Refusal {
            code: status.code(),
            reason: reason.unwrap_or_default(),
            reason_name: info.map(|info| info.reason.clone()).unwrap_or_default(),
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

    /// The refusal of a message that is too large to be sent, as the server words it.
    pub(crate) fn too_large(size: u64, limit: u64) -> Self {
        let metadata = [("size", size), ("limit", limit)];
        Self::Refused(Box::new(Refusal {
            code: Code::InvalidArgument,
            reason: ErrorReason::TooLarge,
            reason_name: ErrorReason::TooLarge.as_str_name().to_owned(),
            message: format!(
                "the request has {size} bytes; at most {limit} are allowed (limits.message_bytes)"
            ),
            fields: Vec::new(),
            metadata: metadata.map(|(name, value)| (name.to_owned(), value.to_string())).into(),
            retry_after: None,
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
