//! Indices that follow one of another cluster: `_ccr`, in Elasticsearch's shapes, and OpenSearch's
//! `_plugins/_replication` over the same.
//!
//! | file | owns |
//! |---|---|
//! | [`across`] | what all nodes know of followers |
//! | [`auto_follow`] | patterns of indices that are followed as they come |
//! | [`parameters`] | the numbers that Elasticsearch tunes following by |
//! | [`stats`] | `_ccr/stats` |
//! | [`replication`] | OpenSearch's words |
//!
//! What following is, and does, is `plimsoll_cluster::following`'s.

pub mod across;
mod auto_follow;
mod parameters;
mod replication;
mod replication_stats;
mod stats;

use std::time::{Duration, Instant};

use plimsoll_cluster::PartitionOverview;
use plimsoll_cluster::following::{
    FollowRequest, FollowerOverview, FollowerStatus, Following, FollowingThread,
};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::admin::settings::{self, Occasion};
use super::answer::Answer;
use super::call::Call;
use super::needs::{CLUSTER_CCR, INDEX_FOLLOWING};
use super::route::{Route, Verb, route};
use crate::rest::documents::write::validation;

/// How often it is looked whether copies serve.
const WAIT_PAUSE: Duration = Duration::from_millis(50);
/// How long copies are waited for. Elasticsearch's.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(
        &[Verb::Put],
        "/{index}/_ccr/follow",
        &[&["wait_for_active_shards"]],
        INDEX_FOLLOWING,
        |call| Box::pin(follow(call)),
    ),
    route(&[Verb::Post], "/{index}/_ccr/pause_follow", &[], INDEX_FOLLOWING, |call| {
        Box::pin(pause(call))
    }),
    route(&[Verb::Post], "/{index}/_ccr/resume_follow", &[], INDEX_FOLLOWING, |call| {
        Box::pin(resume(call))
    }),
    route(&[Verb::Post], "/{index}/_ccr/unfollow", &[], INDEX_FOLLOWING, |call| {
        Box::pin(unfollow(call))
    }),
    route(&[Verb::Get], "/{index}/_ccr/info", &[], INDEX_FOLLOWING, |call| Box::pin(info(call))),
    route(&[Verb::Get], "/{index}/_ccr/stats", &[&["timeout"]], INDEX_FOLLOWING, |call| {
        Box::pin(stats::of_indices(call))
    }),
    route(&[Verb::Get], "/_ccr/stats", &[&["timeout"]], CLUSTER_CCR, |call| {
        Box::pin(stats::all(call))
    }),
    route(&[Verb::Post], "/{index}/_ccr/forget_follower", &[], INDEX_FOLLOWING, |call| {
        Box::pin(forget(call))
    }),
    route(&[Verb::Put], "/_ccr/auto_follow/{name}", &[], CLUSTER_CCR, |call| {
        Box::pin(auto_follow::put(call))
    }),
    route(&[Verb::Get], "/_ccr/auto_follow/{name}", &[], CLUSTER_CCR, |call| {
        Box::pin(auto_follow::get(call))
    }),
    route(&[Verb::Get], "/_ccr/auto_follow", &[], CLUSTER_CCR, |call| {
        Box::pin(auto_follow::get(call))
    }),
    route(&[Verb::Delete], "/_ccr/auto_follow/{name}", &[], CLUSTER_CCR, |call| {
        Box::pin(auto_follow::delete(call))
    }),
    route(&[Verb::Post], "/_ccr/auto_follow/{name}/pause", &[], CLUSTER_CCR, |call| {
        Box::pin(auto_follow::pause(call))
    }),
    route(&[Verb::Post], "/_ccr/auto_follow/{name}/resume", &[], CLUSTER_CCR, |call| {
        Box::pin(auto_follow::resume(call))
    }),
    route(
        &[Verb::Put],
        "/_plugins/_replication/{index}/_start",
        &[&["wait_for_restore"]],
        INDEX_FOLLOWING,
        |call| Box::pin(replication::start(call)),
    ),
    route(&[Verb::Post], "/_plugins/_replication/{index}/_stop", &[], INDEX_FOLLOWING, |call| {
        Box::pin(replication::stop(call))
    }),
    route(&[Verb::Post], "/_plugins/_replication/{index}/_pause", &[], INDEX_FOLLOWING, |call| {
        Box::pin(replication::pause(call))
    }),
    route(&[Verb::Post], "/_plugins/_replication/{index}/_resume", &[], INDEX_FOLLOWING, |call| {
        Box::pin(replication::resume(call))
    }),
    route(&[Verb::Post], "/_plugins/_replication/_autofollow", &[], CLUSTER_CCR, |call| {
        Box::pin(replication::put_rule(call))
    }),
    route(&[Verb::Delete], "/_plugins/_replication/_autofollow", &[], CLUSTER_CCR, |call| {
        Box::pin(replication::delete_rule(call))
    }),
    route(&[Verb::Get], "/_plugins/_replication/follower_stats", &[], CLUSTER_CCR, |call| {
        Box::pin(replication_stats::followers(call))
    }),
    route(&[Verb::Get], "/_plugins/_replication/autofollow_stats", &[], CLUSTER_CCR, |call| {
        Box::pin(replication_stats::auto_follow(call))
    }),
    route(
        &[Verb::Get],
        "/_plugins/_replication/{index}/_status",
        &[&["verbose"]],
        INDEX_FOLLOWING,
        |call| Box::pin(replication::status(call)),
    ),
];

