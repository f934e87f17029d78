//! A view that is to be compressed: how small it has to get, and what there is room for.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::apart::Apart;
use super::gate;
use super::plan::{Fixed, Plan};
use super::plan_note::{self, Noted};
use super::run::{Done, Order};
use super::squeeze::Squeezed;
use super::words;
use crate::context::{Gone, Policy, Pressure, Stage, Strategy, Whole, count_text};
use crate::model::{Literal, StoreError, TaskId};
use crate::store::{Outline, Store};

/// What a summary and the line above it take at least; below it there is no point.
const LEAST_SUMMARY: u64 = 64;
/// What a summary may have where a tenth of the limit would be less: in a small context, too, it has to tell what was asked.
const USUAL_SUMMARY: u64 = 4000;
/// The line above a summary, and what is around a message.
pub(super) const AROUND: u64 = 20;

/// A view with what is to become of it.
#[derive(Clone)]
pub(super) struct Looked {
    pub(super) outline: Outline,
    pub(super) plan: Plan,
    pub(super) pressure: Pressure,
    /// Tokens to come down to, as counted.
    pub(super) goal: u64,
    /// The same as it would be if what has to stay left room enough.
    asked: u64,
    /// Tokens that have to be saved if nobody asked for it.
    pub(super) worth: u64,
    /// The newest plan, if it is to stay in the view.
    pub(super) plan_note: Option<Literal>,
}

impl Looked {
    /// Looks at a view. Blocks.
    pub(super) fn look(
        store: &Store,
        id: TaskId,
        order: &Order,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, StoreError> {
        let mut outline = store.outline(id)?;
        outline.stop = Arc::clone(stop);
        let pressure = Pressure::of(outline.present, &order.policy);
        let asked = outline.counted(order.policy.goal(order.strategy));
        let plan_note = plan_note::newest(store, id, &order.policy, &outline)?;
        let noted = plan_note.as_ref().map_or(0, |literal| literal.tokens);
        let make = |goal: u64| {
            // What is missing is to be summarised then, which takes room.
            let summaries = if is_summarised(order.strategy, &pressure) { goal / 10 } else { 0 };
            let whole = Whole { messages: outline.messages, goal: goal - summaries };
            Plan::make(&outline, &order.policy, order.strategy, whole, noted)
        };
        let (mut plan, mut goal, mut worth) = (make(asked)?, asked, order.policy.worth());
        if let Some(room) = raised_goal(&order.policy, &outline, plan.fixed_and_current() + noted, asked) {
            goal = room.goal;
            worth = worth.max(room.worth);
            plan = make(goal)?;
        }
        Ok(Self { outline, plan, pressure, goal, asked, worth, plan_note })
    }

    /// Tokens of what is put beside a summary: the plan, and what was retained before.
    pub(super) fn beside(&self, carried: u64) -> u64 {
        self.plan_note.as_ref().map_or(0, |literal| literal.tokens) + carried
    }

    /// Tokens of what was retained before, which stays unless something else takes its place.
    pub(super) fn carried(&self, apart: &Apart) -> u64 {
        apart.retained.as_deref().map_or(0, |text| words::retain(text, self.outline.counter).tokens)
    }

    /// The note of an older plan, if the view has one and it is to stay.
    pub(super) fn older_plan(&self) -> Option<&Noted> {
        let older = self.plan.noted.as_ref()?;
        self.plan_note.as_ref().filter(|note| plan_note::is_other(note, older)).map(|_| older)
    }

    pub(super) fn is_emergency(&self) -> bool {
        self.pressure.stage == Stage::Emergency
    }

    /// Returns how many messages there must be to summarise: over the limit, one is enough.
    pub(super) fn least_messages(&self, policy: &Policy) -> u64 {
        if self.is_emergency() { 1 } else { policy.min_messages.max(1) }
    }

    /// Says whether the view has no more tokens than the call asks for.
    pub(super) fn is_within_target(&self, policy: &Policy) -> bool {
        policy.target_tokens.is_some_and(|target| self.pressure.tokens <= target)
    }

    /// Whether what may not go is too large alone.
    pub(super) fn is_over(&self, carried: u64) -> bool {
        let fixed = self.plan.fixed_tokens();
        fixed.saturating_add(self.beside(carried)).saturating_add(LEAST_SUMMARY) > self.asked
    }

    /// Says by how much a target was missed, and what has to stay; empty if it was not.
    pub(super) fn shortfall(&self, policy: &Policy, apart: &Apart, after: u64) -> String {
        let Some(over) =
            policy.target_tokens.and_then(|target| after.checked_sub(target)).filter(|over| *over > 0)
        else {
            return String::new();
        };
        let told = |counted: u64| self.outline.calibration.apply(counted);
        let of = |why: Fixed| {
            self.plan.fixed.iter().filter(|stays| stays.why == why).map(|stays| stays.tokens).sum::<u64>()
        };
        let parts = [
            ("tools", self.outline.tools_tokens),
            ("system prompt", of(Fixed::System)),
            ("pinned messages", of(Fixed::Pinned)),
            ("inherited context", of(Fixed::Inherited)),
            ("earlier summaries", of(Fixed::Summary)),
            ("plan", self.plan_note.as_ref().map_or(0, |literal| literal.tokens)),
            ("last user message", self.plan.current_request.map_or(0, |request| request.most)),
            ("calls without results", of(Fixed::Open)),
        ];
        let known = parts.iter().map(|(_, tokens)| told(*tokens)).sum::<u64>();
        let parts = parts.map(|(name, tokens)| (name, told(tokens)));
        let rest = ("newest messages, notes and summaries", after.saturating_sub(known));
        let named = parts.into_iter().chain([rest]).filter(|(_, tokens)| *tokens > 0);
        let named: Vec<String> = named.map(|(name, tokens)| format!("{name} {tokens}")).collect();
        let few = if self.plan.gone == Gone::Summary && apart.messages < self.least_messages(policy) {
            format!("; min_messages is {} and only {} could go", policy.min_messages, apart.messages)
        } else {
            String::new()
        };
        format!("target_missed: {over} tokens too many: {}{few}", named.join(", "))
    }

    /// Tokens that a summary may have beside what stays.
    pub(super) fn room(&self, kept: u64) -> u64 {
        self.goal.saturating_sub(kept + AROUND)
    }

    pub(super) fn begun(&self, order: &Order) -> Done {
        // With what stands for results that never came.
        let messages = self.outline.messages.max(self.plan.messages);
        Done {
            strategy: order.strategy.as_str(),
            emergency: self.is_emergency(),
            messages_before: messages,
            messages_after: messages,
            tokens_before: self.pressure.tokens,
            tokens_after: self.pressure.tokens,
            generation: self.outline.generation,
            ..Done::default()
        }
    }
}

/// Whether gaps become summaries rather than notes.
fn is_summarised(strategy: Strategy, pressure: &Pressure) -> bool {
    strategy == Strategy::Prune && pressure.stage == Stage::Aggressive
}

/// Tokens beside what has to stay, at most: a fifth of the limit, if that is less.
const MOST_ROOM: u64 = 8000;

/// A goal that was raised, and what has to be saved then.
struct Room {
    goal: u64,
    worth: u64,
}

/// Returns the tokens, as counted, that there have to be beside what has to stay.
fn least_room(policy: &Policy, outline: &Outline) -> u64 {
    // The tools are no part of it.
    outline.counted((policy.limit / 5).min(MOST_ROOM) + outline.told(0))
}

/// Returns a higher goal where what has to stay leaves hardly anything of it: without one the whole history would become a
/// few words, again and again, in a context that is far from full. None if there is room enough, or if the call says how
/// many tokens it wants.
fn raised_goal(policy: &Policy, outline: &Outline, fixed: u64, goal: u64) -> Option<Room> {
    if policy.target_tokens.is_some() {
        return None;
    }
    let room = fixed.saturating_add(outline.tools_tokens).saturating_mul(3).min(least_room(policy, outline));
    let raised = fixed.saturating_add(room).min(outline.counted(policy.limit / 10 * 9));
    (raised > goal).then(|| Room { goal: raised, worth: outline.calibration.apply(room / 2) })
}

/// Returns the tokens that the last message of the user keeps beside what else has to stay: all of them, unless it leaves too
/// little room within nine tenths of the limit. Then it is shortened to what the goal has room for, as the view would be due
/// again at once.
pub(super) fn current_request_budget(
    order: (&Policy, Strategy),
    outline: &Outline,
    fixed: u64,
    tokens: u64,
) -> u64 {
    let (policy, strategy) = order;
    let beside =
        |most: u64| most.saturating_sub(fixed.saturating_add(least_room(policy, outline))).max(LEAST_SUMMARY);
    if tokens <= beside(outline.counted(policy.limit / 10 * 9)) {
        return tokens;
    }
    beside(outline.counted(policy.goal(strategy).min(policy.limit)))
}

/// Why nothing can go.
pub(super) fn nothing(looked: &Looked, apart: &Apart) -> &'static str {
    let is_over = looked.is_emergency() || (looked.is_over(0) && apart.messages == 0);
    if is_over { "incompressible" } else { "nothing" }
}

