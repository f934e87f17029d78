//! What must come of a call: the rules of the store, said once more and as simply as can be.

use contextstore_base::model::{
    Durability, LiteralKind, Role, Segment, Status, SummaryRecord, TaskId, json::Json,
};
use contextstore_policy::context::count_tokens;

use super::calls::{Call, Op, config_text, holder};
use super::task::{Config, LOG, Line, Request, Rewrite, State, Task, What};
use super::words;
use super::world::{Effect, World};

/// What must come of a call.
pub(crate) struct Expected {
    /// What it is told, or why it is refused.
    pub(crate) told: Result<Vec<u64>, &'static str>,
    pub(crate) effect: Effect,
    /// It lasts through a power cut, whatever the durability.
    pub(crate) synced: bool,
    /// The line of the call that this one repeats.
    pub(crate) seen: Option<(usize, usize)>,
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

fn lease_line(generation: u64, instance: &str, reason: &str, request: Option<Request>) -> Line {
    let holder = holder(instance);
    let body = format!(
        ",\"generation\":{generation},\"holder\":{{\"instance_id\":\"{instance}\",\"process_id\":{},\"hostname\":\"{}\"}},\"reason\":\"{reason}\"",
        holder.process_id, holder.hostname
    );
    Line::event(What::Lease { generation, holder }, body, request)
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

impl World {
    /// What must come of a call, by the model. A call that is let in renews its lease, whatever comes of it.
    pub(crate) fn expect(&mut self, op: &Op) -> Expected {
        let Some(task) = self.tasks.get(&op.id).cloned() else {
            return match &op.call {
                Call::Start { instance, config } => self.expect_create(op, instance, config),
                Call::Fork { from, at_seq, instance } => self.expect_fork(op, *from, *at_seq, instance),
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
        if let Call::Fork { .. } = op.call {
            return Expected::refused("ERROR_REASON_TASK_EXISTS");
        }
        let wrong_status = match op.call {
            Call::Delete => false,
            Call::Resume { .. } => state.status() != Status::Paused,
            Call::Complete { .. } | Call::Fail { .. } => state.status().is_final(),
            _ => state.status() != Status::Running,
        };
        if wrong_status {
            let started = matches!(op.call, Call::Start { .. });
            let reason = if started { "ERROR_REASON_TASK_EXISTS" } else { "ERROR_REASON_WRONG_STATUS" };
            return Expected::refused(reason);
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
            None if lease == state.generation => {}
            _ => return Expected::refused("ERROR_REASON_STALE_LEASE"),
        }
        self.expect_let_in(op, &task, &state)
    }

    fn expect_create(&mut self, op: &Op, instance: &'static str, config: &Config) -> Expected {
        self.renew(op.id);
        let started = Line::started(op.id);
        let first = self.first_lease();
        let lease = lease_line(first, instance, "start", op.request(first));
        let task = Task {
            id: op.id,
            first,
            config: config.clone(),
            logs: [vec![started, lease], vec![], vec![]],
            safe: [0; 3],
            metadata: None,
            told: false,
        };
        let effect = Effect::Create(Box::new(task));
        Expected { told: Ok(vec![first, 1]), effect, synced: true, seen: None }
    }

    /// The lease that a new task begins with: above those of all that were deleted.
    fn first_lease(&self) -> u64 {
        let floor = self.store.as_ref().unwrap().lease_floor();
        assert!(floor >= self.deleted, "a deleted task had lease {}, and the floor is {floor}", self.deleted);
        floor + 1
    }

    /// The first messages of another task, whatever became of that, and then a life of its own.
    fn expect_fork(&mut self, op: &Op, from: TaskId, at_seq: u64, instance: &'static str) -> Expected {
        let Some(source) = self.tasks.get(&from) else {
            return Expected::refused("ERROR_REASON_TASK_NOT_FOUND");
        };
        let last = source.state().last_seq;
        if at_seq > last {
            return Expected::refused("ERROR_REASON_MESSAGE_NOT_FOUND");
        }
        let at_seq = if at_seq == 0 { last } else { at_seq };
        let mut task = Task {
            id: op.id,
            first: 0,
            config: source.config.clone(),
            logs: source.forked(op.id, at_seq),
            safe: [0; 3],
            metadata: None,
            told: false,
        };
        let generation = self.first_lease().max(task.state().generation + 1);
        task.first = generation;
        let body = format!(",\"from\":\"{from}\",\"at_seq\":{at_seq}");
        task.logs[LOG].push(Line::new(What::Forked, body));
        task.logs[LOG].push(lease_line(generation, instance, "start", op.request(generation)));
        self.renew(op.id);
        let effect = Effect::Create(Box::new(task));
        Expected { told: Ok(vec![generation, 1]), effect, synced: true, seen: None }
    }

    /// A retry: it is told what the first call was told, and nothing changes.
    fn expect_again(&self, op: &Op, task: &Task, line: usize, told: u64) -> Expected {
        let view = task.view(None);
        let (told, synced) = match op.call {
            Call::Start { .. } => (vec![told, u64::from(told == task.first)], true),
            Call::Fork { .. } => (vec![told, 1], true),
            Call::Append(_) => {
                let state = task.state();
                (vec![told, 1, state.calibrated(view.tokens), state.view_generation()], false)
            }
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
            Call::Start { .. } | Call::Fork { .. } => unreachable!("it has its own rules"),
            Call::Append(message) => {
                let told = op.request(seq + 1);
                let body = message.body(op.request.as_deref());
                let mut message = message.clone();
                message.tokens = count_tokens(state.counter(), &message.sent());
                if message.pinned && !task.has_room_for_pin(state, message.tokens) {
                    return Expected::refused("ERROR_REASON_INVALID_FIELD");
                }
                let line = Line::new(What::Message(message), body).asked(told);
                let mut after = task.clone();
                after.logs[LOG].push(line.clone());
                let tokens = state.calibrated(after.view(None).tokens);
                let told = vec![seq + 1, 0, tokens, state.view_generation()];
                Expected::lines(LOG, vec![line], told)
            }
            Call::Usage { tokens, tools } => {
                let counted = task.view(None).tokens - state.answer;
                let body = format!(
                    ",\"input_tokens\":{tokens},\"output_tokens\":1,\"cache_creation_tokens\":0,\"cache_read_tokens\":2,\"counted_tokens\":{counted}"
                );
                let of_tools = if *tools > 0 { format!(",\"tools_tokens\":{tools}") } else { String::new() };
                let counted = counted + tools;
                event(What::Usage { input: tokens + 2, counted, of_tools: *tools }, body + &of_tools, seq)
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
            Call::Pin { seq: pin, pinned: true } if !state.pins.contains(pin) && !state.is_in_view(*pin) => {
                Expected::refused("ERROR_REASON_NOT_IN_VIEW")
            }
            Call::Pin { seq: pin, pinned: true }
                if !state.pins.contains(pin) && !task.has_room_for_pin(state, task.tokens_of(*pin)) =>
            {
                Expected::refused("ERROR_REASON_INVALID_FIELD")
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
}

fn expect_record(op: &Op, task: &Task, what: What, fields: String) -> Expected {
    let number = task.logs[op.log()].len() as u64 + 1;
    let mut body = format!(",\"after\":{}{fields}", task.state().last_seq);
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
    let covered = state.rewrites.last().map_or(0, |(newest, _)| newest.covers);
    let cuts = match messages.get(next) {
        // What the newest rewrite speaks for is cut already.
        _ if asked.covers == covered => false,
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
            && literal.kind == LiteralKind::Summary
            && let Some(record) = records.next()
        {
            number += 1;
            literal.summary = Some(Json::parse(&words::summary_text(record, number)).unwrap());
        }
    }
    published(op, rewrite)
}
