//! What is to be summarised: `to_summarize.jsonl`, one line a message, read as often as need be with one line in memory.
//!
//! Text is taken out of messages as a reader would see it; what is no text becomes a note. Nothing is refused for its form:
//! what was accepted into the log can be summarised.

use std::borrow::Cow;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::infra::fs::File;
use crate::model::json::{field, fields, items};
use crate::model::{JsonKind, Role, StoreError};
use crate::summarizer::{Call, Piece};

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// What the file is called in errors.
const NAME: &str = "to_summarize.jsonl";

/// Messages that are to be summarised: the first bytes of a file.
#[derive(Debug, Clone)]
pub struct MessageFile {
    file: Arc<dyn File>,
    from: u64,
    len: u64,
    /// Set when whoever reads is to stop.
    stop: Arc<AtomicBool>,
}

impl MessageFile {
    /// A file of lines, and how much of it counts.
    pub(crate) fn new(file: Arc<dyn File>, len: u64) -> Self {
        Self { file, from: 0, len, stop: Arc::default() }
    }

    /// The same for readers that may have to stop.
    pub(crate) fn until(self, stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), ..self }
    }

    /// Some of its lines, by where they stand in it.
    pub(crate) fn part(&self, bytes: std::ops::Range<u64>) -> Self {
        Self { from: self.from + bytes.start, len: self.from + bytes.end, ..self.clone() }
    }

    /// Some of its bytes, as they are; none at the end.
    pub fn read(&self, at: u64, most: usize) -> Result<Vec<u8>, StoreError> {
        let from = self.from.saturating_add(at);
        let left = usize::try_from(self.len.saturating_sub(from)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(most)];
        let failed = |error| StoreError::io(format!("reading {NAME}"), error);
        let read = if bytes.is_empty() { 0 } else { self.file.read_at(&mut bytes, from).map_err(failed)? };
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Calls `take` with each message in order. Blocks; can be called as often as need be. A message at a time is in
    /// memory.
    pub(crate) fn each(
        &self,
        take: &mut dyn FnMut(&Piece<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let failed = |error| StoreError::io(format!("reading {NAME}"), error);
        let mut lines = BufReader::with_capacity(CHUNK_BYTES, FileReader { file: self, at: self.from });
        let (mut offset, mut line) = (self.from, Vec::new());
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line).map_err(failed)?;
            if read == 0 {
                return Ok(());
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(failed(ErrorKind::Interrupted.into()));
            }
            let damaged = |problem: &str| StoreError::Damaged {
                path: NAME.to_owned(),
                offset,
                problem: problem.to_owned(),
            };
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = std::str::from_utf8(text).map_err(|_| damaged("a line is not UTF-8"))?;
            let message = MessageLine::read(text).ok_or_else(|| damaged("a line is no message"))?;
            message.tell(take)?;
            offset += read as u64;
        }
    }
}

/// Reads a file from a place to its end.
struct FileReader<'a> {
    file: &'a MessageFile,
    at: u64,
}

impl Read for FileReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.len.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let most = buf.len().min(left);
        let read = if most == 0 { 0 } else { self.file.file.read_at(&mut buf[..most], self.at)? };
        self.at += read as u64;
        Ok(read)
    }
}

/// A message as its line has it.
struct MessageLine<'a> {
    seq: u64,
    role: Role,
    text: Cow<'a, str>,
    /// Names and arguments.
    calls: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    tool_name: Option<Cow<'a, str>>,
    output_ref: Option<Cow<'a, str>>,
}

impl<'a> MessageLine<'a> {
    /// Reads a line; none if it is no object with a role.
    fn read(line: &'a str) -> Option<Self> {
        let mut read = Self {
            seq: 0,
            role: Role::User,
            text: Cow::Borrowed(""),
            calls: Vec::new(),
            tool_name: None,
            output_ref: None,
        };
        let (mut role, mut refusal, mut transcript) = (None, None, None);
        for (key, value) in fields(line) {
            match key {
                "\"seq\"" => read.seq = value.parse().ok()?,
                "\"role\"" => role = text(value).and_then(|role| Role::parse(&role)),
                "\"content\"" => read.text = plain(value),
                "\"refusal\"" => refusal = text(value).filter(|text| !text.is_empty()),
                "\"transcript\"" => transcript = text(value).filter(|text| !text.is_empty()),
                "\"tool_calls\"" => read.calls = list(value).filter_map(call).collect(),
                "\"tool_name\"" => read.tool_name = text(value).filter(|name| !name.is_empty()),
                "\"output_ref\"" => read.output_ref = text(value).filter(|name| !name.is_empty()),
                _ => {}
            }
        }
        let refusal = refusal.map(|refusal| Cow::Owned(format!("[refused: {refusal}]")));
        for more in [transcript, refusal].into_iter().flatten() {
            if read.text.is_empty() {
                read.text = more;
            } else {
                read.text = Cow::Owned(format!("{}\n{more}", read.text));
            }
        }
        read.role = role?;
        Some(read)
    }

