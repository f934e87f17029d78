//! Outputs of tools over all tasks: a put from its first byte to its last, with the record and the message that go with it.

use std::fmt;
use std::sync::Arc;

use super::task::{Append, Caller, Due, Output, PutFiles, Recorded, Task};
use super::{Store, StoreError, masking, task};
use crate::context::{Pressure, count_text};
use crate::mask::{MaskBytes, MaskCounts, Masker};
use crate::model::json::field;
use crate::model::{Json, JsonKind, NewMessage, OutputRef, RequestId, Role, TaskId, ToolCall};
use crate::outputs::{
    Counted, MediaKind, OutputHead, OutputId, OutputName, Tally, View, ViewLimits, ViewMaker, Written,
};

/// Bytes of a line around what is in it, for quotas.
const AROUND: usize = 512;

/// An output that is to be put, and what is to be done with it.
#[derive(Debug, Clone)]
pub struct NewOutput {
    /// The tool that it comes from.
    pub tool_name: String,
    /// The call that it answers.
    pub tool_call_id: String,
    /// What it is; empty: to be found out.
    pub media_type: String,
    /// Whether the tool message is to be appended.
    pub append: bool,
    /// The tool call that is to be recorded; its `output_ref` is set here.
    pub record: Option<ToolCall>,
    /// How much of it is shown.
    pub limits: ViewLimits,
    /// The caller's lease; 0: none.
    pub lease_generation: u64,
    /// The call, as it is named to the log of tool calls.
    pub record_id: Option<RequestId>,
    /// The call, as it is named to the log of messages.
    pub message_id: Option<RequestId>,
}

/// The outcome of a put.
#[derive(Debug)]
pub struct PutDone {
    /// Its ref.
    pub id: OutputId,
    /// What is known of it.
    pub head: OutputHead,
    /// What a model is shown.
    pub view: View,
    /// The number of the message; 0: there is none.
    pub seq: u64,
    /// The number of the record; 0: there is none.
    pub tool_seq: u64,
    /// Tokens of the message, or of the view.
    pub tokens: u64,
    /// Whether all of it was done before.
    pub duplicate: bool,
    /// How full the context is with the message.
    pub pressure: Option<Pressure>,
    /// What is worth a try now.
    pub due: Due,
    /// `task_source` of the task's key.
    pub source: Option<Arc<str>>,
    /// What was masked in the output, and in the record.
    pub masked: MaskCounts,
}

/// An output on its way to disk. What was written goes when this is dropped before its end.
pub struct Put {
    /// The task is not held: an output may come slowly.
    store: Store,
    id: TaskId,
    new: NewOutput,
    /// None if all of it was done before: then it is only looked at.
    files: Option<PutFiles>,
    tally: Tally,
    view: ViewMaker,
    secrets: MaskBytes,
    /// What was masked in the output.
    found: MaskCounts,
}

impl fmt::Debug for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Put").field("id", &self.id).field("new", &self.new).finish_non_exhaustive()
    }
}

impl Store {
    /// Begins to put an output.
    pub fn begin_put(&self, id: TaskId, new: NewOutput) -> Result<Put, StoreError> {
        // An output may come slowly, and must not end up in another task.
        let store = self.bound(&self.bind(id)?);
        let task = store.task(id)?;
        let files = if Self::was_put(&task, &new)? { None } else { Some(task.begin_put(&new.caller(None))?) };
        let view = ViewMaker::new(new.limits);
        // What is called text is read as text, whatever it begins with.
        let is_text = !new.media_type.is_empty() && MediaKind::of(&new.media_type) == MediaKind::Text;
        let secrets = self.shared.env.options.masker.bytes(is_text);
        let (tally, found) = (Tally::default(), MaskCounts::default());
        Ok(Put { store, id, new, files, tally, view, secrets, found })
    }

