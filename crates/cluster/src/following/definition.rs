//! What becomes of the leader's settings, mapping and aliases in the definition of the table that follows.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::remote::LeaderDocuments;
use crate::metadata::follows::travels;
use crate::metadata::table::DocumentsDefinition;

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
