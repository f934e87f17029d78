//! Log records other than messages and rewrites: events, tool calls, plans.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{Json, compact};
use super::{Holder, InvalidField, OutputRef, Rewrite, Status, TaskConfig, TaskId};

/// An event of a task: any log line that is not a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The task was created.
    Started {
        /// The task.
        uuid: TaskId,
        /// Version of the log's format.
        format_version: u32,
    },
    /// A holder got the lease of the task.
    Lease {
        /// The generation of the lease, which rises with each.
        generation: u64,
        /// The new holder.
        holder: Holder,
        /// The reason for the lease.
        reason: LeaseReason,
    },
    /// The configuration changed.
    Config {
        /// The whole new configuration.
        config: TaskConfig,
    },
    /// The view was rewritten. Its log line has a form of its own, because contents stay text.
    #[serde(skip)]
    Rewrite(Rewrite),
    /// The status changed.
    Status {
        /// The new status.
        status: Status,
        /// The error of a failed task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
        /// The summary that later tasks can inherit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        final_summary: Option<String>,
    },
    /// The agent called its LLM.
    Usage {
        /// Tokens of the input.
        #[serde(default)]
        input_tokens: u64,
        /// Tokens of the output.
        #[serde(default)]
        output_tokens: u64,
        /// Tokens written to the provider's cache.
        #[serde(default)]
        cache_creation_tokens: u64,
        /// Tokens read from the provider's cache.
        #[serde(default)]
        cache_read_tokens: u64,
        /// The server's own count of the input at the time of the record.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counted_tokens: Option<u64>,
        /// The server's own count of the tools sent beside the view.
        #[serde(default, skip_serializing_if = "is_zero")]
        tools_tokens: u64,
    },
    /// Counters to add.
    Statistics {
        /// Calls of the LLM.
        #[serde(default)]
        llm_calls: u64,
        /// Calls of tools.
        #[serde(default)]
        tool_calls: u64,
        /// Tokens.
        #[serde(default)]
        tokens: u64,
        /// Compactions.
        #[serde(default)]
        compressions: u64,
    },
    /// A message was pinned or unpinned.
    Pin {
        /// The message.
        seq: u64,
        /// True if the message is pinned now.
        pinned: bool,
    },
    /// The lines before this one were copied from another task.
    Forked {
        /// The other task.
        from: TaskId,
        /// The last copied message.
        at_seq: u64,
    },
    /// Contents were erased.
    Erased {
        /// First message.
        from_seq: u64,
        /// Last message.
        to_seq: u64,
        /// The reason.
        #[serde(default)]
        reason: String,
    },
}

/// The reason for a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseReason {
    /// The task was created.
    Start,
    /// The same instance started it again.
    Restart,
    /// The previous lease had expired.
    Takeover,
    /// The task was resumed.
    Resume,
}

/// Tests for zero, in the form that serde requires.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Event {
    /// The event names that this version knows.
    pub const NAMES: [&str; 10] =
        ["started", "lease", "config", "rewrite", "status", "usage", "statistics", "pin", "forked", "erased"];

    /// Returns the input tokens of a usage report, cached or not; 0 for all other events.
    pub fn input_tokens(&self) -> u64 {
        let Self::Usage { input_tokens, cache_creation_tokens, cache_read_tokens, .. } = self else {
            return 0;
        };
        input_tokens.saturating_add(*cache_creation_tokens).saturating_add(*cache_read_tokens)
    }

    /// Returns the name of the event in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::Lease { .. } => "lease",
            Self::Config { .. } => "config",
            Self::Rewrite(_) => "rewrite",
            Self::Status { .. } => "status",
            Self::Usage { .. } => "usage",
            Self::Statistics { .. } => "statistics",
            Self::Pin { .. } => "pin",
            Self::Forked { .. } => "forked",
            Self::Erased { .. } => "erased",
        }
    }

    /// Returns the fields after the envelope, each with a leading comma.
    pub fn body(&self) -> Result<String, serde_json::Error> {
        if let Self::Rewrite(rewrite) = self {
            return Ok(rewrite.body());
        }
        let object = serde_json::to_string(self)?;
        // The envelope holds the name.
        let tag = format!("{{\"event\":\"{}\"", self.name());
        let fields = object.strip_prefix(&tag).and_then(|fields| fields.strip_suffix('}'));
        Ok(fields.unwrap_or_default().to_owned())
    }

    /// Parses the line of an event; `Ok(None)` if this version does not know its name.
    pub fn parse(name: &str, line: &str) -> Result<Option<Self>, String> {
        match name {
            "rewrite" => Rewrite::parse(line).map(|rewrite| Some(Self::Rewrite(rewrite))),
            _ if Self::NAMES.contains(&name) => {
                serde_json::from_str(line).map(Some).map_err(|error| error.to_string())
            }
            _ => Ok(None),
        }
    }
}

