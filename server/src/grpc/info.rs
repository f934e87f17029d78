//! What the server says of itself.

use contextstore_proto::v1 as pb;

use super::serving::Serving;
use super::{answer, enums};
use crate::store::{CurrentReader, FORMAT_VERSION};

/// What clients of several versions may ask for.
const FEATURES: [&str; 6] = ["pipelined_append", "follow", "watch", "rewind", "chat", "tool_outputs"];

pub(super) fn of(serving: &Serving) -> pb::GetServerInfoResponse {
    let store = serving.engine.store();
    let limits = &serving.limits;
    pb::GetServerInfoResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        format_version: FORMAT_VERSION,
        limits: Some(pb::ServerLimits {
            message_bytes: limits.message_bytes as u64,
            bytes_in_flight: limits.bytes_in_flight as u64,
            streams_per_connection: u64::from(limits.streams_per_connection),
            connections: limits.connections as u64,
            read_streams: limits.read_streams as u64,
            chunk_bytes: CurrentReader::MAX_CHUNK_BYTES as u64,
            task_bytes: limits.task_bytes,
            store_bytes: limits.store_bytes,
            read_idle: Some(answer::duration(limits.read_idle)),
        }),
        features: FEATURES.map(str::to_owned).to_vec(),
        data_dir: serving.data_dir.clone(),
        durability: enums::number(store.options().durability),
        lease_ttl: Some(answer::duration(store.options().lease_ttl)),
        read_only_reason: store.read_only().unwrap_or_default(),
        start_time: Some(answer::timestamp(serving.started_at)),
        process_id: std::process::id(),
    }
}
