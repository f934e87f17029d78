//! One turn of a model: the request is made and sent, the answer told as it arrives, and recorded however it ends.

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

/// Bytes that are rendered before others get the thread.
const RENDERED_AT_ONCE: u64 = 4 << 20;
/// What a message takes in the log beside what was said.
const AROUND_BYTES: usize = 8 << 10;
/// How often a request is changed that the model does not take.
const CHANGES: u32 = 2;
/// How often a write that failed is tried again.
const WRITES: u32 = 3;

/// A turn that is about to begin: the new messages are durable.
pub(super) struct Turn {
    pub(super) engine: Arc<Engine>,
    pub(super) id: TaskId,
    /// The task that was asked about: its answer is no other's.
    pub(super) binding: Binding,
    pub(super) caller: Caller,
    pub(super) provider: Provider,
    pub(super) options: RenderOptions,
    /// Tokens that the answer may have; 0: nobody says.
    pub(super) answer_tokens: u64,
    pub(super) seqs: Vec<u64>,
    /// What was sent last.
    pub(super) sent: Option<Sent>,
}

/// The view that a request was made of: its generation, and its tokens as counted.
pub(super) struct Sent {
    generation: u64,
    tokens: u64,
}

/// Why an answer is not whole.
enum Cut {
    /// The provider failed.
    Provider(LlmError),
    /// Nobody listens any more.
    Gone,
    /// The server stops.
    Stopping,
    /// The task was deleted.
    Deleted,
}

