//! Compressing on demand, by the agent itself, and taking it back.

use std::sync::Arc;

use contextstore_app::compaction::{Finished, Found, Request as Asked};
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::{
    CompressSkipReason, CompressStage, CompressionStrategy, Provider, SummaryAuthor,
};
use futures_util::Stream;
use futures_util::stream::unfold;
use pb::begin_compaction_response::Event as BegunEvent;
use pb::compress_response::{Event, Progress};
use prost::Message as _;
use tokio::sync::mpsc;
use tonic::{Request, Response};

use super::paced::Items;
use super::read::CHUNK_BYTES;
use super::service::{Reply, Service};
use super::serving::Serving;
use super::status::Refusal;
use super::{answer, convert, enums, settings};
use crate::compress::{CompactionCommit, CompactionOffer, CompressionStep, Job, MessageFile};
use crate::context::{Settings, Strategy};
use crate::model::{InvalidField, TaskId};

/// Steps that wait for the caller; what it does not read in time is left out.
const QUEUE: usize = 64;
/// Most bytes of an agent's summary, and of what it retains.
const MAX_SUMMARY_BYTES: usize = 512 << 10;
const MAX_RETAIN_BYTES: usize = 256 << 10;
const MAX_MODEL_BYTES: usize = 256;

type Item = Result<pb::CompressResponse, Refusal>;

pub(super) async fn compress(
    service: &Service,
    request: Request<pb::CompressRequest>,
) -> Reply<Items<pb::CompressResponse>> {
    let asked = request.get_ref();
    let id = TaskId::parse(&asked.task_uuid)?;
    let caller = convert::caller(&asked.request_id, asked.lease_generation)?;
    let strategy = enums::some("strategy", asked.strategy)?;
    let mut settings =
        settings::of_call(asked.overrides.as_ref(), asked.prune.as_ref(), asked.window.as_ref())?;
    name(&mut settings, strategy);
    let target = target(asked.target_tokens)?;
    // What was asked, whoever asked for it and how often.
    let mut plain = asked.clone();
    (plain.request_id, plain.lease_generation) = (String::new(), 0);
    let asked = blake3::hash(&plain.encode_to_vec()).to_hex().to_string();
    let asked = Asked { id, settings, target, caller, asked };
    let serving = Arc::clone(&service.serving);
    let begin = async {
        let (events, receiver) = mpsc::channel(QUEUE);
        match serving.engine.find_compression(asked).await? {
            Found::Finished(finished) => drop(events.try_send(Ok(last(*finished)))),
            Found::Job(order) => drop(tokio::spawn(run(Arc::clone(&serving), id, order, events))),
        }
        Ok(Box::pin(items(receiver)))
    };
    service.stream(&request, begin).await
}

/// Compresses, and tells how far it is. It goes on if nobody listens.
async fn run(serving: Arc<Serving>, id: TaskId, order: Job, events: mpsc::Sender<Item>) {
    let tell = |step| {
        let event = Some(Event::Progress(progress(step)));
        let _ = events.try_send(Ok(pb::CompressResponse { event }));
    };
    let done = serving.engine.compress(id, &order, &tell).await;
    let _ = events.send(done.map(last).map_err(Refusal::from)).await;
}

fn items<T: Send + 'static>(
    receiver: mpsc::Receiver<Result<T, Refusal>>,
) -> impl Stream<Item = Result<T, Refusal>> + Send {
    unfold(receiver, |mut receiver| async { receiver.recv().await.map(|item| (item, receiver)) })
}

fn progress(step: CompressionStep) -> Progress {
    match step {
        CompressionStep::Extracting { messages, tokens } => {
            Progress { stage: CompressStage::Extracting.into(), messages, tokens, ..Progress::default() }
        }
        CompressionStep::Summarizing { messages, tokens, summary_tokens, attempt } => {
            Progress { stage: CompressStage::Summarizing.into(), messages, tokens, summary_tokens, attempt }
        }
        CompressionStep::Publishing { messages, tokens, summary_tokens } => {
            Progress { stage: CompressStage::Publishing.into(), messages, tokens, summary_tokens, attempt: 0 }
        }
    }
}

fn last(finished: Finished) -> pb::CompressResponse {
    pb::CompressResponse { event: Some(Event::Done(done_of(finished))) }
}

fn done_of(Finished { done, pressure }: Finished) -> pb::CompressDone {
    // The LLM goes by the name of its provider.
    let provider = Provider::from_name(&done.summarizer);
    let author = SummaryAuthor::from_name(&done.summarizer);
    let author = author.or(provider.map(|_| SummaryAuthor::Llm)).unwrap_or_default();
    pb::CompressDone {
        compressed: done.is_rewritten(),
        skip_reason: CompressSkipReason::from_name(done.reason).unwrap_or_default().into(),
        duplicate: done.is_rewritten() && !done.reason.is_empty(),
        target_missed: done.shortfall.trim_start_matches("target_missed: ").to_owned(),
        strategy: CompressionStrategy::from_name(done.strategy).unwrap_or_default().into(),
        emergency: done.emergency,
        messages_before: done.messages_before,
        messages_after: done.messages_after,
        messages_removed: done.messages_removed,
        tokens_before: done.tokens_before,
        tokens_after: done.tokens_after,
        tokens_removed: done.tokens_before.saturating_sub(done.tokens_after),
        summary_id: done.summary_id,
        summary_author: author.into(),
        provider: provider.unwrap_or_default().into(),
        model: done.model,
        fallback_reason: done.fallback_reason,
        generation: done.generation,
        duration: prost_types::Duration::try_from(done.took).ok(),
        pressure: Some(answer::pressure(&pressure)),
    }
}

