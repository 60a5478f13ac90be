//! The clusters that this one knows: `_remote/info`, what one of them lets this one follow, and who follows
//! tables of this one.

use std::time::Duration;

use plimsoll_cluster::following::RemoteError;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::call::Call;
use super::needs::CLUSTER_MONITOR;
use super::route::{Route, Verb, route};
use crate::remote::clusters::RemoteInfo;
use crate::remote::protocol::{Answer as RemoteAnswer, Ask};

/// What stands for a credential in answers. Elasticsearch's.
const REDACTED: &str = "::es_redacted::";
/// How long another cluster has for an answer.
const ASK_TIME: Duration = Duration::from_secs(10);

/// The most nodes that are asked, one after the other.
const NODES_MAX: usize = 100;

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Verb::Get], "/_remote/info", &[], CLUSTER_MONITOR, |call| Box::pin(info(call))),
    route(&[Verb::Get], "/_plimsoll/remote/{remote}/tables", &[], CLUSTER_MONITOR, |call| {
        Box::pin(tables(call))
    }),
    route(&[Verb::Get], "/_plimsoll/remote/{remote}/nodes", &[], CLUSTER_MONITOR, |call| {
        Box::pin(nodes(call))
    }),
    route(&[Verb::Get], "/_plimsoll/followers", &[], CLUSTER_MONITOR, |call| {
        Box::pin(followers(call))
    }),
];

/// GET `/_remote/info`: the clusters that are set, as this node reaches them.
///
/// # Errors
/// None of its own.
async fn info(call: Call) -> Result<Answer, Error> {
    let all = call.rest.remote.clusters.all();
    let all: Map<String, Value> =
        all.iter().map(|it| it.info()).map(|it| (it.name.clone(), shown(&it))).collect();
    Ok(Answer::json(&all))
}

/// As Elasticsearch shows it. `error` is beyond that: why the cluster is not reached.
fn shown(info: &RemoteInfo) -> Value {
    let settings = &info.settings;
    let mut shown = json!({
        "connected": info.is_connected(),
        "mode": if info.is_proxied() { "proxy" } else { "sniff" },
    });
    if info.is_proxied() {
        shown["proxy_address"] = json!(settings.proxy_address);
        shown["server_name"] = json!(settings.server_name.as_deref().unwrap_or_default());
        shown["num_proxy_sockets_connected"] = json!(info.connections);
        shown["max_proxy_socket_connections"] = json!(settings.proxy_connections);
    } else {
        shown["seeds"] = json!(settings.seeds);
        shown["num_nodes_connected"] = json!(info.nodes.len());
        shown["max_connections_per_cluster"] = json!(settings.node_connections);
    }
    shown["initial_connect_timeout"] = json!("30s");
    shown["skip_unavailable"] = json!(settings.skip_unavailable);
    if settings.credentials_file.is_some() {
        shown["cluster_credentials"] = json!(REDACTED);
    }
    if let Some(error) = info.error.as_ref().filter(|_| !info.is_connected()) {
        shown["error"] = json!(error);
    }
    shown
}

/// GET `/_plimsoll/remote/{remote}/tables`: those that the key here may follow there.
///
/// # Errors
/// 404 where no cluster of that name is set; 503 where it is not reached, or does not let this one in.
async fn tables(call: Call) -> Result<Answer, Error> {
    let name = call.part("remote").unwrap_or_default();
    let cluster = call.rest.remote.clusters.get(name).ok_or_else(|| no_such_remote(name))?;
    let (found, has_more) = cluster.all_tables().await.map_err(|error| unanswered(name, &error))?;
    let shown: Map<String, Value> = found
        .into_iter()
        .map(|it| {
            let table = json!({
                "uuid": it.uuid,
                "number_of_shards": it.shards,
                "mapping_version": it.mapping_version,
            });
            (it.name, table)
        })
        .collect();
    Ok(Answer::json(&json!({ "tables": shown, "is_cut": has_more })))
}

