//! Tasks as the command line prints them, from a server or from a data directory. The names are those of the catalog.

use chrono::{DateTime, Utc};
use contextstore_client::v1;
use serde::Serialize;

use crate::model::{SummaryRecord, TaskKey, TaskRow};
use crate::store::TaskInfo;

/// A task in a listing.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    pub(super) uuid: String,
    #[serde(flatten)]
    pub(super) key: TaskKey,
    pub(super) user: String,
    pub(super) status: String,
    pub(super) health: String,
    pub(super) error_message: Option<String>,
    pub(super) created_at: DateTime<Utc>,
    pub(super) updated_at: DateTime<Utc>,
    pub(super) completed_at: Option<DateTime<Utc>>,
    pub(super) process_id: u32,
    pub(super) hostname: String,
    pub(super) llm_provider: String,
    pub(super) model: String,
    pub(super) context_length: Option<u64>,
    pub(super) total_messages: u64,
    pub(super) total_summaries: u64,
    pub(super) total_tool_calls: u64,
    pub(super) llm_call_count: u64,
    pub(super) tool_call_count: u64,
    pub(super) total_tokens: u64,
    pub(super) compression_count: u64,
}

/// A task in full.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    #[serde(flatten)]
    pub(super) facts: Facts,
    pub(super) directory: String,
    pub(super) lease: Option<Lease>,
    pub(super) lease_generation: u64,
    pub(super) last_seq: u64,
    pub(super) message_tokens: u64,
    pub(super) view_generation: u64,
    pub(super) view_messages: u64,
    pub(super) view_tokens: u64,
    pub(super) view_bytes: u64,
    pub(super) tool_success_count: u64,
    pub(super) total_plans: u64,
    pub(super) pinned_messages: u64,
    pub(super) bytes_on_disk: u64,
    pub(super) pressure: Pressure,
    pub(super) latest_summary: Option<Summary>,
    pub(super) inherited_from: Option<String>,
    pub(super) final_summary: Option<String>,
}

/// The holder of a task.
#[derive(Debug, Serialize)]
pub(super) struct Lease {
    pub(super) generation: u64,
    pub(super) instance_id: String,
    pub(super) process_id: u32,
    pub(super) hostname: String,
    pub(super) acquired_at: DateTime<Utc>,
}

/// The pressure of a context.
#[derive(Debug, Serialize)]
pub(super) struct Pressure {
    pub(super) tokens: u64,
    pub(super) limit: u64,
    pub(super) limit_source: String,
    pub(super) ratio: f64,
    pub(super) stage: String,
    pub(super) should_compress: bool,
    pub(super) incompressible: bool,
    pub(super) breaker: Option<String>,
}

impl From<v1::Pressure> for Pressure {
    fn from(pressure: v1::Pressure) -> Self {
        Self {
            tokens: pressure.tokens,
            limit: pressure.limit,
            limit_source: pressure.limit_source().name().to_owned(),
            ratio: pressure.ratio,
            stage: pressure.stage().name().to_uppercase(),
            should_compress: pressure.should_compress,
            incompressible: pressure.incompressible,
            breaker: some(pressure.breaker().name().to_owned()),
        }
    }
}

impl Pressure {
    /// Returns the pressure on one line, for people.
    pub(super) fn words(&self) -> String {
        let share = self.ratio * 100.0;
        let source = if self.limit_source == "default" { ", a guess" } else { "" };
        let over = if self.incompressible { "; what may not go is too large alone" } else { "" };
        format!("{} ({share:.1} % of {} tokens{source}){over}", self.stage, self.limit)
    }
}

/// A summary.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) id: u64,
    pub(super) start_seq: u64,
    pub(super) end_seq: u64,
    pub(super) summary_tokens: u64,
    pub(super) strategy: String,
    pub(super) model: String,
    pub(super) summary: String,
}

impl From<v1::Summary> for Summary {
    fn from(summary: v1::Summary) -> Self {
        Self {
            id: summary.id,
            start_seq: summary.start_seq,
            end_seq: summary.end_seq,
            summary_tokens: summary.summary_tokens,
            strategy: summary.strategy().name().to_owned(),
            model: summary.model,
            summary: summary.summary,
        }
    }
}

impl From<SummaryRecord> for Summary {
    fn from(record: SummaryRecord) -> Self {
        Self {
            id: record.id,
            start_seq: record.start_seq,
            end_seq: record.end_seq,
            summary_tokens: record.summary_tokens,
            strategy: record.strategy,
            model: record.model,
            summary: record.summary,
        }
    }
}

/// Returns a text unless it is empty.
fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn time(at: Option<prost_types::Timestamp>) -> Option<DateTime<Utc>> {
    let at = at?;
    DateTime::from_timestamp(at.seconds, u32::try_from(at.nanos).ok()?)
}

