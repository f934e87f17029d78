//! The chat API of Ollama: text, separate images, and calls that are paired with their results by their order.

use super::groups::IdRule;
use super::media::MediaSource;
use super::message::{MessagePart, ViewMessage, note};
use super::text::{push_inner, push_json, push_quoted, quote};
use super::{BodyWriter, CONTINUE, Provider, RenderOptions, push_constants, tools};
use crate::model::Role;

/// Writes `{"model":…,"tools":[…],"messages":[…]}`.
#[derive(Debug, Default)]
pub(super) struct OllamaWriter {
    /// The role of the last message.
    last: Option<Role>,
}

impl BodyWriter for OllamaWriter {
    /// The API has no ids.
    fn ids(&self) -> IdRule {
        IdRule { max: 64, plain: false, once: false }
    }

    fn head(&mut self, options: &RenderOptions, out: &mut Vec<u8>) {
        push_constants(options, out);
        tools::push(out, options.tools(), Provider::Ollama);
        out.extend_from_slice(b"\"messages\":[");
    }

    fn push(&mut self, message: &ViewMessage<'_>, out: &mut Vec<u8>) {
        if self.last.replace(message.role).is_some() {
            out.push(b',');
        }
        let role = if message.role == Role::Developer { Role::System } else { message.role };
        out.extend_from_slice(b"{\"role\":\"");
        out.extend_from_slice(role.as_str().as_bytes());
        out.extend_from_slice(b"\",\"content\":\"");
        push_texts(message, out);
        out.push(b'"');
        if let Some(thinking) = message.thinking {
            out.extend_from_slice(b",\"thinking\":");
            push_json(out, thinking);
        }
        let mut first = true;
        for image in message.parts.iter().filter_map(image) {
            out.extend_from_slice(if first { b",\"images\":[\"" } else { b",\"" });
            first = false;
            out.extend_from_slice(image.as_bytes());
            out.push(b'"');
        }
        if !first {
            out.push(b']');
        }
        if !message.calls.is_empty() {
            out.extend_from_slice(b",\"tool_calls\":[");
            for (index, call) in message.calls.iter().enumerate() {
                out.extend_from_slice(if index > 0 {
                    b",{\"function\":{\"name\":"
                } else {
                    b"{\"function\":{\"name\":"
                });
                push_quoted(out, &call.name);
                out.extend_from_slice(b",\"arguments\":");
                push_json(out, &call.object());
                out.extend_from_slice(b"}}");
            }
            out.push(b']');
        }
        if let Some(call) = &message.answers {
            out.extend_from_slice(b",\"tool_name\":");
            push_quoted(out, &call.name);
        }
        out.push(b'}');
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if matches!(self.last, None | Some(Role::Assistant)) {
            self.push(&ViewMessage::text(Role::User, CONTINUE), out);
        }
        out.extend_from_slice(b"]}");
    }
}

/// Returns an image that Ollama accepts.
fn image<'a>(part: &'a MessagePart<'_>) -> Option<&'a str> {
    match part {
        // Ollama rejects GIF.
        MessagePart::Media { source: MediaSource::Image { base64, media_type }, .. }
            if *media_type != "image/gif" =>
        {
            Some(base64)
        }
        MessagePart::Text(_)
        | MessagePart::Media { .. }
        | MessagePart::Stored { .. }
        | MessagePart::Audio { .. }
        | MessagePart::Opaque(..) => None,
    }
}

fn push_texts(message: &ViewMessage<'_>, out: &mut Vec<u8>) {
    let mut first = true;
    let mut push = |text: &str| {
        if !std::mem::replace(&mut first, false) {
            out.extend_from_slice(b"\\n");
        }
        push_inner(out, text);
    };
    for part in message.parts.iter().filter(|part| image(part).is_none()) {
        if let MessagePart::Text(text) = part {
            push(text);
        } else if let Some(note) = note(part) {
            push(&quote(&note));
        }
    }
    if let Some(refusal) = message.refusal.filter(|_| !message.has_text()) {
        push(refusal);
    }
}
