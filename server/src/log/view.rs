//! The lines of `current.jsonl` and `current.extra.jsonl`, one message after the other.
//!
//! [`ViewState`] is all that has to be known of the lines before: how many there are, and which calls are
//! still open. Pure: it turns messages into bytes.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::Role;
use crate::model::json::{JsonKind, fields};

/// Version of what is written here; a view of another version is made again.
pub(crate) const RENDER_VERSION: u32 = 1;

/// Tokens of a trimmed output, and of a result that stands in for a missing one.
const TRIMMED_TOKENS: u64 = 12;
const MISSING_TOKENS: u64 = 10;
const MISSING_RESULT: &str = "\"[no result: the call was interrupted]\"";

/// Where a view stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewState {
    /// Lines of `current.jsonl`.
    pub lines: u64,
    /// Bytes of `current.jsonl`.
    pub len: u64,
    /// CRC-32 of `current.jsonl`.
    pub crc: u32,
    /// Bytes of `current.extra.jsonl`.
    pub extra_len: u64,
    /// CRC-32 of `current.extra.jsonl`.
    pub extra_crc: u32,
    /// Tokens of the view.
    pub tokens: u64,
    /// Ids of the calls that still wait for a result, as JSON text.
    pub open_calls: Vec<String>,
}

/// A message as it goes into the view. Values are JSON text.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// Its number, 0 if it is not in the log.
    pub seq: u64,
    /// Who speaks.
    pub role: Role,
    /// Its tokens.
    pub tokens: u64,
    /// What stands in the log.
    pub content: Option<&'a str>,
    /// Text.
    pub tool_name: Option<&'a str>,
    /// An array.
    pub tool_calls: Option<&'a str>,
    /// Text.
    pub tool_call_id: Option<&'a str>,
    /// Text.
    pub name: Option<&'a str>,
    /// An object.
    pub extra: Option<&'a str>,
}

impl<'a> Shown<'a> {
    /// A message of nothing but content.
    pub fn plain(role: Role, content: &'a str, tokens: u64) -> Self {
        Self {
            seq: 0,
            role,
            tokens,
            content: Some(content),
            tool_name: None,
            tool_calls: None,
            tool_call_id: None,
            name: None,
            extra: None,
        }
    }
}

/// The note that replaces a trimmed output, and its tokens. The ref and the note are JSON text.
pub(crate) fn trimmed(seq: u64, output_ref: Option<&str>) -> (String, u64) {
    let note = match output_ref.filter(|output_ref| JsonKind::of(output_ref) == JsonKind::Text) {
        Some(output_ref) => {
            format!("\"[tool output trimmed; ref={}]\"", &output_ref[1..output_ref.len() - 1])
        }
        None => format!("\"[tool output trimmed; seq={seq}]\""),
    };
    (note, TRIMMED_TOKENS)
}

impl ViewState {
    /// Adds a message: its line goes to `view`, behind the results it leaves missing; what OpenAI does not
    /// know of it goes to `extra`.
    pub fn push(&mut self, message: &Shown<'_>, view: &mut Vec<u8>, extra: &mut Vec<u8>) {
        let (view_from, extra_from) = (view.len(), extra.len());
        let answers = message.role == Role::Tool && self.take_call(message.tool_call_id);
        if !answers {
            self.close_group(view);
        }
        let (line, lifted) = render(message, answers);
        view.extend_from_slice(line.as_bytes());
        self.lines += 1;
        self.tokens = self.tokens.saturating_add(message.tokens);
        if message.role == Role::Assistant
            && let Some(calls) = message.tool_calls
        {
            self.open_calls = call_ids(calls);
        }
        self.note_extra(message, lifted, extra);
        (self.len, self.crc) = grown(self.len, self.crc, &view[view_from..]);
        (self.extra_len, self.extra_crc) = grown(self.extra_len, self.extra_crc, &extra[extra_from..]);
    }

    fn take_call(&mut self, id: Option<&str>) -> bool {
        let place = id.and_then(|id| self.open_calls.iter().position(|open| same_text(open, id)));
        place.map(|place| self.open_calls.remove(place)).is_some()
    }

    fn close_group(&mut self, view: &mut Vec<u8>) {
        for id in std::mem::take(&mut self.open_calls) {
            let line = format!("{{\"role\":\"tool\",\"content\":{MISSING_RESULT},\"tool_call_id\":{id}}}\n");
            view.extend_from_slice(line.as_bytes());
            self.lines += 1;
            self.tokens = self.tokens.saturating_add(MISSING_TOKENS);
        }
    }

