//! The summariser as a whole: what it keeps and drops.

mod bounds;
mod rounds;
mod told;

use super::*;
use crate::context::count_text;

const COUNTER: TokenCounter = TokenCounter::Fitted;

fn piece(seq: u64, role: Role, text: &str) -> Piece<'_> {
    Piece { seq, role, text, calls: &[], tool_name: None, output_ref: None }
}

/// The examples below a heading.
fn examples(heading: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("examples.txt").lines().skip_while(move |line| *line != heading).skip(1);
    let found: Vec<_> =
        lines.take_while(|line| !line.is_empty()).map(|line| line.split_once(" => ").unwrap()).collect();
    assert!(!found.is_empty(), "{heading}");
    found.into_iter()
}

/// What is said becomes a summary.
fn summary(budget: u64, said: &[(Role, &str)]) -> Extract {
    let mut extractor = Extractor::new(budget, COUNTER);
    for (seq, (role, text)) in (1..).zip(said) {
        extractor.take(&piece(seq, *role, text));
    }
    extractor.finish()
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
    let has = |lines: &[String], part: &str| {
        assert!(lines.iter().any(|line| line.contains(part)), "{part}\n{text}")
    };
    has(&sections.goal, "Move the billing service to PostgreSQL 16.");
    has(&sections.constraints, "Never touch files under legacy/.");
    has(&sections.constraints, "テストでは本番のデータを使わないでください。");
    has(&sections.decisions, "I decided to keep amounts as integers in cents.");
    has(&sections.errors, "error[E0308]: mismatched types");
    has(&sections.files, "src/billing/invoice.rs");
    has(&sections.facts, "PAY-4711");
    has(&sections.pending, "add an index on invoices.due_at");
    has(&sections.facts, "port 5433");
    for gone in ["Hi!", "Thanks!", "Let me look", "Understood", "- ok"] {
        assert!(!text.contains(gone), "{gone}\n{text}");
    }
    assert!(text.starts_with("## Goal\n- Move the billing"), "{text}");
    assert_eq!(text, sections.to_text());
}

