//! What the user said stays.

use super::*;

/// Pairs made to look like contradictions: both stay, the newest last.
#[test]
fn what_the_user_said_is_never_removed_by_likelihood() {
    for (older, newer) in [
        (
            "The beta stays behind that flag until the end of March.",
            "The certificate is replaced on 14 March.",
        ),
        ("Only deploy to eu-west-1.", "Marketing moves its site away from eu-west-1."),
        ("The database port is 5432.", "Correction: the database port is 6543 now."),
        ("Use camelCase for JSON keys.", "Switch JSON keys to snake_case, forget camelCase."),
        ("リリース日は4月10日です。", "リリース日は4月24日に変更になりました。"),
        ("Note: tests run at night.", "Note: the proxy listens on 8080."),
    ] {
        let text = by_user(&["Please look after the shop.", older, "Go on with the basket.", newer]).text;
        let (first, last) = (text.find(older), text.find(newer));
        assert!(first.is_some() && first < last, "{older} -> {newer}\n{text}");
    }
}

#[test]
fn the_same_setting_with_a_new_value_replaces_the_older() {
    let said =
        ["Please look after the shop.", "MAX_RETRIES=5", "db.port: 5432", "MAX_RETRIES=7", "db.port: 6543"];
    let text = by_user(&said).text;
    for (there, part) in [(false, "=5"), (true, "=7"), (false, "5432"), (true, "6543")] {
        assert_eq!(text.contains(part), there, "{part}\n{text}");
    }
    assert_eq!(super::super::user::setting("MAX_RETRIES=5"), Some("MAX_RETRIES"));
    for none in ["this_is: a sentence of words", "if a == b", "note: x", "a=", "Important: never"] {
        assert_eq!(super::super::user::setting(none), None, "{none}");
    }
}

#[test]
fn an_exact_repetition_is_told_once_where_it_was_said_last() {
    let rule = "Never touch legacy/.";
    let text =
        by_user(&["Please look after the shop.", rule, "Use tabs in src/lex.rs.", "never touch  legacy/"])
            .text;
    assert_eq!(text.to_lowercase().matches("never touch legacy/").count(), 1, "{text}");
    assert!(text.find("Use tabs") < text.find("never touch"), "{text}");
}

#[test]
fn the_model_replaces_nothing_that_the_user_said() {
    let said = [
        (Role::User, "Please look after the shop."),
        (Role::User, "The staging database listens on port 5433."),
        (Role::Assistant, "The staging database listens on port 5433."),
    ];
    let sections = summary(1000, &said).sections;
    assert!(sections.of(Section::Constraints).join(" ").contains("5433"), "{sections:?}");
    assert!(sections.of(Section::Facts).is_empty(), "{sections:?}");
}

#[test]
fn a_short_answer_is_told_with_its_question() {
    for (question, answer) in
        [("Should I drop the old table?", "No."), ("どちらのDBを使いますか？", "PostgreSQLで")]
    {
        let said =
            [(Role::User, "Please look after the shop."), (Role::Assistant, question), (Role::User, answer)];
        let text = summary(1000, &said).text;
        assert!(text.contains(&format!("{answer} [re: {question}]")), "{text}");
    }
}

/// What stands in a list under a heading of rules is a rule.
#[test]
fn lists_of_rules_are_rules() {
    let rules = "Ground rules:\n- Python 3.11 only, no new libraries.\n- PostgreSQL 14, nothing newer.\n\nThe ticket is PAY-7.";
    let mut said = vec!["Please build the export feature.".to_owned(), rules.to_owned()];
    said.push("ルール：\n・納期は金曜17時。\n・回答は英語で。".to_owned());
    said.extend((0..200).map(|n| format!("The venue {n} is in halls/list_{n}.md, please look at it.")));
    let said: Vec<(Role, &str)> = said.iter().map(|text| (Role::User, text.as_str())).collect();
    let text = summary(260, &said).text;
    for rule in ["Ground rules: Python 3.11 only", "PostgreSQL 14", "納期は金曜17時", "回答は英語で"]
    {
        assert!(text.contains(rule), "{rule}\n{text}");
    }
}

/// The user's instructions come first in the budget, whatever else there is.
#[test]
fn the_users_instructions_come_first() {
    let mut said = vec![(Role::User, "Plan the wedding of my parents near the lake.".to_owned())];
    said.push((Role::User, "No seafood anywhere, my uncle has a severe shellfish allergy.".to_owned()));
    for n in 0..80 {
        said.push((
            Role::Assistant,
            format!("I decided on venue {n} in halls/list_{n}.md, it is EUR {}.", n * 7),
        ));
        said.push((Role::Tool, format!("error: venue {n} is closed\nFAILED halls/list_{n}.md")));
        said.push((Role::User, "ok, go on".to_owned()));
    }
    let said: Vec<(Role, &str)> = said.iter().map(|(role, text)| (*role, text.as_str())).collect();
    let text = summary(120, &said).text;
    assert!(text.contains("shellfish allergy") && text.contains("wedding of my parents"), "{text}");
    assert!(!text.contains("go on"), "{text}");
}

/// What is said of one thing after the other holds of each of them.
#[test]
fn a_series_stays_in_order() {
    for series in [
        |n: u32| format!("Tenant {n} is on shard s-{}.", n * 3),
        |n: u32| format!("Never touch the table ledger_{n}, the auditors look at it."),
        |n: u32| format!("テーブル台帳{n}には絶対に書き込まないでください。"),
    ] {
        let said: Vec<String> = (10..30).map(series).collect();
        for role in [Role::User, Role::Assistant] {
            let said: Vec<(Role, &str)> = said.iter().map(|text| (role, text.as_str())).collect();
            let text = summary(4000, &said).text;
            let places: Vec<_> = said[1..19].iter().map(|(_, said)| text.find(said)).collect();
            assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{role:?} {places:?}\n{text}");
        }
    }
}

#[test]
fn the_users_words_can_be_told_alone() {
    let mut extractor = Extractor::new(1000, COUNTER);
    for (seq, (role, text)) in (1..).zip(SESSION) {
        extractor.take(&piece(seq, *role, text));
    }
    let Extract { text, sections } = extractor.finish_users();
    assert!(text.contains("Move the billing") && text.contains("Never touch files"), "{text}");
    let others = [Section::Decisions, Section::Facts, Section::Files, Section::Errors, Section::Pending];
    assert!(others.into_iter().all(|section| sections.of(section).is_empty()), "{text}");
}

/// What the user pastes between fences is read as the output of a tool is.
#[test]
fn errors_that_the_user_pastes_are_known() {
    let text =
        by_user(&["Please look after the shop.", "It says:\n```\nerror E77: no tax rate for AT\n```"]).text;
    assert!(text.contains("## Errors seen\n- error E77: no tax rate for AT"), "{text}");
}

/// Words that only go on or are polite are no statements.
#[test]
fn acknowledgements_are_left_out() {
    for polite in
        ["ok", "Thanks, looks good!", "Great work, carry on", "了解です。", "ありがとうございます！", "👍"]
    {
        let said = ["Please look after the shop.", polite];
        assert_eq!(by_user(&said).text, by_user(&said[..1]).text, "{polite}");
    }
    let text = by_user(&["Please look after the shop.", "Carry on with the basket"]).text;
    assert!(text.contains("Carry on with the basket"), "{text}");
}