/// What cares for followers here.
fn following(call: &Call) -> Result<&Following, Error> {
    let starting = || Error::unavailable("cluster_block_exception", "the node is being started");
    call.rest.remote.following.get().map(FollowingThread::following).ok_or_else(starting)
}

/// The follower that the path names.
fn name(call: &Call) -> String {
    call.part("index").unwrap_or_default().to_owned()
}

/// PUT `/{index}/_ccr/follow`.
///
/// # Errors
/// 400 where the body is not right, the leader is not there or the name is taken; 404 where no such
/// cluster is set; 503 where it is not reached.
async fn follow(mut call: Call) -> Result<Answer, Error> {
    let body = call.json_required().await?;
    let waits_for = waits_for(&call)?;
    let request = request_of(body)?;
    let name = name(&call);
    following(&call)?.follow(&name, request).await?;
    let is_acked = match waits_for {
        0 => false,
        copies => await_serving(&call, &name, copies).await,
    };
    let is_active = |it: FollowerOverview| it.status == FollowerStatus::Active;
    let is_started = is_acked && find(following(&call)?, &name).is_some_and(is_active);
    Ok(Answer::json(&json!({
        "follow_index_created": true,
        "follow_index_shards_acked": is_acked,
        "index_following_started": is_started,
    })))
}

/// How many copies of each partition have to serve before it is answered; none by default.
fn waits_for(call: &Call) -> Result<u32, Error> {
    match call.query.get("wait_for_active_shards") {
        None => Ok(0),
        Some("all") => Ok(u32::MAX),
        Some(text) => text.parse().map_err(|_| {
            let reason = format!("cannot parse ActiveShardCount[{text}]");
            Error::illegal_argument(reason)
        }),
    }
}

/// Waits until so many copies of each partition serve, or as many as are wanted where those are fewer.
async fn await_serving(call: &Call, name: &str, copies: u32) -> bool {
    let end = Instant::now() + WAIT_MAX;
    while Instant::now() < end {
        let partitions = call.coordinator().copies_of(name);
        let serves = |it: &PartitionOverview| it.serving() >= copies.min(it.wanted);
        if !partitions.is_empty() && partitions.iter().all(serves) {
            return true;
        }
        tokio::time::sleep(WAIT_PAUSE).await;
    }
    false
}

fn find(following: &Following, name: &str) -> Option<FollowerOverview> {
    following.overview().into_iter().find(|it| it.name == name)
}

