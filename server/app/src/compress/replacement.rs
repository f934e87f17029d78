//! What is put into a view in the place of what goes: a summary, notes, and what stays on somebody's wish.

use super::compression::{CompressionStep, Job};
use super::literals;
use super::partition::{Gap, Partition};
use super::shrink::Shrunk;
use super::summary::{SummaryTask, SummaryWriter, WrittenSummary};
use super::view_analysis::ViewAnalysis;
use crate::context::Stage;
use crate::model::{Literal, StoreError, SummaryRecord};

/// What is put into a view, and what becomes of what stays.
pub(super) struct Replacement {
    pub(super) summed: WrittenSummary,
    pub(super) summary: Option<(Literal, SummaryRecord)>,
    pub(super) retain: Option<Literal>,
    pub(super) gaps: Vec<(Gap, Literal)>,
    pub(super) shrunk: Shrunk,
    pub(super) plan_note: Option<Literal>,
    /// Tokens of messages that stay as whoever summarised wants them to.
    pub(super) wanted: u64,
}

impl Replacement {
    pub(super) fn new(shrunk: Shrunk, plan_note: Option<Literal>) -> Self {
        Self {
            summed: WrittenSummary::default(),
            summary: None,
            retain: None,
            gaps: Vec::new(),
            shrunk,
            plan_note,
            wanted: 0,
        }
    }

    pub(super) fn tokens(&self) -> u64 {
        let single =
            self.summary.iter().map(|(literal, _)| literal).chain(&self.retain).chain(&self.plan_note);
        let literals = single.chain(self.gaps.iter().map(|(_, literal)| literal));
        literals.map(|literal| literal.tokens).sum::<u64>() + self.wanted
    }

    /// Messages that are new in the view.
    pub(super) fn literals(&self) -> u64 {
        let plan = self.plan_note.is_some() || self.shrunk.renews();
        let single = [self.summary.is_some(), self.retain.is_some(), plan];
        (single.into_iter().filter(|is| *is).count() + self.gaps.len()) as u64
    }
}

/// Takes a summary over, with what it wants to be kept.
pub(super) fn take_summary(
    analysis: &mut ViewAnalysis,
    made: &mut Replacement,
    partition: &Partition,
    summed: WrittenSummary,
    order: &Job,
    kept: u64,
) -> Result<(), StoreError> {
    let counter = analysis.outline.counter;
    let text = summed.text.trim();
    let said = summed.retain.as_deref().map(str::trim).filter(|retain| !retain.is_empty());
    // Where nobody says what to retain now, what was retained stays.
    let retain = said.or(partition.retained.as_deref());
    made.retain = retain.map(|retain| literals::retain(retain, counter));
    if text.is_empty() {
        // Nothing to say: that they are gone is said at least.
        let tail = analysis.plan.tail_from();
        made.gaps.push((Gap::note(tail..tail), literals::gap(partition.messages, counter)));
    } else {
        let literal = literals::summary(partition.first_seq, partition.last_seq, text, counter);
        let (original_tokens, summary_tokens) = (partition.tokens, literal.tokens);
        #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits than an f64 has")]
        let ratio = summary_tokens as f64 / original_tokens.max(1) as f64;
        let record = SummaryRecord {
            id: 0,
            start_seq: partition.first_seq,
            end_seq: partition.last_seq,
            summary: text.to_owned(),
            compressed_message_count: partition.messages,
            original_tokens,
            summary_tokens,
            tokens_saved: original_tokens.saturating_sub(summary_tokens),
            ratio,
            strategy: order.strategy.as_str().to_owned(),
            // An agent need not say which model it asked.
            model: if summed.model.is_empty() { summed.by.clone() } else { summed.model.clone() },
            timestamp: analysis.outline.taken_at,
            sections: summed.sections.clone(),
        };
        made.summary = Some((literal, record));
    }
    if !summed.keep.is_empty() {
        let room = analysis.goal.saturating_sub(kept + made.tokens());
        let groups = analysis.plan.groups_of(&analysis.outline, &summed.keep)?;
        made.wanted = analysis.plan.keep_too(&groups, room);
    }
    made.summed = summed;
    Ok(())
}

/// Notes where messages are missing, or summaries if they are many and there is room.
pub(super) async fn fill_gaps(
    asker: &SummaryWriter<'_>,
    analysis: &ViewAnalysis,
    made: &mut Replacement,
    wanted: &SummaryTask<'_>,
    kept: u64,
    progress: &(dyn Fn(CompressionStep) + Sync),
) -> Result<(), StoreError> {
    let (counter, scoring) = (wanted.outline.counter, &wanted.policy.scoring);
    let gaps = &wanted.partition.gaps;
    let is_long =
        |gap: &Gap| gap.messages >= scoring.min_gap_for_summary && gap.lines > 0 && gap.last_seq > 0;
    // Below that there is time to do without, above it there is none.
    let summarises = analysis.pressure.stage == Stage::Aggressive && gaps.iter().any(is_long);
    let mut summaries = Vec::new();
    if summarises {
        summaries = asker.summarize_gaps(wanted, gaps, &is_long, &mut made.summed, progress).await?;
    }
    let notes: u64 = gaps.iter().map(|gap| literals::gap(gap.messages, counter).tokens).sum();
    let mut room = analysis.goal.saturating_sub(kept + notes);
    let mut summaries = summaries.into_iter();
    for gap in gaps {
        let summary = summaries.next().flatten().filter(|text| is_long(gap) && !text.trim().is_empty());
        // What earlier notes of the gap say stands in the new one.
        let summary = summary.or_else(|| (!gap.summaries.is_empty()).then(|| gap.summaries.join("\n")));
        let range = (gap.first_seq, gap.last_seq);
        let summary = summary.map(|text| literals::gap_summary(range, gap.messages, &text, counter));
        let note = literals::gap(gap.messages, counter);
        let literal = match summary.filter(|summary| summary.tokens <= room + note.tokens) {
            Some(summary) => {
                room -= summary.tokens.saturating_sub(note.tokens);
                summary
            }
            None if gap.messages == 0 => continue,
            None => note,
        };
        made.gaps.push((gap.clone(), literal));
    }
    Ok(())
}
