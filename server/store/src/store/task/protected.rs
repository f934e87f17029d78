//! Which outputs are of tools that are protected, found out in one walk over a view.

use crate::context::OutputPolicy;
use crate::log::Seen;
use crate::model::Role;
use crate::model::json::{field, items};

/// A walk over a view, message by message.
#[derive(Debug)]
pub struct Protected<'a> {
    policy: &'a OutputPolicy,
    /// The calls of the model's last message by their ids.
    called: Vec<(String, String)>,
}

impl<'a> Protected<'a> {
    /// Before the first message.
    pub fn new(policy: &'a OutputPolicy) -> Self {
        Self { policy, called: Vec::new() }
    }

    /// Whether the next message is an output of a tool that is protected: as it names it, or as its call does.
    pub fn see(&mut self, seen: &Seen<'_>) -> bool {
        // What is not in the log is no output and calls nothing.
        if self.policy.protected_tools.is_empty() || seen.kind.is_some() {
            return false;
        }
        let shown = &seen.shown;
        if shown.role == Role::Assistant {
            self.called = shown.tool_calls.map(called).unwrap_or_default();
        }
        let given = || shown.tool_name.or(shown.name).and_then(text);
        let by_call = || {
            let id = text(shown.tool_call_id?)?;
            self.called.iter().find(|(called, _)| *called == id).map(|(_, name)| name.clone())
        };
        shown.role == Role::Tool && given().or_else(by_call).is_some_and(|name| self.policy.protects(&name))
    }
}

/// The ids of calls, with the names of the tools.
fn called(calls: &str) -> Vec<(String, String)> {
    let pair = |call: &str| {
        let tool = field(call, "function").or_else(|| field(call, "custom"))?;
        Some((text(field(call, "id")?)?, text(field(tool, "name")?)?))
    };
    items(calls).into_iter().filter_map(pair).collect()
}

/// What a JSON text says.
fn text(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}
