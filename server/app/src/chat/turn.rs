//! One turn of a model: sends the context, streams the answer, and records it however it ends.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::block_in_place;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};
use uuid::Uuid;

use super::{ANSWER, ChatEvent, FinalAnswer, Item, message_of, piece_of};
use crate::Engine;
use crate::error::AppError;
use crate::infra::metrics;
use crate::llm::{Answer, AnswerEvent, AnswerMessage, LlmError, LlmRequest, Payload, Usage};
use crate::model::json::items;
use crate::model::{Event as LogEvent, NewMessage, Provider, RequestId, Role, StoreError, TaskId};
use crate::render::{RenderOptions, Rendering};
use crate::send;
use crate::store::{Append, AppendOutcome, Binding, Caller, RequestFile, Store};

/// Bytes that are rendered before other tasks get the thread.
const RENDERED_AT_ONCE: u64 = 4 << 20;
/// Bytes that a message takes in the log beside its content.
const AROUND_BYTES: usize = 8 << 10;
/// Number of times that a refused request is changed and sent again.
const CHANGES: u32 = 2;
/// Retries of a failed write.
const WRITES: u32 = 3;

/// A turn that is ready to begin: the new messages are durable.
pub(super) struct ChatTurn {
    pub(super) engine: Arc<Engine>,
    pub(super) id: TaskId,
    /// The incarnation of the task that was asked about. The answer never goes to another.
    pub(super) binding: Binding,
    pub(super) caller: Caller,
    pub(super) provider: Provider,
    pub(super) options: RenderOptions,
    /// Limit of the answer, in tokens; 0 if unknown.
    pub(super) answer_tokens: u64,
    pub(super) seqs: Vec<u64>,
    /// The view that was last sent.
    pub(super) sent: Option<SentView>,
}

/// The view that a request was made from: its generation and its counted tokens.
pub(super) struct SentView {
    generation: u64,
    tokens: u64,
}

/// The reason why an answer is incomplete.
enum Interruption {
    /// The provider failed.
    Provider(LlmError),
    /// The caller disconnected.
    Gone,
    /// The server is stopping.
    Stopping,
    /// The task was deleted.
    Deleted,
}

