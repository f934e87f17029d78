//! `fake-llm`: the providers over HTTP/1.1 and HTTP/2 on loopback, as strict as the library, answering by a script.
//!
//! Prints its address as `listening 127.0.0.1:PORT` (with `--tls` also `tls 127.0.0.1:PORT` behind it) and ends when its input does, so that it never outlives the
//! test that started it. What it serves:
//!
//! | request | what |
//! | --- | --- |
//! | `POST /v1/chat/completions`, `/v1/responses`, `/v1/messages`, `/api/chat`, `/lmstudio/v1/chat/completions` | a model; streams where asked to |
//! | `GET /v1/models`, `/api/tags` | its models |
//! | `POST /control` | a script for requests to come, see `fake/script.rs`; also as the header `x-fake-script` of one request |
//! | `DELETE /control` | forgets scripts and requests |
//! | `GET /control/requests` | what it got, see `fake/record.rs` |
//! | `GET /control/requests/N/body` | the body of a request, if it was small enough to be kept |

mod answer;
mod door;
mod intake;
mod limits;
mod record;
mod scanner;
mod script;
mod send;
mod tls;

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use clap::Parser;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A strict fake of the LLM providers.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// The port on loopback; 0 for any.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The only key that is taken; without it, any is.
    #[arg(long)]
    key: Option<String>,
    /// The largest body, for every provider; without it, the provider's own limit.
    #[arg(long)]
    max_bytes: Option<usize>,
    /// Bodies up to this are read and checked by every rule; of larger ones only the JSON is.
    #[arg(long, default_value_t = 64_000_000)]
    check_bytes: usize,
    /// Larger bodies are only counted.
    #[arg(long)]
    count_only: bool,
    /// Takes what the providers mend or pass over.
    #[arg(long)]
    lenient: bool,
    /// Serves HTTPS on a port of its own, too, with a certificate of a CA of its own, which is written to this file.
    #[arg(long)]
    tls: Option<std::path::PathBuf>,
}

/// Serves until the input ends.
pub async fn run(options: Options) -> std::io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", options.port)).await?;
    let secure = match &options.tls {
        Some(ca) => Some((TcpListener::bind(("127.0.0.1", 0)).await?, tls::acceptor(ca)?)),
        None => None,
    };
    {
        let mut out = std::io::stdout().lock();
        write!(out, "listening {}", listener.local_addr()?)?;
        if let Some((listener, _)) = &secure {
            write!(out, " tls {}", listener.local_addr()?)?;
        }
        writeln!(out)?;
        out.flush()?;
    }
    let (close, closed) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        // An input that cannot be read is one that has ended.
        let _ = std::io::stdin().read_to_end(&mut rest);
        let _ = close.send(());
    });
    let door = Arc::new(door::Door::new(options));
    let others = Arc::clone(&door);
    let secure = async move {
        match secure {
            Some((listener, acceptor)) => serve(listener, Some(acceptor), others).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = serve(listener, None, door) => {}
        () = secure => {}
        _ = closed => {}
    }
    Ok(())
}

async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>, door: Arc<door::Door>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else { continue };
        // Small pieces of a stream are to leave at once.
        let _ = stream.set_nodelay(true);
        let (door, acceptor) = (Arc::clone(&door), acceptor.clone());
        tokio::spawn(async move {
            match acceptor {
                None => connection(stream, peer.port(), door).await,
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        connection(stream, peer.port(), door).await;
                    }
                }
            }
        });
    }
}

async fn connection<S>(stream: S, port: u16, door: Arc<door::Door>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { door.answer(request, port).await }
    });
    // A connection that breaks is the client's affair, or was asked for.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}
