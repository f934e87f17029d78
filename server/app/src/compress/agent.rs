//! Summaries by the agent itself: it is told what to summarise, and given a token to bring the summary with.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::block_in_place;
use uuid::Uuid;

use super::compression::{self, CompressionOutcome, Job, publish};
use super::model_call::ModelReply;
use super::partition::Partition;
use super::preface::Preface;
use super::prompt::{Prompt, Purpose};
use super::replacement::{Replacement, take_summary};
use super::scheduler::{ActiveGuard, Activity, Urgency};
use super::shrink::Shrunk;
use super::summary::WrittenSummary;
use super::view_analysis::{self, ViewAnalysis};
use super::{Compressor, MessageFile, quality_gate, reply};
use crate::context::{Gone, Policy, Strategy};
use crate::model::{StoreError, TaskId};
use crate::store::{Binding, Caller, Store};

/// The agent, as it is told who summarised.
pub(super) const AGENT: &str = "agent";

/// What an agent is to summarise.
pub struct PendingCompaction {
    /// Names this compaction in CommitCompaction.
    pub(crate) token: String,
    /// The time that is left for the summary.
    pub(crate) expires_in: Duration,
    expires: Instant,
    began: Instant,
    order: Job,
    /// The task it was begun for, which may be deleted since.
    binding: Binding,
    analysis: ViewAnalysis,
    partition: Arc<Partition>,
    /// Tokens of what stays.
    kept: u64,
    shrunk: Shrunk,
    /// What stands in front of the summary, as far as the summary lacks it.
    preface: Preface,
    /// Tokens of the summary, beside what was retained before, and of that.
    budget: u64,
    carried: u64,
}

/// What an agent is told.
pub struct CompactionOffer {
    /// Names this compaction in CommitCompaction.
    pub token: String,
    /// The time that is left for the summary.
    pub expires_in: Duration,
    /// The first message that goes.
    pub first_seq: u64,
    /// The last message that goes.
    pub last_seq: u64,
    /// The number of messages that go.
    pub messages: u64,
    /// The tokens of the messages that go.
    pub tokens: u64,
    /// The tokens that the summary may have.
    pub budget: u64,
    /// The prompt for a summary.
    pub prompt: String,
    /// The summary that stands in the view now.
    pub previous: Option<String>,
    /// What was retained before.
    pub retained: Option<String>,
    /// Outputs that the summary has to name.
    pub refs: Vec<String>,
    /// Its messages are in a file that lives as long as this.
    partition: Arc<Partition>,
}

/// A summary by an agent.
pub struct CompactionCommit {
    /// Names this compaction in CommitCompaction.
    pub token: String,
    /// The summary.
    pub summary: String,
    /// What the next summaries have to keep word for word.
    pub retain: String,
    /// Messages that stay as they are.
    pub keep: Vec<u64>,
    /// The model that wrote the summary, as the agent names it.
    pub model: String,
    /// The caller.
    pub caller: Caller,
    /// What was asked, to know a repeated call by.
    pub asked: String,
}

impl fmt::Debug for PendingCompaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun").finish_non_exhaustive()
    }
}

impl fmt::Debug for CompactionOffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").finish_non_exhaustive()
    }
}

impl fmt::Debug for CompactionCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit").finish_non_exhaustive()
    }
}

impl CompactionOffer {
    /// The messages, as lines.
    pub fn material(&self) -> MessageFile {
        self.partition.material.clone()
    }
}

impl PendingCompaction {
    fn is_expired(&self) -> bool {
        Instant::now() >= self.expires
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.binding.is_deleted()
    }

    /// Whether something else may be done about the task, now that somebody with this lease works on it.
    pub(super) fn gives_way(&self, urgent: bool, lease: Option<u64>) -> bool {
        urgent || self.is_expired() || lease.is_some_and(|lease| lease != self.analysis.outline.lease)
    }

