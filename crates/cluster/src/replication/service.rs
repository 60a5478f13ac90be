//! The service: what a node has of its log, and the waits that reads and trimming ask it for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::World;
use plimsoll_log::shared::Holder;
use plimsoll_log::{GroupId, LeadId, Log, LogError, Lsn};
use plimsoll_storage::partition::{Replica, Resources};

use crate::machine::room::Room;
use crate::metadata::members::Members;
use crate::metadata::version::ClusterVersion;
use crate::replication::barrier::Barrier;
use crate::replication::clock::OwnClock;
use crate::replication::durable::Durable;
use crate::replication::groups::HeldGroups;
use crate::replication::lead::Lead;
use crate::replication::partition::Partition;
use crate::replication::reopening::Reopening;
use crate::replication::session::SessionPool;
use crate::replication::tables::{Copies, Tables};
use crate::replication::tail::GroupTail;
use crate::wire::Freshness;

/// The log of a node, and the replicas there that follow it.
pub(crate) struct Replication {
    pub world: World,
    pub log: Arc<dyn Log>,
    /// Lets other processes use the log, where it does.
    pub _holder: Option<Holder>,
    /// Nobody else appends to the log: what is applied here is all that was acknowledged.
    pub is_alone: bool,
    /// This node's clock.
    pub clock: Arc<OwnClock>,
    pub resources: Arc<Resources>,
    /// The room on the disk.
    pub room: Arc<Room>,
    pub metadata: Arc<Partition>,
    /// As the metadata has them.
    pub members: Arc<Members>,
    pub tables: Arc<Tables>,
    pub sessions: Arc<SessionPool>,
    /// The log groups that are read here.
    pub groups: Arc<HeldGroups>,
    /// Bytes of records that the appliers have taken.
    pub applied_bytes: Arc<AtomicU64>,
    /// The lead of every partition here.
    pub lead: LeadId,
    /// How far each group was applied here; of one that is not read, where that ended.
    pub tails: BTreeMap<GroupId, Arc<GroupTail>>,
    pub barriers: BTreeMap<GroupId, Barrier>,
    /// What this node needs no more of the log, as its beats say.
    pub durable: Mutex<Durable>,
    pub version: Arc<ClusterVersion>,
    /// Whether this node has to be opened anew.
    pub reopening: Reopening,
    pub is_stopping: Arc<AtomicBool>,
}

impl Replication {
    /// Whether there is too little room on the disk for what makes the store larger.
    pub(crate) fn is_room_low(&self) -> bool {
        if self.room.is_look_due(self.applied_bytes.load(Ordering::Relaxed)) {
            self.room.measure(self.resources.write_buffers().0 as u64);
        }
        self.room.is_low()
    }

    pub(crate) fn trim(&self, group: GroupId, up_to: Lsn) -> Result<(), LogError> {
        self.log.trim(group, up_to)
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

    /// Waits until this node has applied a group so far; says whether it has in time.
    pub(crate) async fn comes_to_be(
        &self,
        freshness: Freshness,
        group: GroupId,
        timeout: Duration,
    ) -> bool {
        match freshness {
            Freshness::Strong => self.pass_barrier(group, timeout).await,
            Freshness::AtLeast(lsn) => match self.tails.get(&group) {
                Some(tail) => {
                    // Nearly always it has already: no timer is set for that.
                    tail.applied() >= Lsn(lsn)
                        || self.world.time.timeout(timeout, tail.reached(Lsn(lsn))).await.is_ok()
                }
                None => false,
            },
            Freshness::Eventual => true,
        }
    }

    /// A position of a group after everything that a reader may have seen of it here.
    pub(crate) fn seen(&self, group: GroupId) -> Lsn {
        self.tails.get(&group).map_or(Lsn(0), |tail| tail.seen())
    }

    /// Log time of a group as far as this node knows it: of one that it does not read, that of the metadata,
    /// to which every node appends each second.
    pub(crate) fn log_time_ms(&self, group: GroupId) -> u64 {
        let applied = self.tails.get(&group).map_or(0, |tail| tail.get().log_time_ms);
        applied.max(self.metadata.log_time_ms())
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
