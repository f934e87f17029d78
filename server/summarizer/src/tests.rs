//! The summariser as a whole, and each of its rules by its name.

mod bounds;
mod outputs;
mod requests;
mod rounds;
mod text;
mod users_words;

use super::*;
use crate::context::count_text;

const COUNTER: TokenCounter = TokenCounter::Fitted;

fn piece(seq: u64, role: Role, text: &str) -> Piece<'_> {
    Piece { seq, role, text, calls: &[], tool_name: None, output_ref: None }
}

thread_local! {
    /// Bytes and notes that were looked at.
    static WORK: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts work.
pub(super) fn work(done: usize) {
    WORK.set(WORK.get() + done);
}

/// What is said becomes a summary.
fn summary(budget: u64, said: &[(Role, &str)]) -> Extract {
    let mut extractor = Extractor::new(budget, COUNTER);
    for (seq, (role, text)) in (1..).zip(said) {
        extractor.take(&piece(seq, *role, text));
    }
    extractor.finish()
}

fn by_user(said: &[&str]) -> Extract {
    summary(2000, &said.iter().map(|text| (Role::User, *text)).collect::<Vec<_>>())
}

fn tokens(text: &str) -> u64 {
    count_text(COUNTER, text)
}

/// Numbers that look random, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

const SESSION: &[(Role, &str)] = &[
    (Role::User, "Hi! Move the billing service to PostgreSQL 16. Never touch files under legacy/. Thanks!"),
    (
        Role::Assistant,
        "Understood. Let me look at the schema first. I decided to keep amounts as integers in cents.",
    ),
    (
        Role::Tool,
        "running 3 tests\nerror[E0308]: mismatched types\n  --> src/billing/invoice.rs:41:9\ntest result: FAILED. 2 passed; 1 failed\n",
    ),
    (Role::User, "テストでは本番のデータを使わないでください。担当は田中さんです。"),
    (
        Role::Assistant,
        "The ticket for this is PAY-4711. To do: add an index on invoices.due_at. 移行手順はdocs/migrate.mdにあります。",
    ),
    (Role::User, "The staging database listens on port 5433."),
    (Role::User, "ok"),
];

#[test]
fn what_matters_is_told_in_its_section() {
    let Extract { text, sections } = summary(2000, SESSION);
    for (section, part) in [
        (Section::Goal, "Move the billing service to PostgreSQL 16."),
        (Section::Constraints, "Never touch files under legacy/."),
        (Section::Constraints, "テストでは本番のデータを使わないでください。"),
        (Section::Constraints, "port 5433"),
        (Section::Decisions, "I decided to keep amounts as integers in cents."),
        (Section::Errors, "error[E0308]: mismatched types"),
        (Section::Facts, "PAY-4711"),
        (Section::Pending, "add an index on invoices.due_at"),
    ] {
        assert!(sections.of(section).iter().any(|line| line.contains(part)), "{part}\n{text}");
    }
    for gone in ["Hi!", "Thanks!", "Let me look", "Understood", "- ok"] {
        assert!(!text.contains(gone), "{gone}\n{text}");
    }
    assert!(text.starts_with("## Goal\n- Move the billing"), "{text}");
    assert_eq!(text, sections.to_text());
}
