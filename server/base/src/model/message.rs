//! A message from a caller: the fields of an OpenAI chat message, with all other fields in `extra`.

use serde::{Deserialize, Serialize};

use super::json::{Json, JsonKind, field, fields, items};
use super::{InvalidField, OutputRef};

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    System,
    /// Instructions, under the name that newer models use.
    Developer,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 5] = [Self::System, Self::Developer, Self::User, Self::Assistant, Self::Tool];

    /// Returns the name used in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// Parses the name used in messages.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// A message to append. Values are JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// The author.
    pub role: Role,
    /// Text, an array of parts, or null.
    pub content: Option<Json>,
    /// Text.
    pub tool_name: Option<Json>,
    /// An array.
    pub tool_calls: Option<Json>,
    /// Text.
    pub tool_call_id: Option<Json>,
    /// Text.
    pub name: Option<Json>,
    /// An object with every other field.
    pub extra: Option<Json>,
    /// Kept verbatim by every compaction.
    pub pinned: bool,
    /// The full output of a tool, if `content` is a cut view of it.
    pub output_ref: Option<OutputRef>,
}

impl NewMessage {
    /// Creates a message of plain text.
    pub fn text(role: Role, content: &str) -> Self {
        Self {
            role,
            content: Some(Json::text(content)),
            tool_name: None,
            tool_calls: None,
            tool_call_id: None,
            name: None,
            extra: None,
            pinned: false,
            output_ref: None,
        }
    }

    /// Parses a whole OpenAI chat message in the form that SDKs write.
    pub fn from_json(text: &str) -> Result<Self, InvalidField> {
        let bad = |error: serde_json::Error| InvalidField::new("json", format!("is not valid: {error}"));
        let whole = Json::parse(text).map_err(bad)?;
        if whole.kind() != JsonKind::Object {
            return Err(InvalidField::new("json", "is not a JSON object"));
        }

        let mut message = Self::text(Role::User, "");
        message.content = None;
        let mut role = None;
        let mut extra = String::new();
        for (raw_key, value) in fields(whole.as_str()) {
            let key: String = serde_json::from_str(raw_key).map_err(bad)?;
            let kind = JsonKind::of(value);
            let kept = || Some(Json::kept(value.to_owned()));
            match key.as_str() {
                "role" => role = Some(value.to_owned()),
                "content" => {
                    allow("json.content", kind, &[JsonKind::Text, JsonKind::Array, JsonKind::Null])?;
                    message.content = kept();
                }
                // SDKs write null for an absent field.
                "tool_name" | "tool_calls" | "tool_call_id" | "name" if kind == JsonKind::Null => {}
                "tool_calls" => {
                    allow("json.tool_calls", kind, &[JsonKind::Array])?;
                    message.tool_calls = kept();
                }
                "tool_name" => {
                    allow("json.tool_name", kind, &[JsonKind::Text])?;
                    message.tool_name = kept();
                }
                "tool_call_id" => {
                    allow("json.tool_call_id", kind, &[JsonKind::Text])?;
                    message.tool_call_id = kept();
                }
                "name" => {
                    allow("json.name", kind, &[JsonKind::Text])?;
                    message.name = kept();
                }
                _ => {
                    extra.push(if extra.is_empty() { '{' } else { ',' });
                    extra.push_str(raw_key);
                    extra.push(':');
                    extra.push_str(value);
                }
            }
        }
        if !extra.is_empty() {
            extra.push('}');
            message.extra = Some(Json::kept(extra));
        }
        let role = role.ok_or_else(|| InvalidField::new("json.role", "is missing"))?;
        let known = Role::ALL.into_iter().find(|known| role == format!("\"{}\"", known.as_str()));
        message.role = known.ok_or_else(|| {
            let problem = format!("{role} is not system, developer, user, assistant or tool");
            InvalidField::new("json.role", problem)
        })?;
        message.check("json.content", "json.tool_calls")?;
        Ok(message)
    }

