//! The Messages API of Anthropic.
//!
//! Consecutive messages of the same role become one, which stays open until the role changes. Without tools in the
//! request, tool blocks are not allowed either: calls and results are then written as text.

use super::groups::IdRule;
use super::media::MediaSource;
use super::message::{MessageCall, MessagePart, TurnStep, ViewMessage, note};
use super::text::{inner, is_blank, push_inner, push_json, push_quoted, quote};
use super::{BodyWriter, CONTINUE, Provider, RenderOptions, is_system, push_constants, tools};
use crate::model::json::field;
use crate::model::{JsonKind, Role};

/// Default of the required parameter `max_tokens`: the most that all of its models accept.
const MAX_TOKENS: u64 = 4096;
/// Most bytes of an image in base64.
const MAX_IMAGE_BYTES: usize = 5 << 20;

/// Writes `{"model":…,"tools":[…],"system":[…],"messages":[…]}`.
#[derive(Debug, Default)]
pub(super) struct AnthropicWriter {
    stage: AnthropicStage,
    /// True if calls and results are written as text.
    flat: bool,
    /// True if thinking is enabled. Then a run of calls and results at the end must have begun with a thought.
    thinking: bool,
    /// True if the newest run of calls and results began with a thought.
    thought: bool,
    /// True if the newest user message consists of results only.
    results: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum AnthropicStage {
    /// Only the constants are written.
    #[default]
    Head,
    /// After a block of the system prompt.
    System,
    /// After a block of a user message.
    User,
    /// After a block of an assistant message.
    Assistant,
}

impl BodyWriter for AnthropicWriter {
    fn ids(&self) -> IdRule {
        IdRule { max: 64, plain: true, once: true }
    }

    fn head(&mut self, options: &RenderOptions, out: &mut Vec<u8>) {
        push_constants(options, out);
        let thinking = field(options.params().as_str(), "thinking");
        let thinking = thinking.filter(|thinking| JsonKind::of(thinking) == JsonKind::Object);
        if !options.has_param("max_tokens") {
            // `max_tokens` must exceed the thinking budget, or the provider rejects the request.
            let budget = thinking.and_then(|thinking| field(thinking, "budget_tokens")?.parse::<u64>().ok());
            let most = MAX_TOKENS.saturating_add(budget.unwrap_or(0));
            out.extend_from_slice(format!("\"max_tokens\":{most},").as_bytes());
        }
        self.thinking = thinking.and_then(|thinking| field(thinking, "type")) == Some("\"enabled\"");
        let before = out.len();
        tools::push(out, options.tools(), Provider::Anthropic);
        self.flat = out.len() == before;
    }

