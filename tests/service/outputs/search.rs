//! Searching: what ripgrep would find, in bounded time and memory.

use contextstore_proto::v1 as pb;
use contextstore_proto::v1::ErrorReason;
use tokio::time::timeout;

use test_support::server::{DEADLINE, TestServer};
use test_support::tool_outputs::{grep, header, keep, outputs, put, searching};
use test_support::wire::{Work, api, reason, refused, start};

fn told(lines: &[pb::GrepLine]) -> Vec<String> {
    let one = |line: &pb::GrepLine| {
        let gap = if line.gap_before { "--" } else { "" };
        let mark = if line.is_match { ':' } else { '-' };
        format!("{gap}{}{mark}{}", line.line_number, line.text)
    };
    lines.iter().map(one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_found_with_their_numbers_and_those_around_them() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let text = "alpha\nbeta\ngamma\r\ndelta\nepsilon\nALPHA\nzeta\neta\ntheta\nalpha again";
    let id = keep(&mut outputs, &work, text.as_bytes()).await;
    let base = searching(&work, &id, "alpha");
    let (lines, matches, limited) = grep(&mut outputs, base.clone()).await.unwrap();
    assert_eq!((told(&lines), matches, limited), (vec!["1:alpha".into(), "10:alpha again".into()], 2, false));
    assert!(lines.iter().all(|line| line.ref_id == id));
    let (lines, matches, _) =
        grep(&mut outputs, pb::GrepToolOutputRequest { ignore_case: true, ..base.clone() }).await.unwrap();
    assert_eq!((lines[1].line_number, matches), (6, 3));
    let around = pb::GrepToolOutputRequest { before: 1, after: 1, ignore_case: true, ..base.clone() };
    let (lines, ..) = grep(&mut outputs, around).await.unwrap();
    assert_eq!(
        told(&lines),
        ["1:alpha", "2-beta", "--5-epsilon", "6:ALPHA", "7-zeta", "--9-theta", "10:alpha again"]
    );
    let first = pb::GrepToolOutputRequest { max_matches: 1, after: 2, ..base.clone() };
    let (lines, matches, limited) = grep(&mut outputs, first).await.unwrap();
    assert_eq!((told(&lines).join(" "), matches, limited), ("1:alpha 2-beta 3-gamma".into(), 1, true));
    // Plain text is no pattern, and what a pattern is is ripgrep's.
    for (pattern, fixed, expected) in [
        ("a.p", true, 0),
        ("a.p", false, 2),
        (r"^\w+$", false, 8),
        ("(?i)ALPHA$", false, 2),
        ("nothing", false, 0),
    ] {
        let request = pb::GrepToolOutputRequest { pattern: pattern.to_owned(), fixed, ..base.clone() };
        assert_eq!(grep(&mut outputs, request).await.unwrap().1, expected, "{pattern}");
    }
}

/// A long line is searched in pieces; it is one line all the same.
#[tokio::test(flavor = "multi_thread")]
async fn enough_is_counted_in_lines() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let long = format!("{}needle", "x".repeat(700_000)).repeat(5);
    let text = format!("{long}\nneedle 2\nbetween\nneedle 4\nneedle 5\nend\n");
    let id = keep(&mut outputs, &work, text.as_bytes()).await;
    for (most, after, lines_told, limited) in [
        (0, 0, "1: 2: 4: 5:", false),
        (1, 0, "1:", true),
        (2, 0, "1: 2:", true),
        (2, 1, "1: 2: 3-", true),
        (3, 0, "1: 2: 4:", true),
        (3, 1, "1: 2: 3- 4: 5-", true),
        (4, 1, "1: 2: 3- 4: 5: 6-", true),
        (5, 0, "1: 2: 4: 5:", false),
    ] {
        let request =
            pb::GrepToolOutputRequest { max_matches: most, after, ..searching(&work, &id, "needle") };
        let (lines, matches, was_limited) = grep(&mut outputs, request).await.unwrap();
        let mark = |line: &pb::GrepLine| if line.is_match { ':' } else { '-' };
        let told: Vec<String> =
            lines.iter().map(|line| format!("{}{}", line.line_number, mark(line))).collect();
        assert_eq!((told.join(" ").as_str(), was_limited), (lines_told, limited), "{most} and {after}");
        assert_eq!(matches, lines.iter().filter(|line| line.is_match).count() as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_outputs_of_a_task_are_searched_in_the_order_of_their_refs() {
    let server = TestServer::start_configured(&[("durability", "process")]).await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let (work, other) = (start(&mut api).await, start(&mut api).await);
    let mut ids = Vec::new();
    for n in 0..12 {
        ids.push(keep(&mut outputs, &work, format!("output {n}\nneedle\n").as_bytes()).await);
    }
    keep(&mut outputs, &other, b"needle elsewhere").await;
    let image = pb::PutToolOutputHeader { media_type: "image/png".to_owned(), ..header(&work) };
    put(&mut outputs, image, b"needle in an image").await.unwrap();
    ids.sort();
    let (lines, matches, _) = grep(&mut outputs, searching(&work, "", "needle")).await.unwrap();
    let found: Vec<String> = lines.into_iter().map(|line| line.ref_id).collect();
    assert_eq!((found, matches), (ids, 12));
    let few = pb::GrepToolOutputRequest { max_matches: 5, ..searching(&work, "", "needle") };
    let (lines, matches, limited) = grep(&mut outputs, few).await.unwrap();
    assert_eq!((lines.len(), matches, limited), (5, 5, true));
    let none = start(&mut api).await;
    assert_eq!(grep(&mut outputs, searching(&none, "", "needle")).await.unwrap().1, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_lines_are_cut_around_their_match_and_searched_whole() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let long = format!("{}needle{}", "é".repeat((3 << 20) + 5000), "x".repeat(3 << 20));
    let text = format!("first\n{long}\nneedle again\n");
    let id = keep(&mut outputs, &work, text.as_bytes()).await;
    let (lines, matches, _) = grep(&mut outputs, searching(&work, &id, "needle")).await.unwrap();
    assert_eq!((matches, lines.len()), (2, 2));
    assert_eq!((lines[0].line_number, lines[1].line_number), (2, 3));
    assert_eq!(lines[0].text.chars().count(), 2000);
    assert!(lines[0].text.starts_with("…é") && lines[0].text.ends_with("x…"), "{:.40}", lines[0].text);
    assert!(lines[0].text.contains("éneedlex"));
    // Of a line that is searched in pieces, each counts as one that stands near.
    let near = pb::GrepToolOutputRequest { before: 2, max_line_length: 20, ..searching(&work, &id, "again") };
    let (lines, ..) = grep(&mut outputs, near).await.unwrap();
    assert_eq!(lines.iter().map(|line| line.line_number).collect::<Vec<_>>(), [2, 3]);
    assert!(lines.iter().all(|line| line.text.chars().count() <= 20), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_that_cannot_be_used_is_refused_with_its_reason() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let id = keep(&mut outputs, &work, b"text").await;
    let long = "x".repeat(5000);
    for pattern in
        ["", "(", "[a", r"\p{Nothing}", "a\\nb", r"(?=look)", r"(a)\1", "(((a{100}){100}){100}){100}", &long]
    {
        let why = refused(grep(&mut outputs, searching(&work, &id, pattern)).await);
        assert_eq!(
            (why.reason, why.fields),
            (ErrorReason::InvalidField, vec!["pattern".to_owned()]),
            "{pattern:.40}"
        );
    }
    let around = pb::GrepToolOutputRequest { before: 1001, ..searching(&work, &id, "x") };
    assert_eq!(refused(grep(&mut outputs, around).await).fields, ["before"]);
    let missing = format!("out-{}", "0".repeat(32));
    assert_eq!(
        reason(grep(&mut outputs, searching(&work, &missing, "x")).await),
        ErrorReason::OutputNotFound
    );
    let nobody = Work::nobody("00000000-0000-7000-8000-000000000000");
    assert_eq!(reason(grep(&mut outputs, searching(&nobody, "", "x")).await), ErrorReason::TaskNotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_that_ruin_other_engines_take_linear_time() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    // An engine that backtracks would need longer than there is time for 40 characters, and one that takes the square of
    // the length for these.
    let text = format!("{}!\n", "a".repeat(400_000));
    let id = keep(&mut outputs, &work, text.as_bytes()).await;
    for pattern in ["(a+)+$", "(a|aa)+$", "(a|a?)+$", "(.*a){20}$", "^(([a-z])+.)+[A-Z]([a-z])+$"] {
        let found = timeout(DEADLINE, grep(&mut outputs, searching(&work, &id, pattern))).await;
        found.unwrap_or_else(|_| panic!("{pattern}: it does not end")).unwrap();
    }
}

/// Some patterns take a thousand times as long as others: one that takes too long is given up.
#[tokio::test(flavor = "multi_thread")]
async fn a_pattern_that_takes_too_long_is_given_up() {
    let server = TestServer::start().await;
    let (mut api, mut outputs) = (api(&server).await, outputs(&server).await);
    let work = start(&mut api).await;
    let mut random = fastrand::Rng::with_seed(5);
    let text: Vec<u8> = (0..4 << 20).map(|_| if random.bool() { b'0' } else { b'1' }).collect();
    let id = keep(&mut outputs, &work, &text).await;
    let why = refused(grep(&mut outputs, searching(&work, &id, "1[01]{3000}[2-9]")).await);
    assert_eq!((why.reason, why.fields), (ErrorReason::InvalidField, vec!["pattern".to_owned()]));
    // Others are searched for as before.
    let (_, matches, _) = grep(&mut outputs, searching(&work, &id, "0101")).await.unwrap();
    assert_eq!(matches, 1);
}
