//! A rewrite: the contents of a task's view from a point of its log on.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::json::{Json, compact};
use super::{InvalidField, Role};

/// One rewrite of the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// The generation of the view that the rewrite creates: 1, 2, 3 …
    pub ordinal: u64,
    /// The strategy that produced it.
    pub strategy: String,
    /// The rewrite that it was computed on.
    pub base: u64,
    /// The rewrite that an undo restores.
    pub parent: Option<u64>,
    /// The last message that it accounts for.
    pub covers: u64,
    /// The reason.
    pub reason: String,
    /// The segments of the view, in order.
    pub segments: Vec<Segment>,
}

/// A segment of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// Messages `from` to `to`.
    Keep {
        /// The first message.
        from: u64,
        /// The last message.
        to: u64,
        /// If set, the outputs of tools are trimmed, except in these messages.
        trim_except: Option<Vec<u64>>,
    },
    /// A message with other content.
    Replace {
        /// The message.
        seq: u64,
        /// The new content.
        content: Json,
        /// The tokens of the new content.
        tokens: u64,
    },
    /// A message that is not in the log.
    Literal(Literal),
    /// A literal of an earlier rewrite.
    Earlier {
        /// The ordinal of that rewrite.
        rewrite: u64,
        /// The index of the segment in that rewrite, from 0.
        index: usize,
    },
}

/// A message that is in the view but not in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Literal {
    /// The author.
    pub role: Role,
    /// Text or parts.
    pub content: Json,
    /// The kind of literal, for tools that distinguish them.
    pub kind: LiteralKind,
    /// Its tokens.
    pub tokens: u64,
    /// The record of a summary, as JSON.
    pub summary: Option<Json>,
}

/// The kind of a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LiteralKind {
    /// A summary of messages that were removed from the view.
    Summary,
    /// Information that a compaction retained.
    Retain,
    /// A note that messages were omitted.
    Gap,
    /// Context of an earlier task.
    Inherited,
    /// Anything else.
    Note,
}

/// One summary, as a line of `summaries.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryRecord {
    /// The number of the summary, 1, 2, 3 …; assigned by the store.
    pub id: u64,
    /// The first summarised message.
    pub start_seq: u64,
    /// The last summarised message.
    pub end_seq: u64,
    /// The text of the summary.
    pub summary: String,
    /// The number of summarised messages.
    pub compressed_message_count: u64,
    /// The tokens of the summarised messages.
    pub original_tokens: u64,
    /// The tokens of the summary.
    pub summary_tokens: u64,
    /// The difference of the two.
    pub tokens_saved: u64,
    /// `summary_tokens / original_tokens`.
    pub ratio: f64,
    /// The strategy that produced it.
    pub strategy: String,
    /// The model that wrote it.
    pub model: String,
    /// The time of the summary.
    pub timestamp: DateTime<Utc>,
    /// The sections of the summary, if sections were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sections: Option<serde_json::Value>,
}

impl Rewrite {
    /// The strategy name of rewrites with inherited context.
    pub const INHERIT: &'static str = "inherit";
    /// Most segments of one rewrite.
    pub const MAX_SEGMENTS: usize = 4096;
    /// Most bytes of a rewrite's line.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Returns the fields after an event's envelope, each with a leading comma.
    pub fn body(&self) -> String {
        let mut out = String::new();
        let _ =
            write!(out, ",\"ordinal\":{},\"strategy\":{}", self.ordinal, Json::text(&self.strategy).as_str());
        let _ = write!(out, ",\"base\":{}", self.base);
        if let Some(parent) = self.parent {
            let _ = write!(out, ",\"parent\":{parent}");
        }
        let _ = write!(out, ",\"covers\":{},\"reason\":{}", self.covers, Json::text(&self.reason).as_str());
        out.push_str(",\"segments\":[");
        for (at, segment) in self.segments.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            segment.write(&mut out);
        }
        out.push(']');
        out
    }

    /// Parses the line of a rewrite event.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let wire: RewriteWire = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let segments = wire.segments.into_iter().map(Segment::try_from).collect::<Result<_, _>>()?;
        Ok(Self {
            ordinal: wire.ordinal,
            strategy: wire.strategy,
            base: wire.base,
            parent: wire.parent,
            covers: wire.covers,
            reason: wire.reason,
            segments,
        })
    }

    /// Returns whether the rewrite removes messages from the view to save space, and so can be undone.
    pub fn is_compaction(&self) -> bool {
        matches!(self.strategy.as_str(), "summarize" | "compact" | "prune" | "window")
    }

    /// Validates everything that does not need the log: order of the seqs, ranges, number of segments.
    pub fn validate(&self) -> Result<(), InvalidField> {
        let bad = |problem: String| Err(InvalidField::new("segments", problem));
        if self.segments.len() > Self::MAX_SEGMENTS {
            return bad(format!("are {}; at most {} are allowed", self.segments.len(), Self::MAX_SEGMENTS));
        }
        let mut last = 0;
        for (at, segment) in self.segments.iter().enumerate() {
            let (from, to) = match segment {
                Segment::Keep { from, to, .. } => (*from, *to),
                Segment::Replace { seq, .. } => (*seq, *seq),
                Segment::Earlier { rewrite, .. } if *rewrite == 0 || *rewrite >= self.ordinal => {
                    return bad(format!("[{at}] refers to rewrite {rewrite}, which is not an earlier one"));
                }
                Segment::Literal(_) | Segment::Earlier { .. } => continue,
            };
            if from <= last || to < from || to > self.covers {
                return bad(format!(
                    "[{at}] keeps {from} to {to}: seqs must rise from segment to segment, up to covers ({})",
                    self.covers
                ));
            }
            if let Segment::Keep { trim_except: Some(except), .. } = segment
                && except.iter().any(|seq| !(from..=to).contains(seq))
            {
                return bad(format!("[{at}] excepts a message outside of {from} to {to}"));
            }
            last = to;
        }
        Ok(())
    }

    /// Returns the same segments for a later rewrite: literals by reference, never copied.
    pub fn segments_by_reference(&self) -> Vec<Segment> {
        let refer = |(index, segment): (usize, &Segment)| match segment {
            Segment::Literal(_) => Segment::Earlier { rewrite: self.ordinal, index },
            Segment::Keep { .. } | Segment::Replace { .. } | Segment::Earlier { .. } => segment.clone(),
        };
        self.segments.iter().enumerate().map(refer).collect()
    }
}

