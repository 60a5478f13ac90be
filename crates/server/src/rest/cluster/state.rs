//! `_cluster/state`: what the cluster is made of, as far as clients look into it.

use plimsoll_cluster::IndexMetadata;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use crate::rest::Rest;
use crate::rest::admin::settings;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand, Target};

/// The parts of a state.
const PARTS: [&str; 9] = [
    "version",
    "master_node",
    "cluster_manager_node",
    "blocks",
    "nodes",
    "metadata",
    "routing_table",
    "routing_nodes",
    "customs",
];

/// GET `/_cluster/state[/{metric}[/{index}]]`.
///
/// # Errors
/// 400 for a part that there is none of, 404 where an index is not there.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let wanted: Option<Vec<&str>> = match call.part("metric") {
        None | Some("_all" | "*") => None,
        Some(list) => Some(list.split(',').map(str::trim).collect()),
    };
    let is_part = |name: &&&str| PARTS.contains(*name) || **name == "_all";
    if let Some(unknown) = wanted.iter().flatten().find(|name| !is_part(name)) {
        return Err(Error::illegal_argument(format!(
            "request [{}] contains unrecognized metric: [{unknown}]",
            call.path
        )));
    }
    let has = |part: &str| {
        wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|it| *it == part || *it == "_all"))
    };
    let options = Expand { hidden: true, ..Expand::any() }.with_query(&call.query)?;
    let found = expressions::resolve(call.coordinator(), call.part("index"), &options)?;
    let rest = &call.rest;
    let node_id = &rest.identity.node_id;
    let mut state = json!({
        "cluster_name": rest.node.settings.cluster_name,
        "cluster_uuid": rest.identity.cluster_uuid,
    });
    if has("version") {
        let version: u64 = 1 + found.iter().map(|target| target.index.mapping_version).sum::<u64>();
        state["version"] = json!(version);
        state["state_uuid"] = json!(rest.identity.cluster_uuid);
    }
    if has("master_node") {
        state["master_node"] = json!(node_id);
    }
    if has("cluster_manager_node") {
        state["cluster_manager_node"] = json!(node_id);
    }
    if has("blocks") {
        state["blocks"] = blocks(&found);
    }
    if has("nodes") {
        let mut nodes = Map::new();
        nodes.insert(node_id.clone(), crate::rest::nodes::brief(rest));
        state["nodes"] = Value::Object(nodes);
    }
    if has("metadata") {
        state["metadata"] = metadata(&call, &found)?;
    }
    if has("routing_table") {
        let indices: Map<String, Value> = found
            .iter()
            .map(|target| {
                let shards = shards(rest, &target.index).into_iter().enumerate();
                let shards: Map<String, Value> =
                    shards.map(|(at, copies)| (at.to_string(), json!(copies))).collect();
                (target.index.name.clone(), json!({ "shards": shards }))
            })
            .collect();
        state["routing_table"] = json!({ "indices": indices });
    }
    if has("routing_nodes") {
        let copies = || found.iter().flat_map(|target| shards(rest, &target.index)).flatten();
        let is_there = |copy: &Value| copy["node"].is_string();
        let mut nodes = Map::new();
        nodes.insert(node_id.clone(), copies().filter(is_there).collect());
        let unassigned: Vec<Value> = copies().filter(|copy| !is_there(copy)).collect();
        state["routing_nodes"] = json!({ "unassigned": unassigned, "nodes": nodes });
    }
    Ok(Answer::json(&state))
}

fn blocks(found: &[Target]) -> Value {
    let closed: Map<String, Value> = found
        .iter()
        .filter(|target| !target.index.is_open)
        .map(|target| {
            let block = json!({
                "4": {
                    "description": "index closed",
                    "retryable": false,
                    "levels": ["read", "write"],
                },
            });
            (target.index.name.clone(), block)
        })
        .collect();
    if closed.is_empty() { json!({}) } else { json!({ "indices": closed }) }
}

fn metadata(call: &Call, found: &[Target]) -> Result<Value, Error> {
    let rest = &call.rest;
    let is_flat = call.query.flag_or("flat_settings", false)?;
    let indices: Map<String, Value> = found
        .iter()
        .map(|target| {
            let index = &target.index;
            let all = settings::all(index, &rest.node.settings.rest_version);
            let primary_terms: Map<String, Value> =
                (0..index.partitions).map(|ordinal| (ordinal.to_string(), json!(1))).collect();
            let entry = json!({
                "version": index.mapping_version,
                "mapping_version": index.mapping_version,
                "settings_version": 1,
                "aliases_version": 1,
                "routing_num_shards": index.partitions,
                "state": if index.is_open { "open" } else { "close" },
                "settings": settings::shown(all, is_flat),
                "mappings": { "_doc": index.mapping.to_json() },
                "aliases": index.aliases.keys().collect::<Vec<_>>(),
                "primary_terms": primary_terms,
                "system": false,
            });
            (index.name.clone(), entry)
        })
        .collect();
    let templates: Map<String, Value> =
        call.coordinator().stored_all("template").into_iter().collect();
    let node_id = &rest.identity.node_id;
    Ok(json!({
        "cluster_uuid": rest.identity.cluster_uuid,
        "cluster_uuid_committed": true,
        "cluster_coordination": {
            "term": 1,
            "last_committed_config": [node_id],
            "last_accepted_config": [node_id],
            "voting_config_exclusions": [],
        },
        "templates": templates,
        "indices": indices,
        "index-graveyard": { "tombstones": [] },
    }))
}

/// The copies of each partition: the one there is, and those that there is no node for.
fn shards(rest: &Rest, index: &IndexMetadata) -> Vec<Vec<Value>> {
    let copies = |ordinal: u32| {
        let mut copies = vec![json!({
            "state": "STARTED",
            "primary": true,
            "node": rest.identity.node_id,
            "relocating_node": null,
            "shard": ordinal,
            "index": index.name,
            "allocation_id": { "id": format!("{}-{ordinal}", index.uuid) },
        })];
        for _ in 0..index.replicas {
            copies.push(json!({
                "state": "UNASSIGNED",
                "primary": false,
                "node": null,
                "relocating_node": null,
                "shard": ordinal,
                "index": index.name,
                "recovery_source": { "type": "PEER" },
                "unassigned_info": {
                    "reason": "INDEX_CREATED",
                    "delayed": false,
                    "allocation_status": "no_attempt",
                },
            }));
        }
        copies
    };
    (0..index.partitions).map(copies).collect()
}
