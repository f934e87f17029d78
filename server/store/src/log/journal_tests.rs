//! The conformance suite of journals: order, durability of acknowledged lines, torn tails, failed commits.
//!
//! A new kind of journal implements [`Fixture`] and calls [`conforms`].

use super::super::line::{Head, LogKind};
use super::super::scan::{Forward, TailVerdict, check_tail, read_exact_at};
use super::super::writer::LogWriter;
use super::*;
use crate::infra::fs::sim::SimFs;
use crate::infra::fs::{Fs, Name, Open, StorePath};
use crate::model::Role;

/// A place where journals of one kind keep one log.
trait Fixture {
    type Journal: Journal + 'static;

    /// Returns an empty place.
    fn new() -> Self;
    /// Opens the journal of the log as it is now.
    fn open(&self) -> Self::Journal;
    /// Makes the next commit fail.
    fn fail_next_commit(&self);
    /// Loses any part of what no commit has covered; the seed decides which.
    fn crash(&mut self, seed: u64);
}

/// Fails if journals of a kind do not keep what the log relies on.
fn conforms<F: Fixture>() {
    lines_come_back_in_order::<F>();
    for seed in 0..32 {
        acknowledged_lines_survive_a_crash::<F>(seed);
        a_failed_commit_acknowledges_nothing_ever_again::<F>(seed);
    }
}

fn lines_come_back_in_order<F: Fixture>() {
    let place = F::new();
    let (mut log, mut written) = (open(&place, 0), Vec::new());
    for seq in 1..=200 {
        written.extend(append(&mut log, seq).unwrap());
        if seq % 7 == 0 {
            log.sync().unwrap();
        }
    }
    log.sync().unwrap();
    assert_eq!(contents(&place.open()), written);
    // Opened again, it goes on at its end.
    let mut log = open(&place, written.len() as u64);
    written.extend(append(&mut log, 201).unwrap());
    log.sync().unwrap();
    assert_eq!(contents(&place.open()), written);
    assert_eq!(valid_lines(&place.open()).0, 201);
}

fn acknowledged_lines_survive_a_crash<F: Fixture>(seed: u64) {
    let mut place = F::new();
    let (mut log, mut acknowledged) = (open(&place, 0), Vec::new());
    for seq in 1..=20 {
        acknowledged.extend(append(&mut log, seq).unwrap());
    }
    log.sync().unwrap();
    for seq in 21..=40 {
        append(&mut log, seq).unwrap();
    }
    drop(log);
    place.crash(seed);
    assert_tail_can_be_cut(&place.open(), &acknowledged);
}

fn a_failed_commit_acknowledges_nothing_ever_again<F: Fixture>(seed: u64) {
    let mut place = F::new();
    let mut log = open(&place, 0);
    let acknowledged = append(&mut log, 1).unwrap();
    log.sync().unwrap();
    append(&mut log, 2).unwrap();
    place.fail_next_commit();
    let error = log.sync().unwrap_err();
    // The next commit would succeed, so it must not be made.
    assert!(log.sync().is_err(), "a failed commit was tried again");
    assert!(append(&mut log, 3).is_err(), "a line was written behind one that failed");
    log.cut_back(&error);
    assert!(log.sync().is_err() && append(&mut log, 3).is_err());
    assert_eq!(log.commit().durable(), acknowledged.len() as u64);
    assert_eq!(contents(&place.open()), acknowledged);
    place.crash(seed);
    assert_tail_can_be_cut(&place.open(), &acknowledged);
}

/// Fails unless the acknowledged lines are whole and no line behind them claims to have been acknowledged.
fn assert_tail_can_be_cut(journal: &impl Journal, acknowledged: &[u8]) {
    let found = contents(journal);
    assert_eq!(&found[..acknowledged.len()], acknowledged, "an acknowledged line is lost");
    let (_, end) = valid_lines(journal);
    let (end, len) = (end.max(acknowledged.len() as u64), found.len() as u64);
    let verdict = check_tail(LogKind::Messages, journal.file(), end, len, acknowledged.len() as u64);
    assert_eq!(verdict.unwrap(), TailVerdict::Cut);
}

/// Opens the log, whose `durable` bytes are all durable, for writing.
fn open<F: Fixture>(place: &F, durable: u64) -> LogWriter {
    let journal = Checked { inner: place.open(), state: Mutex::new((durable, false)) };
    LogWriter::with_commit(LogKind::Messages, Commit::new(journal, durable, Arc::default()))
}

/// Appends a message of some kilobytes, so that lines cross pages, and returns its line.
fn append(log: &mut LogWriter, seq: u64) -> io::Result<Vec<u8>> {
    let head = Head::Message { seq, role: Role::User, tokens: 1 };
    let body = format!(",\"content\":\"{}\"", "x".repeat((seq as usize * 977) % 6000));
    let appended = log.append(head, chrono::DateTime::UNIX_EPOCH, &body)?;
    let text = appended.line().unwrap().text;
    Ok([text.as_bytes(), b"\n"].concat())
}

fn contents(journal: &impl Journal) -> Vec<u8> {
    let mut bytes = vec![0; journal.file().len().unwrap() as usize];
    read_exact_at(journal.file().as_ref(), &mut bytes, 0).unwrap();
    bytes
}

/// Returns how many valid lines a log begins with, and where they end.
fn valid_lines(journal: &impl Journal) -> (u64, u64) {
    let mut lines = Forward::new(Arc::clone(journal.file()), 0, journal.file().len().unwrap());
    let (mut count, mut end) = (0, 0);
    while let Some(found) = lines.next().unwrap() {
        if found.line(LogKind::Messages).is_err() {
            break;
        }
        (count, end) = (count + 1, found.end);
    }
    (count, end)
}

/// A journal that checks what the log asks of it: adjacent ranges, and nothing after a failure.
#[derive(Debug)]
struct Checked<J> {
    inner: J,
    /// The end of the last commit, and whether one has failed.
    state: Mutex<(u64, bool)>,
}

impl<J: Journal> Journal for Checked<J> {
    fn file(&self) -> &Arc<dyn File> {
        self.inner.file()
    }

    fn commit(&self, from: u64, to: u64) -> io::Result<()> {
        let (end, failed) = &mut *self.state.lock().unwrap();
        assert!(!*failed, "a commit follows one that failed");
        assert!(from == *end && to >= from, "{from}..{to} was committed after {end}");
        let committed = self.inner.commit(from, to);
        (*end, *failed) = (if committed.is_ok() { to } else { *end }, committed.is_err());
        committed
    }
}

/// A local journal on a disk that forgets what was not synced.
struct LocalFixture(Arc<SimFs>);

const LOG: Name = Name::fixed("messages.jsonl");

impl Fixture for LocalFixture {
    type Journal = LocalJournal;

    fn new() -> Self {
        let disk = SimFs::new();
        disk.open(&StorePath::ROOT.join(LOG), Open::New).unwrap();
        disk.sync_dir(&StorePath::ROOT).unwrap();
        Self(disk)
    }

    fn open(&self) -> LocalJournal {
        LocalJournal::new(self.0.open(&StorePath::ROOT.join(LOG), Open::Write).unwrap())
    }

    fn fail_next_commit(&self) {
        self.0.fail_next_sync();
    }

    fn crash(&mut self, seed: u64) {
        self.0 = self.0.crash(seed);
    }
}

#[test]
fn the_local_journal_conforms() {
    conforms::<LocalFixture>();
}
