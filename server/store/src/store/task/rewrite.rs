//! Rewrites of the view: built beside the old one while appends go on, committed by an event in the log.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::context::count_tokens;
use crate::infra::fs::Open;
use crate::log::{Digest, Fold, Forward, LogKind};
use crate::model::TaskId;
use crate::model::json::Json;
use crate::model::{
    Durability, Event, InvalidField, LiteralKind, NewMessage, Rewrite, Role, Segment, StoreError,
    SummaryRecord,
};
use crate::store::Store;

use super::view_files::{ViewWriter, crc_of};
use super::{Caller, Inner, Task};
use crate::store::files;
use crate::store::layout::{self, NEXT};
use crate::store::masking;

/// The reason of a rewind, followed by the message that it goes back to.
const REWOUND: &str = "back to message ";

/// A rewrite that somebody has worked out.
#[derive(Debug, Clone)]
pub struct NewRewrite {
    /// What made it.
    pub strategy: String,
    /// The generation of the view it was worked out on.
    pub base: u64,
    /// The last message it speaks for; the end of a closed group.
    pub covers: u64,
    /// Why.
    pub reason: String,
    /// What the view is to consist of.
    pub segments: Vec<Segment>,
    /// Records of its summaries, in the order of the literals of that kind. The store gives the ids.
    pub summaries: Vec<SummaryRecord>,
}

/// The one rewrite of a task that may be in flight; over when this is dropped.
struct RewriteGuard<'a>(&'a Task);

impl RewriteGuard<'_> {
    /// Ends it under the lock that shows its outcome: whoever sees that may begin the next one.
    fn end(self, inner: &mut Inner) {
        inner.rewriting = false;
        std::mem::forget(self);
    }
}

impl Drop for RewriteGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().rewriting = false;
    }
}

/// A rewrite that has begun.
struct PendingRewrite {
    rewrite: Rewrite,
    fold: Fold,
    /// How much of the log is folded.
    folded: u64,
    writer: ViewWriter,
    /// Messages that were pinned when it was worked out.
    pins: BTreeSet<u64>,
}

impl Task {
    /// Publishes a rewrite; answers its ordinal. Appends go on meanwhile, and what they add is kept.
    pub(crate) fn rewrite(&self, new: &NewRewrite, caller: &Caller) -> Result<u64, StoreError> {
        let asked = Rewrite {
            ordinal: 0,
            strategy: new.strategy.clone(),
            base: new.base,
            parent: None,
            covers: new.covers,
            reason: new.reason.clone(),
            segments: new.segments.clone(),
        };
        let summaries = serde_json::to_string(&new.summaries).unwrap_or_default();
        let digest = Digest::of(&["rewrite", &asked.body(), &summaries]);
        self.run_rewrite(caller, digest, None, |task, inner| task.plan(inner, new))
    }

    /// `pins` are those it was worked out with, if that was before.
    pub(super) fn run_rewrite(
        &self,
        caller: &Caller,
        digest: Digest,
        pins: Option<&BTreeSet<u64>>,
        plan: impl FnOnce(&Self, &Inner) -> Result<Rewrite, StoreError>,
    ) -> Result<u64, StoreError> {
        let begun = {
            let mut inner = self.lock();
            if let Some((ordinal, end)) = self.seen_before(&inner, caller.request_id.as_ref(), digest)? {
                drop(inner);
                self.wait_durable(end, Durability::Group)?;
                return Ok(ordinal);
            }
            self.check_writable(&inner)?;
            self.check_running(&inner, "rewrite its view")?;
            self.admit(&inner, caller.lease_generation)?;
            if inner.rewriting {
                return Err(StoreError::RewriteInFlight { id: self.id });
            }
            // Which groups are open is known of a view that was looked at only.
            self.ensure_view(&mut inner);
            if !inner.view.is_open() {
                self.restore_view(&mut inner)?;
            }
            let rewrite = self.masked_rewrite(plan(self, &inner)?);
            let planned = self.begin(&mut inner, rewrite, pins)?;
            inner.rewriting = true;
            planned
        };
        let in_flight = RewriteGuard(self);
        let plan = self.build(begun)?;
        self.publish(plan, caller, digest, in_flight)
    }

