//! Works on a store with several threads: each on tasks of its own, and all of them on one that they share.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use contextstore_base::infra::fs::fault::{FaultFs, Sabotage as Break};
use contextstore_base::model::json::Json;
use contextstore_base::model::{
    Event, Holder, InstanceId, Literal, LiteralKind, RequestId, Role, Segment, Status, StoreError,
    SummaryRecord, TaskConfig, TaskFilter, TaskId, TaskKey, TaskOrder,
};
use contextstore_store::store::{Append, Caller, Ground, NewRewrite, StartTask, Store, StoreOptions};
use fastrand::Rng;

use super::acks::{Acks, Entry, Fate, Log, Notes};
use super::made;
use super::{RunArgs, Sabotage};

/// A task with more messages than this is soon completed.
const LONG: u64 = 300;
const SHARED: &str = "shared";

#[derive(Debug)]
struct Work {
    store: Store,
    notes: Notes,
    seed: u64,
    early_ack: bool,
    left: AtomicU64,
    stop: AtomicBool,
}

/// What a thread knows of a task.
#[derive(Debug, Clone)]
struct Own {
    id: TaskId,
    status: Status,
    lease: u64,
    last_seq: u64,
    generation: u64,
    /// Calls of the newest group without a result.
    open_calls: Vec<String>,
    /// Rewrites that begin with a literal.
    literals: Vec<u64>,
    is_shared: bool,
}

#[derive(Debug)]
struct Hand<'a> {
    work: &'a Work,
    name: String,
    rng: Rng,
    count: u64,
    tasks: Vec<Own>,
}

pub(crate) fn run(args: &RunArgs) -> ExitCode {
    let mut rng = Rng::with_seed(args.seed);
    let options = StoreOptions {
        durability: args.durability.into(),
        checkpoint_bytes: *rng.choice(&[4 << 10, 64 << 10, 8 << 20]).unwrap(),
        max_open_tasks: *rng.choice(&[2, 6, 128]).unwrap(),
        ballast_bytes: 1 << 20,
        ..StoreOptions::default()
    };
    let known = args.acks.as_deref().map(|path| Acks::read(path).unwrap()).unwrap_or_default();
    let notes = Notes::open(args.acks.as_deref());
    notes.line(&format!("run {}", args.seed));
    let mut ground = Ground::disk(&args.dir).unwrap();
    if args.sabotage == Some(Sabotage::SkipSync) {
        let broken = FaultFs::new(ground.fs);
        broken.sabotage(Break::SkipSync { file: "messages.jsonl" });
        ground.fs = broken;
    }
    let (store, _) = Store::open_on(ground, options).unwrap();
    let work = Work {
        store,
        notes,
        seed: args.seed,
        early_ack: args.sabotage == Some(Sabotage::EarlyAck),
        left: AtomicU64::new(args.ops),
        stop: AtomicBool::new(false),
    };

    let hand = |number: u64| Hand {
        work: &work,
        name: format!("hand-{number}"),
        rng: Rng::with_seed(args.seed << 8 | number),
        count: 0,
        tasks: Vec::new(),
    };
    let mut first = hand(0);
    first.finish_open(&known);
    let mut hands: Vec<Hand<'_>> = (1..=args.threads).map(hand).collect();
    first.take_up(&mut hands);
    let Some(shared) = first.shared_task() else { return ExitCode::from(3) };
    std::thread::scope(|scope| {
        for hand in &mut hands {
            hand.tasks.insert(0, shared.clone());
            scope.spawn(|| hand.work_on());
        }
    });
    if work.stop.load(Ordering::Relaxed) {
        return ExitCode::from(3);
    }
    work.store.close().unwrap();
    ExitCode::SUCCESS
}

/// Whether a caller could have known: then nothing was changed, for certain.
fn is_refusal(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Invalid(_)
            | StoreError::TaskNotFound { .. }
            | StoreError::TaskExists { .. }
            | StoreError::MessageNotFound { .. }
            | StoreError::NotInView { .. }
            | StoreError::WrongStatus { .. }
            | StoreError::StaleView { .. }
            | StoreError::RewriteInFlight { .. }
            | StoreError::NothingToUndo { .. }
    )
}

impl Own {
    fn new(id: TaskId, is_shared: bool) -> Self {
        Self {
            id,
            status: Status::Running,
            lease: 0,
            last_seq: 0,
            generation: 0,
            open_calls: Vec::new(),
            literals: Vec::new(),
            is_shared,
        }
    }
}

