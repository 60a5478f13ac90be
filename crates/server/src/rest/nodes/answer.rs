//! An answer about nodes: an entry for each that a filter means.

use plimsoll_cluster::NodeStatistics;
use serde_json::{Map, Value, json};

use super::all::{self, NodeView};
use crate::rest::answer::Answer;
use crate::rest::call::Call;

/// An answer about the nodes that a filter means; one of which nothing is known has failed.
pub async fn answer(
    call: &Call,
    filter: Option<&str>,
    node: impl Fn(&NodeView, Option<&NodeStatistics>) -> Option<Value>,
) -> Answer {
    let found = all::statistics(&call.rest).await;
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
