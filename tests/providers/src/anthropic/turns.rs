//! The order of messages: roles, calls and results, thinking, the end.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::Anthropic;
use super::blocks::{self, Block};
use super::params::is_thinking;
use crate::refusal::Refusal;
use crate::shape::{Kind, must, object, text};
use crate::{Rules, place};

/// Models that go on with an assistant message at the end. Newer ones refuse it.
const PREFILLED: &[&str] = &[
    "claude-3",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
];

/// What one side says before the other one does: the API joins messages of one role that stand together.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    /// Who speaks.
    pub(super) role: &'a str,
    /// Its first message.
    pub(super) message: usize,
    /// What is said.
    pub(super) blocks: Vec<Block<'a>>,
}

/// Checks each message by itself.
pub(super) fn read<'a>(messages: &'a [Value], rules: &Rules) -> Result<Vec<Turn<'a>>, Refusal> {
    if messages.is_empty() {
        return Err(Refusal::invalid("messages: at least one message is required"));
    }
    if messages.len() > 100_000 {
        return Err(Refusal::invalid(format!(
            "messages: List should have at most 100000 items after validation, not {}",
            messages.len()
        )));
    }
    let mut turns: Vec<Turn<'a>> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let last = at + 1 == messages.len();
        let (role, blocks) = read_message(at, message, last)?;
        match turns.last_mut() {
            Some(turn) if turn.role == role && rules.strict => {
                return Err(Refusal::invalid(format!(
                    "messages: roles must alternate between \"user\" and \"assistant\", but found multiple \
                     \"{role}\" roles in a row"
                )));
            }
            Some(turn) if turn.role == role => turn.blocks.extend(blocks),
            _ => turns.push(Turn { role, message: at, blocks }),
        }
    }
    if turns.first().is_some_and(|turn| turn.role != "user") {
        return Err(Refusal::invalid("messages: first message must use the \"user\" role"));
    }
    Ok(turns)
}

fn read_message(at: usize, message: &Value, last: bool) -> Result<(&str, Vec<Block<'_>>), Refusal> {
    let path = format!("messages.{at}");
    if message.get("role").and_then(Value::as_str) == Some("system") {
        // Only the newest models take it, and only there; the parameter is taken by all.
        return Err(Refusal::invalid(
            "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \
             \"system\" as an input message role.",
        ));
    }
    let fields = [must("role", Kind::Word(&["user", "assistant"])), must("content", Kind::StrOrArray)];
    let message = object(&Anthropic, &path, message, &fields)?;
    let role = text(message, "role");
    let may_be_empty = last && role == "assistant";
    let empty = || {
        Refusal::invalid(format!(
            "messages.{at}: all messages must have non-empty content except for the optional final assistant message"
        ))
    };
    let content = &message["content"];
    if let Some(list) = content.as_array() {
        if list.is_empty() && !may_be_empty {
            return Err(empty());
        }
        let mut found = Vec::new();
        for (index, block) in list.iter().enumerate() {
            blocks::check(at, index, role, block)?;
            let text = block["text"].as_str().unwrap_or_default();
            found.push(Block { message: at, index, value: Some(block), text });
        }
        return Ok((role, found));
    }
    let text = content.as_str().unwrap_or_default();
    if text.is_empty() {
        return if may_be_empty { Ok((role, Vec::new())) } else { Err(empty()) };
    }
    blocks::some_text(text, "messages")?;
    Ok((role, vec![Block { message: at, index: 0, value: None, text }]))
}

/// Every call has its one result in the next turn, before anything else.
pub(super) fn pairing(turns: &[Turn<'_>]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        results(turn, &open)?;
        open = Vec::new();
        for block in turn.blocks.iter().filter(|block| block.kind() == "tool_use") {
            if !seen.insert(block.field("id")) {
                return Err(Refusal::invalid("messages: `tool_use` ids must be unique"));
            }
            open.push(block.field("id"));
        }
        if open.is_empty() {
            continue;
        }
        let next = turns.get(at + 1).map(|turn| turn.blocks.as_slice()).unwrap_or_default();
        let answered = |id: &&str| {
            next.iter().any(|block| block.kind() == "tool_result" && block.field("tool_use_id") == *id)
        };
        let missing: Vec<_> = open.iter().filter(|id| !answered(id)).copied().collect();
        if !missing.is_empty() {
            return Err(Refusal::invalid(format!(
                "messages.{}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
                 `tool_use` block must have a corresponding `tool_result` block in the next message.",
                turn.message,
                missing.join(", ")
            )));
        }
        if next.iter().take(open.len()).any(|block| block.kind() != "tool_result") {
            return Err(Refusal::invalid(format!(
                "messages.{}: Messages following `tool_use` blocks must begin with a matching number of \
                 `tool_result` blocks",
                turn.message + 1
            )));
        }
    }
    Ok(())
}

