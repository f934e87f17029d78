//! Sends an answer piece by piece, as slowly and as badly as the script wants.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::sync::watch;

use crate::fake::record::Pen;
use crate::fake::script::{Fault, Script};

/// A body of any kind.
pub(crate) type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, io::Error>;

/// Holds answers back until the fake is told to go on, which lets all those go on whose requests came before.
#[derive(Debug, Default)]
pub(crate) struct Gate(watch::Sender<u64>);

/// Where an answer waits if its script wants that.
#[derive(Debug)]
pub(crate) struct Turn {
    opened: watch::Receiver<u64>,
    before: u64,
}

impl Gate {
    /// Lets all go on that wait, and those that are on their way there.
    pub(crate) fn open(&self) {
        self.0.send_modify(|opened| *opened += 1);
    }

    /// The place of a request that has come.
    pub(crate) fn turn(&self) -> Turn {
        let opened = self.0.subscribe();
        let before = *opened.borrow();
        Turn { opened, before }
    }
}

struct Sending {
    pieces: VecDeque<Bytes>,
    delay: Duration,
    /// Pieces before the fault.
    left: usize,
    fault: Option<Fault>,
    turn: Turn,
    pen: Pen,
}

/// A body of pieces. `malformed` and `failed` are what the provider's stream looks like when it is.
pub(crate) fn body(
    pieces: Vec<Bytes>,
    script: &Script,
    malformed: Bytes,
    failed: Bytes,
    turn: Turn,
    pen: Pen,
) -> Body {
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
    let stops =
        |fault: &Fault| matches!(fault, Fault::HangMidStream | Fault::WaitMidStream | Fault::BreakMidStream);
    let fault = script.fault.filter(stops);
    let sending = Sending { pieces, delay: Duration::from_millis(script.delay_ms), left, fault, turn, pen };
    StreamBody::new(stream::unfold(Some(sending), |sending| async { next(sending?).await })).boxed_unsync()
}

async fn next(mut sending: Sending) -> Option<(io::Result<Frame<Bytes>>, Option<Sending>)> {
    if sending.left == 0 {
        match sending.fault {
            Some(Fault::HangMidStream) => pending().await,
            Some(Fault::WaitMidStream) => {
                let before = sending.turn.before;
                // The gate lives as long as the fake.
                let _ = sending.turn.opened.wait_for(|opened| *opened > before).await;
                sending.fault = None;
            }
            Some(Fault::BreakMidStream) => {
                // What was sent is to arrive: an error at once would take it back out of the buffers. They are emptied when
                // there is nothing more for the moment.
                tokio::task::yield_now().await;
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
