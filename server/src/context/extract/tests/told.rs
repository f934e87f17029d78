//! What is told of answers, of commands that failed and then did not, of lists and of our own notes.

use super::*;

/// One call of a tool and its result.
fn run<'a>(extractor: &mut Extractor, tool: &'a str, arguments: &'a str, output: &'a str) {
    let calls = [Call { name: tool, arguments }];
    extractor.take(&Piece { calls: &calls, ..piece(2, Role::Assistant, "") });
    extractor.take(&piece(3, Role::Tool, output));
}

fn made(budget: u64, take: impl FnOnce(&mut Extractor)) -> String {
    let mut extractor = Extractor::new(budget, COUNTER);
    take(&mut extractor);
    extractor.finish().text
}

#[test]
fn what_the_user_refuses_is_no_decision() {
    for (proposed, no, gone, stays) in [
        (
            "I suggest to keep the session in localStorage so that the redirect finds it.",
            "No, security forbids that. Use the httpOnly cookie sw_sid.",
            "localStorage",
            "sw_sid",
        ),
        (
            "For dates I decided to parse them as UTC, since polars wants a time zone.",
            "No! The dates are in Europe/Berlin. Never convert to UTC before the day boundary is computed.",
            "decided to parse",
            "Europe/Berlin",
        ),
        (
            "言語の切り替えはCookie NEXT_LOCALE に保存する方針にします。",
            "Cookieは同意バナーの対象になるので使えません。PUT /api/v1/me/locale に保存してください。",
            "保存する方針",
            "me/locale",
        ),
    ] {
        let goal = (Role::User, "Please rework the importer of the shop, ticket SHOP-1.");
        let text = summary(600, &[goal, (Role::Assistant, proposed), (Role::User, no)]).text;
        assert!(!text.contains(gone) && text.contains(stays), "{text}");
        // Not so if it is taken.
        let yes = (Role::User, "Yes, do that.");
        let text = summary(600, &[goal, (Role::Assistant, proposed), yes]).text;
        assert!(text.contains(gone), "{text}");
    }
}

#[test]
fn how_it_is_to_be_done_does_not_take_the_place_of_the_goal() {
    let said = [
        (Role::User, "クラスタを1.28から1.31へ上げる作業をお願いします。作業票は OPS-778 です。"),
        (Role::Assistant, "1.28から1.31へは直接上げる計画です。"),
        (Role::User, "1つずつしか上げられません。1.29、1.30、1.31の順でお願いします。"),
    ];
    let text = summary(600, &said).text;
    assert!(
        text.contains("1.31へ上げる作業") && text.contains("順でお願い") && !text.contains("直接"),
        "{text}"
    );
}

#[test]
fn an_answer_is_told_with_what_it_answers() {
    let asked = (Role::Assistant, "I can set ambiguous='earliest' or 'latest'. Which one?");
    let answer = (Role::User, "Earliest. That's what pandas did for us too.");
    let text = summary(600, &[asked, answer]).text;
    assert!(
        text.contains("Earliest. [re: I can set ambiguous='earliest' or 'latest'. Which one?]"),
        "{text}"
    );
    // In the next round too.
    let again = made(600, |extractor| extractor.previous(&text));
    assert!(again.contains("Earliest. [re: I can set"), "{again}");
}

#[test]
fn what_went_wrong_with_a_command_is_history_once_it_succeeds() {
    const COMMAND: &str = r#"{"command":"npx tsc --noEmit"}"#;
    const WRONG: &str = "src/a.ts(14,22): error TS2339: Property 'x' does not exist on type 'Y'.";
    for fine in ["", "(no output)", "12 files checked, 0 failed, exit code 0"] {
        let text = made(600, |extractor| {
            run(extractor, "bash", COMMAND, WRONG);
            run(extractor, "bash", COMMAND, fine);
        });
        let line = text.lines().find(|line| line.contains("TS2339")).unwrap_or_default();
        assert!(line.is_empty() || line.ends_with("(the same command succeeded later)"), "{text}");
        // It comes last in the next round.
        let again = made(60, |extractor| {
            extractor.previous(&text);
            extractor.take(&piece(9, Role::User, "Never push to main. The ticket is PAY-4711."));
        });
        assert!(again.contains("PAY-4711") && !again.contains("TS2339"), "{again}");
    }
    let text = made(600, |extractor| run(extractor, "bash", COMMAND, WRONG));
    assert!(text.contains("TS2339") && !text.contains("succeeded"), "{text}");
}

