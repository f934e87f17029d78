//! Safe text for terminals: user-supplied text cannot move the cursor, change colours or hide anything.

use std::borrow::Cow;

/// Returns true for characters that could mislead a terminal or a reader: controls, other line ends, and marks that
/// change the direction of text or have no width.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the text with unsafe characters escaped.
pub(super) fn safe(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Returns the text on one line of at most `width` characters, safe, with `…` in place of what was cut. White space
/// collapses to single blanks.
pub(super) fn short(text: &str, width: usize) -> String {
    let mut out = String::new();
    let (mut used, mut blank) = (0, false);
    for c in text.chars() {
        if c.is_whitespace() {
            blank = used > 0;
            continue;
        }
        let written: Cow<'_, str> =
            if is_unsafe(c) { c.escape_default().to_string().into() } else { c.to_string().into() };
        let needed = written.chars().count() + usize::from(blank);
        // The last column is reserved for the `…`.
        if used + needed > width.saturating_sub(1) {
            out.push('…');
            return out;
        }
        if std::mem::take(&mut blank) {
            out.push(' ');
        }
        out.push_str(&written);
        used += needed;
    }
    out
}

/// Returns a number of bytes for people.
pub(super) fn bytes(count: u64) -> String {
    let mut unit = "B";
    #[expect(clippy::cast_precision_loss, reason = "one digit behind the point is shown")]
    let mut amount = count as f64;
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = larger;
    }
    if unit == "B" { format!("{count} B") } else { format!("{amount:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_reaches_the_terminal_as_a_command() {
        assert_eq!(safe("plain – 日本語 👍"), "plain – 日本語 👍");
        assert_eq!(safe("\u{1b}[31mred\u{7}"), "\\u{1b}[31mred\\u{7}");
        assert_eq!(safe("a\nb\rc\u{9b}2J"), "a\\nb\\rc\\u{9b}2J");
        assert_eq!(safe("abc\u{202e}fdp.exe"), "abc\\u{202e}fdp.exe");
        for c in ['\u{85}', '\u{7f}', '\u{200b}', '\u{2066}', '\u{feff}', '\u{2028}', '\u{e0041}'] {
            assert!(!safe(&c.to_string()).contains(c), "{c:?}");
            assert!(!short(&format!("a{c}b"), 40).contains(c), "{c:?}");
        }
    }

    #[test]
    fn a_short_text_is_one_line_of_at_most_so_many_characters() {
        assert_eq!(short("  one\n\n two\t three ", 40), "one two three");
        assert_eq!(short("", 10), "");
        assert_eq!(short("日本語の長い文", 5), "日本語の…");
        for width in 1..30 {
            let shown = short("some \u{1b}[0m words\nthat are long", width);
            assert!(shown.chars().count() <= width, "{width}: {shown}");
        }
    }

    #[test]
    fn bytes_are_counted_as_people_do() {
        let said = [0, 1023, 1024, 1536, 1 << 20, 5 << 40].map(bytes);
        assert_eq!(said, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "5.0 TiB"]);
    }
}
