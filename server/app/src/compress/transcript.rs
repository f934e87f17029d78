//! History as one text that fits into a summariser's window: made in two passes, with no more in memory than that text.
//!
//! What is too long is cut in its middle: outputs of tools first, then everything, and if even that is not enough,
//! messages in the middle of the history are left out. Notes say so. Nothing in a message can end the block that the
//! history stands in, or pass for another message.

mod cut;
mod gaps;
mod measure;

use std::fmt::Write as _;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::MessageFile;
use crate::context::count_text;
use crate::model::{Role, StoreError, TokenCounter};
use crate::summarizer::{Call, Piece};
use cut::push_cut;
pub(super) use gaps::flatten_gaps;
use measure::Measure;

/// Most tokens of a text, however large a window is. With [`BYTES_A_TOKEN`], this is 8 MiB.
const MAX_TOKENS: u64 = 1 << 20;
/// Fewest: a window that is smaller is refused by whoever has it.
const MIN_TOKENS: u64 = 1024;
/// A token is never held to be more bytes than this, so that tokens limit bytes.
const BYTES_A_TOKEN: u64 = 8;
/// Longer texts are not counted whole, but by their beginning and their end.
const COUNTED_BYTES: usize = 32 << 10;
/// Tokens of a note that something is left out.
const NOTE: u64 = 16;
/// The share of the room that a summary so far may take, and what was retained beside it of the rest.
const SO_FAR_SHARE: u64 = 3;

/// What was made of earlier history.
#[derive(Debug, Default)]
pub(super) struct EarlierSummary {
    /// Its summary.
    pub(super) previous: Option<String>,
    /// What was retained beside that.
    pub(super) retained: Option<String>,
}

/// A history as text, between tags of the name `fence`.
#[derive(Debug)]
pub(super) struct Transcript {
    pub(super) text: String,
    pub(super) fence: String,
}

/// Tells a pass that nobody waits for it any more.
pub(super) fn check(stop: &AtomicBool) -> Result<(), StoreError> {
    match stop.load(Ordering::Relaxed) {
        false => Ok(()),
        true => Err(StoreError::io("reading what is to be summarised", io::ErrorKind::Interrupted.into())),
    }
}

/// Tokens of a text, or about as many.
pub(super) fn cost(text: &str) -> u64 {
    let len = text.len() as u64;
    let tokens = if text.len() <= COUNTED_BYTES {
        count_text(TokenCounter::Fitted, text)
    } else {
        let head = &text[..text.floor_char_boundary(COUNTED_BYTES / 2)];
        let tail = &text[text.ceil_char_boundary(text.len() - COUNTED_BYTES / 2)..];
        let counted = count_text(TokenCounter::Fitted, head) + count_text(TokenCounter::Fitted, tail);
        counted * len / (head.len() + tail.len()) as u64
    };
    tokens.max(len.div_ceil(BYTES_A_TOKEN))
}

/// Flattens a history to a text of at most so many tokens, more or less.
pub(super) fn flatten(
    material: &MessageFile,
    so_far: &EarlierSummary,
    room: u64,
    stop: &AtomicBool,
) -> Result<Transcript, StoreError> {
    let mut room = room.clamp(MIN_TOKENS, MAX_TOKENS);
    let mut text = String::new();
    let mut hasher = blake3::Hasher::new();
    let blocks = [("previous", &so_far.previous), ("retained", &so_far.retained)];
    let blocks = blocks.map(|(name, block)| {
        let block = block.as_deref().map(str::trim).filter(|block| !block.is_empty())?;
        hasher.update(block.as_bytes());
        let (whole, most) = (cost(block), room / SO_FAR_SHARE);
        room -= whole.min(most);
        Some((name, block, share(block.len(), most, whole)))
    });
    let mut measure = Measure::new(room, hasher);
    material.each(&mut |piece| {
        check(stop)?;
        measure.take(piece);
        Ok(())
    })?;
    let (cuts, fence) = measure.cuts();
    for (name, block, keep) in blocks.into_iter().flatten() {
        let _ = writeln!(text, "<{fence}-{name}>");
        push_cut(block, keep, &fence, &mut text);
        let _ = write!(text, "\n</{fence}-{name}>\n\n");
    }
    let _ = writeln!(text, "<{fence}>");
    let mut number = 0;
    material.each(&mut |piece| {
        check(stop)?;
        let at = number;
        number += 1;
        if cuts.left_out.contains(&at) {
            if at == cuts.left_out.start {
                let count = cuts.left_out.end - at;
                let _ = write!(text, "[… {count} messages left out here …]\n\n");
            }
            return Ok(());
        }
        let open = if at == cuts.open_at { cuts.open.as_slice() } else { &[] };
        push(piece, open, cuts.cap(piece.role), &fence, &mut text);
        Ok(())
    })?;
    let _ = writeln!(text, "</{fence}>");
    Ok(Transcript { text, fence })
}

/// What of a message is told: its calls but for those that nobody has answered.
fn calls<'a>(piece: &'a Piece<'_>, open: &'a [usize]) -> impl Iterator<Item = &'a Call<'a>> {
    piece.calls.iter().enumerate().filter(|(at, _)| !open.contains(at)).map(|(_, call)| call)
}

/// The line that a message begins with.
fn label(piece: &Piece<'_>) -> String {
    let mut label = format!("[seq {}] ", piece.seq);
    match (piece.role, piece.tool_name) {
        (Role::Tool, Some(name)) => {
            let _ = write!(label, "result of {}", plain(name));
        }
        (Role::Tool, None) => label.push_str("result"),
        (role, _) => label.push_str(role.as_str()),
    }
    if let Some(whole) = piece.output_ref {
        let _ = write!(label, " (stored as {})", plain(whole));
    }
    label.push(':');
    label
}

/// A name on one line, and short.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).take(100).collect()
}

/// Appends a message, with its texts cut to so many tokens together.
fn push(piece: &Piece<'_>, open: &[usize], cap: Option<u64>, fence: &str, out: &mut String) {
    let told: Vec<_> = calls(piece, open).collect();
    if piece.text.trim().is_empty() && told.is_empty() && !open.is_empty() {
        return;
    }
    let whole = body_cost(piece, open);
    let keep = |text: &str| match cap {
        Some(cap) if whole > cap => share(text.len(), cap, whole),
        Some(_) | None => text.len(),
    };
    out.push_str(&label(piece));
    out.push('\n');
    let text = piece.text.trim_end();
    if !text.is_empty() {
        push_cut(text, keep(text), fence, out);
        out.push('\n');
    }
    for call in told {
        let _ = write!(out, "calls {}(", plain(call.name));
        push_cut(call.arguments, keep(call.arguments), fence, out);
        out.push_str(")\n");
    }
    out.push('\n');
}

/// Tokens of what a message says and of what it calls with.
fn body_cost(piece: &Piece<'_>, open: &[usize]) -> u64 {
    cost(piece.text) + calls(piece, open).map(|call| cost(call.arguments)).sum::<u64>()
}

/// Bytes of a text that stay if of `whole` tokens only `cap` may.
fn share(len: usize, cap: u64, whole: u64) -> usize {
    if whole <= cap {
        return len;
    }
    let kept = len as u128 * u128::from(cap) / u128::from(whole);
    usize::try_from(kept).unwrap_or(len)
}

#[cfg(test)]
mod tests;
