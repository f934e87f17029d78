//! How OpenAI's two APIs speak of what is wrong, and the rules that they share.

use serde_json::{Map, Value};

use crate::media;
use crate::refusal::Refusal;
use crate::shape::{Field, Kind, Voice, is_name, list, may, must, null, object, text};

pub(crate) struct OpenAi;

impl Voice for OpenAi {
    fn unknown(&self, at: &str, key: &str) -> Refusal {
        if at.is_empty() {
            return Refusal::invalid(format!("Unrecognized request argument supplied: {key}"));
        }
        let path = self.key(at, key);
        Refusal::invalid(format!("Unknown parameter: '{path}'.")).code("unknown_parameter").param(path)
    }

    fn missing(&self, at: &str, key: &str) -> Refusal {
        let path = self.key(at, key);
        Refusal::invalid(format!("Missing required parameter: '{path}'."))
            .code("missing_required_parameter")
            .param(path)
    }

    fn wrong(&self, path: &str, kind: Kind, got: &Value) -> Refusal {
        let expected = match kind {
            Kind::Any => "a value",
            Kind::Bool => "a boolean",
            Kind::Int => "an integer",
            Kind::Num => "a decimal",
            Kind::Str | Kind::Word(_) => "a string",
            Kind::Object => "an object",
            Kind::Array => "an array of objects",
            Kind::StrOrArray => "one of a string or array of objects",
            Kind::StrOrObject => "one of a string or object",
        };
        let got = match got {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(number) if number.is_f64() => "a decimal",
            Value::Number(_) => "an integer",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        Refusal::invalid(format!("Invalid type for '{path}': expected {expected}, but got {got} instead."))
            .code("invalid_type")
            .param(path)
    }

    fn word(&self, path: &str, allowed: &[&str], got: &str) -> Refusal {
        let quoted: Vec<_> = allowed.iter().map(|word| format!("'{word}'")).collect();
        let supported = match quoted.as_slice() {
            [one] => one.clone(),
            [one, two] => format!("{one} and {two}"),
            [most @ .., last] => format!("{}, and {last}", most.join(", ")),
            [] => String::new(),
        };
        Refusal::invalid(format!("Invalid value: '{got}'. Supported values are: {supported}."))
            .code("invalid_value")
            .param(path)
    }
}

/// The body is no JSON.
pub(crate) fn no_json() -> Refusal {
    Refusal::invalid(
        "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP \
         library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON. If you \
         have trouble figuring out how to fix this, please contact us through our help center at \
         help.openai.com.)",
    )
}

/// The size of the body.
pub(crate) fn size(size: usize, max: usize) -> Result<(), Refusal> {
    if size <= max {
        return Ok(());
    }
    Err(Refusal::invalid(format!("Request body too large: {size} bytes, the maximum is {max} bytes."))
        .status(413, "invalid_request_error")
        .code("request_too_large"))
}

pub(crate) fn empty_array(path: &str) -> Refusal {
    Refusal::invalid(format!(
        "Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    ))
    .code("empty_array")
    .param(path)
}

pub(crate) fn long_array(path: &str, max: usize, got: usize) -> Refusal {
    Refusal::invalid(format!(
        "Invalid '{path}': array too long. Expected an array with maximum length {max}, but got an array with \
         length {got} instead."
    ))
    .code("array_above_max_length")
    .param(path)
}

/// A string's length in characters, from `min` to `max`.
pub(crate) fn length(path: &str, string: &str, min: usize, max: usize) -> Result<(), Refusal> {
    if string.is_empty() && min > 0 {
        return Err(Refusal::invalid(format!(
            "Invalid '{path}': empty string. Expected a string with minimum length {min}, but got an empty string \
             instead."
        ))
        .code("empty_string")
        .param(path));
    }
    // Characters are counted only where bytes could make too many.
    let got = if string.len() > max { string.chars().count() } else { 0 };
    if got > max {
        return Err(Refusal::invalid(format!(
            "Invalid '{path}': string too long. Expected a string with maximum length {max}, but got a string \
             with length {got} instead."
        ))
        .code("string_above_max_length")
        .param(path));
    }
    Ok(())
}

pub(crate) fn pattern(path: &str, pattern: &str) -> Refusal {
    Refusal::invalid(format!(
        "Invalid '{path}': string does not match pattern. Expected a string that matches the pattern '{pattern}'."
    ))
    .code("invalid_value")
    .param(path)
}

/// The name of a tool: 1 to 64 letters, digits, `_` and `-`.
pub(crate) fn tool_name(path: &str, name: &str) -> Result<(), Refusal> {
    length(path, name, 1, 64)?;
    if is_name(name, 64) { Ok(()) } else { Err(pattern(path, "^[a-zA-Z0-9_-]+$")) }
}

/// A number from `min` to `max`.
pub(crate) fn range(object: &Map<String, Value>, key: &str, min: f64, max: f64) -> Result<(), Refusal> {
    let Some(got) = object.get(key).and_then(Value::as_f64) else { return Ok(()) };
    let (bound, limit, code) = if got < min {
        ("below minimum", format!(">= {min}"), "decimal_below_min_value")
    } else if got > max {
        ("above maximum", format!("<= {max}"), "decimal_above_max_value")
    } else {
        return Ok(());
    };
    Err(Refusal::invalid(format!(
        "Invalid '{key}': decimal {bound} value. Expected a value {limit}, but got {got} instead."
    ))
    .code(code)
    .param(key))
}

/// An image's address: one that can be fetched, or an image in base64.
pub(crate) fn image_url(path: &str, url: &str) -> Result<(), Refusal> {
    const FORM: &str = "Expected a base64-encoded data URL with an image MIME type (e.g. \
                        'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU=')";
    let invalid = |but: String| {
        Refusal::invalid(format!("Invalid '{path}'. {FORM}, but got {but}."))
            .code("invalid_value")
            .param(path)
    };
    if !url.starts_with("data:") {
        return if media::is_web(url, &["http", "https"]) {
            Ok(())
        } else {
            Err(invalid("a value without the 'data:' prefix".to_owned()))
        };
    }
    let Some((kind, data)) = media::data_url(url) else {
        return Err(invalid("an invalid base64-encoded value".to_owned()));
    };
    if !["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&kind) {
        return Err(invalid(format!("unsupported MIME type '{kind}'")));
    }
    if data.is_empty() {
        return Err(invalid("empty base64-encoded bytes".to_owned()));
    }
    if media::base64_fault(data).is_some() {
        return Err(invalid("an invalid base64-encoded value".to_owned()));
    }
    if media::image_type(data).is_none() {
        return Err(Refusal::invalid(
            "You uploaded an unsupported image. Please make sure your image has of one the following formats: \
             ['png', 'jpeg', 'gif', 'webp'].",
        )
        .code("invalid_image_format"));
    }
    Ok(())
}

/// A file: its data or its id, but not both; at most one is required.
pub(crate) fn file(path: &str, file: &Map<String, Value>) -> Result<(), Refusal> {
    let given: Vec<_> = ["file_id", "file_data", "file_url"]
        .into_iter()
        .filter(|key| file.get(*key).is_some_and(|value| !value.is_null()))
        .collect();
    if let [one, two, ..] = given.as_slice() {
        return Err(Refusal::invalid(format!(
            "Mutually exclusive parameters: '{path}'. Ensure you are only providing one of: '{one}' or '{two}'."
        ))
        .code("mutually_exclusive_parameters")
        .param(path));
    }
    if given.is_empty() {
        return Err(OpenAi.missing(path, "file_id"));
    }
    let data = text(file, "file_data");
    let valid = |data: &str| {
        media::data_url(data).is_some_and(|(kind, data)| {
            kind.contains('/') && !data.is_empty() && media::base64_fault(data).is_none()
        })
    };
    if file.contains_key("file_data") && !valid(data) {
        return Err(Refusal::invalid(format!(
            "Invalid '{path}.file_data'. Expected a base64-encoded data URL with an application/pdf MIME type \
             (e.g. 'data:application/pdf;base64,aGk='), but got an invalid value."
        ))
        .code("invalid_value")
        .param(format!("{path}.file_data")));
    }
    if file.contains_key("file_url") && !media::is_web(text(file, "file_url"), &["http", "https"]) {
        return Err(Refusal::invalid(format!("Invalid '{path}.file_url'. Expected a valid URL."))
            .code("invalid_value")
            .param(format!("{path}.file_url")));
    }
    Ok(())
}

/// A mark for the prompt cache, where it is one.
pub(crate) fn breakpoint(at: &str, part: &Map<String, Value>) -> Result<(), Refusal> {
    let fields = [must("mode", Kind::Word(&["explicit"])), may("ttl", Kind::Word(&["30m", "12h"]))];
    match part.get("prompt_cache_breakpoint") {
        Some(mark) if !mark.is_null() => {
            object(&OpenAi, &OpenAi.key(at, "prompt_cache_breakpoint"), mark, &fields).map(drop)
        }
        _ => Ok(()),
    }
}

/// The parameters of a function: a schema of an object.
pub(crate) fn schema(path: &str, name: &str, schema: Option<&Value>) -> Result<(), Refusal> {
    let Some(Value::Object(schema)) = schema else { return Ok(()) };
    let kind = match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => return Ok(()),
        None if schema.is_empty() => return Ok(()),
        Some(Value::String(kind)) => format!("\"{kind}\""),
        Some(other) => other.to_string(),
        None => "\"None\"".to_owned(),
    };
    Err(Refusal::invalid(format!(
        "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'type: \
         {kind}'."
    ))
    .code("invalid_function_parameters")
    .param(path))
}

/// The form that the answer is to have: text, JSON, or JSON by a schema, whose fields stand in `inner` or beside.
pub(crate) fn format(path: &str, format: &Value, inner: Option<&'static str>) -> Result<(), Refusal> {
    const WORDS: &[&str] = &["text", "json_object", "json_schema"];
    let tag = must("type", Kind::Word(WORDS));
    if format.get("type").and_then(Value::as_str) != Some("json_schema") {
        return object(&OpenAi, path, format, &[tag]).map(drop);
    }
    let name = must("name", Kind::Str);
    let (description, strict) = (may("description", Kind::Str), null("strict", Kind::Bool));
    let (path, schema) = match inner {
        Some(inner) => {
            let format = object(&OpenAi, path, format, &[tag, must(inner, Kind::Object)])?;
            let path = OpenAi.key(path, inner);
            let fields = [name, description, strict, may("schema", Kind::Object)];
            let schema = object(&OpenAi, &path, &format[inner], &fields)?;
            (path, schema)
        }
        None => {
            let fields = [tag, name, description, strict, must("schema", Kind::Object)];
            (path.to_owned(), object(&OpenAi, path, format, &fields)?)
        }
    };
    tool_name(&format!("{path}.name"), text(schema, "name"))
}

/// Pairs of strings: at most 16, with keys of 64 and values of 512 characters.
pub(crate) fn metadata(body: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(Value::Object(pairs)) = body.get("metadata") else { return Ok(()) };
    if pairs.len() > 16 {
        return Err(Refusal::invalid(format!(
            "Invalid 'metadata': too many properties. Expected an object with at most 16 properties, but got an \
             object with {} properties instead.",
            pairs.len()
        ))
        .code("object_above_max_properties")
        .param("metadata"));
    }
    for (key, value) in pairs {
        let path = format!("metadata.{key}");
        length(&path, key, 1, 64)?;
        let Some(value) = value.as_str() else { return Err(OpenAi.wrong(&path, Kind::Str, value)) };
        length(&path, value, 0, 512)?;
    }
    Ok(())
}

/// Words about the stream, and about tools where there are none.
pub(crate) fn only_with(body: &Map<String, Value>) -> Result<(), Refusal> {
    let given = |key: &str| body.get(key).is_some_and(|value| !value.is_null());
    if given("stream_options") && body.get("stream") != Some(&Value::Bool(true)) {
        return Err(Refusal::invalid(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        )
        .param("stream_options"));
    }
    for key in ["tool_choice", "parallel_tool_calls"] {
        if given(key) && list(body, "tools").is_empty() {
            return Err(Refusal::invalid(format!(
                "Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified."
            ))
            .param(key));
        }
    }
    Ok(())
}

/// Fields that both APIs have.
pub(crate) const SHARED: [Field; 15] = [
    must("model", Kind::Str),
    null("metadata", Kind::Object),
    null("moderation", Kind::Object),
    null("parallel_tool_calls", Kind::Bool),
    null("prompt_cache_key", Kind::Str),
    may("prompt_cache_options", Kind::Object),
    null("prompt_cache_retention", Kind::Word(&["in_memory", "24h"])),
    null("safety_identifier", Kind::Str),
    null("store", Kind::Bool),
    null("stream", Kind::Bool),
    null("stream_options", Kind::Object),
    null("temperature", Kind::Num),
    null("top_logprobs", Kind::Int),
    null("top_p", Kind::Num),
    may("user", Kind::Str),
];
