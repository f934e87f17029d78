//! The Messages API of Anthropic.
//!
//! Messages of the same role become one, which stays open until somebody else speaks. Without tools in the request it
//! may have no tool blocks either: calls and results are then written as text.

use super::groups::IdRule;
use super::media::Place;
use super::message::{Call, Message, Part, Step, note};
use super::text::{inner, is_blank, push_inner, push_json, push_quoted, quote};
use super::{Body, GO_ON, Provider, RenderOptions, is_system, push_constants, tools};
use crate::model::json::field;
use crate::model::{JsonKind, Role};

/// What it wants to be told, if the parameters do not say it: the most that all of its models take.
const MAX_TOKENS: u64 = 4096;
/// Most bytes of an image in base64.
const MAX_IMAGE_BYTES: usize = 5 << 20;

/// `{"model":…,"tools":[…],"system":[…],"messages":[…]}`
#[derive(Debug, Default)]
pub(super) struct Messages {
    stage: Stage,
    /// Whether calls and results are written as text.
    flat: bool,
    /// Whether the model is told to think. Then a run of calls and results at the end must have begun with a thought.
    thinking: bool,
    /// Whether the newest run of calls and results began with a thought.
    thought: bool,
    /// Whether the newest message of the user has nothing but results.
    results: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing but constants was written.
    #[default]
    Head,
    /// Behind a block of the system prompt.
    System,
    /// Behind a block of the user's.
    User,
    /// Behind a block of the model's.
    Assistant,
}

impl Body for Messages {
    fn ids(&self) -> IdRule {
        IdRule { max: 64, plain: true, once: true }
    }

    fn head(&mut self, options: &RenderOptions, out: &mut Vec<u8>) {
        push_constants(options, out);
        let thinking = field(options.params().as_str(), "thinking");
        let thinking = thinking.filter(|thinking| JsonKind::of(thinking) == JsonKind::Object);
        if !options.has_param("max_tokens") {
            // What the model may think comes on top, or the request would be refused.
            let budget = thinking.and_then(|thinking| field(thinking, "budget_tokens")?.parse::<u64>().ok());
            let most = MAX_TOKENS.saturating_add(budget.unwrap_or(0));
            out.extend_from_slice(format!("\"max_tokens\":{most},").as_bytes());
        }
        self.thinking = thinking.and_then(|thinking| field(thinking, "type")) == Some("\"enabled\"");
        let before = out.len();
        tools::push(out, options.tools(), Provider::Anthropic);
        self.flat = out.len() == before;
    }

