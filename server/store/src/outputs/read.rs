//! Reading an output: numbered lines from any line on, or its bytes as they are. Piece by piece, as the reader asks.

use std::io;

use super::content::{Content, damaged};
use super::decode::Decoder;
use super::meta::Meta;
use super::tally::count;

/// Bytes that are read at once.
const BLOCK: usize = 64 << 10;
/// Bytes that are looked through in one step, if none of them are wanted.
const SCAN: u64 = 4 << 20;

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The first line that begins in it (0 if none does), or the offset of its first byte.
    pub position: u64,
    /// Whether there is more to come.
    pub more: bool,
}

/// Lines with their numbers.
#[derive(Debug)]
pub struct Lines {
    content: Content,
    /// `block[start..]` is the output from `at`.
    block: Vec<u8>,
    start: usize,
    at: u64,
    /// Lines that are passed over yet.
    skip: u64,
    /// Lines that are wanted yet.
    left: u64,
    /// The line that is read or comes next, from 0.
    line: u64,
    /// Most characters of a line; 0: all.
    most: usize,
    shown: Shown,
}

/// The part of a line that is shown.
#[derive(Debug, Default)]
struct Shown {
    begun: bool,
    /// A carriage return that may be part of the line's end.
    returned: bool,
    /// Characters that are shown.
    chars: usize,
    /// The last that fits: it is shown if nothing follows it.
    held: Option<char>,
    /// Whether the rest is left out.
    cut: bool,
    decoder: Decoder,
    text: String,
}

impl Lines {
    /// Lines behind the first `skip`, at most `limit` (0: all), each of at most `most` characters (0: all).
    pub fn new(mut content: Content, meta: &Meta, skip: u64, limit: u64, most: usize) -> io::Result<Self> {
        check_size(&content, meta)?;
        let row = meta.row_before(skip)?;
        if row.offset > 0 {
            let mut before = [0];
            if content.read_at(&mut before, row.offset - 1)? != 1 || before != *b"\n" {
                return Err(damaged("its index does not lead to a line"));
            }
        }
        Ok(Self {
            content,
            block: Vec::new(),
            start: 0,
            at: row.offset,
            skip: skip - row.line,
            left: if limit == 0 { u64::MAX } else { limit },
            line: row.line,
            most,
            shown: Shown::default(),
        })
    }

    /// Adds lines until there are about `enough` bytes.
    pub fn step(&mut self, out: &mut Vec<u8>, enough: usize) -> io::Result<Step> {
        let mut step = Step { position: 0, more: true };
        let began = self.at;
        while self.left > 0 {
            if out.len() >= enough || self.at - began >= SCAN {
                return Ok(step);
            }
            if self.start == self.block.len() && !self.fill()? {
                self.end_line(out);
                break;
            }
            if self.skip > 0 {
                self.pass_over();
                continue;
            }
            if !self.shown.begun {
                self.shown.begun = true;
                if step.position == 0 {
                    step.position = self.line + 1;
                }
                out.extend_from_slice(format!("{:>6}\t", self.line + 1).as_bytes());
            }
            let rest = &self.block[self.start..];
            let found = memchr::memchr(b'\n', rest);
            let length = found.unwrap_or(rest.len());
            self.shown.push(&rest[..length], self.most, out);
            self.take(length + usize::from(found.is_some()));
            if found.is_some() {
                self.end_line(out);
            }
        }
        step.more = false;
        Ok(step)
    }

    fn fill(&mut self) -> io::Result<bool> {
        self.block.resize(BLOCK, 0);
        self.start = 0;
        let read = self.content.read_at(&mut self.block, self.at)?;
        self.block.truncate(read);
        Ok(read > 0)
    }

    fn take(&mut self, bytes: usize) {
        self.start += bytes;
        self.at += bytes as u64;
    }

    /// Passes over lines that are not wanted.
    fn pass_over(&mut self) {
        let rest = &self.block[self.start..];
        let ends = count(rest);
        let passed = if ends < self.skip {
            rest.len()
        } else {
            let last = usize::try_from(self.skip - 1).unwrap_or(usize::MAX);
            memchr::memchr_iter(b'\n', rest).nth(last).map_or(rest.len(), |at| at + 1)
        };
        let lines = ends.min(self.skip);
        self.skip -= lines;
        self.line += lines;
        self.take(passed);
    }

    fn end_line(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.shown.begun) {
            self.shown.end(self.most, out);
            self.left -= 1;
        }
        self.line += 1;
    }
}

impl Shown {
    fn push(&mut self, bytes: &[u8], most: usize, out: &mut Vec<u8>) {
        if bytes.is_empty() || self.cut {
            return;
        }
        self.text.clear();
        if std::mem::take(&mut self.returned) {
            self.decoder.push(b"\r", &mut self.text);
        }
        let text = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        self.returned = text.len() < bytes.len();
        self.decoder.push(text, &mut self.text);
        self.show(most, out);
    }

    fn show(&mut self, most: usize, out: &mut Vec<u8>) {
        if most == 0 {
            out.extend_from_slice(self.text.as_bytes());
            return;
        }
        for character in self.text.chars() {
            if self.chars + 1 < most {
                self.chars += 1;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            } else if self.held.is_none() {
                self.held = Some(character);
            } else {
                self.held = None;
                self.cut = true;
                out.extend_from_slice("…".as_bytes());
                return;
            }
        }
    }

    fn end(&mut self, most: usize, out: &mut Vec<u8>) {
        self.text.clear();
        self.decoder.finish(&mut self.text);
        if !self.cut {
            self.show(most, out);
        }
        if let Some(held) = self.held.take() {
            out.extend_from_slice(held.encode_utf8(&mut [0; 4]).as_bytes());
        }
        out.push(b'\n');
        (self.returned, self.cut, self.chars) = (false, false, 0);
    }
}

/// Bytes as they are.
#[derive(Debug)]
pub struct Raw {
    content: Content,
    at: u64,
    end: u64,
    /// Of one who reads all of it, to tell that it is what was put.
    whole: Option<Box<(blake3::Hasher, String)>>,
}

impl Raw {
    /// Bytes behind the first `skip`, at most `limit`; 0: all.
    pub fn new(content: Content, meta: &Meta, skip: u64, limit: u64) -> io::Result<Self> {
        check_size(&content, meta)?;
        let len = content.len();
        let end = if limit == 0 { len } else { skip.saturating_add(limit).min(len) };
        let whole =
            (skip == 0 && end == len).then(|| Box::new((blake3::Hasher::new(), meta.head.blake3.clone())));
        Ok(Self { content, at: skip.min(end), end, whole })
    }

    /// Adds up to `enough` bytes.
    pub fn step(&mut self, out: &mut Vec<u8>, enough: usize) -> io::Result<Step> {
        let position = self.at;
        out.resize(usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(enough), 0);
        let mut filled = 0;
        while filled < out.len() {
            match self.content.read_at(&mut out[filled..], self.at)? {
                0 => return Err(damaged("it is shorter than it was")),
                read => {
                    filled += read;
                    self.at += read as u64;
                }
            }
        }
        let more = self.at < self.end;
        if let Some((hasher, expected)) = self.whole.as_deref_mut() {
            hasher.update(out);
            if !more && hasher.finalize().to_hex().as_str() != expected {
                return Err(damaged("its hash is another than it was"));
            }
        }
        Ok(Step { position, more })
    }
}

fn check_size(content: &Content, meta: &Meta) -> io::Result<()> {
    let (len, expected) = (content.len(), meta.head.byte_size);
    if len == expected { Ok(()) } else { Err(damaged(&format!("it has {len} bytes, not {expected}"))) }
}
