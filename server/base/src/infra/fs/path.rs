//! Paths inside a data directory, which consist of checked names only.

use std::borrow::Cow;
use std::fmt;

use uuid::Uuid;

/// One component of a path: not empty, not `.` or `..`, without `/` and NUL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Cow<'static, str>);

impl Name {
    /// Creates a name that is fixed in the program.
    pub const fn fixed(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// Parses a name read from a directory; `None` if it could leave the directory.
    pub fn parse(name: &str) -> Option<Self> {
        let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
        plain.then(|| Self(Cow::Owned(name.to_owned())))
    }

    /// Appends a suffix that is fixed in the program (`messages.jsonl` → `messages.jsonl.next`).
    pub fn with_suffix(&self, suffix: &'static str) -> Self {
        Self(Cow::Owned(format!("{}{suffix}", self.0)))
    }

    /// Prepends a prefix that is fixed in the program.
    pub fn with_prefix(&self, prefix: &'static str) -> Self {
        Self(Cow::Owned(format!("{prefix}{}", self.0)))
    }

    /// Formats bytes as hex digits, with a prefix that is fixed in the program.
    pub fn hex(prefix: &'static str, bytes: &[u8]) -> Self {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(Cow::Owned(format!("{prefix}{digits}")))
    }

    /// Appends a number (`x` → `x.2`).
    pub fn numbered(&self, number: u64) -> Self {
        Self(Cow::Owned(format!("{}.{number}", self.0)))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Uuid> for Name {
    fn from(id: Uuid) -> Self {
        Self(Cow::Owned(id.hyphenated().to_string()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A path relative to the root of a data directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StorePath(Vec<Name>);

impl StorePath {
    /// The data directory.
    pub const ROOT: Self = Self(Vec::new());

    /// Appends a name.
    #[must_use]
    pub fn join(&self, name: impl Into<Name>) -> Self {
        let mut names = Vec::with_capacity(self.0.len() + 1);
        names.extend_from_slice(&self.0);
        names.push(name.into());
        Self(names)
    }

    /// Splits a path into its directory and its last name; `None` for the root.
    pub fn split(&self) -> Option<(Self, &Name)> {
        let (last, parents) = self.0.split_last()?;
        Some((Self(parents.to_vec()), last))
    }

    /// Returns the directory of a path; the root's is itself.
    #[must_use]
    pub fn parent(&self) -> Self {
        self.split().map_or(Self::ROOT, |(parent, _)| parent)
    }

    /// Returns the names from the root down.
    pub fn names(&self) -> &[Name] {
        &self.0
    }
}

impl fmt::Display for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(".");
        }
        for (at, name) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("/")?;
            }
            f.write_str(name.as_str())?;
        }
        Ok(())
    }
}
