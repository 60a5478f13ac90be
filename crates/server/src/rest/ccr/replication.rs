//! OpenSearch's words for the same: `_plugins/_replication/{index}/_start`, `_stop`, `_pause`, `_resume`,
//! `_status`, and `_autofollow`.

use std::collections::BTreeMap;

use plimsoll_cluster::RecoveryOverview;
use plimsoll_cluster::following::{AutoFollow, FollowRequest, FollowerOverview, FollowerStatus};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::auto_follow;
use super::{across, await_serving, find, following, name};
use crate::rest::answer::Answer;
use crate::rest::call::Call;

/// How a follower stands, in OpenSearch's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Paused,
    Failed,
    Bootstrapping,
    Syncing,
}

impl Standing {
    fn word(self) -> &'static str {
        match self {
            Self::Paused => "PAUSED",
            Self::Failed => "FAILED",
            Self::Bootstrapping => "BOOTSTRAPPING",
            Self::Syncing => "SYNCING",
        }
    }
}

/// What is told of an index that follows none.
const NOT_IN_PROGRESS: &str = "REPLICATION NOT IN PROGRESS";

/// PUT `/_plugins/_replication/{index}/_start`.
///
/// # Errors
/// As `_ccr/follow`.
pub async fn start(mut call: Call) -> Result<Answer, Error> {
    let [remote, leader] = fields(&mut call, ["leader_alias", "leader_index"]).await?;
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
    let mut shown = shown(&follower, is_verbose);
    if standing(&follower) == Standing::Bootstrapping {
        let (recoveries, _) = call.coordinator().recoveries().await;
        let mut last: BTreeMap<u32, &RecoveryOverview> = BTreeMap::new();
        let of_index = recoveries.iter().filter(|it| it.table == name);
        // An earlier attempt is over.
        last.extend(of_index.map(|it| (it.ordinal, it)));
        shown["bootstrap_details"] = bootstrap_details(last.values().copied());
        if is_verbose {
            let detail = |(ordinal, it): (&u32, &&RecoveryOverview)| {
                let details = bootstrap_details(std::iter::once(*it));
                json!({ "shard_id": ordinal, "bootstrap_task_details": details })
            };
            shown["shard_replication_details"] = last.iter().map(detail).collect();
        }
    }
    Ok(Answer::json(&shown))
}

/// How far first copies are, all of them together.
fn bootstrap_details<'a>(copies: impl Iterator<Item = &'a RecoveryOverview>) -> Value {
    let (mut bytes, mut files) = ([0; 2], [0; 2]);
    let (mut start_ms, mut took_ms) = (u64::MAX, 0);
    let add = |sum: &mut [u64; 2], (total, reused, recovered): (u64, u64, u64)| {
        sum[0] += total;
        sum[1] += reused + recovered;
    };
    for copy in copies {
        add(&mut bytes, copy.bytes);
        add(&mut files, copy.files);
        start_ms = start_ms.min(copy.started_ms);
        took_ms = took_ms.max(copy.took_ms);
    }
    // Of nothing, nothing.
    let percent = |[whole, part]: [u64; 2]| part as f64 * 100.0 / whole.max(1) as f64;
    json!({
        "bytes_total": bytes[0],
        "bytes_recovered": bytes[1],
        "bytes_percent": percent(bytes),
        "files_total": files[0],
        "files_recovered": files[1],
        "files_percent": percent(files),
        // None of them has begun: there is no time to tell.
        "start_time": if start_ms == u64::MAX { 0 } else { start_ms },
        "running_time": took_ms,
    })
}

fn in_progress(follower: Option<FollowerOverview>, name: &str) -> Result<FollowerOverview, Error> {
    follower.ok_or_else(|| {
        Error::illegal_argument(format!("No replication in progress for index:{name}"))
    })
}

/// POST `/_plugins/_replication/_autofollow`: a rule of that name, or another in its place.
///
/// # Errors
/// As `_ccr/auto_follow`.
pub async fn put_rule(mut call: Call) -> Result<Answer, Error> {
    let [remote, name, pattern] = fields(&mut call, ["leader_alias", "name", "pattern"]).await?;
    let rule = AutoFollow { remote, leaders: vec![pattern], ..AutoFollow::default() };
    auto_follow::put_pattern(&call, &name, rule).await?;
    Ok(Answer::acknowledged())
}

/// DELETE `/_plugins/_replication/_autofollow`.
///
/// # Errors
/// 404 where there is no rule of that name.
pub async fn delete_rule(mut call: Call) -> Result<Answer, Error> {
    let [remote, name] = fields(&mut call, ["leader_alias", "name"]).await?;
    let following = following(&call)?;
    if following.auto_follow(&name).is_some_and(|it| it.remote != remote) {
        let reason = format!("auto-follow pattern [{name}] follows another leader than [{remote}]");
        return Err(Error::illegal_argument(reason));
    }
    following.delete_auto_follow(&name).await?;
    Ok(Answer::acknowledged())
}

/// The fields of a body that has no other.
async fn fields<const N: usize>(call: &mut Call, names: [&str; N]) -> Result<[String; N], Error> {
    let Value::Object(mut body) = call.json_required().await? else {
        return Err(Error::invalid("parse_exception", "the body is not an object"));
    };
    let mut found = [const { String::new() }; N];
    for (found, name) in found.iter_mut().zip(names) {
        *found = text(&mut body, name)?;
    }
    no_others(&body)?;
    Ok(found)
}

fn text(body: &mut Map<String, Value>, field: &str) -> Result<String, Error> {
    match body.remove(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        _ => Err(Error::illegal_argument(format!(
            "Mandatory params [{field}] are missing for request"
        ))),
    }
}

fn no_others(body: &Map<String, Value>) -> Result<(), Error> {
    if body.contains_key("use_roles") {
        let reason = "[use_roles] is not supported: the leader's key says what may be followed";
        return Err(Error::illegal_argument(reason));
    }
    match body.keys().next() {
        Some(unknown) => Err(Error::illegal_argument(format!("Unknown field [{unknown}]"))),
        None => Ok(()),
    }
}

/// Why a follower goes no further, for good.
fn fatal(follower: &FollowerOverview) -> Option<String> {
    follower.partitions.iter().find_map(|it| {
        it.trouble.as_ref().filter(|(_, is_fatal)| *is_fatal).map(|(why, _)| why.clone())
    })
}

/// How a follower stands.
pub fn standing(follower: &FollowerOverview) -> Standing {
    match (follower.status, fatal(follower)) {
        (FollowerStatus::Paused, _) => Standing::Paused,
        (_, Some(_)) => Standing::Failed,
        (FollowerStatus::Bootstrapping, _) => Standing::Bootstrapping,
        (FollowerStatus::Active | FollowerStatus::Ending, _) => Standing::Syncing,
    }
}

fn shown(follower: &FollowerOverview, is_verbose: bool) -> Value {
    let (status, fatal) = (standing(follower), fatal(follower));
    let reason = match follower.status {
        FollowerStatus::Paused => "User initiated".to_owned(),
        _ => fatal.unwrap_or_else(|| "User initiated".to_owned()),
    };
    let mut shown = json!({
        "status": status.word(),
        "reason": reason,
        "leader_alias": follower.remote,
        "leader_index": follower.leader,
        "follower_index": follower.name,
    });
    if status == Standing::Syncing {
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
