//! Several parts of a history as one text: the beginning of each message, on a line of its own.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use super::super::MessageFile;
use super::{MAX_TOKENS, MIN_TOKENS, Transcript, check, cost, label};
use crate::model::StoreError;
use crate::summarizer::Piece;

/// Most characters of a message, whatever is configured.
const MAX_CHARS: usize = 100_000;

/// Flattens the messages of gaps, in order: `gaps` says of each how many messages are passed over before it, and how many it
/// has. Of each message `chars` characters are told, and of each gap as much as fits: messages in its middle are left out
/// first.
pub(in super::super) fn flatten_gaps(
    material: &MessageFile,
    gaps: &[(u64, u64)],
    chars: u64,
    room: u64,
    stop: &AtomicBool,
) -> Result<Transcript, StoreError> {
    let room = room.clamp(MIN_TOKENS, MAX_TOKENS) / (gaps.len() as u64).max(1);
    let chars = usize::try_from(chars).unwrap_or(MAX_CHARS).clamp(1, MAX_CHARS);
    let mut hasher = blake3::Hasher::new();
    let mut text = String::new();
    let mut skip = 0_u64;
    let mut rest = gaps.iter().enumerate();
    let mut next = |skip: &mut u64| {
        rest.find_map(|(at, (before, messages))| {
            *skip = skip.saturating_add(*before);
            (*messages > 0).then(|| GapText::new(at, *messages, room))
        })
    };
    let mut gap = next(&mut skip);
    material.each(&mut |piece| {
        check(stop)?;
        if skip > 0 {
            skip -= 1;
            return Ok(());
        }
        let Some(open) = &mut gap else { return Ok(()) };
        let line = line(piece, chars);
        hasher.update(line.as_bytes());
        if open.take(line) {
            open.push(&mut text);
            gap = next(&mut skip);
        }
        Ok(())
    })?;
    // Fewer messages than were announced.
    if let Some(open) = gap.filter(|open| open.taken > 0) {
        open.push(&mut text);
    }
    let fence = format!("history-{}", &hasher.finalize().to_hex()[..12]);
    let text = text.replace(&fence, "history");
    Ok(Transcript { text: format!("<{fence}>\n{text}</{fence}>\n"), fence })
}

/// A message on one line: nothing in it begins another.
fn line(piece: &Piece<'_>, chars: usize) -> String {
    let calls = piece.calls.iter().flat_map(|call| [" calls ", call.name, "(", call.arguments, ")"]);
    let said = std::iter::once(piece.text).chain(calls).flat_map(str::chars);
    let mut line = label(piece);
    let mut said = said.map(|c| if c.is_whitespace() || c.is_control() { ' ' } else { c }).peekable();
    line.push(' ');
    line.extend(said.by_ref().take(chars));
    if said.peek().is_some() {
        line.push('…');
    }
    line.push('\n');
    line
}

/// A gap as it is read: its first lines, and the last ones.
struct GapText {
    number: usize,
    messages: u64,
    taken: u64,
    head: String,
    head_room: u64,
    tail: VecDeque<(u64, String)>,
    tail_room: u64,
    tail_sum: u64,
    left_out: u64,
}

impl GapText {
    fn new(at: usize, messages: u64, room: u64) -> Self {
        let (head_room, tail_room) = (room / 2, room - room / 2);
        Self {
            number: at + 1,
            messages,
            taken: 0,
            head: String::new(),
            head_room,
            tail: VecDeque::new(),
            tail_room,
            tail_sum: 0,
            left_out: 0,
        }
    }

    /// Takes a line; true if it was the last.
    fn take(&mut self, line: String) -> bool {
        self.taken += 1;
        let tokens = cost(&line);
        if self.tail.is_empty() && self.left_out == 0 && tokens <= self.head_room {
            self.head_room -= tokens;
            self.head.push_str(&line);
        } else {
            self.tail_sum += tokens;
            self.tail.push_back((tokens, line));
            while self.tail_sum > self.tail_room
                && let Some((tokens, _)) = self.tail.pop_front()
            {
                self.tail_sum -= tokens;
                self.left_out += 1;
            }
        }
        self.taken == self.messages
    }

    fn push(&self, out: &mut String) {
        let _ = writeln!(out, "[gap {}: {} messages]", self.number, self.messages);
        out.push_str(&self.head);
        if self.left_out > 0 {
            let _ = writeln!(out, "[… {} messages left out here …]", self.left_out);
        }
        out.extend(self.tail.iter().map(|(_, line)| line.as_str()));
        out.push('\n');
    }
}
