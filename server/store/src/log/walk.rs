//! A walk over what a view consists of, message by message, in bounded memory: the segments of a rewrite, then the messages
//! behind it.

use super::index::Index;
use super::line::{Head, Line};
use super::source::{LogSource, MessageRange};
use super::view::{ShownMessage, trimmed};
use crate::model::{Literal, LiteralKind, Rewrite, Role, Segment, StoreError};

/// A message of a view.
#[derive(Debug, Clone, Copy)]
pub struct ViewMessage<'a> {
    /// As it is shown.
    pub shown: ShownMessage<'a>,
    /// What it is, if it is not in the log.
    pub kind: Option<LiteralKind>,
    /// Where the whole output of a tool is, as JSON text.
    pub output_ref: Option<&'a str>,
}

/// A walk under way.
#[derive(Debug)]
pub struct ViewWalk {
    source: LogSource,
    segments: std::vec::IntoIter<Segment>,
    messages: MessageRange,
    trim_except: Option<Vec<u64>>,
    replaced: Option<(String, u64)>,
    /// The messages behind the segments; taken when they are reached.
    rest: Option<(u64, u64)>,
    /// A rewrite whose literals are referred to, as neighbours usually are.
    earlier: Option<Rewrite>,
}

impl ViewWalk {
    /// Over what a rewrite gives, followed by the messages up to `to`.
    pub fn new(source: LogSource, rewrite: Option<Rewrite>, to: u64) -> Self {
        let (segments, covers) =
            rewrite.map_or((Vec::new(), 0), |rewrite| (rewrite.segments, rewrite.covers));
        Self::over(source, segments, covers.saturating_add(1), to)
    }

    /// Over messages `from` to `to` alone.
    pub(crate) fn behind(source: LogSource, from: u64, to: u64) -> Self {
        Self::over(source, Vec::new(), from, to)
    }

    fn over(source: LogSource, segments: Vec<Segment>, from: u64, to: u64) -> Self {
        Self {
            messages: MessageRange::none(source.clone()),
            source,
            segments: segments.into_iter(),
            trim_except: None,
            replaced: None,
            rest: Some((from, to)),
            earlier: None,
        }
    }

    /// Goes on with one message of the log alone, as it is there. Those that are asked for in order are read in one go.
    pub fn only(&mut self, seq: u64) {
        self.messages.again(seq, seq);
    }

    /// Goes on with messages that were written since, up to `end` of the log and message `to`.
    pub(super) fn extend(&mut self, end: u64, index: Option<Index>, to: u64) {
        let from = self.messages.next_seq();
        self.source.end = end;
        self.source.index = index;
        self.messages = self.source.messages(from, 0);
        self.rest = Some((from, to));
    }

    /// Calls `take` with the next message; false when there is none.
    pub fn step(&mut self, mut take: impl FnMut(&ViewMessage<'_>)) -> Result<bool, StoreError> {
        loop {
            let (trim, replaced) = (&self.trim_except, &mut self.replaced);
            let taken = self.messages.step(|seq, line| {
                see(seq, line, trim.as_deref(), replaced.take(), &mut take).map_err(|error| {
                    StoreError::Damaged {
                        path: "messages.jsonl".to_owned(),
                        offset: 0,
                        problem: format!("message {seq}: {error}"),
                    }
                })
            })?;
            if taken {
                return Ok(true);
            }
            (self.trim_except, self.replaced) = (None, None);
            match self.segments.next() {
                Some(Segment::Keep { from, to, mut trim_except }) => {
                    // There may be many, and each message is looked for among them.
                    trim_except.iter_mut().for_each(|except| except.sort_unstable());
                    self.trim_except = trim_except;
                    self.messages.again(from, to);
                }
                Some(Segment::Replace { seq, content, tokens }) => {
                    self.replaced = Some((content.as_str().to_owned(), tokens));
                    self.messages.again(seq, seq);
                }
                Some(Segment::Literal(literal)) => {
                    take(&literal_seen(&literal));
                    return Ok(true);
                }
                Some(Segment::Earlier { rewrite, index }) => {
                    take(&literal_seen(&self.earlier_literal(rewrite, index)?));
                    return Ok(true);
                }
                None => match self.rest.take() {
                    Some((from, to)) => self.messages.again(from, to),
                    None => return Ok(false),
                },
            }
        }
    }

    fn earlier_literal(&mut self, ordinal: u64, index: usize) -> Result<Literal, StoreError> {
        if self.earlier.as_ref().is_none_or(|rewrite| rewrite.ordinal != ordinal) {
            self.earlier = Some(self.source.rewrite(ordinal)?);
        }
        let segment = self.earlier.as_ref().and_then(|rewrite| rewrite.segments.get(index));
        match segment {
            Some(Segment::Literal(literal)) => Ok(literal.clone()),
            _ => Err(self.source.damaged(0, format!("segment {index} of rewrite {ordinal} is no literal"))),
        }
    }
}

fn literal_seen(literal: &Literal) -> ViewMessage<'_> {
    let shown = ShownMessage::plain(literal.role, literal.content.as_str(), literal.tokens);
    ViewMessage { shown, kind: Some(literal.kind), output_ref: None }
}

/// Sees a message of the log, trimmed but for those that are listed in order, or with its content replaced.
pub(super) fn see(
    seq: u64,
    line: &Line<'_>,
    trim_except: Option<&[u64]>,
    replaced: Option<(String, u64)>,
    take: &mut dyn FnMut(&ViewMessage<'_>),
) -> Result<(), serde_json::Error> {
    let Head::Message { role, tokens, .. } = line.head else { return Ok(()) };
    let body = line.message()?;
    let output_ref = body.output_ref.map(|output_ref| output_ref.get());
    let is_kept = |except: &[u64]| except.binary_search(&seq).is_ok();
    let trims = role == Role::Tool && trim_except.is_some_and(|except| !is_kept(except));
    let instead = if trims { Some(trimmed(seq, output_ref)) } else { replaced };
    let shown = ShownMessage {
        seq,
        role,
        tokens: instead.as_ref().map_or(tokens, |(_, tokens)| *tokens),
        content: instead.as_ref().map(|(content, _)| content.as_str()).or(body.content.map(|c| c.get())),
        tool_name: body.tool_name.map(|name| name.get()),
        tool_calls: body.tool_calls.map(|calls| calls.get()),
        tool_call_id: body.tool_call_id.map(|id| id.get()),
        name: body.name.map(|name| name.get()),
        extra: body.extra.map(|extra| extra.get()),
        trimmed: trims,
    };
    take(&ViewMessage { shown, kind: None, output_ref });
    Ok(())
}
