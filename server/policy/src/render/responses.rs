//! The Responses API of OpenAI.

use super::groups::{IdRule, IdSet};
use super::media::MediaSource;
use super::message::{MessageCall, MessagePart, TurnStep, ViewMessage, note};
use super::text::{is_blank, push_inner, push_json, push_quoted, quote};
use super::{BodyWriter, CONTINUE, Provider, RenderOptions, is_system, push_constants, tools};
use crate::model::Role;
use crate::model::json::field;

/// Writes `{"model":…,"tools":[…],"instructions":"…","input":[…]}`.
#[derive(Debug, Default)]
pub(super) struct ResponsesWriter {
    stage: ResponsesStage,
    /// Ids of items already sent, which must be unique.
    sent: IdSet,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ResponsesStage {
    /// Only the constants are written.
    #[default]
    Head,
    /// Inside the text of the instructions.
    Instructions,
    /// Inside the input, which is empty so far.
    Empty,
    /// After an item.
    Items,
}

impl BodyWriter for ResponsesWriter {
    fn ids(&self) -> IdRule {
        IdRule { max: 64, plain: true, once: true }
    }

    fn head(&mut self, options: &RenderOptions, out: &mut Vec<u8>) {
        push_constants(options, out);
        tools::push(out, options.tools(), Provider::OpenAiResponses);
    }

    fn push(&mut self, message: &ViewMessage<'_>, out: &mut Vec<u8>) {
        if is_system(message.role)
            && matches!(self.stage, ResponsesStage::Head | ResponsesStage::Instructions)
        {
            let first = self.stage == ResponsesStage::Head;
            out.extend_from_slice(if first { b"\"instructions\":\"" } else { b"\\n\\n" });
            self.stage = ResponsesStage::Instructions;
            push_texts(&message.parts, out);
            return;
        }
        self.begin_input(out);
        match message.role {
            Role::Assistant => self.push_assistant(message, out),
            Role::Tool => {
                let Some(call) = &message.answers else { return };
                self.begin_item(out);
                let kind = if call.custom { "custom_tool_call_output" } else { "function_call_output" };
                out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"call_id\":").as_bytes());
                push_quoted(out, &call.id);
                out.extend_from_slice(b",\"output\":");
                push_content(message, out);
                out.push(b'}');
            }
            Role::System | Role::Developer | Role::User => {
                self.begin_item(out);
                out.extend_from_slice(b"{\"role\":\"");
                out.extend_from_slice(message.role.as_str().as_bytes());
                out.extend_from_slice(b"\",\"content\":");
                push_content(message, out);
                out.push(b'}');
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.begin_input(out);
        if self.stage == ResponsesStage::Empty {
            self.push(&ViewMessage::text(Role::User, CONTINUE), out);
        }
        out.extend_from_slice(b"]}");
    }
}

impl ResponsesWriter {
    fn begin_input(&mut self, out: &mut Vec<u8>) {
        match self.stage {
            ResponsesStage::Head => out.extend_from_slice(b"\"input\":["),
            ResponsesStage::Instructions => out.extend_from_slice(b"\",\"input\":["),
            ResponsesStage::Empty | ResponsesStage::Items => return,
        }
        self.stage = ResponsesStage::Empty;
    }

    fn begin_item(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.stage, ResponsesStage::Items) == ResponsesStage::Items {
            out.push(b',');
        }
    }

    fn push_assistant(&mut self, message: &ViewMessage<'_>, out: &mut Vec<u8>) {
        let mut refusal = message.refusal.filter(|text| !message.has_text() && !is_blank(text));
        let steps = message.steps();
        // A reasoning item must be followed by its output.
        let end = match refusal {
            Some(_) => steps.len(),
            None => steps.iter().rposition(|step| message.is_visible(*step)).map_or(0, |last| last + 1),
        };
        // Adjacent text parts are one message.
        let mut texts: Vec<&MessagePart<'_>> = Vec::new();
        for step in &steps[..end] {
            match *step {
                TurnStep::Part(at) => match &message.parts[at] {
                    MessagePart::Opaque(item) => {
                        self.push_text_message(std::mem::take(&mut texts), out);
                        if self.sent.is_new(field(item, "id").unwrap_or(item)) {
                            self.begin_item(out);
                            out.extend_from_slice(item.as_bytes());
                        }
                    }
                    part @ (MessagePart::Text(_)
                    | MessagePart::Media { .. }
                    | MessagePart::Stored { .. }
                    | MessagePart::Audio { .. }) => texts.push(part),
                },
                TurnStep::Call(at) => {
                    self.push_text_message(std::mem::take(&mut texts), out);
                    self.push_refusal(refusal.take(), out);
                    self.push_call(&message.calls[at], out);
                }
            }
        }
        self.push_text_message(texts, out);
        self.push_refusal(refusal, out);
    }

