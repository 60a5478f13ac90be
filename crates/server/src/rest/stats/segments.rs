//! `_segments` and `_recovery`: what a partition's index is made of, and how the partition came
//! to be. The segments of a partition are answered as one, under the name `_all`.

use plimsoll_cluster::PartitionStatistics;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::indices::shards;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand};
use crate::rest::identity::LUCENE_VERSION;

/// Bytes of a partition's index.
#[must_use]
pub fn index_bytes(partition: &PartitionStatistics) -> u64 {
    partition.segments.bytes.values().sum()
}

/// GET `[/{index}]/_segments`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn segments(call: Call) -> Result<Answer, Error> {
    let options = Expand::search().with_query(&call.query)?;
    let found = expressions::resolve(call.coordinator(), call.part("index"), &options)?;
    let mut indices = Map::new();
    for target in &found {
        let name = &target.index.name;
        let Some(statistics) = call.coordinator().index_statistics(name) else { continue };
        let shards: Map<String, Value> = statistics
            .partitions
            .iter()
            .enumerate()
            .map(|(at, partition)| (at.to_string(), json!([shard(&call, partition)])))
            .collect();
        indices.insert(name.clone(), json!({ "shards": shards }));
    }
    Ok(Answer::json(&json!({ "_shards": shards(&found), "indices": indices })))
}

fn shard(call: &Call, partition: &PartitionStatistics) -> Value {
    let segments = &partition.segments;
    let mut all = Map::new();
    if segments.segments > 0 {
        let entry = json!({
            "generation": segments.refreshes,
            "num_docs": segments.docs,
            "deleted_docs": segments.deleted,
            "size_in_bytes": index_bytes(partition),
            "memory_in_bytes": 0,
            "committed": true,
            "search": true,
            "version": LUCENE_VERSION,
            "compound": false,
        });
        all.insert("_all".to_owned(), entry);
    }
    json!({
        "routing": {
            "state": "STARTED",
            "primary": true,
            "node": call.rest.identity.node_id,
        },
        "num_committed_segments": segments.segments,
        "num_search_segments": segments.segments,
        "segments": all,
    })
}

/// GET `[/{index}]/_recovery`. A partition begins empty or is opened from its own files; what
/// either took is not kept.
///
/// # Errors
/// 404 where an index is not there.
pub async fn recovery(call: Call) -> Result<Answer, Error> {
    let options = Expand::any().with_query(&call.query)?;
    let found = expressions::resolve(call.coordinator(), call.part("index"), &options)?;
    let active_only = call.query.flag_or("active_only", false)?;
    let started_ms = call.rest.node.started_s * 1000;
    let mut indices = Map::new();
    // Nothing recovers once the node answers.
    for target in found.iter().filter(|_| !active_only) {
        let index = &target.index;
        let is_new = index.created_ms >= started_ms;
        let since_ms = index.created_ms.max(started_ms);
        let kind = if is_new { "EMPTY_STORE" } else { "EXISTING_STORE" };
        let shards: Vec<Value> = (0..index.partitions)
            .map(|ordinal| recovered(&call, ordinal, kind, since_ms))
            .collect();
        indices.insert(index.name.clone(), json!({ "shards": shards }));
    }
    Ok(Answer::json(&indices))
}

fn recovered(call: &Call, ordinal: u32, kind: &str, since_ms: u64) -> Value {
    let address = call.rest.address;
    json!({
        "id": ordinal,
        "type": kind,
        "stage": "DONE",
        "primary": true,
        "start_time_in_millis": since_ms,
        "stop_time_in_millis": since_ms,
        "total_time_in_millis": 0,
        "source": {},
        "target": {
            "id": call.rest.identity.node_id,
            "host": address.ip().to_string(),
            "transport_address": address.to_string(),
            "ip": address.ip().to_string(),
            "name": call.rest.node.settings.node_name,
        },
        "index": {
            "size": {
                "total_in_bytes": 0,
                "reused_in_bytes": 0,
                "recovered_in_bytes": 0,
                "percent": "0.0%",
            },
            "files": { "total": 0, "reused": 0, "recovered": 0, "percent": "0.0%" },
            "total_time_in_millis": 0,
            "source_throttle_time_in_millis": 0,
            "target_throttle_time_in_millis": 0,
        },
        "translog": {
            "recovered": 0,
            "total": 0,
            "percent": "100.0%",
            "total_on_start": 0,
            "total_time_in_millis": 0,
        },
        "verify_index": { "check_index_time_in_millis": 0, "total_time_in_millis": 0 },
    })
}
