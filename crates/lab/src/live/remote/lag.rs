//! How far a follower is behind, seen from outside: the age of the oldest change that the leader was
//! seen to have and the follower was not, by the positions in the leader's log that both tell. The way
//! between them is part of it, which a follower that counts from when it heard of a change leaves out.
//! Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::Value;

/// What was seen of the leader that the follower does not have yet, by partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lag {
    /// When the leader was first seen at a number.
    ahead: BTreeMap<u64, VecDeque<(Duration, i64)>>,
}

impl Lag {
    /// The leader has all up to this number.
    pub(crate) fn leader(&mut self, shard: u64, number: i64, now: Duration) {
        let ahead = self.ahead.entry(shard).or_default();
        if ahead.back().is_none_or(|(_, last)| *last < number) {
            ahead.push_back((now, number));
        }
    }

    /// The follower has all up to this number: how far behind it is.
    pub(crate) fn follower(&mut self, shard: u64, number: i64, now: Duration) -> Duration {
        let ahead = self.ahead.entry(shard).or_default();
        while ahead.front().is_some_and(|(_, first)| *first <= number) {
            ahead.pop_front();
        }
        ahead.front().map_or(Duration::ZERO, |(at, _)| now.saturating_sub(*at))
    }
}

/// The last position in the log of every partition, by a leader's `_stats?level=shards`, whose
/// `seq_no` counts positions from 0.
pub(crate) fn leader_numbers(answer: &Value, index: &str) -> Vec<(u64, i64)> {
    let shards = answer["indices"][index]["shards"].as_object();
    let one = |(shard, copies): (&String, &Value)| {
        Some((shard.parse().ok()?, copies[0]["seq_no"]["max_seq_no"].as_i64()?))
    };
    shards.into_iter().flatten().filter_map(one).collect()
}

/// The same of a follower, by its `_ccr/stats`, which counts the leader's positions from 1; with what
/// it says itself of its lag, ms.
pub(crate) fn follower_numbers(answer: &Value) -> Vec<(u64, i64, Option<u64>)> {
    let shards = answer["indices"][0]["shards"].as_array();
    let one = |shard: &Value| {
        let number = shard["follower_lsn"].as_i64()? - 1;
        Some((shard["shard_id"].as_u64()?, number, shard["lag_in_millis"].as_u64()))
    };
    shards.into_iter().flatten().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_lag_is_the_age_of_the_oldest_change_that_is_not_there() {
        let mut lag = Lag::default();
        assert_eq!(lag.follower(0, -1, 5 * MS), Duration::ZERO);
        lag.leader(0, 10, 10 * MS);
        lag.leader(0, 10, 60 * MS);
        lag.leader(0, 30, 110 * MS);
        assert_eq!(lag.follower(0, 9, 120 * MS), 110 * MS);
        assert_eq!(lag.follower(0, 10, 130 * MS), 20 * MS);
        // A part of what was seen at once is not there.
        assert_eq!(lag.follower(0, 29, 140 * MS), 30 * MS);
        // It may be ahead of what was last seen of the leader.
        assert_eq!(lag.follower(0, 31, 150 * MS), Duration::ZERO);
        assert_eq!(lag.follower(1, 0, 150 * MS), Duration::ZERO);
    }

    #[test]
    fn numbers_are_read_of_every_partition() {
        let shards = json!({
            "0": [{ "seq_no": { "max_seq_no": 7 } }], "1": [{ "seq_no": { "max_seq_no": -1 } }],
        });
        let answer = json!({ "indices": { "t": { "shards": shards } } });
        assert_eq!(leader_numbers(&answer, "t"), [(0, 7), (1, -1)]);
        let answer = json!({ "indices": [{ "shards": [
            { "shard_id": 1, "follower_lsn": 6, "lag_in_millis": 12 },
            { "shard_id": 0, "follower_lsn": 0 }, {},
        ] }] });
        assert_eq!(follower_numbers(&answer), [(1, 5, Some(12)), (0, -1, None)]);
        assert!(leader_numbers(&Value::Null, "t").is_empty());
        assert!(follower_numbers(&Value::Null).is_empty());
    }
}
