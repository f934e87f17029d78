//! The connection below the generated clients: whether it has ever reached a server, what to do if it has not, and which
//! methods the server does not have.

use std::error::Error as StdError;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, Response};
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::Service;

use crate::Address;

/// Names the method in the answer of a server that does not have it.
const METHOD: &str = "contextstore-method";
/// Marks a call that was not made, as no server runs to which the token may be sent.
const NO_SERVER: &str = "contextstore-no-server";

/// The connection to a server, which is made again when it breaks.
#[derive(Debug, Clone)]
pub struct Connection {
    channel: Channel,
    reached: Arc<AtomicBool>,
}

impl Connection {
    pub(crate) fn new(channel: Channel, reached: bool) -> Self {
        Self { channel, reached: Arc::new(AtomicBool::new(reached)) }
    }

    /// Whether there has been a server, or one is waited for.
    pub(crate) fn was_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// A server that is not there is to be waited for.
    pub(crate) fn expect_server(&self) {
        self.reached.store(true, Ordering::Relaxed);
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let reached = Arc::clone(&self.reached);
        let method = request.uri().path().trim_start_matches('/').to_owned();
        let answer = self.channel.call(request);
        Box::pin(async move {
            let mut answer = answer.await?;
            reached.store(true, Ordering::Relaxed);
            let unimplemented = (Code::Unimplemented as i32).to_string();
            let headers = answer.headers_mut();
            if headers.get(Status::GRPC_STATUS).is_some_and(|code| *code == *unimplemented)
                && let Ok(method) = HeaderValue::from_str(&method)
            {
                headers.insert(METHOD, method);
            }
            Ok(answer)
        })
    }
}

/// The method that the server does not have.
pub(crate) fn method_of(status: &Status) -> Option<String> {
    status.metadata().get(METHOD)?.to_str().ok().map(str::to_owned)
}

/// A call that is not made, as no server runs to which the token may be sent.
pub(crate) fn no_server(problem: impl Into<String>) -> Status {
    let mut status = Status::unavailable(problem);
    status.metadata_mut().insert(NO_SERVER, tonic::metadata::MetadataValue::from_static("1"));
    status
}

/// Whether no server has seen the call: the transport says so, or it was not made.
pub(crate) fn is_lost(status: &Status) -> bool {
    status.source().is_some() || status.metadata().contains_key(NO_SERVER)
}

/// Whether nothing listens where a call was sent to.
pub(crate) fn is_nobody_there(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused);
        }
        cause = error.source();
    }
    status.metadata().contains_key(NO_SERVER)
}

/// What to do if nothing listens at an address.
pub(crate) fn advice(address: &Address) -> String {
    let start = match address {
        Address::Unix(path) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            let from = match std::env::current_dir() {
                Ok(here) if path.is_relative() => format!(" (seen from {})", here.display()),
                _ => String::new(),
            };
            format!("{from}. Nothing listens there; `contextstore serve --data-dir {}`", folder.display())
        }
        Address::Tcp { .. } => format!(". Nothing listens there; `contextstore serve --listen {address}`"),
        Address::Tls { .. } => return ". Nothing listens there: is the address right?".to_owned(),
    };
    format!("{start} starts a server")
}
