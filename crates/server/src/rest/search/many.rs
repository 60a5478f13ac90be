//! Many searches in one request: lines that take turns, where to search and what.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use plimsoll_index::Error;
use serde_json::{Map, Value};

use super::one::carry_out;
use super::request::{self, Around, preference};
use crate::rest::answer::{Answer, Content};
use crate::rest::call::Call;
use crate::rest::json_read;
use crate::rest::shared::{Rest, as_known};
use crate::security::principal::Grant;

/// Searches of one request that run at a time, by default and at most.
const CONCURRENT_MAX: usize = 32;
/// Searches that one request may have.
const SEARCHES_MAX: usize = 10_000;

/// GET or POST `[/{index}]/_msearch`. Each search has a status of its own.
///
/// # Errors
/// 400 where the lines cannot be told apart.
pub async fn search(mut call: Call) -> Result<Answer, Error> {
    let began = std::time::Instant::now();
    let body = call.bytes().await?;
    let around = Around::of_query(call.part("index"), &call.query)?;
    let at_once = call.query.number::<usize>("max_concurrent_searches")?.unwrap_or(CONCURRENT_MAX);
    if at_once == 0 {
        return Err(Error::illegal_argument("maxConcurrentSearchRequests must be positive"));
    }
    let searches = split(&body, &around)?;
    let rest = Arc::clone(&call.rest);
    let answers: Vec<Bytes> = stream::iter(searches)
        .map(|(around, body)| {
            let (rest, grant) = (Arc::clone(&rest), call.grant.clone());
            async move { one(&rest, &grant, &around, &body).await }
        })
        .buffered(at_once.min(CONCURRENT_MAX))
        .collect()
        .await;
    let took_ms = began.elapsed().as_millis();
    let mut json = format!("{{\"took\":{took_ms},\"responses\":[").into_bytes();
    for (at, answer) in answers.iter().enumerate() {
        if at > 0 {
            json.push(b',');
        }
        json.extend_from_slice(answer);
    }
    json.extend_from_slice(b"]}");
    Ok(Answer::raw(json))
}

async fn one(rest: &Rest, grant: &Grant, around: &Around, body: &[u8]) -> Bytes {
    let answer = match request::asked(&rest.node.coordinator, grant, body, Map::new(), around) {
        Ok(asked) => carry_out(rest, asked, Some(200)).await,
        Err(error) => Err(error),
    };
    let answer = answer.unwrap_or_else(|error| Answer::error(&as_known(rest, error), false));
    match answer.content {
        Content::Json(json) => json,
        Content::Text(_) | Content::Empty => Bytes::from_static(b"{}"),
    }
}

/// The searches of a body.
fn split(body: &Bytes, around: &Around) -> Result<Vec<(Around, Bytes)>, Error> {
    if body.trim_ascii().is_empty() {
        let reason = "Validation Failed: 1: no requests added;";
        return Err(Error::invalid("action_request_validation_exception", reason));
    }
    if !body.ends_with(b"\n") {
        return Err(Error::illegal_argument(
            "The msearch request must be terminated by a newline [\\n]",
        ));
    }
    let mut searches = Vec::new();
    let mut at = 0;
    while let Some(header) = line(body, &mut at) {
        // An empty line may stand before the first header, and for a header that says nothing.
        if header.trim_ascii().is_empty() && searches.is_empty() && at < body.len() {
            let next = line(body, &mut at.clone()).unwrap_or_default();
            if json_read::value(&next).is_ok_and(|value| value.get("index").is_some()) {
                continue;
            }
        }
        let Some(search) = line(body, &mut at) else { break };
        if searches.len() >= SEARCHES_MAX {
            let reason = format!("more than {SEARCHES_MAX} searches in one request");
            return Err(Error::illegal_argument(reason));
        }
        searches.push((headed(&header, around)?, search));
    }
    Ok(searches)
}

fn line(body: &Bytes, at: &mut usize) -> Option<Bytes> {
    let rest = body.get(*at..).filter(|rest| !rest.is_empty())?;
    let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    let line = body.slice(*at..*at + end);
    *at += end + 1;
    Some(line)
}

/// What the header of a search changes of what the whole request says.
fn headed(header: &[u8], around: &Around) -> Result<Around, Error> {
    let mut around = around.clone();
    if header.trim_ascii().is_empty() {
        return Ok(around);
    }
    let header: Map<String, Value> = json_read::object(header)?;
    for (key, value) in &header {
        let flag = || match value {
            Value::Bool(flag) => Ok(*flag),
            Value::String(text) if text == "true" => Ok(true),
            Value::String(text) if text == "false" => Ok(false),
            other => Err(Error::illegal_argument(format!(
                "Failed to parse value [{other}] as only [true] or [false] are allowed."
            ))),
        };
        match key.as_str() {
            "index" | "indices" => {
                around.index = Some(texts(value).join(",")).filter(|text| !text.is_empty());
            }
            "routing" => {
                let texts = texts(value);
                let parts = texts.iter().flat_map(|text| text.split(','));
                around.routing = parts.map(str::to_owned).collect();
            }
            "preference" => around.preference = preference(value.as_str())?,
            "search_type" => around.search_type = value.as_str().map(str::to_owned),
            "request_cache" => around.request_cache = Some(flag()?),
            "allow_partial_search_results" => around.allow_partial = flag()?,
            "ignore_unavailable" => around.expand.ignore_unavailable = flag()?,
            "allow_no_indices" => around.expand.allow_no_indices = flag()?,
            "expand_wildcards" => {
                let wanted = texts(value).join(",");
                let query = format!("expand_wildcards={wanted}");
                let query = crate::rest::query::Query::parse(&query)?;
                around.expand = around.expand.with_query(&query)?;
            }
            // How the work is spread over nodes, and a type that there is none of any more.
            "ignore_throttled"
            | "ccs_minimize_roundtrips"
            | "max_concurrent_shard_requests"
            | "cancel_after_time_interval"
            | "type"
            | "types" => (),
            other => {
                return Err(Error::illegal_argument(format!(
                    "key [{other}] is not supported in the metadata section"
                )));
            }
        }
    }
    Ok(around)
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Value::Null => Vec::new(),
        other => vec![other.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::query::Query;
    use serde_json::json;

    fn names(searches: &[(Around, Bytes)]) -> Value {
        let shown = |(around, body): &(Around, Bytes)| {
            let index = around.index.clone().unwrap_or_default();
            (index, String::from_utf8_lossy(body).into_owned())
        };
        json!(searches.iter().map(shown).collect::<Vec<_>>())
    }

    fn shown(body: &'static str) -> Result<Value, String> {
        let around = Around::of_query(Some("all"), &Query::default()).unwrap();
        let body = Bytes::from_static(body.as_bytes());
        split(&body, &around).map(|found| names(&found)).map_err(|error| error.reason)
    }

    #[test]
    fn lines_take_turns() {
        assert_eq!(
            shown("{\"index\":\"g\"}\n{\"size\":0}\n{}\n{}\n\n{\"a\":1}\n").unwrap(),
            json!([["g", "{\"size\":0}"], ["all", "{}"], ["all", "{\"a\":1}"]])
        );
        assert_eq!(shown("{\"index\":[\"a\",\"b\"]}\n{}\n").unwrap(), json!([["a,b", "{}"]]));
        assert!(shown("{}\n{}").unwrap_err().contains("terminated by a newline"));
        assert!(shown("\n").unwrap_err().contains("no requests added"));
        assert!(shown("{\"bogus\":1}\n{}\n").unwrap_err().contains("[bogus]"));
    }
}
