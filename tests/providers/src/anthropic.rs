//! `POST /v1/messages`.

mod blocks;
mod params;
mod turns;

use serde_json::{Map, Value};

use crate::refusal::Refusal;
use crate::shape::{Kind, Voice, list, text};
use crate::{Rules, parse};

/// What the fake signs thinking with; another signature is a foreign one.
pub const SIGNATURE: &str = "fake-anthropic-signature:";

/// What the fake's redacted thinking begins with.
pub const REDACTED: &str = "fake-anthropic-redacted:";

/// The signature of a thought, as the fake makes and checks it. [`crate::place::sealed`] binds it to its place.
pub fn sign(thinking: &str) -> String {
    format!("{SIGNATURE}{:016x}", crate::place::hash(thinking))
}

struct Anthropic;

impl Voice for Anthropic {
    fn unknown(&self, at: &str, key: &str) -> Refusal {
        Refusal::invalid(format!("{}: Extra inputs are not permitted", self.key(at, key)))
    }

    fn missing(&self, at: &str, key: &str) -> Refusal {
        Refusal::invalid(format!("{}: Field required", self.key(at, key)))
    }

    fn wrong(&self, path: &str, kind: Kind, _: &Value) -> Refusal {
        let expected = match kind {
            Kind::Any => "value",
            Kind::Bool => "boolean",
            Kind::Int => "integer",
            Kind::Num => "number",
            Kind::Str | Kind::Word(_) | Kind::StrOrArray | Kind::StrOrObject => "string",
            Kind::Object => "dictionary",
            Kind::Array => "list",
        };
        let path = if path.is_empty() { "body" } else { path };
        Refusal::invalid(format!("{path}: Input should be a valid {expected}"))
    }

    fn word(&self, path: &str, allowed: &[&str], _: &str) -> Refusal {
        let quoted: Vec<_> = allowed.iter().map(|word| format!("'{word}'")).collect();
        let expected = match quoted.as_slice() {
            [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
            other => other.join(""),
        };
        Refusal::invalid(format!("{path}: Input should be {expected}"))
    }
}

/// Checks a body that was read, of `size` bytes, by the strictest rules.
pub fn check(body: &Value, size: usize) -> Result<(), Refusal> {
    check_with(body, size, &Rules::anthropic())
}

/// Reads and checks a body.
pub fn check_bytes(body: &[u8], rules: &Rules) -> Result<Value, Refusal> {
    check_size(body.len(), rules)?;
    let value =
        parse(body).map_err(|err| Refusal::invalid(format!("The request body is not valid JSON: {err}")))?;
    check_with(&value, body.len(), rules)?;
    Ok(value)
}

fn check_size(size: usize, rules: &Rules) -> Result<(), Refusal> {
    if size <= rules.max_bytes {
        return Ok(());
    }
    Err(Refusal::invalid("Request exceeds the maximum size").status(413, "request_too_large"))
}

/// Checks a body by the given rules.
pub fn check_with(body: &Value, size: usize, rules: &Rules) -> Result<(), Refusal> {
    check_size(size, rules)?;
    let body = params::check(body)?;
    system(body)?;
    let turns = turns::read(list(body, "messages"), rules)?;
    let marks = count_marks(&Value::Object(body.clone()), rules);
    if marks > 4 {
        return Err(Refusal::invalid(format!(
            "A maximum of 4 blocks with cache_control may be provided. Found {marks}."
        )));
    }
    turns::pairing(&turns)?;
    let uses_tools = turns
        .iter()
        .flat_map(|turn| &turn.blocks)
        .any(|block| ["tool_use", "tool_result"].contains(&block.kind()));
    if uses_tools && list(body, "tools").is_empty() {
        return Err(Refusal::invalid(
            "Requests which include `tool_use` or `tool_result` blocks must define tools",
        ));
    }
    turns::places(&turns, !list(body, "tools").is_empty())?;
    turns::thinking(&turns, body)?;
    turns::last(&turns, text(body, "model"))
}

fn system(body: &Map<String, Value>) -> Result<(), Refusal> {
    for (index, block) in list(body, "system").iter().enumerate() {
        let path = format!("system.{index}");
        if block.get("type").and_then(Value::as_str) != Some("text") {
            return Err(Anthropic.word(&format!("{path}.type"), &["text"], ""));
        }
        blocks::text_block(&path, block, "system")?;
    }
    Ok(())
}

/// How many blocks ask for the prompt cache. Only where blocks stand: what tools take is not looked into.
fn count_marks(body: &Value, rules: &Rules) -> usize {
    fn blocks(value: &Value) -> usize {
        let own = usize::from(value.get("cache_control").is_some_and(|mark| !mark.is_null()));
        let inner = value.get("content").and_then(Value::as_array);
        own + inner.map_or(0, |inner| inner.iter().map(blocks).sum())
    }
    let lists = ["system", "tools", "messages"].map(|key| body.get(key).and_then(Value::as_array));
    let marks: usize = lists.into_iter().flatten().flatten().map(blocks).sum();
    // The mark of the body itself is put on its last block by the API.
    marks + usize::from(rules.strict && body.get("cache_control").is_some_and(|mark| !mark.is_null()))
}
