//! OpenSearch's words for the same: `_plugins/_replication/{index}/_start`, `_stop`, `_pause`, `_resume`
//! and `_status`.

use plimsoll_cluster::following::{FollowRequest, FollowerOverview, FollowerStatus};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::{across, await_serving, find, following, name};
use crate::rest::answer::Answer;
use crate::rest::call::Call;

/// What is told of an index that follows none.
const NOT_IN_PROGRESS: &str = "REPLICATION NOT IN PROGRESS";

/// PUT `/_plugins/_replication/{index}/_start`.
///
/// # Errors
/// As `_ccr/follow`.
pub async fn start(mut call: Call) -> Result<Answer, Error> {
    let Value::Object(mut body) = call.json_required().await? else {
        return Err(Error::new(400, "parse_exception", "the body is not an object"));
    };
    let mut text = |field: &str| match body.remove(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        _ => Err(Error::illegal_argument(format!(
            "Mandatory params [{field}] are missing for request"
        ))),
    };
    let (remote, leader) = (text("leader_alias")?, text("leader_index")?);
    if body.contains_key("use_roles") {
        let reason = "[use_roles] is not supported: the leader's key says what may be followed";
        return Err(Error::illegal_argument(reason));
    }
    if let Some(unknown) = body.keys().next() {
        return Err(Error::illegal_argument(format!("Unknown field [{unknown}]")));
    }
    let waits = call.query.flag_or("wait_for_restore", false)?;
    let request = FollowRequest { remote, leader, ..FollowRequest::default() };
    let name = name(&call);
    following(&call)?.follow(&name, request).await?;
    if waits {
        await_serving(&call, &name, 1).await;
    }
    Ok(Answer::acknowledged())
}

/// POST `/_plugins/_replication/{index}/_stop`: a table of its own at once.
///
/// # Errors
/// 400 where the index follows none.
pub async fn stop(mut call: Call) -> Result<Answer, Error> {
    super::no_body(&mut call).await?;
    let (name, following) = (name(&call), following(&call)?);
    let follower = in_progress(find(following, &name), &name)?;
    if follower.status != FollowerStatus::Paused && follower.status != FollowerStatus::Ending {
        following.pause(&name).await?;
    }
    following.unfollow(&name).await?;
    Ok(Answer::acknowledged())
}

/// POST `/_plugins/_replication/{index}/_pause`.
///
/// # Errors
/// 400 where the index follows none, or stands still already.
pub async fn pause(mut call: Call) -> Result<Answer, Error> {
    super::no_body(&mut call).await?;
    let (name, following) = (name(&call), following(&call)?);
    in_progress(find(following, &name), &name)?;
    following.pause(&name).await?;
    Ok(Answer::acknowledged())
}

/// POST `/_plugins/_replication/{index}/_resume`.
///
/// # Errors
/// 400 where the index follows none, or follows already.
pub async fn resume(mut call: Call) -> Result<Answer, Error> {
    super::no_body(&mut call).await?;
    let (name, following) = (name(&call), following(&call)?);
    in_progress(find(following, &name), &name)?;
    following.resume(&name, Map::new()).await?;
    Ok(Answer::acknowledged())
}

/// GET `/_plugins/_replication/{index}/_status`.
///
/// # Errors
/// None of its own: an index that follows none is said to.
pub async fn status(call: Call) -> Result<Answer, Error> {
    let name = name(&call);
    let is_verbose = call.query.flag_or("verbose", false)?;
    let all = across::overview(&call).await?;
    let Some(follower) = all.into_iter().find(|it| it.name == name) else {
        return Ok(Answer::json(&json!({ "status": NOT_IN_PROGRESS })));
    };
    Ok(Answer::json(&shown(&follower, is_verbose)))
}

fn in_progress(follower: Option<FollowerOverview>, name: &str) -> Result<FollowerOverview, Error> {
    follower.ok_or_else(|| {
        Error::illegal_argument(format!("No replication in progress for index:{name}"))
    })
}

fn shown(follower: &FollowerOverview, is_verbose: bool) -> Value {
    let fatal = follower.partitions.iter().find_map(|it| {
        it.trouble.as_ref().filter(|(_, is_fatal)| *is_fatal).map(|(why, _)| why.clone())
    });
    let status = match (follower.status, &fatal) {
        (FollowerStatus::Paused, _) => "PAUSED",
        (_, Some(_)) => "FAILED",
        (FollowerStatus::Bootstrapping, _) => "BOOTSTRAPPING",
        (FollowerStatus::Active | FollowerStatus::Ending, _) => "SYNCING",
    };
    let reason = match follower.status {
        FollowerStatus::Paused => "User initiated".to_owned(),
        _ => fatal.unwrap_or_else(|| "User initiated".to_owned()),
    };
    let mut shown = json!({
        "status": status,
        "reason": reason,
        "leader_alias": follower.remote,
        "leader_index": follower.leader,
        "follower_index": follower.name,
    });
    if status == "SYNCING" {
        let sum = |of: fn(&plimsoll_cluster::following::FollowerPartition) -> u64| {
            follower.partitions.iter().map(of).sum::<u64>()
        };
        let own = sum(|it| it.sequence.unwrap_or(0));
        shown["syncing_details"] = json!({
            "leader_checkpoint": sum(|it| it.leader_sequence.max(it.sequence.unwrap_or(0))),
            "follower_checkpoint": own,
            "seq_no": own + 1,
        });
    }
    if is_verbose {
        let detail = |it: &plimsoll_cluster::following::FollowerPartition| {
            json!({
                "shard_id": it.ordinal,
                "syncing_task_details": {
                    "leader_checkpoint": it.leader_sequence,
                    "follower_checkpoint": it.sequence.unwrap_or(0),
                    "seq_no": it.sequence.unwrap_or(0) + 1,
                },
            })
        };
        shown["shard_replication_details"] =
            json!(follower.partitions.iter().map(detail).collect::<Vec<_>>());
    }
    shown
}