/// What stays is made smaller where it leaves no room for what is put into the view.
pub(super) fn make_room(
    policy: &Policy,
    looked: &Looked,
    apart: &Apart,
    staying: u64,
) -> Result<Squeezed, StoreError> {
    let reserve = match looked.plan.gone {
        Gone::Summary => {
            (apart.tokens / 3).min(looked.goal / 5).max(LEAST_SUMMARY.min(apart.tokens)) + AROUND
        }
        Gone::Note | Gone::Gaps => AROUND,
    };
    let need = (staying + reserve).saturating_sub(looked.goal);
    let plan = &looked.plan;
    Squeezed::squeeze(&looked.outline, &policy.outputs, &plan.keep, plan.current_request, need)
}

/// Tokens that a summary may have beside what stays, the plan and what was retained.
pub(super) fn summary_budget(policy: &Policy, looked: &Looked, apart: &Apart, kept: u64) -> u64 {
    if looked.plan.gone != Gone::Summary {
        return 0;
    }
    let carried = looked.carried(apart);
    let room = looked.room(kept + looked.beside(carried));
    let gone = apart.tokens.saturating_sub(carried);
    let usual = match (policy.summary_tokens, policy.target_tokens) {
        (Some(own), _) => own,
        (None, Some(_)) => room,
        (None, None) => {
            // The tools are no part of it.
            let most = (policy.limit / 10).max(USUAL_SUMMARY) + looked.outline.told(0);
            let earlier =
                apart.previous.as_deref().map_or(0, |text| count_text(looked.outline.counter, text));
            (gone / 3).max(earlier).min(looked.outline.counted(most))
        }
    };
    // It has to be smaller than what it stands for, with the line above it.
    let smaller = (gone / 10 * 9).saturating_sub(AROUND);
    usual.min(room).min(smaller).min(gate::MOST_TOKENS).max(LEAST_SUMMARY.min(smaller))
}
