//! Rendering: what the model sees as the body of a request to a provider. Pure; no I/O but what it is handed.
//!
//! [`Rendering`] is pulled: each call of [`Rendering::next`] takes a few lines of the view and appends what they become.
//! Nothing but one message is in memory, and a body that was begun never goes back. Everything that stays the same from
//! one request to the next (model, parameters, tools, system prompt) stands before the messages, and what a line becomes
//! depends only on the lines before it: so a body repeats the one before it, up to the first call that was open in that
//! one, and prompt caches hit. `docs/RENDERING.md` says what is mended for whom.

mod anthropic;
mod chat;
mod groups;
mod lmstudio;
mod media;
mod message;
mod ollama;
mod openai;
mod responses;
mod split;
mod text;
mod tools;

use std::fmt;

pub use crate::model::Provider;
use crate::model::json::{Json, fields};
use crate::model::{InvalidField, JsonKind, Role, SizeUnit, StoreError};
use groups::{Groups, IdRule};
use message::Message;
use split::Splitter;

/// Bytes after which [`Rendering::next`] returns. One message can make it more.
const PIECE_BYTES: usize = 128 << 10;

/// Fields that are rendered, so that parameters may not have them.
const RENDERED: [&str; 6] = ["model", "messages", "input", "system", "instructions", "tools"];

/// Said for the user where a provider wants the user to have spoken and nobody has, as JSON text. At the end of a body it
/// goes again when something else is said.
const GO_ON: &str = "\"Continue.\"";

/// What is to be rendered, beside the view.
#[derive(Debug, Clone)]
pub struct RenderOptions {
    provider: Provider,
    model: String,
    params: Json,
    tools: Json,
    max_bytes: Option<u64>,
}

impl RenderOptions {
    /// Checks the texts of a request. Errors name the API's fields `model`, `params_json` and `tools_json`. An empty
    /// text is no parameters or no tools; 0 is no limit.
    pub fn new(
        provider: Provider,
        model: &str,
        params_json: &str,
        tools_json: &str,
        max_bytes: u64,
    ) -> Result<Self, InvalidField> {
        if model.is_empty() {
            return Err(InvalidField::new("model", "is missing, and the task's configuration has none"));
        }
        if model.len() > 256 || model.chars().any(char::is_control) {
            return Err(InvalidField::new("model", "has control characters, or more than 256 bytes"));
        }
        let params = if params_json.is_empty() { "{}" } else { params_json };
        let params = Json::parse(params)
            .map_err(|error| InvalidField::new("params_json", format!("is not valid: {error}")))?;
        if params.kind() != JsonKind::Object {
            return Err(InvalidField::new("params_json", "is not a JSON object"));
        }
        for (key, _) in fields(params.as_str()) {
            let key = text::decode(key);
            if RENDERED.contains(&key.as_ref()) {
                let problem = format!("has the field {key}, which is rendered");
                return Err(InvalidField::new("params_json", problem));
            }
        }
        let tools = tools::parse(tools_json)?;
        let max_bytes = Some(max_bytes).filter(|max| *max > 0);
        Ok(Self { provider, model: model.to_owned(), params, tools, max_bytes })
    }

    /// Whose request it is.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// The model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The parameters: an object.
    pub fn params(&self) -> &Json {
        &self.params
    }

    /// The tools: an array in the form of OpenAI's chat completions.
    pub fn tools(&self) -> &Json {
        &self.tools
    }

    /// Most bytes of the body.
    pub fn max_bytes(&self) -> Option<u64> {
        self.max_bytes
    }

    /// The same without a limit.
    #[must_use]
    pub fn unlimited(self) -> Self {
        Self { max_bytes: None, ..self }
    }

    /// The same with other parameters, which were checked before.
    #[must_use]
    pub fn with_params(self, params_json: String) -> Self {
        Self { params: Json::kept(params_json), ..self }
    }

    fn has_param(&self, name: &str) -> bool {
        crate::model::json::field(self.params.as_str(), name).is_some()
    }
}

/// A line of the view, and the line of `current.extra.jsonl` that speaks of it; both without line ends.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The message.
    pub line: &'a [u8],
    /// What OpenAI does not know of it.
    pub extra: Option<&'a [u8]>,
}

/// The lines of a view, one after the other.
pub trait Source {
    /// The next line; none at the end.
    fn next(&mut self) -> Result<Option<Entry<'_>>, StoreError>;
}

