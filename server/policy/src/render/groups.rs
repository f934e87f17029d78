//! Calls and their results: every call is answered where providers want it, and no result stands without one.
//!
//! The view pairs them already, but for calls that are open at its end; here it is made sure, whatever the view is.

use std::collections::VecDeque;

use super::message::{Answered, Call, Message};
use super::text::decode;
use crate::model::{Role, plain_name};

/// What stands for a result that never came, as JSON text.
pub(super) const MISSING_RESULT: &str = "\"[no result: the call was interrupted]\"";

/// What a provider wants of the ids of calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdRule {
    /// Most bytes.
    pub(super) max: usize,
    /// Whether there may be nothing but letters, digits, `_` and `-`.
    pub(super) plain: bool,
    /// Whether no two calls of the whole request may have the same.
    pub(super) once: bool,
}

impl IdRule {
    fn takes(self, id: &str) -> bool {
        let fits = |byte: u8| if self.plain { is_plain(byte) } else { byte.is_ascii_graphic() };
        (1..=self.max).contains(&id.len()) && id.bytes().all(fits)
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The calls that wait for a result, and the ids that were given out.
#[derive(Debug)]
pub(super) struct Groups {
    rule: IdRule,
    open: VecDeque<Open>,
    seen: Seen,
}

#[derive(Debug)]
struct Open {
    /// The id by which a result asks for it.
    asked: String,
    call: Answered,
}

impl Groups {
    pub(super) fn new(rule: IdRule) -> Self {
        Self { rule, open: VecDeque::new(), seen: Seen::default() }
    }

    /// Calls that a message leaves without a result, if it closes their group.
    pub(super) fn closed_by(&mut self, message: &Message<'_>) -> Option<Vec<Answered>> {
        let answers = message.role == Role::Tool && self.place(message).is_some();
        (!answers).then(|| self.close())
    }

    /// Calls that are left without a result.
    pub(super) fn close(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.open).into_iter().map(|open| open.call).collect()
    }

    /// Whether one of the first calls of the group is left without a result.
    pub(super) fn is_open_before(&self, at: usize) -> bool {
        self.open.iter().any(|open| open.call.at < at)
    }

    /// The first calls of the group, as far as they are left without a result.
    pub(super) fn close_before(&mut self, at: usize) -> Vec<Answered> {
        let (now, later): (VecDeque<Open>, VecDeque<Open>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| open.call.at < at);
        self.open = later;
        now.into_iter().map(|open| open.call).collect()
    }

    fn place(&self, message: &Message<'_>) -> Option<usize> {
        let id = decode(message.call_id?);
        self.open.iter().position(|open| open.asked == id)
    }

    /// Gives calls their ids, and a result its call; one without a call becomes text.
    pub(super) fn take(&mut self, line: u64, message: &mut Message<'_>) {
        match message.role {
            Role::Assistant => self.open_calls(line, &mut message.calls),
            Role::Tool => match self.place(message) {
                Some(place) => message.answers = self.open.remove(place).map(|open| open.call),
                None => orphan(message),
            },
            Role::System | Role::Developer | Role::User => {}
        }
    }

    fn open_calls(&mut self, line: u64, calls: &mut [Call<'_>]) {
        if !self.rule.once {
            self.seen = Seen::few();
        }
        for (index, call) in calls.iter_mut().enumerate() {
            let asked = call.raw_id.map(decode).unwrap_or_default();
            call.id = match self.rule.takes(&asked) && self.seen.is_new(&asked) {
                true => asked.clone().into_owned(),
                false => self.made_up(line, index),
            };
            let answered =
                Answered { at: index, id: call.id.clone(), name: call.name.clone(), custom: call.custom };
            self.open.push_back(Open { asked: asked.into_owned(), call: answered });
        }
    }

    /// An id that follows from the place of the call alone, so that it is the same each time.
    fn made_up(&mut self, line: u64, index: usize) -> String {
        let mut id = format!("call_{line}_{index}");
        // A few tries are enough, unless somebody means to have the same ids.
        for _ in 0..4 {
            if self.seen.is_new(&id) {
                break;
            }
            id.push('x');
        }
        id
    }
}

/// Turns a result that answers no call into text that says where it came from.
fn orphan(message: &mut Message<'_>) {
    let who = message.tool_name.or(message.call_id).map(decode);
    let who = who.as_deref().and_then(plain_name).unwrap_or_else(|| "unknown".to_owned());
    message.role = Role::User;
    message.begin_with(&format!("[Tool: {who}]"));
}

/// Ids that were given out, in bounded memory: as long as they are few they are all known; beyond that a new one may
/// be taken for an old one, which then gets another id.
#[derive(Debug)]
pub(super) struct Seen {
    bits: Vec<u64>,
    words: usize,
}

/// 1 MiB: of a million ids one in fifty is mistaken for another.
const SEEN_WORDS: usize = 1 << 17;
/// 8 KiB, for those of one message.
const FEW_WORDS: usize = 1 << 10;

impl Default for Seen {
    fn default() -> Self {
        Self { bits: Vec::new(), words: SEEN_WORDS }
    }
}

impl Seen {
    fn few() -> Self {
        Self { bits: Vec::new(), words: FEW_WORDS }
    }

    /// Remembers an id; false if it was there.
    pub(super) fn is_new(&mut self, id: &str) -> bool {
        if self.bits.is_empty() {
            self.bits = vec![0; self.words];
        }
        let hash = blake3::hash(id.as_bytes());
        let mut new = false;
        for four in hash.as_bytes().chunks_exact(4).take(4) {
            let bit = four.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
            let (word, mask) = (bit / 64 % self.words, 1 << (bit % 64));
            new |= self.bits[word] & mask == 0;
            self.bits[word] |= mask;
        }
        new
    }
}

/// A result that never came.
pub(super) fn missing(call: Answered) -> Message<'static> {
    let mut message = Message::text(Role::Tool, MISSING_RESULT);
    message.answers = Some(call);
    message
}
