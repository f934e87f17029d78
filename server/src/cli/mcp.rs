//! `contextstore mcp`: what is kept of a task, as tools that its model can call itself, over the Model Context Protocol on
//! standard input and output. Nothing else is written there; the log of the process goes to stderr.

mod expand;
mod tools;

use std::io;
use std::process::ExitCode;

use clap::Args;
use rmcp::ServiceExt;
use rmcp::transport::stdio;

use super::Failure;
use super::reader::runtime;
use super::target::{Access, Target};
use crate::model::TaskId;
use tools::Tools;

/// Offers an agent's model the whole outputs of tools, the plan and the summaries of a task, as tools of an MCP server on
/// standard input and output. It changes nothing.
#[derive(Debug, Args)]
pub(super) struct Mcp {
    /// The task; without it, each call of a tool names one
    #[arg(long, value_name = "UUID", value_parser = TaskId::parse)]
    task: Option<TaskId>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    access: Access,
}

impl Mcp {
    /// Returns when the other side closes standard input.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        runtime()?.block_on(async {
            // The agent may start this before the server: who is not there is told to who calls a tool.
            let client = self.target.place().client(&self.access).connect_lazy()?;
            let served = Tools::new(client, self.task).serve(stdio()).await;
            let running = served.map_err(|error| io::Error::other(error.to_string()))?;
            running.waiting().await.map_err(io::Error::other)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
