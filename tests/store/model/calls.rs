//! The calls that a sequence makes, and how they are sent.

use contextstore_base::model::{
    Durability, Event, Holder, InstanceId, Plan, RequestId, StoreError, SummaryRecord, TaskConfig, TaskId,
    TaskKey, ToolCall, ToolStatus, json::Json,
};
use contextstore_store::store::{Append, Caller, ForkTask, NewRewrite, StartTask, Store};

use super::task::{Config, LOG, Message, PLANS, Request, Rewrite, TOOLS};

/// What is asked of a task.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Start {
        instance: &'static str,
        config: Config,
    },
    /// Makes the task out of another.
    Fork {
        from: TaskId,
        at_seq: u64,
        instance: &'static str,
    },
    Append(Box<Message>),
    Usage {
        tokens: u64,
        tools: u64,
    },
    Statistics {
        llm: u64,
        tools: u64,
        tokens: u64,
        compressions: u64,
    },
    Pin {
        seq: u64,
        pinned: bool,
    },
    Configure(Config),
    Tool {
        success: bool,
        result: Option<String>,
    },
    Plan {
        kind: String,
        content: String,
    },
    Rewrite {
        rewrite: Rewrite,
        summaries: Vec<SummaryRecord>,
    },
    Undo,
    Rewind(u64),
    Pause,
    Resume {
        instance: &'static str,
    },
    Complete {
        summary: Option<String>,
    },
    Fail {
        error: String,
        summary: Option<String>,
    },
    Delete,
    Renew,
}

/// A call as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) id: TaskId,
    pub(crate) call: Call,
    pub(crate) request: Option<String>,
    pub(crate) lease: u64,
}

pub(crate) fn holder(instance: &str) -> Holder {
    let process_id = instance.bytes().map(u32::from).sum();
    let instance_id = InstanceId::parse(instance).unwrap();
    Holder { instance_id, process_id, hostname: format!("host-of-{instance}") }
}

pub(crate) fn config_text(config: &Config) -> String {
    let mut fields = Vec::new();
    if !config.model.is_empty() {
        fields.push(format!("\"model\":\"{}\"", config.model));
    }
    if let Some(length) = config.context_length {
        fields.push(format!("\"context_length\":{length}"));
    }
    if let Some(durability) = config.durability {
        let word = match durability {
            Durability::Group => "group",
            Durability::Each => "each",
            Durability::Process => "process",
        };
        fields.push(format!("\"durability\":\"{word}\""));
    }
    fields.push("\"other\":{\"x\":[1]}".to_owned());
    if let Some(counter) = config.counter {
        fields.push(format!("\"token_counter\":\"{}\"", counter.as_str()));
    }
    format!("{{{}}}", fields.join(","))
}

fn sent_config(config: &Config) -> TaskConfig {
    serde_json::from_str(&config_text(config)).unwrap()
}

impl Op {
    /// The log that it writes to.
    pub(crate) fn log(&self) -> usize {
        match self.call {
            Call::Tool { .. } => TOOLS,
            Call::Plan { .. } => PLANS,
            _ => LOG,
        }
    }

    /// What the call asks for, by which a retry is told from something else under the same id.
    pub(crate) fn asked(&self) -> String {
        match &self.call {
            Call::Append(message) => format!("{:?}{}", message.role, message.body(None)),
            call => format!("{call:?}"),
        }
    }

    pub(crate) fn request(&self, told: u64) -> Option<Request> {
        self.request.as_ref().map(|id| Request { id: id.clone(), asked: self.asked(), told })
    }

