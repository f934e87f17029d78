//! What takes the place of the messages that go, and the new view that it is a part of.

use std::ops::Range;

use super::budget::Counted;
use super::job::{CompressionStep, Job};
use super::literals;
use super::partition::{Gap, Partition};
use super::selection::{FixedReason, Selection};
use super::shrink::Shrunk;
use super::summary::{SummaryTask, SummaryWriter, WrittenSummary};
use super::view_analysis::ViewAnalysis;
use crate::context::{Gone, Stage};
use crate::model::{Literal, Rewrite, StoreError, SummaryRecord};
use crate::store::{NewView, Part};

/// The most parts of a new view, beside a summary and what is retained.
const MOST_PARTS: usize = Rewrite::MAX_SEGMENTS - 2;

/// What takes the place of the messages that go.
pub(super) struct Replacement {
    /// The summary as it was written, and by whom.
    pub(super) written: WrittenSummary,
    pub(super) summary: Option<(Literal, SummaryRecord)>,
    pub(super) retain: Option<Literal>,
    pub(super) gaps: Vec<(Gap, Literal)>,
    /// The messages that stay and are made smaller.
    pub(super) shrunk: Shrunk,
    pub(super) plan_note: Option<Literal>,
    /// Tokens of messages that stay as whoever wrote the summary wants them to.
    wanted: u64,
}

impl Replacement {
    /// Returns a replacement that says nothing yet of the messages that go.
    pub(super) fn new(shrunk: Shrunk, plan_note: Option<Literal>) -> Self {
        Self {
            written: WrittenSummary::default(),
            summary: None,
            retain: None,
            gaps: Vec::new(),
            shrunk,
            plan_note,
            wanted: 0,
        }
    }

    /// Returns the tokens of what is inserted, and of the messages that stay on its author's wish.
    pub(super) fn tokens(&self) -> Counted {
        let single =
            self.summary.iter().map(|(literal, _)| literal).chain(&self.retain).chain(&self.plan_note);
        let literals = single.chain(self.gaps.iter().map(|(_, literal)| literal));
        Counted(literals.map(|literal| literal.tokens).sum::<u64>() + self.wanted)
    }

    /// Returns how many messages are inserted into the view.
    pub(super) fn inserted_messages(&self) -> u64 {
        let plan = self.plan_note.is_some() || self.shrunk.renews();
        let single = [self.summary.is_some(), self.retain.is_some(), plan];
        (single.into_iter().filter(|is| *is).count() + self.gaps.len()) as u64
    }

    /// Takes a summary over, with the messages that its author wants to be kept.
    pub(super) fn take_summary(
        &mut self,
        analysis: &mut ViewAnalysis,
        partition: &Partition,
        written: WrittenSummary,
        job: &Job,
        kept: Counted,
    ) -> Result<(), StoreError> {
        let counter = analysis.outline.counter;
        let text = written.text.trim();
        let retain = written.retain.as_deref().map(str::trim).filter(|retain| !retain.is_empty());
        // Where nobody says what to retain now, what was retained stays.
        let retain = retain.or(partition.retained.as_deref());
        self.retain = retain.map(|retain| literals::retain(retain, counter));
        if text.is_empty() {
            // Nothing to say: that they are gone is said at least.
            let tail = analysis.selection.tail_from();
            self.gaps.push((Gap::note(tail..tail), literals::gap(partition.messages, counter)));
        } else {
            let literal = literals::summary(partition.first_seq, partition.last_seq, text, counter);
            let record = record(analysis, partition, &written, job, literal.tokens);
            self.summary = Some((literal, record));
        }
        if !written.keep.is_empty() {
            let room = analysis.goal - (kept + self.tokens());
            let groups = analysis.selection.groups_of(&analysis.outline, &written.keep)?;
            self.wanted = analysis.selection.keep_too(&groups, room.0);
        }
        self.written = written;
        Ok(())
    }

    /// Notes where messages are missing, or summarises them if they are many and there is room.
    pub(super) async fn fill_gaps(
        &mut self,
        writer: &SummaryWriter<'_>,
        analysis: &ViewAnalysis,
        task: &SummaryTask<'_>,
        room: Counted,
        progress: &(dyn Fn(CompressionStep) + Sync),
    ) -> Result<(), StoreError> {
        let (counter, scoring) = (task.outline.counter, &task.policy.scoring);
        let gaps = &task.partition.gaps;
        let is_long =
            |gap: &Gap| gap.messages >= scoring.min_gap_for_summary && gap.lines > 0 && gap.last_seq > 0;
        // Below that there is time to do without, above it there is none.
        let summarises = analysis.pressure.stage == Stage::Aggressive && gaps.iter().any(is_long);
        let mut summaries = Vec::new();
        if summarises {
            summaries = writer.summarize_gaps(task, gaps, &is_long, &mut self.written, progress).await?;
        }
        let note = |gap: &Gap| literals::gap(gap.messages, counter);
        let mut room = room - Counted(gaps.iter().map(|gap| note(gap).tokens).sum());
        let mut summaries = summaries.into_iter();
        for gap in gaps {
            let summary = summaries.next().flatten().filter(|text| is_long(gap) && !text.trim().is_empty());
            // What earlier notes of the gap say stands in the new one.
            let summary = summary.or_else(|| (!gap.summaries.is_empty()).then(|| gap.summaries.join("\n")));
            let range = (gap.first_seq, gap.last_seq);
            let summary = summary.map(|text| literals::gap_summary(range, gap.messages, &text, counter));
            let note = note(gap);
            let more = |summary: &Literal| Counted(summary.tokens) - Counted(note.tokens);
            let literal = match summary.filter(|summary| more(summary) <= room) {
                Some(summary) => {
                    room = room - more(&summary);
                    summary
                }
                None if gap.messages == 0 => continue,
                None => note,
            };
            self.gaps.push((gap.clone(), literal));
        }
        Ok(())
    }

