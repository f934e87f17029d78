//! A line of the view with what stands beside it, in pieces that a provider's body can be made of.
//!
//! Nothing is refused here: what a part or a call is not, it becomes a note or is left out.

use std::borrow::Cow;

use super::Provider;
use super::media::{Place, base64_place, place};
use super::text::{as_text, clean, decode, inner, is_blank, quote};
use crate::model::json::{Json, depth, field, fields, items};
use crate::model::{JsonKind, Role, plain_name};

/// Deeper arguments are sent as text: they stand some levels down in the body, and readers have limits.
const MAX_DEPTH: usize = 100;

/// A message. Values are JSON text.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) role: Role,
    /// Who speaks, plain.
    pub(super) name: Option<String>,
    pub(super) parts: Vec<Part<'a>>,
    pub(super) refusal: Option<&'a str>,
    pub(super) calls: Vec<Call<'a>>,
    /// Which call a tool message says it answers.
    pub(super) call_id: Option<&'a str>,
    /// The call that it answers.
    pub(super) answers: Option<Answered>,
    /// The tool, if a message names it.
    pub(super) tool_name: Option<&'a str>,
    /// What a model of Ollama thought.
    pub(super) thinking: Option<&'a str>,
    /// How parts and calls follow each other, if that is known: see [`Message::steps`].
    order: Vec<Step>,
}

/// What a model did next: the number of a part or of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Part(usize),
    Call(usize),
}

/// A piece of content.
#[derive(Debug)]
pub(super) enum Part<'a> {
    /// JSON text.
    Text(Cow<'a, str>),
    /// An image or a file, with the detail and the name that came with it, as JSON text.
    Media { place: Place<'a>, kind: &'static str, detail: Option<&'a str>, filename: Option<&'a str> },
    /// A file that OpenAI keeps: its id.
    Stored { id: &'a str, filename: Option<&'a str> },
    /// Sound in base64.
    Audio { data: &'a str, format: &'static str },
    /// What only the provider that is rendered for can read, as it came from there: JSON, byte for byte.
    Opaque(&'a str),
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// As it stands in the view.
    pub(super) raw_id: Option<&'a str>,
    /// As it is sent.
    pub(super) id: String,
    /// Plain.
    pub(super) name: String,
    /// Arguments or input: JSON text.
    pub(super) input: &'a str,
    pub(super) custom: bool,
}

/// The call that a result answers, as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answered {
    /// Its place among the calls of its message.
    pub(super) at: usize,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) custom: bool,
}

impl<'a> Message<'a> {
    /// A message of plain text, which is JSON text.
    pub(super) fn text(role: Role, text: &'a str) -> Self {
        Self {
            role,
            name: None,
            parts: vec![Part::Text(Cow::Borrowed(text))],
            refusal: None,
            calls: Vec::new(),
            call_id: None,
            answers: None,
            tool_name: None,
            thinking: None,
            order: Vec::new(),
        }
    }

