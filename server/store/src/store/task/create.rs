//! Making a task: built whole in `.tmp`, then renamed into place, which is the commit.

use std::io;
use std::sync::{Arc, Mutex};

use crate::context::{Inheritance, count_tokens};
use crate::infra::fs::{Open, StorePath};
use crate::log::{
    DamageNote, FORMAT_VERSION, Head, Index, LogKind, LogState, LogWriter, Signal, message_body,
};
use crate::model::{
    Event, Holder, InheritedFrom, Json, LeaseReason, Literal, LiteralKind, Metadata, NewMessage, RequestId,
    Rewrite, Role, Segment, StoreError, TaskId,
};

use super::context_usage::{CounterCell, chosen};
use super::records::RecordLog;
use super::{Digest, Inner, Task, TaskLog, TaskView};
use crate::context::ContextPolicy;
use crate::store::env::Env;
use crate::store::files::{self, Sync};
use crate::store::layout::{self, Folder};
use crate::store::metadata;

/// The log of a task that is being made, and what follows from it so far.
pub(super) struct NewLog {
    pub(super) writer: LogWriter,
    pub(super) state: LogState,
    pub(super) index: Index,
}

/// The contents with which a new task begins.
#[derive(Debug, Clone, Default)]
pub(crate) struct First {
    /// Its system prompt.
    pub(crate) system: Option<NewMessage>,
    /// The task that it takes over from.
    pub(crate) inherited_from: Option<InheritedFrom>,
    /// What it takes over.
    pub(crate) inherited: Option<Inheritance>,
}

/// Makes a task.
pub(crate) fn create(
    env: &Arc<Env>,
    metadata: Metadata,
    holder: Holder,
    request: Option<(RequestId, Digest)>,
    first: &First,
) -> Result<Task, StoreError> {
    let id = metadata.uuid;
    let making = begin(env, &metadata)?;
    let built = build(env, metadata, holder, request, first, &making).inspect_err(|_| {
        // On a full disk nothing of it may stay. What cannot be removed now goes at the next start.
        let _ = files::remove_tree(env.fs.as_ref(), &making);
    });
    // Once it had its place it is not taken apart: a power cut could bring it back there.
    built.and_then(|task| put_in_place(env, id, &making).map(|()| task))
}

fn build(
    env: &Arc<Env>,
    metadata: Metadata,
    holder: Holder,
    request: Option<(RequestId, Digest)>,
    first: &First,
    making: &StorePath,
) -> Result<Task, StoreError> {
    let id = metadata.uuid;
    let failed = |error| StoreError::io(format!("making task {id}"), error);
    let signal = env.signal(id);
    let file = env.fs.open(&making.join(layout::MESSAGES), Open::New).map_err(failed)?;
    let index = env.fs.open(&making.join(layout::INDEX), Open::New).and_then(Index::create);
    let begun = NewLog {
        writer: LogWriter::new(LogKind::Messages, file, 0, Arc::clone(&signal)),
        state: LogState::default(),
        index: index.map_err(failed)?,
    };
    let task = assemble(env, metadata, begun, &signal);
    {
        let mut inner = task.lock();
        task.write_event(&mut inner, &Event::Started { uuid: id, format_version: FORMAT_VERSION }, None)?;
        task.begin_lease(&mut inner, holder, request)?;
        task.write_first(&mut inner, first)?;
        task.sync_begun(&mut inner)?;
    }
    Ok(task)
}

/// Begins the directory of a task, with its metadata in it.
pub(super) fn begin(env: &Env, metadata: &Metadata) -> Result<StorePath, StoreError> {
    let fs = env.fs.as_ref();
    let id = metadata.uuid;
    let making = StorePath::ROOT.join(layout::TMP).join(id.uuid());
    let failed = |error| StoreError::io(format!("making task {id}"), error);
    // What an earlier try left here must not come back in its place with a part of it.
    env.sync_new_tasks()?;
    files::remove_tree(fs, &making).map_err(failed)?;
    fs.create_dir(&making).map_err(failed)?;
    let bytes = metadata::to_bytes(metadata).map_err(|error| failed(error.into()))?;
    let written = files::replace(fs, &making.join(layout::METADATA), &bytes, Sync::Contents);
    written.inspect_err(|_| drop(files::remove_tree(fs, &making)))?;
    Ok(making)
}

