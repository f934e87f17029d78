//! One pass over a line that tells what it is made of: words, numbers, ids, paths, addresses. No backtracking and no
//! copies; Japanese by runs of one script.

use std::ops::Range;

use super::words::is_ending;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word of letters.
    Word,
    /// A run of kanji or of katakana.
    Run,
    /// A number, with its unit perhaps.
    Number,
    /// A name with digits in it, a version, a hash, an address of a machine.
    Id,
    /// A name of capitals, or with an underscore in it.
    Name,
    /// A path or the name of a file.
    Path,
    /// `https://…`
    Url,
}

/// Capitals that make a name.
const NAME: usize = 4;
/// Longer tokens are data, not names.
const LONGEST: usize = 200;

/// Tells the tokens of a text, with where they are.
#[inline]
pub(super) fn tokens(text: &str, mut tell: impl FnMut(Kind, Range<usize>)) {
    #[cfg(test)]
    super::tests::work(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if CLASSES[usize::from(byte)] != 0 {
            let start = at;
            let mut seen = 0;
            while let Some(class) =
                bytes.get(at).map(|&byte| CLASSES[usize::from(byte)]).filter(|&class| class != 0)
            {
                seen |= class;
                at += 1;
            }
            // Nearly all of a text is words, so they are told apart first.
            let is_word = seen & LOWER != 0 && seen & !(LOWER | UPPER) == 0;
            if is_word || seen == UPPER && at - start < NAME {
                tell(Kind::Word, start..at);
            } else if seen == DIGIT {
                tell(Kind::Number, start..at);
            } else if at - start <= LONGEST {
                token(text, start, at, &mut tell);
            }
        } else if byte < 0x80 {
            at += 1;
        } else {
            at = wide(text, at, &mut tell);
        }
    }
}

const LOWER: u8 = 1;
const UPPER: u8 = 2;
const DIGIT: u8 = 4;
const MARK: u8 = 8;

/// The classes of the characters that names, paths and addresses are made of; 0: none of them.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            b'0'..=b'9' => DIGIT,
            b'_' | b'-' | b'.' | b'/' | b':' | b'@' | b'#' | b'~' | b'+' | b'%' | b'=' | b'&' | b'?'
            | b'\\' => MARK,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// A run of one East Asian script, or a single other character.
fn wide(text: &str, start: usize, tell: &mut impl FnMut(Kind, Range<usize>)) -> usize {
    let mut chars = text[start..].char_indices();
    let Some((_, first)) = chars.next() else { return text.len() };
    let class = script(first);
    let end = chars.find(|(_, c)| script(*c) != class).map_or(text.len(), |(at, _)| start + at);
    match class {
        Script::Han | Script::Katakana => tell(Kind::Run, start..end),
        Script::Letter => tell(Kind::Word, start..end),
        Script::Ascii | Script::Other => {}
    }
    end
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    Han,
    Katakana,
    Letter,
    Ascii,
    Other,
}

fn script(c: char) -> Script {
    match c {
        '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '々' => Script::Han,
        '\u{30a1}'..='\u{30fa}' | 'ー' | '\u{ff66}'..='\u{ff9f}' => Script::Katakana,
        '\u{3000}'..='\u{30ff}' | '\u{ff00}'..='\u{ff65}' => Script::Other,
        '\0'..='\u{7f}' => Script::Ascii,
        c if c.is_alphabetic() => Script::Letter,
        _ => Script::Other,
    }
}

/// Tells one token without what only stands around it; an assignment as its two sides.
fn token(text: &str, start: usize, end: usize, tell: &mut impl FnMut(Kind, Range<usize>)) {
    let token = &text[start..end];
    if !token.contains("://")
        && let Some(equals) = token.find('=')
    {
        side(text, start, start + equals, tell);
        side(text, start + equals + 1, end, tell);
    } else {
        side(text, start, end, tell);
    }
}

fn side(text: &str, start: usize, end: usize, tell: &mut impl FnMut(Kind, Range<usize>)) {
    let token = &text[start..end];
    let trimmed = token.trim_end_matches(['.', ':', '?', '-', '=', '&', '+', '\\', '#', '@']);
    let head = trimmed.trim_start_matches(['-', ':', '=', '+', '?', '&', '%', '@']);
    let head =
        if head.starts_with("./") || head.starts_with("../") { head } else { head.trim_start_matches('.') };
    let start = start + (trimmed.len() - head.len());
    if head.is_empty() {
        return;
    }
    let (kind, length) = classify(head);
    tell(kind, start..start + length);
}

