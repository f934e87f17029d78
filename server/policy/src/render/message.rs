//! A message of the view with its extra line, split into the pieces of a provider's body.
//!
//! This module rejects nothing: a malformed part or call becomes a note or is omitted.

use std::borrow::Cow;

use super::Provider;
use super::media::{MediaSource, parse_base64, parse_url};
use super::text::{as_text, clean, decode, inner, is_blank, quote};
use crate::model::json::{Json, depth, field, fields, items};
use crate::model::{JsonKind, Role, plain_name};

/// Deepest arguments sent as JSON; deeper ones are sent as text, because parsers have depth limits and the body adds
/// some levels.
const MAX_DEPTH: usize = 100;

/// A message. Values are JSON text.
#[derive(Debug)]
pub(super) struct ViewMessage<'a> {
    pub(super) role: Role,
    /// The name of the author, with plain characters only.
    pub(super) name: Option<String>,
    pub(super) parts: Vec<MessagePart<'a>>,
    pub(super) refusal: Option<&'a str>,
    pub(super) calls: Vec<MessageCall<'a>>,
    /// The id of the call that a tool message refers to.
    pub(super) call_id: Option<&'a str>,
    /// The call that a result answers, once paired.
    pub(super) answers: Option<CallRef>,
    /// The tool, if the message names it.
    pub(super) tool_name: Option<&'a str>,
    /// The thinking text of an Ollama model.
    pub(super) thinking: Option<&'a str>,
    /// The order of parts and calls, if known: see [`ViewMessage::steps`].
    order: Vec<TurnStep>,
}

/// One step of a model's turn: the index of a part or of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnStep {
    Part(usize),
    Call(usize),
}

/// A part of the content.
#[derive(Debug)]
pub(super) enum MessagePart<'a> {
    /// JSON text.
    Text(Cow<'a, str>),
    /// An image or a file, with the detail and the name that came with it, as JSON text.
    Media { source: MediaSource<'a>, kind: &'static str, detail: Option<&'a str>, filename: Option<&'a str> },
    /// A file stored by OpenAI, with its id.
    Stored { id: &'a str, filename: Option<&'a str> },
    /// Audio in base64.
    Audio { data: &'a str, format: &'static str },
    /// A part that only the target provider can read, unchanged since it came from there: JSON, byte for byte.
    Opaque(&'a str),
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct MessageCall<'a> {
    /// The id in the view.
    pub(super) raw_id: Option<&'a str>,
    /// The id that is sent.
    pub(super) id: String,
    /// The name of the tool, with plain characters only.
    pub(super) name: String,
    /// The arguments or the input, as JSON text.
    pub(super) input: &'a str,
    pub(super) custom: bool,
}

/// The call that a result answers, as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallRef {
    /// The index of the call in its message.
    pub(super) at: usize,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) custom: bool,
}

impl<'a> ViewMessage<'a> {
    /// Creates a message of one text, which is JSON text.
    pub(super) fn text(role: Role, text: &'a str) -> Self {
        Self {
            role,
            name: None,
            parts: vec![MessagePart::Text(Cow::Borrowed(text))],
            refusal: None,
            calls: Vec::new(),
            call_id: None,
            answers: None,
            tool_name: None,
            thinking: None,
            order: Vec::new(),
        }
    }

