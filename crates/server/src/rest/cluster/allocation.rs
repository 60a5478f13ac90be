//! Where partitions are, and why: with one node they are on it, and it has nothing to decide.

use plimsoll_index::Error;
use serde_json::{Value, json};

use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions;

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

/// POST `/_cluster/reroute`. Without commands there is nothing to do; with one there is no node
/// to carry it out.
///
/// # Errors
/// 400 for any command.
pub async fn reroute(mut call: Call) -> Result<Answer, Error> {
    let body = call.json().await?;
    let commands = body.as_ref().and_then(|body| body.get("commands")?.as_array());
    let first = commands.and_then(|commands| commands.first()?.as_object()?.keys().next());
    if let Some(command) = first {
        return Err(Error::illegal_argument(format!(
            "[{command}] is not supported: there is one node, and every shard is on it"
        )));
    }
    Ok(Answer::acknowledged())
}

/// GET or POST `/_cluster/allocation/explain`.
///
/// # Errors
/// 400 where no copy is without a node and none is named; 404 where the index is not there.
pub async fn explain(mut call: Call) -> Result<Answer, Error> {
    let body = call.json().await?.unwrap_or_else(|| json!({}));
    let (index, ordinal, is_primary) = match body.get("index").and_then(Value::as_str) {
        Some(name) => {
            let target = expressions::resolve_one(call.coordinator(), name, "index_or_alias")?;
            let ordinal = body.get("shard").and_then(Value::as_u64).unwrap_or(0);
            let is_primary = body.get("primary").and_then(Value::as_bool).unwrap_or(true);
            (target.index, ordinal, is_primary)
        }
        None => {
            let without = call.coordinator().indices().into_iter().find(|index| index.replicas > 0);
            let Some(index) = without else {
                return Err(Error::illegal_argument(
                    "unable to find any unassigned shards to explain [ClusterAllocationExplainRequest\
                     [useAnyUnassignedShard=true,includeYesDecisions?=false]",
                ));
            };
            (index, 0, false)
        }
    };
    if ordinal >= u64::from(index.partitions) || (!is_primary && index.replicas == 0) {
        return Err(Error::illegal_argument(format!(
            "no shard [{ordinal}] of index [{}] is there or asked for",
            index.name
        )));
    }
    let mut answer = json!({
        "index": index.name,
        "shard": ordinal,
        "primary": is_primary,
        "current_state": if is_primary { "started" } else { "unassigned" },
    });
    if is_primary {
        answer["current_node"] = json!({
            "id": call.rest.identity.node_id,
            "name": call.rest.node.settings.node_name,
            "transport_address": call.rest.address.to_string(),
        });
        answer["can_rebalance_cluster"] = json!("no");
    } else {
        answer["can_allocate"] = json!("no");
        answer["allocate_explanation"] =
            json!("there is one node, and it holds the first copy of this shard already");
    }
    Ok(Answer::json(&answer))
}
