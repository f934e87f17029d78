//! The nouns of the domain: ids, tasks, messages, records and the one error type. No I/O.

mod error;
mod ids;
mod task;

pub use error::{InvalidField, StoreError};
pub use ids::{InstanceId, RequestId, TaskId};
pub use task::{
    Durability, Health, Holder, Metadata, Page, Status, TaskConfig, TaskFilter, TaskKey, TaskOrder, TaskRow,
};
