//! `contextstore mcp`: a Model Context Protocol server on standard input and output whose tools read a task. Only the
//! protocol is written to standard output; logs go to stderr.

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

/// Offers the tool outputs, the plan and the summaries of a task to an agent's model, as tools of an MCP server on
/// standard input and output. It changes nothing.
#[derive(Debug, Args)]
pub(super) struct Mcp {
    /// The task; by default each tool call names one
    #[arg(long, value_name = "UUID", value_parser = TaskId::parse)]
    task: Option<TaskId>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    access: Access,
}

impl Mcp {
    /// Returns when the peer closes standard input.
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        runtime()?.block_on(async {
            // The agent may start this command before the server, so a missing server is reported by the tool calls.
            let client = self.target.place().client(&self.access).connect_lazy()?;
            let served = Tools::new(client, self.task).serve(stdio()).await;
            let running = served.map_err(|error| io::Error::other(error.to_string()))?;
            running.waiting().await.map_err(io::Error::other)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}
