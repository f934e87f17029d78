//! The operations of a sequence: what is asked, what the model says must come of it, and whether it does.

use contextstore::infra::clock::Clock;
use contextstore::infra::fs::File;
use contextstore::model::{
    Durability, Event, Holder, InstanceId, Plan, RequestId, Role, Segment, Status, StoreError, SummaryRecord,
    TaskConfig, TaskFilter, TaskId, TaskKey, TaskOrder, TaskRow, ToolCall, ToolStatus, json::Json,
};
use contextstore::store::{Append, Caller, NewRewrite, StartTask, Store};
use uuid::Uuid;

use super::task::{Config, LOG, Line, Message, PLANS, Request, Rewrite, State, TOOLS, Task, What};
use super::words::{self, one_in};
use super::world::{Danger, Effect, Stop, World, same};

/// What is asked of a task.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Start { instance: &'static str, config: Config },
    Append(Box<Message>),
    Usage(u64),
    Statistics { llm: u64, tools: u64, tokens: u64, compressions: u64 },
    Pin { seq: u64, pinned: bool },
    Configure(Config),
    Tool { success: bool, result: Option<String> },
    Plan { kind: String, content: String },
    Rewrite { rewrite: Rewrite, summaries: Vec<SummaryRecord> },
    Undo,
    Rewind(u64),
    Pause,
    Resume { instance: &'static str },
    Complete { summary: Option<String> },
    Fail { error: String, summary: Option<String> },
    Delete,
    Renew,
}

/// A call as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    id: TaskId,
    call: Call,
    request: Option<String>,
    lease: u64,
}

/// What must come of a call.
struct Expected {
    /// What it is told, or why it is refused.
    told: Result<Vec<u64>, &'static str>,
    effect: Effect,
    /// It lasts through a power cut, whatever the durability.
    synced: bool,
    /// The line of the call that this one repeats.
    seen: Option<(usize, usize)>,
}

impl Expected {
    fn refused(reason: &'static str) -> Self {
        Self { told: Err(reason), effect: Effect::Nothing, synced: false, seen: None }
    }

    fn lines(log: usize, lines: Vec<Line>, told: Vec<u64>) -> Self {
        Self { told: Ok(told), effect: Effect::Lines(log, lines), synced: false, seen: None }
    }

    fn synced(self) -> Self {
        Self { synced: true, ..self }
    }
}

const INSTANCES: [&str; 3] = ["ann", "bob", "cid"];

fn holder(instance: &str) -> Holder {
    let process_id = instance.bytes().map(u32::from).sum();
    let instance_id = InstanceId::parse(instance).unwrap();
    Holder { instance_id, process_id, hostname: format!("host-of-{instance}") }
}

fn lease_line(generation: u64, instance: &str, reason: &str, request: Option<Request>) -> Line {
    let holder = holder(instance);
    let body = format!(
        ",\"generation\":{generation},\"holder\":{{\"instance_id\":\"{instance}\",\"process_id\":{},\"hostname\":\"{}\"}},\"reason\":\"{reason}\"",
        holder.process_id, holder.hostname
    );
    Line::event(What::Lease { generation, holder }, body, request)
}

fn config_text(config: &Config) -> String {
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
    format!("{{{}}}", fields.join(","))
}

fn sent_config(config: &Config) -> TaskConfig {
    serde_json::from_str(&config_text(config)).unwrap()
}

fn status_line(status: Status, error: Option<&str>, summary: Option<&str>, request: Option<Request>) -> Line {
    let mut body = format!(",\"status\":\"{}\"", status.as_str());
    for (key, text) in [("error_message", error), ("final_summary", summary)] {
        if let Some(text) = text {
            body.push_str(&format!(",\"{key}\":{}", serde_json::to_string(text).unwrap()));
        }
    }
    let (error, summary) = (error.map(str::to_owned), summary.map(str::to_owned));
    Line::event(What::Status { status, error, summary }, body, request)
}

impl Op {
    fn log(&self) -> usize {
        match self.call {
            Call::Tool { .. } => TOOLS,
            Call::Plan { .. } => PLANS,
            _ => LOG,
        }
    }

