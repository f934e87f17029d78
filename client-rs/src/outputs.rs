//! Outputs of tools: kept whole by the server, shown to the model in part, read and searched.

use std::time::Duration;

use bytes::Bytes;
use contextstore_proto::v1;
use futures_util::stream::{self, StreamExt};
use tonic::Streaming;

use crate::retry::Retries;
use crate::stream::Items;
use crate::{Client, Error, Task};

/// What an output is, and what is to be done with it. The default only keeps it.
#[derive(Debug, Clone, Default)]
pub struct PutOutput {
    /// The tool that it comes from. Required with `append` and `record`.
    pub tool_name: String,
    /// The call that it answers. Required with `append`.
    pub tool_call_id: String,
    /// Its media type. Empty: the server finds out whether it is text.
    pub media_type: String,
    /// Appends the tool message with the view and the ref.
    pub append: bool,
    /// Records the tool call.
    pub record: Option<v1::OutputRecord>,
    /// Longest line of the view, in characters. 0: as configured.
    pub max_line_length: u32,
    /// Largest view, in bytes. 0: as configured.
    pub max_message_bytes: u64,
    /// Bytes of the view that show the end of the output. `None`: as configured.
    pub tail_bytes: Option<u64>,
    /// Shows an image or a document that is small enough as a content part.
    pub as_parts: bool,
}

/// Which lines of an output to read. The default is all of them, as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadOutput {
    /// Lines to skip.
    pub offset: u64,
    /// Most lines; 0: all that follow.
    pub limit: u64,
    /// Longest line, in characters; 0: as it is.
    pub max_line_length: u32,
}

/// What to look for.
#[derive(Debug, Clone, Default)]
pub struct Grep {
    /// The output. Empty: all of the task's.
    pub ref_id: String,
    /// A regular expression, as ripgrep takes it.
    pub pattern: String,
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
    /// The pattern is plain text.
    pub fixed: bool,
    /// Lines to show before each match.
    pub before: u32,
    /// Lines to show after each match.
    pub after: u32,
    /// Most matches; 0: all.
    pub max_matches: u64,
    /// Longest line, in characters; 0: 2000.
    pub max_line_length: u32,
}

/// The outputs of tools of one task.
///
/// ```no_run
/// # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
/// use contextstore_client::{Grep, PutOutput, ReadOutput};
///
/// let outputs = task.outputs();
/// let put = PutOutput { tool_name: "bash".into(), tool_call_id: "call_1".into(), append: true, ..Default::default() };
/// let kept = outputs.put(put, "a very long log\n".repeat(100_000)).await?;
/// let id = kept.r#ref.unwrap_or_default().id;
/// println!("the model is shown {} bytes of {id}", kept.view.len());
///
/// let mut lines = outputs.read(&id, ReadOutput { offset: 99_990, limit: 5, ..Default::default() });
/// while let Some(chunk) = lines.try_next().await? {
///     print!("{}", String::from_utf8_lossy(&chunk));
/// }
/// let mut found = outputs.grep(Grep { ref_id: id, pattern: "long".into(), max_matches: 3, ..Default::default() });
/// while let Some(batch) = found.try_next().await? {
///     batch.lines.iter().for_each(|line| println!("{}: {}", line.line_number, line.text));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Outputs {
    task: Task,
}

impl Task {
    /// The outputs of its tools.
    pub fn outputs(&self) -> Outputs {
        Outputs { task: self.clone() }
    }
}

impl Outputs {
    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    pub(crate) fn client(&self) -> &Client {
        self.task.client()
    }

    pub(crate) fn header(&self, put: PutOutput) -> v1::PutToolOutputHeader {
        v1::PutToolOutputHeader {
            task_uuid: self.task.uuid().to_owned(),
            tool_name: put.tool_name,
            tool_call_id: put.tool_call_id,
            media_type: put.media_type,
            content: None,
            append: put.append,
            record: put.record,
            max_line_length: put.max_line_length,
            max_message_bytes: put.max_message_bytes,
            tail_bytes: put.tail_bytes,
            as_parts: put.as_parts,
            request_id: self.task.request_id(),
            lease_generation: self.task.lease_generation(),
        }
    }

    /// Lines of an output, numbered as tools that read files print them, in chunks that may end within a line.
    pub fn read(&self, ref_id: &str, read: ReadOutput) -> Items<Bytes> {
        let request = v1::ReadToolOutputRequest {
            task_uuid: self.task.uuid().to_owned(),
            ref_id: ref_id.to_owned(),
            offset: read.offset,
            limit: read.limit,
            raw: false,
            max_line_length: read.max_line_length,
        };
        self.chunks(request)
    }

    /// Bytes of an output as they are, behind the first `offset`, at most `limit` (0: all). Goes on where it was if the
    /// connection breaks.
    pub fn read_raw(&self, ref_id: &str, offset: u64, limit: u64) -> Items<Bytes> {
        let request = v1::ReadToolOutputRequest {
            task_uuid: self.task.uuid().to_owned(),
            ref_id: ref_id.to_owned(),
            offset,
            limit,
            raw: true,
            max_line_length: 0,
        };
        self.chunks(request)
    }

    fn chunks(&self, request: v1::ReadToolOutputRequest) -> Items<Bytes> {
        let client = self.client().clone();
        let retries = client.settings().retry.start();
        let reading = Reading { client, request, chunks: None, begun: false, retries };
        self.task.behind(Items::new(stream::try_unfold(reading, |mut reading| async move {
            Ok(reading.next().await?.map(|chunk| (chunk, reading)))
        })))
    }