    /// Returns a summary as it is to stand in the view, behind what it lacks of the user's words; or why it cannot be taken.
    fn read(&self, commit: &CompactionCommit) -> Result<ModelReply, String> {
        let counter = self.analysis.outline.counter;
        let sections =
            if self.order.policy.structured { reply::read_sections(&commit.summary) } else { None };
        let (summary, sections) = sections
            .map_or_else(|| (commit.summary.clone(), None), |(text, sections)| (text, Some(sections)));
        // What is retained beside it tells nothing of what goes.
        quality_gate::says_something(&summary)?;
        quality_gate::tells_enough(&format!("{summary}\n{}", commit.retain), self.partition.tokens, counter)?;
        let retain = Some(commit.retain.clone()).filter(|retain| !retain.is_empty());
        let mut reply = ModelReply { summary, retain, keep: commit.keep.clone(), sections };
        self.preface.put_before(&mut reply);
        let whole = format!("{}\n{}", reply.summary, commit.retain);
        let replaced = self.partition.tokens.saturating_sub(view_analysis::AROUND).max(1);
        let room = self.analysis.room(self.kept + self.analysis.beside(self.carried));
        let sizes = quality_gate::sizes(&commit.retain, (replaced, self.budget, room), self.carried);
        quality_gate::check(&whole, sizes, self.partition.refs_for(self.budget), counter)?;
        Ok(reply)
    }
}

impl Compressor {
    /// Works out what an agent is to summarise. Nothing else is compressed by itself until it has, or its time is over. What
    /// it was to summarise before is given up: whoever asks works on the task now, and may have lost the token.
    pub fn begin_for_agent(
        self: &Arc<Self>,
        store: &Store,
        id: TaskId,
        order: Job,
    ) -> Result<CompactionOffer, StoreError> {
        let place = self.begin(id, true, None).ok_or(StoreError::RewriteInFlight { id })?;
        let binding = store.bind(id)?;
        let store = &store.bound(&binding);
        let analysis = ViewAnalysis::look(store, id, &order, &self.stop)?;
        let partition = Arc::new(Partition::set(store, id, &analysis.outline, &analysis.plan.stays())?);
        if analysis.is_within_target(&order.policy) {
            return Err(StoreError::NothingToSummarize { id, why: compression::WITHIN_TARGET });
        }
        let too_few = partition.messages < analysis.least_messages(&order.policy);
        if too_few || analysis.plan.gone != Gone::Summary {
            return Err(StoreError::NothingToSummarize {
                id,
                why: view_analysis::nothing(&analysis, &partition),
            });
        }
        let carried = analysis.carried(&partition);
        let staying = partition.kept_tokens + analysis.beside(carried);
        let shrunk = view_analysis::make_room(&order.policy, &analysis, &partition, staying)?;
        let made = Replacement::new(shrunk.clone(), analysis.plan_note.clone());
        if !compression::can_be_written(&analysis, &made, &partition, &order) {
            return Err(StoreError::NothingToSummarize { id, why: compression::TOO_MANY_PARTS });
        }
        let kept = partition.kept_tokens - shrunk.saved;
        let budget = view_analysis::summary_budget(&order.policy, &analysis, &partition, kept);
        let retain = order.strategy == Strategy::Compact;
        let preface = Preface::of(&partition, &analysis.outline, budget)?;
        let asked = budget.saturating_sub(preface.tokens);
        let now = Instant::now();
        let begun = PendingCompaction {
            token: Uuid::new_v4().to_string(),
            binding,
            expires_in: self.agent_ttl,
            expires: now + self.agent_ttl,
            began: now,
            analysis,
            partition: Arc::clone(&partition),
            kept,
            shrunk,
            preface,
            budget,
            carried,
            order,
        };
        // What it retains takes the place of what was retained.
        let budget = if retain { asked + carried } else { asked };
        let refs = partition.refs_for(begun.budget);
        let carried = partition.retained.as_ref().map(|_| carried);
        let prompt = words_for(&begun.order.policy, retain, budget, refs, carried);
        let told = CompactionOffer {
            token: begun.token.clone(),
            expires_in: begun.expires_in,
            first_seq: partition.first_seq,
            last_seq: partition.last_seq,
            messages: partition.messages,
            tokens: partition.tokens,
            budget,
            prompt,
            previous: partition.previous.clone(),
            retained: partition.retained.clone(),
            refs: refs.to_vec(),
            partition,
        };
        self.lock().insert(id, Activity::PendingCompaction(Box::new(begun)));
        drop(place);
        Ok(told)
    }

