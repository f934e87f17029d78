//! The one pass over a text: trigger literals, detectors and matches. The result is the union of the matches of each
//! rule alone, so neither the order of the rules nor the arrival of the text in pieces matters.

use std::collections::BTreeMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, Input, MatchKind};

use super::assignment::Expected;
use super::continuation::Continuation;
use super::custom::AllowList;
use super::names::NAMES;
use super::personal;
use super::rule::Rule;
use super::shape::{SHAPES, Shape};
use super::token::{TOKENS, Token};
use super::window::{Hit, Runs, TextWindow};

/// Most bytes of a value that are checked for its name. A secret that reaches this limit extends to the end of the
/// value.
const LONGEST_VALUE: usize = 3072;

/// A range to mask, in offsets of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The continuation after `end`, while its end is unknown.
    pub(super) continuation: Option<Continuation>,
    pub(super) rule: Rule,
}

#[derive(Debug, Clone, Copy)]
enum Detector {
    Token(&'static Token),
    Shape(Shape),
    Name(Rule, Expected, &'static str),
}

impl Detector {
    fn rule(&self) -> Rule {
        match self {
            Self::Token(token) => token.rule,
            Self::Shape((rule, ..)) | Self::Name(rule, ..) => *rule,
        }
    }

    fn detect(&self, window: &TextWindow<'_>) -> Option<Hit> {
        match self {
            Self::Token(token) => token.check(window),
            Self::Shape((_, _, detect)) => detect(window),
            Self::Name(_, expected, _) => expected.check(window),
        }
    }
}

/// The enabled rules, by their trigger literals.
#[derive(Debug)]
pub(super) struct Scanner {
    literals: AhoCorasick,
    /// For each literal, the detectors with the length of their own literal.
    detectors: Vec<Vec<(usize, Detector)>>,
    longest: usize,
}

impl Scanner {
    /// Creates a scanner for the enabled rules.
    pub(super) fn new(is_on: impl Fn(Rule) -> bool) -> Result<Self, BuildError> {
        let tokens = TOKENS.iter().map(|token| (token.prefix, Detector::Token(token)));
        let shapes = SHAPES.iter().copied().chain(personal::shapes());
        let shapes = shapes.map(|shape| (shape.1, Detector::Shape(shape)));
        let names = NAMES.iter().flat_map(|(rule, expected, names)| {
            names.iter().map(|name| (*name, Detector::Name(*rule, *expected, name)))
        });
        let mut by_literal = BTreeMap::<&str, Vec<Detector>>::new();
        for (literal, check) in tokens.chain(shapes).chain(names).filter(|(_, check)| is_on(check.rule())) {
            by_literal.entry(literal).or_default().push(check);
        }
        // The automaton reports only the longest literal at a position, so it includes the detectors of its prefixes.
        let answered_by = |literal: &str| {
            let shorter = by_literal.iter().filter(|(own, _)| literal.starts_with(**own));
            shorter.flat_map(|(own, checks)| checks.iter().map(|check| (own.len(), *check))).collect()
        };
        let detectors = by_literal.keys().map(|literal| answered_by(literal)).collect();
        // The automaton has a few hundred states, and takes one step per byte.
        let literals = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .match_kind(MatchKind::LeftmostLongest)
            .build(by_literal.keys())?;
        let longest = by_literal.keys().map(|literal| literal.len()).max().unwrap_or(0);
        Ok(Self { literals, detectors, longest })
    }

    /// Returns whether a text has a trigger literal.
    pub(super) fn has_literal(&self, text: &[u8]) -> bool {
        self.literals.is_match(text)
    }

    /// Returns the part of a value that is secret because of its name, with the rule.
    pub(super) fn assigned(&self, name: &str, value: &str) -> Option<(Rule, Range<usize>)> {
        if !self.literals.is_match(name) {
            return None;
        }
        let seen = &value[..value.floor_char_boundary(LONGEST_VALUE)];
        // The form of the value in a text, where a quote would end it.
        let text = format!("{name}\": \"{}\"", seen.replace(['"', '\\'], "'"));
        let start = text.len() - seen.len() - 1;
        let (bytes, runs) = (text.as_bytes(), &Runs::default());
        let window = TextWindow { bytes, offset: 0, runs, at: 0, after: name.len(), has_more: false };
        self.detectors.iter().flatten().find_map(|(_, check)| match check {
            Detector::Name(rule, expected, literal) if name.ends_with(literal) => {
                let hit = expected.check(&window)?;
                let end = hit.end.min(text.len() - 1) - start;
                let end = if end == seen.len() { value.len() } else { end };
                Some((*rule, hit.start.checked_sub(start)?..end))
            }
            Detector::Name(..) | Detector::Token(_) | Detector::Shape(_) => None,
        })
    }

    /// Adds the matches at literals that begin in `from..to`.
    pub(super) fn find(&self, text: &[u8], from: usize, to: usize, allow: &AllowList, spans: &mut Vec<Span>) {
        let end = text.len().min(to.saturating_add(self.longest));
        let (runs, mut at) = (Runs::default(), from);
        while at < to {
            let Some(found) = self.literals.find(Input::new(text).range(at..end)) else { return };
            if found.start() >= to {
                return;
            }
            for (len, check) in &self.detectors[found.pattern().as_usize()] {
                let window = TextWindow::around(text, &runs, found.start(), found.start() + len);
                let Some(hit) = check.detect(&window) else { continue };
                let span = Span {
                    start: window.offset + hit.start,
                    end: window.offset + hit.end,
                    continuation: hit.continuation,
                    rule: check.rule(),
                };
                if span.continuation.is_some() || !allow.has(&text[span.start..span.end]) {
                    spans.push(span);
                }
            }
            at = found.start() + 1;
        }
    }
}
