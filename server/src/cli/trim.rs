//! `contextstore output trim`: replaces the oldest outputs in the view of a task by placeholders.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::Failure;
use super::compress::Output as Form;
use super::facts::Pressure;
use super::target::{Access, Target};
use crate::model::TaskId;

#[derive(Debug, Args)]
pub(super) struct Trim {
    /// The task
    #[arg(value_name = "UUID", value_parser = TaskId::parse)]
    id: TaskId,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    access: Access,
    /// Most tokens of the outputs afterwards [default: the task's own budget]
    #[arg(long, value_name = "N")]
    budget_tokens: Option<u64>,
    /// The output format
    #[arg(long = "output", value_enum, default_value_t = Form::Text)]
    form: Form,
}

impl Trim {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let (runtime, task) = self.target.held(&self.access, self.id)?;
        let done = runtime.block_on(task.outputs().trim(self.budget_tokens))?;
        let pressure = Pressure::from(done.pressure.unwrap_or_default());
        match self.form {
            Form::Text => {
                writeln!(out, "trimmed   {} outputs, generation {}", done.trimmed, done.generation)?;
                writeln!(out, "tokens    {} → {} of outputs", done.tokens_before, done.tokens_after)?;
                writeln!(out, "pressure  {}", pressure.words())?;
            }
            Form::Json => {
                let done = json!({
                    "trimmed": done.trimmed,
                    "tokens_before": done.tokens_before,
                    "tokens_after": done.tokens_after,
                    "generation": done.generation,
                    "pressure": pressure,
                });
                serde_json::to_writer(&mut *out, &done).map_err(io::Error::from)?;
                writeln!(out)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
