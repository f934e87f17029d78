//! How many tokens a message has, as the model sees it: text without its JSON escapes, and images and files as
//! such, not as the characters that carry them.
//!
//! Only the new message is ever counted; totals are kept, never counted again from the files.

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, Engine as _};

use super::text::plain;
use super::{exact, fitted};
use crate::model::json::{field, items};
use crate::model::{Json, JsonKind, NewMessage, Provider, TokenCounter};

/// What a provider adds around each message.
const AROUND: u64 = 4;

/// Tokens of an image in a message: OpenAI's for one of 1024 pixels square in full detail (four tiles of 170 and 85 for the
/// whole). Sounds and files that are only named count the same: what they take is known only to who reads them.
pub const IMAGE_TOKENS: u64 = 765;

/// Tokens of a page of a PDF: the least that Anthropic says of one, with its picture. Too few are corrected by the first
/// report of the provider, too many are not.
const PAGE_TOKENS: u64 = 1500;
/// Bytes of a PDF that make a page where its pages cannot be seen, as they are packed.
const PAGE_BYTES: usize = 128 << 10;
/// Most pages that are counted of a PDF: what providers take.
const MOST_PAGES: usize = 1000;
/// Characters of an encrypted thought, in base64, that make a token.
const CHARACTERS_OF_A_THOUGHT: usize = 6;

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
    let thoughts = message.extra.as_ref().map_or(0, |extra| count_thoughts(counter, extra.as_str()));
    fields.fold(AROUND.saturating_add(content).saturating_add(thoughts), u64::saturating_add)
}

/// What a model thought and is sent back: the text of it, or what is encrypted, whichever is more.
fn count_thoughts(counter: TokenCounter, extra: &str) -> u64 {
    let text = |json: &str, name: &str| {
        let text = field(json, name).filter(|text| JsonKind::of(text) == JsonKind::Text);
        text.map_or(0, |text| count_value(counter, text))
    };
    let encrypted = |json: &str, name: &str| {
        let length = field(json, name).map_or(0, str::len);
        length.saturating_sub(2) as u64 / CHARACTERS_OF_A_THOUGHT as u64
    };
    let names = Provider::ALL.into_iter().filter_map(Provider::thoughts);
    let lists =
        names.filter_map(|name| field(extra, name)).filter(|list| JsonKind::of(list) == JsonKind::Array);
    let blocks = lists.flat_map(items).map(|block| {
        let hidden = ["signature", "data", "encrypted_content"].map(|name| encrypted(block, name));
        hidden.into_iter().fold(text(block, "thinking"), u64::max)
    });
    // As Ollama has it.
    blocks.fold(text(extra, "thinking"), u64::saturating_add)
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
        Some(kind) if MEDIA.contains(&kind) => count_media(counter, part),
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

/// An image, a sound or a file: what is read of it, not the characters that carry it.
fn count_media(counter: TokenCounter, part: &str) -> u64 {
    // A document of Anthropic can be text or parts as it is.
    let source = field(part, "source").unwrap_or("{}");
    match (field(source, "type"), field(source, "data"), field(source, "content")) {
        (Some("\"text\""), Some(text), _) => return count_value(counter, text),
        (Some("\"content\""), _, Some(inner)) if is_nested(inner) => return count_content(counter, inner),
        _ => {}
    }
    let file = field(part, "file").unwrap_or(part);
    let is_pdf = field(source, "media_type") == Some("\"application/pdf\"");
    let data = field(source, "data").filter(|_| is_pdf).or_else(|| field(file, "file_data"));
    match data.and_then(pdf_pages) {
        Some(pages) => pages.clamp(1, MOST_PAGES) as u64 * PAGE_TOKENS,
        None => IMAGE_TOKENS,
    }
}

/// The pages of a PDF in base64, as JSON text, with or without what a data URL begins with; none: it is no PDF.
fn pdf_pages(data: &str) -> Option<usize> {
    let text = plain(data.trim_matches('"'));
    let text = text.rsplit_once("base64,").map_or(&*text, |(_, behind)| behind);
    let bytes = STANDARD_PERMISSIVE.decode(text.trim()).ok()?;
    if !bytes.starts_with(b"%PDF") {
        return None;
    }
    let is_page = |at: usize| {
        let behind = bytes.get(at + 5..).unwrap_or_default().trim_ascii_start();
        // `/Pages` is the tree of them.
        behind.strip_prefix(b"/Page").is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphabetic))
    };
    let pages = memchr::memmem::find_iter(&bytes, b"/Type").filter(|at| is_page(*at)).count();
    Some(if pages > 0 { pages } else { bytes.len() / PAGE_BYTES })
}

