//! `contextstore output`: reads, searches, lists, trims and collects tool outputs.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use contextstore_client::{Grep as Search, ReadOutput, v1};
use serde_json::json;

use super::Failure;
use super::compress::Output as Form;
use super::kept::{Kept, Listed};
use super::reader::{Reader, runtime};
use super::target::{Access, Target};
use super::text::{bytes, safe};
use super::trim::Trim;
use crate::config::parse_duration;
use crate::model::{InvalidField, TaskId};
use crate::outputs::OutputName;

/// Reads, searches, lists and trims the tool outputs of a task, from a running server or from a data directory.
#[derive(Debug, Args)]
pub(super) struct Output {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print numbered lines of an output, or its raw bytes
    Cat(Cat),
    /// Print matching lines, like ripgrep
    Grep(Grep),
    /// Print the metadata of an output
    Stat(Stat),
    /// List the outputs of a task
    Ls(Ls),
    /// Replace the oldest outputs in the view of an active task by placeholders
    Trim(Trim),
    /// Remove outputs that no log references
    Gc(Gc),
}

/// The task and the place to read from.
#[derive(Debug, Args)]
struct At {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
struct Cat {
    /// The task
    #[arg(value_name = "UUID", value_parser = TaskId::parse)]
    id: TaskId,
    /// The output: out-…, or seq=N for the text of a message
    #[arg(value_name = "REF", value_parser = output_name)]
    output: OutputName,
    #[command(flatten)]
    at: At,
    /// Lines to skip, or bytes with --raw
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// Most lines to print, or bytes with --raw
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    limit: u64,
    /// Print the raw bytes
    #[arg(long)]
    raw: bool,
}

#[derive(Debug, Args)]
struct Grep {
    /// The task
    #[arg(value_name = "UUID", value_parser = TaskId::parse)]
    id: TaskId,
    /// A regular expression in the syntax of ripgrep
    pattern: String,
    /// The output; by default all outputs of the task
    #[arg(long = "ref", value_name = "REF", value_parser = output_name)]
    output: Option<OutputName>,
    #[command(flatten)]
    at: At,
    /// Ignore upper and lower case
    #[arg(short, long)]
    ignore_case: bool,
    /// Search for plain text instead of a regular expression
    #[arg(short = 'F', long)]
    fixed: bool,
    /// Lines to show before each match
    #[arg(short = 'B', long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    before: u32,
    /// Lines to show after each match
    #[arg(short = 'A', long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    after: u32,
    /// Most matches
    #[arg(short, long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    max_matches: u64,
}

#[derive(Debug, Args)]
struct Stat {
    /// The task
    #[arg(value_name = "UUID", value_parser = TaskId::parse)]
    id: TaskId,
    /// The output: out-…, or seq=N for the text of a message
    #[arg(value_name = "REF", value_parser = output_name)]
    output: OutputName,
    #[command(flatten)]
    at: At,
    /// The output format
    #[arg(long = "output", value_enum, default_value_t = Form::Text)]
    form: Form,
}

#[derive(Debug, Args)]
struct Ls {
    /// The task
    #[arg(value_name = "UUID", value_parser = TaskId::parse)]
    id: TaskId,
    #[command(flatten)]
    at: At,
    /// The output format
    #[arg(long = "output", value_enum, default_value_t = Form::Text)]
    form: Form,
}

#[derive(Debug, Args)]
struct Gc {
    /// The task; by default all tasks
    #[arg(value_name = "UUID", value_parser = TaskId::parse)]
    id: Option<TaskId>,
    #[command(flatten)]
    at: At,
    /// Only report what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Keep outputs that are younger than this
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    min_age: Duration,
    /// The output format
    #[arg(long = "output", value_enum, default_value_t = Form::Text)]
    form: Form,
}

fn output_name(text: &str) -> Result<OutputName, InvalidField> {
    let problem = "is not out- and 32 hex digits, or seq= and the number of a message";
    OutputName::parse(text).ok_or_else(|| InvalidField::new("REF", problem))
}

impl At {
    fn read(&self, act: impl FnOnce(&Kept<'_>) -> Result<ExitCode, Failure>) -> Result<ExitCode, Failure> {
        let reader = Reader::open(&self.target.place(), &self.access)?;
        let done = act(&Kept::of(&reader));
        reader.close()?;
        done
    }
}

impl Output {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        match &self.action {
            Action::Cat(cat) => cat.at.read(|kept| cat.run(kept, out)),
            Action::Grep(grep) => grep.at.read(|kept| grep.run(kept, out)),
            Action::Stat(stat) => stat.at.read(|kept| {
                write_listed(&kept.stat(stat.id, stat.output)?, stat.form, out)?;
                Ok(ExitCode::SUCCESS)
            }),
            Action::Ls(ls) => ls.at.read(|kept| {
                kept.list(ls.id, &mut |listed| write_listed(&listed, ls.form, out))?;
                Ok(ExitCode::SUCCESS)
            }),
            Action::Trim(trim) => trim.run(out),
            Action::Gc(gc) => gc.run(out),
        }
    }
}

impl Cat {
    fn run(&self, kept: &Kept<'_>, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        if self.raw {
            kept.bytes(
                self.id,
                self.output,
                self.offset,
                self.limit,
                &mut |chunk| Ok(out.write_all(chunk)?),
            )?;
        } else {
            let read = ReadOutput { offset: self.offset, limit: self.limit, max_line_length: 0 };
            kept.lines(self.id, self.output, read, &mut |chunk| write_lines(chunk, out))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns lines that are safe to print on a terminal.
fn write_lines(chunk: &[u8], out: &mut dyn Write) -> Result<(), Failure> {
    for line in String::from_utf8_lossy(chunk).split_inclusive(['\n', '\t']) {
        let text = line.trim_end_matches(['\n', '\t']);
        write!(out, "{}{}", safe(text), &line[text.len()..])?;
    }
    Ok(())
}

impl Grep {
    /// Exits like grep: 0 if there was a match, otherwise 1.
    fn run(&self, kept: &Kept<'_>, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let search = Search {
            ref_id: self.output.map(|output| output.to_string()).unwrap_or_default(),
            pattern: self.pattern.clone(),
            ignore_case: self.ignore_case,
            fixed: self.fixed,
            before: self.before,
            after: self.after,
            max_matches: self.max_matches,
            max_line_length: 0,
        };
        let matches = kept.grep(self.id, search, &mut |line: v1::GrepLine| {
            if line.gap_before {
                writeln!(out, "--")?;
            }
            if self.output.is_none() {
                write!(out, "{}:", line.ref_id)?;
            }
            let mark = if line.is_match { ':' } else { '-' };
            Ok(writeln!(out, "{}{mark}{}", line.line_number, safe(&line.text))?)
        })?;
        Ok(if matches > 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

fn write_listed(listed: &Listed, form: Form, out: &mut dyn Write) -> Result<(), Failure> {
    match form {
        Form::Text => {
            let packed = if listed.compressed { ", packed" } else { "" };
            let tool = if listed.tool_name.is_empty() { "-" } else { &listed.tool_name };
            writeln!(
                out,
                "{}  {:>10}  {:>9} lines  {}  {}  {}{packed}",
                listed.id,
                bytes(listed.byte_size),
                listed.line_count,
                safe(&listed.create_time),
                safe(&listed.media_type),
                safe(tool)
            )?;
        }
        Form::Json => {
            serde_json::to_writer(&mut *out, listed).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

impl Gc {
    fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let task = self.id.map(|id| id.to_string()).unwrap_or_default();
        let found = runtime()?.block_on(async {
            let client = self.at.target.place().client(&self.at.access).connect().await?;
            client.collect_garbage(&task, Some(self.min_age), self.dry_run).await
        })?;
        match self.form {
            Form::Text => {
                let word = if self.dry_run { "would be removed" } else { "removed" };
                let (gone, left) = (bytes(found.removed_bytes), bytes(found.kept_bytes));
                writeln!(
                    out,
                    "{} outputs ({gone}) {word}, {} ({left}) kept, {} tasks",
                    found.removed, found.kept, found.tasks
                )?;
                for failed in &found.failed {
                    writeln!(out, "failed: {}", safe(failed))?;
                }
            }
            Form::Json => {
                let told = json!({
                    "removed": found.removed,
                    "removed_bytes": found.removed_bytes,
                    "kept": found.kept,
                    "kept_bytes": found.kept_bytes,
                    "tasks": found.tasks,
                    "failed": found.failed,
                    "dry_run": self.dry_run,
                });
                serde_json::to_writer(&mut *out, &told).map_err(io::Error::from)?;
                writeln!(out)?;
            }
        }
        Ok(if found.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}
