//! The way to and from other clusters: certificates and TLS, the keys of followers, the port where
//! they ask, and the connections to the clusters that this one knows.
//!
//! | file | owns |
//! |---|---|
//! | [`certificates`] | the making of certificates, `plimsoll certificates` |
//! | [`tls`], [`watched`] | what both sides show and check; files taken anew when they change |
//! | [`keys`], [`objects`] | what a key opens, and where keys are kept |
//! | [`protocol`] | questions and answers, and their limits |
//! | [`port`], [`leader`] | the port of the leader, and what it says of itself |
//! | [`relay`] | a question handed on to the node that it is meant for |
//! | [`clusters`] | the other clusters: `cluster.remote.*`, kept connected |
//!
//! It carries no rows yet: what a follower copies and follows will be further questions. It owns its
//! state and is handed the rest: the coordinator to read, the metadata's objects to keep keys in.

pub mod certificates;
pub mod clusters;
pub mod keys;
pub mod leader;
pub mod objects;
pub mod port;
pub mod protocol;
pub mod relay;
pub mod tls;
pub mod watched;

use std::sync::Arc;

use plimsoll_cluster::Coordinator;

use clusters::RemoteClusters;
use keys::Keys;
use objects::Stored;

/// The kind of the metadata's objects that keys are.
const KEYS_KIND: &str = "cross_cluster_key";

/// What REST and the port share.
pub struct Remote {
    /// The keys of followers of this cluster.
    pub keys: Arc<Keys>,
    /// The clusters that this one knows.
    pub clusters: RemoteClusters,
}

impl Remote {
    /// Over a node that is open.
    #[must_use]
    pub fn new(coordinator: &Arc<Coordinator>) -> Self {
        let objects = Stored::new(Arc::clone(coordinator), KEYS_KIND);
        Self { keys: Arc::new(Keys::new(Box::new(objects))), clusters: RemoteClusters::default() }
    }
}
