//! Content blocks, one by one.

use serde_json::{Map, Value};

use super::params::{MARK, mark, tool_name};
use super::{Anthropic, REDACTED, sign};
use crate::refusal::Refusal;
use crate::shape::{Kind, Voice as _, is_name, list, may, must, null, object, text};
use crate::{media, place};

const TAG: crate::shape::Field = must("type", Kind::Str);

/// A block in its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    /// The number of its message.
    pub(super) message: usize,
    /// Its number in the message.
    pub(super) index: usize,
    /// Itself; nothing for a content that is a plain string.
    pub(super) value: Option<&'a Value>,
    /// Its text, for text.
    pub(super) text: &'a str,
}

impl<'a> Block<'a> {
    /// Its type.
    pub(super) fn kind(&self) -> &'a str {
        self.value.map_or("text", |value| value["type"].as_str().unwrap_or_default())
    }

    /// A string of its fields.
    pub(super) fn field(&self, key: &str) -> &'a str {
        self.value.and_then(|value| value.get(key)?.as_str()).unwrap_or_default()
    }

    /// Where it stands.
    pub(super) fn path(&self) -> String {
        format!("messages.{}.content.{}", self.message, self.index)
    }
}

/// Text that is something.
pub(super) fn some_text(text: &str, place: &str) -> Result<(), Refusal> {
    if text.is_empty() {
        return Err(Refusal::invalid(format!("{place}: text content blocks must be non-empty")));
    }
    if text.trim().is_empty() {
        return Err(Refusal::invalid(format!(
            "{place}: text content blocks must contain non-whitespace text"
        )));
    }
    Ok(())
}

/// A block of text.
pub(super) fn text_block(path: &str, block: &Value, place: &str) -> Result<(), Refusal> {
    let fields = [TAG, must("text", Kind::Str), MARK, null("citations", Kind::Array)];
    let block = object(&Anthropic, path, block, &fields)?;
    mark(path, block)?;
    some_text(text(block, "text"), place)
}

/// Checks a block of a message.
pub(super) fn check(at: usize, index: usize, role: &str, block: &Value) -> Result<(), Refusal> {
    const TAGS: &[&str] = &[
        "document",
        "image",
        "redacted_thinking",
        "search_result",
        "text",
        "thinking",
        "tool_result",
        "tool_use",
    ];
    let path = format!("messages.{at}.content.{index}");
    let kind = tag(&path, block, TAGS)?;
    if ["tool_use", "thinking", "redacted_thinking"].contains(&kind) && role != "assistant" {
        return Err(Refusal::invalid(format!(
            "messages.{at}: `{kind}` blocks can only be in `assistant` messages"
        )));
    }
    if kind == "tool_result" && role != "user" {
        return Err(Refusal::invalid(format!(
            "messages.{at}: `{kind}` blocks can only be in `user` messages"
        )));
    }
    if ["image", "document", "search_result"].contains(&kind) && role != "user" {
        return Err(Refusal::invalid(format!(
            "{path}: `{kind}` blocks are not permitted in `{role}` messages"
        )));
    }
    let at = format!("{path}.{kind}");
    match kind {
        "thinking" => thinking(&path, &at, block),
        "redacted_thinking" => {
            let block = object(&Anthropic, &at, block, &[TAG, must("data", Kind::Str)])?;
            if text(block, "data").starts_with(REDACTED) {
                return Ok(());
            }
            Err(Refusal::invalid(format!("{path}: Invalid `data` in `redacted_thinking` block")))
        }
        "tool_use" => tool_use(&at, block),
        "tool_result" => tool_result(&path, &at, block),
        _ => media_block(&at, kind, block),
    }
}

fn tag<'a>(path: &str, block: &'a Value, tags: &[&str]) -> Result<&'a str, Refusal> {
    let object = block.as_object().ok_or_else(|| Anthropic.wrong(path, Kind::Object, block))?;
    let kind = object.get("type").ok_or_else(|| Anthropic.missing(path, "type"))?;
    let kind = kind.as_str().unwrap_or_default();
    if tags.contains(&kind) {
        return Ok(kind);
    }
    let tags: Vec<_> = tags.iter().map(|tag| format!("'{tag}'")).collect();
    Err(Refusal::invalid(format!(
        "{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {}",
        tags.join(", ")
    )))
}

/// A block that both a message and a tool result may have.
fn media_block(at: &str, kind: &str, block: &Value) -> Result<(), Refusal> {
    match kind {
        "text" => text_block(at, block, "messages"),
        "image" => {
            let fields = [TAG, must("source", Kind::Object), MARK, null("transformations", Kind::Object)];
            let block = object(&Anthropic, at, block, &fields)?;
            mark(at, block)?;
            image(&format!("{at}.source"), &block["source"])
        }
        "document" => {
            let fields = [
                TAG,
                must("source", Kind::Object),
                MARK,
                null("citations", Kind::Object),
                null("context", Kind::Str),
                null("title", Kind::Str),
            ];
            let block = object(&Anthropic, at, block, &fields)?;
            mark(at, block)?;
            document(&format!("{at}.source"), &block["source"])
        }
        _ => {
            let fields = [
                TAG,
                must("content", Kind::Array),
                must("source", Kind::Str),
                must("title", Kind::Str),
                MARK,
                may("citations", Kind::Object),
            ];
            let block = object(&Anthropic, at, block, &fields)?;
            mark(at, block)?;
            list(block, "content")
                .iter()
                .enumerate()
                .try_for_each(|(index, text)| text_block(&format!("{at}.content.{index}"), text, "messages"))
        }
    }
}