#[test]
fn calls_tell_files_and_commands_and_refs_stay() {
    let mut extractor = Extractor::new(1000, COUNTER);
    let calls = [
        Call { name: "edit_file", arguments: r#"{"path":"src/a.rs","new":"error: this is code"}"# },
        Call { name: "bash", arguments: r#"{"command":["bash","-lc","cargo test -p ledger"]}"# },
        Call {
            name: "apply_patch",
            arguments: r#"{"input":"*** Begin Patch\n*** Add File: src/new.rs\n+x\n"}"#,
        },
        Call { name: "bash", arguments: r#"{"command":"git mv src/old.rs src/core.rs"}"# },
        Call { name: "deploy", arguments: r#"{"target":"stage-7","force":true}"# },
        Call { name: "bash", arguments: "not json" },
    ];
    extractor.take(&piece(1, Role::Assistant, "src/old.rs is where it starts."));
    extractor.take(&Piece { calls: &calls, ..piece(2, Role::Assistant, "") });
    extractor.take(&piece(3, Role::Tool, "The file was updated."));
    let output = format!("{}\n41 passed; 0 failed\n", "test ok\n".repeat(60));
    extractor.take(&Piece { output_ref: Some("out-9f3"), ..piece(4, Role::Tool, &output) });
    let Sections { files, commands, refs, .. } = extractor.finish().sections;
    assert_eq!(files, ["src/a.rs (changed)", "src/new.rs (created)", "src/core.rs (moved here)"]);
    assert!(commands.contains(&"cargo test -p ledger → 41 passed; 0 failed".to_owned()), "{commands:?}");
    assert!(
        commands.iter().any(|command| command.starts_with("deploy") && command.contains("stage-7")),
        "{commands:?}"
    );
    assert_eq!(refs, ["out-9f3 (cargo test -p ledger)"]);
}

#[test]
fn the_newer_statement_takes_the_place_of_the_older() {
    for (old, new) in examples("replaced") {
        let said = [(Role::User, old), (Role::Assistant, "Understood."), (Role::User, new)];
        let mut extractor = Extractor::new(1000, COUNTER);
        // The first request is the goal, which is another matter.
        extractor.take(&piece(1, Role::User, "Please look after the shop."));
        for (seq, (role, text)) in (2..).zip(said) {
            extractor.take(&piece(seq, role, text));
        }
        let text = extractor.finish().text;
        assert!(!text.contains(old), "{old} -> {new}\n{text}");
        assert!(text.contains(new.split(". ").next().unwrap()), "{old} -> {new}\n{text}");
    }
}

/// An answer is told with what it answers, and takes the place of what was said of that.
#[test]
fn short_answers_are_about_what_was_asked() {
    for (proposed, rest) in examples("replaced by an answer") {
        let (question, answer) = rest.split_once(" => ").unwrap();
        let said = [
            (Role::User, "Please look after the shop."),
            (Role::Assistant, proposed),
            (Role::Assistant, question),
            (Role::User, answer),
        ];
        let text = summary(1000, &said).text;
        assert!(!text.contains(proposed), "{proposed} -> {answer}\n{text}");
        assert!(text.contains(&format!("{answer} [re: {question}]")), "{text}");
    }
}

/// Of a sentence that says several things only what changed goes.
#[test]
fn what_is_still_true_of_a_sentence_stays() {
    let said = [
        (Role::User, "Please look after the shop."),
        (
            Role::User,
            "The relay keeps its state in table_v2, and every message is acknowledged after 577 seconds.",
        ),
        (Role::User, "I asked again: messages of the relay are acknowledged after 700 seconds now."),
    ];
    let text = summary(1000, &said).text;
    assert!(!text.contains("577") && text.contains("table_v2") && text.contains("700 seconds"), "{text}");
}

#[test]
fn other_statements_stay() {
    for (old, new) in examples("kept") {
        let said = [
            (Role::User, "Please look after the shop."),
            (Role::User, old),
            (Role::Assistant, "Understood."),
            (Role::User, new),
        ];
        let text = summary(1000, &said).text;
        assert!(text.contains(old) && text.contains(new), "{old} -> {new}\n{text}");
    }
}

/// What the user said goes only if the user says so, whatever the model reports of it.
#[test]
fn the_model_takes_back_nothing_that_the_user_said() {
    for (old, new) in [
        ("Take Studio Lago instead, full day on Saturday.", "Studio Lago is available, EUR 1,200."),
        ("Contacts: printing Wouter, +31 10 555 0142.", "I called Wouter, he wants the number of badges."),
        ("The database port is 5432.", "Correction: the database port is 6543 now."),
        ("店舗端末はiOS 12.5です。", "店舗端末では新しい構文が使えなかったので、書き換えました。"),
    ] {
        let said = [(Role::User, "Please look after the shop."), (Role::User, old), (Role::Assistant, new)];
        let text = summary(1000, &said).text;
        assert!(text.contains(old), "{old} -> {new}\n{text}");
    }
}

/// What stands in a list under a heading of rules is a rule, and the heading tells nothing.
#[test]
fn lists_of_rules_are_rules() {
    let said = [
        (Role::User, "Please build the export feature."),
        (
            Role::User,
            "Ground rules:\n- Python 3.11 only, no new libraries.\n- PostgreSQL 14, nothing newer.\n\nThe ticket is PAY-7.",
        ),
        (Role::User, "ルール：\n・納期は金曜17時。\n・回答は英語で。"),
    ];
    let Extract { sections, text } = summary(1000, &said);
    for rule in ["Python 3.11 only", "PostgreSQL 14", "納期は金曜17時", "回答は英語で"] {
        assert!(sections.constraints.iter().any(|line| line.contains(rule)), "{rule}\n{text}");
    }
    assert!(!text.contains("Ground rules") && !text.contains("ルール"), "{text}");
    assert!(sections.facts.iter().any(|line| line.contains("PAY-7")), "{text}");
}

/// With little room it is what the user wants that stays, and not what is said along the way.
#[test]
fn what_the_user_wants_comes_before_small_talk() {
    let mut said = vec![
        (Role::User, "Plan the wedding of my parents near the lake. The budget is 18,000 euros.".to_owned()),
        (
            Role::User,
            "And please no seafood anywhere near the menus, my uncle has a severe shellfish allergy."
                .to_owned(),
        ),
    ];
    for n in 0..60 {
        said.push((
            Role::Assistant,
            format!("I looked at venue {n} in halls/list_{n}.md, it is EUR {}.", n * 7 + 300),
        ));
        said.push((Role::User, format!("ok, next venue {n}")));
    }
    let said: Vec<(Role, &str)> = said.iter().map(|(role, text)| (*role, text.as_str())).collect();
    let text = summary(150, &said).text;
    assert!(text.contains("shellfish allergy") && text.contains("wedding of my parents"), "{text}");
    assert!(text.matches("ok, next venue").count() <= 1, "{text}");
    let said = [
        (Role::User, "Please look after the shop."),
        (Role::User, "Rules:\n- PostgreSQL 14, nothing newer."),
        (Role::User, "ok, next part 14"),
        (Role::User, "ok, next part 15"),
    ];
    let text = summary(1000, &said).text;
    assert!(text.contains("PostgreSQL 14"), "{text}");
}

/// What a panic says, and what a test runner marks, is in the line behind.
#[test]
fn an_error_may_be_told_by_the_next_line() {
    let output = "thread 'replay' panicked at src/replay.rs:212:17:\nsequence gap after 88120417\nnote: run with a backtrace\n";
    let text = format!("{}{output}", "   Compiling something v1.0.0\n".repeat(40));
    let sections = summary(1000, &[(Role::Tool, &text)]).sections;
    assert!(sections.errors.iter().any(|line| line.contains("sequence gap after 88120417")), "{sections:?}");
}

/// Somebody's address is no file, and a file is told once.
#[test]
fn files_are_told_once_and_are_files() {
    let mut extractor = Extractor::new(1000, COUNTER);
    let calls = [
        Call { name: "send_email", arguments: r#"{"to":"info@villa.example","body":"Hello"}"# },
        Call { name: "edit_file", arguments: r#"{"path":"src/billing/tax.py","new":"x"}"# },
    ];
    extractor.take(&Piece { calls: &calls, ..piece(1, Role::Assistant, "Now `tax.py` rounds once.") });
    let files = extractor.finish().sections.files;
    assert_eq!(files, ["src/billing/tax.py (changed)"]);
}

/// A message may change several things, and what it says itself stays.
#[test]
fn each_sentence_may_take_the_place_of_a_statement() {
    let said = [
        (Role::User, "Please look after the shop."),
        (Role::User, "The database port is 5432."),
        (Role::User, "Set the retry limit of the mailer to 3."),
        (Role::User, "The database port is now 6543. Bump the retry limit of the mailer to 7."),
    ];
    let text = summary(1000, &said).text;
    for (there, part) in [(false, "5432"), (false, "to 3"), (true, "6543"), (true, "to 7")] {
        assert_eq!(text.contains(part), there, "{part}\n{text}");
    }
}

/// What is said of one thing after the other holds of each of them.
#[test]
fn a_series_stays() {
    for series in [
        |n: u32| format!("Day {n}: see src/day_{n}.rs, the answer is {}.", n * 7919),
        |n: u32| format!("{n}番目の倉庫の内線は{}です。", 4000 + n * 13),
        |n: u32| format!("Tenant {n} is on shard s-{}.", n * 3),
        |n: u32| format!("Never touch the table ledger_{n}, the auditors look at it."),
        |n: u32| format!("テーブル台帳{n}には絶対に書き込まないでください。"),
    ] {
        let said: Vec<String> = (10..30).map(series).collect();
        for role in [Role::User, Role::Assistant] {
            let said: Vec<(Role, &str)> = said.iter().map(|text| (role, text.as_str())).collect();
            let text = summary(4000, &said).text;
            let lost: Vec<_> = said.iter().filter(|(_, said)| !text.contains(said)).collect();
            assert!(lost.is_empty(), "{lost:?}\n{text}");
        }
    }
}

#[test]
fn what_is_done_is_no_longer_open() {
    for (open, done) in [
        ("To do: write the migration script", "The migration script is done."),
        ("To do: add pagination to /users", "Pagination for /users is implemented."),
        ("残り: 移行スクリプトの作成", "移行スクリプトは完了しました。"),
        ("Next step: ticket OPS-12 needs a reply", "OPS-12 is closed."),
        ("- [ ] wire up the health endpoint", "- [x] wire up the health endpoint"),
    ] {
        let before = summary(500, &[(Role::Assistant, open)]);
        assert_eq!(before.sections.pending.len(), 1, "{open}\n{}", before.text);
        let after = summary(500, &[(Role::Assistant, open), (Role::Assistant, done)]);
        assert!(after.sections.pending.is_empty(), "{open}\n{}", after.text);
    }
    let still = ["To do: write the migration script", "The migration script is not done yet."];
    assert!(summary(500, &still.map(|text| (Role::Assistant, text))).text.contains(still[0]));
    let error = (Role::Tool, "error[E0308]: mismatched types in the parser, expected u64");
    assert_eq!(summary(500, &[error]).sections.errors.len(), 1);
    let fixed = summary(500, &[error, (Role::Assistant, "I fixed E0308, it was a cast.")]);
    assert!(fixed.sections.errors.is_empty(), "{}", fixed.text);
}
