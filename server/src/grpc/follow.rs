//! Streams that go on with what happens later: the history with `follow`, and WatchTask.
//!
//! Both read the logs from disk, from the place where they were; a signal only tells them to look again. So they
//! need no memory for what a slow reader has not taken, and miss nothing, whatever happens to the server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::{RewriteKind, ToolCallStatus};
use futures_util::Stream;
use futures_util::stream::unfold;
use tonic::Request;

use super::paced::Items;
use super::read::{Kinds, LogRecords, fill};
use super::service::{Reply, Service};
use super::serving::Serving;
use super::status::Refusal;
use super::token::Place;
use super::{answer, enums};
use crate::infra::metrics;
use crate::model::{Event, StoreError, TaskId};
use crate::store::{Head, Line, LogEnds, LogKind, Store, Subscription};

/// Even without a signal it is looked again, as the store may have been opened again in between.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// A watcher that was at the present and is further behind than this goes on at the present.
const LAG_BYTES: u64 = 16 << 20;
/// Events that are read ahead of a watcher.
const AHEAD: usize = 256;

/// One who follows a task.
struct Follower {
    serving: Arc<Serving>,
    id: TaskId,
    subscription: Subscription,
}

impl Follower {
    /// It is subscribed before anything is read, so that nothing falls between.
    fn new(serving: Arc<Serving>, id: TaskId) -> Self {
        let subscription = serving.engine.store().subscribe(id);
        Self { serving, id, subscription }
    }

    /// Returns when there may be more.
    async fn more(&mut self) -> Result<(), Refusal> {
        tokio::select! {
            () = self.serving.engine.stopped() => return Err(Refusal::Stopping),
            () = self.subscription.changed() => {}
            () = tokio::time::sleep(LOOK_AGAIN) => {
                self.subscription = self.serving.engine.store().subscribe(self.id);
            }
        }
        Ok(())
    }
}

/// What is to be followed of the history.
pub(super) struct History {
    pub(super) from: u64,
    pub(super) limit: u64,
    pub(super) kinds: Kinds,
}

/// The history from a message on, and what comes later.
pub(super) fn history(
    serving: Arc<Serving>,
    id: TaskId,
    history: History,
) -> impl Stream<Item = Result<pb::StreamMessagesResponse, Refusal>> + Send {
    struct State {
        follower: Follower,
        /// Where the next line begins; none before the first look.
        position: Option<u64>,
        left: u64,
        /// Whether the last look ended before the end of the log.
        more: bool,
        history: History,
    }
    impl State {
        fn read(&mut self, store: &Store) -> Result<Vec<Bytes>, StoreError> {
            let (id, from) = (self.follower.id, self.history.from);
            let lines = match self.position {
                None => store.lines(id, from, u64::MAX)?,
                Some(position) => store.lines_at(id, LogKind::Messages, position)?.from(from),
            };
            let mut records = LogRecords { lines, kinds: self.history.kinds.clone() };
            let mut batch = Vec::new();
            self.more = fill(&mut records, &mut batch, &mut self.left)?;
            self.position = Some(records.lines.position());
            Ok(batch)
        }

        async fn next(&mut self) -> Result<Option<pb::StreamMessagesResponse>, Refusal> {
            while self.left > 0 {
                let serving = Arc::clone(&self.follower.serving);
                let records = serving.engine.with(|store| self.read(store)).await?;
                if !records.is_empty() {
                    metrics::bytes_streamed("StreamMessages", records.iter().map(Bytes::len).sum());
                    return Ok(Some(pb::StreamMessagesResponse { records }));
                }
                if self.more {
                    tokio::task::yield_now().await;
                } else {
                    self.follower.more().await?;
                }
            }
            Ok(None)
        }
    }
    let left = if history.limit == 0 { u64::MAX } else { history.limit };
    let state = State { follower: Follower::new(serving, id), position: None, left, more: false, history };
    unfold(Some(state), |state| async move {
        let mut state = state?;
        match state.next().await {
            Ok(response) => Some((Ok(response?), Some(state))),
            Err(status) => Some((Err(status), None)),
        }
    })
}

/// What happens to a task, from a place on; and that place.
pub(super) async fn watch(
    serving: Arc<Serving>,
    id: TaskId,
    from: Option<Place>,
) -> Result<(Place, impl Stream<Item = Result<pb::WatchTaskResponse, Refusal>> + Send), Refusal> {
    let follower = Follower::new(Arc::clone(&serving), id);
    let ends = serving.engine.with(|store| store.log_ends(id)).await?;
    let place = from.unwrap_or_else(|| Place::from(ends));
    let watcher = Watcher { follower, place, ahead: VecDeque::new(), caught_up: from.is_none() };
    let events = unfold(Some(watcher), |watcher| async move {
        let mut watcher = watcher?;
        match watcher.next().await {
            Ok(response) => Some((Ok(response), Some(watcher))),
            Err(status) => Some((Err(status), None)),
        }
    });
    Ok((place, events))
}

struct Watcher {
    follower: Follower,
    place: Place,
    ahead: VecDeque<pb::WatchTaskResponse>,
    /// Whether it has been at the present. One that reads what was before it takes its time.
    caught_up: bool,
}

