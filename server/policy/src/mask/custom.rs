//! Rules and exceptions of the configuration. Patterns match in linear time. Each sees one line at a time, and at
//! most [`LONGEST_LINE`] of it, so that a text gives the same result as a whole and in pieces.

use std::collections::HashSet;
use std::sync::Arc;

use regex_automata::meta::{BuildError, Regex};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use super::{MaskCounts, SecretLocation};

/// Most bytes of a line that a pattern sees at once.
const LONGEST_LINE: usize = 4096;

/// Longest match that is guaranteed to be found in a longer line.
pub const LONGEST_MATCH: usize = LONGEST_LINE / 2;

/// Bytes before the searched range that a pattern may see, for word boundaries.
const CONTEXT: usize = 4;

/// Longest pattern, in bytes.
const LONGEST_PATTERN: usize = 1024;

/// Most memory of all compiled patterns together.
const MEMORY: usize = 4 << 20;

/// A rule of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomRule {
    /// The name in answers and metrics.
    pub name: String,
    /// A regular expression.
    pub pattern: String,
    /// The replacement of a match.
    pub label: String,
}

/// An error of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern has a syntax error.
    #[error("is not a regular expression: {0}")]
    Syntax(String),
    /// The pattern matches the empty text, and so everywhere.
    #[error("matches the empty text")]
    Empty,
    /// The pattern is too long or needs too much memory.
    #[error("is too large; shorten it or reduce its repetitions")]
    TooLarge,
}

/// Validates one pattern, so that an error can name it.
pub fn check_pattern(pattern: &str) -> Result<(), PatternError> {
    if pattern.len() > LONGEST_PATTERN {
        return Err(PatternError::TooLarge);
    }
    let parsed =
        syntax::parse(pattern).map_err(|error| PatternError::Syntax(one_line(&error.to_string())))?;
    if parsed.properties().minimum_len().is_none_or(|least| least == 0) {
        return Err(PatternError::Empty);
    }
    compile(&[pattern]).map(|_| ())
}

