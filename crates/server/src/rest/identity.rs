//! Who the cluster and the node say they are: names that stay while the data stays.

use plimsoll_cluster::Coordinator;
use plimsoll_index::Error;
use serde_json::Value;

use super::documents::ids;

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
