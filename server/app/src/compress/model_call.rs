//! One question to a model: history goes in as text, a summary comes out, or the reason why there is none.
//!
//! Whoever asks decides what a failure means; nothing here tries longer than its time, holds more than its window, or
//! tells a key. Dropping the future closes the connection and removes the request.

mod request;
mod size;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::{block_in_place, spawn_blocking};
use tokio::time::{Instant, timeout_at};

use super::MessageFile;
use super::prompt::{Prompt, Purpose};
use super::reply::{self, ModelReply, NoSummary};
use super::transcript::{self, EarlierSummary, Transcript, flatten, flatten_gaps};
use crate::context::{Policy, count_text};
use crate::infra::metrics;
use crate::llm::{AnswerEvent, Gateway, LlmError, LlmRequest, Payload, Usage};
use crate::model::{Provider, StoreError, TaskId, TokenCounter};
use crate::store::{RequestFile, Store, WorkFile};
use size::RequestSize;

/// Bytes of an answer for each token that was asked for, and beside them.
const BYTES_A_TOKEN: u64 = 8;
const SLACK_BYTES: u64 = 4 << 10;
/// What a model that thinks aloud may say more.
const THOUGHT_BYTES: u64 = 64 << 10;
/// How providers say that an answer ends where it should not.
const CUT_OFF: [&str; 2] = ["content_filter", "incomplete"];
/// Tokens after which it is told again how many came.
const TOLD_AFTER: u64 = 16;
/// Most gaps that are asked for at once. There are notes for the others.
const MAX_GAPS: usize = 100;

/// What is asked, and who.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question<'a> {
    /// What is asked for. With [`Purpose::Gaps`], [`ask`] takes all there is for one gap.
    pub(crate) purpose: Purpose,
    /// What is to be summarised.
    pub(crate) material: &'a MessageFile,
    /// The summary so far, to be folded in.
    pub(crate) previous: Option<&'a str>,
    /// What was retained so far, and its tokens.
    pub(crate) retained: Option<(&'a str, u64)>,
    /// Tokens of the summary, with what is retained; with gaps, of each.
    pub(crate) budget: u64,
    /// Output refs that must be named.
    pub(crate) refs: &'a [String],
    /// Prompts and directives.
    pub(crate) policy: &'a Policy,
    /// Who is asked.
    pub(crate) provider: Provider,
    /// The model.
    pub(crate) model: &'a str,
    /// Tokens that the model takes, with its answer.
    pub(crate) window: u64,
    /// How long a summary may take, as it is configured.
    pub(crate) timeout: Duration,
    /// When that is over.
    pub(crate) deadline: Instant,
    /// Why the first answer was refused: ask more strictly.
    pub(crate) refused: Option<&'a str>,
}

/// Why there is no summary.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ModelError {
    /// The server was not told what it needs.
    #[error("{problem}")]
    NotConfigured {
        /// What is missing.
        problem: String,
    },
    /// The provider does not take the request.
    #[error("{problem}")]
    Refused {
        /// Whether it is too long for the model, even at half of its window.
        overflow: bool,
        /// The provider's words.
        problem: String,
    },
    /// The provider failed.
    #[error("{problem}")]
    Failed {
        /// What happened.
        problem: String,
    },
    /// It took longer than a summary may.
    #[error("{provider} took longer than {after:?} (compression.summary_timeout)", provider = .provider.as_str())]
    TimedOut {
        /// Who.
        provider: Provider,
        /// How long it may take.
        after: Duration,
    },
    /// The answer is longer than was asked for.
    #[error("the answer is longer than asked: over {limit} {unit}")]
    TooLong {
        /// How much was allowed.
        limit: u64,
        /// Of what.
        unit: &'static str,
    },
    /// There is no summary in the answer.
    #[error("{problem}")]
    Empty {
        /// What there is instead.
        problem: String,
    },
    /// The model does not want to.
    #[error("the model declined: {words}")]
    Declined {
        /// What it said, cut short.
        words: String,
    },
    /// What is to be summarised cannot be read, or the request not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ModelError {
    /// Whether it is the answer that is no good: a stricter question may get a better one.
    pub(crate) fn is_bad_answer(&self) -> bool {
        matches!(self, Self::TooLong { .. } | Self::Empty { .. } | Self::Declined { .. })
    }

    /// What a model is told of it when it is asked again. Its own words, which may be those of somebody in the history, are no
    /// instructions for the next one.
    pub(crate) fn to_model(&self) -> String {
        match self {
            Self::Declined { .. } => "it was a refusal".to_owned(),
            Self::NotConfigured { .. }
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::TimedOut { .. }
            | Self::TooLong { .. }
            | Self::Empty { .. }
            | Self::Store(_) => self.to_string(),
        }
    }
}

impl From<LlmError> for ModelError {
    fn from(error: LlmError) -> Self {
        let (overflow, problem) = (error.is_overflow(), error.to_string());
        match error {
            LlmError::NotConfigured { .. } => Self::NotConfigured { problem },
            LlmError::Refused { .. } => Self::Refused { overflow, problem },
            LlmError::Failed { .. } => Self::Failed { problem },
        }
    }
}

