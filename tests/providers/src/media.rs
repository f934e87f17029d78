//! Images and files in base64: whether it is base64, and what the bytes are.

/// Where base64 text stops being valid, if it does. Padding is required, as providers do.
pub(crate) fn base64_fault(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take_while(|b| **b == b'=').count();
    let data = &bytes[..bytes.len() - padding.min(2)];
    let fault = data.iter().position(|b| value(*b).is_none());
    fault.or_else(|| (!bytes.len().is_multiple_of(4)).then_some(bytes.len()))
}

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

/// The first bytes that base64 text stands for.
fn head(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for group in text.as_bytes().chunks_exact(4).take(8) {
        let bits = group.iter().fold(0, |bits, b| bits << 6 | value(*b).unwrap_or(0));
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    out
}

/// The media type of an image by its first bytes.
pub(crate) fn image_type(base64: &str) -> Option<&'static str> {
    let head = head(base64);
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

/// Whether base64 text is a PDF.
pub(crate) fn is_pdf(base64: &str) -> bool {
    head(base64).starts_with(b"%PDF-")
}

/// The media type and the base64 text of a data URL.
pub(crate) fn data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}

/// Whether it is an address that a provider can fetch.
pub(crate) fn is_web(url: &str, schemes: &[&str]) -> bool {
    schemes.iter().any(|scheme| {
        url.strip_prefix(scheme)
            .and_then(|rest| rest.strip_prefix("://"))
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '['))
    }) && !url.chars().any(|c| c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_known_by_its_letters_and_length() {
        for good in ["", "QQ==", "QUI=", "QUJD"] {
            assert_eq!(base64_fault(good), None, "{good}");
        }
        for (bad, at) in [("Q", 1), ("QQ=", 3), ("Q===", 1), ("QU!D", 2), ("QU=D", 2), ("QUJDQ", 5)] {
            assert_eq!(base64_fault(bad), Some(at), "{bad}");
        }
    }

    #[test]
    fn files_are_known_by_their_first_bytes() {
        assert_eq!(image_type("iVBORw0KGgoAAAANSUhEUg=="), Some("image/png"));
        assert_eq!(image_type("/9j/4AAQSkZJRg=="), Some("image/jpeg"));
        assert_eq!(image_type("R0lGODlhAQABAIAAAA=="), Some("image/gif"));
        assert_eq!(image_type("UklGRiQAAABXRUJQVlA4"), Some("image/webp"));
        assert_eq!(image_type("aGVsbG8="), None);
        assert!(is_pdf("JVBERi0xLjQK"));
    }

    #[test]
    fn an_address_has_a_host() {
        assert!(is_web("https://a.b/c.png", &["http", "https"]));
        for bad in ["http://a.b", "https://", "https:///a", "https://a b", "ftp://a"] {
            assert!(!is_web(bad, &["https"]), "{bad}");
        }
    }
}
