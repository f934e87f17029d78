//! The Responses API of OpenAI.

use super::groups::{IdRule, Seen};
use super::media::Place;
use super::message::{Call, Message, Part, Step, note};
use super::text::{is_blank, push_inner, push_json, push_quoted, quote};
use super::{Body, GO_ON, Provider, RenderOptions, is_system, push_constants, tools};
use crate::model::Role;
use crate::model::json::field;

/// `{"model":…,"tools":[…],"instructions":"…","input":[…]}`
#[derive(Debug, Default)]
pub(super) struct Responses {
    stage: Stage,
    /// Ids of items that were sent: none may come twice.
    sent: Seen,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing but constants was written.
    #[default]
    Head,
    /// In the text of the instructions.
    Instructions,
    /// In the input, with nothing in it.
    Empty,
    /// Behind an item.
    Items,
}

impl Body for Responses {
    fn ids(&self) -> IdRule {
        IdRule { max: 64, plain: true, once: true }
    }

    fn head(&mut self, options: &RenderOptions, out: &mut Vec<u8>) {
        push_constants(options, out);
        tools::push(out, options.tools(), Provider::OpenAiResponses);
    }

    fn push(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        if is_system(message.role) && matches!(self.stage, Stage::Head | Stage::Instructions) {
            let first = self.stage == Stage::Head;
            out.extend_from_slice(if first { b"\"instructions\":\"" } else { b"\\n\\n" });
            self.stage = Stage::Instructions;
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
        if self.stage == Stage::Empty {
            self.push(&Message::text(Role::User, GO_ON), out);
        }
        out.extend_from_slice(b"]}");
    }
}

impl Responses {
    fn begin_input(&mut self, out: &mut Vec<u8>) {
        match self.stage {
            Stage::Head => out.extend_from_slice(b"\"input\":["),
            Stage::Instructions => out.extend_from_slice(b"\",\"input\":["),
            Stage::Empty | Stage::Items => return,
        }
        self.stage = Stage::Empty;
    }

    fn begin_item(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.stage, Stage::Items) == Stage::Items {
            out.push(b',');
        }
    }

    fn push_assistant(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        let mut refusal = message.refusal.filter(|text| !message.has_text() && !is_blank(text));
        let steps = message.steps();
        // An item of reasoning must be followed by what it led to.
        let end = match refusal {
            Some(_) => steps.len(),
            None => steps.iter().rposition(|step| message.is_seen(*step)).map_or(0, |last| last + 1),
        };
        // Text that stands together is one message.
        let mut said: Vec<&Part<'_>> = Vec::new();
        for step in &steps[..end] {
            match *step {
                Step::Part(at) => match &message.parts[at] {
                    Part::Opaque(item) => {
                        self.push_said(std::mem::take(&mut said), out);
                        if self.sent.is_new(field(item, "id").unwrap_or(item)) {
                            self.begin_item(out);
                            out.extend_from_slice(item.as_bytes());
                        }
                    }
                    part
                    @ (Part::Text(_) | Part::Media { .. } | Part::Stored { .. } | Part::Audio { .. }) => {
                        said.push(part)
                    }
                },
                Step::Call(at) => {
                    self.push_said(std::mem::take(&mut said), out);
                    self.push_refusal(refusal.take(), out);
                    self.push_call(&message.calls[at], out);
                }
            }
        }
        self.push_said(said, out);
        self.push_refusal(refusal, out);
    }

    fn push_said(&mut self, parts: Vec<&Part<'_>>, out: &mut Vec<u8>) {
        if parts.iter().all(|part| matches!(part, Part::Text(text) if is_blank(text))) {
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

    fn push_call(&mut self, call: &Call<'_>, out: &mut Vec<u8>) {
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

/// Writes all text, and notes for the rest, as the inside of one text.
fn push_texts<'a>(parts: impl IntoIterator<Item = &'a Part<'a>>, out: &mut Vec<u8>) {
    let mut first = true;
    for part in parts {
        let noted = note(part).map(|note| quote(&note));
        let text = match (part, &noted) {
            (Part::Text(text), _) => text.as_ref(),
            (_, Some(note)) => note,
            _ => continue,
        };
        if !std::mem::replace(&mut first, false) {
            out.extend_from_slice(b"\\n");
        }
        push_inner(out, text);
    }
}

/// Writes content: one text, or a list if there is more than text. Only users and tools may send more.
fn push_content(message: &Message<'_>, out: &mut Vec<u8>) {
    let rich = matches!(message.role, Role::User | Role::Tool);
    let is_native = |part: &&Part<'_>| {
        matches!(
            part,
            Part::Stored { .. }
                | Part::Media { place: Place::Image { .. } | Place::Pdf(_), .. }
                | Part::Media { place: Place::Web(_), kind: "image", .. }
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
        if matches!(part, Part::Opaque(..)) {
            continue;
        }
        out.push(if std::mem::replace(&mut first, false) { b'[' } else { b',' });
        push_part(part, out);
    }
    out.push(b']');
}

fn push_part(part: &Part<'_>, out: &mut Vec<u8>) {
    let push_text = |text: &str, out: &mut Vec<u8>| {
        out.extend_from_slice(b"{\"type\":\"input_text\",\"text\":");
        push_json(out, text);
        out.push(b'}');
    };
    match part {
        Part::Text(text) => push_text(text, out),
        Part::Media { place: Place::Image { media_type, base64 }, detail, .. } => {
            out.extend_from_slice(b"{\"type\":\"input_image\",\"detail\":");
            push_json(out, detail.unwrap_or("\"auto\""));
            out.extend_from_slice(b",\"image_url\":\"data:");
            out.extend_from_slice(media_type.as_bytes());
            out.extend_from_slice(b";base64,");
            out.extend_from_slice(base64.as_bytes());
            out.extend_from_slice(b"\"}");
        }
        Part::Media { place: Place::Web(url), kind: "image", detail, .. } => {
            out.extend_from_slice(b"{\"type\":\"input_image\",\"detail\":");
            push_json(out, detail.unwrap_or("\"auto\""));
            out.extend_from_slice(b",\"image_url\":");
            push_quoted(out, url);
            out.push(b'}');
        }
        Part::Media { place: Place::Pdf(base64), filename, .. } => {
            out.extend_from_slice(b"{\"type\":\"input_file\",\"filename\":");
            push_json(out, filename.unwrap_or("\"document.pdf\""));
            out.extend_from_slice(b",\"file_data\":\"data:application/pdf;base64,");
            out.extend_from_slice(base64.as_bytes());
            out.extend_from_slice(b"\"}");
        }
        Part::Stored { id, .. } => {
            out.extend_from_slice(b"{\"type\":\"input_file\",\"file_id\":");
            push_json(out, id);
            out.push(b'}');
        }
        Part::Media { .. } | Part::Audio { .. } | Part::Opaque(..) => {
            push_text(&quote(&note(part).unwrap_or_default()), out);
        }
    }
}
