//! What only Plimsoll has: `/_plimsoll/…`.

use std::time::Duration;

use plimsoll_cluster::{CopyDigest, NodeOverview};
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::call::Call;
use super::needs::{CLUSTER_MONITOR, CLUSTER_SECURITY};
use super::route::{Route, Verb, route};
use crate::security::audit::Event;

/// How long copies have to come to one position, where a request does not say.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Events of each stream of the audit that are shown where it is not said how many.
const AUDIT_SIZE: usize = 1000;

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Verb::Get], "/_plimsoll/digest", &[&["index", "timeout"]], CLUSTER_MONITOR, |call| {
        Box::pin(digest(call))
    }),
    route(&[Verb::Get], "/_plimsoll/version", &[], CLUSTER_MONITOR, |call| Box::pin(version(call))),
    route(&[Verb::Get], "/_plimsoll/audit", &[&["size"]], CLUSTER_SECURITY, |call| {
        Box::pin(audit(call))
    }),
];

/// GET `/_plimsoll/audit`: who came to this node and what was changed through it, the newest first; `size` of each
/// stream.
///
/// # Errors
/// 400 where `size` is no number.
async fn audit(call: Call) -> Result<Answer, Error> {
    let size = call.query.number::<usize>("size")?.unwrap_or(AUDIT_SIZE);
    let events: Vec<Value> =
        call.rest.node.security.audit.last(size).iter().map(Event::to_json).collect();
    Ok(Answer::json(&json!({ "events": events })))
}

/// GET `/_plimsoll/version`: the cluster's version, and what each node knows. The version is raised
/// once all know a newer one, unless `cluster.version.raise` is `hold`.
///
/// # Errors
/// 503 where the metadata cannot be read.
async fn version(call: Call) -> Result<Answer, Error> {
    let coordinator = call.coordinator();
    let version = coordinator.cluster_version();
    let version = version.map_err(|why| Error::unavailable("unavailable_shards_exception", why))?;
    let known = |node: &NodeOverview| (node.record.name.clone(), json!(node.record.version_known));
    let nodes: Map<String, Value> = coordinator.nodes().iter().map(known).collect();
    Ok(Answer::json(&json!({ "version": version, "known": nodes })))
}

/// GET `/_plimsoll/digest`: a digest of each copy, to compare those at one position. `index` names
/// tables between commas; `db0` is one too.
///
/// # Errors
/// 404 where a table is not there.
async fn digest(call: Call) -> Result<Answer, Error> {
    let timeout = call.query.duration("timeout")?.unwrap_or(TIMEOUT);
    let names: Option<Vec<String>> =
        call.query.get("index").map(|list| list.split(',').map(str::to_owned).collect());
    for name in names.iter().flatten() {
        if call.coordinator().copies_of(name).is_empty() {
            let reason = format!("no such index [{name}]");
            return Err(Error::not_found("index_not_found_exception", reason));
        }
    }
    let digests = call.coordinator().digests(names.as_deref(), timeout).await;
    let shown: Vec<Value> = digests.iter().map(shown).collect();
    Ok(Answer::json(&shown))
}

/// Hashes are text: readers of JSON round numbers of 64 bits.
fn shown(copy: &CopyDigest) -> Value {
    let digest = copy.digest.as_ref();
    let hex = |number: u64| format!("{number:016x}");
    json!({
        "table": copy.table,
        // A table that is an index is asked for by this name everywhere else.
        "index": copy.table,
        "shard": copy.ordinal,
        "node": copy.node,
        "lsn": digest.ok().map(|it| it.lsn),
        "hash": digest.ok().map(|it| hex(it.hash)),
        "digest": digest.ok().map(|it| hex(it.digest)),
        "content": digest.ok().and_then(|it| it.content).map(hex),
        "error": digest.err().map(ToString::to_string),
    })
}
