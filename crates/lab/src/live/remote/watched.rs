//! What a copy looks like from outside, by `_recovery` and `_ccr/stats`: how far it is, when it was
//! done, how long its last twentieth took, and what a copy that was cut would have taken. Pure.

use serde_json::Value;

/// The share of the bytes after which the tail begins.
const TAIL_FROM: f64 = 0.95;
/// Looks are too far apart for less time left.
const LEFT_MIN_S: f64 = 2.0;

/// How far the copy of a table is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Copied {
    /// Partitions that are copied, and those that are done.
    pub(crate) shards: usize,
    pub(crate) done: usize,
    pub(crate) bytes: u64,
    pub(crate) bytes_total: u64,
    /// Those that crossed the link; 0 where that is not told.
    pub(crate) wire_bytes: u64,
    /// How long it will take, of the partition that takes longest; none where that is not told.
    pub(crate) left_ms: Option<u64>,
    /// When the last one that is done was, ms since 1970; 0 before.
    pub(crate) ended_ms: u64,
}

impl Copied {
    /// What `_recovery` says of a table. A partition whose copy has not begun has another type: it is
    /// not counted.
    pub(crate) fn read(answer: &Value, index: &str) -> Self {
        let mut found = Self::default();
        let shards = answer[index]["shards"].as_array();
        for shard in shards.into_iter().flatten().filter(|shard| shard["type"] == "SNAPSHOT") {
            let size = &shard["index"]["size"];
            found.shards += 1;
            found.bytes += size["recovered_in_bytes"].as_u64().unwrap_or(0);
            found.bytes_total += size["total_in_bytes"].as_u64().unwrap_or(0);
            found.wire_bytes += size["wire_in_bytes"].as_u64().unwrap_or(0);
            found.left_ms = found.left_ms.max(shard["index"]["time_left_in_millis"].as_u64());
            if shard["stage"] == "DONE" {
                found.done += 1;
                let ended = shard["stop_time_in_millis"].as_u64().unwrap_or(0);
                found.ended_ms = found.ended_ms.max(ended);
            }
        }
        found
    }

    /// Whether all of so many partitions are there.
    pub(crate) fn is_done(&self, shards: usize) -> bool {
        self.shards == shards && self.done == shards
    }
}

/// Whether a follower of so many partitions has all that its leader has, by `_ccr/stats`.
pub(crate) fn is_level(answer: &Value, shards: usize) -> bool {
    let all = answer["indices"][0]["shards"].as_array();
    let is_level = |shard: &&Value| {
        let count = |name: &str| shard[name].as_i64();
        count("leader_global_checkpoint").is_some()
            && count("leader_global_checkpoint") == count("follower_global_checkpoint")
    };
    all.is_some_and(|all| all.iter().filter(is_level).count() == shards)
}

/// Whether a follower has all that its leader has, by `_plugins/_replication/INDEX/_status`.
pub(crate) fn is_synced(answer: &Value) -> bool {
    let of = |name: &str| answer["syncing_details"][name].as_i64();
    let (leader, own) = (of("leader_checkpoint"), of("follower_checkpoint"));
    answer["status"] == "SYNCING" && leader.is_some() && leader == own
}

/// The time from 95 % of the bytes to the end, of what was seen at what time, s. Between two looks the
/// bytes are taken to have come evenly.
pub(crate) fn tail_seconds(seen: &[(f64, u64)], total: u64, end_s: f64) -> Option<f64> {
    let from = total as f64 * TAIL_FROM;
    let mut before = (0.0, 0.0);
    for (at_s, bytes) in seen {
        let now = (*at_s, *bytes as f64);
        if total > 0 && now.1 >= from {
            let part = (from - before.1) / (now.1 - before.1).max(1.0);
            let began_s = before.0 + (now.0 - before.0) * part.clamp(0.0, 1.0);
            return Some((end_s - began_s).max(0.0));
        }
        before = now;
    }
    None
}

/// By how much what was told of the time left was off, where so much was told at that time and all was
/// there at the end, %; none where too little was left to tell.
pub(crate) fn off_percent(at_s: f64, told_s: f64, end_s: f64) -> Option<f64> {
    let left_s = end_s - at_s;
    (left_s >= LEFT_MIN_S).then(|| (told_s / left_s - 1.0) * 100.0)
}

