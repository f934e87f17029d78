//! The summary of a task that ends: its summary so far and what came after it, told by a model or by the built-in
//! summariser. The log is not read again from its start: what was summarised before is taken from there.

use tokio::task::block_in_place;

use super::apart::Apart;
use super::prompt::Purpose;
use super::summarize::{Asker, Wanted};
use crate::context::{Policy, Summarizer, count_text};
use crate::model::{Role, StoreError, TaskId};
use crate::store::{Outline, Store};

/// Least and most tokens that it is given, unless the configuration says otherwise.
const LEAST: u64 = 256;
/// The share of what another task takes over that it may fill: the rest is for plans.
const SHARE: (u64, u64) = (3, 4);

/// Makes one; none if nothing was said.
pub(super) async fn make(asker: &Asker<'_>, id: TaskId, may_ask: bool) -> Result<Option<String>, StoreError> {
    let mut policy = Policy::clone(&*block_in_place(|| asker.store.policy(id))?);
    if !may_ask {
        policy.summarizer = Summarizer::Extractive;
    }
    let (outline, apart) = block_in_place(|| look(asker.store, id))?;
    if apart.messages == 0 && apart.previous.is_none() {
        return Ok(None);
    }
    let previous = apart.previous.as_deref().map_or(0, |previous| count_text(outline.counter, previous));
    let most = (policy.max_inherited_tokens * SHARE.0 / SHARE.1).max(LEAST);
    let carried = apart.retained.as_deref().map_or(0, |retained| count_text(outline.counter, retained));
    let usual =
        (apart.tokens.saturating_add(previous) / 2).clamp(LEAST, most.saturating_sub(carried).max(LEAST));
    let wanted = Wanted {
        id,
        purpose: Purpose::Final,
        policy: &policy,
        apart: &apart,
        budget: policy.summary_tokens.unwrap_or(usual),
        carried,
        room: u64::MAX,
        counter: outline.counter,
        may_ask: true,
    };
    let summed = asker.summarize(&wanted, &|_| ()).await?;
    // What was retained was to be kept word for word. Whoever takes it over cuts what is too long at its end.
    let text = match &apart.retained {
        Some(retained) => format!("## Kept information\n{}\n\n{}", retained.trim(), summed.text.trim()),
        None => summed.text,
    };
    block_in_place(|| drop(apart));
    let text = text.trim();
    let text = &text[..text.floor_char_boundary(Store::MAX_TEXT_BYTES)];
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

/// Sets the view apart, but for the system prompt. A summary that is not in the view was taken back.
fn look(store: &Store, id: TaskId) -> Result<(Outline, Apart), StoreError> {
    let outline = store.outline(id)?;
    let (mut prompt, mut leads) = (0, true);
    outline.each(&mut |seen| {
        leads &= seen.kind.is_none() && matches!(seen.shown.role, Role::System | Role::Developer);
        prompt += u64::from(leads);
    })?;
    let apart = Apart::set(store, id, &outline, std::slice::from_ref(&(0..prompt)))?;
    Ok((outline, apart))
}
