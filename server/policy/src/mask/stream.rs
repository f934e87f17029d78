//! Masking of text that arrives in pieces. The result is that of masking the whole text, whatever the pieces, and at
//! most a window and one piece are in memory.

use std::collections::HashSet;

use super::custom::LineMasker;
use super::scan::Span;
use super::window::{AHEAD, BEHIND};
use super::{MaskCounts, Masker, continuation};

/// Fewest new bytes of a scan, so that small pieces do not cause repeated scans of the same bytes.
const MIN_SCAN: usize = 4 * AHEAD;

/// Most bytes of one scan, which bounds the memory for text and matches.
const MAX_SCAN: usize = 64 * 1024;

/// A stream of text through a [`Masker`].
#[derive(Debug)]
pub struct MaskStream {
    masker: Masker,
    /// The text that is not released yet, and as much before it as rules look back.
    pub(super) held: Vec<u8>,
    /// End of the scanned text, and end of the released text.
    scanned: usize,
    released: usize,
    /// End of the masked text, whose label is written already.
    masked_to: usize,
    /// Matches that are not released yet, or that continue.
    spans: Vec<Span>,
    lines: LineMasker,
    found: MaskCounts,
}

impl MaskStream {
    pub(super) fn new(masker: Masker) -> Self {
        Self {
            masker,
            held: Vec::new(),
            scanned: 0,
            released: 0,
            masked_to: 0,
            spans: Vec::new(),
            lines: LineMasker::default(),
            found: MaskCounts::default(),
        }
    }

    /// Takes the next piece; appends to `out` what is final by now.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        if self.masker.rules().is_none() {
            out.extend_from_slice(chunk);
            return;
        }
        for piece in chunk.chunks(MAX_SCAN) {
            self.held.extend_from_slice(piece);
            if self.held.len() - self.scanned >= MIN_SCAN {
                self.advance(false, out);
            }
        }
    }

    /// Ends the text; appends the rest to `out`. Returns what was masked.
    pub fn finish(mut self, out: &mut Vec<u8>) -> MaskCounts {
        self.advance(true, out);
        self.found
    }

    fn advance(&mut self, whole: bool, out: &mut Vec<u8>) {
        let masker = self.masker.clone();
        let Some(rules) = masker.rules() else { return };
        let to = if whole { self.held.len() } else { self.held.len() - AHEAD };
        rules.scanner.find(&self.held, self.scanned, to, &rules.allow, &mut self.spans);
        self.scanned = to;
        self.extend_spans(whole);
        match &rules.custom {
            None => self.write(whole, out),
            Some(custom) => {
                let mut masked = Vec::new();
                self.write(whole, &mut masked);
                self.lines.push(custom, &rules.allow, &masked, whole, out, &mut self.found);
            }
        }
        self.discard();
    }

    /// Extends continued matches as far as the text goes. Of matches with the same end and continuation one suffices.
    fn extend_spans(&mut self, whole: bool) {
        continuation::extend_spans(&mut self.spans, &self.held, whole);
        let mut continued = HashSet::new();
        self.spans.retain(|span| {
            span.continuation.is_none_or(|continuation| continued.insert((span.end, continuation)))
        });
    }

    /// Releases the text that no later match can change, because no rule looks back so far. Continued matches were
    /// extended further than that, to near the end of the text.
    fn write(&mut self, whole: bool, out: &mut Vec<u8>) {
        let safe = if whole { self.held.len() } else { self.scanned.saturating_sub(BEHIND) };
        let mut later = Vec::new();
        for span in std::mem::take(&mut self.spans) {
            if span.start >= safe {
                later.push(span);
                continue;
            }
            if span.start >= self.masked_to {
                out.extend_from_slice(&self.held[self.released..span.start]);
                out.extend_from_slice(span.rule.label().as_bytes());
                self.found.add(span.rule.name());
            }
            self.masked_to = self.masked_to.max(span.end);
            self.released = self.released.max(span.end);
            if span.continuation.is_some() {
                later.push(span);
            }
        }
        self.spans = later;
        if self.released < safe {
            out.extend_from_slice(&self.held[self.released..safe]);
            self.released = safe;
        }
    }

    /// Drops released text that no rule looks back at.
    fn discard(&mut self) {
        let gone = self.scanned.saturating_sub(BEHIND);
        self.held.drain(..gone);
        self.scanned -= gone;
        self.released -= gone;
        self.masked_to = self.masked_to.saturating_sub(gone);
        for span in &mut self.spans {
            span.start = span.start.saturating_sub(gone);
            span.end -= gone;
        }
    }
}
