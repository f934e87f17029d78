//! Texts cut in their middle, and texts that cannot pass for anything else.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What messages begin with; in a text it is written otherwise where a line begins.
const LABELS: [&str; 2] = ["[seq ", "[… "];
/// How far from the place of a cut the end of a line is looked for.
const NEAR: usize = 80;

/// Appends a text of which so many bytes may stay: half of them from its beginning, half from its end, with a note of
/// what is left out. Cuts at the end of a line if there is one near.
pub(super) fn push_cut(text: &str, keep: usize, fence: &str, out: &mut String) {
    if text.len() <= keep {
        out.push_str(&guarded(text, fence));
        return;
    }
    let mut head = text.floor_char_boundary(keep / 2);
    let mut tail = text.ceil_char_boundary(text.len() - (keep - keep / 2));
    let near = text.floor_char_boundary(head.saturating_sub(NEAR.min(keep / 8)));
    if let Some(end) = text[near..head].rfind('\n') {
        head = near + end;
    }
    let near = text.ceil_char_boundary((tail + NEAR.min(keep / 8)).min(text.len()));
    if let Some(end) = text[tail..near].find('\n') {
        tail += end + 1;
    }
    out.push_str(&guarded(&text[..head], fence));
    let _ = write!(out, "\n[… {} bytes left out here …]\n", tail - head);
    out.push_str(&guarded(&text[tail..], fence));
}

/// A text in which nothing ends a block of the name `fence`, and no line begins as a message does.
fn guarded<'a>(text: &'a str, fence: &str) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    if text.contains(fence) {
        text = Cow::Owned(text.replace(fence, "history"));
    }
    for label in LABELS {
        if !text.contains(label) {
            continue;
        }
        let mut out = String::with_capacity(text.len() + 16);
        let mut rest = 0;
        for (at, _) in text.match_indices(label) {
            out.push_str(&text[rest..at]);
            if begins_line(&text[..at]) {
                out.push('\\');
            }
            rest = at;
        }
        out.push_str(&text[rest..]);
        text = Cow::Owned(out);
    }
    text
}

/// Whether what follows is the first on its line that can be seen.
fn begins_line(before: &str) -> bool {
    let before = before.trim_end_matches(|c: char| (c.is_whitespace() && !is_line_end(c)) || is_invisible(c));
    before.chars().next_back().is_none_or(is_line_end)
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Characters without a width, which hide nothing from a model.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
        || (c.is_control() && !is_line_end(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, keep: usize) -> String {
        let mut out = String::new();
        push_cut(text, keep, "history-1", &mut out);
        out
    }

    #[test]
    fn head_and_tail_stay() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefgh", 4), "ab\n[… 4 bytes left out here …]\ngh");
        assert_eq!(cut("あいうえお", 7), "あ\n[… 9 bytes left out here …]\nお");
        assert_eq!(cut("abc", 0), "\n[… 3 bytes left out here …]\n");
        let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        let short = cut(&lines, 1000);
        assert!(short.len() < 1060 && short.starts_with("line 0\n") && short.ends_with("line 999\n"));
        // Whole lines.
        assert!(short.lines().all(|line| line.starts_with("line ") || line.starts_with("[…")), "{short}");
        for keep in 0..=lines.len() {
            let tail = cut("é日本\n🦀", keep);
            assert!(tail.len() <= keep.max(15) + 40);
        }
    }

    #[test]
    fn no_line_passes_for_a_message_or_ends_the_block() {
        for (text, expected) in [
            ("a [seq 1] b", "a [seq 1] b"),
            ("[seq 1] user:", "\\[seq 1] user:"),
            ("a\n \t[seq 1] user:\n[seq 2]", "a\n \t\\[seq 1] user:\n\\[seq 2]"),
            ("a\r[seq 1]\u{2028}[seq 2]", "a\r\\[seq 1]\u{2028}\\[seq 2]"),
            ("a\n\u{200b}[seq 1]", "a\n\u{200b}\\[seq 1]"),
            ("[… 5 messages left out here …]", "\\[… 5 messages left out here …]"),
            ("</history-1>\nhistory-1", "</history>\nhistory"),
            ("</history-2> [seq", "</history-2> [seq"),
        ] {
            assert_eq!(guarded(text, "history-1"), expected, "{text:?}");
        }
    }
}
