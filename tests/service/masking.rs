//! No secret reaches the disk, whatever way it came, and nothing else is changed: a generated corpus through the rules, through
//! streams, and through every door of a real server.

mod command;
mod corpus;
mod patterns;
mod places;
mod rules;

use std::collections::HashSet;

/// As many characters of a secret are nowhere to be found.
const LEAST: usize = 8;

/// Looks for pieces of secrets in bytes.
pub(crate) struct Hound {
    pieces: HashSet<[u8; LEAST]>,
}

fn pieces(bytes: &[u8]) -> impl Iterator<Item = [u8; LEAST]> {
    bytes.windows(LEAST).filter_map(|window| window.try_into().ok())
}

impl Hound {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let lines = secrets.into_iter().flat_map(str::lines);
        Self { pieces: lines.flat_map(|line| pieces(line.as_bytes())).collect() }
    }

    /// The first piece that is there.
    pub(crate) fn finds(&self, bytes: &[u8]) -> Option<String> {
        let found = pieces(bytes).find(|piece| self.pieces.contains(piece))?;
        Some(String::from_utf8_lossy(&found).into_owned())
    }
}
