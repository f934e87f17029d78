//! The state of a log up to some line: numbering, status, lease, counters, remembered requests.
//!
//! [`LogState::apply`] is called for every line, whether it was just written or is read again, so a state
//! that was recovered is the state that was lost. Everything here is bounded and goes into the checkpoint.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::index::IndexRow;
use super::line::{Head, Line};
use super::requests::{CompletedRequest, Digest, Requests};
use crate::model::{
    Calibration, Event, Holder, LeaseReason, Reported, Rewrite, Role, Segment, Status, TaskConfig, TaskId,
    ToolCall,
};

/// Version of the formats in a task's directory.
pub const FORMAT_VERSION: u32 = 1;

/// Damage of a log: a line that cannot stand where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {problem}")]
pub struct Damage {
    /// Where the line begins.
    pub offset: u64,
    /// What is wrong with it.
    pub problem: String,
}

impl Damage {
    pub(crate) fn new(offset: u64, problem: impl Into<String>) -> Self {
        Self { offset, problem: problem.into() }
    }
}

/// The newest lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Rises with each.
    pub generation: u64,
    /// Whose it is.
    pub holder: Holder,
    /// Since when.
    pub acquired_at: DateTime<Utc>,
}

/// The newest rewrite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewriteMark {
    /// Its ordinal: the generation of the view.
    pub ordinal: u64,
    /// Where its line begins.
    pub offset: u64,
    /// The last message it speaks for.
    pub covers: u64,
    /// What undo goes back to.
    pub parent: Option<u64>,
    /// Tokens of all messages of the log when the view was last compressed, or that taken back; 0 if it never was.
    #[serde(default)]
    pub compressed_at: u64,
}

/// Counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Tokens of all messages.
    pub message_tokens: u64,
    /// Calls of the LLM that were reported.
    pub llm_calls: u64,
    /// Tool calls that were reported (those in `tools.jsonl` not counted).
    pub tool_calls: u64,
    /// Tokens that were reported.
    pub tokens: u64,
    /// Compactions.
    pub compressions: u64,
    /// Summaries.
    pub summaries: u64,
    /// The factor between counted and reported tokens.
    #[serde(default)]
    pub calibration: Calibration,
    /// Tokens of the tools that were sent with the newest call that was reported, before they are calibrated.
    #[serde(default)]
    pub tools_tokens: u64,
    /// The newest report on the view; none if that was rewritten since.
    #[serde(default)]
    pub reported: Option<Reported>,
}

impl Counters {
    /// Counts one call of a model, and what it says about the counts of tokens.
    fn apply_usage(&mut self, input: u64, output: u64, counted: Option<u64>, tools_tokens: u64) {
        self.llm_calls = self.llm_calls.saturating_add(1);
        self.tokens = self.tokens.saturating_add(input).saturating_add(output);
        // Without the count, nothing is known of what was sent.
        if let Some(counted) = counted.map(|counted| counted.saturating_add(tools_tokens)) {
            self.calibration = self.calibration.reported(input, counted);
            self.reported = Reported::new(input, counted).or(self.reported);
        }
        self.tools_tokens = tools_tokens;
    }
}

impl Counters {
    /// Returns counted tokens of the present view, with the tools, as the model counts them: by calibration, or by the newest
    /// report if that is more.
    pub fn calibrated(&self, counted: u64) -> u64 {
        let reported = self.reported.map_or(0, |reported| reported.apply(counted, self.calibration));
        self.calibration.apply(counted).max(reported)
    }
}

/// The state that follows from `messages.jsonl`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogState {
    /// The task, as the first line names it.
    pub uuid: Option<TaskId>,
    /// The last message.
    pub last_seq: u64,
    /// The tokens of the last message if it is the assistant's: the answer to a call, and no input of it.
    #[serde(default)]
    pub answer_tokens: u64,
    /// The largest `durable_to` of a line.
    pub durable_to: u64,
    /// What the task is doing.
    pub status: Status,
    /// The newest lease; none if the task is not running.
    pub lease: Option<Lease>,
    /// The newest lease generation there ever was.
    pub lease_generation: u64,
    /// The lease that the task began with; of an older checkpoint it is not known, and was 1.
    #[serde(default = "one")]
    pub first_lease: u64,
    /// The newest holder there ever was.
    pub last_holder: Option<Holder>,
    /// The newest `config` event.
    pub config: Option<TaskConfig>,
    /// The newest rewrite.
    pub rewrite: Option<RewriteMark>,
    /// Counters.
    pub tally: Counters,
    /// Messages that are pinned.
    pub pins: BTreeSet<u64>,
    /// Length and checksum of `summaries.jsonl`.
    pub summaries_len: u64,
    /// See `summaries_len`.
    pub summaries_crc: u32,
    /// When the log was begun.
    pub started_at: Option<DateTime<Utc>>,
    /// When its last line was written.
    pub updated_at: Option<DateTime<Utc>>,
    /// When the task ended.
    pub completed_at: Option<DateTime<Utc>>,
    /// Why it failed.
    pub error_message: Option<String>,
    /// Where the line with the final summary is.
    pub final_summary_at: Option<u64>,
    /// An event of a newer version: the task can only be read.
    pub unknown_event: Option<String>,
    /// Requests with an id.
    pub requests: Requests,
}

