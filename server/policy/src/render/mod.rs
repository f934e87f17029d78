//! Rendering of the view as the body of a request to a provider. Pure: no I/O except through its source.
//!
//! [`Rendering`] is pulled: each call of [`Rendering::next`] takes a few lines of the view and appends their
//! rendering. Only one message is in memory, and written bytes are never changed. Everything that is constant between
//! requests (model, parameters, tools, system prompt) precedes the messages, and the rendering of a line depends only
//! on the lines before it. So each body repeats the previous one, up to the first call that was open in it, and
//! prompt caches hit. `docs/RENDERING.md` lists the corrections for each provider.

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
use message::ViewMessage;
use split::Splitter;

/// Bytes after which [`Rendering::next`] returns. One message can exceed it.
const PIECE_BYTES: usize = 128 << 10;

/// Fields that rendering writes, so parameters must not contain them.
const RENDERED: [&str; 6] = ["model", "messages", "input", "system", "instructions", "tools"];

/// A text of the user, as JSON text, for providers that require a user message where there is none. At the end of a
/// body, it is replaced when the conversation continues.
const CONTINUE: &str = "\"Continue.\"";

/// The options of a rendering: everything except the view.
#[derive(Debug, Clone)]
pub struct RenderOptions {
    provider: Provider,
    model: String,
    params: Json,
    tools: Json,
    max_bytes: Option<u64>,
}

impl RenderOptions {
    /// Validates the texts of a request. Errors name the API's fields `model`, `params_json` and `tools_json`. An
    /// empty text means no parameters or no tools; 0 means no limit.
    pub fn new(
        provider: Provider,
        model: &str,
        params_json: &str,
        tools_json: &str,
        max_bytes: u64,
    ) -> Result<Self, InvalidField> {
        if model.is_empty() {
            return Err(InvalidField::new("model", "is missing here and in the task's configuration"));
        }
        if model.len() > 256 || model.chars().any(char::is_control) {
            return Err(InvalidField::new("model", "must have at most 256 bytes and no control characters"));
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
                let problem = format!("must not contain the field {key}, which the server writes");
                return Err(InvalidField::new("params_json", problem));
            }
        }
        let tools = tools::parse(tools_json)?;
        let max_bytes = Some(max_bytes).filter(|max| *max > 0);
        Ok(Self { provider, model: model.to_owned(), params, tools, max_bytes })
    }

    /// Returns the provider.
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the parameters, a JSON object.
    pub fn params(&self) -> &Json {
        &self.params
    }

    /// Returns the tools, an array in the form of OpenAI's chat completions.
    pub fn tools(&self) -> &Json {
        &self.tools
    }

    /// Returns the size limit of the body, in bytes.
    pub fn max_bytes(&self) -> Option<u64> {
        self.max_bytes
    }

    /// Returns the options without a size limit.
    #[must_use]
    pub fn unlimited(self) -> Self {
        Self { max_bytes: None, ..self }
    }

    /// Returns the options with other parameters, which must be validated already.
    #[must_use]
    pub fn with_params(self, params_json: String) -> Self {
        Self { params: Json::kept(params_json), ..self }
    }

    fn has_param(&self, name: &str) -> bool {
        crate::model::json::field(self.params.as_str(), name).is_some()
    }
}

/// A line of the view, and its line of `current.extra.jsonl`; both without line ends.
#[derive(Debug, Clone, Copy)]
pub struct ViewLine<'a> {
    /// The message.
    pub line: &'a [u8],
    /// The fields that OpenAI does not know.
    pub extra: Option<&'a [u8]>,
}

/// A source of the lines of a view, in order.
pub trait ViewSource {
    /// Returns the next line, or `None` at the end.
    fn next(&mut self) -> Result<Option<ViewLine<'_>>, StoreError>;
}

/// A writer of one provider's body.
trait BodyWriter: Send + fmt::Debug {
    /// Returns the provider's rules for the ids of calls.
    fn ids(&self) -> IdRule;
    /// Returns the most calls of one message; `None` means no limit.
    fn most_calls(&self) -> Option<usize> {
        None
    }
    /// Writes everything before the messages.
    fn head(&mut self, options: &RenderOptions, out: &mut Vec<u8>);
    /// Writes a message. Its calls have their ids, and a result has its call.
    fn push(&mut self, message: &ViewMessage<'_>, out: &mut Vec<u8>);
    /// Writes everything after the messages.
    fn end(&mut self, out: &mut Vec<u8>);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RenderStage {
    Head,
    Messages,
    Done,
}

/// A body, rendered piece by piece.
#[derive(Debug)]
pub struct Rendering<S> {
    options: RenderOptions,
    source: S,
    body: Box<dyn BodyWriter>,
    groups: Groups,
    splitter: Splitter,
    stage: RenderStage,
    lines: u64,
    written: u64,
}

impl<S: ViewSource> Rendering<S> {
    /// Starts the body of a request over a view.
    pub fn new(options: RenderOptions, source: S) -> Self {
        let body: Box<dyn BodyWriter> = match options.provider {
            Provider::OpenAi => Box::new(chat::ChatWriter::<openai::OpenAi>::default()),
            Provider::OpenAiResponses => Box::new(responses::ResponsesWriter::default()),
            Provider::Anthropic => Box::new(anthropic::AnthropicWriter::default()),
            Provider::Ollama => Box::new(ollama::OllamaWriter::default()),
            Provider::LmStudio => Box::new(chat::ChatWriter::<lmstudio::LmStudio>::default()),
        };
        let groups = Groups::new(body.ids());
        let splitter = Splitter::new(options.provider, body.most_calls());
        Self { options, source, body, groups, splitter, stage: RenderStage::Head, lines: 0, written: 0 }
    }

    /// Appends the next piece of the body: some hundred KiB, or one message. Returns false when the body is complete,
    /// and an error as soon as it exceeds the limit.
    pub fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, StoreError> {
        let from = out.len();
        if self.stage == RenderStage::Head {
            self.body.head(&self.options, out);
            self.stage = RenderStage::Messages;
        }
        while self.stage == RenderStage::Messages && out.len() - from < PIECE_BYTES {
            self.step(out)?;
        }
        self.written += (out.len() - from) as u64;
        if let Some(limit) = self.options.max_bytes.filter(|limit| self.written > *limit) {
            return Err(StoreError::RequestTooLarge { size: self.written, limit, unit: SizeUnit::Bytes });
        }
        Ok(self.stage != RenderStage::Done)
    }

    /// Returns the bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let Some(entry) = self.source.next()? else {
            self.splitter.close(self.groups.close(), self.body.as_mut(), out);
            self.body.end(out);
            self.stage = RenderStage::Done;
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
        let mut message = ViewMessage::read(text, extra, self.options.provider);
        if let Some(open) = self.groups.closed_by(&message) {
            self.splitter.close(open, self.body.as_mut(), out);
        }
        self.groups.take(line, &mut message);
        self.splitter.push((text, extra), message, &mut self.groups, self.body.as_mut(), out);
        Ok(())
    }
}

/// Counts the bytes of a body.
pub fn measure<S: ViewSource>(options: RenderOptions, source: S) -> Result<u64, StoreError> {
    let mut rendering = Rendering::new(options, source);
    let mut piece = Vec::new();
    while rendering.next(&mut piece)? {
        piece.clear();
    }
    Ok(rendering.written())
}

/// Writes the fields that begin all bodies, each with a trailing comma: model and parameters.
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

/// Returns whether a message at the beginning belongs to the system prompt.
fn is_system(role: Role) -> bool {
    matches!(role, Role::System | Role::Developer)
}
