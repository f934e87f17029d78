//! Masking: secrets are replaced by labels before anything is written: `ghp_…` becomes `[GITHUB_TOKEN]`. Pure
//! functions from texts to texts and counts; the store decides which texts are masked. `docs/MASKING.md` lists the
//! rules.
//!
//! One pass over the text looks for literals that begin or precede a secret; a rule then checks the text around each
//! (`token.rs`, `shape.rs`, `assignment.rs`, `personal.rs`). A text without such literals costs one step per byte.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

mod assignment;
mod bytes;
mod continuation;
mod custom;
mod json;
mod names;
mod personal;
mod rule;
mod scan;
mod shape;
mod stream;
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

use custom::{AllowList, CustomRules, LineMasker};
use scan::{Scanner, Span};

/// The enabled rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSet {
    /// The enabled built-in rules.
    pub rules: Vec<Rule>,
    /// Rules of the configuration.
    pub custom: Vec<CustomRule>,
    /// Exceptions: exact texts, or patterns of the whole text between slashes.
    pub allow: Vec<String>,
}

impl Default for RuleSet {
    /// Enables all built-in rules except those for personal data.
    fn default() -> Self {
        let rules = Rule::ALL.iter().copied().filter(|rule| !rule.is_personal()).collect();
        Self { rules, custom: Vec::new(), allow: Vec::new() }
    }
}

/// Replaces secrets. Clones share their rules.
#[derive(Debug, Clone)]
pub struct Masker(Option<Arc<Rules>>);

#[derive(Debug)]
struct Rules {
    scanner: Scanner,
    custom: Option<CustomRules>,
    allow: AllowList,
}

impl Masker {
    /// Creates a masker that changes nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Creates a masker with these rules. Patterns must have passed [`check_pattern`]; together they may still be too
    /// large.
    pub fn new(set: &RuleSet) -> Result<Self, PatternError> {
        let custom = CustomRules::new(&set.custom)?;
        let allow = AllowList::new(set.allow.iter().map(String::as_str))?;
        let scanner = Scanner::new(|rule| set.rules.contains(&rule)).map_err(|_| PatternError::TooLarge)?;
        Ok(Self(Some(Arc::new(Rules { scanner, custom, allow }))))
    }

    /// Returns the masker with all rules except those for personal data.
    #[expect(clippy::expect_used, reason = "a program that cannot mask must not run")]
    pub fn standard() -> Self {
        static STANDARD: OnceLock<Masker> = OnceLock::new();
        STANDARD.get_or_init(|| Self::new(&RuleSet::default()).expect("the built-in rules compile")).clone()
    }

    /// Returns whether the masker changes nothing.
    pub fn is_off(&self) -> bool {
        self.0.is_none()
    }

    fn rules(&self) -> Option<&Rules> {
        self.0.as_deref()
    }

    /// Returns the text with its secrets replaced, or the text itself without secrets. Counts them in `found`.
    pub fn text<'a>(&self, text: &'a str, found: &mut MaskCounts) -> Cow<'a, str> {
        let Some(rules) = self.rules() else { return Cow::Borrowed(text) };
        let masked = rules.built_in(text, found);
        let Some(custom) = &rules.custom else { return masked };
        let (mut out, mut more) = (Vec::with_capacity(masked.len()), MaskCounts::default());
        LineMasker::default().push(custom, &rules.allow, masked.as_bytes(), true, &mut out, &mut more);
        if more.is_empty() {
            return masked;
        }
        found.merge(&more);
        Cow::Owned(into_text(out))
    }

    /// Returns the secrets of a text, in order.
    pub fn locate(&self, text: &str) -> Vec<SecretLocation> {
        let Some(rules) = self.rules() else { return Vec::new() };
        let bytes = text.as_bytes();
        let regions = rules.regions(bytes);
        let is_masked = |at: usize| {
            let next = regions.partition_point(|region| region.start <= at);
            next > 0 && at < regions[next - 1].end
        };
        let custom = rules.custom.as_ref().map_or_else(Vec::new, |custom| custom.locate(bytes, &rules.allow));
        let mut locations: Vec<SecretLocation> =
            custom.into_iter().filter(|found| !is_masked(found.start)).collect();
        let built_in =
            |region: &Span| SecretLocation { start: region.start, rule: region.rule.name().to_owned() };
        locations.extend(regions.iter().map(built_in));
        locations.sort_by_key(|location| location.start);
        locations
    }

    /// Masks a value that is secret because of its name, such as a field `password`; returns `None` without a secret.
    fn assigned(&self, name: &str, value: &str, found: &mut MaskCounts) -> Option<String> {
        let rules = self.rules()?;
        let (rule, secret) = rules.scanner.assigned(name, value)?;
        let (before, after) = (value.get(..secret.start)?, value.get(secret.end..)?);
        if rules.allow.has(value.get(secret)?.as_bytes()) {
            return None;
        }
        found.add(rule.name());
        Some(format!("{before}{}{after}", rule.label()))
    }

    /// Starts a stream of text.
    pub fn stream(&self) -> MaskStream {
        MaskStream::new(self.clone())
    }
}

/// The location of a secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretLocation {
    /// The start offset, in bytes.
    pub start: usize,
    /// The name of the rule.
    pub rule: String,
}

impl Rules {
    fn built_in<'a>(&self, text: &'a str, found: &mut MaskCounts) -> Cow<'a, str> {
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

    /// Returns the matches of the built-in rules, in order. Overlapping matches are merged under the rule of the
    /// first.
    fn regions(&self, bytes: &[u8]) -> Vec<Span> {
        let mut spans = Vec::new();
        self.scanner.find(bytes, 0, bytes.len(), &self.allow, &mut spans);
        continuation::extend_spans(&mut spans, bytes, true);
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

/// Masked ranges begin and end at character boundaries, so the lossy conversion never replaces anything.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The number of masked secrets, by name of the rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MaskCounts(BTreeMap<Cow<'static, str>, u64>);

impl MaskCounts {
    fn add(&mut self, rule: &'static str) {
        *self.0.entry(Cow::Borrowed(rule)).or_default() += 1;
    }

    fn add_custom(&mut self, rule: &str) {
        *self.0.entry(Cow::Owned(rule.to_owned())).or_default() += 1;
    }

    /// Adds the counts of another text.
    pub fn merge(&mut self, other: &Self) {
        for (rule, count) in &other.0 {
            *self.0.entry(rule.clone()).or_default() += count;
        }
    }

    /// Returns whether nothing was masked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the rules with their counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(rule, count)| (rule.as_ref(), *count))
    }
}
