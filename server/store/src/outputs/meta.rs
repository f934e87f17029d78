//! The file beside an output: what is known of it in one line, then where its lines stand, in rows of one width, then the
//! checksums of its blocks.
//!
//! All but who put it and when can be made again from the bytes.

use std::io;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::tally::Counted;
use crate::infra::fs::{File, Fs, Open, StorePath, optional};
use crate::log::{read_exact_at, seal, unseal};

/// The form of the file.
const FORMAT: u32 = 1;
/// Bytes of a row: two numbers and a checksum.
const ROW: usize = 51;
/// Bytes of a block's checksum: eight hex digits and a line end.
const CHECKSUM: usize = 9;
/// Longest first line.
const MAX_HEAD: usize = 32 << 10;

/// The facts about an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputHead {
    /// The form of the file.
    pub format: u32,
    /// Bytes of the output.
    pub byte_size: u64,
    /// Lines of it.
    pub line_count: u64,
    /// What it is, as it was put first.
    pub media_type: String,
    /// The tool that it was put for first.
    pub tool_name: String,
    /// The call that it was put for first.
    pub tool_call_id: String,
    /// When it was put first.
    pub created_at: DateTime<Utc>,
    /// When it was put last.
    pub put_at: DateTime<Utc>,
    /// The hash of its bytes, in 64 hex digits.
    pub blake3: String,
    /// Rows behind this line.
    pub rows: u64,
    /// Checksums behind the rows; files of older versions have none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub blocks: u64,
}

/// The origin of an output, and its time.
#[derive(Debug, Clone)]
pub struct Written {
    /// What it is.
    pub media_type: String,
    /// The tool that it comes from.
    pub tool_name: String,
    /// The call that it answers.
    pub tool_call_id: String,
    /// When.
    pub at: DateTime<Utc>,
}

impl OutputHead {
    /// Of an output that is put. What is told of it is what was told first.
    pub fn new(counted: &Counted, written: Written, before: Option<&Self>) -> Self {
        let Written { media_type, tool_name, tool_call_id, at } = written;
        let new = Self {
            format: FORMAT,
            byte_size: counted.byte_size,
            line_count: counted.line_count,
            media_type,
            tool_name,
            tool_call_id,
            created_at: at,
            put_at: at,
            blake3: counted.hash.to_hex().to_string(),
            rows: counted.rows.len() as u64,
            blocks: counted.blocks.len() as u64,
        };
        match before {
            Some(before) => Self {
                media_type: before.media_type.clone(),
                tool_name: before.tool_name.clone(),
                tool_call_id: before.tool_call_id.clone(),
                created_at: before.created_at,
                ..new
            },
            None => new,
        }
    }

    /// The whole file.
    pub fn file(&self, counted: &Counted) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.pop();
        seal(&mut bytes);
        for row in &counted.rows {
            bytes.extend_from_slice(row.to_text().as_bytes());
        }
        for checksum in &counted.blocks {
            bytes.extend_from_slice(format!("{checksum:08x}\n").as_bytes());
        }
        Ok(bytes)
    }
}

/// At `offset` begins a line, and `line` lines are before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineRow {
    pub(super) line: u64,
    pub(super) offset: u64,
}

impl LineRow {
    /// The beginning of every output.
    pub(super) const FIRST: Self = Self { line: 0, offset: 0 };

    fn to_text(self) -> String {
        let mut text = format!("{:>20} {:>20} ", self.line, self.offset);
        let crc = crc32fast::hash(text.as_bytes());
        text.push_str(&format!("{crc:08x}\n"));
        text
    }

    fn parse(bytes: &[u8; ROW]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let (covered, crc) = text.split_at_checked(ROW - 9)?;
        if u32::from_str_radix(crc, 16).ok()? != crc32fast::hash(covered.as_bytes()) {
            return None;
        }
        let mut numbers = covered.split_ascii_whitespace().map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        Some(Self { line: next()?, offset: next()? })
    }
}

/// The index of an output.
#[derive(Debug)]
pub struct Meta {
    /// What is known of the output.
    pub head: OutputHead,
    /// Bytes of the file.
    pub len: u64,
    rows: Rows,
}

#[derive(Debug)]
enum Rows {
    /// In a file, from an offset on.
    File(Arc<dyn File>, u64),
    /// Counted anew, as the file cannot be used.
    Memory(Vec<LineRow>),
}

/// The checksums of an output's blocks.
#[derive(Debug)]
pub(super) struct Checksums {
    file: Arc<dyn File>,
    first: u64,
}

