//! What messages are made of: good pieces, and odd ones.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::Taste;
use crate::{anthropic, openai_responses};

/// Stands for half a character until the message is written.
pub(super) const SURROGATE: char = '\u{E000}';

/// Names of tools that are good.
pub(super) const TOOLS: &[&str] = &["read", "write_file", "run-tests", "search"];

/// An image of one pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const JPEG: &str = "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQCgwSExIQEw8QEBD/2Q==";
const PDF: &str = "JVBERi0xLjQKJeLjz9MKMSAwIG9iago8PD4+CmVuZG9iagp0cmFpbGVyCjw8Pj4KJSVFT0YK";

/// Text that somebody may have written.
pub(super) fn text(rng: &mut Rng, taste: Taste) -> String {
    match rng.u8(..10) {
        0 => odd(rng, taste),
        1 => format!("{}{}", odd(rng, taste), odd(rng, taste)),
        2 => "日本語のテキスト。👩‍👩‍👧‍👦 ".repeat(rng.usize(1..20)),
        3 => format!("trailing{}", [" ", "\n", "\t\n ", "\u{3000}"][rng.usize(..4)]),
        _ => "Read the file, then fix the test. ".repeat(rng.usize(1..8)),
    }
}

/// Text that hurts.
pub(super) fn odd(rng: &mut Rng, taste: Taste) -> String {
    const ODD: &[&str] = &[
        "",
        " ",
        "\n\n",
        "\u{2028}\u{2029}",
        "a\u{0}b",
        "\u{1}\u{8}\u{1b}[31m\u{7f}\u{85}",
        "\u{FEFF}",
        "\u{FFFF}\u{FFFD}",
        "\u{202e}right to left",
        "\\u0000 \\ud800 \\",
        "\"quoted\" 'and' </script> <|im_start|>system",
        "data:image/png;base64,",
        "null",
        "{\"a\":",
        "𝒳 e\u{301}",
        "\r\n\r",
    ];
    if taste.lone_surrogates && rng.u8(..12) == 0 {
        return format!("half {SURROGATE} a character");
    }
    ODD[rng.usize(..ODD.len())].to_owned()
}

/// An id of a call.
pub(super) fn call_id(rng: &mut Rng, taste: Taste) -> String {
    match rng.u8(..16) {
        0 => odd(rng, taste),
        1 => "functions.read:0".to_owned(),
        2 => "call with spaces".to_owned(),
        3 => "呼び出し1".to_owned(),
        4 => format!("call_{}", "x".repeat(rng.usize(30..500))),
        5 => "1".to_owned(),
        6 => format!("call/{}|fc_{}", rng.u32(..), rng.u32(..)),
        7 => format!("toolu_{:016x}", rng.u64(..)),
        8 => "call_1".to_owned(),
        _ => format!("call_{:024x}", rng.u64(..)),
    }
}

/// The name of a tool or of a speaker.
pub(super) fn tool_name(rng: &mut Rng, taste: Taste) -> String {
    match rng.u8(..12) {
        0 => odd(rng, taste),
        1 => "mcp.server/tool:run".to_owned(),
        2 => "ツール".to_owned(),
        3 => "n".repeat(rng.usize(60..300)),
        4 => "Anna Bell <anna@example.org>".to_owned(),
        _ => TOOLS[rng.usize(..TOOLS.len())].to_owned(),
    }
}

/// The arguments of a call, as a model may have written them.
pub(super) fn arguments(rng: &mut Rng, taste: Taste) -> String {
    match rng.u8(..24) {
        0 => String::new(),
        1 => "{\"path\": \"a.rs\", \"content\": \"half".to_owned(),
        2 => "[1, 2]".to_owned(),
        3 => "\"text\"".to_owned(),
        4 => "null".to_owned(),
        5 => "{} {}".to_owned(),
        6 => odd(rng, taste),
        7 => format!("{{\"content\":\"{}\"}}", "a\\n\u{2028}".repeat(rng.usize(1000..40_000))),
        8 => format!("{}1{}", "[".repeat(500), "]".repeat(500)),
        9 => format!("{{\"a\":{}1{}}}", "{\"b\":".repeat(300), "}".repeat(300)),
        10 => "{\"a\":1,\"a\":2}".to_owned(),
        11 => "{\"n\":123456789012345678901234567890,\"x\":1e400,\"y\":-0.0}".to_owned(),
        12 => " \n{ \"path\" : \"b\" } \n".to_owned(),
        13 => "{\"s\":\"\\ud83d\",\"t\":\"\\u0000\"}".to_owned(),
        14 => "{\"path\":NaN}".to_owned(),
        15 => "{\"\":\"\",\"__proto__\":{}}".to_owned(),
        _ => format!("{{\"path\":\"src/{}.rs\"}}", rng.u8(..)),
    }
}

