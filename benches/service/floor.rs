//! The least that a durable append over gRPC can take: a server that takes a message off the wire, writes and syncs it
//! where it stands, and answers. It checks nothing, remembers nothing and shares no sync.

use std::cell::RefCell;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::thread;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::{BoxFuture, poll_fn};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use tokio::net::UnixListener;
use tokio::runtime::Builder;
use tokio_stream::wrappers::UnixListenerStream;
use tower::Service;

use crate::limits::Bare;

/// Bytes of an answer, as long as ours.
const ANSWER: usize = 42;

/// Serves until the process ends, in a runtime of its own.
pub(crate) fn serve(place: &Path) -> PathBuf {
    let socket = place.join("floor.sock");
    let files = place.join("floor");
    std::fs::create_dir(&files).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
            let incoming = UnixListenerStream::new(UnixListener::from_std(listener).unwrap());
            tonic::transport::Server::builder().serve_with_incoming(Floor { files }, incoming).await.unwrap();
        });
    });
    socket
}

thread_local! {
    /// A file for each worker, so that none waits for another's sync.
    static FILE: RefCell<Option<Bare>> = const { RefCell::new(None) };
}

#[derive(Clone)]
struct Floor {
    files: PathBuf,
}

impl<B> Service<Request<B>> for Floor
where
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let files = self.files.clone();
        Box::pin(async move {
            let syncs = request.uri().path().ends_with("/Sync");
            let mut body = pin!(request.into_body());
            while poll_fn(|context| body.as_mut().poll_frame(context)).await.is_some() {}
            if syncs {
                FILE.with_borrow_mut(|file| {
                    let named = || files.join(format!("{:?}", thread::current().id()));
                    file.get_or_insert_with(|| Bare::new(&named(), None)).append();
                });
            }
            let response = Response::builder().header("content-type", "application/grpc");
            Ok(response.body(Answer { frames: 0 }).unwrap())
        })
    }
}

/// One message, then the trailers.
struct Answer {
    frames: u32,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.frames += 1;
        Poll::Ready(match self.frames {
            1 => {
                let mut message = BytesMut::with_capacity(ANSWER + 5);
                message.put_u8(0);
                message.put_u32(u32::try_from(ANSWER).unwrap());
                message.put_bytes(b'x', ANSWER);
                Some(Ok(Frame::data(message.freeze())))
            }
            2 => {
                let status = ("grpc-status".parse().unwrap(), HeaderValue::from_static("0"));
                Some(Ok(Frame::trailers(HeaderMap::from_iter([status]))))
            }
            _ => None,
        })
    }
}