    /// Reads a line of the view, and the line that stands beside it, for a provider.
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
        // What the view had to leave out of the content for OpenAI stands beside it whole.
        let content = aside("content").or(content).unwrap_or("null");
        let thoughts = extra_of_model.map(|extra| thoughts(extra, provider)).unwrap_or_default();
        let order =
            extra_of_model.and_then(|extra| array(extra, Provider::ORDER)).filter(|_| !thoughts.is_empty());
        if !order.is_some_and(|order| message.read_in_order(&items(order), &thoughts, content, provider)) {
            let thoughts = thoughts.into_iter().filter(|item| is_opaque(item, provider));
            message.parts.extend(thoughts.map(Part::Opaque));
            message.read_content(content);
        }
        // A provider forgets what was said aloud after a while; what was said stays.
        let audio = extra.and_then(|extra| field(extra, "audio"));
        let audio = audio.filter(|audio| JsonKind::of(audio) == JsonKind::Object);
        let transcript = audio.and_then(|audio| field(audio, "transcript")).and_then(as_text);
        if let Some(said) = transcript.filter(|_| message.role == Role::Assistant && !message.has_text()) {
            message.parts.push(Part::Text(Cow::Borrowed(said)));
        }
        message
    }

    /// Reads thoughts and text in the order in which they came. False, with nothing read, if the order is not that of
    /// this message: an older one has none, and a content may have been replaced since.
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
                    steps.push(Step::Call(calls));
                    calls += 1;
                    continue;
                }
                "\"thought\"" => {
                    let Some(item) = thoughts.next() else { return false };
                    if !is_opaque(item, provider) {
                        continue;
                    }
                    Part::Opaque(item)
                }
                characters => {
                    let Ok(characters) = characters.parse::<usize>() else { return false };
                    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]).nth(characters);
                    let Some((said, left)) = ends.and_then(|end| rest.split_at_checked(end)) else {
                        return false;
                    };
                    rest = left;
                    Part::Text(Cow::Owned(quote(said)))
                }
            };
            steps.push(Step::Part(parts.len()));
            parts.push(part);
        }
        if !rest.is_empty() || thoughts.next().is_some() || calls != self.calls.len() {
            return false;
        }
        (self.parts, self.order) = (parts, steps);
        true
    }

    /// What the model did, one after the other. What is not known otherwise: it thought, spoke and called, in this order.
    pub(super) fn steps(&self) -> Vec<Step> {
        if !self.order.is_empty() {
            return self.order.clone();
        }
        let calls = (0..self.calls.len()).map(Step::Call);
        (0..self.parts.len()).map(Step::Part).chain(calls).collect()
    }

    /// Whether a step can be seen by others than its provider. A thought that nothing of that kind follows is not sent.
    pub(super) fn is_seen(&self, step: Step) -> bool {
        match step {
            Step::Call(_) => true,
            Step::Part(at) => match &self.parts[at] {
                Part::Text(text) => !is_blank(text),
                Part::Opaque(_) => false,
                Part::Media { .. } | Part::Stored { .. } | Part::Audio { .. } => true,
            },
        }
    }

    fn read_content(&mut self, content: &'a str) {
        match JsonKind::of(content) {
            JsonKind::Text => self.parts.push(Part::Text(Cow::Borrowed(content))),
            JsonKind::Array => self.parts.extend(items(content).into_iter().filter_map(read_part)),
            JsonKind::Null | JsonKind::Object | JsonKind::Other => {}
        }
    }

    /// Whether there is text that can be seen.
    pub(super) fn has_text(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Text(text) if !is_blank(text)))
    }

    /// Puts a note in front.
    pub(super) fn begin_with(&mut self, note: &str) {
        if let Some(Part::Text(text)) = self.parts.first_mut() {
            let rest = text.get(1..).unwrap_or("\"").to_owned();
            let begun = quote(note);
            *text = Cow::Owned(format!("{} {rest}", &begun[..begun.len() - 1]));
        } else {
            self.parts.insert(0, Part::Text(Cow::Owned(quote(note))));
        }
    }
}

fn array<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    field(object, name).filter(|list| JsonKind::of(list) == JsonKind::Array)
}

/// What came from a provider and goes back there.
fn thoughts(extra: &str, provider: Provider) -> Vec<&str> {
    provider.thoughts().and_then(|name| array(extra, name)).map(items).unwrap_or_default()
}

