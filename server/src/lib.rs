//! contextstore keeps an LLM agent's whole context on disk.
//!
//! # Layout
//! - [`cli`]: the command line
//! - [`serve`]: the server: sockets, the gRPC service, upkeep
//! - `grpc`: wire ⇄ model
//! - [`http`]: metrics and health over HTTP
//! - [`config`]: the configuration of a server
//! - [`telemetry`]: the log of the process
//!
//! Everything else stands in crates below: `contextstore-app` (use cases), `contextstore-llm`, `contextstore-store`,
//! `contextstore-summarizer`, `contextstore-policy` and `contextstore-base`.

pub use chrono;
pub use contextstore_base::{infra, model};
pub use contextstore_llm as llm;
pub use contextstore_policy::{context, mask, render};
pub use contextstore_store::{catalog, log, outputs, store};

use contextstore_app::{compress, hooks};

pub mod cli;
pub mod config;
mod grpc;
pub mod http;
pub mod serve;
pub mod telemetry;

/// The example of the README, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
