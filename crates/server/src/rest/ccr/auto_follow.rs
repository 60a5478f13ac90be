//! `_ccr/auto_follow`: patterns of indices that are followed as they come.

use plimsoll_cluster::following::AutoFollow;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::{following, own_settings, parameters};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::documents::write::validation;
use crate::security::privileges::IndexPrivileges;

/// PUT `/_ccr/auto_follow/{name}`.
///
/// # Errors
/// 400 where the body is not right, 404 where no such cluster is set, 503 where it is not reached.
pub async fn put(mut call: Call) -> Result<Answer, Error> {
    let pattern = pattern_of(call.json_required().await?)?;
    put_pattern(&call, &name(&call), pattern).await?;
    Ok(Answer::acknowledged())
}

/// Has indices followed as they come, in the name of whoever asks: all that may come of it are indices that it may
/// have follow.
///
/// # Errors
/// 403 where it may not; see [`put`].
pub(super) async fn put_pattern(call: &Call, name: &str, rule: AutoFollow) -> Result<(), Error> {
    let wanted =
        call.grant.to(IndexPrivileges::MANAGE, "cluster:admin/xpack/ccr/auto_follow_pattern/put");
    for leaders in &rule.leaders {
        let names = match &rule.follower {
            Some(pattern) => pattern.replace("{{leader_index}}", leaders),
            None => leaders.clone(),
        };
        if !call.principal.may_on_all(&names, IndexPrivileges::MANAGE) {
            return Err(Error::forbidden("security_exception", wanted.refusal(&names)));
        }
    }
    following(call)?.put_auto_follow(name, rule).await
}

/// GET `/_ccr/auto_follow[/{name}]`.
///
/// # Errors
/// 404 where there is no pattern of that name.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let wanted = call.part("name").map(str::to_owned);
    let mut all = following(&call)?.auto_follows();
    if let Some(wanted) = &wanted {
        all.retain(|(name, _)| name == wanted);
        if all.is_empty() {
            let reason = format!("auto-follow pattern [{wanted}] is missing");
            return Err(Error::not_found("resource_not_found_exception", reason));
        }
    }
    let shown: Vec<Value> =
        all.iter().map(|(name, it)| json!({ "name": name, "pattern": shown(it) })).collect();
    Ok(Answer::json(&json!({ "patterns": shown })))
}

/// DELETE `/_ccr/auto_follow/{name}`.
///
/// # Errors
/// 404 where there is no pattern of that name.
pub async fn delete(call: Call) -> Result<Answer, Error> {
    following(&call)?.delete_auto_follow(&name(&call)).await?;
    Ok(Answer::acknowledged())
}

/// POST `/_ccr/auto_follow/{name}/pause`.
///
/// # Errors
/// 404 where there is no pattern of that name.
pub async fn pause(call: Call) -> Result<Answer, Error> {
    following(&call)?.set_auto_follow(&name(&call), false).await?;
    Ok(Answer::acknowledged())
}

/// POST `/_ccr/auto_follow/{name}/resume`.
///
/// # Errors
/// 404 where there is no pattern of that name.
pub async fn resume(call: Call) -> Result<Answer, Error> {
    following(&call)?.set_auto_follow(&name(&call), true).await?;
    Ok(Answer::acknowledged())
}

/// What Elasticsearch's `_ccr/stats` says of it.
pub fn statistics(call: &Call) -> Result<Value, Error> {
    let told = following(call)?.auto_follow_statistics();
    let error = |(what, why): &(String, String)| {
        json!({
            "leader_index": what,
            "auto_follow_exception": { "type": "exception", "reason": why },
        })
    };
    let now_ms = crate::node::unix_ms();
    let cluster = |(name, at_ms): &(String, u64)| {
        json!({
            "cluster_name": name,
            "time_since_last_check_millis": now_ms.saturating_sub(*at_ms),
            "last_seen_metadata_version": 0,
        })
    };
    Ok(json!({
        "number_of_failed_follow_indices": told.failed,
        "number_of_failed_remote_cluster_state_requests": told.failed_asks,
        "number_of_successful_follow_indices": told.followed,
        "recent_auto_follow_errors": told.errors.iter().map(error).collect::<Vec<_>>(),
        "auto_followed_clusters": told.clusters.iter().map(cluster).collect::<Vec<_>>(),
    }))
}

