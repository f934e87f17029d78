//! The content of a message: text, or the parts that its role may have.

use serde_json::{Map, Value};

use crate::openai_words::{OpenAi, breakpoint, empty_array, file, image_url, length};
use crate::refusal::Refusal;
use crate::shape::{Kind, Voice as _, may, must, object, text};
use crate::{Rules, media};

/// There is no content.
pub(super) fn null(at: usize) -> Refusal {
    Refusal::invalid("Invalid value for 'content': expected a string, got null.")
        .param(format!("messages.[{at}].content"))
}

/// Checks the content of the message `at`.
pub(super) fn check(
    at: usize,
    role: &str,
    message: &Map<String, Value>,
    rules: &Rules,
) -> Result<(), Refusal> {
    let path = format!("messages[{at}].content");
    match message.get("content") {
        Some(Value::String(text)) => length(&path, text, 0, rules.max_text),
        Some(Value::Array(parts)) if parts.is_empty() => Err(empty_array(&path)),
        Some(Value::Array(parts)) => parts
            .iter()
            .enumerate()
            .try_for_each(|(index, value)| part(at, &format!("{path}[{index}]"), role, value, rules)),
        _ => Err(null(at)),
    }
}

fn part(at: usize, path: &str, role: &str, part: &Value, rules: &Rules) -> Result<(), Refusal> {
    let allowed: &[&str] = match role {
        "user" => &["text", "image_url", "input_audio", "refusal", "audio", "file"],
        "assistant" => &["text", "refusal"],
        _ => &["text"],
    };
    let object_ = part.as_object().ok_or_else(|| OpenAi.wrong(path, Kind::Object, part))?;
    let kind = object_.get("type").ok_or_else(|| OpenAi.missing(path, "type"))?;
    let kind = kind.as_str().ok_or_else(|| OpenAi.wrong(&format!("{path}.type"), Kind::Str, kind))?;
    if kind == "image_url" && role != "user" {
        return Err(Refusal::invalid(format!(
            "Invalid 'messages[{at}]'. Image URLs are only allowed for messages with role 'user', but this message \
             with role '{role}' contains an image URL."
        ))
        .code("invalid_value")
        .param(format!("messages[{at}]")));
    }
    if !allowed.contains(&kind) {
        return Err(OpenAi.word(&format!("{path}.type"), allowed, kind));
    }
    let tag = must("type", Kind::Str);
    let mark = may("prompt_cache_breakpoint", Kind::Object);
    match kind {
        "text" => {
            let part = object(&OpenAi, path, part, &[tag, must("text", Kind::Str), mark])?;
            breakpoint(path, part)?;
            length(&format!("{path}.text"), text(part, "text"), 0, rules.max_text)
        }
        // The published types have it for assistants only; the list above is what the API's own words say.
        "refusal" if role == "assistant" => {
            object(&OpenAi, path, part, &[tag, must("refusal", Kind::Str)]).map(drop)
        }
        "image_url" => {
            let part = object(&OpenAi, path, part, &[tag, must("image_url", Kind::Object), mark])?;
            breakpoint(path, part)?;
            let path = format!("{path}.image_url");
            let detail = may("detail", Kind::Word(&["auto", "low", "high", "original"]));
            let image = object(&OpenAi, &path, &part["image_url"], &[must("url", Kind::Str), detail])?;
            image_url(&format!("{path}.url"), text(image, "url"))
        }
        "input_audio" => {
            let part = object(&OpenAi, path, part, &[tag, must("input_audio", Kind::Object), mark])?;
            breakpoint(path, part)?;
            let path = format!("{path}.input_audio");
            let fields = [must("data", Kind::Str), must("format", Kind::Word(&["wav", "mp3"]))];
            let audio = object(&OpenAi, &path, &part["input_audio"], &fields)?;
            let data = text(audio, "data");
            if data.is_empty() || media::base64_fault(data).is_some() {
                return Err(Refusal::invalid(format!(
                    "Invalid '{path}.data'. Expected base64-encoded audio, but got an invalid value."
                ))
                .code("invalid_value")
                .param(format!("{path}.data")));
            }
            Ok(())
        }
        "file" => {
            let part = object(&OpenAi, path, part, &[tag, must("file", Kind::Object), mark])?;
            breakpoint(path, part)?;
            let path = format!("{path}.file");
            let fields = [may("file_data", Kind::Str), may("file_id", Kind::Str), may("filename", Kind::Str)];
            file(&path, object(&OpenAi, &path, &part["file"], &fields)?)
        }
        _ => Err(OpenAi.word(&format!("{path}.type"), &["text", "image_url", "input_audio", "file"], kind)),
    }
}
