//! One search, or one count.

use plimsoll_cluster::{Coordinator, SearchOutcome, apart};
use plimsoll_index::Error;
use plimsoll_index::search::SearchRequest;
use serde_json::{Map, Value, json};

use super::answer::{Found, shards};
use super::request::{self, Around, Asked};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::json_read;
use crate::rest::shared::Rest;

/// GET or POST `[/{index}]/_search`.
///
/// # Errors
/// 400 for what is not understood, 404 for an index that is not there, 429 where too much waits.
pub async fn search(mut call: Call) -> Result<Answer, Error> {
    let body = call.bytes().await?;
    let around = Around::of_query(call.part("index"), &call.query)?;
    let changes = request::changes(&call.query)?;
    let asked = request::asked(call.coordinator(), &call.grant, &body, changes, &around)?;
    carry_out(&call.rest, asked, None).await
}

/// Carries a search out; `status` is said in the answer of a `_msearch`.
///
/// # Errors
/// Where no partition could answer.
pub async fn carry_out(rest: &Rest, asked: Asked, status: Option<u16>) -> Result<Answer, Error> {
    let is_point = asked.options.context.is_some();
    let is_empty = asked.targets.is_empty() && !is_point;
    let (total_as_int, types) = (asked.total_as_int, rest.types);
    let found = rest
        .node
        .coordinator
        .documents()
        .search(&asked.targets, asked.request, asked.options)
        .await;
    let node_id = &rest.identity.node_id;
    let mut outcome = found.map_err(|error| located(error, node_id))?;
    outcome.failures.iter_mut().for_each(|failure| locate(failure, node_id));
    // What it is made of may be many times as large, and goes where it is made.
    let make = move || {
        let found = Found { outcome: &outcome, total_as_int, is_point, is_empty, types, status };
        Answer::json(&found)
    };
    Ok(apart(make).await)
}

/// The error with the node on which shards failed.
fn located(mut error: Error, node_id: &str) -> Error {
    if let Some(Value::Array(failures)) = error.extra.get_mut("failed_shards") {
        failures.iter_mut().for_each(|failure| locate(failure, node_id));
    }
    error
}

/// Says on which node a shard failed, where it was on one.
fn locate(failure: &mut Value, node_id: &str) {
    if let Some(node) = failure.get_mut("node").filter(|node| node.is_null()) {
        *node = json!(node_id);
    }
}

/// GET or POST `[/{index}]/_count`.
///
/// # Errors
/// As [`search`]; a body may have a query and nothing else.
pub async fn count(mut call: Call) -> Result<Answer, Error> {
    let body = call.bytes().await?;
    let around = Around::of_query(call.part("index"), &call.query)?;
    let outcome = counted(call.coordinator(), &body, &call, &around).await?;
    let mut answer = json!({ "count": outcome.total.map_or(0, |(total, _)| total) });
    if let Some(early) = outcome.terminated_early {
        answer["terminated_early"] = json!(early);
    }
    answer["_shards"] = shards(&outcome);
    Ok(Answer::json(&answer))
}

async fn counted(
    coordinator: &Coordinator,
    body: &[u8],
    call: &Call,
    around: &Around,
) -> Result<SearchOutcome, Error> {
    let value: Value =
        if body.trim_ascii().is_empty() { json!({}) } else { json_read::value(body)? };
    if let Some(other) = value.as_object().and_then(|map| map.keys().find(|key| *key != "query")) {
        return Err(Error::parsing(format!("request does not support [{other}]")));
    }
    let mut changes: Map<String, Value> = request::changes(&call.query)?;
    let text = std::str::from_utf8(body).unwrap_or_default();
    let mut parsed = match text.trim() {
        "" => SearchRequest::parse(&value)?,
        _ => SearchRequest::parse_text(text, &value)?,
    };
    changes.insert("track_total_hits".to_owned(), json!(true));
    changes.insert("size".to_owned(), json!(0));
    for (key, value) in changes {
        parsed = parsed.with(&key, value)?;
    }
    let (targets, mut options) = request::placed(coordinator, &call.grant, around)?;
    options.allow_partial = true;
    coordinator.documents().count(&targets, parsed, options).await
}
