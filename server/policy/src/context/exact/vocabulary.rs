//! The tokens of an encoding, by their bytes. The rank of a token is its place in the table.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Marks a slot without a token.
const EMPTY: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Vocabulary {
    /// The bytes of all tokens, by rank.
    bytes: Vec<u8>,
    /// Where each token begins in them; and where the last one ends.
    starts: Vec<u32>,
    /// A hash table with open addressing: half of the hash, to pass over most others at once, and the rank.
    slots: Vec<(u32, u32)>,
    /// The length of the longest token.
    longest: usize,
}

impl Vocabulary {
    /// Returns the vocabulary out of a packed `.tiktoken` file: lines of a token in base64 and its rank, in order. None if
    /// it is none.
    pub(super) fn unpack(table: &[u8]) -> Option<Self> {
        let table = String::from_utf8(zstd::decode_all(table).ok()?).ok()?;
        let (mut bytes, mut starts) = (Vec::with_capacity(table.len() / 2), vec![0]);
        for (expected, line) in table.lines().enumerate() {
            let (token, rank) = line.split_once(' ')?;
            BASE64_STANDARD.decode_vec(token, &mut bytes).ok()?;
            starts.push(u32::try_from(bytes.len()).ok()?);
            if rank.parse() != Ok(expected) {
                return None;
            }
        }
        bytes.shrink_to_fit();
        starts.shrink_to_fit();
        let size = (2 * starts.len()).next_power_of_two();
        let mut vocabulary = Self { bytes, starts, slots: vec![(0, EMPTY); size], longest: 0 };
        for rank in 0..u32::try_from(vocabulary.starts.len() - 1).ok()? {
            let token = vocabulary.token(rank);
            let length = token.len();
            let (half, slot) = vocabulary.look_up(token);
            // An empty token would match everywhere, and one that is there twice has two ranks.
            if length == 0 || vocabulary.slots[slot].1 != EMPTY {
                return None;
            }
            vocabulary.slots[slot] = (half, rank);
            vocabulary.longest = vocabulary.longest.max(length);
        }
        // Merging begins with single bytes.
        let has_bytes = (0..=u8::MAX).all(|byte| vocabulary.rank(&[byte]).is_some());
        has_bytes.then_some(vocabulary)
    }

    /// Returns the rank of the token with these bytes.
    pub(super) fn rank(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest {
            return None;
        }
        let (_, slot) = self.look_up(bytes);
        Some(self.slots[slot].1).filter(|rank| *rank != EMPTY)
    }

    /// Returns how many bytes a token has.
    pub(super) fn length(&self, rank: u32) -> usize {
        self.token(rank).len()
    }

    fn token(&self, rank: u32) -> &[u8] {
        let rank = rank as usize;
        &self.bytes[self.starts[rank] as usize..self.starts[rank + 1] as usize]
    }

    /// Returns half of the hash of some bytes, and the slot where they are or would be. More than half of the slots are
    /// empty, so there is always one.
    fn look_up(&self, bytes: &[u8]) -> (u32, usize) {
        let hash = hash(bytes);
        let (half, mask) = ((hash >> 32) as u32, self.slots.len() - 1);
        let mut slot = hash as usize & mask;
        loop {
            let (other, rank) = self.slots[slot];
            if rank == EMPTY || (other == half && self.token(rank) == bytes) {
                return (half, slot);
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// FNV-1a: most tokens are a few bytes long, and nobody can add to the table.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{CL100K_TABLE, O200K_TABLE};
    use super::*;

    /// Nothing of what OpenAI published is lost on the way.
    #[test]
    fn every_token_is_found_under_its_rank() {
        for (table, tokens) in [(O200K_TABLE, 199_998), (CL100K_TABLE, 100_256)] {
            let vocabulary = Vocabulary::unpack(table).unwrap();
            assert_eq!(vocabulary.starts.len() - 1, tokens);
            assert_eq!(vocabulary.longest, 128);
            for rank in 0..u32::try_from(tokens).unwrap() {
                assert_eq!(vocabulary.rank(vocabulary.token(rank)), Some(rank));
            }
            assert_eq!(vocabulary.rank(b""), None);
            assert_eq!(vocabulary.rank("no token".as_bytes()), None);
            assert_eq!(vocabulary.rank(&[b' '; 129]), None);
        }
    }

    #[test]
    fn what_is_no_vocabulary_is_none() {
        let pack = |text: &str| zstd::bulk::compress(text.as_bytes(), 1).unwrap();
        let lines = |tokens: &mut dyn Iterator<Item = Vec<u8>>| -> String {
            let line = |(rank, token)| format!("{} {rank}\n", BASE64_STANDARD.encode::<Vec<u8>>(token));
            tokens.enumerate().map(line).collect()
        };
        let bytes = || (0..=u8::MAX).map(|byte| vec![byte]);
        let whole = lines(&mut bytes());
        assert!(Vocabulary::unpack(&pack(&whole)).is_some());

        assert!(Vocabulary::unpack(b"").is_none());
        assert!(Vocabulary::unpack(&O200K_TABLE[..O200K_TABLE.len() / 2]).is_none());
        assert!(Vocabulary::unpack(&pack("")).is_none());
        assert!(Vocabulary::unpack(&pack(&lines(&mut bytes().skip(1)))).is_none());
        assert!(Vocabulary::unpack(&pack(&lines(&mut bytes().chain([vec![0]])))).is_none());
        assert!(Vocabulary::unpack(&pack(&lines(&mut bytes().chain([vec![]])))).is_none());
        for line in ["AAA= 257\n", "AAA=\n", "A?A= 256\n", "AAA= x\n"] {
            assert!(Vocabulary::unpack(&pack(&format!("{whole}{line}"))).is_none(), "{line}");
        }
    }
}
