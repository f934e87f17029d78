//! The end of a view: the newest groups, as many as fit.

use std::collections::VecDeque;
use std::ops::Range;

use super::Group;

/// The newest groups within a bound. The newest one stays, whatever its size.
#[derive(Debug, Default)]
pub(super) struct Tail {
    groups: VecDeque<(Range<u64>, u64)>,
    messages: u64,
    tokens: u64,
}

impl Tail {
    /// Takes one more, and lets go of the oldest as long as `spare` says of what would be left (messages, tokens) that
    /// they are not needed.
    pub(super) fn push(&mut self, group: &Group, spare: impl Fn(u64, u64) -> bool) {
        self.groups.push_back((group.places(), group.tokens));
        self.messages += group.messages;
        self.tokens = self.tokens.saturating_add(group.tokens);
        while let Some((places, tokens)) = self.groups.front().filter(|_| self.groups.len() > 1) {
            let messages = self.messages - (places.end - places.start);
            let left = self.tokens - tokens;
            if !spare(messages, left) {
                break;
            }
            (self.messages, self.tokens) = (messages, left);
            self.groups.pop_front();
        }
    }

    /// Lets go of the oldest while there are more than so many tokens.
    pub(super) fn cut(&mut self, most: u64) {
        while self.tokens > most && self.groups.len() > 1 {
            let Some((places, tokens)) = self.groups.pop_front() else { break };
            self.messages -= places.end - places.start;
            self.tokens -= tokens;
        }
    }

    /// Lets go of the oldest while all are larger than that by some measure of (messages, tokens).
    pub(super) fn cut_by(&mut self, most: u64, measure: impl Fn(u64, u64) -> u64) {
        let size = |(places, tokens): &(Range<u64>, u64)| measure(places.end - places.start, *tokens);
        let mut whole: u64 = self.groups.iter().map(size).sum();
        while whole > most && self.groups.len() > 1 {
            let Some(oldest) = self.groups.pop_front() else { break };
            whole -= size(&oldest);
            self.messages -= oldest.0.end - oldest.0.start;
            self.tokens -= oldest.1;
        }
    }

    /// Where it begins.
    pub(super) fn first(&self) -> Option<u64> {
        self.groups.front().map(|(places, _)| places.start)
    }

    /// Its messages, from some place on: neighbours together.
    pub(super) fn places(&self, from: u64) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        for (places, _) in self.groups.iter().filter(|(places, _)| places.start >= from) {
            join(&mut ranges, places.clone());
        }
        ranges
    }
}

/// Adds a range behind others, to the last one if it goes on there.
pub(super) fn join(ranges: &mut Vec<Range<u64>>, next: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => ranges.push(next),
    }
}
