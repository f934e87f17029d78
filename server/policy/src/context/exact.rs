//! Exact counts by OpenAI's encodings. One takes up to 12 MB and a moment to unpack, so it is unpacked when a task first
//! asks for it.
//!
//! An encoding cuts text into pieces by a pattern, here, and merges the bytes of each piece into tokens (`merge.rs`)
//! that its vocabulary has (`vocabulary.rs`).

mod merge;
mod vocabulary;

use std::sync::OnceLock;

use regex_automata::meta::Regex;
use regex_automata::{Anchored, Input};

use self::merge::Merger;
use self::vocabulary::Vocabulary;
use super::fitted;
use crate::model::TokenCounter;

static O200K: OnceLock<Option<Encoding>> = OnceLock::new();
static CL100K: OnceLock<Option<Encoding>> = OnceLock::new();

const O200K_TABLE: &[u8] = include_bytes!("exact/tables/o200k_base.tiktoken.zst");
const CL100K_TABLE: &[u8] = include_bytes!("exact/tables/cl100k_base.tiktoken.zst");

/// The alternatives of the encoding's pattern, the first that matches wins. Those for spaces are left out: see [`SPACES`].
const O200K_PIECES: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"|\s*[\r\n]+",
);

/// As [`O200K_PIECES`].
const CL100K_PIECES: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"|[^\r\n\p{L}\p{N}]?\p{L}+",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+",
);

/// Stands for the last alternatives of both patterns, `\s+(?!\S)|\s+`, since the engine cannot look ahead: of spaces with
/// a word behind them the last one belongs to the word, unless it is the only one.
const SPACES: &str = r"\s+";

/// Returns the tokens of a text for OpenAI's models from GPT-4o on.
pub(super) fn o200k(text: &str) -> u64 {
    count(O200K.get_or_init(|| Encoding::unpack(O200K_TABLE, O200K_PIECES)), text)
}

/// Returns the tokens of a text for OpenAI's models before.
pub(super) fn cl100k(text: &str) -> u64 {
    count(CL100K.get_or_init(|| Encoding::unpack(CL100K_TABLE, CL100K_PIECES)), text)
}

/// Returns whether a counter would count at once, without unpacking anything.
pub fn is_ready(counter: TokenCounter) -> bool {
    match counter {
        TokenCounter::Fitted | TokenCounter::Heuristic => true,
        TokenCounter::O200k => O200K.get().is_some(),
        TokenCounter::Cl100k => CL100K.get().is_some(),
    }
}

/// A table that does not unpack is a fault of the build, which the tests below find; nobody's message fails for it.
fn count(encoding: &Option<Encoding>, text: &str) -> u64 {
    encoding.as_ref().map_or_else(|| fitted::count(text), |encoding| encoding.count(text))
}

#[derive(Debug)]
struct Encoding {
    vocabulary: Vocabulary,
    /// [`SPACES`] is its second pattern.
    pieces: Regex,
}

impl Encoding {
    fn unpack(table: &[u8], pieces: &str) -> Option<Self> {
        let pieces = Regex::new_many(&[pieces, SPACES]).ok()?;
        Some(Self { vocabulary: Vocabulary::unpack(table)?, pieces })
    }

    fn count(&self, text: &str) -> u64 {
        let mut merger = Merger::new(&self.vocabulary);
        let (mut rest, mut tokens) = (text, 0);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(self.first_piece(rest));
            tokens += merger.count(piece.as_bytes());
            rest = behind;
        }
        tokens as u64
    }

    /// Returns the length of the first piece of a text that is not empty.
    fn first_piece(&self, text: &str) -> usize {
        let Some(found) = self.pieces.find(Input::new(text).anchored(Anchored::Yes)) else {
            return text.len();
        };
        let (spaces, behind) = text.split_at(found.end());
        let last = match spaces.char_indices().next_back() {
            Some((last, _)) if found.pattern().as_usize() == 1 && !behind.is_empty() => last,
            _ => 0,
        };
        if last > 0 { last } else { found.end() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_unpack() {
        assert!(Encoding::unpack(O200K_TABLE, O200K_PIECES).is_some());
        assert!(Encoding::unpack(CL100K_TABLE, CL100K_PIECES).is_some());
    }

    #[test]
    fn the_last_space_goes_with_the_word_behind_it() {
        let encoding = Encoding::unpack(CL100K_TABLE, CL100K_PIECES).unwrap();
        let pieces = |mut text: &str| {
            let mut pieces = Vec::new();
            while !text.is_empty() {
                let (piece, rest) = text.split_at(encoding.first_piece(text));
                pieces.push(piece.to_owned());
                text = rest;
            }
            pieces
        };
        assert_eq!(pieces("a  b c"), ["a", " ", " b", " c"]);
        assert_eq!(pieces("a\u{3000}\u{3000}1"), ["a", "\u{3000}", "\u{3000}", "1"]);
        assert_eq!(pieces("  \n  x  "), ["  \n", " ", " x", "  "]);
        assert_eq!(pieces("It'S 1234!\n\n"), ["It", "'S", " ", "123", "4", "!\n\n"]);
    }
}