/// What the whole would have taken where so much of it was there when it was cut; none where nothing
/// was.
pub(crate) fn extrapolated(cut_s: f64, bytes: u64, total: u64) -> Option<f64> {
    (bytes > 0 && bytes <= total).then(|| cut_s * total as f64 / bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_copy_is_the_sum_of_its_partitions() {
        let shard = |kind: &str, stage: &str, bytes: u64| {
            json!({
                "type": kind, "stage": stage, "stop_time_in_millis": 1_000 + bytes,
                "index": { "time_left_in_millis": 100 - bytes, "size": { "total_in_bytes": 100, "recovered_in_bytes": bytes, "wire_in_bytes": bytes / 2 } },
            })
        };
        let shards = [shard("SNAPSHOT", "DONE", 100), shard("SNAPSHOT", "INDEX", 40)];
        let found = Copied::read(&json!({ "t": { "shards": shards } }), "t");
        let (bytes, bytes_total, wire_bytes) = (140, 200, 70);
        let (left_ms, ended_ms) = (Some(60), 1_100);
        let expected =
            Copied { shards: 2, done: 1, bytes, bytes_total, wire_bytes, left_ms, ended_ms };
        assert_eq!(found, expected);
        assert!(!found.is_done(2));
        // The third has not begun.
        let shards = [shard("SNAPSHOT", "DONE", 100), shard("PEER", "INIT", 0)];
        let found = Copied::read(&json!({ "t": { "shards": shards } }), "t");
        assert!(!found.is_done(2) && found.is_done(1));
        assert_eq!(Copied::read(&Value::Null, "t"), Copied::default());
    }

    #[test]
    fn level_is_every_partition() {
        let shard = |leader: i64, follower: i64| json!({ "leader_global_checkpoint": leader, "follower_global_checkpoint": follower });
        let of = |shards: Value| json!({ "indices": [{ "shards": shards }] });
        assert!(is_level(&of(json!([shard(5, 5), shard(-1, -1)])), 2));
        assert!(!is_level(&of(json!([shard(5, 5), shard(6, 5)])), 2));
        assert!(!is_level(&of(json!([shard(5, 5)])), 2));
        assert!(!is_level(&of(json!([{}])), 1) && !is_level(&Value::Null, 1));
    }

    #[test]
    fn synced_is_all_of_the_leaders() {
        let of = |status: &str, leader: i64, own: i64| {
            let details = json!({ "leader_checkpoint": leader, "follower_checkpoint": own });
            is_synced(&json!({ "status": status, "syncing_details": details }))
        };
        assert!(of("SYNCING", 7, 7) && !of("SYNCING", 8, 7) && !of("PAUSED", 7, 7));
        assert!(!is_synced(&json!({ "status": "SYNCING" })));
        assert!(!is_synced(&json!({ "status": "BOOTSTRAPPING" })));
    }

    #[test]
    fn the_tail_begins_at_95_percent() {
        let seen = [(1.0, 0), (2.0, 90), (3.0, 100)];
        assert_eq!(tail_seconds(&seen, 100, 3.5), Some(1.0));
        assert_eq!(tail_seconds(&[(2.0, 100)], 100, 2.0), Some(2.0 - 1.9));
        assert_eq!(tail_seconds(&seen[..2], 100, 3.0), None);
        assert_eq!(tail_seconds(&[(1.0, 0)], 0, 3.0), None);
    }

    #[test]
    fn what_is_told_of_the_time_left_is_compared_with_what_was_left() {
        assert_eq!(off_percent(10.0, 5.5, 15.0).map(f64::round), Some(10.0));
        assert_eq!(off_percent(10.0, 4.0, 18.0), Some(-50.0));
        assert_eq!(off_percent(10.0, 4.0, 11.0), None);
    }

    #[test]
    fn what_was_cut_goes_on_as_it_went() {
        assert_eq!(extrapolated(12.0, 30, 120), Some(48.0));
        assert_eq!(extrapolated(12.0, 0, 120), None);
    }
}
