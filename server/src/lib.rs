//! contextstore keeps an LLM agent's whole context on disk.
//!
//! # Layout
//! - [`cli`]: the command line
//! - [`serve`]: the server: sockets, the gRPC service, upkeep
//! - `compress`: keeps contexts small
//! - `hooks`: tells others what happens to tasks
//! - [`llm`]: asks models of providers
//! - [`http`]: metrics and health over HTTP
//! - [`config`]: the configuration of a server
//! - [`context`]: pure policy: tokens, pressure
//! - [`render`]: the view as the body of a request to a provider
//! - [`mask`]: replaces secrets in texts
//! - [`model`]: the nouns, and the one error type
//! - [`infra`]: files, clocks, sockets, the log of the process and its metrics
//! - [`store`]: tasks in a data directory
//! - [`outputs`]: the outputs of tools
//! - [`log`]: the logs of a task and the fold
//! - [`catalog`]: `tasks.db`, a view that can be rebuilt

pub use chrono;

pub mod catalog;
pub mod cli;
mod compress;
pub mod config;
pub mod context;
mod grpc;
mod hooks;
pub mod http;
pub mod infra;
pub mod llm;
pub mod log;
pub mod mask;
pub mod model;
pub mod outputs;
pub mod render;
pub mod serve;
pub mod store;

/// The example of the README, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