fn thinking(path: &str, at: &str, block: &Value) -> Result<(), Refusal> {
    let block =
        object(&Anthropic, at, block, &[TAG, must("thinking", Kind::Str), must("signature", Kind::Str)])?;
    let thought = text(block, "thinking");
    // One whose text was left out has all in its signature.
    if !thought.is_empty() && thought.trim().is_empty() {
        return Err(Refusal::invalid(format!("{path}.thinking: each thinking block must contain thinking")));
    }
    if place::opened(text(block, "signature")).0 != sign(thought) {
        return Err(Refusal::invalid(format!("{path}: Invalid `signature` in `thinking` block")));
    }
    Ok(())
}

fn id(path: &str, id: &str) -> Result<(), Refusal> {
    if is_name(id, usize::MAX) {
        return Ok(());
    }
    Err(Refusal::invalid(format!("{path}: String should match pattern '^[a-zA-Z0-9_-]+$'")))
}

fn tool_use(at: &str, block: &Value) -> Result<(), Refusal> {
    let fields = [
        TAG,
        must("id", Kind::Str),
        must("input", Kind::Object),
        must("name", Kind::Str),
        MARK,
        may("caller", Kind::Object),
        null("toolset_name", Kind::Str),
    ];
    let block = object(&Anthropic, at, block, &fields)?;
    mark(at, block)?;
    id(&format!("{at}.id"), text(block, "id"))?;
    tool_name(&format!("{at}.name"), text(block, "name"))
}

fn tool_result(path: &str, at: &str, block: &Value) -> Result<(), Refusal> {
    let fields = [
        TAG,
        must("tool_use_id", Kind::Str),
        MARK,
        may("content", Kind::StrOrArray),
        may("is_error", Kind::Bool),
        null("toolset_name", Kind::Str),
    ];
    let block = object(&Anthropic, at, block, &fields)?;
    mark(at, block)?;
    id(&format!("{at}.tool_use_id"), text(block, "tool_use_id"))?;
    for (index, inner) in list(block, "content").iter().enumerate() {
        let inner_path = format!("{at}.content.{index}");
        let kind = tag(&inner_path, inner, &["document", "image", "search_result", "text"])?;
        media_block(&format!("{inner_path}.{kind}"), kind, inner)?;
        if kind != "text" && block.get("is_error") == Some(&Value::Bool(true)) {
            return Err(Refusal::invalid(format!(
                "{path}: all content must be type \"text\" if \"is_error\" is true"
            )));
        }
    }
    Ok(())
}

/// The source of a block: its fields by its type.
fn source<'a>(
    at: &str,
    value: &'a Value,
    tags: &[&str],
) -> Result<(&'a str, String, &'a Map<String, Value>), Refusal> {
    let kind = tag(at, value, tags)?;
    let at = format!("{at}.{kind}");
    let fields = match kind {
        "base64" | "text" => vec![TAG, must("data", Kind::Str), must("media_type", Kind::Str)],
        "url" => vec![TAG, must("url", Kind::Str)],
        "file" => vec![TAG, must("file_id", Kind::Str)],
        _ => vec![TAG, must("content", Kind::StrOrArray)],
    };
    let source = object(&Anthropic, &at, value, &fields)?;
    if kind == "url" && !media::is_web(text(source, "url"), &["https"]) {
        return Err(Refusal::invalid(format!("{at}.url: Only HTTPS URLs are supported.")));
    }
    Ok((kind, at, source))
}

fn image(at: &str, value: &Value) -> Result<(), Refusal> {
    const TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];
    const MAX: usize = 5 * 1024 * 1024;
    let (kind, at, source) = source(at, value, &["base64", "file", "url"])?;
    if kind != "base64" {
        return Ok(());
    }
    let (data, declared) = (text(source, "data"), text(source, "media_type"));
    if !TYPES.contains(&declared) {
        return Err(Anthropic.word(&format!("{at}.media_type"), TYPES, declared));
    }
    if data.is_empty() {
        return Err(Refusal::invalid(format!("{at}: image cannot be empty")));
    }
    if media::base64_fault(data).is_some() {
        return Err(Refusal::invalid(format!("{at}.data: Invalid base64 data")));
    }
    if data.len() > MAX {
        return Err(Refusal::invalid(format!(
            "{at}: image exceeds 5 MB maximum: {} bytes > {MAX} bytes",
            data.len()
        )));
    }
    match media::image_type(data) {
        Some(found) if found == declared => Ok(()),
        Some(found) => Err(Refusal::invalid(format!(
            "{at}.data: The image was specified using the {declared} media type, but the image appears to be a \
             {found} image"
        ))),
        None => Err(Refusal::invalid("Could not process image")),
    }
}

fn document(at: &str, value: &Value) -> Result<(), Refusal> {
    let (kind, at, source) = source(at, value, &["base64", "content", "file", "text", "url"])?;
    let declared = text(source, "media_type");
    match kind {
        "base64" if declared != "application/pdf" => {
            Err(Anthropic.word(&format!("{at}.media_type"), &["application/pdf"], declared))
        }
        "base64" if media::base64_fault(text(source, "data")).is_some() => {
            Err(Refusal::invalid(format!("{at}.data: Invalid base64 data")))
        }
        "base64" if !media::is_pdf(text(source, "data")) => {
            Err(Refusal::invalid(format!("{at}.data: The PDF specified was not valid.")))
        }
        "text" if declared != "text/plain" => {
            Err(Anthropic.word(&format!("{at}.media_type"), &["text/plain"], declared))
        }
        "text" if text(source, "data").is_empty() => {
            Err(Refusal::invalid(format!("{at}.data: document text cannot be empty")))
        }
        _ => Ok(()),
    }
}
