//! Values that are secret because of their name: `password=`, `"secret_access_key": "…"`, `Authorization: Bearer …`.
//! Only the value is masked.

use super::shape::is_placeholder;
use super::value::{Value, head, quoted, value};
use super::window::{CharClass, Hit, TextWindow, distinct, kinds, looks_random};

/// The kind of value that a rule expects after a name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    /// Any password that a person could have chosen.
    Password,
    /// A run of characters of a class, with the fewest and the most characters of the format.
    Run(CharClass, usize, usize),
    /// A long random value.
    Random,
    /// A scheme and its credentials.
    Credentials,
}

impl Expected {
    /// Returns the value of the name that triggered the rule, if it is of the expected kind.
    pub(super) fn check(self, window: &TextWindow<'_>) -> Option<Hit> {
        if let Self::Password = self {
            return password(window);
        }
        let pair = || next_item(window.rest()).map(|at| quoted(window, window.after + at));
        let value = value(window).or_else(|| if let Self::Credentials = self { pair() } else { None })?;
        match self {
            Self::Password => None,
            Self::Run(class, least, most) => {
                let (end, escapes) = run(window, value.start, class);
                let bytes = &window.bytes[value.start..end];
                // Base64 may be padded to a multiple of four.
                let len =
                    bytes.len() - bytes.iter().rev().take_while(|byte| **byte == b'=').count() - escapes;
                let fits = (least..=most).contains(&len) && looks_random(bytes, CharClass::Any);
                fits.then(|| window.hit(value.start, end, class))
            }
            Self::Random if is_resource_name(window) => None,
            Self::Random if value.quoted && is_made_of_signs(value.bytes(window)) => {
                is_random_value(value.head(window)).then_some(Hit {
                    start: value.start,
                    end: value.end,
                    continuation: None,
                })
            }
            Self::Random => {
                let end = window.run(value.start, CharClass::Any);
                // A full stop that ends the sentence is not part of the value.
                let bytes = &window.bytes[value.start..end];
                let bytes = bytes.strip_suffix(b".").unwrap_or(bytes);
                let hit = window.hit(value.start, end, CharClass::Any);
                let end = if hit.continuation.is_none() { value.start + bytes.len() } else { end };
                is_random_value(head(bytes)).then_some(Hit { end, ..hit })
            }
            Self::Credentials => credentials(window, value.start),
        }
    }
}

/// Returns whether the name is a part of a resource name: `arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME`.
fn is_resource_name(window: &TextWindow<'_>) -> bool {
    let before = &window.bytes[..window.at];
    let word = before.iter().rev().take_while(|byte| !byte.is_ascii_whitespace() && **byte != b'"').count();
    before.ends_with(b":") && before[before.len() - word..].starts_with(b"arn:")
}

/// Returns the end of a run in which slashes may be escaped, as some JSON writers do, and the bytes of its escapes.
fn run(window: &TextWindow<'_>, start: usize, class: CharClass) -> (usize, usize) {
    let (mut end, mut escapes) = (window.run(start, class), 0);
    while window.bytes[end..].starts_with(b"\\/") && class.has(b'/') {
        escapes += 1;
        end = window.run(end + 1, class);
    }
    (end, escapes)
}

fn password(window: &TextWindow<'_>) -> Option<Hit> {
    let hit = |value: Value| match value.quoted {
        true => Hit { start: value.start, end: value.end, continuation: None },
        false => window.hit(value.start, value.end, CharClass::Value),
    };
    let Some(value) = value(window) else {
        let value = quoted(window, argument(window)?);
        let bytes = value.head(window);
        let how = Value { colon: true, spaced: true, ..value };
        return (bytes.first() != Some(&b'-') && is_password(bytes, how)).then(|| hit(value));
    };
    // A colon after a file name is the output of `grep`, not an assignment.
    let bytes = value.head(window);
    let tight = value.colon && !value.spaced && !value.quoted;
    let number = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_path = window.bytes[..window.at].ends_with(b"/");
    if tight && (is_path || (number > 0 && bytes.get(number) == Some(&b':'))) {
        return None;
    }
    let whole = if value.quoted { value.bytes(window) } else { bytes };
    (is_password(bytes, value) || (value.quoted && is_passphrase(whole))).then(|| hit(value))
}

