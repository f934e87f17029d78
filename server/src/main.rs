//! The `contextstore` binary.

use std::io::IsTerminal;
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    // What a command finds it says itself; the log is for those who ask.
    let filter = EnvFilter::builder().with_env_var("CONTEXTSTORE_LOG").from_env_lossy();
    let colour = std::io::stderr().is_terminal();
    let asked = std::env::var_os("CONTEXTSTORE_LOG").is_some();
    let filter = if asked { filter } else { EnvFilter::new("off") };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour).init();
    contextstore::cli::run()
}
