//! A group as its applier keeps it: the chain, the replicas that it brings forward, and where each
//! partition has its last record. What is read, and when, is the thread's (`worker.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_base::Time;
use plimsoll_log::rules::chain::{Chain, Position};
use plimsoll_log::{GroupId, Log, Lsn, PartitionId};
use plimsoll_storage::partition::{OverBudget, Replica};

use super::commands::{Added, GroupStart, Mark, NotAdded};
use crate::metadata::trim_notes::LastRecords;
use crate::replication::catch_up::{CatchUp, CatchUpError};
use crate::replication::digest::{Digest, DigestError};
use crate::replication::partition::Partition;
use crate::replication::tail::{GroupTail, Tail};

/// How many positions of the log a new replica may lack for its applier to make up for them itself.
const GAP_RECORDS_MAX: u64 = 1024;

/// The group's chain and replicas.
pub(super) struct Group {
    pub id: GroupId,
    pub chain: Chain,
    pub tail: Arc<GroupTail>,
    pub replicas: BTreeMap<PartitionId, (Replica, Arc<Partition>)>,
    /// The partitions of all replicas, also of one that is out of its place for apply.
    pub partitions: Vec<Arc<Partition>>,
    pub last: LastRecords,
    pub fault: Option<String>,
}

impl Group {
    pub(super) fn new(start: GroupStart) -> Self {
        let partitions =
            start.replicas.iter().map(|(_, partition)| Arc::clone(partition)).collect();
        let replicas = start
            .replicas
            .into_iter()
            .map(|(replica, partition)| (replica.id(), (replica, partition)));
        let group = Self {
            id: start.group,
            chain: start.chain,
            tail: start.tail,
            replicas: replicas.collect(),
            partitions,
            last: start.last,
            fault: None,
        };
        group.publish();
        group
    }

    /// Takes a replica in: from here on every mark includes it. What it lacks of the log is made
    /// up for now, where that is little.
    pub(super) async fn add(
        &mut self,
        (log, time): (&dyn Log, &Time),
        mut replica: Box<Replica>,
        partition: Arc<Partition>,
        over: OverBudget,
    ) -> Added {
        let (held, position) = (replica.stamp().position, self.chain.position());
        if position.lsn.0.saturating_sub(held.lsn.0) > GAP_RECORDS_MAX {
            return Added::Behind(replica);
        }
        if held.lsn < position.lsn {
            let caught_up = match CatchUp::begin(log, self.id, &replica) {
                Ok(mut it) => it.run(time, &mut replica, position.lsn, over, &|| false).await,
                Err(error) => Err(error),
            };
            match caught_up {
                Ok(()) => {}
                // Whoever brings it forward finds that out and has it copied.
                Err(CatchUpError::Trimmed(_)) => return Added::Behind(replica),
                Err(error) => return Added::Refused(error.into()),
            }
        }
        if let Err(error) = replica.mark() {
            return Added::Refused(NotAdded::Stamp(error));
        }
        partition.counted(&replica.stamp(), replica.log_time_ms());
        if let Some(fault) = &self.fault {
            partition.halt(fault);
        }
        self.partitions.push(Arc::clone(&partition));
        self.replicas.insert(replica.id(), (*replica, partition));
        Added::Served
    }

    pub(super) fn remove(&mut self, id: PartitionId) {
        self.replicas.remove(&id);
        self.partitions.retain(|partition| partition.id != id);
    }

    pub(super) fn note_documents(&mut self, id: PartitionId) -> bool {
        let Some((replica, _)) = self.replicas.get_mut(&id) else { return false };
        let noted = replica.set_documents(true);
        noted.inspect_err(|error| tracing::error!(partition = %id, %error, "not indexed")).is_ok()
    }

    pub(super) fn digest(&mut self, id: PartitionId) -> Result<Digest, DigestError> {
        let position = self.chain.position();
        let (replica, partition) = self.replicas.get_mut(&id).ok_or(DigestError::NotServed)?;
        if let Some(fault) = partition.fault() {
            return Err(DigestError::Fault(fault));
        }
        // Nothing of it is between its last record and here: all copies can say so.
        replica.pass(position);
        let digests = replica.digests()?;
        let (digest, content) = (digests.of_all, Some(digests.of_content));
        Ok(Digest { lsn: position.lsn.0, hash: position.hash, digest, content })
    }

    pub(super) fn publish(&self) {
        let log_time_ms = self.chain.position().log_time_ms;
        self.tail.publish(Tail { anchor: self.chain.anchor(), log_time_ms });
    }

    pub(super) fn stop(&mut self, fault: &str) {
        tracing::error!(fault, "apply of a log group stops");
        for partition in &self.partitions {
            partition.halt(fault);
        }
        self.fault = Some(fault.to_owned());
        self.tail.stop();
    }

    /// Stamps every replica, and says where they stand.
    pub(super) fn mark(&mut self) -> Mark {
        let position = self.chain.position();
        let mut replicas = Vec::new();
        for (replica, partition) in self.replicas.values_mut() {
            // A partition that has stopped stays where it is, and keeps its part of the log.
            if partition.fault().is_none() {
                replica.pass(position);
            }
            match replica.mark() {
                Ok(position) => replicas.push((Arc::clone(partition), position)),
                Err(error) => {
                    tracing::warn!(partition = %replica.id(), %error, "a replica cannot be stamped");
                    let unmoved = Position { lsn: Lsn(0), hash: 0, log_time_ms: 0 };
                    replicas.push((Arc::clone(partition), unmoved));
                }
            }
        }
        Mark { position, replicas, last: self.last.clone() }
    }
}
