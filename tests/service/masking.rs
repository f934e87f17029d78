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

/// Of hexadecimal digits alone it takes more: the digests in a file have any eight of them now and then.
const LEAST_HEX: usize = 16;

/// Looks for pieces of secrets in bytes.
pub(crate) struct Hound {
    pieces: HashSet<[u8; LEAST]>,
    hex_pieces: HashSet<[u8; LEAST_HEX]>,
}

fn pieces<const LEN: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; LEN]> {
    bytes.windows(LEN).filter_map(|window| window.try_into().ok())
}

fn is_hex(piece: &[u8]) -> bool {
    piece.iter().all(u8::is_ascii_hexdigit)
}

impl Hound {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let lines: Vec<&[u8]> = secrets.into_iter().flat_map(str::lines).map(str::as_bytes).collect();
        let short = lines.iter().flat_map(|line| pieces(line)).filter(|piece| !is_hex(piece));
        let hex = lines.iter().flat_map(|line| pieces(line)).filter(|piece| is_hex(piece));
        Self { pieces: short.collect(), hex_pieces: hex.collect() }
    }

    /// The first piece that is there.
    pub(crate) fn finds(&self, bytes: &[u8]) -> Option<String> {
        let short = pieces(bytes).find(|piece| self.pieces.contains(piece)).map(|piece| piece.to_vec());
        let hex = || pieces(bytes).find(|piece| self.hex_pieces.contains(piece)).map(|piece| piece.to_vec());
        Some(String::from_utf8_lossy(&short.or_else(hex)?).into_owned())
    }
}
