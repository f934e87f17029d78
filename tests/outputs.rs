//! The outputs of tools through a real server: kept whole, shown in part, read and searched, whatever becomes of the task.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests look at the disk as it is, and match what matters to them"
)]

#[path = "outputs/garbage.rs"]
mod garbage;
#[path = "support/outputs.rs"]
mod outputs;
#[path = "outputs/put.rs"]
mod put;
#[path = "outputs/said.rs"]
mod said;
#[path = "outputs/search.rs"]
mod search;
#[path = "outputs/secrets.rs"]
mod secrets;
#[path = "support/server.rs"]
mod server;
#[path = "outputs/stays.rs"]
mod stays;
#[path = "support/wire.rs"]
mod wire;