fn request_of(body: Value) -> Result<FollowRequest, Error> {
    let Value::Object(mut body) = body else {
        return Err(Error::invalid("parse_exception", "the body is not an object"));
    };
    let mut text = |field: &str| match body.remove(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(Error::invalid(
            "x_content_parse_exception",
            format!("[put_follow_request] failed to parse field [{field}]"),
        )),
    };
    let (remote, leader) = (text("remote_cluster")?, text("leader_index")?);
    if text("data_stream_name")?.is_some() {
        return Err(Error::illegal_argument("[data_stream_name] is not supported: there are none"));
    }
    let mut faults = Vec::new();
    if remote.is_none() {
        faults.push("remote_cluster is missing");
    }
    if leader.is_none() {
        faults.push("leader_index is missing");
    }
    if !faults.is_empty() {
        return Err(validation(&faults));
    }
    let settings = own_settings(body.remove("settings"))?;
    let parameters = parameters::parse(body, "put_follow_request")?;
    Ok(FollowRequest {
        remote: remote.unwrap_or_default(),
        leader: leader.unwrap_or_default(),
        settings,
        parameters,
    })
}

/// Settings that a follower may have of its own.
fn own_settings(body: Option<Value>) -> Result<Map<String, Value>, Error> {
    let Some(body) = body.filter(|it| !it.is_null()) else { return Ok(Map::new()) };
    let given = settings::parse(&body, Occasion::Creation)?;
    let foreign: Vec<&String> =
        given.keys().filter(|name| plimsoll_cluster::following::travels(name)).collect();
    if foreign.is_empty() {
        return Ok(given);
    }
    let shown: Map<String, Value> = given
        .iter()
        .filter(|(name, _)| foreign.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    Err(Error::illegal_argument(format!(
        "can not put follower index that could override leader settings {}",
        Value::Object(shown)
    )))
}

/// POST `/{index}/_ccr/pause_follow`.
///
/// # Errors
/// 400 where the index follows none or stands still already, 404 where it is not there.
async fn pause(mut call: Call) -> Result<Answer, Error> {
    no_body(&mut call).await?;
    following(&call)?.pause(&name(&call)).await?;
    Ok(Answer::acknowledged())
}

/// POST `/{index}/_ccr/resume_follow`.
///
/// # Errors
/// 400 where the index follows none or follows already, 404 where it is not there.
async fn resume(mut call: Call) -> Result<Answer, Error> {
    let body = match call.json().await? {
        None => Map::new(),
        Some(Value::Object(body)) => body,
        Some(_) => return Err(Error::invalid("parse_exception", "the body is not an object")),
    };
    let parameters = parameters::parse(body, "resume_follow_request")?;
    following(&call)?.resume(&name(&call), parameters).await?;
    Ok(Answer::acknowledged())
}

/// POST `/{index}/_ccr/unfollow`.
///
/// # Errors
/// 400 where the index follows none or does not stand still, 404 where it is not there.
async fn unfollow(mut call: Call) -> Result<Answer, Error> {
    no_body(&mut call).await?;
    following(&call)?.unfollow(&name(&call)).await?;
    Ok(Answer::acknowledged())
}

/// POST `/{index}/_ccr/forget_follower`, of a leader: nothing is kept for a follower that is gone for good.
///
/// # Errors
/// 400 where the body is not right, 404 where there is no such index.
async fn forget(mut call: Call) -> Result<Answer, Error> {
    let Value::Object(mut body) = call.json_required().await? else {
        return Err(Error::invalid("parse_exception", "the body is not an object"));
    };
    let mut text = |field: &str| match body.remove(field) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Error::illegal_argument(format!("[forget_follower] [{field}] is missing"))),
    };
    // By which name the other cluster knows this one, and what it calls itself, tells nothing here.
    let (_, follower, uuid, _) = (
        text("follower_cluster")?,
        text("follower_index")?,
        text("follower_index_uuid")?,
        text("leader_remote_cluster")?,
    );
    let name = name(&call);
    let partitions = call.coordinator().copies_of(&name).len();
    if partitions == 0 {
        let reason = format!("no such index [{name}]");
        return Err(Error::not_found("index_not_found_exception", reason).with("index", name));
    }
    call.rest.remote.leading.forget(&name, &follower, &uuid).await?;
    Ok(Answer::json(&json!({
        "_shards": { "total": partitions, "successful": partitions, "failed": 0, "failures": [] },
    })))
}

