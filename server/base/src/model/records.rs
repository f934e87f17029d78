//! What logs hold besides messages and rewrites: events, tool calls, plans.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{Json, compact};
use super::{Holder, InvalidField, OutputRef, Rewrite, Status, TaskConfig, TaskId};

/// Something that happened to a task and is no message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// The task was made.
    Started {
        /// The task.
        uuid: TaskId,
        /// Version of the log's format.
        format_version: u32,
    },
    /// The task belongs to a holder from here on.
    Lease {
        /// Rises with each.
        generation: u64,
        /// Whose it is.
        holder: Holder,
        /// How it came to that.
        reason: LeaseReason,
    },
    /// The configuration changed.
    Config {
        /// The whole of it.
        config: TaskConfig,
    },
    /// The view was rewritten. It has a form of its own, as its contents stay text.
    #[serde(skip)]
    Rewrite(Rewrite),
    /// The status changed.
    Status {
        /// What it is now.
        status: Status,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_message: Option<String>,
        /// What is to be remembered of the task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        final_summary: Option<String>,
    },
    /// The agent called its LLM.
    Usage {
        /// Tokens that were read.
        #[serde(default)]
        input_tokens: u64,
        /// Tokens that were written.
        #[serde(default)]
        output_tokens: u64,
        /// Tokens that went into the provider's cache.
        #[serde(default)]
        cache_creation_tokens: u64,
        /// Tokens that came out of it.
        #[serde(default)]
        cache_read_tokens: u64,
        /// What was counted of the input, as the task knows it when this is written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counted_tokens: Option<u64>,
        /// What was counted of the tools that were sent beside the view.
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
    /// A message was pinned or released.
    Pin {
        /// Which.
        seq: u64,
        /// Which of the two.
        pinned: bool,
    },
    /// The lines before were copied from another task.
    Forked {
        /// Which.
        from: TaskId,
        /// Up to which message.
        at_seq: u64,
    },
    /// Contents were erased.
    Erased {
        /// First message.
        from_seq: u64,
        /// Last message.
        to_seq: u64,
        /// Why.
        #[serde(default)]
        reason: String,
    },
}

/// How a lease came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseReason {
    /// The task was made.
    Start,
    /// The same instance started it again.
    Restart,
    /// The lease before had expired.
    Takeover,
    /// The task was resumed.
    Resume,
}

/// As serde calls it.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Event {
    /// Names that this version knows.
    pub const NAMES: [&str; 10] =
        ["started", "lease", "config", "rewrite", "status", "usage", "statistics", "pin", "forked", "erased"];

    /// Tokens that the model has read, cached or not; 0: it is no report of usage.
    pub fn input_tokens(&self) -> u64 {
        let Self::Usage { input_tokens, cache_creation_tokens, cache_read_tokens, .. } = self else {
            return 0;
        };
        input_tokens.saturating_add(*cache_creation_tokens).saturating_add(*cache_read_tokens)
    }

    /// Its name in the log.
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

    /// The fields behind the envelope, each with a comma in front.
    pub fn body(&self) -> Result<String, serde_json::Error> {
        if let Self::Rewrite(rewrite) = self {
            return Ok(rewrite.body());
        }
        let object = serde_json::to_string(self)?;
        // The name stands in the envelope.
        let tag = format!("{{\"event\":\"{}\"", self.name());
        let fields = object.strip_prefix(&tag).and_then(|fields| fields.strip_suffix('}'));
        Ok(fields.unwrap_or_default().to_owned())
    }

    /// Reads the line of an event; `Ok(None)` if this version does not know its name.
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

/// `{"a":1}` → `,"a":1`
fn as_body(object: &str) -> String {
    let inner = &object[1..object.len() - 1];
    if inner.is_empty() { String::new() } else { format!(",{inner}") }
}

/// One execution of a tool, as a record of `tools.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Its name.
    pub tool_name: String,
    /// What it was called with.
    pub arguments: Option<Json>,
    /// What it answered, if that is small.
    pub result: Option<Json>,
    /// Where its answer is, if that is large.
    pub output_ref: Option<OutputRef>,
    /// How it ended.
    pub status: ToolStatus,
    /// Why it failed.
    pub error: Option<String>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// The message that carries its answer.
    pub message_seq: Option<u64>,
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// Well.
    Success,
    /// Badly.
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

/// Only written: what older versions took may be in a log, and is read as it stands there.
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
    /// The fields behind the envelope, each with a comma in front.
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

    /// Whether the call in a line of `tools.jsonl` ended well.
    pub fn is_success(line: &str) -> Result<bool, String> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            status: std::borrow::Cow<'a, str>,
        }
        let wire: Wire<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
        Ok(wire.status == "success")
    }

    /// The field that takes most, for one who has to send less.
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
            return Err(InvalidField::new("output_ref", "cannot stand beside result"));
        }
        Ok(())
    }
}

impl Plan {
    /// The fields behind the envelope, each with a comma in front.
    pub fn body(&self) -> Result<String, serde_json::Error> {
        let wire = PlanWire { plan_type: self.plan_type.clone(), plan_content: raw(&self.plan_content)? };
        Ok(as_body(&serde_json::to_string(&wire)?))
    }

    /// Reads a line of `planning.jsonl`.
    pub fn parse(line: &str) -> Result<Self, String> {
        let wire: PlanWire = serde_json::from_str(line).map_err(|error| error.to_string())?;
        Ok(Self { plan_type: wire.plan_type, plan_content: Json::kept(compact(wire.plan_content.get())) })
    }

    /// Checks names and combinations of fields.
    pub fn validate(&self) -> Result<(), InvalidField> {
        super::task::plain_text("plan_type", &self.plan_type)
    }
}
