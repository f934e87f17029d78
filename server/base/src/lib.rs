//! What every layer of contextstore shares.
//!
//! # Layout
//! - [`model`]: the nouns, and the one error type
//! - [`infra`]: files, clocks, sockets and metrics

pub mod infra;
pub mod model;
