//! A search that goes on, page after page, over what it saw first.

use plimsoll_cluster::ContextId;
use plimsoll_index::Error;
use serde_json::{Value, json};

use super::answer::Found;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::query::duration;

/// Ids that one request may have.
const IDS_MAX: usize = 1000;

/// GET or POST `/_search/scroll`: the next page.
///
/// # Errors
/// 404 where nobody holds the scroll any more.
pub async fn next(mut call: Call) -> Result<Answer, Error> {
    let total_as_int = call.query.flag_or("rest_total_hits_as_int", false)?;
    let body = call.json().await?.unwrap_or_else(|| json!({}));
    check_keys(&body, &["scroll", "scroll_id"])?;
    let given = body.get("scroll").and_then(Value::as_str).or_else(|| call.query.get("scroll"));
    let keep_alive = given.map(|text| duration("scroll", text)).transpose()?;
    let id = match body.get("scroll_id").and_then(Value::as_str) {
        Some(id) => Some(id),
        None => call.query.get("scroll_id").or_else(|| call.part("scroll_id")),
    };
    let Some(id) = id.filter(|id| !id.is_empty()) else {
        let reason = "Validation Failed: 1: scrollId is missing;";
        return Err(Error::invalid("action_request_validation_exception", reason));
    };
    let outcome = call.coordinator().documents().scroll(&parse(&call, id)?, keep_alive).await?;
    Ok(Answer::json(&Found {
        outcome: &outcome,
        total_as_int,
        is_point: false,
        is_empty: false,
        types: call.rest.types,
        status: None,
    }))
}

/// DELETE `/_search/scroll`: lets go of scrolls.
///
/// # Errors
/// 400 where an id is none; 404, as an answer, where nobody held any of them.
pub async fn clear(mut call: Call) -> Result<Answer, Error> {
    let body = call.json().await?.unwrap_or_else(|| json!({}));
    check_keys(&body, &["scroll_id"])?;
    let mut ids: Vec<String> = match body.get("scroll_id") {
        Some(Value::String(id)) => vec![id.clone()],
        Some(Value::Array(ids)) => {
            ids.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    for text in [call.part("scroll_id"), call.query.get("scroll_id")].into_iter().flatten() {
        ids.extend(text.split(',').map(str::to_owned));
    }
    if ids.is_empty() {
        let reason = "Validation Failed: 1: no scroll ids specified;";
        return Err(Error::invalid("action_request_validation_exception", reason));
    }
    if ids.len() > IDS_MAX {
        return Err(Error::illegal_argument(format!("more than {IDS_MAX} scroll ids")));
    }
    let coordinator = call.coordinator();
    let held: Vec<ContextId> = if ids == ["_all"] {
        // Those of whoever asks.
        let owner = call.principal.owner();
        let all = coordinator.documents().contexts(true).into_iter().map(|(id, ..)| id);
        all.filter(|id| id.owner() == owner).collect()
    } else {
        ids.iter().map(|id| parse(&call, id)).collect::<Result<_, _>>()?
    };
    let freed = held.iter().filter(|id| coordinator.documents().close_context(id)).count();
    let answer = Answer::json(&json!({ "succeeded": true, "num_freed": freed }));
    Ok(if freed == 0 { answer.with_status(404) } else { answer })
}

fn parse(call: &Call, id: &str) -> Result<ContextId, Error> {
    ContextId::of(&call.principal.owner(), id)
        .map_err(|_| Error::illegal_argument("Cannot parse scroll id"))
}

fn check_keys(body: &Value, known: &[&str]) -> Result<(), Error> {
    let Some(map) = body.as_object() else {
        return Err(Error::illegal_argument("Malformed content, must start with an object"));
    };
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(other) => Err(Error::illegal_argument(format!(
            "Unknown parameter [{other}] in request body or parameter is of the wrong \
             type[VALUE_STRING] "
        ))),
    }
}
