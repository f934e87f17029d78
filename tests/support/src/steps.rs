//! A client as data: steps it takes, each named by a request id, and what it was told.

use std::fmt;

use contextstore_base::model::json::Json;
use contextstore_base::model::{
    Event, Literal, LiteralKind, NewMessage, Plan, RequestId, Role, Segment, StoreError, SummaryRecord,
    TaskConfig, TaskId, TaskKey, ToolCall, ToolStatus,
};
use contextstore_store::store::{Append, Beginning, Caller, ForkTask, Inherit, NewRewrite, StartTask, Store};

/// What a client can do.
#[derive(Debug, Clone)]
pub enum Act {
    /// Start the task, or take it up again.
    Start,
    /// Start it with a system prompt and with what the first task left.
    Inherit,
    /// Make it of the first task, up to a message; 0: all.
    Fork(u64),
    /// Append a message.
    Say(Say),
    /// Record a tool call.
    Tool(&'static str),
    /// Append a plan.
    Plan(&'static str),
    /// Report a call of the LLM.
    Usage(u64),
    /// Change the configuration.
    Config(&'static str),
    /// Summarise messages 1 to `.0` on top of rewrite `.1`.
    Summarize(u64, u64),
    /// Trim tool outputs of messages 1 to `.0` on top of rewrite `.1`.
    Trim(u64, u64),
    Undo,
    Rewind(u64),
    Pause,
    Resume,
    Complete,
    Fail,
    Delete,
    /// Close the store and open it again.
    Reopen,
    /// Read everything that can be read.
    Look,
}

/// A message, by its raw JSON values.
#[derive(Debug, Clone, Default)]
pub struct Say {
    pub role: &'static str,
    pub content: String,
    pub tool_calls: Option<&'static str>,
    pub tool_call_id: Option<&'static str>,
    /// The inside of an object.
    pub extra: Option<&'static str>,
}

impl Say {
    fn json(&self) -> String {
        let mut json = format!("{{\"role\":\"{}\",\"content\":{}", self.role, self.content);
        for (name, value) in [("tool_calls", self.tool_calls), ("tool_call_id", self.tool_call_id)] {
            if let Some(value) = value {
                json.push_str(&format!(",\"{name}\":{value}"));
            }
        }
        if let Some(extra) = self.extra {
            json.push_str(&format!(",{extra}"));
        }
        json + "}"
    }

    /// What the log is to hold behind the envelope, by docs/FORMAT.md.
    pub fn body(&self, request_id: &str) -> String {
        let mut body = format!(",\"content\":{}", self.content);
        for (name, value) in [("tool_calls", self.tool_calls), ("tool_call_id", self.tool_call_id)] {
            if let Some(value) = value {
                body.push_str(&format!(",\"{name}\":{value}"));
            }
        }
        body.push_str(&format!(",\"request_id\":\"{request_id}\""));
        if let Some(extra) = self.extra {
            body.push_str(&format!(",\"extra\":{{{extra}}}"));
        }
        body
    }
}

/// A message of plain text.
pub fn say(role: &'static str, text: &str) -> Act {
    Act::Say(Say { role, content: format!("\"{text}\""), ..Say::default() })
}

/// One step of a client.
#[derive(Debug, Clone)]
pub struct Step {
    /// Which task.
    pub task: usize,
    /// What is done with it.
    pub act: Act,
}

/// A step on the first task.
pub fn on(act: Act) -> Step {
    Step { task: 0, act }
}

/// A step on the second task.
pub fn on_second(act: Act) -> Step {
    Step { task: 1, act }
}

/// A step on the third task.
pub fn on_third(act: Act) -> Step {
    Step { task: 2, act }
}

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was not begun.
    Untried,
    /// It was begun; the client was told of a failure or of nothing.
    Tried,
    /// The client was told that it was done, and this number.
    Acked(u64),
}

/// A client in the middle of its steps.
#[derive(Debug, Clone)]
pub struct Client {
    pub steps: Vec<Step>,
    pub outcomes: Vec<Outcome>,
    /// The lease of each task; 0: none.
    pub leases: [u64; 3],
}

/// The id of a client's task.
pub fn task_id(task: usize) -> TaskId {
    TaskId::parse(&format!("018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f1{task}")).unwrap()
}

/// The id of a step's request.
pub fn request_id(at: usize) -> String {
    format!("r{at}")
}

impl Client {
    pub fn new(steps: Vec<Step>) -> Self {
        Self { outcomes: vec![Outcome::Untried; steps.len()], steps, leases: [0; 3] }
    }

    /// Takes a step (again), and notes what it was told. [`Act::Reopen`] is not for here.
    pub fn take(&mut self, store: &Store, at: usize) -> Result<(), StoreError> {
        let tried_before = self.outcomes[at] == Outcome::Tried;
        self.outcomes[at] = Outcome::Tried;
        let Step { task, act } = self.steps[at].clone();
        let told = self.call(store, at, task, &act);
        let told = match told {
            // The first try may have done it: a task that is gone has forgotten its requests.
            Err(StoreError::TaskNotFound { .. }) if tried_before && matches!(act, Act::Delete) => Ok(0),
            told => told,
        }?;
        self.note(at, told);
        Ok(())
    }

    /// Notes that a step was acknowledged.
    pub fn note(&mut self, at: usize, told: u64) {
        self.outcomes[at] = Outcome::Acked(told);
        let Step { task, act } = &self.steps[at];
        match act {
            Act::Start | Act::Inherit | Act::Fork(_) | Act::Resume => self.leases[*task] = told,
            Act::Pause | Act::Complete | Act::Fail | Act::Delete => self.leases[*task] = 0,
            _ => {}
        }
    }

    fn call(&self, store: &Store, at: usize, task: usize, act: &Act) -> Result<u64, StoreError> {
        let id = task_id(task);
        let request_id = RequestId::parse(&request_id(at)).unwrap();
        let caller = Caller { request_id: Some(request_id.clone()), lease_generation: self.leases[task] };
        let done = |result: Result<(), StoreError>| result.map(|()| 0);
        match act {
            Act::Start | Act::Inherit => {
                let start = StartTask {
                    id: Some(id),
                    key: TaskKey {
                        task_source: "github".to_owned(),
                        owner: "o".to_owned(),
                        repo: "r".to_owned(),
                        task_type: "issue".to_owned(),
                        task_id: task.to_string(),
                    },
                    user: "u".to_owned(),
                    config: TaskConfig::default(),
                    holder: crate::store::holder("a"),
                    request_id: Some(request_id),
                };
                let beginning = match act {
                    Act::Inherit => Beginning {
                        inherit: Inherit::From(task_id(0)),
                        system_message: Some("you are a clerk".to_owned()),
                    },
                    _ => Beginning::default(),
                };
                store.start_task_with(start, 0, &beginning).map(|started| started.lease_generation)
            }
            Act::Fork(at_seq) => store
                .fork_task(ForkTask {
                    from: task_id(0),
                    at_seq: *at_seq,
                    id: Some(id),
                    holder: crate::store::holder("a"),
                    request_id: Some(request_id),
                })
                .map(|started| started.lease_generation),
            Act::Say(say) => {
                let message = NewMessage::from_json(&say.json()).unwrap();
                store.append(id, &Append { message, caller }).map(|outcome| outcome.seq)
            }
            Act::Tool(name) => store.record_tool_call(id, &tool(name), &caller).map(|told| told.number),
            Act::Plan(text) => store.append_plan(id, &plan(text), &caller).map(|told| told.number),
            Act::Usage(tokens) => done(store.append_event(id, &usage(*tokens), &caller)),
            Act::Config(model) => {
                let config = TaskConfig { model: (*model).to_owned(), ..TaskConfig::default() };
                done(store.update_config(id, config, &caller))
            }
            Act::Summarize(to, base) => store.rewrite(id, &summarize(*to, *base), &caller),
            Act::Trim(to, base) => store.rewrite(id, &trim(*to, *base), &caller),
            Act::Undo => store.undo(id, &caller),
            Act::Rewind(seq) => store.rewind(id, *seq, &caller),
            Act::Pause => done(store.pause_task(id, &caller)),
            Act::Resume => store.resume_task(
                id,
                crate::store::holder("a"),
                &Caller { request_id: Some(request_id), lease_generation: 0 },
            ),
            Act::Complete => done(store.complete_task(id, Some("all is well".to_owned()), &caller)),
            Act::Fail => {
                done(store.fail_task(id, "it broke".to_owned(), Some("not well".to_owned()), &caller))
            }
            Act::Delete => done(store.delete_task(id, &caller)),
            Act::Look => done(look(store, id)),
            Act::Reopen => unreachable!("whoever has the store opens it again"),
        }
    }
}

fn tool(name: &str) -> ToolCall {
    ToolCall {
        tool_name: name.to_owned(),
        arguments: Some(Json::parse("{\"n\": 1e2}").unwrap()),
        result: Some(Json::text("fine")),
        output_ref: None,
        status: ToolStatus::Success,
        error: None,
        duration_ms: Some(3),
        message_seq: None,
    }
}

fn plan(text: &str) -> Plan {
    Plan { plan_type: "initial".to_owned(), plan_content: Json::text(text) }
}

fn usage(tokens: u64) -> Event {
    Event::Usage {
        input_tokens: tokens,
        output_tokens: 1,
        cache_creation_tokens: 0,
        cache_read_tokens: 0,
        counted_tokens: None,
        tools_tokens: 0,
    }
}

/// Longer than what it stands for, so that the old view's length says nothing of the new one.
fn summarize(to: u64, base: u64) -> NewRewrite {
    let text = format!(
        "what was said up to {to}, in more words than it took at first: {}",
        "so it was. ".repeat(100)
    );
    let literal = Literal {
        role: Role::User,
        content: Json::text(&text),
        kind: LiteralKind::Summary,
        tokens: 9,
        summary: None,
    };
    let record = SummaryRecord {
        id: 0,
        start_seq: 2,
        end_seq: to,
        summary: text,
        compressed_message_count: to - 1,
        original_tokens: 3 * (to - 1),
        summary_tokens: 9,
        tokens_saved: 0,
        ratio: 0.5,
        strategy: "summarize".to_owned(),
        model: "m".to_owned(),
        timestamp: "2026-01-01T00:00:00Z".parse().unwrap(),
        sections: None,
    };
    NewRewrite {
        strategy: "summarize".to_owned(),
        base,
        covers: to,
        reason: "long".to_owned(),
        segments: vec![Segment::keep(1, 1), Segment::Literal(literal)],
        summaries: vec![record],
    }
}

fn trim(to: u64, base: u64) -> NewRewrite {
    NewRewrite {
        strategy: "trim".to_owned(),
        base,
        covers: to,
        reason: "outputs".to_owned(),
        segments: vec![Segment::Keep { from: 1, to, trim_except: Some(Vec::new()) }],
        summaries: Vec::new(),
    }
}

fn look(store: &Store, id: TaskId) -> Result<(), StoreError> {
    let last = store.task_info(id)?.last_seq;
    crate::store::view(store, id, None)?;
    crate::store::view(store, id, Some(last / 2))?;
    store.current_extra(id)?;
    store.summaries(id)?;
    store.final_summary(id)?;
    store.latest_plan(id)?;
    for mut reader in [store.lines(id, 1, last)?, store.last_messages(id, 2)?, store.tool_calls(id, 1, 9)?] {
        while reader.step(|_| ())?.is_some() {}
    }
    Ok(())
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (step, outcome)) in self.steps.iter().zip(&self.outcomes).enumerate() {
            writeln!(f, "  {at} {step:?}: {outcome:?}")?;
        }
        Ok(())
    }
}
