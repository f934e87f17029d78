//! Tests whose worth grows with their size: memory, load, kills and races. `make test` runs them at push size;
//! `CONTEXTSTORE_TEST_LONG=1` (`make test-long`) runs them at full size.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests look at the disk as it is, print what they measured, and stop at the first surprise"
)]

mod chat_memory;
mod compress_memory;
mod compress_race;
mod fuzz;
mod large;
mod outputs_memory;
mod service_kill;
mod service_memory;
mod service_soak;
