//! A view at one moment, to be read line by line, as often as need be: the lines of `current.jsonl`, each with the line of
//! `current.extra.jsonl` that speaks of it.

use std::sync::Arc;

use super::read::FilePart;
use crate::log::{Fold, Forward, LogSource, ScannedLine};
use crate::model::TaskId;
use crate::model::json::field;
use crate::model::{Rewrite, StoreError, TaskConfig};
use crate::render::{ViewLine, ViewSource};
use crate::store::Store;
use crate::store::layout;

/// A view that does not change any more.
#[derive(Debug, Clone)]
pub struct ViewSnapshot {
    /// The generation of the view.
    pub generation: u64,
    /// The last message it was folded from.
    pub last_seq: u64,
    /// The configuration of the task.
    pub config: TaskConfig,
    from: SnapshotSource,
}

#[derive(Debug, Clone)]
enum SnapshotSource {
    Files {
        view: FilePart,
        extra: Option<FilePart>,
    },
    /// Where nothing can be written, the log is folded as it is read.
    Log {
        source: LogSource,
        rewrite: Option<Box<Rewrite>>,
    },
}

impl ViewSnapshot {
    /// Its lines, from the first.
    pub fn lines(&self) -> ViewLines {
        let reader = match &self.from {
            SnapshotSource::Files { view, extra } => {
                let open = |(file, len): &FilePart| Forward::new(Arc::clone(file), 0, *len);
                ViewReader::Files { view: open(view), extra: extra.as_ref().map(open) }
            }
            SnapshotSource::Log { source, rewrite } => {
                let rewrite = rewrite.as_deref().cloned();
                ViewReader::Fold {
                    fold: Box::new(Fold::new(source.clone(), rewrite, self.last_seq)),
                    view: Unread::default(),
                    extra: Unread::default(),
                }
            }
        };
        ViewLines { reader, line: Vec::new(), number: 0, extra: Vec::new(), speaks_of: None }
    }
}

/// The lines of a view.
#[derive(Debug)]
pub struct ViewLines {
    reader: ViewReader,
    line: Vec<u8>,
    /// How many lines were read.
    number: u64,
    /// The line beside the view that comes next, and which line it speaks of.
    extra: Vec<u8>,
    speaks_of: Option<u64>,
}

#[derive(Debug)]
enum ViewReader {
    Files { view: Forward, extra: Option<Forward> },
    Fold { fold: Box<Fold>, view: Unread, extra: Unread },
}

/// Lines that were made and not handed out yet.
#[derive(Debug, Default)]
struct Unread {
    bytes: Vec<u8>,
    from: usize,
}

impl Unread {
    fn take(&mut self, line: &mut Vec<u8>) -> bool {
        let Some(end) = memchr::memchr(b'\n', &self.bytes[self.from..]) else {
            self.bytes.clear();
            self.from = 0;
            return false;
        };
        line.extend_from_slice(&self.bytes[self.from..self.from + end]);
        self.from += end + 1;
        if self.from == self.bytes.len() {
            self.bytes.clear();
            self.from = 0;
        }
        true
    }
}

/// Copies the next line of a file; false at the end.
fn read(path: &str, lines: &mut Forward, line: &mut Vec<u8>) -> Result<bool, StoreError> {
    let found = lines.next().map_err(|error| StoreError::io(format!("reading {path}"), error))?;
    let Some(ScannedLine { offset, bytes, .. }) = found else { return Ok(false) };
    let damaged = |problem: String| StoreError::Damaged { path: path.to_owned(), offset, problem };
    line.extend_from_slice(bytes.map_err(|bad| damaged(bad.to_string()))?);
    Ok(true)
}

impl ViewLines {
    /// Reads the next line of the view.
    fn read_line(&mut self) -> Result<bool, StoreError> {
        self.line.clear();
        match &mut self.reader {
            ViewReader::Files { view, .. } => read(&layout::CURRENT.to_string(), view, &mut self.line),
            ViewReader::Fold { fold, view, extra } => {
                while !view.take(&mut self.line) {
                    // What is beside the lines that were taken was taken with them.
                    if !fold.step(&mut view.bytes, &mut extra.bytes)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Reads the next line beside the view.
    fn read_extra(&mut self) -> Result<(), StoreError> {
        self.extra.clear();
        let there = match &mut self.reader {
            ViewReader::Files { extra: Some(extra), .. } => {
                read(&layout::EXTRA.to_string(), extra, &mut self.extra)?
            }
            ViewReader::Files { extra: None, .. } => false,
            ViewReader::Fold { extra, .. } => extra.take(&mut self.extra),
        };
        let number = || field(std::str::from_utf8(&self.extra).ok()?, "line")?.parse().ok();
        self.speaks_of = if there { number() } else { None };
        Ok(())
    }
}

impl ViewSource for ViewLines {
    fn next(&mut self) -> Result<Option<ViewLine<'_>>, StoreError> {
        if !self.read_line()? {
            return Ok(None);
        }
        self.number += 1;
        if self.speaks_of.is_none_or(|line| line < self.number) {
            self.read_extra()?;
        }
        let extra = (self.speaks_of == Some(self.number)).then_some(self.extra.as_slice());
        Ok(Some(ViewLine { line: &self.line, extra }))
    }
}

impl Store {
    /// The view with what OpenAI does not know of its messages, both as they are at this moment.
    pub fn view_snapshot(&self, id: TaskId) -> Result<ViewSnapshot, StoreError> {
        let task = self.task(id)?;
        let mut inner = task.lock_existing()?;
        task.ensure_view(&mut inner);
        let source = inner.visible_source();
        let (generation, last_seq) = (inner.log.state().view_generation(), inner.readers.snapshot().last_seq);
        let config = task.visible_config(&inner).clone();
        if let Some(files) = inner.view.files() {
            let visible = inner.readers.snapshot();
            let extra = files.extra().filter(|_| visible.extra_len > 0);
            let from = SnapshotSource::Files {
                view: (Arc::clone(files.file()), visible.view_len),
                extra: extra.map(|file| (Arc::clone(file), visible.extra_len)),
            };
            return Ok(ViewSnapshot { generation, last_seq, config, from });
        }
        let rewrite = inner.log.state().rewrite.clone();
        drop(inner);
        let rewrite = source.marked_rewrite(rewrite.as_ref())?;
        let from = SnapshotSource::Log { source, rewrite: rewrite.map(Box::new) };
        Ok(ViewSnapshot { generation, last_seq, config, from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that were read are not kept: a view that is folded as it is read takes the memory of a step.
    #[test]
    fn lines_that_were_handed_out_are_gone() {
        let mut unread = Unread::default();
        for step in 0..1000 {
            for line in 0..3 {
                unread.bytes.extend_from_slice(format!("{step} {line} {}\n", "x".repeat(1000)).as_bytes());
            }
            for line in 0..3 {
                let mut found = Vec::new();
                assert!(unread.take(&mut found));
                assert!(found.starts_with(format!("{step} {line} ").as_bytes()));
            }
            assert_eq!((unread.bytes.len(), unread.from), (0, 0), "after step {step}");
            assert!(unread.bytes.capacity() < 64 << 10);
        }
        assert!(!unread.take(&mut Vec::new()));
        // A line that has no end yet is no line; whoever asks for one is told so, and nothing of it is shown.
        unread.bytes.extend_from_slice(b"a\nb\n");
        let mut found = Vec::new();
        assert!(unread.take(&mut found) && unread.take(&mut found));
        assert_eq!(found, b"ab");
    }
}
