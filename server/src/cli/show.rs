//! `contextstore show`: prints a task with its last messages.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::Failure;
use super::facts::{Shown, Summary};
use super::reader::Reader;
use super::target::{Access, Target};
use super::tasks::seconds;
use super::text::{bytes, safe, short};
use crate::model::TaskId;

/// Characters of a message that are printed.
const WIDTH: usize = 120;

/// Prints a task and its last messages, from a running server or from a data directory.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The task
    #[arg(value_name = "UUID", value_parser = TaskId::parse)]
    id: TaskId,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    access: Access,
    /// The number of messages to print, from the end
    #[arg(long, value_name = "N", default_value_t = 10)]
    messages: u64,
    /// The output format
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    /// Text for people; messages are shortened
    Text,
    /// One JSON object with `task` and `messages`; the messages are as in the log
    Json,
}

impl Show {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let reader = Reader::open(&self.target.place(), &self.access)?;
        let written = self.write(&reader, out);
        reader.close()?;
        written?;
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, reader: &Reader, out: &mut dyn Write) -> Result<(), Failure> {
        let task = reader.task(self.id)?;
        match self.output {
            Output::Text => {
                write_head(&task, out)?;
                let mut before = "\n";
                reader.messages(self.id, task.last_seq, self.messages, &mut |record| {
                    out.write_all(before.as_bytes())?;
                    before = "";
                    Ok(writeln!(out, "{}", message_line(record))?)
                })
            }
            Output::Json => {
                write!(out, "{{\"task\":")?;
                serde_json::to_writer(&mut *out, &task).map_err(io::Error::from)?;
                write!(out, ",\"messages\":[")?;
                let mut before = "";
                reader.messages(self.id, task.last_seq, self.messages, &mut |record| {
                    write!(out, "{before}\n{record}")?;
                    before = ",";
                    Ok(())
                })?;
                Ok(writeln!(out, "]}}")?)
            }
        }
    }
}

fn write_head(task: &Shown, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |name: &str, value: &str| writeln!(out, "{name:<10}{}", safe(value));
    write_identity(task, &mut line)?;
    write_sizes(task, &mut line)?;
    write_context(task, &mut line)
}

/// Prints one line of the head: a name and its value.
type WriteLine<'a> = dyn FnMut(&str, &str) -> io::Result<()> + 'a;

fn write_identity(task: &Shown, line: &mut WriteLine<'_>) -> io::Result<()> {
    let facts = &task.facts;
    line("task", &facts.uuid)?;
    let repository = facts.key.repository();
    let parts = [&facts.key.task_source, &repository, &facts.key.task_type, &facts.key.task_id];
    let key: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).map(String::as_str).collect();
    if !key.is_empty() {
        line("key", &key.join(" "))?;
    }
    if !facts.user.is_empty() {
        line("user", &facts.user)?;
    }
    line("status", &facts.status)?;
    if facts.health != "ok" {
        line("health", &facts.health)?;
    }
    if let Some(error) = &facts.error_message {
        line("error", &short(error, WIDTH))?;
    }
    match &task.lease {
        Some(lease) => {
            let host = if lease.hostname.is_empty() { "an unknown host" } else { &lease.hostname };
            let (pid, since) = (lease.process_id, seconds(lease.acquired_at));
            let (instance, generation) = (&lease.instance_id, lease.generation);
            line(
                "holder",
                &format!("process {pid} on {host} since {since} ({instance}, lease {generation})"),
            )?;
        }
        None => line("holder", "nobody")?,
    }
    Ok(())
}

