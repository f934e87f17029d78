//! Images and files in messages: what a data URL holds, and whether a provider could take it.

use std::borrow::Cow;

use super::text::decode;

/// Where an image or a file is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// An image in base64, of a kind that every provider takes, by its first bytes.
    Image { media_type: &'static str, base64: Cow<'a, str> },
    /// A PDF in base64.
    Pdf(Cow<'a, str>),
    /// An address on the web.
    Web(Cow<'a, str>),
    /// Nothing that a provider could take. What it claims to be, and its size.
    Other { claims: String, bytes: usize },
}

/// Looks at the URL of an image or a file, which is JSON text.
pub(super) fn place(url: &str) -> Place<'_> {
    let url = decode(url);
    let is_data = url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    if !is_data {
        let bytes = url.len();
        return if is_web(&url) { Place::Web(url) } else { Place::Other { claims: String::new(), bytes } };
    }
    let Some(comma) = url.find(',') else {
        return Place::Other { claims: String::new(), bytes: url.len() };
    };
    let head = url[5..comma].to_ascii_lowercase();
    let claims: String = head
        .split(';')
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_graphic())
        .take(64)
        .collect();
    let bytes = url.len() - comma - 1;
    if !head.ends_with(";base64") {
        return Place::Other { claims, bytes };
    }
    let base64 = match url {
        Cow::Borrowed(url) => Cow::Borrowed(&url[comma + 1..]),
        Cow::Owned(url) => Cow::Owned(url[comma + 1..].to_owned()),
    };
    base64_place(base64, claims)
}

/// Looks at bytes in base64.
pub(super) fn base64_place(base64: Cow<'_, str>, claims: String) -> Place<'_> {
    let bytes = base64.len() / 4 * 3;
    if !is_base64(&base64) {
        return Place::Other { claims, bytes };
    }
    let head = head(&base64);
    if head.starts_with(b"%PDF-") {
        return Place::Pdf(base64);
    }
    match image_type(&head) {
        Some(media_type) => Place::Image { media_type, base64 },
        None => Place::Other { claims, bytes },
    }
}

/// Whether it is an address with a host.
fn is_web(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
        && url.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a text is base64 with padding, and not empty.
pub(super) fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let data = &bytes[..bytes.len() - padding];
    !data.is_empty() && bytes.len().is_multiple_of(4) && data.iter().all(|byte| sextet(*byte).is_some())
}

fn sextet(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

/// The first bytes that base64 text stands for.
fn head(base64: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for four in base64.as_bytes().chunks_exact(4).take(4) {
        let bits = four.iter().fold(0, |bits, byte| bits << 6 | sextet(*byte).unwrap_or(0));
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    out
}

/// The kind of an image by its first bytes: providers refuse one that is not what it is said to be.
fn image_type(head: &[u8]) -> Option<&'static str> {
    if head.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if head.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
        Some("image/gif")
    } else if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_holds_is_known_by_its_bytes() {
        let png = "iVBORw0KGgoAAAANSUhEUg==";
        let image = |media_type, base64: &str| Place::Image { media_type, base64: base64.to_owned().into() };
        let other = |claims: &str, bytes| Place::Other { claims: claims.to_owned(), bytes };
        for (url, expected) in [
            (format!("\"data:image/png;base64,{png}\""), image("image/png", png)),
            // It is no JPEG, whatever it says.
            (format!("\"data:image/jpeg;base64,{png}\""), image("image/png", png)),
            (
                r#""data:image\/jpeg;base64,\/9j\/4AAQSkZJRg==""#.to_owned(),
                image("image/jpeg", "/9j/4AAQSkZJRg=="),
            ),
            ("\"DATA:Application/PDF;base64,JVBERi0xLjQK\"".to_owned(), Place::Pdf("JVBERi0xLjQK".into())),
            ("\"https://a.b/c.png?d=e\"".to_owned(), Place::Web("https://a.b/c.png?d=e".into())),
            ("\"data:image/tiff;base64,aGVsbG8=\"".to_owned(), other("image/tiff", 6)),
            ("\"data:image/png;base64,iVBORw0KGgo\"".to_owned(), other("image/png", 6)),
            ("\"data:image/png,abc\"".to_owned(), other("image/png", 3)),
            ("\"data:,\"".to_owned(), other("", 0)),
            ("\"data:x\"".to_owned(), other("", 6)),
            ("\"file:///etc/passwd\"".to_owned(), other("", 18)),
            ("\"https://\"".to_owned(), other("", 8)),
            ("\"\"".to_owned(), other("", 0)),
        ] {
            assert_eq!(place(&url), expected, "{url}");
        }
    }
}
