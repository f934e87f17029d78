//! Contexts are kept small: on demand, by the agent itself, automatically, and back again, through the socket of a real
//! server. What a summary of an LLM does is in compress_faults.rs.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests look at the disk as it is, and match what matters to them"
)]

#[path = "compress/agent.rs"]
mod agent;
#[path = "compress/auto.rs"]
mod auto;
#[path = "compress/demand.rs"]
mod demand;
#[path = "compress/kept.rs"]
mod kept;
#[path = "compress/large.rs"]
mod large;
#[path = "support/scene.rs"]
mod scene;
#[path = "support/server.rs"]
mod server;
#[path = "support/service.rs"]
mod service;
#[path = "compress/smaller.rs"]
mod smaller;
#[path = "compress/undo.rs"]
mod undo;
#[path = "support/wire.rs"]
mod wire;
