//! What stays is too large by itself: outputs of tools are trimmed, oldest first, then long contents are cut to their head and
//! tail. What has to stay is not touched.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::context::{count_text, plain_text};
use crate::model::{Json, JsonKind, Role, StoreError, TokenCounter};
use crate::store::{Outline, Part, Seen};

/// Tokens of an output that was trimmed.
const TRIMMED: u64 = 12;
/// What is left of a content that is cut, in tokens, at least.
const LEAST: u64 = 48;
/// Bytes of all contents that are cut: they stand in the log again.
const MOST_BYTES: usize = 256 << 10;

/// What is to be done with messages that stay.
#[derive(Debug, Default)]
pub(super) struct Squeezed {
    trimmed: Vec<u64>,
    cut: BTreeMap<u64, (String, u64)>,
    /// Tokens that are saved.
    pub(super) saved: u64,
}

/// A message that may be made smaller.
struct Message {
    place: u64,
    tokens: u64,
    is_output: bool,
}

/// Tokens of a message that is made as small as can be.
pub(super) fn least(seen: &Seen<'_>) -> u64 {
    let shown = &seen.shown;
    let is_text = shown.content.is_some_and(|content| JsonKind::of(content) == JsonKind::Text);
    if seen.kind.is_some() {
        shown.tokens
    } else if shown.role == Role::Tool {
        shown.tokens.min(TRIMMED)
    } else if is_text && shown.tool_calls.is_none() {
        shown.tokens.min(LEAST)
    } else {
        shown.tokens
    }
}

impl Squeezed {
    /// Makes messages at some places smaller, until so many tokens are saved.
    pub(super) fn squeeze(outline: &Outline, keep: &[Range<u64>], need: u64) -> Result<Self, StoreError> {
        let mut squeezed = Self::default();
        if need == 0 {
            return Ok(squeezed);
        }
        let mut messages = Vec::new();
        each_at(outline, keep, &mut |place, seen| {
            if seen.kind.is_some() {
                return;
            }
            let is_output = seen.shown.role == Role::Tool && seen.shown.tokens > TRIMMED;
            messages.push(Message { place, tokens: seen.shown.tokens, is_output });
        })?;
        for message in messages.iter_mut().filter(|message| message.is_output) {
            if squeezed.saved >= need {
                return Ok(squeezed);
            }
            squeezed.saved += message.tokens - TRIMMED;
            squeezed.trimmed.push(message.place);
            message.tokens = TRIMMED;
        }
        if squeezed.saved < need {
            squeezed.cut_contents(outline, keep, &messages, need)?;
        }
        Ok(squeezed)
    }

    /// Cuts the longest contents to one length that saves enough.
    fn cut_contents(
        &mut self,
        outline: &Outline,
        keep: &[Range<u64>],
        messages: &[Message],
        need: u64,
    ) -> Result<(), StoreError> {
        let (mut low, mut high) = (LEAST, messages.iter().map(|message| message.tokens).max().unwrap_or(0));
        while low < high {
            let most = low + (high - low).div_ceil(2);
            let saved: u64 = messages.iter().map(|message| message.tokens.saturating_sub(most)).sum();
            if self.saved + saved >= need { low = most } else { high = most - 1 }
        }
        let most = low;
        let (counter, mut bytes) = (outline.counter, MOST_BYTES);
        let (trimmed, cut, saved) = (&self.trimmed, &mut self.cut, &mut self.saved);
        each_at(outline, keep, &mut |place, seen| {
            // What is not in the log cannot be looked up there.
            if seen.kind.is_some() || seen.shown.tokens <= most || trimmed.binary_search(&place).is_ok() {
                return;
            }
            if let Some((text, tokens)) = shorten(seen, most, counter).filter(|(text, _)| text.len() <= bytes)
            {
                bytes -= text.len();
                *saved += seen.shown.tokens - tokens;
                cut.insert(place, (text, tokens));
            }
        })
    }

    /// The messages at some places, as parts of a new view.
    pub(super) fn parts(&self, places: Range<u64>, parts: &mut Vec<Part>) {
        let mut from = places.start;
        for place in places.clone() {
            let trim = self.trimmed.binary_search(&place).is_ok();
            let Some(part) = (if trim {
                Some(Part::Trim(place..place + 1))
            } else {
                let cut = self.cut.get(&place).cloned();
                cut.map(|(text, tokens)| Part::Replace { place, content: Json::text(&text), tokens })
            }) else {
                continue;
            };
            if from < place {
                parts.push(Part::Keep(from..place));
            }
            parts.push(part);
            from = place + 1;
        }
        if from < places.end {
            parts.push(Part::Keep(from..places.end));
        }
    }
}

fn each_at(
    outline: &Outline,
    places: &[Range<u64>],
    take: &mut dyn FnMut(u64, &Seen<'_>),
) -> Result<(), StoreError> {
    let (mut place, mut places) = (0, places.iter().peekable());
    outline.each(&mut |seen| {
        while places.next_if(|range| range.end <= place).is_some() {}
        if places.peek().is_some_and(|range| range.contains(&place)) {
            take(place, seen);
        }
        place += 1;
    })
}

/// A message's text by its head and its tail, and the tokens that the message has then.
fn shorten(seen: &Seen<'_>, most: u64, counter: TokenCounter) -> Option<(String, u64)> {
    let shown = &seen.shown;
    let content = shown.content.filter(|content| JsonKind::of(content) == JsonKind::Text)?;
    let text = plain_text(content);
    let counted = count_text(counter, &text).max(1);
    // What is beside the content, as calls, stays.
    let beside = shown.tokens.saturating_sub(counted);
    let room = most.saturating_sub(beside).max(LEAST / 2);
    let characters = text.chars().count();
    let keep = usize::try_from(room.saturating_mul(characters as u64) / counted).unwrap_or(usize::MAX);
    let (head, tail) = (keep * 3 / 5, keep * 2 / 5);
    if head + tail >= characters {
        return None;
    }
    let at = |count: usize| text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    let (head, behind) = (&text[..at(head)], &text[at(characters - tail)..]);
    let left_out = characters - head.chars().count() - behind.chars().count();
    let which = if shown.seq > 0 { format!("; seq={}", shown.seq) } else { String::new() };
    let cut = format!("{head}\n[… {left_out} characters left out{which} …]\n{behind}");
    let tokens = beside + count_text(counter, &cut);
    (tokens < shown.tokens).then_some((cut, tokens))
}