/// Asks for a summary. `heard` is called with the tokens of the answer so far, as it arrives.
pub(crate) async fn ask(
    gateway: &Arc<Gateway>,
    store: &Store,
    id: TaskId,
    question: &Question<'_>,
    heard: &(dyn Fn(u64) + Sync),
) -> Result<ModelReply, ModelError> {
    if question.purpose == Purpose::Gaps {
        let summaries = ask_gaps(gateway, store, id, question, &[(0, u64::MAX)], heard).await?;
        let summary = summaries.into_iter().flatten().next().unwrap_or_default();
        return Ok(ModelReply { summary, retain: None, keep: Vec::new(), sections: None });
    }
    let asking =
        ModelCall { gateway, store, id, question: *question, gaps: None, heard, charged: Mutex::default() };
    let text = asking.ask().await?;
    let asked = reply::ExpectedParts {
        retain: question.purpose == (Purpose::Compaction { retain: true }),
        structured: question.policy.structured,
    };
    reply::read(&text, asked).map_err(|nothing| match nothing {
        NoSummary::Empty if text.trim().is_empty() => {
            ModelError::Empty { problem: "the answer is empty".to_owned() }
        }
        NoSummary::Untagged => {
            ModelError::Empty { problem: "the answer is not between <summary> and </summary>".to_owned() }
        }
        NoSummary::Empty => ModelError::Empty { problem: "there is no summary in the answer".to_owned() },
        NoSummary::Declined(words) => ModelError::Declined { words },
    })
}

/// Asks for short summaries of several gaps at once: one for each gap, none where the model gave none. The gaps stand in the
/// material in order; `gaps` says of each how many messages are passed over before it, and how many it has. `purpose`,
/// `previous`, `retained`, `refs` and `policy.structured` mean nothing here.
pub(crate) async fn ask_gaps(
    gateway: &Arc<Gateway>,
    store: &Store,
    id: TaskId,
    question: &Question<'_>,
    gaps: &[(u64, u64)],
    heard: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Option<String>>, ModelError> {
    // If there are too many, the newest.
    let passed = gaps.len().saturating_sub(MAX_GAPS);
    let (before, asked) = gaps.split_at(passed);
    let passed_over = before
        .iter()
        .fold(0, |all: u64, (before, messages)| all.saturating_add(*before).saturating_add(*messages));
    let mut asked = asked.to_vec();
    if let Some((before, _)) = asked.first_mut() {
        *before = before.saturating_add(passed_over);
    }
    let question =
        Question { purpose: Purpose::Gaps, previous: None, retained: None, refs: &[], ..*question };
    let gaps = Some(&*asked);
    let asking = ModelCall { gateway, store, id, question, gaps, heard, charged: Mutex::default() };
    let text = asking.ask().await?;
    let mut summaries = vec![None; passed];
    summaries.extend(reply::read_gaps(&text, asked.len()));
    if summaries.iter().all(Option::is_none) {
        return Err(ModelError::Empty { problem: "there is no summary of a gap in the answer".to_owned() });
    }
    Ok(summaries)
}

/// A question on its way.
struct ModelCall<'a> {
    gateway: &'a Arc<Gateway>,
    store: &'a Store,
    id: TaskId,
    question: Question<'a>,
    /// Messages that are passed over before each gap, and how many it has.
    gaps: Option<&'a [(u64, u64)]>,
    heard: &'a (dyn Fn(u64) + Sync),
    /// What each request that was answered cost, as far as the provider said.
    charged: Mutex<Vec<Option<Usage>>>,
}

/// Why one try failed.
enum CallFailure {
    Provider(LlmError),
    Other(ModelError),
}

impl<E: Into<ModelError>> From<E> for CallFailure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