    fn note_extra(&self, message: &Shown<'_>, lifted: Lifted<'_>, extra: &mut Vec<u8>) {
        let name = message.name.filter(|_| message.role == Role::Tool);
        let rest = lifted.rest;
        if message.tool_name.is_none() && name.is_none() && rest.is_empty() {
            return;
        }
        let mut line = format!("{{\"line\":{},\"seq\":{}", self.lines, message.seq);
        for (key, value) in [("tool_name", message.tool_name), ("name", name)] {
            if let Some(value) = value {
                let _ = write!(line, ",\"{key}\":{value}");
            }
        }
        if !rest.is_empty() {
            let fields: Vec<String> = rest.iter().map(|(key, value)| format!("{key}:{value}")).collect();
            let _ = write!(line, ",\"extra\":{{{}}}", fields.join(","));
        }
        line.push_str("}\n");
        extra.extend_from_slice(line.as_bytes());
    }
}

/// The length and checksum of a file after some bytes were added.
fn grown(len: u64, crc: u32, added: &[u8]) -> (u64, u32) {
    let mut hasher = crc32fast::Hasher::new_with_initial_len(crc, len);
    hasher.update(added);
    (len + added.len() as u64, hasher.finalize())
}

/// Fields of `extra`: those that OpenAI knows, and the rest.
#[derive(Default)]
struct Lifted<'a> {
    refusal: Option<&'a str>,
    audio: Option<&'a str>,
    rest: Vec<(&'a str, &'a str)>,
}

impl<'a> Lifted<'a> {
    fn of(message: &Shown<'a>) -> Self {
        let mut lifted = Self::default();
        for (key, value) in message.extra.map(fields).unwrap_or_default() {
            let known = |name| message.role == Role::Assistant && same_text(key, name);
            if known("\"refusal\"") {
                lifted.refusal = Some(value);
            } else if known("\"audio\"") {
                lifted.audio = Some(value);
            } else {
                lifted.rest.push((key, value));
            }
        }
        lifted
    }
}

fn render<'a>(message: &Shown<'a>, answers: bool) -> (String, Lifted<'a>) {
    let lifted = Lifted::of(message);
    let mut line = String::with_capacity(64 + message.content.map_or(0, str::len));
    let orphan = message.role == Role::Tool && !answers;
    let role = if orphan { Role::User } else { message.role };
    let _ = write!(line, "{{\"role\":\"{}\"", role.as_str());
    let mut field = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            let _ = write!(line, ",\"{key}\":{value}");
        }
    };
    match message.role {
        Role::Tool if orphan => field("content", Some(&orphan_content(message))),
        Role::Tool => {
            let nothing = message.content.is_none_or(|content| content == "null");
            field("content", if nothing { Some("\"\"") } else { message.content });
            field("tool_call_id", message.tool_call_id);
        }
        Role::Assistant => {
            field("content", message.content);
            field("refusal", lifted.refusal);
            field("audio", lifted.audio);
            field("name", message.name);
            field("tool_calls", message.tool_calls.filter(|calls| *calls != "[]"));
        }
        Role::System | Role::Developer | Role::User => {
            field("content", message.content);
            field("name", message.name);
        }
    }
    line.push_str("}\n");
    (line, lifted)
}

/// A result that answers no open call, as text that says where it came from.
fn orphan_content(message: &Shown<'_>) -> String {
    let named = [message.tool_name, message.name, message.tool_call_id];
    let name = named.into_iter().flatten().find(|name| JsonKind::of(name) == JsonKind::Text);
    let name = name.map_or("unknown", |name| &name[1..name.len() - 1]);
    match message.content.map(|content| (JsonKind::of(content), content)) {
        Some((JsonKind::Text, content)) => format!("\"[Tool: {name}] {}", &content[1..]),
        Some((JsonKind::Array, "[]")) => format!("[{{\"type\":\"text\",\"text\":\"[Tool: {name}]\"}}]"),
        Some((JsonKind::Array, content)) => {
            format!("[{{\"type\":\"text\",\"text\":\"[Tool: {name}]\"}},{}", &content[1..])
        }
        _ => format!("\"[Tool: {name}]\""),
    }
}

/// The ids of calls, in order; a call without one cannot be answered.
fn call_ids(calls: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow, default)]
        id: Option<&'a RawValue>,
    }
    let calls: Vec<&RawValue> = serde_json::from_str(calls).unwrap_or_default();
    // An array would be read as an object without keys, and one bad call would hide the others.
    let objects = calls.into_iter().map(RawValue::get).filter(|call| JsonKind::of(call) == JsonKind::Object);
    let ids = objects.filter_map(|call| serde_json::from_str::<Call<'_>>(call).ok()?.id.map(RawValue::get));
    ids.filter(|id| JsonKind::of(id) == JsonKind::Text).map(str::to_owned).collect()
}

/// Whether two JSON texts mean the same string, however they are escaped.
fn same_text(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    if !a.contains('\\') && !b.contains('\\') {
        return false;
    }
    let read = |text| serde_json::from_str::<String>(text).ok();
    matches!((read(a), read(b)), (Some(a), Some(b)) if a == b)
}