#[test]
fn code_that_is_shown_is_no_error_of_ours() {
    let text = made(600, |extractor| {
        run(
            extractor,
            "grep",
            r#"{"pattern":"error"}"#,
            "src/core/client.rs:260: /// Gives an error if it is gone.",
        );
    });
    assert!(!text.contains("## Errors seen"), "{text}");
}

#[test]
fn our_own_notes_and_narration_are_not_told() {
    let note = "seed 1: ok\n[output cut: 1 of 3000 lines shown, 40889 bytes in all; ref=out-7. Expand it with \
                tool_output_cache {\"ref_id\":\"out-7\"}]";
    let text = made(2000, |extractor| {
        run(extractor, "bash", r#"{"command":"./soak.sh"}"#, note);
        extractor.take(&piece(4, Role::Assistant, "Reading the module to see how it is wired."));
        extractor.take(&piece(5, Role::Assistant, "#team-data is told about the index idx_orders."));
    });
    for absent in ["output cut", "Expand it", "wired"] {
        assert!(!text.contains(absent), "{text}");
    }
    assert!(text.contains("#team-data is told"), "{text}");
}

#[test]
fn what_is_left_of_a_list_stays_open() {
    let said = [
        (Role::User, "Fix the importer, ticket SHOP-1."),
        (
            Role::Assistant,
            "Still to do: changelog entry, a regression test for seed 7741, and the PR against release/0.9.",
        ),
        (Role::Assistant, "The regression test for seed 7741 is done."),
    ];
    let pending = summary(600, &said).sections.pending.join("\n");
    assert!(pending.contains("changelog entry") && pending.contains("release/0.9"), "{pending}");
    assert!(!pending.contains("7741"), "{pending}");
}

#[test]
fn sections_are_those_of_what_is_meant() {
    let said = [
        (Role::User, "一覧を多言語対応にしたいです。課題番号は ADM-330 です。"),
        (Role::Assistant, "Open: rerun tools/compare.py, update docs/etl.md."),
        (
            Role::Assistant,
            "I'll mock POST /v2/payment-intents in src/test/handlers.ts until Priya has enabled the account.",
        ),
        (Role::Assistant, "The regression test tests/powercut_7741.rs passes."),
    ];
    let Sections { pending, changes, errors, .. } = summary(600, &said).sections;
    let pending = pending.join("\n");
    assert!(pending.contains("docs/etl.md") && !pending.contains("ADM-330"), "{pending}");
    assert!(changes.iter().all(|line| !line.contains("mock")), "{changes:?}");
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn refs_have_room_in_a_short_summary_and_none_in_that_of_another_task() {
    let take = |extractor: &mut Extractor| {
        for rule in 0..12 {
            let text = format!("Rule {rule}: never change the column order of table t{rule} in the export.");
            extractor.take(&piece(1, Role::User, &text));
        }
        let stored = Piece {
            output_ref: Some("out-510a04777aecf0aed4eb1c0a9cb817f0"),
            ..piece(2, Role::Tool, "seed 1: ok")
        };
        extractor.take(&stored);
    };
    let text = made(150, take);
    assert!(text.contains("out-510a"), "{text}");
    let mut other = Extractor::new(600, COUNTER).without_refs();
    take(&mut other);
    other.previous(&text);
    let text = other.finish().text;
    assert!(text.contains("Rule 3") && !text.contains("out-510a"), "{text}");
}

#[test]
fn what_is_forbidden_is_no_sign_of_a_change() {
    for rule in
        ["Never change the column order of table t{} in the export.", "t{} の列順は変更しないでください。"]
    {
        let text = made(800, |extractor| {
            for number in 0..12 {
                extractor.take(&piece(1, Role::User, &rule.replace("{}", &number.to_string())));
            }
        });
        for number in 1..12 {
            assert!(text.contains(&format!("t{number} ")), "{number}: {text}");
        }
    }
}
