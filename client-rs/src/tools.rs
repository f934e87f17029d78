//! Tools for the model itself: with them it reads and searches the outputs of which it was shown only a part.
//!
//! Give them to the model with your own, and answer its calls with [`dispatch`]:
//!
//! ```no_run
//! # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
//! use contextstore_client::{Chat, ChatEvent, NewMessage, tools};
//!
//! let ask = Chat {
//!     messages: vec![NewMessage::user("Why does the build fail?")],
//!     tools_json: tools::openai(),
//!     ..Default::default()
//! };
//! let mut turn = task.chat(ask);
//! while let Some(event) = turn.try_next().await? {
//!     let ChatEvent::ToolCall(call) = event else { continue };
//!     let call = serde_json::json!({"id": call.id, "function": {"name": call.name, "arguments": call.arguments}});
//!     if let Some(answer) = tools::dispatch(&task, &call.to_string()).await? {
//!         task.append_later(NewMessage::json(answer)).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```

use std::fmt::Write;

use contextstore_proto::v1;
use serde_json::{Map, Value, json};

use crate::{Error, Grep, ReadOutput, Task};

/// The name of the tool that reads lines of an output.
pub const READ: &str = "tool_output_cache";
/// The name of the tool that searches outputs.
pub const GREP: &str = "tool_output_cache_grep";

const LINES: u64 = 200;
const MOST_LINES: u64 = 2000;
const MOST_BYTES: usize = 32 << 10;
const LINE_LENGTH: u32 = 2000;
const MATCHES: u64 = 50;
const MOST_MATCHES: u64 = 1000;
/// Most lines around a match that the server takes.
const MOST_AROUND: u64 = 1000;

struct Definition {
    name: &'static str,
    description: &'static str,
    parameters: Value,
}

fn definitions() -> [Definition; 2] {
    let object = |properties: Value, required: &str| {
        json!({
            "type": "object",
            "properties": properties,
            "required": [required],
            "additionalProperties": false,
        })
    };
    let lines = |description: &str| json!({"type": "integer", "minimum": 0, "description": description});
    let text = |description: &str| json!({"type": "string", "description": description});
    let read = json!({
        "ref_id": text("The ref of the output: out-…, or seq=14"),
        "offset": lines("Lines to skip. Default 0"),
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_LINES,
            "description": format!("Most lines to read. Default {LINES}"),
        },
    });
    let grep = json!({
        "pattern": text("A regular expression, as ripgrep takes it"),
        "ref_id": text("The ref of one output. Default: all outputs"),
        "ignore_case": {"type": "boolean", "description": "Default false"},
        "before": lines("Lines to show before each match. Default 0"),
        "after": lines("Lines to show after each match. Default 0"),
        "max_matches": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_MATCHES,
            "description": format!("Default {MATCHES}"),
        },
    });
    [
        Definition {
            name: READ,
            description: "Reads lines of an output of a tool that was too large to be shown whole. The output is named by \
                the ref_id that stands where it was cut. Lines are numbered.",
            parameters: object(read, "ref_id"),
        },
        Definition {
            name: GREP,
            description: "Searches outputs of tools that were too large to be shown whole for lines that match a regular \
                expression.",
            parameters: object(grep, "pattern"),
        },
    ]
}

fn array(shape: impl Fn(Definition) -> Value) -> String {
    Value::Array(definitions().into_iter().map(shape).collect()).to_string()
}

/// Returns the tools for OpenAI's chat completions, for what speaks like it, and for
/// [`Chat::tools_json`](crate::Chat::tools_json): a JSON array.
pub fn openai() -> String {
    array(|Definition { name, description, parameters }| {
        let function = json!({"name": name, "description": description, "parameters": parameters});
        json!({"type": "function", "function": function})
    })
}

/// Returns the tools for OpenAI's Responses API: a JSON array.
pub fn openai_responses() -> String {
    array(|Definition { name, description, parameters }| {
        json!({
            "type": "function",
            "name": name,
            "description": description,
            "parameters": parameters,
            "strict": false,
        })
    })
}

/// Returns the tools for Anthropic's Messages API: a JSON array.
pub fn anthropic() -> String {
    array(
        |Definition { name, description, parameters }| json!({"name": name, "description": description, "input_schema": parameters}),
    )
}

