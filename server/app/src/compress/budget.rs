//! How many tokens a new view and its parts may have.

use std::ops::{Add, Sub};

use super::partition::Partition;
use super::plan_note::EarlierPlanNote;
use super::quality_gate;
use super::shrink::Shrunk;
use super::view_analysis::ViewAnalysis;
use crate::context::{Gone, Policy, Strategy, count_text};
use crate::model::{Literal, StoreError};
use crate::store::Outline;

/// The fewest tokens of a summary with the line above it; a shorter one has no point.
pub(super) const LEAST_SUMMARY: Counted = Counted(64);
/// The tokens of a summary where a tenth of the limit would be less: in a small context, too, it has to say what was asked.
const USUAL_SUMMARY: u64 = 4000;
/// The tokens of the line above a summary, and of what is around a message.
pub(super) const AROUND: Counted = Counted(20);
/// The most tokens of the least room, which is a fifth of the limit if that is less.
const MOST_ROOM: u64 = 8000;

/// Tokens as the task's counter counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Counted(pub(super) u64);

/// Tokens as the provider counts them, with the tools. Limits, thresholds and targets are in these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Calibrated(pub(super) u64);

impl Counted {
    /// Returns what a provider would count for a view of so many tokens, with the tools.
    pub(super) fn calibrated(self, outline: &Outline) -> Calibrated {
        Calibrated(outline.told(self.0))
    }

    /// Returns what a provider would count for a part of a view.
    pub(super) fn calibrated_part(self, outline: &Outline) -> Calibrated {
        Calibrated(outline.calibration.apply(self.0))
    }
}

impl Calibrated {
    /// Returns the tokens of a view that a provider would count as so many, with the tools.
    pub(super) fn counted(self, outline: &Outline) -> Counted {
        Counted(outline.counted(self.0))
    }

    /// Returns the tokens of a part of a view that a provider would count as so many.
    pub(super) fn counted_part(self, outline: &Outline) -> Counted {
        Counted(outline.counted(self.0 + outline.told(0)))
    }
}

impl Add for Counted {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Counted {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// The goal of a compression, and what has to be saved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goal {
    /// The tokens that the view is to have.
    pub(super) goal: Counted,
    /// The tokens that an automatic compression has to save.
    pub(super) worth: Calibrated,
}

/// Returns the room that there has to be beside what has to stay.
fn least_room(policy: &Policy, outline: &Outline) -> Counted {
    Calibrated((policy.limit / 5).min(MOST_ROOM)).counted_part(outline)
}

/// Returns the tokens that what has to stay and the least room may have together.
fn most_of_limit(policy: &Policy, outline: &Outline) -> Counted {
    Calibrated(policy.limit / 10 * 9).counted(outline)
}

impl Goal {
    /// Returns a higher goal where what has to stay leaves hardly anything of it: without one the whole history would become a
    /// few words, again and again, in a context that is far from full. None if there is room enough, or if the call says how
    /// many tokens it wants.
    pub(super) fn raised(
        policy: &Policy,
        outline: &Outline,
        staying: Counted,
        goal: Counted,
    ) -> Option<Self> {
        if policy.target_tokens.is_some() {
            return None;
        }
        let thrice = (staying + Counted(outline.tools_tokens)).0.saturating_mul(3);
        let room = Counted(thrice).min(least_room(policy, outline));
        let raised = (staying + room).min(most_of_limit(policy, outline));
        let worth = Counted(room.0 / 2).calibrated_part(outline).max(Calibrated(policy.worth()));
        (raised > goal).then_some(Self { goal: raised, worth })
    }
}

/// Returns the tokens that the last message of the user keeps beside what else has to stay: all of them, unless it leaves too
/// little room within nine tenths of the limit. Then it is shortened to what the goal has room for, as the view would be due
/// again at once.
pub(super) fn current_request_budget(
    (policy, strategy): (&Policy, Strategy),
    outline: &Outline,
    staying: Counted,
    request: Counted,
) -> Counted {
    let beside = |most: Counted| (most - (staying + least_room(policy, outline))).max(LEAST_SUMMARY);
    if request <= beside(most_of_limit(policy, outline)) {
        return request;
    }
    beside(Calibrated(policy.goal(strategy).min(policy.limit)).counted(outline))
}

/// What a new view may consist of.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    /// The messages that stay and are made smaller.
    pub(super) shrunk: Shrunk,
    /// Tokens of the messages that stay, made smaller.
    pub(super) kept: Counted,
    /// Tokens of what was retained before, which stays unless something else takes its place.
    pub(super) carried: Counted,
    /// Tokens of the plan and of what was retained before.
    pub(super) beside: Counted,
    /// Tokens of a summary, as it is asked for.
    pub(super) summary: Counted,
    /// Tokens of a summary that there is room for.
    pub(super) room: Counted,
}

