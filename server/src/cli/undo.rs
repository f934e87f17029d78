//! `contextstore undo`: undoes the newest compaction of a task.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::Failure;
use super::compress::Output;
use super::facts::Pressure;
use super::target::{Access, Target};
use crate::model::TaskId;

/// Undoes the newest compaction of an active task: the model sees the earlier view, and what was appended since.
#[derive(Debug, Args)]
pub(super) struct Undo {
    /// The task
    #[arg(value_name = "UUID", value_parser = TaskId::parse)]
    id: TaskId,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    access: Access,
    /// The output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Undo {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let (runtime, task) = self.target.held(&self.access, self.id)?;
        let undone = runtime.block_on(task.undo_compaction())?;
        let (generation, pressure) = (undone.generation, Pressure::from(undone.pressure.unwrap_or_default()));
        match self.output {
            Output::Text => {
                writeln!(out, "undone    generation {generation}")?;
                writeln!(out, "pressure  {}", pressure.words())?;
            }
            Output::Json => {
                let done = json!({"generation": generation, "pressure": pressure});
                serde_json::to_writer(&mut *out, &done).map_err(io::Error::from)?;
                writeln!(out)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
