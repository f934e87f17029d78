//! A call of a tool that is timed and recorded.

use std::fmt::{self, Write};
use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use contextstore_proto::v1;

use crate::task::status_of;
use crate::{Error, NewMessage, PutOutput, Task, ToolCall};

/// What came of a tool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ToolResult {
    /// Text: a JSON string in the record, and in the message as it is.
    Text(String),
    /// Any JSON, in the record and in the message.
    Json(String),
    /// Bytes of any size: kept whole, and the model is shown a cut view of them.
    Output(Bytes),
}

impl From<String> for ToolResult {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for ToolResult {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Bytes> for ToolResult {
    fn from(output: Bytes) -> Self {
        Self::Output(output)
    }
}

impl From<Vec<u8>> for ToolResult {
    fn from(output: Vec<u8>) -> Self {
        Self::Output(output.into())
    }
}

/// A call of a tool that was recorded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Recorded {
    /// The number of the record.
    pub tool_seq: u64,
    /// The number of the message that answers the model's call, if one was appended.
    pub message_seq: Option<u64>,
    /// How long the tool took.
    pub duration: Duration,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// What became of a [`ToolResult::Output`].
    pub output: Option<v1::PutToolOutputResponse>,
}

/// A call of a tool that goes on. Made by [`Task::tool`]; nothing is recorded until it ends.
#[derive(Debug)]
#[must_use = "nothing is recorded until it ends"]
pub struct ToolRun {
    task: Task,
    name: String,
    arguments_json: String,
    call_id: String,
    message_seq: Option<u64>,
    begun: Instant,
}

impl Task {
    /// Times a call of a tool from now on, and records it when it ends.
    ///
    /// With the [`call_id`](ToolRun::call_id) of the model's call, the message that answers it is appended too; an error of
    /// the tool is recorded and told to the model.
    ///
    /// ```no_run
    /// # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
    /// let read = task.tool("read_file").arguments_json(r#"{"path":"a.txt"}"#).call_id("call_1");
    /// let recorded = read.run(async { std::fs::read("a.txt") }).await?;
    /// if let Some(error) = recorded.error {
    ///     println!("the model was told: {error}");
    /// }
    ///
    /// // Or step by step.
    /// let asked = task.tool("ask_user");
    /// asked.finish("yes").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tool(&self, name: impl Into<String>) -> ToolRun {
        ToolRun {
            task: self.clone(),
            name: name.into(),
            arguments_json: String::new(),
            call_id: String::new(),
            message_seq: None,
            begun: Instant::now(),
        }
    }
}

impl ToolRun {
    /// What it is called with: any JSON.
    pub fn arguments_json(mut self, arguments_json: impl Into<String>) -> Self {
        self.arguments_json = arguments_json.into();
        self
    }

    /// The model's call that it answers: the message with the answer is appended.
    pub fn call_id(mut self, call_id: impl Into<String>) -> Self {
        self.call_id = call_id.into();
        self
    }

    /// The message that carries its answer, if the caller has appended that.
    pub fn message_seq(mut self, seq: u64) -> Self {
        self.message_seq = Some(seq);
        self
    }

    /// Does the work, timed by itself, and records what came of it. An error of the work is in [`Recorded::error`]; what
    /// this fails with is that it could not be recorded.
    pub async fn run<R, E>(mut self, work: impl Future<Output = Result<R, E>>) -> Result<Recorded, Error>
    where
        R: Into<ToolResult>,
        E: fmt::Display,
    {
        self.begun = Instant::now();
        match work.await {
            Ok(result) => self.finish(result).await,
            Err(error) => self.fail(error).await,
        }
    }

    /// It went well.
    pub async fn finish(self, result: impl Into<ToolResult>) -> Result<Recorded, Error> {
        self.record(Some(result.into()), None).await
    }

    /// It failed.
    pub async fn fail(self, error: impl fmt::Display) -> Result<Recorded, Error> {
        self.record(None, Some(error.to_string())).await
    }

    /// It failed, and something came of it all the same, which is what the model is shown: what a program printed before
    /// it ended badly.
    pub async fn fail_with(
        self,
        error: impl fmt::Display,
        result: impl Into<ToolResult>,
    ) -> Result<Recorded, Error> {
        self.record(Some(result.into()), Some(error.to_string())).await
    }

    async fn record(self, result: Option<ToolResult>, error: Option<String>) -> Result<Recorded, Error> {
        let duration = self.begun.elapsed();
        let (result_json, content) = match (result, &error) {
            (Some(ToolResult::Output(output)), _) => return self.put(output, duration, error).await,
            (Some(ToolResult::Text(text)), _) => (json_string(&text), text),
            (Some(ToolResult::Json(json)), _) => (json.clone(), json),
            (None, Some(error)) => (String::new(), format!("Error: {error}")),
            (None, None) => (String::new(), String::new()),
        };
        let call = ToolCall {
            tool_name: self.name,
            arguments_json: self.arguments_json,
            result_json,
            output_ref: String::new(),
            error: error.clone(),
            duration: Some(duration),
            message_seq: self.message_seq,
        };
        let tool_seq = self.task.record_tool_call(call).await?.seq;
        let mut message_seq = None;
        if !self.call_id.is_empty() {
            let mut message = NewMessage::tool(self.call_id, content);
            // A name is for one call.
            if let Some(name) = self.task.name() {
                message = message.request_id(format!("{name}-message"));
            }
            message_seq = Some(self.task.append(message).await?.seq);
        }
        Ok(Recorded { tool_seq, message_seq, duration, error, output: None })
    }

    async fn put(self, output: Bytes, duration: Duration, error: Option<String>) -> Result<Recorded, Error> {
        let record = v1::OutputRecord {
            arguments_json: self.arguments_json,
            status: status_of(error.as_deref()),
            error: error.clone().unwrap_or_default(),
            duration: duration.try_into().ok(),
        };
        let put = PutOutput {
            append: !self.call_id.is_empty(),
            tool_name: self.name,
            tool_call_id: self.call_id,
            record: Some(record),
            ..PutOutput::default()
        };
        let kept = self.task.outputs().put(put, output).await?;
        let message_seq = (kept.seq > 0).then_some(kept.seq);
        Ok(Recorded { tool_seq: kept.tool_seq, message_seq, duration, error, output: Some(kept) })
    }
}

/// Text as a JSON string.
fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            // Writing to a string cannot fail.
            c if c < ' ' => drop(write!(json, "\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_a_json_string() {
        assert_eq!(json_string(""), r#""""#);
        assert_eq!(
            json_string("a\"b\\c\nd\te\u{1}ü\u{1f600}"),
            "\"a\\\"b\\\\c\\nd\\u0009e\\u0001ü\u{1f600}\""
        );
    }
}
