//! `prune`: the best groups stay, by recency, speaker and content; what the model has not answered yet stays in any case.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use aho_corasick::AhoCorasick;

use super::tail::Tail;
use super::{Choice, Choose, Gone, Group, Staying, Whole};
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

/// What `prune` orders groups by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rank {
    /// Their score.
    #[default]
    Score,
    /// Their score for the room that they take, divided by the square root of their tokens.
    Density,
}

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
        if APPROVALS.iter().any(|word| contains_ignoring_case(text, word)) {
            score += 0.3;
        }
        let short = text.chars().take(usize::try_from(self.short_length).unwrap_or(usize::MAX)).count();
        if (short as u64) < self.short_length {
            score *= self.short_penalty;
        }
        score.min(1.0)
    }
}

/// Whether a text has a word of ASCII letters, in whatever case.
fn contains_ignoring_case(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
}

/// A group that may stay, ordered by its rank, and the newer one first among equals.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u64,
    places: (u64, u64),
    tokens: u64,
}

pub(super) struct Prune {
    weights: [f64; 3],
    roles: [f64; 5],
    rank_by: Rank,
    messages: u64,
    goal: u64,
    /// The last that the model said, with its results, and what came since.
    newest: Tail,
    best: BinaryHeap<Reverse<Candidate>>,
}

impl Prune {
    pub(super) fn new(policy: &Policy, whole: Whole) -> Self {
        Self {
            weights: policy.prune_weights,
            roles: policy.scoring.roles,
            rank_by: policy.scoring.rank,
            messages: whole.messages,
            goal: whole.goal,
            newest: Tail::default(),
            best: BinaryHeap::new(),
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

    /// Returns how much a group counts: its score, or, if the server ranks by density, that for the room it takes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a score is from 0 to 1, and tokens are far below 2^52"
    )]
    fn rank(&self, group: &Group) -> u64 {
        let room = match self.rank_by {
            Rank::Score => 1.0,
            Rank::Density => ((group.tokens + NOTE) as f64).sqrt(),
        };
        (self.score(group) * 1e9 / room) as u64
    }
}

impl Choose for Prune {
    fn look(&mut self, group: &Group) {
        let places = group.places();
        if group.role == Role::Assistant {
            self.newest = Tail::default();
        }
        self.newest.push(group, |_, _| false);
        self.newest.cut(self.goal);
        if group.tokens > self.goal {
            return;
        }
        let rank = self.rank(group);
        self.best.push(Reverse(Candidate { rank, places: (places.start, places.end), tokens: group.tokens }));
        if self.best.len() > MOST_GROUPS {
            self.best.pop();
        }
    }

    /// The best first, and each that still has room.
    fn choose(mut self: Box<Self>, staying: &Staying) -> Choice {
        self.newest.keep(staying);
        let room = self.goal.saturating_sub(staying.tokens);
        self.newest.cut(room);
        let newest = self.newest.all().into_iter().map(|places| (places.start, places.end));
        let mut kept = Ranges { ranges: newest.collect(), tokens: self.newest.tokens() };
        let newest_from = self.newest.first().unwrap_or(u64::MAX);
        // Sorted by what is reversed: the best come first.
        for Reverse(group) in self.best.into_sorted_vec() {
            let is_kept = staying.current_request.is_some_and(|request| request.first == group.places.0);
            if group.places.0 < newest_from && !is_kept {
                kept.add_within(&group, room);
            }
        }
        Choice { keep: kept.ranges.into_iter().map(|(from, to)| from..to).collect(), gone: Gone::Gaps }
    }
}

/// What stays, with the notes that stand before, between and behind it.
#[derive(Debug, Default)]
struct Ranges {
    ranges: BTreeMap<u64, u64>,
    tokens: u64,
}

impl Ranges {
    /// Adds a group if it has room.
    fn add_within(&mut self, group: &Candidate, room: u64) {
        let (mut from, mut to) = group.places;
        let before =
            self.ranges.range(..from).next_back().filter(|(_, end)| **end == from).map(|(start, _)| *start);
        let behind = self.ranges.get(&to).copied();
        let count = self.ranges.len() + 1 - usize::from(before.is_some()) - usize::from(behind.is_some());
        let tokens = self.tokens.saturating_add(group.tokens);
        if tokens.saturating_add(NOTE * (count as u64 + 1)) > room || count > MOST_RANGES {
            return;
        }
        if let Some(end) = behind {
            self.ranges.remove(&to);
            to = end;
        }
        from = before.unwrap_or(from);
        self.ranges.insert(from, to);
        self.tokens = tokens;
    }
}
