//! Summaries by the agent itself: it is told what to summarise, and given a token to bring the summary with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::block_in_place;
use uuid::Uuid;

use super::budget::{AROUND, Budget, Counted};
use super::compression::{TOO_MANY_PARTS, publish};
use super::job::{CompressionOutcome, Job};
use super::partition::Partition;
use super::preface::Preface;
use super::prompt::{Prompt, Purpose};
use super::replacement::Replacement;
use super::reply::ModelReply;
use super::scheduler::{ActiveGuard, Activity, Urgency};
use super::summary::WrittenSummary;
use super::view_analysis::{ViewAnalysis, WITHIN_TARGET};
use super::{Compressor, MessageFile, quality_gate, reply};
use crate::context::{Gone, Policy, Strategy};
use crate::model::{StoreError, TaskId};
use crate::store::{Binding, Caller, Store};

/// The agent, as it is told who summarised.
pub(super) const AGENT: &str = "agent";

/// What an agent is to summarise.
pub(super) struct PendingCompaction {
    /// Names this compaction in CommitCompaction.
    token: String,
    /// The time that is left for the summary.
    expires_in: Duration,
    expires: Instant,
    began: Instant,
    job: Job,
    /// The task it was begun for, which may be deleted since.
    binding: Binding,
    analysis: ViewAnalysis,
    partition: Arc<Partition>,
    /// What stands in front of the summary, as far as the summary lacks it.
    preface: Preface,
    budget: Budget,
}

/// What an agent is told.
#[derive(Debug)]
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
#[derive(Debug)]
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

    /// Returns what the agent is told.
    fn offer(&self) -> CompactionOffer {
        let Budget { summary, carried, .. } = self.budget;
        let partition = &self.partition;
        let retain = self.job.strategy == Strategy::Compact;
        let asked = summary.0.saturating_sub(self.preface.tokens);
        // What it retains takes the place of what was retained.
        let budget = if retain { asked + carried.0 } else { asked };
        let refs = partition.refs_for(summary.0);
        let carried = partition.retained.as_ref().map(|_| carried.0);
        CompactionOffer {
            token: self.token.clone(),
            expires_in: self.expires_in,
            first_seq: partition.first_seq,
            last_seq: partition.last_seq,
            messages: partition.messages,
            tokens: partition.tokens,
            budget,
            prompt: prompt_for_agent(&self.job.policy, retain, budget, refs, carried),
            previous: partition.previous.clone(),
            retained: partition.retained.clone(),
            refs: refs.to_vec(),
            partition: Arc::clone(partition),
        }
    }

    /// Returns a summary as it is to stand in the view, behind what it lacks of the user's words; or why it cannot be taken.
    fn read(&self, commit: &CompactionCommit) -> Result<ModelReply, String> {
        let counter = self.analysis.outline.counter;
        let sections = if self.job.policy.structured { reply::read_sections(&commit.summary) } else { None };
        let (summary, sections) = sections
            .map_or_else(|| (commit.summary.clone(), None), |(text, sections)| (text, Some(sections)));
        // What is retained beside it tells nothing of what goes.
        quality_gate::says_something(&summary)?;
        quality_gate::tells_enough(&format!("{summary}\n{}", commit.retain), self.partition.tokens, counter)?;
        let retain = Some(commit.retain.clone()).filter(|retain| !retain.is_empty());
        let mut reply = ModelReply { summary, retain, keep: commit.keep.clone(), sections };
        self.preface.put_before(&mut reply);
        let whole = format!("{}\n{}", reply.summary, commit.retain);
        let Budget { summary, room, carried, .. } = self.budget;
        let replaced = (Counted(self.partition.tokens) - AROUND).0.max(1);
        let sizes = quality_gate::sizes(&commit.retain, (replaced, summary.0, room.0), carried.0);
        quality_gate::check(&whole, sizes, self.partition.refs_for(summary.0), counter)?;
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
        job: Job,
    ) -> Result<CompactionOffer, StoreError> {
        let place = self.begin(id, true, None).ok_or(StoreError::RewriteInFlight { id })?;
        let binding = store.bind(id)?;
        let store = &store.bound(&binding);
        let analysis = ViewAnalysis::of(store, id, &job, &self.stop)?;
        let partition = Arc::new(Partition::set(store, id, &analysis.outline, &analysis.selection.ranges())?);
        let nothing = |why| Err(StoreError::NothingToSummarize { id, why });
        if analysis.is_within_target(&job.policy) {
            return nothing(WITHIN_TARGET);
        }
        if analysis.has_too_few(&job.policy, &partition) || analysis.selection.gone != Gone::Summary {
            return nothing(analysis.why_nothing(&partition));
        }
        let budget = Budget::of(&job.policy, &analysis, &partition)?;
        let replacement = Replacement::new(budget.shrunk.clone(), analysis.plan_note.clone());
        if !replacement.can_be_written(&analysis, &partition, &job) {
            return nothing(TOO_MANY_PARTS);
        }
        let preface = Preface::of(&partition, &analysis.outline, budget.summary.0)?;
        let now = Instant::now();
        let pending = PendingCompaction {
            token: Uuid::new_v4().to_string(),
            binding,
            expires_in: self.agent_ttl,
            expires: now + self.agent_ttl,
            began: now,
            analysis,
            partition,
            preface,
            budget,
            job,
        };
        let offer = pending.offer();
        self.lock().insert(id, Activity::Begun(Box::new(pending)));
        drop(place);
        Ok(offer)
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
                self.lock().insert(id, Activity::Begun(begun));
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
        let PendingCompaction { job, analysis, partition, budget, began, .. } = begun;
        let job = Job { caller: commit.caller.clone(), asked: commit.asked.clone(), ..job.clone() };
        let mut analysis = analysis.clone();
        let mut replacement = Replacement::new(budget.shrunk.clone(), analysis.plan_note.clone());
        let written = WrittenSummary {
            text: reply.summary,
            retain: reply.retain,
            keep: reply.keep,
            sections: reply.sections,
            by: AGENT.to_owned(),
            model: commit.model.clone(),
            ..WrittenSummary::default()
        };
        let mut outcome = CompressionOutcome::unchanged(&analysis, &job);
        block_in_place(|| replacement.take_summary(&mut analysis, partition, written, &job, budget.kept))?;
        let after = (budget.kept + replacement.tokens()).0;
        let before = partition.kept_tokens + partition.tokens;
        if after >= before {
            let problem =
                format!("leaves {after} tokens of {before}: nothing would be saved with what is kept");
            return Err(StoreError::SummaryRefused { problem });
        }
        let compressed = publish(store, id, &mut analysis, &mut replacement, &job).await?;
        outcome.record(&analysis, replacement, &compressed);
        outcome.took = began.elapsed();
        self.note(store, id, &job, began.elapsed(), &Ok(outcome.clone()));
        Ok(outcome)
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
                Some(Activity::Begun(begun)) if begun.token == token && !begun.is_expired() => {
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
fn prompt_for_agent(
    policy: &Policy,
    retain: bool,
    budget: u64,
    refs: &[String],
    carried: Option<u64>,
) -> String {
    let purpose = Purpose::Compaction { retain };
    let wanted = Prompt { purpose, policy, budget, carried, refs, refused: None };
    let retain = wanted.retain().map(|retain| format!("Beside it (`retain`): {retain}"));
    [Some(wanted.task()), wanted.form(), retain].into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}