    /// Says whether the log takes a view of so many parts: better known before a summary is paid for.
    pub(super) fn can_be_written(&self, analysis: &ViewAnalysis, partition: &Partition, job: &Job) -> bool {
        let notes = if analysis.selection.gone == Gone::Gaps { partition.gaps.len() } else { 0 };
        analysis.outline.parts_of(&self.new_view(analysis, job)) + notes <= MOST_PARTS
    }

    /// Returns the new view.
    pub(super) fn new_view(&self, analysis: &ViewAnalysis, job: &Job) -> NewView {
        let selection = &analysis.selection;
        let parts =
            if selection.gone == Gone::Gaps { self.in_places(selection) } else { self.in_front(selection) };
        NewView {
            strategy: job.strategy.as_str().to_owned(),
            base: analysis.outline.generation,
            seen: selection.messages,
            last_seq: analysis.outline.last_seq,
            message_tokens: analysis.outline.message_tokens,
            pins: analysis.outline.pins.clone(),
            covers: selection.covers,
            reason: if job.automatic { "automatic".to_owned() } else { "asked for".to_owned() },
            parts,
            summaries: self.summary.iter().map(|(_, record)| record.clone()).collect(),
        }
    }

    /// Returns the parts of a view in which a note stands in each gap, and the plan behind the system prompt.
    fn in_places(&self, selection: &Selection) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut gaps = self.gaps.iter().peekable();
        let mut plan_note = self.plan_note.as_ref();
        let prompt = selection.fixed.iter().filter(|group| group.reason == FixedReason::System);
        let prompt = prompt.map(|group| group.places.end).max().unwrap_or(0);
        for places in selection.ranges() {
            if places.start >= prompt {
                parts.extend(plan_note.take().map(literal));
            }
            while let Some((_, note)) = gaps.next_if(|(gap, _)| gap.places.start < places.start) {
                parts.push(literal(note));
            }
            self.keep(selection, places, &mut parts);
        }
        parts.extend(plan_note.map(literal));
        parts.extend(gaps.map(|(_, note)| literal(note)));
        parts
    }

    /// Returns the parts of a view in this order: system prompt, pinned, inherited, plan, retained, summary, the rest. System
    /// messages that came later stand behind the summary: right behind the system prompt they would be a part of it from then
    /// on.
    fn in_front(&self, selection: &Selection) -> Vec<Part> {
        let mut parts = Vec::new();
        let tail = selection.tail_from();
        let fixed = |reason: FixedReason, places: Range<u64>| {
            let groups = selection.fixed.iter();
            let groups =
                groups.filter(move |group| group.reason == reason && places.contains(&group.places.start));
            groups.map(|group| Part::Keep(group.places.clone()))
        };
        // Messages of the log stay in their order: with the first that came too late go all that are pinned behind it.
        let late = selection.first_late().map_or(tail, |late| late.min(tail));
        parts.extend(fixed(FixedReason::System, 0..tail));
        parts.extend(fixed(FixedReason::Pinned, 0..late));
        parts.extend(fixed(FixedReason::Inherited, 0..tail));
        parts.extend(self.plan_note.as_ref().map(literal));
        parts.extend(fixed(FixedReason::Summary, 0..tail));
        parts.extend(self.retain.as_ref().map(literal));
        parts.extend(self.gaps.iter().map(|(_, note)| literal(note)));
        parts.extend(self.summary.as_ref().map(|(summary, _)| literal(summary)));
        parts.extend(fixed(FixedReason::Pinned, late..tail));
        for places in selection.ranges().into_iter().filter(|places| places.start >= tail) {
            self.keep(selection, places, &mut parts);
        }
        parts
    }

    /// Appends messages that stay, made smaller if they may be.
    fn keep(&self, selection: &Selection, places: Range<u64>, parts: &mut Vec<Part>) {
        if selection.fixed.iter().any(|group| group.places == places) {
            parts.push(Part::Keep(places));
        } else {
            self.shrunk.parts(places, parts);
        }
    }
}

fn literal(literal: &Literal) -> Part {
    Part::Literal(literal.clone())
}

/// Returns the record of a summary.
fn record(
    analysis: &ViewAnalysis,
    partition: &Partition,
    written: &WrittenSummary,
    job: &Job,
    summary_tokens: u64,
) -> SummaryRecord {
    let original_tokens = partition.tokens;
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits than an f64 has")]
    let ratio = summary_tokens as f64 / original_tokens.max(1) as f64;
    SummaryRecord {
        id: 0,
        start_seq: partition.first_seq,
        end_seq: partition.last_seq,
        summary: written.text.trim().to_owned(),
        compressed_message_count: partition.messages,
        original_tokens,
        summary_tokens,
        tokens_saved: original_tokens.saturating_sub(summary_tokens),
        ratio,
        strategy: job.strategy.as_str().to_owned(),
        // An agent need not say which model it asked.
        model: if written.model.is_empty() { written.by.clone() } else { written.model.clone() },
        timestamp: analysis.outline.taken_at,
        sections: written.sections.clone(),
    }
}
