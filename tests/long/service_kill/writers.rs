//! Four writers that work until their connection breaks, and go on where they were: what was not answered is sent
//! again under the same name.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contextstore_client::tonic::{Code, Status};
use contextstore_client::{RawClient, v1};
use fastrand::Rng;
use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::notes::{Log, Notes};
use test_support::service::{holder, is_broken, reason};
use test_support::wire::{Appending, new_fields};

/// Messages of the pipeline that wait for their answers.
const AHEAD: usize = 64;
/// Unary calls of one writer at once.
const LANES: usize = 3;

/// What the answers so far say of the whole run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Answers.
    pub(crate) acknowledged: AtomicU64,
    /// Calls that were sent again.
    pub(crate) repeated: AtomicU64,
    /// Of these, those of which the server said that they had happened before.
    pub(crate) duplicates: AtomicU64,
}

impl Tally {
    fn note(&self, duplicate: bool) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        self.duplicates.fetch_add(u64::from(duplicate), Ordering::Relaxed);
    }
}

/// What a writer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages by unary calls, several at once.
    Unary,
    /// Messages by one stream, without waiting.
    Pipelined,
    /// Tool calls, plans, usage.
    Records,
    /// Changes of status, rewinds, removed tasks.
    Lifecycle,
}

#[derive(Debug, Clone)]
enum Act {
    Start,
    Say(String),
    Tool(String),
    Plan(String),
    Usage,
    Rewind(u64),
    Pause,
    Resume,
    Complete,
    Fail,
    Delete,
}

#[derive(Debug, Clone)]
struct Call {
    request_id: String,
    act: Act,
    /// Whether it was sent before.
    again: bool,
}

/// One writer with its tasks, the last of which it works on.
#[derive(Debug)]
pub(crate) struct Writer {
    kind: Kind,
    pub(crate) tasks: Vec<Notes>,
    lease: u64,
    last_seq: u64,
    rng: Rng,
    made: u64,
    /// Whether it is to go on with a new task once everything is answered.
    leaving: bool,
    /// Sent, and not answered.
    open: VecDeque<Call>,
    tally: Arc<Tally>,
}

/// The connection broke, or the server is stopping.
#[derive(Debug)]
pub(crate) struct Broken;

impl Writer {
    pub(crate) fn new(kind: Kind, seed: u64, tally: Arc<Tally>) -> Self {
        let rng = Rng::with_seed(seed);
        Self {
            kind,
            tasks: Vec::new(),
            lease: 0,
            last_seq: 0,
            rng,
            made: 0,
            leaving: false,
            open: VecDeque::new(),
            tally,
        }
    }

    /// Works until the connection breaks.
    pub(crate) async fn work(&mut self, raw: &RawClient) -> Broken {
        loop {
            if let Err(broken) = self.turn(raw, true).await {
                return broken;
            }
        }
    }

    /// Sends what was not answered once more, and nothing else.
    pub(crate) async fn finish(&mut self, raw: &RawClient) {
        while !self.open.is_empty() {
            self.turn(raw, false).await.unwrap();
        }
    }

    /// Goes on with a new task soon.
    pub(crate) fn leave_task(&mut self) {
        // This one does so by itself.
        self.leaving = self.kind != Kind::Lifecycle;
    }

    /// Says the newest text once more, as one would whose notes are wrong.
    pub(crate) async fn forget_an_answer(&mut self, raw: &RawClient) {
        let said = |((log, _), sent): (&(Log, String), &super::notes::Sent)| {
            (*log == Log::Messages).then(|| sent.what.clone())
        };
        let text = self.live().sent.iter().find_map(said).unwrap();
        let call = self.call(Act::Say(text));
        self.open.push_back(call);
        self.finish(raw).await;
    }

    fn live(&mut self) -> &mut Notes {
        self.tasks.last_mut().unwrap()
    }

    async fn turn(&mut self, raw: &RawClient, more: bool) -> Result<(), Broken> {
        if self.leaving && self.open.is_empty() {
            self.leaving = false;
            self.lease = 0;
        }
        if self.open.is_empty() && self.lease == 0 && !self.is_paused() {
            let bytes = [self.rng.u64(..), self.rng.u64(..)].map(u64::to_be_bytes).concat();
            let uuid = uuid::Builder::from_random_bytes(bytes.try_into().unwrap()).into_uuid();
            self.tasks.push(Notes::new(uuid.to_string()));
            self.last_seq = 0;
            let start = self.call(Act::Start);
            self.open.push_back(start);
        }
        let starts = self.open.front().is_some_and(|call| matches!(call.act, Act::Start));
        if self.kind == Kind::Pipelined && !starts {
            return self.pipeline(raw, more && !self.leaving).await;
        }
        if self.open.is_empty() {
            let lanes = if self.kind == Kind::Lifecycle { 1 } else { LANES };
            for _ in 0..lanes {
                let act = self.next();
                let call = self.call(act);
                self.open.push_back(call);
            }
        }
        let uuid = self.live().uuid.clone();
        let calls = std::mem::take(&mut self.open);
        let lease = self.lease;
        let answers = join_all(calls.iter().map(|call| perform(raw.clone(), &uuid, lease, call))).await;
        let mut broken = false;
        for (mut call, answer) in calls.into_iter().zip(answers) {
            match answer {
                Ok((number, duplicate)) => {
                    self.tally.note(duplicate);
                    self.answered(&call, number);
                }
                Err(status) if is_cut_off(&status) => {
                    broken = true;
                    call.again = true;
                    self.tally.repeated.fetch_add(1, Ordering::Relaxed);
                    self.open.push_back(call);
                }
                Err(status) => panic!("{:?} of {uuid} was refused: {} {status}", call.act, reason(&status)),
            }
        }
        if broken { Err(Broken) } else { Ok(()) }
    }

