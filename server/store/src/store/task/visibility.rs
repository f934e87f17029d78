//! The part of a log that readers see: everything up to the newest line that no crash can take back.

use std::collections::{BTreeSet, VecDeque};

use chrono::{DateTime, Utc};

use crate::log::{Commit, Counters, LogState};
use crate::model::{Durability, Event, TaskConfig};

/// The state after one line of a log.
pub(super) trait Snapshot {
    /// Returns the end of the line.
    fn end(&self) -> u64;
}

/// The snapshot of a log that readers see, and those behind it.
#[derive(Debug, Default)]
pub(super) struct Visibility<S> {
    /// Snapshots of lines that need not be durable yet, oldest first.
    pending: VecDeque<S>,
    visible: S,
}

impl<S: Snapshot> Visibility<S> {
    /// Returns the newest snapshot that readers may see, as of the last call of [`Self::advance`].
    pub(super) fn snapshot(&self) -> &S {
        &self.visible
    }

    /// Adds the snapshot of a line that was just written.
    pub(super) fn push(&mut self, snapshot: S) {
        self.pending.push_back(snapshot);
    }

    /// Shows readers every line that is safe by now.
    pub(super) fn advance(&mut self, commit: &Commit, durability: Durability) {
        let end = commit.visible(durability);
        while let Some(next) = self.pending.pop_front_if(|next| next.end() <= end) {
            self.visible = next;
        }
    }

    /// Shows readers the newest snapshot: every line is durable.
    pub(super) fn show_all(&mut self, newest: S) {
        self.pending.clear();
        self.visible = newest;
    }

    /// Returns whether there are lines that readers do not see yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.pending.is_empty()
    }
}

/// The state of a task after a line of its message log.
#[derive(Debug, Clone, Default)]
pub(super) struct LogSnapshot {
    pub(super) log_end: u64,
    pub(super) last_seq: u64,
    pub(super) view_len: u64,
    pub(super) extra_len: u64,
    pub(super) view_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) view_lines: u64,
    pub(super) tally: Counters,
    pub(super) updated_at: Option<DateTime<Utc>>,
    /// The former value of what the line changed and is too large to be copied for every line.
    pub(super) former: Option<Former>,
}

impl Snapshot for LogSnapshot {
    fn end(&self) -> u64 {
        self.log_end
    }
}

/// The state of `tools.jsonl` or `planning.jsonl` after a line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecordSnapshot {
    pub(super) end: u64,
    pub(super) last: u64,
    pub(super) successes: u64,
}

impl Snapshot for RecordSnapshot {
    fn end(&self) -> u64 {
        self.end
    }
}

/// A value before a line changed it.
#[derive(Debug, Clone)]
pub(super) enum Former {
    Pin { seq: u64, pinned: bool },
    Config(Option<Box<TaskConfig>>),
}

impl Former {
    /// Returns the value that an event is about to change, if readers need it.
    pub(super) fn of(event: &Event, state: &LogState) -> Option<Self> {
        match event {
            Event::Pin { seq, .. } => Some(Self::Pin { seq: *seq, pinned: state.pins.contains(seq) }),
            Event::Config { .. } => Some(Self::Config(state.config.clone().map(Box::new))),
            Event::Started { .. }
            | Event::Lease { .. }
            | Event::Rewrite(_)
            | Event::Status { .. }
            | Event::Usage { .. }
            | Event::Statistics { .. }
            | Event::Forked { .. }
            | Event::Erased { .. } => None,
        }
    }
}

impl Visibility<LogSnapshot> {
    /// Corrects the tokens of the view, which were not counted before.
    pub(super) fn note_view_tokens(&mut self, tokens: u64) {
        if self.pending.is_empty() {
            self.visible.view_tokens = tokens;
        }
    }

    /// Keeps the former value of what the line changed that ends at `end`, as long as readers do not see that line.
    pub(super) fn note_former(&mut self, end: u64, former: Option<Former>) {
        if let Some(snapshot) = self.pending.back_mut().filter(|snapshot| snapshot.log_end == end) {
            snapshot.former = former;
        }
    }

    /// Returns the pinned messages as readers see them; `newest` are those by the whole log.
    pub(super) fn pins(&self, newest: &BTreeSet<u64>) -> BTreeSet<u64> {
        let mut pins = newest.clone();
        for snapshot in self.pending.iter().rev() {
            match snapshot.former {
                Some(Former::Pin { seq, pinned: true }) => pins.insert(seq),
                Some(Former::Pin { seq, pinned: false }) => pins.remove(&seq),
                Some(Former::Config(_)) | None => false,
            };
        }
        pins
    }

    /// Returns the configuration as readers see it; `newest` is that of the whole log.
    pub(super) fn config<'a>(&'a self, newest: Option<&'a TaskConfig>) -> Option<&'a TaskConfig> {
        let former = self.pending.iter().find_map(|snapshot| match &snapshot.former {
            Some(Former::Config(config)) => Some(config.as_deref()),
            Some(Former::Pin { .. }) | None => None,
        });
        former.unwrap_or(newest)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::infra::fs::sim::SimFs;
    use crate::infra::fs::{Fs, Name, Open, StorePath};
    use crate::log::LocalJournal;

    /// Returns the group commit of an empty log.
    fn commit() -> Commit {
        let path = StorePath::ROOT.join(Name::fixed("log"));
        let file = SimFs::new().open(&path, Open::New).unwrap();
        Commit::new(LocalJournal::new(file), 0, Arc::default())
    }

    fn snapshot(last_seq: u64, former: Option<Former>) -> LogSnapshot {
        LogSnapshot { log_end: 10 * last_seq, last_seq, former, ..LogSnapshot::default() }
    }

    #[test]
    fn readers_see_what_is_durable_or_what_is_written() {
        let (commit, mut readers) = (commit(), Visibility::default());
        for seq in 1..=3 {
            readers.push(snapshot(seq, None));
        }
        commit.wrote(20);
        commit.lead();
        commit.wrote(30);
        readers.advance(&commit, Durability::Group);
        assert_eq!((readers.snapshot().last_seq, readers.is_behind()), (2, true));
        readers.advance(&commit, Durability::Process);
        assert_eq!((readers.snapshot().last_seq, readers.is_behind()), (3, false));
    }

    #[test]
    fn pins_and_configuration_are_as_they_were_before_lines_that_readers_do_not_see() {
        let (commit, mut readers) = (commit(), Visibility::default());
        let old = TaskConfig { model: "old".to_owned(), ..TaskConfig::default() };
        let new = TaskConfig { model: "new".to_owned(), ..TaskConfig::default() };
        readers.push(snapshot(1, Some(Former::Pin { seq: 1, pinned: false })));
        readers.push(snapshot(2, Some(Former::Pin { seq: 7, pinned: true })));
        readers.push(snapshot(3, None));
        readers.note_former(30, Some(Former::Config(Some(Box::new(old.clone())))));
        let newest = BTreeSet::from([1, 5]);
        assert_eq!(readers.pins(&newest), BTreeSet::from([5, 7]));
        assert_eq!(readers.config(Some(&new)), Some(&old));
        commit.wrote(20);
        readers.advance(&commit, Durability::Process);
        assert_eq!(readers.pins(&newest), newest);
        assert_eq!(readers.config(Some(&new)), Some(&old));
        readers.show_all(snapshot(3, None));
        assert_eq!(readers.config(Some(&new)), Some(&new));
    }
}
