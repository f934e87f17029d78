//! Continuations of secrets beyond the window of a rule: a run of characters to its end, or a private key to its last
//! line.

use std::collections::HashMap;

use super::scan::Span;
use super::window::CharClass;

/// Bytes of lookahead in a private key, from its known end.
const LOOKAHEAD: usize = 256;

/// Most bytes between two pieces of a private key: line ends, line numbers, quotes, headers.
const GAP: usize = 160;

/// Fewest consecutive characters that are a piece of a key at any position.
const PIECE: usize = 16;

/// Most blanks before a line of a key.
const INDENT: usize = 64;

/// Longest line that ends a key.
const FOOTER: usize = 64;

/// The way in which a secret continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Continuation {
    /// All characters of a class that follow.
    Run(CharClass),
    /// Lines of base64, up to the last line of the key or the last piece.
    Key,
}

/// The known end of a continuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// It extends at least to this offset.
    AtLeast(usize),
    /// It ends at this offset.
    Exactly(usize),
    /// More of the text is needed.
    NeedsMore,
}

impl Continuation {
    /// Extends a secret that is known to reach to `end`. With `whole`, the text ends after `text`.
    pub(super) fn extend(self, text: &[u8], end: usize, whole: bool) -> Extent {
        match self {
            Self::Run(class) => {
                let len = text[end..].iter().take_while(|byte| class.has(**byte)).count();
                match end + len {
                    to if to < text.len() || whole => Extent::Exactly(to),
                    to if to > end => Extent::AtLeast(to),
                    _ => Extent::NeedsMore,
                }
            }
            Self::Key => key(text, end, whole),
        }
    }

    /// Extends a secret as far as the text goes.
    fn follow(self, text: &[u8], from: usize, whole: bool) -> Extension {
        let mut reached = from;
        loop {
            match self.extend(text, reached, whole) {
                Extent::AtLeast(to) => reached = to,
                Extent::Exactly(end) => {
                    // The last line of a key may also be the first line of the next.
                    let reached = if self == Self::Key { reached } else { end };
                    return Extension { from, reached, end, ended: true };
                }
                Extent::NeedsMore => return Extension { from, reached, end: reached, ended: false },
            }
        }
    }
}

/// A continuation that was followed through the text.
#[derive(Debug, Clone, Copy)]
struct Extension {
    /// The range in which all continuations of the same kind have the same end.
    from: usize,
    reached: usize,
    /// The end, and whether it is final.
    end: usize,
    ended: bool,
}

/// Extends the continued spans as far as the text goes. Many spans may lie in one run, which is followed once: the
/// last continuation of each kind is kept, and all spans that end in its range share its end.
pub(super) fn extend_spans(spans: &mut [Span], text: &[u8], whole: bool) {
    let mut last = HashMap::<Continuation, Extension>::new();
    spans.sort_unstable_by_key(|span| (span.end, span.start, span.rule));
    for span in spans.iter_mut() {
        let Some(continuation) = span.continuation else { continue };
        let known = last.get(&continuation).filter(|known| (known.from..=known.reached).contains(&span.end));
        let extension = known.copied().unwrap_or_else(|| continuation.follow(text, span.end, whole));
        last.insert(continuation, extension);
        span.end = extension.end;
        span.continuation = (!extension.ended).then_some(continuation);
    }
    spans.sort_unstable_by_key(|span| (span.start, span.rule));
}

/// Each decision depends on [`LOOKAHEAD`] bytes, or on all that are left, so the bytes already read do not matter.
fn key(text: &[u8], end: usize, whole: bool) -> Extent {
    let ahead = &text[end..text.len().min(end + LOOKAHEAD)];
    if ahead.len() < LOOKAHEAD && !whole {
        return Extent::NeedsMore;
    }
    let run = |from: usize| ahead[from..].iter().take_while(|byte| CharClass::Base64.has(**byte)).count();
    if end > 0 && CharClass::Base64.has(text[end - 1]) && run(0) > 0 {
        return Extent::AtLeast(end + run(0));
    }
    let mut at = 0;
    while at < ahead.len().min(GAP) {
        if ahead[at..].starts_with(b"-----END") || ahead[at..].starts_with(b"---- END") {
            return Extent::Exactly(end + at + footer(&ahead[at..]));
        }
        let len = run(at);
        if len == 0 {
            at += 1;
            continue;
        }
        let before = &text[..end + at];
        let blanks = before.iter().rev().take(INDENT).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let is_line = before[..before.len() - blanks].last() == Some(&b'\n')
            && match ahead.get(at + len) {
                Some(next) => matches!(next, b'\n' | b'\r'),
                None => whole,
            };
        if len >= PIECE || is_line {
            return Extent::AtLeast(end + at + len);
        }
        at += len;
    }
    Extent::Exactly(end)
}

/// Returns the length of the last line of a key, up to the dashes after its words.
fn footer(line: &[u8]) -> usize {
    const MARK: usize = 8;
    let words = &line[MARK..line.len().min(FOOTER)];
    let dashes = words.iter().position(|byte| *byte == b'-').unwrap_or(0);
    let more = words[dashes..].iter().take(5).take_while(|byte| **byte == b'-').count();
    MARK + if more > 0 { dashes + more } else { 0 }
}

/// Returns whether a piece of a key follows `end`, the end of its header line.
pub(super) fn key_follows(text: &[u8], end: usize) -> bool {
    matches!(key(text, end, true), Extent::AtLeast(_))
}
