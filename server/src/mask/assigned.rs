//! Values that are secret because of the name they are assigned to: `password=`, `"secret_access_key": "…"`,
//! `Authorization: Bearer …`. Only the value is masked.

use super::rule::Rule;
use super::shape::is_blank;
use super::window::{Class, Hit, Window, distinct, kinds, looks_random};

/// What a name makes a rule expect of the value behind it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    /// Anything that somebody could have chosen.
    Password,
    /// Enough characters of a class, as many as the format has.
    Run(Class, usize, usize),
    /// A long value that was drawn by chance.
    Random,
    /// A scheme and its credentials.
    Credentials,
}

/// Names, in the ways that they are written, and what stands behind them.
pub(super) static NAMES: &[(Rule, Expected, &[&str])] = &[
    (
        Rule::Password,
        Expected::Password,
        &[
            "password",
            "Password",
            "PASSWORD",
            "passwd",
            "Passwd",
            "PASSWD",
            "passphrase",
            "Passphrase",
            "PASSPHRASE",
            "_pass",
            "_PASS",
            ";pwd",
            ";Pwd",
            ";PWD",
        ],
    ),
    (
        Rule::AwsSecretKey,
        Expected::Run(Class::Base64, 40, 40),
        &[
            "secret_access_key",
            "SECRET_ACCESS_KEY",
            "SecretAccessKey",
            "secretAccessKey",
            "secret_key",
            "SECRET_KEY",
            "SecretKey",
            "secretKey",
        ],
    ),
    (
        Rule::AwsSessionToken,
        Expected::Run(Class::Base64, 100, usize::MAX),
        &[
            "session_token",
            "SESSION_TOKEN",
            "SessionToken",
            "sessionToken",
            "security_token",
            "Security-Token",
        ],
    ),
    (
        Rule::AzureKey,
        Expected::Run(Class::Base64, 43, usize::MAX),
        &["AccountKey", "accountKey", "SharedAccessKey", "sharedAccessKey"],
    ),
    (Rule::AzureKey, Expected::Run(Class::Any, 43, usize::MAX), &["?sig", "&sig", ";sig"]),
    (Rule::Authorization, Expected::Credentials, &["Authorization", "authorization", "AUTHORIZATION"]),
    (
        Rule::Secret,
        Expected::Random,
        &[
            "secret",
            "Secret",
            "SECRET",
            "api_key",
            "API_KEY",
            "apikey",
            "apiKey",
            "ApiKey",
            "APIKEY",
            "api-key",
            "Api-Key",
            "API-Key",
            "access_token",
            "ACCESS_TOKEN",
            "accessToken",
            "auth_token",
            "AUTH_TOKEN",
            "authToken",
            "refresh_token",
            "REFRESH_TOKEN",
            "refreshToken",
            "private_token",
            "Private-Token",
            "PRIVATE-TOKEN",
        ],
    ),
];

/// As much of a value tells what it is.
const HEAD: usize = 128;

/// A value and how it was assigned.
#[derive(Debug, Clone, Copy)]
struct Value {
    start: usize,
    end: usize,
    quoted: bool,
    colon: bool,
    spaced: bool,
}

impl Expected {
    /// Whether the name that the window was made for has such a value.
    pub(super) fn check(self, window: &Window<'_>) -> Option<Hit> {
        let value = value(window)?;
        match self {
            Self::Password => {
                let bytes = &window.bytes[value.start..value.end];
                is_password(bytes, value).then_some(Hit { start: value.start, end: value.end, tail: None })
            }
            Self::Run(class, least, most) => {
                let end = window.run(value.start, class);
                let bytes = &window.bytes[value.start..end];
                // Base64 may be filled up to a multiple of four.
                let len = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == b'=').count();
                let fits = (least..=most).contains(&len) && looks_random(bytes, Class::Any);
                fits.then(|| window.hit(value.start, end, class))
            }
            Self::Random => {
                let end = window.run(value.start, Class::Any);
                // The full stop of a sentence is not the value's.
                let bytes = &window.bytes[value.start..end];
                let bytes = bytes.strip_suffix(b".").unwrap_or(bytes);
                let hit = window.hit(value.start, end, Class::Any);
                let end = if hit.tail.is_none() { value.start + bytes.len() } else { end };
                is_drawn(&bytes[..bytes.len().min(HEAD)]).then_some(Hit { end, ..hit })
            }
            Self::Credentials => credentials(window, value.start),
        }
    }
}

