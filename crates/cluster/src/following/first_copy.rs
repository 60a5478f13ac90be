//! The first copy of a partition that follows: the files of a leader's replica, copied over the way to the
//! leader's cluster, and made into one that follows. The others of the partition are copied from it,
//! so that an ocean is crossed once. The metadata names one node for it, so that no two are made.
//!
//! Nobody has written to the partition before that copy serves: whatever the log has is not for it, and
//! it may begin wherever the log stands.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_base::tasks::Lost;
use plimsoll_log::Lsn;
use plimsoll_log::rules::chain::Position;
use plimsoll_storage::partition::{ApplyError, Replica};
use plimsoll_storage::rows::StoreError;

use super::remote::{LeaderTable, Remote, RemoteError};
use crate::copies::LocalCopies;
use crate::copies::error::NotServed;
use crate::metadata::follows::Follows;
use crate::recovery::{
    self, AlreadyRunning, CopyError, CopyOptions, InstallError, OfLeader, Recovery, Stage,
};
use crate::replication::tables::{Copies, Table};
use crate::wire::Link;

/// What the source of a copy is called that comes from another cluster, before that one's name:
/// Elasticsearch's, whose remote clusters are repositories of snapshots.
pub const REMOTE_SOURCE: &str = "_ccr_";

/// The least position that a copy begins at.
const FIRST_PLACE: Lsn = Lsn(2);
/// How long this cluster's log may take for a marker.
const MARKER_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a first copy is not here yet.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotBrought {
    /// Its table here is no more.
    #[error("the table was deleted")]
    Deleted,
    /// The leader's cluster does not say what its table is.
    #[error(transparent)]
    Leader(RemoteError),
    /// The leader's table went while it was copied.
    #[error(transparent)]
    LeaderGone(RemoteError),
    /// No node of the leader's is named that serves a copy.
    #[error("no copy of the leader's serves")]
    NoSource,
    /// Another attempt has not ended yet.
    #[error(transparent)]
    BeingMade(#[from] AlreadyRunning),
    /// What there is of it here cannot be opened.
    #[error(transparent)]
    Replica(#[from] ApplyError),
    /// The log here does not take the markers that it begins after.
    #[error("the log here takes no marker")]
    NoMarker,
    /// The leader's files did not come.
    #[error(transparent)]
    NotCopied(#[from] CopyError),
    /// The leader's files cannot be used.
    #[error(transparent)]
    NotInstalled(#[from] InstallError),
    /// What was to be done ended halfway.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The last node of the leader's that was tried does not give its copy.
    #[error("node {node} of {remote}: {why}")]
    Source {
        /// Its id.
        node: String,
        /// The leader's cluster, by its name here.
        remote: String,
        /// Why.
        #[source]
        why: Box<NotBrought>,
    },
    /// It was brought, and is gone again.
    #[error("the copy is not in its place")]
    NotInPlace,
    /// It is of no use: the partition has another.
    #[error("another copy serves by now")]
    ServedElsewhere,
    /// What there is of it is not served.
    #[error(transparent)]
    NotServed(#[from] NotServed),
}

impl NotBrought {
    /// Whether it stays so until somebody does something about it.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Leader(error) if error.is_final())
    }
}

/// Ends with a reason once a copy is of no use any more.
pub(super) type Gone<'a> = Pin<Box<dyn Future<Output = NotBrought> + Send + 'a>>;

/// Takes the leader's mapping over as it is then.
pub(super) type TakeMapping<'a> = &'a (dyn Fn() -> TakingMapping<'a> + Send + Sync);
pub(super) type TakingMapping<'a> =
    Pin<Box<dyn Future<Output = Result<(), RemoteError>> + Send + 'a>>;

/// What came of bringing a copy.
pub(super) struct Brought {
    /// What is told of the copying, where it was done now.
    pub recovery: Option<Arc<Recovery>>,
    /// Whether the mapping was taken over that the index which came along was made by.
    pub mapping: Result<(), RemoteError>,
}

/// Brings a leader's files into the place of this node's copy, unless they are there. Ends at once where it
/// is `gone`. The mapping is asked for once the files are here, while they are verified.
///
/// # Errors
/// Where it is not now; what was copied is gone on with the next time.
pub(super) async fn bring(
    here: &Arc<LocalCopies>,
    from: (&dyn Remote, &LeaderTable, &CopyOptions),
    follows: &Follows,
    (table, copies): (&Table, &Copies),
    (gone, take_mapping): (Gone<'_>, TakeMapping<'_>),
) -> Result<Brought, NotBrought> {
    let folders = here.folders(copies.id);
    if arrived(here, follows, copies, &folders.replica)?.is_some() {
        return Ok(Brought { recovery: None, mapping: take_mapping().await });
    }
    copy(here, from, follows, (table, copies), (gone, take_mapping)).await
}

/// Serves the copy that was brought. The table's mapping is at least the one that its index was made by.
///
/// # Errors
/// Where it is not now.
pub(super) async fn serve(
    here: &Arc<LocalCopies>,
    follows: &Follows,
    table: &Table,
    copies: &Copies,
) -> Result<(), NotBrought> {
    let folders = here.folders(copies.id);
    let arrived = arrived(here, follows, copies, &folders.replica)?;
    let mut replica = arrived.ok_or(NotBrought::NotInPlace)?;
    here.replication.take_up(copies.group).await.map_err(NotServed::from)?;
    let tail = here.replication.tails.get(&copies.group).ok_or(NotServed::UnknownGroup)?;
    replica.pass(tail.get().position());
    Ok(here.serve_copy(table, copies, replica).await?)
}

/// Where this cluster's log stands, and a copy begins. It is not at its very beginning, for which markers
/// are appended where nothing is: the index that comes along is given the position before it, and one
/// at 0 would be built anew.
async fn place(here: &LocalCopies, copies: &Copies) -> Result<Position, NotBrought> {
    here.replication.take_up(copies.group).await.map_err(NotServed::from)?;
    let unknown = || NotServed::UnknownGroup;
    let tail = here.replication.tails.get(&copies.group).ok_or_else(unknown)?;
    let barrier = here.replication.barriers.get(&copies.group).ok_or_else(unknown)?;
    while tail.applied() < FIRST_PLACE {
        let passed = barrier.pass(MARKER_TIMEOUT).await;
        passed.map_err(|_| NotBrought::NoMarker)?;
    }
    Ok(tail.get().position())
}

/// The copy that is in its place already, if it follows what it should.
fn arrived(
    here: &LocalCopies,
    follows: &Follows,
    copies: &Copies,
    dir: &Path,
) -> Result<Option<Replica>, ApplyError> {
    if !Replica::is_in(dir, &here.replication.resources) {
        return Ok(None);
    }
    let (incarnation, begin) = (here.replication.log.incarnation(), copies.definition().begin());
    let opened = Replica::open(copies.id, dir, &here.replication.resources, incarnation, begin);
    let opened = match opened {
        // It was deleted meanwhile, files and all.
        Err(_) if here.tables.copies(copies.id).is_none() => return Ok(None),
        // It is copied once more.
        Err(ApplyError::Store(StoreError::Damaged(why))) => {
            tracing::error!(partition = %copies.id, why, "the rows are damaged");
            return Ok(None);
        }
        opened => opened?,
    };
    let leader = follows.partition(copies.id.ordinal);
    let is_same = |it: &plimsoll_storage::partition::Leader| {
        it.partition == leader && it.position.incarnation == follows.log()
    };
    let is_of_this_log = opened.stamp().incarnation == incarnation;
    Ok((is_of_this_log && opened.leader().is_some_and(is_same)).then_some(opened))
}

/// Copies the files from the first of the leader's nodes that gives them.
async fn copy(
    here: &Arc<LocalCopies>,
    from: (&dyn Remote, &LeaderTable, &CopyOptions),
    follows: &Follows,
    (table, copies): (&Table, &Copies),
    (mut gone, take_mapping): (Gone<'_>, TakeMapping<'_>),
) -> Result<Brought, NotBrought> {
    let (remote, leader, options) = from;
    let ordinal = copies.id.ordinal;
    let partition = follows.partition(ordinal);
    let nodes = leader.partitions.get(ordinal as usize).map(|it| it.nodes.as_slice());
    let mut why = NotBrought::NoSource;
    for node in nodes.unwrap_or_default() {
        let way = (here.members.record.name.as_str(), node.as_str());
        let link = Link::new(remote.files(), way, follows.log(), here.world.time.clone());
        let source = format!("{REMOTE_SOURCE}{}", follows.remote);
        let recovery = here.recoveries.begin(copies.id, &source)?;
        let folders = here.folders(copies.id);
        let copied = tokio::select! {
            biased;
            copied = recovery::copy(&link, partition, &folders, options, &recovery) => copied,
            why = &mut gone => {
                recovery.fail(&why.to_string());
                return Err(why);
            }
        };
        let installed = match copied {
            Ok(copied) => {
                recovery.enter(Stage::Translog);
                let (resources, incarnation) =
                    (Arc::clone(&here.replication.resources), here.replication.log.incarnation());
                let position = place(here, copies).await;
                let position = position.inspect_err(|error| recovery.fail(&error.to_string()))?;
                let of = OfLeader { partition, log: follows.log(), position };
                let is_index = table.is_index();
                // All rows are read for that: beside this thread.
                let install =
                    move || copied.install_follower(&resources, incarnation, of, is_index);
                let install = here.world.tasks.blocking(install);
                let (installed, mapping) = tokio::join!(install, take_mapping());
                match installed {
                    Ok(Ok(_)) => Ok(mapping),
                    Ok(Err(error)) => Err(NotBrought::from(error)),
                    Err(error) => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        };
        match installed {
            Ok(mapping) => {
                recovery.enter(Stage::Finalize);
                return Ok(Brought { recovery: Some(recovery), mapping });
            }
            Err(error) => {
                recovery.fail(&error.to_string());
                let (node, remote) = (node.clone(), follows.remote.clone());
                why = NotBrought::Source { node, remote, why: Box::new(error) };
            }
        }
    }
    Err(why)
}
