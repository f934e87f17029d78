//! The foundation that every layer of contextstore shares.
//!
//! # Layout
//! - [`model`]: the domain types, and the one error type
//! - [`infra`]: files, clocks, sockets and metrics

pub mod infra;
pub mod model;
