//! The Rust client of contextstore.

pub use contextstore_proto::v1;
