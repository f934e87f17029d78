//! What stays is too large by itself: outputs of tools are trimmed, oldest first, then long contents are cut to their head and
//! tail. Outputs that the model has not answered yet are only cut: it would have to ask for them again. So are those of
//! protected tools. The last message of the user comes last, and what has to stay is not touched.

use std::collections::BTreeMap;
use std::ops::Range;

use super::excerpt::{LEAST, is_text, shorten, text_tokens};
use super::selection::CurrentRequest;
use crate::context::OutputPolicy;
use crate::model::{Json, Literal, Role, StoreError, TokenCounter};
use crate::store::{Outline, Part, ProtectedOutputs, ViewMessage};

/// Tokens of an output that was trimmed.
const TRIMMED: u64 = 12;
/// Bytes of all contents that are cut, as they are written: they stand in the log again.
const MOST_BYTES: usize = 256 << 10;
/// Messages that are made smaller at once: each is a part of the new view, of which there can be a few thousand.
const MOST_MESSAGES: usize = 1000;

/// What is to be done with messages that stay.
#[derive(Debug, Clone, Default)]
pub(super) struct Shrunk {
    trimmed: Vec<u64>,
    cut: BTreeMap<u64, (Json, u64)>,
    /// The place of what we said of ourselves, and what is said instead.
    renewed: Option<(u64, Literal)>,
    /// Tokens that are saved.
    pub(super) saved: u64,
}

/// A message that may be made smaller.
struct ShrinkCandidate {
    place: u64,
    tokens: u64,
    /// Whether it may be trimmed, once the model has answered it.
    is_output: bool,
}

/// Returns the tokens that a message has if its texts are cut as short as can be. What is no text, as images, stays.
pub(super) fn least(seen: &ViewMessage<'_>, counter: TokenCounter) -> u64 {
    let shown = &seen.shown;
    if seen.kind.is_some() || shown.tool_calls.is_some() || shown.tokens <= LEAST {
        return shown.tokens;
    }
    let beside = match shown.content {
        Some(content) if is_text(content) => 0,
        Some(content) => shown.tokens.saturating_sub(text_tokens(content, counter)),
        None => return shown.tokens,
    };
    shown.tokens.min(beside + LEAST)
}

impl Shrunk {
    /// Makes messages at some places smaller, until so many tokens are saved.
    pub(super) fn shrink(
        outline: &Outline,
        policy: &OutputPolicy,
        keep: &[Range<u64>],
        current_request: Option<CurrentRequest>,
        need: u64,
    ) -> Result<Self, StoreError> {
        let mut shrunk = Self::default();
        if need == 0 {
            return Ok(shrunk);
        }
        // Results behind the model's last message are new to it.
        let (mut messages, mut answered, mut protected) = (Vec::new(), 0, ProtectedOutputs::new(policy));
        each(outline, keep, &mut |place, kept, seen| {
            let is_protected = protected.see(seen);
            if seen.kind.is_some() {
                return;
            }
            if seen.shown.role == Role::Assistant {
                answered = place;
            }
            // The last message of the user is shortened only if it alone is too large.
            if kept && current_request.is_none_or(|current_request| current_request.place != place) {
                let is_output = seen.shown.role == Role::Tool && seen.shown.tokens > TRIMMED && !is_protected;
                messages.push(ShrinkCandidate { place, tokens: seen.shown.tokens, is_output });
            }
        })?;
        // What is too long of the last message of the user need not be saved elsewhere.
        let surplus = current_request
            .map_or(0, |current_request| current_request.tokens.saturating_sub(current_request.most));
        let need = need.saturating_sub(surplus);
        let answered = messages.iter_mut().filter(|message| message.is_output && message.place < answered);
        for message in answered.take(MOST_MESSAGES) {
            if shrunk.saved >= need {
                break;
            }
            shrunk.saved += message.tokens - TRIMMED;
            shrunk.trimmed.push(message.place);
            message.tokens = TRIMMED;
        }
        if shrunk.saved < need || surplus > 0 {
            shrunk.cut_contents(outline, keep, &messages, current_request, need)?;
        }
        Ok(shrunk)
    }

    /// Cuts the longest contents to one length that saves enough.
    fn cut_contents(
        &mut self,
        outline: &Outline,
        keep: &[Range<u64>],
        messages: &[ShrinkCandidate],
        current_request: Option<CurrentRequest>,
        need: u64,
    ) -> Result<(), StoreError> {
        let (mut low, mut high) = (LEAST, messages.iter().map(|message| message.tokens).max().unwrap_or(0));
        while low < high {
            let most = low + (high - low).div_ceil(2);
            let saved: u64 = messages.iter().map(|message| message.tokens.saturating_sub(most)).sum();
            if self.saved + saved >= need { low = most } else { high = most - 1 }
        }
        let most = low;
        let longer = 1 + messages.iter().filter(|message| message.tokens > most).count();
        let (counter, bytes) = (outline.counter, MOST_BYTES / longer);
        let (trimmed, cut, saved) = (&self.trimmed, &mut self.cut, &mut self.saved);
        each(outline, keep, &mut |place, kept, seen| {
            // What is not in the log cannot be looked up there.
            let may = kept && seen.kind.is_none() && trimmed.binary_search(&place).is_err();
            let most = current_request
                .filter(|current_request| current_request.place == place)
                .map_or(most, |current_request| current_request.most);
            if !may || seen.shown.tokens <= most {
                return;
            }
            if trimmed.len() + cut.len() >= MOST_MESSAGES {
                return;
            }
            if let Some((content, tokens)) = shorten(seen, most, bytes, counter) {
                *saved += seen.shown.tokens - tokens;
                cut.insert(place, (content, tokens));
            }
        })
    }

    /// Says something else at the place of what we said of ourselves.
    pub(super) fn renew(&mut self, place: u64, literal: Literal) {
        self.renewed = Some((place, literal));
    }

    /// Whether it does.
    pub(super) fn renews(&self) -> bool {
        self.renewed.is_some()
    }

    /// Leaves groups as they are after all.
    pub(super) fn spare(&mut self, groups: &[(Range<u64>, u64)]) {
        let is_spared = |place: u64| groups.iter().any(|(places, _)| places.contains(&place));
        self.trimmed.retain(|place| !is_spared(*place));
        self.cut.retain(|place, _| !is_spared(*place));
    }

    /// The messages at some places, as parts of a new view.
    pub(super) fn parts(&self, places: Range<u64>, parts: &mut Vec<Part>) {
        let mut from = places.start;
        for place in places.clone() {
            let Some(part) = self.part(place) else { continue };
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

impl Shrunk {
    /// What a message becomes; none if it stays as it is.
    fn part(&self, place: u64) -> Option<Part> {
        if self.trimmed.binary_search(&place).is_ok() {
            return Some(Part::Trim(place..place + 1));
        }
        if let Some((_, literal)) = self.renewed.as_ref().filter(|(renewed, _)| *renewed == place) {
            return Some(Part::Literal(literal.clone()));
        }
        let (content, tokens) = self.cut.get(&place).cloned()?;
        Some(Part::Replace { place, content, tokens })
    }
}

/// Goes over all messages; says of each whether it is at one of the places.
fn each(
    outline: &Outline,
    places: &[Range<u64>],
    take: &mut dyn FnMut(u64, bool, &ViewMessage<'_>),
) -> Result<(), StoreError> {
    let (mut place, mut places) = (0, places.iter().peekable());
    outline.each(&mut |seen| {
        while places.next_if(|range| range.end <= place).is_some() {}
        take(place, places.peek().is_some_and(|range| range.contains(&place)), seen);
        place += 1;
    })
}
