//! Counts an output while its bytes pass by: its hash, its size, where its lines are, whether it is text.

use super::OutputId;
use super::meta::LineRow;

/// A row for the first line at least this far behind the last row's.
pub(super) const SPACING: u64 = 64 << 10;

/// Bytes that one checksum is of; the last may be of less.
pub(super) const BLOCK: usize = 64 << 10;

/// Counts bytes as they come.
#[derive(Debug)]
pub struct Tally {
    hash: blake3::Hasher,
    bytes: u64,
    /// Line feeds so far.
    ends: u64,
    /// Whether something follows the last line feed.
    open: bool,
    rows: Vec<LineRow>,
    /// From where on the next line deserves a row.
    due: u64,
    blocks: Blocks,
    text: TextCheck,
}

/// The counts of an output.
#[derive(Debug)]
pub struct Counted {
    /// The name of the output.
    pub id: OutputId,
    /// The whole hash.
    pub hash: blake3::Hash,
    /// Its bytes.
    pub byte_size: u64,
    /// Its lines.
    pub line_count: u64,
    /// Where lines stand in it.
    pub(super) rows: Vec<LineRow>,
    /// The CRC-32 of each block.
    pub(super) blocks: Vec<u32>,
    /// Whether it is UTF-8 without NUL.
    pub is_text: bool,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            hash: blake3::Hasher::new(),
            bytes: 0,
            ends: 0,
            open: false,
            rows: Vec::new(),
            due: SPACING,
            blocks: Blocks::default(),
            text: TextCheck::default(),
        }
    }
}

impl Tally {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.text.push(bytes);
        self.blocks.push(bytes);
        let mut rest = bytes;
        while !rest.is_empty() {
            // Up to where no line deserves a row, only their number is of interest.
            let near = self.due.saturating_sub(self.bytes).saturating_sub(1);
            let near = usize::try_from(near).unwrap_or(usize::MAX).min(rest.len());
            let (counted, far) = rest.split_at(near);
            self.ends += count(counted);
            self.bytes += near as u64;
            match memchr::memchr(b'\n', far) {
                None => {
                    self.bytes += far.len() as u64;
                    rest = &[];
                }
                Some(at) => {
                    self.bytes += at as u64 + 1;
                    self.ends += 1;
                    self.rows.push(LineRow { line: self.ends, offset: self.bytes });
                    self.due = self.bytes + SPACING;
                    rest = &far[at + 1..];
                }
            }
        }
        if let Some(last) = bytes.last() {
            self.open = *last != b'\n';
        }
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// There are no more.
    pub fn finish(mut self) -> Counted {
        // A row behind the last byte leads nowhere.
        if self.rows.last().is_some_and(|row| row.offset == self.bytes) {
            self.rows.pop();
        }
        let hash = self.hash.finalize();
        Counted {
            id: OutputId::of(&hash),
            hash,
            byte_size: self.bytes,
            line_count: self.ends + u64::from(self.open),
            rows: self.rows,
            blocks: self.blocks.finish(),
            is_text: self.text.is_text(),
        }
    }
}

/// Line feeds in some bytes.
pub(super) fn count(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Checksums of blocks.
#[derive(Debug, Default)]
struct Blocks {
    done: Vec<u32>,
    crc: crc32fast::Hasher,
    /// Bytes of the block that is being filled.
    filled: usize,
}

impl Blocks {
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (part, rest) = bytes.split_at(bytes.len().min(BLOCK - self.filled));
            self.crc.update(part);
            self.filled += part.len();
            if self.filled == BLOCK {
                self.close();
            }
            bytes = rest;
        }
    }

    fn close(&mut self) {
        self.done.push(std::mem::take(&mut self.crc).finalize());
        self.filled = 0;
    }

    fn finish(mut self) -> Vec<u32> {
        if self.filled > 0 {
            self.close();
        }
        self.done
    }
}

/// Checks whether bytes are UTF-8 without NUL.
#[derive(Debug, Default)]
struct TextCheck {
    broken: bool,
    /// The beginning of a character whose end has not come yet.
    begun: Vec<u8>,
}

impl TextCheck {
    fn push(&mut self, bytes: &[u8]) {
        if self.broken {
            return;
        }
        if memchr::memchr(0, bytes).is_some() {
            self.broken = true;
            return;
        }
        let mut rest = bytes;
        while !self.begun.is_empty() && !self.broken {
            let Some((next, behind)) = rest.split_first() else { return };
            self.begun.push(*next);
            rest = behind;
            match std::str::from_utf8(&self.begun) {
                Ok(_) => self.begun.clear(),
                Err(error) => self.broken = error.error_len().is_some(),
            }
        }
        if let Err(error) = std::str::from_utf8(rest) {
            self.broken |= error.error_len().is_some();
            self.begun.extend_from_slice(&rest[error.valid_up_to()..]);
        }
    }

    fn is_text(&self) -> bool {
        !self.broken && self.begun.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(bytes: &[u8], piece: usize) -> Counted {
        let mut tally = Tally::default();
        bytes.chunks(piece).for_each(|piece| tally.push(piece));
        tally.finish()
    }

    #[test]
    fn lines_are_counted_however_the_bytes_come() {
        for (bytes, lines) in
            [(&b""[..], 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2), (b"\r\n\r", 2), (b"a\0\n", 1)]
        {
            for piece in 1..4 {
                assert_eq!(counted(bytes, piece).line_count, lines, "{bytes:?}");
            }
        }
    }

    #[test]
    fn rows_lead_to_lines_and_stand_apart() {
        let mut text = String::new();
        for line in 0..40_000 {
            text.push_str(&format!("line {line} {}\n", "x".repeat(line % 97)));
        }
        let whole = counted(text.as_bytes(), usize::MAX >> 1);
        for piece in [1 << 10, 65_536, 100_000] {
            assert_eq!(counted(text.as_bytes(), piece).rows, whole.rows);
        }
        let mut before = 0;
        for row in &whole.rows {
            let at = usize::try_from(row.offset).unwrap();
            assert!(text[at..].starts_with(&format!("line {} ", row.line)), "{row:?}");
            assert!(row.offset >= before + SPACING && row.offset < before + SPACING + 200);
            before = row.offset;
        }
        assert!(whole.rows.len() > 10);
    }

    #[test]
    fn text_is_utf8_without_nul() {
        for piece in 1..5 {
            assert!(counted("grün 日本 🦀".as_bytes(), piece).is_text);
            assert!(!counted(b"a\0b", piece).is_text);
            assert!(!counted(b"a\xffb", piece).is_text);
            assert!(!counted(&"日".as_bytes()[..2], piece).is_text);
            assert!(!counted(b"\xe6\x97a", piece).is_text);
        }
    }
}
