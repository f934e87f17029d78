//! Outputs of tools have a budget of tokens in the view: when they pass it, the oldest become notes that name their refs. The
//! log keeps them.

use std::collections::BTreeSet;

use crate::context::OutputPolicy;
use crate::log::{Digest, TRIMMED_TOKENS, ViewMessage, ViewWalk};
use crate::model::TaskId;
use crate::model::json::{field, items};
use crate::model::{NewMessage, Rewrite, Role, Segment, Status, StoreError};
use crate::store::Store;

use super::outline::push;
use super::{Caller, Inner, NewRewrite, Outline, Task};

/// The part of the budget that is left, as each rewrite breaks prompt caches: a third of it.
const LEAVE: u64 = 3;
/// The part of the limit below which nothing is trimmed: half of it.
const FROM: u64 = 2;
/// Outputs that may stay among trimmed ones: each of them is named in the rewrite.
const MOST_KEPT: usize = 32 << 10;

/// The outcome of a trim, in calibrated tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrimOutcome {
    /// Outputs that became notes.
    pub trimmed: u64,
    /// Tokens of outputs in the view before.
    pub tokens_before: u64,
    /// The same now.
    pub tokens_after: u64,
    /// The generation of the view.
    pub generation: u64,
    /// Whether a call with the same id had done it before.
    pub duplicate: bool,
}

impl Task {
    /// Returns whether a message that was just written makes it worth a try.
    pub(super) fn is_trimming_due_by(&self, inner: &Inner, message: &NewMessage) -> bool {
        message.role == Role::Tool && self.is_trimming_due(inner)
    }

    fn is_trimming_due(&self, inner: &Inner) -> bool {
        let Some(view) = inner.view.state() else { return false };
        let (policy, tally) = (inner.context.policy(), &inner.log.state().tally);
        let present = tally.calibrated(view.tokens.saturating_add(inner.tools_tokens()));
        present >= policy.limit / FROM
            && inner.context.outputs.is_due(&policy.outputs, view.output_tokens, tally.calibration)
            && inner.log.state().status == Status::Running
            && !inner.rewriting
    }

    fn trim(
        &self,
        look: &Outline,
        chosen: &TrimSelection,
        caller: &Caller,
        digest: Digest,
    ) -> Result<TrimOutcome, StoreError> {
        let tokens_before = look.told_outputs(look.output_tokens);
        let rewrite = NewRewrite {
            strategy: "trim".to_owned(),
            base: look.generation,
            covers: chosen.covers,
            reason: format!("outputs of {tokens_before} tokens"),
            segments: look.trimmed_segments(chosen),
            summaries: Vec::new(),
        };
        let generation =
            self.run_rewrite(caller, digest, Some(&look.pins), |task, inner| task.plan(inner, &rewrite))?;
        self.note_look(look, chosen);
        let tokens_after = look.told_outputs(chosen.left);
        let trimmed = chosen.trimmed;
        Ok(TrimOutcome { trimmed, tokens_before, tokens_after, generation, duplicate: false })
    }

    fn note_look(&self, look: &Outline, chosen: &TrimSelection) {
        let exhausted = chosen.exhausted.then_some(look.last_seq);
        self.lock().context.outputs.note_scan(exhausted, chosen.kept_tokens);
    }
}

impl Outline {
    /// Returns what callers are told so many tokens of outputs are.
    fn told_outputs(&self, counted: u64) -> u64 {
        self.calibration.apply(counted)
    }

    /// The oldest outputs that have to go so that the rest has at most so many tokens.
    fn choose_outputs(&self, policy: &OutputPolicy, most: u64) -> Result<TrimSelection, StoreError> {
        let mut choosing = TrimSelector::new(self, policy, most);
        let mut walk = ViewWalk::new(self.source.clone(), self.newest.clone(), self.last_seq);
        while !choosing.is_done() && walk.step(|seen| choosing.see(seen))? {}
        let chosen = choosing.end();
        // A view of very many parts, or with large ones, stays as it is: what compresses it makes it simpler.
        let rewrite = Rewrite {
            ordinal: self.generation + 1,
            strategy: "trim".to_owned(),
            base: self.generation,
            parent: None,
            covers: chosen.covers,
            reason: String::new(),
            segments: self.trimmed_segments(&chosen),
        };
        let fits = rewrite.segments.len() <= Rewrite::MAX_SEGMENTS
            && rewrite.body().len() <= Rewrite::MAX_BYTES - ENVELOPE_BYTES;
        Ok(if fits { chosen } else { TrimSelection::nothing(self) })
    }

