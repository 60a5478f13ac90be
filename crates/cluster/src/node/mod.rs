//! A node: what all its parts share, and its close. How it is opened is in `opening.rs`.

pub(crate) mod acceptance;
pub(crate) mod answer;
pub(crate) mod coordinator;
pub(crate) mod creation;
pub(crate) mod digest;
pub(crate) mod figures;
pub(crate) mod flushing;
pub(crate) mod maintenance;
pub(crate) mod opening;
pub(crate) mod overview;
pub(crate) mod pacing;
pub(crate) mod reconcile;
pub(crate) mod statistics;
mod sweeping;
pub(crate) mod trimming;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::World;
use plimsoll_base::random::Draws;
use plimsoll_base::tasks::Role;
use plimsoll_log::shared::Holder;
use plimsoll_log::{GroupId, LeadId, Log, LogError, Lsn};
use plimsoll_storage::execute::{ReadContext, ScanCursors, Seed};
use plimsoll_storage::partition::{Replica, Resources, StoreOptions};
use plimsoll_storage::rows::key::partition_of;
use tokio::sync::{Notify, watch};

use crate::documents::{Documents, DocumentsOptions, Refresher, start_scrubbing};
use crate::following::Leading;
use crate::following::Snapshots;
use crate::following::{FollowingThread, Remotes};
use crate::machine::room::Room;
use crate::metadata::members::{Members, NodeRecord};
use crate::metadata::table::{Copies, Table, Tables};
use crate::metadata::version::ClusterVersion;
use crate::node::coordinator::Coordinator;
use crate::node::figures::ProcessFigures;
use crate::node::flushing::Durable;
use crate::node::opening::Opening;
use crate::node::pacing::{Admission, Pacing};
use crate::node::reconcile::Reconciler;
use crate::recovery::{Checkpoints, Recoveries};
use crate::replication::barrier::Barrier;
use crate::replication::clock::OwnClock;
use crate::replication::fell_behind::FellBehind;
use crate::replication::groups::HeldGroups;
use crate::replication::lead::Lead;
use crate::replication::log_engine::LogSettings;
use crate::replication::partition::Partition;
use crate::replication::session::SessionPool;
use crate::replication::tail::GroupTail;
use crate::routing::load::Load;
use crate::routing::selection::Selection;
use crate::settings::work::{SettingsFollower, WorkSettings};
use crate::wire::{NoPeers, Peers};

/// Log groups that partitions are spread over, beside the metadata's.
pub(crate) const GROUPS: u16 = 16;
/// The most partitions that a database's table may have: a scan's cursor has room for no more.
pub(crate) const PARTITIONS_MAX: u32 = 1024;

/// What a node is opened with.
#[derive(Clone)]
pub struct NodeSettings {
    /// The folder for everything it keeps; made where it is not there.
    pub data_dir: PathBuf,
    /// Which log it runs on.
    pub log: LogSettings,
    /// What rows may take in memory.
    pub store: StoreOptions,
    /// Partitions of a table that `SELECT` reaches, when it is created: 1 to 1,024. Default 1.
    pub database_partitions: u32,
    /// How documents are indexed and searched.
    pub documents: DocumentsOptions,
    /// What steers selection and admission, where the cluster's settings do not say otherwise.
    pub work: WorkSettings,
    /// What it says of itself to other nodes.
    pub record: NodeRecord,
    /// The way to other nodes.
    pub peers: Arc<dyn Peers>,
    /// Time, chance, tasks and disk.
    pub world: World,
}

impl NodeSettings {
    /// A node that is alone, with everything as it is by default.
    #[must_use]
    pub fn alone(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            log: LogSettings::default(),
            store: StoreOptions::default(),
            database_partitions: 1,
            documents: DocumentsOptions::default(),
            work: WorkSettings::default(),
            record: NodeRecord::default(),
            peers: Arc::new(NoPeers),
            world: World::of_the_machine(),
        }
    }
}

/// Why a node cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data folder cannot be used.
    #[error("{}: {reason}", path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The log cannot be opened or read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log went on while the node was being opened: it has to be opened anew.
    #[error("the log went on without the node: {0}")]
    FellBehind(String),
    /// Rows and log do not fit together.
    #[error("{0}")]
    Mismatch(String),
}