async fn no_body(call: &mut Call) -> Result<(), Error> {
    match call.json().await? {
        None => Ok(()),
        Some(Value::Object(body)) if body.is_empty() => Ok(()),
        Some(_) => Err(Error::illegal_argument("the request takes no body")),
    }
}

/// GET `/{index}/_ccr/info`.
///
/// # Errors
/// 404 where an index of that name is not there.
async fn info(call: Call) -> Result<Answer, Error> {
    let all = following(&call)?.overview();
    let shown: Vec<Value> = chosen(&call, all)?.iter().map(shown).collect();
    Ok(Answer::json(&json!({ "follower_indices": shown })))
}

fn shown(follower: &FollowerOverview) -> Value {
    let is_paused = matches!(follower.status, FollowerStatus::Paused | FollowerStatus::Ending);
    let mut shown = json!({
        "follower_index": follower.name,
        "remote_cluster": follower.remote,
        "leader_index": follower.leader,
        "status": if is_paused { "paused" } else { "active" },
    });
    if !is_paused {
        shown["parameters"] = Value::Object(parameters::with_defaults(&follower.parameters));
    }
    shown
}

/// The followers that the path names: by names and patterns; all where there is none.
///
/// # Errors
/// 404 where a name that is no pattern is no table here.
fn chosen(call: &Call, all: Vec<FollowerOverview>) -> Result<Vec<FollowerOverview>, Error> {
    let Some(names) = call.part("index") else { return Ok(all) };
    let mut found = Vec::new();
    for name in names.split(',').filter(|name| !name.is_empty()) {
        let is_pattern = name.contains('*') || name == "_all";
        let is_meant = |it: &&FollowerOverview| {
            name == "_all" || plimsoll_stdx::wildcard_matches(name, &it.name)
        };
        found.extend(all.iter().filter(is_meant).cloned());
        if !is_pattern && !following(call)?.has_table(name) {
            let reason = format!("no such index [{name}]");
            return Err(Error::not_found("index_not_found_exception", reason)
                .with("index", name)
                .with("resource.id", name)
                .with("resource.type", "index_or_alias"));
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found.dedup_by(|one, other| one.name == other.name);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;

    #[test]
    fn a_body_names_cluster_and_leader_and_nothing_that_is_not_known() {
        let body = json!({
            "remote_cluster": "west", "leader_index": "logs",
            "settings": { "index.number_of_replicas": 0 }, "max_read_request_size": "8mb",
        });
        let request = request_of(body).unwrap();
        assert_eq!((request.remote.as_str(), request.leader.as_str()), ("west", "logs"));
        assert_eq!(request.settings["index.number_of_replicas"], json!("0"));
        assert_eq!(request.parameters["max_read_request_size"], json!("8mb"));
        for (body, words) in [
            (json!({}), "remote_cluster is missing"),
            (json!({ "remote_cluster": "w" }), "leader_index is missing"),
            (json!({ "remote_cluster": 7, "leader_index": "l" }), "failed to parse field"),
            (json!({ "remote_cluster": "w", "leader_index": "l", "x": 1 }), "unknown field [x]"),
            (
                json!({ "remote_cluster": "w", "leader_index": "l",
                    "settings": { "number_of_shards": 2 } }),
                "could override leader settings",
            ),
        ] {
            let refused = request_of(body).unwrap_err();
            assert!(refused.reason.contains(words), "{}", refused.reason);
            assert_eq!(refused.status(), 400);
        }
    }
}
