//! Reading a log line by line, forwards and backwards, with one buffer; and the verdict over its tail.

use std::io;
use std::sync::Arc;

use super::line::{BadLine, Line, LogKind, MAX_LINE_BYTES};
use crate::infra::fs::File;

const CHUNK: usize = 64 << 10;

/// A line as it was found: its place and its bytes without the line end, if it can be one at all.
#[derive(Debug)]
pub struct ScannedLine<'a> {
    /// Where it begins.
    pub offset: u64,
    /// Where the next one begins.
    pub end: u64,
    /// Its bytes, or why it is no line.
    pub bytes: Result<&'a [u8], BadLine>,
}

impl<'a> ScannedLine<'a> {
    /// The valid line in it.
    pub fn line(&self, kind: LogKind) -> Result<Line<'a>, BadLine> {
        Line::parse(kind, self.bytes?)
    }
}

/// Reads lines from an offset up to an end that was fixed before: what is written meanwhile is not seen.
#[derive(Debug)]
pub struct Forward {
    file: Arc<dyn File>,
    end: u64,
    /// `buffer[start..]` is the file from `at`.
    buffer: Vec<u8>,
    start: usize,
    at: u64,
}

impl Forward {
    /// Lines between two offsets; `from` is the beginning of a line.
    pub fn new(file: Arc<dyn File>, from: u64, end: u64) -> Self {
        Self { file, end, buffer: Vec::new(), start: 0, at: from }
    }

    /// Returns where the next line begins.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next line.
    #[expect(clippy::should_implement_trait, reason = "a line borrows the buffer")]
    pub fn next(&mut self) -> io::Result<Option<ScannedLine<'_>>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let offset = self.at;
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.start..];
            if let Some(found) = memchr::memchr(b'\n', &unread[searched..]) {
                let (begin, length) = (self.start, searched + found);
                self.start += length + 1;
                self.at += length as u64 + 1;
                let bytes = &self.buffer[begin..begin + length];
                let fits = length < MAX_LINE_BYTES;
                let bytes = if fits { Ok(bytes) } else { Err(BadLine::TooLong) };
                return Ok(Some(ScannedLine { offset, end: self.at, bytes }));
            }
            searched = unread.len();
            if searched > MAX_LINE_BYTES {
                self.skip_to_line_end()?;
                return Ok(Some(ScannedLine { offset, end: self.at, bytes: Err(BadLine::TooLong) }));
            }
            if !self.fill()? {
                self.at = self.end;
                return Ok(Some(ScannedLine { offset, end: self.end, bytes: Err(BadLine::Torn) }));
            }
        }
    }

    /// Reads on; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let from = self.at + self.buffer.len() as u64;
        // Twice as much each time, but not much more than the longest line.
        let room = CHUNK.max(self.buffer.len().min(MAX_LINE_BYTES - self.buffer.len().min(MAX_LINE_BYTES)));
        let room = room.min(usize::try_from(self.end - from).unwrap_or(usize::MAX));
        let kept = self.buffer.len();
        self.buffer.resize(kept + room, 0);
        let read = if room == 0 { 0 } else { self.file.read_at(&mut self.buffer[kept..], from)? };
        self.buffer.truncate(kept + read);
        Ok(read > 0)
    }

    /// Drops what no line can be, in bounded memory.
    fn skip_to_line_end(&mut self) -> io::Result<()> {
        loop {
            self.at += (self.buffer.len() - self.start) as u64;
            self.buffer = Vec::new();
            self.start = 0;
            if !self.fill()? {
                self.at = self.end;
                return Ok(());
            }
            if let Some(found) = memchr::memchr(b'\n', &self.buffer) {
                self.start = found + 1;
                self.at += found as u64 + 1;
                return Ok(());
            }
        }
    }
}

/// Reads lines from an end backwards: the last line first.
#[derive(Debug)]
pub struct Backward {
    file: Arc<dyn File>,
    /// `buffer` is the file from `from`; lines are taken off its end.
    buffer: Vec<u8>,
    from: u64,
}

impl Backward {
    /// Lines before `end`, which is the beginning of a line or the end of the log.
    pub fn new(file: Arc<dyn File>, end: u64) -> Self {
        Self { file, buffer: Vec::new(), from: end }
    }

    /// The line before.
    pub fn previous(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        loop {
            // The last byte is the line's own end.
            let body = self.buffer.len().saturating_sub(1);
            if let Some(found) = memchr::memrchr(b'\n', &self.buffer[..body]) {
                let mut line = self.buffer.split_off(found + 1);
                line.pop();
                return Ok(Some((self.from + found as u64 + 1, line)));
            }
            if self.from == 0 {
                if self.buffer.is_empty() {
                    return Ok(None);
                }
                let mut line = std::mem::take(&mut self.buffer);
                line.pop();
                return Ok(Some((0, line)));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, BadLine::TooLong));
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let room = CHUNK.max(self.buffer.len()).min(usize::try_from(self.from).unwrap_or(usize::MAX));
        let from = self.from - room as u64;
        let mut front = vec![0; room];
        read_exact_at(self.file.as_ref(), &mut front, from)?;
        front.extend_from_slice(&self.buffer);
        self.buffer = front;
        self.from = from;
        Ok(())
    }
}

/// Reads all of `buf`; the file must be that long.
pub(crate) fn read_exact_at(file: &dyn File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => done += read,
        }
    }
    Ok(())
}

/// The verdict on a log from a damaged line on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailVerdict {
    /// Nothing from there on was ever acknowledged: it can be cut off.
    Cut,
    /// A line behind it says that the damaged one was durable.
    Acknowledged,
}

/// Judges a log that is damaged at `offset`: reads on, looking for a valid line that knew better.
pub fn check_tail(
    kind: LogKind,
    file: &Arc<dyn File>,
    offset: u64,
    end: u64,
    durable_to: u64,
) -> io::Result<TailVerdict> {
    if durable_to > offset {
        return Ok(TailVerdict::Acknowledged);
    }
    let mut lines = Forward::new(Arc::clone(file), offset, end);
    while let Some(found) = lines.next()? {
        let known = match (found.line(kind), found.bytes) {
            (Ok(line), _) => line.durable_to,
            (Err(_), Ok(bytes)) => hidden_line(kind, bytes),
            (Err(_), Err(_)) => 0,
        };
        if known > offset {
            return Ok(TailVerdict::Acknowledged);
        }
    }
    Ok(TailVerdict::Cut)
}

/// Returns what a valid line says that lost the line end before it, and so stands at the end of a damaged one.
fn hidden_line(kind: LogKind, bytes: &[u8]) -> u64 {
    // Content can look like the beginning of a line; a few tries are enough and keep this linear.
    const TRIES: usize = 64;
    let beginnings: &[&[u8]] = match kind {
        LogKind::Messages => &[b"{\"seq\":", b"{\"event\":\""],
        LogKind::Tools => &[b"{\"seq\":"],
        LogKind::Plans => &[b"{\"id\":"],
    };
    let candidates =
        beginnings.iter().flat_map(|beginning| memchr::memmem::rfind_iter(bytes, *beginning).take(TRIES));
    candidates
        .filter_map(|at| Line::parse(kind, &bytes[at..]).ok())
        .map(|line| line.durable_to)
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
