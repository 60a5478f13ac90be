//! What all parts of a node share: its services, and what they were made of.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use plimsoll_base::World;
use plimsoll_storage::execute::ScanCursors;
use serde_json::Value;

use crate::copies::LocalCopies;
use crate::documents::Searching;
use crate::following::Snapshots;
use crate::metadata::members::Members;
use crate::replication::Replication;
use crate::replication::partition::Partition;
use crate::replication::tables::Tables;
use crate::routing::Router;
use crate::settings::work::{SettingsFollower, WorkSettings};

/// What a node's front end says of its process.
pub type ProcessFigures = Box<dyn Fn() -> Value + Send + Sync>;

/// What all parts of a node share.
pub(crate) struct Shared {
    pub world: World,
    /// The log, and the replicas here that follow it.
    pub replication: Arc<Replication>,
    /// Sends what clients ask to copies, here and elsewhere.
    pub router: Arc<Router>,
    /// This node's copies of partitions.
    pub copies: Arc<LocalCopies>,
    pub metadata: Arc<Partition>,
    pub members: Arc<Members>,
    pub tables: Arc<Tables>,
    pub cursors: Arc<ScanCursors>,
    /// What searches of this node share.
    pub searching: Arc<Searching>,
    /// What it was started with; the cluster's settings go over it.
    pub work_settings: WorkSettings,
    /// Snapshots for followers in other clusters.
    pub snapshots: Arc<Snapshots>,
    /// What the front end says of the process.
    pub process_figures: OnceLock<ProcessFigures>,
    /// What the front end does about the cluster's settings.
    pub settings_follower: Mutex<Option<SettingsFollower>>,
}