    /// The view as it is, with what was chosen trimmed.
    fn trimmed_segments(&self, chosen: &TrimSelection) -> Vec<Segment> {
        let mut all = self.newest.as_ref().map_or_else(Vec::new, Rewrite::segments_by_reference);
        if chosen.covers > self.covered() {
            all.push(Segment::keep(self.covered() + 1, chosen.covers));
        }
        let mut segments = Vec::new();
        for segment in all {
            match segment {
                Segment::Keep { from, to, trim_except } => {
                    let end = to.min(chosen.last);
                    if from <= end {
                        let except = chosen.kept_within(from, end);
                        push(&mut segments, Segment::Keep { from, to: end, trim_except: Some(except) });
                    }
                    let from = from.max(chosen.last + 1);
                    if from <= to {
                        let behind =
                            |except: Vec<u64>| except.into_iter().filter(|seq| *seq >= from).collect();
                        let trim_except = trim_except.map(behind);
                        push(&mut segments, Segment::Keep { from, to, trim_except });
                    }
                }
                Segment::Replace { seq, .. } if chosen.replaced.contains(&seq) => {
                    push(&mut segments, Segment::Keep { from: seq, to: seq, trim_except: Some(Vec::new()) });
                }
                Segment::Replace { .. } | Segment::Literal(_) | Segment::Earlier { .. } => {
                    segments.push(segment);
                }
            }
        }
        segments
    }
}

/// Of the largest line of a rewrite, for all but its segments: envelope, reason, request.
const ENVELOPE_BYTES: usize = 4 << 10;

/// Outputs that are to go: all up to a message, but for some.
#[derive(Debug)]
struct TrimSelection {
    /// The last of them; 0: there are none.
    last: u64,
    /// How many.
    trimmed: u64,
    /// Outputs that stay as they are, in order; those behind `last` do not matter.
    kept: Vec<u64>,
    /// Their tokens.
    kept_tokens: u64,
    /// Those to go whose content was replaced already.
    replaced: BTreeSet<u64>,
    /// Tokens of outputs that are left.
    left: u64,
    /// The last message that a rewrite speaks for: the one before a model's, so that it cuts no group.
    covers: u64,
    /// Whether nothing more could go.
    exhausted: bool,
}

impl TrimSelection {
    fn nothing(outline: &Outline) -> Self {
        Self {
            last: 0,
            trimmed: 0,
            kept: Vec::new(),
            kept_tokens: 0,
            replaced: BTreeSet::new(),
            left: outline.output_tokens,
            covers: outline.covered(),
            exhausted: true,
        }
    }

    fn kept_within(&self, from: u64, to: u64) -> Vec<u64> {
        let low = self.kept.partition_point(|seq| *seq < from);
        let high = self.kept.partition_point(|seq| *seq <= to);
        self.kept.get(low..high).map_or_else(Vec::new, <[u64]>::to_vec)
    }
}

/// Selects outputs to trim, message by message from the oldest. An output is decided on when the model has answered it.
struct TrimSelector<'a> {
    outline: &'a Outline,
    most: u64,
    /// Messages whose content was replaced.
    replaced: BTreeSet<u64>,
    chosen: TrimSelection,
    /// The outputs since the model's last message, with their tokens and whether they could go.
    waiting: Vec<(u64, u64, bool)>,
    /// Whether that message or one of them is pinned: then all of them stay.
    pinned: bool,
    protected: ProtectedOutputs<'a>,
}

impl<'a> TrimSelector<'a> {
    fn new(outline: &'a Outline, policy: &'a OutputPolicy, most: u64) -> Self {
        let segments = outline.newest.iter().flat_map(|newest| &newest.segments);
        let replaced = segments.filter_map(|segment| match segment {
            Segment::Replace { seq, .. } => Some(*seq),
            Segment::Keep { .. } | Segment::Literal(_) | Segment::Earlier { .. } => None,
        });
        Self {
            replaced: replaced.collect(),
            chosen: TrimSelection::nothing(outline),
            waiting: Vec::new(),
            pinned: false,
            protected: ProtectedOutputs::new(policy),
            outline,
            most,
        }
    }

    fn fits(&self) -> bool {
        self.outline.told_outputs(self.chosen.left) <= self.most
    }

    fn is_done(&self) -> bool {
        self.fits() || self.chosen.kept.len() >= MOST_KEPT
    }

    fn see(&mut self, seen: &ViewMessage<'_>) {
        let (shown, is_protected) = (&seen.shown, self.protected.see(seen));
        // What is not in the log is no output and answers none.
        if seen.kind.is_some() {
            return;
        }
        match shown.role {
            Role::Assistant => {
                self.decide(shown.seq);
                self.pinned = self.outline.pins.contains(&shown.seq);
            }
            Role::Tool if !shown.trimmed => {
                self.pinned |= self.outline.pins.contains(&shown.seq);
                let may = shown.tokens > TRIMMED_TOKENS && !is_protected;
                self.waiting.push((shown.seq, shown.tokens, may));
            }
            Role::Tool | Role::System | Role::Developer | Role::User => {}
        }
    }

