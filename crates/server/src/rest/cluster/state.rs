//! `_cluster/state`: what the cluster is made of, as far as clients look into it.

use plimsoll_cluster::{CopyStatus, IndexMetadata, Missing, PartitionOverview};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use crate::rest::admin::settings;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand, Target};
use crate::rest::nodes::{
    self,
    all::{self, NodeView},
};
use crate::rest::shared::Rest;

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
    let found =
        expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)?;
    let rest = &call.rest;
    let views = all::there(rest);
    let node_id = manager_id(rest, &views);
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
        let brief = |view: &NodeView| (view.id.clone(), nodes::brief(rest, view));
        state["nodes"] = views.iter().map(brief).collect();
    }
    if has("metadata") {
        state["metadata"] = metadata(&call, &found)?;
    }
    if has("routing_table") {
        let indices: Map<String, Value> = found
            .iter()
            .map(|target| {
                let shards = shards(rest, &target.index, &views).into_iter().enumerate();
                let shards: Map<String, Value> =
                    shards.map(|(at, copies)| (at.to_string(), json!(copies))).collect();
                (target.index.name.clone(), json!({ "shards": shards }))
            })
            .collect();
        state["routing_table"] = json!({ "indices": indices });
    }
    if has("routing_nodes") {
        let copies: Vec<Value> =
            found.iter().flat_map(|it| shards(rest, &it.index, &views)).flatten().collect();
        let on = |view: &NodeView| {
            let here = copies.iter().filter(|copy| copy["node"] == view.id.as_str());
            (view.id.clone(), here.cloned().collect())
        };
        let nodes: Map<String, Value> = views.iter().map(on).collect();
        let unassigned: Vec<&Value> = copies.iter().filter(|it| it["node"].is_null()).collect();
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
            let replicas = call.coordinator().wanted_replicas(index);
            let all = settings::all(index, replicas, &rest.node.settings.rest_version);
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
    let views = all::there(rest);
    let voters: Vec<&str> = views.iter().map(|view| view.id.as_str()).collect();
    Ok(json!({
        "cluster_uuid": rest.identity.cluster_uuid,
        "cluster_uuid_committed": true,
        "cluster_coordination": {
            "term": 1,
            "last_committed_config": voters,
            "last_accepted_config": voters,
            "voting_config_exclusions": [],
        },
        "templates": templates,
        "indices": indices,
        "index-graveyard": { "tombstones": [] },
    }))
}

/// The id of the node that acts for all.
fn manager_id(rest: &Rest, views: &[NodeView]) -> String {
    all::manager(views).map_or_else(|| rest.identity.node_id.clone(), |view| view.id.clone())
}

/// The copies of each partition, those included that there is no node for.
fn shards(rest: &Rest, index: &IndexMetadata, views: &[NodeView]) -> Vec<Vec<Value>> {
    let partitions = rest.node.coordinator.copies_of(&index.name);
    let copies = |partition: &PartitionOverview| {
        let copies = partition.copies.iter().enumerate();
        copies.map(|(at, copy)| shard(index, partition.ordinal, at, copy, views)).collect()
    };
    partitions.iter().map(copies).collect()
}

fn shard(
    index: &IndexMetadata,
    ordinal: u32,
    at: usize,
    copy: &CopyStatus,
    views: &[NodeView],
) -> Value {
    let mut shard = json!({
        "state": state_name(copy),
        "primary": at == 0,
        "node": null,
        "relocating_node": null,
        "shard": ordinal,
        "index": index.name,
    });
    match copy {
        CopyStatus::Unassigned(missing) => {
            shard["recovery_source"] = json!({ "type": "PEER" });
            shard["unassigned_info"] = unassigned_info(missing);
        }
        CopyStatus::Serving { node } | CopyStatus::Initializing { node } => {
            let id = all::find(views, node).map_or(node.as_str(), |view| view.id.as_str());
            shard["node"] = json!(id);
            let number = if at == 0 { String::new() } else { format!("-{at}") };
            let allocation = format!("{}-{ordinal}{number}", index.uuid);
            shard["allocation_id"] = json!({ "id": allocation });
            if !copy.is_serving() {
                shard["recovery_source"] = json!({ "type": "PEER" });
            }
        }
    }
    shard
}

/// Elasticsearch's word for how a copy is.
#[must_use]
pub fn state_name(copy: &CopyStatus) -> &'static str {
    match copy {
        CopyStatus::Serving { .. } => "STARTED",
        CopyStatus::Initializing { .. } => "INITIALIZING",
        CopyStatus::Unassigned(_) => "UNASSIGNED",
    }
}

/// Elasticsearch's word for why a copy is not there.
#[must_use]
pub fn reason_name(missing: &Missing) -> &'static str {
    match missing {
        Missing::NodeLeft { .. } => "NODE_LEFT",
        Missing::Stopped { .. } => "ALLOCATION_FAILED",
        Missing::TooFewNodes | Missing::ToBeMade => "INDEX_CREATED",
    }
}

/// Why a copy is not there.
#[must_use]
pub fn unassigned_info(missing: &Missing) -> Value {
    let is_delayed = matches!(missing, Missing::NodeLeft { until_ms: Some(_), .. });
    let mut info = json!({
        "reason": reason_name(missing),
        "delayed": is_delayed,
        "allocation_status": match missing {
            Missing::ToBeMade => "throttled",
            _ if is_delayed => "no_attempt",
            Missing::NodeLeft { .. } => "deciders_no",
            Missing::TooFewNodes | Missing::Stopped { .. } => "no_attempt",
        },
    });
    match missing {
        Missing::NodeLeft { node, left_ms, .. } => {
            info["at_millis"] = json!(left_ms);
            info["details"] = json!(format!("node_left [{node}]"));
        }
        Missing::Stopped { reason, .. } => info["details"] = json!(reason),
        Missing::TooFewNodes | Missing::ToBeMade => {}
    }
    info
}
