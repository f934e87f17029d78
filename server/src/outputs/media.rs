//! What an output is by its media type.

/// How an output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaKind {
    /// As text.
    Text,
    /// As an image, where a model takes one.
    Image,
    /// As a document, where a model takes one.
    Document,
    /// Not at all.
    Binary,
}

impl MediaKind {
    /// By a media type, with or without parameters.
    pub fn of(media_type: &str) -> Self {
        let plain = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let (family, name) = plain.split_once('/').unwrap_or((&plain, ""));
        let is_text = match family {
            "text" => true,
            "application" => {
                let known = [
                    "json",
                    "jsonl",
                    "x-ndjson",
                    "ndjson",
                    "xml",
                    "yaml",
                    "x-yaml",
                    "toml",
                    "javascript",
                    "x-sh",
                    "sql",
                    "graphql",
                    "x-www-form-urlencoded",
                ];
                known.contains(&name)
                    || name.ends_with("+json")
                    || name.ends_with("+xml")
                    || name.ends_with("+yaml")
            }
            // A drawing in words.
            "image" => name == "svg+xml",
            _ => false,
        };
        match (family, name) {
            _ if is_text => Self::Text,
            ("image", "png" | "jpeg" | "gif" | "webp") => Self::Image,
            ("application", "pdf") => Self::Document,
            _ => Self::Binary,
        }
    }
}

/// Whether bytes that something begins with may be read by somebody: a NUL here and there and other encodings do no harm
/// (`env -0`, Latin-1), what is packed or for machines has many control characters, or zeros in a row.
pub fn may_be_text(bytes: &[u8]) -> bool {
    let is_odd = |byte: &&u8| **byte < b' ' && !matches!(**byte, 0 | 7..=13 | 0x1b);
    let odd = bytes.iter().filter(is_odd).count();
    memchr::memmem::find(bytes, b"\0\0").is_none() && odd * 20 <= bytes.len()
}
