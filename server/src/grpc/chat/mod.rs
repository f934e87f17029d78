//! Chat: what is asked for is checked and appended, then a task of its own asks the model ([`turn`]).
//!
//! That task outlives a caller that goes away, so that what had arrived is recorded; the caller has only the receiving
//! end of a short queue.

mod adapt;
mod turn;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use contextstore_proto::v1 as pb;
use futures_util::Stream;
use futures_util::stream::unfold;
use prost::Message as _;
use tokio::sync::{Mutex as Turnstile, OwnedMutexGuard, mpsc, watch};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::serving::Serving;
use super::status::Refusal;
use super::{answer, append, convert};
use crate::context::Settings;
use crate::llm::answer_tokens;
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

type Item = Result<pb::ChatResponse, Refusal>;
type Key = (TaskId, RequestId);

/// Chats that are going on.
pub(crate) struct Chats {
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
    pub(crate) async fn end_all(&self) -> bool {
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
    fn begin(serving: &Arc<Serving>) -> Going {
        serving.chats.going.send_modify(|going| *going += 1);
        Going(Arc::clone(serving))
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
struct Going(Arc<Serving>);

impl Drop for Going {
    fn drop(&mut self) {
        self.0.chats.going.send_modify(|going| *going -= 1);
    }
}

/// Begins a chat: everything that can be refused before a provider is asked is refused here.
pub(super) async fn begin(
    serving: &Arc<Serving>,
    mut request: pb::ChatRequest,
) -> Result<impl Stream<Item = Item> + Send + use<>, Refusal> {
    let id = TaskId::parse(&request.task_uuid)?;
    let caller = convert::caller(&request.request_id, request.lease_generation)?;
    let named = match request.provider.as_str() {
        "" => None,
        word => Some(provider("provider", word)?),
    };
    let (size, limit) = (request.encoded_len(), serving.limits.message_bytes);
    if request.messages.len() > 1 && size > limit {
        let (size, limit) = (size as u64, limit as u64);
        return Err(Refusal::TooLarge { size, limit });
    }
    let messages = std::mem::take(&mut request.messages);
    let appends = append::whole(size > append::INLINE_BYTES, || convert::chat_messages(messages, &caller))?;
    // Texts that no provider would take are refused before it matters who is asked.
    RenderOptions::new(Provider::OpenAi, "-", &request.params_json, &request.tools_json, 0)?;
    let binding = serving.with(|store| store.bind(id)).await?;
    let config = serving.with_bound(&binding, |store| Ok(store.view_snapshot(id)?.config)).await?;
    let asked = match named {
        Some(named) => named,
        None if config.llm_provider.is_empty() => {
            serving.gateway.default_provider().ok_or(Refusal::NoProvider)?
        }
        None => provider("config.llm_provider", &config.llm_provider)?,
    };
    let model = [request.model.as_str(), config.model.as_str()].into_iter().find(|model| !model.is_empty());
    let model = model.or(serving.gateway.default_model(asked));
    serving.gateway.check(asked, model).map_err(Refusal::Provider)?;
    let model = model.unwrap_or_default();
    let note = |store: &Store| Ok(store.note_asked(id, asked, model)?.limit);
    let window = serving.with_bound(&binding, note).await?;
    let params = serving.gateway.params(asked, model, &request.params_json, window)?;
    let max_bytes = max_request_bytes(&config);
    let options = RenderOptions::new(asked, model, &params, &request.tools_json, max_bytes)?;
    let answer_tokens = answer_tokens(&params);

    let guard = match &caller.request_id {
        Some(request_id) => Some(serving.chats.pass((id, request_id.clone())).await),
        None => None,
    };
    let (events, waiting) = mpsc::channel(QUEUE);
    if let Some(told) = told_before(serving, (id, &binding), &appends, &caller).await? {
        let model = options.model().to_owned();
        for event in told.events(asked, model) {
            // There is room for both.
            let _ = events.try_send(Ok(event));
        }
    } else {
        let seqs = append_all(serving, (id, &binding), &appends, &caller).await?;
        drop_pieces(serving, (id, &binding), &seqs, &caller).await?;
        let serving = Arc::clone(serving);
        let going = Chats::begin(&serving);
        let provider = asked;
        let turn = Turn { serving, id, binding, caller, provider, options, answer_tokens, seqs, sent: None };
        tokio::spawn(async move {
            turn.run(events).await;
            drop((going, guard));
        });
    }
    Ok(unfold(waiting, |mut waiting| async { waiting.recv().await.map(|item| (item, waiting)) }))
}

fn provider(field: &'static str, word: &str) -> Result<Provider, InvalidField> {
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
    serving: &Serving,
    (id, binding): (TaskId, &Binding),
    appends: &[Append],
    caller: &Caller,
) -> Result<Vec<u64>, Refusal> {
    let begin = |store: &Store| store.begin_append_all(id, appends, caller);
    let pending = serving.with_bound(binding, begin).await?;
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
    convert::part_of(request_id, &format!("{PIECE}{}", Uuid::new_v4()))
}

/// Takes what earlier tries of a call brought of the answer out of the view: the model is asked for all of it again.
async fn drop_pieces(
    serving: &Serving,
    (id, binding): (TaskId, &Binding),
    seqs: &[u64],
    caller: &Caller,
) -> Result<(), Refusal> {
    let Some(request_id) = &caller.request_id else { return Ok(()) };
    let name = piece_of(request_id).to_string();
    let prefix = &name[..name.len() - Uuid::nil().to_string().len()];
    let until = Instant::now() + RECORDING;
    loop {
        let after = seqs.last().copied();
        let drop_them = |store: &Store| Ok(store.drop_pieces(id, prefix, after, caller));
        match serving.with_bound(binding, drop_them).await? {
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

/// What an earlier call was told.
struct Told {
    seqs: Vec<u64>,
    seq: u64,
    message: String,
    finish_reason: String,
    pressure: pb::Pressure,
}

impl Told {
    fn events(self, provider: Provider, model: String) -> [pb::ChatResponse; 2] {
        use pb::chat_response::Event;
        let started = pb::ChatStarted { seqs: self.seqs, provider: provider.as_str().to_owned(), model };
        let done = pb::ChatDone {
            seq: self.seq,
            message_json: self.message,
            finish_reason: self.finish_reason,
            pressure: Some(self.pressure),
            duplicate: true,
        };
        [Event::Started(started), Event::Done(done)].map(|event| pb::ChatResponse { event: Some(event) })
    }
}

/// The answer in the log, if a call with the same id was answered before.
async fn told_before(
    serving: &Serving,
    (id, binding): (TaskId, &Binding),
    appends: &[Append],
    caller: &Caller,
) -> Result<Option<Told>, Refusal> {
    let Some(request_id) = &caller.request_id else { return Ok(None) };
    let answered = convert::part_of(request_id, ANSWER);
    let find = |store: &Store| -> Result<Option<Told>, StoreError> {
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
        Ok(Some(Told {
            seqs,
            seq,
            message: message_json(field(&line, "content"), field(&line, "tool_calls"), Some(extra)),
            finish_reason: word.unwrap_or_default(),
            pressure: answer::pressure(&store.pressure(id)?),
        }))
    };
    serving.with_bound(binding, find).await
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
