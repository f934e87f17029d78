//! Splits a streamed answer into frames: server-sent events, or lines of JSON. Bytes arrive in pieces of any size.
//!
//! An answer that is not a stream is one frame: JSON where an event should begin, or JSON over several lines.

use std::collections::VecDeque;

/// Byte order mark.
const BOM: [u8; 3] = *b"\xef\xbb\xbf";
/// Largest frame, and longest line of one.
pub(super) const MAX_FRAME_BYTES: usize = 16 << 20;

/// One event of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    /// The name of the event, if it has one.
    pub(super) name: String,
    /// The payload of the event.
    pub(super) data: String,
    /// True if the frame is a complete answer instead of a stream event.
    pub(super) whole: bool,
}

/// Error for a frame over [`MAX_FRAME_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// The framing of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value per line.
    Lines,
}

/// Splits bytes into frames.
#[derive(Debug)]
pub(super) struct Frames {
    framing: Framing,
    limit: usize,
    /// The incomplete line.
    line: Vec<u8>,
    begun: bool,
    /// True once anything but white space has arrived.
    seen: bool,
    /// Everything so far, if the answer is not a stream.
    whole: Option<Vec<u8>>,
    /// The incomplete event.
    frame: Frame,
    has_data: bool,
    ready: VecDeque<Frame>,
}

impl Frames {
    pub(super) fn new(framing: Framing) -> Self {
        Self::with_limit(framing, MAX_FRAME_BYTES)
    }

    fn with_limit(framing: Framing, limit: usize) -> Self {
        Self {
            framing,
            limit,
            line: Vec::new(),
            begun: false,
            seen: false,
            whole: None,
            frame: Frame::default(),
            has_data: false,
            ready: VecDeque::new(),
        }
    }

