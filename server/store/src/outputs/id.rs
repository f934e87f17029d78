//! The name of an output: what is in it, or the message that has it.

use std::fmt;

use crate::infra::fs::Name;

/// `out-` and 32 hex digits of the BLAKE3 hash of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputId([u8; 16]);

impl OutputId {
    /// The beginning of every id.
    pub const PREFIX: &str = "out-";
    /// Characters of an id.
    pub const LEN: usize = Self::PREFIX.len() + 32;

    /// Of the hash of all its bytes.
    pub fn of(hash: &blake3::Hash) -> Self {
        let mut first = [0; 16];
        first.copy_from_slice(&hash.as_bytes()[..16]);
        Self(first)
    }

    /// The reverse of `to_string`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::of_digits(text.strip_prefix(Self::PREFIX)?.as_bytes())
    }

    /// Those that a text names, in order.
    pub fn named_in(text: &str) -> impl Iterator<Item = Self> {
        let is_of_id = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        text.split(move |c| !is_of_id(c)).filter_map(Self::parse)
    }

    /// Of its digits alone.
    pub(crate) fn of_digits(digits: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut id = [0; 16];
        if digits.len() != 2 * id.len() {
            return None;
        }
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(id))
    }

    /// Returns whether it is the name of bytes with this hash.
    pub fn is_of(self, hash: &blake3::Hash) -> bool {
        self == Self::of(hash)
    }

    /// Its file while it is as it was put.
    pub fn plain(self) -> Name {
        Name::hex(Self::PREFIX, &self.0)
    }

    /// Its file once it is packed.
    pub fn packed(self) -> Name {
        self.plain().with_suffix(super::PACKED)
    }

    /// The file of its index.
    pub fn meta(self) -> Name {
        self.plain().with_suffix(super::META)
    }
}

impl fmt::Display for OutputId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The name of an output: one that was stored, or the text of a message that was not, as a note in its place
/// names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputName {
    /// `out-…`
    Stored(OutputId),
    /// `seq=N`
    Message(u64),
}

impl OutputName {
    /// The beginning of the name of a message.
    const PREFIX: &str = "seq=";

    /// The reverse of `to_string`.
    pub fn parse(text: &str) -> Option<Self> {
        let Some(seq) = text.strip_prefix(Self::PREFIX) else {
            return OutputId::parse(text).map(Self::Stored);
        };
        let digits = seq.bytes().all(|byte| byte.is_ascii_digit()) && !seq.starts_with('0');
        seq.parse().ok().filter(|_| digits).map(Self::Message)
    }
}

impl From<OutputId> for OutputName {
    fn from(id: OutputId) -> Self {
        Self::Stored(id)
    }
}

impl fmt::Display for OutputName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored(id) => id.fmt(f),
            Self::Message(seq) => write!(f, "{}{seq}", Self::PREFIX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_and_nothing_else_is_one() {
        let id = OutputId::of(&blake3::hash(b"bytes"));
        assert_eq!(id.to_string().len(), OutputId::LEN);
        assert_eq!(OutputId::parse(&id.to_string()), Some(id));
        let upper = id.to_string().to_uppercase();
        let long = format!("{id}0");
        for other in [
            "",
            "out-",
            "../../etc/passwd",
            &upper,
            &long,
            &long[..35],
            "out-0123456789abcdef0123456789abcdeg",
        ] {
            assert_eq!(OutputId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_name_is_an_id_or_a_message() {
        let id = OutputId::of(&blake3::hash(b"bytes"));
        for name in [OutputName::Stored(id), OutputName::Message(1), OutputName::Message(u64::MAX)] {
            assert_eq!(OutputName::parse(&name.to_string()), Some(name));
        }
        for other in
            ["", "seq=", "seq=0", "seq=01", "seq=+1", "seq=-1", "seq=1 ", "seq=18446744073709551616", "1"]
        {
            assert_eq!(OutputName::parse(other), None, "{other}");
        }
    }
}