    /// Returns whether a call with the same id has done all that is asked for. Then nobody needs a lease to be told so.
    fn was_put(task: &Task, new: &NewOutput) -> Result<bool, StoreError> {
        let appended = match &new.message_id {
            Some(id) if new.append => task.remembered(id)?.is_some(),
            _ => !new.append,
        };
        let recorded = match (&new.record_id, &new.record) {
            (Some(id), Some(_)) => task.has_recorded(id),
            (_, record) => record.is_none(),
        };
        Ok((new.append || new.record.is_some()) && appended && recorded)
    }

    /// Opens an output to read it.
    pub fn output(&self, id: TaskId, output: impl Into<OutputName>) -> Result<Output, StoreError> {
        self.task(id)?.output(output.into())
    }

    /// Returns why an output that is open could not be read on.
    pub fn bad_output(&self, id: TaskId, output: impl Into<OutputName>, error: std::io::Error) -> StoreError {
        task::bad_output(id, output.into(), error)
    }

    /// The first outputs of a task behind one, in the order of their refs.
    pub fn outputs_after(
        &self,
        id: TaskId,
        after: Option<OutputId>,
        most: usize,
    ) -> Result<Vec<OutputId>, StoreError> {
        self.task(id)?.outputs_after(after, most)
    }
}

impl NewOutput {
    fn caller(&self, request_id: Option<&RequestId>) -> Caller {
        Caller { request_id: request_id.cloned(), lease_generation: self.lease_generation }
    }
}

impl Put {
    /// The task.
    pub fn task(&self) -> TaskId {
        self.id
    }

    /// The lease that it is put under; 0: none.
    pub fn lease_generation(&self) -> u64 {
        self.new.lease_generation
    }

