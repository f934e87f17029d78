//! Chat: what is asked for is checked and appended, then a task of its own asks the model ([`turn`]).
//!
//! That task outlives a caller that goes away, so that what had arrived is recorded; the caller has only the receiving
//! end of a short queue.

mod adapt;
mod turn;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as Turnstile, OwnedMutexGuard, mpsc, watch};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::Engine;
use crate::context::{Pressure, Settings};
use crate::error::AppError;
use crate::llm::{ToolCallDelta, Usage, answer_tokens};
use crate::model::json::field;
use crate::model::{InvalidField, Json, NewMessage, Provider, RequestId, StoreError, TaskConfig, TaskId};
use crate::render::RenderOptions;
use crate::store::{Append, Binding, Caller, Store};
use turn::Turn;

/// Pieces of an answer that wait for the caller.
const QUEUE: usize = 16;
/// How long chats that are cut off have to record what had arrived.
const RECORDING: Duration = Duration::from_secs(10);
/// What the id of the answer ends with.
const ANSWER: &str = "answer";
/// What the id of a piece of an answer that was interrupted ends with, before a number.
const PIECE: &str = "piece-";

/// A question to a model: messages to append, and how to ask.
#[derive(Debug)]
pub struct Question {
    /// The task.
    pub id: TaskId,
    /// The caller.
    pub caller: Caller,
    /// The provider; none: the task's, or the server's.
    pub provider: Option<Provider>,
    /// The model; empty: the task's, or the provider's.
    pub model: String,
    /// Parameters of the request, as JSON.
    pub params_json: String,
    /// Tools that the model may call, as JSON.
    pub tools_json: String,
    /// The messages that are appended first.
    pub appends: Vec<Append>,
}

/// An event of a chat.
#[derive(Debug)]
pub enum ChatEvent {
    /// The messages are durable and the model was asked.
    Started {
        /// The numbers of the messages.
        seqs: Vec<u64>,
        /// The provider.
        provider: Provider,
        /// The model.
        model: String,
    },
    /// A piece of the answer.
    Text(String),
    /// A piece of what the model thinks.
    Reasoning(String),
    /// A piece of a tool call.
    ToolCall(ToolCallDelta),
    /// The tokens that the provider charged.
    Usage(Usage),
    /// The answer is whole and durable.
    Done(FinalAnswer),
}

/// An answer that is whole and durable.
#[derive(Debug)]
pub struct FinalAnswer {
    /// Its number.
    pub seq: u64,
    /// The message in OpenAI's form.
    pub message_json: String,
    /// Why the model stopped.
    pub finish_reason: String,
    /// How full the context is now.
    pub pressure: Pressure,
    /// Whether an earlier call with the same id was answered with it.
    pub duplicate: bool,
}

/// An event of a chat, or why there are no more.
pub type Item = Result<ChatEvent, AppError>;
type Key = (TaskId, RequestId);

/// Chats that are going on.
#[derive(Debug)]
pub struct Chats {
    /// So that a call that is repeated too early waits for the first.
    turnstiles: Mutex<HashMap<Key, Weak<Turnstile<()>>>>,
    cut: watch::Sender<bool>,
    going: watch::Sender<usize>,
}

impl Default for Chats {
    fn default() -> Self {
        Self { turnstiles: Mutex::default(), cut: watch::Sender::new(false), going: watch::Sender::new(0) }
    }
}

impl Chats {
    /// Cuts all chats off, and returns when they have recorded what had arrived; false if there was none.
    pub async fn end_all(&self) -> bool {
        self.cut.send_replace(true);
        let mut going = self.going.subscribe();
        if *going.borrow() == 0 {
            return false;
        }
        if timeout(RECORDING, going.wait_for(|going| *going == 0)).await.is_err() {
            tracing::error!("some chats did not record in time what had arrived");
        }
        true
    }

    /// Returns when chats are cut off.
    async fn cut(&self) {
        let mut cut = self.cut.subscribe();
        // A sender that is gone means the same.
        let _ = cut.wait_for(|cut| *cut).await;
    }

    /// Counts a chat for as long as this lives.
    fn begin(engine: &Arc<Engine>) -> Going {
        engine.chats.going.send_modify(|going| *going += 1);
        Going(Arc::clone(engine))
    }

