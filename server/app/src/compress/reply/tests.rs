//! Answers as models give them, good and bad.

use serde_json::json;

use super::*;

const ALL: ExpectedParts = ExpectedParts { retain: true, structured: true };
const PLAIN: ExpectedParts = ExpectedParts { retain: false, structured: false };
const RETAIN: ExpectedParts = ExpectedParts { retain: true, structured: false };

fn summary(answer: &str) -> String {
    read(answer, RETAIN).unwrap_or_else(|nothing| panic!("{answer:?}: {nothing:?}")).summary
}

#[test]
fn the_summary_is_found_however_it_is_wrapped() {
    for answer in [
        "<summary>The port is 8080.</summary>",
        "Here it is:\n<summary>\nThe port is 8080.\n</summary>\nAnything else?",
        "<SUMMARY lang=\"en\">The port is 8080.</Summary >",
        "<summary>The port is 8080.",
        "The port is 8080.</summary>",
        "```xml\n<summary>The port is 8080.</summary>\n```",
        "<summary>\n```markdown\nThe port is 8080.\n```\n</summary>",
        "<summary>\n```markdown\nThe port is 8080.\n",
        "<think>I wonder\n<summary>no</summary></think>\n<summary>The port is 8080.</summary>",
        "I wonder</think><summary>The port is 8080.</summary>",
        "<reasoning>I wonder\n<summary>no</summary></reasoning><summary>The port is 8080.</summary>",
        "Here it is: <summary>The port is 8080.</summary>",
        "<summary>The port is 8080.<retain>x</retain>",
        "<summary>The port is 8080.</summary><retain>x",
        "<retain>x<summary>The port is 8080.</summary>",
        "<summary>The port <keep seq=\"1\"/>is 8080.</summary>",
    ] {
        assert_eq!(summary(answer), "The port is 8080.", "{answer:?}");
    }
}

#[test]
fn a_summary_may_speak_of_tags() {
    let about = "Closed the <details><summary>x</summary></details> in a.html";
    assert_eq!(summary(&format!("<summary>{about}</summary>")), about);
    let both = format!("<retain>a</retain><summary>{about}</summary>");
    assert_eq!(summary(&both), about);
    assert_eq!(summary(&format!("<summary>{about}</summary><retain>a</retain>")), about);
    // Of those of the answer too.
    for said in [
        "Fixed: the parser strips a stray </think> tag.\n- Next: tests/proxy.rs",
        "The template has <retain> in front of the summary. Port 8443.",
        "The template has <retain>name</retain> in it; port 9",
        "Removed the <summary> of a.html and its </retain>. Port 9",
    ] {
        assert_eq!(summary(&format!("<summary>{said}</summary>")), said);
        assert_eq!(summary(&format!("<think>hm</think><summary>{said}</summary>")), said);
        let kept = read(&format!("<retain>K-77</retain>\n<summary>{said}</summary>"), RETAIN).unwrap();
        assert_eq!((kept.summary.as_str(), kept.retain.as_deref()), (said, Some("K-77")));
        let unasked = read(&format!("<summary>{said}</summary>"), PLAIN).unwrap();
        assert_eq!((unasked.summary.as_str(), unasked.retain), (said, None));
    }
    let fenced = "Ran:\n```\nmake\n```\nand\n```\nmake test\n```";
    assert_eq!(summary(&format!("<summary>{fenced}</summary>")), fenced);
}

#[test]
fn several_blocks_are_one_summary() {
    for (answer, expected) in [
        ("<summary>a</summary><summary>b</summary>", "a\n\nb"),
        ("Here:\n<summary>a</summary>\nand\n<Summary>\nb\n</summary>\n<summary>c</summary>", "a\n\nb\n\nc"),
        ("<summary>a</summary><summary></summary><summary>b</summary>", "a\n\nb"),
        ("<retain>r</retain><summary>a</summary><summary>b</summary>", "a\n\nb"),
        ("<summary>a</summary><retain>r</retain><summary>b</summary>", "a\n\nb"),
        ("<summary>a</summary><summary>b</summary><retain>r</retain>", "a\n\nb"),
        (
            "<summary>the <summary>x</summary> tag</summary><summary>b</summary>",
            "the <summary>x</summary> tag\n\nb",
        ),
        ("<summary>an </summary> alone</summary>", "an </summary> alone"),
        ("<summary>a</summary>\n<summary>b", "a\n\nb"),
        ("<summary>a</summary><summary>b<retain>r</retain>", "a\n\nb"),
        ("<summary>a</summary>\nIs the <summary> short enough?", "a"),
    ] {
        let read = read(answer, RETAIN).unwrap();
        assert_eq!(read.summary, expected, "{answer}");
        assert_eq!(read.retain.as_deref(), answer.contains("retain").then_some("r"), "{answer}");
    }
    let two = read("<retain>a</retain><retain>b</retain><summary>s</summary>", RETAIN).unwrap();
    assert_eq!((two.summary.as_str(), two.retain.as_deref()), ("s", Some("a\n\nb")));
}

