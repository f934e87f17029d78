//! Strict fakes of the LLM providers, for the tests of what is sent to them.
//!
//! A module per provider checks a whole request body and refuses it in the provider's words ([`Refusal`]); the
//! program `fake-llm` ([`fake`]) serves them over HTTP and answers as a model would; [`histories`] makes histories that hurt.
//! The rules are those of the published types of the packages openai 3.49, anthropic 2.8 and ollama 0.6, and of the
//! answers that the APIs are known to give. Each has a bad request in `tests/`.
//!
//! | rule | `openai` | `openai_responses` | `anthropic` | `ollama` | `lmstudio` |
//! | --- | --- | --- | --- | --- | --- |
//! | JSON, no key twice, no lone surrogate | yes | yes | yes | yes | yes |
//! | size of the body | 50 MB, 413 | 50 MB, 413 | 32 MiB, 413 | none | none |
//! | length of a text | 10 485 760 | 10 485 760 | – | – | – |
//! | required fields | `model`, `messages` | `model`, `input` | `model`, `messages`, `max_tokens` | `model`, `messages`* | `model`, `messages` |
//! | unknown fields, at every level | refused | refused | refused | refused* | refused |
//! | types, words and ranges of parameters | yes | yes | yes | yes | yes |
//! | roles | six | four | `user`, `assistant` | `system`, `user`, `assistant`, `tool`* | `system`, `user`, `assistant`, `tool` |
//! | the first message | any | any | `user` | any | any |
//! | the last message | not two of `assistant`* | any | `assistant` only for models that go on with it, no space at its end | not two of `assistant`* | not `assistant` |
//! | the same role twice | taken | taken | refused* | taken | taken |
//! | a call has a result before anything else comes | yes | yes* (else anywhere behind it) | in the next message, first | yes* | yes |
//! | a result has a call, and a call one result | yes | yes | yes | yes*, by `tool_name` | yes |
//! | ids of calls | 1–40 characters, unique in a message | 1–64, unique among open ones | `^[a-zA-Z0-9_-]+$`, unique in all | – | as `openai` |
//! | calls of one message | at most 128 | – | – | – | – |
//! | names of tools | `^[a-zA-Z0-9_-]{1,64}$` | the same | `^[a-zA-Z0-9_-]{1,128}$` | not empty* | as `openai` |
//! | arguments | a string, JSON of an object* | a string | an object | an object | a string, JSON of an object |
//! | custom calls | yes | yes | none | none | none |
//! | tools must be there if there are calls | no | no | yes | no | no |
//! | tools: schema of an object, no name twice | schema | schema, flat form | both | shape | schema |
//! | no content | only beside calls, refusal, audio | refused | refused | taken | refused |
//! | empty or blank text | taken | taken | refused | taken | taken |
//! | parts by role | yes | yes | yes | text only | users only |
//! | images: base64, kind by its first bytes | png, jpeg, gif, webp | the same | the same, as declared, up to 5 MiB of base64, https | png, jpeg, webp, bare base64 | as `openai`, data URLs only |
//! | names of speakers | `^[^\s<\|\\/>]{1,64}$` | refused | refused | refused* | as `openai` |
//! | thinking | – | `reasoning` sealed by [`openai_responses::ENCRYPTED`], in the place that is sealed into it, followed by what it led to, once | signed by [`anthropic::sign`], in the place that is sealed into the signature, never last, first in an open loop if thinking is on | `thinking` | – |
//! | marks for the prompt cache | form | form | form, at most 4 | – | – |
//!
//! Rules with * are not the provider's own: it mends the request, passes over it, or only servers of the same API
//! refuse it. [`Rules::strict`] turns them on, which is the default. Server-side tools and their blocks and items are
//! not known here, nor is `system` as a role of Anthropic's messages, which only its newest models take.

pub mod anthropic;
pub mod fake;
pub mod histories;
pub mod lmstudio;
mod media;
pub mod ollama;
pub mod openai;
pub mod openai_responses;
mod openai_words;
mod parse;
pub mod place;
mod refusal;
mod shape;

pub use parse::parse;
pub use refusal::Refusal;

use serde_json::Value;

/// Whose API it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Chat completions.
    OpenAi,
    /// Responses.
    OpenAiResponses,
    /// Messages.
    Anthropic,
    /// The native chat.
    Ollama,
    /// Chat completions as LM Studio, vLLM and others take them.
    LmStudio,
}

/// How strict a check is.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The largest body.
    pub max_bytes: usize,
    /// The longest string of text, in characters. Only OpenAI has one.
    pub max_text: usize,
    /// Whether also that is refused which the provider mends or passes over, but which a good request has not:
    /// the table above says what.
    pub strict: bool,
}

impl Rules {
    /// OpenAI's, for both APIs.
    pub const fn openai() -> Self {
        Self { max_bytes: 50_000_000, max_text: 10_485_760, strict: true }
    }

    /// Anthropic's.
    pub const fn anthropic() -> Self {
        Self { max_bytes: 32 * 1024 * 1024, max_text: usize::MAX, strict: true }
    }

    /// Ollama's, which has no limits.
    pub const fn ollama() -> Self {
        Self { max_bytes: usize::MAX, max_text: usize::MAX, strict: true }
    }

    /// Those of servers that speak like OpenAI, which have no limits.
    pub const fn lmstudio() -> Self {
        Self::ollama()
    }

    /// A provider's.
    pub const fn of(provider: Provider) -> Self {
        match provider {
            Provider::OpenAi | Provider::OpenAiResponses => Self::openai(),
            Provider::Anthropic => Self::anthropic(),
            Provider::Ollama => Self::ollama(),
            Provider::LmStudio => Self::lmstudio(),
        }
    }
}

/// Checks a body that was read, of `size` bytes.
pub fn check(provider: Provider, body: &Value, size: usize) -> Result<(), Refusal> {
    check_with(provider, body, size, &Rules::of(provider))
}

/// Checks a body by the given rules.
pub fn check_with(provider: Provider, body: &Value, size: usize, rules: &Rules) -> Result<(), Refusal> {
    match provider {
        Provider::OpenAi => openai::check_with(body, size, rules),
        Provider::OpenAiResponses => openai_responses::check_with(body, size, rules),
        Provider::Anthropic => anthropic::check_with(body, size, rules),
        Provider::Ollama => ollama::check_with(body, size, rules),
        Provider::LmStudio => lmstudio::check_with(body, size, rules),
    }
}

/// Reads and checks a body.
pub fn check_bytes(provider: Provider, body: &[u8], rules: &Rules) -> Result<Value, Refusal> {
    match provider {
        Provider::OpenAi => openai::check_bytes(body, rules),
        Provider::OpenAiResponses => openai_responses::check_bytes(body, rules),
        Provider::Anthropic => anthropic::check_bytes(body, rules),
        Provider::Ollama => ollama::check_bytes(body, rules),
        Provider::LmStudio => lmstudio::check_bytes(body, rules),
    }
}
