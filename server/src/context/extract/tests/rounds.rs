//! Summaries of summaries.

use super::bounds::HOSTILE;
use super::*;

/// What was summarised before is taken back as what is still in the history.
#[test]
fn what_an_earlier_summary_tells_can_be_taken_back() {
    for (old, new, gone) in [
        ("Keep response times under 200 ms.", "Relax the response time limit to 350 ms.", "200 ms"),
        (
            "Use camelCase for JSON keys.",
            "Switch JSON keys to snake_case, forget camelCase.",
            "Use camelCase",
        ),
        ("リリース日は4月10日です。", "リリース日は4月24日に変更になりました。", "4月10日"),
    ] {
        let first = summary(500, &[(Role::User, "Please look after the shop."), (Role::User, old)]);
        assert!(first.text.contains(gone), "{}", first.text);
        let mut again = Extractor::new(500, COUNTER);
        again.previous(&first.text);
        again.take(&piece(9, Role::Assistant, "I am looking at the tests of the basket."));
        again.take(&piece(10, Role::User, new));
        let text = again.finish().text;
        assert!(!text.contains(gone) && text.contains(new), "{old} -> {new}\n{text}");
    }
}

/// Ten summaries on top of each other: what matters stays, nothing grows, what is superseded goes.
#[test]
fn folding_again_and_again_loses_nothing_that_matters() {
    const BUDGET: u64 = 700;
    let mut text = summary(BUDGET, SESSION).text;
    let mut dice = Dice(3);
    for generation in 0..10 {
        let mut extractor = Extractor::new(BUDGET, COUNTER);
        extractor.previous(&format!("[Summary of messages 2–{}]\n\n{text}", generation * 40 + 50));
        for seq in 0..40 {
            let log: String =
                (0..40).map(|_| format!("{} {}\n", dice.of(HOSTILE), dice.below(900))).collect();
            extractor.take(&piece(seq * 2 + 1, Role::Assistant, "Let me look at the next file."));
            extractor.take(&piece(seq * 2 + 2, Role::Tool, &log));
        }
        if generation == 5 {
            extractor.take(&piece(99, Role::User, "The staging database listens on port 6544 now."));
        }
        text = extractor.finish().text;
        assert!(tokens(&text) <= BUDGET);
        for kept in [
            "Move the billing service to PostgreSQL 16.",
            "Never touch files under legacy/.",
            "テストでは本番のデータを使わないでください。",
            "I decided to keep amounts as integers in cents.",
            "PAY-4711",
            "add an index on invoices.due_at",
            "E0308",
            "docs/migrate.md",
        ] {
            assert!(text.contains(kept), "{kept} after {generation}\n{text}");
        }
        let port = if generation < 5 { "port 5433" } else { "port 6544" };
        assert!(text.contains(port) && (generation < 5 || !text.contains("5433")), "{generation}\n{text}");
    }
    // With nothing new it is what it was.
    let again = |text: &str| {
        let mut extractor = Extractor::new(BUDGET, COUNTER);
        extractor.previous(text);
        extractor.finish().text
    };
    let once = again(&text);
    assert_eq!(again(&once), once);
}

#[test]
fn a_summary_of_somebody_else_is_important() {
    let theirs = "The agent works on the parser.\n\n1. Use tabs in src/lex.rs.\n2. Build 8f3a1c2d is the last good one.\n";
    let mut extractor = Extractor::new(300, COUNTER);
    extractor.take(&piece(0, Role::User, &format!("[Kept information]\n{theirs}")));
    for seq in 1..200 {
        extractor.take(&piece(
            seq,
            Role::Assistant,
            "I changed line 12 of src/other.rs, and the tests are green.",
        ));
    }
    let text = extractor.finish().text;
    for kept in ["The agent works on the parser.", "Use tabs in src/lex.rs.", "8f3a1c2d"] {
        assert!(text.contains(kept), "{kept}\n{text}");
    }
}

/// What tools have shown only fills the room that was left, and does so again when it is told again.
#[test]
fn what_tools_have_shown_is_not_worth_more_in_the_next_round() {
    let shown = |line: u32| {
        format!("- read_file → src/core/writer{line}.rs:{line}8: PriceList price_{line} = get_{line}();\n")
    };
    let said = [
        "The loader of batch_7 stops at offset 40961.",
        "Segment wal-0093 begins in src/wal/recover.rs at line 218.",
        "The replica of shop_eu has 3 workers.",
    ];
    let mut facts: String = (0..30).map(shown).collect();
    facts.extend(said.iter().map(|line| format!("- {line}\n")));
    facts.extend((30..60).map(shown));
    let mut extractor = Extractor::new(300, COUNTER);
    extractor.previous(&format!("## Goal\n- Find out why segments are lost.\n\n## Facts\n{facts}"));
    let text = extractor.finish().text;
    for line in said {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(text.contains("price_"), "there is room left\n{text}");
}
