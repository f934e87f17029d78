//! The parts that know text: lines, sentences, names, keywords.

use super::super::keywords::KeywordSet;
use super::super::line::one_line;
use super::super::names::{first_name, is_specific};
use super::super::sentences::{ProseUnit, units};

fn cut(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    units(text, |unit| {
        found.push(match unit {
            ProseUnit::Sentence { text, .. } | ProseUnit::Code(text) => text,
        });
    });
    found
}

#[test]
fn a_line_is_one_line() {
    for (text, expected) in [
        ("  a \t b\r\n c ", "a b c"),
        ("\u{1b}[1;31merror\u{1b}[0m: x", "error: x"),
        ("\u{1b}[", "["),
        ("a\0b\u{202e}c\u{2028}d", "a bc d"),
        ("日本語の文章です", "日本語の文…"),
        ("", ""),
    ] {
        let most = if text.starts_with('日') { 5 } else { 50 };
        assert_eq!(one_line(text, most, 0), expected);
    }
}

#[test]
fn a_long_line_keeps_its_focus() {
    let text = format!("{} HERE {}", "x ".repeat(100), "y ".repeat(100));
    let focus = text.find("HERE").unwrap();
    let line = one_line(&text, 30, focus);
    assert!(line.contains("HERE") && line.starts_with('…') && line.ends_with('…'), "{line}");
    let text = "語".repeat(1000);
    for focus in [0, 1, 500, 2999, 3000, 9999] {
        assert!(one_line(&text, 10, focus).chars().count() <= 12);
    }
}

#[test]
fn sentences_end_where_people_end_them() {
    for (text, expected) in [
        ("One. Two! Three? Four", vec!["One.", "Two!", "Three?", "Four"]),
        ("See e.g. the file a.rs. Then go on.", vec!["See e.g. the file a.rs.", "Then go on."]),
        ("今日は晴れ。明日は雨！", vec!["今日は晴れ。", "明日は雨！"]),
        ("「はい。」と言った。", vec!["「はい。」と言った。"]),
        ("1. first\n2. second\n- third\n", vec!["first", "second", "third"]),
        ("> ## Title\n#412 is open", vec!["Title", "#412 is open"]),
        ("Version 1.2.3 is out. It works.", vec!["Version 1.2.3 is out.", "It works."]),
        ("run `a. B` now. Then stop", vec!["run `a. B` now.", "Then stop"]),
        ("\n\n***\n---\n", vec![]),
        ("text\n```sh\n# no. Heading\n```\nmore", vec!["text", "# no. Heading", "more"]),
    ] {
        assert_eq!(cut(text), expected, "{text}");
    }
}

#[test]
fn items_of_lists_are_known() {
    let mut items = Vec::new();
    units("Rules:\n- one\n2) two\n・三\nEnd. 3. no", |unit| {
        items.push(matches!(unit, ProseUnit::Sentence { is_item: true, .. }));
    });
    assert_eq!(items, [false, true, true, true, false, false]);
}

#[test]
fn wrapped_lines_are_one_sentence() {
    let text = "Please keep the public interface of the billing\nservice as it is. And be quick.\nEnd";
    let first = "Please keep the public interface of the billing\nservice as it is.";
    assert_eq!(cut(text), [first, "And be quick.", "End"]);
}

#[test]
fn a_line_without_end_is_cut_at_characters() {
    let text = "日".repeat(5000);
    assert!(cut(&text).iter().all(|part| part.len() <= 2000));
    assert_eq!(cut(&text).concat(), text);
}

#[test]
fn names_are_found_and_words_are_not() {
    for (text, name) in [
        ("see src/a/b.rs:12:5, ok", "src/a/b.rs"),
        ("in ./x and", "./x"),
        ("look at ~/.bashrc", "~/.bashrc"),
        ("the /etc/hosts.", "/etc/hosts"),
        ("edit Cargo.toml", "Cargo.toml"),
        ("ticket OPS-1234 it is", "OPS-1234"),
        ("PR #77 is", "#77"),
        ("commit a1b2c3d", "a1b2c3d"),
        ("runs v1.2.3 now", "v1.2.3"),
        ("at 10.0.0.7:80", "10.0.0.7:80"),
        ("on https://a.b/c?d=1 is", "https://a.b/c?d=1"),
        ("設定はsrc/app.tomlにある", "src/app.toml"),
        ("sets MAX_SIZE", "MAX_SIZE"),
        ("order 88120417 is", "88120417"),
    ] {
        assert_eq!(first_name(text), text.find(name), "{text}");
    }
    for text in
        ["a plain sentence, of words.", "データベースの接続先", "12:30 and 3.5", "He left. It rains", ""]
    {
        assert_eq!(first_name(text), None, "{text}");
    }
    assert!(is_specific("at 12:30") && is_specific("in a.rs") && !is_specific("in a moment"));
}

#[test]
fn keywords_are_found_whole_and_in_both_languages() {
    for (text, keywords, is_there) in [
        ("You must not do that", KeywordSet::RULE, true),
        ("The mustard is yellow", KeywordSet::RULE, false),
        ("NEVER touch it", KeywordSet::RULE, true),
        ("We decided on it", KeywordSet::DECISION, true),
        ("undecided", KeywordSet::DECISION, false),
        ("必ずテストを書いてください", KeywordSet::RULE, true),
        ("Let me look", KeywordSet::NARRATION, true),
        ("Please let me look", KeywordSet::NARRATION, false),
        ("Now, I look", KeywordSet::NEXT, true),
        ("- [ ] open", KeywordSet::OPEN, true),
        ("", KeywordSet::RULE, false),
    ] {
        assert_eq!(KeywordSet::of(text).any(keywords), is_there, "{text}");
    }
}

#[test]
fn errors_are_known_from_reports_that_all_is_well() {
    for (line, error) in [
        ("error[E0308]: mismatched types", Some(0)),
        ("2026-01-01 12:00:00 ERROR payment gateway said no", Some(20)),
        ("test result: FAILED. 2 passed; 1 failed", Some(13)),
        ("java.io.IOException: no space", Some(10)),
        ("test result: ok. 12 passed; 0 failed; 0 ignored", None),
        ("10 failed, 3 passed", Some(3)),
        ("接続エラーが発生しました", Some(6)),
        ("all fine", None),
    ] {
        assert_eq!(KeywordSet::error_at(line), error, "{line}");
    }
}
