//! Takes in the body of a request, holding no more of it than is to be checked.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::fake::scanner::Scanner;

/// A body that was sent.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) bytes: usize,
    pub(crate) blake3: String,
    /// All of it, if it is small enough to be checked.
    pub(crate) whole: Option<Bytes>,
    /// Of a larger one, whether it is JSON, unless it was only counted.
    pub(crate) is_json: Option<bool>,
}

/// The sender stopped half-way, or was to be stopped there.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) bytes: usize,
}

/// Reads a body to its end, or to `stop` bytes.
pub(crate) async fn take(
    mut body: Incoming,
    hold: usize,
    scan: bool,
    stop: Option<usize>,
) -> Result<Taken, Broken> {
    let mut held = Some(BytesMut::new());
    let mut scanner = Scanner::default();
    let mut hasher = blake3::Hasher::new();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err(Broken { bytes }) };
        let Ok(data) = frame.into_data() else { continue };
        bytes += data.len();
        hasher.update(&data);
        if stop.is_some_and(|stop| bytes >= stop) {
            return Err(Broken { bytes });
        }
        match held.take() {
            Some(mut before) if bytes <= hold => {
                before.extend_from_slice(&data);
                held = Some(before);
            }
            Some(before) if scan => {
                scanner.feed(&before);
                scanner.feed(&data);
            }
            None if scan => scanner.feed(&data),
            _ => {}
        }
    }
    let is_json = (held.is_none() && scan).then(|| scanner.is_json());
    let blake3 = hasher.finalize().to_hex().to_string();
    Ok(Taken { bytes, blake3, whole: held.map(BytesMut::freeze), is_json })
}
