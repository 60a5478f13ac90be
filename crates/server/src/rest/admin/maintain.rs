//! What is done to indices now and then: refresh, flush, merge, open, close.

use std::sync::Arc;

use plimsoll_cluster::{CopyStatus, IndexMetadata, LeftOut, Missing, PartitionOverview};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand, Target};

fn found(call: &Call, options: Expand) -> Result<Vec<Target>, Error> {
    let options = options.with_query(&call.query)?;
    expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)
}

/// How many copies of partitions did something, and which could not.
fn shards(call: &Call, found: &[Target], left_out: &[(String, LeftOut)]) -> Answer {
    let copies = found.iter().flat_map(|target| call.coordinator().copies_of(&target.index.name));
    let partitions: Vec<PartitionOverview> = copies.collect();
    summed(&partitions, left_out)
}

/// What is done to an index.
#[derive(Clone, Copy)]
enum Work {
    Refresh,
    Flush,
    /// Merges, and flushes after it.
    Merge {
        segments_max: Option<usize>,
        flushes: bool,
    },
}

/// Does something with every index, and says which copies did not take part, with their index' name.
async fn on_each(
    call: &Call,
    found: &[Target],
    work: Work,
) -> Result<Vec<(String, LeftOut)>, Error> {
    let documents = call.coordinator().documents();
    let mut left_out = Vec::new();
    for target in found {
        let of_index = match work {
            Work::Refresh => documents.refresh(&target.index, None).await?,
            Work::Flush => documents.flush(&target.index).await?,
            Work::Merge { segments_max, flushes } => {
                let of_index = documents.force_merge(&target.index, segments_max).await?;
                if flushes {
                    documents.flush(&target.index).await?;
                }
                of_index
            }
        };
        left_out.extend(of_index.into_iter().map(|copy| (target.index.name.clone(), copy)));
    }
    Ok(left_out)
}

/// A copy that does not serve is made by itself, or comes back; that is no failure, as it is none
/// in Elasticsearch. A partition of which no copy serves has done nothing: its copies have failed.
/// Where that is so of all, so has the request.
fn summed(partitions: &[PartitionOverview], left_out: &[(String, LeftOut)]) -> Answer {
    let (mut total, mut successful, mut failed) = (0, 0, 0);
    let mut failures = Vec::new();
    for partition in partitions {
        let (copies, serving) = (partition.copies.len(), partition.serving() as usize);
        total += copies;
        successful += serving;
        if serving == 0 {
            failed += copies;
            failures.push(json!({
                "shard": partition.ordinal,
                "index": partition.table,
                "status": "SERVICE_UNAVAILABLE",
                "reason": {
                    "type": "unavailable_shards_exception",
                    "reason": format!(
                        "[{}][{}] no copy of the partition serves{}",
                        partition.table,
                        partition.ordinal,
                        why(&partition.copies)
                    ),
                },
            }));
        }
    }
    // Who serves and was not reached shows what it showed before, until it comes to it by itself.
    for (index, copy) in left_out {
        failed += 1;
        successful = successful.saturating_sub(1);
        failures.push(json!({
            "shard": copy.partition,
            "index": index,
            "node": copy.node,
            "status": "SERVICE_UNAVAILABLE",
            "reason": { "type": "no_shard_available_action_exception", "reason": copy.why },
        }));
    }
    let status = if successful == 0 && failed > 0 { 503 } else { 200 };
    let mut shards = json!({ "total": total, "successful": successful, "failed": failed });
    if !failures.is_empty() {
        shards["failures"] = Value::Array(failures);
    }
    Answer::json(&json!({ "_shards": shards })).with_status(status)
}

/// POST `[/{index}]/_refresh`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn refresh(call: Call) -> Result<Answer, Error> {
    let found = found(&call, Expand::search())?;
    let left_out = on_each(&call, &found, Work::Refresh).await?;
    Ok(shards(&call, &found, &left_out))
}

