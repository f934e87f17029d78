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
mod ending;
mod errors;
mod fork;
mod hooks;
mod inherit;
mod input;
mod limits;
mod masking;
mod outputs;
mod process_log;
mod rust_client_append;
mod rust_client_chaos;
mod rust_client_outputs;
mod rust_client_servers;
mod rust_client_values;
mod scenarios;
mod service_clients;
mod service_disk;
mod service_stop;
mod service_streams;
mod successor;
mod trim;
