//! What is to stay of a view and what is to go: the groups of an outline, as a strategy chooses among them.

use std::ops::Range;

use super::budget::{Counted, current_request_budget};
use super::plan_note::EarlierPlanNote;
use super::{literals, shrink};
use crate::context::{
    Choose, Gone, Group, Keywords, NOTE, Policy, Staying, Strategy, Whole, chooser, plain_text,
};
use crate::model::{LiteralKind, Role, StoreError};
use crate::store::{Outline, ViewMessage};

/// Why a group has to stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FixedReason {
    /// It is the system prompt.
    System,
    /// Somebody pinned it.
    Pinned,
    /// It comes from an earlier task.
    Inherited,
    /// Its calls wait for results.
    Open,
    /// A summary, where none is to be made.
    Summary,
}

/// A group that has to stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FixedGroup {
    pub(super) reason: FixedReason,
    pub(super) places: Range<u64>,
    pub(super) tokens: u64,
}

/// The last message of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CurrentRequest {
    pub(super) place: u64,
    pub(super) tokens: u64,
    /// The tokens that it keeps: all, unless it alone is too large.
    pub(super) most: u64,
}

/// What is to become of a view.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    /// Groups that have to stay, in order.
    pub(super) fixed: Vec<FixedGroup>,
    /// What the strategy keeps beside them: places, rising, apart.
    pub(super) keep: Vec<Range<u64>>,
    /// The last message of the user, unless it has to stay for another reason. The strategy keeps it.
    pub(super) current_request: Option<CurrentRequest>,
    /// What becomes of the others.
    pub(super) gone: Gone,
    /// Messages of the view.
    pub(super) messages: u64,
    /// The first place of calls that wait for results; none if there are no such calls.
    pub(super) open_from: Option<u64>,
    /// The message of the log before these.
    pub(super) covers: u64,
    /// The plan that the view has.
    pub(super) plan_note: Option<EarlierPlanNote>,
    /// Places of system and developer messages that are no part of the system prompt, rising.
    late: Vec<u64>,
}

impl Selection {
    /// Looks at all groups and lets a strategy choose. `plan_tokens` are those of the plan that is put into the view.
    pub(super) fn make(
        outline: &Outline,
        policy: &Policy,
        strategy: Strategy,
        whole: Whole,
        plan_tokens: u64,
    ) -> Result<Self, StoreError> {
        let mut reader = GroupReader {
            outline,
            strategy,
            keywords: (strategy == Strategy::Prune).then(|| Keywords::new(&policy.scoring)),
            chooser: chooser(policy, strategy, whole),
            place: 0,
            leading: true,
            last_seq: 0,
            current: None,
            fixed: Vec::new(),
            current_request: None,
            plan_note: None,
            late: Vec::new(),
        };
        outline.each(&mut |seen| reader.see(seen))?;
        let last = reader.current.take();
        let (mut open_from, mut covers) = (None, outline.last_seq);
        if let Some(mut last) = last {
            if last.calls && !outline.closed {
                last.fixed = Some(FixedReason::Open);
                open_from = Some(last.group.first);
                // After a rewind into it, they are among what a rewrite speaks for, and that cannot end before them.
                covers = last.before.max(outline.covered());
            }
            reader.end(&last);
        }
        let GroupReader { chooser, place, fixed, current_request, plan_note, late, .. } = reader;
        let stays = fixed.iter().map(|stays| stays.tokens).sum::<u64>();
        let most = |group: &Group| {
            let staying = Counted(stays + plan_tokens);
            let most = current_request_budget((policy, strategy), outline, staying, Counted(group.tokens));
            most.0.max(group.least)
        };
        let current_request = current_request.map(|group| Group { least: most(&group), ..group });
        let choice = chooser.choose(&Staying {
            tokens: stays + notes_around(&fixed, strategy) + plan_tokens,
            current_request,
            has_open_calls: open_from.is_some(),
        });
        let (keep, gone) = (choice.keep, choice.gone);
        let current_request = current_request.map(|Group { first, tokens, least, .. }| CurrentRequest {
            place: first,
            tokens,
            most: least,
        });
        Ok(Self { fixed, keep, current_request, gone, messages: place, open_from, covers, plan_note, late })
    }