    /// Decides on the outputs before a message of the model.
    fn decide(&mut self, answer: u64) {
        for (seq, tokens, may) in std::mem::take(&mut self.waiting) {
            if self.fits() {
                break;
            }
            let chosen = &mut self.chosen;
            if may && !self.pinned {
                (chosen.last, chosen.trimmed) = (seq, chosen.trimmed + 1);
                chosen.left = chosen.left.saturating_sub(tokens);
                chosen.covers = chosen.covers.max(answer - 1);
                if self.replaced.contains(&seq) {
                    chosen.replaced.insert(seq);
                }
            } else {
                chosen.kept.push(seq);
                chosen.kept_tokens += tokens;
            }
        }
    }

    fn end(mut self) -> TrimSelection {
        self.chosen.exhausted = !self.fits();
        self.chosen
    }
}

/// Finds the outputs of protected tools in a walk over a view.
#[derive(Debug)]
pub struct ProtectedOutputs<'a> {
    policy: &'a OutputPolicy,
    /// The calls of the model's last message by their ids.
    called: Vec<(String, String)>,
}

impl<'a> ProtectedOutputs<'a> {
    /// Begins before the first message.
    pub fn new(policy: &'a OutputPolicy) -> Self {
        Self { policy, called: Vec::new() }
    }

    /// Takes the next message; returns whether it is an output of a protected tool, which the message or its call names.
    pub fn see(&mut self, seen: &ViewMessage<'_>) -> bool {
        // What is not in the log is no output and calls nothing.
        if self.policy.protected_tools.is_empty() || seen.kind.is_some() {
            return false;
        }
        let shown = &seen.shown;
        if shown.role == Role::Assistant {
            self.called = shown.tool_calls.map(called).unwrap_or_default();
        }
        let given = || shown.tool_name.or(shown.name).and_then(text);
        let by_call = || {
            let id = text(shown.tool_call_id?)?;
            self.called.iter().find(|(called, _)| *called == id).map(|(_, name)| name.clone())
        };
        shown.role == Role::Tool && given().or_else(by_call).is_some_and(|name| self.policy.protects(&name))
    }
}

/// Returns the ids of calls, with the names of the tools.
fn called(calls: &str) -> Vec<(String, String)> {
    let pair = |call: &str| {
        let tool = field(call, "function").or_else(|| field(call, "custom"))?;
        Some((text(field(call, "id")?)?, text(field(tool, "name")?)?))
    };
    items(calls).into_iter().filter_map(pair).collect()
}

/// Parses a JSON string.
fn text(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

impl Store {
    /// Trims the oldest outputs of tools in a view, if they have passed their budget and it is worth a rewrite.
    pub fn trim_if_due(&self, id: TaskId) -> Result<Option<TrimOutcome>, StoreError> {
        let task = self.task(id)?;
        let (look, policy) = {
            let mut inner = task.lock();
            task.ensure_view(&mut inner);
            if !task.is_trimming_due(&inner) {
                return Ok(None);
            }
            (task.outline_locked(&mut inner)?, inner.context.policy().outputs.clone())
        };
        let budget = policy.budget_tokens;
        let chosen = look.choose_outputs(&policy, budget / LEAVE)?;
        let saved = look.told_outputs(look.output_tokens) - look.told_outputs(chosen.left);
        if chosen.trimmed == 0 || saved < policy.worth() {
            task.note_look(&look, &chosen);
            return Ok(None);
        }
        let caller = Caller { request_id: None, lease_generation: look.lease };
        task.trim(&look, &chosen, &caller, Digest::of(&["trim"])).map(Some)
    }

    /// Trims the oldest outputs of tools in a view until the rest has at most so many tokens; none: the task's own budget.
    pub fn trim_outputs(
        &self,
        id: TaskId,
        budget: Option<u64>,
        caller: &Caller,
    ) -> Result<TrimOutcome, StoreError> {
        let task = self.task(id)?;
        let asked = budget.map_or_else(|| "own".to_owned(), |budget| budget.to_string());
        let digest = Digest::of(&["trim", &asked]);
        if let Some(generation) = task.compressed_before(caller, digest)? {
            let usage = task.context_usage(None)?;
            let tokens = usage.calibration.apply(usage.output_tokens);
            let duplicate = true;
            let (tokens_before, tokens_after) = (tokens, tokens);
            return Ok(TrimOutcome { trimmed: 0, tokens_before, tokens_after, generation, duplicate });
        }
        let (look, policy) = {
            let mut inner = task.lock();
            task.check_writable(&inner)?;
            task.check_running(&inner, "trim its outputs")?;
            task.admit(&inner, caller.lease_generation)?;
            task.ensure_view(&mut inner);
            (task.outline_locked(&mut inner)?, inner.context.policy().outputs.clone())
        };
        let chosen = look.choose_outputs(&policy, budget.unwrap_or(policy.budget_tokens))?;
        if chosen.trimmed == 0 {
            let tokens = look.told_outputs(look.output_tokens);
            let generation = look.generation;
            let (tokens_before, tokens_after, duplicate) = (tokens, tokens, false);
            return Ok(TrimOutcome { trimmed: 0, tokens_before, tokens_after, generation, duplicate });
        }
        task.trim(&look, &chosen, caller, digest)
    }
}
