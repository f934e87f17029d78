//! A message as a caller sends it: the fields of an OpenAI chat message, all others kept in `extra`.

use serde::{Deserialize, Serialize};

use super::json::{Json, JsonKind, fields};
use super::{InvalidField, OutputRef};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions.
    System,
    /// Instructions, as newer models call them.
    Developer,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::System, Self::Developer, Self::User, Self::Assistant, Self::Tool];

    /// The word used in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// A message to append. Values are JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Who speaks.
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
    /// A message of plain text.
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

    /// Reads a whole OpenAI chat message, as an SDK made it.
    pub fn from_json(text: &str) -> Result<Self, InvalidField> {
        let bad =
            |error: serde_json::Error| InvalidField::new("message_json", format!("is not valid: {error}"));
        let whole = Json::parse(text).map_err(bad)?;
        if whole.kind() != JsonKind::Object {
            return Err(InvalidField::new("message_json", "is not a JSON object"));
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
                    allow("content", kind, &[JsonKind::Text, JsonKind::Array, JsonKind::Null])?;
                    message.content = kept();
                }
                // SDKs write null for what is not there.
                "tool_name" | "tool_calls" | "tool_call_id" | "name" if kind == JsonKind::Null => {}
                "tool_calls" => {
                    allow("tool_calls", kind, &[JsonKind::Array])?;
                    message.tool_calls = kept();
                }
                "tool_name" => {
                    allow("tool_name", kind, &[JsonKind::Text])?;
                    message.tool_name = kept();
                }
                "tool_call_id" => {
                    allow("tool_call_id", kind, &[JsonKind::Text])?;
                    message.tool_call_id = kept();
                }
                "name" => {
                    allow("name", kind, &[JsonKind::Text])?;
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
        let role = role.ok_or_else(|| InvalidField::new("role", "is missing"))?;
        let known = Role::ALL.into_iter().find(|known| role == format!("\"{}\"", known.as_str()));
        message.role = known.ok_or_else(|| {
            InvalidField::new("role", format!("{role} is not system, developer, user, assistant or tool"))
        })?;
        Ok(message)
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
    fn unknown_fields_and_forged_envelopes_end_up_in_extra() {
        let text = r#"{ "role":"assistant", "content":null, "seq":7, "crc":"00000000", "x":{"n":1e2}, "name":null }"#;
        let message = NewMessage::from_json(text).unwrap();
        assert_eq!(message.role, Role::Assistant);
        assert_eq!(message.content.unwrap().as_str(), "null");
        assert_eq!(message.extra.unwrap().as_str(), r#"{"seq":7,"crc":"00000000","x":{"n":1e2}}"#);
        assert!(message.name.is_none());
    }

    #[test]
    fn bad_messages_name_the_field() {
        for (text, field) in [
            ("[]", "message_json"),
            ("{", "message_json"),
            (r#"{"content":"x"}"#, "role"),
            (r#"{"role":"robot"}"#, "role"),
            (r#"{"role":3}"#, "role"),
            (r#"{"role":"user","content":{}}"#, "content"),
            (r#"{"role":"user","tool_calls":{}}"#, "tool_calls"),
            (r#"{"role":"tool","tool_call_id":3}"#, "tool_call_id"),
            (r#"{"role":"user","role":"user"}"#, "message_json"),
        ] {
            assert_eq!(NewMessage::from_json(text).unwrap_err().field, field, "{text}");
        }
    }
}
