//! The lines of `current.jsonl` and `current.extra.jsonl`, one message after the other.
//!
//! [`ViewState`] is all that has to be known of the lines before: how many there are, and which calls are
//! still open. Pure: it turns messages into bytes.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::repair::{self, Repair};
use crate::model::Role;
use crate::model::json::{JsonKind, field, fields};

/// Version of what is written here and counted of it; a view of another version is made again.
pub const RENDER_VERSION: u32 = 3;

/// Tokens of a trimmed output.
pub const TRIMMED_TOKENS: u64 = 12;
/// Tokens of a result that stands in for a missing one.
pub const MISSING_TOKENS: u64 = 10;
const MISSING_RESULT: &str = "\"[no result: the call was interrupted]\"";

/// The state of a view after its last line.
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
    /// Those of them that are outputs of tools, without the trimmed ones.
    #[serde(default)]
    pub output_tokens: u64,
    /// The calls that still wait for a result.
    pub open_calls: Vec<OpenCall>,
}

/// A call that waits for its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// The id by which the result asks for it, as JSON text. Without one nothing can answer it.
    pub asked: Option<String>,
    /// The id that it has in the view, as JSON text.
    pub id: String,
}

/// A message as it goes into the view. Values are JSON text.
#[derive(Debug, Clone, Copy)]
pub struct ShownMessage<'a> {
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
    /// Whether it is an output whose content is a note that it was trimmed.
    pub trimmed: bool,
}

