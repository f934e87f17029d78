//! Byte-pair encoding of one piece of text: of all neighbours that make a token together, those with the lowest rank become
//! one, the leftmost first, until there are none.
//!
//! A piece can be as long as a message. A long one is merged window by window, so that it takes no more memory than a
//! window, and gives what merging it as a whole would. That rests on one property of the encoding: tokens in a row
//! are what their text gives exactly if each two neighbours are what the text of the two gives. So a window may begin
//! at the end of any token of the window before, if its first token is the one that stood there: then every two
//! neighbours stood side by side in one window or the other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::vocabulary::Vocabulary;

/// Bytes that are merged at once. A piece that is no longer is one window.
const WINDOW: usize = 4096;

/// Marks where no part begins any more.
const GONE: usize = 0;

/// Merges pieces one after another in the same memory.
#[derive(Debug)]
pub(super) struct Merger<'a> {
    vocabulary: &'a Vocabulary,
    window: usize,
    /// What was merged last, and its tokens.
    merged: Vec<u8>,
    tokens: usize,
    /// Where the part that begins at a byte ends.
    ends: Vec<usize>,
    /// Where the part before the one that begins at a byte begins.
    before: Vec<usize>,
    /// Neighbours that make a token: its rank, and where the first begins. Some have changed since.
    pairs: BinaryHeap<Reverse<(u32, usize)>>,
}

impl<'a> Merger<'a> {
    pub(super) fn new(vocabulary: &'a Vocabulary) -> Self {
        Self {
            vocabulary,
            window: WINDOW,
            merged: Vec::new(),
            tokens: 0,
            ends: Vec::new(),
            before: Vec::new(),
            pairs: BinaryHeap::new(),
        }
    }

    /// Returns the tokens of a piece.
    pub(super) fn count(&mut self, piece: &[u8]) -> usize {
        if self.vocabulary.rank(piece).is_some() {
            return 1;
        }
        let mut window = self.window;
        loop {
            match self.count_by(window, piece) {
                Some(tokens) => return tokens,
                None => window *= 2,
            }
        }
    }

    /// Returns the tokens of a piece that is merged in windows of so many bytes; none if two windows do not agree.
    fn count_by(&mut self, window: usize, piece: &[u8]) -> Option<usize> {
        let (mut rest, mut tokens) = (piece, 0);
        let mut last = self.merge_first(window, rest);
        while window < rest.len() {
            // What comes behind a window can change its last tokens, hardly ever those before its last eighth.
            let (before, cut) = self.last_cut(window - window / 8);
            let (expected, next) = (self.ends[cut] - cut, &rest[cut..]);
            last = self.merge_first(window, next);
            if cut == 0 || self.ends[0] != expected {
                return None;
            }
            (rest, tokens) = (next, tokens + before);
        }
        Some(tokens + last)
    }

    /// Merges the first bytes of a text, and returns their tokens. The longest pieces are rows of one character, where each
    /// window is as the one before: what was merged last is not merged again.
    fn merge_first(&mut self, bytes: usize, text: &[u8]) -> usize {
        let text = &text[..bytes.min(text.len())];
        if self.merged != text {
            self.tokens = self.merge(text);
            self.merged.clear();
            self.merged.extend(text);
        }
        self.tokens
    }

    /// Returns how many tokens end before a byte, and where the last of them ends: another one begins there.
    fn last_cut(&self, byte: usize) -> (usize, usize) {
        let (mut tokens, mut cut) = (0, 0);
        while self.ends[cut] < byte {
            (tokens, cut) = (tokens + 1, self.ends[cut]);
        }
        (tokens, cut)
    }

    /// Merges a text as a whole, and returns its tokens.
    fn merge(&mut self, text: &[u8]) -> usize {
        self.ends.clear();
        self.ends.extend(1..=text.len());
        self.before.clear();
        self.before.extend((0..text.len()).map(|start| start.saturating_sub(1)));
        self.pairs.clear();
        let pairs = text.windows(2).enumerate();
        let pairs = pairs.filter_map(|(start, pair)| Some(Reverse((self.vocabulary.rank(pair)?, start))));
        self.pairs.extend(pairs);

        let mut tokens = text.len();
        while let Some(Reverse((rank, start))) = self.pairs.pop() {
            let middle = self.ends[start];
            if middle == GONE || middle == text.len() {
                continue;
            }
            let end = self.ends[middle];
            // The same beginning and the same length: the same bytes, and so the token, whatever has changed since.
            if end - start != self.vocabulary.length(rank) {
                continue;
            }
            self.ends[start] = end;
            self.ends[middle] = GONE;
            tokens -= 1;
            if end < text.len() {
                self.before[end] = start;
                self.offer(text, start, self.ends[end]);
            }
            if start > 0 {
                self.offer(text, self.before[start], end);
            }
        }
        tokens
    }

    /// Remembers two neighbours if they make a token.
    fn offer(&mut self, text: &[u8], start: usize, end: usize) {
        if let Some(rank) = self.vocabulary.rank(&text[start..end]) {
            self.pairs.push(Reverse((rank, start)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CL100K_TABLE;
    use super::*;

    /// Windows of any size give what the whole gives; those that are too small for it grow.
    #[test]
    fn windows_change_nothing() {
        let vocabulary = Vocabulary::unpack(CL100K_TABLE).unwrap();
        let mut random = fastrand::Rng::with_seed(7);
        for round in 0..30 {
            let letters = [2, 5, 26][round % 3];
            let piece: Vec<u8> = (0..400).map(|_| b'a' + random.u8(..letters)).collect();
            let mut whole = Merger::new(&vocabulary);
            let tokens = whole.count(&piece);
            for window in [1, 2, 7, 16, 64, 256] {
                let mut merger = Merger { window, ..Merger::new(&vocabulary) };
                assert_eq!(merger.count(&piece), tokens, "{window}: {piece:?}");
            }
        }
    }

    #[test]
    fn rows_of_one_character_have_few_tokens() {
        let vocabulary = Vocabulary::unpack(CL100K_TABLE).unwrap();
        let mut merger = Merger::new(&vocabulary);
        assert_eq!(merger.count(&[b'a'; 1_000_000]), 125_000);
        assert_eq!(merger.count(&[b' '; 1_000_000]), 7_813);
        assert_eq!(merger.count(b""), 0);
    }
}