impl From<TaskRow> for Facts {
    fn from(row: TaskRow) -> Self {
        Self {
            uuid: row.uuid.to_string(),
            key: row.key,
            user: row.user,
            status: row.status.as_str().to_owned(),
            health: row.health.as_str().to_owned(),
            error_message: row.error_message,
            created_at: row.created_at,
            updated_at: row.updated_at,
            completed_at: row.completed_at,
            process_id: row.process_id,
            hostname: row.hostname,
            llm_provider: row.llm_provider,
            model: row.model,
            context_length: row.context_length,
            total_messages: row.total_messages,
            total_summaries: row.total_summaries,
            total_tool_calls: row.total_tool_calls,
            llm_call_count: row.llm_call_count,
            tool_call_count: row.tool_call_count,
            total_tokens: row.total_tokens,
            compression_count: row.compression_count,
        }
    }
}

impl From<v1::Task> for Facts {
    fn from(task: v1::Task) -> Self {
        let (status, health) = (task.status().name().to_owned(), task.health().name().to_owned());
        let v1::TaskKey { task_source, owner, repo, task_type, task_id } = task.key.unwrap_or_default();
        let config = task.config.unwrap_or_default();
        let counts = task.statistics.unwrap_or_default();
        Self {
            status,
            health,
            uuid: task.uuid,
            key: TaskKey { task_source, owner, repo, task_type, task_id },
            user: task.user,
            error_message: some(task.error_message),
            created_at: time(task.create_time).unwrap_or_default(),
            updated_at: time(task.update_time).unwrap_or_default(),
            completed_at: time(task.complete_time),
            process_id: task.process_id,
            hostname: task.hostname,
            llm_provider: config.llm_provider,
            model: config.model,
            context_length: config.context_length,
            total_messages: counts.total_messages,
            total_summaries: counts.total_summaries,
            total_tool_calls: counts.total_tool_calls,
            llm_call_count: counts.llm_call_count,
            tool_call_count: counts.tool_call_count,
            total_tokens: counts.total_tokens,
            compression_count: counts.compression_count,
        }
    }
}

impl Shown {
    pub(super) fn from_info(info: TaskInfo, latest: Option<SummaryRecord>, final_summary: String) -> Self {
        let lease = info.lease.map(|(lease, _)| Lease {
            generation: lease.generation,
            instance_id: lease.holder.instance_id.to_string(),
            process_id: lease.holder.process_id,
            hostname: lease.holder.hostname,
            acquired_at: lease.acquired_at,
        });
        Self {
            directory: info.folder.task(info.row.uuid).to_string(),
            facts: info.row.into(),
            lease,
            lease_generation: info.lease_generation,
            last_seq: info.last_seq,
            message_tokens: info.tally.message_tokens,
            view_generation: info.view_generation,
            view_messages: info.view_messages,
            view_tokens: info.view_tokens,
            view_bytes: info.view_bytes,
            tool_success_count: info.tool_successes,
            total_plans: info.plans,
            pinned_messages: info.pins.len() as u64,
            bytes_on_disk: info.disk_bytes,
            pressure: Pressure {
                tokens: info.pressure.tokens,
                limit: info.pressure.limit,
                limit_source: info.pressure.source.as_str().to_owned(),
                ratio: info.pressure.ratio,
                stage: info.pressure.stage.as_str().to_owned(),
                should_compress: info.pressure.should_compress,
                incompressible: info.pressure.over,
                breaker: info
                    .pressure
                    .breaker_open
                    .map(|open| if open { "open" } else { "closed" }.to_owned()),
            },
            latest_summary: latest.map(Into::into),
            inherited_from: info.inherited_from.map(|from| from.uuid.to_string()),
            final_summary: some(final_summary),
        }
    }

    pub(super) fn from_wire(mut task: v1::Task, latest: Option<v1::Summary>, pressure: v1::Pressure) -> Self {
        let counts = task.statistics.unwrap_or_default();
        let lease = task.lease.take().map(|lease| {
            let holder = lease.holder.unwrap_or_default();
            Lease {
                generation: lease.generation,
                instance_id: holder.instance_id,
                process_id: holder.process_id,
                hostname: holder.hostname,
                acquired_at: time(lease.acquire_time).unwrap_or_default(),
            }
        });
        Self {
            directory: std::mem::take(&mut task.directory),
            lease,
            lease_generation: task.lease_generation,
            last_seq: task.last_seq,
            message_tokens: counts.message_tokens,
            view_generation: task.view_generation,
            view_messages: counts.view_messages,
            view_tokens: counts.view_tokens,
            view_bytes: counts.view_bytes,
            tool_success_count: counts.tool_success_count,
            total_plans: counts.total_plans,
            pinned_messages: counts.pinned_messages,
            bytes_on_disk: counts.bytes_on_disk,
            pressure: pressure.into(),
            latest_summary: latest.map(Into::into),
            inherited_from: some(std::mem::take(&mut task.inherited_from)),
            final_summary: some(std::mem::take(&mut task.final_summary)),
            facts: task.into(),
        }
    }
}
