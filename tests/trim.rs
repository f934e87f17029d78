//! Outputs of tools have a budget in the view: when they pass it, the oldest become notes, in batches, and the log keeps
//! them. Through the socket of a real server.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests look at the disk as it is, and match what matters to them"
)]

#[path = "trim/asked.rs"]
mod asked;
#[path = "trim/auto.rs"]
mod auto;
#[path = "trim/race.rs"]
mod race;
#[path = "support/scene.rs"]
mod scene;
#[path = "support/server.rs"]
mod server;
#[path = "support/service.rs"]
mod service;
#[path = "trim/story.rs"]
mod story;
#[path = "support/wire.rs"]
mod wire;
