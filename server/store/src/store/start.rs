//! Starts tasks: new ones, ones that are taken up again, and forks.

use std::sync::Arc;

use super::task::{self, First, Fork};
use super::{Beginning, Store};
use crate::context::{LimitSource, Policy, Settings, Strategy};
use crate::log::{Digest, FORMAT_VERSION};
use crate::model::{
    Holder, InheritedFrom, InvalidField, Metadata, RequestId, StoreError, TaskConfig, TaskId, TaskKey,
};

/// A task to start.
#[derive(Debug, Clone)]
pub struct StartTask {
    /// Its id; without one it gets a new one, and a retry would start another task.
    pub id: Option<TaskId>,
    /// Where it comes from.
    pub key: TaskKey,
    /// Who it is for.
    pub user: String,
    /// Its configuration.
    pub config: TaskConfig,
    /// Who works on it.
    pub holder: Holder,
    /// Names the call.
    pub request_id: Option<RequestId>,
}

/// The outcome of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The task.
    pub id: TaskId,
    /// The lease to write under.
    pub lease_generation: u64,
    /// Whether it was made, rather than taken up again.
    pub created: bool,
    /// The task that it took over from, if it did.
    pub inherited_from: Option<InheritedFrom>,
}

/// A fork to make.
#[derive(Debug, Clone)]
pub struct ForkTask {
    /// The task that is copied.
    pub from: TaskId,
    /// The last message that is; 0: all there are.
    pub at_seq: u64,
    /// The new task; without an id it gets a new one, and a retry would make another.
    pub id: Option<TaskId>,
    /// Who works on it.
    pub holder: Holder,
    /// Names the call.
    pub request_id: Option<RequestId>,
}

impl Store {
    /// Starts a task, or takes up one that is running: for the same instance at once, for another when the
    /// lease has expired.
    pub fn start_task(&self, start: StartTask) -> Result<Started, StoreError> {
        self.start_task_under(start, 0)
    }

    /// The same for a caller that had a lease before: refused if the task was taken over since.
    pub fn start_task_under(&self, start: StartTask, lease_generation: u64) -> Result<Started, StoreError> {
        self.start_task_with(start, lease_generation, &Beginning::default())
    }

    /// The same with something that it has from the start, if it is made.
    pub fn start_task_with(
        &self,
        start: StartTask,
        lease_generation: u64,
        beginning: &Beginning,
    ) -> Result<Started, StoreError> {
        start.key.validate()?;
        crate::model::plain_text("user", &start.user)?;
        crate::model::plain_text("holder.hostname", &start.holder.hostname)?;
        check_config(&start.config)?;
        let start = self.masked_start(start)?;
        let beginning = &self.masked_beginning(beginning);
        let id = start.id.unwrap_or_default();
        let asked = serde_json::to_string(&(&start.key, &start.user, &start.config)).unwrap_or_default();
        let begins = beginning.asked();
        let mut parts = vec!["start", start.holder.instance_id.as_str(), &asked];
        parts.extend(begins.as_deref());
        let digest = Digest::of(&parts);
        let system = beginning.system(self.shared.env.options.max_message_bytes)?;
        // Looked for before the task's place is taken: nobody waits for two places.
        let new = lease_generation == 0 && self.find(id)?.is_none();
        if new {
            self.check_limit(id, &start.config)?;
        }
        let first = if new { self.first(&start, beginning, system)? } else { First::default() };
        let mut created = false;
        let task = self.shared.handles.get(id, || {
            if let Some(folder) = self.find(id)? {
                return self.open_task(id, folder);
            }
            if lease_generation > 0 {
                // It was there once; making another under its name is not what the caller asks for.
                return Err(StoreError::TaskNotFound { id });
            }
            self.shared.env.check_writable()?;
            let inherited = first.inherited.as_ref().map_or(0, |inherited| inherited.text.len());
            let said = beginning.system_message.as_ref().map_or(0, String::len);
            self.shared.env.check_quota((asked.len() + said + inherited) as u64)?;
            created = true;
            let metadata = Metadata {
                format_version: FORMAT_VERSION,
                uuid: id,
                repository: start.key.repository(),
                task_key: start.key.clone(),
                user: start.user.clone(),
                created_at: self.shared.env.clock.now(),
                process_id: start.holder.process_id,
                hostname: start.holder.hostname.clone(),
                config: start.config.clone(),
                inherited_from: first.inherited_from.clone(),
            };
            let request = start.request_id.clone().map(|request_id| (request_id, digest));
            let task = task::create(&self.shared.env, metadata, start.holder.clone(), request, &first)?;
            self.shared.env.leases.renew(id, self.shared.env.clock.monotonic());
            Ok(Arc::new(task))
        })?;
        let lease_generation = if created {
            task.refresh();
            task.first_lease()
        } else {
            task.take_lease(
                &start.holder,
                lease_generation,
                start.request_id.as_ref().map(|request_id| (request_id, digest)),
            )?
        };
        // The first lease is given only by making the task; told again, it is to the call that made it.
        let created = lease_generation == task.first_lease();
        Ok(Started { id, lease_generation, created, inherited_from: task.inherited_from() })
    }

