//! Where a thought stands: what came right before it and right behind it, which the fakes seal into what they sign, so
//! that a thought in another place is refused as a changed one.

use serde_json::Value;

/// A thought, beside another one.
pub const THOUGHT: &str = "k";

/// FNV-1a: what is sealed is to change with what is there, nothing more.
pub(crate) fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A text.
pub fn text(text: &str) -> String {
    format!("t{:016x}", hash(text))
}

/// A call, with its arguments or its input.
pub fn call(name: &str, input: &Value) -> String {
    format!("c{:016x}", hash(&format!("{name} {input}")))
}

/// Adds the neighbours to a seal; an empty one is not known, and anything may stand there.
pub fn sealed(seal: &str, before: &str, behind: &str) -> String {
    format!("{seal}@{before}.{behind}")
}

/// The seal itself, and the neighbours in it.
pub(crate) fn opened(seal: &str) -> (&str, Option<(&str, &str)>) {
    match seal.split_once('@') {
        Some((seal, place)) => (seal, place.split_once('.')),
        None => (seal, None),
    }
}

/// Whether the neighbours are those that were sealed.
pub(crate) fn fits(sealed: (&str, &str), before: Option<&str>, behind: Option<&str>) -> bool {
    let same = |sealed: &str, found: Option<&str>| sealed.is_empty() || found == Some(sealed);
    same(sealed.0, before) && same(sealed.1, behind)
}

/// The neighbours of each of some things that follow each other.
pub(crate) fn neighbours(tags: &[String], at: usize) -> (&str, &str) {
    let tag = |at: Option<usize>| at.and_then(|at| tags.get(at)).map_or("", String::as_str);
    (tag(at.checked_sub(1)), tag(Some(at + 1)))
}