    /// Rejects messages that no provider accepts: without content, or with malformed parts or calls. Errors name the
    /// fields as the caller does.
    pub fn check(&self, content_field: &'static str, calls_field: &'static str) -> Result<(), InvalidField> {
        match &self.content {
            Some(parts) if parts.kind() == JsonKind::Array => {
                at_most(content_field, "parts", items(parts.as_str()).len())?;
                for (index, part) in items(parts.as_str()).into_iter().enumerate() {
                    if JsonKind::of(part) != JsonKind::Object || text_in(part, "type").is_none() {
                        let problem = format!("[{index}] is not an object with a type");
                        return Err(InvalidField::new(content_field, problem));
                    }
                }
            }
            Some(text) if text.kind() == JsonKind::Text => {}
            _ if self.role == Role::Assistant && self.has_other_content() => {}
            _ if self.role == Role::Assistant => {
                let problem = "is missing; only an assistant with tool_calls, a refusal or audio may omit it";
                return Err(InvalidField::new(content_field, problem));
            }
            _ => return Err(InvalidField::new(content_field, "is missing")),
        }
        let calls = self.tool_calls.as_ref().map_or_else(Vec::new, |calls| items(calls.as_str()));
        at_most(calls_field, "calls", calls.len())?;
        for (index, call) in calls.into_iter().enumerate() {
            check_call(call)
                .map_err(|problem| InvalidField::new(calls_field, format!("[{index}]{problem}")))?;
        }
        Ok(())
    }

    /// Returns whether an assistant message may lack content. SDKs write absent fields as null, so a message with one
    /// of these keys comes from a model.
    fn has_other_content(&self) -> bool {
        let extra = self.extra.as_ref().map_or("{}", Json::as_str);
        self.tool_calls.as_ref().is_some_and(|calls| calls.as_str() != "[]")
            || ["refusal", "audio", "function_call"].iter().any(|name| field(extra, name).is_some())
    }
}

/// Returns a name that every provider accepts: letters, digits, `_` and `-`, at most 64; `None` if nothing remains.
pub fn plain_name(text: &str) -> Option<String> {
    const MOST: usize = 64;
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = text.chars().take(MOST).map(plain).collect();
    (!name.is_empty()).then_some(name)
}

fn text_in<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    field(object, name).filter(|value| JsonKind::of(value) == JsonKind::Text)
}

/// Most parts, and most calls, of a message. In a view, a placeholder may be longer than the part it replaces: with
/// more parts, a message that can be appended could be too large for the view.
const MOST: usize = 16_384;

fn at_most(field: &'static str, what: &str, count: usize) -> Result<(), InvalidField> {
    if count > MOST {
        return Err(InvalidField::new(field, format!("has {count} {what}; at most {MOST} are allowed")));
    }
    Ok(())
}

fn check_call(call: &str) -> Result<(), String> {
    if JsonKind::of(call) != JsonKind::Object {
        return Err(" is not an object".to_owned());
    }
    if text_in(call, "id").is_none() {
        return Err(".id is not text".to_owned());
    }
    let (kind, texts) = match field(call, "type") {
        // Some SDKs omit the type, which used to have one value only.
        None | Some("null" | "\"function\"") => ("function", ["name", "arguments"]),
        Some("\"custom\"") => ("custom", ["name", "input"]),
        Some(_) => return Err(".type is not function or custom".to_owned()),
    };
    let Some(inner) = field(call, kind).filter(|inner| JsonKind::of(inner) == JsonKind::Object) else {
        return Err(format!(".{kind} is not an object"));
    };
    match texts.into_iter().find(|name| text_in(inner, name).is_none()) {
        Some(name) => Err(format!(".{kind}.{name} is not text")),
        None => Ok(()),
    }
}