    /// Refuses a task that asks for `compact` and of whose model it is not known what it takes: that does not guess.
    pub(super) fn check_limit(&self, id: TaskId, config: &TaskConfig) -> Result<(), StoreError> {
        if Settings::of(config).compression.strategy.as_deref() != Some(Strategy::Compact.as_str()) {
            return Ok(());
        }
        let policy = Policy::resolve(None, config, &self.shared.env.options.compression);
        if policy.limit_source == LimitSource::Default {
            return Err(StoreError::LimitUnknown { id });
        }
        Ok(())
    }

    /// Makes a task out of the first messages of another, whatever its status.
    pub fn fork_task(&self, fork: ForkTask) -> Result<Started, StoreError> {
        crate::model::plain_text("holder.hostname", &fork.holder.hostname)?;
        let ForkTask { from, at_seq, id, holder, request_id } = fork;
        let id = id.unwrap_or_default();
        let asked = [from.to_string(), at_seq.to_string()];
        let digest = Digest::of(&["fork", holder.instance_id.as_str(), &asked[0], &asked[1]]);
        let request = request_id.map(|request_id| (request_id, digest));
        // MaskCounts before the new task's place is taken: nobody waits for two places.
        let source = if self.find(id)?.is_none() { Some(self.task(from)?) } else { None };
        let mut created = false;
        let task = self.shared.handles.get(id, || {
            if let Some(folder) = self.find(id)? {
                return self.open_task(id, folder);
            }
            let source = source.as_ref().ok_or(StoreError::TaskNotFound { id })?;
            self.shared.env.check_writable()?;
            created = true;
            let task = source.fork(Fork { id, at_seq, holder, request: request.clone() })?;
            self.shared.env.leases.renew(id, self.shared.env.clock.monotonic());
            Ok(Arc::new(task))
        })?;
        let lease_generation = if created {
            task.refresh();
            task.lease_generation()
        } else {
            task.forked_before(request.as_ref())?
        };
        Ok(Started { id, lease_generation, created: true, inherited_from: task.inherited_from() })
    }
}

pub(super) fn check_config(config: &TaskConfig) -> Result<(), InvalidField> {
    let bytes = serde_json::to_vec(config).map_or(usize::MAX, |json| json.len());
    if bytes > Store::MAX_CONFIG_BYTES {
        let most = Store::MAX_CONFIG_BYTES;
        return Err(InvalidField::new("config", format!("has {bytes} bytes; at most {most} are allowed")));
    }
    // What cannot be read back would look like damage: keys that stand twice, values of the wrong kind, too
    // deep nesting (`metadata.json` and events have it one level down).
    let text = serde_json::to_string(&[[config]]).unwrap_or_default();
    let read: Result<[[TaskConfig; 1]; 1], _> = serde_json::from_str(&text);
    match read {
        Ok([[read]]) if read == *config => Ok(()),
        Ok(_) => Err(InvalidField::new("config", "has values that JSON cannot hold")),
        Err(error) => Err(InvalidField::new("config", format!("cannot be read back: {error}"))),
    }
}
