//! The node: what it is (`_nodes`), how it does (`_nodes/stats`), and what keeps its processors
//! busy (`_nodes/hot_threads`). There is one node, so a filter of nodes means it or nothing.

pub mod hot_threads;
pub mod info;
pub mod machine;
pub mod stats;

use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::Rest;
use super::answer::Answer;
use super::call::Call;
use super::filter_path::wildcard_matches;
use super::routes::{Route, Verb, route};
use Verb::Get;

const INFO: &[&str] = &["flat_settings", "timeout"];
const STATS: &[&str] = &[
    "level",
    "timeout",
    "fields",
    "completion_fields",
    "fielddata_fields",
    "groups",
    "types",
    "include_segment_file_sizes",
    "include_unloaded_segments",
];
const THREADS: &[&str] =
    &["threads", "interval", "snapshots", "ignore_idle_threads", "type", "doc_type", "timeout"];

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Get], "/_nodes", &[INFO], |call| Box::pin(info::get(call))),
    route(&[Get], "/_nodes/{node}", &[INFO], |call| Box::pin(info::get(call))),
    route(&[Get], "/_nodes/{node}/{metric}", &[INFO], |call| Box::pin(info::get(call))),
    route(&[Get], "/_nodes/{node}/info/{metric}", &[INFO], |call| Box::pin(info::get(call))),
    route(&[Get], "/_nodes/stats", &[STATS], |call| Box::pin(stats::get(call))),
    route(&[Get], "/_nodes/stats/{metric}", &[STATS], |call| Box::pin(stats::get(call))),
    route(&[Get], "/_nodes/stats/{metric}/{section}", &[STATS], |call| Box::pin(stats::get(call))),
    route(&[Get], "/_nodes/{node}/stats", &[STATS], |call| Box::pin(stats::get(call))),
    route(&[Get], "/_nodes/{node}/stats/{metric}", &[STATS], |call| Box::pin(stats::get(call))),
    route(&[Get], "/_nodes/{node}/stats/{metric}/{section}", &[STATS], |call| {
        Box::pin(stats::get(call))
    }),
    route(&[Get], "/_nodes/hot_threads", &[THREADS], |call| Box::pin(hot_threads::get(call))),
    route(&[Get], "/_nodes/{node}/hot_threads", &[THREADS], |call| {
        Box::pin(hot_threads::get(call))
    }),
    route(&[Get], "/_nodes/usage", &[INFO], |call| Box::pin(usage(call))),
    route(&[Get], "/_nodes/{node}/usage", &[INFO], |call| Box::pin(usage(call))),
];

/// What the node does for the cluster.
pub const ROLES: [&str; 4] = ["data", "ingest", "master", "remote_cluster_client"];

/// The node as other answers name it.
#[must_use]
pub fn brief(rest: &Rest) -> Value {
    json!({
        "name": rest.node.settings.node_name,
        "ephemeral_id": ephemeral_id(rest),
        "transport_address": rest.address.to_string(),
        "attributes": {},
    })
}

/// Another name at each start, as long as the lasting one.
fn ephemeral_id(rest: &Rest) -> &str {
    rest.node.run_id.get(..22).unwrap_or(&rest.node.run_id)
}

/// The node as lists of tasks and figures begin with it.
#[must_use]
pub fn header(rest: &Rest) -> Value {
    json!({
        "name": rest.node.settings.node_name,
        "transport_address": rest.address.to_string(),
        "host": rest.address.ip().to_string(),
        "ip": rest.address.to_string(),
        "roles": ROLES,
        "attributes": {},
    })
}

/// Whether a filter of nodes means this one.
#[must_use]
pub fn is_meant(rest: &Rest, filter: Option<&str>) -> bool {
    let Some(filter) = filter else { return true };
    let node = &rest.node.settings.node_name;
    let ip = rest.address.ip().to_string();
    let mut is_meant = false;
    for part in filter.split(',') {
        let part = part.trim();
        if let Some((role, wanted)) = part.split_once(':') {
            let has = ROLES.contains(&role) || matches!(role, "cluster_manager" | "search");
            if has && role != "search" {
                is_meant = wanted == "true";
            }
            continue;
        }
        is_meant |= matches!(part, "_all" | "_local" | "_master" | "_cluster_manager")
            || [node.as_str(), &rest.identity.node_id, &ip]
                .iter()
                .any(|name| wildcard_matches(part, name));
    }
    is_meant
}

/// An answer about the nodes that a filter means.
#[must_use]
pub fn answer(call: &Call, filter: Option<&str>, node: impl FnOnce() -> Value) -> Answer {
    let mut nodes = Map::new();
    if is_meant(&call.rest, filter) {
        nodes.insert(call.rest.identity.node_id.clone(), node());
    }
    let count = nodes.len();
    Answer::json(&json!({
        "_nodes": { "total": count, "successful": count, "failed": 0 },
        "cluster_name": call.rest.node.settings.cluster_name,
        "nodes": nodes,
    }))
}

async fn usage(call: Call) -> Result<Answer, Error> {
    let since_ms = call.rest.node.started_s * 1000;
    Ok(answer(
        &call,
        call.part("node"),
        || json!({ "timestamp": since_ms, "since": since_ms, "rest_actions": {}, "aggregations": {} }),
    ))
}
