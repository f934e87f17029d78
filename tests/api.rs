//! Every call of the service does what its comment in the protocol says, through the socket of a real server.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests look at the disk as it is, and match what matters to them"
)]

#[path = "api/disk.rs"]
mod disk;
#[path = "support/dynamic.rs"]
mod dynamic;
#[path = "api/facts.rs"]
mod facts;
#[path = "api/follow.rs"]
mod follow;
#[path = "api/history.rs"]
mod history;
#[path = "api/leases.rs"]
mod leases;
#[path = "api/lifecycle.rs"]
mod lifecycle;
#[path = "api/media.rs"]
mod media;
#[path = "api/messages.rs"]
mod messages;
#[path = "support/nobody.rs"]
mod nobody;
#[path = "api/pipeline.rs"]
mod pipeline;
#[path = "api/reasons.rs"]
mod reasons;
#[path = "support/refusal.rs"]
mod refusal;
#[path = "api/requests.rs"]
mod requests;
#[path = "api/retries.rs"]
mod retries;
#[path = "support/server.rs"]
mod server;
#[path = "api/tokens.rs"]
mod tokens;
#[path = "support/trace.rs"]
mod trace;
#[path = "api/views.rs"]
mod views;
#[path = "support/wire.rs"]
mod wire;