/// Turns an object into fields with a leading comma: `{"a":1}` → `,"a":1`.
fn as_body(object: &str) -> String {
    let inner = &object[1..object.len() - 1];
    if inner.is_empty() { String::new() } else { format!(",{inner}") }
}

/// One execution of a tool, as a record of `tools.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The name of the tool.
    pub tool_name: String,
    /// The arguments of the call.
    pub arguments: Option<Json>,
    /// The result, if it is small.
    pub result: Option<Json>,
    /// The stored output, if the result is large.
    pub output_ref: Option<OutputRef>,
    /// The outcome.
    pub status: ToolStatus,
    /// The error message of a failed call.
    pub error: Option<String>,
    /// The duration.
    pub duration_ms: Option<u64>,
    /// The message that carries the result.
    pub message_seq: Option<u64>,
}

/// The outcome of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// The call succeeded.
    Success,
    /// The call failed.
    Error,
}

/// One plan, as a record of `planning.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// `initial`, `revision`, …
    pub plan_type: String,
    /// Any JSON.
    pub plan_content: Json,
}

/// The form of a tool call on disk. Only written: lines of older versions are returned as they are.
#[derive(Serialize)]
struct ToolCallWire {
    tool_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_ref: Option<OutputRef>,
    status: ToolStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_seq: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct PlanWire {
    plan_type: String,
    plan_content: Box<RawValue>,
}

fn raw(json: &Json) -> Result<Box<RawValue>, serde_json::Error> {
    RawValue::from_string(json.as_str().to_owned())
}

impl ToolCall {
    /// Returns the fields after the envelope, each with a leading comma.
    pub fn body(&self) -> Result<String, serde_json::Error> {
        let wire = ToolCallWire {
            tool_name: self.tool_name.clone(),
            arguments: self.arguments.as_ref().map(raw).transpose()?,
            result: self.result.as_ref().map(raw).transpose()?,
            output_ref: self.output_ref.clone(),
            status: self.status,
            error: self.error.clone(),
            duration_ms: self.duration_ms,
            message_seq: self.message_seq,
        };
        Ok(as_body(&serde_json::to_string(&wire)?))
    }

    /// Returns whether the call in a line of `tools.jsonl` succeeded.
    pub fn is_success(line: &str) -> Result<bool, String> {
        #[derive(Deserialize)]
        struct StatusField<'a> {
            status: std::borrow::Cow<'a, str>,
        }
        let wire: StatusField<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
        Ok(wire.status == "success")
    }

    /// Returns the name of the largest field, for the error of a record that is too large.
    pub fn largest_field(&self) -> &'static str {
        let len = |json: &Option<Json>| json.as_ref().map_or(0, |json| json.as_str().len());
        let fields = [
            ("arguments_json", len(&self.arguments)),
            ("result_json", len(&self.result)),
            ("error", self.error.as_ref().map_or(0, String::len)),
        ];
        fields.into_iter().max_by_key(|(_, len)| *len).map_or("tool_name", |(field, _)| field)
    }

    /// Checks names and combinations of fields.
    pub fn validate(&self) -> Result<(), InvalidField> {
        if self.tool_name.is_empty() {
            return Err(InvalidField::new("tool_name", "is empty"));
        }
        super::task::plain_text("tool_name", &self.tool_name)?;
        if self.result.is_some() && self.output_ref.is_some() {
            return Err(InvalidField::new("output_ref", "cannot be combined with result"));
        }
        Ok(())
    }
}

impl Plan {
    /// Returns the fields after the envelope, each with a leading comma.
    pub fn body(&self) -> Result<String, serde_json::Error> {
        let wire = PlanWire { plan_type: self.plan_type.clone(), plan_content: raw(&self.plan_content)? };
        Ok(as_body(&serde_json::to_string(&wire)?))
    }

    /// Parses a line of `planning.jsonl`.
    pub fn parse(line: &str) -> Result<Self, String> {
        let wire: PlanWire = serde_json::from_str(line).map_err(|error| error.to_string())?;
        Ok(Self { plan_type: wire.plan_type, plan_content: Json::kept(compact(wire.plan_content.get())) })
    }

    /// Checks names and combinations of fields.
    pub fn validate(&self) -> Result<(), InvalidField> {
        super::task::plain_text("plan_type", &self.plan_type)
    }
}
