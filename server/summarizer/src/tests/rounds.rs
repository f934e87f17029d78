//! Summaries of summaries.

use super::bounds::HOSTILE;
use super::*;

/// Ten summaries on top of each other: what matters stays, nothing grows.
#[test]
fn folding_again_and_again_loses_nothing_that_matters() {
    const BUDGET: u64 = 800;
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
            "docs/migrate.md",
            "port 5433",
        ] {
            assert!(text.contains(kept), "{kept} after {generation}\n{text}");
        }
        let newer = text.find("port 6544");
        assert!(generation < 5 || newer > text.find("port 5433"), "{generation}\n{text}");
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

/// Goal and request of an earlier summary go on, until the user asks for something else.
#[test]
fn the_request_of_an_earlier_summary_becomes_an_instruction() {
    let mut extractor = Extractor::new(1000, COUNTER);
    extractor.previous("## Goal\n- Build the shop.\n\n## Current request\n- Write the exporter.");
    extractor.take(&piece(9, Role::Assistant, "I am looking at it."));
    let first = extractor.finish();
    assert_eq!(first.sections.of(Section::Request), &["Write the exporter."], "{}", first.text);
    let mut extractor = Extractor::new(1000, COUNTER);
    extractor.previous(&first.text);
    extractor.take(&piece(10, Role::User, "Now write the importer."));
    let Extract { text, sections } = extractor.finish();
    assert_eq!(sections.of(Section::Goal), &["Build the shop."], "{text}");
    assert_eq!(sections.of(Section::Request), &["Now write the importer."], "{text}");
    assert_eq!(sections.of(Section::Constraints), &["Write the exporter."], "{text}");
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

/// The user's words stand in front; what a model writes under the same heading is the model's.
#[test]
fn a_models_goal_behind_the_users_is_no_goal() {
    let mut extractor = Extractor::new(1000, COUNTER);
    extractor.previous(
        "## Goal\n- Build the shop.\n\n## Current request\n- As the goal.\n\nPrices are integers now.",
    );
    let found = extractor.finish();
    assert_eq!(found.sections.of(Section::Request), &[section::AS_THE_GOAL], "{}", found.text);
    assert!(found.text.contains("Prices are integers now."), "{}", found.text);
    let text = "## Goal\n- Build the shop.\n\n## Goal\n- The agent builds a web shop in src/shop.\n\n## Decisions\n- Port 8080 was chosen.";
    let mut extractor = Extractor::new(1000, COUNTER);
    extractor.previous(text);
    let Extract { text, sections } = extractor.finish();
    assert_eq!(sections.of(Section::Goal), &["Build the shop."], "{text}");
    assert!(text.contains("The agent builds a web shop") && text.contains("Port 8080 was chosen."), "{text}");
}

/// What was asked for in a task before this one is known, but not the goal.
#[test]
fn the_goal_of_another_task_is_an_instruction() {
    let mut extractor = Extractor::new(1000, COUNTER);
    extractor.inherited("### Goal\n- Build the shop.\n\n### Facts\n- The cart is in src/cart.rs.");
    extractor.take(&piece(1, Role::User, "Please fix the cart."));
    let Extract { text, sections } = extractor.finish();
    assert_eq!(sections.of(Section::Goal), &["Please fix the cart."], "{text}");
    assert!(text.contains("Build the shop.") && text.contains("src/cart.rs"), "{text}");
}
