//! Small named objects that the whole cluster keeps, as [`super`] is handed them: by name, in JSON.
//!
//! They are objects of the cluster's metadata such as templates are, so every node has them, and a
//! write is the same `HSET` of the same hash family as theirs: no form of record that a member of an
//! older version would not carry out. What stands in them is their owners' to say; every owner has a
//! kind of its own.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use plimsoll_cluster::Coordinator;
use plimsoll_index::Error;
use serde_json::Value;

/// The objects of one kind.
pub trait Objects: Send + Sync {
    /// One of them, as this node knows it.
    fn get(&self, name: &str) -> Option<Value>;

    /// All of them, by name.
    fn all(&self) -> Vec<(String, Value)>;

    /// Puts one, or takes it away.
    ///
    /// The future ends with an error where the metadata cannot be written.
    fn put(&self, name: String, value: Option<Value>) -> BoxFuture<'_, Result<(), Error>>;
}

/// Those that the cluster's metadata has.
pub struct Stored {
    coordinator: Arc<Coordinator>,
    kind: &'static str,
}

impl Stored {
    /// Those of this kind.
    #[must_use]
    pub fn new(coordinator: Arc<Coordinator>, kind: &'static str) -> Self {
        Self { coordinator, kind }
    }
}

impl Objects for Stored {
    fn get(&self, name: &str) -> Option<Value> {
        self.coordinator.stored(self.kind, name)
    }

    fn all(&self) -> Vec<(String, Value)> {
        self.coordinator.stored_all(self.kind)
    }

    fn put(&self, name: String, value: Option<Value>) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { self.coordinator.store(self.kind, &name, value).await })
    }
}
