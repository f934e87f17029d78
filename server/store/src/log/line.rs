//! One line of a log: envelope, body, checksum. The only place that knows their bytes.

use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::model::{NewMessage, RequestId, Role};

/// Longest line, in bytes. Messages are limited well below; a longer run without a line end is damage.
pub const MAX_LINE_BYTES: usize = 32 << 20;

/// `,"crc":"XXXXXXXX"}`
const SEAL_BYTES: usize = 18;

/// The log that a line belongs to. Logs differ in their envelopes only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// `messages.jsonl`
    Messages,
    /// `tools.jsonl`
    Tools,
    /// `planning.jsonl`
    Plans,
}

/// The kind of a line, with the fields of its envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head<'a> {
    /// A message.
    Message {
        /// Its number.
        seq: u64,
        /// Who speaks.
        role: Role,
        /// Its tokens.
        tokens: u64,
    },
    /// An event.
    Event {
        /// Its name.
        name: &'a str,
        /// The last message before it.
        after: u64,
    },
    /// A tool call or a plan.
    Record {
        /// Its number.
        number: u64,
        /// The last message before it; lines of older versions do not say.
        after: Option<u64>,
    },
}

/// A valid line.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// What it is.
    pub head: Head<'a>,
    /// When it was written.
    pub timestamp: &'a str,
    /// How much of the log was durable then.
    pub durable_to: u64,
    /// The line without its line end.
    pub text: &'a str,
    body: usize,
}

/// The reason why a line is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// It has no line end.
    #[error("the line has no end")]
    Torn,
    /// It is longer than any line can be.
    #[error("the line is too long")]
    TooLong,
    /// Its checksum is missing or wrong.
    #[error("the checksum does not match")]
    Checksum,
    /// Its checksum is right but its envelope is not.
    #[error("the line does not begin as lines of this log do")]
    Envelope,
}

/// Closes a line that was begun: checksum, brace, line end.
pub fn seal(line: &mut Vec<u8>) {
    let crc = crc32fast::hash(line);
    line.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes());
}

/// The part of a sealed line (without its line end) that the checksum covers, if it is right.
pub fn unseal(line: &[u8]) -> Option<&[u8]> {
    let covered = line.get(..line.len().checked_sub(SEAL_BYTES)?)?;
    let seal = &line[covered.len()..];
    let digits = seal.strip_prefix(b",\"crc\":\"")?.strip_suffix(b"\"}")?;
    if digits.iter().any(|digit| !matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let crc = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (crc == crc32fast::hash(covered)).then_some(covered)
}

impl<'a> Line<'a> {
    /// Reads a line without its line end.
    pub fn parse(kind: LogKind, bytes: &'a [u8]) -> Result<Self, BadLine> {
        let covered = unseal(bytes).ok_or(BadLine::Checksum)?;
        let text = std::str::from_utf8(bytes).map_err(|_| BadLine::Envelope)?;
        let mut rest = Cursor(&text[..covered.len()]);
        Self::envelope(kind, &mut rest)
            .filter(|_| rest.0.is_empty() || rest.0.starts_with(','))
            .map(|(head, timestamp, durable_to)| Self {
                head,
                timestamp,
                durable_to,
                text,
                body: covered.len() - rest.0.len(),
            })
            .ok_or(BadLine::Envelope)
    }

    fn envelope(kind: LogKind, rest: &mut Cursor<'a>) -> Option<(Head<'a>, &'a str, u64)> {
        let (head, timestamp) = match kind {
            LogKind::Messages if rest.skip("{\"seq\":").is_some() => {
                let seq = rest.number()?;
                let role = Role::parse(rest.skip(",\"role\":\"")?.until('"')?)?;
                let timestamp = rest.skip(",\"timestamp\":\"")?.until('"')?;
                let tokens = rest.skip(",\"tokens\":")?.number()?;
                (Head::Message { seq, role, tokens }, timestamp)
            }
            LogKind::Messages => {
                let name = rest.skip("{\"event\":\"")?.until('"')?;
                let after = rest.skip(",\"after\":")?.number()?;
                (Head::Event { name, after }, rest.skip(",\"timestamp\":\"")?.until('"')?)
            }
            LogKind::Tools | LogKind::Plans => return Self::record_envelope(kind, rest),
        };
        Some((head, timestamp, rest.skip(",\"durable_to\":")?.number()?))
    }

    fn record_envelope(kind: LogKind, rest: &mut Cursor<'a>) -> Option<(Head<'a>, &'a str, u64)> {
        let (number_field, time_field) = record_fields(kind);
        let number = rest.skip(number_field)?.number()?;
        let timestamp = rest.skip(time_field)?.until('"')?;
        let durable_to = rest.skip(",\"durable_to\":")?.number()?;
        let after = match rest.skip(",\"after\":") {
            Some(rest) => Some(rest.number()?),
            None => None,
        };
        Some((Head::Record { number, after }, timestamp, durable_to))
    }

    /// Returns what the caller sent: the fields behind the envelope, with a comma in front.
    pub fn body(&self) -> &'a str {
        &self.text[self.body..self.text.len() - SEAL_BYTES]
    }

    /// Returns what the checksum covers.
    pub fn unsealed(&self) -> &'a str {
        &self.text[..self.text.len() - SEAL_BYTES]
    }

    /// When it was written.
    pub fn time(&self) -> Option<DateTime<Utc>> {
        DateTime::parse_from_rfc3339(self.timestamp).ok().map(|time| time.to_utc())
    }

    /// The fields of a message.
    pub fn message(&self) -> Result<MessageBody<'a>, serde_json::Error> {
        serde_json::from_str(self.text)
    }

    /// The request that wrote the line, if it had an id.
    pub fn request(&self) -> Result<RequestBody, serde_json::Error> {
        serde_json::from_str(self.text)
    }
}

