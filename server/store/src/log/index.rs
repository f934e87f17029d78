//! The sparse index of a log: where a message or a rewrite stands, without reading what is before it.
//!
//! Rows are text of one width, so the file is searched in place. It is a view: nothing is lost with it, and
//! whoever uses a row checks the line it leads to.

use std::io;
use std::sync::Arc;

use super::line::{Head, Line};
use super::scan::read_exact_at;
use crate::infra::fs::File;

const ROW: usize = 62;
/// A row for the first line at least this far behind the last row's.
const SPACING: u64 = 64 << 10;

/// One row: at `offset` begins a line; the next message is `seq`, and `rewrites` rewrites came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexRow {
    /// The next message.
    pub seq: u64,
    /// Rewrites so far.
    pub rewrites: u64,
    /// Where a line begins.
    pub offset: u64,
}

impl IndexRow {
    /// The beginning of every log.
    pub const FIRST: Self = Self { seq: 1, rewrites: 0, offset: 0 };

    fn to_text(self) -> String {
        let mut text = format!("{:>20} {:>10} {:>20} ", self.seq, self.rewrites, self.offset);
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
        Some(Self { seq: next()?, rewrites: next()?, offset: next()? })
    }
}

/// The index of one log. Rows are gathered in memory and written in batches; a clone is a
/// reader's snapshot.
#[derive(Debug, Clone)]
pub struct Index {
    file: Arc<dyn File>,
    rows: u64,
    last: IndexRow,
    pending: Vec<IndexRow>,
}

impl Index {
    /// An empty index over whatever was in the file.
    pub fn create(file: Arc<dyn File>) -> io::Result<Self> {
        file.truncate(0)?;
        Ok(Self { file, rows: 0, last: IndexRow::FIRST, pending: Vec::new() })
    }

    /// The first `rows` rows of a file; `None` if they are not there or damaged. If they are trusted, only the
    /// last one is looked at.
    pub fn open(file: Arc<dyn File>, rows: u64, trusted: bool) -> io::Result<Option<Self>> {
        let mut index = Self { file, rows, last: IndexRow::FIRST, pending: Vec::new() };
        if index.file.len()? < rows.saturating_mul(ROW as u64) {
            return Ok(None);
        }
        if rows > 0 {
            let Some(last) = index.row(rows - 1)? else { return Ok(None) };
            index.last = last;
        }
        Ok(if trusted || index.is_whole()? { Some(index) } else { None })
    }

    fn is_whole(&self) -> io::Result<bool> {
        const AT_ONCE: u64 = 1024;
        let mut bytes = Vec::new();
        for first in (0..self.rows).step_by(AT_ONCE as usize) {
            let count = AT_ONCE.min(self.rows - first);
            bytes.resize(count as usize * ROW, 0);
            read_exact_at(self.file.as_ref(), &mut bytes, first * ROW as u64)?;
            let whole = |row: &[u8]| row.try_into().ok().and_then(IndexRow::parse).is_some();
            if !bytes.chunks_exact(ROW).all(whole) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the rows durable that were written.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Rows there are, written or not.
    pub fn rows(&self) -> u64 {
        self.rows + self.pending.len() as u64
    }

    /// Adds the row of a line if the index needs it: at a rewrite, and far behind the last row.
    pub fn note(&mut self, row: IndexRow, line: &Line<'_>) {
        let is_rewrite = matches!(line.head, Head::Event { name: "rewrite", .. });
        let far = row.offset >= self.last.offset.saturating_add(SPACING);
        if far || (is_rewrite && row.offset > self.last.offset) {
            self.last = row;
            self.pending.push(row);
        }
    }

    /// Writes the rows that were gathered if there are enough of them, or all if `all`.
    pub fn write(&mut self, all: bool) -> io::Result<()> {
        const BATCH: usize = 64;
        if self.pending.is_empty() || (!all && self.pending.len() < BATCH) {
            return Ok(());
        }
        let text: String = self.pending.iter().map(|row| row.to_text()).collect();
        self.file.write_all_at(text.as_bytes(), self.rows * ROW as u64)?;
        self.rows += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// The last row from which message `seq` lies ahead.
    pub fn before_message(&self, seq: u64) -> io::Result<IndexRow> {
        self.last_where(|row| row.seq <= seq)
    }

    /// The row of rewrite `ordinal`, or the last one before it.
    pub fn before_rewrite(&self, ordinal: u64) -> io::Result<IndexRow> {
        self.last_where(|row| row.rewrites < ordinal)
    }

    /// The last row for which something holds that holds for a first part of the rows.
    fn last_where(&self, holds: impl Fn(&IndexRow) -> bool) -> io::Result<IndexRow> {
        if let Some(row) = self.pending.iter().rev().find(|row| holds(row)) {
            return Ok(*row);
        }
        let (mut low, mut high, mut found) = (0, self.rows, IndexRow::FIRST);
        while low < high {
            let middle = low + (high - low) / 2;
            let row = self.row(middle)?.ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("row {middle} of the index is damaged"))
            })?;
            if holds(&row) {
                (found, low) = (row, middle + 1);
            } else {
                high = middle;
            }
        }
        Ok(found)
    }

    /// One row by its number; `None` if it is damaged or not there.
    pub fn row(&self, number: u64) -> io::Result<Option<IndexRow>> {
        let mut bytes = [0; ROW];
        match read_exact_at(self.file.as_ref(), &mut bytes, number * ROW as u64) {
            Ok(()) => Ok(IndexRow::parse(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}