    /// The place of the first pinned system or developer message that is no part of the system prompt.
    pub(super) fn first_late(&self) -> Option<u64> {
        let is_late = |stays: &&FixedGroup| self.late.binary_search(&stays.places.start).is_ok();
        self.fixed.iter().filter(is_late).map(|stays| stays.places.start).min()
    }

    /// Tokens of what has to stay.
    pub(super) fn fixed_tokens(&self) -> u64 {
        self.fixed.iter().map(|stays| stays.tokens).sum()
    }

    /// Returns the tokens of what has to stay and of the last message of the user.
    pub(super) fn fixed_and_current(&self) -> u64 {
        self.fixed_tokens() + self.current_request.map_or(0, |current_request| current_request.most)
    }

    /// Everything that stays: places, rising, apart.
    pub(super) fn ranges(&self) -> Vec<Range<u64>> {
        let fixed = self.fixed.iter().map(|stays| stays.places.clone());
        let mut all: Vec<Range<u64>> = fixed.chain(self.keep.iter().cloned()).collect();
        all.sort_unstable_by_key(|places| places.start);
        all
    }

    /// Where what stays for being the newest begins.
    pub(super) fn tail_from(&self) -> u64 {
        let tail = self.keep.first().map(|places| places.start);
        tail.into_iter().chain(self.open_from).min().unwrap_or(self.messages)
    }

    /// Nothing goes.
    pub(super) fn keep_all(&mut self) {
        let mut keep = Vec::new();
        let mut from = 0;
        for stays in &self.fixed {
            if from < stays.places.start {
                keep.push(from..stays.places.start);
            }
            from = stays.places.end;
        }
        if from < self.messages {
            keep.push(from..self.messages);
        }
        self.keep = keep;
    }

    /// The groups of some messages of the log, with their tokens.
    pub(super) fn groups_of(
        &self,
        outline: &Outline,
        seqs: &[u64],
    ) -> Result<Vec<(Range<u64>, u64)>, StoreError> {
        let mut found: Vec<(Range<u64>, u64)> = Vec::new();
        let (mut place, mut group, mut tokens, mut calls, mut wanted) = (0, 0..0, 0, false, false);
        outline.each(&mut |seen| {
            let shown = &seen.shown;
            if !(calls && shown.role == Role::Tool) {
                if wanted {
                    found.push((group.clone(), tokens));
                }
                (group, tokens, wanted) = (place..place, 0, false);
                calls = shown.role == Role::Assistant && shown.tool_calls.is_some();
            }
            group.end = place + 1;
            tokens += shown.tokens;
            wanted |= shown.seq > 0 && seqs.contains(&shown.seq);
            place += 1;
        })?;
        if wanted {
            found.push((group, tokens));
        }
        Ok(found)
    }

    /// Keeps the groups of some messages too, if they were to go and if there is room. Answers their tokens.
    pub(super) fn keep_too(&mut self, groups: &[(Range<u64>, u64)], room: u64) -> u64 {
        let mut used = 0;
        for (places, tokens) in groups {
            let known =
                self.ranges().iter().any(|stays| stays.start <= places.start && places.end <= stays.end);
            if !known && used + tokens <= room {
                used += tokens;
                self.fixed.push(FixedGroup {
                    reason: FixedReason::Pinned,
                    places: places.clone(),
                    tokens: *tokens,
                });
            }
        }
        self.fixed.sort_unstable_by_key(|stays| stays.places.start);
        used
    }
}

/// Tokens of notes that groups that have to stay may have beside them.
fn notes_around(fixed: &[FixedGroup], strategy: Strategy) -> u64 {
    if strategy != Strategy::Prune {
        return 0;
    }
    let partition = fixed.windows(2).filter(|pair| pair[0].places.end < pair[1].places.start).count();
    NOTE * (partition as u64 + 1)
}

/// A group that is being put together.
struct OpenGroup {
    group: Group,
    calls: bool,
    /// Whether it is a message of the user, and not one that stands for something else.
    is_user_message: bool,
    /// Whether a new note takes its place.
    is_replaced_note: bool,
    fixed: Option<FixedReason>,
    /// The message of the log before it.
    before: u64,
}