pub(super) async fn begin(
    service: &Service,
    request: Request<pb::BeginCompactionRequest>,
) -> Reply<Items<pb::BeginCompactionResponse>> {
    let asked = request.get_ref();
    let id = TaskId::parse(&asked.task_uuid)?;
    let caller = convert::caller("", asked.lease_generation)?;
    let wanted = enums::some("strategy", asked.strategy)?;
    if matches!(wanted, Some(Strategy::Prune | Strategy::Window)) {
        return Err(InvalidField::new("strategy", "makes no summary; use SUMMARIZE or COMPACT").into());
    }
    let mut settings = settings::of_call(asked.overrides.as_ref(), None, None)?;
    name(&mut settings, wanted);
    let target = target(asked.target_tokens)?;
    let asked = Asked { id, settings, target, caller, asked: String::new() };
    let serving = Arc::clone(&service.serving);
    let begin = async {
        let told = serving.engine.begin_compaction(asked).await?;
        let expires = serving.clock.now() + told.expires_in;
        Ok(Box::pin(told_lines(told, answer::timestamp(expires))))
    };
    service.stream(&request, begin).await
}

/// What an agent has to know, and then the messages.
fn told_lines(
    told: CompactionOffer,
    expires: prost_types::Timestamp,
) -> impl Stream<Item = Result<pb::BeginCompactionResponse, Refusal>> + Send {
    let begun = pb::begin_compaction_response::Begun {
        token: told.token.clone(),
        expire_time: Some(expires),
        start_seq: told.first_seq,
        end_seq: told.last_seq,
        messages: told.messages,
        tokens: told.tokens,
        summary_tokens: told.budget,
        prompt: told.prompt.clone(),
        previous_summary: told.previous.clone().unwrap_or_default(),
        output_refs: told.refs.clone(),
        retained: told.retained.clone().unwrap_or_default(),
    };
    let lines: MessageFile = told.material();
    unfold((Some(begun), lines, 0, told), |(begun, lines, at, told)| async move {
        if let Some(begun) = begun {
            let event = Some(BegunEvent::Begun(begun));
            return Some((Ok(pb::BeginCompactionResponse { event }), (None, lines, at, told)));
        }
        let read = tokio::task::block_in_place(|| lines.read(at, CHUNK_BYTES));
        match read {
            Ok(data) if data.is_empty() => None,
            Ok(data) => {
                let at = at + data.len() as u64;
                let event = Some(BegunEvent::Data(data.into()));
                Some((Ok(pb::BeginCompactionResponse { event }), (None, lines, at, told)))
            }
            Err(error) => Some((Err(error.into()), (None, lines, u64::MAX, told))),
        }
    })
}

pub(super) async fn commit(
    service: &Service,
    request: pb::CommitCompactionRequest,
) -> Reply<pb::CommitCompactionResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let caller = convert::caller(&request.request_id, request.lease_generation)?;
    at_most("summary", &request.summary, MAX_SUMMARY_BYTES)?;
    at_most("retain", &request.retain, MAX_RETAIN_BYTES)?;
    at_most("model", &request.model, MAX_MODEL_BYTES)?;
    crate::model::plain_text("model", &request.model)?;
    let mut plain = request.clone();
    (plain.request_id, plain.lease_generation) = (String::new(), 0);
    let asked = blake3::hash(&plain.encode_to_vec()).to_hex().to_string();
    let commit = CompactionCommit {
        token: request.token,
        summary: request.summary,
        retain: request.retain,
        keep: request.keep_seqs,
        model: request.model,
        caller,
        asked,
    };
    let done = done_of(service.serving.engine.commit_compaction(id, commit).await?);
    Ok(Response::new(pb::CommitCompactionResponse { done: Some(done) }))
}

pub(super) async fn abort(
    service: &Service,
    request: &pb::AbortCompactionRequest,
) -> Reply<pb::AbortCompactionResponse> {
    let id = TaskId::parse(&request.task_uuid)?;
    let caller = convert::caller("", request.lease_generation)?;
    service.serving.engine.abort_compaction(id, &request.token, &caller).await?;
    Ok(Response::new(pb::AbortCompactionResponse {}))
}

pub(super) async fn undo(
    service: &Service,
    request: &pb::UndoCompactionRequest,
) -> Reply<pb::UndoCompactionResponse> {
    let who = (&*request.task_uuid, &*request.request_id, request.lease_generation);
    let (id, generation) = service.change(who, |store, id, caller| store.undo(id, caller)).await?;
    let pressure = service.serving.engine.with(|store| store.pressure(id)).await?;
    let pressure = Some(answer::pressure(&pressure));
    Ok(Response::new(pb::UndoCompactionResponse { generation, pressure }))
}

/// A strategy that a call names counts like one of its overrides, and more.
fn name(settings: &mut Settings, strategy: Option<Strategy>) {
    if let Some(strategy) = strategy {
        settings.compression.strategy = Some(strategy.as_str().to_owned());
    }
}

fn target(tokens: Option<u64>) -> Result<Option<u64>, InvalidField> {
    match tokens {
        Some(0) => Err(InvalidField::new("target_tokens", "must be at least 1")),
        Some(tokens) => convert::number("target_tokens", tokens).map(Some),
        None => Ok(None),
    }
}

fn at_most(field: &'static str, text: &str, most: usize) -> Result<(), InvalidField> {
    if text.len() > most {
        let problem = format!("has {} bytes; at most {most} are allowed", text.len());
        return Err(InvalidField::new(field, problem));
    }
    Ok(())
}