    fn tell(&self, take: &mut dyn FnMut(&Piece<'_>) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let calls: Vec<_> = self.calls.iter().map(|(name, arguments)| Call { name, arguments }).collect();
        take(&Piece {
            seq: self.seq,
            role: self.role,
            text: &self.text,
            calls: &calls,
            tool_name: self.tool_name.as_deref(),
            output_ref: self.output_ref.as_deref(),
        })
    }
}

/// The string that a value is.
fn text(value: &str) -> Option<Cow<'_, str>> {
    if JsonKind::of(value) != JsonKind::Text {
        return None;
    }
    let inner = value.get(1..value.len().saturating_sub(1))?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(value).ok().map(Cow::Owned)
}

/// The items of a value that is a list.
fn list(value: &str) -> impl Iterator<Item = &str> {
    let items = if JsonKind::of(value) == JsonKind::Array { items(value) } else { Vec::new() };
    items.into_iter()
}

fn object<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    field(value, name).filter(|value| JsonKind::of(value) == JsonKind::Object)
}

/// Content as plain text.
pub(super) fn plain(value: &str) -> Cow<'_, str> {
    match JsonKind::of(value) {
        JsonKind::Text => text(value).unwrap_or_default(),
        JsonKind::Array => {
            let mut parts = list(value).filter_map(part);
            let Some(first) = parts.next() else { return Cow::Borrowed("") };
            parts.fold(first, |mut all, part| {
                if !all.is_empty() {
                    all.to_mut().push('\n');
                }
                all.to_mut().push_str(&part);
                all
            })
        }
        JsonKind::Null | JsonKind::Object | JsonKind::Other => Cow::Borrowed(""),
    }
}

/// A part of a content as plain text; none for what only a model can read.
fn part(part: &str) -> Option<Cow<'_, str>> {
    if JsonKind::of(part) == JsonKind::Text {
        return text(part);
    }
    if JsonKind::of(part) != JsonKind::Object {
        return None;
    }
    let own = |name: &str| field(part, name).and_then(text);
    let kind = own("type").unwrap_or_default();
    let named = |kind: &str, name: Option<Cow<'_, str>>| match name.filter(|name| !name.trim().is_empty()) {
        Some(name) => Cow::Owned(format!("[{kind} {}]", one_line(&name))),
        None => Cow::Owned(format!("[{kind}]")),
    };
    Some(match kind.as_ref() {
        "thinking" | "redacted_thinking" | "reasoning" => return None,
        "image_url" | "input_image" | "image" => {
            let url = object(part, "image_url").and_then(|image| field(image, "url")).and_then(text);
            let url = url.or_else(|| own("image_url"));
            named("image", url.filter(|url| url.starts_with("http")))
        }
        "input_audio" | "audio" => named("audio", None),
        "file" | "input_file" | "document" => {
            let file = object(part, "file").unwrap_or(part);
            named("file", ["filename", "title"].iter().find_map(|name| field(file, name).and_then(text)))
        }
        "refusal" => Cow::Owned(format!("[refused: {}]", own("refusal").unwrap_or_default())),
        _ => match own("text") {
            Some(text) => text,
            None => named(if kind.is_empty() { "part" } else { "part of type" }, Some(kind)),
        },
    })
}

/// Says whether a text has nothing but notes of what only a model can read.
pub(super) fn is_media_only(text: &str) -> bool {
    const NOTES: [&str; 4] = ["[image", "[audio", "[file", "[part of type"];
    let is_note = |line: &str| NOTES.iter().any(|note| line.starts_with(note)) && line.ends_with(']');
    text.lines().all(|line| is_note(line) || !line.contains(char::is_alphanumeric))
}