/// The fields of a message line, as they stand there.
#[derive(Debug, Deserialize)]
pub struct MessageBody<'a> {
    /// Text, parts or null.
    #[serde(borrow, default, deserialize_with = "present")]
    pub content: Option<&'a RawValue>,
    /// Text.
    #[serde(borrow, default)]
    pub tool_name: Option<&'a RawValue>,
    /// An array.
    #[serde(borrow, default)]
    pub tool_calls: Option<&'a RawValue>,
    /// Text.
    #[serde(borrow, default)]
    pub tool_call_id: Option<&'a RawValue>,
    /// Text.
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    /// Whether compactions keep it verbatim.
    #[serde(default)]
    pub pinned: bool,
    /// Where the full output is.
    #[serde(borrow, default)]
    pub output_ref: Option<&'a RawValue>,
    /// Everything else the caller sent.
    #[serde(borrow, default)]
    pub extra: Option<&'a RawValue>,
}

/// `null` is a value here, not the absence of one.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The fields of the request that wrote a line.
#[derive(Debug, Deserialize)]
pub struct RequestBody {
    /// Its id.
    #[serde(default)]
    pub request_id: Option<RequestId>,
    /// What it asked for; only events carry it, as their fields are not all the caller's.
    #[serde(default)]
    pub request_digest: Option<String>,
}

/// Begins a line: the envelope. The body and the seal follow.
pub(crate) fn begin(kind: LogKind, head: Head<'_>, timestamp: DateTime<Utc>, durable_to: u64) -> Vec<u8> {
    let time = timestamp.to_rfc3339_opts(SecondsFormat::Micros, true);
    let mut line = String::with_capacity(256);
    let _ = match head {
        Head::Message { seq, role, tokens } => write!(
            line,
            "{{\"seq\":{seq},\"role\":\"{}\",\"timestamp\":\"{time}\",\"tokens\":{tokens}",
            role.as_str()
        ),
        Head::Event { name, after } => {
            write!(line, "{{\"event\":\"{name}\",\"after\":{after},\"timestamp\":\"{time}\"")
        }
        Head::Record { number, .. } => {
            let (number_field, time_field) = record_fields(kind);
            write!(line, "{number_field}{number}{time_field}{time}\"")
        }
    };
    let _ = write!(line, ",\"durable_to\":{durable_to}");
    if let Head::Record { after: Some(after), .. } = head {
        let _ = write!(line, ",\"after\":{after}");
    }
    line.into_bytes()
}

/// Returns how the envelope of a record begins, and how its time does.
fn record_fields(kind: LogKind) -> (&'static str, &'static str) {
    match kind {
        LogKind::Plans => ("{\"id\":", ",\"created_at\":\""),
        LogKind::Messages | LogKind::Tools => ("{\"seq\":", ",\"timestamp\":\""),
    }
}

/// The body of a message line.
pub(crate) fn message_body(message: &NewMessage, request_id: Option<&RequestId>) -> String {
    let mut body = String::new();
    let mut field = |name: &str, value: &str| {
        let _ = write!(body, ",\"{name}\":{value}");
    };
    let values = [
        ("content", &message.content),
        ("tool_name", &message.tool_name),
        ("tool_calls", &message.tool_calls),
        ("tool_call_id", &message.tool_call_id),
        ("name", &message.name),
    ];
    for (name, value) in values {
        if let Some(value) = value {
            field(name, value.as_str());
        }
    }
    if message.pinned {
        field("pinned", "true");
    }
    if let Some(output_ref) = &message.output_ref {
        field("output_ref", &format!("\"{output_ref}\""));
    }
    if let Some(id) = request_id {
        field("request_id", &format!("\"{id}\""));
    }
    if let Some(extra) = &message.extra {
        field("extra", extra.as_str());
    }
    body
}

/// The body of a record without the id of the request that wrote it, which is always the last field.
pub(crate) fn without_request_id(body: &str) -> &str {
    // Inside a value the name would have its quotes escaped, or a bracket behind it.
    let at = body.rfind(",\"request_id\":\"");
    let id = at.and_then(|at| Some((at, body[at..].strip_prefix(",\"request_id\":\"")?.strip_suffix('"')?)));
    match id {
        Some((at, id)) if !id.contains('"') => &body[..at],
        Some(_) | None => body,
    }
}

struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn skip(&mut self, text: &str) -> Option<&mut Self> {
        self.0 = self.0.strip_prefix(text)?;
        Some(self)
    }

    /// A decimal number without leading zeros.
    fn number(&mut self) -> Option<u64> {
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let digits = &self.0[..end];
        self.0 = &self.0[end..];
        if digits.len() > 1 && digits.starts_with('0') { None } else { digits.parse().ok() }
    }

    fn until(&mut self, end: char) -> Option<&'a str> {
        let (text, rest) = self.0.split_once(end)?;
        self.0 = rest;
        (!text.contains('\\')).then_some(text)
    }
}