    /// Parses a line of the view and its extra line for a provider.
    pub(super) fn read(line: &'a str, beside: Option<&'a str>, provider: Provider) -> Self {
        let mut message = Self::text(Role::User, "\"\"");
        message.parts.clear();
        let (mut content, mut calls) = (None, None);
        for (key, value) in fields(line) {
            match key {
                "\"role\"" => {
                    message.role =
                        as_text(value).and_then(|role| Role::parse(&decode(role))).unwrap_or(Role::User);
                }
                "\"content\"" => content = Some(value),
                "\"name\"" => message.name = as_text(value).and_then(|text| plain_name(&decode(text))),
                "\"refusal\"" => message.refusal = as_text(value),
                "\"tool_call_id\"" => message.call_id = as_text(value),
                "\"tool_calls\"" => calls = Some(value),
                _ => {}
            }
        }
        let beside = beside.map(fields).unwrap_or_default();
        let aside = |name: &str| beside.iter().find(|(key, _)| inner(key) == name).map(|(_, value)| *value);
        message.tool_name = aside("tool_name").and_then(as_text);
        let extra = aside("extra").filter(|extra| JsonKind::of(extra) == JsonKind::Object);
        let extra_of_model = extra.filter(|_| message.role == Role::Assistant);
        message.thinking = extra_of_model.and_then(|extra| field(extra, "thinking")).and_then(as_text);
        if message.role == Role::Assistant {
            let calls = calls.filter(|calls| JsonKind::of(calls) == JsonKind::Array);
            message.calls = calls.map(items).unwrap_or_default().into_iter().filter_map(read_call).collect();
        }
        // The extra line holds the whole content if the view had to omit parts of it for OpenAI.
        let content = aside("content").or(content).unwrap_or("null");
        let thoughts = extra_of_model.map(|extra| thoughts(extra, provider)).unwrap_or_default();
        let order =
            extra_of_model.and_then(|extra| array(extra, Provider::ORDER)).filter(|_| !thoughts.is_empty());
        if !order.is_some_and(|order| message.read_in_order(&items(order), &thoughts, content, provider)) {
            let thoughts = thoughts.into_iter().filter(|item| is_opaque(item, provider));
            message.parts.extend(thoughts.map(MessagePart::Opaque));
            message.read_content(content);
        }
        // Providers delete audio after a while, so the transcript takes its place.
        let audio = extra.and_then(|extra| field(extra, "audio"));
        let audio = audio.filter(|audio| JsonKind::of(audio) == JsonKind::Object);
        let transcript = audio.and_then(|audio| field(audio, "transcript")).and_then(as_text);
        if let Some(spoken) = transcript.filter(|_| message.role == Role::Assistant && !message.has_text()) {
            message.parts.push(MessagePart::Text(Cow::Borrowed(spoken)));
        }
        message
    }

    /// Reads thoughts and text in their original order. Returns false, without any effect, if the order does not fit
    /// this message: older messages have no order, and the content may have been replaced since.
    fn read_in_order(
        &mut self,
        order: &[&str],
        thoughts: &[&'a str],
        content: &'a str,
        provider: Provider,
    ) -> bool {
        let text = match JsonKind::of(content) {
            JsonKind::Text => decode(content),
            JsonKind::Null => Cow::Borrowed(""),
            JsonKind::Array | JsonKind::Object | JsonKind::Other => return false,
        };
        let (mut parts, mut steps) = (Vec::new(), Vec::new());
        let (mut rest, mut thoughts, mut calls) = (text.as_ref(), thoughts.iter(), 0);
        for step in order {
            let part = match *step {
                "\"call\"" => {
                    steps.push(TurnStep::Call(calls));
                    calls += 1;
                    continue;
                }
                "\"thought\"" => {
                    let Some(item) = thoughts.next() else { return false };
                    if !is_opaque(item, provider) {
                        continue;
                    }
                    MessagePart::Opaque(item)
                }
                characters => {
                    let Ok(characters) = characters.parse::<usize>() else { return false };
                    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]).nth(characters);
                    let Some((text, left)) = ends.and_then(|end| rest.split_at_checked(end)) else {
                        return false;
                    };
                    rest = left;
                    MessagePart::Text(Cow::Owned(quote(text)))
                }
            };
            steps.push(TurnStep::Part(parts.len()));
            parts.push(part);
        }
        if !rest.is_empty() || thoughts.next().is_some() || calls != self.calls.len() {
            return false;
        }
        (self.parts, self.order) = (parts, steps);
        true
    }

    /// Returns the steps of the model's turn. Without a known order: thoughts, text, calls.
    pub(super) fn steps(&self) -> Vec<TurnStep> {
        if !self.order.is_empty() {
            return self.order.clone();
        }
        let calls = (0..self.calls.len()).map(TurnStep::Call);
        (0..self.parts.len()).map(TurnStep::Part).chain(calls).collect()
    }

    /// Returns whether other providers can see a step. A thought that no visible step follows is not sent.
    pub(super) fn is_visible(&self, step: TurnStep) -> bool {
        match step {
            TurnStep::Call(_) => true,
            TurnStep::Part(at) => match &self.parts[at] {
                MessagePart::Text(text) => !is_blank(text),
                MessagePart::Opaque(_) => false,
                MessagePart::Media { .. } | MessagePart::Stored { .. } | MessagePart::Audio { .. } => true,
            },
        }
    }

    fn read_content(&mut self, content: &'a str) {
        match JsonKind::of(content) {
            JsonKind::Text => self.parts.push(MessagePart::Text(Cow::Borrowed(content))),
            JsonKind::Array => self.parts.extend(items(content).into_iter().filter_map(read_part)),
            JsonKind::Null | JsonKind::Object | JsonKind::Other => {}
        }
    }

    /// Returns whether the message has visible text.
    pub(super) fn has_text(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, MessagePart::Text(text) if !is_blank(text)))
    }

    /// Prepends a note.
    pub(super) fn prepend(&mut self, note: &str) {
        if let Some(MessagePart::Text(text)) = self.parts.first_mut() {
            let rest = text.get(1..).unwrap_or("\"").to_owned();
            let begun = quote(note);
            *text = Cow::Owned(format!("{} {rest}", &begun[..begun.len() - 1]));
        } else {
            self.parts.insert(0, MessagePart::Text(Cow::Owned(quote(note))));
        }
    }
}