/// Carries out a call of one of these tools; `None` if it is of another.
///
/// The call is the JSON object that the model answered: one of OpenAI's chat completions or of its Responses API, or a
/// `tool_use` block of Anthropic's. The answer is the JSON object that goes back: a tool message, a `function_call_output` or a
/// `tool_result`. What went wrong, such as a pattern that cannot be compiled, stands in it, for the model to do better. Fails
/// only if the call is not a JSON object.
pub async fn dispatch(task: &Task, call_json: &str) -> Result<Option<String>, Error> {
    let call: Map<String, Value> = serde_json::from_str(call_json)
        .map_err(|error| Error::config("call_json", format!("is not a JSON object: {error}")))?;
    let Some(call) = Call::of(call) else { return Ok(None) };
    let (content, is_error) = match call.carry_out(task).await {
        Ok(content) => (content, false),
        Err(problem) => (format!("Error: {problem}"), true),
    };
    Ok(Some(call.answer(&content, is_error).to_string()))
}

#[derive(Debug, Clone, Copy)]
enum Form {
    OpenAi,
    OpenAiResponses,
    Anthropic,
}

/// A call by a model, whoever's it is.
struct Call {
    name: String,
    id: String,
    arguments: Value,
    form: Form,
}

impl Call {
    /// The call, if it is of one of these tools.
    fn of(mut call: Map<String, Value>) -> Option<Self> {
        let text = |call: &Map<String, Value>, field: &str| {
            call.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let made = match call.get("type").and_then(Value::as_str) {
            Some("tool_use") => Self {
                name: text(&call, "name"),
                id: text(&call, "id"),
                arguments: call.remove("input").unwrap_or_default(),
                form: Form::Anthropic,
            },
            Some("function_call") => Self {
                name: text(&call, "name"),
                id: text(&call, "call_id"),
                arguments: call.remove("arguments").unwrap_or_default(),
                form: Form::OpenAiResponses,
            },
            Some(_) | None => {
                let id = text(&call, "id");
                let Some(Value::Object(mut function)) = call.remove("function") else { return None };
                let arguments = function.remove("arguments").unwrap_or_default();
                Self { name: text(&function, "name"), id, arguments, form: Form::OpenAi }
            }
        };
        [READ, GREP].contains(&made.name.as_str()).then_some(made)
    }

    /// What goes back to the model.
    fn answer(&self, content: &str, is_error: bool) -> Value {
        match self.form {
            Form::OpenAi => json!({"role": "tool", "tool_call_id": self.id, "content": content}),
            Form::OpenAiResponses => {
                json!({"type": "function_call_output", "call_id": self.id, "output": content})
            }
            Form::Anthropic if is_error => {
                json!({"type": "tool_result", "tool_use_id": self.id, "content": content, "is_error": true})
            }
            Form::Anthropic => json!({"type": "tool_result", "tool_use_id": self.id, "content": content}),
        }
    }

    async fn carry_out(&self, task: &Task) -> Result<String, String> {
        let arguments = self.arguments()?;
        let carried_out =
            if self.name == READ { arguments.read(task).await? } else { arguments.grep(task).await? };
        carried_out.map_err(|error| error.to_string())
    }

    /// The arguments, which OpenAI's models write as JSON.
    fn arguments(&self) -> Result<Arguments, String> {
        let arguments = match self.arguments.as_str() {
            Some("") => return Ok(Arguments(Map::new())),
            Some(text) => {
                serde_json::from_str(text).map_err(|error| format!("the arguments are not JSON: {error}"))?
            }
            None => self.arguments.clone(),
        };
        if let Value::Object(arguments) = arguments {
            Ok(Arguments(arguments))
        } else {
            Err("the arguments are not an object".to_owned())
        }
    }
}

struct Arguments(Map<String, Value>);

impl Arguments {
    fn given(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("{name}: a text is required")),
        }
    }

    fn required(&self, name: &str) -> Result<String, String> {
        let text = self.text(name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| format!("{name}: a text is required"))
    }

    fn number(&self, name: &str, default: u64, most: u64) -> Result<u64, String> {
        let Some(value) = self.given(name) else { return Ok(default) };
        let whole = value.as_u64().or_else(|| match value.as_f64() {
            // Models write whole numbers as 3.0 too.
            Some(number) if number.fract() == 0.0 && number >= 0.0 => format!("{number:.0}").parse().ok(),
            Some(_) | None => None,
        });
        whole.map(|whole| whole.min(most)).ok_or_else(|| format!("{name}: a whole number from 0 on"))
    }

    async fn read(&self, task: &Task) -> Result<Result<String, Error>, String> {
        let ref_id = self.required("ref_id")?;
        let offset = self.number("offset", 0, u64::MAX)?;
        let limit = match self.number("limit", LINES, MOST_LINES)? {
            0 => LINES,
            limit => limit,
        };
        Ok(lines(task, &ref_id, offset, limit).await)
    }

    async fn grep(&self, task: &Task) -> Result<Result<String, Error>, String> {
        let ignore_case = match self.given("ignore_case") {
            None => false,
            Some(Value::Bool(ignore)) => *ignore,
            Some(_) => return Err("ignore_case: true or false".to_owned()),
        };
        let around = |name| {
            let lines = self.number(name, 0, MOST_AROUND)?;
            u32::try_from(lines).map_err(|error| error.to_string())
        };
        let max_matches = match self.number("max_matches", MATCHES, MOST_MATCHES)? {
            0 => MATCHES,
            matches => matches,
        };
        let grep = Grep {
            ref_id: self.text("ref_id")?.unwrap_or_default(),
            pattern: self.required("pattern")?,
            ignore_case,
            before: around("before")?,
            after: around("after")?,
            max_matches,
            max_line_length: LINE_LENGTH,
            ..Grep::default()
        };
        Ok(matches(task, grep).await)
    }
}