    /// A rewrite with secrets replaced, and what was replaced counted anew.
    fn masked_rewrite(&self, rewrite: Rewrite) -> Rewrite {
        let Cow::Owned(mut masked) =
            self.env.masked(|masker, found| masking::rewrite(masker, &rewrite, found))
        else {
            return rewrite;
        };
        for (now, before) in masked.segments.iter_mut().zip(&rewrite.segments) {
            if let (Segment::Literal(now), Segment::Literal(before)) = (now, before)
                && now.content != before.content
            {
                let message =
                    NewMessage { content: Some(now.content.clone()), ..NewMessage::text(now.role, "") };
                now.tokens = count_tokens(self.counter.get(), &message);
            }
        }
        masked
    }

    /// Completes and checks a rewrite that somebody worked out.
    pub(super) fn plan(&self, inner: &Inner, new: &NewRewrite) -> Result<Rewrite, StoreError> {
        self.check_base(inner, new)?;
        self.check_covers(inner, new.covers)?;
        self.plan_settled(inner, new)
    }

    /// The same of one that was worked out on a view whose groups were closed where it ends: a result that came since
    /// answers none of its calls.
    pub(super) fn plan_settled(&self, inner: &Inner, new: &NewRewrite) -> Result<Rewrite, StoreError> {
        let newest = self.check_base(inner, new)?;
        // A rewrite of messages that do not exist was computed on another log.
        if new.covers > inner.log.state().last_seq {
            return Err(StoreError::StaleView { id: self.id, given: new.base, newest });
        }
        if new.strategy.is_empty() || new.strategy.len() > 64 {
            return Err(InvalidField::new("strategy", "must have 1 to 64 characters").into());
        }
        if matches!(new.strategy.as_str(), "undo" | "rewind") {
            return Err(InvalidField::new("strategy", "undo and rewind are calls of their own").into());
        }
        let mut rewrite = Rewrite {
            ordinal: newest + 1,
            strategy: new.strategy.clone(),
            base: newest,
            parent: None,
            covers: new.covers,
            reason: new.reason.clone(),
            segments: new.segments.clone(),
        };
        rewrite.parent = match rewrite.strategy.as_str() {
            "trim" => inner.log.state().rewrite.as_ref().and_then(|mark| mark.parent),
            "inherit" => None,
            _ => Some(newest),
        };
        let mut records = new.summaries.iter();
        let mut id = inner.log.state().tally.summaries;
        for segment in &mut rewrite.segments {
            if let Segment::Literal(literal) = segment
                && literal.kind == LiteralKind::Summary
                && let Some(record) = records.next()
            {
                id += 1;
                if !record.ratio.is_finite() {
                    return Err(InvalidField::new("summaries", "have a ratio that is no number").into());
                }
                let numbered = SummaryRecord { id, ..record.clone() };
                let text = serde_json::to_string(&numbered)
                    .map_err(|error| StoreError::io("a summary", error.into()))?;
                literal.summary = Some(Json::kept(text));
            }
        }
        if records.next().is_some() {
            return Err(InvalidField::new("summaries", "are more than there are summary literals").into());
        }
        rewrite.validate()?;
        self.check_references(inner, &rewrite)?;
        Ok(rewrite)
    }

    /// Returns the generation of the view, or an error if the rewrite was computed on an earlier one.
    fn check_base(&self, inner: &Inner, new: &NewRewrite) -> Result<u64, StoreError> {
        let (given, newest) = (new.base, inner.log.state().view_generation());
        if given == newest { Ok(newest) } else { Err(StoreError::StaleView { id: self.id, given, newest }) }
    }

