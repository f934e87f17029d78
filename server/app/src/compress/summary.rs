//! Getting a summary: from a model if one is to be asked, once more and more strictly if it is no good, and from the built-in
//! summariser if that does not help. There is always one in the end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use tokio::task::block_in_place;
use tokio::time::Instant;

use super::message_file::{MessageFile, is_media_only, plain};
use super::model_call::{self, Question};
use super::partition::{Gap, Partition};
use super::preface::Preface;
use super::prompt::Purpose;
use super::reply::ModelReply;
use super::scheduler::{NotAsked, WorkPermit};
use super::{final_summary, job::CompressionStep, quality_gate};
use crate::context::{Breakers, Left, Policy, Summarizer};
use crate::llm::Gateway;
use crate::model::{Provider, Role, StoreError, TaskId};
use crate::store::{Outline, Store};
use crate::summarizer::{Extractor, Piece, Section, Sections};

/// What a summary is made of, and how large it may be.
pub(super) struct SummaryTask<'a> {
    pub(super) id: TaskId,
    pub(super) purpose: Purpose,
    pub(super) policy: &'a Policy,
    pub(super) partition: &'a Partition,
    /// What a model is told of the time before.
    pub(super) previous: Option<&'a str>,
    /// Tokens of the text, beside what was retained before.
    pub(super) budget: u64,
    /// Tokens of what was retained before; something else may take its place.
    pub(super) carried: u64,
    /// Tokens that there is room for, if that is more.
    pub(super) room: u64,
    /// The view that it is of.
    pub(super) outline: &'a Outline,
    /// Whether a model may be asked: not when there is no time.
    pub(super) may_ask: bool,
}

/// A summary, and who made it.
#[derive(Debug, Default)]
pub(super) struct WrittenSummary {
    pub(super) text: String,
    pub(super) retain: Option<String>,
    /// Messages that the model wants to be kept as they are.
    pub(super) keep: Vec<u64>,
    pub(super) sections: Option<Value>,
    /// `extractive`, or a provider.
    pub(super) by: String,
    pub(super) model: String,
    /// Why the built-in one had to step in.
    pub(super) fallback: Option<String>,
}

/// Who can be asked.
pub(super) struct SummaryWriter<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) breakers: &'a Breakers,
    pub(super) store: &'a Store,
    /// Set when everything is to end.
    pub(super) stop: &'a Arc<AtomicBool>,
    /// Left to others while a model is waited for.
    pub(super) turn: &'a WorkPermit,
}

/// A model that can be asked.
struct SummaryModel<'a> {
    provider: Provider,
    model: &'a str,
    /// Its name for the breaker.
    known_as: &'a str,
    deadline: Instant,
}

/// Why a model is not asked, or not waited for.
const NO_TIME: &str = "the context is over its limit";

