//! What nothing of ours can be faster than: a bare sync, a bare socket, and a server that only sends.

use std::convert::Infallible;
use std::fs::File;
use std::future::{Ready, ready};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tower::Service;

use crate::calls::{Calls, megabytes};
use crate::report::{Cell, Sample};
use crate::{CONTENT, SLICE, VIEW};

/// Bytes that are read and written at once.
const PIECE: usize = 256 << 10;

pub(crate) fn cells(place: &Path, calls: &Calls) -> Vec<Cell> {
    let bare = Bare::new(&place.join("bare"), None);
    let view = File::open(&calls.view_path).unwrap();
    vec![
        Cell::new(1, "bare socket, read and write in 256 KiB".to_owned(), move || copy(&view)),
        Cell::new(10, "bare write and fdatasync".to_owned(), move || bare.run()),
    ]
}

/// A file that lines are appended to and synced, with nothing around it.
pub(crate) struct Bare {
    file: File,
    end: std::cell::Cell<u64>,
    line: Vec<u8>,
}

impl Bare {
    /// An empty file, or one that begins as a copy.
    pub(crate) fn new(path: &Path, from: Option<&Path>) -> Self {
        if let Some(from) = from {
            std::fs::copy(from, path).unwrap();
        }
        let file = File::options().create(true).truncate(from.is_none()).write(true).open(path).unwrap();
        file.sync_all().unwrap();
        let end = file.metadata().unwrap().len().into();
        // What a line of ours comes to on disk.
        Self { file, end, line: vec![b'x'; CONTENT + 200] }
    }

    pub(crate) fn append(&self) {
        self.file.write_all_at(&self.line, self.end.get()).unwrap();
        self.file.sync_data().unwrap();
        self.end.set(self.end.get() + self.line.len() as u64);
    }

    fn run(&self) -> Sample {
        let (began, mut times) = (Instant::now(), Vec::new());
        while began.elapsed() < SLICE {
            let began = Instant::now();
            self.append();
            times.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Sample::of(times, began.elapsed())
    }
}

/// Sends a file through a socket, from one thread to another.
fn copy(file: &File) -> Sample {
    let (mut from, mut to) = UnixStream::pair().unwrap();
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut piece, mut at) = (vec![0; PIECE], 0);
            loop {
                let read = file.read_at(&mut piece, at).unwrap();
                if read == 0 {
                    break;
                }
                from.write_all(&piece[..read]).unwrap();
                at += read as u64;
            }
        });
        let (mut piece, mut bytes) = (vec![0; PIECE], 0);
        loop {
            let read = to.read(&mut piece).unwrap();
            if read == 0 {
                break;
            }
            bytes += read;
        }
        megabytes(bytes, began)
    })
}

/// Serves the same bytes again and again: nothing is read, nothing is encoded, nothing is copied.
pub(crate) fn replay(runtime: &Runtime, socket: &Path, bytes: usize) {
    let mut message = BytesMut::with_capacity(PIECE + 5);
    message.put_u8(0);
    message.put_u32(u32::try_from(PIECE).unwrap());
    message.put_bytes(b'x', PIECE);
    let replay = Replay { message: message.freeze(), count: bytes / PIECE };
    let _inside = runtime.enter();
    let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
    runtime.spawn(tonic::transport::Server::builder().serve_with_incoming(replay, incoming));
}

/// A service and its answer.
#[derive(Clone)]
struct Replay {
    message: Bytes,
    count: usize,
}

impl<B> Service<Request<B>> for Replay {
    type Response = Response<Self>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        let response = Response::builder().header("content-type", "application/grpc").body(self.clone());
        ready(Ok(response.unwrap()))
    }
}

impl http_body::Body for Replay {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // The last frame is the trailers.
        Poll::Ready(match self.count {
            usize::MAX => None,
            0 => {
                self.count = usize::MAX;
                let status = ("grpc-status".parse().unwrap(), HeaderValue::from_static("0"));
                Some(Ok(Frame::trailers(HeaderMap::from_iter([status]))))
            }
            _ => {
                self.count -= 1;
                Some(Ok(Frame::data(self.message.clone())))
            }
        })
    }
}

/// So that the view is at least as long as what is replayed.
const _: () = assert!(VIEW.is_multiple_of(PIECE));
