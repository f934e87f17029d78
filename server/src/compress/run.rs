//! One compression, from looking at the view to putting the new one in its place. Appends and reads go on meanwhile.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tokio::task::block_in_place;
use tokio::time::sleep;

use super::apart::{Apart, Gap};
use super::layout::new_view;
use super::plan::Plan;
use super::prompt::Purpose;
use super::squeeze::Squeezed;
use super::summarize::{Asker, EXTRACTIVE, Summed, Wanted};
use super::words;
use crate::context::{Gone, Policy, Pressure, Stage, Strategy, plain_text};
use crate::model::{Calibration, JsonKind, Literal, StoreError, SummaryRecord, TaskId};
use crate::store::{Caller, Compressed, NewView, Outline, Store};

/// What a summary and the line above it take at least; below it there is no point.
const LEAST_SUMMARY: u64 = 64;
/// The line above a summary, and what is around a message.
pub(super) const AROUND: u64 = 20;
/// How long to wait for another rewrite of the same view to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) strategy: Strategy,
    pub(crate) policy: Arc<Policy>,
    pub(crate) caller: Caller,
    /// What was asked, to know a repeated call by.
    pub(crate) asked: String,
    /// Whether nobody asked: then it has to be worth it.
    pub(crate) automatic: bool,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Extracting { messages: u64, tokens: u64 },
    Summarizing { messages: u64, tokens: u64, summary_tokens: u64, attempt: u32 },
    Publishing { messages: u64, tokens: u64, summary_tokens: u64 },
}

/// What was done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done {
    /// Empty if the view was rewritten.
    pub(crate) reason: &'static str,
    pub(crate) strategy: &'static str,
    pub(crate) emergency: bool,
    pub(crate) messages_before: u64,
    pub(crate) messages_after: u64,
    pub(crate) messages_removed: u64,
    pub(crate) tokens_before: u64,
    pub(crate) tokens_after: u64,
    pub(crate) summary_id: u64,
    pub(crate) summarizer: String,
    pub(crate) model: String,
    pub(crate) fallback_reason: String,
    pub(crate) generation: u64,
    pub(crate) took: Duration,
}

/// A view with what is to become of it.
pub(super) struct Looked {
    pub(super) outline: Outline,
    pub(super) plan: Plan,
    pub(super) pressure: Pressure,
    calibration: Calibration,
    /// Tokens to come down to, as counted.
    pub(super) goal: u64,
}