fn allow(field: &'static str, kind: JsonKind, allowed: &[JsonKind]) -> Result<(), InvalidField> {
    if allowed.contains(&kind) {
        return Ok(());
    }
    let words: Vec<&str> = allowed
        .iter()
        .map(|kind| match kind {
            JsonKind::Null => "null",
            JsonKind::Text => "text",
            JsonKind::Array => "an array",
            JsonKind::Object => "an object",
            JsonKind::Other => "a number",
        })
        .collect();
    Err(InvalidField::new(field, format!("must be {}", words.join(" or "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_name_replaces_other_characters() {
        assert_eq!(plain_name("read_file-2").as_deref(), Some("read_file-2"));
        assert_eq!(plain_name("mcp.server/ls é").as_deref(), Some("mcp_server_ls__"));
        assert_eq!(plain_name(""), None);
        assert_eq!(plain_name(&"x".repeat(100)).unwrap().len(), 64);
    }

    #[test]
    fn unknown_fields_and_forged_envelopes_end_up_in_extra() {
        let text =
            r#"{ "role":"assistant", "content":null, "refusal":null, "seq":7, "x":{"n":1e2}, "name":null }"#;
        let message = NewMessage::from_json(text).unwrap();
        assert_eq!(message.role, Role::Assistant);
        assert_eq!(message.content.unwrap().as_str(), "null");
        assert_eq!(message.extra.unwrap().as_str(), r#"{"refusal":null,"seq":7,"x":{"n":1e2}}"#);
        assert!(message.name.is_none());
    }

    #[test]
    fn errors_of_messages_name_the_field() {
        for (text, field) in [
            ("[]", "json"),
            ("{", "json"),
            (r#"{"content":"x"}"#, "json.role"),
            (r#"{"role":"robot"}"#, "json.role"),
            (r#"{"role":3}"#, "json.role"),
            (r#"{"role":"user","content":{}}"#, "json.content"),
            (r#"{"role":"user","content":"","tool_calls":{}}"#, "json.tool_calls"),
            (r#"{"role":"tool","tool_call_id":3}"#, "json.tool_call_id"),
            (r#"{"role":"user","role":"user"}"#, "json"),
        ] {
            assert_eq!(NewMessage::from_json(text).unwrap_err().field, field, "{text}");
        }
    }
    /// The optional fields are absent, as some SDKs do it, or null.
    #[test]
    fn content_must_match_the_role() {
        let calls = |call: &str| format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#);
        let function = |rest: &str| calls(&format!(r#"{{"id":"c","type":"function",{rest}}}"#));
        let (content, tool_calls) = ("json.content", "json.tool_calls");
        for (text, bad) in [
            (r#"{"role":"user"}"#.to_owned(), Some(content)),
            (r#"{"role":"user","content":null}"#.to_owned(), Some(content)),
            (r#"{"role":"system","content":null}"#.to_owned(), Some(content)),
            (r#"{"role":"tool","content":null,"tool_call_id":"c"}"#.to_owned(), Some(content)),
            (r#"{"role":"user","content":null,"refusal":"no"}"#.to_owned(), Some(content)),
            (r#"{"role":"assistant"}"#.to_owned(), Some(content)),
            (r#"{"role":"assistant","content":null,"tool_calls":null}"#.to_owned(), Some(content)),
            (r#"{"role":"assistant","content":null,"tool_calls":[]}"#.to_owned(), Some(content)),
            (r#"{"role":"user","content":[1]}"#.to_owned(), Some(content)),
            (r#"{"role":"user","content":["x"]}"#.to_owned(), Some(content)),
            (r#"{"role":"user","content":[{"type":"text","text":"a, ]"},{"text":"b"}]}"#.to_owned(), Some(content)),
            (r#"{"role":"user","content":[{"type":1}]}"#.to_owned(), Some(content)),
            (calls("1"), Some(tool_calls)),
            (calls(r#"{"type":"function","function":{"name":"f","arguments":""}}"#), Some(tool_calls)),
            (calls(r#"{"id":"c","type":"robot"}"#), Some(tool_calls)),
            (calls(r#"{"id":"c","type":"custom","custom":{"name":"f"}}"#), Some(tool_calls)),
            (function(r#""function":"f""#), Some(tool_calls)),
            (function(r#""function":{"arguments":""}"#), Some(tool_calls)),
            (function(r#""function":{"name":"f","arguments":{}}"#), Some(tool_calls)),
            (r#"{"role":"user","content":""}"#.to_owned(), None),
            (r#"{"role":"user","content":[]}"#.to_owned(), None),
            (r#"{"role":"user","content":[{"\u0074ype":"text","text":"a"},{"type":"x"}]}"#.to_owned(), None),
            (function(r#""function":{"name":"f","arguments":"{}"}"#), None),
            (calls(r#"{"id":"c","function":{"name":"f","arguments":"{}"},"index":0}"#), None),
            (calls(r#"{"id":"c","type":"custom","custom":{"name":"f","input":"x"}}"#), None),
            (r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":""}}]}"#.to_owned(), None),
            // The form in which openai-python writes a message of the model.
            (
                r#"{"content":null,"refusal":null,"role":"assistant","annotations":[],"audio":null,"function_call":null,"tool_calls":null}"#.to_owned(),
                None,
            ),
        ] {
            let found = NewMessage::from_json(&text);
            assert_eq!(found.err().map(|error| error.field).as_deref(), bad, "{text}");
        }
    }
}
