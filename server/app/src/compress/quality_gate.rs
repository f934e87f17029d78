//! What a summary has to be, whoever wrote it: not empty, smaller than what it stands for, and with the refs in it.

use crate::context::count_text;
use crate::model::{Json, TokenCounter};

/// Most bytes of a summary as it is written down, with what is retained: it stands in the new view and, once or twice, in
/// its record, and a record of the log has an end.
const MOST_BYTES: usize = 192 << 10;
/// Most tokens that are asked for, so that it has hardly more.
pub(super) const MOST_TOKENS: u64 = 32 << 10;

/// Whether there is room for a summary in a record of the log.
pub(super) fn can_be_written(summary: &str) -> Result<(), String> {
    let bytes = Json::text(summary).as_str().len();
    if bytes > MOST_BYTES {
        return Err(format!("takes {bytes} bytes as JSON; at most {MOST_BYTES} are allowed"));
    }
    Ok(())
}

/// Whether there is a word in a summary.
pub(super) fn says_something(summary: &str) -> Result<(), String> {
    if summary.chars().any(char::is_alphanumeric) { Ok(()) } else { Err("is empty".to_owned()) }
}

/// What a summary may be measured by (what it stands for, what was asked for, what there is room for), with or without
/// something that takes the place of what was retained before.
pub(super) fn sizes(
    retain: &str,
    (replaced, budget, room): (u64, u64, u64),
    carried: u64,
) -> (u64, u64, u64) {
    if retain.trim().is_empty() {
        (replaced.saturating_sub(carried).max(1), budget, room)
    } else {
        (replaced, budget.saturating_add(carried), room.saturating_add(carried))
    }
}

/// Whether a summary by a model tells enough of what it stands for: a token for so many, up to a number of tokens that says
/// something of any history.
pub(super) fn tells_enough(summary: &str, replaced: u64, counter: TokenCounter) -> Result<(), String> {
    const STANDS_FOR: u64 = 512;
    const ENOUGH: u64 = 128;
    let (tokens, least) = (count_text(counter, summary.trim()), (replaced / STANDS_FOR).min(ENOUGH));
    if tokens < least {
        return Err(format!(
            "has {tokens} tokens, and stands for messages of {replaced}; it needs at least {least}"
        ));
    }
    Ok(())
}

/// Whether a summary can stand for what it is to stand for; if not, why.
pub(super) fn check(
    summary: &str,
    (replaced, budget, room): (u64, u64, u64),
    refs: &[String],
    counter: TokenCounter,
) -> Result<(), String> {
    says_something(summary)?;
    let summary = summary.trim();
    can_be_written(summary)?;
    let tokens = count_text(counter, summary);
    if tokens >= replaced {
        return Err(format!("has {tokens} tokens, and stands for messages of {replaced}"));
    }
    // Models do not count well: what is a little long does no harm where there is room.
    if tokens > budget.saturating_mul(2).min(room.max(budget)) {
        return Err(format!("has {tokens} tokens; at most {budget} were asked for"));
    }
    let missing: Vec<&str> =
        refs.iter().map(String::as_str).filter(|output_ref| !names(summary, output_ref)).collect();
    if !missing.is_empty() {
        return Err(format!("does not name these output refs: {}", missing.join(", ")));
    }
    Ok(())
}

/// Whether a text has a ref in it, and not only one that begins or ends like it.
fn names(text: &str, output_ref: &str) -> bool {
    let is_of_ref = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.match_indices(output_ref).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + output_ref.len()..]);
        !before.ends_with(is_of_ref) && !behind.starts_with(is_of_ref)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_there_smaller_and_names_refs() {
        let counter = TokenCounter::Heuristic;
        let room = u64::MAX;
        let problem = |summary: &str, replaced, refs: &[&str]| {
            let refs: Vec<String> = refs.iter().map(|output_ref| (*output_ref).to_owned()).collect();
            check(summary, (replaced, 50, room), &refs, counter).err().unwrap_or_default()
        };
        assert_eq!(problem("Goal: ship. ref=out-1", 100, &["out-1"]), "");
        assert!(problem("Goal: ship. ref=out-12, about-1", 100, &["out-1"]).ends_with("refs: out-1"));
        assert_eq!(problem("出力out-12とout-1。", 100, &["out-12", "out-1"]), "");
        assert_eq!(
            (problem(" \n", 100, &[]), problem("- …", 100, &[])),
            ("is empty".into(), "is empty".into())
        );
        assert!(problem(&"a\u{1b}".repeat(40_000), u64::MAX, &[]).contains("at most 196608"));
        assert!(problem(&"x".repeat(400), 100, &[]).contains("stands for messages of 100"));
        assert!(problem(&"x".repeat(404), 1000, &[]).contains("at most 50"));
        assert!(check(&"x".repeat(300), (1000, 50, 80), &[], counter).is_ok());
        assert!(check(&"x".repeat(360), (1000, 50, 80), &[], counter).unwrap_err().contains("at most 50"));
        assert!(tells_enough("ok", 500, counter).is_ok());
        assert!(tells_enough("ok", 54_000, counter).unwrap_err().ends_with("at least 105"));
        assert!(problem("Goal: ship.", 100, &["out-1", "out-2"]).ends_with("refs: out-1, out-2"));
    }
}
