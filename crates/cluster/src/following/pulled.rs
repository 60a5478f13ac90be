//! A partition that this node pulls.

use std::sync::Arc;

use plimsoll_log::PartitionId;
use plimsoll_storage::partition::leader_of;

use crate::replication::partition::Partition;
use crate::replication::tables::Table;

/// A partition that this node pulls.
#[derive(Clone)]
pub(super) struct Pulled {
    /// Its name in the leader's cluster.
    pub leader: PartitionId,
    /// The table here.
    pub table: Arc<Table>,
    /// The copy here.
    pub local: Arc<Partition>,
}

/// Whether a copy was being levelled when it stopped.
pub(super) fn is_cut_off(pulled: &Pulled) -> bool {
    let leader = leader_of(&pulled.local.store);
    leader.is_ok_and(|leader| leader.is_some_and(|it| it.levelling.is_some()))
}
