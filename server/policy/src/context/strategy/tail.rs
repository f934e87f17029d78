//! The end of a view: the newest groups, as many as fit.

use std::collections::VecDeque;
use std::ops::Range;

use super::{Group, Staying};

/// The newest groups within a bound, and the last message of the user. The newest group stays, whatever its size.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Whether calls that wait for results are the newest group.
    has_open_calls: bool,
    /// The last message of the user.
    request: Option<Kept>,
    groups: VecDeque<Kept>,
    messages: u64,
    tokens: u64,
}

#[derive(Debug, Clone)]
struct Kept {
    places: Range<u64>,
    tokens: u64,
    least: u64,
}

impl Tail {
    /// Takes one more, and lets go of the oldest as long as `spare` says of what would be left (messages, tokens) that
    /// they are not needed.
    pub(super) fn push(&mut self, group: &Group, spare: impl Fn(u64, u64) -> bool) {
        let (tokens, least) = (group.tokens, group.least);
        self.groups.push_back(Kept { places: group.places(), tokens, least });
        self.messages += group.messages;
        self.tokens = self.tokens.saturating_add(tokens);
        while let Some(oldest) = self.groups.front().filter(|_| self.groups.len() > 1) {
            let messages = self.messages - (oldest.places.end - oldest.places.start);
            if !spare(messages, self.tokens - oldest.tokens) {
                break;
            }
            self.drop_oldest();
        }
    }

    /// Keeps the last message of the user, also where the newest groups do not reach back to it.
    pub(super) fn keep(&mut self, staying: &Staying) {
        self.has_open_calls = staying.has_open_calls;
        let kept = |group: Group| Kept { places: group.places(), tokens: group.tokens, least: group.least };
        self.request = staying.current_request.map(kept);
        if let Some(request) = &self.request
            && let Some(same) = self.groups.iter_mut().find(|kept| kept.places == request.places)
        {
            same.least = request.least;
        }
    }

    /// Lets go of all groups, but for the last message of the user.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
        (self.messages, self.tokens) = (0, 0);
    }

    /// Returns the last message of the user, if it stands before the newest groups.
    fn request_before(&self) -> Option<&Kept> {
        let first = self.first().unwrap_or(u64::MAX);
        self.request.as_ref().filter(|request| request.places.start < first)
    }

    /// Lets go of the oldest while there are more than so many tokens.
    pub(super) fn cut(&mut self, most: u64) {
        while self.tokens() > most && self.may_drop() {
            self.drop_oldest();
        }
    }

    /// Lets go of the oldest while there are more than so many tokens even if all are made as small as can be.
    pub(super) fn cut_hard(&mut self, most: u64) {
        let mut least: u64 = self.groups.iter().map(|group| group.least).sum();
        let request = |tail: &Self| tail.request_before().map_or(0, |request| request.least);
        while least + request(self) > most && self.may_drop() {
            least -= self.drop_oldest();
        }
    }

    /// Says whether the oldest is not the newest group of the view.
    fn may_drop(&self) -> bool {
        self.groups.len() > usize::from(!self.has_open_calls)
    }

    /// Answers what it could have been made to.
    fn drop_oldest(&mut self) -> u64 {
        let Some(Kept { places, tokens, least }) = self.groups.pop_front() else { return 0 };
        self.messages -= places.end - places.start;
        self.tokens -= tokens;
        least
    }

    /// Their tokens, with those of the last message of the user.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens.saturating_add(self.request_before().map_or(0, |request| request.tokens))
    }

    /// Where it begins.
    pub(super) fn first(&self) -> Option<u64> {
        self.groups.front().map(|group| group.places.start)
    }

    /// Returns all that stays: the last message of the user and the newest groups.
    pub(super) fn all(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> =
            self.request_before().map(|request| request.places.clone()).into_iter().collect();
        for places in self.places(0) {
            join(&mut ranges, places);
        }
        ranges
    }

    /// Its messages, from some place on: neighbours together.
    pub(super) fn places(&self, from: u64) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        for group in self.groups.iter().filter(|group| group.places.start >= from) {
            join(&mut ranges, group.places.clone());
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
