//! GrepToolOutput: a search that runs in a thread of its own, as far ahead of its reader as two batches.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contextstore_proto::v1 as pb;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::convert::Parsed;
use super::outputs::ref_id;
use super::serving::Serving;
use super::status::Refusal;
use crate::infra::metrics;
use crate::model::{InvalidField, StoreError, TaskId};
use crate::outputs::{BadPattern, Found, Grep, GrepOptions, LEAST_TIME, Matches, MediaKind, OutputName};
use crate::store::{Output, Store};

/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 4096;
/// Most lines around a match, on each side.
const MAX_AROUND: u32 = 1000;
/// Longest line that may be asked for, in characters.
const MAX_LINE: u32 = 1 << 20;
/// A batch is sent when it is this large, or this old.
const BATCH_BYTES: usize = 64 << 10;
const BATCH_LINES: usize = 512;
const BATCH_AGE: Duration = Duration::from_millis(100);
/// Outputs that are looked up at once.
const PAGE: usize = 256;

type Item = Result<pb::GrepToolOutputResponse, Refusal>;

/// Begins a search.
pub(super) async fn grep(
    serving: &Arc<Serving>,
    asked: &pb::GrepToolOutputRequest,
) -> Result<impl Stream<Item = Item> + Send + Unpin + use<>, Refusal> {
    let id = TaskId::parse(&asked.task_uuid)?;
    let output = if asked.ref_id.is_empty() { None } else { Some(ref_id(&asked.ref_id)?) };
    let options = options(asked)?;
    let most = asked.max_matches;
    let grep = serving
        .engine
        .with(|store| {
            let bad = |BadPattern(problem): BadPattern| {
                InvalidField::new("pattern", format!("cannot be used: {problem}"))
            };
            let grep = Grep::new(options).map_err(bad)?;
            // What is not there is told before anything else.
            match output {
                Some(output) => store.output(id, output).map(drop)?,
                None => store.outputs_after(id, None, 0).map(drop)?,
            }
            Ok(grep)
        })
        .await?;
    // It is never closed. Whoever has to wait takes no thread.
    let place = Arc::clone(&serving.searches).acquire_owned().await;
    let store = serving.engine.store();
    let (sender, waiting) = mpsc::channel(1);
    spawn_blocking(move || {
        let search = Search { store, id, grep, batch: Batch::new(sender), time: LEAST_TIME };
        search.run(output, most);
        drop(place);
    });
    Ok(Box::pin(unfold(waiting, |mut waiting| async { waiting.recv().await.map(|item| (item, waiting)) })))
}

fn options(asked: &pb::GrepToolOutputRequest) -> Parsed<GrepOptions> {
    let bad = |field, problem: String| Err(InvalidField::new(field, problem));
    if asked.pattern.is_empty() {
        return bad("pattern", "is missing".to_owned());
    }
    if asked.pattern.len() > MAX_PATTERN {
        return bad(
            "pattern",
            format!("has {} bytes; at most {MAX_PATTERN} are allowed", asked.pattern.len()),
        );
    }
    for (field, lines) in [("before", asked.before), ("after", asked.after)] {
        if lines > MAX_AROUND {
            return bad(field, format!("is {lines}; at most {MAX_AROUND} is allowed"));
        }
    }
    let max_line_length = match asked.max_line_length {
        0 => 2000,
        given if !(3..=MAX_LINE).contains(&given) => {
            return bad("max_line_length", format!("is {given}; 3 to {MAX_LINE} are allowed"));
        }
        given => given as usize,
    };
    Ok(GrepOptions {
        pattern: asked.pattern.clone(),
        ignore_case: asked.ignore_case,
        fixed: asked.fixed,
        before: asked.before as usize,
        after: asked.after as usize,
        max_line_length,
    })
}

struct Search {
    store: Store,
    id: TaskId,
    grep: Grep,
    batch: Batch,
    /// Time that is left, beside what the size of each output allows.
    time: Duration,
}

impl Search {
    fn run(mut self, output: Option<OutputName>, most: u64) {
        let searched = match output {
            Some(output) => self.store.output(self.id, output).and_then(|found| self.one(found, most)),
            None => self.all(most),
        };
        match searched {
            Ok((matches, limited)) => self.batch.end(matches, limited),
            Err(error) => {
                // Nobody may wait for it.
                let _ = self.batch.sender.blocking_send(Err(error.into()));
            }
        }
    }

    fn one(&mut self, output: Output, most: u64) -> Result<(u64, bool), StoreError> {
        let Output { name, content, .. } = output;
        self.batch.of = name.to_string();
        let searched = self.grep.search(content, most, &mut self.batch, &mut self.time);
        let searched = searched.map_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                return InvalidField::new("pattern", "takes too long; use one with smaller repetitions")
                    .into();
            }
            self.store.bad_output(self.id, name, error)
        })?;
        Ok((searched.matches, searched.limited))
    }

    /// All outputs that are text.
    fn all(&mut self, most: u64) -> Result<(u64, bool), StoreError> {
        let (mut after, mut matches) = (None, 0);
        loop {
            let page = self.store.outputs_after(self.id, after, PAGE)?;
            let Some(last) = page.last() else { return Ok((matches, false)) };
            after = Some(*last);
            for id in page {
                let output = match self.store.output(self.id, id) {
                    // It went since.
                    Err(StoreError::OutputNotFound { .. }) => continue,
                    output => output?,
                };
                if MediaKind::of(&output.meta.head.media_type) != MediaKind::Text {
                    continue;
                }
                let (found, limited) = self.one(output, most.saturating_sub(matches))?;
                matches += found;
                if limited || !self.batch.waits() {
                    return Ok((matches, limited));
                }
            }
        }
    }
}

/// Lines that go together.
struct Batch {
    sender: mpsc::Sender<Item>,
    /// The output that is searched.
    of: String,
    lines: Vec<pb::GrepLine>,
    bytes: usize,
    sent_at: Instant,
}

impl Batch {
    fn new(sender: mpsc::Sender<Item>) -> Self {
        Self { sender, of: String::new(), lines: Vec::new(), bytes: 0, sent_at: Instant::now() }
    }

    fn send(&mut self, matches: Option<u64>, limited: bool) -> bool {
        let lines = std::mem::take(&mut self.lines);
        metrics::bytes_streamed("GrepToolOutput", std::mem::take(&mut self.bytes));
        let sent = self.sender.blocking_send(Ok(pb::GrepToolOutputResponse { lines, matches, limited }));
        self.sent_at = Instant::now();
        sent.is_ok()
    }

    fn end(&mut self, matches: u64, limited: bool) {
        self.send(Some(matches), limited);
    }
}

impl Matches for Batch {
    fn take(&mut self, found: Found) -> bool {
        self.bytes += found.text.len() + self.of.len();
        self.lines.push(pb::GrepLine {
            ref_id: self.of.clone(),
            line_number: found.line_number,
            text: found.text,
            is_match: found.is_match,
            gap_before: found.gap_before,
        });
        let full = self.bytes >= BATCH_BYTES || self.lines.len() >= BATCH_LINES;
        if full || self.sent_at.elapsed() >= BATCH_AGE { self.send(None, false) } else { true }
    }

    fn waits(&self) -> bool {
        !self.sender.is_closed()
    }
}
