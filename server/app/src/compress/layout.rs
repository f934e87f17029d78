//! What a new view consists of, and in which order.

use std::ops::Range;

use super::compression::Job;
use super::replacement::Replacement;
use super::selection::{FixedGroup, FixedReason, Selection};
use super::shrink::Shrunk;
use super::view_analysis::ViewAnalysis;
use crate::context::Gone;
use crate::model::Literal;
use crate::store::{NewView, Part};

/// The new view: system prompt, pinned, inherited, plan, retained, summary, and the rest in its order. System messages that
/// came later stand behind the summary: right behind the system prompt they would be a part of it from then on.
pub(super) fn new_view(analysis: &ViewAnalysis, made: &Replacement, order: &Job) -> NewView {
    let plan = &analysis.plan;
    let mut parts = Vec::new();
    let literal = |literal: &Literal| Part::Literal(literal.clone());
    if plan.gone == Gone::Gaps {
        let mut gaps = made.gaps.iter().peekable();
        let mut plan_note = made.plan_note.as_ref();
        let prompt =
            plan.fixed.iter().filter(|stays| stays.why == FixedReason::System).map(|stays| stays.places.end);
        let prompt = prompt.max().unwrap_or(0);
        for places in plan.stays() {
            if places.start >= prompt {
                parts.extend(plan_note.take().map(literal));
            }
            while let Some((_, note)) = gaps.next_if(|(gap, _)| gap.places.start < places.start) {
                parts.push(literal(note));
            }
            kept(plan, places, &made.shrunk, &mut parts);
        }
        parts.extend(plan_note.map(literal));
        parts.extend(gaps.map(|(_, note)| literal(note)));
    } else {
        let tail = plan.tail_from();
        let fixed = |why: FixedReason, places: Range<u64>| {
            let is_one = move |stays: &&FixedGroup| stays.why == why && places.contains(&stays.places.start);
            plan.fixed.iter().filter(is_one).map(|stays| Part::Keep(stays.places.clone()))
        };
        // Messages of the log stay in their order: with the first that came too late go all that are pinned behind it.
        let late = plan.first_late().map_or(tail, |late| late.min(tail));
        parts.extend(fixed(FixedReason::System, 0..tail));
        parts.extend(fixed(FixedReason::Pinned, 0..late));
        parts.extend(fixed(FixedReason::Inherited, 0..tail));
        parts.extend(made.plan_note.as_ref().map(literal));
        parts.extend(fixed(FixedReason::Summary, 0..tail));
        parts.extend(made.retain.as_ref().map(literal));
        parts.extend(made.gaps.iter().map(|(_, note)| literal(note)));
        parts.extend(made.summary.as_ref().map(|(summary, _)| literal(summary)));
        parts.extend(fixed(FixedReason::Pinned, late..tail));
        for places in plan.stays().into_iter().filter(|places| places.start >= tail) {
            kept(plan, places, &made.shrunk, &mut parts);
        }
    }
    NewView {
        strategy: order.strategy.as_str().to_owned(),
        base: analysis.outline.generation,
        seen: plan.messages,
        last_seq: analysis.outline.last_seq,
        message_tokens: analysis.outline.message_tokens,
        pins: analysis.outline.pins.clone(),
        covers: plan.covers,
        reason: if order.automatic { "automatic".to_owned() } else { "asked for".to_owned() },
        parts,
        summaries: made.summary.iter().map(|(_, record)| record.clone()).collect(),
    }
}

/// Messages that stay, made smaller if they may be.
fn kept(plan: &Selection, places: Range<u64>, shrunk: &Shrunk, parts: &mut Vec<Part>) {
    if plan.fixed.iter().any(|stays| stays.places == places) {
        parts.push(Part::Keep(places));
    } else {
        shrunk.parts(places, parts);
    }
}
