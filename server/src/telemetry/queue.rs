//! A bounded queue of log lines and the thread that writes them.
//!
//! A caller may hold a lock while it logs, and stderr may be a full disk, a closed pipe or a pipe without a reader.
//! So logging only puts a line into the queue. A line is dropped and counted if the queue is full or the write fails.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::infra::metrics;

/// Most lines in the queue.
const LINES: usize = 1024;
/// Most bytes in the queue, exceeded by one line at most.
const BYTES: usize = 1 << 20;
/// Time-out of [`LineQueue::flush`].
const FLUSH: Duration = Duration::from_secs(1);
/// Interval between tries to enter a full queue.
const RETRY: Duration = Duration::from_millis(5);

enum Entry {
    Line(Vec<u8>),
    /// Marks that everything before it was written or dropped.
    Flush(SyncSender<()>),
}

/// Accepts lines without waiting. A clone feeds the same queue.
#[derive(Debug, Clone)]
pub(super) struct LineQueue {
    entries: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
    /// Bytes of the lines in the queue.
    waiting: Arc<AtomicUsize>,
}

impl LineQueue {
    /// Starts the thread that masks lines and writes them to `out`.
    pub(super) fn start(
        mask: impl Fn(&str) -> String + Send + 'static,
        out: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let (entries, queue) = sync_channel(LINES);
        let lines = Self { entries, dropped: Arc::default(), waiting: Arc::default() };
        let (dropped, waiting) = (Arc::clone(&lines.dropped), Arc::clone(&lines.waiting));
        let write = move || write_all(&queue, mask, out, &dropped, &waiting);
        thread::Builder::new().name("log".to_owned()).spawn(write)?;
        Ok(lines)
    }

    /// Waits until everything queued so far is written or dropped, or [`FLUSH`] has passed.
    pub(super) fn flush(&self) {
        let deadline = Instant::now() + FLUSH;
        let (done, flushed) = sync_channel(1);
        let mut entry = Entry::Flush(done);
        while let Err(TrySendError::Full(back)) = self.entries.try_send(entry) {
            if Instant::now() >= deadline {
                return;
            }
            entry = back;
            thread::sleep(RETRY);
        }
        let _ = flushed.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

impl Write for LineQueue {
    /// Queues one line. Always succeeds, because the caller cannot handle an error.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The line is counted first, because the other thread subtracts it as soon as it is queued.
        let is_full = self.waiting.fetch_add(line.len(), Ordering::Relaxed) > BYTES;
        if is_full || self.entries.try_send(Entry::Line(line.to_vec())).is_err() {
            self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
            drop_line(&self.dropped);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn drop_line(dropped: &AtomicU64) {
    dropped.fetch_add(1, Ordering::Relaxed);
    metrics::log_line_dropped();
}

fn write_all(
    queue: &Receiver<Entry>,
    mask: impl Fn(&str) -> String,
    mut out: impl Write,
    dropped: &AtomicU64,
    waiting: &AtomicUsize,
) {
    for entry in queue {
        let line = match entry {
            Entry::Line(line) => line,
            Entry::Flush(done) => {
                let _ = done.try_send(());
                continue;
            }
        };
        waiting.fetch_sub(line.len(), Ordering::Relaxed);
        let text = String::from_utf8_lossy(&line);
        // A line that cannot be masked is not written.
        let masked = catch_unwind(AssertUnwindSafe(|| mask(&text)));
        let written = masked.is_ok_and(|masked| out.write_all(masked.as_bytes()).is_ok());
        if !written {
            drop_line(dropped);
            continue;
        }
        let lines = dropped.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(lines, "lines of this log were dropped: stderr did not take them");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Sender;

    use super::*;

    /// Fails as long as it is told to, and hands on what it takes.
    struct Out {
        fails: Receiver<bool>,
        took: Sender<String>,
    }

    impl Write for Out {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            if self.fails.recv().unwrap() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.took.send(String::from_utf8_lossy(line).into_owned()).unwrap();
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_bytes_that_wait_are_bounded() {
        let (_fail, fails) = std::sync::mpsc::channel();
        let (took, _taken) = std::sync::mpsc::channel();
        let mut lines = LineQueue::start(str::to_uppercase, Out { fails, took }).unwrap();
        for _ in 0..10 {
            lines.write_all(&vec![b'x'; BYTES / 2]).unwrap();
        }
        // Three wait, or one more if the first is being written.
        let dropped = lines.dropped.load(Ordering::Relaxed);
        assert!((6..=7).contains(&dropped), "{dropped}");
    }

    #[test]
    fn a_line_that_is_not_taken_is_dropped_and_counted() {
        let (fail, fails) = std::sync::mpsc::channel();
        let (took, taken) = std::sync::mpsc::channel();
        let mut lines = LineQueue::start(str::to_uppercase, Out { fails, took }).unwrap();
        let all = LINES + 10;
        for line in 0..all {
            // Nothing is written yet, and nobody waits for it.
            lines.write_all(format!("line {line}").as_bytes()).unwrap();
        }
        // One may be out of the queue already.
        let dropped = lines.dropped.load(Ordering::Relaxed);
        assert!((9..=10).contains(&dropped), "{dropped}");
        fail.send(true).unwrap();
        fail.send(false).unwrap();
        assert_eq!(taken.recv().unwrap(), "LINE 1");
        assert_eq!(lines.dropped.load(Ordering::Relaxed), 0, "reported");
    }
}
