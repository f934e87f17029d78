//! The preview of an output for a model: its beginning, if asked for its end, and how to see the rest.
//!
//! It is made while the bytes pass by, so that nothing is read again; what it may need is all that is kept.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::decode::Decoder;
use super::media::MediaKind;
use super::tally::Counted;
use crate::model::Json;

/// Bytes that are decoded at once.
const BLOCK: usize = 4 << 10;
/// Room for what stands between beginning and end, and behind them.
const GAP: usize = 48;
const CLOSING: usize = 464;
/// Lines that a model is told to ask for.
const LINES_AT_ONCE: u64 = 200;
/// Largest image or document that becomes a content part: what providers take of one.
const PART_BYTES: usize = 3 << 20;

/// The limits of a preview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewLimits {
    /// Characters of a line.
    pub max_line_length: usize,
    /// Bytes of all.
    pub max_bytes: usize,
    /// Bytes of these that show the end.
    pub tail_bytes: usize,
    /// Bytes of an image or a document that becomes a content part; 0: none does.
    pub part_bytes: usize,
}

impl ViewLimits {
    /// Least bytes of a view: what says how to see the rest must fit.
    pub const LEAST_BYTES: usize = 1024;

    /// `as_parts`, where a message may have so many bytes.
    pub fn with_parts(self, message_bytes: usize) -> Self {
        Self { part_bytes: PART_BYTES.min(message_bytes / 2), ..self }
    }
}

/// The preview of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The content of the message: text, or an array of parts.
    pub content: Json,
    /// The text, if it is one.
    pub text: Option<String>,
    /// Whether something is left out.
    pub truncated: bool,
}

impl View {
    fn of_text(text: String, truncated: bool) -> Self {
        Self { content: Json::text(&text), text: Some(text), truncated }
    }
}

/// Makes a view while the bytes pass by.
#[derive(Debug)]
pub struct ViewMaker {
    limits: ViewLimits,
    head: String,
    /// Whether the head has more than could be shown.
    full: bool,
    /// Lines that have ended in the head, and characters of the one that has not.
    lines: u64,
    chars: usize,
    /// The last character of a line that fits: it is shown if nothing follows it.
    held: Option<char>,
    /// Whether the rest of the line is left out.
    cutting: bool,
    /// The first line of which something is left out.
    first_cut: Option<u64>,
    decoder: Decoder,
    text: String,
    /// The last bytes.
    tail: Vec<u8>,
    seen: u64,
    /// All bytes, while they could be a part.
    whole: Option<Vec<u8>>,
}