impl SummaryWriter<'_> {
    /// A summary that can stand for what it is to stand for; an empty one only if there is nothing to say.
    pub(super) async fn summarize(
        &self,
        task: &SummaryTask<'_>,
        progress: &(dyn Fn(CompressionStep) + Sync),
    ) -> Result<WrittenSummary, StoreError> {
        let fallback = match self.model(task) {
            Ok(Some(model)) => match self.asked(&model, Box::pin(self.ask(task, &model, progress))).await {
                Ok(written) => return Ok(written),
                Err(why) => Some(stepped_in(task, why)),
            },
            Ok(None) => None,
            Err(why) => Some(why),
        };
        progress(task.step(if fallback.is_some() { 3 } else { 1 }, 0));
        let mut written = block_in_place(|| extract(task))?;
        written.fallback = fallback;
        Ok(written)
    }

    /// A short summary for each gap that is worth one, in order; the built-in summariser makes them if no model does.
    pub(super) async fn summarize_gaps(
        &self,
        task: &SummaryTask<'_>,
        gaps: &[Gap],
        is_long: &(dyn Fn(&Gap) -> bool + Sync),
        written: &mut WrittenSummary,
        progress: &(dyn Fn(CompressionStep) + Sync),
    ) -> Result<Vec<Option<String>>, StoreError> {
        progress(task.step(1, 0));
        match self.model(task) {
            Ok(Some(model)) => {
                let budget = task.policy.scoring.gap_max_tokens;
                let question = task.question(Purpose::Gaps, &model, budget, None);
                let (mut asked, mut passed_over) = (Vec::new(), 0);
                for gap in gaps {
                    if is_long(gap) {
                        asked.push((std::mem::take(&mut passed_over), gap.lines));
                    } else {
                        passed_over += gap.lines;
                    }
                }
                let heard = |tokens| progress(task.step(1, tokens));
                let asking = async {
                    let asking =
                        model_call::ask_gaps(self.gateway, self.store, task.id, &question, &asked, &heard);
                    asking.await.map_err(|error| error.to_string())
                };
                match self.asked(&model, asking).await {
                    Ok(summaries) => {
                        (written.by, written.model) =
                            (model.provider.as_str().to_owned(), model.model.to_owned());
                        let mut summaries = summaries.into_iter();
                        let next = |gap| if is_long(gap) { summaries.next().flatten() } else { None };
                        return Ok(gaps.iter().map(next).collect());
                    }
                    Err(why) => written.fallback = Some(stepped_in(task, why)),
                }
            }
            Ok(None) => {}
            Err(why) => written.fallback = Some(why),
        }
        written.by = EXTRACTIVE.to_owned();
        block_in_place(|| {
            gaps.iter().map(|gap| is_long(gap).then(|| extract_gap(task, gap)).transpose()).collect()
        })
    }

    /// The model to be asked; none if the built-in summariser is wanted, an error if the model cannot be asked.
    fn model<'a>(&'a self, task: &SummaryTask<'a>) -> Result<Option<SummaryModel<'a>>, String> {
        let policy = task.policy;
        let asked = match policy.summarizer {
            Summarizer::Extractive => return Ok(None),
            Summarizer::Llm => true,
            Summarizer::Auto => false,
        };
        let Some(provider) = policy.provider else {
            return if asked { Err("no provider is configured".to_owned()) } else { Ok(None) };
        };
        let model = policy.model.as_deref().or_else(|| self.gateway.default_model(provider));
        match self.gateway.check(provider, model) {
            Err(error) if asked => return Err(error.to_string()),
            // Nobody asked for a model that cannot be asked.
            Err(_) => return Ok(None),
            Ok(()) => {}
        }
        if !task.may_ask {
            return Err(NO_TIME.to_owned());
        }
        let (Some(model), Some((_, known_as))) = (model, policy.breaker()) else { return Ok(None) };
        let model =
            SummaryModel { provider, model, known_as, deadline: Instant::now() + policy.summary_timeout };
        // Nobody waits to be told so.
        if self.breakers.is_open(provider, known_as, Instant::now().into_std()) {
            Err(model.is_paused())
        } else {
            Ok(Some(model))
        }
    }

    /// Asks a model when there is a place among those who do, and tells its breaker how it went.
    async fn asked<T>(
        &self,
        model: &SummaryModel<'_>,
        asking: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        // At least half of the time is for the model.
        let wait = (model.deadline - Instant::now()) / 2;
        let asking = async {
            // It may have failed for others meanwhile.
            let Some(leave) = self.breakers.ask(model.provider, model.known_as, Instant::now().into_std())
            else {
                return Err(model.is_paused());
            };
            let answer = asking.await;
            if answer.is_ok() {
                leave.succeeded();
            } else if leave.failed(Instant::now().into_std()) {
                tracing::warn!(
                    provider = model.provider.as_str(),
                    "a model is not asked for summaries for a while"
                );
            }
            answer
        };
        match self.turn.aside(wait, Box::pin(asking)).await {
            Ok(answer) => answer,
            Err(NotAsked::Urgency) => Err(NO_TIME.to_owned()),
            Err(NotAsked::Crowded) => Err(format!("too many others wait for {}", model.provider.as_str())),
        }
    }

    async fn ask(
        &self,
        task: &SummaryTask<'_>,
        model: &SummaryModel<'_>,
        progress: &(dyn Fn(CompressionStep) + Sync),
    ) -> Result<WrittenSummary, String> {
        let partition = task.partition;
        let preface = match task.purpose {
            Purpose::Compaction { .. } => {
                block_in_place(|| Preface::of(partition, task.outline, task.budget))
                    .map_err(|error| error.to_string())?
            }
            Purpose::Final | Purpose::Gaps => Preface::default(),
        };
        let asked = task.asked().saturating_sub(preface.tokens);
        let (mut refused, mut problem): (Option<String>, String) = (None, String::new());
        for attempt in [1, 2] {
            progress(task.step(attempt, 0));
            let question = task.question(task.purpose, model, asked, refused.as_deref());
            let heard = |tokens| progress(task.step(attempt, tokens));
            let mut reply: ModelReply =
                match model_call::ask(self.gateway, self.store, task.id, &question, &heard).await {
                    Ok(reply) => reply,
                    Err(error) if error.is_bad_answer() => {
                        (refused, problem) = (Some(error.to_model()), error.to_string());
                        continue;
                    }
                    Err(error) => return Err(error.to_string()),
                };
            let retain = reply.retain.as_deref().unwrap_or_default();
            let mut sizes =
                quality_gate::sizes(retain, (partition.tokens, task.budget, task.room), task.carried);
            if task.purpose == Purpose::Final {
                // What a task ends with stands for nothing: it may be as long as it was asked for.
                sizes.0 = u64::MAX;
            }
            let counter = task.outline.counter;
            let told = format!("{}\n{retain}", reply.summary);
            preface.put_before(&mut reply);
            let whole = format!("{}\n{}", reply.summary, reply.retain.as_deref().unwrap_or_default());
            let checked = quality_gate::tells_enough(&told, partition.tokens, counter)
                .and_then(|()| quality_gate::check(&whole, sizes, task.refs(), counter));
            match checked {
                Ok(()) => {
                    return Ok(WrittenSummary {
                        text: reply.summary,
                        retain: reply.retain,
                        keep: reply.keep,
                        sections: reply.sections,
                        by: model.provider.as_str().to_owned(),
                        model: model.model.to_owned(),
                        fallback: None,
                    });
                }
                Err(why) => {
                    problem = format!("the summary {why}");
                    refused = Some(problem.clone());
                }
            }
        }
        Err(format!("{} was asked twice: {problem}", model.model))
    }
}

