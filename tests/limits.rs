//! The limits of a server: what is over one is refused clearly, and what is not goes on.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests look at the disk as it is, and match what matters to them"
)]

#[path = "limits/crowd.rs"]
mod crowd;
#[path = "limits/quotas.rs"]
mod quotas;
#[path = "support/server.rs"]
mod server;
#[path = "limits/sizes.rs"]
mod sizes;
#[path = "support/wire.rs"]
mod wire;