fn array<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    field(object, name).filter(|list| JsonKind::of(list) == JsonKind::Array)
}

/// Returns the thoughts that a provider gets back.
fn thoughts(extra: &str, provider: Provider) -> Vec<&str> {
    provider.thoughts().and_then(|name| array(extra, name)).map(items).unwrap_or_default()
}

/// Returns whether a provider accepts an item back: complete, and without fields of other origin.
fn is_opaque(item: &str, provider: Provider) -> bool {
    if JsonKind::of(item) != JsonKind::Object {
        return false;
    }
    let filled = |name: &str| field(item, name).and_then(as_text).is_some_and(|text| !is_blank(text));
    let known: &[&str] = match (provider, field(item, "type")) {
        // The text may have been omitted; then the signature holds everything.
        (Provider::Anthropic, Some("\"thinking\""))
            if filled("signature") && (filled("thinking") || field(item, "thinking") == Some("\"\"")) =>
        {
            &["type", "thinking", "signature"]
        }
        (Provider::Anthropic, Some("\"redacted_thinking\"")) if filled("data") => &["type", "data"],
        // Without the encrypted content, the item only refers to one that the provider may have deleted.
        (Provider::OpenAiResponses, Some("\"reasoning\""))
            if filled("encrypted_content")
                && filled("id")
                && field(item, "summary").is_some_and(|list| JsonKind::of(list) == JsonKind::Array) =>
        {
            &["type", "id", "summary", "content", "encrypted_content", "status"]
        }
        (Provider::OpenAiResponses, Some("\"compaction\"")) if filled("encrypted_content") => {
            &["type", "id", "encrypted_content"]
        }
        _ => return false,
    };
    fields(item).iter().all(|(key, _)| known.contains(&inner(key)))
}

fn read_part(part: &str) -> Option<MessagePart<'_>> {
    let own = |name: &str| field(part, name).and_then(as_text);
    let object = |name: &str| field(part, name).filter(|value| JsonKind::of(value) == JsonKind::Object);
    let kind = own("type").map(decode).unwrap_or_default();
    let media = |source, kind, detail, filename| Some(MessagePart::Media { source, kind, detail, filename });
    match kind.as_ref() {
        // The provider of these is unknown.
        "thinking" | "redacted_thinking" | "reasoning" => return None,
        "refusal" => {
            if let Some(text) = own("refusal") {
                return Some(MessagePart::Text(Cow::Borrowed(text)));
            }
        }
        "image_url" | "input_image" => {
            let within = object("image_url");
            let url = within.map_or_else(|| own("image_url"), |image| field(image, "url").and_then(as_text));
            let detail = within.and_then(|image| field(image, "detail")).or_else(|| field(part, "detail"));
            let detail = detail.filter(|detail| ["\"auto\"", "\"low\"", "\"high\""].contains(detail));
            if let Some(url) = url {
                return media(parse_url(url), "image", detail, None);
            }
        }
        "image" | "document" => {
            let kind = if kind == "image" { "image" } else { "file" };
            if let Some(source) = object("source") {
                let text = |name| field(source, name).and_then(as_text);
                let claims = text("media_type").map(decode).unwrap_or_default().into_owned();
                if let Some(data) = text("data") {
                    return media(parse_base64(decode(data), claims), kind, None, own("title"));
                }
                if let Some(url) = text("url") {
                    return media(parse_url(url), kind, None, own("title"));
                }
            }
        }
        "input_audio" => {
            let audio = object("input_audio");
            let data = audio.and_then(|audio| field(audio, "data")).and_then(as_text);
            let format = match audio.and_then(|audio| field(audio, "format")) {
                Some("\"wav\"") => Some("wav"),
                Some("\"mp3\"") => Some("mp3"),
                _ => None,
            };
            if let (Some(data), Some(format)) = (data, format) {
                return Some(MessagePart::Audio { data, format });
            }
        }
        "file" | "input_file" => {
            let file = object("file").unwrap_or(part);
            let text = |name| field(file, name).and_then(as_text);
            let filename = text("filename").filter(|name| !is_blank(name));
            let data = text("file_data").map(|data| match inner(data).get(..5) {
                Some(scheme) if scheme.eq_ignore_ascii_case("data:") => parse_url(data),
                _ => parse_base64(decode(data), String::new()),
            });
            let id = text("file_id").filter(|id| !is_blank(id));
            match (data, id) {
                (Some(MediaSource::Other { .. }) | None, Some(id)) => {
                    return Some(MessagePart::Stored { id, filename });
                }
                (Some(data), _) => return media(data, "file", None, filename),
                (None, None) => {}
            }
            if let Some(url) = text("file_url") {
                return media(parse_url(url), "file", None, filename);
            }
            if let Some(filename) = filename {
                let note = format!("[file omitted: {}]", decode(filename));
                return Some(MessagePart::Text(Cow::Owned(quote(&note))));
            }
        }
        _ => {}
    }
    // Parts of unknown types with text are read as text.
    if let Some(text) = own("text") {
        return Some(MessagePart::Text(Cow::Borrowed(text)));
    }
    let kind: String = kind.chars().filter(|c| !c.is_control()).take(64).collect();
    Some(MessagePart::Text(Cow::Owned(quote(&format!("[{kind} omitted]")))))
}

