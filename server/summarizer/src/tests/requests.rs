//! The goal and the current request.

use super::*;

fn goal_and_request(said: &[(Role, &str)]) -> (String, String, String) {
    let Extract { text, sections } = summary(2000, said);
    (sections.of(Section::Goal).join("\n"), sections.of(Section::Request).join("\n"), text)
}

#[test]
fn a_line_that_ends_in_a_colon_is_part_of_the_request() {
    let first =
        "Please migrate the search to OpenSearch:\n1. Keep the old index until Friday.\n2. Reindex at night.";
    let (goal, _, text) = goal_and_request(&[(Role::User, first)]);
    assert!(goal.contains("Please migrate the search to OpenSearch:"), "{text}");
    assert!(
        text.contains("Keep the old index until Friday.") && text.contains("Reindex at night."),
        "{text}"
    );
    let later = "Now implement the exporter:\n- one file for each day\n- gzip, not zstd";
    let (goal, request, text) = goal_and_request(&[(Role::User, first), (Role::User, later)]);
    assert!(goal.contains("OpenSearch"), "{text}");
    for part in ["Now implement the exporter:", "one file for each day", "gzip, not zstd"] {
        assert!(request.contains(part), "{part}\n{text}");
    }
}

#[test]
fn what_the_user_asked_for_last_is_the_current_request() {
    for request in [
        "continue with the refactoring",
        "Investigate why the nightly job is slow",
        "Can you also add pagination to /users?",
        "次はユーザー一覧にページングを追加してください。",
        "リファクタリングを続けて",
        "Why does the second test fail?",
    ] {
        let said = [
            (Role::User, "Please build the billing service."),
            (Role::Assistant, "I am looking at it."),
            (Role::User, request),
            (Role::Assistant, "I am looking at that."),
            (Role::User, "thanks, looks good"),
            (Role::User, "続けてください。"),
        ];
        let (goal, found, text) = goal_and_request(&said);
        assert_eq!((goal.as_str(), found.as_str()), ("Please build the billing service.", request), "{text}");
    }
    let (_, request, _) = goal_and_request(&[(Role::User, "Please build the billing service.")]);
    assert_eq!(request, section::AS_THE_GOAL);
}

#[test]
fn a_rule_or_a_fact_is_no_request() {
    let said =
        ["Please build the shop.", "Now write the exporter.", "Never touch legacy/.", "The port is 5433."];
    let found = by_user(&said);
    assert_eq!(found.sections.of(Section::Request), &["Now write the exporter."], "{}", found.text);
}

#[test]
fn a_finished_request_is_not_the_goal_for_ever() {
    let done = (Role::Assistant, "The login bug is fixed, and all tests pass.");
    for next in [
        "Great. Now implement the CSV export.",
        "Thanks! Please write the release notes.",
        "次はCSV出力を実装してください。",
    ] {
        let (goal, request, text) =
            goal_and_request(&[(Role::User, "Fix the login bug."), done, (Role::User, next)]);
        assert!(!goal.contains("login") && next.contains(goal.split(". ").last().unwrap()), "{text}");
        assert_eq!(request, section::AS_THE_GOAL);
        assert!(text.contains("Fix the login bug."), "it is still known\n{text}");
    }
    let open = (Role::Assistant, "I am still looking at the login bug.");
    let next = (Role::User, "Please write a test for it first.");
    let (goal, request, text) = goal_and_request(&[(Role::User, "Fix the login bug."), open, next]);
    assert_eq!((goal.as_str(), request.as_str()), ("Fix the login bug.", next.1), "{text}");
}

#[test]
fn a_request_that_stays_in_the_view_is_the_current_one() {
    let mut extractor = Extractor::new(1000, COUNTER);
    extractor.take(&piece(1, Role::User, "Please build the shop."));
    extractor.take(&piece(2, Role::User, "Write the exporter."));
    let long = format!("Now write the importer. {}", "It reads files of every kind. ".repeat(60));
    extractor.stays(&piece(3, Role::User, &long));
    extractor.stays(&piece(4, Role::User, "ok, go on"));
    let Extract { text, sections } = extractor.finish();
    let request = sections.of(Section::Request).join(" ");
    assert!(request.starts_with("Now write the importer.") && request.len() < 400, "{text}");
    assert!(sections.of(Section::Constraints).join(" ").contains("Write the exporter."), "{text}");
}

#[test]
fn a_long_message_tells_what_it_asks_for() {
    let log = "2026-01-01 INFO worker picked up a job of the queue\n".repeat(80);
    let said = ["Please build the shop.".to_owned(), format!("{log}\nPlease find out why job 17 was lost.")];
    let found = by_user(&[&said[0], &said[1]]);
    assert_eq!(
        found.sections.of(Section::Request),
        &["Please find out why job 17 was lost."],
        "{}",
        found.text
    );
}

/// A reader takes what comes last for what holds: what the user said after the request stands behind it, also after it was
/// read back.
#[test]
fn instructions_since_the_request_stand_behind_it() {
    let said = [
        "Please build the checkout.",
        "The port is 5433.",
        "Split the tests into four shards. Retry a flaky test once if you have to.",
        "About the tests: no retries at all, they hid a real bug.",
    ];
    let first = by_user(&said);
    assert_eq!(first.sections.of(Section::Constraints), &["The port is 5433."], "{}", first.text);
    assert_eq!(first.sections.of(Section::Later), &[said[3]], "{}", first.text);
    let mut again = Extractor::new(1000, COUNTER);
    again.previous(&first.text);
    again.take(&piece(9, Role::User, "Never skip a test."));
    let Extract { text, sections } = again.finish();
    assert_eq!(sections.of(Section::Later), &[said[3], "Never skip a test."], "{text}");
    assert!(text.find("Retry a flaky") < text.find("no retries"), "{text}");
}

#[test]
fn what_somebody_wants_is_a_request() {
    for request in ["marketing wants a banner above the cart", "営業チームがバナーをほしいと言っています。"]
    {
        let (_, found, text) =
            goal_and_request(&[(Role::User, "Please build the shop."), (Role::User, request)]);
        assert_eq!(found, request, "{text}");
    }
}