fn stepped_in(task: &SummaryTask<'_>, why: String) -> String {
    tracing::warn!(id = %task.id, why, "the built-in summariser steps in");
    why
}

impl SummaryModel<'_> {
    fn is_paused(&self) -> String {
        let (model, name) = (self.model, self.provider.as_str());
        format!("{model} of {name} failed too often and is not asked for a while")
    }
}

impl SummaryTask<'_> {
    fn question<'a>(
        &'a self,
        purpose: Purpose,
        model: &'a SummaryModel<'_>,
        budget: u64,
        refused: Option<&'a str>,
    ) -> Question<'a> {
        Question {
            purpose,
            material: &self.partition.material,
            previous: self.previous,
            retained: self.partition.retained.as_deref().map(|text| (text, self.carried)),
            budget,
            refs: self.refs(),
            policy: self.policy,
            provider: model.provider,
            model: model.model,
            window: self.policy.summarizer_window,
            timeout: self.policy.summary_timeout,
            deadline: model.deadline,
            refused,
        }
    }

    /// Tokens that are asked for: with what takes the place of what was retained before.
    fn asked(&self) -> u64 {
        match self.purpose {
            Purpose::Compaction { retain: true } => self.budget + self.carried,
            Purpose::Compaction { retain: false } | Purpose::Final | Purpose::Gaps => self.budget,
        }
    }

    /// Output refs that have to be named. Those of a task that ends lead nowhere in another.
    fn refs(&self) -> &[String] {
        if self.purpose == Purpose::Final { &[] } else { self.partition.refs_for(self.budget) }
    }

    fn step(&self, attempt: u32, summary_tokens: u64) -> CompressionStep {
        CompressionStep::Summarizing {
            messages: self.partition.messages,
            tokens: self.partition.tokens,
            summary_tokens,
            attempt,
        }
    }
}

