//! Outputs of tools that became too many for the view: trimmed by themselves.

use crate::infra::metrics;
use crate::model::TaskId;
use crate::store::{Store, TrimOutcome};

/// Trims outputs if they have passed their budget. Should it fail, the view is as it was.
pub(super) fn if_due(store: &Store, id: TaskId) {
    match store.trim_if_due(id) {
        Ok(Some(done)) => {
            count(&done);
            let TrimOutcome { trimmed, tokens_before, tokens_after, generation, .. } = done;
            tracing::info!(%id, generation, trimmed, tokens_before, tokens_after, "old outputs were trimmed");
        }
        Ok(None) => {}
        // A task that does not run, or a rewrite that is going on: the next output tries again.
        Err(error) => tracing::debug!(%id, %error, "old outputs could not be trimmed"),
    }
}

fn count(done: &TrimOutcome) {
    if done.trimmed > 0 {
        metrics::outputs_trimmed(done.trimmed);
    }
}
