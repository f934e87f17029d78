//! The frames of a streamed answer: events of SSE, or lines of JSON. Bytes come in pieces of any size.
//!
//! An answer that is no stream is one frame: JSON where an event should begin, or JSON that goes over many lines.

use std::collections::VecDeque;

/// The mark that some put before a text.
const BOM: [u8; 3] = *b"\xef\xbb\xbf";
/// Most bytes of one frame, and of a line of one.
pub(super) const MAX_FRAME_BYTES: usize = 16 << 20;

/// One event of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Frame {
    /// The name of the event, where it has one.
    pub(super) name: String,
    /// What it says.
    pub(super) data: String,
    /// Whether it is the whole answer, which is no stream then.
    pub(super) whole: bool,
}

/// A frame that is larger than any that is sane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// How frames follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value a line.
    Lines,
}

/// Makes frames of bytes.
#[derive(Debug)]
pub(super) struct Frames {
    framing: Framing,
    limit: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    begun: bool,
    /// Whether anything but white space has come.
    seen: bool,
    /// Everything so far, if the answer is no stream.
    whole: Option<Vec<u8>>,
    /// The event that has not ended yet.
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

    /// Takes the next bytes in.
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

    /// The answer has ended: what has no line end or no empty line behind it counts too.
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

    /// The next whole frame.
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
        // Whole lines are decoded, so that no character is split; what is no UTF-8 must not stop an answer.
        let text = String::from_utf8_lossy(&line);
        match self.framing {
            Framing::Lines if text.trim().is_empty() => {}
            // No line of its own has so little: it goes on with the next ones.
            Framing::Lines if !self.seen && text.trim() == "{" => {
                self.whole = Some(b"{\n".to_vec());
            }
            Framing::Lines => {
                self.seen = true;
                self.ready.push_back(Frame { data: text.into_owned(), ..Frame::default() });
            }
            Framing::Sse => self.field(&text)?,
        }
        // The room of the line is used again.
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
            // A comment (which has no name), `id`, `retry`, or what nobody knows.
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

    /// However the bytes are cut, the same frames come out.
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

    /// What is no stream comes out in one piece, and says so.
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