impl Budget {
    /// Returns the budget where the messages that the strategy chose stay, and a summary or notes stand for the others.
    pub(super) fn of(
        policy: &Policy,
        analysis: &ViewAnalysis,
        partition: &Partition,
    ) -> Result<Self, StoreError> {
        let carried = analysis.carried(partition);
        let beside = analysis.plan_tokens() + carried;
        let staying = Counted(partition.kept_tokens);
        let shrunk = shrink(policy, analysis, partition, staying + beside)?;
        let kept = staying - Counted(shrunk.saved);
        let room = analysis.goal - (kept + beside + AROUND);
        let summary = match analysis.selection.gone {
            Gone::Summary => summary_budget(policy, analysis, partition, carried, room),
            Gone::Note | Gone::Gaps => Counted(0),
        };
        Ok(Self { shrunk, kept, carried, beside, summary, room })
    }

    /// Returns the budget where all messages stay, as too few could go; a newer plan may stand in the place of an older one.
    pub(super) fn of_all(
        policy: &Policy,
        analysis: &ViewAnalysis,
        partition: &Partition,
        renewal: Option<(Literal, EarlierPlanNote)>,
    ) -> Result<Self, StoreError> {
        let mut staying = Counted(partition.kept_tokens + partition.tokens);
        if let Some((note, older)) = &renewal {
            staying = staying - Counted(older.tokens) + Counted(note.tokens);
        }
        let mut shrunk = shrink(policy, analysis, partition, staying)?;
        let kept = staying - Counted(shrunk.saved);
        if let Some((note, older)) = renewal {
            shrunk.renew(older.place, note);
        }
        let none = Counted(0);
        Ok(Self { shrunk, kept, carried: none, beside: none, summary: none, room: none })
    }
}

/// Makes what stays smaller where it leaves no room for what is put into the view.
fn shrink(
    policy: &Policy,
    analysis: &ViewAnalysis,
    partition: &Partition,
    staying: Counted,
) -> Result<Shrunk, StoreError> {
    let selection = &analysis.selection;
    let reserve = match selection.gone {
        Gone::Summary => {
            let usual = (partition.tokens / 3).min(analysis.goal.0 / 5);
            Counted(usual.max(LEAST_SUMMARY.0.min(partition.tokens))) + AROUND
        }
        Gone::Note | Gone::Gaps => AROUND,
    };
    let need = staying + reserve - analysis.goal;
    Shrunk::shrink(&analysis.outline, &policy.outputs, &selection.keep, selection.current_request, need.0)
}

/// Returns the tokens that are asked for of a summary: those that the configuration or the target says, else a third of what it
/// stands for, and no fewer than the summary before it had.
fn summary_budget(
    policy: &Policy,
    analysis: &ViewAnalysis,
    partition: &Partition,
    carried: Counted,
    room: Counted,
) -> Counted {
    let outline = &analysis.outline;
    let gone = Counted(partition.tokens) - carried;
    let usual = match (policy.summary_tokens, policy.target_tokens) {
        (Some(own), _) => Counted(own),
        (None, Some(_)) => room,
        (None, None) => {
            let most = Calibrated((policy.limit / 10).max(USUAL_SUMMARY)).counted_part(outline);
            let earlier = partition.previous.as_deref().map_or(0, |text| count_text(outline.counter, text));
            Counted((gone.0 / 3).max(earlier)).min(most)
        }
    };
    // It has to be smaller than what it stands for, with the line above it.
    let smaller = Counted(gone.0 / 10 * 9) - AROUND;
    usual.min(room).min(smaller).min(Counted(quality_gate::MOST_TOKENS)).max(LEAST_SUMMARY.min(smaller))
}
