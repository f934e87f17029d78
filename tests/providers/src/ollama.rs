//! `POST /api/chat` of Ollama.
//!
//! Ollama itself passes over fields that it does not know, and checks neither roles nor the order of messages. A
//! good request has nothing that is passed over, so the strict rules refuse it, in words that Go has for it.

use serde_json::{Map, Value};

use crate::refusal::Refusal;
use crate::shape::{Field, Kind, Voice, list, may, must, null, object, text};
use crate::{Rules, media, parse};

struct Ollama {
    strict: bool,
}

/// The path without numbers, as Go names it.
fn plain(path: &str) -> String {
    let keys: Vec<_> = path.split('.').filter(|key| key.parse::<usize>().is_err()).collect();
    keys.join(".")
}

impl Voice for Ollama {
    fn unknown(&self, _: &str, key: &str) -> Refusal {
        refuse(format!("json: unknown field \"{key}\""))
    }

    fn missing(&self, at: &str, key: &str) -> Refusal {
        refuse(format!("{} is required", plain(&self.key(at, key))))
    }

    fn wrong(&self, path: &str, kind: Kind, got: &Value) -> Refusal {
        let got = match got {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let path = plain(path);
        let of = match kind {
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Num => "float64",
            Kind::Array if path == "messages" => "[]api.Message",
            Kind::Array if path.ends_with("images") => "[]api.ImageData",
            Kind::Array if path.ends_with("tool_calls") => "[]api.ToolCall",
            Kind::Array => "[]string",
            Kind::Object if path.ends_with("arguments") => "api.ToolCallFunctionArguments",
            Kind::Object if path.ends_with("options") => "map[string]interface {}",
            Kind::Object => "api.Message",
            Kind::Any | Kind::Str | Kind::Word(_) | Kind::StrOrArray | Kind::StrOrObject => "string",
        };
        let field = if path.is_empty() { "value" } else { "struct field" };
        let dot = if path.is_empty() { "" } else { "." };
        refuse(format!("json: cannot unmarshal {got} into Go {field} ChatRequest{dot}{path} of type {of}"))
    }

    fn word(&self, path: &str, allowed: &[&str], got: &str) -> Refusal {
        refuse(format!("invalid {}: {got:?} (must be one of {})", plain(path), allowed.join(", ")))
    }
}

fn refuse(message: impl Into<String>) -> Refusal {
    Refusal { kind: "", ..Refusal::invalid(message) }
}

const BODY: &[Field] = &[
    may("model", Kind::Str),
    null("messages", Kind::Array),
    null("tools", Kind::Array),
    null("stream", Kind::Bool),
    null("format", Kind::StrOrObject),
    null("keep_alive", Kind::Any),
    null("options", Kind::Object),
    null("think", Kind::Any),
    null("logprobs", Kind::Bool),
    null("top_logprobs", Kind::Int),
    null("truncate", Kind::Bool),
    null("shift", Kind::Bool),
];

/// Checks a body that was read, of `size` bytes, by the strictest rules.
pub fn check(body: &Value, size: usize) -> Result<(), Refusal> {
    check_with(body, size, &Rules::ollama())
}

/// Reads and checks a body.
pub fn check_bytes(body: &[u8], rules: &Rules) -> Result<Value, Refusal> {
    if body.is_empty() {
        return Err(refuse("missing request body"));
    }
    let value = parse(body).map_err(|err| refuse(err.to_string()))?;
    check_with(&value, body.len(), rules)?;
    Ok(value)
}

impl Ollama {
    /// An object by its fields; unknown ones only where rules are strict.
    fn object<'a>(
        &self,
        at: &str,
        value: &'a Value,
        fields: &[Field],
    ) -> Result<&'a Map<String, Value>, Refusal> {
        let unknown = |value: &Value| -> Vec<String> {
            let keys = value.as_object().map(|object| object.keys().cloned().collect::<Vec<_>>());
            keys.unwrap_or_default()
                .into_iter()
                .filter(|key| fields.iter().all(|f| f.name() != key))
                .collect()
        };
        if self.strict {
            return object(self, at, value, fields);
        }
        let mut known = value.clone();
        for key in unknown(value) {
            known.as_object_mut().map(|object| object.remove(&key));
        }
        object(self, at, &known, fields)?;
        value.as_object().ok_or_else(|| self.wrong(at, Kind::Object, value))
    }
}

/// Checks a body by the given rules.
pub fn check_with(body: &Value, size: usize, rules: &Rules) -> Result<(), Refusal> {
    let voice = Ollama { strict: rules.strict };
    if size > rules.max_bytes {
        return Err(refuse("http: request body too large").status(413, ""));
    }
    let body = voice.object("", body, BODY)?;
    if text(body, "model").is_empty() {
        return Err(refuse("model is required"));
    }
    params(&voice, body)?;
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in list(body, "messages").iter().enumerate() {
        let message = read(&voice, &format!("messages.{at}"), message)?;
        if !rules.strict {
            continue;
        }
        if text(message, "role") == "tool" {
            let name = text(message, "tool_name");
            let Some(found) = open.iter().position(|call| *call == name) else {
                return Err(refuse(format!("messages.{at}: tool result for {name:?}, which was not called")));
            };
            open.remove(found);
            continue;
        }
        unanswered(at, &open)?;
        open = list(message, "tool_calls")
            .iter()
            .filter_map(|call| call.get("function")?.get("name")?.as_str())
            .collect();
    }
    if list(body, "messages").is_empty() && rules.strict {
        return Err(refuse("messages is required"));
    }
    unanswered(list(body, "messages").len(), &open)?;
    let roles = list(body, "messages").iter().rev().map(|message| &message["role"]);
    if rules.strict && roles.take(2).filter(|role| **role == "assistant").count() == 2 {
        // It goes on with the last one, and the model answers itself.
        return Err(refuse("the last two messages are the assistant's"));
    }
    Ok(())
}

