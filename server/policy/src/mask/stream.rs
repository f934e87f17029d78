//! Masking of bytes that arrive in pieces. Whatever the pieces, the result is that of masking the whole, and no more than a
//! window and one piece is held.

use std::collections::HashSet;

use super::custom::Lines;
use super::scan::Span;
use super::window::{AHEAD, BEHIND};
use super::{Found, Masker, tail};

/// Bytes are looked at when so many are there, so that small pieces do not make the same ones be looked at again and again.
const ENOUGH: usize = 4 * AHEAD;

/// No more are looked at in one go, so that what is found and held stays small.
const AT_ONCE: usize = 64 * 1024;

/// A text on its way through a [`Masker`].
#[derive(Debug)]
pub struct MaskStream {
    masker: Masker,
    /// What was not let go yet, and as much before it as rules look back.
    pub(super) held: Vec<u8>,
    /// Up to here literals were looked for, and up to here `held` was let go.
    scanned: usize,
    let_go: usize,
    /// Up to here the text is masked, under a label that was written.
    masked_to: usize,
    /// What was found and not passed yet, or goes on.
    spans: Vec<Span>,
    lines: Lines,
    found: Found,
}

impl MaskStream {
    pub(super) fn new(masker: Masker) -> Self {
        Self {
            masker,
            held: Vec::new(),
            scanned: 0,
            let_go: 0,
            masked_to: 0,
            spans: Vec::new(),
            lines: Lines::default(),
            found: Found::default(),
        }
    }

    /// Takes the next piece; `out` gets what is certain by now.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        if self.masker.rules().is_none() {
            out.extend_from_slice(chunk);
            return;
        }
        for piece in chunk.chunks(AT_ONCE) {
            self.held.extend_from_slice(piece);
            if self.held.len() - self.scanned >= ENOUGH {
                self.advance(false, out);
            }
        }
    }

    /// Ends the text; `out` gets the rest. Answers what was masked.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Found {
        self.advance(true, out);
        self.found
    }

    fn advance(&mut self, whole: bool, out: &mut Vec<u8>) {
        let masker = self.masker.clone();
        let Some(rules) = masker.rules() else { return };
        let to = if whole { self.held.len() } else { self.held.len() - AHEAD };
        rules.scanner.find(&self.held, self.scanned, to, &rules.allow, &mut self.spans);
        self.scanned = to;
        self.follow(whole);
        match &rules.custom {
            None => self.write(whole, out),
            Some(custom) => {
                let mut masked = Vec::new();
                self.write(whole, &mut masked);
                self.lines.push(custom, &rules.allow, &masked, whole, out, &mut self.found);
            }
        }
        self.forget();
    }

    /// Follows what goes on as far as the text is there. Of two that reach equally far in the same way one is enough.
    fn follow(&mut self, whole: bool) {
        tail::follow(&mut self.spans, &self.held, whole);
        let mut going_on = HashSet::new();
        self.spans.retain(|span| span.tail.is_none_or(|tail| going_on.insert((span.end, tail))));
    }

    /// Lets go what no later find can change: what no rule can look back at any more. What goes on was followed further than
    /// that, to near the end of what is held.
    fn write(&mut self, whole: bool, out: &mut Vec<u8>) {
        let safe = if whole { self.held.len() } else { self.scanned.saturating_sub(BEHIND) };
        let mut later = Vec::new();
        for span in std::mem::take(&mut self.spans) {
            if span.start >= safe {
                later.push(span);
                continue;
            }
            if span.start >= self.masked_to {
                out.extend_from_slice(&self.held[self.let_go..span.start]);
                out.extend_from_slice(span.rule.label().as_bytes());
                self.found.add(span.rule.name());
            }
            self.masked_to = self.masked_to.max(span.end);
            self.let_go = self.let_go.max(span.end);
            if span.tail.is_some() {
                later.push(span);
            }
        }
        self.spans = later;
        if self.let_go < safe {
            out.extend_from_slice(&self.held[self.let_go..safe]);
            self.let_go = safe;
        }
    }

    /// Drops what was let go and nobody looks back at.
    fn forget(&mut self) {
        let gone = self.scanned.saturating_sub(BEHIND);
        self.held.drain(..gone);
        self.scanned -= gone;
        self.let_go -= gone;
        self.masked_to = self.masked_to.saturating_sub(gone);
        for span in &mut self.spans {
            span.start = span.start.saturating_sub(gone);
            span.end -= gone;
        }
    }
}