impl Segment {
    /// Creates a kept range without trimmed outputs.
    pub fn keep(from: u64, to: u64) -> Self {
        Self::Keep { from, to, trim_except: None }
    }

    fn write(&self, out: &mut String) {
        let _ = match self {
            Self::Keep { from, to, trim_except: None } => write!(out, "{{\"keep\":[{from},{to}]}}"),
            Self::Keep { from, to, trim_except: Some(except) } => {
                let _ = write!(out, "{{\"keep\":[{from},{to}],\"trim_outputs\":true");
                if !except.is_empty() {
                    let seqs: Vec<String> = except.iter().map(u64::to_string).collect();
                    let _ = write!(out, ",\"except\":[{}]", seqs.join(","));
                }
                write!(out, "}}")
            }
            Self::Replace { seq, content, tokens } => {
                write!(out, "{{\"seq\":{seq},\"content\":{},\"tokens\":{tokens}}}", content.as_str())
            }
            Self::Literal(literal) => {
                let (role, content) = (literal.role.as_str(), literal.content.as_str());
                let _ = write!(out, "{{\"literal\":{{\"role\":\"{role}\",\"content\":{content}}}");
                let _ = write!(out, ",\"kind\":\"{}\",\"tokens\":{}", literal.kind.as_str(), literal.tokens);
                if let Some(summary) = &literal.summary {
                    let _ = write!(out, ",\"summary\":{}", summary.as_str());
                }
                write!(out, "}}")
            }
            Self::Earlier { rewrite, index } => write!(out, "{{\"rewrite\":{rewrite},\"index\":{index}}}"),
        };
    }
}

impl LiteralKind {
    /// Returns the name used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Retain => "retain",
            Self::Gap => "gap",
            Self::Inherited => "inherited",
            Self::Note => "note",
        }
    }
}

#[derive(Deserialize)]
struct RewriteWire {
    ordinal: u64,
    strategy: String,
    base: u64,
    parent: Option<u64>,
    covers: u64,
    #[serde(default)]
    reason: String,
    segments: Vec<SegmentWire>,
}

#[derive(Deserialize)]
struct SegmentWire {
    keep: Option<[u64; 2]>,
    #[serde(default)]
    trim_outputs: bool,
    #[serde(default)]
    except: Vec<u64>,
    seq: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    content: Option<Box<RawValue>>,
    #[serde(default)]
    tokens: u64,
    literal: Option<LiteralWire>,
    kind: Option<LiteralKind>,
    summary: Option<Box<RawValue>>,
    rewrite: Option<u64>,
    index: Option<usize>,
}

/// Deserialises `null` as a value, not as an absent field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
struct LiteralWire {
    role: Role,
    content: Box<RawValue>,
}

impl TryFrom<SegmentWire> for Segment {
    type Error = String;

    fn try_from(wire: SegmentWire) -> Result<Self, String> {
        let json = |raw: Box<RawValue>| Json::kept(compact(raw.get()));
        match wire {
            SegmentWire { keep: Some([from, to]), trim_outputs, except, .. } => {
                Ok(Self::Keep { from, to, trim_except: trim_outputs.then_some(except) })
            }
            SegmentWire { seq: Some(seq), content: Some(content), tokens, .. } => {
                Ok(Self::Replace { seq, content: json(content), tokens })
            }
            SegmentWire { literal: Some(literal), kind, tokens, summary, .. } => Ok(Self::Literal(Literal {
                role: literal.role,
                content: json(literal.content),
                kind: kind.unwrap_or(LiteralKind::Note),
                tokens,
                summary: summary.map(json),
            })),
            SegmentWire { rewrite: Some(rewrite), index: Some(index), .. } => {
                Ok(Self::Earlier { rewrite, index })
            }
            _ => Err("a segment has an unknown kind".to_owned()),
        }
    }
}
