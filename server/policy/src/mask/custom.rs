//! Rules that a configuration brings, and what is never masked. Patterns are matched in linear time; each sees one line at a
//! time, and of a longer one as much as [`LONGEST_LINE`], so that a text gives the same whether it arrives whole or in pieces.

use std::collections::HashSet;
use std::sync::Arc;

use regex_automata::meta::{BuildError, Regex};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use super::{Finding, Found};

/// As much of a line as a pattern sees at once.
const LONGEST_LINE: usize = 4096;

/// Longest match that is certain to be found in a line that is longer.
pub const LONGEST_MATCH: usize = LONGEST_LINE / 2;

/// Bytes before what is looked at that a pattern may know of, for the limits of words.
const CONTEXT: usize = 4;

/// Longest pattern, in bytes.
const LONGEST_PATTERN: usize = 1024;

/// Memory that patterns may compile to, all together.
const MEMORY: usize = 4 << 20;

/// A rule that a configuration brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomRule {
    /// Its name, as answers and metrics tell it.
    pub name: String,
    /// A regular expression.
    pub pattern: String,
    /// What stands in the place of what it finds.
    pub label: String,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It cannot be read.
    #[error("is not a regular expression: {0}")]
    Syntax(String),
    /// It would be found everywhere.
    #[error("matches the empty text")]
    Empty,
    /// It is too long or would need too much memory.
    #[error("is too large")]
    TooLarge,
}

/// Checks a pattern alone, so that an error can say which it is.
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

/// The last line of what a parser says: the others show the place with blanks and a caret.
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

/// The rules of a configuration, found together.
#[derive(Debug)]
pub(super) struct Custom {
    regex: Regex,
    /// Names and labels in the order of the patterns.
    rules: Vec<(Arc<str>, String)>,
}

/// Something that a pattern has found.
struct Match {
    start: usize,
    end: usize,
    rule: usize,
}

impl Custom {
    /// None if there are no rules.
    pub(super) fn new(rules: &[CustomRule]) -> Result<Option<Self>, PatternError> {
        if rules.is_empty() {
            return Ok(None);
        }
        let patterns: Vec<&str> = rules.iter().map(|rule| rule.pattern.as_str()).collect();
        let rules = rules.iter().map(|rule| (rule.name.as_str().into(), rule.label.clone())).collect();
        Ok(Some(Self { regex: compile(&patterns)?, rules }))
    }

    /// Looks at the text from `at`, in a line that began at `line`: what is found, and where to look next. None if more
    /// of the text has to be there.
    fn look(&self, text: &[u8], line: usize, at: usize, whole: bool) -> Option<(Vec<Match>, usize, bool)> {
        let ahead = &text[at..text.len().min(at + LONGEST_LINE)];
        let line_end = memchr::memchr(b'\n', ahead).map(|len| at + len);
        let end = match line_end {
            Some(end) => end,
            None if ahead.len() == LONGEST_LINE || whole => at + ahead.len(),
            None => return None,
        };
        // In the middle of a line only what begins in the first half: the rest is seen better from further on.
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
            matches.push(Match { start, end: found_end, rule: found.pattern().as_usize() });
            next = found_end;
        }
        let next = if cut { next.max(to) } else { end + usize::from(line_end.is_some()) };
        Some((matches, next, line_end.is_some()))
    }
}

impl Custom {
    /// Where the rules find something in a whole text.
    pub(super) fn findings(&self, text: &[u8], allow: &Allow) -> Vec<Finding> {
        let (mut findings, mut line, mut at) = (Vec::new(), 0, 0);
        while at < text.len() {
            let Some((matches, next, ended)) = self.look(text, line, at, true) else { break };
            let matches = matches.into_iter().filter(|found| !allow.has(&text[found.start..found.end]));
            findings.extend(
                matches
                    .map(|found| Finding { start: found.start, rule: self.rules[found.rule].0.to_string() }),
            );
            at = next;
            line = if ended { next } else { line };
        }
        findings
    }
}

/// Lines on their way through the rules of a configuration.
#[derive(Debug, Default)]
pub(super) struct Lines {
    held: Vec<u8>,
    /// Where the line began, and what comes next.
    line: usize,
    at: usize,
}

impl Lines {
    /// Takes more of the text; `out` gets what is certain by now, with `whole` all.
    pub(super) fn push(
        &mut self,
        custom: &Custom,
        allow: &Allow,
        more: &[u8],
        whole: bool,
        out: &mut Vec<u8>,
        found: &mut Found,
    ) {
        self.held.extend_from_slice(more);
        while self.at < self.held.len() {
            let Some((matches, next, ended)) = custom.look(&self.held, self.line, self.at, whole) else {
                break;
            };
            let mut at = self.at;
            for Match { start, end, rule } in matches {
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

/// What is never masked.
#[derive(Debug, Default)]
pub(super) struct Allow {
    exact: HashSet<Box<[u8]>>,
    patterns: Option<Regex>,
}

impl Allow {
    /// Texts as they are, or patterns of the whole between slashes.
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

/// The pattern of an entry that is one: between slashes.
pub fn allowed_pattern(entry: &str) -> Option<&str> {
    entry.strip_prefix('/')?.strip_suffix('/').filter(|pattern| !pattern.is_empty())
}