impl Watcher {
    async fn next(&mut self) -> Result<pb::WatchTaskResponse, Refusal> {
        loop {
            if let Some(event) = self.ahead.pop_front() {
                return Ok(event);
            }
            let serving = Arc::clone(&self.follower.serving);
            serving.engine.with(|store| self.read(store)).await?;
            if self.ahead.is_empty() {
                self.follower.more().await?;
            }
        }
    }

    fn read(&mut self, store: &Store) -> Result<(), StoreError> {
        let id = self.follower.id;
        let ends = store.log_ends(id)?;
        let behind = self.place.behind(&ends);
        // Several messages at once are no lag, however large they are.
        let most = LAG_BYTES.max(4 * self.follower.serving.limits.message_bytes as u64);
        if behind.is_none_or(|behind| self.caught_up && behind > most) {
            self.skip(ends, behind.unwrap_or(0));
            return Ok(());
        }
        for kind in [LogKind::Messages, LogKind::Tools, LogKind::Plans] {
            let mut lines = match store.lines_at(id, kind, self.place.of(kind)) {
                // Within a line: the log was cut before this place, and has grown again.
                Err(StoreError::Invalid(_)) => {
                    self.skip(ends, behind.unwrap_or(0));
                    return Ok(());
                }
                lines => lines?,
            };
            while self.ahead.len() < AHEAD {
                let Some(found) = lines.step(|line| (line.time(), event(line)))? else { break };
                self.place.set(kind, lines.position());
                if let (time, Some(event)) = found {
                    self.tell(time.map(answer::timestamp), event);
                }
            }
        }
        self.caught_up |= self.place.behind(&ends) == Some(0);
        Ok(())
    }

    /// Goes on at the present.
    fn skip(&mut self, ends: LogEnds, skipped_bytes: u64) {
        let time = answer::timestamp(self.follower.serving.clock.now());
        self.place = Place::from(ends);
        let lagged = pb::watch_task_response::Lagged { skipped_bytes };
        self.tell(Some(time), pb::watch_task_response::Event::Lagged(lagged));
    }

    fn tell(&mut self, time: Option<prost_types::Timestamp>, event: pb::watch_task_response::Event) {
        let resume_token = self.place.to_string();
        self.ahead.push_back(pb::WatchTaskResponse { resume_token, time, event: Some(event) });
    }
}

/// What a watcher is told of a line, if anything.
fn event(line: &Line<'_>) -> Option<pb::watch_task_response::Event> {
    use pb::watch_task_response as told;
    use told::Event as Told;
    let field = |name: &str| {
        let value: serde_json::Value = serde_json::from_str(line.text).ok()?;
        Some(value.get(name)?.as_str()?.to_owned())
    };
    match line.head {
        Head::Message { seq, role, tokens } => {
            let role = enums::number(role);
            Some(Told::MessageAppended(told::MessageAppended { seq, role, tokens }))
        }
        Head::Record { number, .. } => Some(match field("tool_name") {
            Some(tool_name) => Told::ToolCallRecorded(told::ToolCallRecorded {
                seq: number,
                tool_name,
                status: field("status")
                    .and_then(|name| ToolCallStatus::from_name(&name))
                    .unwrap_or_default()
                    .into(),
            }),
            None => Told::PlanAppended(told::PlanAppended {
                id: number,
                plan_type: field("plan_type").unwrap_or_default(),
            }),
        }),
        Head::Event { name, .. } => match Event::parse(name, line.text).ok().flatten()? {
            Event::Rewrite(rewrite) => Some(Told::ViewRewritten(told::ViewRewritten {
                generation: rewrite.ordinal,
                kind: RewriteKind::from_name(&rewrite.strategy).unwrap_or_default().into(),
                last_seq: rewrite.covers,
            })),
            Event::Status { status, error_message, .. } => Some(Told::StatusChanged(told::StatusChanged {
                status: enums::number(status),
                error_message: error_message.unwrap_or_default(),
                lease_generation: 0,
            })),
            Event::Lease { generation, .. } => Some(Told::StatusChanged(told::StatusChanged {
                status: enums::number(crate::model::Status::Running),
                error_message: String::new(),
                lease_generation: generation,
            })),
            Event::Started { .. }
            | Event::Config { .. }
            | Event::Usage { .. }
            | Event::Statistics { .. }
            | Event::Pin { .. }
            | Event::Forked { .. }
            | Event::Erased { .. } => None,
        },
    }
}

impl From<LogEnds> for Place {
    fn from(ends: LogEnds) -> Self {
        Self { messages: ends.messages, tools: ends.tools, plans: ends.plans }
    }
}

/// Streams what happens to a task.
pub(super) async fn watch_task(
    service: &Service,
    request: Request<pb::WatchTaskRequest>,
) -> Reply<Items<pb::WatchTaskResponse>> {
    let asked = request.get_ref();
    let id = TaskId::parse(&asked.task_uuid)?;
    let from = Place::parse(&asked.resume_token)?;
    let mut begins = None;
    let response = service.stream(&request, async {
        let (place, events) = watch(Arc::clone(&service.serving), id, from).await?;
        begins = Some(place);
        Ok(Box::pin(events))
    });
    let mut response = response.await?;
    if let Some(token) = begins.and_then(|place: Place| place.to_string().parse().ok()) {
        response.metadata_mut().insert("resume-token", token);
    }
    Ok(response)
}