    fn push(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        match message.role {
            Role::System | Role::Developer if matches!(self.stage, Stage::Head | Stage::System) => {
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
        // The user must have the last word: newer models do not go on with what they are said to have begun.
        if self.stage != Stage::User || (self.thinking && self.results && !self.thought) {
            self.turn(Stage::User, out);
            push_text(GO_ON, out);
        }
        out.extend_from_slice(b"]}]}");
    }
}

impl Messages {
    fn push_system(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        for part in &message.parts {
            let noted = note(part).map(|note| quote(&note));
            let text = match (part, &noted) {
                (Part::Text(text), _) => text.as_ref(),
                (_, Some(note)) => note,
                _ => continue,
            };
            if is_blank(text) {
                continue;
            }
            out.extend_from_slice(if self.stage == Stage::Head { b"\"system\":[" } else { b"," });
            self.stage = Stage::System;
            push_text(text, out);
        }
    }

    /// Goes on with a role: opens its message, or puts a comma behind the last block.
    fn turn(&mut self, role: Stage, out: &mut Vec<u8>) {
        let first = match self.stage {
            stage if stage == role => return out.push(b','),
            Stage::Head => true,
            Stage::System => {
                out.extend_from_slice(b"],");
                true
            }
            Stage::User | Stage::Assistant => {
                out.extend_from_slice(b"]},");
                false
            }
        };
        if first {
            out.extend_from_slice(b"\"messages\":[");
        }
        if role == Stage::Assistant {
            if first {
                // The user must have the first word.
                out.extend_from_slice(b"{\"role\":\"user\",\"content\":[");
                push_text(GO_ON, out);
                out.extend_from_slice(b"]},");
            }
            out.extend_from_slice(b"{\"role\":\"assistant\",\"content\":[");
        } else {
            out.extend_from_slice(b"{\"role\":\"user\",\"content\":[");
            self.results = true;
        }
        self.stage = role;
    }

    /// Goes on with something of the user's that is no result.
    fn user(&mut self, out: &mut Vec<u8>) {
        self.turn(Stage::User, out);
        self.results = false;
    }

    /// Goes on with something of the model's.
    fn assistant(&mut self, is_thought: bool, out: &mut Vec<u8>) {
        let begins = self.stage != Stage::Assistant && !(self.stage == Stage::User && self.results);
        if begins {
            self.thought = is_thought;
        }
        self.turn(Stage::Assistant, out);
    }

    fn push_user(&mut self, message: &Message<'_>, tag: &str, out: &mut Vec<u8>) {
        let mut tag = Some(tag).filter(|tag| !tag.is_empty());
        for part in &message.parts {
            match part {
                Part::Text(text) if is_blank(text) => continue,
                Part::Text(text) => {
                    self.user(out);
                    match tag.take() {
                        Some(tag) => push_tagged(tag, text, out),
                        None => push_text(text, out),
                    }
                }
                Part::Opaque(..) => {}
                Part::Media { .. } | Part::Stored { .. } | Part::Audio { .. } => {
                    if let Some(tag) = tag.take() {
                        self.user(out);
                        push_text(&quote(tag), out);
                    }
                    self.user(out);
                    push_media(part, out);
                }
            }
        }
        // A result without anything in it is still one.
        if let Some(tag) = tag.filter(|_| message.answers.is_some()) {
            self.user(out);
            push_text(&quote(tag), out);
        }
    }

    fn push_assistant(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        let steps = message.steps();
        // Thinking must not come last.
        let end = steps.iter().rposition(|step| message.is_seen(*step)).map_or(0, |last| last + 1);
        for step in &steps[..end] {
            match step {
                Step::Part(at) => self.push_said(&message.parts[*at], out),
                Step::Call(at) => self.push_call(&message.calls[*at], out),
            }
        }
        if let Some(refusal) = message.refusal.filter(|text| end == 0 && !is_blank(text)) {
            self.assistant(false, out);
            push_text(refusal, out);
        }
    }

    fn push_said(&mut self, part: &Part<'_>, out: &mut Vec<u8>) {
        match part {
            Part::Opaque(block) => {
                self.assistant(true, out);
                out.extend_from_slice(block.as_bytes());
            }
            Part::Text(text) if is_blank(text) => {}
            Part::Text(text) => {
                self.assistant(false, out);
                push_text(text, out);
            }
            Part::Media { .. } | Part::Stored { .. } | Part::Audio { .. } => {
                self.assistant(false, out);
                push_text(&quote(&note(part).unwrap_or_default()), out);
            }
        }
    }

    fn push_call(&mut self, call: &Call<'_>, out: &mut Vec<u8>) {
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

    fn push_result(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        let Some(call) = &message.answers else { return };
        self.turn(Stage::User, out);
        out.extend_from_slice(b"{\"type\":\"tool_result\",\"tool_use_id\":");
        push_quoted(out, &call.id);
        let mut begun = false;
        for part in &message.parts {
            if matches!(part, Part::Opaque(..)) || matches!(part, Part::Text(text) if is_blank(text)) {
                continue;
            }
            out.extend_from_slice(if begun { b"," } else { b",\"content\":[" });
            begun = true;
            match part {
                Part::Text(text) => push_text(text, out),
                Part::Media { .. } | Part::Stored { .. } | Part::Audio { .. } | Part::Opaque(..) => {
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

fn push_media(part: &Part<'_>, out: &mut Vec<u8>) {
    match part {
        Part::Media { place: Place::Image { media_type, base64 }, .. } if base64.len() <= MAX_IMAGE_BYTES => {
            push_base64("image", media_type, base64, out);
        }
        Part::Media { place: Place::Pdf(base64), .. } => {
            push_base64("document", "application/pdf", base64, out);
        }
        Part::Media { place: Place::Web(url), kind: "image", .. } if url.starts_with("https://") => {
            out.extend_from_slice(b"{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":");
            push_quoted(out, url);
            out.extend_from_slice(b"}}");
        }
        Part::Text(_) | Part::Media { .. } | Part::Stored { .. } | Part::Audio { .. } | Part::Opaque(..) => {
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
