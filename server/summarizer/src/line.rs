//! Text of the history made fit to be one line of a summary.

/// One line of at most so many characters: white space is single spaces, control characters and the colours of
/// terminals are gone. What is left out at an end is an ellipsis; `focus` is a byte that must be in it.
pub(super) fn clean(text: &str, most: usize, focus: usize) -> String {
    // Even if all of it were single bytes, the focus would be behind the end.
    let start = if focus > most * 2 / 3 { focus - most / 3 } else { 0 };
    let start = text.ceil_char_boundary(start.min(text.len()));
    #[cfg(test)]
    super::tests::work(most.min(text.len()));
    let mut line = String::new();
    let mut count = 0;
    let mut space = false;
    let mut chars = text[start..].chars();
    if start > 0 {
        line.push('…');
    }
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            skip_colour(&mut chars);
            continue;
        }
        if is_hidden(c) {
            continue;
        }
        if c.is_whitespace() || c.is_control() {
            space = !line.is_empty();
            continue;
        }
        if count >= most {
            line.push('…');
            return line;
        }
        if std::mem::take(&mut space) {
            line.push(' ');
            count += 1;
        }
        line.push(c);
        count += 1;
    }
    line
}

/// Passes over what follows an escape: `[31m`.
fn skip_colour(chars: &mut std::str::Chars<'_>) {
    let mut ahead = chars.clone();
    if ahead.next() != Some('[') {
        return;
    }
    for c in ahead.by_ref().take(16) {
        if c.is_ascii_alphabetic() {
            *chars = ahead;
            return;
        }
        if !c.is_ascii_digit() && c != ';' {
            return;
        }
    }
}

/// Characters that turn the direction of what follows, or have no width, and are not part of one that is seen.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        for (text, expected) in [
            ("  a \t b\r\n c ", "a b c"),
            ("\u{1b}[1;31merror\u{1b}[0m: x", "error: x"),
            ("\u{1b}[", "["),
            ("a\0b\u{202e}c\u{2028}d", "a bc d"),
            ("日本語の文章です", "日本語の文…"),
            ("", ""),
        ] {
            let most = if text.starts_with('日') { 5 } else { 50 };
            assert_eq!(clean(text, most, 0), expected);
        }
    }

    #[test]
    fn what_matters_is_in_it() {
        let text = format!("{} HERE {}", "x ".repeat(100), "y ".repeat(100));
        let focus = text.find("HERE").unwrap();
        let line = clean(&text, 30, focus);
        assert!(line.contains("HERE") && line.starts_with('…') && line.ends_with('…'), "{line}");
        let text = "語".repeat(1000);
        for focus in [0, 1, 500, 2999, 3000, 9999] {
            assert!(clean(&text, 10, focus).chars().count() <= 12);
        }
    }
}
