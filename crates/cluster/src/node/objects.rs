//! What is the whole cluster's, in its metadata: settings, templates, identities, the version; and what a database
//! has there beside its rows.

use std::time::Duration;

use plimsoll_index::Error;
use plimsoll_storage::{Argv, Reply};
use serde_json::Value;

use crate::Coordinator;
use crate::documents::checked;
use crate::metadata::{self, error::MetadataError};
use crate::settings::work::SettingsFollower;
use crate::wire::write_error::failed;

/// How long a change waits for this node to work by it.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(2);

impl Coordinator {
    /// A setting of the whole cluster that was changed while it runs: the transient one, else the
    /// persistent one.
    #[must_use]
    pub fn cluster_setting(&self, name: &str) -> Option<String> {
        metadata::setting(&self.shared().metadata, name)
    }

    /// Has the front end take on the cluster's settings, those that there are at once. A change of
    /// them is acknowledged after all nodes that are there did so.
    pub fn follow_settings(&self, follower: SettingsFollower) {
        *self.shared().settings_follower.lock() = Some(follower);
        self.shared().follow_settings();
    }

    /// A small object that the whole cluster shares, such as a template.
    #[must_use]
    pub fn stored(&self, kind: &str, name: &str) -> Option<Value> {
        metadata::object(&self.shared().metadata, kind, name)
    }

    /// All objects of a kind, by name.
    #[must_use]
    pub fn stored_all(&self, kind: &str) -> Vec<(String, Value)> {
        metadata::objects(&self.shared().metadata, kind)
    }

    /// The same, for whom none and unreadable are not one: an object that is no JSON is there, as `null`.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    pub fn stored_readable(&self, kind: &str) -> Result<Vec<(String, Value)>, MetadataError> {
        let found = metadata::objects_bytes(&self.shared().metadata, kind)?;
        let read = |(name, bytes): (String, bytes::Bytes)| {
            (name, serde_json::from_slice(&bytes).unwrap_or_default())
        };
        Ok(found.into_iter().map(read).collect())
    }

    /// What changes with each change of the objects of a kind.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    pub fn stored_change(&self, kind: &str) -> Result<u64, MetadataError> {
        metadata::objects_change(&self.shared().metadata, kind)
    }

    /// How far this node has the metadata: while that stays the same, so does everything in it.
    #[must_use]
    pub fn metadata_position(&self) -> u64 {
        self.shared().metadata.applied().0
    }

    /// For how long nothing has been heard of the metadata's log: since the last beat was sent that came back.
    /// A node alone is its own log.
    #[must_use]
    pub fn metadata_unheard(&self) -> Duration {
        self.shared().router.unheard()
    }

    /// Waits until this node has all of the metadata that was acknowledged before this call, whatever it believes to
    /// know; false where that cannot be found out now.
    pub async fn hear_metadata(&self) -> bool {
        self.shared().router.hear_metadata().await
    }

    /// Puts such an object, or takes it away.
    ///
    /// # Errors
    /// Where the metadata cannot be written, or the object is too large.
    pub async fn store(&self, kind: &str, name: &str, value: Option<Value>) -> Result<(), Error> {
        let shared = self.shared();
        shared.replication.write_metadata(change(kind, name, value)?).await.map_err(failed)?;
        self.follow_change().await;
        Ok(())
    }

    /// What was changed is at work here too when that is acknowledged, and on the other nodes soon.
    async fn follow_change(&self) {
        let shared = self.shared();
        shared.router.reconciled_to(shared.metadata.applied().0, FOLLOW_TIMEOUT).await;
        shared.router.tell_others().await;
    }

    /// Puts such objects of one kind, by their names, or takes them away: all of them, or none where an object of
    /// one of the kinds `seen` was changed since the change that is said with it: false then.
    ///
    /// # Errors
    /// Where the metadata cannot be written, or an object is too large.
    pub async fn store_unless_changed(
        &self,
        kind: &str,
        changes: Vec<(String, Option<Value>)>,
        seen: &[(&str, u64)],
    ) -> Result<bool, Error> {
        let shared = self.shared();

        let changes = changes.into_iter().map(|(name, value)| change(kind, &name, value));
        let commands = changes.collect::<Result<_, _>>()?;
        let write = metadata::change_objects_unless(seen, commands);
        let reply = shared.replication.submit_metadata(&write).await.map_err(failed)?;
        self.follow_change().await;
        Ok(reply != Reply::NilArray)
    }

    /// Puts such an object where there is none yet: says which one there is then, another node's
    /// where that came first.
    ///
    /// # Errors
    /// Where the metadata cannot be written, or the object is too large.
    pub async fn store_first(&self, kind: &str, name: &str, value: Value) -> Result<Value, Error> {
        let command = metadata::put_first_object(kind, name, &checked(&value)?);
        self.shared().replication.write_metadata(command).await.map_err(failed)?;
        Ok(self.stored(kind, name).unwrap_or(value))
    }

    /// Whether all nodes know what came with `version` of the cluster.
    #[must_use]
    pub fn allows(&self, version: u32) -> bool {
        self.shared().replication.version.allows(version)
    }

    /// The cluster's version: which forms of records, messages and metadata may be used.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    pub fn cluster_version(&self) -> Result<u32, MetadataError> {
        metadata::version(&self.shared().metadata)
    }

    /// The default expiry of a database that is no index, ms; `None` where it has none, or is an index.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    pub fn default_expiry_of(&self, name: &str) -> Result<Option<u64>, MetadataError> {
        self.shared().copies.changes.default_expiry_of(name)
    }

    /// Gives a database that is no index a default expiry, ms, or takes it (0); one that is not there yet is
    /// created. Keys that are there keep what they have.
    ///
    /// # Errors
    /// Where nodes do not know it yet, the database follows another cluster's, or the metadata cannot be written.
    pub async fn set_default_expiry(&self, name: &str, after_ms: u64) -> Result<(), Error> {
        self.shared().copies.changes.set_default_expiry(name, after_ms).await
    }
}

/// The write that puts an object, or takes it away.
fn change(kind: &str, name: &str, value: Option<Value>) -> Result<Argv, Error> {
    Ok(match value {
        Some(value) => metadata::put_object(kind, name, &checked(&value)?),
        None => metadata::delete_object(kind, name),
    })
}
