//! Model → wire: what callers are told.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use contextstore_proto::v1 as pb;
use contextstore_proto::v1::CompressionStrategy;
use prost_types::Timestamp;
use serde_json::Value;

use super::{enums, settings};
use crate::context::Pressure;
use crate::mask::MaskCounts;
use crate::model::{Holder, SummaryRecord, TaskConfig, TaskKey, TaskRow, TokenCounter};
use crate::store::{AppendOutcome, ContextUsage, TaskInfo};

pub(super) fn timestamp(at: DateTime<Utc>) -> Timestamp {
    Timestamp { seconds: at.timestamp(), nanos: i32::try_from(at.timestamp_subsec_nanos()).unwrap_or(0) }
}

pub(super) fn duration(length: Duration) -> prost_types::Duration {
    length.try_into().unwrap_or_default()
}

pub(super) fn pressure(pressure: &Pressure) -> pb::Pressure {
    pb::Pressure {
        tokens: pressure.tokens,
        limit: pressure.limit,
        limit_source: enums::number(pressure.source),
        ratio: pressure.ratio,
        stage: enums::number(pressure.stage),
        should_compress: pressure.should_compress,
        incompressible: pressure.over,
        breaker: breaker(pressure.breaker_open).into(),
    }
}

fn breaker(is_open: Option<bool>) -> pb::BreakerState {
    match is_open {
        None => pb::BreakerState::Unspecified,
        Some(false) => pb::BreakerState::Closed,
        Some(true) => pb::BreakerState::Open,
    }
}

pub(super) fn context_usage(usage: &ContextUsage) -> pb::GetContextUsageResponse {
    pb::GetContextUsageResponse {
        pressure: Some(pressure(&usage.pressure)),
        messages: usage.messages,
        counted_tokens: usage.counted_tokens,
        tools_tokens: usage.tools_tokens,
        token_counter: enums::number(usage.counter),
        calibration: usage.calibration.factor(),
        view_bytes: usage.view_bytes,
    }
}

pub(super) fn appended(outcome: &AppendOutcome) -> pb::AppendMessageResponse {
    pb::AppendMessageResponse {
        seq: outcome.seq,
        tokens: outcome.tokens,
        duplicate: outcome.duplicate,
        pressure: Some(pressure(&outcome.pressure)),
        masked: masked(&outcome.masked),
    }
}

pub(super) fn masked(found: &MaskCounts) -> Vec<pb::MaskedSecrets> {
    found.iter().map(|(rule, count)| pb::MaskedSecrets { rule: rule.to_owned(), count }).collect()
}

fn key(key: &TaskKey) -> pb::TaskKey {
    let TaskKey { task_source, owner, repo, task_type, task_id } = key.clone();
    pb::TaskKey { task_source, owner, repo, task_type, task_id }
}

fn holder(holder: &Holder) -> pb::Holder {
    pb::Holder {
        instance_id: holder.instance_id.to_string(),
        process_id: holder.process_id,
        hostname: holder.hostname.clone(),
    }
}

fn config(config: &TaskConfig) -> pb::TaskConfig {
    let mut other = config.other.clone();
    let settings = settings::told(config, &mut other);
    let token_counter = TokenCounter::of(config);
    if token_counter.is_some() {
        other.remove(TokenCounter::KEY);
    }
    pb::TaskConfig {
        llm_provider: config.llm_provider.clone(),
        model: config.model.clone(),
        context_length: config.context_length,
        durability: config.durability.map_or(0, enums::number),
        extra_json: if other.is_empty() { String::new() } else { Value::from(other).to_string() },
        token_counter: token_counter.map_or(0, enums::number),
        ..settings
    }
}

/// A task from its row in the catalog.
pub(super) fn listed(row: TaskRow) -> pb::Task {
    pb::Task {
        uuid: row.uuid.to_string(),
        key: Some(key(&row.key)),
        user: row.user,
        status: enums::number(row.status),
        health: enums::number(row.health),
        error_message: row.error_message.unwrap_or_default(),
        config: Some(pb::TaskConfig {
            llm_provider: row.llm_provider,
            model: row.model,
            context_length: row.context_length,
            ..pb::TaskConfig::default()
        }),
        create_time: Some(timestamp(row.created_at)),
        update_time: Some(timestamp(row.updated_at)),
        complete_time: row.completed_at.map(timestamp),
        statistics: Some(pb::TaskStatistics {
            total_messages: row.total_messages,
            llm_call_count: row.llm_call_count,
            total_tokens: row.total_tokens,
            tool_call_count: row.tool_call_count,
            total_tool_calls: row.total_tool_calls,
            compression_count: row.compression_count,
            total_summaries: row.total_summaries,
            ..pb::TaskStatistics::default()
        }),
        process_id: row.process_id,
        hostname: row.hostname,
        ..pb::Task::default()
    }
}

pub(super) fn statistics(info: &TaskInfo) -> pb::TaskStatistics {
    pb::TaskStatistics {
        total_messages: info.last_seq,
        message_tokens: info.tally.message_tokens,
        view_messages: info.view_messages,
        view_tokens: info.view_tokens,
        view_bytes: info.view_bytes,
        llm_call_count: info.tally.llm_calls,
        total_tokens: info.tally.tokens,
        tool_call_count: info.row.tool_call_count,
        total_tool_calls: info.row.total_tool_calls,
        tool_success_count: info.tool_successes,
        compression_count: info.tally.compressions,
        total_summaries: info.tally.summaries,
        total_plans: info.plans,
        pinned_messages: info.pins.len() as u64,
        bytes_on_disk: info.disk_bytes,
    }
}

/// A task from its own files.
pub(super) fn task(info: &TaskInfo, lease_ttl: Duration, now: DateTime<Utc>) -> pb::Task {
    let lease = info.lease.as_ref().map(|(lease, age)| {
        let renewed = now - TimeDelta::from_std(*age).unwrap_or_default();
        // A clock that was set back must not make a renewal older than the lease.
        let renewed = renewed.max(lease.acquired_at);
        pb::Lease {
            generation: lease.generation,
            holder: Some(holder(&lease.holder)),
            acquire_time: Some(timestamp(lease.acquired_at)),
            renew_time: Some(timestamp(renewed)),
            expire_time: Some(timestamp(renewed + lease_ttl)),
        }
    });
    pb::Task {
        config: Some(config(&info.config)),
        lease,
        lease_generation: info.lease_generation,
        statistics: Some(statistics(info)),
        has_plan: info.plans > 0,
        directory: info.folder.task(info.row.uuid).to_string(),
        view_generation: info.view_generation,
        last_seq: info.last_seq,
        inherited_from: info.inherited_from.as_ref().map(|from| from.uuid.to_string()).unwrap_or_default(),
        ..listed(info.row.clone())
    }
}

pub(super) fn summary(record: SummaryRecord) -> pb::Summary {
    pb::Summary {
        id: record.id,
        start_seq: record.start_seq,
        end_seq: record.end_seq,
        summary: record.summary,
        compressed_message_count: record.compressed_message_count,
        original_tokens: record.original_tokens,
        summary_tokens: record.summary_tokens,
        strategy: CompressionStrategy::from_name(&record.strategy).unwrap_or_default().into(),
        model: record.model,
        create_time: Some(timestamp(record.timestamp)),
        tokens_saved: record.tokens_saved,
        ratio: record.ratio,
        sections_json: record.sections.map(|sections| sections.to_string()).unwrap_or_default(),
    }
}
