//! Functions of their input alone: rendering for each provider, counting tokens, and the fakes that check both.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests look at the disk as it is, print what they measured, and stop at the first surprise"
)]

mod providers;
mod render;
mod retention;
mod tokens;