#[test]
fn what_is_to_be_retained_is_beside_it() {
    for (answer, expected) in [
        ("<retain>never push</retain><summary>s</summary>", Some("never push")),
        ("<summary>s</summary>\n<retain>\nnever push\n</retain>", Some("never push")),
        ("<retain>never push<summary>s</summary>", Some("never push")),
        ("<summary>s</summary><retain>never push", Some("never push")),
        ("<summary>s</summary><retain></retain>", None),
        ("<summary>s</summary><retain>…</retain>", None),
        ("<summary>s</summary>", None),
    ] {
        let read = read(answer, RETAIN).unwrap();
        assert_eq!((read.summary.as_str(), read.retain.as_deref()), ("s", expected), "{answer}");
    }
}

#[test]
fn messages_to_keep_are_named_in_many_ways() {
    for (tags, expected) in [
        ("<keep seq=\"12\"/>", vec![12]),
        ("<keep seq=12>", vec![12]),
        ("<keep seq='12' /> <keep seq='3'/><keep seq='12'/>", vec![3, 12]),
        ("<keep seq=\"3, 5,7\"/>", vec![3, 5, 7]),
        ("<keep seqs=\"3 5\"></keep>", vec![3, 5]),
        ("<keep>3, 5</keep>", vec![3, 5]),
        ("<keep seq=\"3-6\"/>", vec![3, 4, 5, 6]),
        ("<keep seq=\"3 – 5, 9\"/>", vec![3, 4, 5, 9]),
        ("<keep seq=\"0\"/><keep seq=\"x\"/><keep/>", vec![]),
        ("<keep seq=\"99999999999999999999999\"/>", vec![]),
        ("<keeper seq=\"4\">", vec![]),
    ] {
        let read = read(&format!("{tags}<summary>s</summary>"), RETAIN).unwrap();
        assert_eq!((read.summary.as_str(), read.keep), ("s", expected), "{tags}");
    }
    let many = read("<keep seq=\"1-18446744073709551615\"/><summary>s</summary>", RETAIN).unwrap();
    assert_eq!(many.keep.len(), MAX_KEPT);
    assert_eq!(read("<keep seq=\"9-3\"/><summary>s</summary>", RETAIN).unwrap().keep, [3, 9]);
}

#[test]
fn nothing_is_nothing() {
    for empty in [
        "",
        " \n\t",
        "<summary></summary>",
        "<summary>\n…\n</summary>",
        "<summary>```\n```</summary>",
        "<think>and on and on",
        "<keep seq=\"1\"/>",
        "---",
        "<retain>only this</retain>",
        "</summary>",
    ] {
        assert_eq!(read(empty, RETAIN), Err(NoSummary::Empty), "{empty:?}");
        assert_eq!(read(empty, ALL), Err(NoSummary::Empty), "{empty:?}");
    }
}

/// Text that is not between tags may be anything: the model may have gone on with the work.
#[test]
fn text_without_tags_is_no_summary() {
    for answer in [
        "Sure! I will now run the tests.",
        "The port is 8080.",
        "```\nThe port is 8080.\n```",
        "<analysis>hm</analysis>The port is 8080.",
        "I wonder\n</think>\n\nThe port is 8080.",
        "<retain>x</retain>\nThe port is 8080.",
        "if a < b and c > d then <summarise> it",
        "Removed the </summary> of a.html. Port 9",
    ] {
        assert_eq!(read(answer, RETAIN), Err(NoSummary::Untagged), "{answer}");
    }
}

#[test]
fn one_who_declines_has_not_summarised() {
    for refusal in [
        "I'm sorry, but I can't help with that.",
        "I cannot summarise this conversation.",
        "**Sorry,** no.",
        "申し訳ありませんが、お手伝いできません。",
    ] {
        assert!(matches!(read(refusal, PLAIN), Err(NoSummary::Declined(_))), "{refusal}");
    }
    // In tags too.
    let tagged = read("<summary>I'm sorry, but I can't help with that.</summary>", PLAIN);
    assert!(matches!(tagged, Err(NoSummary::Declined(_))), "{tagged:?}");
    // A history in which somebody was sorry.
    assert_eq!(summary("<summary>The user said: I'm sorry</summary>"), "The user said: I'm sorry");
    let long = format!("I cannot tell all of it. {}", "It went on. ".repeat(100));
    assert_eq!(summary(&format!("<summary>{long}</summary>")), long.trim());
}