    /// What the call asks for, by which a retry is told from something else under the same id.
    fn asked(&self) -> String {
        match &self.call {
            Call::Append(message) => format!("{:?}{}", message.role, message.body(None)),
            call => format!("{call:?}"),
        }
    }

    fn request(&self, told: u64) -> Option<Request> {
        self.request.as_ref().map(|id| Request { id: id.clone(), asked: self.asked(), told })
    }

    /// Makes the call.
    fn send(&self, store: &Store) -> Result<Vec<u64>, StoreError> {
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
            Call::Append(message) => {
                let append = Append { message: message.sent(), tokens: message.tokens, caller };
                let told = store.append(id, &append)?;
                Ok(vec![told.seq, u64::from(told.duplicate), told.view_tokens, told.view_generation])
            }
            Call::Usage(tokens) => {
                let event = Event::Usage {
                    input_tokens: *tokens,
                    output_tokens: 1,
                    cache_creation_tokens: 0,
                    cache_read_tokens: 2,
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
                let (number, again) = store.record_tool_call(id, &call, &caller)?;
                Ok(vec![number, u64::from(again)])
            }
            Call::Plan { kind, content } => {
                let plan = Plan { plan_type: kind.clone(), plan_content: Json::parse(content).unwrap() };
                let (number, again) = store.append_plan(id, &plan, &caller)?;
                Ok(vec![number, u64::from(again)])
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
            Call::Resume { instance } => Ok(vec![store.resume_task(id, holder(instance), request_id)?]),
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

impl World {
    /// What must come of a call, by the model. A call that is let in renews its lease, whatever comes of it.
    fn expect(&mut self, op: &Op) -> Expected {
        let Some(task) = self.tasks.get(&op.id).cloned() else {
            return match &op.call {
                Call::Start { instance, config } => self.expect_create(op, instance, config),
                _ => Expected::refused("ERROR_REASON_TASK_NOT_FOUND"),
            };
        };
        let (state, log) = (task.state(), op.log());
        let seen = op.request.as_ref().and_then(|id| task.request(log, id));
        if let Some((line, request)) = seen
            && !matches!(op.call, Call::Delete | Call::Renew)
        {
            if request.asked != op.asked() {
                return Expected::refused("ERROR_REASON_REQUEST_ID_REUSED");
            }
            return self.expect_again(op, &task, line, request.told);
        }
        let wrong_status = match op.call {
            Call::Delete => false,
            Call::Resume { .. } => state.status() != Status::Paused,
            Call::Complete { .. } | Call::Fail { .. } => state.status().is_final(),
            _ => state.status() != Status::Running,
        };
        if wrong_status {
            return Expected::refused("ERROR_REASON_WRONG_STATUS");
        }
        match &op.call {
            Call::Start { instance, .. } => return self.expect_lease(op, &state, instance),
            Call::Renew if state.lease.as_ref().is_none_or(|(newest, _)| *newest != op.lease) => {
                return Expected::refused("ERROR_REASON_STALE_LEASE");
            }
            _ => {}
        }
        // A resume asks for a lease and has none.
        let lease = if matches!(op.call, Call::Resume { .. }) { 0 } else { op.lease };
        match &state.lease {
            Some((generation, _)) if *generation == lease => {
                self.renew(op.id);
            }
            Some(_) if lease == 0 && self.lease_is_live(op.id) => {
                return Expected::refused("ERROR_REASON_LEASE_HELD");
            }
            _ if lease == 0 => {}
            _ => return Expected::refused("ERROR_REASON_STALE_LEASE"),
        }
        self.expect_let_in(op, &task, &state)
    }

    fn expect_create(&mut self, op: &Op, instance: &'static str, config: &Config) -> Expected {
        self.renew(op.id);
        let body = format!(",\"uuid\":\"{}\",\"format_version\":1", op.id);
        let started = Line::new(What::Started, body);
        let lease = lease_line(1, instance, "start", op.request(1));
        let task = Task {
            id: op.id,
            config: config.clone(),
            logs: [vec![started, lease], vec![], vec![]],
            safe: [0; 3],
            metadata: None,
        };
        Expected { told: Ok(vec![1, 1]), effect: Effect::Create(Box::new(task)), synced: true, seen: None }
    }

    /// A retry: it is told what the first call was told, and nothing changes.
    fn expect_again(&self, op: &Op, task: &Task, line: usize, told: u64) -> Expected {
        let view = task.view(None);
        let (told, synced) = match op.call {
            Call::Start { .. } => (vec![told, 0], true),
            Call::Append(_) => (vec![told, 1, view.tokens, task.state().view_generation()], false),
            Call::Tool { .. } | Call::Plan { .. } => (vec![told, 1], false),
            Call::Rewrite { .. } | Call::Undo | Call::Rewind(_) | Call::Resume { .. } => (vec![told], true),
            Call::Pause | Call::Complete { .. } | Call::Fail { .. } => (vec![], true),
            _ => (vec![], false),
        };
        Expected { told: Ok(told), effect: Effect::Nothing, synced, seen: Some((op.log(), line)) }
    }

    fn expect_lease(&mut self, op: &Op, state: &State, instance: &'static str) -> Expected {
        let reason = match &state.lease {
            Some((_, holder)) if holder.instance_id.as_str() == instance => "restart",
            Some(_) if self.lease_is_live(op.id) => return Expected::refused("ERROR_REASON_LEASE_HELD"),
            _ => "takeover",
        };
        let generation = state.generation + 1;
        self.renew(op.id);
        let line = lease_line(generation, instance, reason, op.request(generation));
        Expected::lines(LOG, vec![line], vec![generation, 0]).synced()
    }

    fn expect_let_in(&mut self, op: &Op, task: &Task, state: &State) -> Expected {
        let event = |what: What, body: String, told: u64| {
            Expected::lines(LOG, vec![Line::event(what, body, op.request(told))], vec![])
        };
        let seq = state.last_seq;
        match &op.call {
            Call::Start { .. } => unreachable!("it has its own rules"),
            Call::Append(message) => {
                let told = op.request(seq + 1);
                let body = message.body(op.request.as_deref());
                let line = Line::new(What::Message(message.clone()), body).asked(told);
                let mut after = task.clone();
                after.logs[LOG].push(line.clone());
                let told = vec![seq + 1, 0, after.view(None).tokens, state.view_generation()];
                Expected::lines(LOG, vec![line], told)
            }
            Call::Usage(tokens) => {
                let body = format!(
                    ",\"input_tokens\":{tokens},\"output_tokens\":1,\"cache_creation_tokens\":0,\"cache_read_tokens\":2"
                );
                event(What::Usage(tokens + 3), body, seq)
            }
            Call::Statistics { llm, tools, tokens, compressions } => {
                let body = format!(
                    ",\"llm_calls\":{llm},\"tool_calls\":{tools},\"tokens\":{tokens},\"compressions\":{compressions}"
                );
                let (llm, tools, tokens, compressions) = (*llm, *tools, *tokens, *compressions);
                event(What::Statistics { llm, tools, tokens, compressions }, body, seq)
            }
            Call::Pin { seq: pin, .. } if *pin == 0 || *pin > seq => {
                Expected::refused("ERROR_REASON_MESSAGE_NOT_FOUND")
            }
            Call::Pin { seq: pin, pinned } => event(
                What::Pin { seq: *pin, pinned: *pinned },
                format!(",\"seq\":{pin},\"pinned\":{pinned}"),
                seq,
            ),
            Call::Configure(config) => {
                let expected =
                    event(What::Config(config.clone()), format!(",\"config\":{}", config_text(config)), seq);
                // From its own line on.
                let durability = config.durability.unwrap_or(self.options.durability);
                if durability == Durability::Process { expected } else { expected.synced() }
            }
            Call::Tool { success, result } => {
                let result = result.as_ref().map_or_else(String::new, |text| format!(",\"result\":{text}"));
                let status = if *success { "success" } else { "error" };
                let body = format!(
                    ",\"tool_name\":\"grep\",\"arguments\":{{\"p\":[1.0]}}{result},\"status\":\"{status}\",\"duration_ms\":3"
                );
                expect_record(op, task, What::Tool { success: *success }, body)
            }
            Call::Plan { kind, content } => {
                let body = format!(",\"plan_type\":\"{kind}\",\"plan_content\":{content}");
                expect_record(op, task, What::Plan { kind: kind.clone(), content: content.clone() }, body)
            }
            Call::Rewrite { rewrite, summaries } => expect_rewrite(op, task, state, rewrite, summaries),
            Call::Undo => {
                let newest = state.rewrites.last().and_then(|(rewrite, _)| rewrite.parent);
                let Some(parent) = newest else { return Expected::refused("ERROR_REASON_NOTHING_TO_UNDO") };
                let back = usize::try_from(parent).unwrap().checked_sub(1).map(|at| &state.rewrites[at].0);
                let rewrite = Rewrite {
                    strategy: "undo".to_owned(),
                    base: state.view_generation(),
                    parent: back.and_then(|back| back.parent),
                    covers: back.map_or(0, |back| back.covers),
                    reason: format!("back to {parent}"),
                    segments: back.map_or_else(Vec::new, Rewrite::by_reference),
                };
                published(op, rewrite)
            }
            Call::Rewind(to) if *to > seq => Expected::refused("ERROR_REASON_MESSAGE_NOT_FOUND"),
            Call::Rewind(to) => {
                let then = state.rewrites.iter().rev().find(|(_, after)| after <= to).map(|(then, _)| then);
                let mut segments = then.map_or_else(Vec::new, Rewrite::by_reference);
                let covered = then.map_or(0, |then| then.covers);
                if covered < *to {
                    segments.push(Segment::keep(covered + 1, *to));
                }
                let rewrite = Rewrite {
                    strategy: "rewind".to_owned(),
                    base: state.view_generation(),
                    parent: None,
                    covers: seq,
                    reason: format!("back to message {to}"),
                    segments,
                };
                published(op, rewrite)
            }
            Call::Pause => self.expect_status(op, status_line(Status::Paused, None, None, op.request(seq))),
            Call::Complete { summary } => {
                let line = status_line(Status::Completed, None, summary.as_deref(), op.request(seq));
                self.expect_status(op, line)
            }
            Call::Fail { error, summary } => {
                let line = status_line(Status::Failed, Some(error), summary.as_deref(), op.request(seq));
                self.expect_status(op, line)
            }
            Call::Resume { instance } => {
                let generation = state.generation + 1;
                self.renew(op.id);
                let lease = lease_line(generation, instance, "resume", op.request(generation));
                Expected::lines(LOG, vec![lease], vec![generation]).synced()
            }
            Call::Delete => {
                self.renewed.remove(&op.id);
                Expected { told: Ok(vec![]), effect: Effect::Delete, synced: true, seen: None }
            }
            Call::Renew => Expected { told: Ok(vec![]), effect: Effect::Nothing, synced: false, seen: None },
        }
    }

    fn expect_status(&mut self, op: &Op, line: Line) -> Expected {
        self.renewed.remove(&op.id);
        Expected::lines(LOG, vec![line], vec![]).synced()
    }

    /// Makes a call, perhaps with a disk that fails in the middle of it, and looks at what comes of it.
    pub(crate) fn perform(&mut self, op: &Op, danger: Danger) {
        let expected = self.expect(op);
        let durability = self.tasks.get(&op.id).map(|task| self.durability(task));
        self.note(format!("{op:?} -> {:?}", expected.told));
        self.arm(danger);
        let told = op.send(self.store());
        let (died, fired) = (self.fault.is_dead(), self.fault.fired());
        self.fault.disarm();
        if danger != Danger::None {
            self.note(format!("… {danger:?}: {fired:?}, told {told:?}"));
        }
        let failed = !fired.is_empty();
        match (&told, &expected.told) {
            // A view that could not be written has no tokens to tell.
            (Ok(told), Ok(expected)) => {
                let sure = if failed { told.len().min(2) } else { told.len() };
                assert_eq!(told[..sure], expected[..sure]);
            }
            (Err(_), _) if failed => {}
            (Err(error), Err(expected)) => assert_eq!(error.reason(), *expected, "{error:?}"),
            (told, expected) => panic!("told {told:?}, not {expected:?}"),
        }
        let moves = matches!(expected.effect, Effect::Create(_) | Effect::Delete);
        if told.is_ok() {
            let synced = expected.synced || durability != Some(Durability::Process);
            let log = op.log();
            self.apply(op.id, expected.effect);
            if let Some(task) = self.tasks.get_mut(&op.id).filter(|_| synced) {
                match expected.seen {
                    Some((log, line)) => task.safe[log] = task.safe[log].max(line + 1),
                    None => task.safe[log] = task.logs[log].len(),
                }
            }
        } else if failed && !died && !moves {
            self.check_failed(op.id, &expected.effect, durability);
        } else if expected.told.is_ok() {
            self.in_flight = Some((op.id, expected.effect));
        }
        if died || failed && (moves || self.store().read_only().is_some()) {
            let stop = if self.rng.bool() { Stop::Kill } else { Stop::PowerCut };
            self.restart(stop);
            self.look_at_everything();
        }
        if failed {
            self.look_at_everything();
            // Whether a call that failed has renewed the lease before is not for the model to say.
            if let Some((_, age)) = self.store().task_info(op.id).ok().and_then(|info| info.lease) {
                self.renewed.insert(op.id, self.clock.monotonic() - age);
            }
        }
        if failed && told.is_err() && self.rng.bool() {
            // The client tries again, under the same id or not, and gets what it wants once.
            let again = Op { lease: self.lease_of(op.id), ..op.clone() };
            self.perform(&again, Danger::None);
        }
    }

    fn lease_of(&self, id: TaskId) -> u64 {
        self.tasks.get(&id).and_then(|task| task.state().lease).map_or(0, |(generation, _)| generation)
    }

    /// A random call to a task.
    pub(crate) fn random_op(&mut self, id: TaskId) -> Op {
        let state = self.tasks.get(&id).map(Task::state).unwrap_or_default();
        let open = self.tasks.get(&id).map(|task| task.view(None).open).unwrap_or_default();
        let rng = &mut self.rng;
        let instance = INSTANCES[rng.usize(..3)];
        let seq = state.last_seq;
        let call = match rng.u32(..100) {
            0..=47 => Call::Append(Box::new(words::message(rng, &open))),
            48..=50 => Call::Usage(rng.u64(..1000)),
            51..=53 => {
                let (llm, tools) = (rng.u64(..3), rng.u64(..3));
                Call::Statistics { llm, tools, tokens: rng.u64(..99), compressions: rng.u64(..2) }
            }
            54..=56 => Call::Pin { seq: rng.u64(..=seq + 1), pinned: rng.bool() },
            57..=58 => Call::Configure(config(rng)),
            59..=62 => Call::Tool { success: rng.bool(), result: rng.bool().then(|| words::text(rng)) },
            63..=65 => {
                let content = ["null", "{\"steps\":[\"a\",\"b\"]}", "12345678901234567890.5"][rng.usize(..3)];
                Call::Plan { kind: "revision".to_owned(), content: content.to_owned() }
            }
            66..=78 => rewrite(rng, &state),
            79..=81 => Call::Undo,
            82..=84 => {
                let beyond = u64::from(one_in(rng, 8));
                Call::Rewind(rng.u64(..=seq + beyond))
            }
            85..=88 => Call::Start { instance, config: config(rng) },
            89..=90 => Call::Pause,
            91..=93 => Call::Resume { instance },
            94 => Call::Complete { summary: rng.bool().then(|| "all \"done\"\n".to_owned()) },
            95 => {
                let summary = rng.bool().then(|| "not done".to_owned());
                Call::Fail { error: "it broke\n".to_owned(), summary }
            }
            96 => Call::Delete,
            _ => Call::Renew,
        };
        // Paused tasks would take nothing but a resume.
        let call = match call {
            Call::Append(_) if state.status() == Status::Paused && rng.bool() => Call::Resume { instance },
            call => call,
        };
        let mut op = Op { id, call, request: None, lease: 0 };
        op.lease = match self.rng.u32(..12) {
            0 => 0,
            1 => state.generation.saturating_sub(1),
            2 => state.generation + 1,
            _ => state.lease.map_or(0, |(generation, _)| generation),
        };
        op.request = match self.rng.u32(..20) {
            0 => self.used_request(&op),
            1..=10 => Some(format!("r{}", self.rng.u32(..))),
            _ => None,
        };
        op
    }

    /// An id that a call of the same log had.
    fn used_request(&mut self, op: &Op) -> Option<String> {
        let lines = &self.tasks.get(&op.id)?.logs[op.log()];
        let used: Vec<&Request> = lines.iter().filter_map(|line| line.request.as_ref()).collect();
        if used.is_empty() { None } else { Some(used[self.rng.usize(..used.len())].id.clone()) }
    }

    /// One step of a sequence. `done` are the calls with an id so far.
    pub(crate) fn step(&mut self, done: &mut Vec<Op>) {
        let ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        let new = ids.is_empty() || ids.len() < 3 && one_in(&mut self.rng, 10);
        let id = if new {
            TaskId::from(Uuid::from_u128(self.rng.u128(1..)))
        } else {
            ids[self.rng.usize(..ids.len())]
        };
        match self.rng.u32(..100) {
            0..=8 => {
                let stop = [Stop::Close, Stop::Kill, Stop::PowerCut, Stop::PowerCut][self.rng.usize(..4)];
                self.restart(stop);
                self.look_at_everything();
            }
            9..=11 => {
                let by = std::time::Duration::from_secs([1, 29, 30, 31][self.rng.usize(..4)]);
                self.note(format!("{by:?} go by"));
                self.clock.advance(by);
            }
            12..=16 if !new => self.look(id),
            17..=20 if !new => {
                let seq = self.tasks[&id].state().last_seq;
                let as_of = self.rng.bool().then(|| self.rng.u64(..=seq));
                self.note(format!("a reader of {id} as of {as_of:?}"));
                self.open_reader(id, as_of);
            }
            21..=24 => self.read_on(false),
            25..=29 if !done.is_empty() => {
                let op = done[self.rng.usize(..done.len())].clone();
                self.perform(&op, Danger::None);
            }
            _ => {
                let mut op = self.random_op(id);
                if new {
                    let instance = INSTANCES[self.rng.usize(..3)];
                    op.call = Call::Start { instance, config: config(&mut self.rng) };
                }
                let danger = match self.rng.u32(..14) {
                    0 | 1 => Danger::Death,
                    2 => Danger::Error,
                    _ => Danger::None,
                };
                self.perform(&op, danger);
                if op.request.is_some() {
                    done.push(op);
                }
            }
        }
    }

    /// Compares what the store says of a task with the model, in a few ways.
    pub(crate) fn look(&mut self, id: TaskId) {
        self.note(format!("look at {id}"));
        let (task, store) = (self.tasks[&id].clone(), self.store().clone());
        let (state, view) = (task.state(), task.view(None));
        let reader = store.current(id, None).unwrap();
        assert_eq!((reader.generation, reader.last_seq), (state.view_generation(), state.last_seq));
        same(&super::support::view(&store, id, None).unwrap(), &view.text(), "the view");
        let extra = store.current_extra(id).unwrap().map(|(file, len)| read(&*file, len));
        same(&extra.unwrap_or_default(), &view.extra_text(), "the extra fields");
        let as_of = self.rng.u64(..=state.last_seq);
        let then = super::support::view(&store, id, Some(as_of)).unwrap();
        same(&then, &task.view(Some(as_of)).text(), &format!("the view as of {as_of}"));
        let summaries = store.summaries(id).unwrap().map(|(file, len)| read(&*file, len));
        same(&summaries.unwrap_or_default(), &task.summaries(), "the summaries");
        assert_eq!(store.final_summary(id).unwrap(), state.final_summary);

        let info = store.task_info(id).unwrap();
        assert_eq!(info.row, task.row());
        assert_eq!(info.last_seq, state.last_seq);
        assert_eq!((info.view_tokens, info.view_messages), (view.tokens, view.lines.len() as u64));
        assert_eq!(info.pins, state.pins.iter().copied().collect::<Vec<_>>());
        let lease = info.lease.map(|(lease, _)| (lease.generation, lease.holder));
        assert_eq!(lease, state.lease);

        same(&lines(store.lines(id, 0, u64::MAX).unwrap()), &texts(&task, LOG, 0, u64::MAX), "the log");
        let (from, to) = (self.rng.u64(..=state.last_seq + 1), self.rng.u64(..=state.last_seq + 1));
        let part = lines(store.lines(id, from, to).unwrap());
        same(&part, &texts(&task, LOG, from, to), &format!("messages {from} to {to}"));
        same(
            &lines(store.tool_calls(id, from, to).unwrap()),
            &texts(&task, TOOLS, from, to),
            "the tool calls",
        );
        same(&lines(store.plans(id, from, to).unwrap()), &texts(&task, PLANS, from, to), "the plans");
        let successes = task.logs[TOOLS].iter().filter(|line| line.what == What::Tool { success: true });
        assert_eq!(info.tool_successes, successes.count() as u64);
        let plan = store.latest_plan(id).unwrap();
        let plan = plan.map(|(number, plan)| (number, plan.plan_type, plan.plan_content.as_str().to_owned()));
        let newest = task.logs[PLANS].last().map(|line| match &line.what {
            What::Plan { kind, content } => (task.logs[PLANS].len() as u64, kind.clone(), content.clone()),
            what => panic!("{what:?} is no plan"),
        });
        assert_eq!(plan, newest);

        let count = self.rng.u64(..=state.last_seq + 1);
        let from = state.last_seq.saturating_sub(count) + 1;
        let last = lines(store.last_messages(id, count).unwrap());
        same(&last, &texts(&task, LOG, from, u64::MAX), &format!("the last {count} messages"));
        if state.last_seq > 0 {
            let seq = self.rng.u64(1..=state.last_seq);
            let all = task.logs[LOG].iter().filter(|line| matches!(line.what, What::Message(_)));
            let line = all.skip(usize::try_from(seq).unwrap() - 1).map(|line| &line.text).next();
            assert_eq!(Some(&store.message(id, seq).unwrap()), line);
        }
        let beyond = store.message(id, state.last_seq + 1);
        assert!(matches!(beyond, Err(StoreError::MessageNotFound { .. })), "{beyond:?}");
    }

    /// Looks at every task and at the catalog.
    pub(crate) fn look_at_everything(&mut self) {
        self.check_rows();
        for id in self.tasks.keys().copied().collect::<Vec<_>>() {
            self.look(id);
        }
        self.check_rows();
    }

    /// The catalog has the rows of the model and no others.
    pub(crate) fn check_rows(&self) {
        let page = self.store().list_tasks(&TaskFilter::default(), TaskOrder::CreatedAscending, 100, None);
        let mut rows = page.unwrap().rows;
        rows.sort_by_key(|row| row.uuid);
        let expected: Vec<_> = self.tasks.values().map(Task::row).collect();
        let text = |rows: &[TaskRow]| rows.iter().map(|row| format!("{row:#?}\n")).collect::<String>();
        same(&text(&rows), &text(&expected), "the catalog");
    }
}

fn expect_record(op: &Op, task: &Task, what: What, mut body: String) -> Expected {
    let number = task.logs[op.log()].len() as u64 + 1;
    if let Some(id) = &op.request {
        body.push_str(&format!(",\"request_id\":\"{id}\""));
    }
    Expected::lines(op.log(), vec![Line::new(what, body).asked(op.request(number))], vec![number, 0])
}

fn published(op: &Op, rewrite: Rewrite) -> Expected {
    let (body, ordinal) = (rewrite.body(), rewrite.base + 1);
    let line = Line::event(What::Rewrite(rewrite), body, op.request(ordinal));
    Expected::lines(LOG, vec![line], vec![ordinal]).synced()
}

fn expect_rewrite(
    op: &Op,
    task: &Task,
    state: &State,
    asked: &Rewrite,
    summaries: &[SummaryRecord],
) -> Expected {
    if asked.base != state.view_generation() {
        return Expected::refused("ERROR_REASON_STALE_VIEW");
    }
    let next = usize::try_from(asked.covers).unwrap();
    let messages = task.messages();
    let cuts = match messages.get(next) {
        // Only results stand between a call and the end of its group.
        Some(next) => asked.covers > 0 && next.role == Role::Tool,
        None => asked.covers > state.last_seq || asked.covers > 0 && !task.view(None).open.is_empty(),
    };
    let mut last = 0;
    let risen = asked.segments.iter().all(|segment| {
        let (from, to) = match segment {
            Segment::Keep { from, to, .. } => (*from, *to),
            Segment::Replace { seq, .. } => (*seq, *seq),
            Segment::Literal(_) | Segment::Earlier { .. } => return true,
        };
        let fits = last < from && from <= to && to <= asked.covers;
        last = to;
        fits
    });
    if cuts || !risen {
        return Expected::refused("ERROR_REASON_INVALID_FIELD");
    }
    let mut rewrite = asked.clone();
    rewrite.parent = match rewrite.strategy.as_str() {
        "trim" => state.rewrites.last().and_then(|(newest, _)| newest.parent),
        "inherit" => None,
        _ => Some(asked.base),
    };
    let mut records = summaries.iter();
    let mut number = task.summaries().lines().count() as u64;
    for segment in &mut rewrite.segments {
        if let Segment::Literal(literal) = segment
            && literal.kind == contextstore::model::LiteralKind::Summary
            && let Some(record) = records.next()
        {
            number += 1;
            literal.summary = Some(Json::parse(&words::summary_text(record, number)).unwrap());
        }
    }
    published(op, rewrite)
}

fn rewrite(rng: &mut fastrand::Rng, state: &State) -> Call {
    let strategies = ["summarize", "compact", "prune", "window", "trim", "trim", "inherit", "my-own"];
    let beyond = u64::from(one_in(rng, 20));
    let covers = rng.u64(..=state.last_seq + beyond);
    let (mut segments, summaries) = words::segments(rng, state, covers);
    if one_in(rng, 15) {
        segments.reverse();
    }
    let stale = u64::from(one_in(rng, 15));
    let rewrite = Rewrite {
        strategy: strategies[rng.usize(..strategies.len())].to_owned(),
        base: if rng.bool() {
            state.view_generation() + stale
        } else {
            state.view_generation().saturating_sub(stale)
        },
        parent: None,
        covers,
        reason: "too \"long\"".to_owned(),
        segments,
    };
    Call::Rewrite { rewrite, summaries }
}

fn config(rng: &mut fastrand::Rng) -> Config {
    let durability = [None, None, Some(Durability::Group), Some(Durability::Each), Some(Durability::Process)];
    Config {
        model: ["", "gpt-x"][rng.usize(..2)],
        context_length: rng.bool().then_some(128_000),
        durability: durability[rng.usize(..durability.len())],
    }
}

fn read(file: &dyn File, len: u64) -> String {
    let mut bytes = vec![0; usize::try_from(len).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    String::from_utf8(bytes).unwrap()
}

fn lines(mut reader: contextstore::store::LineReader) -> String {
    let mut lines = String::new();
    while let Some(line) = reader.step(|line| format!("{}\n", line.text)).unwrap() {
        lines.push_str(&line);
    }
    lines
}

/// Lines of a log by the number of their message or record. Events go with the message before them.
fn texts(task: &Task, log: usize, from: u64, to: u64) -> String {
    let mut number = 0;
    let mut texts = String::new();
    for line in &task.logs[log] {
        number += u64::from(log != LOG || matches!(line.what, What::Message(_)));
        if (from..=to).contains(&number) {
            texts.push_str(&line.text);
            texts.push('\n');
        }
    }
    texts
}
