//! The state of a task for the catalog and for callers.

use std::time::Duration;

use crate::context::Pressure;
use crate::log::{Counters, Fold, LogKind, LogState, ViewState};
use crate::model::TaskId;
use crate::model::{Durability, Health, InheritedFrom, Metadata, StoreError, TaskConfig, TaskRow};
use crate::store::Store;

use super::{Inner, ReadOnly, Task};
use crate::store::files::{self, Sync};
use crate::store::handles::Busy;
use crate::store::layout::{self, Folder};

/// A task as it is now.
#[derive(Debug, Clone)]
pub struct TaskInfo {
    /// Its row in the catalog.
    pub row: TaskRow,
    /// The folder it is in.
    pub folder: Folder,
    /// The newest lease and how long ago it was renewed; none if nobody holds the task.
    pub lease: Option<(crate::log::Lease, Duration)>,
    /// How far records must have come before they are acknowledged.
    pub durability: Durability,
    /// Counters.
    pub tally: Counters,
    /// Tokens of the view.
    pub view_tokens: u64,
    /// Messages of the view.
    pub view_messages: u64,
    /// Generation of the view.
    pub view_generation: u64,
    /// The last message that is durable.
    pub last_seq: u64,
    /// Tool calls that ended well.
    pub tool_successes: u64,
    /// Plans there are.
    pub plans: u64,
    /// Messages that are pinned.
    pub pins: Vec<u64>,
    /// Bytes of the three logs.
    pub log_bytes: u64,
    /// Bytes of all files in its directory.
    pub disk_bytes: u64,
    /// Bytes of the view.
    pub view_bytes: u64,
    /// Its configuration.
    pub config: TaskConfig,
    /// How full its context is.
    pub pressure: Pressure,
    /// The newest lease generation there ever was.
    pub lease_generation: u64,
    /// The task that it took over from.
    pub inherited_from: Option<InheritedFrom>,
}

impl Task {
    /// Returns how full the context is.
    pub(crate) fn pressure_now(&self) -> Result<Pressure, StoreError> {
        let mut inner = self.lock_existing()?;
        self.ensure_view(&mut inner);
        inner.advance();
        inner.view_tokens();
        Ok(self.visible_pressure(&inner))
    }

    fn visible_pressure(&self, inner: &Inner) -> Pressure {
        let shown = inner.readers.snapshot();
        let tally = inner.visible_tally();
        let tools = inner.context.tools_tokens(tally.tools_tokens);
        let tokens = tally.calibrated(shown.view_tokens.saturating_add(tools));
        self.whole_pressure(inner, tokens, &self.visible_policy(inner))
    }

    /// The row as it follows from the logs, as far as readers may see them.
    fn row(&self, inner: &Inner) -> TaskRow {
        let health = match &inner.read_only {
            Some(ReadOnly::Quarantined(_)) => Health::Quarantined,
            Some(ReadOnly::NewerFormat(_)) => Health::NewerFormat,
            Some(ReadOnly::Failed | ReadOnly::Full) | None => Health::Ok,
        };
        let view = inner.view.state();
        let (shown, tool_calls) = (inner.readers.snapshot(), inner.tools.visible().last);
        let config = self.visible_config(inner);
        TaskRow {
            health,
            updated_at: shown.updated_at.unwrap_or(self.metadata.created_at),
            llm_provider: config.llm_provider.clone(),
            model: config.model.clone(),
            context_length: config.context_length,
            llm_call_count: shown.tally.llm_calls,
            tool_call_count: shown.tally.tool_calls.saturating_add(tool_calls),
            total_tokens: shown.tally.tokens,
            compression_count: shown.tally.compressions,
            total_messages: shown.last_seq,
            total_summaries: shown.tally.summaries,
            ..build_row(&self.metadata, inner.log.state(), tool_calls, view)
        }
    }

    /// Brings the catalog's row into line.
    pub(crate) fn refresh(&self) {
        self.refresh_row(&mut self.lock());
    }

    /// The same if nobody has the task's lock; false if the handle is spent.
    pub(crate) fn try_refresh(&self) -> Result<bool, Busy> {
        let mut inner = self.inner.try_lock().map_err(|_| Busy)?;
        if self.is_spent_locked(&mut inner) {
            return Ok(false);
        }
        self.refresh_row(&mut inner);
        Ok(true)
    }

    pub(super) fn refresh_row(&self, inner: &mut Inner) {
        inner.dirty = false;
        if inner.deleted {
            return;
        }
        if inner.log.state().status.is_final() {
            self.ensure_view(inner);
        }
        inner.advance();
        self.env.catalog.put(self.row(inner));
        if inner.is_ahead() && inner.read_only.is_none() {
            // It is put again when that is durable.
            self.mark_dirty(inner);
        }
    }

    /// Writes `task.json`: the row of a task that has ended.
    pub(super) fn write_row(&self, inner: &mut Inner) -> Result<(), StoreError> {
        if !inner.view.is_open() {
            // The row counts what is in the view.
            self.restore_view(inner)?;
        }
        inner.advance();
        let bytes = task_json(&self.row(inner))?;
        let path = inner.log.path(layout::TASK);
        files::replace(self.env.fs.as_ref(), &path, &bytes, Sync::Contents)
    }