impl Work {
    /// Writes down how an operation ended.
    fn told(&self, request: &str, outcome: Result<u64, StoreError>) -> Option<u64> {
        match outcome {
            Ok(number) => {
                self.notes.line(&format!("ack {request} {number}"));
                Some(number)
            }
            Err(error) => {
                let refused = is_refusal(&error);
                let word = if refused { "no" } else { "err" };
                self.notes.line(&format!("{word} {request} {error:?}"));
                self.stop.fetch_or(!refused, Ordering::Relaxed);
                None
            }
        }
    }
}

impl<'a> Hand<'a> {
    /// Does what clients do after a crash of the server: sends again what was not answered.
    fn finish_open(&mut self, known: &Acks) {
        let open = known.entries.iter().filter(|entry| entry.fate == Fate::Open);
        for Entry { request, task, kind, .. } in open.filter(|entry| entry.kind.starts_with("message:")) {
            let newest =
                self.work.store.task_info(*task).map(|info| info.lease.map(|(lease, _)| lease.generation));
            let append = Append {
                message: made::message(request, kind),
                caller: caller(request, newest.ok().flatten().unwrap_or(0)),
            };
            let outcome = self.work.store.append(*task, &append).map(|outcome| outcome.seq);
            self.work.told(request, outcome);
        }
    }

