//! What is taken over, and what of it is passed on: texts that are made and taken apart again.

use uuid::Uuid;

use super::*;
use crate::model::{Status, TaskId};

fn legacy(error: Option<&str>, max_tokens: u64) -> Legacy {
    let uuid = TaskId::parse(&Uuid::now_v7().to_string()).unwrap();
    let from = InheritedFrom { uuid, status: Status::Failed, completed_at: DateTime::UNIX_EPOCH };
    Legacy::new(from, error, max_tokens)
}

const CODE: &str = "## Plans\n```sh\n# a remark\n## Plans\n```\n\n### Summary\n## Plans\n- none";
const OURS: &str = "## Goal\n- Fix BILL-1742\n\n## Facts\n- 請求書は2026年3月に届く。";

#[test]
fn what_was_made_is_taken_apart_again() {
    for error in [None, Some("the build broke\nbadly")] {
        for summary in
            [None, Some(OURS), Some(CODE), Some("Just a sentence."), Some("要約：請求書を直した。")]
        {
            for plans in [&[][..], &["look at cart.rs"], &["one\n## Plans\n- two", "計画\n## Summary"]] {
                let mut legacy = legacy(error, 4000);
                summary.iter().for_each(|summary| legacy.summary(summary));
                for plan in plans {
                    legacy.plan(DateTime::UNIX_EPOCH, "initial", &Json::text(plan));
                }
                let Some(made) = legacy.finish(4000, TokenCounter::Fitted) else {
                    assert!(summary.is_none() && plans.is_empty());
                    continue;
                };
                let left = Left::read(&made.text);
                let errors: Vec<&str> =
                    left.earlier.failures.iter().map(|failure| failure.error.as_str()).collect();
                assert_eq!(errors, error.map(|_| "the build broke badly").as_slice());
                assert_eq!(left.summary.as_deref(), summary);
                let planned = left.plans.unwrap_or_default();
                assert_eq!(planned.matches("Z initial: ").count(), plans.len(), "{planned}");
                assert!(!planned.contains("How to go on"), "{planned}");
            }
        }
    }
}

#[test]
fn what_was_cut_is_taken_apart_without_the_notice() {
    for line in ["- Line BILL-1742 of many.\n", "- 請求書BILL-1742は三月に届く。\n"] {
        let summary = format!("## Goal\n{}", line.repeat(200));
        for most in [200, 300, 1000] {
            let mut legacy = legacy(None, most);
            legacy.summary(&summary);
            legacy.plan(DateTime::UNIX_EPOCH, "", &Json::text(&"step after step ".repeat(100)));
            let made = legacy.finish(most, TokenCounter::Fitted).unwrap();
            assert!(made.truncated && made.tokens <= most, "{}", made.text);
            let left = Left::read(&made.text);
            let kept = left.summary.unwrap();
            let kept = kept.strip_suffix(" …").unwrap_or(&kept).to_owned();
            assert!(summary.starts_with(&kept) && kept.len() > 20, "{kept}");
            assert!(left.plans.is_some() || most < 1000, "{}", made.text);
            for text in [kept, left.plans.unwrap_or_default()] {
                assert!(!text.contains("cut to") && !text.contains("go on"), "{text}");
            }
        }
    }
}

#[test]
fn what_was_kept_beside_a_summary_is_told_from_it() {
    for summary in [OURS, "In a sentence.\n\n## And a heading", "要約"] {
        let kept = "Never push.\n\n## Summary\nNode 22.";
        let whole = with_kept(kept, summary);
        let mut legacy = legacy(None, 4000);
        legacy.summary(&whole);
        let left = Left::read(&legacy.finish(4000, TokenCounter::Fitted).unwrap().text);
        assert_eq!(left.kept.as_deref(), Some(kept));
        assert_eq!(left.summary.as_deref(), Some(summary));
        assert_eq!(left.into_summary(), Some(whole));
    }
}

#[test]
fn what_is_passed_on_stays_as_it_is() {
    for summary in [None, Some(OURS), Some(CODE), Some("In a sentence."), Some("# A\n## Kept information\nb")]
    {
        let mut first = legacy(Some("E-4711: quota\nexceeded"), 4000);
        summary.iter().for_each(|summary| first.summary(&with_kept("Never push.", summary)));
        first.plan(DateTime::UNIX_EPOCH, "initial", &Json::text("one\n\n## Plans\n- two"));
        first.plan(DateTime::UNIX_EPOCH, "next", &Json::text("three"));
        let first = first.finish(4000, TokenCounter::Fitted).unwrap();
        let passed = Left::read(&first.text).into_summary().unwrap();
        let mut next = legacy(Some("E-4711: quota exceeded"), 4000);
        next.summary(&passed);
        let next = next.finish(4000, TokenCounter::Fitted).unwrap();
        let (first, next) = (Left::read(&first.text), Left::read(&next.text));
        assert_eq!((&next.kept, &next.summary, &next.plans), (&first.kept, &first.summary, &first.plans));
        assert_eq!(next.earlier.failures.len(), 1);
        assert_eq!(next.plans.unwrap().matches("Z ").count(), 2);
    }
}

#[test]
fn sections_of_others_are_part_of_a_summary() {
    for text in [
        "Done.\n\n## Plans\n- buy milk",
        "Done.\n\n## Earlier tasks\n- task one has the rest",
        "Done.\n\n## Earlier tasks\nnone\n\n## Plans\n\n- 1970-01-01T00:00:00Z initial: x",
        "## Plans\nnone",
    ] {
        let mut legacy = legacy(None, 4000);
        legacy.summary(text);
        let left = Left::read(&legacy.finish(4000, TokenCounter::Fitted).unwrap().text);
        assert_eq!(left, Left { summary: Some(text.to_owned()), ..Left::default() });
    }
}

#[test]
fn headings_keep_their_order_below_ours() {
    for (text, below) in [
        ("# A\n## B\n#c\n", "### A\n#### B\n#c\n"),
        ("## A\n### B", "### A\n#### B"),
        ("```\n# x\n```\n## A", "```\n# x\n```\n### A"),
        ("none # here\n#", "none # here\n#"),
        ("", ""),
    ] {
        assert_eq!(with_top(text, BELOW), below);
    }
}

#[test]
fn words_are_not_cut_in_two() {
    for (text, expected) in [
        ("- Ticket BILL-1742 waits", "- Ticket …"),
        ("aaaa bbbb\nTicket BILL-1742", "aaaa bbbb"),
        ("aaaa bbbb\n## Next\n- one", "aaaa bbbb"),
        ("請求書BILL-1742", "請求書 …"),
        ("請求書は三月に届く", "請求書は三 …"),
        ("0123456789abcdefghij", "0123456789abcdef …"),
        ("- Ticket BILL-17 waits", "- Ticket BILL-17 …"),
    ] {
        let bytes = text.floor_char_boundary(16);
        assert_eq!(cut(text, bytes), expected, "{text}");
    }
    assert_eq!(cut("## Goal\n- a long line", 16), "## Goal\n- a long …");
}

#[test]
fn a_text_of_others_is_a_summary() {
    for text in ["What was done before.", "[Context from previous task x]\nin other words"] {
        assert_eq!(Left::read(text), Left { summary: Some(text.to_owned()), ..Left::default() });
    }
    assert_eq!(Left::read(" \n"), Left::default());
}
