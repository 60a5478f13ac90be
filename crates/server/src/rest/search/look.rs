//! What can be asked of a query beside its hits: whether it is valid, why a document matches,
//! and which partitions it would be asked of.

use plimsoll_cluster::SearchOptions;
use plimsoll_index::Error;
use plimsoll_index::search::SearchRequest;
use serde_json::{Map, Value, json};

use super::request::{self, Around};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions;
use crate::rest::nodes::{self, all};
use crate::rest::types::Types;

/// GET or POST `[/{index}]/_validate/query`.
///
/// # Errors
/// 404 where an index is not there; a query that is wrong is an answer.
pub async fn validate(mut call: Call) -> Result<Answer, Error> {
    let bytes = call.bytes().await?;
    let around = Around::of_query(call.part("index"), &call.query)?;
    let explains = call.query.flag_or("explain", false)?;
    let (targets, options) = request::placed(call.coordinator(), &call.grant, &around)?;
    let mut explanations = Vec::new();
    let mut is_valid = true;
    match query_of(&bytes, &call) {
        Err(error) => {
            is_valid = false;
            explanations.push(json!({ "valid": false, "error": error.to_string() }));
        }
        Ok(query) => {
            for index in &targets {
                let body = json!({ "query": query, "size": 0, "track_total_hits": false });
                let request = SearchRequest::parse(&body)?;
                let one = std::slice::from_ref(index);
                let options = SearchOptions { request_cache: Some(false), ..options.clone() };
                let found = call.coordinator().documents().search(one, request, options).await;
                let found = found.map_err(|error| {
                    error.root.map_or_else(|| error.reason.clone(), |root| root.reason)
                });
                is_valid &= found.is_ok();
                explanations.push(match found {
                    Ok(_) => json!({
                        "index": index.name,
                        "valid": true,
                        "explanation": query.to_string(),
                    }),
                    Err(reason) => json!({ "index": index.name, "valid": false, "error": reason }),
                });
            }
        }
    }
    let count = if targets.is_empty() { 0 } else { 1 };
    let mut answer = json!({
        "_shards": { "total": count, "successful": count, "failed": 0 },
        "valid": is_valid,
    });
    if explains {
        answer["explanations"] = json!(explanations);
    }
    Ok(Answer::json(&answer))
}

/// The query of a request, checked as far as it can be without an index.
fn query_of(bytes: &[u8], call: &Call) -> Result<Value, Error> {
    let body: Value = match bytes.trim_ascii() {
        [] => json!({}),
        bytes => crate::rest::json_read::value(bytes)?,
    };
    if let Some(other) = body.as_object().and_then(|map| map.keys().find(|key| *key != "query")) {
        return Err(Error::parsing(format!("request does not support [{other}]")));
    }
    let query = match request::text_query(&call.query)? {
        Some(text) => text,
        None => body.get("query").cloned().unwrap_or_else(|| json!({ "match_all": {} })),
    };
    SearchRequest::parse(&json!({ "query": query }))?;
    Ok(query)
}

/// GET or POST `/{index}/_explain/{id}`.
///
/// # Errors
/// 404 where the index is not there; a document that is not there is an answer of 404.
pub async fn explain(mut call: Call) -> Result<Answer, Error> {
    let bytes = call.bytes().await?;
    let expression = call.part("index").unwrap_or_default().to_owned();
    let id = call.part("id").unwrap_or_default().to_owned();
    let target =
        expressions::resolve_one(call.coordinator(), &call.grant, &expression, "index_expression")?;
    let index = target.index;
    let routing = call.query.get("routing").map(str::to_owned);
    let mut answer = json!({ "_index": index.name, "_id": id, "matched": false });
    if call.rest.types == Types::Named {
        answer["_type"] = json!("_doc");
    }
    let document =
        call.coordinator().documents().get_document(&index, &id, routing.as_deref(), true).await?;
    if document.is_none() {
        return Ok(Answer::json(&answer).with_status(404));
    }
    let query = query_of(&bytes, &call)?;
    let mut body: Map<String, Value> = request::changes(&call.query)?;
    let shows_source = body.contains_key("_source");
    body.insert("query".to_owned(), query);
    // A filter after the query leaves scores and their explanations alone.
    body.insert("post_filter".to_owned(), json!({ "ids": { "values": [id] } }));
    body.insert("explain".to_owned(), json!(true));
    body.insert("size".to_owned(), json!(1));
    let request = SearchRequest::parse(&Value::Object(body))?;
    let options =
        SearchOptions { routing: routing.into_iter().collect(), ..SearchOptions::default() };
    let outcome = call
        .coordinator()
        .documents()
        .search(std::slice::from_ref(&index), request, options)
        .await?;
    let hit = outcome.hits.first().map(|hit| json!(hit));
    if let Some(hit) = hit {
        answer["matched"] = json!(true);
        answer["explanation"] = hit["_explanation"].clone();
        if shows_source {
            answer["get"] = json!({ "found": true, "_source": hit["_source"] });
        }
    } else {
        answer["explanation"] =
            json!({ "value": 0.0, "description": "no matching term", "details": [] });
    }
    Ok(Answer::json(&answer))
}

/// GET or POST `[/{index}]/_search_shards`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn shards(call: Call) -> Result<Answer, Error> {
    let around = Around::of_query(call.part("index"), &call.query)?;
    let found = expressions::resolve(
        call.coordinator(),
        &call.grant,
        around.index.as_deref(),
        &around.expand,
    )?;
    let views = all::there(&call.rest);
    let brief = |view: &all::NodeView| (view.id.clone(), nodes::brief(&call.rest, view));
    let nodes: Map<String, Value> = views.iter().map(brief).collect();
    let mut indices = Map::new();
    let mut groups: Vec<Value> = Vec::new();
    for target in &found {
        let name = &target.index.name;
        let aliases: Map<String, Value> = if target.aliases.is_empty() {
            Map::new()
        } else {
            [("aliases".to_owned(), json!(target.aliases))].into_iter().collect()
        };
        indices.insert(name.clone(), Value::Object(aliases));
        for partition in call.coordinator().copies_of(name) {
            let serving = partition.copies.iter().enumerate().filter(|(_, it)| it.is_serving());
            let copies = serving.filter_map(|(at, copy)| {
                let view = all::find(&views, copy.node()?)?;
                Some(json!({
                    "state": "STARTED",
                    "primary": at == 0,
                    "node": view.id,
                    "relocating_node": null,
                    "shard": partition.ordinal,
                    "index": name,
                }))
            });
            groups.push(copies.collect());
        }
    }
    Ok(Answer::json(&json!({ "nodes": nodes, "indices": indices, "shards": groups })))
}
