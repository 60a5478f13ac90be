//! `_ccr/stats`: how far followers are, as the nodes say that pull them.

use std::time::Duration;

use plimsoll_cluster::following::{
    FollowerOverview, FollowerPartition, FollowerStatus, PacingStatistics,
};
use plimsoll_index::Error;
use serde_json::{Value, json};

use super::{across, auto_follow, chosen, following};
use crate::rest::answer::Answer;
use crate::rest::call::Call;

/// GET `/{index}/_ccr/stats`.
///
/// # Errors
/// 404 where an index of that name is not there.
pub async fn of_indices(call: Call) -> Result<Answer, Error> {
    let all = across::overview(&call).await?;
    let shown: Vec<Value> = chosen(&call, all)?.iter().map(index).collect();
    Ok(Answer::json(&json!({ "indices": shown })))
}

/// GET `/_ccr/stats`.
///
/// # Errors
/// None of its own.
pub async fn all(call: Call) -> Result<Answer, Error> {
    let shown: Vec<Value> = across::overview(&call).await?.iter().map(index).collect();
    Ok(Answer::json(&json!({
        "auto_follow_stats": auto_follow::statistics(&call)?,
        "follow_stats": { "indices": shown },
        // Beyond what Elasticsearch tells.
        "pacing": pacing(&following(&call)?.pacing()),
    })))
}

/// How fast the node that is asked copies and follows, and how long its own clients' work held that back.
fn pacing(told: &PacingStatistics) -> Value {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "bytes_per_second": told.bytes_s,
        "copies_throttle_time_in_millis": ms(told.copies_held),
        "files_throttle_time_in_millis": ms(told.files_held),
        "records_throttle_time_in_millis": ms(told.records_held),
    })
}

/// One that stands still has no tasks, and is not told of, as in Elasticsearch.
fn index(follower: &FollowerOverview) -> Value {
    let is_told = follower.status != FollowerStatus::Paused;
    let partitions = follower.partitions.iter().filter(|_| is_told);
    let lag: u64 = follower.partitions.iter().map(lag_operations).sum();
    json!({
        "index": follower.name,
        "total_global_checkpoint_lag": lag,
        "shards": partitions.map(|it| shard(follower, it)).collect::<Vec<_>>(),
    })
}

/// Elasticsearch's checkpoints begin at 0, and are -1 where nothing was written.
fn checkpoint(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX) - 1
}

fn lag_operations(partition: &FollowerPartition) -> u64 {
    partition.leader_sequence.saturating_sub(partition.sequence.unwrap_or(0))
}

fn shard(follower: &FollowerOverview, it: &FollowerPartition) -> Value {
    let counters = it.counters;
    let own = checkpoint(it.sequence.unwrap_or(0));
    let leader = checkpoint(it.leader_sequence.max(it.sequence.unwrap_or(0)));
    let mut shown = json!({
        "remote_cluster": follower.remote,
        "leader_index": follower.leader,
        "follower_index": follower.name,
        "shard_id": it.ordinal,
        "leader_global_checkpoint": leader,
        "leader_max_seq_no": leader,
        "follower_global_checkpoint": own,
        "follower_max_seq_no": own,
        "last_requested_seq_no": leader,
        "outstanding_read_requests": u8::from(it.silent_ms.is_some()),
        "outstanding_write_requests": u64::from(counters.waiting_bytes > 0),
        "write_buffer_operation_count": counters.waiting_records,
        "write_buffer_size_in_bytes": counters.waiting_bytes,
        "follower_mapping_version": it.mapping_version,
        "follower_settings_version": 1,
        "follower_aliases_version": 1,
        "total_read_time_millis": 0,
        "total_read_remote_exec_time_millis": 0,
        "successful_read_requests": counters.batches,
        "failed_read_requests": counters.failed_reads,
        "operations_read": counters.records,
        "bytes_read": counters.bytes,
        "total_write_time_millis": counters.append_time_ms,
        "successful_write_requests": counters.appended,
        "failed_write_requests": counters.failed_appends,
        "operations_written": counters.appended_records,
        "read_exceptions": [],
        "time_since_last_read_millis": it.silent_ms.map_or(-1, |ms| i64::try_from(ms).unwrap_or(i64::MAX)),
    });
    if let Some((why, is_fatal)) = &it.trouble {
        let exception = json!({ "type": "exception", "reason": why });
        if *is_fatal {
            shown["fatal_exception"] = exception;
        } else {
            shown["read_exceptions"] = json!([{ "from_seq_no": own + 1, "retries": counters.failed_reads, "exception": exception }]);
        }
    }
    // Beyond what Elasticsearch tells.
    shown["lag_in_millis"] = json!(it.lag_ms);
    shown["time_left_in_millis"] = json!(it.left_ms);
    shown["limited_by"] = json!(it.limited_by);
    shown["leader_lsn"] = json!(it.leader_lsn);
    shown["follower_lsn"] = json!(it.taken_lsn);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_has_the_fields_that_elasticsearch_documents() {
        let partition = FollowerPartition {
            leader_sequence: 12,
            sequence: Some(10),
            trouble: Some(("the key was taken back".to_owned(), false)),
            ..FollowerPartition::default()
        };
        let follower = FollowerOverview {
            name: "f".to_owned(),
            remote: "west".to_owned(),
            leader: "l".to_owned(),
            status: FollowerStatus::Active,
            parameters: serde_json::Map::new(),
            partitions: vec![partition],
        };
        let shown = index(&follower);
        assert_eq!(shown["total_global_checkpoint_lag"], 2);
        let shard = &shown["shards"][0];
        assert_eq!(shard["leader_global_checkpoint"], 11);
        assert_eq!(shard["follower_global_checkpoint"], 9);
        assert_eq!(shard["read_exceptions"][0]["from_seq_no"], 10);
        assert!(shard.get("fatal_exception").is_none());
        assert_eq!(shard.as_object().unwrap().len(), 28 + 5);
        let paused = FollowerOverview { status: FollowerStatus::Paused, ..follower };
        assert_eq!(index(&paused)["shards"], json!([]));
    }
}
