//! Text of the history made fit to be one line of a summary.

/// Returns a text as one line of at most `most` characters: white space is single spaces, control characters and the colours
/// of terminals are gone. What is left out at an end is an ellipsis; the byte at `focus` is within the line.
pub(super) fn one_line(text: &str, most: usize, focus: usize) -> String {
    // Even if all of it were single bytes, the focus would be behind the end.
    let start = if focus > most * 2 / 3 { focus - most / 3 } else { 0 };
    let start = text.ceil_char_boundary(start.min(text.len()));
    let end = text.ceil_char_boundary((start + most * 8).min(text.len()));
    #[cfg(test)]
    super::tests::work(end - start);
    let plain = without_colours(&text[start..end]);
    let words = plain.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let words = words.collect::<Vec<_>>().join(" ");
    let mut chars = words.chars().filter(|c| !is_hidden(*c));
    let mut line: String = if start > 0 { "…" } else { "" }.to_owned();
    line.extend(chars.by_ref().take(most));
    if chars.next().is_some() || end < text.trim_end().len() {
        line.push('…');
    }
    line
}

/// Returns a text without the escapes that set colours: `\x1b[31m`.
fn without_colours(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part
            .strip_prefix('[')
            .map(|code| code.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
        let behind = code.and_then(|code| code.strip_prefix(|c: char| c.is_ascii_alphabetic()));
        plain.push_str(behind.unwrap_or(part));
    }
    plain
}

/// Returns whether a character only turns the direction of what follows, or has no width and is part of no other.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
}