    fn is_paused(&self) -> bool {
        self.tasks.last().is_some_and(|task| !task.removed && task.status == Some("paused"))
    }

    /// A call under a name of its own, written down before it is sent.
    fn call(&mut self, act: Act) -> Call {
        self.made += 1;
        let request_id = format!("{:?}-{}", self.kind, self.made);
        let (log, what) = match &act {
            Act::Say(text) => (Log::Messages, text.as_str()),
            Act::Tool(name) => (Log::Tools, name.as_str()),
            Act::Plan(text) => (Log::Plans, text.as_str()),
            Act::Start | Act::Resume => (Log::Events, "lease"),
            Act::Usage => (Log::Events, "usage"),
            Act::Rewind(_) => (Log::Events, "rewrite"),
            Act::Pause | Act::Complete | Act::Fail => (Log::Events, "status"),
            Act::Delete => {
                self.live().removing = true;
                return Call { request_id, act, again: false };
            }
        };
        let notes = self.live();
        notes.send(log, &request_id, what);
        if log == Log::Events && what != "usage" {
            // Until it is answered, nobody knows.
            notes.status = None;
        }
        Call { request_id, act, again: false }
    }

    fn answered(&mut self, call: &Call, number: u64) {
        let id = &call.request_id;
        let notes = self.tasks.last_mut().unwrap();
        match &call.act {
            Act::Say(_) => {
                notes.acknowledge(Log::Messages, id, number);
                self.last_seq = self.last_seq.max(number);
            }
            Act::Tool(_) => notes.acknowledge(Log::Tools, id, number),
            Act::Plan(_) => notes.acknowledge(Log::Plans, id, number),
            Act::Usage => notes.acknowledge(Log::Events, id, 0),
            Act::Rewind(_) => {
                notes.acknowledge(Log::Events, id, number);
                notes.status = Some("running");
            }
            Act::Start | Act::Resume => {
                notes.acknowledge(Log::Events, id, number);
                notes.status = Some("running");
                self.lease = number;
            }
            Act::Pause | Act::Complete | Act::Fail => {
                notes.acknowledge(Log::Events, id, 0);
                let ended = if matches!(call.act, Act::Complete) { "completed" } else { "failed" };
                notes.status = Some(if matches!(call.act, Act::Pause) { "paused" } else { ended });
                self.lease = 0;
            }
            Act::Delete => {
                notes.removed = true;
                self.lease = 0;
            }
        }
    }

    /// A text that nobody else says; sometimes so long that a kill can cut through it.
    fn text(&mut self) -> String {
        let length = match self.rng.u8(..150) {
            0 => self.rng.usize(100_000..300_000),
            1..8 => self.rng.usize(5_000..30_000),
            _ => self.rng.usize(..200),
        };
        format!("{:?} {} {}", self.kind, self.made, "x".repeat(length))
    }

    fn next(&mut self) -> Act {
        match self.kind {
            Kind::Unary | Kind::Pipelined => Act::Say(self.text()),
            Kind::Records => match self.rng.u8(..4) {
                0 => Act::Tool(format!("tool {}", self.made)),
                1 => Act::Plan(self.text()),
                2 => Act::Usage,
                _ => Act::Say(self.text()),
            },
            Kind::Lifecycle if self.is_paused() => match self.rng.u8(..4) {
                0 => Act::Complete,
                1 => Act::Delete,
                _ => Act::Resume,
            },
            Kind::Lifecycle => match self.rng.u8(..16) {
                0..2 => Act::Pause,
                2 => Act::Complete,
                3 => Act::Fail,
                4..8 if self.last_seq > 0 => Act::Rewind(self.rng.u64(1..=self.last_seq)),
                _ => Act::Say(self.text()),
            },
        }
    }

