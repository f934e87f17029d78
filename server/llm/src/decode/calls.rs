//! Collects the tool calls of an answer from their pieces.
//!
//! A call is emitted once its id and its name are known, because the first piece carries both; the end of the answer
//! emits every call. Calls are emitted in order, so an incomplete call delays those behind it.

use std::collections::VecDeque;

use super::{AnswerEvent, ToolCallDelta, new_call_id};

/// The tool calls of one answer.
#[derive(Debug, Default)]
pub(super) struct ToolCalls(Vec<PartialCall>);

/// A tool call as far as it has arrived.
#[derive(Debug, Default)]
pub(super) struct PartialCall {
    /// The provider's index of the call.
    pub(super) number: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// True if the arguments are free text.
    pub(super) custom: bool,
    pub(super) arguments: String,
    /// True if the call is complete.
    pub(super) done: bool,
    /// Bytes of the arguments that were emitted.
    sent: usize,
    begun: bool,
}

impl ToolCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the newest call that matches, or a new one.
    pub(super) fn find(
        &mut self,
        number: Option<u64>,
        is: impl Fn(&PartialCall, bool) -> bool,
    ) -> &mut PartialCall {
        let last = self.0.len();
        let found = (0..last).rev().find(|at| is(&self.0[*at], at + 1 == last));
        let at = found.unwrap_or_else(|| {
            self.0.push(PartialCall { number, ..PartialCall::default() });
            last
        });
        &mut self.0[at]
    }

    /// Emits new pieces; at the end, also calls without an id or a name.
    pub(super) fn pass_on(&mut self, end: bool, out: &mut VecDeque<AnswerEvent>) {
        for (at, call) in self.0.iter_mut().enumerate() {
            let known = call.id.is_some() && call.name.is_some();
            if !(call.begun || known || call.done || end) {
                return;
            }
            let more = call.arguments.get(call.sent..).unwrap_or_default();
            if call.begun && more.is_empty() {
                continue;
            }
            let index = u32::try_from(at).unwrap_or(u32::MAX);
            let (custom, arguments) = (call.custom, more.to_owned());
            let mut piece = ToolCallDelta { index, custom, arguments, ..ToolCallDelta::default() };
            call.sent = call.arguments.len();
            if !std::mem::replace(&mut call.begun, true) {
                piece.id = call.id.get_or_insert_with(new_call_id).clone();
                piece.name = call.name.clone().unwrap_or_default();
            }
            out.push_back(AnswerEvent::ToolCall(piece));
        }
    }
}