impl<'a> ShownMessage<'a> {
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
            trimmed: false,
        }
    }

    /// Its tokens, if it is the output of a tool that was not trimmed.
    pub fn output_tokens(&self) -> u64 {
        if self.role == Role::Tool && !self.trimmed { self.tokens } else { 0 }
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
    pub fn push(&mut self, message: &ShownMessage<'_>, view: &mut Vec<u8>, extra: &mut Vec<u8>) {
        let (view_from, extra_from) = (view.len(), extra.len());
        let answers = message.tool_call_id.filter(|_| message.role == Role::Tool);
        let answers = answers.and_then(|id| self.take_call(id));
        if answers.is_none() {
            self.close_group(view);
        }
        let shown = render(message, answers.as_deref());
        view.extend_from_slice(shown.line.as_bytes());
        self.lines += 1;
        self.tokens = self.tokens.saturating_add(message.tokens);
        self.output_tokens = self.output_tokens.saturating_add(message.output_tokens());
        if message.role == Role::Assistant {
            self.open_calls = shown.opens;
        }
        self.note_extra(message, &shown.beside, extra);
        (self.len, self.crc) = grown(self.len, self.crc, &view[view_from..]);
        (self.extra_len, self.extra_crc) = grown(self.extra_len, self.extra_crc, &extra[extra_from..]);
    }

    /// The open call that a result asks for: the id that it is shown with.
    fn take_call(&mut self, id: &str) -> Option<String> {
        let asks = |open: &OpenCall| open.asked.as_ref().is_some_and(|asked| same_text(asked, id));
        let place = self.open_calls.iter().position(asks)?;
        Some(self.open_calls.remove(place).id)
    }

    fn close_group(&mut self, view: &mut Vec<u8>) {
        for OpenCall { id, .. } in std::mem::take(&mut self.open_calls) {
            let line = format!("{{\"role\":\"tool\",\"content\":{MISSING_RESULT},\"tool_call_id\":{id}}}\n");
            view.extend_from_slice(line.as_bytes());
            self.lines += 1;
            self.tokens = self.tokens.saturating_add(MISSING_TOKENS);
        }
    }

    fn note_extra(&self, message: &ShownMessage<'_>, beside: &Beside<'_>, extra: &mut Vec<u8>) {
        let values = [
            ("tool_name", message.tool_name),
            ("name", beside.name),
            ("content", beside.content),
            ("tool_calls", beside.tool_calls),
        ];
        if values.iter().all(|(_, value)| value.is_none()) && beside.rest.is_empty() {
            return;
        }
        let mut line = format!("{{\"line\":{},\"seq\":{}", self.lines, message.seq);
        for (key, value) in values {
            if let Some(value) = value {
                let _ = write!(line, ",\"{key}\":{value}");
            }
        }
        if !beside.rest.is_empty() {
            let fields: Vec<String> =
                beside.rest.iter().map(|(key, value)| format!("{key}:{value}")).collect();
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

/// A message as it is shown.
struct Rendered<'a> {
    line: String,
    /// The calls that it opens.
    opens: Vec<OpenCall>,
    beside: Beside<'a>,
}

/// The fields of a message that are not in its line.
#[derive(Default)]
struct Beside<'a> {
    name: Option<&'a str>,
    content: Option<&'a str>,
    tool_calls: Option<&'a str>,
    rest: Vec<(&'a str, &'a str)>,
}

/// Fields of `extra` that OpenAI knows of an assistant, as they are shown.
#[derive(Default)]
struct Lifted {
    refusal: Option<String>,
    audio: Option<String>,
}

impl Lifted {
    /// Takes a field if it can be shown; false if it is to stand beside the line, be it for what is not shown of it.
    fn take(&mut self, key: &str, value: &str) -> bool {
        let kind = JsonKind::of(value);
        if same_text(key, "\"refusal\"") && matches!(kind, JsonKind::Text | JsonKind::Null) {
            self.refusal = Some(value.to_owned());
            return true;
        }
        if same_text(key, "\"audio\"") && kind == JsonKind::Null {
            self.audio = Some(value.to_owned());
            return true;
        }
        let id = || field(value, "id").filter(|id| JsonKind::of(id) == JsonKind::Text);
        if same_text(key, "\"audio\"")
            && kind == JsonKind::Object
            && let Some(id) = id()
        {
            self.audio = Some(format!("{{\"id\":{id}}}"));
            return fields(value).len() == 1;
        }
        false
    }
}

/// Shows a message; a result with the id of the call that it answers.
fn render<'a>(message: &ShownMessage<'a>, answers: Option<&str>) -> Rendered<'a> {
    let orphan = message.role == Role::Tool && answers.is_none();
    let role = if orphan { Role::User } else { message.role };
    let (mut lifted, mut beside) = (Lifted::default(), Beside::default());
    for (key, value) in message.extra.map(fields).unwrap_or_default() {
        if message.role != Role::Assistant || !lifted.take(key, value) {
            beside.rest.push((key, value));
        }
    }
    let calls = message.tool_calls.filter(|_| message.role == Role::Assistant);
    let (calls, lost) = calls.map(|calls| repair::calls(calls, message.seq)).unwrap_or_default();
    beside.tool_calls = message.tool_calls.filter(|_| lost);
    let name = message.name.filter(|_| message.role != Role::Tool).and_then(repair::name);
    beside.name = message.name.filter(|given| name.as_deref() != Some(given));

    let mut line = String::with_capacity(64 + message.content.map_or(0, str::len));
    let _ = write!(line, "{{\"role\":\"{}\"", role.as_str());
    let mut push = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            let _ = write!(line, ",\"{key}\":{value}");
        }
    };
    let given = message.content.unwrap_or("null");
    // Only with calls there may be nothing.
    if message.role == Role::Assistant && !calls.is_empty() && given == "null" {
        push("content", message.content);
    } else {
        let Repair { json, lost } = repair::content(given, role);
        let tagged = orphan.then(|| orphan_content(message, &json));
        push("content", Some(tagged.as_deref().unwrap_or(&json)));
        // What became of a result without a call is what there is of it.
        beside.content = message.content.filter(|_| lost && !orphan);
    }
    push("refusal", lifted.refusal.as_deref());
    push("audio", lifted.audio.as_deref());
    push("name", name.as_deref());
    push("tool_call_id", answers);
    push("tool_calls", (!calls.is_empty()).then(|| repair::array_of(&calls)).as_deref());
    line.push_str("}\n");
    let opens = calls.into_iter().map(|call| OpenCall { asked: call.asked.map(str::to_owned), id: call.id });
    Rendered { line, opens: opens.collect(), beside }
}

/// The content of a result that answers no open call, with where it came from in front.
fn orphan_content(message: &ShownMessage<'_>, repaired: &str) -> String {
    let named = [message.tool_name, message.name, message.tool_call_id];
    let name = named.into_iter().flatten().find(|name| JsonKind::of(name) == JsonKind::Text);
    let name = name.map_or("unknown", |name| &name[1..name.len() - 1]);
    let nothing = message.content.is_none_or(|content| JsonKind::of(content) != JsonKind::Text);
    match repaired.strip_prefix('[') {
        Some(parts) => format!("[{{\"type\":\"text\",\"text\":\"[Tool: {name}]\"}},{parts}"),
        None if nothing => format!("\"[Tool: {name}]\""),
        None => format!("\"[Tool: {name}] {}", &repaired[1..]),
    }
}

/// Returns whether two JSON texts mean the same string, however they are escaped.
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
