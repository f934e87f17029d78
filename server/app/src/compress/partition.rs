//! Sets apart what is to be summarised and what stays, each in a file of its own, in one pass over the view.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::ops::Range;

use super::literals;
use super::message_file::MessageFile;
use crate::context::{Left, plain_text};
use crate::model::json::{field, items};
use crate::model::{LiteralKind, Role, StoreError, TaskId};
use crate::outputs::OutputId;
use crate::store::{MISSING_TOKENS, Outline, RequestFile, Store, ViewMessage, WorkFile};

/// Bytes that are gathered before they are written.
const BUFFER: usize = 128 << 10;
/// Refs that a summary has to name, at most: the newest.
const MOST_REFS: usize = 20;
/// Tokens that it takes to name one.
const REF_TOKENS: u64 = 24;

/// What is to be summarised, and what is known of it.
#[derive(Debug)]
pub(super) struct Partition {
    /// Messages that go, but for summaries and what was taken over.
    pub(super) material: MessageFile,
    /// Messages that stay.
    pub(super) staying: MessageFile,
    /// Messages of the log that go.
    pub(super) messages: u64,
    /// Their tokens.
    pub(super) tokens: u64,
    /// Tokens of what stays, with what stands for results that never came.
    pub(super) kept_tokens: u64,
    /// The first message of the log that goes, or that was summarised before.
    pub(super) first_seq: u64,
    /// The last one.
    pub(super) last_seq: u64,
    /// Summaries that go.
    pub(super) previous: Option<String>,
    /// What was taken over from another task and goes.
    pub(super) inherited: Option<Left>,
    /// What was retained before and goes.
    pub(super) retained: Option<String>,
    /// Outputs that messages and summaries that go refer to: the newest, which come last.
    pub(super) refs: Vec<String>,
    /// Places where something goes, one after the other.
    pub(super) gaps: Vec<Gap>,
    /// The files live as long as this.
    _files: [RequestFile; 2],
}

/// Messages that go, with none between them that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    /// Where they stand in the view.
    pub(super) places: Range<u64>,
    /// Messages of the log that go, and those that earlier gaps stand for.
    pub(super) messages: u64,
    /// The first message of the log that goes.
    pub(super) first_seq: u64,
    /// The last one.
    pub(super) last_seq: u64,
    /// Messages of the material.
    pub(super) lines: u64,
    /// What earlier notes of the gap say in short.
    pub(super) summaries: Vec<String>,
    /// Where they stand in the material.
    bytes: Range<u64>,
}

impl Gap {
    /// Returns the place of a note that stands for all that goes.
    pub(super) fn note(places: Range<u64>) -> Self {
        Self { places, messages: 0, first_seq: 0, last_seq: 0, lines: 0, summaries: Vec::new(), bytes: 0..0 }
    }
}

impl Partition {
    /// What a gap consists of.
    pub(super) fn material_of(&self, gap: &Gap) -> MessageFile {
        self.material.part(gap.bytes.clone())
    }

