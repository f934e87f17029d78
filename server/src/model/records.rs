//! What logs hold besides messages and rewrites: events, tool calls, plans.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{Json, compact};
use super::{Holder, InvalidField, OutputRef, Rewrite, Status, TaskConfig, TaskId};

/// Something that happened to a task and is no message.
#[derive(Debug, Clone, PartialEq)]
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
    Config(TaskConfig),
    /// The view was rewritten.
    Rewrite(Rewrite),
    /// The status changed.
    Status {
        /// What it is now.
        status: Status,
        /// Why it failed.
        error_message: Option<String>,
        /// What is to be remembered of the task.
        final_summary: Option<String>,
    },
    /// The agent called its LLM.
    Usage {
        /// Tokens that were read.
        input_tokens: u64,
        /// Tokens that were written.
        output_tokens: u64,
        /// Tokens that went into the provider's cache.
        cache_creation_tokens: u64,
        /// Tokens that came out of it.
        cache_read_tokens: u64,
    },
    /// Counters to add.
    Statistics {
        /// Calls of the LLM.
        llm_calls: u64,
        /// Calls of tools.
        tool_calls: u64,
        /// Tokens.
        tokens: u64,
        /// Compactions.
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

impl Event {
    /// Its name in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "started",
            Self::Lease { .. } => "lease",
            Self::Config(_) => "config",
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
    pub(crate) fn body(&self) -> Result<String, serde_json::Error> {
        let json = match self {
            Self::Rewrite(rewrite) => return Ok(rewrite.body()),
            Self::Started { uuid, format_version } => {
                serde_json::to_string(&StartedWire { uuid: *uuid, format_version: *format_version })
            }
            Self::Lease { generation, holder, reason } => serde_json::to_string(&LeaseWire {
                generation: *generation,
                holder: holder.clone(),
                reason: *reason,
            }),
            Self::Config(config) => serde_json::to_string(&ConfigWire { config: config.clone() }),
            Self::Status { status, error_message, final_summary } => serde_json::to_string(&StatusWire {
                status: *status,
                error_message: error_message.clone(),
                final_summary: final_summary.clone(),
            }),
            Self::Usage { input_tokens, output_tokens, cache_creation_tokens, cache_read_tokens } => {
                serde_json::to_string(&UsageWire {
                    input_tokens: *input_tokens,
                    output_tokens: *output_tokens,
                    cache_creation_tokens: *cache_creation_tokens,
                    cache_read_tokens: *cache_read_tokens,
                })
            }
            Self::Statistics { llm_calls, tool_calls, tokens, compressions } => {
                serde_json::to_string(&StatisticsWire {
                    llm_calls: *llm_calls,
                    tool_calls: *tool_calls,
                    tokens: *tokens,
                    compressions: *compressions,
                })
            }
            Self::Pin { seq, pinned } => serde_json::to_string(&PinWire { seq: *seq, pinned: *pinned }),
            Self::Forked { from, at_seq } => {
                serde_json::to_string(&ForkedWire { from: *from, at_seq: *at_seq })
            }
            Self::Erased { from_seq, to_seq, reason } => serde_json::to_string(&ErasedWire {
                from_seq: *from_seq,
                to_seq: *to_seq,
                reason: reason.clone(),
            }),
        }?;
        Ok(as_body(&json))
    }

    /// Reads the line of an event; `Ok(None)` if this version does not know its name.
    pub(crate) fn parse(name: &str, line: &str) -> Result<Option<Self>, String> {
        fn read<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T, String> {
            serde_json::from_str(line).map_err(|error| error.to_string())
        }
        Ok(Some(match name {
            "started" => {
                let StartedWire { uuid, format_version } = read(line)?;
                Self::Started { uuid, format_version }
            }
            "lease" => {
                let LeaseWire { generation, holder, reason } = read(line)?;
                Self::Lease { generation, holder, reason }
            }
            "config" => Self::Config(read::<ConfigWire>(line)?.config),
            "rewrite" => Self::Rewrite(Rewrite::parse(line)?),
            "status" => {
                let StatusWire { status, error_message, final_summary } = read(line)?;
                Self::Status { status, error_message, final_summary }
            }
            "usage" => {
                let wire: UsageWire = read(line)?;
                Self::Usage {
                    input_tokens: wire.input_tokens,
                    output_tokens: wire.output_tokens,
                    cache_creation_tokens: wire.cache_creation_tokens,
                    cache_read_tokens: wire.cache_read_tokens,
                }
            }
            "statistics" => {
                let StatisticsWire { llm_calls, tool_calls, tokens, compressions } = read(line)?;
                Self::Statistics { llm_calls, tool_calls, tokens, compressions }
            }
            "pin" => {
                let PinWire { seq, pinned } = read(line)?;
                Self::Pin { seq, pinned }
            }
            "forked" => {
                let ForkedWire { from, at_seq } = read(line)?;
                Self::Forked { from, at_seq }
            }
            "erased" => {
                let ErasedWire { from_seq, to_seq, reason } = read(line)?;
                Self::Erased { from_seq, to_seq, reason }
            }
            _ => return Ok(None),
        }))
    }
}

/// `{"a":1}` → `,"a":1`
fn as_body(object: &str) -> String {
    let inner = &object[1..object.len() - 1];
    if inner.is_empty() { String::new() } else { format!(",{inner}") }
}

#[derive(Serialize, Deserialize)]
struct StartedWire {
    uuid: TaskId,
    format_version: u32,
}

#[derive(Serialize, Deserialize)]
struct LeaseWire {
    generation: u64,
    holder: Holder,
    reason: LeaseReason,
}

#[derive(Serialize, Deserialize)]
struct ConfigWire {
    config: TaskConfig,
}

#[derive(Serialize, Deserialize)]
struct StatusWire {
    status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    final_summary: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct UsageWire {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    cache_creation_tokens: u64,
    #[serde(default)]
    cache_read_tokens: u64,
}

#[derive(Serialize, Deserialize)]
struct StatisticsWire {
    #[serde(default)]
    llm_calls: u64,
    #[serde(default)]
    tool_calls: u64,
    #[serde(default)]
    tokens: u64,
    #[serde(default)]
    compressions: u64,
}

#[derive(Serialize, Deserialize)]
struct PinWire {
    seq: u64,
    pinned: bool,
}

#[derive(Serialize, Deserialize)]
struct ForkedWire {
    from: TaskId,
    at_seq: u64,
}

#[derive(Serialize, Deserialize)]
struct ErasedWire {
    from_seq: u64,
    to_seq: u64,
    #[serde(default)]
    reason: String,
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

#[derive(Serialize, Deserialize)]
struct ToolCallWire {
    tool_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arguments: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_ref: Option<OutputRef>,
    status: ToolStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    pub(crate) fn body(&self) -> Result<String, serde_json::Error> {
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
    pub(crate) fn is_success(line: &str) -> Result<bool, String> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            status: std::borrow::Cow<'a, str>,
        }
        let wire: Wire<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
        Ok(wire.status == "success")
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidField> {
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
    pub(crate) fn body(&self) -> Result<String, serde_json::Error> {
        let wire = PlanWire { plan_type: self.plan_type.clone(), plan_content: raw(&self.plan_content)? };
        Ok(as_body(&serde_json::to_string(&wire)?))
    }

    /// Reads a line of `planning.jsonl`.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let wire: PlanWire = serde_json::from_str(line).map_err(|error| error.to_string())?;
        Ok(Self { plan_type: wire.plan_type, plan_content: Json::kept(compact(wire.plan_content.get())) })
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidField> {
        super::task::plain_text("plan_type", &self.plan_type)
    }
}