/// The content of a message: text, or parts.
pub(super) fn content(rng: &mut Rng, role: &str, taste: Taste) -> Value {
    match rng.u8(..10) {
        0 => json!(""),
        1 => json!([]),
        2..=4 => (0..rng.usize(1..5)).map(|_| part(rng, role, taste)).collect(),
        _ => json!(text(rng, taste)),
    }
}

fn part(rng: &mut Rng, role: &str, taste: Taste) -> Value {
    // Others than users have parts that no provider takes from them, too: an agent may show a tool's image.
    let most = if role == "user" || rng.u8(..4) == 0 { 16 } else { 5 };
    match rng.u8(..most) {
        0 => json!({"type": "text", "text": odd(rng, taste)}),
        1 => json!({"type": "text", "text": text(rng, taste), "cache_control": {"type": "ephemeral"}}),
        2 => match rng.u8(..4) {
            0 => json!({"type": "text"}),
            1 => json!({"type": "text", "text": null}),
            2 => json!({"type": "text", "text": ["nested"]}),
            _ => json!({"type": "output_text", "text": "as Responses says", "annotations": []}),
        },
        3 | 4 => json!({"type": "text", "text": text(rng, taste)}),
        5 => json!({"type": "refusal", "refusal": text(rng, taste)}),
        6 => json!({"type": "input_audio", "input_audio": match rng.u8(..3) {
            0 => json!({"data": "not base64!", "format": "wav"}),
            1 => json!({"data": "UklGRiQAAABXQVZF", "format": "flac"}),
            _ => json!({"data": "UklGRiQAAABXQVZF", "format": "wav"}),
        }}),
        7 => json!({"type": "file", "file": match rng.u8(..6) {
            0 => json!({"file_id": "file-abc123"}),
            1 => json!({"file_data": format!("data:application/pdf;base64,{PDF}"), "filename": "a.pdf"}),
            2 => json!({"file_data": "data:text/plain;base64,aGVsbG8=", "filename": "notes\u{0}.txt"}),
            3 => json!({"file_data": PDF}),
            4 => json!({"filename": "empty.pdf"}),
            _ => json!({"file_data": "data:application/pdf;base64,aGVsbG8=", "file_id": "file-1"}),
        }}),
        8 => match rng.u8(..5) {
            0 => json!({"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}}),
            1 => {
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}})
            }
            2 => json!({"type": "thinking", "thinking": "Hm", "signature": "c29tZWJvZHkgZWxzZQ=="}),
            3 => json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}),
            _ => json!({"type": "", "x": 1}),
        },
        _ => image(rng, taste),
    }
}

fn image(rng: &mut Rng, taste: Taste) -> Value {
    let url = match rng.u8(..16) {
        0 => "https://example.org/a.png".to_owned(),
        1 => "http://example.org/a b.png".to_owned(),
        2 => "http://example.org/a.png".to_owned(),
        3 => "data:image/png;base64,not base64!".to_owned(),
        4 => "data:image/png;base64,".to_owned(),
        5 => format!("data:image/tiff;base64,{PNG}"),
        6 => format!("data:image/jpeg;base64,{PNG}"),
        7 => "data:image/png;base64,aGVsbG8gd29ybGQ=".to_owned(),
        8 => "data:image/svg+xml;utf8,<svg/>".to_owned(),
        9 => format!("data:image/png;charset=utf-8;base64,{PNG}"),
        10 => "file:///etc/passwd".to_owned(),
        11 => format!("data:IMAGE/PNG;base64,{PNG}"),
        12 if taste.large_images && rng.u8(..4) == 0 => {
            // The first bytes are those of an image; providers look no further without a model.
            format!("data:image/png;base64,{}{}", &PNG[..92], "AAAA".repeat(5 * 1024 * 1024 / 3 - 23))
        }
        13 => format!("data:image/jpeg;base64,{JPEG}"),
        _ => format!("data:image/png;base64,{PNG}"),
    };
    match rng.u8(..12) {
        0 => json!({"type": "image_url", "image_url": url}),
        1 => json!({"type": "image_url"}),
        2 => json!({"type": "image_url", "image_url": {"url": url, "detail": "medium"}}),
        3 => json!({"type": "input_image", "image_url": url}),
        4 => json!({"type": "image_url", "image_url": {"url": url, "detail": "low", "x": 1}}),
        _ => json!({"type": "image_url", "image_url": {"url": url}}),
    }
}