    /// Adds the next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let mut masked = Vec::with_capacity(bytes.len());
        self.secrets.push(bytes, &mut masked);
        self.keep(&masked)
    }

    /// Writes bytes in which there are no secrets.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if let Some(files) = &self.files {
            let at = self.tally.bytes();
            self.store.task(self.id)?.check_put_room(at.saturating_add(bytes.len() as u64))?;
            let written = files.data.write_all_at(bytes, at);
            written
                .map_err(|error| StoreError::io(format!("writing an output of task {}", self.id), error))?;
        }
        self.tally.push(bytes);
        self.view.push(bytes);
        Ok(())
    }

    /// There are no more: puts it in its place, records the call, appends the message, in this order.
    pub fn finish(mut self) -> Result<PutDone, StoreError> {
        let (mut rest, secrets) =
            (Vec::new(), std::mem::replace(&mut self.secrets, Masker::off().bytes(false)));
        self.found = secrets.finish(&mut rest);
        self.keep(&rest)?;
        let counted = std::mem::take(&mut self.tally).finish();
        let task = self.store.task(self.id)?;
        let _naming = (self.new.append || self.new.record.is_some()).then(|| task.naming(counted.id));
        let media_type = match self.new.media_type.as_str() {
            "" if counted.is_text => "text/plain",
            "" => "application/octet-stream",
            given => given,
        };
        let media_type = media_type.to_owned();
        let view = std::mem::replace(&mut self.view, ViewMaker::new(self.new.limits));
        let view = view.finish(&counted, &media_type);
        let known = self.files.is_none();
        let head = match &self.files {
            None => task.stored(counted.id).map_err(|error| self.reused(error))?.meta.head,
            Some(files) => {
                files.data.sync_data().map_err(|error| task.not_synced(error))?;
                let written = Written {
                    media_type,
                    tool_name: self.new.tool_name.clone(),
                    tool_call_id: self.new.tool_call_id.clone(),
                    at: self.store.shared.env.clock.now(),
                };
                let beside = if self.new.append { 2 * view.content.as_str().len() + AROUND } else { 0 };
                let beside = beside + if self.new.record.is_some() { AROUND } else { 0 };
                task.commit_put(files, &counted, written, &self.new.caller(None), beside)?
            }
        };
        self.files = None;
        let output_ref = OutputRef::parse(&counted.id.to_string())?;
        if !known {
            masking::count(&self.found);
        }
        let recorded = self.record(&task, &output_ref)?;
        let mut masked = std::mem::take(&mut self.found);
        masked.merge(&recorded.masked);
        let tokens = view.text.as_deref().map_or(0, |text| count_text(task.token_counter(), text));
        let mut done = PutDone {
            id: counted.id,
            head,
            view,
            seq: 0,
            tool_seq: recorded.number,
            tokens,
            duplicate: recorded.duplicate,
            pressure: None,
            due: Due::default(),
            source: None,
            masked,
        };
        if self.new.append {
            match known.then_some(self.new.message_id.as_ref()).flatten() {
                Some(message_id) => self.told_before(&task, message_id, &counted, &mut done)?,
                None => self.append(&task, output_ref, &mut done)?,
            }
        }
        Ok(done)
    }

    fn record(&self, task: &Task, output_ref: &OutputRef) -> Result<Recorded, StoreError> {
        let Some(record) = &self.new.record else {
            return Ok(Recorded { number: 0, duplicate: self.new.append, masked: MaskCounts::default() });
        };
        let call = ToolCall { output_ref: Some(output_ref.clone()), ..record.clone() };
        task.record_tool_call(&call, &self.new.caller(self.new.record_id.as_ref()))
    }

    fn append(&self, task: &Arc<Task>, output_ref: OutputRef, done: &mut PutDone) -> Result<(), StoreError> {
        let message = NewMessage {
            content: Some(done.view.content.clone()),
            tool_name: Some(Json::text(&self.new.tool_name)),
            tool_call_id: Some(Json::text(&self.new.tool_call_id)),
            output_ref: Some(output_ref),
            ..NewMessage::text(Role::Tool, "")
        };
        let append = Append { message, caller: self.new.caller(self.new.message_id.as_ref()) };
        let pending = task.append(&task.prepare(&append)?)?;
        done.due = pending.due;
        let outcome = pending.wait()?;
        (done.seq, done.tokens, done.source) = (outcome.seq, outcome.tokens, Some(outcome.source));
        done.duplicate &= outcome.duplicate;
        done.pressure = Some(outcome.pressure);
        Ok(())
    }

    /// Returns what the log says of a message that an earlier call has appended. How much of an output is shown may have
    /// been set otherwise since.
    fn told_before(
        &self,
        task: &Task,
        message_id: &RequestId,
        counted: &Counted,
        done: &mut PutDone,
    ) -> Result<(), StoreError> {
        let Some(seq) = task.remembered(message_id)? else { return Ok(()) };
        let line = task.message(seq)?;
        let named = Json::text(&counted.id.to_string());
        if field(&line, "output_ref") != Some(named.as_str()) {
            return Err(StoreError::RequestIdReused { request_id: message_id.to_string() });
        }
        done.seq = seq;
        let tokens = field(&line, "tokens").and_then(|tokens| tokens.parse().ok());
        done.tokens = tokens.unwrap_or(done.tokens);
        if let Some(Ok(content)) = field(&line, "content").map(Json::parse) {
            let is_text = content.kind() == JsonKind::Text;
            done.view.text = if is_text { serde_json::from_str(content.as_str()).ok() } else { None };
            done.view.content = content;
        }
        done.pressure = Some(task.pressure_now()?);
        Ok(())
    }

    /// A call that was made before has put something else, if this output is not there.
    fn reused(&self, error: StoreError) -> StoreError {
        match (&error, self.new.message_id.as_ref().or(self.new.record_id.as_ref())) {
            (StoreError::OutputNotFound { .. }, Some(id)) => {
                StoreError::RequestIdReused { request_id: id.to_string() }
            }
            _ => error,
        }
    }
}

impl Drop for Put {
    fn drop(&mut self) {
        let Some(files) = self.files.take() else { return };
        // Wherever the task is now; if it was removed, so was this.
        if let Ok(task) = self.store.task(self.id) {
            task.abandon_put(&files);
        } else {
            files.end(&self.store.shared.env);
        }
    }
}
