//! Searching an output, on the engine of ripgrep: line by line, in time that grows with the output, whatever the pattern.
//!
//! A line that is longer than a piece is searched in pieces, so that memory stays bounded; it is still one line to the caller.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;
use std::time::Duration;

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::content::Content;
use crate::infra::clock::thread_time as used;

/// Largest compiled pattern, and what is kept while searching with it.
const PATTERN_BYTES: usize = 1 << 20;
const CACHE_BYTES: usize = 8 << 20;
/// Time that a search may take of a processor: so much, and more for a large output. Patterns are matched in time that grows with
/// the output, but some take a thousand times as long as others.
pub const LEAST_TIME: Duration = Duration::from_secs(5);
const LEAST_SPEED: u64 = 4 << 20;
/// Longest piece of a line; with lines around a match shorter, as these are held too. Nobody can stop a search within one.
const MAX_PIECE: usize = 128 << 10;
const MIN_PIECE: usize = 8 << 10;
/// Bytes of lines that are held at once.
const HELD: usize = 8 << 20;
/// Bytes that are read at once.
const BLOCK: usize = 64 << 10;

/// The options of a search.
#[derive(Debug, Clone)]
pub struct GrepOptions {
    /// A regular expression, as ripgrep takes it.
    pub pattern: String,
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
    /// The pattern is plain text.
    pub fixed: bool,
    /// Lines to show before each match.
    pub before: usize,
    /// Lines to show after each match.
    pub after: usize,
    /// Most characters of a line.
    pub max_line_length: usize,
}

/// A pattern that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPattern(pub String);

/// A line that matches or stands near one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its number, from 1.
    pub line_number: u64,
    /// Its text, without the line end.
    pub text: String,
    /// Whether it matches.
    pub is_match: bool,
    /// Whether lines are left out between this and the one before.
    pub gap_before: bool,
}

/// The outcome of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Searched {
    /// Lines that matched.
    pub matches: u64,
    /// Whether it ended as there were enough.
    pub limited: bool,
}

/// Takes the matches of a search.
pub trait Matches {
    /// Takes a line; false if there is nobody any more.
    fn take(&mut self, found: Found) -> bool;
    /// Returns whether anybody waits. Asked now and then, as there may be nothing to take for long.
    fn waits(&self) -> bool;
}

/// A pattern that is ready.
#[derive(Debug)]
pub struct Grep {
    matcher: RegexMatcher,
    options: GrepOptions,
}

impl Grep {
    /// Compiles a pattern.
    pub fn new(options: GrepOptions) -> Result<Self, BadPattern> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(options.ignore_case)
            .fixed_strings(options.fixed)
            .multi_line(true)
            .line_terminator(Some(b'\n'))
            .ban_byte(None)
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(CACHE_BYTES)
            .build(&options.pattern)
            .map_err(|error| BadPattern(error.to_string()))?;
        Ok(Self { matcher, options })
    }

    /// Searches an output; `most`: matches that are enough, 0: all. It is `TimedOut` if that takes more of a
    /// processor than `time`, and what its size allows; what is left of it is for the next output.
    pub fn search<'a>(
        &'a self,
        content: Content,
        most: u64,
        matches: &'a mut dyn Matches,
        time: &mut Duration,
    ) -> io::Result<Searched> {
        let GrepOptions { before, after, .. } = self.options;
        let mut searcher: Searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(before)
            .after_context(after)
            .binary_detection(BinaryDetection::none())
            .bom_sniffing(false)
            .memory_map(MmapChoice::never())
            .heap_limit(Some(4 * HELD))
            .build();
        let piece = (HELD / (before + 1)).clamp(MIN_PIECE, MAX_PIECE);
        let splits = Rc::new(RefCell::new(Vec::new()));
        let matches = Rc::new(RefCell::new(matches));
        let mut lines = LinesOf {
            grep: self,
            splits: Rc::clone(&splits),
            matches: Rc::clone(&matches),
            waiting: None,
            gap: false,
            most: if most == 0 { u64::MAX } else { most },
            behind: 0,
            count: 0,
            alive: true,
        };
        let allowed = Duration::from_millis(1000 * content.len() / LEAST_SPEED);
        let until = used().saturating_add(*time).saturating_add(allowed);
        let pieces = Pieces {
            content,
            until,
            at: 0,
            block: Vec::new(),
            start: 0,
            piece,
            run: 0,
            given: 0,
            splits,
            matches,
        };
        let searched = searcher.search_reader(&self.matcher, pieces, &mut lines);
        *time = until.saturating_sub(used()).min(LEAST_TIME);
        if !lines.alive {
            return Ok(Searched::default());
        }
        searched?;
        lines.flush();
        Ok(Searched { matches: lines.count, limited: most > 0 && lines.count >= most })
    }

    /// The text of a line, cut around its first match if it is long.
    fn text(&self, line: &[u8], is_match: bool) -> String {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let most = self.options.max_line_length;
        // A character has at least one byte.
        if line.len() <= most {
            return String::from_utf8_lossy(line).into_owned();
        }
        let whole = String::from_utf8_lossy(line);
        if whole.chars().count() <= most {
            return whole.into_owned();
        }
        let at = if is_match {
            self.matcher.find(line).ok().flatten().map_or(0, |found| found.start())
        } else {
            0
        };
        let (ahead, behind) = (String::from_utf8_lossy(&line[..at]), String::from_utf8_lossy(&line[at..]));
        // A quarter of it stands before the match, and one character at each end says what is missing.
        let room = most.saturating_sub(2);
        let (before, rest) = (ahead.chars().count(), behind.chars().count());
        let skipped = before.saturating_sub((room / 4).max(room.saturating_sub(rest)));
        let mut text = String::new();
        if skipped > 0 {
            text.push('…');
        }
        let kept = room - (before - skipped).min(room);
        text.extend(ahead.chars().skip(skipped));
        text.extend(behind.chars().take(kept));
        if kept < rest {
            text.push('…');
        }
        text
    }
}