/// What all parts of a node share.
pub(crate) struct Shared {
    pub world: World,
    /// What has to be spread only, and nothing is guarded by.
    pub chance: Arc<Draws>,
    /// Names of what must be nobody else's: tables, snapshots.
    pub names: Draws,
    pub log: Arc<dyn Log>,
    /// Lets other processes use the log, where it does.
    pub _holder: Option<Holder>,
    /// Nobody else appends to the log: what is applied here is all that was acknowledged.
    pub is_alone: bool,
    /// This node's clock.
    pub clock: Arc<OwnClock>,
    pub resources: Arc<Resources>,
    /// The room on the disk.
    pub room: Room,
    pub metadata: Arc<Partition>,
    pub members: Members,
    pub tables: Tables,
    pub sessions: Arc<SessionPool>,
    pub cursors: ScanCursors,
    /// The log groups that are read here.
    pub groups: Arc<HeldGroups>,
    /// Bytes of records that the appliers have taken.
    pub applied_bytes: Arc<AtomicU64>,
    /// What searches of this node share.
    pub documents: Documents,
    pub partitions_dir: PathBuf,
    pub lead: LeadId,
    /// How far each group was applied here; of one that is not read, where that ended.
    pub tails: BTreeMap<GroupId, Arc<GroupTail>>,
    pub barriers: BTreeMap<GroupId, Barrier>,
    /// Chooses which copies are asked.
    pub selection: Arc<Selection>,
    /// What this node says of its load.
    pub load: Load,
    /// Holds writes back once its stores have put off much.
    pub admission: Admission,
    /// How fast copies and what is followed may go.
    pub pacing: Arc<Pacing>,
    /// What it was started with; the cluster's settings go over it.
    pub work_settings: WorkSettings,
    pub database_partitions: u32,
    /// Held by who changes which tables there are, or what they are made of.
    pub creation: tokio::sync::Mutex<()>,
    /// Has what the metadata says looked at soon.
    pub look: Arc<Notify>,
    /// Up to where of the metadata's log this node serves what it says.
    pub reconciled: watch::Sender<u64>,
    pub is_stopping: Arc<AtomicBool>,
    /// What this node needs no more of the log, as its beats say.
    pub durable: Mutex<Durable>,
    /// The cluster's version, as it is known here.
    pub version: Arc<ClusterVersion>,
    /// Whether this node has to be opened anew.
    pub fell_behind: FellBehind,
    /// Checkpoints for nodes that copy from this one, and what this one copies.
    pub checkpoints: Checkpoints,
    /// Snapshots for followers in other clusters.
    pub snapshots: Snapshots,
    pub recoveries: Recoveries,
    /// What the front end says of the process.
    pub process_figures: OnceLock<ProcessFigures>,
    /// What the front end does about the cluster's settings.
    pub settings_follower: Mutex<Option<SettingsFollower>>,
}

/// A node that is open. Dropping it stops it where it is: what is not flushed is replayed.
pub struct Node {
    shared: Arc<Shared>,
    maintenance: Option<Role>,
    flusher: Option<Role>,
    refresher: Option<Refresher>,
    scrubber: Option<Role>,
    reconciler: Option<Reconciler>,
    pacing: Option<Role>,
    leading: Arc<Leading>,
}

impl Node {
    /// Opens the node's folder and brings its replicas forward. It blocks its thread between its waits.
    ///
    /// # Errors
    /// Where the folder is in use or not writable, or the log or rows are damaged.
    ///
    /// # Panics
    /// Where `database_partitions` is out of its range.
    pub async fn open(settings: &NodeSettings) -> Result<Self, OpenError> {
        let partitions = settings.database_partitions;
        assert!((1..=PARTITIONS_MAX).contains(&partitions), "a table has 1 to 1,024 partitions");
        let shared = Opening::begin(settings)?.run(settings).await?;
        let refresher = Refresher::start(&shared).map_err(folder(Path::new("refresh threads")))?;
        let scrubber = start_scrubbing(&shared).map_err(folder(Path::new("scrub thread")))?;
        let maintenance = maintenance::start(&shared);
        let maintenance = maintenance.map_err(folder(Path::new("maintenance thread")))?;
        let flusher = flushing::start(&shared).map_err(folder(Path::new("flush thread")))?;
        let reconciler = Reconciler::start(&shared);
        let reconciler = reconciler.map_err(folder(Path::new("reconcile thread")))?;
        let pacing = pacing::start(&shared);
        let pacing = pacing.map_err(folder(Path::new("pacing thread")))?;
        let leading = Leading::new(Arc::clone(&shared), Arc::clone(&shared.pacing));
        let leading = Arc::new(leading);
        Ok(Self {
            shared,
            leading,
            maintenance: Some(maintenance),
            flusher: Some(flusher),
            refresher: Some(refresher),
            scrubber: Some(scrubber),
            reconciler: Some(reconciler),
            pacing: Some(pacing),
        })
    }

    /// Where requests go.
    #[must_use]
    pub fn coordinator(&self) -> Arc<Coordinator> {
        Arc::new(Coordinator::new(Arc::clone(&self.shared)))
    }

