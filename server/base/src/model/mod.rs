//! The nouns of the domain: ids, tasks, messages, records and the one error type. No I/O.

mod counter;
mod error;
mod ids;
pub mod json;
mod message;
mod provider;
mod records;
mod rewrite;
mod task;

pub use counter::{Calibration, Overflow, Reported, TokenCounter};
pub use error::{InvalidField, SizeUnit, StoreError, in_full};
pub use ids::{InstanceId, OutputRef, RequestId, TaskId};
pub use json::fields;
pub use json::{Json, JsonKind};
pub use message::plain_name;
pub use message::{NewMessage, Role};
pub use provider::Provider;
pub use records::{Event, LeaseReason, Plan, ToolCall, ToolStatus};
pub use rewrite::{Literal, LiteralKind, Rewrite, Segment, SummaryRecord};
pub use task::plain_text;
pub use task::{
    Durability, Health, Holder, InheritedFrom, Metadata, Page, Status, TaskConfig, TaskFilter, TaskKey,
    TaskOrder, TaskRow,
};
