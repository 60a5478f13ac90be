//! What all parts of a node share: its services, and what they were made of.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use plimsoll_base::World;
use plimsoll_storage::execute::ScanCursors;
use serde_json::Value;

use crate::copies::LocalCopies;
use crate::documents::Searching;
use crate::following::Snapshots;
use crate::machine::room::Room;
use crate::metadata::members::Members;
use crate::metadata::version::ClusterVersion;
use crate::pacing::Pacing;
use crate::replication::Replication;
use crate::replication::partition::Partition;
use crate::replication::tables::Tables;
use crate::routing::Router;
use crate::routing::changes::TableChanges;
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
    /// As [`Replication::is_alone`].
    pub is_alone: bool,
    /// The room on the disk.
    pub room: Arc<Room>,
    pub metadata: Arc<Partition>,
    pub members: Arc<Members>,
    pub tables: Arc<Tables>,
    pub cursors: Arc<ScanCursors>,
    /// What searches of this node share.
    pub searching: Arc<Searching>,
    /// How fast copies and what is followed may go.
    pub pacing: Arc<Pacing>,
    /// What it was started with; the cluster's settings go over it.
    pub work_settings: WorkSettings,
    /// Makes and changes tables.
    pub changes: Arc<TableChanges>,
    pub is_stopping: Arc<AtomicBool>,
    /// The cluster's version, as it is known here.
    pub version: Arc<ClusterVersion>,
    /// Snapshots for followers in other clusters.
    pub snapshots: Arc<Snapshots>,
    /// What the front end says of the process.
    pub process_figures: OnceLock<ProcessFigures>,
    /// What the front end does about the cluster's settings.
    pub settings_follower: Mutex<Option<SettingsFollower>>,
}
