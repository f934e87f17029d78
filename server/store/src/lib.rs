//! Tasks in a data directory.
//!
//! # Layout
//! - [`store`]: tasks: start, append, read, rewrite, finish, recover, watch
//! - [`outputs`]: the outputs of tools
//! - [`log`]: the logs of a task and the fold
//! - [`catalog`]: `tasks.db`, a view that can be rebuilt

use contextstore_base::{infra, model};
use contextstore_policy::{context, mask, render};

pub mod catalog;
pub mod log;
pub mod outputs;
pub mod store;
