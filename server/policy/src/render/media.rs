//! Images and files in messages: the contents of data URLs, and their support by providers.

use std::borrow::Cow;

use super::text::decode;

/// The source of an image or a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MediaSource<'a> {
    /// An image in base64, of a type that every provider accepts, detected by its first bytes.
    Image { media_type: &'static str, base64: Cow<'a, str> },
    /// A PDF in base64.
    Pdf(Cow<'a, str>),
    /// A URL on the web.
    Web(Cow<'a, str>),
    /// A source that no provider accepts, with its claimed type and its size.
    Other { claims: String, bytes: usize },
}

/// Parses the URL of an image or a file, which is JSON text.
pub(super) fn parse_url(url: &str) -> MediaSource<'_> {
    let url = decode(url);
    let is_data = url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    if !is_data {
        let bytes = url.len();
        return if is_web(&url) {
            MediaSource::Web(url)
        } else {
            MediaSource::Other { claims: String::new(), bytes }
        };
    }
    let Some(comma) = url.find(',') else {
        return MediaSource::Other { claims: String::new(), bytes: url.len() };
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
        return MediaSource::Other { claims, bytes };
    }
    let base64 = match url {
        Cow::Borrowed(url) => Cow::Borrowed(&url[comma + 1..]),
        Cow::Owned(url) => Cow::Owned(url[comma + 1..].to_owned()),
    };
    parse_base64(base64, claims)
}

/// Classifies bytes in base64.
pub(super) fn parse_base64(base64: Cow<'_, str>, claims: String) -> MediaSource<'_> {
    let bytes = base64.len() / 4 * 3;
    if !is_base64(&base64) {
        return MediaSource::Other { claims, bytes };
    }
    let head = head(&base64);
    if head.starts_with(b"%PDF-") {
        return MediaSource::Pdf(base64);
    }
    match image_type(&head) {
        Some(media_type) => MediaSource::Image { media_type, base64 },
        None => MediaSource::Other { claims, bytes },
    }
}

/// Returns whether a text is a URL with a host.
fn is_web(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
        && url.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns whether a text is base64 with padding, and not empty.
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

/// Decodes the first bytes of base64 text.
fn head(base64: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for four in base64.as_bytes().chunks_exact(4).take(4) {
        let bits = four.iter().fold(0, |bits, byte| bits << 6 | sextet(*byte).unwrap_or(0));
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    out
}

/// Returns the type of an image by its first bytes: providers reject an image whose declared type is wrong.
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
    fn the_type_of_a_data_url_is_detected_by_its_bytes() {
        let png = "iVBORw0KGgoAAAANSUhEUg==";
        let image =
            |media_type, base64: &str| MediaSource::Image { media_type, base64: base64.to_owned().into() };
        let other = |claims: &str, bytes| MediaSource::Other { claims: claims.to_owned(), bytes };
        for (url, expected) in [
            (format!("\"data:image/png;base64,{png}\""), image("image/png", png)),
            // The declared JPEG is a PNG.
            (format!("\"data:image/jpeg;base64,{png}\""), image("image/png", png)),
            (
                r#""data:image\/jpeg;base64,\/9j\/4AAQSkZJRg==""#.to_owned(),
                image("image/jpeg", "/9j/4AAQSkZJRg=="),
            ),
            (
                "\"DATA:Application/PDF;base64,JVBERi0xLjQK\"".to_owned(),
                MediaSource::Pdf("JVBERi0xLjQK".into()),
            ),
            ("\"https://a.b/c.png?d=e\"".to_owned(), MediaSource::Web("https://a.b/c.png?d=e".into())),
            ("\"data:image/tiff;base64,aGVsbG8=\"".to_owned(), other("image/tiff", 6)),
            ("\"data:image/png;base64,iVBORw0KGgo\"".to_owned(), other("image/png", 6)),
            ("\"data:image/png,abc\"".to_owned(), other("image/png", 3)),
            ("\"data:,\"".to_owned(), other("", 0)),
            ("\"data:x\"".to_owned(), other("", 6)),
            ("\"file:///etc/passwd\"".to_owned(), other("", 18)),
            ("\"https://\"".to_owned(), other("", 8)),
            ("\"\"".to_owned(), other("", 0)),
        ] {
            assert_eq!(parse_url(&url), expected, "{url}");
        }
    }
}
