//! Where users, roles and keys are kept: objects of the cluster's metadata, of three kinds. Every node has them;
//! a change reaches each with the metadata.

use std::time::Duration;

use futures_util::future::BoxFuture;
use plimsoll_cluster::{Coordinator, SECURITY_SINCE};
use plimsoll_index::Error;
use serde_json::Value;

/// The kind that users are.
pub const USERS: &str = "security_user";
/// The kind that roles are.
pub const ROLES: &str = "security_role";
/// The kind that keys are, of followers and of REST.
pub const KEYS: &str = "cross_cluster_key";

/// How often a change is tried again that others were faster than.
pub const ATTEMPTS_MAX: usize = 300;

/// Objects by their names; none where one is taken away.
pub type Changes = Vec<(String, Option<Value>)>;

/// Kinds, each with a change that it is not to have left behind.
pub type Seen = Vec<(&'static str, u64)>;

/// The metadata, as far as security reads and writes it.
pub trait Store: Send + Sync {
    /// How far the metadata has come here: while it stays the same, so does everything in it.
    fn position(&self) -> u64;

    /// What changes with each change of the objects of a kind.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    fn change(&self, kind: &'static str) -> Result<u64, Error>;

    /// One of the objects of a kind; none where it cannot be read, which is logged.
    fn get(&self, kind: &'static str, name: &str) -> Option<Value>;

    /// The objects of a kind, by name.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    fn all(&self, kind: &'static str) -> Result<Vec<(String, Value)>, Error>;

    /// Makes changes of one kind, all of them, or none where one of the kinds `seen` was changed since the change
    /// that is said with it: false then. The future ends with an error where the metadata cannot be written, or nodes do not know the
    /// kind yet.
    fn put(
        &self,
        kind: &'static str,
        changes: Changes,
        seen: Seen,
    ) -> BoxFuture<'_, Result<bool, Error>>;

    /// For how long nothing has been heard of the metadata.
    fn unheard(&self) -> Duration;

    /// Waits until all is known here that was acknowledged before this call; false where that cannot be found out.
    fn hear(&self) -> BoxFuture<'_, bool>;

    /// The time by which keys are made and end, ms since 1970: what the cluster's nodes agree on, so that a node whose
    /// clock is wrong judges as the others do.
    fn now_ms(&self) -> u64;
}

impl Store for Coordinator {
    fn position(&self) -> u64 {
        self.metadata_position()
    }

    fn change(&self, kind: &'static str) -> Result<u64, Error> {
        self.stored_change(kind).map_err(|error| Error::internal(error.to_string()))
    }

    fn get(&self, kind: &'static str, name: &str) -> Option<Value> {
        self.stored(kind, name)
    }

    fn all(&self, kind: &'static str) -> Result<Vec<(String, Value)>, Error> {
        self.stored_readable(kind).map_err(|error| Error::internal(error.to_string()))
    }

    fn put(
        &self,
        kind: &'static str,
        changes: Changes,
        seen: Seen,
    ) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            // Nodes that do not know users let everybody in. Keys are older, and taken back at any time.
            if kind != KEYS && !self.allows(SECURITY_SINCE) {
                return Err(Error::illegal_argument(format!(
                    "users and roles are refused until every node of the cluster knows them: they came with \
                     version {SECURITY_SINCE} of the cluster"
                )));
            }
            self.store_unless_changed(kind, changes, &seen).await
        })
    }

    fn unheard(&self) -> Duration {
        self.metadata_unheard()
    }

    fn hear(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.hear_metadata())
    }

    fn now_ms(&self) -> u64 {
        self.believed_ms()
    }
}

/// What is said where others were faster each time.
#[must_use]
pub fn others_change() -> Error {
    let reason = "others change users, roles or keys at the same time: come again";
    Error::unavailable("security_exception", reason)
}

/// One in memory, for tests.
#[cfg(test)]
pub mod in_memory {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use futures_util::future::BoxFuture;
    use parking_lot::Mutex;
    use plimsoll_index::Error;
    use serde_json::Value;

    use crate::security::store::{Changes, Seen, Store};

    #[derive(Default)]
    struct Kept {
        objects: BTreeMap<(&'static str, String), Value>,
        /// How often any was changed.
        changes: u64,
        now_ms: u64,
    }

    /// Objects by kind and name.
    #[derive(Default)]
    pub struct InMemory(Mutex<Kept>);

    impl InMemory {
        /// Has it be that time.
        pub fn set_now_ms(&self, now_ms: u64) {
            self.0.lock().now_ms = now_ms;
        }
    }

    impl Store for InMemory {
        fn position(&self) -> u64 {
            self.0.lock().changes
        }

        fn change(&self, _: &'static str) -> Result<u64, Error> {
            Ok(self.position())
        }

        fn get(&self, kind: &'static str, name: &str) -> Option<Value> {
            self.0.lock().objects.get(&(kind, name.to_owned())).cloned()
        }

        fn all(&self, kind: &'static str) -> Result<Vec<(String, Value)>, Error> {
            let kept = self.0.lock();
            let of_kind = kept.objects.iter().filter(|((it, _), _)| *it == kind);
            Ok(of_kind.map(|((_, name), value)| (name.clone(), value.clone())).collect())
        }

        fn put(
            &self,
            kind: &'static str,
            changes: Changes,
            seen: Seen,
        ) -> BoxFuture<'_, Result<bool, Error>> {
            let mut kept = self.0.lock();
            let is_seen = seen.iter().all(|(_, seen)| *seen == kept.changes);
            if is_seen {
                kept.changes += 1;
                for (name, value) in changes {
                    match value {
                        Some(value) => kept.objects.insert((kind, name), value),
                        None => kept.objects.remove(&(kind, name)),
                    };
                }
            }
            Box::pin(async move { Ok(is_seen) })
        }

        fn unheard(&self) -> Duration {
            Duration::ZERO
        }

        fn hear(&self) -> BoxFuture<'_, bool> {
            Box::pin(async { true })
        }

        fn now_ms(&self) -> u64 {
            self.0.lock().now_ms
        }
    }
}
