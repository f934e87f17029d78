//! `prune`: the best groups stay, by recency, speaker and content.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use aho_corasick::AhoCorasick;

use super::tail::join;
use super::{Choice, Choose, Gone, Group, Whole};
use crate::context::{Policy, Scoring};
use crate::model::Role;

/// Groups that are held at once, at most.
const MOST_GROUPS: usize = 1 << 16;
/// Places in which something may be missing: each takes room in the log.
const MOST_RANGES: usize = 1000;

/// Tokens of a note that says how many are missing.
pub const NOTE: u64 = 12;

/// Markers of agents' own frameworks for what is important.
const MARKERS: [&str; 3] = ["[SYSTEM:", "[User", "[TASK"];
const APPROVALS: [&str; 2] = ["duck_call", "approval"];

/// Finds what makes a message count more.
#[derive(Debug)]
pub struct Keywords {
    /// `None` if there are none, or too many to be looked for.
    words: Option<AhoCorasick>,
    short_length: u64,
    short_penalty: f64,
}

impl Keywords {
    /// Those that are configured.
    pub fn new(scoring: &Scoring) -> Self {
        let words: Vec<&str> = scoring.keywords.iter().map(String::as_str).collect();
        let made = AhoCorasick::builder().ascii_case_insensitive(true).build(&words);
        Self {
            words: made.ok().filter(|_| !words.is_empty()),
            short_length: scoring.short_length,
            short_penalty: scoring.short_penalty,
        }
    }

    /// How much a text counts, from 0 to 1.
    pub fn score(&self, role: Role, text: &str) -> f64 {
        let mut score: f64 = 0.0;
        if self.words.as_ref().is_some_and(|words| words.is_match(text)) {
            score += 0.3;
        }
        if role == Role::Tool || text.contains("[Tool:") {
            score += 0.25;
        }
        if MARKERS.iter().any(|marker| text.contains(marker)) {
            score += 0.2;
        }
        if APPROVALS.iter().any(|word| text.contains(word)) {
            score += 0.3;
        }
        let short = text.chars().take(usize::try_from(self.short_length).unwrap_or(usize::MAX)).count();
        if (short as u64) < self.short_length {
            score *= self.short_penalty;
        }
        score.min(1.0)
    }
}

/// A group that may stay, ordered by how much it counts, and the newer one first among equals.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    score: u64,
    places: (u64, u64),
    tokens: u64,
}

pub(super) struct Prune {
    weights: [f64; 3],
    roles: [f64; 5],
    messages: u64,
    goal: u64,
    best: BinaryHeap<Reverse<Candidate>>,
    tokens: u64,
}

impl Prune {
    pub(super) fn new(policy: &Policy, whole: Whole) -> Self {
        Self {
            weights: policy.prune_weights,
            roles: policy.scoring.roles,
            messages: whole.messages,
            goal: whole.goal,
            best: BinaryHeap::new(),
            tokens: 0,
        }
    }

    fn score(&self, group: &Group) -> f64 {
        let role = match group.role {
            Role::User => 0,
            Role::Assistant => 1,
            Role::Tool => 2,
            Role::System | Role::Developer => 3,
        };
        #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits than an f64 has")]
        let recency = group.first as f64 / self.messages.saturating_sub(1).max(1) as f64;
        let [by_recency, by_role, by_content] = self.weights;
        (recency.min(1.0) * by_recency + self.roles[role] * by_role + group.content * by_content)
            .clamp(0.0, 1.0)
    }

    fn shrink(&mut self, most: u64) {
        while self.tokens > most || self.best.len() > MOST_GROUPS {
            if !self.drop_worst() {
                break;
            }
        }
    }

    fn drop_worst(&mut self) -> bool {
        let worst = self.best.pop();
        if let Some(Reverse(worst)) = &worst {
            self.tokens -= worst.tokens;
        }
        worst.is_some()
    }
}

impl Choose for Prune {
    fn look(&mut self, group: &Group) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a score is from 0 to 1")]
        let score = (self.score(group) * 1e9) as u64;
        let places = group.places();
        self.best.push(Reverse(Candidate {
            score,
            places: (places.start, places.end),
            tokens: group.tokens,
        }));
        self.tokens = self.tokens.saturating_add(group.tokens);
        self.shrink(self.goal);
    }

    fn choose(mut self: Box<Self>, fixed: u64) -> Choice {
        let room = self.goal.saturating_sub(fixed);
        self.shrink(room);
        loop {
            let keep = in_order(&self.best);
            // A note stands before, between and behind them.
            let notes = NOTE * (keep.len() as u64 + 1);
            let fits = self.tokens.saturating_add(notes) <= room && keep.len() <= MOST_RANGES;
            if fits || keep.is_empty() {
                return Choice { keep, gone: Gone::Gaps };
            }
            if keep.len() > MOST_RANGES {
                // The worst tenth goes.
                for _ in 0..self.best.len().div_ceil(10) {
                    self.drop_worst();
                }
            }
            self.shrink(room.saturating_sub(notes));
        }
    }
}

fn in_order(groups: &BinaryHeap<Reverse<Candidate>>) -> Vec<Range<u64>> {
    let mut places: Vec<(u64, u64)> = groups.iter().map(|Reverse(group)| group.places).collect();
    places.sort_unstable();
    let mut ranges = Vec::new();
    for (from, to) in places {
        join(&mut ranges, from..to);
    }
    ranges
}
