//! Masking of bytes that arrive in pieces. Whatever the pieces, the result is that of masking the whole, and no more than a
//! window and one piece is held.

use super::custom::Lines;
use super::scan::Span;
use super::window::{AHEAD, BEHIND};
use super::{Found, Masker};

/// Bytes are looked at when so many are there, so that small pieces do not make the same ones be looked at again and again.
const ENOUGH: usize = 4 * AHEAD;

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
        self.held.extend_from_slice(chunk);
        if self.held.len() - self.scanned >= ENOUGH {
            self.advance(false, out);
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
        for span in &mut self.spans {
            if let Some(tail) = span.tail {
                let (end, ended) = tail.follow(&self.held, span.end, whole);
                span.end = end;
                span.tail = (!ended).then_some(tail);
            }
        }
        self.spans.sort_unstable_by_key(|span| (span.start, span.rule));
        let mut kept: Vec<Span> = Vec::with_capacity(self.spans.len());
        for span in self.spans.drain(..) {
            let same = |other: &Span| span.tail.is_some() && (other.end, other.tail) == (span.end, span.tail);
            if !kept.iter().any(same) {
                kept.push(span);
            }
        }
        self.spans = kept;
    }

    /// Lets go what no later find can change: nothing that a rule could still look back at, nor what something that goes on
    /// may yet reach.
    fn write(&mut self, whole: bool, out: &mut Vec<u8>) {
        let mut safe = if whole { self.held.len() } else { self.scanned.saturating_sub(BEHIND) };
        for span in self.spans.iter().filter(|span| span.tail.is_some()) {
            safe = safe.min(span.end);
        }
        let mut later = Vec::new();
        for mut span in std::mem::take(&mut self.spans) {
            if span.start >= safe {
                later.push(span);
                continue;
            }
            if !span.labelled && span.start >= self.masked_to {
                out.extend_from_slice(&self.held[self.let_go..span.start]);
                out.extend_from_slice(span.rule.label().as_bytes());
                self.found.add(span.rule.name());
            }
            self.masked_to = self.masked_to.max(span.end);
            self.let_go = self.let_go.max(span.end);
            if span.tail.is_some() {
                span.labelled = true;
                later.push(span);
            }
        }
        self.spans = later;
        if self.let_go < safe {
            out.extend_from_slice(&self.held[self.let_go..safe]);
            self.let_go = safe;
        }
    }

    /// Drops what nobody looks at again.
    fn forget(&mut self) {
        let mut gone = self.scanned.saturating_sub(BEHIND).min(self.let_go);
        for span in &self.spans {
            // What goes on is told from the byte before.
            gone = gone.min(if span.labelled { span.end.saturating_sub(1) } else { span.start });
        }
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
