//! Requests that images and files make too large: in the view, the oldest of them become notes. The log keeps them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::context::count_tokens;
use crate::log::{Head, MessageBody};
use crate::model::TaskId;
use crate::model::json::{Json, JsonKind, field, items};
use crate::model::{NewMessage, Rewrite, Role, Segment, StoreError, TokenCounter};
use crate::store::Store;

use super::{Caller, Inner, NewRewrite, Outline, Task};

/// So that the next image does not make it too large again, as each rewrite breaks prompt caches.
const LEAVE: (u64, u64) = (3, 4);
/// The least part of the budget that a rewrite has to save.
const WORTH: u64 = 10;

/// A message whose media become notes.
struct Shed {
    content: String,
    tokens: u64,
    saved: u64,
}

impl Task {
    /// Returns whether a message that was just written makes it worth a try.
    pub(super) fn is_shedding_due(&self, inner: &Inner, message: &NewMessage) -> bool {
        let has_parts = message.content.as_ref().is_some_and(|content| content.kind() == JsonKind::Array);
        let Some(budget) = inner.context.policy().request_budget().filter(|_| has_parts) else {
            return false;
        };
        let bytes = inner.view.bytes();
        bytes > budget && !inner.context.is_media_scanned(bytes, budget)
    }

    /// Replaces the oldest media that save `goal` bytes, if they save as many as it is worth.
    fn replace_media(
        &self,
        look: &Outline,
        goal: u64,
        worth: u64,
        reason: &str,
    ) -> Result<Option<u64>, StoreError> {
        let (found, covers) = look.oldest_media(goal)?;
        let saved: u64 = found.values().map(|shed| shed.saved).sum();
        if saved < worth {
            return Ok(None);
        }
        let rewrite = NewRewrite {
            strategy: "trim".to_owned(),
            base: look.generation,
            covers,
            reason: reason.to_owned(),
            segments: look.segments(found, covers),
            summaries: Vec::new(),
        };
        self.rewrite(&rewrite, &Caller { request_id: None, lease_generation: look.lease }).map(Some)
    }
}

impl Outline {
    /// Media of the oldest messages that save so many bytes, and the last message of which a rewrite may speak.
    fn oldest_media(&self, goal: u64) -> Result<(BTreeMap<u64, Shed>, u64), StoreError> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for segment in self.newest.iter().flat_map(|newest| &newest.segments) {
            if let Segment::Keep { from, to, trim_except: None } = segment {
                ranges.push((*from, *to));
            }
        }
        ranges.push((self.covered() + 1, self.last_seq));
        let (mut found, mut saved) = (BTreeMap::new(), 0);
        // A rewrite has its limits; what is left over goes with the next one. Each message splits a segment in three.
        let segments = self.newest.as_ref().map_or(0, |newest| newest.segments.len());
        let mut room = (Rewrite::MAX_SEGMENTS - 1).saturating_sub(segments) / 2;
        let mut bytes = Rewrite::MAX_BYTES / 2;
        // What came before the model's last answer, and what stands before a message that closes all groups.
        let (mut answered, mut covers) = (0, self.covered());
        for (from, to) in ranges {
            let mut messages = self.source.messages(from, to);
            while messages.step(|seq, line| {
                let Head::Message { role, tokens, .. } = line.head else { return Ok(()) };
                if role != Role::Tool {
                    covers = covers.max(seq - 1);
                }
                if role == Role::Assistant {
                    answered = seq;
                }
                if saved < goal && !self.pins.contains(&seq) && line.body().contains("\"type\"") {
                    let body = line.message().map_err(|error| StoreError::io("a message", error.into()))?;
                    let shed = shed(seq, role, tokens, &body, self.counter);
                    if let Some(shed) = shed.filter(|shed| room > 0 && shed.content.len() <= bytes) {
                        (room, bytes) = (room - 1, bytes - shed.content.len());
                        saved += shed.saved;
                        found.insert(seq, shed);
                    }
                }
                Ok(())
            })? {}
        }
        if self.closed {
            covers = self.last_seq;
        }
        let end = answered.min(covers + 1);
        found.retain(|seq, _| *seq < end);
        Ok((found, covers))
    }

    /// The view as it is, with other contents for what was found.
    fn segments(&self, mut found: BTreeMap<u64, Shed>, covers: u64) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut all = self.newest.as_ref().map_or_else(Vec::new, Rewrite::segments_by_reference);
        if covers > self.covered() {
            all.push(Segment::keep(self.covered() + 1, covers));
        }
        for segment in all {
            let Segment::Keep { from, to, trim_except: None } = segment else {
                segments.push(segment);
                continue;
            };
            let mut next = from;
            while let Some(seq) = found.keys().copied().find(|seq| (next..=to).contains(seq)) {
                let Some(shed) = found.remove(&seq) else { break };
                if next < seq {
                    segments.push(Segment::keep(next, seq - 1));
                }
                segments.push(Segment::Replace {
                    seq,
                    content: Json::kept(shed.content),
                    tokens: shed.tokens,
                });
                next = seq + 1;
            }
            if next <= to {
                segments.push(Segment::keep(next, to));
            }
        }
        segments
    }
}

