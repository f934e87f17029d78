//! One compression, from looking at the view to putting the new one in its place. Appends and reads go on meanwhile.

use std::time::{Duration, Instant};

use tokio::task::block_in_place;
use tokio::time::sleep;

use super::budget::{Budget, Counted};
use super::job::{CompressionOutcome, CompressionStep, Job};
use super::partition::{Gap, Partition};
use super::prompt::Purpose;
use super::replacement::Replacement;
use super::summary::{SummaryTask, SummaryWriter};
use super::view_analysis::{INCOMPRESSIBLE, ViewAnalysis, WITHIN_TARGET};
use super::{PATIENCE, literals, plan_note};
use crate::context::{Gone, Strategy};
use crate::model::{StoreError, TaskId};
use crate::store::{Compressed, Store};

/// Why a view is left alone that would have more parts than a rewrite of the log takes.
pub(super) const TOO_MANY_PARTS: &str = "too_many_parts";
/// Why a view is left alone that would not get smaller, or not by enough.
const NOT_WORTH_IT: &str = "not_worth_it";

/// Why a view is as it was.
enum Unchanged {
    /// As told to the caller.
    Because(&'static str),
    Failed(StoreError),
}

impl From<StoreError> for Unchanged {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// A new view that is in place.
struct Published {
    replacement: Replacement,
    compressed: Compressed,
    shortfall: String,
    /// Whether what has to stay is too large alone, or the view is over the limit all the same.
    is_over: bool,
}

/// A compression that goes on.
struct Compression<'a> {
    writer: &'a SummaryWriter<'a>,
    id: TaskId,
    job: &'a Job,
    analysis: ViewAnalysis,
    progress: &'a (dyn Fn(CompressionStep) + Sync),
}

/// Compresses the view of a task.
pub(super) async fn run(
    writer: &SummaryWriter<'_>,
    id: TaskId,
    job: &Job,
    progress: &(dyn Fn(CompressionStep) + Sync),
) -> Result<CompressionOutcome, StoreError> {
    let began = Instant::now();
    let store = writer.store;
    let analysis = block_in_place(|| ViewAnalysis::of(store, id, job, writer.stop))?;
    let mut outcome = CompressionOutcome::unchanged(&analysis, job);
    let seen = analysis.outline.message_tokens;
    let mut compression = Compression { writer, id, job, analysis, progress };
    let is_over = match compression.run().await {
        Ok(Published { replacement, compressed, shortfall, is_over }) => {
            outcome.record(&compression.analysis, replacement, &compressed);
            outcome.shortfall = shortfall;
            is_over
        }
        Err(Unchanged::Because(reason)) => {
            outcome.reason = reason;
            reason == INCOMPRESSIBLE
        }
        Err(Unchanged::Failed(error)) => return Err(error),
    };
    if is_over || !outcome.reason.is_empty() {
        block_in_place(|| store.note_try(id, &job.policy, seen, is_over))?;
    }
    outcome.took = began.elapsed();
    Ok(outcome)
}

impl Compression<'_> {
    /// Puts a smaller view in the place of the old one.
    async fn run(&mut self) -> Result<Published, Unchanged> {
        let job = self.job;
        let older_plan = self.analysis.older_plan();
        // Whoever asks wants the newest plan, also if nothing else can be done.
        let renews_plan = older_plan.is_some() && !job.automatic;
        if self.analysis.is_within_target(&job.policy) && !renews_plan {
            return Err(Unchanged::Because(WITHIN_TARGET));
        }
        let partition = self.partition()?;
        (self.progress)(CompressionStep::Extracting {
            messages: partition.messages,
            tokens: partition.tokens,
        });
        let has_too_few = self.analysis.has_too_few(&job.policy, &partition);
        // Where there are too few to be summarised, all of them stay, but for an older plan.
        let budget = if has_too_few {
            let renewal = self.analysis.plan_note.take().zip(older_plan);
            block_in_place(|| Budget::of_all(&job.policy, &self.analysis, &partition, renewal))?
        } else {
            block_in_place(|| Budget::of(&job.policy, &self.analysis, &partition))?
        };
        if has_too_few && budget.shrunk.saved == 0 && !renews_plan {
            return Err(Unchanged::Because(self.analysis.why_nothing(&partition)));
        }
        let is_over = self.analysis.is_over(budget.beside);
        self.check_worth(&budget, &partition, has_too_few, is_over)?;
        let mut replacement = Replacement::new(budget.shrunk.clone(), self.analysis.plan_note.clone());
        if !replacement.can_be_written(&self.analysis, &partition, job) {
            return Err(Unchanged::Because(TOO_MANY_PARTS));
        }
        if has_too_few {
            self.analysis.selection.keep_all();
        } else {
            self.fill(&mut replacement, &partition, &budget).await?;
        }
        let after = budget.kept + replacement.tokens();
        if after >= Counted(partition.kept_tokens + partition.tokens) && !renews_plan {
            let is_over = is_over || self.analysis.is_emergency();
            return Err(Unchanged::Because(if is_over { INCOMPRESSIBLE } else { NOT_WORTH_IT }));
        }
        (self.progress)(CompressionStep::Publishing {
            messages: partition.messages,
            tokens: partition.tokens,
            summary_tokens: replacement.summary.as_ref().map_or(0, |(literal, _)| literal.tokens),
        });
        let compressed =
            publish(self.writer.store, self.id, &mut self.analysis, &mut replacement, job).await?;
        let outline = &self.analysis.outline;
        let is_over = is_over || after.calibrated(outline).0 > job.policy.limit;
        let after = Counted(compressed.tokens).calibrated(outline);
        let shortfall = self.analysis.shortfall(&job.policy, &partition, after.0);
        Ok(Published { replacement, compressed, shortfall, is_over })
    }