    /// Puts an agent's summary in its place. None if another call was just doing that: it is over then, and what became of
    /// it has to be looked up. Unless the view is another one by now, a summary that could not be put there can be brought
    /// again.
    pub async fn commit_for_agent(
        self: &Arc<Self>,
        store: &Store,
        id: TaskId,
        commit: &CompactionCommit,
    ) -> Result<Option<CompressionOutcome>, StoreError> {
        let Some((begun, _place)) = self.take(id, &commit.token).await? else { return Ok(None) };
        let store = &store.bound(&begun.binding);
        let done = match block_in_place(|| begun.read(commit)) {
            Ok(reply) => self.bring(store, id, &begun, commit, reply).await,
            Err(problem) => Err(StoreError::SummaryRefused { problem }),
        };
        match done {
            Ok(_) | Err(StoreError::StaleView { .. } | StoreError::TaskNotFound { .. }) => {
                block_in_place(|| drop(begun));
            }
            Err(_) => {
                self.lock().insert(id, Activity::PendingCompaction(begun));
            }
        }
        done.map(Some)
    }

    async fn bring(
        &self,
        store: &Store,
        id: TaskId,
        begun: &PendingCompaction,
        commit: &CompactionCommit,
        reply: ModelReply,
    ) -> Result<CompressionOutcome, StoreError> {
        let PendingCompaction { order, analysis, partition, kept, shrunk, began, .. } = begun;
        let order = Job { caller: commit.caller.clone(), asked: commit.asked.clone(), ..order.clone() };
        let mut analysis = analysis.clone();
        let mut made = Replacement::new(shrunk.clone(), analysis.plan_note.clone());
        let summed = WrittenSummary {
            text: reply.summary,
            retain: reply.retain,
            keep: reply.keep,
            sections: reply.sections,
            by: AGENT.to_owned(),
            model: commit.model.clone(),
            ..WrittenSummary::default()
        };
        let mut done = analysis.begun(&order);
        block_in_place(|| take_summary(&mut analysis, &mut made, partition, summed, &order, *kept))?;
        let (after, before) = (*kept + made.tokens(), partition.kept_tokens + partition.tokens);
        if after >= before {
            let problem =
                format!("leaves {after} tokens of {before}: nothing would be saved with what is kept");
            return Err(StoreError::SummaryRefused { problem });
        }
        let compressed = publish(store, id, &mut analysis, &mut made, &order).await?;
        compression::tell(&mut done, &analysis, made, &compressed, *began);
        self.note(store, id, &order, began.elapsed(), &Ok(done.clone()));
        Ok(done)
    }

    /// Gives a compaction up.
    pub async fn abort_for_agent(self: &Arc<Self>, id: TaskId, token: &str) -> Result<(), StoreError> {
        match self.take(id, token).await? {
            Some(taken) => {
                block_in_place(|| drop(taken));
                Ok(())
            }
            None => Err(StoreError::CompactionNotFound { id }),
        }
    }

    /// Takes a compaction over from its token; nobody else begins one in between. None, once that is over, if somebody
    /// else did.
    async fn take(
        self: &Arc<Self>,
        id: TaskId,
        token: &str,
    ) -> Result<Option<(Box<PendingCompaction>, ActiveGuard)>, StoreError> {
        let mut going = self.going.subscribe();
        {
            let mut under_way = self.lock();
            match under_way.remove(&id) {
                Some(Activity::PendingCompaction(begun)) if begun.token == token && !begun.is_expired() => {
                    under_way.insert(id, Activity::Committing(token.to_owned()));
                    return Ok(Some((begun, self.place(id, Urgency::default()))));
                }
                Some(Activity::Committing(other)) if other == token => {
                    under_way.insert(id, Activity::Committing(other));
                }
                other => {
                    under_way.extend(other.map(|other| (id, other)));
                    return Err(StoreError::CompactionNotFound { id });
                }
            }
        }
        let is_on = || matches!(self.lock().get(&id), Some(Activity::Committing(other)) if other == token);
        while is_on() && going.changed().await.is_ok() {}
        Ok(None)
    }
}

/// What a model would be asked to write.
fn words_for(policy: &Policy, retain: bool, budget: u64, refs: &[String], carried: Option<u64>) -> String {
    let purpose = Purpose::Compaction { retain };
    let wanted = Prompt { purpose, policy, budget, carried, refs, refused: None };
    let retain = wanted.retain().map(|retain| format!("Beside it (`retain`): {retain}"));
    [Some(wanted.task()), wanted.form(), retain].into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}