/// Whether an item is one that its provider takes back: whole, and with nothing in it that was added by others.
fn is_opaque(item: &str, provider: Provider) -> bool {
    if JsonKind::of(item) != JsonKind::Object {
        return false;
    }
    let filled = |name: &str| field(item, name).and_then(as_text).is_some_and(|text| !is_blank(text));
    let known: &[&str] = match (provider, field(item, "type")) {
        // The text may have been left out; then all is in the signature.
        (Provider::Anthropic, Some("\"thinking\""))
            if filled("signature") && (filled("thinking") || field(item, "thinking") == Some("\"\"")) =>
        {
            &["type", "thinking", "signature"]
        }
        (Provider::Anthropic, Some("\"redacted_thinking\"")) if filled("data") => &["type", "data"],
        // Without the encrypted content it only names something that the provider may have forgotten.
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

fn read_part(part: &str) -> Option<Part<'_>> {
    let own = |name: &str| field(part, name).and_then(as_text);
    let object = |name: &str| field(part, name).filter(|value| JsonKind::of(value) == JsonKind::Object);
    let kind = own("type").map(decode).unwrap_or_default();
    let media = |place, kind, detail, filename| Some(Part::Media { place, kind, detail, filename });
    match kind.as_ref() {
        // Nobody knows whose they are.
        "thinking" | "redacted_thinking" | "reasoning" => return None,
        "refusal" => {
            if let Some(text) = own("refusal") {
                return Some(Part::Text(Cow::Borrowed(text)));
            }
        }
        "image_url" | "input_image" => {
            let within = object("image_url");
            let url = within.map_or_else(|| own("image_url"), |image| field(image, "url").and_then(as_text));
            let detail = within.and_then(|image| field(image, "detail")).or_else(|| field(part, "detail"));
            let detail = detail.filter(|detail| ["\"auto\"", "\"low\"", "\"high\""].contains(detail));
            if let Some(url) = url {
                return media(place(url), "image", detail, None);
            }
        }
        "image" | "document" => {
            let kind = if kind == "image" { "image" } else { "file" };
            if let Some(source) = object("source") {
                let text = |name| field(source, name).and_then(as_text);
                let claims = text("media_type").map(decode).unwrap_or_default().into_owned();
                if let Some(data) = text("data") {
                    return media(base64_place(decode(data), claims), kind, None, own("title"));
                }
                if let Some(url) = text("url") {
                    return media(place(url), kind, None, own("title"));
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
                return Some(Part::Audio { data, format });
            }
        }
        "file" | "input_file" => {
            let file = object("file").unwrap_or(part);
            let text = |name| field(file, name).and_then(as_text);
            let filename = text("filename").filter(|name| !is_blank(name));
            let data = text("file_data").map(|data| match inner(data).get(..5) {
                Some(scheme) if scheme.eq_ignore_ascii_case("data:") => place(data),
                _ => base64_place(decode(data), String::new()),
            });
            let id = text("file_id").filter(|id| !is_blank(id));
            match (data, id) {
                (Some(Place::Other { .. }) | None, Some(id)) => return Some(Part::Stored { id, filename }),
                (Some(data), _) => return media(data, "file", None, filename),
                (None, None) => {}
            }
            if let Some(url) = text("file_url") {
                return media(place(url), "file", None, filename);
            }
            if let Some(filename) = filename {
                let note = format!("[file omitted: {}]", decode(filename));
                return Some(Part::Text(Cow::Owned(quote(&note))));
            }
        }
        _ => {}
    }
    // Parts of other kinds that have text are taken by their text.
    if let Some(text) = own("text") {
        return Some(Part::Text(Cow::Borrowed(text)));
    }
    let kind: String = kind.chars().filter(|c| !c.is_control()).take(64).collect();
    Some(Part::Text(Cow::Owned(quote(&format!("[{kind} omitted]")))))
}

fn read_call(call: &str) -> Option<Call<'_>> {
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
    Some(Call { raw_id, id: String::new(), name, input, custom })
}

impl Call<'_> {
    /// The arguments as a JSON object: as they are, if they are one. What is none stands in `_raw`; the input of a
    /// custom tool in `input`.
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

    /// The arguments as JSON text that holds a JSON object: as they are, if it does.
    pub(super) fn arguments(&self) -> Cow<'_, str> {
        let text = decode(self.input);
        // Zeros and lone surrogates would be there again once somebody has read what is in the text.
        let strange = ["\\u0000", "\\ud", "\\uD"].iter().any(|escape| text.contains(escape));
        let fine = !strange && text.trim_start().starts_with('{') && Json::parse(&text).is_ok();
        if fine { Cow::Borrowed(self.input) } else { Cow::Owned(quote(&clean(&self.object()))) }
    }
}

/// A note for what a provider does not take.
pub(super) fn note(part: &Part<'_>) -> Option<String> {
    let named =
        |filename: &Option<&str>| filename.map(|name| format!(" {}", decode(name))).unwrap_or_default();
    Some(match part {
        Part::Text(_) | Part::Opaque(_) => return None,
        Part::Audio { data, format } => format!("[audio omitted: {format}, {} bytes]", data.len() / 4 * 3),
        Part::Stored { id, filename } => format!("[file omitted:{} {}]", named(filename), decode(id)),
        Part::Media { place, kind, filename, .. } => {
            let name = named(filename);
            match place {
                Place::Web(url) => format!("[{kind}:{name} {url}]"),
                Place::Pdf(base64) => {
                    format!("[{kind} omitted:{name} application/pdf, {} bytes]", base64.len() / 4 * 3)
                }
                Place::Image { media_type, base64 } => {
                    format!("[{kind} omitted:{name} {media_type}, {} bytes]", base64.len() / 4 * 3)
                }
                Place::Other { claims, bytes } => {
                    let claims = if claims.is_empty() { "of an unknown kind" } else { claims };
                    format!("[{kind} omitted:{name} {claims}, {bytes} bytes]")
                }
            }
        }
    })
}
