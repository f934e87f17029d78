//! How many tokens a message has, as the model sees it: text without its JSON escapes, and images and files as
//! such, not as the characters that carry them.
//!
//! Only the new message is ever counted; totals are kept, never counted again from the files.

use super::text::plain;
use super::{exact, fitted};
use crate::model::json::{field, items};
use crate::model::{Json, JsonKind, NewMessage, TokenCounter};

/// What a provider adds around each message.
const AROUND: u64 = 4;

/// Tokens of an image or a file in a message: OpenAI's for an image of 1024 pixels square in full detail (four
/// tiles of 170 and 85 for the whole). What a file really takes is known only to who reads it.
pub const IMAGE_TOKENS: u64 = 765;

/// Types of parts that are not text. Their data is no text for the model, however long it is.
const MEDIA: [&str; 12] = [
    "\"image_url\"",
    "\"input_image\"",
    "\"image\"",
    "\"file\"",
    "\"input_file\"",
    "\"document\"",
    "\"input_audio\"",
    "\"audio\"",
    "\"video\"",
    "\"video_url\"",
    "\"input_video\"",
    "\"audio_url\"",
];

/// The tokens of a message.
pub fn count_tokens(counter: TokenCounter, message: &NewMessage) -> u64 {
    let content = message.content.as_ref().map_or(0, |content| count_content(counter, content.as_str()));
    let fields = [&message.tool_calls, &message.tool_call_id, &message.name];
    let fields = fields.into_iter().flatten().map(|value| count_json(counter, value));
    fields.fold(AROUND.saturating_add(content), u64::saturating_add)
}

/// The tokens of JSON that the model sees as such: calls, tools.
pub fn count_json(counter: TokenCounter, value: &Json) -> u64 {
    count_value(counter, value.as_str())
}

/// The tokens of plain text.
pub fn count_text(counter: TokenCounter, text: &str) -> u64 {
    match counter {
        TokenCounter::Fitted => fitted::count(text),
        TokenCounter::Heuristic => heuristic(text),
        TokenCounter::O200k => exact::o200k(text),
        TokenCounter::Cl100k => exact::cl100k(text),
    }
}

/// Text, parts, or null.
fn count_content(counter: TokenCounter, content: &str) -> u64 {
    match JsonKind::of(content) {
        JsonKind::Array => items(content).into_iter().map(|part| count_part(counter, part)).sum(),
        JsonKind::Null => 0,
        JsonKind::Text | JsonKind::Object | JsonKind::Other => count_value(counter, content),
    }
}

/// One part of a content.
fn count_part(counter: TokenCounter, part: &str) -> u64 {
    if JsonKind::of(part) != JsonKind::Object {
        return count_value(counter, part);
    }
    match field(part, "type") {
        Some(kind) if MEDIA.contains(&kind) => IMAGE_TOKENS,
        // Parts in parts, as other providers have them: the result of a tool, with an image perhaps.
        Some(_) if let Some(inner) = field(part, "content").filter(|inner| is_nested(inner)) => {
            count_content(counter, inner)
        }
        Some(_) => {
            let texts = ["text", "refusal", "thinking"].into_iter().filter_map(|name| field(part, name));
            let mut texts = texts.filter(|text| JsonKind::of(text) == JsonKind::Text).peekable();
            match texts.peek() {
                Some(_) => texts.map(|text| count_value(counter, text)).sum(),
                None => count_value(counter, part),
            }
        }
        None => count_value(counter, part),
    }
}

fn is_nested(inner: &str) -> bool {
    matches!(JsonKind::of(inner), JsonKind::Array | JsonKind::Text)
}

/// A value as JSON; of a string, what is inside.
fn count_value(counter: TokenCounter, json: &str) -> u64 {
    let inside = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(json);
    count_text(counter, &plain(inside))
}

/// Four characters make one, two where at least half of them are Japanese.
fn heuristic(text: &str) -> u64 {
    // ASCII is counted without decoding it: most of what agents write is.
    let (mut characters, mut japanese) = (text.len() as u64, 0_u64);
    if !text.is_ascii() {
        characters = 0;
        for c in text.chars() {
            characters += 1;
            japanese += u64::from(is_japanese(c));
        }
    }
    let per_token = if japanese > 0 && japanese * 2 >= characters { 2 } else { 4 };
    characters.div_ceil(per_token)
}

fn is_japanese(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;

    fn tokens(counter: TokenCounter, text: &str) -> u64 {
        count_tokens(counter, &NewMessage::text(Role::User, text)) - AROUND
    }

    fn of_json(counter: TokenCounter, json: &str) -> u64 {
        count_tokens(counter, &NewMessage::from_json(json).unwrap())
    }

    #[test]
    fn by_the_heuristic_japanese_takes_more_tokens_than_english() {
        for (text, expected) in [("abcdefghijkl", 3), ("日本語の文章です。", 5), ("", 0), ("a\"\n\\", 1)]
        {
            assert_eq!(tokens(TokenCounter::Heuristic, text), expected, "{text}");
        }
    }

    #[test]
    fn every_counter_counts_what_the_model_sees() {
        for counter in TokenCounter::ALL {
            let word = counter.as_str();
            // However it is escaped on the way.
            let plain = of_json(counter, r#"{"role":"user","content":"say \"café\" /日本\n🦀 twice"}"#);
            let escaped =
                r#"{"role":"user","content":"say \"caf\u00e9\" \/\u65e5\u672c\n\ud83e\udd80 twice"}"#;
            assert_eq!(of_json(counter, escaped), plain, "{word}");
            assert_eq!(plain, AROUND + count_text(counter, "say \"café\" /日本\n🦀 twice"), "{word}");
            let parts = r#"{"role":"user","content":[{"type":"text","text":"one\ntwo"},{"type":"text","text":"three"}]}"#;
            let texts = count_text(counter, "one\ntwo") + count_text(counter, "three");
            assert_eq!(of_json(counter, parts), AROUND + texts, "{word}");
            let calls = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}"#;
            assert!(of_json(counter, calls) > AROUND + 10, "{word}");
            let named = r#"{"role":"user","content":"hi","name":"somebody"}"#;
            assert!(
                of_json(counter, named) > of_json(counter, r#"{"role":"user","content":"hi"}"#),
                "{word}"
            );
            let empty = r#"{"role":"assistant","content":""}"#;
            assert_eq!(of_json(counter, empty), AROUND, "{word}");
        }
    }

    #[test]
    fn images_and_files_count_the_same_however_long_they_are() {
        let data = "QUJD".repeat(10_000);
        let media = [
            format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#),
            format!(r#"{{"type":"file","file":{{"filename":"a.pdf","file_data":"{data}"}}}}"#),
            format!(
                r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#
            ),
            format!(r#"{{"type":"input_audio","input_audio":{{"data":"{data}","format":"wav"}}}}"#),
        ];
        for part in media {
            let text = count_text(TokenCounter::Fitted, "look");
            let json = format!(r#"{{"role":"user","content":[{{"type":"text","text":"look"}},{part}]}}"#);
            let expected = AROUND + text + IMAGE_TOKENS;
            assert_eq!(of_json(TokenCounter::Fitted, &json), expected, "{}", &part[..40]);
            let nested = format!(
                r#"{{"role":"user","content":[{{"type":"tool_result","content":[{{"type":"text","text":"look"}},{part}]}}]}}"#
            );
            assert_eq!(of_json(TokenCounter::Fitted, &nested), expected, "{}", &part[..40]);
        }
    }
}
