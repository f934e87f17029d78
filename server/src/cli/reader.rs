//! The source of reading commands: a running server, or the data directory if no server uses it. Both return the
//! same.

use std::path::Path;

use contextstore_client::{Client, ReadMessages, TaskQuery, v1};
use tokio::runtime::Runtime;

use super::Failure;
use super::facts::{Facts, Shown};
use super::target::{Access, Place};
use crate::model::{Status, StoreError, TaskFilter, TaskId, TaskOrder};
use crate::store::layout::Folder;
use crate::store::{Ground, Head, Line, Store};

/// Tasks per request.
const PAGE: usize = 1000;

/// The source of a reading command.
pub(super) enum Reader {
    /// A running server.
    Server { runtime: Runtime, client: Client },
    /// A data directory that no server uses.
    Directory(Store),
}

impl Reader {
    /// Connects to the server of a target, or opens the directory if no server runs.
    pub(super) fn open(place: &Place, access: &Access) -> Result<Self, Failure> {
        let runtime = runtime()?;
        let connected = runtime.block_on(place.client(access).connect());
        match (connected, place.directory()) {
            (Ok(client), _) => Ok(Self::Server { runtime, client }),
            (Err(contextstore_client::Error::Connection { .. }), Some(dir)) => Ok(Self::open_directory(dir)?),
            (Err(error), _) => Err(error.into()),
        }
    }

    fn open_directory(dir: &Path) -> Result<Self, StoreError> {
        let ground = Ground::existing(dir)?;
        let is_there = |folder: Folder| matches!(ground.fs.stat(&folder.path()), Ok(Some(_)));
        if !Folder::HEALTHY.into_iter().any(is_there) {
            let problem = "it is not a data directory".to_owned();
            return Err(StoreError::BadDataDir { path: ground.name, problem });
        }
        Store::open_to_read(ground).map(Self::Directory)
    }

    /// Passes on the newest matching tasks, up to `limit`. Returns true if there are more.
    pub(super) fn tasks(
        &self,
        filter: &TaskFilter,
        limit: usize,
        take: &mut dyn FnMut(Facts) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        let mut left = limit;
        let mut token = None;
        loop {
            let (tasks, next) = self.page(filter, left.min(PAGE), token.as_deref())?;
            left = left.saturating_sub(tasks.len());
            for task in tasks {
                take(task)?;
            }
            if next.is_none() || left == 0 {
                return Ok(next.is_some());
            }
            token = next;
        }
    }

    fn page(
        &self,
        filter: &TaskFilter,
        size: usize,
        token: Option<&str>,
    ) -> Result<(Vec<Facts>, Option<String>), Failure> {
        match self {
            Self::Server { runtime, client } => {
                let query = TaskQuery {
                    filter: wire_filter(filter),
                    page_size: u32::try_from(size).unwrap_or(u32::MAX),
                    ..TaskQuery::default()
                };
                let page = runtime.block_on(client.list_tasks(&query, token.unwrap_or_default()))?;
                let next = Some(page.next_page_token).filter(|token| !token.is_empty());
                Ok((page.tasks.into_iter().map(Facts::from).collect(), next))
            }
            Self::Directory(store) => {
                let page = store.list_tasks(filter, TaskOrder::default(), size, token)?;
                Ok((page.rows.into_iter().map(Facts::from).collect(), page.next))
            }
        }
    }

    /// Returns a task in full.
    pub(super) fn task(&self, id: TaskId) -> Result<Shown, Failure> {
        match self {
            Self::Server { runtime, client } => {
                let task = client.task(id.to_string());
                let found = runtime.block_on(task.get())?;
                let latest = runtime.block_on(task.latest_summary())?;
                let (task, pressure) = (found.task.unwrap_or_default(), found.pressure.unwrap_or_default());
                Ok(Shown::from_wire(task, latest, pressure))
            }
            Self::Directory(store) => {
                let summary = store.final_summary(id)?.unwrap_or_default();
                Ok(Shown::from_info(store.task_info(id)?, store.latest_summary(id)?, summary))
            }
        }
    }

    /// Passes on the last `count` messages of a task up to message `last`, as they are in the log.
    pub(super) fn messages(
        &self,
        id: TaskId,
        last: u64,
        count: u64,
        take: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if last == 0 || count == 0 {
            return Ok(());
        }
        let first = last.saturating_sub(count) + 1;
        match self {
            Self::Server { runtime, client } => {
                let kinds = vec![v1::RecordKind::Message];
                let read = ReadMessages { from_seq: first, to_seq: last, kinds, ..ReadMessages::default() };
                let mut records = client.task(id.to_string()).messages(read);
                while let Some(record) = runtime.block_on(records.try_next())? {
                    take(&String::from_utf8_lossy(&record))?;
                }
            }
            Self::Directory(store) => {
                let mut lines = store.lines(id, first, last)?;
                let mut message = |line: &Line<'_>| match line.head {
                    Head::Message { .. } => take(line.text),
                    Head::Event { .. } | Head::Record { .. } => Ok(()),
                };
                while let Some(taken) = lines.step(&mut message)? {
                    taken?;
                }
            }
        }
        Ok(())
    }

    /// Closes a data directory.
    pub(super) fn close(self) -> Result<(), Failure> {
        match self {
            Self::Server { .. } => Ok(()),
            Self::Directory(store) => Ok(store.close()?),
        }
    }
}

/// Returns a small runtime for the client.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn wire_filter(filter: &TaskFilter) -> v1::TaskFilter {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let status = |status: &Status| v1::TaskStatus::from_name(status.as_str()).unwrap_or_default().into();
    v1::TaskFilter {
        statuses: filter.statuses.iter().map(status).collect(),
        task_source: text(&filter.task_source),
        owner: text(&filter.owner),
        repo: text(&filter.repo),
        task_type: text(&filter.task_type),
        task_id: text(&filter.task_id),
        user: text(&filter.user),
        ..v1::TaskFilter::default()
    }
}
