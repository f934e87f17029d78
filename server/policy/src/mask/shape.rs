//! Secrets with a shape rather than a prefix: JSON web tokens, private keys, passwords in URLs, and Azure keys with a
//! mark in the middle.

use base64::Engine as _;

use super::assignment::{is_about_passwords, is_password};
use super::continuation::{Continuation, key_follows};
use super::rule::Rule;
use super::value::{head, quoted, value};
use super::window::{CharClass, Hit, TextWindow, looks_random};

/// A rule, its trigger literal and its detector.
pub(super) type Shape = (Rule, &'static str, fn(&TextWindow<'_>) -> Option<Hit>);

/// The known shapes.
pub(super) static SHAPES: &[Shape] = &[
    (Rule::Jwt, "eyJ", jwt),
    (Rule::PrivateKey, "-----BEGIN ", private_key),
    (Rule::PrivateKey, "---- BEGIN ", private_key),
    (Rule::PrivateKey, "Private-Lines: ", putty_key),
    (Rule::UrlPassword, "://", url_password),
    (Rule::UrlPassword, ":\\/\\/", url_password),
    (Rule::Password, " -u", curl_user),
    (Rule::Password, " --user", curl_user),
    (Rule::Password, " -p", mysql_password),
    (Rule::Secret, "\"auth\"", basic_credentials),
    (Rule::Secret, "auth\\", basic_credentials),
    (Rule::Secret, "_auth", basic_credentials),
    (Rule::ServiceToken, ":AA", telegram_token),
    (Rule::ServiceToken, "SG.", sendgrid_key),
    (Rule::AzureKey, "Q~", azure_client_secret),
    (Rule::AzureKey, "JQQJ99", azure_marked_key),
];

/// Matches header, payload and signature (or the five parts of an encrypted token), joined by dots. The header is
/// JSON, so it begins with `{"`.
fn jwt(window: &TextWindow<'_>) -> Option<Hit> {
    const HEADER: usize = 12;
    if !window.begins_word(window.at) {
        return None;
    }
    let header = window.run(window.at, CharClass::Url);
    if header - window.at < HEADER || window.bytes.get(header) != Some(&b'.') {
        return None;
    }
    let payload = window.run(header + 1, CharClass::Url);
    let is_json = window.bytes[header + 1..].starts_with(b"eyJ") && payload - header > HEADER;
    // An encrypted part looks random, and the encrypted key may be empty.
    let is_encrypted = || {
        let third = window.bytes.get(payload) == Some(&b'.');
        third && window.run(payload + 1, CharClass::Url) - payload > HEADER
    };
    if !is_json && !is_encrypted() {
        return None;
    }
    let end = window.run(window.at, CharClass::Dotted);
    Some(window.hit(window.at, end, CharClass::Dotted))
}

/// Matches the header line of a private key, followed by a piece of the key.
fn private_key(window: &TextWindow<'_>) -> Option<Hit> {
    const LONGEST: usize = 64;
    let rest = window.rest();
    let words = rest.iter().take(LONGEST).take_while(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b' '));
    let words = words.count();
    let is_private = memchr::memmem::find(&rest[..words], b"PRIVATE KEY").is_some();
    let dashes = rest[words..].iter().take(5).take_while(|byte| **byte == b'-').count();
    let end = window.after + words + dashes;
    let found = is_private && dashes >= 4 && key_follows(window.bytes, end);
    found.then_some(Hit { start: window.at, end, continuation: Some(Continuation::Key) })
}

/// Matches the private part of a PuTTY key: a number of lines of base64.
fn putty_key(window: &TextWindow<'_>) -> Option<Hit> {
    let end = window.after + window.rest().iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
    let found = end > window.after && key_follows(window.bytes, end);
    found.then_some(Hit { start: window.after, end, continuation: Some(Continuation::Key) })
}