/// What a token is, and how much of it: of `src/a.rs:12:5` the path.
fn classify(token: &str) -> (Kind, usize) {
    let bytes = token.as_bytes();
    let whole = token.len();
    if let Some(scheme) = token.find("://") {
        let known =
            scheme > 1 && token[..scheme].bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
        return (if known { Kind::Url } else { Kind::Word }, whole);
    }
    if let Some(length) = path_length(token) {
        return (Kind::Path, length);
    }
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = bytes.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    if digits == 0 {
        let capitals = bytes.iter().filter(|byte| byte.is_ascii_uppercase()).count();
        let is_name = letters >= NAME && (capitals == letters || token.contains('_'));
        return (if is_name { Kind::Name } else { Kind::Word }, whole);
    }
    let unit = bytes.iter().rev().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'%').count();
    let is_number = bytes[0].is_ascii_digit()
        && unit <= 3
        && bytes[..whole - unit]
            .iter()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b':' | b'/'))
        && bytes.iter().filter(|byte| **byte == b'.').count() < 2
        && !token.contains(':');
    (if is_number { Kind::Number } else { Kind::Id }, whole)
}

/// How much of a token is a path, if it is one. A slash alone makes none: and/or, 10/20.
fn path_length(token: &str) -> Option<usize> {
    // The line and column that follow it in messages of compilers.
    let end = token.find(':').filter(|&at| at > 1).unwrap_or(token.len());
    let path = token[..end].trim_end_matches(['.', '?', '&', '%']);
    let last = path.trim_end_matches('/').rsplit(['/', '\\']).next()?;
    if !path.bytes().any(|byte| byte.is_ascii_alphabetic())
        || path.contains('?')
        || path.contains("@") && !path.contains('/')
    {
        return None;
    }
    let slashes = path.bytes().filter(|byte| matches!(byte, b'/' | b'\\')).count();
    let is_file = has_extension(last);
    let rooted = ["/", "./", "../", "~/"].iter().any(|start| path.starts_with(start));
    let wordy = |part: &str| !part.is_empty() && part.bytes().any(|byte| byte.is_ascii_alphabetic());
    let deep = slashes >= 2 && path.split('/').filter(|part| !part.is_empty()).all(wordy);
    let folder = path.ends_with('/') && path.len() > 2 && wordy(path);
    (is_file || rooted && wordy(last) || deep || folder).then_some(path.len())
}

/// Whether it is the name of a file, by its ending.
fn has_extension(name: &str) -> bool {
    if matches!(
        name,
        "Dockerfile" | "Makefile" | "Jenkinsfile" | "Procfile" | "Gemfile" | ".env" | ".gitignore"
    ) {
        return true;
    }
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    !stem.is_empty() && is_ending(ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        let mut found = Vec::new();
        tokens(text, |kind, range| found.push((kind, &text[range])));
        found
    }

    #[test]
    fn names_are_told_from_words() {
        use Kind::{Id, Name, Number, Path, Run, Url, Word};
        for (text, expected) in [
            ("see src/a/b.rs:12:5, ok", vec![(Word, "see"), (Path, "src/a/b.rs"), (Word, "ok")]),
            ("and/or client/server", vec![(Word, "and/or"), (Word, "client/server")]),
            (
                "./x ../y.py ~/.bashrc /etc/hosts.",
                vec![(Path, "./x"), (Path, "../y.py"), (Path, "~/.bashrc"), (Path, "/etc/hosts")],
            ),
            ("PORT=5432", vec![(Name, "PORT"), (Number, "5432")]),
            (
                "OPS-1234 #77 v1.2.3 a1b2c3d",
                vec![(Id, "OPS-1234"), (Id, "#77"), (Id, "v1.2.3"), (Id, "a1b2c3d")],
            ),
            ("200ms 3.5 40%", vec![(Number, "200ms"), (Number, "3.5"), (Number, "40%")]),
            ("10.0.0.7:80 https://a.b/c?d=1.", vec![(Id, "10.0.0.7:80"), (Url, "https://a.b/c?d=1")]),
            ("設定はsrc/app.tomlにある", vec![(Run, "設定"), (Path, "src/app.toml")]),
            ("データベースの接続先", vec![(Run, "データベース"), (Run, "接続先")]),
            (
                "legacy/ Cargo.toml MAX_SIZE",
                vec![(Path, "legacy/"), (Path, "Cargo.toml"), (Name, "MAX_SIZE")],
            ),
        ] {
            assert_eq!(kinds(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_breaks_it() {
        for text in [
            "",
            "-",
            "=",
            "=====",
            "://",
            "a://",
            ":a",
            "..",
            "./",
            "é=é",
            "\u{1f980}",
            "`",
            "``",
            "\\",
            "a\\b",
            "%%",
        ] {
            tokens(text, |_, range| assert!(text.get(range).is_some(), "{text}"));
        }
    }
}
