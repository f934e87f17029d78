//! Secrets are replaced by what they are before anything is written: `ghp_…` becomes `[GITHUB_TOKEN]`. Pure: a text goes in,
//! a text and what was found come out; where texts enter is the store's business. The rules are `docs/MASKING.md`.
//!
//! One pass over the text looks for literals that a secret begins with or stands behind; a rule then looks at the place
//! (`token.rs`, `shape.rs`, `assigned.rs`, `personal.rs`). A text without such literals costs one step per byte.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

mod assigned;
mod bytes;
mod custom;
mod json;
mod names;
mod personal;
mod rule;
mod scan;
mod shape;
mod stream;
mod tail;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_cost;
#[cfg(test)]
mod tests_forms;
mod token;
mod value;
mod window;

pub use bytes::MaskBytes;
pub use custom::{CustomRule, LONGEST_MATCH, PatternError, allowed_pattern, check_pattern};
pub use json::Fields;
pub use rule::Rule;
pub use stream::MaskStream;

use custom::{Allow, Custom, Lines};
use scan::{Scanner, Span};

/// Which rules are in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    /// The built-in rules that are on.
    pub rules: Vec<Rule>,
    /// Rules of the configuration.
    pub custom: Vec<CustomRule>,
    /// What is never masked: texts, or patterns of the whole text between slashes.
    pub allow: Vec<String>,
}

impl Default for RuleSet {
    /// All rules but those about people.
    fn default() -> Self {
        let rules = Rule::ALL.iter().copied().filter(|rule| !rule.is_personal()).collect();
        Self { rules, custom: Vec::new(), allow: Vec::new() }
    }
}

/// Replaces secrets. A clone is the same one.
#[derive(Debug, Clone)]
pub struct Masker(Option<Arc<Rules>>);

#[derive(Debug)]
struct Rules {
    scanner: Scanner,
    custom: Option<Custom>,
    allow: Allow,
}

impl Masker {
    /// One that leaves everything as it is.
    pub fn off() -> Self {
        Self(None)
    }

    /// One with these rules. Patterns must have passed [`check_pattern`]; all of them together may still be too large.
    pub fn new(set: &RuleSet) -> Result<Self, PatternError> {
        let custom = Custom::new(&set.custom)?;
        let allow = Allow::new(set.allow.iter().map(String::as_str))?;
        let scanner = Scanner::new(|rule| set.rules.contains(&rule)).map_err(|_| PatternError::TooLarge)?;
        Ok(Self(Some(Arc::new(Rules { scanner, custom, allow }))))
    }

    /// One with all rules but those about people.
    #[expect(clippy::expect_used, reason = "a program that cannot mask must not run")]
    pub fn standard() -> Self {
        static STANDARD: OnceLock<Masker> = OnceLock::new();
        STANDARD.get_or_init(|| Self::new(&RuleSet::default()).expect("the built-in rules compile")).clone()
    }

    /// Whether it leaves everything as it is.
    pub fn is_off(&self) -> bool {
        self.0.is_none()
    }

    fn rules(&self) -> Option<&Rules> {
        self.0.as_deref()
    }

    /// The text with secrets replaced; the text itself if there are none. `found` counts them.
    pub fn text<'a>(&self, text: &'a str, found: &mut Found) -> Cow<'a, str> {
        let Some(rules) = self.rules() else { return Cow::Borrowed(text) };
        let masked = rules.built_in(text, found);
        let Some(custom) = &rules.custom else { return masked };
        let (mut out, mut more) = (Vec::with_capacity(masked.len()), Found::default());
        Lines::default().push(custom, &rules.allow, masked.as_bytes(), true, &mut out, &mut more);
        if more.is_empty() {
            return masked;
        }
        found.merge(&more);
        Cow::Owned(into_text(out))
    }

    /// What would be masked in a text, in order.
    pub fn findings(&self, text: &str) -> Vec<Finding> {
        let Some(rules) = self.rules() else { return Vec::new() };
        let bytes = text.as_bytes();
        let regions = rules.regions(bytes);
        let is_masked = |at: usize| {
            let next = regions.partition_point(|region| region.start <= at);
            next > 0 && at < regions[next - 1].end
        };
        let custom =
            rules.custom.as_ref().map_or_else(Vec::new, |custom| custom.findings(bytes, &rules.allow));
        let mut findings: Vec<Finding> = custom.into_iter().filter(|found| !is_masked(found.start)).collect();
        let built_in = |region: &Span| Finding { start: region.start, rule: region.rule.name().to_owned() };
        findings.extend(regions.iter().map(built_in));
        findings.sort_by_key(|finding| finding.start);
        findings
    }

    /// A value with what is secret because of its name replaced, as in a field `password`; none if there is nothing.
    fn assigned(&self, name: &str, value: &str, found: &mut Found) -> Option<String> {
        let rules = self.rules()?;
        let (rule, secret) = rules.scanner.assigned(name, value)?;
        let (before, after) = (value.get(..secret.start)?, value.get(secret.end..)?);
        if rules.allow.has(value.get(secret)?.as_bytes()) {
            return None;
        }
        found.add(rule.name());
        Some(format!("{before}{}{after}", rule.label()))
    }

    /// A text that arrives in pieces.
    pub fn stream(&self) -> MaskStream {
        MaskStream::new(self.clone())
    }
}

/// A place in a text that would be masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where it begins, in bytes.
    pub start: usize,
    /// By which rule.
    pub rule: String,
}

impl Rules {
    fn built_in<'a>(&self, text: &'a str, found: &mut Found) -> Cow<'a, str> {
        let bytes = text.as_bytes();
        let regions = self.regions(bytes);
        if regions.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
        for Span { start, end, rule, .. } in regions {
            out.extend_from_slice(&bytes[at..start]);
            out.extend_from_slice(rule.label().as_bytes());
            found.add(rule.name());
            at = end;
        }
        out.extend_from_slice(&bytes[at..]);
        Cow::Owned(into_text(out))
    }

    /// What the built-in rules find, in order. What overlaps is one, and has the name of what begins first.
    fn regions(&self, bytes: &[u8]) -> Vec<Span> {
        let mut spans = Vec::new();
        self.scanner.find(bytes, 0, bytes.len(), &self.allow, &mut spans);
        tail::follow(&mut spans, bytes, true);
        let mut regions: Vec<Span> = Vec::new();
        for span in spans {
            match regions.last_mut() {
                Some(last) if span.start < last.end => last.end = last.end.max(span.end),
                _ => regions.push(span),
            }
        }
        regions
    }
}

/// What is masked begins and ends at ASCII or at whole characters, so this never has to replace anything.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// What was masked: how often, by the name of the rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found(BTreeMap<Cow<'static, str>, u64>);

impl Found {
    fn add(&mut self, rule: &'static str) {
        *self.0.entry(Cow::Borrowed(rule)).or_default() += 1;
    }

    fn add_custom(&mut self, rule: &str) {
        *self.0.entry(Cow::Owned(rule.to_owned())).or_default() += 1;
    }

    /// Adds what was found elsewhere.
    pub fn merge(&mut self, other: &Self) {
        for (rule, count) in &other.0 {
            *self.0.entry(rule.clone()).or_default() += count;
        }
    }

    /// Whether nothing was masked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Rules and how often each was met, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(rule, count)| (rule.as_ref(), *count))
    }
}
