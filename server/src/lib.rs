//! contextstore keeps an LLM agent's whole context on disk.
//!
//! # Layout
//! - [`model`]: the nouns, and the one error type
//! - [`infra`]: files and clocks
//! - [`catalog`]: `tasks.db`, a view that can be rebuilt

pub mod catalog;
pub mod infra;
pub mod model;