    /// One stream of messages, until it breaks or, if nothing more is to be sent, all is answered.
    async fn pipeline(&mut self, raw: &RawClient, more: bool) -> Result<(), Broken> {
        let (requests, stream) = mpsc::channel(2 * AHEAD);
        let (uuid, lease) = (self.live().uuid.clone(), self.lease);
        for call in &self.open {
            requests.try_send(as_request(&uuid, lease, call)).unwrap();
        }
        let again = self.open.len();
        let mut raw = raw.clone();
        let answered = async {
            let mut answers = raw.append_messages(ReceiverStream::new(stream)).await?.into_inner();
            loop {
                while more && self.open.len() < AHEAD {
                    let act = self.next();
                    let call = self.call(act);
                    // It may be broken already: then this one is sent again with the others.
                    let _ = requests.try_send(as_request(&uuid, lease, &call));
                    self.open.push_back(call);
                }
                if self.open.is_empty() {
                    return Ok(());
                }
                let Some(answer) = answers.message().await? else {
                    return Err(Status::internal("the stream ended before its end"));
                };
                let call = self.open.pop_front().unwrap();
                self.tally.note(answer.responses[0].duplicate);
                self.answered(&call, answer.responses[0].seq);
            }
        };
        let answered: Result<(), Status> = answered.await;
        match answered {
            Ok(()) => Ok(()),
            Err(status) if is_cut_off(&status) => {
                self.open.iter_mut().for_each(|call| call.again = true);
                self.tally.repeated.fetch_add(again.min(self.open.len()) as u64, Ordering::Relaxed);
                Err(Broken)
            }
            Err(status) => panic!("the stream to {uuid} was refused: {} {status}", reason(&status)),
        }
    }
}

/// Whether a call failed because the server went away, so that it is to be sent again.
fn is_cut_off(status: &Status) -> bool {
    is_broken(status) || reason(status) == "ERROR_REASON_STOPPING"
}

fn as_request(uuid: &str, lease_generation: u64, call: &Call) -> v1::AppendMessagesRequest {
    let Act::Say(text) = &call.act else { unreachable!("only messages go through the pipeline") };
    v1::AppendMessagesRequest {
        task_uuid: uuid.to_owned(),
        messages: vec![new_fields(says(text)).named(&call.request_id)],
        lease_generation,
    }
}

fn says(text: &str) -> v1::Message {
    v1::Message { role: v1::Role::User.into(), content: text.to_owned(), ..Default::default() }
}

/// Makes a call; answers the number it was told and whether it had happened before.
async fn perform(
    mut raw: RawClient,
    uuid: &str,
    lease_generation: u64,
    call: &Call,
) -> Result<(u64, bool), Status> {
    let (task_uuid, request_id) = (uuid.to_owned(), call.request_id.clone());
    match call.act.clone() {
        Act::Start => {
            let request =
                v1::StartTaskRequest { task_uuid, holder: Some(holder()), request_id, ..Default::default() };
            raw.start_task(request).await.map(|answer| (answer.get_ref().lease_generation, false))
        }
        Act::Say(text) => {
            let request = v1::AppendMessageRequest {
                task_uuid,
                message: Some(new_fields(says(&text)).named(request_id)),
                lease_generation,
            };
            let answer = raw.append_message(request).await?.into_inner();
            Ok((answer.seq, answer.duplicate))
        }
        Act::Tool(tool_name) => {
            let request = v1::RecordToolCallRequest {
                task_uuid,
                tool_name,
                request_id,
                lease_generation,
                ..Default::default()
            };
            let answer = raw.record_tool_call(request).await?.into_inner();
            Ok((answer.seq, answer.duplicate))
        }
        Act::Plan(text) => {
            let plan_content_json = serde_json::to_string(&text).unwrap();
            let request = v1::AppendPlanRequest {
                task_uuid,
                plan_content_json,
                request_id,
                lease_generation,
                ..Default::default()
            };
            let answer = raw.append_plan(request).await?.into_inner();
            Ok((answer.id, answer.duplicate))
        }
        Act::Usage => {
            let request = v1::RecordUsageRequest {
                task_uuid,
                input_tokens: 7,
                output_tokens: 3,
                request_id,
                lease_generation,
                ..Default::default()
            };
            raw.record_usage(request).await.map(|_| (0, false))
        }
        Act::Rewind(seq) => {
            let request = v1::RewindTaskRequest { task_uuid, seq, request_id, lease_generation };
            raw.rewind_task(request).await.map(|answer| (answer.get_ref().generation, false))
        }
        Act::Pause => {
            let request = v1::PauseTaskRequest { task_uuid, request_id, lease_generation };
            raw.pause_task(request).await.map(|_| (0, false))
        }
        Act::Resume => {
            let holder = Some(holder());
            let request = v1::ResumeTaskRequest { task_uuid, holder, request_id, lease_generation };
            raw.resume_task(request).await.map(|answer| (answer.get_ref().lease_generation, false))
        }
        Act::Complete => {
            let request = v1::CompleteTaskRequest {
                task_uuid,
                final_summary: "it is done".to_owned(),
                request_id,
                lease_generation,
            };
            raw.complete_task(request).await.map(|_| (0, false))
        }
        Act::Fail => {
            let request = v1::FailTaskRequest {
                task_uuid,
                error_message: "it broke".to_owned(),
                request_id,
                lease_generation,
                ..Default::default()
            };
            raw.fail_task(request).await.map(|_| (0, false))
        }
        Act::Delete => {
            let request = v1::DeleteTaskRequest { task_uuid, request_id, lease_generation };
            match raw.delete_task(request).await {
                // A task that is gone has forgotten who removed it.
                Err(status) if call.again && status.code() == Code::NotFound => Ok((0, true)),
                answer => answer.map(|_| (0, false)),
            }
        }
    }
}
