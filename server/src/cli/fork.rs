//! `contextstore fork`: creates a task from the first messages of another.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use contextstore_client::Fork as How;
use serde_json::json;

use super::Failure;
use super::compress::Output;
use super::reader::runtime;
use super::target::{Access, Target};
use super::text::safe;
use crate::model::TaskId;

/// Creates a task from the first messages of another, whatever its status, and prints its id. The two tasks are
/// independent. The new task is paused, so that an agent can resume it.
#[derive(Debug, Args)]
pub(super) struct Fork {
    /// The task
    #[arg(value_name = "UUID", value_parser = TaskId::parse)]
    id: TaskId,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    access: Access,
    /// The last message to copy; by default all
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    at: Option<u64>,
    /// The output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Fork {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let how = How { at_seq: self.at.unwrap_or_default(), ..How::default() };
        let task = runtime()?.block_on(async {
            let client = self.target.place().client(&self.access).connect().await?;
            client.fork_task(self.id.to_string(), how).await?.pause().await
        })?;
        match self.output {
            Output::Text => writeln!(out, "{}", safe(&task.uuid))?,
            Output::Json => {
                let made =
                    json!({"uuid": task.uuid, "status": task.status().name(), "last_seq": task.last_seq});
                serde_json::to_writer(&mut *out, &made).map_err(io::Error::from)?;
                writeln!(out)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
