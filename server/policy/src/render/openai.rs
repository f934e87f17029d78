//! Chat completions of OpenAI.

use super::Provider;
use super::chat::{Dialect, push_detail, push_image, push_text};
use super::media::{MediaSource, is_base64};
use super::message::{MessageCall, MessagePart, ViewMessage, note};
use super::text::{decode, push_inner, push_json, push_quoted, quote};
use crate::model::Role;

/// The dialect of OpenAI.
#[derive(Debug)]
pub(super) struct OpenAi;

impl Dialect for OpenAi {
    const PROVIDER: Provider = Provider::OpenAi;
    const MOST_CALLS: Option<usize> = Some(128);

    fn role(role: Role) -> Role {
        role
    }

    fn push_content(message: &ViewMessage<'_>, out: &mut Vec<u8>) {
        push_content(message, out);
        if let Some(refusal) = message.refusal.filter(|_| message.role == Role::Assistant) {
            out.extend_from_slice(b",\"refusal\":");
            push_json(out, refusal);
        }
    }

    fn push_call(call: &MessageCall<'_>, out: &mut Vec<u8>) {
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
}

fn push_content(message: &ViewMessage<'_>, out: &mut Vec<u8>) {
    let parts: Vec<&MessagePart<'_>> =
        message.parts.iter().filter(|part| !matches!(part, MessagePart::Opaque(..))).collect();
    match parts.as_slice() {
        [] if !message.calls.is_empty() => out.extend_from_slice(b"null"),
        [] => out.extend_from_slice(b"\"\""),
        [MessagePart::Text(text)] => push_json(out, text),
        parts => {
            for (index, part) in parts.iter().enumerate() {
                out.push(if index == 0 { b'[' } else { b',' });
                push_part(part, message.role, out);
            }
            out.push(b']');
        }
    }
}

fn push_part(part: &MessagePart<'_>, role: Role, out: &mut Vec<u8>) {
    match part {
        MessagePart::Text(text) => push_text(text, out),
        MessagePart::Media { source: MediaSource::Image { media_type, base64 }, detail, .. }
            if role == Role::User =>
        {
            push_image(media_type, base64, *detail, out);
        }
        MessagePart::Media { source: MediaSource::Web(url), kind: "image", detail, .. }
            if role == Role::User =>
        {
            out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":");
            push_quoted(out, url);
            push_detail(*detail, out);
            out.extend_from_slice(b"}}");
        }
        MessagePart::Media { source: MediaSource::Pdf(base64), filename, .. } if role == Role::User => {
            out.extend_from_slice(b"{\"type\":\"file\",\"file\":{\"filename\":");
            push_json(out, filename.unwrap_or("\"document.pdf\""));
            out.extend_from_slice(b",\"file_data\":\"data:application/pdf;base64,");
            out.extend_from_slice(base64.as_bytes());
            out.extend_from_slice(b"\"}}");
        }
        MessagePart::Stored { id, .. } if role == Role::User => {
            out.extend_from_slice(b"{\"type\":\"file\",\"file\":{\"file_id\":");
            push_json(out, id);
            out.extend_from_slice(b"}}");
        }
        MessagePart::Audio { data, format } if role == Role::User && is_base64(&decode(data)) => {
            out.extend_from_slice(b"{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"");
            push_inner(out, data);
            out.extend_from_slice(b"\",\"format\":");
            push_quoted(out, format);
            out.extend_from_slice(b"}}");
        }
        MessagePart::Media { .. }
        | MessagePart::Stored { .. }
        | MessagePart::Audio { .. }
        | MessagePart::Opaque(..) => {
            push_text(&quote(&note(part).unwrap_or_default()), out);
        }
    }
}