impl Looked {
    /// Looks at a view. Blocks.
    pub(super) fn look(
        store: &Store,
        id: TaskId,
        order: &Order,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, StoreError> {
        let usage = store.context_usage(id, None)?;
        let mut outline = store.outline(id)?;
        outline.stop = Arc::clone(stop);
        let pressure = usage.pressure;
        let goal = counted(goal(&order.policy, order.strategy), outline.tokens, pressure.tokens);
        // What is missing is to be summarised then, which takes room.
        let summaries = if is_summarised(order.strategy, &pressure) { goal / 10 } else { 0 };
        let plan = Plan::make(&outline, &order.policy, order.strategy, goal - summaries, usage.messages)?;
        Ok(Self { outline, plan, pressure, calibration: usage.calibration, goal })
    }

    pub(super) fn is_emergency(&self) -> bool {
        self.pressure.stage == Stage::Emergency
    }

    /// Whether what may not go is too large alone.
    fn is_over(&self) -> bool {
        let fixed: u64 = self.plan.fixed.iter().map(|stays| stays.tokens).sum();
        fixed.saturating_add(LEAST_SUMMARY) > self.goal
    }

    /// Tokens that a summary may have beside what stays.
    pub(super) fn room(&self, kept: u64) -> u64 {
        self.goal.saturating_sub(kept + AROUND)
    }

    /// Counted tokens as the model is told of them.
    fn told(&self, counted: u64) -> u64 {
        self.calibration.apply(counted)
    }

    pub(super) fn begun(&self, order: &Order) -> Done {
        Done {
            strategy: order.strategy.as_str(),
            emergency: self.is_emergency(),
            messages_before: self.plan.messages,
            messages_after: self.plan.messages,
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

/// Tokens to come down to.
fn goal(policy: &Policy, strategy: Strategy) -> u64 {
    if let Some(target) = policy.target_tokens {
        return target;
    }
    // Well below what would make it due again.
    let below = policy.threshold_tokens / 8 * 7;
    match strategy {
        Strategy::Summarize | Strategy::Compact | Strategy::Window => below,
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of a number of tokens"
        )]
        Strategy::Prune => ((policy.limit as f64 * policy.prune_target) as u64).min(below),
    }
}

/// Tokens that the model is told of, as they are counted.
fn counted(told: u64, counted: u64, of: u64) -> u64 {
    if of == 0 {
        return told;
    }
    u64::try_from(u128::from(told) * u128::from(counted) / u128::from(of)).unwrap_or(u64::MAX)
}

/// What is put into a view, and what becomes of what stays.
pub(super) struct Made {
    pub(super) summed: Summed,
    pub(super) summary: Option<(Literal, SummaryRecord)>,
    pub(super) retain: Option<Literal>,
    pub(super) gaps: Vec<(Gap, Literal)>,
    pub(super) squeezed: Squeezed,
    pub(super) plan_note: Option<Literal>,
    /// Tokens of messages that stay as whoever summarised wants them to.
    pub(super) wanted: u64,
}

impl Made {
    pub(super) fn new(squeezed: Squeezed) -> Self {
        Self {
            summed: Summed::default(),
            summary: None,
            retain: None,
            gaps: Vec::new(),
            squeezed,
            plan_note: None,
            wanted: 0,
        }
    }

    fn tokens(&self) -> u64 {
        let single =
            self.summary.iter().map(|(literal, _)| literal).chain(&self.retain).chain(&self.plan_note);
        let literals = single.chain(self.gaps.iter().map(|(_, literal)| literal));
        literals.map(|literal| literal.tokens).sum::<u64>() + self.wanted
    }

    fn literals(&self) -> u64 {
        let single = [self.summary.is_some(), self.retain.is_some(), self.plan_note.is_some()];
        (single.into_iter().filter(|is| *is).count() + self.gaps.len()) as u64
    }
}

/// Does it.
pub(super) async fn run(
    asker: &Asker<'_>,
    id: TaskId,
    order: &Order,
    progress: &(dyn Fn(Step) + Sync),
) -> Result<Done, StoreError> {
    let began = Instant::now();
    let store = asker.store;
    let mut looked = block_in_place(|| Looked::look(store, id, order, asker.stop))?;
    let mut done = looked.begun(order);
    let refuse = |mut done: Done, reason| {
        done.reason = reason;
        done.took = began.elapsed();
        block_in_place(|| store.note_try(id, reason == "over"))?;
        Ok(done)
    };
    let apart = block_in_place(|| Apart::set(store, id, &looked.outline, &looked.plan.stays()))?;
    progress(Step::Extracting { messages: apart.messages, tokens: apart.tokens });
    let is_over = looked.is_over();
    let too_few = looked.plan.gone == Gone::Summary && apart.messages < order.policy.min_messages.max(1);
    let plan_note = block_in_place(|| plan_note(store, id, &looked, order))?;
    let noted = plan_note.as_ref().map_or(0, |literal| literal.tokens);
    // Where there are too few to be summarised, all of them stay.
    let staying = apart.kept_tokens + if too_few { apart.tokens } else { 0 };
    let squeezed = block_in_place(|| make_room(&looked, &apart, staying + noted))?;
    let kept = staying - squeezed.saved;
    if too_few && squeezed.saved == 0 {
        return refuse(done, nothing(&looked, &apart));
    }
    let budget = summary_budget(&order.policy, &looked, &apart, kept + noted);
    if order.automatic {
        let saved = (apart.tokens + squeezed.saved).saturating_sub(budget + noted);
        if looked.told(saved) < order.policy.worth() {
            return refuse(done, if is_over { "over" } else { "not_worth_it" });
        }
    }
    let mut made = Made::new(squeezed);
    made.plan_note = plan_note;
    let wanted = Wanted {
        id,
        purpose: Purpose::Compaction { retain: order.strategy == Strategy::Compact },
        policy: &order.policy,
        apart: &apart,
        budget,
        room: looked.room(kept + noted),
        counter: looked.outline.counter,
        may_ask: !looked.is_emergency(),
    };
    match looked.plan.gone {
        Gone::Summary if too_few => looked.plan.keep_all(),
        Gone::Summary => {
            let summed = asker.summarize(&wanted, progress).await?;
            block_in_place(|| take_summary(&mut looked, &mut made, &apart, summed, order, kept + noted))?;
        }
        Gone::Note => {
            let messages = apart.gaps.iter().map(|gap| gap.messages).sum();
            if messages > 0 {
                let places = looked.plan.tail_from()..looked.plan.tail_from();
                let gap = Gap::note(places);
                made.gaps.push((gap, words::gap(messages, looked.outline.counter)));
            }
        }
        Gone::Gaps => fill_gaps(asker, &looked, &mut made, &wanted, kept, progress).await?,
    }
    let after = kept + made.tokens();
    // What stands for missing results is in neither.
    if after >= apart.tokens + apart.kept_tokens {
        return refuse(done, if is_over { "over" } else { "not_worth_it" });
    }
    progress(Step::Publishing {
        messages: apart.messages,
        tokens: apart.tokens,
        summary_tokens: made.summary.as_ref().map_or(0, |(literal, _)| literal.tokens),
    });
    let view = new_view(&looked, &made, order);
    let compressed = publish(store, id, &view, order).await?;
    if is_over {
        block_in_place(|| store.note_try(id, true))?;
    }
    tell(&mut done, &looked, made, &compressed, began);
    Ok(done)
}

/// Why nothing can go.
pub(super) fn nothing(looked: &Looked, apart: &Apart) -> &'static str {
    if looked.is_over() && apart.messages == 0 { "over" } else { "nothing" }
}

/// Tells what was done.
pub(super) fn tell(done: &mut Done, looked: &Looked, made: Made, compressed: &Compressed, began: Instant) {
    let gone = looked.plan.messages - count(&looked.plan);
    done.messages_after = looked.plan.messages - gone + made.literals();
    done.messages_removed = gone;
    done.tokens_after = looked.told(compressed.tokens);
    done.summary_id = compressed.summary_id;
    done.generation = compressed.generation;
    done.summarizer = made.summed.by;
    done.model = made.summed.model;
    done.fallback_reason = made.summed.fallback.unwrap_or_default();
    done.took = began.elapsed();
}

/// What stays is made smaller where it leaves no room for what is put into the view.
pub(super) fn make_room(looked: &Looked, apart: &Apart, staying: u64) -> Result<Squeezed, StoreError> {
    let reserve = match looked.plan.gone {
        Gone::Summary => {
            (apart.tokens / 3).min(looked.goal / 5).max(LEAST_SUMMARY.min(apart.tokens)) + AROUND
        }
        Gone::Note | Gone::Gaps => AROUND,
    };
    let need = (staying + reserve).saturating_sub(looked.goal);
    Squeezed::squeeze(&looked.outline, &looked.plan.keep, need)
}

fn count(plan: &Plan) -> u64 {
    plan.stays().iter().map(|places| places.end - places.start).sum()
}

/// Tokens that a summary may have.
pub(super) fn summary_budget(policy: &Policy, looked: &Looked, apart: &Apart, kept: u64) -> u64 {
    if looked.plan.gone != Gone::Summary {
        return 0;
    }
    let room = looked.room(kept);
    let usual = match (policy.summary_tokens, policy.target_tokens) {
        (Some(own), _) => own,
        (None, Some(_)) => room,
        (None, None) => {
            let tenth = counted(policy.limit / 10, looked.outline.tokens, looked.pressure.tokens);
            (apart.tokens / 3).min(tenth)
        }
    };
    // It has to be smaller than what it stands for, with the line above it.
    let smaller = (apart.tokens / 10 * 9).saturating_sub(AROUND);
    usual.min(room).min(smaller).max(LEAST_SUMMARY.min(smaller))
}

/// The newest plan, if it is to stay in the view.
fn plan_note(
    store: &Store,
    id: TaskId,
    looked: &Looked,
    order: &Order,
) -> Result<Option<Literal>, StoreError> {
    let wanted = order.policy.keep_plan && looked.plan.gone == Gone::Summary;
    let plan = if wanted { store.latest_plan(id)? } else { None };
    Ok(plan.map(|(_, plan, _)| words::plan(&plan_text(plan.plan_content.as_str()), looked.outline.counter)))
}

/// A plan as text: a text as it is, anything else as JSON.
fn plan_text(json: &str) -> Cow<'_, str> {
    if JsonKind::of(json) == JsonKind::Text { plain_text(json) } else { Cow::Borrowed(json) }
}