fn one() -> u64 {
    1
}

impl Default for LogState {
    fn default() -> Self {
        Self {
            uuid: None,
            last_seq: 0,
            answer_tokens: 0,
            durable_to: 0,
            status: Status::Running,
            lease: None,
            lease_generation: 0,
            first_lease: 0,
            last_holder: None,
            config: None,
            rewrite: None,
            tally: Counters::default(),
            pins: BTreeSet::new(),
            summaries_len: 0,
            summaries_crc: 0,
            started_at: None,
            updated_at: None,
            completed_at: None,
            error_message: None,
            final_summary_at: None,
            unknown_event: None,
            requests: Requests::default(),
        }
    }
}

impl LogState {
    /// Most pinned messages of a task.
    pub const MAX_PINS: usize = 4096;

    /// The generation of the view: the newest rewrite's ordinal.
    pub fn view_generation(&self) -> u64 {
        self.rewrite.as_ref().map_or(0, |rewrite| rewrite.ordinal)
    }

    /// Returns the index row of the line at `offset`, which is applied next.
    pub fn row_at(&self, offset: u64) -> IndexRow {
        IndexRow { seq: self.last_seq + 1, rewrites: self.view_generation(), offset }
    }

    /// Applies the line that stands at `offset`.
    pub fn apply(&mut self, offset: u64, end: u64, line: &Line<'_>) -> Result<(), Damage> {
        let damage = |problem: String| Damage::new(offset, problem);
        if line.durable_to > offset || line.durable_to < self.durable_to {
            return Err(damage(format!("durable_to {} cannot be", line.durable_to)));
        }
        let time = line.time().ok_or_else(|| damage(format!("{:?} is no time", line.timestamp)))?;
        match line.head {
            Head::Message { seq, role, tokens } => {
                if self.uuid.is_none() || seq != self.last_seq + 1 {
                    return Err(damage(format!("message {seq} follows message {}", self.last_seq)));
                }
                self.note_request(line, &[role.as_str(), line.body()], seq, end).map_err(damage)?;
                if line.body().contains(",\"pinned\":true")
                    && line.message().map_err(|error| damage(error.to_string()))?.pinned
                {
                    self.pins.insert(seq);
                }
                self.last_seq = seq;
                self.answer_tokens = if role == Role::Assistant { tokens } else { 0 };
                self.tally.message_tokens = self.tally.message_tokens.saturating_add(tokens);
            }
            Head::Event { name, after } => {
                if after != self.last_seq || (self.uuid.is_none() && name != "started") {
                    return Err(damage(format!(
                        "event {name} after {after} follows message {}",
                        self.last_seq
                    )));
                }
                match Event::parse(name, line.text) {
                    Ok(Some(event)) => self.apply_event(event, offset, end, time, line).map_err(damage)?,
                    Ok(None) => self.unknown_event = Some(name.to_owned()),
                    // It is whole, so it was written like this: by a version that knows more words.
                    Err(problem) => self.unknown_event = Some(format!("{name} ({problem})")),
                }
            }
            Head::Record { number, .. } => return Err(damage(format!("record {number} is no message"))),
        }
        self.durable_to = line.durable_to;
        self.updated_at = Some(time);
        Ok(())
    }

    fn apply_event(
        &mut self,
        event: Event,
        offset: u64,
        end: u64,
        time: DateTime<Utc>,
        line: &Line<'_>,
    ) -> Result<(), String> {
        let mut outcome = self.last_seq;
        match event {
            Event::Started { uuid, format_version } => {
                if format_version > FORMAT_VERSION {
                    self.unknown_event = Some(format!("started (format {format_version})"));
                }
                if self.uuid.is_some() {
                    return Err("a log starts only once".to_owned());
                }
                self.uuid = Some(uuid);
                self.started_at = Some(time);
            }
            Event::Lease { generation, holder, reason } => {
                if generation <= self.lease_generation {
                    return Err(format!("lease {generation} follows lease {}", self.lease_generation));
                }
                outcome = generation;
                self.apply_lease(Lease { generation, holder, acquired_at: time }, reason);
            }
            Event::Config { config } => self.config = Some(config),
            Event::Rewrite(rewrite) => {
                outcome = rewrite.ordinal;
                self.apply_rewrite(&rewrite, offset)?;
            }
            Event::Status { status, error_message, final_summary } => {
                self.status = status;
                self.error_message = error_message;
                self.completed_at = status.is_final().then_some(time);
                self.final_summary_at = final_summary.map(|_| offset);
                if status != Status::Running {
                    self.lease = None;
                }
            }
            Event::Usage {
                input_tokens,
                output_tokens,
                cache_creation_tokens,
                cache_read_tokens,
                counted_tokens,
                tools_tokens,
            } => {
                let input =
                    input_tokens.saturating_add(cache_creation_tokens).saturating_add(cache_read_tokens);
                self.tally.apply_usage(input, output_tokens, counted_tokens, tools_tokens);
            }
            Event::Statistics { llm_calls, tool_calls, tokens, compressions } => {
                let tally = &mut self.tally;
                tally.llm_calls = tally.llm_calls.saturating_add(llm_calls);
                tally.tool_calls = tally.tool_calls.saturating_add(tool_calls);
                tally.tokens = tally.tokens.saturating_add(tokens);
                tally.compressions = tally.compressions.saturating_add(compressions);
            }
            Event::Pin { seq, pinned: true } => {
                self.pins.insert(seq);
            }
            Event::Pin { seq, pinned: false } => {
                self.pins.remove(&seq);
            }
            Event::Forked { .. } => self.begin_again(),
            Event::Erased { .. } => {}
        }
        self.note_request(line, &[], outcome, end)
    }