fn results(turn: &Turn<'_>, open: &[&str]) -> Result<(), Refusal> {
    let mut answered = HashSet::new();
    for block in turn.blocks.iter().filter(|block| block.kind() == "tool_result") {
        let id = block.field("tool_use_id");
        if !open.contains(&id) {
            return Err(Refusal::invalid(format!(
                "{}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must \
                 have a corresponding `tool_use` block in the previous message.",
                block.path()
            )));
        }
        if !answered.insert(id) {
            return Err(Refusal::invalid(format!(
                "{}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}",
                block.path()
            )));
        }
    }
    Ok(())
}

/// Thoughts stand where they stood when they were signed.
pub(super) fn places(turns: &[Turn<'_>], with_tools: bool) -> Result<(), Refusal> {
    let is_thought = |block: &Block<'_>| ["thinking", "redacted_thinking"].contains(&block.kind());
    let tag = |block: &Block<'_>| match block.kind() {
        "tool_use" => block.value.map_or_else(String::new, |call| {
            place::call(call["name"].as_str().unwrap_or_default(), &call["input"])
        }),
        _ if is_thought(block) => place::THOUGHT.to_owned(),
        _ => place::text(block.text),
    };
    for turn in turns.iter().filter(|turn| turn.role == "assistant") {
        let tags: Vec<String> = turn.blocks.iter().map(tag).collect();
        for (at, block) in turn.blocks.iter().enumerate().filter(|(_, block)| is_thought(block)) {
            let seal = if block.kind() == "thinking" { "signature" } else { "data" };
            let Some((before, behind)) = place::opened(block.field(seal)).1 else { continue };
            // Without tools calls are told as text.
            let known = |tag| if with_tools || !str::starts_with(tag, 'c') { tag } else { "" };
            let previous = at.checked_sub(1).and_then(|at| tags.get(at)).map(String::as_str);
            let next = tags.get(at + 1).map(String::as_str);
            if !place::fits((known(before), known(behind)), previous, next) {
                return Err(Refusal::invalid(format!(
                    "{}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
                     modified. These blocks must remain as they were in the original response.",
                    block.path()
                )));
            }
        }
    }
    Ok(())
}

/// Thoughts stand before what they led to; a loop of calls that goes on begins with one, if thinking is on.
pub(super) fn thinking(turns: &[Turn<'_>], body: &Map<String, Value>) -> Result<(), Refusal> {
    let is_thought = |block: &Block<'_>| ["thinking", "redacted_thinking"].contains(&block.kind());
    for turn in turns.iter().filter(|turn| turn.role == "assistant") {
        if turn.blocks.last().is_some_and(is_thought) {
            return Err(Refusal::invalid(format!(
                "messages.{}: The final block in an assistant message cannot be `thinking`.",
                turn.message
            )));
        }
    }
    if !is_thinking(body) {
        return Ok(());
    }
    // The loop: back from the end over turns of nothing but results.
    let only_results = |turn: &Turn<'_>| turn.blocks.iter().all(|block| block.kind() == "tool_result");
    let mut first = None;
    for turn in turns.iter().rev() {
        if turn.role == "assistant" {
            first = Some(turn);
        } else if !only_results(turn) {
            break;
        }
    }
    match first.and_then(|turn| turn.blocks.first()) {
        Some(block) if !is_thought(block) => Err(Refusal::invalid(format!(
            "{}.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When `thinking` is enabled, a \
             final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` \
             and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid \
             this requirement, disable `thinking`.",
            block.path(),
            block.kind()
        ))),
        _ => Ok(()),
    }
}

/// What may stand at the end.
pub(super) fn last(turns: &[Turn<'_>], model: &str) -> Result<(), Refusal> {
    let Some(turn) = turns.last().filter(|turn| turn.role == "assistant") else { return Ok(()) };
    if !PREFILLED.iter().any(|prefix| model.starts_with(prefix)) {
        return Err(Refusal::invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ));
    }
    if turn
        .blocks
        .last()
        .is_some_and(|block| block.kind() == "text" && block.text.ends_with(char::is_whitespace))
    {
        return Err(Refusal::invalid(
            "messages: final assistant content cannot end with trailing whitespace",
        ));
    }
    Ok(())
}
