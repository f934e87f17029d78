//! Masking of what is first written: which fields of each record are text, and which are left as they are. Ids, keys, users,
//! and the names of tools and models are: others look for them as they came.

use std::borrow::Cow;

use crate::mask::{Fields, MaskCounts, Masker};
use crate::model::json::{Json, JsonKind};
use crate::model::{Event, Literal, NewMessage, Plan, Rewrite, Segment, StoreError, TaskConfig, ToolCall};

use super::env::Env;
use super::task::StatusChange;
use crate::infra::metrics;

impl Env {
    /// Masks what is about to be written, and counts what was found.
    pub(super) fn masked<T>(&self, mask: impl FnOnce(&Masker, &mut MaskCounts) -> T) -> T {
        let mut found = MaskCounts::default();
        let masked = mask(&self.options.masker, &mut found);
        count(&found);
        masked
    }
}

/// Counts what was found, by rule.
pub(super) fn count(found: &MaskCounts) {
    for (rule, times) in found.iter() {
        metrics::masked(rule, times);
    }
}

/// A record with secrets replaced; the record itself if there are none.
pub(super) fn message<'a>(
    masker: &Masker,
    message: &'a NewMessage,
    found: &mut MaskCounts,
) -> Cow<'a, NewMessage> {
    let content = message.content.as_ref().and_then(|json| content(masker, json, found));
    let tool_calls =
        message.tool_calls.as_ref().and_then(|calls| json(masker, calls, Fields::Message, found));
    let extra = message.extra.as_ref().and_then(|extra| json(masker, extra, Fields::Message, found));
    if content.is_none() && tool_calls.is_none() && extra.is_none() {
        return Cow::Borrowed(message);
    }
    let mut masked = message.clone();
    masked.content = content.or(masked.content);
    masked.tool_calls = tool_calls.or(masked.tool_calls);
    masked.extra = extra.or(masked.extra);
    Cow::Owned(masked)
}

/// The same of a tool call.
pub(super) fn tool_call<'a>(
    masker: &Masker,
    call: &'a ToolCall,
    found: &mut MaskCounts,
) -> Cow<'a, ToolCall> {
    let arguments = call.arguments.as_ref().and_then(|value| json(masker, value, Fields::Any, found));
    let result = call.result.as_ref().and_then(|value| json(masker, value, Fields::Any, found));
    let error = call.error.as_ref().and_then(|error| text(masker, error, found));
    if arguments.is_none() && result.is_none() && error.is_none() {
        return Cow::Borrowed(call);
    }
    let mut masked = call.clone();
    masked.arguments = arguments.or(masked.arguments);
    masked.result = result.or(masked.result);
    masked.error = error.or(masked.error);
    Cow::Owned(masked)
}

/// The same of a plan.
pub(super) fn plan<'a>(masker: &Masker, plan: &'a Plan, found: &mut MaskCounts) -> Cow<'a, Plan> {
    match json(masker, &plan.plan_content, Fields::Any, found) {
        Some(plan_content) => Cow::Owned(Plan { plan_content, ..plan.clone() }),
        None => Cow::Borrowed(plan),
    }
}

/// The same of an event.
pub(super) fn event<'a>(
    masker: &Masker,
    event: &'a Event,
    found: &mut MaskCounts,
) -> Result<Cow<'a, Event>, StoreError> {
    let masked = match event {
        Event::Config { config: before } => match config(masker, before, found)? {
            Cow::Owned(config) => Cow::Owned(Event::Config { config }),
            Cow::Borrowed(_) => Cow::Borrowed(event),
        },
        Event::Status { status, error_message, final_summary } => {
            let error = error_message.as_ref().and_then(|message| text(masker, message, found));
            let summary = final_summary.as_ref().and_then(|summary| text(masker, summary, found));
            if error.is_none() && summary.is_none() {
                return Ok(Cow::Borrowed(event));
            }
            Cow::Owned(Event::Status {
                status: *status,
                error_message: error.or_else(|| error_message.clone()),
                final_summary: summary.or_else(|| final_summary.clone()),
            })
        }
        Event::Rewrite(before) => match rewrite(masker, before, found) {
            Cow::Owned(rewrite) => Cow::Owned(Event::Rewrite(rewrite)),
            Cow::Borrowed(_) => Cow::Borrowed(event),
        },
        Event::Started { .. }
        | Event::Lease { .. }
        | Event::Usage { .. }
        | Event::Statistics { .. }
        | Event::Pin { .. }
        | Event::Forked { .. }
        | Event::Erased { .. } => Cow::Borrowed(event),
    };
    Ok(masked)
}

