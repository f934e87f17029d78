//! The reasons of `StoreError` and those of the protocol are the same, and their comments tell the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use contextstore_base::model::{Holder, InstanceId, InvalidField, SizeUnit, Status, StoreError, TaskId};
use contextstore_proto::v1::ErrorReason;

/// The gRPC codes an error may come with.
const CODES: [&str; 11] = [
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "FAILED_PRECONDITION",
    "ABORTED",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "DATA_LOSS",
    "INTERNAL",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
];

fn source(path: &str) -> String {
    fs::read_to_string(test_support::repository().join(path)).unwrap()
}

fn one_of_each() -> Vec<StoreError> {
    use StoreError as E;
    let id = TaskId::new();
    let text = || "text".to_owned();
    let failure = || io::Error::other("failure");
    let holder =
        Holder { instance_id: InstanceId::parse("agent-1").unwrap(), process_id: 7, hostname: text() };
    vec![
        E::Invalid(InvalidField::new("role", "is empty")),
        E::TooLarge { size: 9, limit: 8 },
        E::RequestTooLarge { size: 9, limit: 8, unit: SizeUnit::Tokens },
        E::TaskNotFound { id },
        E::TaskExists { id },
        E::MessageNotFound { id, seq: 3, last: 2 },
        E::WrongStatus { id, status: Status::Completed, action: "append" },
        E::LeaseHeld { id, holder, generation: 2 },
        E::StaleLease { id, given: 1, newest: 2 },
        E::RequestIdReused { request_id: text() },
        E::StaleView { id, given: 1, newest: 2 },
        E::RewriteInFlight { id },
        E::NothingToUndo { id },
        E::LimitUnknown { id },
        E::CompactionNotFound { id },
        E::SummaryRefused { problem: text() },
        E::NothingToSummarize { id, why: "nothing" },
        E::NothingToInherit { id },
        E::NotInView { id, seq: 3 },
        E::Quarantined { id, reason: text() },
        E::NewerFormat { id, found: text() },
        E::WriteFailed { id, source: failure() },
        E::DiskFull { source: failure() },
        E::QuotaExceeded { quota: "limits.task_bytes", used: 7, limit: 8 },
        E::OutputNotFound { id, output: text() },
        E::OutputDamaged { id, output: text(), problem: text() },
        E::OutputMalformed { problem: "no header" },
        E::ReadOnly { reason: text() },
        E::Locked { path: text(), pid: text() },
        E::BadDataDir { path: text(), problem: text() },
        E::Damaged { path: text(), offset: 0, problem: text() },
        E::Catalog { problem: text() },
        E::Io { action: text(), source: failure() },
    ]
}

/// Reasons that only the service gives: they are about calls, not about tasks.
const OF_THE_SERVICE: [ErrorReason; 12] = [
    ErrorReason::Unauthenticated,
    ErrorReason::Forbidden,
    ErrorReason::Malformed,
    ErrorReason::Overloaded,
    ErrorReason::Stopping,
    ErrorReason::Stalled,
    ErrorReason::PlanNotFound,
    ErrorReason::SummaryNotFound,
    ErrorReason::Internal,
    ErrorReason::ProviderNotConfigured,
    ErrorReason::ProviderRefused,
    ErrorReason::ProviderFailed,
];

/// The reasons of the protocol with their comments, but for the one that is never sent.
fn reasons_of_the_protocol() -> BTreeMap<String, String> {
    let mut comments = BTreeMap::new();
    let mut comment = String::new();
    for line in source("proto/contextstore/v1/error_reason.proto").lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("//") {
            comment.push_str(more);
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| line.starts_with("ERROR_REASON_")) {
            comments.insert(name.to_owned(), std::mem::take(&mut comment));
        } else {
            comment.clear();
        }
    }
    comments.remove(ErrorReason::Unspecified.as_str_name());
    comments
}

#[test]
fn every_reason_is_in_the_protocol_and_the_other_way_round() {
    let sent: BTreeSet<String> = one_of_each().iter().map(|error| error.reason().to_owned()).collect();
    assert_eq!(sent.len(), one_of_each().len(), "two errors share a reason");

    let sent: BTreeSet<String> =
        sent.into_iter().chain(OF_THE_SERVICE.map(|reason| reason.as_str_name().to_owned())).collect();
    let generated: BTreeSet<String> = (1..)
        .map_while(|number| ErrorReason::try_from(number).ok())
        .map(|reason| reason.as_str_name().to_owned())
        .collect();
    assert_eq!(sent, generated, "StoreError (left) and ErrorReason (right) differ");
    assert_eq!(sent, reasons_of_the_protocol().into_keys().collect(), "the numbers have a gap");
}

#[test]
fn no_error_is_left_out_of_these_tests() {
    let listed: BTreeSet<String> = one_of_each().iter().map(|error| error.reason().to_owned()).collect();
    let written: BTreeSet<String> = source("server/base/src/model/error.rs")
        .split('"')
        .filter(|text| text.starts_with("ERROR_REASON_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(listed, written, "one_of_each (left) and server/base/src/model/error.rs (right) differ");
}

#[test]
fn the_comment_names_the_code_and_whether_a_retry_helps() {
    let comments = reasons_of_the_protocol();
    for error in one_of_each() {
        let reason = error.reason();
        let comment = &comments[reason];
        let code =
            comment.split_once("Code: ").and_then(|(_, rest)| rest.split_once('.')).map(|(code, _)| code);
        assert!(code.is_some_and(|code| CODES.contains(&code)), "{reason}: no gRPC code in {comment:?}");
        let retry = if error.is_retryable() { "Retry: yes" } else { "Retry: no" };
        assert!(comment.contains(retry), "{reason} is not documented as {retry:?}: {comment:?}");
    }
}

#[test]
fn an_error_says_something_a_person_can_read() {
    for error in one_of_each() {
        let words = error.to_string();
        assert!(words.contains(' ') && !words.contains("ERROR_REASON"), "{words:?}");
    }
}
