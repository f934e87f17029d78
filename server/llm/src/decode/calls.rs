//! The tool calls of an answer, put together of what a provider says of them piece by piece.
//!
//! A call is passed on once its id and its name are known, as the first piece has both; at the end every call is. Calls are
//! passed on in their order, so one that is not known yet holds back those behind it.

use std::collections::VecDeque;

use super::{AnswerEvent, ToolCallDelta, new_call_id};

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct ToolCalls(Vec<PartialCall>);

/// A call as far as it came.
#[derive(Debug, Default)]
pub(super) struct PartialCall {
    /// The provider's number for it.
    pub(super) number: Option<u64>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// Whether it is a call with free text.
    pub(super) custom: bool,
    pub(super) arguments: String,
    /// Whether nothing more comes of it.
    pub(super) done: bool,
    /// Bytes of the arguments that were passed on.
    sent: usize,
    begun: bool,
}

impl ToolCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The newest call that `is` the one, else a new one.
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

    /// Passes on what is new; at the end, also of calls that lack an id or a name.
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