/// A name that may come from anywhere, short and on one line.
fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Name and arguments of a call.
fn call(call: &str) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let own = |within: &'_ str, arguments| {
        let within = object(call, within)?;
        let arguments = field(within, arguments).unwrap_or("\"\"");
        // Some write arguments as an object; its text is what a reader would see.
        let arguments = text(arguments).unwrap_or(Cow::Borrowed(arguments));
        Some((field(within, "name").and_then(text).unwrap_or(Cow::Borrowed("unknown")), arguments))
    };
    own("function", "arguments").or_else(|| own("custom", "input"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::material_of;
    use super::*;

    fn told(lines: &str) -> Result<Vec<String>, StoreError> {
        let mut told = Vec::new();
        material_of(lines).each(&mut |piece| {
            let calls: Vec<_> =
                piece.calls.iter().map(|call| format!("{}({})", call.name, call.arguments)).collect();
            told.push(format!(
                "{} {} {:?} {calls:?} {:?} {:?}",
                piece.seq,
                piece.role.as_str(),
                piece.text,
                piece.tool_name,
                piece.output_ref
            ));
            Ok(())
        })?;
        Ok(told)
    }

    #[test]
    fn a_message_is_told_as_a_reader_sees_it() {
        for (line, expected) in [
            (r#"{"seq":1,"tokens":3,"role":"user","content":"a\n\u00e9"}"#, r#"1 user "a\né" [] None None"#),
            (
                r#"{"seq":2,"tokens":3,"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"read","arguments":"{\"p\":1}"}},{"type":"custom","custom":{"name":"x","input":"y"}},{"function":{"name":"o","arguments":{"a":[1]}}},7,{}]}"#,
                r#"2 assistant "" ["read({\"p\":1})", "x(y)", "o({\"a\":[1]})"] None None"#,
            ),
            (
                r#"{"seq":3,"role":"tool","content":"out","tool_call_id":"c","tool_name":"read","output_ref":"out_1"}"#,
                r#"3 tool "out" [] Some("read") Some("out_1")"#,
            ),
            (
                r#"{"seq":0,"kind":"summary","role":"user","content":"[Summary]"}"#,
                r#"0 user "[Summary]" [] None None"#,
            ),
            (
                r#"{"seq":4,"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"image_url","image_url":{"url":"https://a.b/c.png"}},{"type":"file","file":{"filename":"r.pdf","file_data":"x"}},{"type":"input_audio","input_audio":{"data":"x","format":"wav"}},{"type":"thinking","thinking":"hm"},{"type":"odd"},{"text":"t"},"s",7]}"#,
                r#"4 user "see\n[image]\n[image https://a.b/c.png]\n[file r.pdf]\n[audio]\n[part of type odd]\nt\ns" [] None None"#,
            ),
            (
                r#"{"seq":5,"role":"assistant","content":null,"refusal":"no"}"#,
                r#"5 assistant "[refused: no]" [] None None"#,
            ),
            (
                r#"{"seq":7,"role":"assistant","content":"Well","transcript":"as I said","refusal":"no"}"#,
                r#"7 assistant "Well\nas I said\n[refused: no]" [] None None"#,
            ),
            (
                r#"{"seq":6,"role":"assistant","content":[{"type":"refusal","refusal":"never"}],"refusal":null}"#,
                r#"6 assistant "[refused: never]" [] None None"#,
            ),
        ] {
            assert_eq!(told(line).unwrap(), [expected], "{line}");
            assert_eq!(told(&format!("{line}\n")).unwrap(), [expected], "{line}");
        }
        assert!(told("").unwrap().is_empty());
    }

    #[test]
    fn lines_of_any_length_come_whole_and_in_order() {
        let long = |n: u64| "x".repeat(usize::try_from(n % 7).unwrap() * 50_000 + 1);
        let lines: String = (1..40)
            .map(|n| format!("{{\"seq\":{n},\"role\":\"user\",\"content\":\"{}\"}}\n", long(n)))
            .collect();
        let material = material_of(&lines);
        for _ in 0..2 {
            let mut next = 1;
            material
                .each(&mut |piece| {
                    assert_eq!((piece.seq, piece.text), (next, long(next).as_str()));
                    next += 1;
                    Ok(())
                })
                .unwrap();
            assert_eq!(next, 40);
        }
    }

    #[test]
    fn what_is_no_message_is_damage_and_an_error_stops() {
        for bad in ["x", "{}", "[]", r#"{"seq":1,"role":"nobody"}"#, r#"{"seq":-1,"role":"user"}"#] {
            let lines = format!("{{\"seq\":1,\"role\":\"user\",\"content\":\"a\"}}\n{bad}\n");
            let error = told(&lines).unwrap_err();
            assert!(matches!(&error, StoreError::Damaged { offset: 38, .. }), "{bad}: {error:?}");
        }
        let mut seen = 0;
        let stopped = material_of("{\"role\":\"user\"}\n{\"role\":\"user\"}\n").each(&mut |_| {
            seen += 1;
            Err(StoreError::SummaryRefused { problem: String::new() })
        });
        assert!(stopped.is_err() && seen == 1);
    }
}
