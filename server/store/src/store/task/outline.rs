//! A view at one moment, as messages with what is known of each: what is looked through before it is rewritten.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};

use crate::log::{LogSource, ViewMessage, ViewWalk};
use crate::model::{Calibration, Literal, Rewrite, Segment, StoreError, TokenCounter};

use super::{Inner, NewView, Task};

/// A view that does not change any more. Messages are known by their places, from 0.
#[derive(Debug, Clone)]
pub struct Outline {
    /// The generation of the view.
    pub generation: u64,
    /// The last message of the log.
    pub last_seq: u64,
    /// Whether no call waits for its result.
    pub closed: bool,
    /// Tokens of the view, as counted.
    pub tokens: u64,
    /// Those of them that are outputs of tools, without the trimmed ones.
    pub output_tokens: u64,
    /// Tokens of the tools that are sent beside it, as counted.
    pub tools_tokens: u64,
    /// What the model is told that the view has, with the tools: by calibration, or by the newest report if that is more.
    pub present: u64,
    /// What counts are multiplied by.
    pub calibration: Calibration,
    /// Messages of the view.
    pub messages: u64,
    /// Tokens of all messages of the log.
    pub message_tokens: u64,
    /// Messages that are pinned.
    pub pins: BTreeSet<u64>,
    /// How tokens are counted.
    pub counter: TokenCounter,
    /// The lease of whoever works on the task.
    pub lease: u64,
    /// When it was looked at.
    pub taken_at: DateTime<Utc>,
    /// Set when whoever looks is to stop.
    pub stop: Arc<AtomicBool>,
    pub(super) source: LogSource,
    pub(super) newest: Option<Rewrite>,
    /// Bytes of the view and of what is beside it, which is sent too, to providers that take it.
    pub(super) view_bytes: u64,
}

impl Outline {
    /// Returns counted tokens of another view, with the tools, as the model counts them. Nothing was reported on that view yet.
    pub fn told(&self, counted: u64) -> u64 {
        self.calibration.apply(counted.saturating_add(self.tools_tokens))
    }

    /// The reverse, by what is known of the present view; 0 if the tools alone are more.
    pub fn counted(&self, told: u64) -> u64 {
        let tools = self.calibration.apply(self.tools_tokens);
        let left = told.saturating_sub(tools);
        let counted = self.tokens.max(1);
        let of = self.calibration.apply(counted).max(self.present.saturating_sub(tools)).max(1);
        u64::try_from(u128::from(left) * u128::from(counted) / u128::from(of)).unwrap_or(u64::MAX)
    }

    /// Parts that a new view would have in the log.
    pub fn parts_of(&self, new: &NewView) -> usize {
        assemble(&new.parts, (new.seen, new.covers), self.newest.as_ref(), self.last_seq).0.len()
    }
}

/// Something that a new view consists of.
#[derive(Debug, Clone)]
pub enum Part {
    /// Messages of the outline, as they are.
    Keep(Range<u64>),
    /// The same with the outputs of tools trimmed.
    Trim(Range<u64>),
    /// One of them with another content.
    Replace {
        /// Which.
        place: u64,
        /// The content.
        content: crate::model::Json,
        /// The message's tokens then.
        tokens: u64,
    },
    /// A message that is not in the log.
    Literal(Literal),
}

impl Outline {
    /// Calls `take` with each message, in order. Can be done as often as need be.
    pub fn each(&self, take: &mut dyn FnMut(&ViewMessage<'_>)) -> Result<(), StoreError> {
        let mut walk = ViewWalk::new(self.source.clone(), self.newest.clone(), self.last_seq);
        while walk.step(&mut *take)? {
            if self.stop.load(Ordering::Relaxed) {
                return Err(StoreError::io("looking through a view", io::ErrorKind::Interrupted.into()));
            }
        }
        Ok(())
    }

    /// A walk over the log that has not begun: for messages as they are there, whatever the view makes of them.
    pub fn log(&self) -> ViewWalk {
        ViewWalk::behind(self.source.clone(), 1, 0)
    }

    /// The last message that the newest rewrite speaks for.
    pub fn covered(&self) -> u64 {
        self.newest.as_ref().map_or(0, |newest| newest.covers)
    }
}

impl Task {
    /// The view as it is now. What is not durable yet is in it too: a rewrite makes it so.
    pub(crate) fn outline(&self) -> Result<Outline, StoreError> {
        let mut inner = self.lock_existing()?;
        self.ensure_view(&mut inner);
        self.outline_locked(&mut inner)
    }

