//! Calls, their outputs, and where these are stored.

use super::*;

/// Runs a command with an output.
fn run(extractor: &mut Extractor, seq: u64, command: &str, output: &str, output_ref: Option<&str>) {
    let arguments = format!(r#"{{"command":"{command}"}}"#);
    let calls = [Call { name: "bash", arguments: &arguments }];
    extractor.take(&Piece { calls: &calls, ..piece(seq, Role::Assistant, "") });
    extractor.take(&Piece { output_ref, ..piece(seq + 1, Role::Tool, output) });
}

#[test]
fn calls_tell_files_and_commands_with_results() {
    let mut extractor = Extractor::new(1000, COUNTER);
    let calls = [
        Call { name: "edit_file", arguments: r#"{"path":"src/a.rs","new":"error: this is code"}"# },
        Call { name: "bash", arguments: r#"{"command":["bash","-lc","cargo test -p ledger"]}"# },
        Call {
            name: "apply_patch",
            arguments: r#"{"input":"*** Begin Patch\n*** Add File: src/new.rs\n+x\n"}"#,
        },
        Call { name: "deploy", arguments: r#"{"target":"stage-7","force":true}"# },
        Call { name: "send_email", arguments: r#"{"to":"info@villa.example","body":"Hello"}"# },
        Call { name: "bash", arguments: "not json" },
    ];
    extractor.take(&Piece { calls: &calls, ..piece(2, Role::Assistant, "Now `a.rs` rounds once.") });
    extractor.take(&piece(3, Role::Tool, "The file was updated."));
    let output = format!("{}\n41 passed; 0 failed\n", "test ok\n".repeat(60));
    extractor.take(&Piece { output_ref: Some("out-9f3"), ..piece(4, Role::Tool, &output) });
    let sections = extractor.finish().sections;
    assert_eq!(sections.of(Section::Files), &["src/a.rs (changed)", "src/new.rs (created)"]);
    let commands = sections.of(Section::Commands);
    assert!(commands.contains(&"cargo test -p ledger → 41 passed; 0 failed".to_owned()), "{commands:?}");
    assert!(commands.iter().any(|one| one.starts_with("deploy") && one.contains("stage-7")), "{commands:?}");
    assert_eq!(sections.of(Section::Refs), &["cargo test -p ledger, 41 passed; 0 failed: out-9f3"]);
}

#[test]
fn refs_are_told_with_tool_and_subject() {
    let mut extractor = Extractor::new(1000, COUNTER);
    let failed =
        format!("{}FAILED tests/test_tax.py::test_round\n3 failed, 12 passed\n", "..........\n".repeat(60));
    run(&mut extractor, 1, "pytest -q", &failed, Some("out-1"));
    let first = extractor.finish();
    assert_eq!(
        first.sections.of(Section::Refs),
        &["pytest -q, 3 failed, 12 passed: out-1"],
        "{}",
        first.text
    );
    let mut again = Extractor::new(1000, COUNTER);
    again.previous(&first.text);
    assert_eq!(again.finish().sections.of(Section::Refs), first.sections.of(Section::Refs));
    let mut elsewhere = Extractor::new(1000, COUNTER).without_refs();
    elsewhere.previous(&first.text);
    assert!(!elsewhere.finish().text.contains("out-1"));
}

#[test]
fn the_newest_error_of_each_failing_command_stays() {
    let mut extractor = Extractor::new(200, COUNTER);
    for n in 0..30_u64 {
        run(
            &mut extractor,
            n * 6 + 1,
            "cargo test",
            &format!("error[E{:04}]: broken in round {n}", 300 + n),
            None,
        );
        run(&mut extractor, n * 6 + 3, "npm test", &format!("Error: round {n} of the page failed"), None);
        run(&mut extractor, n * 6 + 5, "ls src", &format!("part{n}.rs\nerror_{n}.rs"), None);
    }
    let text = extractor.finish().text;
    assert!(text.contains("cargo test → error[E0329]: broken in round 29"), "{text}");
    assert!(text.contains("npm test → Error: round 29 of the page failed"), "{text}");
    let mut again = Extractor::new(200, COUNTER);
    again.previous(&text);
    for n in 0..60 {
        run(&mut again, n * 2 + 1, &format!("make part{n}"), &format!("{n} parts were built\nok"), None);
    }
    let text = again.finish().text;
    assert!(text.contains("E0329") && text.contains("npm test → Error: round 29"), "{text}");
}

/// What a panic says, and what a test runner marks, is in the line behind.
#[test]
fn an_error_may_be_told_by_the_next_line() {
    let output = "thread 'replay' panicked at src/replay.rs:212:17:\nsequence gap after 88120417\nnote: run with a backtrace\n";
    let text = format!("{}{output}", "   Compiling something v1.0.0\n".repeat(40));
    let sections = summary(1000, &[(Role::Tool, &text)]).sections;
    let told = sections.of(Section::Errors);
    assert!(told.iter().any(|line| line.contains("sequence gap after 88120417")), "{sections:?}");
}

/// A line that looks like no other is told, and those that all look alike are not.
#[test]
fn what_looks_like_no_other_line_is_told() {
    let mut log: String = (0..300).map(|n| format!("INFO job {n} took {} ms\n", n * 3)).collect();
    log.push_str("lease 7f3a-99 of writer-2 is held by node eu-4\n");
    log.extend((0..300).map(|n| format!("INFO job {n} took {} ms\n", n * 7)));
    let text = summary(400, &[(Role::User, "Please look after the jobs."), (Role::Tool, &log)]).text;
    assert!(text.contains("lease 7f3a-99 of writer-2") && text.matches("INFO job").count() < 3, "{text}");
}

#[test]
fn an_item_that_is_ticked_off_is_told_so() {
    let said = [
        (Role::Assistant, "- [ ] wire up the endpoint\n- [ ] write docs"),
        (Role::Assistant, "- [x] wire up the endpoint"),
    ];
    let pending = summary(500, &said).sections.of(Section::Pending).join("\n");
    assert!(!pending.contains("[ ] wire") && pending.contains("[ ] write docs"), "{pending}");
}

/// What a listing shows is somebody else's text: a word of an error in it is none of ours.
#[test]
fn errors_in_a_listing_are_not_ours() {
    for command in ["cat src/a.rs", "cd app && git diff", "rg fatal"] {
        let mut extractor = Extractor::new(1000, COUNTER);
        run(&mut extractor, 1, command, "fatal error: this is text of a file", None);
        let sections = extractor.finish().sections;
        assert!(sections.of(Section::Errors).is_empty(), "{command}: {sections:?}");
    }
    let mut extractor = Extractor::new(1000, COUNTER);
    run(&mut extractor, 1, "make", "fatal error: this is ours", None);
    assert_eq!(extractor.finish().sections.of(Section::Errors), &["make → fatal error: this is ours"]);
}

/// A file stands with what was done to it last; reading it changes nothing.
#[test]
fn files_stand_with_what_was_done_to_them() {
    let mut extractor = Extractor::new(1000, COUNTER);
    for (seq, (name, arguments)) in (1..).zip([
        ("createFile", r#"{"path":"src/a.rs","content":"x"}"#),
        ("move_file", r#"{"source":"src/a.rs","destination":"src/b.rs"}"#),
        ("read_file", r#"{"path":"src/b.rs"}"#),
        ("str_replace", r#"{"file_path":"src/c.rs"}"#),
        ("delete_file", r#"{"path":"src/c.rs"}"#),
        ("view", r#"{"path":"src/d.rs"}"#),
    ]) {
        let calls = [Call { name, arguments }];
        extractor.take(&Piece { calls: &calls, ..piece(seq, Role::Assistant, "") });
    }
    let sections = extractor.finish().sections;
    let expected = ["src/b.rs (moved)", "src/a.rs (moved)", "src/c.rs (deleted)", "src/d.rs"];
    assert_eq!(sections.of(Section::Files), &expected);
}

/// A model that says what it is about to look at says nothing.
#[test]
fn narration_is_left_out_unless_it_says_something() {
    let said = [(Role::Assistant, "I'll have a look at the shop. Let me see, the ticket is PAY-77.")];
    let text = summary(500, &said).text;
    assert!(!text.contains("have a look") && text.contains("PAY-77"), "{text}");
}