fn unanswered(at: usize, open: &[&str]) -> Result<(), Refusal> {
    if open.is_empty() {
        return Ok(());
    }
    Err(refuse(format!("messages.{at}: no tool result for {}", open.join(", "))))
}

fn params(voice: &Ollama, body: &Map<String, Value>) -> Result<(), Refusal> {
    if let Some(think) = body.get("think") {
        let good = think.is_null()
            || think.is_boolean()
            || think.as_str().is_some_and(|word| ["high", "medium", "low"].contains(&word));
        if !good {
            return Err(refuse(format!(
                "invalid think value: {think} (must be \"high\", \"medium\", \"low\", true, or false)"
            )));
        }
    }
    if let Some(format) = body.get("format").and_then(Value::as_str)
        && !["", "json"].contains(&format)
    {
        return Err(refuse(format!(
            "invalid format: {format:?}; expected \"json\" or a valid JSON Schema object"
        )));
    }
    let options = body.get("options").and_then(Value::as_object);
    for (key, value) in options.into_iter().flatten() {
        let (fits, kind) = match key.as_str() {
            "num_ctx" | "num_batch" | "num_gpu" | "main_gpu" | "num_thread" | "num_keep" | "seed"
            | "num_predict" | "top_k" | "repeat_last_n" => (value.is_i64() || value.is_u64(), "integer"),
            "top_p" | "min_p" | "typical_p" | "temperature" | "repeat_penalty" | "presence_penalty"
            | "frequency_penalty" => (value.is_number(), "float32"),
            "stop" => (value.is_array(), "array"),
            "use_mmap" => (value.is_boolean(), "boolean"),
            _ if voice.strict => return Err(refuse(format!("invalid option provided: {key}"))),
            _ => continue,
        };
        if !fits {
            return Err(refuse(format!("option \"{key}\" must be of type {kind}")));
        }
    }
    for (at, tool) in list(body, "tools").iter().enumerate() {
        let path = format!("tools.{at}");
        let tool = voice.object(
            &path,
            tool,
            &[may("type", Kind::Word(&["function"])), must("function", Kind::Object)],
        )?;
        let fields =
            [must("name", Kind::Str), may("description", Kind::Str), may("parameters", Kind::Object)];
        let function = voice.object(&format!("{path}.function"), &tool["function"], &fields)?;
        if voice.strict && text(function, "name").is_empty() {
            return Err(refuse("tools.function.name is required"));
        }
    }
    Ok(())
}

fn read<'a>(voice: &Ollama, path: &str, message: &'a Value) -> Result<&'a Map<String, Value>, Refusal> {
    let fields = [
        must("role", Kind::Str),
        null("content", Kind::Str),
        null("thinking", Kind::Str),
        null("images", Kind::Array),
        null("tool_calls", Kind::Array),
        null("tool_name", Kind::Str),
        null("tool_call_id", Kind::Str),
    ];
    let message = voice.object(path, message, &fields)?;
    let role = text(message, "role");
    if voice.strict && !["system", "user", "assistant", "tool"].contains(&role) {
        return Err(refuse(format!(
            "invalid role: {role}, must be one of [\"system\", \"user\", \"assistant\", \"tool\"]"
        )));
    }
    for image in list(message, "images") {
        let image = image.as_str().ok_or_else(|| voice.wrong(&format!("{path}.images"), Kind::Str, image))?;
        if let Some(at) = media::base64_fault(image) {
            return Err(refuse(format!("illegal base64 data at input byte {at}")));
        }
        if !["image/png", "image/jpeg", "image/webp"].contains(&media::image_type(image).unwrap_or_default())
        {
            return Err(refuse("Failed to load image or audio file").status(500, ""));
        }
    }
    for call in list(message, "tool_calls") {
        let fields = [may("id", Kind::Str), must("function", Kind::Object)];
        let call = voice.object(&format!("{path}.tool_calls"), call, &fields)?;
        let fields = [must("name", Kind::Str), must("arguments", Kind::Object), may("index", Kind::Int)];
        let function = voice.object(&format!("{path}.tool_calls.function"), &call["function"], &fields)?;
        if voice.strict && text(function, "name").is_empty() {
            return Err(refuse("messages.tool_calls.function.name is required"));
        }
    }
    if voice.strict && !list(message, "tool_calls").is_empty() && role != "assistant" {
        return Err(refuse(format!("messages with role {role:?} cannot have tool_calls")));
    }
    Ok(message)
}
