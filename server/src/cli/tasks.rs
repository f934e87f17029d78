//! `contextstore tasks`: lists tasks.

use std::io::{self, Write};
use std::process::ExitCode;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::builder::NonEmptyStringValueParser as Text;
use clap::{Args, ValueEnum};

use super::Failure;
use super::facts::Facts;
use super::reader::Reader;
use super::target::{Access, Target};
use super::text::{safe, short};
use crate::model::{Status, TaskFilter};

/// Widest column for user-supplied text.
const WIDTH: usize = 40;

/// Lists tasks, newest first, from a running server or from a data directory.
#[derive(Debug, Args)]
pub(super) struct Tasks {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    access: Access,
    /// Only tasks with this status; can be repeated, or separated by commas
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<StatusWord>,
    /// Only tasks from this system, such as github
    #[arg(long, value_name = "SOURCE", value_parser = Text::new())]
    source: Option<String>,
    /// Only tasks of this owner's repositories
    #[arg(long, value_parser = Text::new())]
    owner: Option<String>,
    /// Only tasks of this repository, without its owner
    #[arg(long, value_parser = Text::new())]
    repo: Option<String>,
    /// Only tasks of this type, such as issue
    #[arg(long = "type", value_name = "TYPE", value_parser = Text::new())]
    task_type: Option<String>,
    /// Only tasks with this id: the number or name of the issue
    #[arg(long = "id", value_name = "ID", value_parser = Text::new())]
    task_id: Option<String>,
    /// Only tasks of this user
    #[arg(long, value_parser = Text::new())]
    user: Option<String>,
    /// Most tasks to list
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// The output format
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StatusWord {
    Running,
    Paused,
    Completed,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table for people
    Table,
    /// One JSON array
    Json,
    /// One JSON object per line
    Jsonl,
}

impl From<StatusWord> for Status {
    fn from(word: StatusWord) -> Self {
        match word {
            StatusWord::Running => Self::Running,
            StatusWord::Paused => Self::Paused,
            StatusWord::Completed => Self::Completed,
            StatusWord::Failed => Self::Failed,
        }
    }
}

impl Tasks {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let reader = Reader::open(&self.target.place(), &self.access)?;
        let written = self.write(&reader, out);
        reader.close()?;
        let more = written?;
        if more && self.output == Output::Table {
            out.flush()?;
            let limit = self.limit;
            writeln!(io::stderr(), "contextstore: there are more than {limit} tasks; --limit shows more")?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, reader: &Reader, out: &mut dyn Write) -> Result<bool, Failure> {
        let filter = self.filter();
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        match self.output {
            Output::Table => {
                let mut rows = vec![HEAD.map(str::to_owned)];
                let more = reader.tasks(&filter, limit, &mut |task| {
                    rows.push(row(&task));
                    Ok(())
                })?;
                write_table(&rows, out)?;
                Ok(more)
            }
            Output::Jsonl => reader.tasks(&filter, limit, &mut |task| {
                serde_json::to_writer(&mut *out, &task).map_err(io::Error::from)?;
                Ok(writeln!(out)?)
            }),
            Output::Json => {
                let mut before = "[\n";
                let more = reader.tasks(&filter, limit, &mut |task| {
                    out.write_all(before.as_bytes())?;
                    before = ",\n";
                    Ok(serde_json::to_writer(&mut *out, &task).map_err(io::Error::from)?)
                })?;
                writeln!(out, "{}", if before == "[\n" { "[]" } else { "\n]" })?;
                Ok(more)
            }
        }
    }

    fn filter(&self) -> TaskFilter {
        TaskFilter {
            statuses: self.status.iter().copied().map(Status::from).collect(),
            task_source: self.source.clone(),
            owner: self.owner.clone(),
            repo: self.repo.clone(),
            task_type: self.task_type.clone(),
            task_id: self.task_id.clone(),
            user: self.user.clone(),
            created_from: None,
            created_before: None,
        }
    }
}

const COLUMNS: usize = 10;
const HEAD: [&str; COLUMNS] =
    ["UUID", "STATUS", "SOURCE", "REPOSITORY", "TYPE", "ID", "USER", "MESSAGES", "TOKENS", "UPDATED"];
/// Numbers are aligned to the right.
const NUMBERS: [usize; 2] = [7, 8];

fn row(task: &Facts) -> [String; COLUMNS] {
    let word = |text: &str| if text.is_empty() { "-".to_owned() } else { short(text, WIDTH) };
    // A task that cannot be written is the most important information.
    let status = if task.health == "ok" { word(&task.status) } else { word(&task.health) };
    [
        safe(&task.uuid).into_owned(),
        status,
        word(&task.key.task_source),
        word(&task.key.repository()),
        word(&task.key.task_type),
        word(&task.key.task_id),
        word(&task.user),
        task.total_messages.to_string(),
        task.total_tokens.to_string(),
        seconds(task.updated_at),
    ]
}

/// Returns a time to the second.
pub(super) fn seconds(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn write_table(rows: &[[String; COLUMNS]], out: &mut dyn Write) -> io::Result<()> {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            if at > 0 {
                line.push_str("  ");
            }
            let blanks = " ".repeat(width - cell.chars().count());
            let (left, right) =
                if NUMBERS.contains(&at) { (blanks.as_str(), "") } else { ("", blanks.as_str()) };
            line.push_str(left);
            line.push_str(cell);
            line.push_str(right);
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
