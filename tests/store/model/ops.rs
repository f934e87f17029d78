//! The steps of a sequence: random calls to random tasks, on a disk that fails at times.

use std::time::Duration;

use contextstore_base::infra::clock::Clock;
use contextstore_base::model::{Durability, Status, TaskId, TokenCounter};
use fastrand::Rng;
use uuid::Uuid;

use super::calls::{Call, Op};
use super::task::{Config, Request, Rewrite, State, Task};
use super::words::{self, one_in};
use super::world::{Danger, Effect, Stop, World};

/// Beyond that nothing is forked.
const MOST_TASKS: usize = 5;
const INSTANCES: [&str; 3] = ["ann", "bob", "cid"];

impl World {
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
                task.told = true;
                if let Call::Configure(_) = op.call {
                    // Readers see what is durable by the new measure, so all of it is.
                    task.safe = [0, 1, 2].map(|log| task.logs[log].len());
                }
                match expected.seen {
                    Some((log, line)) => task.safe[log] = task.safe[log].max(line + 1),
                    None => task.safe[log] = task.logs[log].len(),
                }
            }
        } else if failed && !died && !moves {
            self.check_unchanged(op.id);
        } else if failed && !died && self.adopt(op.id, &expected.effect) {
            // It was made, but not all that belongs to it was done.
        } else if expected.told.is_ok() {
            self.in_flight = Some((op.id, expected.effect));
        }
        let unsure = self.in_flight.is_some() && failed;
        if died || unsure || failed && self.store().read_only().is_some() {
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
            48..=50 => Call::Usage { tokens: rng.u64(..1000), tools: rng.u64(..3) * 100 },
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

    /// A fork of a random task at a random message, now and then where there is none, or to where a task is.
    fn random_fork(&mut self, ids: &[TaskId]) -> Op {
        let rng = &mut self.rng;
        let from = ids[rng.usize(..ids.len())];
        let taken = one_in(rng, 8);
        let id =
            if taken { ids[rng.usize(..ids.len())] } else { TaskId::from(Uuid::from_u128(rng.u128(1..))) };
        let beyond = u64::from(one_in(rng, 8));
        let at_seq = rng.u64(..=self.tasks[&from].state().last_seq + beyond);
        let call = Call::Fork { from, at_seq, instance: INSTANCES[rng.usize(..3)] };
        let request = rng.bool().then(|| format!("r{}", rng.u32(..)));
        Op { id, call, request, lease: 0 }
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
            9 if !new => self.lose_view(id),
            10..=11 => {
                let by = Duration::from_secs([1, 29, 30, 31][self.rng.usize(..4)]);
                if self.rng.u32(..4) == 0 {
                    self.note(format!("the wall clock is set back by {by:?}"));
                    self.clock.set_back(by);
                } else {
                    self.note(format!("{by:?} go by"));
                    self.clock.advance(by);
                }
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
            30..=35 if !ids.is_empty() && ids.len() < MOST_TASKS => {
                let op = self.random_fork(&ids);
                let danger = [Danger::None, Danger::None, Danger::Death, Danger::Death, Danger::Error]
                    [self.rng.usize(..5)];
                self.perform(&op, danger);
                if op.request.is_some() {
                    done.push(op);
                }
            }
            _ => {
                let mut op = self.random_op(id);
                if new {
                    let instance = INSTANCES[self.rng.usize(..3)];
                    op.call = Call::Start { instance, config: config(&mut self.rng) };
                }
                let rewrites = matches!(op.call, Call::Rewrite { .. } | Call::Undo | Call::Rewind(_));
                let danger = match self.rng.u32(..14) {
                    0 | 1 => Danger::Death,
                    2 => Danger::Error,
                    // There are more wrong orders to do these in than anything else.
                    3..=9 if rewrites || new => Danger::Death,
                    _ => Danger::None,
                };
                self.perform(&op, danger);
                if op.request.is_some() {
                    done.push(op);
                }
            }
        }
    }
}

fn rewrite(rng: &mut Rng, state: &State) -> Call {
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

fn config(rng: &mut Rng) -> Config {
    let durability = [None, None, Some(Durability::Group), Some(Durability::Each), Some(Durability::Process)];
    let counter =
        [None, None, Some(TokenCounter::Fitted), Some(TokenCounter::Heuristic), Some(TokenCounter::O200k)];
    Config {
        model: ["", "gpt-x"][rng.usize(..2)],
        context_length: rng.bool().then_some(128_000),
        durability: durability[rng.usize(..durability.len())],
        counter: counter[rng.usize(..counter.len())],
    }
}