/// Matches the password of `scheme://user:password@host`; the user and the host stay readable.
fn url_password(window: &TextWindow<'_>) -> Option<Hit> {
    const LONGEST_USER: usize = 256;
    let scheme = window.bytes[..window.at].last();
    if !scheme.is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    let end = window.run(window.after, CharClass::Authority);
    let authority = &window.bytes[window.after..end];
    let user = memchr::memchr(b':', &authority[..authority.len().min(LONGEST_USER)])?;
    if end == window.bytes.len() && window.has_more {
        // A host name is never this long.
        return Some(window.hit(window.after + user + 1, end, CharClass::Authority));
    }
    let host = memchr::memrchr(b'@', authority)?;
    if user > host {
        return None;
    }
    let (password, host) = (&authority[user + 1..host], &authority[host + 1..]);
    let host_begins = host.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'[');
    // The digest of an image: `docker://alpine:3.18@sha256:…`.
    let is_digest = host.starts_with(b"sha256:") || host.starts_with(b"sha512:");
    if password.is_empty() || !host_begins || is_digest || is_placeholder(password) {
        return None;
    }
    let start = window.after + user + 1;
    Some(Hit { start, end: start + password.len(), continuation: None })
}

/// Returns whether a value is a placeholder: a variable, a name in brackets, stars.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let (Some(first), Some(last)) = (value.first(), value.last()) else { return true };
    let is_name = |name: &[u8]| !name.is_empty() && name.iter().all(|byte| CharClass::Word.has(*byte));
    let brackets = matches!((first, last), (b'<', b'>') | (b'[', b']') | (b'{', b'}') | (b'(', b')'));
    let filled =
        value.iter().all(|byte| matches!(byte, b'*' | b'.' | b'x' | b'X' | b'-' | b'_' | b'#' | b'?'));
    let variable = match (first, &value[1..]) {
        (b'$', [b'{' | b'(', ..]) => true,
        (b'$', name) => is_name(name) && !name[0].is_ascii_digit(),
        (b'%', name) => name.starts_with(b"(") || is_name(name.strip_suffix(b"%").unwrap_or(name)),
        (b'#' | b'@' | b'{', [b'{', ..]) => true,
        _ => false,
    };
    brackets || filled || variable
}

/// Matches the password of `curl -u user:password`.
fn curl_user(window: &TextWindow<'_>) -> Option<Hit> {
    let before = &window.bytes[..window.at];
    let line = memchr::memrchr(b'\n', before).map_or(before, |end| &before[end + 1..]);
    memchr::memmem::find(line, b"curl")?;
    let blank = window.rest().iter().take(1).take_while(|byte| matches!(byte, b' ' | b'=')).count();
    if blank == 0 && window.bytes[..window.after].ends_with(b"--user") {
        return None;
    }
    let value = quoted(window, window.after + blank);
    let user = memchr::memchr(b':', value.head(window))?;
    let password = &value.bytes(window)[user + 1..];
    let found = !password.is_empty()
        && user > 0
        && !is_placeholder(head(password))
        && !is_about_passwords(head(password));
    let (start, end) = (value.start + user + 1, value.end);
    let hit = if value.quoted {
        Hit { start, end, continuation: None }
    } else {
        window.hit(start, end, CharClass::Value)
    };
    found.then_some(hit)
}

/// Matches the password of `mysql -uroot -pSecret`, directly after the option.
fn mysql_password(window: &TextWindow<'_>) -> Option<Hit> {
    // Options of other programs on the same line.
    const OTHERS: [&[u8]; 4] = [b"rint", b"ath", b"erm", b"rune"];
    let before = &window.bytes[..window.at];
    let line = memchr::memrchr(b'\n', before).map_or(before, |end| &before[end + 1..]);
    memchr::memmem::find(line, b"mysql").or_else(|| memchr::memmem::find(line, b"mariadb"))?;
    let value = quoted(window, window.after);
    let bytes = value.head(window);
    let other = OTHERS.iter().any(|other| bytes.starts_with(other));
    let begins = !is_placeholder(bytes) && bytes[0] != b'-';
    let found = !other && begins && (value.quoted || is_password(bytes, value));
    let hit = if value.quoted {
        Hit { start: value.start, end: value.end, continuation: None }
    } else {
        window.hit(value.start, value.end, CharClass::Value)
    };
    found.then_some(hit)
}

