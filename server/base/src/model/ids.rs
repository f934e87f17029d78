//! Ids that callers send, parsed at the border. No id is ever joined to a path as text.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::InvalidField;

/// The id of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(Uuid);

impl TaskId {
    /// Creates an id (UUIDv7: ids sort by the time of creation).
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// Parses the usual hyphenated form, in either case.
    pub fn parse(text: &str) -> Result<Self, InvalidField> {
        let bad =
            || InvalidField::new("task_uuid", "is not a UUID like 018f6b2e-5c1a-7d3e-9a41-0c5d2e8b7f10");
        if text.len() != 36 {
            return Err(bad());
        }
        let id = Uuid::try_parse(text).map_err(|_| bad())?;
        if id.is_nil() { Err(bad()) } else { Ok(Self(id)) }
    }

    /// Returns the UUID.
    pub fn uuid(self) -> Uuid {
        self.0
    }
}

impl Default for TaskId {
    fn default() -> Self {
        Self::new()
    }
}

impl From<Uuid> for TaskId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $field:literal, $most:literal, $allowed:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            /// Longest id, in bytes.
            pub const MAX_BYTES: usize = $most;

            /// Parses an id of 1 to [`Self::MAX_BYTES`] allowed characters.
            pub fn parse(text: &str) -> Result<Self, InvalidField> {
                if text.is_empty() || text.len() > Self::MAX_BYTES {
                    return Err(InvalidField::new($field, concat!("must have 1 to ", $most, " characters")));
                }
                $allowed(text).map_err(|problem| InvalidField::new($field, problem))?;
                Ok(Self(text.to_owned()))
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidField;

            fn try_from(text: String) -> Result<Self, InvalidField> {
                Self::parse(&text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

/// Accepts printable ASCII, which can stand in a line and in a header unchanged.
fn visible(text: &str) -> Result<(), &'static str> {
    if text.bytes().any(|b| !b.is_ascii_graphic() || b == b'"' || b == b'\\') {
        return Err("may only contain visible ASCII characters, without quotes and backslashes");
    }
    Ok(())
}

/// Accepts characters that are safe in a file name on every storage.
fn name_of_a_file(text: &str) -> Result<(), &'static str> {
    if text.starts_with('.') {
        return Err("must not begin with a dot");
    }
    if text.bytes().any(|b| !b.is_ascii_alphanumeric() && !b"-_.:@+=~".contains(&b)) {
        return Err("may only contain letters, digits and -_.:@+=~");
    }
    Ok(())
}

text_id!(
    /// Identifies one call of a client, so that a retry of it changes nothing.
    RequestId, "request_id", 128, visible
);

impl RequestId {
    /// Returns the id of one part of a call.
    #[must_use]
    pub fn part(&self, part: &str) -> Self {
        let plain = Self::parse(&format!("{self}/{part}"));
        // An id of the full length is replaced by its hash.
        plain.unwrap_or_else(|_| {
            let hash = blake3::hash(self.as_str().as_bytes()).to_hex();
            Self::parse(&format!("{hash}/{part}")).unwrap_or_else(|_| self.clone())
        })
    }
}

text_id!(
    /// Identifies one running client: random per process, because pids mean nothing across containers.
    InstanceId, "holder.instance_id", 128, visible
);
text_id!(
    /// Identifies the full output of a tool within its task.
    OutputRef, "output_ref", 128, name_of_a_file
);
