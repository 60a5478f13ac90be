//! What is done to indices now and then: refresh, flush, merge, open, close.

use std::sync::Arc;

use plimsoll_cluster::IndexMetadata;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand, Target};
use crate::rest::stats;

fn found(call: &Call, options: Expand) -> Result<Vec<Target>, Error> {
    let options = options.with_query(&call.query)?;
    expressions::resolve(call.coordinator(), call.part("index"), &options)
}

/// How many copies of partitions did something: those that are asked for, and those that serve.
fn shards(call: &Call, found: &[Target]) -> Value {
    json!({ "_shards": stats::indices::shards(call, found) })
}

/// POST `[/{index}]/_refresh`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn refresh(call: Call) -> Result<Answer, Error> {
    let found = found(&call, Expand::search())?;
    for target in &found {
        call.coordinator().refresh(&target.index, None).await?;
    }
    Ok(Answer::json(&shards(&call, &found)))
}

/// POST `[/{index}]/_flush`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn flush(call: Call) -> Result<Answer, Error> {
    let found = found(&call, Expand::search())?;
    for target in &found {
        call.coordinator().flush(&target.index).await?;
    }
    Ok(Answer::json(&shards(&call, &found)))
}

/// POST `[/{index}]/_forcemerge`.
///
/// # Errors
/// 404 where an index is not there, 400 where the parameters contradict each other.
pub async fn force_merge(call: Call) -> Result<Answer, Error> {
    let segments = call.query.number::<i64>("max_num_segments")?.unwrap_or(-1);
    let only_deletes = call.query.flag_or("only_expunge_deletes", false)?;
    if only_deletes && segments > 0 {
        return Err(Error::new(
            400,
            "action_request_validation_exception",
            "Validation Failed: 1: cannot set only_expunge_deletes and max_num_segments at the \
             same time, those two parameters are mutually exclusive;",
        ));
    }
    let waits = call.query.flag_or("wait_for_completion", true)?;
    if !waits {
        return Err(Error::illegal_argument(
            "[wait_for_completion=false] is not supported: the answer comes when all is done",
        ));
    }
    let segments = usize::try_from(segments).ok().filter(|segments| *segments > 0);
    let found = found(&call, Expand::search())?;
    for target in &found {
        call.coordinator().force_merge(&target.index, segments).await?;
        if call.query.flag_or("flush", true)? {
            call.coordinator().flush(&target.index).await?;
        }
    }
    Ok(Answer::json(&shards(&call, &found)))
}

/// POST `[/{index}]/_cache/clear`. There is one cache of answers for all indices, so it is
/// emptied whole.
///
/// # Errors
/// 404 where an index is not there.
pub async fn clear_cache(call: Call) -> Result<Answer, Error> {
    let found = found(&call, Expand::search())?;
    let others = ["fielddata", "query", "file"];
    if call.query.flag_or("request", false)?
        || !others.iter().any(|one| call.query.get(one).is_some())
    {
        call.coordinator().clear_request_cache();
    }
    Ok(Answer::json(&shards(&call, &found)))
}

/// POST `/{index}/_open`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn open(call: Call) -> Result<Answer, Error> {
    let options = Expand { open: false, allow_no_indices: false, ..Expand::any() };
    changed(&call, options, true).await?;
    Ok(Answer::json(&json!({ "acknowledged": true, "shards_acknowledged": true })))
}

/// POST `/{index}/_close`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn close(call: Call) -> Result<Answer, Error> {
    let options = Expand { allow_no_indices: false, ..Expand::open() };
    let closed = changed(&call, options, false).await?;
    let closed: Map<String, Value> =
        closed.into_iter().map(|index| (index.name.clone(), json!({ "closed": true }))).collect();
    Ok(Answer::json(&json!({
        "acknowledged": true,
        "shards_acknowledged": true,
        "indices": closed,
    })))
}

async fn changed(
    call: &Call,
    options: Expand,
    is_open: bool,
) -> Result<Vec<Arc<IndexMetadata>>, Error> {
    let mut changed = Vec::new();
    for target in found(call, options)? {
        if target.index.is_open != is_open {
            call.coordinator().open_index(&target.index.name, is_open).await?;
        }
        changed.push(target.index);
    }
    Ok(changed)
}