/// Returns the last line of a parser's message: the lines before point to the position with blanks and a caret.
fn one_line(error: &str) -> String {
    let last = error.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

fn compile(patterns: &[&str]) -> Result<Regex, PatternError> {
    let config =
        Regex::config().utf8_empty(false).nfa_size_limit(Some(MEMORY)).onepass_size_limit(Some(MEMORY));
    let failed = |error: BuildError| match error.size_limit() {
        Some(_) => PatternError::TooLarge,
        None => PatternError::Syntax(error.to_string()),
    };
    Regex::builder().configure(config).build_many(patterns).map_err(failed)
}

/// The rules of the configuration, matched together.
#[derive(Debug)]
pub(super) struct CustomRules {
    regex: Regex,
    /// Names and labels, in the order of the patterns.
    rules: Vec<(Arc<str>, String)>,
}

/// A match of a pattern.
struct PatternMatch {
    start: usize,
    end: usize,
    rule: usize,
}

impl CustomRules {
    /// Compiles the rules; returns `None` if there are none.
    pub(super) fn new(rules: &[CustomRule]) -> Result<Option<Self>, PatternError> {
        if rules.is_empty() {
            return Ok(None);
        }
        let patterns: Vec<&str> = rules.iter().map(|rule| rule.pattern.as_str()).collect();
        let rules = rules.iter().map(|rule| (rule.name.as_str().into(), rule.label.clone())).collect();
        Ok(Some(Self { regex: compile(&patterns)?, rules }))
    }

    /// Searches the text from `at`, in a line that began at `line`: returns the matches, the position of the next
    /// search, and whether the line ended. Returns `None` if more of the text is needed.
    fn search(
        &self,
        text: &[u8],
        line: usize,
        at: usize,
        whole: bool,
    ) -> Option<(Vec<PatternMatch>, usize, bool)> {
        let ahead = &text[at..text.len().min(at + LONGEST_LINE)];
        let line_end = memchr::memchr(b'\n', ahead).map(|len| at + len);
        let end = match line_end {
            Some(end) => end,
            None if ahead.len() == LONGEST_LINE || whole => at + ahead.len(),
            None => return None,
        };
        // In the middle of a line only matches that begin in the first half count: the next search sees the rest
        // better.
        let cut = line_end.is_none() && ahead.len() == LONGEST_LINE;
        let to = if cut { at + LONGEST_MATCH } else { end };
        let from = line.max(at.saturating_sub(CONTEXT));
        let (seen, mut matches, mut next) = (&text[from..end], Vec::new(), at);
        while next < to {
            let Some(found) = self.regex.find(Input::new(seen).range(next - from..)) else { break };
            let (start, found_end) = (from + found.start(), from + found.end());
            if start >= to {
                break;
            }
            matches.push(PatternMatch { start, end: found_end, rule: found.pattern().as_usize() });
            next = found_end;
        }
        let next = if cut { next.max(to) } else { end + usize::from(line_end.is_some()) };
        Some((matches, next, line_end.is_some()))
    }
}

impl CustomRules {
    /// Returns the matches of the rules in a whole text.
    pub(super) fn locate(&self, text: &[u8], allow: &AllowList) -> Vec<SecretLocation> {
        let (mut found_at, mut line, mut at) = (Vec::new(), 0, 0);
        while at < text.len() {
            let Some((matches, next, ended)) = self.search(text, line, at, true) else { break };
            let matches = matches.into_iter().filter(|found| !allow.has(&text[found.start..found.end]));
            found_at.extend(matches.map(|found| SecretLocation {
                start: found.start,
                rule: self.rules[found.rule].0.to_string(),
            }));
            at = next;
            line = if ended { next } else { line };
        }
        found_at
    }
}

/// A stream of lines through the rules of the configuration.
#[derive(Debug, Default)]
pub(super) struct LineMasker {
    held: Vec<u8>,
    /// Start of the line, and start of the next search.
    line: usize,
    at: usize,
}

impl LineMasker {
    /// Takes more of the text; appends to `out` what is final by now, or everything with `whole`.
    pub(super) fn push(
        &mut self,
        custom: &CustomRules,
        allow: &AllowList,
        more: &[u8],
        whole: bool,
        out: &mut Vec<u8>,
        found: &mut MaskCounts,
    ) {
        self.held.extend_from_slice(more);
        while self.at < self.held.len() {
            let Some((matches, next, ended)) = custom.search(&self.held, self.line, self.at, whole) else {
                break;
            };
            let mut at = self.at;
            for PatternMatch { start, end, rule } in matches {
                if allow.has(&self.held[start..end]) {
                    continue;
                }
                let (name, label) = &custom.rules[rule];
                out.extend_from_slice(&self.held[at..start]);
                out.extend_from_slice(label.as_bytes());
                found.add_custom(name);
                at = end;
            }
            out.extend_from_slice(&self.held[at..next]);
            self.at = next;
            if ended {
                self.line = next;
            }
        }
        let gone = self.at.saturating_sub(CONTEXT);
        self.held.drain(..gone);
        self.at -= gone;
        self.line = self.line.saturating_sub(gone);
    }
}

/// Exceptions: texts that are never masked.
#[derive(Debug, Default)]
pub(super) struct AllowList {
    exact: HashSet<Box<[u8]>>,
    patterns: Option<Regex>,
}

impl AllowList {
    /// Compiles the entries: exact texts, or patterns of the whole text between slashes.
    pub(super) fn new<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, PatternError> {
        let (mut exact, mut patterns) = (HashSet::new(), Vec::new());
        for entry in entries {
            match allowed_pattern(entry) {
                Some(pattern) => patterns.push(format!(r"\A(?:{pattern})\z")),
                None => drop(exact.insert(entry.as_bytes().into())),
            }
        }
        let texts: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let patterns = if texts.is_empty() { None } else { Some(compile(&texts)?) };
        Ok(Self { exact, patterns })
    }

    pub(super) fn has(&self, text: &[u8]) -> bool {
        if self.exact.is_empty() && self.patterns.is_none() {
            return false;
        }
        let matches = |regex: &Regex| regex.is_match(Input::new(text).anchored(Anchored::Yes));
        self.exact.contains(text) || self.patterns.as_ref().is_some_and(matches)
    }
}

/// Returns the pattern of an entry between slashes; `None` for an exact text.
pub fn allowed_pattern(entry: &str) -> Option<&str> {
    entry.strip_prefix('/')?.strip_suffix('/').filter(|pattern| !pattern.is_empty())
}
