//! One compression, from looking at the view to putting the new one in its place. Appends and reads go on meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::block_in_place;
use tokio::time::sleep;

use super::apart::{Apart, Gap};
use super::layout::new_view;
use super::looked::{Looked, make_room, nothing, summary_budget};
use super::made::{Made, fill_gaps, take_summary};
use super::plan::Plan;
use super::plan_note;
use super::prompt::Purpose;
use super::summarize::{Asker, Wanted};
use super::{PATIENCE, words};
use crate::context::{Gone, Policy, Strategy};
use crate::model::{Rewrite, StoreError, TaskId};
use crate::store::{Caller, Compressed, Store};

/// Parts of a new view, beside a summary and what is retained.
const MOST_PARTS: usize = Rewrite::MAX_SEGMENTS - 2;
/// Why a view is left alone that would have more.
pub(super) const TOO_MANY_PARTS: &str = "too_many_parts";
/// Why a view is left alone that has no more tokens than the call asks for.
pub(super) const WITHIN_TARGET: &str = "within_target";

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Order {
    /// The strategy.
    pub strategy: Strategy,
    /// The settings.
    pub policy: Arc<Policy>,
    /// The caller.
    pub caller: Caller,
    /// What was asked, to know a repeated call by.
    pub asked: String,
    /// Whether nobody asked: then it has to be worth it.
    pub automatic: bool,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The messages that go are read.
    Extracting {
        /// Messages that go.
        messages: u64,
        /// Tokens of the messages that go.
        tokens: u64,
    },
    /// A summary of them is written.
    Summarizing {
        /// Messages that go.
        messages: u64,
        /// Tokens of the messages that go.
        tokens: u64,
        /// Tokens of the summary so far.
        summary_tokens: u64,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// The new view takes the place of the old one.
    Publishing {
        /// Messages that go.
        messages: u64,
        /// Tokens of the messages that go.
        tokens: u64,
        /// Tokens of the summary so far.
        summary_tokens: u64,
    },
}

/// What was done.
#[derive(Debug, Clone, Default)]
pub struct Done {
    /// Empty if the view was rewritten.
    pub reason: &'static str,
    /// If the view was rewritten and has more tokens than the call asks for: by how many, and what they are.
    pub shortfall: String,
    /// The strategy.
    pub strategy: &'static str,
    /// Whether the view was over the limit.
    pub emergency: bool,
    /// Messages of the view before.
    pub messages_before: u64,
    /// Messages of the view now.
    pub messages_after: u64,
    /// Messages that left the view.
    pub messages_removed: u64,
    /// Tokens of the view before.
    pub tokens_before: u64,
    /// Tokens of the view now.
    pub tokens_after: u64,
    /// The number of the summary; 0: none.
    pub summary_id: u64,
    /// Who wrote the summary.
    pub summarizer: String,
    /// The model that wrote the summary.
    pub model: String,
    /// Why the built-in summariser wrote it instead of a model.
    pub fallback_reason: String,
    /// The generation of the view now.
    pub generation: u64,
    /// The time that it took.
    pub took: Duration,
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
    let seen = looked.outline.message_tokens;
    let refuse = |mut done: Done, reason| {
        done.reason = reason;
        done.took = began.elapsed();
        block_in_place(|| store.note_try(id, &order.policy, seen, reason == "incompressible"))?;
        Ok(done)
    };
    let older = looked.older_plan().cloned();
    // Whoever asks wants the newest plan, also if nothing else can be done.
    let renews = older.is_some() && !order.automatic;
    if looked.is_within_target(&order.policy) && !renews {
        return refuse(done, WITHIN_TARGET);
    }
    let apart =
        block_in_place(|| Apart::set(store, id, &looked.outline, &looked.plan.stays())).map(Box::new)?;
    progress(Step::Extracting { messages: apart.messages, tokens: apart.tokens });
    let too_few = looked.plan.gone == Gone::Summary && apart.messages < looked.least_messages(&order.policy);
    // Where there are too few to be summarised, all of them stay, and what was put beside them; but not an older plan.
    let carried = if too_few { 0 } else { looked.carried(&apart) };
    let renewed = looked.plan_note.take_if(|_| too_few).and_then(|note| older.map(|older| (older, note)));
    let (is_over, beside) = (looked.is_over(carried), looked.beside(carried));
    let mut staying = apart.kept_tokens + if too_few { apart.tokens } else { 0 };
    if let Some((older, note)) = &renewed {
        staying = staying.saturating_sub(older.tokens) + note.tokens;
    }
    let mut squeezed = block_in_place(|| make_room(&order.policy, &looked, &apart, staying + beside))?;
    let kept = staying - squeezed.saved;
    if too_few && squeezed.saved == 0 && !renews {
        return refuse(done, nothing(&looked, &apart));
    }
    if let Some((older, note)) = renewed {
        squeezed.renew(older.place, note);
    }
    let budget = summary_budget(&order.policy, &looked, &apart, kept);
    // Over the limit, any saving is worth it.
    if order.automatic && !looked.is_emergency() {
        let saved = (apart.tokens + squeezed.saved).saturating_sub(budget + beside);
        if looked.outline.calibration.apply(saved) < looked.worth {
            return refuse(done, if is_over { "incompressible" } else { "not_worth_it" });
        }
    }
    let mut made = Made::new(squeezed, looked.plan_note.clone());
    if !can_be_written(&looked, &made, &apart, order) {
        return refuse(done, TOO_MANY_PARTS);
    }
    let wanted = Wanted {
        id,
        purpose: Purpose::Compaction { retain: order.strategy == Strategy::Compact },
        policy: &order.policy,
        apart: &apart,
        previous: apart.previous.as_deref(),
        budget,
        carried,
        room: looked.room(kept + beside),
        outline: &looked.outline,
        may_ask: !looked.is_emergency(),
    };
    match looked.plan.gone {
        Gone::Summary if too_few => looked.plan.keep_all(),
        Gone::Summary => {
            let summed = asker.summarize(&wanted, progress).await?;
            block_in_place(|| take_summary(&mut looked, &mut made, &apart, summed, order, kept))?;
        }
        Gone::Note => {
            let messages = apart.gaps.iter().map(|gap| gap.messages).sum();
            if messages > 0 {
                let places = looked.plan.tail_from()..looked.plan.tail_from();
                let gap = Gap::note(places);
                made.gaps.push((gap, words::gap(messages, looked.outline.counter)));
            }
        }
        Gone::Gaps => fill_gaps(asker, &looked, &mut made, &wanted, kept + beside, progress).await?,
    }
    let after = kept + made.tokens();
    if after >= apart.kept_tokens + apart.tokens && !renews {
        let is_over = is_over || looked.is_emergency();
        return refuse(done, if is_over { "incompressible" } else { "not_worth_it" });
    }
    progress(Step::Publishing {
        messages: apart.messages,
        tokens: apart.tokens,
        summary_tokens: made.summary.as_ref().map_or(0, |(literal, _)| literal.tokens),
    });
    let compressed = publish(store, id, &mut looked, &mut made, order).await?;
    if is_over || looked.outline.told(after) > order.policy.limit {
        block_in_place(|| store.note_try(id, &order.policy, seen, true))?;
    }
    tell(&mut done, &looked, made, &compressed, began);
    done.shortfall = looked.shortfall(&order.policy, &apart, done.tokens_after);
    Ok(done)
}

/// Whether the log takes a view of so many parts: better known before a summary is paid for.
pub(super) fn can_be_written(looked: &Looked, made: &Made, apart: &Apart, order: &Order) -> bool {
    let notes = if looked.plan.gone == Gone::Gaps { apart.gaps.len() } else { 0 };
    looked.outline.parts_of(&new_view(looked, made, order)) + notes <= MOST_PARTS
}

/// Tells what was done.
pub(super) fn tell(done: &mut Done, looked: &Looked, made: Made, compressed: &Compressed, began: Instant) {
    done.messages_after = compressed.messages.unwrap_or_else(|| count(&looked.plan) + made.literals());
    done.messages_removed = (done.messages_before + made.literals()).saturating_sub(done.messages_after);
    done.tokens_after = looked.outline.told(compressed.tokens);
    done.summary_id = compressed.summary_id;
    done.generation = compressed.generation;
    done.summarizer = made.summed.by;
    done.model = made.summed.model;
    done.fallback_reason = made.summed.fallback.unwrap_or_default();
    done.took = began.elapsed();
}

fn count(plan: &Plan) -> u64 {
    plan.stays().iter().map(|places| places.end - places.start).sum()
}

/// Keeps what was pinned since the view was looked at; false if nothing was.
fn take_new_pins(
    store: &Store,
    id: TaskId,
    looked: &mut Looked,
    made: &mut Made,
) -> Result<bool, StoreError> {
    let pins = store.outline(id)?.pins;
    let new: Vec<u64> = pins.difference(&looked.outline.pins).copied().collect();
    let groups = looked.plan.groups_of(&looked.outline, &new)?;
    looked.plan.keep_too(&groups, u64::MAX);
    made.squeezed.spare(&groups);
    looked.outline.pins.extend(&new);
    Ok(!new.is_empty())
}

/// Puts the view in its place, once nobody else is rewriting it, with what was pinned meanwhile.
pub(super) async fn publish(
    store: &Store,
    id: TaskId,
    looked: &mut Looked,
    made: &mut Made,
    order: &Order,
) -> Result<Compressed, StoreError> {
    let until = Instant::now() + PATIENCE;
    let mut caller = order.caller.clone();
    if made.plan_note.is_some() {
        // Another one may have come while somebody summarised.
        made.plan_note = block_in_place(|| plan_note::newest(store, id, &order.policy, &looked.outline))?;
    }
    loop {
        let published = block_in_place(|| {
            let view = new_view(looked, made, order);
            store.compress(id, &view, &caller, &order.asked)
        });
        match published {
            Err(StoreError::StaleView { .. })
                if Instant::now() < until && block_in_place(|| take_new_pins(store, id, looked, made))? => {}
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
