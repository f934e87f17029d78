//! How a secret goes on behind what a rule could see: a run of characters to its end, or a private key to its last line.

use std::collections::HashMap;

use super::scan::Span;
use super::window::Class;

/// How far a private key is looked ahead in, from where it is known to reach.
const LOOK: usize = 256;

/// Bytes between two pieces of a private key: ends of lines, line numbers, quotes, headers.
const GAP: usize = 160;

/// Characters in a row that are a piece of a key wherever they stand.
const PIECE: usize = 16;

/// Blanks that a line of a key may begin with.
const INDENT: usize = 64;

/// Longest line that ends a key.
const FOOTER: usize = 64;

/// What goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Tail {
    /// All characters of a class that follow.
    Run(Class),
    /// Lines of base64, up to the line that ends them or to where there are no more.
    Key,
}

/// What is known about a tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It reaches at least to here.
    To(usize),
    /// It ends here.
    Ends(usize),
    /// More of the text has to be seen.
    More,
}

impl Tail {
    /// Where something that is known to reach to `end` goes on to. With `whole`, nothing follows `text`.
    pub(super) fn step(self, text: &[u8], end: usize, whole: bool) -> Step {
        match self {
            Self::Run(class) => {
                let len = text[end..].iter().take_while(|byte| class.has(**byte)).count();
                match end + len {
                    to if to < text.len() || whole => Step::Ends(to),
                    to if to > end => Step::To(to),
                    _ => Step::More,
                }
            }
            Self::Key => key(text, end, whole),
        }
    }

    /// Follows it as far as the text goes.
    fn follow(self, text: &[u8], from: usize, whole: bool) -> Followed {
        let mut reached = from;
        loop {
            match self.step(text, reached, whole) {
                Step::To(to) => reached = to,
                Step::Ends(end) => {
                    // The line that ends a key may also be one that announces the next.
                    let reached = if self == Self::Key { reached } else { end };
                    return Followed { from, reached, end, ended: true };
                }
                Step::More => return Followed { from, reached, end: reached, ended: false },
            }
        }
    }
}

/// A tail that was followed.
#[derive(Debug, Clone, Copy)]
struct Followed {
    /// From here it went on, and whoever comes to it up to `reached` goes the same way.
    from: usize,
    reached: usize,
    /// Where it reaches to, and whether it ends there.
    end: usize,
    ended: bool,
}

/// Follows what goes on in spans, as far as the text goes. Many may lie in one run, and it is followed once: of each kind of tail
/// the last is remembered, which all that begin in it share.
pub(super) fn follow(spans: &mut [Span], text: &[u8], whole: bool) {
    let mut last = HashMap::<Tail, Followed>::new();
    spans.sort_unstable_by_key(|span| (span.end, span.start, span.rule));
    for span in spans.iter_mut() {
        let Some(tail) = span.tail else { continue };
        let known = last.get(&tail).filter(|known| (known.from..=known.reached).contains(&span.end));
        let followed = known.copied().unwrap_or_else(|| tail.follow(text, span.end, whole));
        last.insert(tail, followed);
        span.end = followed.end;
        span.tail = (!followed.ended).then_some(tail);
    }
    spans.sort_unstable_by_key(|span| (span.start, span.rule));
}

/// Every decision is made on [`LOOK`] bytes, or on all that are left, so it does not matter how many are there already.
fn key(text: &[u8], end: usize, whole: bool) -> Step {
    let ahead = &text[end..text.len().min(end + LOOK)];
    if ahead.len() < LOOK && !whole {
        return Step::More;
    }
    let run = |from: usize| ahead[from..].iter().take_while(|byte| Class::Base64.has(**byte)).count();
    if end > 0 && Class::Base64.has(text[end - 1]) && run(0) > 0 {
        return Step::To(end + run(0));
    }
    let mut at = 0;
    while at < ahead.len().min(GAP) {
        if ahead[at..].starts_with(b"-----END") || ahead[at..].starts_with(b"---- END") {
            return Step::Ends(end + at + footer(&ahead[at..]));
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
            return Step::To(end + at + len);
        }
        at += len;
    }
    Step::Ends(end)
}

/// The length of the line that ends a key: to the dashes behind its words.
fn footer(line: &[u8]) -> usize {
    const MARK: usize = 8;
    let words = &line[MARK..line.len().min(FOOTER)];
    let dashes = words.iter().position(|byte| *byte == b'-').unwrap_or(0);
    let more = words[dashes..].iter().take(5).take_while(|byte| **byte == b'-').count();
    MARK + if more > 0 { dashes + more } else { 0 }
}

/// Whether a key begins at `end`, behind the line that announces one: there is a piece of it.
pub(super) fn key_follows(text: &[u8], end: usize) -> bool {
    matches!(key(text, end, true), Step::To(_))
}