    /// Waits until no other call with the same id is going on.
    async fn pass(&self, key: Key) -> OwnedMutexGuard<()> {
        let turnstile = {
            let mut all = self.turnstiles.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, turnstile| turnstile.strong_count() > 0);
            all.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
                let new = Arc::new(Turnstile::new(()));
                all.insert(key, Arc::downgrade(&new));
                new
            })
        };
        turnstile.lock_owned().await
    }
}

/// A chat that is going on.
struct Going(Arc<Engine>);

impl Drop for Going {
    fn drop(&mut self) {
        self.0.chats.going.send_modify(|going| *going -= 1);
    }
}

/// Begins a chat: everything that can be refused before a provider is asked is refused here.
pub async fn begin(engine: &Arc<Engine>, question: Question) -> Result<mpsc::Receiver<Item>, AppError> {
    let Question { id, caller, provider: named, model, params_json, tools_json, appends } = question;
    // Texts that no provider would take are refused before it matters who is asked.
    RenderOptions::new(Provider::OpenAi, "-", &params_json, &tools_json, 0)?;
    let binding = engine.with(|store| store.bind(id)).await?;
    let config = engine.with_bound(&binding, |store| Ok(store.view_snapshot(id)?.config)).await?;
    let asked = match named {
        Some(named) => named,
        None if config.llm_provider.is_empty() => {
            engine.gateway.default_provider().ok_or(AppError::NoProvider)?
        }
        None => provider("config.llm_provider", &config.llm_provider)?,
    };
    let model = [model.as_str(), config.model.as_str()].into_iter().find(|model| !model.is_empty());
    let model = model.or(engine.gateway.default_model(asked));
    engine.gateway.check(asked, model).map_err(AppError::Provider)?;
    let model = model.unwrap_or_default();
    let note = |store: &Store| Ok(store.note_asked(id, asked, model)?.limit);
    let window = engine.with_bound(&binding, note).await?;
    let params = engine.gateway.params(asked, model, &params_json, window)?;
    let max_bytes = max_request_bytes(&config);
    let options = RenderOptions::new(asked, model, &params, &tools_json, max_bytes)?;
    let answer_tokens = answer_tokens(&params);

    let guard = match &caller.request_id {
        Some(request_id) => Some(engine.chats.pass((id, request_id.clone())).await),
        None => None,
    };
    let (events, waiting) = mpsc::channel(QUEUE);
    if let Some((seqs, answer)) = earlier_answer(engine, (id, &binding), &appends, &caller).await? {
        let model = options.model().to_owned();
        for event in [ChatEvent::Started { seqs, provider: asked, model }, ChatEvent::Done(answer)] {
            // There is room for both.
            let _ = events.try_send(Ok(event));
        }
    } else {
        let seqs = append_all(engine, (id, &binding), &appends, &caller).await?;
        drop_pieces(engine, (id, &binding), &seqs, &caller).await?;
        let engine = Arc::clone(engine);
        let going = Chats::begin(&engine);
        let provider = asked;
        let turn = Turn { engine, id, binding, caller, provider, options, answer_tokens, seqs, sent: None };
        tokio::spawn(async move {
            turn.run(events).await;
            drop((going, guard));
        });
    }
    Ok(waiting)
}

/// Returns the provider that a word names.
pub fn provider(field: &'static str, word: &str) -> Result<Provider, InvalidField> {
    Provider::parse(word).ok_or_else(|| {
        let words = Provider::ALL.map(Provider::as_str).join(", ");
        InvalidField::new(field, format!("is {word:?}; allowed are {words}"))
    })
}

/// What the task allows; the server's own limit is for images and files, which are left out before it is passed.
fn max_request_bytes(config: &TaskConfig) -> u64 {
    Settings::of(config).compression.max_request_bytes.unwrap_or(0)
}

/// Appends the new messages; answers their numbers when they are durable.
async fn append_all(
    engine: &Engine,
    (id, binding): (TaskId, &Binding),
    appends: &[Append],
    caller: &Caller,
) -> Result<Vec<u64>, AppError> {
    let begin = |store: &Store| store.begin_append_all(id, appends, caller);
    let pending = engine.with_bound(binding, begin).await?;
    let mut seqs = Vec::with_capacity(pending.len());
    for (pending, append) in pending.into_iter().zip(appends) {
        let outcome = pending.durable().await?;
        if !outcome.duplicate {
            crate::infra::metrics::message_appended(&outcome.source, append.message.role.as_str());
        }
        seqs.push(outcome.seq);
    }
    Ok(seqs)
}

