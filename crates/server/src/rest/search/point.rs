//! Points in time, in OpenSearch's spelling (`_search/point_in_time`) and in Elasticsearch's
//! (`_pit`).

use plimsoll_cluster::{ContextId, IndexMetadata};
use plimsoll_index::Error;
use serde_json::{Value, json};

use super::request::{self, Around};
use crate::node::unix_ms;
use crate::rest::answer::Answer;
use crate::rest::call::Call;

/// POST `/{index}/_search/point_in_time`.
///
/// # Errors
/// 400 without `keep_alive`, 404 where an index is not there.
pub async fn open(call: Call) -> Result<Answer, Error> {
    let (id, shards) = opened(&call).await?;
    let created_ms = unix_ms();
    Ok(Answer::json(&json!({
        "pit_id": id.to_string(),
        "_shards": shards,
        "creation_time": created_ms,
    })))
}

/// POST `/{index}/_pit`.
///
/// # Errors
/// As [`open`].
pub async fn open_pit(call: Call) -> Result<Answer, Error> {
    let (id, shards) = opened(&call).await?;
    Ok(Answer::json(&json!({ "id": id.to_string(), "_shards": shards })))
}

async fn opened(call: &Call) -> Result<(ContextId, Value), Error> {
    let Some(keep_alive) = call.query.duration("keep_alive")? else {
        let reason = "Validation Failed: 1: keep alive not specified;";
        return Err(Error::invalid("action_request_validation_exception", reason));
    };
    let around = Around::of_query(call.part("index"), &call.query)?;
    if !around.routing.is_empty() {
        return Err(Error::illegal_argument("[routing] of a point in time is not supported"));
    }
    let (targets, options) = request::placed(call.coordinator(), &call.grant, &around)?;
    if !options.filters.is_empty() {
        return Err(Error::illegal_argument(
            "a point in time over an alias with a filter is not supported",
        ));
    }
    let id = call
        .coordinator()
        .documents()
        .open_context(&targets, keep_alive, &call.principal.owner())
        .await?;
    let count: u32 =
        targets.iter().map(|index: &std::sync::Arc<IndexMetadata>| index.partitions).sum();
    let shards = json!({ "total": count, "successful": count, "skipped": 0, "failed": 0 });
    Ok((id, shards))
}

/// GET `/_search/point_in_time/_all`.
///
/// # Errors
/// None of its own.
pub async fn list(call: Call) -> Result<Answer, Error> {
    let held = call.coordinator().documents().contexts(false);
    let points: Vec<Value> = held
        .into_iter()
        .map(|(id, created_ms, keep_alive)| {
            let keep_alive_ms = u64::try_from(keep_alive.as_millis()).unwrap_or(u64::MAX);
            json!({
                "pit_id": id.to_string(),
                "creation_time": created_ms,
                "keep_alive": keep_alive_ms,
            })
        })
        .collect();
    Ok(Answer::json(&json!({ "pits": points })))
}

/// DELETE `/_search/point_in_time`.
///
/// # Errors
/// 400 where an id is none.
pub async fn close(mut call: Call) -> Result<Answer, Error> {
    let body = call.json_required().await?;
    let ids: Vec<&str> = match body.get("pit_id") {
        Some(Value::String(id)) => vec![id],
        Some(Value::Array(ids)) => ids.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if ids.is_empty() {
        let reason = "Validation Failed: 1: no pit ids specified;";
        return Err(Error::invalid("action_request_validation_exception", reason));
    }
    let mut closed = Vec::with_capacity(ids.len());
    for id in ids {
        // One that is gone already is closed as well.
        let _ = call.coordinator().documents().close_context(&parse(&call, id)?);
        closed.push(json!({ "successful": true, "pit_id": id }));
    }
    Ok(Answer::json(&json!({ "pits": closed })))
}

/// DELETE `/_search/point_in_time/_all`.
///
/// # Errors
/// None of its own.
pub async fn close_all(call: Call) -> Result<Answer, Error> {
    let mut closed = Vec::new();
    for (id, ..) in call.coordinator().documents().contexts(false) {
        let successful = call.coordinator().documents().close_context(&id);
        closed.push(json!({ "successful": successful, "pit_id": id.to_string() }));
    }
    Ok(Answer::json(&json!({ "pits": closed })))
}

/// DELETE `/_pit`.
///
/// # Errors
/// 400 where the id is none; 404, as an answer, where nobody held it.
pub async fn close_pit(mut call: Call) -> Result<Answer, Error> {
    let body = call.json_required().await?;
    let Some(id) = body.get("id").and_then(Value::as_str) else {
        return Err(Error::invalid("x_content_parse_exception", "Required [id]"));
    };
    let freed = call.coordinator().documents().close_context(&parse(&call, id)?);
    let answer = json!({ "succeeded": true, "num_freed": u8::from(freed) });
    Ok(Answer::json(&answer).with_status(if freed { 200 } else { 404 }))
}

fn parse(call: &Call, id: &str) -> Result<ContextId, Error> {
    ContextId::of(&call.principal.owner(), id)
        .map_err(|_| Error::illegal_argument(format!("invalid id: [{id}]")))
}
