//! Splits messages with more calls than a provider accepts into several, each followed by its own results.
//!
//! Results arrive in any order, and those of later calls are kept until the earlier calls have theirs. The memory for
//! them is limited: beyond the limit, waiting calls get the placeholder for an interrupted call, and their later
//! results become text, as everywhere else.

use super::BodyWriter;
use super::groups::{Groups, missing};
use super::message::{CallRef, ViewMessage};
use crate::model::Provider;

/// Most bytes of deferred results.
const MAX_DEFERRED_BYTES: usize = 4 << 20;

/// Splits messages; at most one at a time.
#[derive(Debug)]
pub(super) struct Splitter {
    provider: Provider,
    /// Most calls of one message.
    most: Option<usize>,
    split: Option<Split>,
}

#[derive(Debug)]
struct Split {
    line: String,
    /// The ids of all calls, as sent.
    ids: Vec<String>,
    /// The number of calls sent so far.
    sent: usize,
    deferred: Vec<DeferredResult>,
    deferred_bytes: usize,
}

/// A result that waits until its call is sent.
#[derive(Debug)]
struct DeferredResult {
    line: String,
    beside: Option<String>,
    call: CallRef,
}

impl Splitter {
    pub(super) fn new(provider: Provider, most: Option<usize>) -> Self {
        Self { provider, most, split: None }
    }

    /// Writes placeholders for calls that can get no result any more.
    pub(super) fn close(&mut self, mut open: Vec<CallRef>, body: &mut dyn BodyWriter, out: &mut Vec<u8>) {
        loop {
            let sent = self.split.as_ref().map_or(usize::MAX, |split| split.sent);
            let (now, later) = open.into_iter().partition::<Vec<_>, _>(|call| call.at < sent);
            open = later;
            for call in now {
                body.push(&missing(call), out);
            }
            if !self.next(body, out) {
                return;
            }
        }
    }

    /// Writes a message whose calls have their ids, or a result that has its call.
    pub(super) fn push(
        &mut self,
        (line, beside): (&str, Option<&str>),
        mut message: ViewMessage<'_>,
        groups: &mut Groups,
        body: &mut dyn BodyWriter,
        out: &mut Vec<u8>,
    ) {
        if let Some(most) = self.most.filter(|most| message.calls.len() > *most) {
            let ids = message.calls.iter().map(|call| call.id.clone()).collect();
            let line = line.to_owned();
            self.split = Some(Split { line, ids, sent: most, deferred: Vec::new(), deferred_bytes: 0 });
            message.calls.truncate(most);
            body.push(&message, out);
            return;
        }
        let (Some(split), Some(call)) = (&mut self.split, &message.answers) else {
            return body.push(&message, out);
        };
        if call.at < split.sent {
            body.push(&message, out);
        } else {
            split.deferred_bytes += line.len() + beside.map_or(0, str::len);
            let (line, beside) = (line.to_owned(), beside.map(str::to_owned));
            split.deferred.push(DeferredResult { line, beside, call: call.clone() });
            if split.deferred_bytes > MAX_DEFERRED_BYTES {
                let sent = split.sent;
                for call in groups.close_before(sent) {
                    body.push(&missing(call), out);
                }
            }
        }
        while self.split.as_ref().is_some_and(|split| !groups.is_open_before(split.sent)) {
            self.next(body, out);
        }
    }

    /// Writes the next part of a split message, and the deferred results of its calls. Returns false if there is
    /// none.
    fn next(&mut self, body: &mut dyn BodyWriter, out: &mut Vec<u8>) -> bool {
        let (Some(most), Some(split)) = (self.most, &mut self.split) else { return false };
        let (from, to) = (split.sent, (split.sent + most).min(split.ids.len()));
        if from == to {
            self.split = None;
            return false;
        }
        let mut message = ViewMessage::read(&split.line, None, self.provider);
        message.parts.clear();
        message.refusal = None;
        for (call, id) in message.calls.iter_mut().zip(&split.ids) {
            call.id.clone_from(id);
        }
        message.calls.truncate(to);
        message.calls.drain(..from);
        body.push(&message, out);
        let (now, later) =
            std::mem::take(&mut split.deferred).into_iter().partition(|deferred| deferred.call.at < to);
        (split.sent, split.deferred) = (to, later);
        split.deferred_bytes = 0;
        for deferred in &split.deferred {
            split.deferred_bytes += deferred.line.len() + deferred.beside.as_ref().map_or(0, String::len);
        }
        let now: Vec<DeferredResult> = now;
        for deferred in now {
            let mut result = ViewMessage::read(&deferred.line, deferred.beside.as_deref(), self.provider);
            result.answers = Some(deferred.call);
            body.push(&result, out);
        }
        true
    }
}
