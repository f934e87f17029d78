//! Random things to say: messages of every shape, and segments of every kind.

use contextstore_base::model::{Literal, LiteralKind, Role, Segment, SummaryRecord, json::Json};
use fastrand::Rng;

use super::task::{Call, Message, State};

/// JSON texts with what is easily got wrong: escapes, line separators, things that look like lines.
const TEXTS: [&str; 12] = [
    r#""hi""#,
    r#""""#,
    r#""caf\u00e9 \\ \" \n \/ end""#,
    "\"日本語 \u{2028} \u{85} 🦀\"",
    r#""{\"seq\":1,\"role\":\"user\",\"timestamp\":\"2026-01-01T00:00:00.000000Z\",\"tokens\":1,\"durable_to\":0}""#,
    r#"",\"pinned\":true,\"request_id\":\"r1\",\"crc\":\"00000000\"}""#,
    r#""\ud83e\udd80 \u0000 \u001f""#,
    r#""[Tool: x] y""#,
    r#""},{""#,
    r#""a, b: [c]""#,
    r#""\\""#,
    r#""the quick brown fox""#,
];

/// Contents in parts: as they are sent, as a user's and anybody else's are shown, and whether all of it is shown.
const PARTS: [(&str, [(&str, bool); 2]); 4] = [
    ("[]", [("\"\"", true); 2]),
    (r#"[{"type":"text","text":"one"}]"#, [(r#"[{"type":"text","text":"one"}]"#, true); 2]),
    (
        r#"[{"type":"text","text":"a]\"b"},{"type":"image_url","image_url":{"url":"data:,"}}]"#,
        [
            (r#"[{"type":"text","text":"a]\"b"},{"type":"image_url","image_url":{"url":"data:,"}}]"#, true),
            (r#"[{"type":"text","text":"a]\"b"},{"type":"text","text":"[image_url omitted]"}]"#, false),
        ],
    ),
    (
        r#"[{"n":123456789012345678901234567890,"e":1.50e+2}]"#,
        [(r#"[{"type":"text","text":"[part omitted]"}]"#, false); 2],
    ),
];

/// How a content is shown, and whether all of it is.
pub(crate) fn shown(content: &str, role: Role) -> (String, bool) {
    if content.starts_with('"') {
        return (content.to_owned(), true);
    }
    let found = PARTS.iter().find(|(sent, _)| *sent == content);
    let (text, whole) = found.map_or(("\"\"", true), |(_, shown)| shown[usize::from(role != Role::User)]);
    (text.to_owned(), whole)
}

/// How a name is shown.
pub(crate) fn shown_name(name: &str) -> String {
    if name == r#""b\u00f6b""# { r#""b_b""#.to_owned() } else { name.to_owned() }
}

/// Ids of calls; some mean the same and are written differently.
const IDS: [&str; 6] = [r#""c1""#, r#""c2""#, r#""c3""#, r#""c\u0031""#, r#""\u00e9""#, "\"é\""];

const EXTRAS: [(&str, &str); 7] = [
    (r#""refusal""#, r#""no""#),
    (r#""audio""#, r#"{"id":"a"}"#),
    (r#""\u0072efusal""#, "null"),
    (r#""seq""#, "7"),
    (r#""crc""#, r#""00000000""#),
    (r#""request_id""#, r#""r1""#),
    (r#""n\"x""#, "[1,{\"a\":\"}\"},1e2]"),
];

fn of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

/// Whether something happens that does one time in `n`.
pub(crate) fn one_in(rng: &mut Rng, n: u32) -> bool {
    rng.u32(..n) == 0
}

pub(crate) fn text(rng: &mut Rng) -> String {
    if one_in(rng, 60) {
        // Of many pages, so that a crash finds it half written.
        let words = ["lorem ipsum ", "\\u00e9", "日本", "0123456789abcdef"];
        let word = of(rng, &words);
        return format!("\"{}\"", word.repeat(rng.usize(20_000..200_000) / word.len()));
    }
    if one_in(rng, 8) {
        return format!("\"{}\"", "x".repeat(rng.usize(..9000)));
    }
    of(rng, &TEXTS).to_owned()
}

fn content(rng: &mut Rng) -> Option<String> {
    match rng.u32(..10) {
        0 => None,
        1 => Some("null".to_owned()),
        2 | 3 => Some(of(rng, &PARTS).0.to_owned()),
        _ => Some(text(rng)),
    }
}

fn calls(rng: &mut Rng) -> Vec<Call> {
    let mut calls = Vec::new();
    for _ in 0..rng.usize(..4) {
        let id = of(rng, &IDS).to_owned();
        let none = |text: &str| Call { text: text.to_owned(), shown: None };
        calls.push(match rng.u32(..24) {
            0 => none(r#"{"type":"function"}"#),
            1 => none(r#"{"id":null,"n":1}"#),
            2 => none(r#"{"id":7}"#),
            3 => none(r#""c1""#),
            4 => none(r#"["c1"]"#),
            5 => Call {
                text: format!(r#"{{"\u0069d":{id},"function":{{"arguments":"x","name":"f"}}}}"#),
                shown: Some((id, r#""type":"function","function":{"name":"f","arguments":"x"}}"#)),
            },
            _ => {
                let rest = r#""type":"function","function":{"name":"f","arguments":"{\"id\":\"c9\"}"}}"#;
                Call { text: format!(r#"{{"id":{id},{rest}"#), shown: Some((id, rest)) }
            }
        });
    }
    calls
}

/// A message that may follow what is there.
pub(crate) fn message(rng: &mut Rng, open: &[String]) -> Message {
    let role = match rng.u32(..10) {
        0 => of(rng, &[Role::System, Role::Developer]),
        1 | 2 => Role::User,
        3..=5 => Role::Assistant,
        _ if !open.is_empty() || one_in(rng, 3) => Role::Tool,
        _ => Role::Assistant,
    };
    let mut message = Message::plain(role, String::new(), rng.u64(..500));
    message.content = content(rng);
    if role == Role::Assistant && !one_in(rng, 4) || one_in(rng, 30) {
        message.calls = Some(calls(rng));
    }
    if role == Role::Tool && !one_in(rng, 8) {
        let known = (!open.is_empty() && !one_in(rng, 6)).then(|| open[rng.usize(..open.len())].clone());
        message.tool_call_id = Some(known.unwrap_or_else(|| of(rng, &IDS).to_owned()));
    }
    if role == Role::Tool && rng.bool() || one_in(rng, 12) {
        message.tool_name = Some(of(rng, &[r#""read""#, r#""a\"b""#]).to_owned());
    }
    if one_in(rng, 8) {
        message.name = Some(of(rng, &[r#""ann""#, r#""b\u00f6b""#]).to_owned());
    }
    message.pinned = one_in(rng, 8);
    if one_in(rng, 6) {
        message.output_ref = Some(of(rng, &["sha-0123", "o:1"]).to_owned());
    }
    if one_in(rng, 5) {
        let from = rng.usize(..EXTRAS.len());
        // Both spellings of one key would be the same key twice.
        for (key, value) in EXTRAS.iter().skip(from).take(rng.usize(1..4)) {
            if *key != EXTRAS[2].0 || from > 0 {
                message.extra.push(((*key).to_owned(), (*value).to_owned()));
            }
        }
    }
    message
}

const KINDS: [LiteralKind; 5] =
    [LiteralKind::Summary, LiteralKind::Retain, LiteralKind::Gap, LiteralKind::Inherited, LiteralKind::Note];

/// Segments that speak for messages up to `covers`, and the records of some of their summaries.
pub(crate) fn segments(rng: &mut Rng, state: &State, covers: u64) -> (Vec<Segment>, Vec<SummaryRecord>) {
    let (mut segments, mut summaries) = (Vec::new(), Vec::new());
    let mut next = 1;
    while next <= covers || segments.is_empty() && one_in(rng, 2) {
        let to = next + rng.u64(..8).min(covers.saturating_sub(next));
        match rng.u32(..10) {
            0..=2 if next <= covers => segments.push(Segment::keep(next, to)),
            3 | 4 if next <= covers => {
                let except = (next..=to).filter(|_| one_in(rng, 4)).collect();
                segments.push(Segment::Keep { from: next, to, trim_except: Some(except) });
            }
            5 if next <= covers => {
                let content = content(rng).unwrap_or_else(|| "null".to_owned());
                let content = Json::parse(&content).unwrap();
                segments.push(Segment::Replace { seq: next, content, tokens: rng.u64(..50) });
                next += 1;
                continue;
            }
            6 | 7 => {
                let kind = of(rng, &KINDS);
                let content = text(rng);
                if kind == LiteralKind::Summary && !one_in(rng, 3) {
                    summaries.push(summary(rng, next, to));
                }
                segments.push(Segment::Literal(Literal {
                    role: of(rng, &[Role::System, Role::User, Role::Assistant, Role::Tool]),
                    content: Json::parse(&content).unwrap(),
                    kind,
                    tokens: rng.u64(..90),
                    summary: None,
                }));
                continue;
            }
            8 => {
                if let Some(earlier) = earlier(rng, state) {
                    segments.push(earlier);
                }
                continue;
            }
            _ => {}
        }
        next = to + 1;
    }
    (segments, summaries)
}

/// A literal of an earlier rewrite.
fn earlier(rng: &mut Rng, state: &State) -> Option<Segment> {
    let mut literals = Vec::new();
    for (at, (rewrite, _)) in state.rewrites.iter().enumerate() {
        for (index, segment) in rewrite.segments.iter().enumerate() {
            if let Segment::Literal(_) = segment {
                literals.push(Segment::Earlier { rewrite: at as u64 + 1, index });
            }
        }
    }
    if literals.is_empty() { None } else { Some(literals.swap_remove(rng.usize(..literals.len()))) }
}

fn summary(rng: &mut Rng, from: u64, to: u64) -> SummaryRecord {
    SummaryRecord {
        id: 0,
        start_seq: from,
        end_seq: to,
        summary: "so far \"so\" good\n".to_owned(),
        compressed_message_count: to - from + 1,
        original_tokens: rng.u64(..1000),
        summary_tokens: 10,
        tokens_saved: 3,
        ratio: 0.25,
        strategy: "summarize".to_owned(),
        model: "m".to_owned(),
        timestamp: "2026-01-02T03:04:05.000006Z".parse().unwrap(),
        sections: None,
    }
}

/// A record as it is to stand in the log.
pub(crate) fn summary_text(record: &SummaryRecord, id: u64) -> String {
    format!(
        "{{\"id\":{id},\"start_seq\":{},\"end_seq\":{},\"summary\":\"so far \\\"so\\\" good\\n\",\
         \"compressed_message_count\":{},\"original_tokens\":{},\"summary_tokens\":10,\"tokens_saved\":3,\
         \"ratio\":0.25,\"strategy\":\"summarize\",\"model\":\"m\",\"timestamp\":\"2026-01-02T03:04:05.000006Z\"}}",
        record.start_seq, record.end_seq, record.compressed_message_count, record.original_tokens
    )
}