    /// Goes on with the tasks that earlier runs have left.
    fn take_up(&mut self, hands: &mut [Hand<'a>]) {
        let filter = TaskFilter { statuses: vec![Status::Running, Status::Paused], ..TaskFilter::default() };
        let page = self.work.store.list_tasks(&filter, TaskOrder::CreatedAscending, 1000, None).unwrap();
        for row in page.rows {
            let info = self.work.store.task_info(row.uuid).unwrap();
            self.work.notes.line(&format!("saw {} {}", row.uuid, info.log_bytes));
            let owner = row.key.task_id.as_str();
            let hand = match hands.iter_mut().find(|hand| hand.name == owner) {
                Some(hand) => hand,
                None if owner == SHARED => &mut *self,
                None => continue,
            };
            let mut own = Own {
                status: row.status,
                last_seq: info.last_seq,
                generation: info.view_generation,
                ..Own::new(row.uuid, owner == SHARED)
            };
            let started = row.status == Status::Paused || hand.start(&mut own, owner);
            if started {
                hand.tasks.push(own);
            }
        }
    }

    /// The task that all threads write to; a long one is completed and another begun.
    fn shared_task(&mut self) -> Option<Own> {
        if let Some(own) = self.tasks.pop() {
            if own.last_seq <= 3 * LONG {
                return Some(own);
            }
            self.tasks.push(own);
            self.complete(0);
        }
        let mut own = Own::new(TaskId::new(), true);
        self.start(&mut own, SHARED).then_some(own)
    }

    fn work_on(&mut self) {
        let work = self.work;
        let more =
            || work.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        while more().is_ok() && !work.stop.load(Ordering::Relaxed) {
            self.step();
        }
    }

    fn step(&mut self) {
        let running = |own: &Own| own.status == Status::Running && !own.is_shared;
        let all_running = self.tasks.iter().filter(|own| running(own)).count();
        if all_running == 0 || self.rng.u32(..100) < 3 {
            return self.begin();
        }
        if self.rng.u8(..3) == 0 {
            return self.write_to(0);
        }
        let at = self.rng.usize(1..self.tasks.len());
        let own = &self.tasks[at];
        match own.status {
            Status::Completed | Status::Failed => {
                // It is of no more use.
                self.delete(at);
            }
            Status::Paused => match self.rng.u8(..8) {
                0 => self.complete(at),
                1 => self.delete(at),
                _ => self.resume(at),
            },
            Status::Running if own.last_seq > LONG => self.complete(at),
            Status::Running => match self.rng.u32(..100) {
                0..4 => self.pause(at),
                4 => self.complete(at),
                5 => self.fail(at),
                6 => self.delete(at),
                _ => self.write_to(at),
            },
        }
    }

    /// One change that leaves a task running.
    fn write_to(&mut self, at: usize) {
        match self.rng.u32(..100) {
            0..60 => self.append(at),
            60..68 => self.tool(at),
            68..72 => self.plan(at),
            72..80 => self.event(at),
            80..94 => self.rewrite(at),
            94..97 => self.undo(at),
            97..99 => self.rewind(at),
            _ => self.look(at),
        }
    }

    /// Names the next request.
    fn request(&mut self) -> String {
        self.count += 1;
        format!("{}-{}-{}", self.work.seed, self.name, self.count)
    }

    /// Writes down what is about to be asked for, asks, and writes down the answer.
    fn ask(
        &mut self,
        request: &str,
        task: (TaskId, u64),
        log: Log,
        (kind, print): (&str, u32),
        call: impl FnOnce(&Store, &Caller) -> Result<u64, StoreError>,
    ) -> Option<u64> {
        let (id, lease) = task;
        let entry = Entry {
            request: request.to_owned(),
            task: id,
            log,
            kind: kind.to_owned(),
            print,
            fate: Fate::Open,
        };
        self.work.notes.trying(&entry);
        self.work.told(request, call(&self.work.store, &caller(request, lease)))
    }

    fn holder(&self, name: &str) -> Holder {
        Holder {
            instance_id: InstanceId::parse(name).unwrap(),
            process_id: std::process::id(),
            hostname: "here".to_owned(),
        }
    }

    /// Makes a task, or takes one up again.
    fn start(&mut self, own: &mut Own, name: &str) -> bool {
        let request = self.request();
        let start = StartTask {
            id: Some(own.id),
            key: TaskKey { task_source: "test".to_owned(), task_id: name.to_owned(), ..TaskKey::default() },
            user: "workload".to_owned(),
            config: TaskConfig::default(),
            holder: self.holder(name),
            request_id: RequestId::parse(&request).ok(),
        };
        let print = made::print([]);
        let lease = self.ask(&request, (own.id, 0), Log::Messages, ("start", print), |store, _| {
            store.start_task(start).map(|started| started.lease_generation)
        });
        own.lease = lease.unwrap_or(0);
        lease.is_some()
    }

    fn begin(&mut self) {
        let mut own = Own::new(TaskId::new(), false);
        let name = self.name.clone();
        if self.start(&mut own, &name) {
            self.tasks.push(own);
        }
    }

    fn append(&mut self, at: usize) {
        let request = self.request();
        let own = &self.tasks[at];
        let (id, lease, next) = (own.id, own.lease, own.last_seq + 1);
        let kind = match (own.open_calls.last(), self.rng.u32(..10)) {
            (Some(call), 0..8) => format!("message:tool:{call}"),
            (_, 0..4) => "message:assistant".to_owned(),
            (_, 4..7) => "message:user".to_owned(),
            (_, 7) => "message:system".to_owned(),
            (_, 8) => "message:developer".to_owned(),
            _ => "message:tool:nobody".to_owned(),
        };
        let append = Append { message: made::message(&request, &kind), caller: caller(&request, lease) };
        let print = made::message_print(&append.message);
        let mut generation = 0;
        let early = self.work.early_ack && !own.is_shared;
        let acks = &self.work.notes;
        let seq = self.ask(&request, (id, lease), Log::Messages, (&kind, print), |store, _| {
            if early {
                acks.line(&format!("ack {request} {next}"));
            }
            let outcome = store.append(id, &append)?;
            generation = outcome.view_generation;
            Ok(outcome.seq)
        });
        let Some(seq) = seq else { return };
        let own = &mut self.tasks[at];
        own.last_seq = seq;
        own.generation = generation;
        match append.message.role {
            Role::Tool => drop(own.open_calls.pop()),
            Role::Assistant => own.open_calls = made::call_ids(&request),
            Role::System | Role::Developer | Role::User => own.open_calls.clear(),
        }
    }

    fn tool(&mut self, at: usize) {
        let request = self.request();
        let (id, lease, last_seq) = (self.tasks[at].id, self.tasks[at].lease, self.tasks[at].last_seq);
        let (call, print) = made::tool_call(&mut self.rng, last_seq);
        self.ask(&request, (id, lease), Log::Tools, ("tool", print), |store, caller| {
            store.record_tool_call(id, &call, caller).map(|told| told.number)
        });
    }

    fn plan(&mut self, at: usize) {
        let request = self.request();
        let (id, lease) = (self.tasks[at].id, self.tasks[at].lease);
        let (plan, print) = made::plan(&mut self.rng);
        self.ask(&request, (id, lease), Log::Plans, ("plan", print), |store, caller| {
            store.append_plan(id, &plan, caller).map(|told| told.number)
        });
    }

    fn event(&mut self, at: usize) {
        let request = self.request();
        let (id, lease, last_seq) = (self.tasks[at].id, self.tasks[at].lease, self.tasks[at].last_seq);
        let task = (id, lease);
        match self.rng.u8(..3) {
            0 => {
                let tokens = self.rng.u64(..1000);
                let config = TaskConfig { context_length: Some(tokens), ..TaskConfig::default() };
                let json = format!("{{\"context_length\":{tokens}}}");
                let print = made::print([("config", json.as_str())]);
                self.ask(&request, task, Log::Messages, ("event:config", print), |store, caller| {
                    store.update_config(id, config, caller).map(|()| 0)
                });
            }
            1 if last_seq > 0 => {
                let (seq, pinned) = (self.rng.u64(1..=last_seq), self.rng.bool());
                let print = made::print([("seq", &*seq.to_string()), ("pinned", &*pinned.to_string())]);
                self.ask(&request, task, Log::Messages, ("event:pin", print), |store, caller| {
                    store.append_event(id, &Event::Pin { seq, pinned }, caller).map(|()| 0)
                });
            }
            _ => {
                let (input_tokens, output_tokens) = (self.rng.u64(..9000), self.rng.u64(..900));
                let event = Event::Usage {
                    input_tokens,
                    output_tokens,
                    cache_creation_tokens: 0,
                    cache_read_tokens: 1,
                    counted_tokens: None,
                    tools_tokens: 0,
                };
                let values = [input_tokens, output_tokens, 0, 1].map(|number| number.to_string());
                let print = made::print(made::USAGE.iter().copied().zip(values.iter().map(String::as_str)));
                self.ask(&request, task, Log::Messages, ("event:usage", print), |store, caller| {
                    store.append_event(id, &event, caller).map(|()| 0)
                });
            }
        }
    }

    fn rewrite(&mut self, at: usize) {
        let request = self.request();
        let own = self.tasks[at].clone();
        let covers = own.last_seq.saturating_sub(self.rng.u64(..4));
        let from = self.rng.u64(..=covers).max(1);
        let tail = (covers > 0).then(|| Segment::keep(from, covers));
        let (strategy, segments, summaries) = match self.rng.u8(..6) {
            0..3 => {
                let text = made::text(&mut self.rng);
                let content = Json::text(&text);
                let literal = Literal {
                    role: Role::User,
                    content,
                    kind: LiteralKind::Summary,
                    tokens: 9,
                    summary: None,
                };
                let record = summary(text, from);
                let segments = std::iter::once(Segment::Literal(literal)).chain(tail).collect();
                ("summarize", segments, vec![record])
            }
            3 if covers > 0 => {
                let trim = Segment::Keep { from, to: covers, trim_except: Some(vec![from]) };
                ("trim", vec![trim], Vec::new())
            }
            4 if covers > 0 => {
                let content = Json::text("[shortened]");
                let replace = Segment::Replace { seq: from, content, tokens: 2 };
                let rest = (from < covers).then(|| Segment::keep(from + 1, covers));
                ("prune", std::iter::once(replace).chain(rest).collect(), Vec::new())
            }
            _ => {
                let earlier = self.rng.choice(&own.literals).copied();
                let earlier = earlier.map(|rewrite| Segment::Earlier { rewrite, index: 0 });
                ("window", earlier.into_iter().chain(tail).collect(), Vec::new())
            }
        };
        let new = NewRewrite {
            strategy: strategy.to_owned(),
            base: own.generation,
            covers,
            reason: format!("by {request}"),
            segments,
            summaries,
        };
        let (strategy, reason) = (format!("\"{strategy}\""), format!("\"{}\"", new.reason));
        let print =
            made::print([("strategy", &*strategy), ("covers", &*covers.to_string()), ("reason", &*reason)]);
        let has_literal = !new.summaries.is_empty();
        let ordinal =
            self.ask(&request, (own.id, own.lease), Log::Messages, ("rewrite", print), |store, caller| {
                store.rewrite(own.id, &new, caller)
            });
        self.rewritten(at, ordinal, has_literal);
    }

    fn undo(&mut self, at: usize) {
        let request = self.request();
        let (id, lease) = (self.tasks[at].id, self.tasks[at].lease);
        let print = made::print([("strategy", "\"undo\"")]);
        let ordinal = self.ask(&request, (id, lease), Log::Messages, ("undo", print), |store, caller| {
            store.undo(id, caller)
        });
        self.rewritten(at, ordinal, false);
    }

    fn rewind(&mut self, at: usize) {
        let request = self.request();
        let own = &self.tasks[at];
        let (id, lease) = (own.id, own.lease);
        let seq = own.last_seq.saturating_sub(self.rng.u64(..5));
        let print = made::print([("strategy", "\"rewind\"")]);
        let ordinal = self.ask(&request, (id, lease), Log::Messages, ("rewind", print), |store, caller| {
            store.rewind(id, seq, caller)
        });
        self.rewritten(at, ordinal, false);
    }

    /// Takes note of a rewrite, or looks where the view stands if there was none.
    fn rewritten(&mut self, at: usize, ordinal: Option<u64>, has_literal: bool) {
        let own = &mut self.tasks[at];
        match ordinal {
            Some(ordinal) => {
                own.generation = ordinal;
                own.literals.extend(has_literal.then_some(ordinal));
            }
            None => {
                if let Ok(info) = self.work.store.task_info(own.id) {
                    own.generation = info.view_generation;
                    own.last_seq = info.last_seq;
                }
            }
        }
    }

    /// Reads the view as it is or was, as an agent does.
    fn look(&mut self, at: usize) {
        let own = &self.tasks[at];
        let as_of = self.rng.bool().then(|| self.rng.u64(..=own.last_seq));
        if let Ok(mut reader) = self.work.store.current(own.id, as_of) {
            let mut chunk = Vec::new();
            while reader.read(&mut chunk, 64 << 10).is_ok_and(|more| more) {}
        }
    }

    fn pause(&mut self, at: usize) {
        let print = made::print([("status", "\"paused\"")]);
        self.change(at, Status::Paused, print, |store, id, caller| store.pause_task(id, caller));
    }

    fn complete(&mut self, at: usize) {
        let summary = self.rng.bool().then(|| "all done".to_owned());
        let value = summary.as_ref().map(|_| ("final_summary", "\"all done\""));
        let print = made::print([("status", "\"completed\"")].into_iter().chain(value));
        self.change(at, Status::Completed, print, |store, id, caller| {
            store.complete_task(id, summary, caller)
        });
    }

    fn fail(&mut self, at: usize) {
        let print = made::print([("status", "\"failed\""), ("error_message", "\"broke\"")]);
        self.change(at, Status::Failed, print, |store, id, caller| {
            store.fail_task(id, "broke".to_owned(), None, caller)
        });
    }

    fn change(
        &mut self,
        at: usize,
        status: Status,
        print: u32,
        call: impl FnOnce(&Store, TaskId, &Caller) -> Result<(), StoreError>,
    ) {
        let request = self.request();
        let (id, lease) = (self.tasks[at].id, self.tasks[at].lease);
        let done = self.ask(&request, (id, lease), Log::Messages, ("status", print), |store, caller| {
            call(store, id, caller).map(|()| 0)
        });
        if done.is_some() {
            let own = &mut self.tasks[at];
            own.status = status;
            own.lease = 0;
            // Most tasks that ended are kept, and looked at by the check only.
            if status.is_final() && self.rng.u8(..4) > 0 {
                self.tasks.remove(at);
            }
        }
    }

    fn resume(&mut self, at: usize) {
        let request = self.request();
        let id = self.tasks[at].id;
        let holder = self.holder(&self.name);
        let print = made::print([]);
        let lease = self.ask(&request, (id, 0), Log::Messages, ("resume", print), |store, caller| {
            store.resume_task(id, holder, &Caller { lease_generation: 0, ..caller.clone() })
        });
        if let Some(lease) = lease {
            self.tasks[at].status = Status::Running;
            self.tasks[at].lease = lease;
        }
    }

    fn delete(&mut self, at: usize) {
        let request = self.request();
        let (id, lease) = (self.tasks[at].id, self.tasks[at].lease);
        let done = self.ask(&request, (id, lease), Log::Delete, ("delete", 0), |store, caller| {
            store.delete_task(id, caller).map(|()| 0)
        });
        if done.is_some() {
            self.tasks.remove(at);
        }
    }
}

fn caller(request: &str, lease_generation: u64) -> Caller {
    Caller { request_id: RequestId::parse(request).ok(), lease_generation }
}

fn summary(summary: String, end_seq: u64) -> SummaryRecord {
    SummaryRecord {
        id: 0,
        start_seq: 1,
        end_seq,
        summary,
        compressed_message_count: end_seq,
        original_tokens: 100,
        summary_tokens: 9,
        tokens_saved: 91,
        ratio: 0.09,
        strategy: "summarize".to_owned(),
        model: "none".to_owned(),
        timestamp: "2026-01-01T00:00:00Z".parse().unwrap(),
        sections: None,
    }
}
