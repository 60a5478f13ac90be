//! The arms of `kv-throughput`: who says how fast files are rewritten, and how they are synced. What is asked of
//! them is not decided here.
//!
//! Files are synced piece by piece (`compaction.bytes_per_sync`) in all arms but `off`: RocksDB does so by itself
//! where it has a limiter. `smooth` has that alone, and so tells its part of a limiter's effect.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::live::context::Arm;

/// Without any limit; a file is synced once, when it is whole.
pub(super) const OFF: &str = "off";
/// Without any limit, synced piece by piece.
pub(super) const SMOOTH: &str = "smooth";
/// RocksDB's limiter at a fixed rate.
pub(super) const LIMITER: &str = "limiter";
/// The same with a rate that it finds by itself.
pub(super) const AUTO: &str = "auto";
/// The node's own.
pub(super) const OURS: &str = "ours";

pub(super) const NAMES: [&str; 5] = [OFF, SMOOTH, LIMITER, AUTO, OURS];

/// The limit of the study's limiter, of what a node took in (500 MB/s of 27.7: `kv-study.md`, 2).
const LIMIT_OF_INGEST: f64 = 19.0;

/// `--set` of an arm where so many bytes a second come in.
pub(super) fn started_with(name: &str, ingest_bytes_s: f64) -> Vec<String> {
    let limit = plimsoll_control::average::whole(LIMIT_OF_INGEST * ingest_bytes_s).max(1);
    let limit = format!("compaction.rate_limiter.max_bytes_per_sec={limit}b");
    match name {
        OFF => vec!["compaction.bytes_per_sync=0b".to_owned()],
        LIMITER => vec![limit],
        AUTO => vec![limit, "compaction.rate_limiter.auto_tuned=true".to_owned()],
        _ => Vec::new(),
    }
}

/// Settings of an arm that are made while it runs.
fn switched(name: &str) -> BTreeMap<String, Value> {
    let pacing = if name == OURS { "load_aware" } else { "off" };
    BTreeMap::from([("compaction.pacing".to_owned(), json!(pacing))])
}

/// Arms of these names; the first is the one that others are compared with.
pub(super) fn arms(names: &[&str]) -> Vec<Arm> {
    let arm = |name: &&str| Arm { name: (*name).to_owned(), settings: switched(name) };
    names.iter().map(arm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_arm_alone_syncs_whole_files_and_one_alone_is_paced_by_the_node() {
        let started = |name| started_with(name, 1_000_000.0);
        assert_eq!(started(OFF), ["compaction.bytes_per_sync=0b"]);
        // The default of both settings.
        assert!(started(SMOOTH).is_empty() && started(OURS).is_empty());
        let limit = "compaction.rate_limiter.max_bytes_per_sec=19000000b";
        assert_eq!(started(LIMITER), [limit]);
        assert_eq!(started(AUTO), [limit, "compaction.rate_limiter.auto_tuned=true"]);
        let paced: Vec<_> = arms(&NAMES)
            .into_iter()
            .filter(|arm| arm.settings["compaction.pacing"] != json!("off"))
            .map(|arm| arm.name)
            .collect();
        assert_eq!(paced, [OURS]);
    }
}
