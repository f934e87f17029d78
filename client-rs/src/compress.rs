//! Making a context smaller: by the server, or by a summary of the agent's own; and taking it back.

use std::fmt;

use bytes::Bytes;
use contextstore_proto::v1;
use contextstore_proto::v1::ErrorReason;
use contextstore_proto::v1::begin_compaction_response::{Begun, Event as BeginEvent};
use contextstore_proto::v1::compress_response::{Event, Progress};
use futures_util::TryStreamExt;

use crate::client::call;
use crate::stream::{Items, Streamed, by_lines};
use crate::task::there;
use crate::{Error, Task};

/// How a context is compressed. The default is what the task is configured to do.
#[derive(Debug, Clone, Default)]
pub struct Compress {
    /// How the context is made smaller. Unspecified: as the task is configured.
    pub strategy: v1::CompressionStrategy,
    /// Tokens that the view is to have afterwards, at most.
    pub target_tokens: Option<u64>,
    /// What is to be otherwise than configured, this time.
    pub overrides: Option<v1::CompressionConfig>,
    /// The same for `prune`; not for [`Task::begin_compaction`].
    pub prune: Option<v1::PruneConfig>,
    /// The same for `window`; not for [`Task::begin_compaction`].
    pub window: Option<v1::WindowConfig>,
}

/// A summary of the agent's own.
#[derive(Debug, Clone, Default)]
pub struct Commit {
    /// The summary.
    pub summary: String,
    /// What is to be kept word for word beside it, with `compact`.
    pub retain: String,
    /// Messages that are to stay as they are.
    pub keep_seqs: Vec<u64>,
    /// The model that wrote it, for the record.
    pub model: String,
}

impl<T: Into<String>> From<T> for Commit {
    fn from(summary: T) -> Self {
        Self { summary: summary.into(), ..Self::default() }
    }
}

impl Task {
    /// Compresses the context now, whatever its pressure; others may append and read meanwhile. A context of which
    /// nothing can go is no error: `compressed` is false, and `skip_reason` says why. The server goes on if the caller goes
    /// away.
    pub async fn compress(&self, how: Compress) -> Result<v1::CompressDone, Error> {
        self.compress_with(how, |_| ()).await
    }

    /// The same, and calls `on_progress` with each step ([`v1::CompressStage`]).
    ///
    /// ```no_run
    /// # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
    /// let done = task.compress_with(Default::default(), |progress| println!("{:?}", progress.stage())).await?;
    /// println!("{} tokens went", done.tokens_removed);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn compress_with(
        &self,
        how: Compress,
        mut on_progress: impl FnMut(Progress),
    ) -> Result<v1::CompressDone, Error> {
        self.flush().await?;
        let Compress { strategy, target_tokens, overrides, prune, window } = how;
        let request = v1::CompressRequest {
            task_uuid: self.uuid().to_owned(),
            strategy: strategy.into(),
            overrides,
            prune,
            window,
            target_tokens,
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        // A summariser may take any time; the server watches over it, and knows the call by its request id.
        let streamed = Streamed::new(self.client().clone(), request, None, |mut raw, request| {
            Box::pin(async move { raw.compress(request).await })
        });
        let mut streamed = streamed.repeating();
        let mut ended = None;
        while let Some(answer) = streamed.next().await? {
            match answer.event {
                Some(Event::Progress(progress)) => on_progress(progress),
                Some(Event::Done(done)) => ended = Some(done),
                // One that only a newer client knows.
                None => {}
            }
        }
        there("done", ended)
    }

    /// Asks for what to summarise, for an agent that summarises by itself. Nothing else compresses the task until it is
    /// committed or given up, or its time is over. [`ErrorReason::NothingToSummarize`] if there is nothing to.
    ///
    /// ```no_run
    /// # async fn summary_of(prompt: &str, lines: Vec<bytes::Bytes>) -> String { String::new() }
    /// # async fn example(task: contextstore_client::Task) -> Result<(), contextstore_client::Error> {
    /// let mut compaction = task.begin_compaction(Default::default()).await?;
    /// let mut lines = Vec::new();
    /// while let Some(line) = compaction.next_message().await? {
    ///     lines.push(line);
    /// }
    /// let summary = summary_of(&compaction.begun().prompt, lines).await;
    /// compaction.commit(summary).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn begin_compaction(&self, how: Compress) -> Result<Compaction, Error> {
        self.flush().await?;
        let request = v1::BeginCompactionRequest {
            task_uuid: self.uuid().to_owned(),
            strategy: how.strategy.into(),
            overrides: how.overrides,
            target_tokens: how.target_tokens,
            lease_generation: self.lease_generation(),
        };
        let silence = self.client().settings().timeout;
        let streamed = Streamed::new(self.client().clone(), request, Some(silence), |mut raw, request| {
            Box::pin(async move { raw.begin_compaction(request).await })
        });
        let mut streamed = streamed;
        let first = streamed.next().await?;
        let Some(BeginEvent::Begun(begun)) = first.and_then(|answer| answer.event) else {
            return Err(Error::protocol("the answer does not begin with what to summarise"));
        };
        let data = streamed.items().try_filter_map(async |answer| match answer.event {
            Some(BeginEvent::Data(data)) => Ok(Some(data)),
            Some(BeginEvent::Begun(_)) | None => Ok(None),
        });
        let lines = by_lines(Items::new(data));
        Ok(Compaction { task: self.clone(), begun, lines, open: true })
    }

    /// Takes back the newest compaction in force: the view is what it was before, and what was appended since. Fails with
    /// [`ErrorReason::NothingToUndo`] if there is none.
    pub async fn undo_compaction(&self) -> Result<v1::UndoCompactionResponse, Error> {
        let request = v1::UndoCompactionRequest {
            task_uuid: self.uuid().to_owned(),
            request_id: self.request_id(),
            lease_generation: self.lease_generation(),
        };
        call!(self.settled().await?, undo_compaction, request)
    }
}

