//! What of a table's definition says that it follows another, and what becomes of the leader's settings
//! on the way.

use std::collections::BTreeMap;

use plimsoll_log::{Incarnation, PartitionId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::remote::LeaderDocuments;
use crate::metadata::table::DocumentsDefinition;

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

/// What a follower has that is an index as well: the leader's, with its own settings over them.
pub(crate) fn documents_of(
    leader: &LeaderDocuments,
    own_settings: &Map<String, Value>,
    created_ms: u64,
) -> DocumentsDefinition {
    DocumentsDefinition {
        created_ms,
        settings: settings_of(leader, own_settings),
        mapping: leader.mapping.clone(),
        mapping_version: leader.mapping_version,
        aliases: aliases_of(leader),
        is_closed: false,
        unknown: Map::new(),
    }
}

/// The aliases alone: by none of them a follower is written to, as in Elasticsearch, so that an alias whose write
/// index is another one here keeps it.
pub(crate) fn aliases_of(leader: &LeaderDocuments) -> BTreeMap<String, Map<String, Value>> {
    let mut aliases = leader.aliases.clone();
    for alias in aliases.values_mut() {
        alias.insert("is_write_index".to_owned(), Value::Bool(false));
    }
    aliases
}

/// The settings alone.
pub(crate) fn settings_of(
    leader: &LeaderDocuments,
    own_settings: &Map<String, Value>,
) -> Map<String, Value> {
    let travelling = leader.settings.iter().filter(|(name, _)| travels(name));
    let mut settings: Map<String, Value> =
        travelling.map(|(name, value)| (name.clone(), value.clone())).collect();
    settings.extend(own_settings.clone());
    settings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_says_where_copies_lie_stays_at_home() {
        for name in ["index.number_of_replicas", "index.routing.allocation.include._name"] {
            assert!(!travels(name), "{name}");
        }
        for name in ["index.analysis.analyzer.a.type", "index.number_of_shards", "index.mapping.x"]
        {
            assert!(travels(name), "{name}");
        }
    }

    #[test]
    fn no_alias_writes_to_a_follower() {
        let alias = |value: Value| value.as_object().cloned().unwrap();
        let aliases = [
            ("plain".to_owned(), Map::new()),
            ("w".to_owned(), alias(json!({ "is_write_index": true, "is_hidden": true }))),
        ];
        let leader = LeaderDocuments { aliases: aliases.into(), ..LeaderDocuments::default() };
        let expected = json!({
            "plain": { "is_write_index": false }, "w": { "is_hidden": true, "is_write_index": false },
        });
        assert_eq!(json!(aliases_of(&leader)), expected);
    }

    #[test]
    fn own_settings_go_over_the_leaders() {
        let settings = |value: Value| value.as_object().cloned().unwrap();
        let leader = LeaderDocuments {
            settings: settings(json!({
                "index.number_of_replicas": "5", "index.number_of_shards": "2",
            })),
            ..LeaderDocuments::default()
        };
        let own = settings(json!({ "index.number_of_replicas": "0" }));
        let found = settings_of(&leader, &own);
        let expected = json!({ "index.number_of_replicas": "0", "index.number_of_shards": "2" });
        assert_eq!(Value::Object(found), expected);
    }
}