#[test]
fn sections_become_a_text_with_headings() {
    let all = r#"{"goal":["Ship it"],"decisions":["Use tokio","- not async-std"],"changes":[],"files":["a.rs"],"errors":[],"pending":["Tests"]}"#;
    let text = "## Goal\n- Ship it\n\n## Decisions\n- Use tokio\n- not async-std\n\n## Files\n- a.rs\n\n## Pending\n- Tests";
    let wrapped = [
        format!("<summary>{all}</summary>"),
        format!("<summary>\n```json\n{all}\n```\n</summary>"),
        format!("Here:\n{all}"),
        all.to_owned(),
    ];
    for answer in wrapped {
        let read = read(&answer, ALL).unwrap();
        assert_eq!(read.summary, text, "{answer}");
        let sections = read.sections.unwrap();
        assert_eq!(sections["decisions"], json!(["Use tokio", "not async-std"]));
        assert_eq!(sections["errors"], json!([]));
    }
    let odd = r#"<summary>{"Goal":"Ship it","files":{"a.rs":["new"]},"errors":null,"pending":[1,["x"]],"more":["y"]}</summary>"#;
    let read_odd = read(odd, ALL).unwrap();
    assert_eq!(
        read_odd.summary,
        "## Goal\n- Ship it\n\n## Changes\n- more: y\n\n## Files\n- a.rs: new\n\n## Pending\n- 1\n- x"
    );
    // What is not as it should be is taken as it is.
    for (answer, expected) in [
        ("<summary>{\"goal\":[\"Ship it\"</summary>", "{\"goal\":[\"Ship it\""),
        ("<summary>## Goal\n- Ship it</summary>", "## Goal\n- Ship it"),
        ("<summary>{\"plan\":[\"x\"]}</summary>", "{\"plan\":[\"x\"]}"),
        ("<summary>{\"goal\":[\"x\"]} and port 8443</summary>", "{\"goal\":[\"x\"]} and port 8443"),
    ] {
        let read = read(answer, ALL).unwrap();
        assert_eq!((read.summary.as_str(), read.sections), (expected, None), "{answer}");
    }
    let unasked = read(&format!("<summary>{all}</summary>"), RETAIN).unwrap();
    assert_eq!(unasked.sections, None, "they were not asked for");
}

#[test]
fn gaps_are_found_by_their_numbers() {
    let some = |texts: &[&str]| -> Vec<Option<String>> {
        texts.iter().map(|text| (!text.is_empty()).then(|| (*text).to_owned())).collect()
    };
    for (answer, expected) in [
        (r#"{"gaps":[{"gap":1,"summary":"a"},{"gap":2,"summary":"b"}]}"#, ["a", "b"]),
        (r#"{"gaps":[{"gap":2,"summary":"b"},{"gap":"1","summary":"a"}]}"#, ["a", "b"]),
        ("```json\n{\"gaps\":[{\"gap\":2,\"summary\":\"b\"}]}\n```", ["", "b"]),
        (r#"[{"summary":"a"},{"summary":"b"}]"#, ["a", "b"]),
        (r#"Here: ["a","b"]"#, ["a", "b"]),
        (r#"{"1":"a","gap 2":{"summary":"b"}}"#, ["a", "b"]),
        (r#"{"gaps":[{"gap":0,"summary":"x"},{"gap":3,"summary":"y"},{"gap":1,"summary":" "}]}"#, ["", ""]),
        ("<think>{}</think>{\"gaps\":[\"a\",null]}", ["a", ""]),
        ("I cannot do that", ["", ""]),
        ("", ["", ""]),
    ] {
        assert_eq!(read_gaps(answer, 2), some(&expected), "{answer}");
    }
    assert_eq!(read_gaps(r#"{"summary":"a"}"#, 1), some(&["a"]));
}

#[test]
fn no_answer_can_break_the_reader() {
    let pieces = [
        "<summary>",
        "</summary>",
        "<retain>",
        "</retain>",
        "<keep seq=",
        "1-2",
        "/>",
        "```",
        "{",
        "日本",
        "<think>",
        "</think>",
        " ",
        "x",
    ];
    let mut state = 7_u64;
    for _ in 0..20_000 {
        let mut answer = String::new();
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            answer.push_str(pieces[usize::try_from(state >> 33).unwrap() % pieces.len()]);
        }
        if let Ok(read) = read(&answer, ALL) {
            assert!(says_something(&read.summary), "{answer}");
        }
        read_gaps(&answer, 2);
    }
}
