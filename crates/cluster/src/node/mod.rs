//! A node, and its close. What its parts share is in [`shared`], how it is opened in [`opening`].

pub(crate) mod acceptance;
pub(crate) mod answer;
pub(crate) mod coordinator;
pub(crate) mod digest;
pub(crate) mod figures;
pub(crate) mod flushing;
pub(crate) mod maintenance;
mod objects;
pub(crate) mod opening;
pub(crate) mod overview;
mod pacer;
pub(crate) mod reconcile;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod statistics;
mod sweeping;
pub(crate) mod trimming;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll_base::tasks::Role;

use crate::documents::{Refresher, start_scrubbing};
use crate::following::{FollowingThread, Leading, Remotes};
use crate::metadata::PARTITIONS_MAX;
use crate::node::coordinator::Coordinator;
use crate::node::opening::Opening;
use crate::node::reconcile::Reconciler;
use crate::node::settings::{NodeSettings, OpenError, folder};
use crate::node::shared::Shared;

/// A node that is open. Dropping it stops it where it is: what is not flushed is replayed.
pub struct Node {
    shared: Arc<Shared>,
    maintenance: Option<Role>,
    flusher: Option<Role>,
    refresher: Option<Refresher>,
    scrubber: Option<Role>,
    reconciler: Option<Reconciler>,
    pacer: Option<Role>,
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
        let refresher = Refresher::start(&shared.world, &shared.tables)
            .map_err(folder(Path::new("refresh threads")))?;
        let scrubber =
            start_scrubbing(&shared.replication).map_err(folder(Path::new("scrub thread")))?;
        let maintenance = maintenance::start(&shared);
        let maintenance = maintenance.map_err(folder(Path::new("maintenance thread")))?;
        let flusher = flushing::start(&shared).map_err(folder(Path::new("flush thread")))?;
        let reconciler = Reconciler::start(&shared);
        let reconciler = reconciler.map_err(folder(Path::new("reconcile thread")))?;
        let pacer = pacer::start(&shared).map_err(folder(Path::new("pacing thread")))?;
        let (pacing, snapshots) =
            (Arc::clone(&shared.copies.pacing), Arc::clone(&shared.snapshots));
        let leading = Leading::new(Arc::clone(&shared.copies), pacing, snapshots);
        let leading = Arc::new(leading);
        Ok(Self {
            shared,
            leading,
            maintenance: Some(maintenance),
            flusher: Some(flusher),
            refresher: Some(refresher),
            scrubber: Some(scrubber),
            reconciler: Some(reconciler),
            pacer: Some(pacer),
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
        FollowingThread::start(&self.shared.copies, remotes, cluster_uuid)
    }

    /// What followers in other clusters are answered.
    #[must_use]
    pub fn leading(&self) -> Arc<Leading> {
        Arc::clone(&self.leading)
    }

    /// Waits until this node has to be closed and opened anew, and says why: the log went on without it while it
    /// stood still, or a store writes no files until it is opened. It answers what it can until then.
    pub fn reopening(&self) -> impl Future<Output = String> + Send + use<> {
        let told = self.shared.replication.reopening.clone();
        async move { told.told().await }
    }

    /// Makes everything durable and stops; blocks its thread between its waits. Requests still in flight end
    /// unknown.
    pub async fn close(mut self) {
        self.stop_chores();
        for partition in self.shared.tables.partitions() {
            if let Some(index) = partition.index() {
                index.close();
            }
        }
        flushing::flush_all(&self.shared).await;
    }

    fn stop_chores(&mut self) {
        self.shared.replication.is_stopping.store(true, Ordering::Relaxed);
        self.reconciler.take().into_iter().for_each(Reconciler::stop);
        self.refresher.take().into_iter().for_each(Refresher::stop);
        self.scrubber.take().into_iter().for_each(Role::end);
        self.maintenance.take().into_iter().for_each(Role::end);
        self.flusher.take().into_iter().for_each(Role::end);
        self.pacer.take().into_iter().for_each(Role::end);
        self.leading.stop();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop_chores();
        self.shared.replication.groups.close();
    }
}
