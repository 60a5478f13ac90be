//! The way to and from other clusters: the keys of followers, the port where they ask, and the connections
//! to the clusters that this one knows. What both sides show of themselves is [`crate::tls`]'s.
//!
//! | file | owns |
//! |---|---|
//! | [`protocol`], [`stream`], [`refusal`] | questions, answers and records, and their limits |
//! | [`port`], [`leader`] | the port of the leader, and what it says of itself |
//! | [`relay`] | a question handed on to the node that it is meant for |
//! | [`clusters`] | the other clusters: `cluster.remote.*`, kept connected |
//!
//! What a follower's questions do to the cluster is not decided here: they are handed to the cluster's
//! [`plimsoll_cluster::following`], for the tables of the key that was shown. It owns its state and is
//! handed the rest: the coordinator to read, the metadata's objects to keep keys in.

pub mod clusters;
pub mod leader;
pub mod port;
pub mod protocol;
pub mod refusal;
pub mod relay;
pub mod stream;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, OnceLock};

use plimsoll_cluster::Node;
use plimsoll_cluster::following::{FollowingThread, Leading, Remotes};

use clusters::RemoteClusters;

/// What REST and the port share.
pub struct Remote {
    /// The clusters that this one knows.
    pub clusters: Arc<RemoteClusters>,
    /// What this cluster's tables keep for those who follow them.
    pub leading: Arc<Leading>,
    /// What cares for the tables here that follow one of theirs, once the node is open.
    pub following: OnceLock<FollowingThread>,
}

impl Remote {
    /// Over a node that is open.
    #[must_use]
    pub fn new(leading: Arc<Leading>) -> Self {
        Self { clusters: Arc::default(), leading, following: OnceLock::new() }
    }

    /// Begins to care for the tables that follow; once.
    ///
    /// # Errors
    /// Where the system has no room for a thread.
    pub fn follow(&self, node: &Node, cluster_uuid: String) -> io::Result<()> {
        let clusters: Arc<dyn Remotes> = Arc::<RemoteClusters>::clone(&self.clusters);
        let following = node.following(clusters, cluster_uuid)?;
        let is_first = self.following.set(following).is_ok();
        assert!(is_first, "a node's followers are cared for once");
        Ok(())
    }

    /// Ends what was begun for other clusters' sake. Blocks.
    pub fn stop(&self) {
        if let Some(following) = self.following.get() {
            following.stop();
        }
        self.clusters.stop();
    }
}