/// A message with notes instead of its media, if it has any.
fn shed(seq: u64, role: Role, tokens: u64, body: &MessageBody<'_>, counter: TokenCounter) -> Option<Shed> {
    let content = body.content.map(|content| content.get())?;
    if JsonKind::of(content) != JsonKind::Array {
        return None;
    }
    let (mut left, mut saved) = (String::from("["), 0);
    for (at, part) in items(content).into_iter().enumerate() {
        if at > 0 {
            left.push(',');
        }
        let note = kind_of_media(part).map(|kind| {
            let words = format!("[{kind} left out, the request was too large; seq={seq} part={at}]");
            format!("{{\"type\":\"text\",\"text\":{}}}", Json::text(&words).as_str())
        });
        match note.filter(|note| note.len() < part.len()) {
            Some(note) => {
                saved += (part.len() - note.len()) as u64;
                left.push_str(&note);
            }
            None => {
                let _ = write!(left, "{part}");
            }
        }
    }
    left.push(']');
    if saved == 0 {
        return None;
    }
    let kept =
        |value: Option<&serde_json::value::RawValue>| value.map(|value| Json::kept(value.get().to_owned()));
    let mut message = NewMessage::text(role, "");
    message.content = Some(Json::kept(left.clone()));
    message.tool_calls = kept(body.tool_calls);
    message.tool_call_id = kept(body.tool_call_id);
    message.name = kept(body.name);
    Some(Shed { content: left, tokens: count_tokens(counter, &message).min(tokens), saved })
}

/// Returns what a part is, if it holds an image, a sound or a file in itself.
fn kind_of_media(part: &str) -> Option<&'static str> {
    let inner = |name| field(part, name).filter(|inner| JsonKind::of(inner) == JsonKind::Object);
    match field(part, "type")? {
        "\"image_url\"" => {
            let url = field(inner("image_url")?, "url")?;
            url.starts_with("\"data:").then_some("image")
        }
        "\"input_audio\"" => field(inner("input_audio")?, "data").map(|_| "audio"),
        "\"file\"" => field(inner("file")?, "file_data").map(|_| "file"),
        // As Anthropic and OpenAI's Responses have them.
        "\"image\"" => field(inner("source")?, "data").map(|_| "image"),
        "\"document\"" => field(inner("source")?, "data").map(|_| "file"),
        "\"input_image\"" => field(part, "image_url")?.starts_with("\"data:").then_some("image"),
        "\"input_file\"" => field(part, "file_data").map(|_| "file"),
        _ => None,
    }
}

impl Store {
    /// Replaces the oldest images and files of a view that is too large for a request; answers the ordinal of the
    /// rewrite, if there was one.
    pub fn shed_media(&self, id: TaskId, rendered: Option<u64>) -> Result<Option<u64>, StoreError> {
        let task = self.task(id)?;
        let (look, budget) = {
            let mut inner = task.lock();
            task.ensure_view(&mut inner);
            let Some(budget) = inner.context.policy().request_budget() else { return Ok(None) };
            let look = task.outline_locked(&mut inner)?;
            let looked = rendered.is_none() && inner.context.is_media_scanned(look.view_bytes, budget);
            if rendered.unwrap_or(look.view_bytes) <= budget || looked {
                return Ok(None);
            }
            inner.context.note_media_scan(look.view_bytes);
            (look, budget)
        };
        let size = rendered.unwrap_or(look.view_bytes);
        let goal = size - budget / LEAVE.1 * LEAVE.0;
        let worth = rendered.map_or(budget / WORTH, |size| size - budget);
        task.replace_media(&look, goal, worth, &format!("a request of more than {budget} bytes"))
    }

    /// Replaces all images and files of a view that the model has answered; answers the ordinal of the rewrite, if there was
    /// one.
    pub fn shed_all_media(&self, id: TaskId) -> Result<Option<u64>, StoreError> {
        let task = self.task(id)?;
        let look = task.outline()?;
        task.replace_media(&look, u64::MAX, 1, "a context that was refused as too long")
    }
}