/// A provider's body in the making.
trait Body: Send + fmt::Debug {
    /// What the provider wants of the ids of calls.
    fn ids(&self) -> IdRule;
    /// Most calls of one message; none: as many as there are.
    fn most_calls(&self) -> Option<usize> {
        None
    }
    /// Writes what stands before the messages.
    fn head(&mut self, options: &RenderOptions, out: &mut Vec<u8>);
    /// Writes a message. Calls have their ids, and a result has its call.
    fn push(&mut self, message: &Message<'_>, out: &mut Vec<u8>);
    /// Writes what stands behind the messages.
    fn end(&mut self, out: &mut Vec<u8>);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Messages,
    Done,
}

/// A body, piece by piece.
#[derive(Debug)]
pub struct Rendering<S> {
    options: RenderOptions,
    source: S,
    body: Box<dyn Body>,
    groups: Groups,
    splitter: Splitter,
    stage: Stage,
    lines: u64,
    written: u64,
}

impl<S: Source> Rendering<S> {
    /// The body of a request over a view.
    pub fn new(options: RenderOptions, source: S) -> Self {
        let body: Box<dyn Body> = match options.provider {
            Provider::OpenAi => Box::new(chat::Chat::<openai::OpenAi>::default()),
            Provider::OpenAiResponses => Box::new(responses::Responses::default()),
            Provider::Anthropic => Box::new(anthropic::Messages::default()),
            Provider::Ollama => Box::new(ollama::Chat::default()),
            Provider::LmStudio => Box::new(chat::Chat::<lmstudio::LmStudio>::default()),
        };
        let groups = Groups::new(body.ids());
        let splitter = Splitter::new(options.provider, body.most_calls());
        Self { options, source, body, groups, splitter, stage: Stage::Head, lines: 0, written: 0 }
    }

    /// Appends the next piece of the body: some hundred KiB, or one message. False when it is complete. A body over the
    /// limit is an error as soon as that shows.
    pub fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, StoreError> {
        let from = out.len();
        if self.stage == Stage::Head {
            self.body.head(&self.options, out);
            self.stage = Stage::Messages;
        }
        while self.stage == Stage::Messages && out.len() - from < PIECE_BYTES {
            self.step(out)?;
        }
        self.written += (out.len() - from) as u64;
        if let Some(limit) = self.options.max_bytes.filter(|limit| self.written > *limit) {
            return Err(StoreError::RequestTooLarge { size: self.written, limit, unit: SizeUnit::Bytes });
        }
        Ok(self.stage != Stage::Done)
    }

    /// Bytes of the body so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let Some(entry) = self.source.next()? else {
            self.splitter.close(self.groups.close(), self.body.as_mut(), out);
            self.body.end(out);
            self.stage = Stage::Done;
            return Ok(());
        };
        self.lines += 1;
        let line = self.lines;
        let damaged = |_| StoreError::Damaged {
            path: "current.jsonl".to_owned(),
            offset: 0,
            problem: format!("line {line} is not UTF-8"),
        };
        let text = std::str::from_utf8(entry.line).map_err(damaged)?;
        let extra = entry.extra.map(std::str::from_utf8).transpose().map_err(damaged)?;
        let mut message = Message::read(text, extra, self.options.provider);
        if let Some(open) = self.groups.closed_by(&message) {
            self.splitter.close(open, self.body.as_mut(), out);
        }
        self.groups.take(line, &mut message);
        self.splitter.push((text, extra), message, &mut self.groups, self.body.as_mut(), out);
        Ok(())
    }
}

/// Renders a body only to count its bytes.
pub fn measure<S: Source>(options: RenderOptions, source: S) -> Result<u64, StoreError> {
    let mut rendering = Rendering::new(options, source);
    let mut piece = Vec::new();
    while rendering.next(&mut piece)? {
        piece.clear();
    }
    Ok(rendering.written())
}

/// Writes the fields that all bodies begin with, each with a comma behind it: model and parameters.
fn push_constants(options: &RenderOptions, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"model\":");
    text::push_quoted(out, &options.model);
    out.push(b',');
    for (key, value) in fields(options.params.as_str()) {
        text::push_json(out, key);
        out.push(b':');
        text::push_json(out, value);
        out.push(b',');
    }
}

/// Whether a message is part of the system prompt, if it stands at the beginning.
fn is_system(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}