struct GroupReader<'a> {
    outline: &'a Outline,
    strategy: Strategy,
    keywords: Option<Keywords>,
    chooser: Box<dyn Choose>,
    place: u64,
    /// Whether nothing but the system prompt came so far.
    leading: bool,
    last_seq: u64,
    current: Option<OpenGroup>,
    fixed: Vec<FixedGroup>,
    /// The last message of the user, unless it has to stay for another reason.
    current_request: Option<Group>,
    plan_note: Option<EarlierPlanNote>,
    late: Vec<u64>,
}

impl GroupReader<'_> {
    fn see(&mut self, seen: &ViewMessage<'_>) {
        let shown = &seen.shown;
        let content = self.keywords.as_ref().map_or(0.0, |keywords| {
            keywords.score(shown.role, &plain_text(shown.content.unwrap_or_default()))
        });
        let pinned = shown.seq > 0 && self.outline.pins.contains(&shown.seq);
        let least = shrink::least(seen, self.outline.counter);
        let (place, before) = (self.place, self.last_seq);
        self.place += 1;
        self.last_seq = self.last_seq.max(shown.seq);
        if let Some(current) =
            self.current.as_mut().filter(|current| current.calls && shown.role == Role::Tool)
        {
            current.group.messages += 1;
            current.group.tokens = current.group.tokens.saturating_add(shown.tokens);
            current.group.least = current.group.least.saturating_add(least);
            current.group.content = current.group.content.max(content);
            if pinned {
                current.fixed = Some(FixedReason::Pinned);
            }
            return;
        }
        if let Some(done) = self.current.take() {
            self.end(&done);
        }
        if seen.kind == Some(LiteralKind::Note)
            && let Some(text) = literals::read_plan(&plain_text(shown.content.unwrap_or_default()))
        {
            self.plan_note = Some(EarlierPlanNote { place, tokens: shown.tokens, text: text.to_owned() });
        }
        let prompt = matches!(shown.role, Role::System | Role::Developer) && seen.kind.is_none();
        self.leading &= prompt || seen.kind == Some(LiteralKind::Inherited);
        if prompt && !self.leading {
            self.late.push(place);
        }
        let fixed = match seen.kind {
            None if prompt && self.leading => Some(FixedReason::System),
            None if pinned => Some(FixedReason::Pinned),
            Some(LiteralKind::Inherited) => Some(FixedReason::Inherited),
            // They hold what is known of messages that are gone already.
            Some(LiteralKind::Summary | LiteralKind::Retain)
                if matches!(self.strategy, Strategy::Prune | Strategy::Window) =>
            {
                Some(FixedReason::Summary)
            }
            _ => None,
        };
        let group = Group {
            first: place,
            messages: 1,
            tokens: shown.tokens,
            least,
            role: shown.role,
            kind: seen.kind,
            content,
        };
        let calls = shown.role == Role::Assistant && shown.tool_calls.is_some();
        let is_result = || shown.content.is_some_and(literals::is_stray_result);
        let is_user_message = shown.role == Role::User && seen.kind.is_none() && !is_result();
        let is_replaced_note = match seen.kind {
            Some(LiteralKind::Note) => true,
            // Neighbouring notes become one.
            Some(LiteralKind::Gap) => matches!(self.strategy, Strategy::Prune | Strategy::Window),
            Some(LiteralKind::Summary | LiteralKind::Retain | LiteralKind::Inherited) | None => false,
        };
        let current = OpenGroup { group, calls, is_user_message, is_replaced_note, fixed, before };
        self.current = Some(current);
    }

    fn end(&mut self, done: &OpenGroup) {
        if done.is_user_message {
            self.current_request = done.fixed.is_none().then_some(done.group);
        }
        match done.fixed {
            Some(reason) => {
                let stays = FixedGroup { reason, places: done.group.places(), tokens: done.group.tokens };
                self.fixed.push(stays);
            }
            None if done.is_replaced_note => {}
            None => self.chooser.look(&done.group),
        }
    }
}
