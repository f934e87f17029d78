//! Exact counts by OpenAI's encodings. Each takes about 67 MB and a moment to load, so it is loaded when a task first
//! asks for it.

use std::sync::OnceLock;

use bpe_openai::Tokenizer;

use crate::model::TokenCounter;

static O200K: OnceLock<&Tokenizer> = OnceLock::new();
static CL100K: OnceLock<&Tokenizer> = OnceLock::new();

/// As OpenAI's models from GPT-4o on.
pub(super) fn o200k(text: &str) -> u64 {
    O200K.get_or_init(bpe_openai::o200k_base).count(text) as u64
}

/// As OpenAI's models before.
pub(super) fn cl100k(text: &str) -> u64 {
    CL100K.get_or_init(bpe_openai::cl100k_base).count(text) as u64
}

/// Whether a counter would count at once, without loading anything.
pub fn is_ready(counter: TokenCounter) -> bool {
    match counter {
        TokenCounter::Fitted | TokenCounter::Heuristic => true,
        TokenCounter::O200k => O200K.get().is_some(),
        TokenCounter::Cl100k => CL100K.get().is_some(),
    }
}