/// What an agent is to summarise. It ends with [`Compaction::commit`] or [`Compaction::abort`]; one that is dropped within
/// a tokio runtime is given up in the background.
pub struct Compaction {
    task: Task,
    begun: Begun,
    lines: Items<Bytes>,
    open: bool,
}

impl Compaction {
    /// What has to be known first: the prompt, the budget in `summary_tokens`, the summary so far.
    pub fn begun(&self) -> &Begun {
        &self.begun
    }

    /// The next message that is to be summarised, as a JSON object; `None` at the end.
    pub async fn next_message(&mut self) -> Result<Option<Bytes>, Error> {
        self.lines.try_next().await
    }

    /// Puts the summary in the place of the messages. One that is empty, not smaller than they are, or without an output
    /// ref that it has to name is refused with [`ErrorReason::SummaryRefused`]: another one may be committed.
    pub async fn commit(&mut self, summary: impl Into<Commit>) -> Result<v1::CompressDone, Error> {
        let Commit { summary, retain, keep_seqs, model } = summary.into();
        let request = v1::CommitCompactionRequest {
            task_uuid: self.task.uuid().to_owned(),
            token: self.begun.token.clone(),
            summary,
            retain,
            keep_seqs,
            model,
            request_id: self.task.request_id(),
            lease_generation: self.task.lease_generation(),
        };
        let done = call!(self.task.settled().await?, commit_compaction, request)?.done;
        self.open = false;
        there("done", done)
    }

    /// Gives it up, if it was not committed: nothing is changed, and other compressions may begin.
    pub async fn abort(mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.open) { self.task.abort(self.begun.token.clone()).await } else { Ok(()) }
    }
}

impl Task {
    async fn abort(&self, token: String) -> Result<(), Error> {
        let request = v1::AbortCompactionRequest {
            task_uuid: self.uuid().to_owned(),
            token,
            lease_generation: self.lease_generation(),
        };
        match call!(self.client(), abort_compaction, request) {
            // One that is gone is given back already.
            Err(error) if error.reason() == Some(ErrorReason::CompactionNotFound) => Ok(()),
            answer => answer.map(drop),
        }
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        if self.open
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (task, token) = (self.task.clone(), self.begun.token.clone());
            // If it fails, the token expires.
            runtime.spawn(async move { task.abort(token).await });
        }
    }
}

impl fmt::Debug for Compaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compaction")
            .field("task", &self.task)
            .field("begun", &self.begun)
            .finish_non_exhaustive()
    }
}
