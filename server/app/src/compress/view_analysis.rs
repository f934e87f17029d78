//! A view that is to be compressed: what a strategy chooses of it, and how small it has to get.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::budget::{Calibrated, Counted, Goal, LEAST_SUMMARY};
use super::job::Job;
use super::literals;
use super::partition::Partition;
use super::plan_note::{self, EarlierPlanNote};
use super::selection::{FixedReason, Selection};
use crate::context::{Gone, Policy, Pressure, Stage, Strategy, Whole};
use crate::model::{Literal, StoreError, TaskId};
use crate::store::{Outline, Store};

/// Why a view is left alone that has no more tokens than the call asks for.
pub(super) const WITHIN_TARGET: &str = "within_target";
/// Why a view is left alone of which too few messages may go.
pub(super) const NOTHING: &str = "nothing";
/// Why a view is left alone that is too large by what has to stay.
pub(super) const INCOMPRESSIBLE: &str = "incompressible";

/// A view with what is to become of it.
#[derive(Clone)]
pub(super) struct ViewAnalysis {
    pub(super) outline: Outline,
    pub(super) selection: Selection,
    pub(super) pressure: Pressure,
    /// The tokens that the view is to have.
    pub(super) goal: Counted,
    /// The same as it would be if what has to stay left room enough.
    unraised_goal: Counted,
    /// The tokens that an automatic compression has to save.
    pub(super) worth: Calibrated,
    /// The newest plan, if it is to stay in the view.
    pub(super) plan_note: Option<Literal>,
}

impl ViewAnalysis {
    /// Looks through the view of a task. Blocks.
    pub(super) fn of(
        store: &Store,
        id: TaskId,
        job: &Job,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, StoreError> {
        let policy = &job.policy;
        let mut outline = store.outline(id)?;
        outline.stop = Arc::clone(stop);
        let pressure = Pressure::of(outline.present, policy);
        let unraised_goal = Calibrated(policy.goal(job.strategy)).counted(&outline);
        let plan_note = plan_note::newest(store, id, policy, &outline)?;
        let plan_tokens = plan_note.as_ref().map_or(0, |literal| literal.tokens);
        let select = |goal: Counted| {
            // Gaps that are summarised take room.
            let is_summarised = job.strategy == Strategy::Prune && pressure.stage == Stage::Aggressive;
            let summaries = if is_summarised { goal.0 / 10 } else { 0 };
            let whole = Whole { messages: outline.messages, goal: goal.0 - summaries };
            Selection::make(&outline, policy, job.strategy, whole, plan_tokens)
        };
        let mut selection = select(unraised_goal)?;
        let (mut goal, mut worth) = (unraised_goal, Calibrated(policy.worth()));
        let staying = Counted(selection.fixed_and_current() + plan_tokens);
        if let Some(raised) = Goal::raised(policy, &outline, staying, unraised_goal) {
            (goal, worth) = (raised.goal, raised.worth);
            selection = select(goal)?;
        }
        Ok(Self { outline, selection, pressure, goal, unraised_goal, worth, plan_note })
    }

    /// Returns the tokens of the newest plan, if it is to stay.
    pub(super) fn plan_tokens(&self) -> Counted {
        Counted(self.plan_note.as_ref().map_or(0, |literal| literal.tokens))
    }

    /// Returns the tokens of what was retained before, which stays unless something else takes its place.
    pub(super) fn carried(&self, partition: &Partition) -> Counted {
        let counter = self.outline.counter;
        Counted(partition.retained.as_deref().map_or(0, |text| literals::retain(text, counter).tokens))
    }

    /// Returns the note of an older plan, if the view has one and a newer one is to stay.
    pub(super) fn older_plan(&self) -> Option<EarlierPlanNote> {
        let older = self.selection.plan_note.as_ref()?;
        let newer = self.plan_note.as_ref()?;
        plan_note::is_other(newer, older).then(|| older.clone())
    }

    /// Says whether the view is over the limit.
    pub(super) fn is_emergency(&self) -> bool {
        self.pressure.stage == Stage::Emergency
    }

    /// Says whether too few messages can go for a summary: over the limit, one is enough.
    pub(super) fn has_too_few(&self, policy: &Policy, partition: &Partition) -> bool {
        let least = if self.is_emergency() { 1 } else { policy.min_messages.max(1) };
        self.selection.gone == Gone::Summary && partition.messages < least
    }

    /// Says whether the view has no more tokens than the call asks for.
    pub(super) fn is_within_target(&self, policy: &Policy) -> bool {
        policy.target_tokens.is_some_and(|target| self.pressure.tokens <= target)
    }

    /// Says whether what may not go, with the plan and what was retained, is too large alone.
    pub(super) fn is_over(&self, beside: Counted) -> bool {
        Counted(self.selection.fixed_tokens()) + beside + LEAST_SUMMARY > self.unraised_goal
    }

    /// Returns why nothing can go.
    pub(super) fn why_nothing(&self, partition: &Partition) -> &'static str {
        let is_over = self.is_emergency() || (self.is_over(self.plan_tokens()) && partition.messages == 0);
        if is_over { INCOMPRESSIBLE } else { NOTHING }
    }

    /// Returns by how much a target was missed, and what has to stay; empty if it was not.
    pub(super) fn shortfall(&self, policy: &Policy, partition: &Partition, after: u64) -> String {
        let missed = policy.target_tokens.and_then(|target| after.checked_sub(target));
        let Some(over) = missed.filter(|over| *over > 0) else { return String::new() };
        let fixed = |reason: FixedReason| {
            let groups = self.selection.fixed.iter().filter(|group| group.reason == reason);
            groups.map(|group| group.tokens).sum::<u64>()
        };
        let parts = [
            ("tools", self.outline.tools_tokens),
            ("system prompt", fixed(FixedReason::System)),
            ("pinned messages", fixed(FixedReason::Pinned)),
            ("inherited context", fixed(FixedReason::Inherited)),
            ("earlier summaries", fixed(FixedReason::Summary)),
            ("plan", self.plan_tokens().0),
            ("last user message", self.selection.current_request.map_or(0, |request| request.most)),
            ("calls without results", fixed(FixedReason::Open)),
        ];
        let parts = parts.map(|(name, tokens)| (name, Counted(tokens).calibrated_part(&self.outline).0));
        let known: u64 = parts.iter().map(|(_, tokens)| tokens).sum();
        let rest = ("newest messages, notes and summaries", after.saturating_sub(known));
        let named = parts.into_iter().chain([rest]).filter(|(_, tokens)| *tokens > 0);
        let named: Vec<String> = named.map(|(name, tokens)| format!("{name} {tokens}")).collect();
        let few = if self.has_too_few(policy, partition) {
            format!("; min_messages is {} and only {} could go", policy.min_messages, partition.messages)
        } else {
            String::new()
        };
        format!("target_missed: {over} tokens too many: {}{few}", named.join(", "))
    }
}