/// Returns the id of a piece of an answer that was interrupted.
fn piece_of(request_id: &RequestId) -> RequestId {
    request_id.part(&format!("{PIECE}{}", Uuid::new_v4()))
}

/// Takes what earlier tries of a call brought of the answer out of the view: the model is asked for all of it again.
async fn drop_pieces(
    engine: &Engine,
    (id, binding): (TaskId, &Binding),
    seqs: &[u64],
    caller: &Caller,
) -> Result<(), AppError> {
    let Some(request_id) = &caller.request_id else { return Ok(()) };
    let name = piece_of(request_id).to_string();
    let prefix = &name[..name.len() - Uuid::nil().to_string().len()];
    let until = Instant::now() + RECORDING;
    loop {
        let after = seqs.last().copied();
        let drop_them = |store: &Store| Ok(store.drop_pieces(id, prefix, after, caller));
        match engine.with_bound(binding, drop_them).await? {
            // Another rewrite goes on, or has just ended.
            Err(StoreError::RewriteInFlight { .. } | StoreError::StaleView { .. })
                if Instant::now() < until =>
            {
                sleep(Duration::from_millis(20)).await;
            }
            done => return Ok(done.map(drop)?),
        }
    }
}

/// The answer in the log, if a call with the same id was answered before.
async fn earlier_answer(
    engine: &Engine,
    (id, binding): (TaskId, &Binding),
    appends: &[Append],
    caller: &Caller,
) -> Result<Option<(Vec<u64>, FinalAnswer)>, AppError> {
    let Some(request_id) = &caller.request_id else { return Ok(None) };
    let answered = request_id.part(ANSWER);
    let find = |store: &Store| -> Result<Option<(Vec<u64>, FinalAnswer)>, StoreError> {
        let Some(seq) = store.remembered(id, &answered)? else { return Ok(None) };
        let line = store.message(id, seq)?;
        let ours = field(&line, "request_id") == Some(Json::text(answered.as_str()).as_str());
        if !ours || field(&line, "role") != Some("\"assistant\"") {
            return Err(StoreError::RequestIdReused { request_id: request_id.to_string() });
        }
        let mut seqs = Vec::with_capacity(appends.len());
        for append in appends {
            let known = append.caller.request_id.as_ref().map(|part| store.remembered(id, part));
            // What it had to say is compared; what is forgotten cannot be.
            if known.transpose()?.flatten().is_some() {
                seqs.push(store.append(id, append)?.seq);
            }
        }
        let extra = field(&line, "extra").unwrap_or("{}");
        let word: Option<String> =
            field(extra, "finish_reason").and_then(|reason| serde_json::from_str(reason).ok());
        let answer = FinalAnswer {
            seq,
            message_json: message_json(field(&line, "content"), field(&line, "tool_calls"), Some(extra)),
            finish_reason: word.unwrap_or_default(),
            pressure: store.pressure(id)?,
            duplicate: true,
        };
        Ok(Some((seqs, answer)))
    };
    Ok(engine.with_bound(binding, find).await?)
}

/// An assistant message as OpenAI has it.
fn message_json(content: Option<&str>, tool_calls: Option<&str>, extra: Option<&str>) -> String {
    let mut json = format!("{{\"role\":\"assistant\",\"content\":{}", content.unwrap_or("null"));
    if let Some(calls) = tool_calls {
        json.push_str(",\"tool_calls\":");
        json.push_str(calls);
    }
    if let Some(refusal) = extra.and_then(|extra| field(extra, "refusal")) {
        json.push_str(",\"refusal\":");
        json.push_str(refusal);
    }
    json.push('}');
    json
}

/// The same of one that is being appended.
fn message_of(message: &NewMessage) -> String {
    let text = |value: &Option<Json>| value.as_ref().map(|json| json.as_str().to_owned());
    let (content, calls, extra) = (text(&message.content), text(&message.tool_calls), text(&message.extra));
    message_json(content.as_deref(), calls.as_deref(), extra.as_deref())
}
