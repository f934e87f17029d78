//! Secrets that are known by their shape rather than by a prefix: JSON web tokens, private keys, passwords in addresses, and
//! keys of Azure that have their mark in the middle.

use base64::Engine as _;

use super::assigned::{is_about_passwords, is_password};
use super::rule::Rule;
use super::tail::{Tail, key_follows};
use super::value::{head, quoted, value};
use super::window::{Class, Hit, Window, looks_random};

/// What makes a rule look, and how it looks then.
pub(super) type Shape = (Rule, &'static str, fn(&Window<'_>) -> Option<Hit>);

/// The shapes that are known.
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

/// Header, payload and signature (or the five parts of an encrypted one), joined by dots. The header is JSON, so it begins
/// with `{"`.
fn jwt(window: &Window<'_>) -> Option<Hit> {
    const HEADER: usize = 12;
    if !window.begins_word(window.at) {
        return None;
    }
    let header = window.run(window.at, Class::Url);
    if header - window.at < HEADER || window.bytes.get(header) != Some(&b'.') {
        return None;
    }
    let payload = window.run(header + 1, Class::Url);
    let is_json = window.bytes[header + 1..].starts_with(b"eyJ") && payload - header > HEADER;
    // What is encrypted does not show what it is, and its key may be left out.
    let is_encrypted = || {
        let third = window.bytes.get(payload) == Some(&b'.');
        third && window.run(payload + 1, Class::Url) - payload > HEADER
    };
    if !is_json && !is_encrypted() {
        return None;
    }
    let end = window.run(window.at, Class::Dotted);
    Some(window.hit(window.at, end, Class::Dotted))
}

/// A line that announces a private key, with a piece of the key behind it.
fn private_key(window: &Window<'_>) -> Option<Hit> {
    const LONGEST: usize = 64;
    let rest = window.rest();
    let words = rest.iter().take(LONGEST).take_while(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b' '));
    let words = words.count();
    let is_private = memchr::memmem::find(&rest[..words], b"PRIVATE KEY").is_some();
    let dashes = rest[words..].iter().take(5).take_while(|byte| **byte == b'-').count();
    let end = window.after + words + dashes;
    let found = is_private && dashes >= 4 && key_follows(window.bytes, end);
    found.then_some(Hit { start: window.at, end, tail: Some(Tail::Key) })
}

/// The private part of a key of PuTTY: so many lines of base64.
fn putty_key(window: &Window<'_>) -> Option<Hit> {
    let end = window.after + window.rest().iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
    let found = end > window.after && key_follows(window.bytes, end);
    found.then_some(Hit { start: window.after, end, tail: Some(Tail::Key) })
}

/// The password of `scheme://user:password@host`; the user and the host stay readable.
fn url_password(window: &Window<'_>) -> Option<Hit> {
    const LONGEST_USER: usize = 256;
    let scheme = window.bytes[..window.at].last();
    if !scheme.is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    let end = window.run(window.after, Class::Authority);
    let authority = &window.bytes[window.after..end];
    let user = memchr::memchr(b':', &authority[..authority.len().min(LONGEST_USER)])?;
    if end == window.bytes.len() && window.goes_on {
        // No host is so long.
        return Some(window.hit(window.after + user + 1, end, Class::Authority));
    }
    let host = memchr::memrchr(b'@', authority)?;
    if user > host {
        return None;
    }
    let (password, host) = (&authority[user + 1..host], &authority[host + 1..]);
    let host_begins = host.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'[');
    // The digest of an image: `docker://alpine:3.18@sha256:…`.
    let is_digest = host.starts_with(b"sha256:") || host.starts_with(b"sha512:");
    if password.is_empty() || !host_begins || is_digest || is_blank(password) {
        return None;
    }
    let start = window.after + user + 1;
    Some(Hit { start, end: start + password.len(), tail: None })
}

