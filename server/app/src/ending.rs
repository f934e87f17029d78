//! How tasks end: with the final summary that the caller gives, or one that the server writes.

use std::sync::Arc;

use crate::Engine;
use crate::error::AppError;
use crate::hooks::HookTrigger;
use crate::model::TaskId;
use crate::store::{Caller, Ending, Store};

/// Ends a task with the final summary of its caller; without one, the server writes it.
pub async fn end(
    engine: &Arc<Engine>,
    id: TaskId,
    ending: Ending,
    summary: Option<String>,
    caller: Caller,
) -> Result<(), AppError> {
    let trigger = if ending == Ending::Completed { HookTrigger::Completed } else { HookTrigger::Failed };
    let Some(summary) = summary.filter(|summary| !summary.trim().is_empty()) else {
        return summarize(engine, id, ending, caller, trigger).await;
    };
    engine
        .with(|store| match ending {
            Ending::Completed => store.complete_task(id, Some(summary), &caller),
            Ending::Failed { error_message } => store.fail_task(id, error_message, Some(summary), &caller),
        })
        .await?;
    engine.notify(trigger, id).await;
    Ok(())
}

/// Ends a task with a summary that the server writes. Goes on if the caller goes away, so that a retry finds it done
/// rather than asking a model again.
async fn summarize(
    engine: &Arc<Engine>,
    id: TaskId,
    ending: Ending,
    caller: Caller,
    trigger: HookTrigger,
) -> Result<(), AppError> {
    let engine = Arc::clone(engine);
    let ended = tokio::spawn(async move {
        let compressor = &engine.compressor;
        let _turn = compressor.turn_to_end(id).await;
        let binding = engine.with(|store| store.bind(id)).await?;
        let before = |store: &Store| store.ended_before(id, &ending, &caller);
        if engine.with_bound(&binding, before).await? {
            return Ok(());
        }
        let store = engine.store().bound(&binding);
        let completed = ending == Ending::Completed;
        let summary = async {
            if completed {
                // What the final summary is made of is then small, and what is left of the view is in order.
                compressor.if_due(&store, id, false).await;
            }
            // A model is asked at a good end only: after a bad one there may be more to do in a hurry.
            compressor.final_summary(&store, id, completed).await
        };
        let summary = engine.held(id, caller.lease_generation, summary).await;
        let end = |store: &Store| store.end_task(id, &ending, summary, &caller);
        engine.with_bound(&binding, end).await?;
        engine.notify(trigger, id).await;
        Ok(())
    });
    ended.await.map_err(|error| AppError::Internal(format!("ending a task: {error}")))?
}