    /// A rewrite must not cut through a group: results would lose their call.
    fn check_covers(&self, inner: &Inner, covers: u64) -> Result<(), StoreError> {
        let last = inner.log.state().last_seq;
        if covers > last {
            let problem = format!("is {covers}, the last message is {last}");
            return Err(InvalidField::new("covers", problem).into());
        }
        let covered = inner.log.newest_rewrite()?.map_or(0, |newest| newest.covers);
        // What the view's own rewrite speaks for is cut already, as by a rewind into a group; the group is in the segments.
        let cuts = if covers == 0 || covers == covered {
            false
        } else if covers == last {
            inner.view.state().is_some_and(|view| !view.open_calls.is_empty())
        } else {
            let mut is_result = false;
            inner.log.source().messages(covers + 1, covers + 1).step(|_, line| {
                is_result = matches!(line.head, crate::log::Head::Message { role: Role::Tool, .. });
                Ok(())
            })?;
            is_result
        };
        if cuts {
            let problem = format!("{covers} cuts a group of calls and results");
            return Err(InvalidField::new("covers", problem).into());
        }
        Ok(())
    }

    fn check_references(&self, inner: &Inner, rewrite: &Rewrite) -> Result<(), StoreError> {
        let source = inner.log.source();
        let mut earlier: Option<Rewrite> = None;
        for segment in &rewrite.segments {
            let Segment::Earlier { rewrite: ordinal, index } = segment else { continue };
            if earlier.as_ref().is_none_or(|earlier| earlier.ordinal != *ordinal) {
                earlier = Some(source.rewrite(*ordinal)?);
            }
            let found = earlier.as_ref().and_then(|earlier| earlier.segments.get(*index));
            if !matches!(found, Some(Segment::Literal(_))) {
                let problem = format!("refer to segment {index} of rewrite {ordinal}, which is no literal");
                return Err(InvalidField::new("segments", problem).into());
            }
        }
        Ok(())
    }

    fn begin(
        &self,
        inner: &mut Inner,
        rewrite: Rewrite,
        pins: Option<&BTreeSet<u64>>,
    ) -> Result<PendingRewrite, StoreError> {
        rewrite.validate()?;
        let bytes = rewrite.body().len();
        if bytes > Rewrite::MAX_BYTES - 1024 {
            let problem = format!("take {bytes} bytes; at most {} are allowed", Rewrite::MAX_BYTES - 1024);
            return Err(InvalidField::new("segments", problem).into());
        }
        let last_seq = inner.log.state().last_seq;
        let source = inner.log.source();
        let writer = ViewWriter::beside(self.env.fs.as_ref(), inner.log.dir())
            .map_err(|error| StoreError::io("writing a view", error))?;
        let folded = inner.log.len();
        let pins = pins.unwrap_or(&inner.log.state().pins).clone();
        Ok(PendingRewrite {
            pins,
            fold: Fold::new(source, Some(rewrite.clone()), last_seq),
            folded,
            rewrite,
            writer,
        })
    }

    /// Folds without the lock, then what arrived meanwhile, until little is left.
    fn build(&self, mut plan: PendingRewrite) -> Result<PendingRewrite, StoreError> {
        const LITTLE: u64 = 256 << 10;
        // Writers that are faster than the fold must not keep it from ending.
        const ROUNDS: usize = 8;
        let fs = self.env.fs.as_ref();
        let mut folded = plan.writer.run(fs, &mut plan.fold);
        for _ in 0..ROUNDS {
            let inner = self.lock();
            if folded.is_err() || inner.log.len() - plan.folded <= LITTLE {
                break;
            }
            plan.folded = inner.log.len();
            plan.fold.extend(plan.folded, inner.log.index().cloned(), inner.log.state().last_seq);
            drop(inner);
            folded = plan.writer.run(fs, &mut plan.fold);
        }
        match folded {
            Ok(()) => Ok(plan),
            Err(error) => {
                self.abandon(plan.writer);
                Err(error)
            }
        }
    }

    /// Removes what was made, unless another handle may have put its own file there.
    fn abandon(&self, writer: ViewWriter) {
        let mut inner = self.lock();
        if !self.is_spent_locked(&mut inner) {
            // A change of status may have moved the task since.
            writer.abandon(self.env.fs.as_ref(), &inner.log.dir());
        }
    }