    /// Adds the next bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), TooLong> {
        if !self.seen && self.framing == Framing::Sse {
            let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace() && !BOM.contains(byte));
            self.seen = first.is_some();
            // No event begins like this.
            if first == Some(&b'{') {
                self.whole = Some(std::mem::take(&mut self.line));
            }
        }
        if self.whole.is_some() {
            return self.extend_whole(bytes);
        }
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.extend(&bytes[..end])?;
            self.end_line()?;
            bytes = &bytes[end + 1..];
            if self.whole.is_some() {
                return self.extend_whole(bytes);
            }
        }
        self.extend(bytes)
    }

    fn extend_whole(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let limit = self.limit;
        let whole = self.whole.get_or_insert_default();
        if whole.len() + bytes.len() > limit {
            return Err(TooLong);
        }
        whole.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the answer. A last line without a line end and a last event without an empty line count too.
    pub(super) fn end(&mut self) -> Result<(), TooLong> {
        if let Some(whole) = self.whole.take() {
            let text = String::from_utf8_lossy(&whole);
            let data = text.trim_start_matches('\u{feff}').trim().to_owned();
            self.ready.push_back(Frame { name: String::new(), data, whole: true });
            return Ok(());
        }
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.end_frame();
        Ok(())
    }

    /// Returns the next complete frame.
    pub(super) fn next(&mut self) -> Option<Frame> {
        self.ready.pop_front()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > self.limit {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), TooLong> {
        let mut line = std::mem::take(&mut self.line);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        // Only complete lines are decoded, so no character is split. Invalid UTF-8 must not end an answer.
        let text = String::from_utf8_lossy(&line);
        match self.framing {
            Framing::Lines if text.trim().is_empty() => {}
            // No JSON value is this short, so it continues on the next lines.
            Framing::Lines if !self.seen && text.trim() == "{" => {
                self.whole = Some(b"{\n".to_vec());
            }
            Framing::Lines => {
                self.seen = true;
                self.ready.push_back(Frame { data: text.into_owned(), ..Frame::default() });
            }
            Framing::Sse => self.field(&text)?,
        }
        // The line's buffer is reused.
        line.clear();
        self.line = line;
        Ok(())
    }

    fn field(&mut self, line: &str) -> Result<(), TooLong> {
        if line.is_empty() {
            self.end_frame();
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.frame.name),
            "data" => {
                if self.frame.data.len() + value.len() >= self.limit {
                    return Err(TooLong);
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            // A comment (a line without a name), `id`, `retry`, or an unknown field.
            _ => {}
        }
        Ok(())
    }

    fn end_frame(&mut self) {
        let frame = std::mem::take(&mut self.frame);
        if std::mem::take(&mut self.has_data) {
            self.ready.push_back(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(framing: Framing, pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut frames = Frames::new(framing);
        for piece in pieces {
            frames.push(piece).unwrap();
        }
        frames.end().unwrap();
        std::iter::from_fn(|| frames.next()).map(|frame| (frame.name, frame.data)).collect()
    }

    /// The frames do not depend on how the bytes are split.
    fn cut_everywhere(framing: Framing, bytes: &[u8], expected: &[(&str, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect();
        assert_eq!(frames(framing, &[bytes]), expected);
        for at in 0..=bytes.len() {
            assert_eq!(frames(framing, &[&bytes[..at], &bytes[at..]]), expected, "cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(frames(framing, &single), expected, "byte by byte");
    }

    #[test]
    fn events_come_out_whole_however_they_are_cut() {
        let stream = "\u{feff}: hello\n\nevent: a\r\ndata: {\"text\":\"é😀\"}\r\n\r\ndata:1\ndata: 2\n\nid: 7\nretry: 5\n\n\
                      event: without data\n\ndata\n\nevent: last\ndata: [DONE]";
        cut_everywhere(
            Framing::Sse,
            stream.as_bytes(),
            &[("a", "{\"text\":\"é😀\"}"), ("", "1\n2"), ("", ""), ("last", "[DONE]")],
        );
    }

    #[test]
    fn lines_come_out_whole_however_they_are_cut() {
        let stream = "{\"a\":\"日本\"}\r\n\n  \n{\"b\":1}\n{\"c\":2}";
        cut_everywhere(
            Framing::Lines,
            stream.as_bytes(),
            &[("", "{\"a\":\"日本\"}"), ("", "{\"b\":1}"), ("", "{\"c\":2}")],
        );
    }

    /// An answer that is not a stream is returned in one piece and marked as complete.
    #[test]
    fn an_answer_that_is_no_stream_is_one_frame() {
        let pretty = "\u{feff}\n {\n  \"a\": \"data: x\",\n\n  \"b\": 1\n}\n";
        for framing in [Framing::Sse, Framing::Lines] {
            let whole = |pieces: &[&[u8]]| {
                let mut frames = Frames::new(framing);
                pieces.iter().for_each(|piece| frames.push(piece).unwrap());
                frames.end().unwrap();
                let frame = frames.next().unwrap();
                assert_eq!(frames.next(), None);
                assert!(frame.whole);
                frame.data
            };
            let json = "{\n  \"a\": \"data: x\",\n\n  \"b\": 1\n}";
            let text =
                if framing == Framing::Sse { pretty } else { "{\n  \"a\": \"data: x\",\n\n  \"b\": 1\n}\n" };
            let bytes = text.as_bytes();
            for at in 0..=bytes.len() {
                assert_eq!(whole(&[&bytes[..at], &bytes[at..]]), json, "{framing:?} cut at {at}");
            }
        }
        let mut frames = Frames::with_limit(Framing::Sse, 100);
        frames.push(b"{").unwrap();
        assert_eq!(frames.push(&[b'x'; 100]), Err(TooLong));
    }

    #[test]
    fn a_strange_byte_does_not_stop_an_answer() {
        assert_eq!(frames(Framing::Lines, &[b"a\xffb\n"]), [(String::new(), "a\u{fffd}b".to_owned())]);
    }

    #[test]
    fn a_frame_has_a_limit_in_one_line_and_in_many() {
        let mut frames = Frames::with_limit(Framing::Sse, 100);
        assert_eq!(frames.push(&[b'x'; 101]), Err(TooLong));
        let mut frames = Frames::with_limit(Framing::Sse, 100);
        let line = format!("data: {}\n", "x".repeat(40));
        assert_eq!(frames.push(line.as_bytes()), Ok(()));
        assert_eq!(frames.push(line.as_bytes()), Ok(()));
        assert_eq!(frames.push(line.as_bytes()), Err(TooLong));
        let mut frames = Frames::with_limit(Framing::Lines, 100);
        for _ in 0..10 {
            assert_eq!(frames.push(line.as_bytes()), Ok(()));
        }
    }
}
