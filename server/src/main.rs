//! The `contextstore` binary.

use std::process::ExitCode;

// The system's keeps what a thousand streams once took, and asks the system for every chunk anew.
#[cfg(all(feature = "jemalloc", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    contextstore::cli::run()
}