    /// Under the lock: folds the rest, writes and syncs the event, which is the commit, and renames.
    fn publish(
        &self,
        mut plan: PendingRewrite,
        caller: &Caller,
        digest: Digest,
        in_flight: RewriteGuard<'_>,
    ) -> Result<u64, StoreError> {
        let fs = self.env.fs.as_ref();
        let mut inner = self.lock();
        let committed = self.commit(&mut inner, &mut plan, caller, digest);
        if let Err(error) = committed {
            drop(inner);
            self.abandon(plan.writer);
            return Err(error);
        }
        inner.context.outputs.look_again();
        let published = plan.writer.publish(fs, plan.fold.state().clone()).inspect_err(|error| {
            // The rewrite is in the log: the view follows when it is next looked at.
            tracing::warn!(id = %self.id, %error, "a rewritten view could not be put in place");
        });
        inner.view.replace(published.ok(), plan.fold.state().tokens);
        inner.show_all();
        let after = self.append_summaries(&inner).and_then(|()| self.checkpoint(&mut inner, false));
        if let Err(error) = after {
            tracing::warn!(id = %self.id, %error, "views could not be written; they will be made again");
        }
        self.mark_dirty(&mut inner);
        in_flight.end(&mut inner);
        Ok(plan.rewrite.ordinal)
    }

    fn commit(
        &self,
        inner: &mut Inner,
        plan: &mut PendingRewrite,
        caller: &Caller,
        digest: Digest,
    ) -> Result<(), StoreError> {
        self.check_writable(inner)?;
        self.check_running(inner, "rewrite its view")?;
        self.admit(inner, caller.lease_generation)?;
        let newest = inner.log.state().view_generation();
        if plan.rewrite.base != newest {
            return Err(StoreError::StaleView { id: self.id, given: plan.rewrite.base, newest });
        }
        let goes_back = matches!(plan.rewrite.strategy.as_str(), "undo" | "rewind");
        if !goes_back && !self.keeps_new_pins(inner, &plan.pins, &plan.rewrite)? {
            return Err(StoreError::StaleView { id: self.id, given: newest, newest });
        }
        plan.fold.extend(inner.log.len(), inner.log.index().cloned(), inner.log.state().last_seq);
        plan.writer.run(self.env.fs.as_ref(), &mut plan.fold)?;
        let request = caller.request_id.as_ref().map(|id| (id, digest));
        self.write_event(inner, &Event::Rewrite(plan.rewrite.clone()), request)?;
        self.sync(inner)
    }

    /// Adds the newest rewrite's summaries to `summaries.jsonl`, which is a view.
    fn append_summaries(&self, inner: &Inner) -> Result<(), StoreError> {
        let Some(rewrite) = inner.log.newest_rewrite()? else { return Ok(()) };
        let lines: Vec<u8> = summary_lines(&rewrite);
        if lines.is_empty() {
            return Ok(());
        }
        let path = inner.log.path(layout::SUMMARIES);
        let before = inner.log.state().summaries_len - lines.len() as u64;
        let failed = |error| StoreError::io(format!("writing {path}"), error);
        let file = self.env.fs.open(&path, Open::Create).map_err(failed)?;
        if file.len().map_err(failed)? != before {
            return self.ensure_summaries(inner);
        }
        file.write_all_at(&lines, before).map_err(failed)
    }

