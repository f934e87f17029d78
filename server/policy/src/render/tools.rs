//! The tools of a request: validated in the form of OpenAI's chat completions, written in each provider's form.

use super::text::{as_text, decode, push_json};
use super::{Provider, text};
use crate::model::json::{Json, field, fields, items};
use crate::model::{InvalidField, JsonKind, plain_name};

const FIELD: &str = "tools_json";
/// Most tools of a request; the limit of OpenAI.
const MAX_TOOLS: usize = 128;
const NO_PARAMETERS: &str = "{\"type\":\"object\",\"properties\":{}}";
/// The parameters of a custom tool for providers without custom tools: a function of one text.
const CUSTOM_PARAMETERS: &str =
    "{\"type\":\"object\",\"properties\":{\"input\":{\"type\":\"string\"}},\"required\":[\"input\"]}";

/// A tool. Values are JSON text.
struct Tool<'a> {
    whole: &'a str,
    name: &'a str,
    description: Option<&'a str>,
    custom: bool,
    /// The parameters of a function.
    parameters: Option<&'a str>,
    strict: Option<&'a str>,
    /// The format of a custom tool.
    format: Option<&'a str>,
}

/// Validates the tools of a request; an empty text becomes an empty array.
pub(super) fn parse(json: &str) -> Result<Json, InvalidField> {
    if json.is_empty() {
        return Ok(Json::kept("[]".to_owned()));
    }
    let bad = |problem: String| InvalidField::new(FIELD, problem);
    let tools = Json::parse(json).map_err(|error| bad(format!("is not valid: {error}")))?;
    if tools.kind() != JsonKind::Array {
        return Err(bad("is not a JSON array".to_owned()));
    }
    let list = items(tools.as_str());
    if list.len() > MAX_TOOLS {
        return Err(bad(format!("has {} tools; at most {MAX_TOOLS} are allowed", list.len())));
    }
    let mut names = std::collections::HashSet::new();
    for (index, tool) in list.into_iter().enumerate() {
        let tool = read(tool).map_err(|problem| bad(format!("[{index}]{problem}")))?;
        let name = decode(tool.name).into_owned();
        if plain_name(&name).as_deref() != Some(&name) {
            return Err(bad(format!(
                "[{index}] has the name {name:?}; a name has 1 to 64 letters, digits, _ and -"
            )));
        }
        if let Some(twice) = names.replace(name) {
            return Err(bad(format!("[{index}] has the name {twice:?}, which an earlier tool has too")));
        }
    }
    Ok(tools)
}

fn read(tool: &str) -> Result<Tool<'_>, String> {
    if JsonKind::of(tool) != JsonKind::Object {
        return Err(" is not an object".to_owned());
    }
    let (kind, custom) = match field(tool, "type") {
        Some("\"function\"") => ("function", false),
        Some("\"custom\"") => ("custom", true),
        _ => return Err(".type is not function or custom".to_owned()),
    };
    let Some(within) = field(tool, kind).filter(|within| JsonKind::of(within) == JsonKind::Object) else {
        return Err(format!(".{kind} is not an object"));
    };
    if let Some((key, _)) = fields(tool).into_iter().find(|(key, _)| !["type", kind].contains(&&*decode(key)))
    {
        return Err(format!(" has the unknown field {key}"));
    }
    let known: &[&str] = match custom {
        true => &["name", "description", "format"],
        false => &["name", "description", "parameters", "strict"],
    };
    if let Some((key, _)) = fields(within).into_iter().find(|(key, _)| !known.contains(&&*decode(key))) {
        return Err(format!(".{kind} has the unknown field {key}"));
    }
    let given = |name: &str| field(within, name).filter(|value| JsonKind::of(value) != JsonKind::Null);
    let object = |name: &str| match given(name) {
        Some(value) if JsonKind::of(value) != JsonKind::Object => {
            Err(format!(".{kind}.{name} is not an object"))
        }
        found => Ok(found),
    };
    let name = given("name").and_then(as_text).ok_or_else(|| format!(".{kind}.name is not text"))?;
    let description = match given("description") {
        Some(text) => Some(as_text(text).ok_or_else(|| format!(".{kind}.description is not text"))?),
        None => None,
    };
    let strict = given("strict");
    if strict.is_some_and(|strict| strict != "true" && strict != "false") {
        return Err(format!(".{kind}.strict is not true or false"));
    }
    let parameters = object("parameters")?;
    if let Some(kind) = parameters.and_then(|parameters| field(parameters, "type"))
        && kind != "\"object\""
    {
        return Err(format!(".function.parameters.type is {kind:.40}, not \"object\""));
    }
    let format = object("format")?;
    if let Some(format) = format {
        let within = field(format, "grammar").filter(|grammar| JsonKind::of(grammar) == JsonKind::Object);
        let is_text =
            |name: &str| within.and_then(|grammar| field(grammar, name)).and_then(as_text).is_some();
        match field(format, "type") {
            Some("\"text\"") => {}
            Some("\"grammar\"") if is_text("definition") && is_text("syntax") => {}
            _ => return Err(".custom.format is not a text or grammar format".to_owned()),
        }
    }
    Ok(Tool { whole: tool, name, description, custom, parameters, strict, format })
}

/// Writes the tools as a field of the body, with a trailing comma; writes nothing without tools.
pub(super) fn push(out: &mut Vec<u8>, tools: &Json, provider: Provider) {
    let tools: Vec<Tool<'_>> = items(tools.as_str()).into_iter().filter_map(|tool| read(tool).ok()).collect();
    if tools.is_empty() {
        return;
    }
    out.extend_from_slice(b"\"tools\":[");
    for (index, tool) in tools.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_json(out, &one(tool, provider));
    }
    out.extend_from_slice(b"],");
}

fn one(tool: &Tool<'_>, provider: Provider) -> String {
    let name = text::quote(&decode(tool.name));
    let filled = tool.description.filter(|text| !text::is_blank(text));
    let description = filled.map(|text| format!(",\"description\":{text}")).unwrap_or_default();
    let parameters = if tool.custom { CUSTOM_PARAMETERS } else { tool.parameters.unwrap_or(NO_PARAMETERS) };
    match provider {
        Provider::OpenAi => tool.whole.to_owned(),
        Provider::OpenAiResponses if tool.custom => {
            let format = tool.format.map(|format| match field(format, "grammar") {
                // The fields of the grammar are part of the format itself.
                Some(grammar) => format!(",\"format\":{{\"type\":\"grammar\",{}", &grammar[1..]),
                None => format!(",\"format\":{format}"),
            });
            format!("{{\"type\":\"custom\",\"name\":{name}{description}{}}}", format.unwrap_or_default())
        }
        // Strict mode is the default of this API, and then it rejects most parameters.
        Provider::OpenAiResponses => format!(
            "{{\"type\":\"function\",\"name\":{name}{description},\"parameters\":{},\"strict\":{}}}",
            parameters,
            tool.strict.unwrap_or("false")
        ),
        Provider::Anthropic => {
            format!("{{\"name\":{name}{description},\"input_schema\":{}}}", typed(parameters))
        }
        Provider::Ollama | Provider::LmStudio => format!(
            "{{\"type\":\"function\",\"function\":{{\"name\":{name}{description},\"parameters\":{}}}}}",
            typed(parameters)
        ),
    }
}

/// Returns the parameters with the type `object`.
fn typed(parameters: &str) -> String {
    match field(parameters, "type") {
        Some(_) => parameters.to_owned(),
        None if parameters == "{}" => NO_PARAMETERS.to_owned(),
        None => format!("{{\"type\":\"object\",{}", &parameters[1..]),
    }
}