/// What a model thought, beside its message, as SDKs keep it.
pub(super) fn reasoning(rng: &mut Rng, message: &mut Map<String, Value>) {
    let thought = format!("Let me think about {}.", rng.u8(..));
    let mut put = |key: &str, value: Value| drop(message.insert(key.to_owned(), value));
    match rng.u8(..24) {
        0 => {
            let block =
                json!({"type": "thinking", "thinking": thought, "signature": anthropic::sign(&thought)});
            put("reasoning_content", json!(thought));
            put("thinking_blocks", json!([block]));
        }
        1 => {
            let data = format!("{}{:x}", anthropic::REDACTED, rng.u32(..));
            let block =
                json!({"type": "thinking", "thinking": thought, "signature": anthropic::sign(&thought)});
            put("thinking_blocks", json!([block, {"type": "redacted_thinking", "data": data}]));
            // Whoever says so knows nothing of this message.
            match rng.u8(..4) {
                0 => put("reasoning_order", json!(["thought", 3, "call", "thought", 100_000])),
                1 => put("reasoning_order", json!([null, -1, {}, "thought"])),
                2 => put("reasoning_order", json!("thought")),
                _ => {}
            }
        }
        2 => put("thinking_blocks", json!([{"type": "thinking", "thinking": thought}])),
        3 => put(
            "thinking_blocks",
            json!([{"type": "thinking", "thinking": thought, "signature": ""}, {}, null, 1]),
        ),
        4 => put("thinking_blocks", json!("none")),
        5 | 6 => {
            let sealed = format!("{}{:x}", openai_responses::ENCRYPTED, rng.u32(..));
            let id = format!("rs_{:032x}", rng.u128(..));
            let item = json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": sealed});
            put("reasoning_items", json!([item]));
        }
        7 => put("reasoning_items", json!([{"type": "reasoning", "id": "rs_1", "summary": []}])),
        8 => put(
            "reasoning_items",
            json!([{"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": null}, {"id": 3}, "x"]),
        ),
        9 => put(
            "reasoning_details",
            json!([
                {"type": "reasoning.text", "text": thought, "signature": "EuYBCkQYAiJA", "format": "anthropic-claude-v1", "index": 0},
                {"type": "reasoning.encrypted", "data": "gAAAAABo", "format": "openai-responses-v1", "id": "rs_9"},
                {"type": "reasoning.summary", "summary": "Short"},
            ]),
        ),
        10 => put("reasoning", json!(thought)),
        11 => put("thinking", json!(thought)),
        12 => put("provider_specific_fields", json!({"thought_signature": "CiQB", "citations": null})),
        _ => {}
    }
}

/// Fields that no provider knows.
pub(super) fn extra(rng: &mut Rng) -> Vec<(&'static str, Value)> {
    match rng.u8(..8) {
        0 => vec![("id", json!("msg_1")), ("timestamp", json!(1_700_000_000))],
        1 => vec![("annotations", json!([])), ("refusal", Value::Null), ("audio", Value::Null)],
        2 => vec![("seq", json!(7)), ("tokens", json!(-1))],
        3 => vec![("cache_control", json!({"type": "ephemeral"}))],
        4 => vec![("metadata", json!({"a": [1, {"b": null}]}))],
        5 => vec![("images", json!([PNG, "not base64!"]))],
        6 => vec![("function_call", Value::Null)],
        _ => vec![("is_error", json!(true)), ("\u{2028}", json!("\u{0}"))],
    }
}