impl ModelCall<'_> {
    async fn ask(self) -> Result<String, ModelError> {
        let Question { provider, timeout: after, deadline, .. } = self.question;
        let tries = async {
            self.gateway.check(provider, Some(self.question.model).filter(|model| !model.is_empty()))?;
            let mut shape = RequestSize::new(self.gateway, &self.question, self.gaps.map(<[_]>::len));
            loop {
                match self.once(&shape).await {
                    Ok(text) => return Ok(text),
                    // What it cannot be asked is not asked again; each change is made once.
                    Err(CallFailure::Provider(error)) if shape.yields_to(&error) => {
                        tracing::info!(id = %self.id, %error, "a summary is asked for again, with less");
                    }
                    Err(CallFailure::Provider(error)) => return Err(error.into()),
                    Err(CallFailure::Other(error)) => return Err(error),
                }
            }
        };
        let answer =
            timeout_at(deadline, tries).await.unwrap_or(Err(ModelError::TimedOut { provider, after }));
        block_in_place(|| drop(self));
        answer
    }

    fn charged(&self) -> MutexGuard<'_, Vec<Option<Usage>>> {
        self.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one request and listens.
    async fn once(&self, shape: &RequestSize) -> Result<String, CallFailure> {
        let Question { purpose, policy, retained, refs, refused, provider, model, .. } = self.question;
        let carried = retained.map(|(_, tokens)| tokens);
        let wanted = Prompt { purpose, policy, budget: shape.budget, carried, refs, refused };
        let Transcript { mut text, fence } = self.flat(shape.room(&wanted)).await?;
        text.push('\n');
        text.push_str(wanted.closing());
        let params = shape.params(self.gateway, provider, model)?;
        let file = block_in_place(|| {
            let file = self.store.work_file(self.id, WorkFile::SummaryRequest)?;
            request::write(file, provider, model, &params, &wanted.system(&fence), text)
        })?;
        let heard = self.listen(&file, shape).await;
        block_in_place(|| drop(file));
        heard
    }

    /// The history as text, made where nobody is held up, and no longer than somebody waits for it.
    async fn flat(&self, room: u64) -> Result<Transcript, ModelError> {
        let stop = Stop(Arc::default());
        let flag = Arc::clone(&stop.0);
        let material = self.question.material.clone();
        let made = if let Some(gaps) = self.gaps {
            let (gaps, chars) = (gaps.to_vec(), self.question.policy.scoring.gap_message_chars);
            spawn_blocking(move || flatten_gaps(&material, &gaps, chars, room, &flag)).await
        } else {
            let so_far = EarlierSummary {
                previous: self.question.previous.map(str::to_owned),
                retained: self.question.retained.map(|(text, _)| text.to_owned()),
            };
            spawn_blocking(move || flatten(&material, &so_far, room, &flag)).await
        };
        let lost = |error| StoreError::io("reading what is to be summarised", std::io::Error::other(error));
        Ok(made.map_err(lost)??)
    }

    async fn listen(&self, file: &RequestFile, shape: &RequestSize) -> Result<String, CallFailure> {
        let (file, len) = file.contents();
        let provider = self.question.provider;
        let mut answer = self.gateway.send(LlmRequest { provider, payload: Payload { file, len } });
        let (mut text, mut declined) = (String::new(), String::new());
        let (mut call, mut begins) = (None, None);
        let (mut tokens, mut told) = (0, 0);
        let limit = shape.asked * BYTES_A_TOKEN + SLACK_BYTES;
        while let Some(event) = answer.next().await.map_err(CallFailure::Provider)? {
            let call = *call.get_or_insert_with(|| {
                let mut charged = self.charged();
                charged.push(None);
                charged.len() - 1
            });
            match event {
                AnswerEvent::Text(more) => {
                    tokens += count_text(TokenCounter::Fitted, &more);
                    let looked = text.len();
                    text.push_str(&more);
                    begins = begins.or_else(|| reply::begins_at(&text, looked));
                    if told == 0 || tokens >= told + TOLD_AFTER {
                        told = tokens;
                        (self.heard)(tokens);
                    }
                }
                AnswerEvent::Refusal(more) if declined.len() < 1000 => declined.push_str(&more),
                AnswerEvent::Usage(usage) => self.charged()[call] = Some(usage),
                AnswerEvent::Finish(reason) if reason == "length" => {
                    let (limit, unit) = (shape.most, "tokens");
                    return Err(ModelError::TooLong { limit, unit }.into());
                }
                AnswerEvent::Finish(reason) if CUT_OFF.contains(&reason.as_str()) => {
                    let problem = format!("the provider cut the answer off: {reason}");
                    return Err(ModelError::Empty { problem }.into());
                }
                AnswerEvent::Finish(_)
                | AnswerEvent::Refusal(_)
                | AnswerEvent::Reasoning(_)
                | AnswerEvent::ToolCall(_)
                | AnswerEvent::Opaque(_) => {}
            }
            let thoughts = begins.unwrap_or(text.len()) as u64;
            if text.len() as u64 > limit + THOUGHT_BYTES.min(thoughts) {
                return Err(ModelError::TooLong { limit, unit: "bytes" }.into());
            }
        }
        (self.heard)(tokens);
        if text.trim().is_empty() && !declined.is_empty() {
            let words: String = declined.chars().take(200).collect();
            return Err(ModelError::Declined { words }.into());
        }
        Ok(text)
    }
}

impl Drop for ModelCall<'_> {
    /// Counts what was charged, be the answers any good or not and whether or not anybody waits for them. It says nothing of
    /// how the view is counted, which was not what was sent.
    fn drop(&mut self) {
        let charged = std::mem::take(&mut *self.charged());
        if charged.is_empty() {
            return;
        }
        let mut tokens: u64 = 0;
        for Usage { input, output, cache_creation, cache_read } in charged.iter().flatten().copied() {
            for (kind, number) in [
                ("input", input),
                ("output", output),
                ("cache_creation", cache_creation),
                ("cache_read", cache_read),
            ] {
                metrics::llm_tokens(self.question.provider.as_str(), kind, number);
                tokens = tokens.saturating_add(number);
            }
        }
        if let Err(error) = self.store.note_cost(self.id, charged.len() as u64, tokens) {
            tracing::warn!(id = %self.id, %error, "what a summary cost could not be recorded");
        }
    }
}

/// Ends a pass over the material when it is dropped.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
