//! What an applier is begun with and asked for, and what it answers.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use plimsoll_base::World;
use plimsoll_base::random::Draws;
use plimsoll_log::rules::chain::{Chain, Position};
use plimsoll_log::{GroupId, Log, PartitionId};
use plimsoll_storage::partition::{ApplyError, Replica};
use tokio::sync::oneshot;

use crate::metadata::trim_notes::LastRecords;
use crate::metadata::version::ClusterVersion;
use crate::replication::catch_up::CatchUpError;
use crate::replication::digest::{Digest, DigestError};
use crate::replication::partition::Partition;
use crate::replication::reopening::Reopening;
use crate::replication::tail::GroupTail;

/// What is asked of an applier beside the log.
pub(super) enum Command {
    Add(Box<Replica>, Arc<Partition>, oneshot::Sender<Added>),
    Remove(PartitionId, oneshot::Sender<()>),
    NoteDocuments(PartitionId, oneshot::Sender<()>),
    Digest(PartitionId, oneshot::Sender<Result<Digest, DigestError>>),
    Mark(oneshot::Sender<Option<Mark>>),
    Leave(oneshot::Sender<Option<Mark>>),
}

/// What became of a replica that was handed to an applier.
pub(crate) enum Added {
    /// It is served.
    Served,
    /// It is too far behind the group to be brought forward in passing.
    Behind(Box<Replica>),
    /// It cannot be served.
    Refused(NotAdded),
}

/// Why an applier does not take a replica.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAdded {
    /// It takes none any more: another has to be begun.
    #[error("the group is not read here any more")]
    GroupLeft,
    /// The little that it lacks of the log cannot be made up for.
    #[error(transparent)]
    CatchUp(#[from] CatchUpError),
    /// Where it stands cannot be written into it.
    #[error("it cannot be stamped: {0}")]
    Stamp(#[source] ApplyError),
}

/// How far the group is: what may be trimmed once the stores are flushed.
pub(crate) struct Mark {
    /// The position of the group's chain.
    pub position: Position,
    /// Each replica's partition and the position that its stamp names.
    pub replicas: Vec<(Arc<Partition>, Position)>,
    /// Where the last records up to the position are.
    pub last: LastRecords,
}

/// A group as its applier begins with it.
pub(crate) struct GroupStart {
    pub group: GroupId,
    pub chain: Chain,
    pub tail: Arc<GroupTail>,
    pub replicas: Vec<(Replica, Arc<Partition>)>,
    /// What was seen of the group before, or that nothing was.
    pub last: LastRecords,
}

/// What the appliers of a node share.
#[derive(Clone)]
pub(crate) struct ApplierContext {
    pub log: Arc<dyn Log>,
    /// Bytes of records that all of them have taken.
    pub applied_bytes: Arc<AtomicU64>,
    pub version: Arc<ClusterVersion>,
    pub reopening: Reopening,
    pub world: World,
    /// What reads that pick at random go by.
    pub chance: Arc<Draws>,
}
