//! Exact counts by OpenAI's encodings. Each takes about 67 MB, so it is loaded when a task first asks for it.

use bpe_openai::Tokenizer;

/// As OpenAI's models from GPT-4o on.
pub(super) fn o200k(text: &str) -> u64 {
    count(bpe_openai::o200k_base(), text)
}

/// As OpenAI's models before.
pub(super) fn cl100k(text: &str) -> u64 {
    count(bpe_openai::cl100k_base(), text)
}

fn count(tokenizer: &Tokenizer, text: &str) -> u64 {
    tokenizer.count(text) as u64
}