/// Lines, and where the next are.
async fn lines(task: &Task, ref_id: &str, offset: u64, limit: u64) -> Result<String, Error> {
    let outputs = task.outputs();
    let mut chunks = outputs.read(ref_id, ReadOutput { offset, limit, max_line_length: LINE_LENGTH });
    let mut data = Vec::new();
    while data.len() < MOST_BYTES
        && let Some(chunk) = chunks.try_next().await?
    {
        data.extend_from_slice(&chunk);
    }
    let total = outputs.stat(ref_id).await?.r#ref.map_or(0, |known| known.line_count);
    if data.len() >= MOST_BYTES {
        data.truncate(MOST_BYTES);
        if let Some(end) = data.iter().rposition(|byte| *byte == b'\n') {
            data.truncate(end + 1);
        }
    }
    if data.is_empty() {
        return Ok(format!("There are no lines behind {offset}: the output has {total}."));
    }
    let shown = String::from_utf8_lossy(&data);
    let shown = shown.strip_suffix('\n').unwrap_or(&shown);
    let read = offset + shown.split('\n').count() as u64;
    Ok(if read >= total {
        format!("{shown}\n[end: {total} lines]")
    } else {
        format!("{shown}\n[lines {} to {read} of {total}; offset={read} reads on]", offset + 1)
    })
}

/// What was found, as grep prints it.
async fn matches(task: &Task, grep: Grep) -> Result<String, Error> {
    let one = !grep.ref_id.is_empty();
    let mut found = task.outputs().grep(grep);
    let (mut shown, mut last_ref) = (String::new(), String::new());
    let mut end = v1::GrepToolOutputResponse::default();
    while let Some(batch) = found.try_next().await? {
        for line in &batch.lines {
            if line.gap_before && !shown.is_empty() {
                shown.push_str("--\n");
            }
            if !one && line.ref_id != last_ref {
                // Writing to a string cannot fail.
                let _ = writeln!(shown, "{}:", line.ref_id);
                last_ref.clone_from(&line.ref_id);
            }
            let mark = if line.is_match { ':' } else { '-' };
            let _ = writeln!(shown, "{}{mark}{}", line.line_number, line.text);
            if shown.len() >= MOST_BYTES {
                return Ok(shown + "[there is more: narrow the pattern, or read the lines]");
            }
        }
        end = batch;
    }
    if shown.is_empty() {
        return Ok("No line matches.".to_owned());
    }
    let more = if end.limited { "; there may be more" } else { "" };
    Ok(format!("{shown}[{} matches{more}]", end.matches.unwrap_or_default()))
}
