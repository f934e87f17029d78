//! HTTP/2 by hand, for clients that no library would be: they stop reading, answer no pings, or send junk.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The first words of a client.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const INITIAL_WINDOW_SIZE: u16 = 4;

/// A connection.
pub(crate) enum Wire {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Something that was received.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
}

impl Wire {
    /// To an address as the server tells it: `tcp:HOST:PORT`.
    pub(crate) fn tcp(address: &str) -> Self {
        let stream = TcpStream::connect(address.trim_start_matches("tcp:")).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::Tcp(stream)
    }

    pub(crate) fn unix(path: &Path) -> Self {
        Self::Unix(UnixStream::connect(path).unwrap())
    }

    /// From now on, reads and writes that take longer fail.
    pub(crate) fn give_up_after(&self, time: Duration) {
        let done = match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(time)).and_then(|()| stream.set_write_timeout(Some(time)))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(time)).and_then(|()| stream.set_write_timeout(Some(time)))
            }
        };
        done.unwrap();
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        self.write_all(&frame)
    }

    /// Says hello, and how much may be sent on a stream before this client takes some.
    pub(crate) fn hello(&mut self, window: u32) {
        self.write_all(PREFACE).unwrap();
        let mut settings = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        settings.extend_from_slice(&window.to_be_bytes());
        self.frame(SETTINGS, 0, 0, &settings).unwrap();
        if window > 65_535 {
            // The connection as a whole has a window of its own.
            self.frame(WINDOW_UPDATE, 0, 0, &(window - 65_535).to_be_bytes()).unwrap();
        }
    }

    /// Begins a call.
    pub(crate) fn call(&mut self, stream: u32, method: &str, token: &str) {
        let path = format!("/contextstore.v1.ContextStore/{method}");
        let mut block = Vec::new();
        for (name, value) in [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", &path),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("authorization", &format!("Bearer {token}")),
        ] {
            // Literal, not indexed, without Huffman coding; all are shorter than 127 bytes.
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).ok().filter(|length| *length < 127).unwrap());
                block.extend_from_slice(text.as_bytes());
            }
        }
        self.frame(HEADERS, END_HEADERS, stream, &block).unwrap();
    }

    /// Sends a message of a call.
    pub(crate) fn message(
        &mut self,
        stream: u32,
        message: &impl prost::Message,
        is_last: bool,
    ) -> io::Result<()> {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
        message.encode(&mut bytes).unwrap();
        let mut parts = bytes.chunks(16 << 10).peekable();
        while let Some(part) = parts.next() {
            let flags = if is_last && parts.peek().is_none() { END_STREAM } else { 0 };
            self.frame(DATA, flags, stream, part)?;
        }
        Ok(())
    }

    /// The next frame.
    pub(crate) fn next(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.read_exact(&mut head)?;
        let [a, b, c, kind, ..] = head;
        let mut payload = vec![0; usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap()];
        self.read_exact(&mut payload)?;
        Ok(Frame { kind })
    }

    /// Waits until a call is answered with the first bytes of its body.
    pub(crate) fn answered(&mut self) {
        while self.next().unwrap().kind != DATA {}
    }

    /// Takes what comes until the server ends the connection; false if it does not.
    pub(crate) fn is_ended_within(&mut self, time: Duration) -> bool {
        self.give_up_after(time);
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => {
                    return !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                }
            }
        }
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