    /// Sets apart what goes and what stays.
    fn partition(&self) -> Result<Box<Partition>, StoreError> {
        let (store, analysis) = (self.writer.store, &self.analysis);
        block_in_place(|| Partition::set(store, self.id, &analysis.outline, &analysis.selection.ranges()))
            .map(Box::new)
    }

    /// Refuses an automatic compression that saves too little. Over the limit, any saving is worth it.
    fn check_worth(
        &self,
        budget: &Budget,
        partition: &Partition,
        keeps_all: bool,
        is_over: bool,
    ) -> Result<(), Unchanged> {
        if !self.job.automatic || self.analysis.is_emergency() {
            return Ok(());
        }
        let removed = if keeps_all { 0 } else { partition.tokens };
        let saved = Counted(removed + budget.shrunk.saved) - (budget.summary + budget.beside);
        if saved.calibrated_part(&self.analysis.outline) < self.analysis.worth {
            return Err(Unchanged::Because(if is_over { INCOMPRESSIBLE } else { NOT_WORTH_IT }));
        }
        Ok(())
    }

    /// Fills a replacement with what stands for the messages that go: a summary, a note, or a note for each gap.
    async fn fill(
        &mut self,
        replacement: &mut Replacement,
        partition: &Partition,
        budget: &Budget,
    ) -> Result<(), StoreError> {
        let analysis = &mut self.analysis;
        let task = SummaryTask {
            id: self.id,
            purpose: Purpose::Compaction { retain: self.job.strategy == Strategy::Compact },
            policy: &self.job.policy,
            partition,
            previous: partition.previous.as_deref(),
            budget: budget.summary.0,
            carried: budget.carried.0,
            room: budget.room.0,
            outline: &analysis.outline,
            may_ask: !analysis.is_emergency(),
        };
        match analysis.selection.gone {
            Gone::Summary => {
                let written = self.writer.summarize(&task, self.progress).await?;
                block_in_place(|| {
                    replacement.take_summary(analysis, partition, written, self.job, budget.kept)
                })
            }
            Gone::Note => {
                let messages = partition.gaps.iter().map(|gap| gap.messages).sum();
                if messages > 0 {
                    let tail = analysis.selection.tail_from();
                    replacement
                        .gaps
                        .push((Gap::note(tail..tail), literals::gap(messages, analysis.outline.counter)));
                }
                Ok(())
            }
            Gone::Gaps => {
                let room = analysis.goal - (budget.kept + budget.beside);
                replacement.fill_gaps(self.writer, analysis, &task, room, self.progress).await
            }
        }
    }
}

/// Keeps what was pinned since the view was looked at; false if nothing was.
fn keep_new_pins(
    store: &Store,
    id: TaskId,
    analysis: &mut ViewAnalysis,
    replacement: &mut Replacement,
) -> Result<bool, StoreError> {
    let pins = store.outline(id)?.pins;
    let new: Vec<u64> = pins.difference(&analysis.outline.pins).copied().collect();
    let groups = analysis.selection.groups_of(&analysis.outline, &new)?;
    analysis.selection.keep_too(&groups, u64::MAX);
    replacement.shrunk.spare(&groups);
    analysis.outline.pins.extend(&new);
    Ok(!new.is_empty())
}

/// Puts the new view in its place, once nobody else is rewriting it, with what was pinned meanwhile.
pub(super) async fn publish(
    store: &Store,
    id: TaskId,
    analysis: &mut ViewAnalysis,
    replacement: &mut Replacement,
    job: &Job,
) -> Result<Compressed, StoreError> {
    let until = Instant::now() + PATIENCE;
    let mut caller = job.caller.clone();
    if replacement.plan_note.is_some() {
        // Another one may have come while somebody summarised.
        replacement.plan_note =
            block_in_place(|| plan_note::newest(store, id, &job.policy, &analysis.outline))?;
    }
    loop {
        let published = block_in_place(|| {
            let view = replacement.new_view(analysis, job);
            store.compress(id, &view, &caller, &job.asked)
        });
        match published {
            Err(StoreError::StaleView { .. })
                if Instant::now() < until
                    && block_in_place(|| keep_new_pins(store, id, analysis, replacement))? => {}
            Err(StoreError::RewriteInFlight { .. }) if Instant::now() < until => {
                sleep(Duration::from_millis(50)).await;
            }
            // The task was taken over, which is nothing to us.
            Err(StoreError::StaleLease { newest, .. })
                if job.automatic && caller.lease_generation != newest =>
            {
                caller.lease_generation = newest;
            }
            published => return published,
        }
    }
}
