//! A program that works on a store and writes down what it was told, so that it can be killed at any moment:
//! whatever was acknowledged by then must be there afterwards.
//!
//! `workload run DIR` works; `workload verify DIR ACKS` opens what is left and compares it with the notes.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test program: it looks at the disk as it is, and stops at the first surprise"
)]

mod acks;
mod made;
mod run;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use contextstore_base::model::Durability;

#[derive(Debug, Parser)]
enum Command {
    /// Works on the store in DIR, which may be new or left by a run that was killed.
    Run(RunArgs),
    /// Opens the store in DIR and compares it with the notes of all runs on it.
    Verify(VerifyArgs),
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    dir: PathBuf,
    /// Where the notes go, behind those that are there; without it they are printed.
    #[arg(long)]
    acks: Option<PathBuf>,
    /// Another one each time: it is part of the names of the requests.
    #[arg(long)]
    seed: u64,
    /// How many operations to do, over all threads.
    #[arg(long, default_value_t = 1000)]
    ops: u64,
    #[arg(long, default_value_t = 4)]
    threads: u64,
    #[arg(long, value_enum, default_value_t = Level::Group)]
    durability: Level,
    /// Breaks the store, to see that it is noticed.
    #[arg(long, value_enum)]
    sabotage: Option<Sabotage>,
}

#[derive(Debug, clap::Args)]
struct VerifyArgs {
    dir: PathBuf,
    /// The notes. What is seen now is added: it must not go away again.
    acks: PathBuf,
    /// `tests/oracle/check.py`, to have the logs and views on disk checked by it.
    #[arg(long)]
    oracle: Option<PathBuf>,
    /// Ends like a killed process, so that the next start has something to recover.
    #[arg(long)]
    unclean: bool,
    /// At the end deletes `tasks.db` and all views, and sees whether the next start makes the same.
    #[arg(long)]
    rebuild: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Level {
    Group,
    Each,
    Process,
}

impl From<Level> for Durability {
    fn from(level: Level) -> Self {
        match level {
            Level::Group => Self::Group,
            Level::Each => Self::Each,
            Level::Process => Self::Process,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sabotage {
    /// `messages.jsonl` is never synced.
    SkipSync,
    /// Appends are acknowledged before they are made.
    EarlyAck,
}

fn main() -> ExitCode {
    match Command::parse() {
        Command::Run(args) => run::run(&args),
        Command::Verify(args) => verify::verify(&args),
    }
}