/// GET `/_plimsoll/followers`: the tables of other clusters that follow one of this cluster's, with the
/// position of each partition's log group after which it is kept for them. Who is gone for good is let go
/// by `_ccr/forget_follower`, which takes these names.
///
/// # Errors
/// 503 where the metadata cannot be read.
async fn followers(call: Call) -> Result<Answer, Error> {
    let held = call.rest.remote.leading.holds().map_err(|error| {
        Error::unavailable("status_exception", format!("the followers cannot be read: {error}"))
    })?;
    let shown = held.into_iter().map(|it| {
        json!({
            "leader_index": it.name,
            "follower_cluster_uuid": it.cluster_uuid,
            "follower_index": it.follower,
            "follower_index_uuid": it.follower_uuid(),
            "kept_after_lsn": it.positions,
            "changed_at_millis": it.at_ms,
            "is_dropped": it.is_dropped,
            "dropped_at_bytes": it.bytes,
        })
    });
    Ok(Answer::json(&json!({ "followers": shown.collect::<Vec<_>>() })))
}

/// GET `/_plimsoll/remote/{remote}/nodes`: those that have the port open, and whether each answers,
/// by the connections that there are: its own, or another node's, which hands the question on.
///
/// # Errors
/// As [`tables`].
async fn nodes(call: Call) -> Result<Answer, Error> {
    let name = call.part("remote").unwrap_or_default();
    let cluster = call.rest.remote.clusters.get(name).ok_or_else(|| no_such_remote(name))?;
    let greeted = cluster.ask(None, Ask::Hello, ASK_TIME).await;
    let RemoteAnswer::Hello(hello) = greeted.map_err(|error| unanswered(name, &error))? else {
        let error = RemoteError::Refused("another question was answered".to_owned());
        return Err(unanswered(name, &error));
    };
    let mut shown = Map::new();
    for node in hello.nodes.into_iter().take(NODES_MAX) {
        let asked = cluster.ask(Some(&node.id), Ask::Hello, ASK_TIME).await;
        let error = match asked {
            Ok(RemoteAnswer::Hello(it)) if it.node == node.id => None,
            Ok(_) => Some("another node answers in its place".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        let mut entry = json!({ "name": node.name, "remote_address": node.address });
        entry["answers"] = json!(error.is_none());
        if let Some(error) = error {
            entry["error"] = json!(error);
        }
        shown.insert(node.id, entry);
    }
    Ok(Answer::json(&json!({
        "cluster_name": hello.cluster_name,
        "cluster_uuid": hello.cluster_uuid,
        "version": hello.version,
        "nodes": shown,
    })))
}

fn no_such_remote(name: &str) -> Error {
    let reason = format!("no such remote cluster: [{name}]");
    Error::not_found("no_such_remote_cluster_exception", reason)
}

fn unanswered(name: &str, error: &RemoteError) -> Error {
    let reason = format!("remote cluster [{name}]: {error}");
    match error {
        RemoteError::Unreachable(_) => Error::unavailable("connect_transport_exception", reason),
        RemoteError::Denied(_) => Error::unavailable("security_exception", reason),
        _ => Error::bad_answer("remote_transport_exception", reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::clusters::settings::{Mode, RemoteSettings};

    #[test]
    fn clusters_are_shown_as_elasticsearch_does() {
        let settings = RemoteSettings {
            seeds: vec!["h:1".to_owned()],
            credentials_file: Some("/etc/key".into()),
            ..RemoteSettings::default()
        };
        let mut info = RemoteInfo {
            name: "west".to_owned(),
            settings,
            connections: 2,
            nodes: vec!["a".to_owned(), "b".to_owned()],
            error: Some("stale".to_owned()),
        };
        let sniffed = json!({
            "connected": true, "mode": "sniff", "seeds": ["h:1"], "num_nodes_connected": 2,
            "max_connections_per_cluster": 3, "initial_connect_timeout": "30s",
            "skip_unavailable": false, "cluster_credentials": "::es_redacted::",
        });
        assert_eq!(shown(&info), sniffed);
        info.settings.mode = Mode::Proxy;
        info.settings.proxy_address = Some("p:1".to_owned());
        info.settings.credentials_file = None;
        (info.connections, info.nodes) = (0, Vec::new());
        let proxied = json!({
            "connected": false, "mode": "proxy", "proxy_address": "p:1", "server_name": "",
            "num_proxy_sockets_connected": 0, "max_proxy_socket_connections": 18,
            "initial_connect_timeout": "30s", "skip_unavailable": false, "error": "stale",
        });
        assert_eq!(shown(&info), proxied);
    }
}