    /// Makes the call.
    pub(crate) fn send(&self, store: &Store) -> Result<Vec<u64>, StoreError> {
        let id = self.id;
        let request_id = self.request.as_ref().map(|text| RequestId::parse(text).unwrap());
        let caller = Caller { request_id: request_id.clone(), lease_generation: self.lease };
        let nothing = |()| vec![];
        match &self.call {
            Call::Start { instance, config } => {
                let started = store.start_task(StartTask {
                    id: Some(id),
                    key: key(),
                    user: "u".to_owned(),
                    config: sent_config(config),
                    holder: holder(instance),
                    request_id,
                })?;
                assert_eq!(started.id, id);
                Ok(vec![started.lease_generation, u64::from(started.created)])
            }
            Call::Fork { from, at_seq, instance } => {
                let (from, at_seq, holder) = (*from, *at_seq, holder(instance));
                let forked = store.fork_task(ForkTask { from, at_seq, id: Some(id), holder, request_id })?;
                assert_eq!(forked.id, id);
                Ok(vec![forked.lease_generation, u64::from(forked.created)])
            }
            Call::Append(message) => {
                let append = Append { message: message.sent(), caller };
                let told = store.append(id, &append)?;
                Ok(vec![told.seq, u64::from(told.duplicate), told.pressure.tokens, told.view_generation])
            }
            Call::Usage { tokens, tools } => {
                let event = Event::Usage {
                    input_tokens: *tokens,
                    output_tokens: 1,
                    cache_creation_tokens: 0,
                    cache_read_tokens: 2,
                    counted_tokens: None,
                    tools_tokens: *tools,
                };
                store.append_event(id, &event, &caller).map(nothing)
            }
            Call::Statistics { llm, tools, tokens, compressions } => {
                let event = Event::Statistics {
                    llm_calls: *llm,
                    tool_calls: *tools,
                    tokens: *tokens,
                    compressions: *compressions,
                };
                store.append_event(id, &event, &caller).map(nothing)
            }
            Call::Pin { seq, pinned } => {
                store.append_event(id, &Event::Pin { seq: *seq, pinned: *pinned }, &caller).map(nothing)
            }
            Call::Configure(config) => store.update_config(id, sent_config(config), &caller).map(nothing),
            Call::Tool { success, result } => {
                let call = ToolCall {
                    tool_name: "grep".to_owned(),
                    arguments: Some(Json::parse("{\"p\":[1.0]}").unwrap()),
                    result: result.as_ref().map(|text| Json::parse(text).unwrap()),
                    output_ref: None,
                    status: if *success { ToolStatus::Success } else { ToolStatus::Error },
                    error: None,
                    duration_ms: Some(3),
                    message_seq: None,
                };
                let told = store.record_tool_call(id, &call, &caller)?;
                Ok(vec![told.number, u64::from(told.duplicate)])
            }
            Call::Plan { kind, content } => {
                let plan = Plan { plan_type: kind.clone(), plan_content: Json::parse(content).unwrap() };
                let told = store.append_plan(id, &plan, &caller)?;
                Ok(vec![told.number, u64::from(told.duplicate)])
            }
            Call::Rewrite { rewrite, summaries } => {
                let new = NewRewrite {
                    strategy: rewrite.strategy.clone(),
                    base: rewrite.base,
                    covers: rewrite.covers,
                    reason: rewrite.reason.clone(),
                    segments: rewrite.segments.clone(),
                    summaries: summaries.clone(),
                };
                Ok(vec![store.rewrite(id, &new, &caller)?])
            }
            Call::Undo => Ok(vec![store.undo(id, &caller)?]),
            Call::Rewind(seq) => Ok(vec![store.rewind(id, *seq, &caller)?]),
            Call::Pause => store.pause_task(id, &caller).map(nothing),
            Call::Resume { instance } => Ok(vec![store.resume_task(
                id,
                holder(instance),
                &Caller { request_id, lease_generation: 0 },
            )?]),
            Call::Complete { summary } => store.complete_task(id, summary.clone(), &caller).map(nothing),
            Call::Fail { error, summary } => {
                store.fail_task(id, error.clone(), summary.clone(), &caller).map(nothing)
            }
            Call::Delete => store.delete_task(id, &caller).map(nothing),
            Call::Renew => store.renew_lease(id, self.lease).map(|_| vec![]),
        }
    }
}

pub(crate) fn key() -> TaskKey {
    TaskKey {
        task_source: "github".to_owned(),
        owner: "o".to_owned(),
        repo: "r".to_owned(),
        task_type: "issue".to_owned(),
        task_id: "1".to_owned(),
    }
}
