//! Where copies of partitions are, and why. Where they should be is decided by the cluster alone.

use plimsoll_cluster::{CopyStatus, Missing, PartitionOverview};
use plimsoll_index::Error;
use serde_json::{Value, json};

use super::state;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions;
use crate::rest::nodes::all::{self, NodeView};

/// GET `/_cluster/pending_tasks`: changes of metadata are made when they are asked for.
///
/// # Errors
/// None of its own.
pub async fn pending_tasks(_call: Call) -> Result<Answer, Error> {
    Ok(Answer::json(&json!({ "tasks": [] })))
}

/// GET `/_remote/info`: no other cluster is known.
///
/// # Errors
/// None of its own.
pub async fn remote_info(_call: Call) -> Result<Answer, Error> {
    Ok(Answer::json(&json!({})))
}

/// POST `/_cluster/reroute`. Without commands there is nothing to do: what is to be made is made
/// as soon as may be. Commands are refused: rendezvous hashing places copies.
///
/// # Errors
/// 400 for any command.
pub async fn reroute(mut call: Call) -> Result<Answer, Error> {
    let body = call.json().await?;
    let commands = body.as_ref().and_then(|body| body.get("commands")?.as_array());
    let first = commands.and_then(|commands| commands.first()?.as_object()?.keys().next());
    if let Some(command) = first {
        let why = if call.coordinator().is_alone() {
            "there is one node, and every shard is on it"
        } else {
            "the cluster places shards by itself"
        };
        return Err(Error::illegal_argument(format!("[{command}] is not supported: {why}")));
    }
    Ok(Answer::acknowledged())
}

/// GET or POST `/_cluster/allocation/explain`.
///
/// # Errors
/// 400 where no copy is without a node and none is named; 404 where the index is not there.
pub async fn explain(mut call: Call) -> Result<Answer, Error> {
    let body = call.json().await?.unwrap_or_else(|| json!({}));
    let coordinator = call.coordinator();
    let is_missing = |copy: &CopyStatus| matches!(copy, CopyStatus::Unassigned(_));
    let (partition, at) = match body.get("index").and_then(Value::as_str) {
        Some(name) => {
            let target = expressions::resolve_one(coordinator, name, "index_or_alias")?;
            let ordinal = body.get("shard").and_then(Value::as_u64).unwrap_or(0);
            let is_primary = body.get("primary").and_then(Value::as_bool).unwrap_or(true);
            let node = body.get("current_node").and_then(Value::as_str);
            let partitions = coordinator.copies_of(&target.index.name);
            let partition = partitions.into_iter().find(|it| u64::from(it.ordinal) == ordinal);
            let at = |partition: &PartitionOverview| {
                let mut copies = partition.copies.iter().enumerate();
                if is_primary {
                    return copies.next().map(|(at, _)| at);
                }
                let mut copies = copies.skip(1);
                match node {
                    Some(node) => {
                        let views = all::there(&call.rest);
                        let is = |view: &NodeView| view.id == node || view.name() == node;
                        let view = views.iter().find(|view| is(view))?;
                        copies
                            .find(|(_, copy)| copy.node() == Some(&view.member.id))
                            .map(|(at, _)| at)
                    }
                    None => {
                        let beyond: Vec<(usize, &CopyStatus)> = copies.collect();
                        let missing = beyond.iter().find(|(_, copy)| is_missing(copy));
                        missing.or(beyond.first()).map(|(at, _)| *at)
                    }
                }
            };
            let at = partition.as_ref().and_then(at);
            partition.zip(at).ok_or_else(|| {
                Error::illegal_argument(format!(
                    "no shard [{ordinal}] of index [{}] is there or asked for",
                    target.index.name
                ))
            })?
        }
        None => {
            let found = coordinator.copies_of_all().into_iter().find_map(|partition| {
                let at = partition.copies.iter().position(is_missing)?;
                partition.is_index.then_some((partition, at))
            });
            found.ok_or_else(|| {
                Error::illegal_argument(
                    "unable to find any unassigned shards to explain [ClusterAllocationExplainRequest\
                     [useAnyUnassignedShard=true,includeYesDecisions?=false]",
                )
            })?
        }
    };
    Ok(Answer::json(&explained(&call, &partition, at)))
}

fn explained(call: &Call, partition: &PartitionOverview, at: usize) -> Value {
    let views = all::there(&call.rest);
    let nodes = call.coordinator().nodes();
    let named = |id: &str| {
        let node = nodes.iter().find(|node| node.id == id);
        node.map_or_else(|| id.to_owned(), |node| node.record.name.clone())
    };
    let copy = partition.copies.get(at);
    let mut answer = json!({
        "index": partition.table,
        "shard": partition.ordinal,
        "primary": at == 0,
        "current_state": copy.map_or("unassigned", |copy| state::state_name(copy)).to_lowercase(),
    });
    match copy {
        Some(CopyStatus::Serving { node } | CopyStatus::Initializing { node }) => {
            if let Some(view) = all::find(&views, node) {
                answer["current_node"] = json!({
                    "id": view.id,
                    "name": view.name(),
                    "transport_address": view.transport(),
                });
            }
            answer["can_rebalance_cluster"] = json!("no");
        }
        Some(CopyStatus::Unassigned(missing)) => {
            let (can, why) = match missing {
                Missing::TooFewNodes if call.coordinator().is_alone() => (
                    "no",
                    "there is one node, and it holds the first copy of this shard already"
                        .to_owned(),
                ),
                Missing::TooFewNodes => {
                    let (nodes, wanted) = (views.len(), partition.wanted);
                    ("no", format!("{nodes} nodes are there, and {wanted} copies are asked for"))
                }
                Missing::NodeLeft { node, until_ms: Some(until_ms), .. } => (
                    "allocation_delayed",
                    format!("the node [{}] left, and is waited for until {until_ms}", named(node)),
                ),
                Missing::NodeLeft { node, .. } => {
                    let node = named(node);
                    ("no", format!("the node [{node}] left, and no other can take the copy yet"))
                }
                Missing::ToBeMade => {
                    ("throttled", "nodes make as many copies as they may at once".to_owned())
                }
                Missing::Stopped { node, reason } => {
                    ("no", format!("the copy on the node [{}] has stopped: {reason}", named(node)))
                }
            };
            if !call.coordinator().is_alone() {
                answer["unassigned_info"] = state::unassigned_info(missing);
            }
            answer["can_allocate"] = json!(can);
            answer["allocate_explanation"] = json!(why);
        }
        None => {}
    }
    answer
}
