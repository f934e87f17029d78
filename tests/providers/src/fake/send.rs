//! Sends an answer piece by piece, as slowly and as badly as the script wants.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};

use crate::fake::record::Pen;
use crate::fake::script::{Fault, Script};

/// A body of any kind.
pub(crate) type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, io::Error>;

struct Sending {
    pieces: VecDeque<Bytes>,
    delay: Duration,
    /// Pieces before the fault.
    left: usize,
    fault: Option<Fault>,
    pen: Pen,
}

/// A body of pieces. `malformed` and `failed` are what the provider's stream looks like when it is.
pub(crate) fn body(pieces: Vec<Bytes>, script: &Script, malformed: Bytes, failed: Bytes, pen: Pen) -> Body {
    let mut pieces = VecDeque::from(pieces);
    let left = script.after.unwrap_or(pieces.len() / 2).min(pieces.len());
    match script.fault {
        Some(Fault::MalformedChunk) => pieces.insert(left, malformed),
        Some(Fault::ErrorMidStream) => {
            pieces.truncate(left);
            pieces.push_back(failed);
        }
        Some(Fault::EndEarly) => pieces.truncate(left),
        _ => {}
    }
    if script.together {
        pieces = VecDeque::from([pieces.iter().flatten().copied().collect::<Vec<u8>>().into()]);
    }
    let fault = script.fault.filter(|fault| matches!(fault, Fault::HangMidStream | Fault::BreakMidStream));
    let sending = Sending { pieces, delay: Duration::from_millis(script.delay_ms), left, fault, pen };
    StreamBody::new(stream::unfold(Some(sending), |sending| async { next(sending?).await })).boxed_unsync()
}

async fn next(mut sending: Sending) -> Option<(io::Result<Frame<Bytes>>, Option<Sending>)> {
    if sending.left == 0 {
        match sending.fault {
            Some(Fault::HangMidStream) => pending().await,
            Some(Fault::BreakMidStream) => {
                // What was sent is to arrive: an error at once would take it back out of the buffers.
                tokio::time::sleep(Duration::from_millis(50)).await;
                return Some((Err(io::Error::other("broken as the script wants")), None));
            }
            _ => {}
        }
    }
    let Some(piece) = sending.pieces.pop_front() else {
        sending.pen.sent();
        return None;
    };
    if !sending.delay.is_zero() {
        tokio::time::sleep(sending.delay).await;
    }
    sending.left = sending.left.saturating_sub(1);
    Some((Ok(Frame::data(piece)), Some(sending)))
}
