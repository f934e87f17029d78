//! Chat: validates and appends the messages, then asks the model in a task of its own ([`turn`]).
//!
//! That task outlives a caller that disconnects, so the answer is recorded. The caller only holds the receiving end
//! of a short queue.

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
use turn::ChatTurn;

/// Events that wait for the caller.
const QUEUE: usize = 16;
/// Time that interrupted chats have to record what arrived.
const RECORDING: Duration = Duration::from_secs(10);
/// Suffix of the request id of an answer.
const ANSWER: &str = "answer";
/// Suffix, before a number, of the request id of an interrupted answer.
const PIECE: &str = "piece-";

/// A chat request: messages to append, and how to ask the model.
#[derive(Debug)]
pub struct ChatCall {
    /// The task.
    pub id: TaskId,
    /// The caller.
    pub caller: Caller,
    /// The provider; `None` for that of the task or the server.
    pub provider: Option<Provider>,
    /// The model; empty for that of the task or the provider.
    pub model: String,
    /// Request parameters, as JSON.
    pub params_json: String,
    /// Tools that the model can call, as JSON.
    pub tools_json: String,
    /// The messages to append before the model is asked.
    pub appends: Vec<Append>,
}

/// An event of a chat.
#[derive(Debug)]
pub enum ChatEvent {
    /// The messages are durable and the model is being asked.
    Started {
        /// The sequence numbers of the messages.
        seqs: Vec<u64>,
        /// The provider.
        provider: Provider,
        /// The model.
        model: String,
    },
    /// A piece of the answer.
    Text(String),
    /// A piece of reasoning.
    Reasoning(String),
    /// A piece of a tool call.
    ToolCall(ToolCallDelta),
    /// The usage that the provider reports.
    Usage(Usage),
    /// The answer is complete and durable.
    Done(FinalAnswer),
}

/// A complete and durable answer.
#[derive(Debug)]
pub struct FinalAnswer {
    /// Its sequence number.
    pub seq: u64,
    /// The message in OpenAI's format.
    pub message_json: String,
    /// The reason why the model stopped.
    pub finish_reason: String,
    /// The pressure of the context after the answer.
    pub pressure: Pressure,
    /// True if an earlier call with the same request id produced the answer.
    pub duplicate: bool,
}

/// An event of a chat, or the error that ends it.
pub type Item = Result<ChatEvent, AppError>;
type Key = (TaskId, RequestId);

/// The running chats.
#[derive(Debug)]
pub struct Chats {
    /// A repeated call waits here for the first one.
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
    /// Interrupts all chats and waits until they have recorded what arrived. Returns false if there were none.
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

    /// Waits until chats are interrupted.
    async fn cut(&self) {
        let mut cut = self.cut.subscribe();
        // A dropped sender means the same.
        let _ = cut.wait_for(|cut| *cut).await;
    }

    /// Counts a chat until the guard is dropped.
    fn begin(engine: &Arc<Engine>) -> RunningChat {
        engine.chats.going.send_modify(|going| *going += 1);
        RunningChat(Arc::clone(engine))
    }

    /// Waits until no other call with the same request id is running.
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

/// Guard of a running chat.
struct RunningChat(Arc<Engine>);

impl Drop for RunningChat {
    fn drop(&mut self) {
        self.0.chats.going.send_modify(|going| *going -= 1);
    }
}

/// Starts a chat. Every error that can be found before the provider is asked is returned here.
pub async fn begin(engine: &Arc<Engine>, question: ChatCall) -> Result<mpsc::Receiver<Item>, AppError> {
    let ChatCall { id, caller, provider: named, model, params_json, tools_json, appends } = question;
    // A message that no provider accepts is refused first, whichever provider is asked.
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
            // The queue has room for both.
            let _ = events.try_send(Ok(event));
        }
    } else {
        let seqs = append_all(engine, (id, &binding), &appends, &caller).await?;
        drop_pieces(engine, (id, &binding), &seqs, &caller).await?;
        let engine = Arc::clone(engine);
        let going = Chats::begin(&engine);
        let provider = asked;
        let turn =
            ChatTurn { engine, id, binding, caller, provider, options, answer_tokens, seqs, sent: None };
        tokio::spawn(async move {
            turn.run(events).await;
            drop((going, guard));
        });
    }
    Ok(waiting)
}

/// Parses the name of a provider.
pub fn provider(field: &'static str, word: &str) -> Result<Provider, InvalidField> {
    Provider::parse(word).ok_or_else(|| {
        let words = Provider::ALL.map(Provider::as_str).join(", ");
        InvalidField::new(field, format!("is {word:?}; allowed are {words}"))
    })
}

/// Returns the task's limit of a request. The server's limit applies to images and files, which are left out before
/// it is exceeded.
fn max_request_bytes(config: &TaskConfig) -> u64 {
    Settings::of(config).compression.max_request_bytes.unwrap_or(0)
}

/// Appends the new messages and returns their sequence numbers once they are durable.
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

/// Returns the request id for the record of an interrupted answer.
fn piece_of(request_id: &RequestId) -> RequestId {
    request_id.part(&format!("{PIECE}{}", Uuid::new_v4()))
}

/// Removes the interrupted answers of earlier tries from the view, because the model is asked for the whole answer
/// again.
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
            // Another rewrite is running, or has just ended.
            Err(StoreError::RewriteInFlight { .. } | StoreError::StaleView { .. })
                if Instant::now() < until =>
            {
                sleep(Duration::from_millis(20)).await;
            }
            done => return Ok(done.map(drop)?),
        }
    }
}

/// Returns the recorded answer of an earlier call with the same request id.
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
            // The content is compared, unless it is no longer known.
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

/// Returns an assistant message in OpenAI's format.
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

/// Returns a new assistant message in OpenAI's format.
fn message_of(message: &NewMessage) -> String {
    let text = |value: &Option<Json>| value.as_ref().map(|json| json.as_str().to_owned());
    let (content, calls, extra) = (text(&message.content), text(&message.tool_calls), text(&message.extra));
    message_json(content.as_deref(), calls.as_deref(), extra.as_deref())
}