    fn push(&mut self, message: &ViewMessage<'_>, out: &mut Vec<u8>) {
        match message.role {
            Role::System | Role::Developer
                if matches!(self.stage, AnthropicStage::Head | AnthropicStage::System) =>
            {
                self.push_system(message, out);
            }
            Role::Assistant => self.push_assistant(message, out),
            Role::Tool if !self.flat => self.push_result(message, out),
            Role::System | Role::Developer | Role::User | Role::Tool => {
                let tag = match &message.answers {
                    Some(call) => format!("[Tool: {}]", call.name),
                    None if is_system(message.role) => "[System]".to_owned(),
                    None => String::new(),
                };
                self.push_user(message, &tag, out);
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        // The last message must be the user's: newer models do not continue an assistant message.
        if self.stage != AnthropicStage::User || (self.thinking && self.results && !self.thought) {
            self.turn(AnthropicStage::User, out);
            push_text(CONTINUE, out);
        }
        out.extend_from_slice(b"]}]}");
    }
}

impl AnthropicWriter {
    fn push_system(&mut self, message: &ViewMessage<'_>, out: &mut Vec<u8>) {
        for part in &message.parts {
            let noted = note(part).map(|note| quote(&note));
            let text = match (part, &noted) {
                (MessagePart::Text(text), _) => text.as_ref(),
                (_, Some(note)) => note,
                _ => continue,
            };
            if is_blank(text) {
                continue;
            }
            out.extend_from_slice(if self.stage == AnthropicStage::Head { b"\"system\":[" } else { b"," });
            self.stage = AnthropicStage::System;
            push_text(text, out);
        }
    }

    /// Continues or opens a message of a role: writes a comma after the last block, or the head of a message.
    fn turn(&mut self, role: AnthropicStage, out: &mut Vec<u8>) {
        let first = match self.stage {
            stage if stage == role => return out.push(b','),
            AnthropicStage::Head => true,
            AnthropicStage::System => {
                out.extend_from_slice(b"],");
                true
            }
            AnthropicStage::User | AnthropicStage::Assistant => {
                out.extend_from_slice(b"]},");
                false
            }
        };
        if first {
            out.extend_from_slice(b"\"messages\":[");
        }
        if role == AnthropicStage::Assistant {
            if first {
                // The first message must be the user's.
                out.extend_from_slice(b"{\"role\":\"user\",\"content\":[");
                push_text(CONTINUE, out);
                out.extend_from_slice(b"]},");
            }
            out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":[");
        } else {
            out.extend_from_slice(b"{\"role\":\"user\",\"content\":[");
            self.results = true;
        }
        self.stage = role;
    }

    /// Continues or opens a user message for a block that is not a result.
    fn user(&mut self, out: &mut Vec<u8>) {
        self.turn(AnthropicStage::User, out);
        self.results = false;
    }

    /// Continues or opens an assistant message.
    fn assistant(&mut self, is_thought: bool, out: &mut Vec<u8>) {
        let begins =
            self.stage != AnthropicStage::Assistant && !(self.stage == AnthropicStage::User && self.results);
        if begins {
            self.thought = is_thought;
        }
        self.turn(AnthropicStage::Assistant, out);
    }

    fn push_user(&mut self, message: &ViewMessage<'_>, tag: &str, out: &mut Vec<u8>) {
        let mut tag = Some(tag).filter(|tag| !tag.is_empty());
        for part in &message.parts {
            match part {
                MessagePart::Text(text) if is_blank(text) => continue,
                MessagePart::Text(text) => {
                    self.user(out);
                    match tag.take() {
                        Some(tag) => push_tagged(tag, text, out),
                        None => push_text(text, out),
                    }
                }
                MessagePart::Opaque(..) => {}
                MessagePart::Media { .. } | MessagePart::Stored { .. } | MessagePart::Audio { .. } => {
                    if let Some(tag) = tag.take() {
                        self.user(out);
                        push_text(&quote(tag), out);
                    }
                    self.user(out);
                    push_media(part, out);
                }
            }
        }
        // A result without content still needs its tag.
        if let Some(tag) = tag.filter(|_| message.answers.is_some()) {
            self.user(out);
            push_text(&quote(tag), out);
        }
    }

    fn push_assistant(&mut self, message: &ViewMessage<'_>, out: &mut Vec<u8>) {
        let steps = message.steps();
        // A thought must not be the last block.
        let end = steps.iter().rposition(|step| message.is_visible(*step)).map_or(0, |last| last + 1);
        for step in &steps[..end] {
            match step {
                TurnStep::Part(at) => self.push_part(&message.parts[*at], out),
                TurnStep::Call(at) => self.push_call(&message.calls[*at], out),
            }
        }
        if let Some(refusal) = message.refusal.filter(|text| end == 0 && !is_blank(text)) {
            self.assistant(false, out);
            push_text(refusal, out);
        }
    }

    fn push_part(&mut self, part: &MessagePart<'_>, out: &mut Vec<u8>) {
        match part {
            MessagePart::Opaque(block) => {
                self.assistant(true, out);
                out.extend_from_slice(block.as_bytes());
            }
            MessagePart::Text(text) if is_blank(text) => {}
            MessagePart::Text(text) => {
                self.assistant(false, out);
                push_text(text, out);
            }
            MessagePart::Media { .. } | MessagePart::Stored { .. } | MessagePart::Audio { .. } => {
                self.assistant(false, out);
                push_text(&quote(&note(part).unwrap_or_default()), out);
            }
        }
    }

    fn push_call(&mut self, call: &MessageCall<'_>, out: &mut Vec<u8>) {
        self.assistant(false, out);
        if self.flat {
            push_tagged(&format!("[Tool call: {}]", call.name), call.input, out);
            return;
        }
        out.extend_from_slice(b"{\"type\":\"tool_use\",\"id\":");
        push_quoted(out, &call.id);
        out.extend_from_slice(b",\"name\":");
        push_quoted(out, &call.name);
        out.extend_from_slice(b",\"input\":");
        push_json(out, &call.object());
        out.push(b'}');
    }

    fn push_result(&mut self, message: &ViewMessage<'_>, out: &mut Vec<u8>) {
        let Some(call) = &message.answers else { return };
        self.turn(AnthropicStage::User, out);
        out.extend_from_slice(b"{\"type\":\"tool_result\",\"tool_use_id\":");
        push_quoted(out, &call.id);
        let mut begun = false;
        for part in &message.parts {
            if matches!(part, MessagePart::Opaque(..))
                || matches!(part, MessagePart::Text(text) if is_blank(text))
            {
                continue;
            }
            out.extend_from_slice(if begun { b"," } else { b",\"content\":[" });
            begun = true;
            match part {
                MessagePart::Text(text) => push_text(text, out),
                MessagePart::Media { .. }
                | MessagePart::Stored { .. }
                | MessagePart::Audio { .. }
                | MessagePart::Opaque(..) => {
                    push_media(part, out);
                }
            }
        }
        out.extend_from_slice(if begun { b"]}" } else { b"}" });
    }
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    push_json(out, text);
    out.push(b'}');
}

fn push_tagged(tag: &str, text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":\"");
    push_json(out, inner(&quote(tag)));
    out.push(b' ');
    push_inner(out, text);
    out.extend_from_slice(b"\"}");
}

fn push_media(part: &MessagePart<'_>, out: &mut Vec<u8>) {
    match part {
        MessagePart::Media { source: MediaSource::Image { media_type, base64 }, .. }
            if base64.len() <= MAX_IMAGE_BYTES =>
        {
            push_base64("image", media_type, base64, out);
        }
        MessagePart::Media { source: MediaSource::Pdf(base64), .. } => {
            push_base64("document", "application/pdf", base64, out);
        }
        MessagePart::Media { source: MediaSource::Web(url), kind: "image", .. }
            if url.starts_with("https://") =>
        {
            out.extend_from_slice(b"{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":");
            push_quoted(out, url);
            out.extend_from_slice(b"}}");
        }
        MessagePart::Text(_)
        | MessagePart::Media { .. }
        | MessagePart::Stored { .. }
        | MessagePart::Audio { .. }
        | MessagePart::Opaque(..) => {
            push_text(&quote(&note(part).unwrap_or_default()), out);
        }
    }
}

fn push_base64(kind: &str, media_type: &str, base64: &str, out: &mut Vec<u8>) {
    let head = format!(
        "{{\"type\":\"{kind}\",\"source\":{{\"type\":\"base64\",\"media_type\":\"{media_type}\",\"data\":\""
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(base64.as_bytes());
    out.extend_from_slice(b"\"}}");
}