/// The same of a configuration: of all keys but those that the server goes by.
pub(super) fn config<'a>(
    masker: &Masker,
    config: &'a TaskConfig,
    found: &mut MaskCounts,
) -> Result<Cow<'a, TaskConfig>, StoreError> {
    if masker.is_off() || config.other.is_empty() {
        return Ok(Cow::Borrowed(config));
    }
    // It is JSON that was an object, and is one still. If not, nothing is written: it could only be written unmasked.
    let failed = |error: serde_json::Error| StoreError::io("masking a configuration", error.into());
    let other = serde_json::to_string(&config.other).map_err(failed)?;
    let Some(masked) = masker.json(&other, Fields::Any, found) else { return Ok(Cow::Borrowed(config)) };
    let other = serde_json::from_str(&masked).map_err(failed)?;
    Ok(Cow::Owned(TaskConfig { other, ..config.clone() }))
}

/// The same of a rewrite: of what it brings itself.
pub(super) fn rewrite<'a>(masker: &Masker, rewrite: &'a Rewrite, found: &mut MaskCounts) -> Cow<'a, Rewrite> {
    let mut masked = Cow::Borrowed(rewrite);
    if let Some(reason) = text(masker, &rewrite.reason, found) {
        masked.to_mut().reason = reason;
    }
    for (at, segment) in rewrite.segments.iter().enumerate() {
        if let Some(segment) = self::segment(masker, segment, found) {
            masked.to_mut().segments[at] = segment;
        }
    }
    masked
}

fn segment(masker: &Masker, segment: &Segment, found: &mut MaskCounts) -> Option<Segment> {
    match segment {
        Segment::Replace { seq, content: before, tokens } => {
            let content = content(masker, before, found)?;
            Some(Segment::Replace { seq: *seq, content, tokens: *tokens })
        }
        Segment::Literal(literal) => {
            let content = content(masker, &literal.content, found);
            // The same text once more: it is not counted again.
            let again = &mut MaskCounts::default();
            let summary =
                literal.summary.as_ref().and_then(|record| json(masker, record, Fields::Any, again));
            if content.is_none() && summary.is_none() {
                return None;
            }
            Some(Segment::Literal(Literal {
                content: content.unwrap_or_else(|| literal.content.clone()),
                summary: summary.or_else(|| literal.summary.clone()),
                ..literal.clone()
            }))
        }
        Segment::Keep { .. } | Segment::Earlier { .. } => None,
    }
}

/// The same of a change of status.
pub(super) fn change(masker: &Masker, change: &StatusChange, found: &mut MaskCounts) -> StatusChange {
    let mut masked = change.clone();
    let mut mask = |text: &mut String| {
        if let Cow::Owned(masked) = masker.text(text, found) {
            *text = masked;
        }
    };
    match &mut masked {
        StatusChange::Pause | StatusChange::Resume { .. } => {}
        StatusChange::Complete { final_summary, made } => {
            final_summary.as_mut().map(&mut mask);
            made.as_mut().map(&mut mask);
        }
        StatusChange::Fail { error_message, final_summary, made } => {
            mask(error_message);
            final_summary.as_mut().map(&mut mask);
            made.as_mut().map(&mut mask);
        }
    }
    masked
}

/// Text, or the parts of a message.
fn content(masker: &Masker, content: &Json, found: &mut MaskCounts) -> Option<Json> {
    let fields = if content.kind() == JsonKind::Text { Fields::Any } else { Fields::Message };
    json(masker, content, fields, found)
}

fn json(masker: &Masker, json: &Json, fields: Fields, found: &mut MaskCounts) -> Option<Json> {
    masker.json(json.as_str(), fields, found).map(Json::kept)
}

fn text(masker: &Masker, text: &str, found: &mut MaskCounts) -> Option<String> {
    match masker.text(text, found) {
        Cow::Owned(masked) => Some(masked),
        Cow::Borrowed(_) => None,
    }
}
