//! What a compression has done, told again from the log to whoever asks for it once more.

use crate::log::{Fold, FoundRewrite, Source};
use crate::model::{Rewrite, Segment, StoreError, SummaryRecord};

use super::Task;

/// What a compression has done, as far as the log tells. With messages that were appended while it ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Retold {
    /// The strategy.
    pub strategy: String,
    /// Messages in the view before.
    pub messages_before: u64,
    /// Messages in the view after it.
    pub messages_after: u64,
    /// Messages that went.
    pub messages_removed: u64,
    /// Tokens of the view before, as the model is told now.
    pub tokens_before: u64,
    /// Tokens of the view after it.
    pub tokens_after: u64,
    /// The newest summary that it made.
    pub summary: Option<SummaryRecord>,
}

impl Task {
    /// What the rewrite that made a generation of the view has done.
    pub(crate) fn retell(&self, generation: u64) -> Result<Retold, StoreError> {
        let (source, calibration, tools) = {
            let inner = self.lock_existing()?;
            (inner.log.source(), inner.log.state().tally.calibration, inner.tools_tokens())
        };
        let FoundRewrite { rewrite, after: last_seq, .. } = source.find_rewrite(generation)?;
        let base = if rewrite.base > 0 { Some(source.rewrite(rewrite.base)?) } else { None };
        let new = rewrite.segments.iter().filter(|segment| matches!(segment, Segment::Literal(_))).count();
        let told = |counted: u64| calibration.apply(counted.saturating_add(tools));
        let (strategy, summary) = (rewrite.strategy.clone(), newest_summary(&rewrite)?);
        let (messages_before, tokens_before) = view(&source, base, last_seq)?;
        let (messages_after, tokens_after) = view(&source, Some(rewrite), last_seq)?;
        Ok(Retold {
            strategy,
            messages_before,
            messages_after,
            messages_removed: (messages_before + new as u64).saturating_sub(messages_after),
            summary,
            tokens_before: told(tokens_before),
            tokens_after: told(tokens_after),
        })
    }
}

/// Messages of a view up to a message of the log, and their tokens.
fn view(source: &Source, rewrite: Option<Rewrite>, last_seq: u64) -> Result<(u64, u64), StoreError> {
    let mut fold = Fold::new(source.clone(), rewrite, last_seq);
    let (mut lines, mut extra) = (Vec::new(), Vec::new());
    while fold.step(&mut lines, &mut extra)? {
        lines.clear();
        extra.clear();
    }
    Ok((fold.state().lines, fold.state().tokens))
}

/// The newest summary that a rewrite has made.
fn newest_summary(rewrite: &Rewrite) -> Result<Option<SummaryRecord>, StoreError> {
    let mut made = rewrite.segments.iter().rev().filter_map(|segment| match segment {
        Segment::Literal(literal) => literal.summary.as_ref(),
        Segment::Keep { .. } | Segment::Replace { .. } | Segment::Earlier { .. } => None,
    });
    let parsed = made.next().map(|record| serde_json::from_str(record.as_str())).transpose();
    parsed.map_err(|error| StoreError::io("a summary", error.into()))
}