/// Whether a value only says that one goes there: a variable, a name in brackets, stars.
pub(super) fn is_blank(value: &[u8]) -> bool {
    let (Some(first), Some(last)) = (value.first(), value.last()) else { return true };
    let is_name = |name: &[u8]| !name.is_empty() && name.iter().all(|byte| Class::Word.has(*byte));
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

/// The password of `curl -u user:password`.
fn curl_user(window: &Window<'_>) -> Option<Hit> {
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
    let found =
        !password.is_empty() && user > 0 && !is_blank(head(password)) && !is_about_passwords(head(password));
    let (start, end) = (value.start + user + 1, value.end);
    let hit =
        if value.quoted { Hit { start, end, tail: None } } else { window.hit(start, end, Class::Value) };
    found.then_some(hit)
}

/// The password of `mysql -uroot -pSecret`: right behind the option.
fn mysql_password(window: &Window<'_>) -> Option<Hit> {
    // Options of other programs that a line may have too.
    const OTHERS: [&[u8]; 4] = [b"rint", b"ath", b"erm", b"rune"];
    let before = &window.bytes[..window.at];
    let line = memchr::memrchr(b'\n', before).map_or(before, |end| &before[end + 1..]);
    memchr::memmem::find(line, b"mysql").or_else(|| memchr::memmem::find(line, b"mariadb"))?;
    let value = quoted(window, window.after);
    let bytes = value.head(window);
    let other = OTHERS.iter().any(|other| bytes.starts_with(other));
    let begins = !is_blank(bytes) && bytes[0] != b'-';
    let found = !other && begins && (value.quoted || is_password(bytes, value));
    let hit = if value.quoted {
        Hit { start: value.start, end: value.end, tail: None }
    } else {
        window.hit(value.start, value.end, Class::Value)
    };
    found.then_some(hit)
}

/// A name and a password in base64, as in the files of Docker (`"auth": "…"`) and npm (`_auth=…`).
fn basic_credentials(window: &Window<'_>) -> Option<Hit> {
    const LONGEST: usize = 1024;
    let value = value(window)?;
    let end = window.run(value.start, Class::Base64);
    let bytes = &window.bytes[value.start..end];
    let decoded =
        base64::engine::general_purpose::STANDARD.decode(&bytes[..bytes.len().min(LONGEST)]).ok()?;
    let text = std::str::from_utf8(&decoded).ok()?;
    let (name, password) = text.split_once(':')?;
    let found = !name.is_empty() && !password.is_empty() && !text.contains(char::is_control);
    found.then(|| window.hit(value.start, end, Class::Base64))
}

/// The number of a bot, a colon, and 35 characters that begin with `AA`.
fn telegram_token(window: &Window<'_>) -> Option<Hit> {
    let digits =
        window.bytes[..window.at].iter().rev().take(11).take_while(|byte| byte.is_ascii_digit()).count();
    let (start, begin) = (window.at - digits, window.at + 1);
    let end = window.run(begin, Class::Url);
    let fits = (8..=10).contains(&digits) && end - begin == 35 && window.begins_word(start);
    let found = fits && looks_random(&window.bytes[begin..end], Class::Url);
    found.then_some(Hit { start, end, tail: None })
}

/// 22 characters, a dot and 43 more.
fn sendgrid_key(window: &Window<'_>) -> Option<Hit> {
    const PARTS: (usize, usize) = (22, 43);
    let dot = window.run(window.after, Class::Url);
    if dot - window.after != PARTS.0 || window.bytes.get(dot) != Some(&b'.') || !window.begins_word(window.at)
    {
        return None;
    }
    let end = window.run(dot + 1, Class::Url);
    (end - dot - 1 == PARTS.1).then_some(Hit { start: window.at, end, tail: None })
}

/// Three characters, a digit, `Q~` and 31 to 34 more.
fn azure_client_secret(window: &Window<'_>) -> Option<Hit> {
    const BEFORE: usize = 4;
    // Two more than fit: with a full stop, and with one character too many.
    const MOST: usize = 36;
    let has = |byte: &u8| Class::Dotted.has(*byte) || *byte == b'~';
    let start = window.at.checked_sub(BEFORE)?;
    let before = &window.bytes[start..window.at];
    let behind = window.rest().iter().take(MOST).take_while(|byte| has(byte)).count();
    // The full stop of a sentence is not the secret's.
    let behind = behind - usize::from(behind > 31 && window.rest()[behind - 1] == b'.');
    let fits = before.iter().all(has) && before[BEFORE - 1].is_ascii_digit() && (31..=34).contains(&behind);
    if !fits || !looks_random(&window.rest()[..behind], Class::Any) || !window.begins_word(start) {
        return None;
    }
    Some(Hit { start, end: window.after + behind, tail: None })
}

/// 84 letters and digits with the mark in front of the last 26.
fn azure_marked_key(window: &Window<'_>) -> Option<Hit> {
    const BEFORE: usize = 52;
    let start = window.at.checked_sub(BEFORE)?;
    let end = window.run(window.after, Class::Alnum);
    let fits = window.bytes[start..window.at].iter().all(|byte| Class::Alnum.has(*byte));
    let found = fits && (20..=32).contains(&(end - window.after)) && window.begins_word(start);
    found.then_some(Hit { start, end, tail: None })
}