/// Takes a summary over, with what it wants to be kept.
pub(super) fn take_summary(
    looked: &mut Looked,
    made: &mut Made,
    apart: &Apart,
    summed: Summed,
    order: &Order,
    kept: u64,
) -> Result<(), StoreError> {
    let counter = looked.outline.counter;
    let text = summed.text.trim();
    let retain = summed.retain.as_deref().map(str::trim).filter(|retain| !retain.is_empty());
    made.retain = retain.map(|retain| words::retain(retain, counter));
    if text.is_empty() {
        // Nothing to say: that they are gone is said at least.
        let tail = looked.plan.tail_from();
        made.gaps.push((Gap::note(tail..tail), words::gap(apart.messages, counter)));
    } else {
        let literal = words::summary(apart.first_seq, apart.last_seq, text, counter);
        let (original_tokens, summary_tokens) = (apart.tokens, literal.tokens);
        #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits than an f64 has")]
        let ratio = summary_tokens as f64 / original_tokens.max(1) as f64;
        let record = SummaryRecord {
            id: 0,
            start_seq: apart.first_seq,
            end_seq: apart.last_seq,
            summary: text.to_owned(),
            compressed_message_count: apart.messages,
            original_tokens,
            summary_tokens,
            tokens_saved: original_tokens.saturating_sub(summary_tokens),
            ratio,
            strategy: order.strategy.as_str().to_owned(),
            model: if summed.model.is_empty() { EXTRACTIVE.to_owned() } else { summed.model.clone() },
            timestamp: looked.outline.taken_at,
            sections: summed.sections.clone(),
        };
        made.summary = Some((literal, record));
    }
    if !summed.keep.is_empty() {
        let room = looked.goal.saturating_sub(kept + made.tokens());
        let groups = looked.plan.groups_of(&looked.outline, &summed.keep)?;
        made.wanted = looked.plan.keep_too(&groups, room);
    }
    made.summed = summed;
    Ok(())
}

