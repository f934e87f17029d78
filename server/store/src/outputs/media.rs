//! The kind of an output by its media type.

/// The way in which an output is shown.
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
