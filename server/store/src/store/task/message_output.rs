//! Messages that are read like outputs: the output of a tool that was not stored in a file of its own. A note that stands for
//! such a message in the view names its number, so that a model can ask for it like for any other output.

use super::Task;
use super::outputs::Output;
use crate::log::{Head as LineHead, Line};
use crate::model::StoreError;
use crate::model::json::{field, items};
use crate::outputs::{Content, Meta, OutputHead, OutputId, OutputName, Tally, Written};

/// The text of a message in the log.
struct MessageText {
    output_ref: Option<OutputId>,
    text: String,
    written: Written,
}

impl Task {
    /// Opens the text of a message as an output; of a message that names an output, that output. The text is in memory.
    pub(super) fn message_output(&self, seq: u64) -> Result<Output, StoreError> {
        let mut lines = self.lines(seq, seq)?;
        while let Some(found) = lines.step(message_text)? {
            let Some(MessageText { output_ref, text, written }) = found else { continue };
            if let Some(id) = output_ref {
                return self.stored(id);
            }
            let mut tally = Tally::default();
            tally.push(text.as_bytes());
            let counted = tally.finish();
            let head = OutputHead::new(&counted, written, None);
            let content = Content::here(text.into_bytes());
            return Ok(Output {
                name: OutputName::Message(seq),
                content,
                meta: Meta::counted(counted, head),
            });
        }
        Err(StoreError::MessageNotFound { id: self.id, seq, last: self.lock().readers.snapshot().last_seq })
    }
}

fn message_text(line: &Line<'_>) -> Option<MessageText> {
    if !matches!(line.head, LineHead::Message { .. }) {
        return None;
    }
    let body = line.message().ok()?;
    let word = |json: Option<&serde_json::value::RawValue>| json.and_then(|json| unquoted(json.get()));
    let content = body.content.map(serde_json::value::RawValue::get).unwrap_or_default();
    let text = unquoted(content).unwrap_or_else(|| {
        let parts = items(content).into_iter().filter_map(|part| unquoted(field(part, "text")?));
        parts.collect::<Vec<_>>().join("\n")
    });
    Some(MessageText {
        output_ref: word(body.output_ref).and_then(|id| OutputId::parse(&id)),
        text,
        written: Written {
            media_type: "text/plain".to_owned(),
            tool_name: word(body.tool_name).unwrap_or_default(),
            tool_call_id: word(body.tool_call_id).unwrap_or_default(),
            at: line.time()?,
        },
    })
}

fn unquoted(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}
