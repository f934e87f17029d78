//! How many tokens a message has: four characters make one, two where at least half of them are Japanese.
//!
//! Only the new message is ever counted; totals are kept, never counted again from the files.

use crate::model::{Json, NewMessage};

/// What a provider adds around each message.
const AROUND: u64 = 4;

/// The tokens of a message as the model sees it.
pub fn count_tokens(message: &NewMessage) -> u64 {
    let fields = [&message.content, &message.tool_calls, &message.tool_call_id, &message.name];
    AROUND + fields.into_iter().flatten().map(|value| estimate(Json::as_str(value))).sum::<u64>()
}

fn estimate(text: &str) -> u64 {
    // ASCII is counted without decoding it: most of what agents write is.
    let (mut characters, mut japanese) = (0_u64, 0_u64);
    if text.is_ascii() {
        characters = text.len() as u64;
    } else {
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

    fn tokens(text: &str) -> u64 {
        count_tokens(&NewMessage::text(Role::User, text)) - AROUND
    }

    #[test]
    fn japanese_takes_more_tokens_than_english() {
        // The quotes of the JSON text count too: they are nothing beside real messages.
        assert_eq!(tokens("abcdefghijkl"), 4);
        assert_eq!(tokens("日本語の文章です。"), 6);
        assert_eq!(tokens(""), 1);
    }

    #[test]
    fn tool_calls_count() {
        let plain = NewMessage::from_json(r#"{"role":"assistant","content":""}"#).unwrap();
        let calls = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}"#;
        assert!(count_tokens(&NewMessage::from_json(calls).unwrap()) > count_tokens(&plain) + 10);
    }
}
