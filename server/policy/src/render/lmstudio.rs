//! Chat completions of LM Studio, vLLM, llama.cpp and other compatible servers: only the features that all of them
//! accept.
//!
//! Text is one string, as their templates expect; a user's images are separate parts. There is no role `developer`,
//! no file, no audio, no URL that a server would have to fetch, and no custom tool.

use super::Provider;
use super::chat::{Dialect, push_image, push_text};
use super::media::MediaSource;
use super::message::{MessageCall, MessagePart, ViewMessage, note};
use super::text::{push_inner, push_json, push_quoted, quote};
use crate::model::Role;

/// The dialect of compatible servers.
#[derive(Debug)]
pub(super) struct LmStudio;

impl Dialect for LmStudio {
    const PROVIDER: Provider = Provider::LmStudio;
    const MOST_CALLS: Option<usize> = None;

    fn role(role: Role) -> Role {
        if role == Role::Developer { Role::System } else { role }
    }

    fn push_content(message: &ViewMessage<'_>, out: &mut Vec<u8>) {
        push_content(message, out);
    }

    /// A call of a custom tool becomes a call of a function with one text argument.
    fn push_call(call: &MessageCall<'_>, out: &mut Vec<u8>) {
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
}

/// Returns an image that is sent as bytes; not every server fetches URLs.
fn image<'a>(part: &'a MessagePart<'_>, role: Role) -> Option<(&'static str, &'a str, Option<&'a str>)> {
    match part {
        MessagePart::Media { source: MediaSource::Image { media_type, base64 }, detail, .. }
            if role == Role::User =>
        {
            Some((media_type, base64, *detail))
        }
        MessagePart::Text(_)
        | MessagePart::Media { .. }
        | MessagePart::Stored { .. }
        | MessagePart::Audio { .. }
        | MessagePart::Opaque(..) => None,
    }
}

fn push_content(message: &ViewMessage<'_>, out: &mut Vec<u8>) {
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
            (MessagePart::Text(text), _) => Some(text.as_ref()),
            (_, noted) => noted.as_deref(),
        };
        let image = image(part, message.role);
        if image.is_none() && text.is_none() {
            continue;
        }
        out.push(if std::mem::replace(&mut first, false) { b'[' } else { b',' });
        match (image, text) {
            (Some((media_type, base64, detail)), _) => push_image(media_type, base64, detail, out),
            (None, text) => push_text(text.unwrap_or("\"\""), out),
        }
    }
    out.push(b']');
}

/// Writes all text, and notes for other parts, as the inside of one JSON string.
fn push_texts(message: &ViewMessage<'_>, out: &mut Vec<u8>) {
    let mut first = true;
    let mut push = |text: &str| {
        if !std::mem::replace(&mut first, false) {
            out.extend_from_slice(b"\\n");
        }
        push_inner(out, text);
    };
    for part in &message.parts {
        if let MessagePart::Text(text) = part {
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
