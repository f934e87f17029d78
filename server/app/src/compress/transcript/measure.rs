//! The first pass over a history: how much there is of what, and what has to be cut so that it fits.
//!
//! In memory are sums, and the sizes of as many messages at the end as fit.

use std::collections::VecDeque;
use std::ops::Range;

use super::{NOTE, body_cost, label};
use crate::model::Role;
use crate::summarizer::Piece;

/// Tokens that a text can be cut to: from 64 on, each a half or a third more than the one before.
const CAPS: usize = 28;
/// The least that an output of a tool is cut to.
const LEAST_OF_TOOL: usize = 0;
/// The least that another text is cut to.
const LEAST_OF_OTHER: usize = 3;
/// The share of the room that the first messages have if some in the middle are left out.
const HEAD_SHARE: u64 = 4;
/// What goes into the fence of each text.
const HASHED_BYTES: usize = 4 << 10;

fn cap(at: usize) -> u64 {
    let base = if at.is_multiple_of(2) { 64 } else { 96 };
    base << (at / 2)
}

/// Tokens of texts: whole, and if they are cut.
#[derive(Debug, Default)]
struct Sums {
    whole: u64,
    cut: [u64; CAPS],
}

impl Sums {
    fn add(&mut self, tokens: u64) {
        self.whole += tokens;
        for (at, sum) in self.cut.iter_mut().enumerate() {
            *sum += shortened(tokens, cap(at));
        }
    }

    /// The largest cap under which they take no more than `room`.
    fn largest(&self, least: usize, room: u64) -> Option<u64> {
        (least..CAPS).rev().find(|at| self.cut[*at] <= room).map(cap)
    }
}

fn shortened(tokens: u64, cap: u64) -> u64 {
    if tokens <= cap { tokens } else { cap + NOTE }
}

/// What is known of a history so far.
#[derive(Debug)]
pub(super) struct Measure {
    room: u64,
    hasher: blake3::Hasher,
    messages: u64,
    /// Tokens of labels.
    labels: u64,
    tools: Sums,
    others: Sums,
    /// Messages at the beginning that fit into their share, and whether there may be more.
    head: u64,
    head_room: u64,
    head_ended: bool,
    /// Tokens of the messages at the end, as short as they get.
    tail: VecDeque<u64>,
    tail_sum: u64,
    /// The last message with calls, if only results followed: its place, and the calls without one, by place and name.
    open_at: u64,
    open: Vec<(usize, String)>,
}

/// What is told of a history.
#[derive(Debug)]
pub(super) struct Cuts {
    tool_cap: Option<u64>,
    other_cap: Option<u64>,
    /// Messages in the middle that are not told, by their place.
    pub(super) left_out: Range<u64>,
    /// A message with calls that nobody has answered, by its place; and which of its calls.
    pub(super) open_at: u64,
    pub(super) open: Vec<usize>,
}

impl Cuts {
    /// Tokens that a message of a role may have.
    pub(super) fn cap(&self, role: Role) -> Option<u64> {
        if role == Role::Tool { self.tool_cap } else { self.other_cap }
    }
}

impl Measure {
    pub(super) fn new(room: u64, hasher: blake3::Hasher) -> Self {
        Self {
            room,
            hasher,
            messages: 0,
            labels: 0,
            tools: Sums::default(),
            others: Sums::default(),
            head: 0,
            head_room: room / HEAD_SHARE,
            head_ended: false,
            tail: VecDeque::new(),
            tail_sum: 0,
            open_at: 0,
            open: Vec::new(),
        }
    }

    /// Takes a message in.
    pub(super) fn take(&mut self, piece: &Piece<'_>) {
        let text = piece.text.as_bytes();
        self.hasher.update(&text[..text.len().min(HASHED_BYTES)]);
        self.hasher.update(&(text.len() as u64).to_le_bytes());
        let is_tool = piece.role == Role::Tool;
        let body = body_cost(piece, &[]);
        let names: usize = piece.calls.iter().map(|call| call.name.len() + 9).sum();
        let around = (label(piece).len() + names) as u64 / 2 + 4;
        let (sums, least) =
            if is_tool { (&mut self.tools, LEAST_OF_TOOL) } else { (&mut self.others, LEAST_OF_OTHER) };
        sums.add(body);
        self.labels += around;
        self.place(around + shortened(body, cap(least)));
        self.follow(piece);
        self.messages += 1;
    }

    /// Finds a message its place at the beginning or at the end.
    fn place(&mut self, tokens: u64) {
        self.head_ended |= tokens > self.head_room;
        if !self.head_ended {
            self.head_room -= tokens;
            self.head += 1;
        }
        self.tail.push_back(tokens);
        self.tail_sum += tokens;
        let room = (self.room - self.room / HEAD_SHARE).saturating_sub(NOTE);
        while self.tail_sum > room {
            self.tail_sum -= self.tail.pop_front().unwrap_or(self.tail_sum);
        }
    }

    /// Remembers calls until they are answered, or something else is said.
    fn follow(&mut self, piece: &Piece<'_>) {
        if piece.role == Role::Tool {
            let named = |(_, name): &(usize, String)| piece.tool_name.is_some_and(|tool| tool == name);
            let answered = self.open.iter().position(named);
            // A result that does not say whose it is answers the first.
            let answered = answered.or_else(|| piece.tool_name.is_none().then_some(0));
            if let Some(at) = answered.filter(|at| *at < self.open.len()) {
                self.open.remove(at);
            }
            return;
        }
        self.open_at = self.messages;
        self.open = piece.calls.iter().map(|call| call.name.to_owned()).enumerate().collect();
    }

    /// What is to be told, and the name of the block that it stands in.
    pub(super) fn cuts(self) -> (Cuts, String) {
        let fence = format!("history-{}", &self.hasher.finalize().to_hex()[..12]);
        let room = self.room.saturating_sub(self.labels);
        let (tools, others) = (&self.tools, &self.others);
        let mut cuts = Cuts {
            tool_cap: None,
            other_cap: None,
            left_out: 0..0,
            open_at: self.open_at,
            open: self.open.iter().map(|(at, _)| *at).collect(),
        };
        if tools.whole + others.whole <= room {
            return (cuts, fence);
        }
        let for_tools = room.checked_sub(others.whole).and_then(|room| tools.largest(LEAST_OF_TOOL, room));
        cuts.tool_cap = Some(for_tools.unwrap_or(cap(LEAST_OF_TOOL)));
        if for_tools.is_some() {
            return (cuts, fence);
        }
        let for_others = room.checked_sub(tools.cut[LEAST_OF_TOOL]);
        let for_others = for_others.and_then(|room| others.largest(LEAST_OF_OTHER, room));
        cuts.other_cap = Some(for_others.unwrap_or(cap(LEAST_OF_OTHER)));
        if for_others.is_none() {
            let tail = self.messages - self.tail.len() as u64;
            cuts.left_out = self.head..tail.max(self.head);
        }
        (cuts, fence)
    }
}
