//! The one pass over a text: literals that make a rule look, the rules, and what they find. What is found is the union of what
//! each rule finds alone, so neither the order of the rules nor how the text arrives matters.

use std::collections::BTreeMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, Input, MatchKind};

use super::assigned::Expected;
use super::custom::Allow;
use super::names::NAMES;
use super::personal;
use super::rule::Rule;
use super::shape::{SHAPES, Shape};
use super::tail::Tail;
use super::token::{TOKENS, Token};
use super::window::{Hit, Runs, Window};

/// As much of a value is looked at for its name. What is secret to there is so to its end.
const LONGEST_VALUE: usize = 3072;

/// Something to mask, in offsets of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    /// How it goes on behind `end`, as long as that is not known.
    pub(super) tail: Option<Tail>,
    pub(super) rule: Rule,
}

#[derive(Debug, Clone, Copy)]
enum Check {
    Token(&'static Token),
    Shape(Shape),
    Name(Rule, Expected, &'static str),
}

impl Check {
    fn rule(&self) -> Rule {
        match self {
            Self::Token(token) => token.rule,
            Self::Shape((rule, ..)) | Self::Name(rule, ..) => *rule,
        }
    }

    fn look(&self, window: &Window<'_>) -> Option<Hit> {
        match self {
            Self::Token(token) => token.check(window),
            Self::Shape((_, _, look)) => look(window),
            Self::Name(_, expected, _) => expected.check(window),
        }
    }
}

/// The rules that are on, behind the literals that make them look.
#[derive(Debug)]
pub(super) struct Scanner {
    literals: AhoCorasick,
    /// For each literal what looks, and how much of the literal is its own.
    checks: Vec<Vec<(usize, Check)>>,
    longest: usize,
}

impl Scanner {
    /// A scanner for the rules that are on.
    pub(super) fn new(is_on: impl Fn(Rule) -> bool) -> Result<Self, BuildError> {
        let tokens = TOKENS.iter().map(|token| (token.prefix, Check::Token(token)));
        let shapes = SHAPES.iter().copied().chain(personal::shapes());
        let shapes = shapes.map(|shape| (shape.1, Check::Shape(shape)));
        let names = NAMES.iter().flat_map(|(rule, expected, names)| {
            names.iter().map(|name| (*name, Check::Name(*rule, *expected, name)))
        });
        let mut by_literal = BTreeMap::<&str, Vec<Check>>::new();
        for (literal, check) in tokens.chain(shapes).chain(names).filter(|(_, check)| is_on(check.rule())) {
            by_literal.entry(literal).or_default().push(check);
        }
        // Only the longest literal at a place is told, so it answers for those that it begins with.
        let answered_by = |literal: &str| {
            let shorter = by_literal.iter().filter(|(own, _)| literal.starts_with(**own));
            shorter.flat_map(|(own, checks)| checks.iter().map(|check| (own.len(), *check))).collect()
        };
        let checks = by_literal.keys().map(|literal| answered_by(literal)).collect();
        // The automaton is a few hundred states, and walks over a text at one step per byte.
        let literals = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .match_kind(MatchKind::LeftmostLongest)
            .build(by_literal.keys())?;
        let longest = by_literal.keys().map(|literal| literal.len()).max().unwrap_or(0);
        Ok(Self { literals, checks, longest })
    }

    /// Whether any rule would look.
    pub(super) fn has_literal(&self, text: &[u8]) -> bool {
        self.literals.is_match(text)
    }

    /// The part of a value that is secret because of the value's name, and the rule that says so.
    pub(super) fn assigned(&self, name: &str, value: &str) -> Option<(Rule, Range<usize>)> {
        if !self.literals.is_match(name) {
            return None;
        }
        let seen = &value[..value.floor_char_boundary(LONGEST_VALUE)];
        // As it would stand in a text. A quote would end it there.
        let text = format!("{name}\": \"{}\"", seen.replace(['"', '\\'], "'"));
        let start = text.len() - seen.len() - 1;
        let (bytes, runs) = (text.as_bytes(), &Runs::default());
        let window = Window { bytes, offset: 0, runs, at: 0, after: name.len(), goes_on: false };
        self.checks.iter().flatten().find_map(|(_, check)| match check {
            Check::Name(rule, expected, literal) if name.ends_with(literal) => {
                let hit = expected.check(&window)?;
                let end = hit.end.min(text.len() - 1) - start;
                let end = if end == seen.len() { value.len() } else { end };
                Some((*rule, hit.start.checked_sub(start)?..end))
            }
            Check::Name(..) | Check::Token(_) | Check::Shape(_) => None,
        })
    }

    /// Adds what the rules find at literals that begin in `from..to`.
    pub(super) fn find(&self, text: &[u8], from: usize, to: usize, allow: &Allow, spans: &mut Vec<Span>) {
        let end = text.len().min(to.saturating_add(self.longest));
        let (runs, mut at) = (Runs::default(), from);
        while at < to {
            let Some(found) = self.literals.find(Input::new(text).range(at..end)) else { return };
            if found.start() >= to {
                return;
            }
            for (len, check) in &self.checks[found.pattern().as_usize()] {
                let window = Window::around(text, &runs, found.start(), found.start() + len);
                let Some(hit) = check.look(&window) else { continue };
                let span = Span {
                    start: window.offset + hit.start,
                    end: window.offset + hit.end,
                    tail: hit.tail,
                    rule: check.rule(),
                };
                if span.tail.is_some() || !allow.has(&text[span.start..span.end]) {
                    spans.push(span);
                }
            }
            at = found.start() + 1;
        }
    }
}