    pub(super) fn outline_locked(&self, inner: &mut Inner) -> Result<Outline, StoreError> {
        let tokens = inner.view_tokens();
        let tools_tokens = inner.tools_tokens();
        let view = inner.view.state();
        Ok(Outline {
            generation: inner.log.state().view_generation(),
            last_seq: inner.log.state().last_seq,
            closed: view.is_some_and(|view| view.open_calls.is_empty()),
            tokens,
            output_tokens: view.map_or(0, |view| view.output_tokens),
            tools_tokens,
            present: inner.tally().calibrated(tokens.saturating_add(tools_tokens)),
            calibration: inner.log.state().tally.calibration,
            messages: view.map_or(0, |view| view.lines),
            message_tokens: inner.log.state().tally.message_tokens,
            pins: inner.log.state().pins.clone(),
            counter: self.counter.get(),
            lease: inner.log.state().lease.as_ref().map_or(0, |lease| lease.generation),
            taken_at: self.env.clock.now(),
            stop: Arc::default(),
            source: inner.log.source(),
            newest: inner.log.newest_rewrite()?,
            view_bytes: inner.view.bytes(),
        })
    }
}

/// The segments of a view, each with the place of its first message, and the messages behind them.
struct Places {
    segments: Vec<(u64, Segment)>,
    /// The first place behind the segments, and the message there.
    rest: (u64, u64),
    last_seq: u64,
}

impl Places {
    fn of(newest: Option<&Rewrite>, last_seq: u64) -> Self {
        let (mut place, mut segments) = (0, Vec::new());
        for segment in newest.map_or_else(Vec::new, Rewrite::segments_by_reference) {
            let messages = match &segment {
                Segment::Keep { from, to, .. } => to - from + 1,
                Segment::Replace { .. } | Segment::Literal(_) | Segment::Earlier { .. } => 1,
            };
            segments.push((place, segment));
            place += messages;
        }
        Self { segments, rest: (place, newest.map_or(0, |newest| newest.covers) + 1), last_seq }
    }

    /// Returns what stands at some places, as segments.
    fn take(&self, places: &Range<u64>, trim: bool, segments: &mut Vec<Segment>) {
        let first = self.segments.partition_point(|(place, _)| *place <= places.start).saturating_sub(1);
        for (place, segment) in self.segments.iter().skip(first) {
            if *place >= places.end {
                return;
            }
            match segment {
                Segment::Keep { from, to, trim_except } => {
                    let low = places.start.saturating_sub(*place).saturating_add(*from);
                    let high = (from + (places.end - place) - 1).min(*to);
                    if low <= high {
                        let within = |except: &Vec<u64>| {
                            except.iter().copied().filter(|seq| (low..=high).contains(seq)).collect()
                        };
                        let trim_except =
                            if trim { Some(Vec::new()) } else { trim_except.as_ref().map(within) };
                        push(segments, Segment::Keep { from: low, to: high, trim_except });
                    }
                }
                Segment::Replace { seq, .. } if trim && places.contains(place) => {
                    push(segments, Segment::Keep { from: *seq, to: *seq, trim_except: Some(Vec::new()) });
                }
                Segment::Replace { .. } | Segment::Literal(_) | Segment::Earlier { .. } => {
                    if places.contains(place) {
                        segments.push(segment.clone());
                    }
                }
            }
        }
        let (place, seq) = self.rest;
        let low = places.start.max(place) - place + seq;
        let high = (places.end.max(place) - place + seq).saturating_sub(1).min(self.last_seq);
        if places.end > place && low <= high {
            push(segments, Segment::Keep { from: low, to: high, trim_except: trim.then(Vec::new) });
        }
    }

    /// The message of the log at a place, if it is one.
    fn seq_at(&self, place: u64) -> Option<u64> {
        let (rest, seq) = self.rest;
        if place >= rest {
            return Some(place - rest + seq).filter(|seq| *seq <= self.last_seq);
        }
        let at = self.segments.partition_point(|(first, _)| *first <= place).checked_sub(1)?;
        match self.segments.get(at)? {
            (first, Segment::Keep { from, .. }) => Some(from + place - first),
            (_, Segment::Replace { seq, .. }) => Some(*seq),
            (_, Segment::Literal(_) | Segment::Earlier { .. }) => None,
        }
    }
}

/// Adds a range of messages, to the last one if it goes on there.
pub(super) fn push(segments: &mut Vec<Segment>, mut next: Segment) {
    if let (
        Some(Segment::Keep { to: end, trim_except: last, .. }),
        Segment::Keep { from, to, trim_except: more },
    ) = (segments.last_mut(), &mut next)
        && *end + 1 == *from
        && last.is_some() == more.is_some()
    {
        *end = *to;
        if let (Some(last), Some(more)) = (last, more) {
            last.append(more);
        }
        return;
    }
    segments.push(next);
}

/// A new view out of parts of one with so many messages, on top of a newer rewrite if that has the same messages at the
/// same places (as trims have). Answers its segments and the last message they speak for.
pub(super) fn assemble(
    parts: &[Part],
    (seen, covers): (u64, u64),
    newest: Option<&Rewrite>,
    last_seq: u64,
) -> (Vec<Segment>, u64) {
    let covers = newest.map_or(covers, |newest| newest.covers.max(covers));
    // What comes behind it stands in the view by itself.
    let places = Places::of(newest, last_seq.min(covers));
    let mut segments = Vec::new();
    for part in parts {
        match part {
            Part::Keep(range) => places.take(range, false, &mut segments),
            Part::Trim(range) => places.take(range, true, &mut segments),
            Part::Literal(literal) => segments.push(Segment::Literal(literal.clone())),
            Part::Replace { place, content, tokens } => match places.seq_at(*place) {
                Some(seq) => {
                    segments.push(Segment::Replace { seq, content: content.clone(), tokens: *tokens });
                }
                None => places.take(&(*place..place + 1), false, &mut segments),
            },
        }
    }
    // What a trim speaks for beyond that stays as it made it.
    places.take(&(seen..places.rest.0.max(seen)), false, &mut segments);
    (segments, covers)
}
