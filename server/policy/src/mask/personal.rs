//! Personal data: email addresses, telephone numbers, national identity numbers. Off by default, because a false
//! match loses data.

use super::rule::Rule;
use super::shape::Shape;
use super::window::{CharClass, Hit, TextWindow};

/// Returns the shapes with their triggers: `@`, and any digit.
pub(super) fn shapes() -> impl Iterator<Item = Shape> {
    const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let email: Shape = (Rule::Email, "@", email);
    let numbers = DIGITS.into_iter().flat_map(|digit| {
        let shapes: [Shape; 3] =
            [(Rule::Ssn, digit, ssn), (Rule::Phone, digit, phone), (Rule::MyNumber, digit, my_number)];
        shapes
    });
    std::iter::once(email).chain(numbers)
}

/// Matches `name@host.tld`. The host has a dot and ends in letters.
fn email(window: &TextWindow<'_>) -> Option<Hit> {
    const LONGEST: usize = 64;
    let is_local = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._%+-".contains(byte);
    let before = &window.bytes[..window.at];
    let local = before.iter().rev().take(LONGEST + 1).take_while(is_local).count();
    let mut start = window.at - local;
    while start < window.at && matches!(window.bytes[start], b'.' | b'-' | b'%') {
        start += 1;
    }
    let is_host = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let host = window.rest().iter().take(253).take_while(is_host).count();
    let host = &window.rest()[..host];
    let host = &host[..host.iter().rposition(u8::is_ascii_alphanumeric)? + 1];
    let top = &host[memchr::memrchr(b'.', host)? + 1..];
    let fits = (1..=LONGEST).contains(&(window.at - start))
        && top.len() >= 2
        && top.iter().all(u8::is_ascii_alphabetic)
        && host[0].is_ascii_alphanumeric();
    fits.then_some(Hit { start, end: window.after + host.len(), continuation: None })
}

/// Returns the end of digits in groups, `(count, count, …)`, with one separator between two groups.
fn groups(window: &TextWindow<'_>, start: usize, counts: &[usize], separators: &[u8]) -> Option<usize> {
    let mut at = start;
    for (index, count) in counts.iter().enumerate() {
        if index > 0 {
            window.bytes.get(at).filter(|byte| separators.contains(byte))?;
            at += 1;
        }
        let group = window.bytes.get(at..at + count)?;
        if !group.iter().all(u8::is_ascii_digit) {
            return None;
        }
        at += count;
    }
    let ends = !window.bytes.get(at).is_some_and(|byte| CharClass::Word.has(*byte));
    // A further group would make it a longer number.
    let alone = !(window.bytes.get(at).is_some_and(|byte| matches!(byte, b'-' | b'.'))
        && window.bytes.get(at + 1).is_some_and(u8::is_ascii_digit));
    (ends && alone).then_some(at)
}

/// Returns whether a number begins here, rather than continues.
fn begins(window: &TextWindow<'_>, at: usize) -> bool {
    let before = &window.bytes[..at];
    match before {
        [.., last] if CharClass::Word.has(*last) => window.begins_word(at) && *last != b'_',
        [.., digit, b'-' | b'.' | b'/' | b'+'] => !digit.is_ascii_alphanumeric(),
        _ => true,
    }
}

/// Matches `ddd-dd-dddd`. No group is all zeros, and the first is not 666 or 9xx: such numbers are never issued.
fn ssn(window: &TextWindow<'_>) -> Option<Hit> {
    let start = window.at;
    let end = begins(window, start).then(|| groups(window, start, &[3, 2, 4], b"-")).flatten()?;
    let text = &window.bytes[start..end];
    let given = &text[..3] != b"000"
        && &text[..3] != b"666"
        && text[0] != b'9'
        && &text[4..6] != b"00"
        && &text[7..] != b"0000";
    given.then_some(Hit { start, end, continuation: None })
}

/// Matches twelve digits, together or in groups of four; the last is a check digit.
fn my_number(window: &TextWindow<'_>) -> Option<Hit> {
    let start = window.at;
    if !begins(window, start) {
        return None;
    }
    let end = groups(window, start, &[12], b"").or_else(|| groups(window, start, &[4, 4, 4], b" -"))?;
    let digits: Vec<u32> =
        window.bytes[start..end].iter().filter(|b| b.is_ascii_digit()).map(|b| u32::from(b - b'0')).collect();
    let weight = |index: usize| if index < 6 { index + 2 } else { index - 4 };
    let sum: usize = (0..11).map(|index| digits[10 - index] as usize * weight(index)).sum();
    let check = match sum % 11 {
        0 | 1 => 0,
        rest => 11 - rest,
    };
    let found = digits[11] as usize == check && digits.iter().any(|digit| *digit != digits[0]);
    found.then_some(Hit { start, end, continuation: None })
}

/// Matches `+` and 8 to 15 digits in groups; a US number in 3, 3 and 4; a Japanese one that begins with 0 and has two
/// hyphens.
fn phone(window: &TextWindow<'_>) -> Option<Hit> {
    let at = window.at;
    if let Some(start) = at.checked_sub(1).filter(|before| window.bytes[*before] == b'+') {
        let joins = |byte: &&u8| byte.is_ascii_digit() || b" -.()".contains(byte);
        let len = window.bytes[at..].iter().take(24).take_while(joins).count();
        let text = &window.bytes[at..at + len];
        let len = text.iter().rposition(u8::is_ascii_digit).map_or(0, |last| last + 1);
        let digits = text[..len].iter().filter(|byte| byte.is_ascii_digit()).count();
        let ends = !window.bytes.get(at + len).is_some_and(|byte| CharClass::Word.has(*byte));
        let fits = (8..=15).contains(&digits) && ends && begins(window, start);
        return fits.then_some(Hit { start, end: at + len, continuation: None });
    }
    let bracket = at.checked_sub(1).filter(|before| window.bytes[*before] == b'(');
    let start = bracket.unwrap_or(at);
    if !begins(window, start) {
        return None;
    }
    let us = || match bracket {
        Some(_) => {
            let area = window.bytes.get(at..at + 4).filter(|area| area[3] == b')')?;
            let next = at + 4 + usize::from(window.bytes.get(at + 4) == Some(&b' '));
            let is_area = area[..3].iter().all(u8::is_ascii_digit);
            is_area.then(|| groups(window, next, &[3, 4], b"-. ")).flatten()
        }
        None => groups(window, at, &[3, 3, 4], b"-."),
    };
    let japanese = || {
        let shapes: [[usize; 3]; 5] = [[3, 4, 4], [2, 4, 4], [3, 3, 4], [4, 2, 4], [4, 3, 3]];
        let zero = window.bytes[at] == b'0' && bracket.is_none();
        zero.then(|| shapes.iter().find_map(|shape| groups(window, at, shape, b"-"))).flatten()
    };
    let end = us().or_else(japanese)?;
    Some(Hit { start, end, continuation: None })
}
