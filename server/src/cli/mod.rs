//! The command line: parses arguments and prints results.

mod compress;
mod config;
mod doctor;
mod facts;
mod fork;
mod health;
mod kept;
mod mask;
mod mcp;
mod output;
mod overrides;
mod reader;
mod serve;
mod show;
mod target;
mod tasks;
mod text;
mod trim;
mod undo;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::ConfigError;
use crate::mask::{MaskCounts, Masker};
use crate::model::in_full;
use crate::serve::ServeError;
use crate::telemetry::{self, TelemetryError};

/// Keeps an LLM agent's whole context on disk.
#[derive(Debug, Parser)]
#[command(name = "contextstore", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a data directory over gRPC
    Serve(serve::Serve),
    /// Check a data directory, and repair it if asked
    Doctor(doctor::Doctor),
    /// Print the configuration and the source of each value
    Config(config::Config),
    /// Print a text with its secrets masked, or report where they are
    Mask(mask::Mask),
    /// Check whether a server accepts calls
    Health(health::Health),
    /// Show a task and its last messages
    Show(show::Show),
    /// List tasks
    Tasks(tasks::Tasks),
    /// Read, search, list, trim and collect tool outputs
    Output(output::Output),
    /// Compress the context of a task
    Compress(compress::Compress),
    /// Undo the newest compaction of a task
    Undo(undo::Undo),
    /// Create a task from the first messages of another
    Fork(fork::Fork),
    /// Offer a task to its model as an MCP server on standard input and output
    Mcp(mcp::Mcp),
}

impl Command {
    fn run(self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        match self {
            Self::Serve(serve) => serve.run(),
            Self::Doctor(doctor) => {
                telemetry::start_if_asked(masked)?;
                doctor.run(out)
            }
            Self::Health(health) => {
                telemetry::start_if_asked(masked)?;
                health.run(out)
            }
            Self::Show(show) => {
                telemetry::start_if_asked(masked)?;
                show.run(out)
            }
            Self::Tasks(tasks) => {
                telemetry::start_if_asked(masked)?;
                tasks.run(out)
            }
            Self::Output(output) => {
                telemetry::start_if_asked(masked)?;
                output.run(out)
            }
            Self::Compress(compress) => {
                telemetry::start_if_asked(masked)?;
                compress.run(out)
            }
            Self::Undo(undo) => {
                telemetry::start_if_asked(masked)?;
                undo.run(out)
            }
            Self::Fork(fork) => {
                telemetry::start_if_asked(masked)?;
                fork.run(out)
            }
            Self::Mcp(mcp) => {
                telemetry::start_if_asked(masked)?;
                mcp.run()
            }
            Self::Mask(mask) => mask.run(out),
            // An invalid filter is one of the problems that the command reports.
            Self::Config(config) => config.run(out),
        }
    }
}

/// Masks a line of the log with the built-in rules, which need no configuration.
fn masked(line: &str) -> String {
    Masker::standard().text(line, &mut MaskCounts::default()).into_owned()
}

/// Runs the command of this process.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    // Standard output is not locked, because a command may share it between threads.
    let mut out = io::stdout();
    let done = arguments.command.run(&mut out);
    let flushed = out.flush();
    telemetry::flush();
    match done.and_then(|code| flushed.map(|()| code).map_err(Failure::from)) {
        Ok(code) => code,
        // The reader closed the pipe, for example `head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "contextstore: {}", failure.words());
            ExitCode::from(2)
        }
    }
}

/// The reason why a command failed.
#[derive(Debug)]
enum Failure {
    Store(crate::model::StoreError),
    Serve(ServeError),
    Config(ConfigError),
    Telemetry(TelemetryError),
    Client(contextstore_client::Error),
    Output(io::Error),
}

impl Failure {
    fn words(&self) -> String {
        match self {
            Self::Store(error) => in_full(error),
            Self::Serve(error) => in_full(error),
            Self::Config(error) => in_full(error),
            Self::Telemetry(error) => in_full(error),
            Self::Client(error) => error.to_string(),
            Self::Output(error) => in_full(error),
        }
    }
}

impl From<crate::model::StoreError> for Failure {
    fn from(error: crate::model::StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        Self::Serve(error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<TelemetryError> for Failure {
    fn from(error: TelemetryError) -> Self {
        Self::Telemetry(error)
    }
}

impl From<contextstore_client::Error> for Failure {
    fn from(error: contextstore_client::Error) -> Self {
        Self::Client(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
