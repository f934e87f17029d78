//! A message by the heads and the tails of its texts.

use std::fmt::Write as _;
use std::ops::Range;

use crate::context::{count_text, plain_text};
use crate::model::json::{field, fields, items};
use crate::model::{Json, JsonKind, TokenCounter};
use crate::store::ViewMessage;

/// What is left of a message that is cut, in tokens, at least.
pub(super) const LEAST: u64 = 48;
/// How often it is cut further where it takes too many bytes.
const TRIES: u32 = 8;

/// Whether nothing but text is in a content.
pub(super) fn is_text(content: &str) -> bool {
    match JsonKind::of(content) {
        JsonKind::Text => true,
        JsonKind::Array => items(content).into_iter().all(|part| text_of(part).is_some()),
        JsonKind::Null | JsonKind::Object | JsonKind::Other => false,
    }
}

/// Returns the tokens of the texts in a content.
pub(super) fn text_tokens(content: &str, counter: TokenCounter) -> u64 {
    let mut tokens = 0_u64;
    rewrite(content, &mut |text| {
        tokens = tokens.saturating_add(count_text(counter, text));
        None
    });
    tokens
}

/// The content of a message with its longest texts cut to head and tail, and the tokens that the message has then; none if
/// that does not make it smaller, or it would still take more than so many bytes.
pub(super) fn shorten(
    seen: &ViewMessage<'_>,
    most: u64,
    bytes: usize,
    counter: TokenCounter,
) -> Option<(Json, u64)> {
    let shown = &seen.shown;
    let content = shown.content?;
    let (mut lengths, mut counted) = (Vec::new(), 0_u64);
    rewrite(content, &mut |text| {
        lengths.push(text.chars().count());
        counted = counted.saturating_add(count_text(counter, text));
        None
    });
    let characters: usize = lengths.iter().sum();
    // What is beside the texts, as calls and images, stays.
    let beside = shown.tokens.saturating_sub(counted);
    let room = most.saturating_sub(beside).max(LEAST / 2);
    let keep = room.saturating_mul(characters as u64) / counted.max(1);
    let mut keep = usize::try_from(keep).unwrap_or(usize::MAX);
    let which = match seen.output_ref.filter(|output_ref| JsonKind::of(output_ref) == JsonKind::Text) {
        Some(output_ref) => format!("; ref={}", plain_text(output_ref)),
        None if shown.seq > 0 => format!("; seq={}", shown.seq),
        None => String::new(),
    };
    for _ in 0..TRIES {
        let most = level(&lengths, keep);
        let mut tokens = beside;
        let cut = rewrite(content, &mut |text| {
            let cut = cut(text, most, &which);
            tokens = tokens.saturating_add(count_text(counter, cut.as_deref().unwrap_or(text)));
            cut
        });
        if cut.len() <= bytes {
            return (tokens < shown.tokens).then_some((Json::kept(cut), tokens));
        }
        // Escapes and what is not text take bytes too.
        keep = keep.min(characters) / cut.len().div_ceil(bytes.max(1)).max(2);
    }
    None
}

/// The head and the tail of a text that is longer than so many characters; `which` is said of what is left out. What was
/// left out of it before counts.
pub(super) fn cut(text: &str, most: usize, which: &str) -> Option<String> {
    let characters = text.chars().count();
    let (head, tail) = (most / 5 * 3 + most % 5, most / 5 * 2);
    if head + tail >= characters {
        return None;
    }
    let at = |count: usize| text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    let mut gone = at(head)..at(characters - tail);
    let (mut noted, mut before) = (0, 0_usize);
    for (note, left_out) in notes(text, which) {
        if note.start < gone.end && gone.start < note.end {
            // A part of it would tell nothing.
            gone = gone.start.min(note.start)..gone.end.max(note.end);
            noted += text[note].chars().count();
            before = before.saturating_add(left_out);
        }
    }
    let left_out = (text[gone.clone()].chars().count() - noted).saturating_add(before);
    Some(format!("{}{}{}", &text[..gone.start], note(left_out, which), &text[gone.end..]))
}

/// How a note begins.
const OPENS: &str = "\n[… ";

/// What is said in the place of so many characters.
fn note(left_out: usize, which: &str) -> String {
    format!("{OPENS}{left_out}{}", closes(which))
}

fn closes(which: &str) -> String {
    format!(" characters left out{which} …]\n")
}

/// Where a text has such notes, and how many characters each stands for.
fn notes(text: &str, which: &str) -> Vec<(Range<usize>, usize)> {
    let closes = closes(which);
    let read = |(from, _): (usize, &str)| {
        let number = from + OPENS.len();
        let rest = &text[number..];
        let (digits, behind) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let left_out = digits.parse().ok()?;
        behind.starts_with(&closes).then(|| (from..number + digits.len() + closes.len(), left_out))
    };
    text.match_indices(OPENS).filter_map(read).collect()
}

/// The length to which the longest are cut, so that all together have no more than so many characters.
fn level(lengths: &[usize], all: usize) -> usize {
    let (mut low, mut high) = (0, lengths.iter().copied().max().unwrap_or(0));
    while low < high {
        let most = low + (high - low).div_ceil(2);
        let sum: usize = lengths.iter().map(|length| (*length).min(most)).sum();
        if sum <= all { low = most } else { high = most - 1 }
    }
    low
}

