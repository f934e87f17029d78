//! Chat completions of OpenAI.

use super::groups::IdRule;
use super::media::{Place, is_base64};
use super::message::{Call, Message, Part, note};
use super::text::{decode, push_inner, push_json, push_quoted, quote};
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

    fn most_calls(&self) -> Option<usize> {
        Some(128)
    }

    fn head(&mut self, options: &RenderOptions, out: &mut Vec<u8>) {
        push_constants(options, out);
        tools::push(out, options.tools(), Provider::OpenAi);
        out.extend_from_slice(b"\"messages\":[");
    }

    fn push(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        if self.last.replace(message.role).is_some() {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"role\":\"");
        out.extend_from_slice(message.role.as_str().as_bytes());
        out.extend_from_slice(b"\",\"content\":");
        push_content(message, out);
        if let Some(refusal) = message.refusal.filter(|_| message.role == Role::Assistant) {
            out.extend_from_slice(b",\"refusal\":");
            push_json(out, refusal);
        }
        if let Some(name) = message.name.as_ref().filter(|_| message.role != Role::Tool) {
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

fn push_content(message: &Message<'_>, out: &mut Vec<u8>) {
    let parts: Vec<&Part<'_>> =
        message.parts.iter().filter(|part| !matches!(part, Part::Opaque(..))).collect();
    match parts.as_slice() {
        [] if !message.calls.is_empty() => out.extend_from_slice(b"null"),
        [] => out.extend_from_slice(b"\"\""),
        [Part::Text(text)] => push_json(out, text),
        parts => {
            for (index, part) in parts.iter().enumerate() {
                out.push(if index == 0 { b'[' } else { b',' });
                push_part(part, message.role, out);
            }
            out.push(b']');
        }
    }
}

fn push_part(part: &Part<'_>, role: Role, out: &mut Vec<u8>) {
    match part {
        Part::Text(text) => push_text(text, out),
        Part::Media { place: Place::Image { media_type, base64 }, detail, .. } if role == Role::User => {
            out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:");
            out.extend_from_slice(media_type.as_bytes());
            out.extend_from_slice(b";base64,");
            out.extend_from_slice(base64.as_bytes());
            out.push(b'"');
            push_detail(*detail, out);
            out.extend_from_slice(b"}}");
        }
        Part::Media { place: Place::Web(url), kind: "image", detail, .. } if role == Role::User => {
            out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":");
            push_quoted(out, url);
            push_detail(*detail, out);
            out.extend_from_slice(b"}}");
        }
        Part::Media { place: Place::Pdf(base64), filename, .. } if role == Role::User => {
            out.extend_from_slice(b"{\"type\":\"file\",\"file\":{\"filename\":");
            push_json(out, filename.unwrap_or("\"document.pdf\""));
            out.extend_from_slice(b",\"file_data\":\"data:application/pdf;base64,");
            out.extend_from_slice(base64.as_bytes());
            out.extend_from_slice(b"\"}}");
        }
        Part::Stored { id, .. } if role == Role::User => {
            out.extend_from_slice(b"{\"type\":\"file\",\"file\":{\"file_id\":");
            push_json(out, id);
            out.extend_from_slice(b"}}");
        }
        Part::Audio { data, format } if role == Role::User && is_base64(&decode(data)) => {
            out.extend_from_slice(b"{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"");
            push_inner(out, data);
            out.extend_from_slice(b"\",\"format\":");
            push_quoted(out, format);
            out.extend_from_slice(b"}}");
        }
        Part::Media { .. } | Part::Stored { .. } | Part::Audio { .. } | Part::Opaque(..) => {
            push_text(&quote(&note(part).unwrap_or_default()), out);
        }
    }
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    push_json(out, text);
    out.push(b'}');
}

fn push_detail(detail: Option<&str>, out: &mut Vec<u8>) {
    if let Some(detail) = detail {
        out.extend_from_slice(b",\"detail\":");
        push_json(out, detail);
    }
}

fn push_call(call: &Call<'_>, out: &mut Vec<u8>) {
    let (kind, field) = if call.custom { ("custom", "input") } else { ("function", "arguments") };
    out.extend_from_slice(b"{\"id\":");
    push_quoted(out, &call.id);
    out.extend_from_slice(format!(",\"type\":\"{kind}\",\"{kind}\":{{\"name\":").as_bytes());
    push_quoted(out, &call.name);
    out.extend_from_slice(format!(",\"{field}\":").as_bytes());
    if call.custom {
        push_json(out, call.input)
    } else {
        push_json(out, &call.arguments())
    }
    out.extend_from_slice(b"}}");
}