    /// Goes through the view, and writes what stays and what goes into a file each.
    pub(super) fn set(
        store: &Store,
        id: TaskId,
        outline: &Outline,
        stays: &[Range<u64>],
    ) -> Result<Self, StoreError> {
        let mut writers = [
            PartitionWriter::new(store.work_file(id, WorkFile::ToSummarize)?),
            PartitionWriter::new(store.work_file(id, WorkFile::Unsummarized)?),
        ];
        let mut sorter = Sorter::default();
        let (mut place, mut stays) = (0, stays.iter().peekable());
        let mut failed = None;
        outline.each(&mut |seen| {
            while stays.next_if(|range| range.end <= place).is_some() {}
            let kept = stays.peek().is_some_and(|range| range.contains(&place));
            if failed.is_none() {
                let [going, staying] = &mut writers;
                let from = going.len();
                failed = sorter.sort(seen, kept, if kept { staying } else { &mut *going }).err();
                if !kept {
                    sorter.note_gap(place, seen, from..going.len());
                }
            }
            place += 1;
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        let [going, staying] = writers;
        let files = [going.finish()?, staying.finish()?];
        let [material, staying] = [0, 1].map(|at: usize| {
            let (file, len) = files[at].contents();
            MessageFile::new(file, len).until(&outline.stop)
        });
        let joined = |texts: Vec<String>| (!texts.is_empty()).then(|| texts.join("\n\n"));
        let (previous, retained) = (joined(sorter.summaries), joined(sorter.retained));
        let carried = [&previous, &retained].into_iter().flatten();
        let refs = newest_refs(carried.flat_map(|text| OutputId::named_in(text)), sorter.refs);
        Ok(Self {
            material,
            staying,
            messages: sorter.messages,
            tokens: sorter.tokens,
            kept_tokens: sorter.kept_tokens,
            first_seq: sorter.first_seq,
            last_seq: sorter.last_seq,
            previous,
            inherited: sorter.inherited,
            retained,
            refs,
            gaps: sorter.gaps,
            _files: files,
        })
    }
}

impl Partition {
    /// Refs that a summary of so many tokens has to name: the newest that half of it has room for.
    pub(super) fn refs_for(&self, budget: u64) -> &[String] {
        let most = usize::try_from(budget / 2 / REF_TOKENS).unwrap_or(MOST_REFS);
        &self.refs[self.refs.len().saturating_sub(most)..]
    }
}

/// The refs that a summary has to name: those of messages that go and, as far as there is room, those that earlier summaries
/// have named.
fn newest_refs(earlier: impl Iterator<Item = OutputId>, newer: VecDeque<String>) -> Vec<String> {
    let mut earlier: Vec<String> = earlier.map(|id| id.to_string()).collect();
    let mut seen = BTreeSet::new();
    earlier.retain(|known| !newer.contains(known) && seen.insert(known.clone()));
    let room = MOST_REFS.saturating_sub(newer.len());
    let surplus = earlier.len().saturating_sub(room);
    earlier.into_iter().skip(surplus).chain(newer).collect()
}

#[derive(Default)]
struct Sorter {
    messages: u64,
    tokens: u64,
    kept_tokens: u64,
    first_seq: u64,
    last_seq: u64,
    summaries: Vec<String>,
    inherited: Option<Left>,
    retained: Vec<String>,
    refs: VecDeque<String>,
    gaps: Vec<Gap>,
    /// Calls of a group that stays and whose results did not come yet.
    open: Vec<String>,
}

impl Sorter {
    /// A message that goes, at a place of the view and of the material.
    fn note_gap(&mut self, place: u64, seen: &ViewMessage<'_>, bytes: Range<u64>) {
        let seq = seen.shown.seq;
        let (mut messages, mut range, mut summary) = (u64::from(seq > 0), (seq, seq), None);
        if seen.kind == Some(LiteralKind::Gap) {
            let text = plain_text(seen.shown.content.unwrap_or_default());
            messages = literals::read_gap(&text);
            if let Some((known, text)) = literals::read_gap_summary(&text) {
                (range, summary) = (known, Some(text.to_owned()));
            }
        }
        let lines = u64::from(!bytes.is_empty());
        if let Some(gap) = self.gaps.last_mut().filter(|gap| gap.places.end == place) {
            gap.places.end += 1;
            gap.messages += messages;
            gap.first_seq = if gap.first_seq == 0 { range.0 } else { gap.first_seq };
            gap.last_seq = gap.last_seq.max(range.1);
            gap.lines += lines;
            gap.bytes.end = bytes.end;
            gap.summaries.extend(summary);
        } else {
            let (places, summaries) = (place..place + 1, summary.into_iter().collect());
            let (first_seq, last_seq) = range;
            self.gaps.push(Gap { places, messages, first_seq, last_seq, lines, summaries, bytes });
        }
    }

    /// Counts what the view has for results that never came, behind messages that stay.
    fn note_calls(&mut self, seen: &ViewMessage<'_>, kept: bool) {
        let shown = &seen.shown;
        let answered = shown.tool_call_id.filter(|_| shown.role == Role::Tool);
        if let Some(at) = answered.and_then(|id| self.open.iter().position(|open| open == id)) {
            self.open.swap_remove(at);
            return;
        }
        let missing = MISSING_TOKENS.saturating_mul(self.open.len() as u64);
        self.kept_tokens = self.kept_tokens.saturating_add(missing);
        self.open.clear();
        if let Some(calls) = shown.tool_calls.filter(|_| kept && shown.role == Role::Assistant) {
            let ids = items(calls).into_iter().filter_map(|call| field(call, "id"));
            self.open.extend(ids.map(str::to_owned));
        }
    }

    fn sort(
        &mut self,
        seen: &ViewMessage<'_>,
        kept: bool,
        to: &mut PartitionWriter,
    ) -> Result<(), StoreError> {
        let shown = &seen.shown;
        self.note_calls(seen, kept);
        if kept {
            self.kept_tokens = self.kept_tokens.saturating_add(shown.tokens);
            return to.write(seen);
        }
        self.tokens = self.tokens.saturating_add(shown.tokens);
        let text = || plain_text(shown.content.unwrap_or_default()).into_owned();
        match seen.kind {
            Some(LiteralKind::Summary) => {
                let text = text();
                let (range, summary) = literals::read_summary(&text);
                if let Some((first, last)) = range {
                    self.covers(first, last);
                }
                self.summaries.push(summary.to_owned());
                return Ok(());
            }
            Some(LiteralKind::Retain) => {
                self.retained.push(literals::read_retain(&text()).to_owned());
                return Ok(());
            }
            // Said of ourselves: it is said again, or not.
            Some(LiteralKind::Note) => return Ok(()),
            Some(LiteralKind::Inherited) => {
                self.inherited = Some(Left::read(&text()));
                return Ok(());
            }
            Some(LiteralKind::Gap) | None => {}
        }
        if shown.seq > 0 {
            self.messages += 1;
            self.covers(shown.seq, shown.seq);
        }
        if let Some(output_ref) = seen.output_ref {
            let output_ref = plain_text(output_ref).into_owned();
            self.refs.retain(|known| *known != output_ref);
            self.refs.push_back(output_ref);
            if self.refs.len() > MOST_REFS {
                self.refs.pop_front();
            }
        }
        to.write(seen)
    }

    fn covers(&mut self, first: u64, last: u64) {
        self.first_seq = if self.first_seq == 0 { first } else { self.first_seq.min(first) };
        self.last_seq = self.last_seq.max(last);
    }
}

/// Writes messages to a file, buffered.
struct PartitionWriter {
    file: RequestFile,
    buffer: String,
}

impl PartitionWriter {
    fn len(&self) -> u64 {
        self.file.contents().1 + self.buffer.len() as u64
    }

    fn new(file: RequestFile) -> Self {
        Self { file, buffer: String::new() }
    }

    fn write(&mut self, seen: &ViewMessage<'_>) -> Result<(), StoreError> {
        let shown = &seen.shown;
        let out = &mut self.buffer;
        let _ = write!(out, "{{\"seq\":{},\"tokens\":{}", shown.seq, shown.tokens);
        let _ = write!(out, ",\"role\":\"{}\"", shown.role.as_str());
        if let Some(kind) = seen.kind {
            let _ = write!(out, ",\"kind\":\"{}\"", kind.as_str());
        }
        let _ = write!(out, ",\"content\":{}", shown.content.unwrap_or("null"));
        let fields = [
            ("tool_calls", shown.tool_calls),
            ("tool_call_id", shown.tool_call_id),
            ("tool_name", shown.tool_name),
            ("name", shown.name),
            ("output_ref", seen.output_ref),
        ];
        // What a model said without content: that it will not, or aloud.
        let spoken = |name| shown.extra.and_then(|extra| field(extra, name));
        let transcript = spoken("audio").and_then(|audio| field(audio, "transcript"));
        for (name, value) in
            fields.into_iter().chain([("refusal", spoken("refusal")), ("transcript", transcript)])
        {
            if let Some(value) = value {
                let _ = write!(out, ",\"{name}\":{value}");
            }
        }
        out.push_str("}\n");
        if out.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.file.write(self.buffer.as_bytes())?;
        self.buffer.clear();
        // One huge message must not leave its room behind.
        self.buffer.shrink_to(BUFFER * 2);
        Ok(())
    }

    fn finish(mut self) -> Result<RequestFile, StoreError> {
        self.flush()?;
        Ok(self.file)
    }
}
