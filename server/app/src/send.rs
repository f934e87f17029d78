//! Makes a view ready to be sent to a model: old images and files go, outputs are trimmed, the limit is checked.

use crate::context::{LimitSource, Stage};
use crate::infra::metrics;
use crate::model::{SizeUnit, StoreError, TaskId};
use crate::render::{RenderOptions, measure};
use crate::store::{Store, TrimOutcome};

/// Prepares a view that is about to be sent: sheds, trims, and refuses one that is larger than the model takes.
pub fn prepare(store: &Store, id: TaskId) -> Result<(), StoreError> {
    shed(store, id, None);
    trim_if_due(store, id);
    check_limit(store, id)
}

/// Makes the view small enough for a request that was larger than its task allows, if images and files can do that.
pub fn make_room(store: &Store, id: TaskId, options: &RenderOptions) -> Result<(), StoreError> {
    // How large it is was not known when it was refused.
    let size = measure(options.clone().unlimited(), store.view_snapshot(id)?.lines())?;
    shed(store, id, Some(size));
    Ok(())
}

/// Refuses a request that is larger than the model takes. Where that is only a guess, or follows from a refusal, the provider decides.
fn check_limit(store: &Store, id: TaskId) -> Result<(), StoreError> {
    let pressure = store.pressure(id)?;
    let is_known = !matches!(pressure.source, LimitSource::Default | LimitSource::Provider);
    if pressure.stage != Stage::Emergency || !is_known {
        return Ok(());
    }
    Err(StoreError::RequestTooLarge { size: pressure.tokens, limit: pressure.limit, unit: SizeUnit::Tokens })
}

/// Makes the view small enough for a request, if its images and files are what makes it too large. A request that was
/// refused has a size of its own.
pub fn shed(store: &Store, id: TaskId, rendered: Option<u64>) {
    match store.shed_media(id, rendered) {
        Ok(Some(generation)) => tracing::info!(%id, generation, "old images and files became notes"),
        Ok(None) => {}
        // A task that does not run, or a rewrite that is going on: then the view is taken as it is.
        Err(error) => tracing::debug!(%id, %error, "old images and files could not be replaced by notes"),
    }
}

/// Trims outputs if they have passed their budget. Should it fail, the view is as it was.
pub fn trim_if_due(store: &Store, id: TaskId) {
    match store.trim_if_due(id) {
        Ok(Some(done)) => {
            count_trimmed(&done);
            let TrimOutcome { trimmed, tokens_before, tokens_after, generation, .. } = done;
            tracing::info!(%id, generation, trimmed, tokens_before, tokens_after, "old outputs were trimmed");
        }
        Ok(None) => {}
        // A task that does not run, or a rewrite that is going on: the next output tries again.
        Err(error) => tracing::debug!(%id, %error, "old outputs could not be trimmed"),
    }
}

/// Counts the outputs that were trimmed.
pub fn count_trimmed(done: &TrimOutcome) {
    if done.trimmed > 0 {
        metrics::outputs_trimmed(done.trimmed);
    }
}
