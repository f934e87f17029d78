//! Chat completions of LM Studio, vLLM, llama.cpp and others that speak like OpenAI: only what all of them take.
//!
//! Text is one string, as their templates put it; a user's images stand beside it. There is no role `developer`, no file,
//! no sound, no address that a server would have to fetch, and no custom tool.

use super::groups::IdRule;
use super::media::Place;
use super::message::{Call, Message, Part, note};
use super::text::{push_inner, push_json, push_quoted, quote};
use super::{Body, GO_ON, Provider, RenderOptions, push_constants, tools};
use crate::model::Role;

/// `{"model":…,"tools":[…],"messages":[…]}`
#[derive(Debug, Default)]
pub(super) struct Chat {
    /// Who spoke last.
    last: Option<Role>,
}

impl Body for Chat {
    fn ids(&self) -> IdRule {
        IdRule { max: 40, plain: false, once: false }
    }

    fn head(&mut self, options: &RenderOptions, out: &mut Vec<u8>) {
        push_constants(options, out);
        tools::push(out, options.tools(), Provider::LmStudio);
        out.extend_from_slice(b"\"messages\":[");
    }

    fn push(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        if self.last.replace(message.role).is_some() {
            out.push(b',');
        }
        let role = if message.role == Role::Developer { Role::System } else { message.role };
        out.extend_from_slice(b"{\"role\":\"");
        out.extend_from_slice(role.as_str().as_bytes());
        out.extend_from_slice(b"\",\"content\":");
        push_content(message, out);
        if let Some(name) = message.name.as_ref().filter(|_| role != Role::Tool) {
            out.extend_from_slice(b",\"name\":");
            push_quoted(out, name);
        }
        if let Some(call) = &message.answers {
            out.extend_from_slice(b",\"tool_call_id\":");
            push_quoted(out, &call.id);
        }
        if !message.calls.is_empty() {
            out.extend_from_slice(b",\"tool_calls\":[");
            for (index, call) in message.calls.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                push_call(call, out);
            }
            out.push(b']');
        }
        out.push(b'}');
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if matches!(self.last, None | Some(Role::Assistant)) {
            self.push(&Message::text(Role::User, GO_ON), out);
        }
        out.extend_from_slice(b"]}");
    }
}

/// An image that can stand beside the text: bytes, as not every server fetches addresses.
fn image<'a>(part: &'a Part<'_>, role: Role) -> Option<(&'static str, &'a str, Option<&'a str>)> {
    match part {
        Part::Media { place: Place::Image { media_type, base64 }, detail, .. } if role == Role::User => {
            Some((media_type, base64, *detail))
        }
        Part::Text(_) | Part::Media { .. } | Part::Stored { .. } | Part::Audio { .. } | Part::Opaque(..) => {
            None
        }
    }
}

fn push_content(message: &Message<'_>, out: &mut Vec<u8>) {
    if message.parts.iter().all(|part| image(part, message.role).is_none()) {
        out.push(b'"');
        push_texts(message, out);
        out.push(b'"');
        return;
    }
    let mut first = true;
    for part in &message.parts {
        let noted = note(part).map(|note| quote(&note));
        let text = match (part, &noted) {
            (Part::Text(text), _) => Some(text.as_ref()),
            (_, noted) => noted.as_deref(),
        };
        let image = image(part, message.role);
        if image.is_none() && text.is_none() {
            continue;
        }
        out.push(if std::mem::replace(&mut first, false) { b'[' } else { b',' });
        match (image, text) {
            (Some((media_type, base64, detail)), _) => {
                out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:");
                out.extend_from_slice(media_type.as_bytes());
                out.extend_from_slice(b";base64,");
                out.extend_from_slice(base64.as_bytes());
                out.push(b'"');
                if let Some(detail) = detail {
                    out.extend_from_slice(b",\"detail\":");
                    push_json(out, detail);
                }
                out.extend_from_slice(b"}}");
            }
            (None, text) => {
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                push_json(out, text.unwrap_or("\"\""));
                out.push(b'}');
            }
        }
    }
    out.push(b']');
}

/// Writes all text, and notes for the rest, as the inside of one text.
fn push_texts(message: &Message<'_>, out: &mut Vec<u8>) {
    let mut first = true;
    let mut push = |text: &str| {
        if !std::mem::replace(&mut first, false) {
            out.extend_from_slice(b"\\n");
        }
        push_inner(out, text);
    };
    for part in &message.parts {
        if let Part::Text(text) = part {
            push(text);
        } else if let Some(note) = note(part) {
            push(&quote(&note));
        }
    }
    if let Some(refusal) = message.refusal.filter(|_| message.role == Role::Assistant && !message.has_text())
    {
        push(refusal);
    }
}

/// Writes a call. That of a custom tool is one of a function that takes a text.
fn push_call(call: &Call<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":");
    push_quoted(out, &call.id);
    out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
    push_quoted(out, &call.name);
    out.extend_from_slice(b",\"arguments\":");
    if call.custom {
        push_quoted(out, &call.object());
    } else {
        push_json(out, &call.arguments());
    }
    out.extend_from_slice(b"}}");
}
