//! The summaries of a task: all that were made, which of them were taken back, and the one that counts.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Deserialize;

use crate::infra::fs::Open;
use crate::log::{Forward, LogSource};
use crate::model::{Literal, Segment, StoreError, SummaryRecord};

use super::rewrite::rewound_to;
use super::{FilePart, Task};
use crate::store::layout;

/// Lines of `summaries.jsonl`, and which of them were taken back.
#[derive(Debug)]
pub struct SummaryLines {
    lines: Option<Forward>,
    undone: BTreeSet<u64>,
}

/// The number of a record.
#[derive(Deserialize)]
struct Numbered {
    id: u64,
}

impl SummaryLines {
    /// Returns where the next line begins.
    pub fn position(&self) -> u64 {
        self.lines.as_ref().map_or(0, Forward::position)
    }

    /// The next line without its line end, and with `undone` if it was taken back; `None` at the end.
    pub fn step(&mut self) -> Result<Option<Cow<'_, [u8]>>, StoreError> {
        let path = layout::SUMMARIES;
        let Some(lines) = &mut self.lines else { return Ok(None) };
        let found = lines.next().map_err(|error| StoreError::io(format!("reading {path}"), error))?;
        let Some(found) = found else { return Ok(None) };
        let damaged =
            |problem: String| StoreError::Damaged { path: path.to_string(), offset: found.offset, problem };
        let line = found.bytes.map_err(|bad| damaged(bad.to_string()))?;
        if self.undone.is_empty() {
            return Ok(Some(Cow::Borrowed(line)));
        }
        let Numbered { id } = serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
        Ok(Some(match line.strip_suffix(b"}") {
            Some(open) if self.undone.contains(&id) => Cow::Owned([open, b",\"undone\":true}"].concat()),
            Some(_) | None => Cow::Borrowed(line),
        }))
    }
}

impl Task {
    /// The newest summary that the view has.
    pub(crate) fn latest_summary(&self) -> Result<Option<SummaryRecord>, StoreError> {
        let inner = self.lock_existing()?;
        let newest = inner.log.newest_rewrite()?;
        let source = inner.log.source();
        drop(inner);
        let mut latest: Option<SummaryRecord> = None;
        for segment in newest.iter().flat_map(|newest| &newest.segments) {
            let earlier;
            let segment = match segment {
                Segment::Earlier { rewrite, index } => {
                    earlier = source.rewrite(*rewrite)?;
                    earlier.segments.get(*index)
                }
                Segment::Keep { .. } | Segment::Replace { .. } | Segment::Literal(_) => Some(segment),
            };
            if let Some(record) = segment.map(record).transpose()?.flatten()
                && latest.as_ref().is_none_or(|latest| latest.id < record.id)
            {
                latest = Some(record);
            }
        }
        Ok(latest)
    }

    /// `summaries.jsonl`, with its length.
    pub(crate) fn summaries(&self) -> Result<Option<FilePart>, StoreError> {
        let inner = self.lock_existing()?;
        if inner.log.state().summaries_len == 0 {
            return Ok(None);
        }
        if self.env.read_only().is_none() && inner.read_only.is_none() {
            self.ensure_summaries(&inner)?;
        }
        let path = inner.log.path(layout::SUMMARIES);
        let file = self.env.fs.open(&path, Open::Read);
        let file = file.map_err(|error| StoreError::io(format!("reading {path}"), error))?;
        Ok(Some((file, inner.log.state().summaries_len)))
    }

    /// Lines of `summaries.jsonl`.
    pub(crate) fn summary_lines(&self) -> Result<SummaryLines, StoreError> {
        let Some((file, len)) = self.summaries()? else {
            return Ok(SummaryLines { lines: None, undone: BTreeSet::new() });
        };
        let (newest, source, made) = {
            let inner = self.lock();
            let source = inner.log.source();
            (inner.log.state().view_generation(), source, inner.log.state().tally.summaries)
        };
        let undone = undone(&source, newest, made)?;
        Ok(SummaryLines { lines: Some(Forward::new(file, 0, len)), undone })
    }
}

/// Summaries that were taken back: those that none of the rewrites has made that led to the view.
fn undone(source: &LogSource, newest: u64, made: u64) -> Result<BTreeSet<u64>, StoreError> {
    let mut undone: BTreeSet<u64> = (1..=made).collect();
    let mut ordinal = newest;
    while ordinal > 0 && !undone.is_empty() {
        let found = source.find_rewrite(ordinal)?;
        let rewrite = &found.rewrite;
        for segment in &rewrite.segments {
            if let Some(record) = record(segment)? {
                undone.remove(&record.id);
            }
        }
        let before = match rewrite.strategy.as_str() {
            "undo" => source.rewrite(rewrite.base)?.parent.unwrap_or(0),
            "rewind" => {
                let then = LogSource { end: found.offset, ..source.clone() };
                rewound_to(rewrite)
                    .map_or(Ok(None), |seq| then.rewrite_as_of(seq))?
                    .map_or(0, |then| then.ordinal)
            }
            _ => rewrite.base,
        };
        // What a log cannot have is no reason to go on for ever.
        ordinal = before.min(ordinal - 1);
    }
    Ok(undone)
}

/// The record of a summary.
fn record(segment: &Segment) -> Result<Option<SummaryRecord>, StoreError> {
    let Segment::Literal(Literal { summary: Some(record), .. }) = segment else { return Ok(None) };
    let parsed = serde_json::from_str(record.as_str());
    parsed.map(Some).map_err(|error| StoreError::io("a summary", error.into()))
}
