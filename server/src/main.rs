//! The `contextstore` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    contextstore::cli::run()
}