/// Base64 with or without what fills it up.
const STANDARD_PERMISSIVE: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

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

    /// A PDF of so many pages, in base64.
    fn pdf(pages: usize, rest: usize) -> String {
        let page = "2 0 obj\n<< /Type /Page /Parent 1 0 R >>\nendobj\n".repeat(pages);
        let text =
            format!("%PDF-1.4\n1 0 obj\n<</Type/Pages/Count {pages}>>\nendobj\n{page}{}", "x".repeat(rest));
        base64::engine::general_purpose::STANDARD.encode(text)
    }

    #[test]
    fn a_pdf_counts_by_its_pages() {
        let count = |part: &str| {
            of_json(TokenCounter::Fitted, &format!(r#"{{"role":"user","content":[{part}]}}"#)) - AROUND
        };
        for (pages, rest, expected) in [(1, 10, 1), (40, 10, 40), (0, 10, 1), (0, PAGE_BYTES * 3, 3)] {
            let data = pdf(pages, rest);
            for part in [
                format!(
                    r#"{{"type":"file","file":{{"filename":"a.pdf","file_data":"data:application/pdf;base64,{data}"}}}}"#
                ),
                format!(
                    r#"{{"type":"document","source":{{"type":"base64","media_type":"application/pdf","data":"{data}"}}}}"#
                ),
                format!(
                    r#"{{"type":"input_file","filename":"a.pdf","file_data":"{}"}}"#,
                    data.replace('/', r"\/")
                ),
            ] {
                assert_eq!(count(&part), expected * PAGE_TOKENS, "{}", &part[..40]);
            }
        }
        assert_eq!(count(r#"{"type":"file","file":{"file_id":"file-1"}}"#), IMAGE_TOKENS);
        let text = r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"one two three"}}"#;
        assert_eq!(count(text), count_text(TokenCounter::Fitted, "one two three"));
    }

    #[test]
    fn what_a_model_thought_counts_as_it_is_sent_back() {
        let empty = of_json(TokenCounter::Fitted, r#"{"role":"assistant","content":"so"}"#);
        let count = |extra: &str| {
            of_json(TokenCounter::Fitted, &format!(r#"{{"role":"assistant","content":"so",{extra}}}"#))
                - empty
        };
        let words = "I should look at the tests first. ".repeat(50);
        let of_words = count_text(TokenCounter::Fitted, &words);
        let block = format!(r#"{{"type":"thinking","thinking":"{words}","signature":"c2ln"}}"#);
        assert_eq!(count(&format!(r#""thinking_blocks":[{block},{block}]"#)), 2 * of_words);
        assert_eq!(count(&format!(r#""thinking":"{words}""#)), of_words);
        let hidden = "QUJD".repeat(1500);
        for extra in [
            format!(r#""thinking_blocks":[{{"type":"thinking","thinking":"","signature":"{hidden}"}}]"#),
            format!(r#""thinking_blocks":[{{"type":"redacted_thinking","data":"{hidden}"}}]"#),
            format!(
                r#""reasoning_items":[{{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"{hidden}"}}]"#
            ),
        ] {
            assert_eq!(count(&extra), 1000, "{}", &extra[..40]);
        }
        assert_eq!(count(r#""finish_reason":"stop""#), 0);
    }

    #[test]
    fn images_and_sounds_count_the_same_however_long_they_are() {
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