/// Notes where messages are missing, or summaries if they are many and there is room.
async fn fill_gaps(
    asker: &Asker<'_>,
    looked: &Looked,
    made: &mut Made,
    wanted: &Wanted<'_>,
    kept: u64,
    progress: &(dyn Fn(Step) + Sync),
) -> Result<(), StoreError> {
    let (counter, scoring) = (wanted.counter, &wanted.policy.scoring);
    let gaps = &wanted.apart.gaps;
    let is_long =
        |gap: &Gap| gap.messages >= scoring.min_gap_for_summary && gap.lines > 0 && gap.last_seq > 0;
    // Below that there is time to do without, above it there is none.
    let summarises = looked.pressure.stage == Stage::Aggressive && gaps.iter().any(is_long);
    let mut summaries = Vec::new();
    if summarises {
        summaries = asker.summarize_gaps(wanted, gaps, &is_long, &mut made.summed, progress).await?;
    }
    let notes: u64 = gaps.iter().map(|gap| words::gap(gap.messages, counter).tokens).sum();
    let mut room = looked.goal.saturating_sub(kept + notes);
    let mut summaries = summaries.into_iter();
    for gap in gaps {
        let summary = summaries.next().flatten().filter(|text| is_long(gap) && !text.trim().is_empty());
        let range = (gap.first_seq, gap.last_seq);
        let summary = summary.map(|text| words::gap_summary(range, gap.messages, &text, counter));
        let note = words::gap(gap.messages, counter);
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

/// Puts the view in its place, once nobody else is rewriting it.
pub(super) async fn publish(
    store: &Store,
    id: TaskId,
    view: &NewView,
    order: &Order,
) -> Result<Compressed, StoreError> {
    let until = Instant::now() + PATIENCE;
    let mut caller = order.caller.clone();
    loop {
        let published = block_in_place(|| store.compress(id, view, &caller, &order.asked));
        match published {
            Err(StoreError::RewriteInFlight { .. }) if Instant::now() < until => {
                sleep(Duration::from_millis(50)).await;
            }
            // The task was taken over, which is nothing to us.
            Err(StoreError::StaleLease { newest, .. })
                if order.automatic && caller.lease_generation != newest =>
            {
                caller.lease_generation = newest;
            }
            published => return published,
        }
    }
}
