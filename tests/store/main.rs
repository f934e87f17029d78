//! The store as a library: its files, its recovery, and what every fault, kill and power cut leaves behind.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests look at the disk as it is, print what they measured, and stop at the first surprise"
)]

mod compat;
mod doctor;
mod faults;
mod kill;
mod model;
mod outputs_faults;
mod power;
mod strace;
mod tables;
