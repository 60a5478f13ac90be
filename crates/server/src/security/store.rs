//! Where users, roles and keys are kept: objects of the cluster's metadata, of three kinds. Every node has them;
//! a change reaches each with the metadata.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use plimsoll_cluster::Coordinator;
use plimsoll_index::Error;
use serde_json::Value;

/// The kind that users are.
pub const USERS: &str = "security_user";
/// The kind that roles are.
pub const ROLES: &str = "security_role";
/// The kind that keys are, of followers and of REST.
pub const KEYS: &str = "cross_cluster_key";

/// The metadata, as far as security reads and writes it.
pub trait Store: Send + Sync {
    /// How far the metadata has come here: while it stays the same, so does everything in it.
    fn position(&self) -> u64;

    /// What changes with each change of the objects of a kind.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    fn change(&self, kind: &'static str) -> Result<u64, Error>;

    /// The objects of a kind, by name.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    fn all(&self, kind: &'static str) -> Result<Vec<(String, Value)>, Error>;

    /// Puts one, or takes it away, unless one of its kind was changed since the change `seen`: false then. The
    /// future ends with an error where the metadata cannot be written.
    fn put(
        &self,
        kind: &'static str,
        name: String,
        value: Option<Value>,
        seen: u64,
    ) -> BoxFuture<'_, Result<bool, Error>>;

    /// For how long nothing has been heard of the metadata.
    fn unheard(&self) -> Duration;
}

impl Store for Arc<Coordinator> {
    fn position(&self) -> u64 {
        self.metadata_position()
    }

    fn change(&self, kind: &'static str) -> Result<u64, Error> {
        self.stored_change(kind).map_err(|error| Error::internal(error.to_string()))
    }

    fn all(&self, kind: &'static str) -> Result<Vec<(String, Value)>, Error> {
        self.stored_readable(kind).map_err(|error| Error::internal(error.to_string()))
    }

    fn put(
        &self,
        kind: &'static str,
        name: String,
        value: Option<Value>,
        seen: u64,
    ) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move { self.store_unless_changed(kind, &name, value, seen).await })
    }

    fn unheard(&self) -> Duration {
        self.metadata_unheard()
    }
}