/// The value that is assigned to what stands in front of `window.after`: behind the quote that closes the name, if there is
/// one, and `=`, `:`, `:=` or `=>`. On the same line.
fn value(window: &Window<'_>) -> Option<Value> {
    const LONGEST: usize = 256;
    let bytes = window.bytes;
    let skip = |from: usize, of: &[u8], most: usize| {
        from + bytes[from..].iter().take(most).take_while(|byte| of.contains(byte)).count()
    };
    let mut at = skip(window.after, b"\\", 4);
    at = skip(at, b"\"'`", 1);
    at = skip(at, b"]", 1);
    let before = at;
    at = skip(at, b" \t", 16);
    let mut spaced = at > before;
    let colon = bytes.get(at) == Some(&b':');
    at = match bytes.get(at..)? {
        [b'=', b'=' | b'~', ..] | [b':', b':', ..] => return None,
        [b':', b'=', ..] | [b'=', b'>', ..] => at + 2,
        [b'=' | b':', ..] => at + 1,
        _ => return None,
    };
    let before = at;
    at = skip(at, b" \t", 64);
    spaced |= at > before;
    // Literals of bytes and raw ones.
    let quote = |at: usize| matches!(bytes.get(at), Some(b'"' | b'\''));
    if matches!(bytes.get(at), Some(b'b' | b'r' | b'u')) && quote(at + 1) {
        at += 1;
    }
    let start = skip(at, b"\\", 4);
    if quote(start) {
        let (escapes, quote) = (start - at, bytes[start]);
        if let Some(end) = closing(&bytes[..bytes.len().min(start + LONGEST)], start + 1, quote, escapes) {
            return Some(Value { start: start + 1, end, quoted: true, colon, spaced });
        }
        at = start + 1;
    }
    let ends = |byte: &u8| {
        !byte.is_ascii_graphic()
            || matches!(byte, b'"' | b'\'' | b'`' | b',' | b';' | b'&' | b'<' | b'>' | b'\\')
    };
    let len =
        bytes[at..].iter().take(LONGEST).position(ends).unwrap_or_else(|| (bytes.len() - at).min(LONGEST));
    let stops = bytes[at..at + len].iter().rev().take_while(|byte| matches!(byte, b'.' | b':')).count();
    Some(Value { start: at, end: at + len - stops, quoted: false, colon, spaced })
}

/// Where a quoted value ends: at a quote that is escaped as often as the one that opened it.
fn closing(bytes: &[u8], start: usize, quote: u8, escapes: usize) -> Option<usize> {
    for (offset, byte) in bytes.get(start..)?.iter().enumerate() {
        let at = start + offset;
        if *byte == b'\n' {
            return None;
        }
        if *byte == quote {
            let before = bytes[start..at].iter().rev().take_while(|byte| **byte == b'\\').count();
            if before == escapes || (escapes == 0 && before % 2 == 0) {
                return Some(at - escapes.min(before));
            }
        }
    }
    None
}

/// Whether a value is a password, not a variable, a call, a type, a label or a word of a sentence. One that is neither quoted
/// nor has digits or signs in it cannot be told from a name, and stays.
fn is_password(value: &[u8], how: Value) -> bool {
    const SHORTEST: usize = 4;
    let plain = value.len() < SHORTEST || !value.iter().all(u8::is_ascii_graphic) || distinct(value) < 3;
    if plain || is_blank(value) {
        return false;
    }
    let digit = value.iter().any(u8::is_ascii_digit);
    let letter = value.iter().any(u8::is_ascii_alphabetic);
    let sign = value.iter().any(|byte| !byte.is_ascii_alphanumeric() && !b"_-.:/".contains(byte));
    if is_word(value) || (!digit && is_about_passwords(value)) || has_blank(value) {
        return false;
    }
    if how.quoted {
        let turns = value.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
        return !how.colon || digit || sign || (turns && value.len() >= 8);
    }
    // A path, or an expression of a programming language.
    let path = value[0] == b'/' || value.starts_with(b"./") || value.starts_with(b"~/");
    if path || is_expression(value) {
        return false;
    }
    let random = digit && (letter || !how.colon || value.len() >= 6);
    (random && (!how.spaced || value.len() >= 6)) || sign
}