    fn apply_lease(&mut self, lease: Lease, reason: LeaseReason) {
        if self.first_lease == 0 {
            self.first_lease = lease.generation;
        }
        if reason == LeaseReason::Resume {
            self.status = Status::Running;
        }
        self.lease_generation = lease.generation;
        self.last_holder = Some(lease.holder.clone());
        self.lease = Some(lease);
    }

    /// The lines before are another task's: how that stood, and what its callers asked for, is not taken over.
    fn begin_again(&mut self) {
        self.status = Status::Running;
        self.first_lease = 0;
        self.lease = None;
        self.completed_at = None;
        self.error_message = None;
        self.final_summary_at = None;
        self.requests = Requests::default();
    }

    fn apply_rewrite(&mut self, rewrite: &Rewrite, offset: u64) -> Result<(), String> {
        let newest = self.view_generation();
        if rewrite.ordinal != newest + 1 || rewrite.base != newest || rewrite.covers > self.last_seq {
            return Err(format!("rewrite {} on {} cannot follow {newest}", rewrite.ordinal, rewrite.base));
        }
        rewrite.validate().map_err(|error| error.to_string())?;
        for segment in &rewrite.segments {
            if let Segment::Literal(literal) = segment
                && let Some(record) = &literal.summary
            {
                self.tally.summaries += 1;
                let mut crc = crc32fast::Hasher::new_with_initial_len(self.summaries_crc, self.summaries_len);
                crc.update(record.as_str().as_bytes());
                crc.update(b"\n");
                self.summaries_crc = crc.finalize();
                self.summaries_len += record.as_str().len() as u64 + 1;
            }
        }
        if rewrite.is_compaction() {
            self.tally.compressions = self.tally.compressions.saturating_add(1);
        }
        // What is in the view now is nobody's answer, and nobody was charged for it.
        self.answer_tokens = 0;
        self.tally.reported = None;
        self.rewrite = Some(RewriteMark {
            ordinal: rewrite.ordinal,
            offset,
            covers: rewrite.covers,
            parent: rewrite.parent,
            compressed_at: if rewrite.is_compaction() || rewrite.strategy == "undo" {
                self.tally.message_tokens
            } else {
                self.rewrite.as_ref().map_or(0, |mark| mark.compressed_at)
            },
        });
        Ok(())
    }

    /// Remembers the request behind a line. Of messages it is known what they asked for by what they hold.
    fn note_request(
        &mut self,
        line: &Line<'_>,
        asked: &[&str],
        outcome: u64,
        end: u64,
    ) -> Result<(), String> {
        note_request(&mut self.requests, line, asked, outcome, end)
    }
}

fn note_request(
    requests: &mut Requests,
    line: &Line<'_>,
    asked: &[&str],
    outcome: u64,
    end: u64,
) -> Result<(), String> {
    if !line.body().contains(",\"request_id\":\"") {
        return Ok(());
    }
    let request = line.request().map_err(|error| error.to_string())?;
    let Some(id) = request.request_id else { return Ok(()) };
    let digest = match request.request_digest {
        Some(hex) => Digest::from_hex(&hex).ok_or("request_digest is not 32 hex digits")?,
        None => Digest::of(asked),
    };
    requests.remember(id, CompletedRequest { digest, outcome, end });
    Ok(())
}

/// The state that follows from `tools.jsonl` or `planning.jsonl`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RecordState {
    /// The last number.
    pub last: u64,
    /// The largest `durable_to` of a line.
    pub durable_to: u64,
    /// How many tool calls ended well.
    pub successes: u64,
    /// Requests with an id.
    pub requests: Requests,
}

impl RecordState {
    /// Takes in the line that stands at `offset`.
    pub fn apply(&mut self, offset: u64, end: u64, line: &Line<'_>, is_tool: bool) -> Result<(), Damage> {
        let damage = |problem: String| Damage::new(offset, problem);
        let Head::Record { number, .. } = line.head else {
            return Err(damage("the line is no record".to_owned()));
        };
        if line.durable_to > offset || line.durable_to < self.durable_to || number != self.last + 1 {
            return Err(damage(format!("record {number} cannot follow record {}", self.last)));
        }
        if is_tool && ToolCall::is_success(line.text).map_err(damage)? {
            self.successes += 1;
        }
        note_request(&mut self.requests, line, &[line.body()], number, end).map_err(damage)?;
        self.last = number;
        self.durable_to = line.durable_to;
        Ok(())
    }
}
