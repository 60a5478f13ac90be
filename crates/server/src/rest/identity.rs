//! What a node says of itself on `GET /`: the first thing that clients ask, and by which some of
//! them decide whether to go on.

use plimsoll_cluster::Coordinator;
use plimsoll_index::Error;
use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::call::Call;
use super::documents::ids;
use super::routes::{Route, Verb, route};

/// The routes of this module.
pub const ROUTES: &[Route] = &[route(&[Verb::Get], "/", &[], |call| Box::pin(root(call)))];

/// What `build_hash` says: clients print it and nothing else.
pub const BUILD_HASH: &str = "unknown";
/// The version of the index format that clients are told.
pub const LUCENE_VERSION: &str = "8.7.0";

/// Names that stay while the data stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's: 22 URL-safe characters.
    pub cluster_uuid: String,
    /// The node's: 22 URL-safe characters.
    pub node_id: String,
}

impl Identity {
    /// Reads the names that the cluster keeps, or draws and keeps them.
    ///
    /// # Errors
    /// Where they cannot be kept.
    pub async fn load(coordinator: &Coordinator, node_name: &str) -> Result<Self, Error> {
        let cluster_uuid = kept(coordinator, "uuid").await?;
        let node_id = kept(coordinator, &format!("node-{node_name}")).await?;
        Ok(Self { cluster_uuid, node_id })
    }
}

async fn kept(coordinator: &Coordinator, name: &str) -> Result<String, Error> {
    if let Some(Value::String(known)) = coordinator.stored("identity", name) {
        return Ok(known);
    }
    let drawn = ids::random_uuid();
    // Of nodes that start together, one draws the names that all keep.
    match coordinator.store_first("identity", name, Value::String(drawn)).await? {
        Value::String(kept) => Ok(kept),
        other => Err(Error::internal(format!("the name [{name}] is kept as [{other}]"))),
    }
}

async fn root(call: Call) -> Result<Answer, Error> {
    let settings = &call.rest.node.settings;
    let mut version = Map::new();
    let mut say = |key: &str, value: Value| version.insert(key.to_owned(), value);
    if !settings.rest_distribution.is_empty() {
        say("distribution", json!(settings.rest_distribution));
    }
    say("number", json!(settings.rest_version));
    say("build_flavor", json!("default"));
    say("build_type", json!("tar"));
    say("build_hash", json!(BUILD_HASH));
    say("build_date", json!("2026-01-01T00:00:00.000000Z"));
    say("build_snapshot", json!(false));
    say("lucene_version", json!(LUCENE_VERSION));
    say("minimum_wire_compatibility_version", json!("6.8.0"));
    say("minimum_index_compatibility_version", json!("6.0.0-beta1"));
    Ok(Answer::json(&json!({
        "name": settings.node_name,
        "cluster_name": settings.cluster_name,
        "cluster_uuid": call.rest.identity.cluster_uuid,
        "version": version,
        "tagline": settings.rest_tagline,
    })))
}
