//! Prose cut into sentences, in English and Japanese, without copying it: lines that were only wrapped are joined, list
//! marks go, code between fences is told apart.

use memchr::memchr;

/// A piece of prose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit<'a> {
    /// A sentence or an item of a list; it may have line ends inside.
    Sentence(&'a str),
    /// A line of code or of something pasted.
    Code(&'a str),
}

/// Bytes after which a sentence is cut, whatever it says: nothing is held longer than that.
const LONGEST: usize = 2000;
/// A line shorter than this was ended on purpose.
const WRAPPED: usize = 40;

/// Tells the units of a text, in order.
pub(super) fn units<'a>(text: &'a str, mut tell: impl FnMut(Unit<'a>)) {
    let mut fenced = false;
    let mut rest = text;
    while !rest.is_empty() {
        let (line, behind) = line_of(rest);
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            tell(Unit::Code(line));
        } else {
            let (paragraph, behind) = paragraph(rest);
            sentences(paragraph, |sentence| tell(Unit::Sentence(sentence)));
            rest = behind;
            continue;
        }
        rest = behind;
    }
}

/// The first line, at most so long, and what is behind it.
pub(super) fn line_of(text: &str) -> (&str, &str) {
    let window = &text[..text.floor_char_boundary(LONGEST)];
    match memchr(b'\n', window.as_bytes()) {
        Some(end) => (text[..end].trim_end_matches('\r'), &text[end + 1..]),
        None if window.len() == text.len() => (text, ""),
        // A line that is far too long: cut where a word ends, if one does.
        None => {
            let space = window.rfind(' ').map_or(window.len(), |at| at + 1);
            (&text[..space], &text[space..])
        }
    }
}

/// The first line with those that only continue it.
fn paragraph(text: &str) -> (&str, &str) {
    let (mut last, mut behind) = line_of(text);
    loop {
        let so_far = text.len() - behind.len();
        let (next, after) = line_of(behind);
        if so_far + next.len() > LONGEST || !is_wrapped(last, next) {
            return (&text[..so_far], behind);
        }
        (last, behind) = (next, after);
    }
}

fn is_wrapped(line: &str, next: &str) -> bool {
    let line = line.trim_end();
    let ends = line.ends_with(['.', '!', '?', ':', ';', '。', '！', '？', '：', '|', '」', ')']);
    line.len() >= WRAPPED
        && !ends
        && next.trim_start().starts_with(|c: char| c.is_ascii_lowercase() || c == '(')
}

/// Tells the sentences of a paragraph.
pub(super) fn sentences<'a>(paragraph: &'a str, mut tell: impl FnMut(&'a str)) {
    let mut start = 0;
    let mut code = false;
    let mut tell = |sentence: &'a str| {
        let sentence = unmarked(sentence);
        if !sentence.is_empty() {
            tell(sentence);
        }
    };
    #[cfg(test)]
    super::tests::work(paragraph.len());
    for (at, c) in paragraph.char_indices() {
        let end = at + c.len_utf8();
        match c {
            // A quotation mark that is never closed must not swallow the rest.
            '`' => code = !code && paragraph[end..].contains('`'),
            '。' | '！' | '？' if !paragraph[end..].starts_with(['」', '』', '）', '。', '！', '？']) =>
            {
                tell(&paragraph[start..end]);
                start = end;
            }
            '.' | '!' | '?' if !code && is_end(&paragraph[start..at], &paragraph[end..], c) => {
                tell(&paragraph[start..end]);
                start = end;
            }
            _ => {}
        }
    }
    tell(&paragraph[start..]);
}

/// Whether a full stop between these ends a sentence.
fn is_end(before: &str, behind: &str, mark: char) -> bool {
    let mut next = behind.chars();
    let Some(space) = next.next() else { return true };
    if !space.is_whitespace() {
        return false;
    }
    let Some(first) = next.as_str().trim_start().chars().next() else { return true };
    if mark != '.' {
        return true;
    }
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    let short = [
        "e.g", "i.e", "etc", "vs", "cf", "approx", "no", "dr", "mr", "mrs", "ms", "prof", "st", "fig", "incl",
    ];
    let is_short = short.iter().any(|short| word.eq_ignore_ascii_case(short));
    // The number of an item of a list.
    let is_number = before.trim_start().chars().all(|c| c.is_ascii_digit());
    !is_short && !is_number && !first.is_ascii_lowercase()
}

/// Without the mark of a list, of a quotation or of a heading.
fn unmarked(sentence: &str) -> &str {
    let mut text = sentence.trim();
    loop {
        let rest = text.trim_start_matches(['>', '・', '●', '■', '※']).trim_start();
        // A heading; but #412 is a name.
        let heading = rest.trim_start_matches('#');
        let rest = if heading.starts_with(' ') { heading.trim_start() } else { rest };
        let rest = rest
            .strip_prefix("- ")
            .or_else(|| rest.strip_prefix("* "))
            .or_else(|| rest.strip_prefix("+ "))
            .or_else(|| numbered(rest))
            .unwrap_or(rest)
            .trim_start();
        if rest.len() == text.len() {
            return if text.chars().any(char::is_alphanumeric) { text } else { "" };
        }
        text = rest;
    }
}

/// What follows `1. ` or `2) `.
fn numbered(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=2).contains(&digits) {
        return None;
    }
    text[digits..].strip_prefix(". ").or_else(|| text[digits..].strip_prefix(") "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        units(text, |unit| {
            found.push(match unit {
                Unit::Sentence(text) | Unit::Code(text) => text,
            });
        });
        found
    }

    #[test]
    fn sentences_end_where_people_end_them() {
        for (text, expected) in [
            ("One. Two! Three? Four", vec!["One.", "Two!", "Three?", "Four"]),
            ("See e.g. the file a.rs. Then go on.", vec!["See e.g. the file a.rs.", "Then go on."]),
            ("今日は晴れ。明日は雨！", vec!["今日は晴れ。", "明日は雨！"]),
            ("「はい。」と言った。", vec!["「はい。」と言った。"]),
            ("1. first\n2. second\n- third\n", vec!["first", "second", "third"]),
            ("Version 1.2.3 is out. It works.", vec!["Version 1.2.3 is out.", "It works."]),
            ("run `a. B` now. Then stop", vec!["run `a. B` now.", "Then stop"]),
            ("\n\n***\n---\n", vec![]),
            ("text\n```sh\n# no. Heading\n```\nmore", vec!["text", "# no. Heading", "more"]),
        ] {
            assert_eq!(cut(text), expected, "{text}");
        }
    }

    #[test]
    fn wrapped_lines_are_one_sentence() {
        let text = "Please keep the public interface of the billing\nservice as it is. And be quick.\nEnd";
        let first = "Please keep the public interface of the billing\nservice as it is.";
        assert_eq!(cut(text), [first, "And be quick.", "End"]);
    }

    #[test]
    fn a_line_without_end_is_cut_at_characters() {
        let text = "日".repeat(5000);
        assert!(cut(&text).iter().all(|part| part.len() <= LONGEST));
        assert_eq!(cut(&text).concat(), text);
    }
}