fn write_sizes(task: &Shown, line: &mut WriteLine<'_>) -> io::Result<()> {
    let facts = &task.facts;
    line("created", &seconds(facts.created_at))?;
    line("updated", &seconds(facts.updated_at))?;
    if let Some(completed) = facts.completed_at {
        line("completed", &seconds(completed))?;
    }
    if !facts.llm_provider.is_empty() || !facts.model.is_empty() {
        line("model", format!("{} {}", facts.llm_provider, facts.model).trim())?;
    }
    let counts = [
        (facts.total_messages, "messages"),
        (facts.total_summaries, "summaries"),
        (task.total_plans, "plans"),
        (task.pinned_messages, "pinned"),
        (facts.compression_count, "compactions"),
    ];
    line("log", &counts.map(|(count, what)| format!("{count} {what}")).join(", "))?;
    line(
        "view",
        &format!(
            "{} messages, {} tokens, {} (generation {})",
            task.view_messages,
            task.view_tokens,
            bytes(task.view_bytes),
            task.view_generation
        ),
    )
}

fn write_context(task: &Shown, line: &mut WriteLine<'_>) -> io::Result<()> {
    let facts = &task.facts;
    line("pressure", &task.pressure.words())?;
    if let Some(breaker) = &task.pressure.breaker {
        let meaning = if breaker == "open" { ": the built-in summariser is used" } else { "" };
        line("breaker", &format!("{breaker}{meaning}"))?;
    }
    if let Some(latest) = &task.latest_summary {
        let Summary { id, start_seq, end_seq, summary_tokens, model, .. } = latest;
        let said = short(&latest.summary, WIDTH);
        let by = if model.is_empty() { String::new() } else { format!(", by {model}") };
        line(
            "latest",
            &format!("summary {id} of {start_seq}–{end_seq} ({summary_tokens} tokens{by}): {said}"),
        )?;
    }
    if let Some(from) = &task.inherited_from {
        line("inherited", &format!("from {from}"))?;
    }
    let (llm, tools, tokens) = (facts.llm_call_count, facts.tool_call_count, facts.total_tokens);
    let (recorded, well) = (facts.total_tool_calls, task.tool_success_count);
    line(
        "calls",
        &format!(
            "{llm} of the LLM ({tokens} tokens), {tools} of tools ({recorded} recorded, {well} successful)"
        ),
    )?;
    line("on disk", &format!("{} in {}", bytes(task.bytes_on_disk), task.directory))?;
    if let Some(summary) = &task.final_summary {
        line("summary", &short(summary, WIDTH))?;
    }
    Ok(())
}

/// Returns a message on one line: number, role, and the start of its text.
fn message_line(record: &str) -> String {
    let message: Value = serde_json::from_str(record).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut said = content(&message["content"]);
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let (name, arguments) = match call.get("custom") {
            Some(custom) => (&custom["name"], &custom["input"]),
            None => (&call["function"]["name"], &call["function"]["arguments"]),
        };
        said.push_str(&format!(" → {}({})", text(name), text(arguments)));
    }
    let role = safe(&text(&message["role"])).into_owned();
    let pin = if message["pinned"] == Value::Bool(true) { "*" } else { " " };
    format!("{:>7}{pin} {role:<10}{}", message["seq"].as_u64().unwrap_or_default(), short(&said, WIDTH))
        .trim_end()
        .to_owned()
}

/// Returns the text of a message, and the kinds of its other parts.
fn content(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let part = |part: &Value| match part["text"].as_str() {
                Some(text) => text.to_owned(),
                None => format!("[{}]", part["type"].as_str().unwrap_or("part")),
            };
            parts.iter().map(part).collect::<Vec<_>>().join(" ")
        }
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => content.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_is_in_it() {
        let line = message_line(r#"{"seq":7,"role":"user","content":"two\n\nlines \u001b[31mred"}"#);
        assert_eq!(line, "      7  user      two lines \\u{1b}[31mred");
        let line = message_line(
            r#"{"seq":8,"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}},{"id":"d","type":"custom","custom":{"name":"run","input":"x"}}],"pinned":true}"#,
        );
        assert_eq!(line, "      8* assistant → ls({}) → run(x)");
        let parts = r#"{"seq":9,"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{}}]}"#;
        assert_eq!(message_line(parts), "      9  user      see [image_url]");
        assert_eq!(
            message_line(&format!(r#"{{"seq":1,"role":"user","content":"{}"}}"#, "x".repeat(9999)))
                .chars()
                .count(),
            19 + WIDTH
        );
    }
}