    fn push_text_message(&mut self, parts: Vec<&MessagePart<'_>>, out: &mut Vec<u8>) {
        if parts.iter().all(|part| matches!(part, MessagePart::Text(text) if is_blank(text))) {
            return;
        }
        self.begin_item(out);
        out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":\"");
        push_texts(parts, out);
        out.extend_from_slice(b"\"}");
    }

    fn push_refusal(&mut self, refusal: Option<&str>, out: &mut Vec<u8>) {
        let Some(refusal) = refusal else { return };
        self.begin_item(out);
        out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":");
        push_json(out, refusal);
        out.push(b'}');
    }

    fn push_call(&mut self, call: &MessageCall<'_>, out: &mut Vec<u8>) {
        self.begin_item(out);
        let (kind, field) =
            if call.custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
        out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"call_id\":").as_bytes());
        push_quoted(out, &call.id);
        out.extend_from_slice(b",\"name\":");
        push_quoted(out, &call.name);
        out.extend_from_slice(format!(",\"{field}\":").as_bytes());
        if call.custom {
            push_json(out, call.input)
        } else {
            push_json(out, &call.arguments())
        }
        out.push(b'}');
    }
}

/// Writes all text, and notes for other parts, as the inside of one JSON string.
fn push_texts<'a>(parts: impl IntoIterator<Item = &'a MessagePart<'a>>, out: &mut Vec<u8>) {
    let mut first = true;
    for part in parts {
        let noted = note(part).map(|note| quote(&note));
        let text = match (part, &noted) {
            (MessagePart::Text(text), _) => text.as_ref(),
            (_, Some(note)) => note,
            _ => continue,
        };
        if !std::mem::replace(&mut first, false) {
            out.extend_from_slice(b"\\n");
        }
        push_inner(out, text);
    }
}

/// Writes content: one text, or a list if there is more than text. Only users and tools may send more than text.
fn push_content(message: &ViewMessage<'_>, out: &mut Vec<u8>) {
    let rich = matches!(message.role, Role::User | Role::Tool);
    let is_native = |part: &&MessagePart<'_>| {
        matches!(
            part,
            MessagePart::Stored { .. }
                | MessagePart::Media { source: MediaSource::Image { .. } | MediaSource::Pdf(_), .. }
                | MessagePart::Media { source: MediaSource::Web(_), kind: "image", .. }
        )
    };
    if !rich || !message.parts.iter().any(|part| is_native(&part)) {
        out.push(b'"');
        push_texts(&message.parts, out);
        out.push(b'"');
        return;
    }
    let mut first = true;
    for part in &message.parts {
        if matches!(part, MessagePart::Opaque(..)) {
            continue;
        }
        out.push(if std::mem::replace(&mut first, false) { b'[' } else { b',' });
        push_part(part, out);
    }
    out.push(b']');
}

fn push_part(part: &MessagePart<'_>, out: &mut Vec<u8>) {
    let push_text = |text: &str, out: &mut Vec<u8>| {
        out.extend_from_slice(b"{\"type\":\"input_text\",\"text\":");
        push_json(out, text);
        out.push(b'}');
    };
    match part {
        MessagePart::Text(text) => push_text(text, out),
        MessagePart::Media { source: MediaSource::Image { media_type, base64 }, detail, .. } => {
            out.extend_from_slice(b"{\"type\":\"input_image\",\"detail\":");
            push_json(out, detail.unwrap_or("\"auto\""));
            out.extend_from_slice(b",\"image_url\":\"data:");
            out.extend_from_slice(media_type.as_bytes());
            out.extend_from_slice(b";base64,");
            out.extend_from_slice(base64.as_bytes());
            out.extend_from_slice(b"\"}");
        }
        MessagePart::Media { source: MediaSource::Web(url), kind: "image", detail, .. } => {
            out.extend_from_slice(b"{\"type\":\"input_image\",\"detail\":");
            push_json(out, detail.unwrap_or("\"auto\""));
            out.extend_from_slice(b",\"image_url\":");
            push_quoted(out, url);
            out.push(b'}');
        }
        MessagePart::Media { source: MediaSource::Pdf(base64), filename, .. } => {
            out.extend_from_slice(b"{\"type\":\"input_file\",\"filename\":");
            push_json(out, filename.unwrap_or("\"document.pdf\""));
            out.extend_from_slice(b",\"file_data\":\"data:application/pdf;base64,");
            out.extend_from_slice(base64.as_bytes());
            out.extend_from_slice(b"\"}");
        }
        MessagePart::Stored { id, .. } => {
            out.extend_from_slice(b"{\"type\":\"input_file\",\"file_id\":");
            push_json(out, id);
            out.push(b'}');
        }
        MessagePart::Media { .. } | MessagePart::Audio { .. } | MessagePart::Opaque(..) => {
            push_text(&quote(&note(part).unwrap_or_default()), out);
        }
    }
}