impl Checksums {
    /// The checksum of a block, if it can be read.
    pub(super) fn of(&self, block: u64) -> io::Result<Option<u32>> {
        let mut bytes = [0; CHECKSUM];
        read_exact_at(self.file.as_ref(), &mut bytes, self.first + block * CHECKSUM as u64)?;
        let digits = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n'));
        Ok(digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()))
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Meta {
    /// Reads the file at a path; `None` if it is not there or damaged.
    pub fn read(fs: &dyn Fs, path: &StorePath) -> io::Result<Option<Self>> {
        let Some(file) = optional(fs.open(path, Open::Read))? else { return Ok(None) };
        let len = file.len()?;
        let mut bytes = vec![0; MAX_HEAD.min(usize::try_from(len).unwrap_or(MAX_HEAD))];
        // Nearly all of them are short.
        let mut known = 0;
        let end = loop {
            let next = bytes.len().min((known * 8).max(1024));
            match read_exact_at(file.as_ref(), &mut bytes[known..next], known as u64) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                read => read?,
            }
            match memchr::memchr(b'\n', &bytes[known..next]) {
                Some(at) => break known + at,
                None if next == bytes.len() => return Ok(None),
                None => known = next,
            }
        };
        let line = &bytes[..end];
        let head: Option<OutputHead> = unseal(line)
            .and_then(|_| serde_json::from_slice(line).ok())
            .filter(|head: &OutputHead| head.format == FORMAT);
        let Some(head) = head else { return Ok(None) };
        let first = end as u64 + 1;
        let rows = head.rows.checked_mul(ROW as u64);
        let blocks = head.blocks.checked_mul(CHECKSUM as u64);
        let behind = rows.zip(blocks).and_then(|(rows, blocks)| rows.checked_add(blocks));
        if behind.and_then(|behind| behind.checked_add(first)) != Some(len) {
            return Ok(None);
        }
        Ok(Some(Self { head, len, rows: Rows::File(file, first) }))
    }

    /// Of bytes that were counted, where there is no file that could be used.
    pub fn counted(counted: Counted, head: OutputHead) -> Self {
        Self { head, len: 0, rows: Rows::Memory(counted.rows) }
    }

    /// The checksums of the blocks, if the file has them.
    pub(super) fn checksums(&self) -> Option<Checksums> {
        match &self.rows {
            Rows::File(file, first) if self.head.blocks > 0 => {
                Some(Checksums { file: Arc::clone(file), first: first + self.head.rows * ROW as u64 })
            }
            Rows::File(..) | Rows::Memory(_) => None,
        }
    }

    /// The last row from which a line lies ahead; lines are counted from 0.
    pub(super) fn row_before(&self, line: u64) -> io::Result<LineRow> {
        let (mut low, mut high, mut found) = (0, self.head.rows, LineRow::FIRST);
        while low < high {
            let middle = low + (high - low) / 2;
            let row = self.row(middle)?;
            if row.line <= line {
                (found, low) = (row, middle + 1);
            } else {
                high = middle;
            }
        }
        Ok(found)
    }

    fn row(&self, number: u64) -> io::Result<LineRow> {
        let damaged =
            || io::Error::new(io::ErrorKind::InvalidData, format!("row {number} of the index is damaged"));
        match &self.rows {
            Rows::Memory(rows) => {
                usize::try_from(number).ok().and_then(|number| rows.get(number)).copied().ok_or_else(damaged)
            }
            Rows::File(file, first) => {
                let mut bytes = [0; ROW];
                read_exact_at(file.as_ref(), &mut bytes, first + number * ROW as u64)?;
                LineRow::parse(&bytes).ok_or_else(damaged)
            }
        }
    }

    /// Returns whether the rows are those that were counted.
    pub fn agrees(&self, counted: &Counted) -> io::Result<bool> {
        let head = &self.head;
        if (head.byte_size, head.line_count, head.rows)
            != (counted.byte_size, counted.line_count, counted.rows.len() as u64)
            || head.blake3 != counted.hash.to_hex().as_str()
        {
            return Ok(false);
        }
        for (number, row) in (0..).zip(&counted.rows) {
            match self.row(number) {
                Ok(found) if found == *row => {}
                Err(error) if error.kind() != io::ErrorKind::InvalidData => return Err(error),
                Ok(_) | Err(_) => return Ok(false),
            }
        }
        let Some(checksums) = self.checksums() else { return Ok(true) };
        if head.blocks != counted.blocks.len() as u64 {
            return Ok(false);
        }
        for (block, checksum) in (0..).zip(&counted.blocks) {
            if checksums.of(block)? != Some(*checksum) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
