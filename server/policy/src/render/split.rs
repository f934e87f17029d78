//! Messages with more calls than a provider takes in one: they become several, each with its own results behind it.
//!
//! Results come in any order, and those of later calls are kept until the calls before them have theirs. That takes
//! memory, so there is a limit to it: then calls that still wait are said to have been interrupted, and what comes for
//! them later is text, as everywhere else.

use super::Body;
use super::groups::{Groups, missing};
use super::message::{Answered, Message};
use crate::model::Provider;

/// Bytes of results that are kept for later.
const HELD_BYTES: usize = 4 << 20;

/// The message that is being split, if there is one.
#[derive(Debug)]
pub(super) struct Splitter {
    provider: Provider,
    /// Most calls of a message.
    most: Option<usize>,
    split: Option<Split>,
}

#[derive(Debug)]
struct Split {
    line: String,
    /// The ids of all its calls, as they are sent.
    ids: Vec<String>,
    /// How many of them were sent.
    sent: usize,
    held: Vec<Held>,
    held_bytes: usize,
}

/// A result that waits for its call to be sent.
#[derive(Debug)]
struct Held {
    line: String,
    beside: Option<String>,
    call: Answered,
}

impl Splitter {
    pub(super) fn new(provider: Provider, most: Option<usize>) -> Self {
        Self { provider, most, split: None }
    }

    /// Writes what calls without a result become, as nothing more answers them.
    pub(super) fn close(&mut self, mut open: Vec<Answered>, body: &mut dyn Body, out: &mut Vec<u8>) {
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

    /// Writes a message whose calls have their ids, or that answers one.
    pub(super) fn push(
        &mut self,
        (line, beside): (&str, Option<&str>),
        mut message: Message<'_>,
        groups: &mut Groups,
        body: &mut dyn Body,
        out: &mut Vec<u8>,
    ) {
        if let Some(most) = self.most.filter(|most| message.calls.len() > *most) {
            let ids = message.calls.iter().map(|call| call.id.clone()).collect();
            let line = line.to_owned();
            self.split = Some(Split { line, ids, sent: most, held: Vec::new(), held_bytes: 0 });
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
            split.held_bytes += line.len() + beside.map_or(0, str::len);
            let (line, beside) = (line.to_owned(), beside.map(str::to_owned));
            split.held.push(Held { line, beside, call: call.clone() });
            if split.held_bytes > HELD_BYTES {
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

    /// Writes the next message of a split one, and the results that wait for it. False if there is none.
    fn next(&mut self, body: &mut dyn Body, out: &mut Vec<u8>) -> bool {
        let (Some(most), Some(split)) = (self.most, &mut self.split) else { return false };
        let (from, to) = (split.sent, (split.sent + most).min(split.ids.len()));
        if from == to {
            self.split = None;
            return false;
        }
        let mut message = Message::read(&split.line, None, self.provider);
        message.parts.clear();
        message.refusal = None;
        for (call, id) in message.calls.iter_mut().zip(&split.ids) {
            call.id.clone_from(id);
        }
        message.calls.truncate(to);
        message.calls.drain(..from);
        body.push(&message, out);
        let (now, later) = std::mem::take(&mut split.held).into_iter().partition(|held| held.call.at < to);
        (split.sent, split.held) = (to, later);
        split.held_bytes = 0;
        for held in &split.held {
            split.held_bytes += held.line.len() + held.beside.as_ref().map_or(0, String::len);
        }
        let now: Vec<Held> = now;
        for held in now {
            let mut result = Message::read(&held.line, held.beside.as_deref(), self.provider);
            result.answers = Some(held.call);
            body.push(&result, out);
        }
        true
    }
}
