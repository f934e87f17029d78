//! The strict fakes of the providers: each takes good requests and refuses bad ones in its provider's words.

mod anthropic;
mod bad;
mod http;
mod lmstudio;
mod ollama;
mod openai;
mod openai_responses;
