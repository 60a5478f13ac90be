//! This node's copies as other nodes ask for them: whether one serves, and is as fresh as they want it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_log::PartitionId;

use super::Router;
use crate::replication::partition::Partition;
use crate::replication::tables::Copies;
use crate::wire::{Freshness, Problem};

/// How long a question waited for the log: no work of the node's.
#[derive(Default)]
pub(crate) struct Waits {
    ns: AtomicU64,
}

impl Waits {
    /// So long, ns.
    pub(crate) fn ns(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }
}

impl Router {
    /// This node's copies of a partition, by its name.
    pub(crate) fn copies_named(&self, id: PartitionId) -> Result<Arc<Copies>, Problem> {
        let copies = self.tables.copies(id);
        copies.ok_or_else(|| Problem::NotHere("the node does not know the partition".to_owned()))
    }

    /// This node's copy of a partition, if it serves one.
    pub(crate) fn serving_here(&self, id: PartitionId) -> Result<Arc<Partition>, Problem> {
        let local = self.copies_named(id)?.local().filter(|partition| partition.fault().is_none());
        local.ok_or_else(|| Problem::NotHere("the node does not serve the partition".to_owned()))
    }

    /// The same, once it is as fresh as asked for.
    pub(crate) async fn fresh(
        &self,
        id: PartitionId,
        freshness: Freshness,
        timeout: Duration,
        waits: &Waits,
    ) -> Result<Arc<Partition>, Problem> {
        let time = &self.world.time;
        let began = time.now();
        let local = self.serving_here(id)?;
        let group = self.copies_named(id)?.group;
        let is_fresh = self.replication.comes_to_be(freshness, group, timeout).await;
        waits.ns.fetch_add(time.now().0 - began.0, Ordering::Relaxed);
        // Where apply stopped meanwhile, the group goes on without the partition.
        if is_fresh && local.fault().is_none() {
            return Ok(local);
        }
        Err(Problem::Behind("the copy is behind its log".to_owned()))
    }
}