/// Returns the start of a password after a blank: `--password x`, and `login me password x` of a `.netrc`.
fn argument(window: &TextWindow<'_>) -> Option<usize> {
    let (before, rest) = (&window.bytes[..window.at], window.rest());
    let option = before.ends_with(b"--");
    let mut words = before.rsplit(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let netrc = before.ends_with(b" ") || before.ends_with(b"\n") || before.ends_with(b"\t");
    let login = netrc && words.nth(1) == Some(b"login");
    let alone = rest.first() == Some(&b' ') && rest.get(1).is_some_and(u8::is_ascii_graphic);
    let listed = || next_item(rest).filter(|_| option).map(|at| window.after + at);
    if alone && (option || login) { Some(window.after + 1) } else { listed() }
}

/// Returns the start of the next item of a list, with its quote, after the quote that ends an item: `"--password",
/// "x"`.
fn next_item(rest: &[u8]) -> Option<usize> {
    let escapes = rest.iter().take(4).take_while(|byte| **byte == b'\\').count();
    let quote = rest.get(escapes).filter(|byte| matches!(byte, b'"' | b'\''))?;
    let behind = rest.get(escapes + 1..)?.strip_prefix(b",")?;
    let blanks = behind.iter().take(16).take_while(|byte| byte.is_ascii_whitespace()).count();
    let begins = behind[blanks..].iter().take(4).find(|byte| **byte != b'\\') == Some(quote);
    begins.then_some(escapes + 2 + blanks)
}

/// Returns whether a value is a passphrase: words with blanks between them, without the function words of sentences.
fn is_passphrase(value: &[u8]) -> bool {
    const COMMON_WORDS: &str = "the your you and are for from has have must not should with was were will this that than then can \
        cannot may please enter field fields least invalid wrong incorrect new old current reset change \
        confirm forgot forgotten repeat again too short required user name login admin database set hash \
        hashed encrypted stored string value text characters type default root used using when auth basic \
        token failed missing";
    let words: Vec<&[u8]> = value.split(|byte| *byte == b' ').collect();
    let is_plain = |word: &&[u8]| {
        (3..=12).contains(&word.len())
            && word.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && !COMMON_WORDS.split(' ').any(|common| common.as_bytes() == *word)
    };
    (4..=12).contains(&words.len()) && words.iter().all(is_plain) && !is_about_passwords(value)
}

/// Returns whether a quoted value contains signs that end a run, and none of an expression, a URL or a sentence.
fn is_made_of_signs(value: &[u8]) -> bool {
    let is_sign = |byte: &u8| byte.is_ascii_graphic() && !b":{}()[]<>\"'`\\".contains(byte);
    value.iter().all(is_sign) && !value.iter().all(|byte| CharClass::Any.has(*byte)) && value[0] != b'$'
}

/// Returns whether a value is a password, and not a variable, a call, a type, a label or a word of a sentence. A
/// value without quotes, digits and signs cannot be distinguished from a name, and is kept.
pub(super) fn is_password(value: &[u8], how: Value) -> bool {
    const SHORTEST: usize = 4;
    const LONG_WORD: usize = 9;
    let is_visible = |byte: &u8| byte.is_ascii_graphic() || !byte.is_ascii();
    let plain = value.len() < SHORTEST || !value.iter().all(is_visible) || distinct(value) < 3;
    if plain || is_placeholder(value) {
        return false;
    }
    let digit = value.iter().any(u8::is_ascii_digit);
    let letter = value.iter().any(u8::is_ascii_alphabetic);
    let sign = value.iter().any(|byte| byte.is_ascii_punctuation() && !b"_-.:/".contains(byte));
    if is_word(value) || (!digit && is_about_passwords(value)) || has_placeholder(value) {
        return false;
    }
    // A label in another language: passwords with such letters usually contain a digit.
    if !value.is_ascii() && (!digit || value.iter().any(|byte| *byte >= 0xe0)) {
        return false;
    }
    if how.environment && letter && value.len() >= LONG_WORD && value.iter().all(u8::is_ascii_alphanumeric) {
        return true;
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

/// Words that are placeholders for a value or name its type.
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

pub(super) fn is_about_passwords(value: &[u8]) -> bool {
    let lower = value.to_ascii_lowercase();
    ["passw", "your", "secret", "env"]
        .iter()
        .any(|word| memchr::memmem::find(&lower, word.as_bytes()).is_some())
}

/// Returns whether a part of the value is a placeholder: `{name}`, `${NAME}`, `%s`.
fn has_placeholder(value: &[u8]) -> bool {
    let find = |text: &[u8]| memchr::memmem::find(value, text);
    let braces = memchr::memchr(b'{', value).is_some_and(|open| value[open..].contains(&b'}'));
    braces || value == b"%s" || find(b"$(").is_some()
}

/// Returns whether a value is a name, a path of names, a call or an index: `config.password`, `get_password()`,
/// `args["p"]`.
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
    let is_name = |byte: &u8| CharClass::Word.has(*byte) || matches!(byte, b'.' | b':' | b'?' | b'$' | b'@');
    let names = value.iter().take_while(|byte| is_name(byte)).count();
    let joined = value[..names].iter().any(|byte| matches!(byte, b'.' | b':' | b'?'));
    match value.get(names) {
        None => joined,
        Some(b'(' | b'[' | b'{' | b')' | b']' | b'}') => true,
        Some(b'-') => value[names..].starts_with(b"->"),
        Some(_) => false,
    }
}

/// Returns whether a value is randomly generated: long, and with all kinds of characters, or hexadecimal digits only.
fn is_random_value(value: &[u8]) -> bool {
    const SHORTEST: usize = 20;
    const SHORTEST_HEX: usize = 32;
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let hex = value.len() >= SHORTEST_HEX && value.iter().all(|byte| CharClass::Hex.has(*byte));
    let mixed = value.len() >= SHORTEST && kinds(value) == 3 && digits >= 2 && !is_expression(value);
    distinct(value) >= 8 && (hex || (mixed && !is_path(value)))
}

/// Returns whether a value is names with slashes between them, rather than base64, whose long parts have all kinds of
/// characters.
fn is_path(value: &[u8]) -> bool {
    const LONG: usize = 10;
    let drawn = |part: &[u8]| {
        part.len() >= LONG && kinds(part) == 3 && part.iter().all(|byte| CharClass::Base64.has(*byte))
    };
    let absolute = matches!(value[0], b'/' | b'.' | b'~');
    value.iter().filter(|byte| **byte == b'/').count() > 2
        && (absolute || !value.split(|byte| *byte == b'/').any(drawn))
}

/// Returns the credentials after `Bearer`, `Basic` or `Token`.
fn credentials(window: &TextWindow<'_>, start: usize) -> Option<Hit> {
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
    let end = window.run(begin, CharClass::Any);
    let value = &window.bytes[begin..end];
    let fits = value.len() >= SHORTEST && distinct(value) >= 6 && !is_placeholder(value) && kinds(value) >= 2;
    fits.then(|| window.hit(begin, end, CharClass::Any))
}