/// POST `[/{index}]/_flush`.
///
/// # Errors
/// 404 where an index is not there.
pub async fn flush(call: Call) -> Result<Answer, Error> {
    let found = found(&call, Expand::search())?;
    let left_out = on_each(&call, &found, Work::Flush).await?;
    Ok(shards(&call, &found, &left_out))
}

/// POST `[/{index}]/_forcemerge`.
///
/// # Errors
/// 404 where an index is not there, 400 where the parameters contradict each other.
pub async fn force_merge(call: Call) -> Result<Answer, Error> {
    let segments = call.query.number::<i64>("max_num_segments")?.unwrap_or(-1);
    let only_deletes = call.query.flag_or("only_expunge_deletes", false)?;
    if only_deletes && segments > 0 {
        return Err(Error::invalid(
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
    let flushes = call.query.flag_or("flush", true)?;
    let work = Work::Merge { segments_max: segments, flushes };
    let left_out = on_each(&call, &found, work).await?;
    Ok(shards(&call, &found, &left_out))
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
        call.coordinator().documents().clear_request_cache();
    }
    Ok(shards(&call, &found, &[]))
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
            call.coordinator().documents().open_index(&target.index.name, is_open).await?;
        }
        changed.push(target.index);
    }
    Ok(changed)
}

/// What is known of why copies do not serve.
fn why(copies: &[CopyStatus]) -> String {
    let reasons = copies.iter().filter_map(|copy| match copy {
        CopyStatus::Unassigned(Missing::Stopped { reason, .. }) => Some(format!(": {reason}")),
        _ => None,
    });
    reasons.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::answer::Content;

    #[test]
    fn what_did_nothing_is_said_to_have_failed() {
        let partition = |ordinal: u32, copies: Vec<CopyStatus>| PartitionOverview {
            table: "i".to_owned(),
            table_uuid: "u".to_owned(),
            is_index: true,
            ordinal,
            group: 1,
            epoch: 1,
            wanted: 2,
            is_bootstrapping: false,
            copies,
        };
        let said_with = |partitions: &[PartitionOverview], left_out: &[(String, LeftOut)]| {
            let answer = summed(partitions, left_out);
            let Content::Json(json) = answer.content else { panic!() };
            (answer.status, serde_json::from_slice::<Value>(&json).unwrap()["_shards"].clone())
        };
        let said = |partitions: &[PartitionOverview]| said_with(partitions, &[]);
        let serving = || CopyStatus::Serving { node: "a".to_owned() };
        let missing = || {
            CopyStatus::Unassigned(Missing::Stopped {
                node: "a".to_owned(),
                reason: "the disk is full".to_owned(),
            })
        };
        let whole = [partition(0, vec![serving(), missing()])];
        let expected = json!({ "total": 2, "successful": 1, "failed": 0 });
        assert_eq!(said(&whole), (200, expected));
        let half = [partition(0, vec![serving()]), partition(1, vec![missing()])];
        let (status, shards) = said(&half);
        assert_eq!((status, &shards["failed"]), (200, &json!(1)));
        assert_eq!(shards["failures"][0]["shard"], 1);
        let reason = "[i][1] no copy of the partition serves: the disk is full";
        assert_eq!(shards["failures"][0]["reason"]["reason"], reason);
        let (status, shards) = said(&[partition(0, vec![missing()])]);
        assert_eq!((status, &shards["successful"], &shards["failed"]), (503, &json!(0), &json!(1)));
        assert_eq!(said(&[]).0, 200);
        // One that serves and was not reached shows what it showed before.
        let left_out = LeftOut { partition: 0, node: "b".to_owned(), why: "late".to_owned() };
        let two = [partition(0, vec![serving(), CopyStatus::Serving { node: "b".to_owned() }])];
        let (status, shards) = said_with(&two, &[("i".to_owned(), left_out)]);
        assert_eq!((status, &shards["successful"], &shards["failed"]), (200, &json!(1), &json!(1)));
        assert_eq!((&shards["failures"][0]["node"], &shards["total"]), (&json!("b"), &json!(2)));
    }
}