    /// Returns what the catalog is to hold, and `task.json` if the task has ended. Only then the view is looked at: a start
    /// must not read the views of all tasks.
    pub(crate) fn expected_row(&self) -> TaskRow {
        let mut inner = self.lock();
        if inner.log.state().status.is_final() {
            self.ensure_view(&mut inner);
        }
        inner.advance();
        self.row(&inner)
    }

    /// Returns where the records of a log end, for readers.
    pub(super) fn records_end(&self, inner: &mut Inner, kind: LogKind) -> u64 {
        let durability = inner.log.durability();
        let writer = inner.records(kind).writer.as_ref();
        writer.map_or(0, |writer| writer.commit().visible(durability))
    }
}

/// Folds a view only to count it.
pub(super) fn count_view(mut fold: Fold) -> Result<ViewState, StoreError> {
    let (mut view, mut extra) = (Vec::new(), Vec::new());
    while fold.step(&mut view, &mut extra)? {
        view.clear();
        extra.clear();
    }
    Ok(fold.state().clone())
}

/// The row of a healthy task, from what its files say.
pub(crate) fn build_row(
    metadata: &Metadata,
    state: &LogState,
    tool_calls: u64,
    view: Option<&ViewState>,
) -> TaskRow {
    let config = state.config.as_ref().unwrap_or(&metadata.config);
    let ended = view.filter(|_| state.status.is_final());
    let holder = state.last_holder.as_ref();
    TaskRow {
        uuid: metadata.uuid,
        key: metadata.task_key.clone(),
        repository: metadata.repository.clone(),
        status: state.status,
        health: Health::Ok,
        user: metadata.user.clone(),
        created_at: metadata.created_at,
        started_at: state.started_at.unwrap_or(metadata.created_at),
        updated_at: state.updated_at.unwrap_or(metadata.created_at),
        completed_at: state.completed_at,
        process_id: holder.map_or(metadata.process_id, |holder| holder.process_id),
        hostname: holder.map_or_else(|| metadata.hostname.clone(), |holder| holder.hostname.clone()),
        llm_provider: config.llm_provider.clone(),
        model: config.model.clone(),
        context_length: config.context_length,
        llm_call_count: state.tally.llm_calls,
        tool_call_count: state.tally.tool_calls.saturating_add(tool_calls),
        total_tokens: state.tally.tokens,
        compression_count: state.tally.compressions,
        total_messages: state.last_seq,
        total_summaries: state.tally.summaries,
        total_tool_calls: tool_calls,
        final_token_count: ended.map(|view| view.tokens),
        final_message_count: ended.map(|view| view.lines),
        error_message: state.error_message.clone(),
        metadata: serde_json::to_value(metadata).unwrap_or_default(),
    }
}

/// A row as it stands in `task.json`.
fn task_json(row: &TaskRow) -> Result<Vec<u8>, StoreError> {
    let mut bytes = serde_json::to_vec_pretty(row)
        .map_err(|error| StoreError::io(format!("writing {}", layout::TASK), error.into()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

impl Store {
    /// A task as it is now.
    pub fn task_info(&self, id: TaskId) -> Result<TaskInfo, StoreError> {
        let task = self.task(id)?;
        let mut inner = task.lock_existing()?;
        let durability = inner.log.durability();
        task.ensure_view(&mut inner);
        inner.advance();
        let now = task.env.clock.monotonic();
        let mut unseen = None;
        if !inner.view.is_open() {
            unseen = Some((inner.visible_source(), inner.log.state().rewrite.clone()));
        }
        let lease = inner.log.state().lease.clone();
        let mut info = TaskInfo {
            row: task.row(&inner),
            folder: inner.log.folder(),
            lease: lease.map(|lease| (lease, task.env.leases.age(task.id, now))),
            durability,
            tally: inner.readers.snapshot().tally.clone(),
            view_tokens: inner.readers.snapshot().view_tokens,
            view_messages: inner.readers.snapshot().view_lines,
            view_generation: inner.log.state().view_generation(),
            last_seq: inner.readers.snapshot().last_seq,
            tool_successes: inner.tools.visible().successes,
            plans: inner.plans.visible().last,
            pins: inner.readers.pins(&inner.log.state().pins).into_iter().collect(),
            log_bytes: inner.readers.snapshot().log_end
                + inner.tools.visible().end
                + inner.plans.visible().end,
            disk_bytes: 0,
            view_bytes: inner.readers.snapshot().view_len,
            config: task.visible_config(&inner).clone(),
            pressure: task.visible_pressure(&inner),
            lease_generation: inner.log.state().lease_generation,
            inherited_from: task.inherited_from(),
        };
        let (dir, policy) = (inner.log.dir(), task.visible_policy(&inner));
        drop(inner);
        if let Some((source, rewrite)) = unseen {
            // Where nothing can be written there may be no view; what it would be is counted.
            let rewrite = source.marked_rewrite(rewrite.as_ref())?;
            let view = count_view(Fold::new(source, rewrite, info.last_seq))?;
            info.view_tokens = view.tokens;
            info.view_messages = view.lines;
            info.view_bytes = view.len;
            let tokens = info.tally.calibrated(view.tokens.saturating_add(info.tally.tools_tokens));
            info.pressure = Pressure::of(tokens, &policy);
        }
        info.disk_bytes = files::tree_bytes(task.env.fs.as_ref(), &dir)
            .map_err(|error| StoreError::io(format!("measuring {dir}"), error))?;
        Ok(info)
    }
}
