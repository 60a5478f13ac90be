//! OpenSearch's statistics of followers: `_plugins/_replication/follower_stats` and `autofollow_stats`, of what
//! `_ccr/stats` knows. What a leader has given to its followers is counted by nobody: `leader_stats` is not
//! there.

use plimsoll_cluster::following::{FollowerOverview, FollowerPartition, FollowerStatus};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::replication::{self, Standing};
use super::{across, following};
use crate::rest::answer::Answer;
use crate::rest::call::Call;

/// GET `/_plugins/_replication/follower_stats`.
///
/// # Errors
/// None of its own.
pub async fn followers(call: Call) -> Result<Answer, Error> {
    Ok(Answer::json(&shown(&across::overview(&call).await?)))
}

/// GET `/_plugins/_replication/autofollow_stats`: as this node knows it, of all patterns together.
///
/// # Errors
/// None of its own.
pub async fn auto_follow(call: Call) -> Result<Answer, Error> {
    let following = following(&call)?;
    let told = following.auto_follow_statistics();
    let rule = |(name, it): (String, plimsoll_cluster::following::AutoFollow)| json!({ "name": name, "pattern": it.leaders.join(","), "active": it.is_active });
    let rules: Vec<Value> = following.auto_follows().into_iter().map(rule).collect();
    let failed: Vec<&str> = told.errors.iter().map(|(what, _)| what.as_str()).collect();
    Ok(Answer::json(&json!({
        "num_success_start_replication": told.followed,
        "num_failed_start_replication": told.failed,
        "num_failed_leader_calls": told.failed_asks,
        "failed_indices": failed,
        "autofollow_stats": rules,
    })))
}

fn shown(all: &[FollowerOverview]) -> Value {
    let count = |of: Standing| all.iter().filter(|it| replication::standing(it) == of).count();
    let is_followed = |it: &&FollowerOverview| it.status != FollowerStatus::Paused;
    let tasks: usize = all.iter().filter(is_followed).map(|it| it.partitions.len()).sum();
    let mut shown = Map::new();
    shown.insert("num_syncing_indices".to_owned(), json!(count(Standing::Syncing)));
    shown.insert("num_bootstrapping_indices".to_owned(), json!(count(Standing::Bootstrapping)));
    shown.insert("num_paused_indices".to_owned(), json!(count(Standing::Paused)));
    shown.insert("num_failed_indices".to_owned(), json!(count(Standing::Failed)));
    shown.insert("num_shard_tasks".to_owned(), json!(tasks));
    shown.insert("num_index_tasks".to_owned(), json!(all.iter().filter(is_followed).count()));
    shown.extend(sums(all.iter().flat_map(|it| &it.partitions)));
    let each = all.iter().map(|it| (it.name.clone(), Value::Object(sums(it.partitions.iter()))));
    shown.insert("index_stats".to_owned(), Value::Object(each.collect()));
    Value::Object(shown)
}

fn sums<'a>(of: impl Iterator<Item = &'a FollowerPartition>) -> Map<String, Value> {
    let names = [
        "operations_written",
        "operations_read",
        "failed_read_requests",
        "failed_write_requests",
        "follower_checkpoint",
        "leader_checkpoint",
        "total_write_time_millis",
    ];
    let mut sums = [0u64; 7];
    for it in of {
        let (counters, own) = (it.counters, it.sequence.unwrap_or(0));
        let numbers = [
            counters.appended_records,
            counters.records,
            counters.failed_reads,
            counters.failed_appends,
            own,
            it.leader_sequence.max(own),
            counters.append_time_ms,
        ];
        sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
    }
    names.into_iter().zip(sums).map(|(name, sum)| (name.to_owned(), json!(sum))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_sums_over_indices() {
        let partition = |sequence| FollowerPartition {
            sequence: Some(sequence),
            ..FollowerPartition::default()
        };
        let follower = |name: &str, status, partitions: Vec<FollowerPartition>| FollowerOverview {
            name: name.to_owned(),
            remote: "east".to_owned(),
            leader: name.to_owned(),
            status,
            parameters: Map::new(),
            partitions,
        };
        let trouble = Some(("its leader is gone".to_owned(), true));
        let failed = FollowerPartition { trouble, ..partition(1) };
        let shown = shown(&[
            follower("a", FollowerStatus::Active, vec![partition(3), partition(4)]),
            follower("b", FollowerStatus::Active, vec![failed]),
            follower("c", FollowerStatus::Paused, vec![partition(5)]),
        ]);
        assert_eq!(
            (&shown["num_syncing_indices"], &shown["num_failed_indices"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(
            (&shown["num_paused_indices"], &shown["num_shard_tasks"]),
            (&json!(1), &json!(3))
        );
        assert_eq!(shown["follower_checkpoint"], 13);
        assert_eq!(shown["index_stats"]["a"]["leader_checkpoint"], 7);
    }
}