/// The text of a part that is one, as JSON.
fn text_of(part: &str) -> Option<&str> {
    if JsonKind::of(part) != JsonKind::Object {
        return None;
    }
    field(part, "type")?;
    field(part, "text").filter(|text| JsonKind::of(text) == JsonKind::Text)
}

/// A content with others for some of its texts, as `instead` says: its own, those of its parts and of parts in parts.
fn rewrite(content: &str, instead: &mut dyn FnMut(&str) -> Option<String>) -> String {
    match JsonKind::of(content) {
        JsonKind::Text => {
            let text = instead(&plain_text(content));
            text.map_or_else(|| content.to_owned(), |text| Json::text(&text).as_str().to_owned())
        }
        JsonKind::Array => {
            let parts: Vec<String> =
                items(content).into_iter().map(|part| rewrite_part(part, instead)).collect();
            format!("[{}]", parts.join(","))
        }
        JsonKind::Null | JsonKind::Object | JsonKind::Other => content.to_owned(),
    }
}

fn rewrite_part(part: &str, instead: &mut dyn FnMut(&str) -> Option<String>) -> String {
    if JsonKind::of(part) != JsonKind::Object || field(part, "type").is_none() {
        return part.to_owned();
    }
    let inner = if text_of(part).is_some() { "\"text\"" } else { "\"content\"" };
    let mut out = String::from("{");
    for (at, (key, value)) in fields(part).into_iter().enumerate() {
        let value = if key == inner { rewrite(value, instead) } else { value.to_owned() };
        let _ = write!(out, "{}{key}:{value}", if at > 0 { "," } else { "" });
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;
    use contextstore_store::log::ShownMessage;

    fn shortened(content: &str, tokens: u64, most: u64, bytes: usize) -> Option<(Json, u64)> {
        let shown = ShownMessage { seq: 7, ..ShownMessage::plain(Role::User, content, tokens) };
        shorten(&ViewMessage { shown, kind: None, output_ref: None }, most, bytes, TokenCounter::Heuristic)
    }

    #[test]
    fn the_longest_text_is_cut_and_the_rest_stays() {
        let log = "line of output\\n".repeat(1000);
        let image = r#"{"type":"image_url","image_url":{"url":"https://a/b.png"}}"#;
        let content = format!(
            r#"[{{"type":"text","text":"What is wrong?"}},{image},{{"type":"text","text":"{log}","cache_control":{{"type":"ephemeral"}}}},{{"type":"tool_result","content":[{{"type":"text","text":"{log}"}}]}}]"#
        );
        let (cut, tokens) = shortened(&content, 8000, 1000, 1 << 20).unwrap();
        assert!((900..=1100).contains(&tokens), "{tokens}");
        assert!(serde_json::from_str::<serde_json::Value>(cut.as_str()).is_ok(), "{}", cut.as_str());
        assert_eq!(cut.as_str().matches("characters left out; seq=7").count(), 2, "{}", cut.as_str());
        for part in ["\"What is wrong?\"", image, r#""cache_control":{"type":"ephemeral"}"#] {
            assert!(cut.as_str().contains(part), "{part}: {}", cut.as_str());
        }
        assert!(is_text(r#"[{"type":"text","text":"a"}]"#) && !is_text(&content) && is_text("\"a\""));
    }

    #[test]
    fn what_is_cut_again_tells_all_that_is_left_out() {
        let text: String = (0..900).map(|number| format!("wört {number} ")).collect();
        let all = text.chars().count();
        let mut cut_so_far = text;
        for most in [3000, 2999, 2996, 1500, 90, 20, 6] {
            cut_so_far = cut(&cut_so_far, most, "; seq=7").unwrap();
            let found = notes(&cut_so_far, "; seq=7");
            let [(note, left_out)] = found.as_slice() else { panic!("{most}: {cut_so_far}") };
            let shown = cut_so_far.chars().count() - cut_so_far[note.clone()].chars().count();
            assert_eq!(shown + left_out, all, "{most}: {cut_so_far}");
            assert!(shown <= most, "{most}: {cut_so_far}");
        }
        // Those of others are text like any other.
        let foreign = format!("{}{}{}", "a".repeat(50), note(7, "; seq=8"), "b".repeat(50));
        let characters = foreign.chars().count();
        assert_eq!(notes(&cut(&foreign, 10, "; seq=7").unwrap(), "; seq=7")[0].1, characters - 10);
    }

    #[test]
    fn it_takes_no_more_bytes_than_it_may() {
        // A control character is one token and six bytes.
        let content = format!("\"{}\"", "\\u0001".repeat(40_000));
        let (cut, _) = shortened(&content, 10_000, 9_000, 20_000).unwrap();
        assert!((5_000..=20_000).contains(&cut.as_str().len()), "{}", cut.as_str().len());
        assert!(shortened("\"short\"", 6, 4, 20_000).is_none());
        assert!(
            shortened(r#"[{"type":"image_url","image_url":{"url":"data:x"}}]"#, 800, 48, 20_000).is_none()
        );
    }
}
