//! The summary of a task that ends: its summary so far and what came after it, told by a model or by the built-in
//! summariser. The log is not read again from its start: what was summarised before is taken from there.

use tokio::task::block_in_place;

use super::partition::Partition;
use super::prompt::Purpose;
use super::summary::{SummaryTask, SummaryWriter};
use crate::context::{Failure, Left, Policy, Summarizer, count_text, with_kept};
use crate::model::{Role, StoreError, TaskId};
use crate::store::{Outline, Store};

/// Least and most tokens that it is given, unless the configuration says otherwise.
const LEAST: u64 = 256;
/// The share of what another task takes over that it may fill: the rest is for plans.
const SHARE: (u64, u64) = (3, 4);

/// Makes one; none if nothing was said.
pub(super) async fn make(
    writer: &SummaryWriter<'_>,
    id: TaskId,
    may_ask: bool,
) -> Result<Option<String>, StoreError> {
    let mut policy = Policy::clone(&*block_in_place(|| writer.store.policy(id))?);
    if !may_ask {
        policy.summarizer = Summarizer::Extractive;
    }
    let (outline, mut partition) = block_in_place(|| look(writer.store, id))?;
    if partition.messages == 0 && partition.previous.is_none() {
        // What was known is still all that is.
        return Ok(partition.inherited.and_then(Left::into_summary));
    }
    // What this task has kept word for word stands in the place of what the one before did, so that it does not grow from task
    // to task.
    if partition.retained.is_none() {
        partition.retained = partition.inherited.as_mut().and_then(|left| left.kept.take());
    }
    // What was written up before has its room whole, and what came after it half of its own.
    let count = |text: &Option<String>| text.as_deref().map_or(0, |text| count_text(outline.counter, text));
    let inherited = partition.inherited.as_ref().map_or(0, |left| count(&left.summary));
    let previous = count(&partition.previous) + inherited;
    let most = (policy.max_inherited_tokens * SHARE.0 / SHARE.1).max(LEAST);
    let carried = count(&partition.retained);
    let usual =
        (partition.tokens.saturating_add(previous) / 2).clamp(LEAST, most.saturating_sub(carried).max(LEAST));
    let before = told_before(&partition);
    let task = SummaryTask {
        id,
        purpose: Purpose::Final,
        policy: &policy,
        partition: &partition,
        previous: before.as_deref(),
        budget: policy.summary_tokens.unwrap_or(usual),
        carried,
        room: u64::MAX,
        outline: &outline,
        may_ask: true,
    };
    let written = writer.summarize(&task, &|_| ()).await?;
    // What was retained was to be kept word for word. Whoever takes it over cuts what is too long at its end.
    let text = match &partition.retained {
        Some(retained) => with_kept(retained, &written.text),
        None => written.text,
    };
    block_in_place(|| drop(partition));
    let text = text.trim();
    let text = &text[..text.floor_char_boundary(Store::MAX_TEXT_BYTES)];
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

/// Why an earlier task failed, in words.
pub(super) fn failed(failure: &Failure) -> String {
    format!("An earlier task failed: {}", failure.error)
}

/// What a model is told of the time before: what was taken over, and the task's own summary so far.
fn told_before(partition: &Partition) -> Option<String> {
    let mut told = Vec::new();
    if let Some(left) = &partition.inherited {
        told.extend(left.kept.clone());
        told.extend(left.summary.clone());
        told.extend(left.earlier.failures.iter().map(failed));
        told.extend(left.plans.as_ref().map(|plans| format!("Plans of the task before:\n{plans}")));
    }
    told.extend(partition.previous.clone());
    (!told.is_empty()).then(|| told.join("\n\n"))
}

/// Sets the view apart, but for the system prompt. A summary that is not in the view was taken back.
fn look(store: &Store, id: TaskId) -> Result<(Outline, Partition), StoreError> {
    let outline = store.outline(id)?;
    let (mut prompt, mut leads) = (0, true);
    outline.each(&mut |seen| {
        leads &= seen.kind.is_none() && matches!(seen.shown.role, Role::System | Role::Developer);
        prompt += u64::from(leads);
    })?;
    let partition = Partition::set(store, id, &outline, std::slice::from_ref(&(0..prompt)))?;
    Ok((outline, partition))
}