/// Matches a name and a password in base64, as in the files of Docker (`"auth": "…"`) and npm (`_auth=…`).
fn basic_credentials(window: &TextWindow<'_>) -> Option<Hit> {
    const LONGEST: usize = 1024;
    let value = value(window)?;
    let end = window.run(value.start, CharClass::Base64);
    let bytes = &window.bytes[value.start..end];
    let decoded =
        base64::engine::general_purpose::STANDARD.decode(&bytes[..bytes.len().min(LONGEST)]).ok()?;
    let text = std::str::from_utf8(&decoded).ok()?;
    let (name, password) = text.split_once(':')?;
    let found = !name.is_empty() && !password.is_empty() && !text.contains(char::is_control);
    found.then(|| window.hit(value.start, end, CharClass::Base64))
}

/// Matches the number of a bot, a colon, and 35 characters that begin with `AA`.
fn telegram_token(window: &TextWindow<'_>) -> Option<Hit> {
    let digits =
        window.bytes[..window.at].iter().rev().take(11).take_while(|byte| byte.is_ascii_digit()).count();
    let (start, begin) = (window.at - digits, window.at + 1);
    let end = window.run(begin, CharClass::Url);
    let fits = (8..=10).contains(&digits) && end - begin == 35 && window.begins_word(start);
    let found = fits && looks_random(&window.bytes[begin..end], CharClass::Url);
    found.then_some(Hit { start, end, continuation: None })
}

/// Matches 22 characters, a dot and 43 more.
fn sendgrid_key(window: &TextWindow<'_>) -> Option<Hit> {
    const PARTS: (usize, usize) = (22, 43);
    let dot = window.run(window.after, CharClass::Url);
    if dot - window.after != PARTS.0 || window.bytes.get(dot) != Some(&b'.') || !window.begins_word(window.at)
    {
        return None;
    }
    let end = window.run(dot + 1, CharClass::Url);
    (end - dot - 1 == PARTS.1).then_some(Hit { start: window.at, end, continuation: None })
}

/// Matches three characters, a digit, `Q~` and 31 to 34 more.
fn azure_client_secret(window: &TextWindow<'_>) -> Option<Hit> {
    const BEFORE: usize = 4;
    // Two more than the format allows, to detect a full stop and one character too many.
    const MOST: usize = 36;
    let has = |byte: &u8| CharClass::Dotted.has(*byte) || *byte == b'~';
    let start = window.at.checked_sub(BEFORE)?;
    let before = &window.bytes[start..window.at];
    let behind = window.rest().iter().take(MOST).take_while(|byte| has(byte)).count();
    // A full stop that ends the sentence is not part of the secret.
    let behind = behind - usize::from(behind > 31 && window.rest()[behind - 1] == b'.');
    let fits = before.iter().all(has) && before[BEFORE - 1].is_ascii_digit() && (31..=34).contains(&behind);
    if !fits || !looks_random(&window.rest()[..behind], CharClass::Any) || !window.begins_word(start) {
        return None;
    }
    Some(Hit { start, end: window.after + behind, continuation: None })
}

/// Matches 84 letters and digits with the mark before the last 26.
fn azure_marked_key(window: &TextWindow<'_>) -> Option<Hit> {
    const BEFORE: usize = 52;
    let start = window.at.checked_sub(BEFORE)?;
    let end = window.run(window.after, CharClass::Alnum);
    let fits = window.bytes[start..window.at].iter().all(|byte| CharClass::Alnum.has(*byte));
    let found = fits && (20..=32).contains(&(end - window.after)) && window.begins_word(start);
    found.then_some(Hit { start, end, continuation: None })
}