    /// Lines that match, in batches; the last one says how many there were.
    pub fn grep(&self, grep: Grep) -> Items<v1::GrepToolOutputResponse> {
        let request = v1::GrepToolOutputRequest {
            task_uuid: self.task.uuid().to_owned(),
            ref_id: grep.ref_id,
            pattern: grep.pattern,
            ignore_case: grep.ignore_case,
            fixed: grep.fixed,
            before: grep.before,
            after: grep.after,
            max_matches: grep.max_matches,
            max_line_length: grep.max_line_length,
        };
        let client = self.client().clone();
        let open = stream::once(async move {
            let mut raw = client.raw_outputs();
            let opened = match raw.grep_tool_output(request).await {
                Ok(opened) => opened.into_inner(),
                Err(status) => return Err(client.failed(status).await),
            };
            Ok(opened.then(move |batch| {
                let client = client.clone();
                async move {
                    match batch {
                        Ok(batch) => Ok(batch),
                        Err(status) => Err(client.failed(status).await),
                    }
                }
            }))
        });
        self.task.behind(Items::new(open.flat_map(|opened| match opened {
            Ok(batches) => batches.left_stream(),
            Err(error) => stream::once(async { Err(error) }).right_stream(),
        })))
    }

    /// What is known of an output.
    pub async fn stat(&self, ref_id: &str) -> Result<v1::ToolOutput, Error> {
        let request =
            v1::StatToolOutputRequest { task_uuid: self.task.uuid().to_owned(), ref_id: ref_id.to_owned() };
        let send = |_, request| {
            let mut raw = self.client().raw_outputs();
            async move { raw.stat_tool_output(request).await }
        };
        let answer = self.task.settled().await?.call(request, send).await?;
        crate::task::there("output", answer.output)
    }

    /// One page of the outputs, by their refs; an empty token for the first.
    pub async fn list(&self, page_size: u32, page_token: &str) -> Result<v1::ListToolOutputsResponse, Error> {
        let request = v1::ListToolOutputsRequest {
            task_uuid: self.task.uuid().to_owned(),
            page_size,
            page_token: page_token.to_owned(),
        };
        let send = |_, request| {
            let mut raw = self.client().raw_outputs();
            async move { raw.list_tool_outputs(request).await }
        };
        self.task.settled().await?.call(request, send).await
    }

    /// Makes the oldest outputs in the view placeholders, until the rest has at most `budget_tokens`; `None`: the task's own
    /// budget.
    pub async fn trim(&self, budget_tokens: Option<u64>) -> Result<v1::TrimToolOutputsResponse, Error> {
        let request = v1::TrimToolOutputsRequest {
            task_uuid: self.task.uuid().to_owned(),
            budget_tokens,
            request_id: self.task.request_id(),
            lease_generation: self.task.lease_generation(),
        };
        let send = |_, request| {
            let mut raw = self.client().raw_outputs();
            async move { raw.trim_tool_outputs(request).await }
        };
        self.task.settled().await?.call(request, send).await
    }
}

impl Client {
    /// Removes outputs that no log names and that were last put longer ago than `min_age` (`None`: an hour), of one task or of
    /// all if `task_uuid` is empty; or tells what would go.
    pub async fn collect_garbage(
        &self,
        task_uuid: &str,
        min_age: Option<Duration>,
        dry_run: bool,
    ) -> Result<v1::CollectGarbageResponse, Error> {
        let min_age = min_age.map(prost_types::Duration::try_from).transpose();
        let min_age = min_age.map_err(|_| Error::protocol("an age that is too long"))?;
        let request = v1::CollectGarbageRequest { task_uuid: task_uuid.to_owned(), dry_run, min_age };
        let send = |_, request| {
            let mut raw = self.raw_outputs();
            async move { raw.collect_garbage(request).await }
        };
        // Logs are read through, however large they are.
        self.call_for(Duration::from_secs(600), request, send).await
    }
}

/// A read that is opened again when the connection breaks.
struct Reading {
    client: Client,
    request: v1::ReadToolOutputRequest,
    chunks: Option<Streaming<v1::ReadToolOutputResponse>>,
    begun: bool,
    retries: Retries,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let error = match self.receive().await {
                Ok(chunk) => {
                    self.retries.reset();
                    self.begun = true;
                    return Ok(chunk);
                }
                Err(error) => error,
            };
            self.chunks = None;
            // Numbered lines may have been cut off within one.
            let pause = match (self.request.raw, self.begun) {
                (true, _) => self.retries.pause_to_resume(&error),
                (false, false) => self.retries.pause(&error),
                (false, true) => None,
            };
            let Some(pause) = pause else { return Err(error) };
            tokio::time::sleep(pause).await;
        }
    }

    async fn receive(&mut self) -> Result<Option<Bytes>, Error> {
        let chunks = match &mut self.chunks {
            Some(chunks) => chunks,
            None => {
                let mut raw = self.client.raw_outputs();
                match raw.read_tool_output(self.request.clone()).await {
                    Ok(opened) => self.chunks.insert(opened.into_inner()),
                    Err(status) => return Err(self.client.failed(status).await),
                }
            }
        };
        let chunk = match chunks.message().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Ok(None),
            Err(status) => return Err(self.client.failed(status).await),
        };
        if self.request.raw {
            let taken = chunk.data.len() as u64;
            self.request.offset += taken;
            if self.request.limit > 0 {
                self.request.limit -= taken.min(self.request.limit);
                // Nothing is left to ask for, and 0 would ask for all.
                if self.request.limit == 0 {
                    self.chunks = None;
                    self.request.offset = u64::MAX;
                }
            }
        }
        Ok(Some(chunk.data))
    }
}