/// What the built-in summariser makes of it.
fn extract(task: &SummaryTask<'_>) -> Result<WrittenSummary, StoreError> {
    let mut budget = task.budget;
    let made = loop {
        let mut extractor = Extractor::new(budget, task.outline.counter);
        if task.purpose == Purpose::Final {
            extractor = extractor.without_refs();
        }
        read_all(&mut extractor, task.partition, task.outline)?;
        let made = extractor.finish();
        // Texts that take far more bytes than tokens are rare.
        if budget <= 1 || quality_gate::can_be_written(&made.text).is_ok() {
            break made;
        }
        budget /= 2;
    };
    Ok(WrittenSummary {
        text: made.text,
        sections: task.policy.structured.then(|| six(&made.sections)),
        by: EXTRACTIVE.to_owned(),
        ..WrittenSummary::default()
    })
}

/// Has the built-in summariser read all that goes, and what the user asked for in the messages that stay.
pub(super) fn read_all(
    extractor: &mut Extractor,
    partition: &Partition,
    outline: &Outline,
) -> Result<(), StoreError> {
    if let Some(left) = &partition.inherited {
        take_over(extractor, left);
    }
    if let Some(previous) = &partition.previous {
        extractor.previous(previous);
    }
    read(extractor, &partition.material, outline)?;
    partition.staying.each(&mut |piece| {
        if piece.seq > partition.last_seq {
            extractor.stays(&spoken(piece));
        }
        Ok(())
    })
}

/// Returns a message without its text if that is no words of a user: an image says nothing that could be the goal.
fn spoken<'a>(piece: &Piece<'a>) -> Piece<'a> {
    let is_wordless = piece.role == Role::User && is_media_only(piece.text);
    Piece { text: if is_wordless { "" } else { piece.text }, ..*piece }
}

/// Has the built-in summariser read messages. Of outputs that were trimmed it reads what the log has: they went for their size,
/// not because nothing in them matters.
fn read(extractor: &mut Extractor, material: &MessageFile, outline: &Outline) -> Result<(), StoreError> {
    let mut log = outline.log();
    material.each(&mut |piece| {
        if !piece.is_trimmed() {
            extractor.take(&spoken(piece));
            return Ok(());
        }
        log.only(piece.seq);
        log.step(|whole| {
            let text = plain(whole.shown.content.unwrap_or_default());
            extractor.take(&Piece { text: &text, ..*piece });
        })?;
        Ok(())
    })
}

/// Folds in what was taken over from another task: what was known, why it failed, and what its agent planned.
fn take_over(extractor: &mut Extractor, left: &Left) {
    for known in [&left.kept, &left.summary].into_iter().flatten() {
        extractor.inherited(known);
    }
    for failure in &left.earlier.failures {
        extractor.failed(&final_summary::failed(failure));
    }
    if let Some(plans) = &left.plans {
        extractor.inherited(plans);
    }
}

/// The sections that every summary has.
fn six(sections: &Sections) -> Value {
    let of = |list: &[Section]| -> Vec<&String> {
        list.iter().flat_map(|section| sections.of(*section)).collect()
    };
    json!({
        "goal": of(&Section::OF_USER),
        "decisions": of(&[Section::Decisions]),
        "changes": of(&[Section::Changes, Section::Commands, Section::Facts]),
        "files": of(&[Section::Files]),
        "errors": of(&[Section::Errors]),
        "pending": of(&[Section::Pending, Section::Refs]),
    })
}

/// What the built-in summariser makes of a gap.
fn extract_gap(task: &SummaryTask<'_>, gap: &Gap) -> Result<String, StoreError> {
    let mut extractor = Extractor::new(task.policy.scoring.gap_max_tokens, task.outline.counter);
    read(&mut extractor, &task.partition.material_of(gap), task.outline)?;
    Ok(extractor.finish().text)
}

/// The built-in summariser, as it is told.
pub(super) const EXTRACTIVE: &str = "extractive";