/// An output as the searcher reads it: with a line end more where a line is too long.
struct Pieces<'a> {
    content: Content,
    /// When this thread has used so much time, it is enough.
    until: Duration,
    at: u64,
    block: Vec<u8>,
    start: usize,
    piece: usize,
    /// Bytes since the last line end.
    run: usize,
    /// Bytes that were handed on.
    given: u64,
    splits: Rc<RefCell<Vec<u64>>>,
    matches: Rc<RefCell<&'a mut dyn Matches>>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        if self.start == self.block.len() && !self.fill()? {
            return Ok(0);
        }
        if self.run == self.piece {
            buf[0] = b'\n';
            self.given += 1;
            self.run = 0;
            self.splits.borrow_mut().push(self.given);
            return Ok(1);
        }
        let rest = &self.block[self.start..];
        let mut read = rest.len().min(buf.len());
        if self.run + read > self.piece {
            // Somewhere in there a line may become too long.
            let near = self.piece - self.run;
            read = memchr::memchr(b'\n', &rest[..near.min(read)]).map_or(near, |end| end + 1);
        }
        buf[..read].copy_from_slice(&rest[..read]);
        self.run = memchr::memrchr(b'\n', &buf[..read]).map_or(self.run + read, |end| read - end - 1);
        self.start += read;
        self.given += read as u64;
        Ok(read)
    }
}

impl Pieces<'_> {
    fn fill(&mut self) -> io::Result<bool> {
        if !self.matches.borrow().waits() {
            return Err(io::Error::other("nobody waits any more"));
        }
        if used() > self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.block.resize(BLOCK, 0);
        self.start = 0;
        let read = self.content.read_at(&mut self.block, self.at)?;
        self.block.truncate(read);
        self.at += read as u64;
        Ok(read > 0)
    }
}

/// Lines as the searcher finds them.
struct LinesOf<'a> {
    grep: &'a Grep,
    splits: Rc<RefCell<Vec<u64>>>,
    matches: Rc<RefCell<&'a mut dyn Matches>>,
    /// The line that was found last: more of its pieces may match.
    waiting: Option<Found>,
    gap: bool,
    /// Lines that match and are enough.
    most: u64,
    /// Lines behind the last of them.
    behind: usize,
    count: u64,
    alive: bool,
}

impl LinesOf<'_> {
    fn line(&mut self, number: Option<u64>, offset: u64, bytes: &[u8], is_match: bool) -> bool {
        // Pieces of one line have one number.
        let splits = self.splits.borrow().partition_point(|split| *split <= offset) as u64;
        let line_number = number.unwrap_or(0).saturating_sub(splits);
        match &mut self.waiting {
            Some(same) if same.line_number == line_number => {
                if is_match && !same.is_match && self.count < self.most {
                    (same.is_match, same.text) = (true, self.grep.text(bytes, true));
                    self.count += 1;
                }
                return true;
            }
            _ => self.flush(),
        }
        // The searcher counts pieces of lines, so it is not told how many are enough.
        let is_enough = self.count >= self.most;
        if is_enough {
            if self.behind >= self.grep.options.after {
                return false;
            }
            self.behind += 1;
        }
        let is_match = is_match && !is_enough;
        self.count += u64::from(is_match);
        let gap_before = std::mem::take(&mut self.gap);
        let text = self.grep.text(bytes, is_match);
        self.waiting = Some(Found { line_number, text, is_match, gap_before });
        self.alive && (self.count < self.most || self.grep.options.after > 0)
    }

    fn flush(&mut self) {
        if let Some(found) = self.waiting.take() {
            self.alive &= self.matches.borrow_mut().take(found);
        }
    }
}

impl Sink for &mut LinesOf<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        Ok(self.line(found.line_number(), found.absolute_byte_offset(), found.bytes(), true))
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.line(near.line_number(), near.absolute_byte_offset(), near.bytes(), false))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.gap = true;
        Ok(self.count < self.most)
    }
}