fn read_call(call: &str) -> Option<MessageCall<'_>> {
    let custom = match field(call, "type") {
        None | Some("null" | "\"function\"") => false,
        Some("\"custom\"") => true,
        Some(_) => return None,
    };
    let within = field(call, if custom { "custom" } else { "function" })?;
    let text = |name| {
        Some(within)
            .filter(|within| JsonKind::of(within) == JsonKind::Object)
            .and_then(|within| field(within, name))
            .and_then(as_text)
    };
    let name =
        text("name").and_then(|text| plain_name(&decode(text))).unwrap_or_else(|| "unknown".to_owned());
    let input = text(if custom { "input" } else { "arguments" }).unwrap_or("\"\"");
    let raw_id = field(call, "id").and_then(as_text);
    Some(MessageCall { raw_id, id: String::new(), name, input, custom })
}

impl MessageCall<'_> {
    /// Returns the arguments as a JSON object, unchanged if they are one. Other arguments are placed in `_raw`; the
    /// input of a custom tool in `input`.
    pub(super) fn object(&self) -> String {
        let text = decode(self.input);
        if self.custom {
            return format!("{{\"input\":{}}}", quote(&text));
        }
        if text.trim().is_empty() {
            return "{}".to_owned();
        }
        match Json::parse(&text) {
            Ok(json) if json.kind() == JsonKind::Object && depth(json.as_str()) <= MAX_DEPTH => {
                json.as_str().to_owned()
            }
            _ => format!("{{\"_raw\":{}}}", quote(&text)),
        }
    }

    /// Returns the arguments as JSON text that holds a JSON object, unchanged if it does.
    pub(super) fn arguments(&self) -> Cow<'_, str> {
        let text = decode(self.input);
        // Escaped zeros and lone surrogates would reappear when the receiver parses the text.
        let strange = ["\\u0000", "\\ud", "\\uD"].iter().any(|escape| text.contains(escape));
        let fine = !strange && text.trim_start().starts_with('{') && Json::parse(&text).is_ok();
        if fine { Cow::Borrowed(self.input) } else { Cow::Owned(quote(&clean(&self.object()))) }
    }
}

/// Returns a note for a part that a provider does not accept.
pub(super) fn note(part: &MessagePart<'_>) -> Option<String> {
    let named =
        |filename: &Option<&str>| filename.map(|name| format!(" {}", decode(name))).unwrap_or_default();
    Some(match part {
        MessagePart::Text(_) | MessagePart::Opaque(_) => return None,
        MessagePart::Audio { data, format } => {
            format!("[audio omitted: {format}, {} bytes]", data.len() / 4 * 3)
        }
        MessagePart::Stored { id, filename } => format!("[file omitted:{} {}]", named(filename), decode(id)),
        MessagePart::Media { source, kind, filename, .. } => {
            let name = named(filename);
            match source {
                MediaSource::Web(url) => format!("[{kind}:{name} {url}]"),
                MediaSource::Pdf(base64) => {
                    format!("[{kind} omitted:{name} application/pdf, {} bytes]", base64.len() / 4 * 3)
                }
                MediaSource::Image { media_type, base64 } => {
                    format!("[{kind} omitted:{name} {media_type}, {} bytes]", base64.len() / 4 * 3)
                }
                MediaSource::Other { claims, bytes } => {
                    let claims = if claims.is_empty() { "of an unknown kind" } else { claims };
                    format!("[{kind} omitted:{name} {claims}, {bytes} bytes]")
                }
            }
        }
    })
}
