//! Pairs calls with results: every call gets a result where providers want it, and every result has a call.
//!
//! The view pairs them already, except calls that are open at its end; this module guarantees the pairing for any
//! view.

use std::collections::VecDeque;

use super::message::{CallRef, MessageCall, ViewMessage};
use super::text::decode;
use crate::model::{Role, plain_name};

/// The placeholder for a missing result, as JSON text.
pub(super) const MISSING_RESULT: &str = "\"[no result: the call was interrupted]\"";

/// A provider's rules for the ids of calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdRule {
    /// Most bytes.
    pub(super) max: usize,
    /// True if only letters, digits, `_` and `-` are allowed.
    pub(super) plain: bool,
    /// True if ids must be unique in the whole request.
    pub(super) once: bool,
}

impl IdRule {
    fn accepts(self, id: &str) -> bool {
        let fits = |byte: u8| if self.plain { is_plain(byte) } else { byte.is_ascii_graphic() };
        (1..=self.max).contains(&id.len()) && id.bytes().all(fits)
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The calls that wait for a result, and the assigned ids.
#[derive(Debug)]
pub(super) struct Groups {
    rule: IdRule,
    open: VecDeque<PendingCall>,
    ids: IdSet,
}

#[derive(Debug)]
struct PendingCall {
    /// The id by which a result refers to the call.
    raw_id: String,
    call: CallRef,
}

impl Groups {
    pub(super) fn new(rule: IdRule) -> Self {
        Self { rule, open: VecDeque::new(), ids: IdSet::default() }
    }

    /// Returns the calls without a result, if a message closes their group.
    pub(super) fn closed_by(&mut self, message: &ViewMessage<'_>) -> Option<Vec<CallRef>> {
        let answers = message.role == Role::Tool && self.position(message).is_some();
        (!answers).then(|| self.close())
    }

    /// Closes the group and returns its calls without a result.
    pub(super) fn close(&mut self) -> Vec<CallRef> {
        std::mem::take(&mut self.open).into_iter().map(|open| open.call).collect()
    }

    /// Returns whether one of the calls before `at` has no result yet.
    pub(super) fn is_open_before(&self, at: usize) -> bool {
        self.open.iter().any(|open| open.call.at < at)
    }

    /// Closes the calls before `at` and returns those without a result.
    pub(super) fn close_before(&mut self, at: usize) -> Vec<CallRef> {
        let (now, later): (VecDeque<PendingCall>, VecDeque<PendingCall>) =
            std::mem::take(&mut self.open).into_iter().partition(|open| open.call.at < at);
        self.open = later;
        now.into_iter().map(|open| open.call).collect()
    }

    fn position(&self, message: &ViewMessage<'_>) -> Option<usize> {
        let id = decode(message.call_id?);
        self.open.iter().position(|open| open.raw_id == id)
    }

    /// Assigns ids to calls, and a call to a result; a result without a call becomes text.
    pub(super) fn take(&mut self, line: u64, message: &mut ViewMessage<'_>) {
        match message.role {
            Role::Assistant => self.open_calls(line, &mut message.calls),
            Role::Tool => match self.position(message) {
                Some(position) => message.answers = self.open.remove(position).map(|open| open.call),
                None => orphan_to_text(message),
            },
            Role::System | Role::Developer | Role::User => {}
        }
    }

    fn open_calls(&mut self, line: u64, calls: &mut [MessageCall<'_>]) {
        if !self.rule.once {
            self.ids = IdSet::small();
        }
        for (index, call) in calls.iter_mut().enumerate() {
            let raw_id = call.raw_id.map(decode).unwrap_or_default();
            call.id = match self.rule.accepts(&raw_id) && self.ids.is_new(&raw_id) {
                true => raw_id.clone().into_owned(),
                false => self.generated(line, index),
            };
            let answered =
                CallRef { at: index, id: call.id.clone(), name: call.name.clone(), custom: call.custom };
            self.open.push_back(PendingCall { raw_id: raw_id.into_owned(), call: answered });
        }
    }

    /// Generates an id that depends on the position of the call only, so that it is the same each time.
    fn generated(&mut self, line: u64, index: usize) -> String {
        let mut id = format!("call_{line}_{index}");
        // A few attempts suffice, except against deliberate collisions.
        for _ in 0..4 {
            if self.ids.is_new(&id) {
                break;
            }
            id.push('x');
        }
        id
    }
}

/// Turns a result without a call into text that names its tool.
fn orphan_to_text(message: &mut ViewMessage<'_>) {
    let who = message.tool_name.or(message.call_id).map(decode);
    let who = who.as_deref().and_then(plain_name).unwrap_or_else(|| "unknown".to_owned());
    message.role = Role::User;
    message.prepend(&format!("[Tool: {who}]"));
}

/// A set of assigned ids in bounded memory (a Bloom filter): a new id may be reported as used, and then gets a
/// different id.
#[derive(Debug)]
pub(super) struct IdSet {
    bits: Vec<u64>,
    words: usize,
}

/// 1 MiB: with a million ids, one in fifty is wrongly reported as used.
const REQUEST_WORDS: usize = 1 << 17;
/// 8 KiB, for the ids of one message.
const MESSAGE_WORDS: usize = 1 << 10;

impl Default for IdSet {
    fn default() -> Self {
        Self { bits: Vec::new(), words: REQUEST_WORDS }
    }
}

impl IdSet {
    fn small() -> Self {
        Self { bits: Vec::new(), words: MESSAGE_WORDS }
    }

    /// Adds an id; returns false if it was present.
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

/// Creates the result of a call that never got one.
pub(super) fn missing(call: CallRef) -> ViewMessage<'static> {
    let mut message = ViewMessage::text(Role::Tool, MISSING_RESULT);
    message.answers = Some(call);
    message
}