impl ViewMaker {
    /// Shows no more than this. Of what is no text nothing but its bytes is of use.
    pub fn new(limits: ViewLimits) -> Self {
        let max_bytes = limits.max_bytes.max(ViewLimits::LEAST_BYTES);
        let limits = ViewLimits {
            max_line_length: limits.max_line_length.max(2),
            max_bytes,
            tail_bytes: limits.tail_bytes.min(max_bytes / 2),
            ..limits
        };
        Self {
            limits,
            head: String::new(),
            full: false,
            lines: 0,
            chars: 0,
            held: None,
            cutting: false,
            first_cut: None,
            decoder: Decoder::default(),
            text: String::new(),
            tail: Vec::new(),
            seen: 0,
            whole: (limits.part_bytes > 0).then(Vec::new),
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        if let Some(whole) = &mut self.whole {
            whole.extend_from_slice(bytes);
        }
        if self.whole.as_ref().is_some_and(|whole| whole.len() > self.limits.part_bytes) {
            self.whole = None;
        }
        let last = self.limits.tail_bytes;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(last)..]);
        if self.tail.len() > 2 * last {
            self.tail.drain(..self.tail.len() - last);
        }
        self.fill_head(bytes);
    }

    fn fill_head(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && !self.full {
            if self.cutting {
                // A line may be very long.
                self.decoder.clear();
                let Some(end) = memchr::memchr(b'\n', rest) else { return };
                rest = &rest[end..];
            }
            let (block, behind) = rest.split_at(rest.len().min(BLOCK));
            rest = behind;
            let mut text = std::mem::take(&mut self.text);
            self.decoder.push(block, &mut text);
            text.chars().for_each(|character| self.show(character));
            text.clear();
            self.text = text;
        }
    }

    fn show(&mut self, character: char) {
        if character == '\n' {
            let held = self.held.take();
            held.into_iter().for_each(|held| self.add(held));
            self.add('\n');
            self.lines += 1;
            (self.chars, self.cutting) = (0, false);
        } else if self.cutting {
        } else if self.chars + 1 < self.limits.max_line_length {
            self.chars += 1;
            self.add(character);
        } else if self.held.is_none() {
            self.held = Some(character);
        } else {
            self.held = None;
            self.cutting = true;
            self.first_cut.get_or_insert(self.lines);
            self.add('…');
        }
    }

    fn add(&mut self, character: char) {
        if self.full {
            return;
        }
        // Some providers refuse the one character that ends a string in C.
        self.head.push(if character == '\0' { char::REPLACEMENT_CHARACTER } else { character });
        self.full = self.head.len() > self.limits.max_bytes;
    }

    /// There are no more bytes.
    pub fn finish(mut self, counted: &Counted, media_type: &str) -> View {
        let kind = MediaKind::of(media_type);
        if kind != MediaKind::Text {
            return self.media(counted, media_type, kind);
        }
        let mut text = String::new();
        self.decoder.finish(&mut text);
        text.chars().for_each(|character| self.show(character));
        let held = self.held.take();
        held.into_iter().for_each(|held| self.add(held));
        if !self.full && self.first_cut.is_none() {
            return View::of_text(self.head, false);
        }
        View::of_text(self.cut(counted), true)
    }

    fn cut(&self, counted: &Counted) -> String {
        let room = self.limits.max_bytes - CLOSING;
        let all = !self.full && self.head.len() < room;
        let (head, tail) = if all {
            (self.head.as_str(), None)
        } else {
            let room = room - GAP - self.limits.tail_bytes;
            let head = &self.head[..self.head.floor_char_boundary(room)];
            // Whole lines, unless that would leave out much of what could be shown.
            let head = match head.rfind('\n') {
                Some(end) if end >= head.len() / 2 => &head[..=end],
                _ => head,
            };
            (head, self.tail(counted, head))
        };
        let lines = head.matches('\n').count() as u64;
        let mut text = head.to_owned();
        let mut shown = lines + u64::from(!head.is_empty() && !head.ends_with('\n'));
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if let Some((tail, first)) = tail {
            let left_out = first.saturating_sub(shown);
            text.push_str(&format!("[… {left_out} lines]\n"));
            text.push_str(&tail);
            if !tail.ends_with('\n') {
                text.push('\n');
            }
            shown += counted.line_count.saturating_sub(first);
        }
        // Where the first thing is that was left out.
        let from = self.first_cut.map_or(lines, |cut| cut.min(lines));
        let (id, size, count) = (counted.id, counted.byte_size, counted.line_count);
        let shown = shown.min(count);
        text.push_str(&format!(
            "[output cut: {shown} of {count} lines shown, {size} bytes in all; ref={id}. Expand it with \
             tool_output_cache {{\"ref_id\":\"{id}\",\"offset\":{from},\"limit\":{LINES_AT_ONCE}}}, search it with \
             tool_output_cache_grep {{\"ref_id\":\"{id}\",\"pattern\":\"...\"}}]"
        ));
        text
    }

    /// The end of the output, as far as the head does not show it, and how many lines are before it.
    fn tail(&self, counted: &Counted, head: &str) -> Option<(String, u64)> {
        let wanted = self.limits.tail_bytes;
        let bytes = &self.tail[self.tail.len().saturating_sub(wanted)..];
        let starts_whole = bytes.len() as u64 == self.seen;
        let first_end = memchr::memchr(b'\n', bytes).filter(|end| end + 1 < bytes.len());
        let shown = head.matches('\n').count() as u64 + u64::from(!head.is_empty() && !head.ends_with('\n'));
        let (mut begins, mut first) = match first_end {
            _ if starts_whole => (0, 0),
            Some(end) => {
                let inside = super::tally::count(&bytes[end + 1..]);
                let open = u64::from(!bytes.ends_with(b"\n"));
                (end + 1, counted.line_count.saturating_sub(inside + open))
            }
            // One line that is longer than the tail: its end.
            None if counted.line_count > shown => return self.end_of_line(bytes, counted),
            None => return None,
        };
        while first < shown {
            let end = memchr::memchr(b'\n', &bytes[begins..])?;
            (begins, first) = (begins + end + 1, first + 1);
        }
        let mut lines = Self::new(ViewLimits { tail_bytes: 0, part_bytes: 0, ..self.limits });
        lines.fill_head(&bytes[begins..]);
        lines.decoder.finish(&mut lines.text);
        let text = std::mem::take(&mut lines.text);
        text.chars().for_each(|character| lines.show(character));
        let held = lines.held.take();
        held.into_iter().for_each(|held| lines.add(held));
        // What stands for bytes that are no text takes more room than they do.
        let mut from = lines.head.ceil_char_boundary(lines.head.len().saturating_sub(wanted));
        if from > 0 {
            from += lines.head[from..].find('\n').map_or(0, |end| end + 1);
            first += lines.head[..from].matches('\n').count() as u64;
        }
        let text = lines.head[from..].to_owned();
        (!text.is_empty()).then_some((text, first))
    }

    fn end_of_line(&self, bytes: &[u8], counted: &Counted) -> Option<(String, u64)> {
        let text = String::from_utf8_lossy(bytes).replace('\0', "\u{FFFD}");
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let room = self.limits.tail_bytes.saturating_sub('…'.len_utf8());
        let text = &text[text.ceil_char_boundary(text.len().saturating_sub(room))..];
        let skipped = text.chars().count().saturating_sub(self.limits.max_line_length - 1);
        let text: String = text.chars().skip(skipped).collect();
        (!text.is_empty()).then(|| (format!("…{text}"), counted.line_count - 1))
    }

    fn media(self, counted: &Counted, media_type: &str, kind: MediaKind) -> View {
        let (id, size) = (counted.id, counted.byte_size);
        let note = format!("[{media_type} output of {size} bytes, not shown; ref={id}]");
        let Some(bytes) = self.whole.filter(|bytes| !bytes.is_empty() && kind != MediaKind::Binary) else {
            return View::of_text(note, true);
        };
        let note = Json::text(&format!("[{media_type} output of {size} bytes; ref={id}]"));
        let url = Json::text(&format!("data:{media_type};base64,{}", BASE64_STANDARD.encode(bytes)));
        let part = match kind {
            MediaKind::Document => {
                let name = Json::text(&format!("{id}.pdf"));
                format!(
                    r#"{{"type":"file","file":{{"filename":{},"file_data":{}}}}}"#,
                    name.as_str(),
                    url.as_str()
                )
            }
            MediaKind::Image | MediaKind::Text | MediaKind::Binary => {
                format!(r#"{{"type":"image_url","image_url":{{"url":{}}}}}"#, url.as_str())
            }
        };
        let parts = format!(r#"[{{"type":"text","text":{}}},{part}]"#, note.as_str());
        match Json::parse(&parts) {
            Ok(content) => View { content, text: None, truncated: false },
            Err(_) => View::of_text(note.as_str().to_owned(), true),
        }
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