    /// Sees that `summaries.jsonl` is what the log says.
    pub(super) fn ensure_summaries(&self, inner: &Inner) -> Result<(), StoreError> {
        let fs = self.env.fs.as_ref();
        let path = inner.log.path(layout::SUMMARIES);
        let failed = |error| StoreError::io(format!("writing {path}"), error);
        let (len, crc) = (inner.log.state().summaries_len, inner.log.state().summaries_crc);
        let right = match fs.open(&path, Open::Read) {
            Ok(file) => {
                len > 0
                    && file.len().map_err(failed)? == len
                    && crc_of(file.as_ref(), len).map_err(failed)? == crc
            }
            Err(_) => len == 0,
        };
        if right {
            return Ok(());
        }
        if len == 0 {
            return files::remove_if_there(fs, &path).map_err(failed);
        }
        let Some((dir, name)) = path.split() else { return Ok(()) };
        let next = dir.join(name.with_suffix(NEXT));
        let file = fs.open(&next, Open::Truncate).map_err(failed)?;
        let source = inner.log.source();
        let mut at = 0;
        let mut lines = Forward::new(Arc::clone(inner.log.file()), 0, inner.log.len());
        while let Some(found) = lines.next().map_err(failed)? {
            let Ok(line) = found.line(LogKind::Messages) else { continue };
            if matches!(line.head, crate::log::Head::Event { name: "rewrite", .. }) {
                let bytes = summary_lines(&source.rewrite_at(found.offset)?);
                file.write_all_at(&bytes, at).map_err(failed)?;
                at += bytes.len() as u64;
            }
        }
        fs.rename(&next, &path).map_err(failed)
    }
}

/// The message that a rewind went back to.
pub(super) fn rewound_to(rewrite: &Rewrite) -> Option<u64> {
    rewrite.reason.strip_prefix(REWOUND)?.parse().ok()
}

fn summary_lines(rewrite: &Rewrite) -> Vec<u8> {
    let mut lines = Vec::new();
    for segment in &rewrite.segments {
        if let Segment::Literal(literal) = segment
            && let Some(record) = &literal.summary
        {
            lines.extend_from_slice(record.as_str().as_bytes());
            lines.push(b'\n');
        }
    }
    lines
}

impl Store {
    /// Takes back the newest compaction in force; answers the new ordinal.
    pub fn undo(&self, id: TaskId, caller: &Caller) -> Result<u64, StoreError> {
        let task = self.task(id)?;
        let generation = task.run_rewrite(caller, Digest::of(&["undo"]), None, |task, inner| {
            let nothing = StoreError::NothingToUndo { id: task.id };
            let mark = inner.log.state().rewrite.clone().ok_or(nothing)?;
            let parent = mark.parent.ok_or(StoreError::NothingToUndo { id: task.id })?;
            let source = inner.log.source();
            let back = if parent == 0 { None } else { Some(source.rewrite(parent)?) };
            Ok(Rewrite {
                ordinal: mark.ordinal + 1,
                strategy: "undo".to_owned(),
                base: mark.ordinal,
                parent: back.as_ref().and_then(|back| back.parent),
                covers: back.as_ref().map_or(0, |back| back.covers),
                reason: format!("back to {parent}"),
                segments: back.map_or_else(Vec::new, |back| back.segments_by_reference()),
            })
        })?;
        // What was taken back is not made again at once, whatever the last try did not know of.
        task.note_undo();
        Ok(generation)
    }

    /// Takes the view back to what it was after a message; answers the new ordinal.
    pub fn rewind(&self, id: TaskId, seq: u64, caller: &Caller) -> Result<u64, StoreError> {
        let task = self.task(id)?;
        task.run_rewrite(caller, Digest::of(&["rewind", &seq.to_string()]), None, |task, inner| {
            let last = inner.log.state().last_seq;
            if seq > last {
                return Err(StoreError::MessageNotFound { id: task.id, seq, last });
            }
            let then = inner.log.source().rewrite_as_of(seq)?;
            let covered = then.as_ref().map_or(0, |then| then.covers);
            let mut segments = then.map_or_else(Vec::new, |then| then.segments_by_reference());
            if covered < seq {
                segments.push(Segment::keep(covered + 1, seq));
            }
            Ok(Rewrite {
                ordinal: inner.log.state().view_generation() + 1,
                strategy: "rewind".to_owned(),
                base: inner.log.state().view_generation(),
                parent: None,
                covers: last,
                reason: format!("{REWOUND}{seq}"),
                segments,
            })
        })
    }
}