impl ChatTurn {
    pub(super) async fn with<T>(
        &self,
        act: impl FnOnce(&Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.engine.with_bound(&self.binding, act).await
    }

    pub(super) async fn run(mut self, events: mpsc::Sender<Item>) {
        if let Err(error) = self.turn(&events).await {
            let _ = events.send(Err(error)).await;
        }
    }

    async fn turn(&mut self, events: &mpsc::Sender<Item>) -> Result<(), AppError> {
        let fitting = Box::pin(self.engine.fit(self.id, Some(self.options.tools()), self.answer_tokens));
        self.engine.held(self.id, self.caller.lease_generation, fitting).await?;
        let mut started = Some(ChatEvent::Started {
            seqs: self.seqs.clone(),
            provider: self.provider,
            model: self.options.model().to_owned(),
        });
        let (mut received, mut ended) = self.ask(&mut started, events).await?;
        for _ in 0..CHANGES {
            let Err(Interruption::Provider(error)) = &ended else { break };
            if received.bytes() > 0 || !self.adapt(error).await? {
                break;
            }
            (received, ended) = self.ask(&mut started, events).await?;
        }
        let appended = self.record(&received).await;
        match ended {
            Ok(()) => {
                let (outcome, message) = appended?.ok_or_else(|| {
                    AppError::Internal("an answer that is whole and has no message".to_owned())
                })?;
                self.send_end(&received, &outcome, &message, events).await;
                Ok(())
            }
            Err(cut) => {
                // The caller learns why the answer ended; that its record failed is only logged.
                if let Err(error) = appended {
                    tracing::warn!(id = %self.id, error = error.words(), "what a model had received could not be recorded");
                }
                Err(match cut {
                    Interruption::Provider(error) => AppError::Provider(error),
                    Interruption::Stopping => AppError::Stopping,
                    Interruption::Deleted => AppError::deleted(self.id),
                    Interruption::Gone => AppError::CallerGone,
                })
            }
        }
    }

    /// Sends the context once and streams the answer.
    async fn ask(
        &mut self,
        started: &mut Option<ChatEvent>,
        events: &mpsc::Sender<Item>,
    ) -> Result<(AnswerMessage, Result<(), Interruption>), AppError> {
        let request = self.render().await?;
        let mut received = AnswerMessage::new(self.provider);
        let (file, len) = request.contents();
        let payload = Payload { file, len };
        let mut answer = self.engine.gateway.send(LlmRequest { provider: self.provider, payload });
        let ended = self.listen(started.take(), &mut answer, &mut received, events).await;
        // Before anything else, the connection of an incomplete answer is closed and the file removed.
        drop(answer);
        block_in_place(|| drop(request));
        Ok((received, ended))
    }

    /// Writes the request to disk. A request over the task's limit is written once more, without the oldest images
    /// and files.
    async fn render(&mut self) -> Result<RequestFile, AppError> {
        let shed = |store: &Store| send::prepare(store, self.id);
        self.with(shed).await?;
        match self.render_once().await? {
            Ok(file) => return Ok(file),
            Err(StoreError::RequestTooLarge { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.with(|store| send::make_room(store, self.id, &self.options)).await?;
        Ok(self.render_once().await??)
    }

    /// Writes the request to disk, piece by piece.
    async fn render_once(&mut self) -> Result<Result<RequestFile, StoreError>, AppError> {
        let begin = |store: &Store| {
            // Counting first means that a message appended meanwhile counts as appended since, not as sent.
            let tokens = store.context_usage(self.id, Some(self.options.tools()))?.counted_tokens;
            let view = store.view_snapshot(self.id)?;
            let sent = SentView { generation: view.generation, tokens };
            Ok((sent, store.request_file(self.id)?, Rendering::new(self.options.clone(), view.lines())))
        };
        let (sent, mut file, mut rendering) = self.with(begin).await?;
        self.sent = Some(sent);
        let mut piece = Vec::new();
        let mut more = true;
        while more {
            let until = rendering.written() + RENDERED_AT_ONCE;
            let mut some = || -> Result<bool, StoreError> {
                while rendering.written() < until {
                    piece.clear();
                    let more = rendering.next(&mut piece)?;
                    file.write(&piece)?;
                    if !more {
                        return Ok(false);
                    }
                }
                Ok(true)
            };
            more = match self.with(|_| Ok(some())).await? {
                Ok(more) => more,
                Err(error) => {
                    block_in_place(|| drop(file));
                    return Ok(Err(error));
                }
            };
        }
        Ok(Ok(file))
    }

    /// Streams the answer until it is complete.
    async fn listen(
        &self,
        started: Option<ChatEvent>,
        answer: &mut Answer,
        received: &mut AnswerMessage,
        events: &mpsc::Sender<Item>,
    ) -> Result<(), Interruption> {
        let mut renewals = self.renewals();
        if let Some(started) = started {
            self.send(started, events, &mut renewals).await?;
        }
        let limit = self.engine.message_bytes.saturating_sub(AROUND_BYTES);
        loop {
            let event = {
                let mut next = pin!(answer.next());
                loop {
                    tokio::select! {
                        event = &mut next => break event.map_err(Interruption::Provider)?,
                        cut = self.meanwhile(events, &mut renewals) => cut?,
                    }
                }
            };
            let Some(event) = event else { return Ok(()) };
            if received.bytes() + event.bytes() > limit {
                let problem = format!(
                    "the answer is larger than a message may be ({limit} bytes, limits.message_bytes)"
                );
                let (provider, retry_after) = (self.provider, None);
                return Err(Interruption::Provider(LlmError::Failed { provider, problem, retry_after }));
            }
            received.add(&event);
            if let Some(chat_event) = chat_event(event) {
                self.send(chat_event, events, &mut renewals).await?;
            }
        }
    }

    /// Sends an event to the caller once the queue has room.
    async fn send(
        &self,
        event: ChatEvent,
        events: &mpsc::Sender<Item>,
        renewals: &mut Interval,
    ) -> Result<(), Interruption> {
        let place = loop {
            tokio::select! {
                place = events.reserve() => break place.map_err(|_| Interruption::Gone)?,
                cut = self.meanwhile(events, renewals) => cut?,
            }
        };
        place.send(Ok(event));
        Ok(())
    }

    /// Waits for an interruption of the answer; renews the lease meanwhile.
    async fn meanwhile(
        &self,
        events: &mpsc::Sender<Item>,
        renewals: &mut Interval,
    ) -> Result<(), Interruption> {
        tokio::select! {
            () = events.closed() => return Err(Interruption::Gone),
            () = self.engine.chats.cut() => return Err(Interruption::Stopping),
            () = self.binding.deleted() => return Err(Interruption::Deleted),
            _ = renewals.tick() => {}
        }
        let generation = self.caller.lease_generation;
        if generation > 0
            && let Err(error) = self.with(|store| store.renew_lease(self.id, generation)).await
        {
            // Recording the answer will report the same.
            tracing::debug!(id = %self.id, %error, "a lease could not be renewed");
        }
        Ok(())
    }

    fn renewals(&self) -> Interval {
        let mut renewals = interval((self.engine.lease_ttl() / 3).max(Duration::from_millis(10)));
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        renewals
    }

    /// Appends the answer, complete or not, and its usage. Returns `None` for an empty answer.
    async fn record(
        &self,
        received: &AnswerMessage,
    ) -> Result<Option<(AppendOutcome, NewMessage)>, AppError> {
        let Some(message) = received.message()? else {
            self.record_usage(received.usage()).await;
            return Ok(None);
        };
        let began = Instant::now();
        let whole = received.finish_reason().is_some();
        // Only a complete answer is returned to a repeated call; an interrupted one leaves the view then.
        let name = |id| if whole { RequestId::part(id, ANSWER) } else { piece_of(id) };
        let named = self.caller.request_id.as_ref().map(name);
        let append = Append { message, caller: self.part(named) };
        let outcome = self.write(|store| store.append(self.id, &append)).await?;
        metrics::message_appended(&outcome.source, Role::Assistant.as_str());
        metrics::append_took(began.elapsed());
        self.engine.keep_small(self.id, &outcome.pressure);
        match received.usage() {
            Some(usage) => self.record_usage(Some(usage)).await,
            None => self.record_call().await,
        }
        Ok(Some((outcome, append.message)))
    }

    async fn record_usage(&self, usage: Option<Usage>) {
        let Some(Usage { input, output, cache_creation, cache_read }) = usage else { return };
        let kinds = [
            ("input", input),
            ("output", output),
            ("cache_creation", cache_creation),
            ("cache_read", cache_read),
        ];
        for (kind, tokens) in kinds {
            metrics::llm_tokens(self.provider.as_str(), kind, tokens);
        }
        // If the view was rewritten meanwhile, the usage no longer describes it and counts as a statistic only.
        let generation = self.with(|store| Ok(store.view_snapshot(self.id)?.generation)).await.ok();
        let sent = self.sent.as_ref().filter(|sent| Some(sent.generation) == generation);
        let event = match sent.map(|sent| sent.tokens) {
            Some(tokens) => LogEvent::Usage {
                input_tokens: input,
                output_tokens: output,
                cache_creation_tokens: cache_creation,
                cache_read_tokens: cache_read,
                counted_tokens: Some(tokens),
                tools_tokens: self.tools_tokens().await,
            },
            None => LogEvent::Statistics {
                llm_calls: 1,
                tool_calls: 0,
                tokens: [input, output, cache_creation, cache_read].into_iter().fold(0, u64::saturating_add),
                compressions: 0,
            },
        };
        self.record_event(&event).await;
    }

    /// Returns the counted tokens of the tools, which are part of the provider's usage.
    async fn tools_tokens(&self) -> u64 {
        let tools = self.options.tools();
        if items(tools.as_str()).is_empty() {
            return 0;
        }
        let usage = self.with(|store| store.context_usage(self.id, Some(tools))).await;
        usage.map_or(0, |usage| usage.tools_tokens)
    }

    /// A provider that reports no usage was called all the same.
    async fn record_call(&self) {
        self.record_event(&LogEvent::Statistics { llm_calls: 1, tool_calls: 0, tokens: 0, compressions: 0 })
            .await;
    }

    async fn record_event(&self, event: &LogEvent) {
        let caller = self.part(None);
        if let Err(error) = self.write(|store| store.append_event(self.id, event, &caller)).await {
            // The answer is recorded; losing its usage is no reason to fail.
            tracing::warn!(id = %self.id, error = error.words(), "what a model cost could not be recorded");
        }
    }

    /// Returns the caller of a write within this call, with a request id of its own, so that the write can be
    /// retried.
    fn part(&self, request_id: Option<RequestId>) -> Caller {
        let new = || RequestId::parse(&Uuid::new_v4().to_string()).ok();
        Caller { request_id: request_id.or_else(new), lease_generation: self.caller.lease_generation }
    }

    /// Writes, with retries: an answer cannot be requested twice.
    async fn write<T>(&self, act: impl Fn(&Store) -> Result<T, StoreError>) -> Result<T, AppError> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.with(|store| Ok(act(store))).await? {
                Err(error) if error.is_retryable() && tries < WRITES => {
                    sleep(Duration::from_millis(100) * tries).await;
                }
                done => return done.map_err(AppError::from),
            }
        }
    }

    /// Sends the usage and the final answer. The answer is durable, whether or not the caller still listens.
    async fn send_end(
        &self,
        received: &AnswerMessage,
        outcome: &AppendOutcome,
        message: &NewMessage,
        events: &mpsc::Sender<Item>,
    ) {
        let done = ChatEvent::Done(FinalAnswer {
            seq: outcome.seq,
            message_json: message_of(message),
            finish_reason: received.finish_reason().unwrap_or_default().to_owned(),
            pressure: outcome.pressure,
            duplicate: false,
        });
        for event in received.usage().map(ChatEvent::Usage).into_iter().chain([done]) {
            let _ = events.send(Ok(event)).await;
        }
    }
}

/// Returns the chat event for an event of the answer, if the caller sees it.
fn chat_event(event: AnswerEvent) -> Option<ChatEvent> {
    match event {
        // A refusal is an answer too.
        AnswerEvent::Text(text) | AnswerEvent::Refusal(text) => Some(ChatEvent::Text(text)),
        AnswerEvent::Reasoning(text) => Some(ChatEvent::Reasoning(text)),
        AnswerEvent::ToolCall(piece) => Some(ChatEvent::ToolCall(piece)),
        AnswerEvent::Usage(_) | AnswerEvent::Opaque(_) | AnswerEvent::Finish(_) => None,
    }
}
