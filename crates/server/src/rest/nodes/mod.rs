//! Nodes: what they are (`_nodes`), how they do (`_nodes/stats`), and what keeps this one's
//! processors busy (`_nodes/hot_threads`).

pub mod all;
pub mod breakers;
pub mod hot_threads;
pub mod info;
pub mod machine;
pub mod stats;

use plimsoll_cluster::{ClusterStatistics, NodeStatistics};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

pub use crate::settings::ROLES;

use super::Rest;
use super::answer::Answer;
use super::call::Call;
use super::routes::{Route, Verb, route};
use Verb::Get;
use all::NodeView;

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

/// A node as other answers name it.
#[must_use]
pub fn brief(rest: &Rest, node: &NodeView) -> Value {
    json!({
        "name": node.name(),
        "ephemeral_id": ephemeral_id(rest, node),
        "transport_address": node.transport(),
        "attributes": attributes(node),
    })
}

/// Another name at each start, as long as the lasting one.
fn ephemeral_id(rest: &Rest, node: &NodeView) -> String {
    if node.member.is_own {
        return rest.node.run_id.get(..22).unwrap_or(&rest.node.run_id).to_owned();
    }
    format!("{:x}-{}", node.member.record.started_ms, node.member.id).chars().take(22).collect()
}

/// What was said of where a node stands.
#[must_use]
pub fn attributes(node: &NodeView) -> Value {
    match node.member.record.zone.as_str() {
        "" => json!({}),
        zone => json!({ "zone": zone }),
    }
}

/// This node, with its names.
#[must_use]
pub fn own(rest: &Rest) -> Option<NodeView> {
    all::there(rest).into_iter().find(|node| node.member.is_own)
}

/// This node as lists of tasks and figures begin with it.
#[must_use]
pub fn header(rest: &Rest) -> Value {
    let own = own(rest);
    let transport = own.as_ref().map(NodeView::transport).unwrap_or_default();
    json!({
        "name": rest.node.settings.node_name,
        "transport_address": transport,
        "host": rest.address.ip().to_string(),
        "ip": transport,
        "roles": own.as_ref().map_or(&[][..], NodeView::roles),
        "attributes": own.as_ref().map_or_else(|| json!({}), attributes),
    })
}

/// An answer about the nodes that a filter means; one of which nothing is known has failed.
pub async fn answer(
    call: &Call,
    filter: Option<&str>,
    node: impl Fn(&NodeView, Option<&NodeStatistics>) -> Option<Value>,
) -> Answer {
    let found = statistics(&call.rest).await;
    let mut nodes = Map::new();
    let mut failures = Vec::new();
    for view in all::there(&call.rest).iter().filter(|view| view.is_meant(filter)) {
        match node(view, found.node(&view.member.id)) {
            Some(entry) => {
                nodes.insert(view.id.clone(), entry);
            }
            None => {
                let why = found.silent.iter().find(|(id, _)| *id == view.member.id);
                let reason = why.map_or("the node has joined just now", |(_, why)| why.as_str());
                failures.push(json!({
                    "type": "failed_node_exception",
                    "reason": format!("Failed node [{}]: {reason}", view.id),
                    "node_id": view.id,
                }));
            }
        }
    }
    let mut answer = json!({
        "_nodes": {
            "total": nodes.len() + failures.len(),
            "successful": nodes.len(),
            "failed": failures.len(),
        },
        "cluster_name": call.rest.node.settings.cluster_name,
        "nodes": nodes,
    });
    if !failures.is_empty() {
        answer["_nodes"]["failures"] = Value::Array(failures);
    }
    Answer::json(&answer)
}

/// What all nodes say of themselves; reading files for it may take a while.
pub async fn statistics(rest: &Rest) -> ClusterStatistics {
    rest.node.coordinator.cluster_statistics().await
}

async fn usage(call: Call) -> Result<Answer, Error> {
    let usage = |node: &NodeView, _: Option<&NodeStatistics>| {
        let since_ms = if node.member.is_own {
            call.rest.node.started_s * 1000
        } else {
            node.member.record.started_ms
        };
        Some(json!({
            "timestamp": since_ms,
            "since": since_ms,
            "rest_actions": {},
            "aggregations": {},
        }))
    };
    Ok(answer(&call, call.part("node"), usage).await)
}