impl Turn {
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
        let (mut said, mut ended) = self.ask(&mut started, events).await?;
        for _ in 0..CHANGES {
            let Err(Cut::Provider(error)) = &ended else { break };
            if said.bytes() > 0 || !self.adapt(error).await? {
                break;
            }
            (said, ended) = self.ask(&mut started, events).await?;
        }
        let appended = self.record(&said).await;
        match ended {
            Ok(()) => {
                let (outcome, message) = appended?.ok_or_else(|| {
                    AppError::Internal("an answer that is whole and has no message".to_owned())
                })?;
                self.tell_end(&said, &outcome, &message, events).await;
                Ok(())
            }
            Err(cut) => {
                // Why it ended is worth more than that the rest could not be recorded either.
                if let Err(error) = appended {
                    tracing::warn!(id = %self.id, error = error.words(), "what a model had said could not be recorded");
                }
                Err(match cut {
                    Cut::Provider(error) => AppError::Provider(error),
                    Cut::Stopping => AppError::Stopping,
                    Cut::Deleted => AppError::deleted(self.id),
                    Cut::Gone => AppError::CallerGone,
                })
            }
        }
    }

    /// Sends the context once, and tells the answer.
    async fn ask(
        &mut self,
        started: &mut Option<ChatEvent>,
        events: &mpsc::Sender<Item>,
    ) -> Result<(AnswerMessage, Result<(), Cut>), AppError> {
        let request = self.render().await?;
        let mut said = AnswerMessage::new(self.provider);
        let (file, len) = request.contents();
        let payload = Payload { file, len };
        let mut answer = self.engine.gateway.send(LlmRequest { provider: self.provider, payload });
        let ended = self.listen(started.take(), &mut answer, &mut said, events).await;
        // The connection of an answer that is not whole is closed, and the file is gone, before anything else happens.
        drop(answer);
        block_in_place(|| drop(request));
        Ok((said, ended))
    }

    /// Makes the request on disk. One that is larger than the task allows is made once more, without the oldest images
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

    /// Makes the request on disk, piece by piece.
    async fn render_once(&mut self) -> Result<Result<RequestFile, StoreError>, AppError> {
        let begin = |store: &Store| {
            // Counted first: what is appended in between counts as appended since, not as sent.
            let tokens = store.context_usage(self.id, Some(self.options.tools()))?.counted_tokens;
            let view = store.view_snapshot(self.id)?;
            let sent = Sent { generation: view.generation, tokens };
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

    /// Tells the answer as it arrives, until it is whole.
    async fn listen(
        &self,
        started: Option<ChatEvent>,
        answer: &mut Answer,
        said: &mut AnswerMessage,
        events: &mpsc::Sender<Item>,
    ) -> Result<(), Cut> {
        let mut renewals = self.renewals();
        if let Some(started) = started {
            self.tell(started, events, &mut renewals).await?;
        }
        let limit = self.engine.message_bytes.saturating_sub(AROUND_BYTES);
        loop {
            let event = {
                let mut next = pin!(answer.next());
                loop {
                    tokio::select! {
                        event = &mut next => break event.map_err(Cut::Provider)?,
                        cut = self.meanwhile(events, &mut renewals) => cut?,
                    }
                }
            };
            let Some(event) = event else { return Ok(()) };
            if said.bytes() + event.bytes() > limit {
                let problem = format!(
                    "the answer is larger than a message may be ({limit} bytes, limits.message_bytes)"
                );
                let (provider, retry_after) = (self.provider, None);
                return Err(Cut::Provider(LlmError::Failed { provider, problem, retry_after }));
            }
            said.take(&event);
            if let Some(told) = chat_event(event) {
                self.tell(told, events, &mut renewals).await?;
            }
        }
    }

    /// Hands a piece on when there is room for it.
    async fn tell(
        &self,
        event: ChatEvent,
        events: &mpsc::Sender<Item>,
        renewals: &mut Interval,
    ) -> Result<(), Cut> {
        let place = loop {
            tokio::select! {
                place = events.reserve() => break place.map_err(|_| Cut::Gone)?,
                cut = self.meanwhile(events, renewals) => cut?,
            }
        };
        place.send(Ok(event));
        Ok(())
    }

    /// Whatever else may happen while a model answers: the answer is cut off, or the lease has to be renewed.
    async fn meanwhile(&self, events: &mpsc::Sender<Item>, renewals: &mut Interval) -> Result<(), Cut> {
        tokio::select! {
            () = events.closed() => return Err(Cut::Gone),
            () = self.engine.chats.cut() => return Err(Cut::Stopping),
            () = self.binding.deleted() => return Err(Cut::Deleted),
            _ = renewals.tick() => {}
        }
        let generation = self.caller.lease_generation;
        if generation > 0
            && let Err(error) = self.with(|store| store.renew_lease(self.id, generation)).await
        {
            // Recording the answer will say the same.
            tracing::debug!(id = %self.id, %error, "a lease could not be renewed");
        }
        Ok(())
    }

    fn renewals(&self) -> Interval {
        let mut renewals = interval((self.engine.lease_ttl() / 3).max(Duration::from_millis(10)));
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        renewals
    }

    /// Appends what was said, whole or not, and what it cost; none if nothing was.
    async fn record(&self, said: &AnswerMessage) -> Result<Option<(AppendOutcome, NewMessage)>, AppError> {
        let Some(message) = said.message()? else {
            self.record_usage(said.usage()).await;
            return Ok(None);
        };
        let began = Instant::now();
        let whole = said.finish_reason().is_some();
        // Only an answer that is whole is told again to a call that is repeated; a piece leaves the view then.
        let name = |id| if whole { RequestId::part(id, ANSWER) } else { piece_of(id) };
        let named = self.caller.request_id.as_ref().map(name);
        let append = Append { message, caller: self.part(named) };
        let outcome = self.write(|store| store.append(self.id, &append)).await?;
        metrics::message_appended(&outcome.source, Role::Assistant.as_str());
        metrics::append_took(began.elapsed());
        self.engine.keep_small(self.id, &outcome.pressure);
        match said.usage() {
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
        // What was sent is another view than there is now, if that was rewritten meanwhile: then it only cost something.
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

    /// What is counted of the tools that were sent: they are in what the provider charged.
    async fn tools_tokens(&self) -> u64 {
        let tools = self.options.tools();
        if items(tools.as_str()).is_empty() {
            return 0;
        }
        let usage = self.with(|store| store.context_usage(self.id, Some(tools))).await;
        usage.map_or(0, |usage| usage.tools_tokens)
    }

    /// A provider that does not say what it charged was called all the same.
    async fn record_call(&self) {
        self.record_event(&LogEvent::Statistics { llm_calls: 1, tool_calls: 0, tokens: 0, compressions: 0 })
            .await;
    }

    async fn record_event(&self, event: &LogEvent) {
        let caller = self.part(None);
        if let Err(error) = self.write(|store| store.append_event(self.id, event, &caller)).await {
            // The answer is there; what it cost is not worth losing it.
            tracing::warn!(id = %self.id, error = error.words(), "what a model cost could not be recorded");
        }
    }

    /// One of the calls that this one is made of. It has an id, so that it can be tried again.
    fn part(&self, request_id: Option<RequestId>) -> Caller {
        let new = || RequestId::parse(&Uuid::new_v4().to_string()).ok();
        Caller { request_id: request_id.or_else(new), lease_generation: self.caller.lease_generation }
    }

    /// Writes, and tries again if that may help: an answer cannot be asked for twice.
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

    /// Tells what it cost, and that the answer is durable. It is, whether or not somebody listens.
    async fn tell_end(
        &self,
        said: &AnswerMessage,
        outcome: &AppendOutcome,
        message: &NewMessage,
        events: &mpsc::Sender<Item>,
    ) {
        let done = ChatEvent::Done(FinalAnswer {
            seq: outcome.seq,
            message_json: message_of(message),
            finish_reason: said.finish_reason().unwrap_or_default().to_owned(),
            pressure: outcome.pressure,
            duplicate: false,
        });
        for event in said.usage().map(ChatEvent::Usage).into_iter().chain([done]) {
            let _ = events.send(Ok(event)).await;
        }
    }
}

/// Returns the event for a piece of an answer, if the caller sees it.
fn chat_event(event: AnswerEvent) -> Option<ChatEvent> {
    match event {
        // Why a model does not answer is an answer too.
        AnswerEvent::Text(text) | AnswerEvent::Refusal(text) => Some(ChatEvent::Text(text)),
        AnswerEvent::Reasoning(text) => Some(ChatEvent::Reasoning(text)),
        AnswerEvent::ToolCall(piece) => Some(ChatEvent::ToolCall(piece)),
        AnswerEvent::Usage(_) | AnswerEvent::Opaque(_) | AnswerEvent::Finish(_) => None,
    }
}
