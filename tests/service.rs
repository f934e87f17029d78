//! What a server does, seen through its socket, its command line and its files: one program, as each program of its own takes
//! seconds to link. `cargo test --test service compress::` runs one part.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests look at the disk as it is, match what matters to them, tell what they saw, and stop where they cannot go on"
)]

mod access;
mod admin;
mod api;
mod chat;
mod cli;
mod cli_change;
mod client;
mod client_chat;
mod client_compress;
mod client_outputs;
mod client_tls;
mod client_work;
mod compress;
mod compress_faults;
mod compress_llm;
mod compress_property;
mod config;
#[path = "support/dynamic.rs"]
mod dynamic;
mod ending;
mod errors;
#[path = "support/fake_llm.rs"]
mod fake_llm;
mod fork;
mod hooks;
mod input;
mod limits;
mod masking;
#[path = "support/nobody.rs"]
mod nobody;
#[path = "support/outputs.rs"]
mod outputs;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/refusal.rs"]
mod refusal;
mod scenarios;
#[path = "support/scene.rs"]
mod scene;
#[path = "support/server.rs"]
mod server;
#[path = "support/service.rs"]
mod service;
mod service_clients;
mod service_disk;
mod service_stop;
mod service_streams;
#[path = "outputs.rs"]
mod tool_outputs;
#[path = "support/trace.rs"]
mod trace;
mod trim;
#[path = "support/wire.rs"]
mod wire;