    /// Cares for the tables here that follow one of another cluster; `cluster_uuid` is this one, as
    /// others know it. It ends with the node, or before.
    ///
    /// # Errors
    /// Where the system has no room for a thread.
    pub fn following(
        &self,
        remotes: Arc<dyn Remotes>,
        cluster_uuid: String,
    ) -> std::io::Result<FollowingThread> {
        let pacing = Arc::clone(&self.shared.pacing);
        FollowingThread::start(&self.shared, remotes, cluster_uuid, pacing)
    }

    /// What followers in other clusters are answered.
    #[must_use]
    pub fn leading(&self) -> Arc<Leading> {
        Arc::clone(&self.leading)
    }

    /// Waits until this node has to be closed and opened anew, and says why: while it stood still,
    /// the log went on without it. It answers what it can until then.
    pub fn fell_behind(&self) -> impl Future<Output = String> + Send + use<> {
        let told = self.shared.fell_behind.clone();
        async move { told.told().await }
    }

    /// Makes everything durable and stops; blocks its thread between its waits. Requests still in flight end
    /// unknown.
    pub async fn close(mut self) {
        self.stop_chores();
        for partition in self.shared.tables.partitions() {
            if let Some(indexer) = partition.indexer() {
                indexer.close();
            }
        }
        flushing::flush_all(&self.shared).await;
    }

    fn stop_chores(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        self.reconciler.take().into_iter().for_each(Reconciler::stop);
        self.refresher.take().into_iter().for_each(Refresher::stop);
        self.scrubber.take().into_iter().for_each(Role::end);
        self.maintenance.take().into_iter().for_each(Role::end);
        self.flusher.take().into_iter().for_each(Role::end);
        self.pacing.take().into_iter().for_each(Role::end);
        self.leading.stop();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop_chores();
        self.shared.groups.close();
    }
}

impl Shared {
    /// How many partitions the table has, or will have.
    pub(crate) fn partition_count(&self, table: Option<&Table>) -> usize {
        table.map_or(self.database_partitions as usize, |table| table.copies().len())
    }

    /// The ordinal that a key will have in a table that does not exist yet.
    pub(crate) fn ordinal_in_new_table(&self, key: &[u8]) -> usize {
        partition_of(key, self.database_partitions) as usize
    }

    /// What a read that begins now knows of a partition; none is an empty one.
    pub(crate) fn read_context(&self, partition: Option<&Partition>) -> ReadContext<'_> {
        ReadContext {
            now_ms: partition.map_or_else(|| self.world.time.wall_ms(), Partition::read_time_ms),
            seed: Seed::Drawn(&self.chance),
            keys: partition.map_or(0, Partition::keys),
            cursors: Some(&self.cursors),
        }
    }

    /// The time, for the controllers.
    pub(crate) fn now_ns(&self) -> u64 {
        self.world.time.now().0
    }

    pub(crate) fn trim(&self, group: GroupId, up_to: Lsn) -> Result<(), String> {
        self.log.trim(group, up_to).map_err(|error| error.to_string())
    }

    /// Waits until this node has applied everything of a group that was acknowledged before; at
    /// once where nobody else appends.
    pub(crate) async fn pass_barrier(&self, group: GroupId, timeout: Duration) -> bool {
        if self.is_alone {
            return true;
        }
        match self.barriers.get(&group) {
            Some(barrier) => barrier.pass(timeout).await.is_ok(),
            None => false,
        }
    }

    /// A position of a partition's group before which everything stands that was acknowledged before; a copy
    /// that is here has it all, another has once it has applied so far. None where the log does not answer.
    pub(crate) async fn bar(&self, copies: &Copies, timeout: Duration) -> Option<Lsn> {
        if copies.local().is_some() {
            let passed = self.pass_barrier(copies.group, timeout).await;
            return self.tails.get(&copies.group).filter(|_| passed).map(|tail| tail.applied());
        }
        self.barriers.get(&copies.group)?.position(timeout).await.ok()
    }
}

/// What the coordinator sees of a replica, with a lead to write through.
pub(crate) fn partition_of_replica(
    replica: &Replica,
    group: GroupId,
    lead: LeadId,
    (log, clock, version): (&Arc<dyn Log>, &Arc<OwnClock>, &Arc<ClusterVersion>),
    tail: &Arc<GroupTail>,
) -> Arc<Partition> {
    let by = (Arc::clone(log), Arc::clone(version));
    let lead = Lead::new(replica.id(), group, lead, by, Arc::clone(tail), clock.time().clone());
    let (store, clock) = (replica.store().clone(), Arc::clone(clock));
    Arc::new(Partition::new(
        replica.id(),
        store,
        lead,
        (replica.stamp(), replica.log_time_ms()),
        clock,
    ))
}

pub(crate) fn folder(path: &Path) -> impl FnOnce(std::io::Error) -> OpenError {
    let path = path.to_owned();
    move |error| OpenError::Folder { path, reason: error.to_string() }
}
