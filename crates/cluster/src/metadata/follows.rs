//! What of a table's definition says that it follows a table of another cluster.

use plimsoll_log::{Incarnation, PartitionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a table follows, as its definition keeps it. Fields that only a newer version knows are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Follows {
    /// The cluster, by its name in `cluster.remote.*`.
    pub remote: String,
    /// The table there.
    pub leader: String,
    /// Tells it from another of that name.
    pub incarnation: u64,
    /// The log of that cluster.
    pub log: u64,
    /// Whether it stands still, on demand.
    pub is_paused: bool,
    /// It becomes a table of its own: nothing is taken any more, and nothing written yet.
    #[serde(default)]
    pub is_ending: bool,
    /// The numbers that Elasticsearch tunes following by, as they were given.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// Settings that are its own and not the leader's.
    #[serde(default)]
    pub settings: Map<String, Value>,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl Follows {
    /// The leader's log.
    pub(crate) fn log(&self) -> Incarnation {
        Incarnation(self.log)
    }

    /// The leader's name of a partition.
    pub(crate) fn partition(&self, ordinal: u32) -> PartitionId {
        PartitionId { table: self.incarnation, ordinal }
    }

    /// Whether the leader's records are asked for.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_paused && !self.is_ending
    }
}

/// Settings that do not travel: they say where copies lie, who may read or write, how searches are
/// bounded and how rows are kept, which is each cluster's own. As Elasticsearch has it
/// (`TransportResumeFollowAction.NON_REPLICATED_SETTINGS`).
const OWN_SETTINGS: [&str; 22] = [
    "index.auto_expand_replicas",
    "index.blocks.*",
    "index.codec",
    "index.creation_date",
    "index.default_pipeline",
    "index.final_pipeline",
    "index.gc_deletes",
    "index.hidden",
    "index.indexing.slowlog.*",
    "index.max_*",
    "index.merge.*",
    "index.number_of_replicas",
    "index.priority",
    "index.provided_name",
    "index.query.*",
    "index.refresh_interval",
    "index.routing.allocation.*",
    "index.search.*",
    "index.translog.*",
    "index.unassigned.*",
    "index.uuid",
    "index.version.*",
];

/// Whether a setting of the leader's is the follower's as well.
#[must_use]
pub fn travels(name: &str) -> bool {
    let is_own = |pattern: &str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    };
    !OWN_SETTINGS.iter().any(|pattern| is_own(pattern))
}
