//! Prose cut into sentences, in English and Japanese, without copying it: lines that were only wrapped are joined, marks of
//! lists go, and code between fences is kept apart.

use std::sync::LazyLock;

use memchr::memchr;
use regex_automata::meta::Regex;

/// A piece of prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProseUnit<'a> {
    /// A sentence. It may have line ends inside.
    Sentence {
        text: &'a str,
        /// It is of an item of a list.
        is_item: bool,
    },
    /// A line between fences.
    Code(&'a str),
}

/// Bytes after which a sentence is cut, whatever it says: nothing is held longer than that.
const LONGEST: usize = 2000;
/// A line shorter than this was ended on purpose.
const WRAPPED: usize = 40;
/// Words whose full stop ends no sentence.
const ABBREVIATIONS: [&str; 10] = ["e.g", "i.e", "etc", "vs", "cf", "no", "dr", "mr", "mrs", "ms"];

/// The marks in front of a line: of a quotation, a heading, a list. `#412` is a name.
#[expect(clippy::expect_used, reason = "the pattern is constant, and tests build it")]
static MARKS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:\s|[>●■※]|#+\s|(?:[-*+•]\s|・|[0-9]{1,2}[.)]\s)())*").expect("a valid pattern")
});

/// Calls `visit` with the units of a text, in order.
pub(super) fn units<'a>(text: &'a str, mut visit: impl FnMut(ProseUnit<'a>)) {
    let mut is_fenced = false;
    let mut rest = text;
    while !rest.is_empty() {
        let (line, behind) = first_line(rest);
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            rest = behind;
        } else if is_fenced {
            visit(ProseUnit::Code(line));
            rest = behind;
        } else {
            let (paragraph, behind) = first_paragraph(rest);
            let (body, is_item) = without_marks(paragraph);
            sentences(body, |text| visit(ProseUnit::Sentence { text, is_item }));
            rest = behind;
        }
    }
}

/// Returns the first line, at most [`LONGEST`] bytes of it, and what stands behind it.
pub(super) fn first_line(text: &str) -> (&str, &str) {
    let window = &text[..text.floor_char_boundary(LONGEST)];
    match memchr(b'\n', window.as_bytes()) {
        Some(end) => (text[..end].trim_end_matches('\r'), &text[end + 1..]),
        None if window.len() == text.len() => (text, ""),
        // A line that is far too long: cut where a word ends, if one does.
        None => text.split_at(window.rfind(' ').map_or(window.len(), |at| at + 1)),
    }
}

/// Returns the first line with those that only continue it, and what stands behind them.
fn first_paragraph(text: &str) -> (&str, &str) {
    let (mut last, mut behind) = first_line(text);
    loop {
        let length = text.len() - behind.len();
        let (next, after) = first_line(behind);
        if length + next.len() > LONGEST || !is_wrapped(last, next) {
            return (&text[..length], behind);
        }
        (last, behind) = (next, after);
    }
}

/// Returns whether a line was only wrapped, so that the next one continues it.
fn is_wrapped(line: &str, next: &str) -> bool {
    let line = line.trim_end();
    let ends = line.ends_with(['.', '!', '?', ':', ';', '。', '！', '？', '：', '|', '」', ')']);
    line.len() >= WRAPPED
        && !ends
        && next.trim_start().starts_with(|c: char| c.is_ascii_lowercase() || c == '(')
}

/// Returns a line without the marks in front of it, and whether one of them is that of a list.
fn without_marks(line: &str) -> (&str, bool) {
    let mut marks = MARKS.create_captures();
    MARKS.captures(line, &mut marks);
    let end = marks.get_match().map_or(0, |found| found.end());
    (&line[end..], marks.get_group(1).is_some())
}

/// Calls `visit` with the sentences of a paragraph.
pub(super) fn sentences<'a>(paragraph: &'a str, mut visit: impl FnMut(&'a str)) {
    #[cfg(test)]
    super::tests::work(paragraph.len());
    let (mut start, mut is_code) = (0, false);
    let mut end_at = |end: usize| {
        let sentence = paragraph[start..end].trim();
        start = end;
        if sentence.chars().any(char::is_alphanumeric) {
            visit(sentence);
        }
    };
    for (at, c) in paragraph.char_indices() {
        let (before, behind) = (&paragraph[..at], &paragraph[at + c.len_utf8()..]);
        match c {
            // A quotation mark that is never closed must not swallow the rest.
            '`' => is_code = !is_code && behind.contains('`'),
            '。' | '！' | '？' if !behind.starts_with(['」', '』', '）', '。', '！', '？']) => {
                end_at(at + c.len_utf8());
            }
            '!' | '?' if !is_code && behind.starts_with(char::is_whitespace) => end_at(at + 1),
            '.' if !is_code && is_full_stop(before, behind) => end_at(at + 1),
            _ => {}
        }
    }
    end_at(paragraph.len());
}

/// Returns whether a full stop between these ends a sentence.
fn is_full_stop(before: &str, behind: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    behind.starts_with(char::is_whitespace)
        && !behind.trim_start().starts_with(|c: char| c.is_ascii_lowercase())
        && !ABBREVIATIONS.iter().any(|short| word.eq_ignore_ascii_case(short))
}