fn name(call: &Call) -> String {
    call.part("name").unwrap_or_default().to_owned()
}

fn pattern_of(body: Value) -> Result<AutoFollow, Error> {
    let Value::Object(mut body) = body else {
        return Err(Error::invalid("parse_exception", "the body is not an object"));
    };
    let remote = text(&mut body, "remote_cluster")?;
    let leaders = names(&mut body, "leader_index_patterns")?;
    let excluded = names(&mut body, "leader_index_exclusion_patterns")?;
    let follower = text(&mut body, "follow_index_pattern")?;
    let mut faults = Vec::new();
    if remote.is_none() {
        faults.push("[remote_cluster] is missing");
    }
    if leaders.is_empty() {
        faults.push("[leader_index_patterns] is missing");
    }
    if !faults.is_empty() {
        return Err(validation(&faults));
    }
    let settings = own_settings(body.remove("settings"))?;
    let parameters = parameters::parse(body, "put_auto_follow_pattern_request")?;
    Ok(AutoFollow {
        remote: remote.unwrap_or_default(),
        leaders,
        excluded,
        follower,
        settings,
        parameters,
        ..AutoFollow::default()
    })
}

fn text(body: &mut Map<String, Value>, field: &str) -> Result<Option<String>, Error> {
    match body.remove(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(unreadable(field)),
    }
}

fn names(body: &mut Map<String, Value>, field: &str) -> Result<Vec<String>, Error> {
    let name = |value: Value| match value {
        Value::String(name) if !name.is_empty() => Ok(name),
        _ => Err(unreadable(field)),
    };
    match body.remove(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(names)) => names.into_iter().map(name).collect(),
        Some(one) => Ok(vec![name(one)?]),
    }
}

fn unreadable(field: &str) -> Error {
    let reason = format!("[put_auto_follow_pattern_request] failed to parse field [{field}]");
    Error::invalid("x_content_parse_exception", reason)
}

fn shown(pattern: &AutoFollow) -> Value {
    let mut shown = parameters::with_defaults(&pattern.parameters);
    shown.insert("active".to_owned(), json!(pattern.is_active));
    shown.insert("remote_cluster".to_owned(), json!(pattern.remote));
    shown.insert("leader_index_patterns".to_owned(), json!(pattern.leaders));
    shown.insert("leader_index_exclusion_patterns".to_owned(), json!(pattern.excluded));
    if let Some(follower) = &pattern.follower {
        shown.insert("follow_index_pattern".to_owned(), json!(follower));
    }
    if !pattern.settings.is_empty() {
        shown.insert("settings".to_owned(), json!(pattern.settings));
    }
    Value::Object(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;

    #[test]
    fn a_pattern_is_read_and_shown_as_elasticsearch_has_it() {
        let body = json!({
            "remote_cluster": "west",
            "leader_index_patterns": ["logs-*"],
            "leader_index_exclusion_patterns": "logs-debug",
            "follow_index_pattern": "{{leader_index}}-copy",
            "max_retry_delay": "1s",
        });
        let pattern = pattern_of(body).unwrap();
        let shown = shown(&AutoFollow { is_active: true, ..pattern });
        assert_eq!(shown["leader_index_exclusion_patterns"], json!(["logs-debug"]));
        assert_eq!((&shown["active"], &shown["max_retry_delay"]), (&json!(true), &json!("1s")));
        for wrong in [
            json!({}),
            json!({ "remote_cluster": "w" }),
            json!({ "remote_cluster": "w", "leader_index_patterns": [7] }),
            json!({ "remote_cluster": "w", "leader_index_patterns": ["a"], "x": 1 }),
        ] {
            assert_eq!(pattern_of(wrong).unwrap_err().status(), 400);
        }
    }
}
