//! Where copies of partitions are, and why. Where they should be is decided by the cluster alone.

use plimsoll_cluster::{AcceptError, CopyStatus, Missing, PartitionOverview};
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

/// The command by which an operator accepts that a shard lost what its copies lack.
const ALLOCATE_STALE: &str = "allocate_stale_primary";

/// POST `/_cluster/reroute`. Without commands there is nothing to do: what is to be made is made
/// as soon as may be. Of the commands `allocate_stale_primary` is taken; others are refused, as
/// rendezvous hashing places copies.
///
/// # Errors
/// 400 for any other command, and where there is nothing to accept.
pub async fn reroute(mut call: Call) -> Result<Answer, Error> {
    let body = call.json().await?;
    let commands = body.as_ref().and_then(|body| body.get("commands")?.as_array());
    let mut stale = Vec::new();
    for command in commands.into_iter().flatten() {
        let named = command.as_object().filter(|it| it.len() == 1).and_then(|it| it.iter().next());
        match named {
            Some((name, body)) if name == ALLOCATE_STALE => stale.push(StaleCopy::of(&call, body)?),
            Some((name, _)) => {
                let why = if call.coordinator().is_alone() {
                    "there is one node, and every shard is on it"
                } else {
                    "the cluster places shards by itself"
                };
                return Err(Error::illegal_argument(format!("[{name}] is not supported: {why}")));
            }
            None => return Err(Error::illegal_argument("a command is an object with one name")),
        }
    }
    if call.query.flag_or("dry_run", false)? {
        return Ok(Answer::acknowledged());
    }
    for StaleCopy { index, shard, node } in stale {
        let accepted = call.coordinator().accept_stale_copy(&index, shard, &node).await;
        accepted.map_err(|error| match error {
            AcceptError::Failed(why) => Error::unavailable("unavailable_shards_exception", why),
            why => Error::illegal_argument(format!("[{ALLOCATE_STALE}] {why}")),
        })?;
    }
    Ok(Answer::acknowledged())
}

/// A copy that is to serve whatever it lacks.
struct StaleCopy {
    index: String,
    shard: u32,
    /// Its node's id in the cluster.
    node: String,
}

impl StaleCopy {
    fn of(call: &Call, body: &Value) -> Result<Self, Error> {
        let missing = |name: &str| {
            Error::illegal_argument(format!("[{ALLOCATE_STALE}] is missing the [{name}] parameter"))
        };
        let text = |name: &'static str| {
            let value = body.get(name).and_then(Value::as_str);
            value.map(str::to_owned).ok_or_else(|| missing(name))
        };
        let known = ["index", "shard", "node", "accept_data_loss"];
        let mut names = body.as_object().into_iter().flat_map(|it| it.keys());
        if let Some(name) = names.find(|name| !known.contains(&name.as_str())) {
            let why = format!("[{ALLOCATE_STALE}] unknown field [{name}]");
            return Err(Error::illegal_argument(why));
        }
        let (index, named) = (text("index")?, text("node")?);
        let shard = body.get("shard").and_then(Value::as_u64).and_then(|it| u32::try_from(it).ok());
        let shard = shard.ok_or_else(|| missing("shard"))?;
        if body.get("accept_data_loss").and_then(Value::as_bool) != Some(true) {
            return Err(Error::illegal_argument(format!(
                "[{ALLOCATE_STALE}] allocating a stale copy for [{index}][{shard}] can result in \
                 data loss. Please confirm by setting the accept_data_loss parameter to true"
            )));
        }
        let views = all::there(&call.rest);
        let is = |view: &&NodeView| view.id == named || view.name() == named;
        let view = views.iter().find(is).ok_or_else(|| {
            Error::illegal_argument(format!("[{ALLOCATE_STALE}] there is no node [{named}]"))
        })?;
        Ok(Self { index, shard, node: view.member.id.clone() })
    }
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
            let target =
                expressions::resolve_one(coordinator, &call.grant, name, "index_or_alias")?;
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
