//! The newest plan as it stands in a view: no larger than a view can bear, and a newer one in the place of an older one.

use std::borrow::Cow;

use super::{excerpt, literals};
use crate::context::{Policy, plain_text};
use crate::model::{JsonKind, Literal, StoreError, TaskId};
use crate::store::{Outline, Store};

/// The share of the limit that a plan may have, as pinned messages may.
const SHARE: u64 = 4;
/// Most bytes of a plan as it is written: a record of the log has an end.
const MOST_BYTES: usize = 96 << 10;

/// The note of an older rewrite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EarlierPlanNote {
    pub(super) place: u64,
    pub(super) tokens: u64,
    /// The plan, as far as it is there.
    pub(super) text: String,
}

/// The newest plan, if it is to stay in the view.
pub(super) fn newest(
    store: &Store,
    id: TaskId,
    policy: &Policy,
    outline: &Outline,
) -> Result<Option<Literal>, StoreError> {
    if !policy.keep_plan {
        return Ok(None);
    }
    let Some((number, plan, _)) = store.latest_plan(id)? else { return Ok(None) };
    // The tools are no part of it.
    let most = outline.counted(policy.limit / SHARE + outline.told(0));
    let text = plan_text(plan.plan_content.as_str());
    Ok(Some(cut_to(&text, number, most, |text| literals::plan(outline.last_seq, text, outline.counter))))
}

/// Whether a note tells another plan than an older one.
pub(super) fn is_other(note: &Literal, older: &EarlierPlanNote) -> bool {
    literals::read_plan(&plain_text(note.content.as_str())) != Some(older.text.as_str())
}

/// A plan as text: a text as it is, anything else as JSON.
fn plan_text(json: &str) -> Cow<'_, str> {
    if JsonKind::of(json) == JsonKind::Text { plain_text(json) } else { Cow::Borrowed(json) }
}

/// The note of a plan, with its middle left out if it has more than so many tokens.
fn cut_to(text: &str, number: u64, most: u64, note: impl Fn(&str) -> Literal) -> Literal {
    let mut made = note(text);
    let which = format!(" of the plan; GetLatestPlan has all of it, plan {number}");
    let mut keep = text.chars().count() as u64;
    while keep > 0 && (made.tokens > most || made.content.as_str().len() > MOST_BYTES) {
        let by_tokens = keep.saturating_mul(most) / made.tokens.max(1);
        let by_bytes = keep.saturating_mul(MOST_BYTES as u64) / (made.content.as_str().len() as u64).max(1);
        // What is said of the cut takes room too.
        keep = keep.min(by_tokens).min(by_bytes) / 10 * 9;
        let cut = excerpt::cut(text, usize::try_from(keep).unwrap_or(usize::MAX), &which);
        made = note(cut.as_deref().unwrap_or(text));
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TokenCounter;

    #[test]
    fn a_plan_is_cut_to_what_it_may_have_and_says_so() {
        for (text, counter) in [
            ("step: do it\n".repeat(5000), TokenCounter::Fitted),
            ("計画を立てる。".repeat(5000), TokenCounter::Fitted),
            ("\u{1}".repeat(50_000), TokenCounter::Heuristic),
        ] {
            let note = |text: &str| literals::plan(7, text, counter);
            for most in [100, 1000, 40_000] {
                let cut = cut_to(&text, 3, most, note);
                assert!(cut.tokens <= most && cut.content.as_str().len() <= MOST_BYTES, "{most}");
                let told = plain_text(cut.content.as_str()).into_owned();
                assert_eq!(
                    told.contains("characters left out of the plan; GetLatestPlan"),
                    cut != note(&text)
                );
            }
        }
        // There is always something.
        let tiny = cut_to(&"x".repeat(900), 3, 1, |text| literals::plan(7, text, TokenCounter::Fitted));
        let told = plain_text(tiny.content.as_str()).into_owned();
        assert!(told.starts_with("[Current plan as of message 7]\n") && told.contains("plan 3"), "{told}");
    }
}