/// The handle of a task that is being made.
pub(super) fn assemble(env: &Arc<Env>, metadata: Metadata, begun: NewLog, signal: &Arc<Signal>) -> Task {
    let NewLog { writer, state, index } = begun;
    let config = state.config.as_ref().unwrap_or(&metadata.config);
    let counter = CounterCell::new(chosen(env, config));
    let context = ContextPolicy::new(config, &env.options.compression);
    let durability = config.durability.unwrap_or(env.options.durability);
    let notes = DamageNote::new(&env.damage, metadata.uuid);
    let log = TaskLog::new(metadata.uuid, Folder::Running, writer, state, Some(index), durability, notes);
    let records = |kind| RecordLog::new(kind, signal);
    let (tools, plans, view) = (records(LogKind::Tools), records(LogKind::Plans), TaskView::default());
    let inner = Inner::new(log, tools, plans, view, context, metadata.inherited_from.is_some(), None);
    let id = metadata.uuid;
    Task {
        id,
        counter,
        env: Arc::clone(env),
        source: metadata.task_key.task_source.as_str().into(),
        metadata,
        signal: Arc::clone(signal),
        outputs: super::TaskOutputs::default(),
        inner: Mutex::new(inner),
    }
}

impl Task {
    /// The first lease of a task that is being made.
    pub(super) fn begin_lease(
        &self,
        inner: &mut Inner,
        holder: Holder,
        request: Option<(RequestId, Digest)>,
    ) -> Result<(), StoreError> {
        // Whoever worked on a deleted task with the same id has an older one, which is refused here.
        let generation = inner.log.state().lease_generation.max(self.env.lease_floor()) + 1;
        let lease = Event::Lease { generation, holder, reason: LeaseReason::Start };
        let request = request.as_ref().map(|(request_id, digest)| (request_id, *digest));
        self.write_event(inner, &lease, request).map(drop)
    }

    /// The system prompt and what was taken over, which stands behind it.
    fn write_first(&self, inner: &mut Inner, first: &First) -> Result<(), StoreError> {
        if let Some(message) = &first.system {
            let tokens = count_tokens(self.counter.get(), message);
            let head = Head::Message { seq: 1, role: message.role, tokens };
            inner.write_line(self, head, &message_body(message, None))?;
        }
        let Some(inherited) = &first.inherited else { return Ok(()) };
        let covers = inner.log.state().last_seq;
        let literal = Literal {
            role: Role::User,
            content: Json::text(&inherited.text),
            kind: LiteralKind::Inherited,
            tokens: count_tokens(self.counter.get(), &NewMessage::text(Role::User, &inherited.text)),
            summary: None,
        };
        let kept = (covers > 0).then(|| Segment::keep(1, covers));
        let rewrite = Rewrite {
            ordinal: 1,
            strategy: Rewrite::INHERIT.to_owned(),
            base: 0,
            parent: None,
            covers,
            reason: first
                .inherited_from
                .as_ref()
                .map_or_else(String::new, |from| format!("task {}", from.uuid)),
            segments: kept.into_iter().chain([Segment::Literal(literal)]).collect(),
        };
        rewrite.validate()?;
        self.write_event(inner, &Event::Rewrite(rewrite), None).map(drop)
    }

    /// The sync that goes before the commit.
    pub(super) fn sync_begun(&self, inner: &mut Inner) -> Result<(), StoreError> {
        let failed = |error| StoreError::io(format!("making task {}", self.id), error);
        inner.log.sync().map_err(failed)?;
        inner.advance();
        Ok(())
    }
}

/// Gives a task that was built its place. All in it but its directory is synced.
pub(super) fn put_in_place(env: &Env, id: TaskId, making: &StorePath) -> Result<(), StoreError> {
    let fs = env.fs.as_ref();
    let failed = |error| StoreError::io(format!("making task {id}"), error);
    fs.sync_dir(making).map_err(failed)?;
    let place = Folder::Running.task(id);
    fs.rename_new(making, &place).map_err(|error| {
        let exists = error.kind() == io::ErrorKind::AlreadyExists;
        if exists { StoreError::TaskExists { id } } else { failed(error) }
    })?;
    let synced = fs.sync_dir(&place.parent()).and_then(|()| fs.sync_dir(&making.parent()));
    synced.map_err(|error| {
        // Whoever asked is told that there is no such task, so there must be none.
        if let Err(error) = fs.rename_new(&place, making) {
            tracing::warn!(%id, %error, "a task that could not be made durable is still there");
        }
        env.note_unsynced();
        failed(error)
    })
}
