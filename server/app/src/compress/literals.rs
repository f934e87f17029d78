//! The words of what is put into a view: each begins with a line in brackets that says what it is.

use crate::context::count_tokens;
use crate::model::NewMessage;
use crate::model::{Json, Literal, LiteralKind, Role, TokenCounter};

const RETAINED: &str = "[Kept information]";
const PLAN: &str = "[Current plan";

/// A summary of messages.
pub(super) fn summary(first: u64, last: u64, text: &str, counter: TokenCounter) -> Literal {
    literal(LiteralKind::Summary, &format!("[Summary of messages {first}–{last}]\n{}", text.trim()), counter)
}

/// What a summary stands for, and its text.
pub(super) fn read_summary(content: &str) -> (Option<(u64, u64)>, &str) {
    let Some((head, text)) = content.split_once('\n') else { return (None, content) };
    let range = head.strip_prefix("[Summary of messages ").and_then(|rest| rest.strip_suffix(']'));
    let range = range.and_then(|range| range.split_once('–'));
    match range.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?))) {
        Some(range) => (Some(range), text),
        None => (None, content),
    }
}

/// What is kept beside a summary.
pub(super) fn retain(text: &str, counter: TokenCounter) -> Literal {
    literal(LiteralKind::Retain, &format!("{RETAINED}\n{}", text.trim()), counter)
}

/// The text of that.
pub(super) fn read_retain(content: &str) -> &str {
    content.strip_prefix(RETAINED).map_or(content, str::trim_start)
}

/// The newest plan when some message was the last one: a newer one may have come since.
pub(super) fn plan(last: u64, text: &str, counter: TokenCounter) -> Literal {
    literal(LiteralKind::Note, &format!("{PLAN} as of message {last}]\n{}", text.trim()), counter)
}

/// The text of that.
pub(super) fn read_plan(content: &str) -> Option<&str> {
    content.strip_prefix(PLAN)?.split_once('\n').map(|(_, text)| text)
}

/// Messages that are left out.
pub(super) fn gap(messages: u64, counter: TokenCounter) -> Literal {
    let words = if messages == 1 { "message" } else { "messages" };
    literal(LiteralKind::Gap, &format!("[{messages} {words} omitted]"), counter)
}

/// Messages that are left out, with what they said in short.
pub(super) fn gap_summary(
    (first, last): (u64, u64),
    messages: u64,
    text: &str,
    counter: TokenCounter,
) -> Literal {
    let head = format!("[{messages} messages omitted: summary of messages {first}–{last}]");
    literal(LiteralKind::Gap, &format!("{head}\n{}", text.trim()), counter)
}

/// Returns what a gap note says of the messages in short, with the first and the last of them.
pub(super) fn read_gap_summary(content: &str) -> Option<((u64, u64), &str)> {
    let (head, text) = content.split_once('\n')?;
    let (_, range) = head.strip_suffix(']')?.split_once(" omitted: summary of messages ")?;
    let (first, last) = range.split_once('–')?;
    Some(((first.parse().ok()?, last.parse().ok()?), text))
}

/// Says whether a content is a result whose call is gone, which a view shows as the user's.
pub(super) fn is_stray_result(content: &str) -> bool {
    ["\"[Tool: ", r#"[{"type":"text","text":"[Tool: "#].iter().any(|start| content.starts_with(start))
}

/// How many messages a gap stands for.
pub(super) fn read_gap(content: &str) -> u64 {
    let number = content.strip_prefix('[').and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn literal(kind: LiteralKind, text: &str, counter: TokenCounter) -> Literal {
    let message = NewMessage::text(Role::User, text);
    let tokens = count_tokens(counter, &message);
    Literal { role: Role::User, content: Json::text(text), kind, tokens, summary: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read_back_as_it_was_written() {
        let made = summary(2, 51, " The goal.\n- one ", TokenCounter::Fitted);
        let text: String = serde_json::from_str(made.content.as_str()).unwrap();
        assert!(text.starts_with("[Summary of messages 2–51]\n"), "{text}");
        assert_eq!(read_summary(&text), (Some((2, 51)), "The goal.\n- one"));
        for other in ["", "no head", "[Summary of messages x–y]\ntext", "two\nlines"] {
            assert_eq!(read_summary(other), (None, other));
        }
        let kept = retain("a\nb", TokenCounter::Fitted);
        let text: String = serde_json::from_str(kept.content.as_str()).unwrap();
        assert_eq!(read_retain(&text), "a\nb");
        let plan = plan(7, "a\nb", TokenCounter::Fitted);
        let text: String = serde_json::from_str(plan.content.as_str()).unwrap();
        assert_eq!((read_plan(&text), read_plan("[12 messages omitted]")), (Some("a\nb"), None));
    }
}