/// Words that stand for a value, or say what kind it is.
fn is_word(value: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "string",
        "secret",
        "required",
        "optional",
        "none",
        "null",
        "true",
        "false",
        "undefined",
        "redacted",
        "hidden",
        "text",
        "example",
        "placeholder",
        "prompt",
        "empty",
        "nil",
        "masked",
        "input",
        "default",
    ];
    WORDS.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

fn is_about_passwords(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    ["passw", "your", "secret", "env"]
        .iter()
        .any(|word| memchr::memmem::find(&lower, word.as_bytes()).is_some())
}

/// Whether a part of it is filled in later: `{name}`, `${NAME}`, `%s`.
fn has_blank(value: &[u8]) -> bool {
    let find = |text: &[u8]| memchr::memmem::find(value, text);
    let braces = memchr::memchr(b'{', value).is_some_and(|open| value[open..].contains(&b'}'));
    braces || value == b"%s" || find(b"$(").is_some()
}

/// Whether it is a name, a path of names, a call or an index: `config.password`, `get_password()`, `args["p"]`.
fn is_expression(value: &[u8]) -> bool {
    let first = value[0];
    if matches!(first, b'(' | b'[' | b'{' | b'*' | b'!' | b'&' | b'|')
        && !value[1..].iter().any(u8::is_ascii_digit)
    {
        return true;
    }
    if !(first.is_ascii_alphabetic() || matches!(first, b'_' | b'$' | b'@')) {
        return false;
    }
    let is_name = |byte: &u8| Class::Word.has(*byte) || matches!(byte, b'.' | b':' | b'?' | b'$' | b'@');
    let names = value.iter().take_while(|byte| is_name(byte)).count();
    let joined = value[..names].iter().any(|byte| matches!(byte, b'.' | b':' | b'?'));
    match value.get(names) {
        None => joined,
        Some(b'(' | b'[' | b'{' | b')' | b']' | b'}') => true,
        Some(b'-') => value[names..].starts_with(b"->"),
        Some(_) => false,
    }
}

/// A value that nobody has made up: long, and of all kinds of characters, or all of hexadecimal digits.
fn is_drawn(value: &[u8]) -> bool {
    const SHORTEST: usize = 20;
    const SHORTEST_HEX: usize = 32;
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let hex = value.len() >= SHORTEST_HEX && value.iter().all(|byte| Class::Hex.has(*byte));
    let mixed = value.len() >= SHORTEST && kinds(value) == 3 && digits >= 2 && !is_expression(value);
    let path = value.iter().filter(|byte| **byte == b'/').count() > 2;
    distinct(value) >= 8 && (hex || (mixed && !path))
}

/// `Bearer`, `Basic` or `Token`, and what follows.
fn credentials(window: &Window<'_>, start: usize) -> Option<Hit> {
    const SHORTEST: usize = 12;
    let rest = &window.bytes[start..];
    let word = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let known =
        ["bearer", "basic", "token"].iter().any(|known| rest[..word].eq_ignore_ascii_case(known.as_bytes()));
    let spaces = rest[word..].iter().take(4).take_while(|byte| **byte == b' ').count();
    if !known || spaces == 0 {
        return None;
    }
    let begin = start + word + spaces;
    let end = window.run(begin, Class::Any);
    let value = &window.bytes[begin..end];
    let fits = value.len() >= SHORTEST && distinct(value) >= 6 && !is_blank(value) && kinds(value) >= 2;
    fits.then(|| window.hit(begin, end, Class::Any))
}
