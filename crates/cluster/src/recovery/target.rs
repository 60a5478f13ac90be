//! The node that is copied to. A checkpoint is gathered beside the replica, by as many attempts as
//! that takes, and takes its place once it is whole, was opened, and is this node's own.
//!
//! An attempt asks one source, and goes on with it through lost answers, damaged bytes, cuts of a
//! minute and restarts of it, within bounds; then it ends with an error that says whether to ask another.

use std::io;
use std::sync::Arc;

use plimsoll_control::Random;
use plimsoll_index::partition::PartitionIndex;
use plimsoll_log::rules::chain::Position;
use plimsoll_log::{Incarnation, Lsn, PartitionId};
use plimsoll_storage::partition::{ApplyError, Replica, Resources, ToIndex};
use plimsoll_storage::rows::StoreError;

use super::asking::{Asking, Offer, Told};
use super::folders::Folders;
use super::options::{CopyError, CopyOptions};
use super::progress::{Recovery, Stage};
use super::reuse::{self, Verified};
use super::transfer::{Ended, Transfer};
use crate::wire::{CopyFile, FileKind, Link};

/// What comparing a byte with its checksum counts beside copying one, the reciprocal of the part.
const VERIFIED_PART: u64 = 32;

/// Why a whole copy cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    /// Its rows cannot be opened or written.
    #[error("the copy cannot be opened: {0}")]
    Unreadable(#[from] ApplyError),
    /// It was brought forward from another log.
    #[error("the copy holds rows of log {found}, the log here is {expected}")]
    OtherLog {
        /// The copy's.
        found: Incarnation,
        /// The one here.
        expected: Incarnation,
    },
    /// It does not stand where the source said.
    #[error("the copy stands at {found:?}, the source said {expected} or later")]
    Misplaced {
        /// Where it stands.
        found: Option<Lsn>,
        /// Where it should be, at least.
        expected: Lsn,
    },
    /// Its rows are damaged, and were so at the source: nothing of them is kept. Ask another.
    #[error("the copy is damaged: {0}")]
    Damaged(String),
    /// It cannot be put in the replica's place.
    #[error("the copy cannot be put in its place: {0}")]
    Disk(#[from] io::Error),
}

/// A leader's replica in another cluster, which a copy is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfLeader {
    /// The partition's name there.
    pub partition: PartitionId,
    /// The leader's log.
    pub log: Incarnation,
    /// Where this cluster's log stands: the copy is given what comes after.
    pub position: Position,
}

/// A checkpoint that is here, whole and durable, but not in its place.
pub(crate) struct Copied {
    /// Its name at the source.
    partition: PartitionId,
    folders: Folders,
    /// Held, so that nobody else copies into the folder.
    _recovery: Arc<Recovery>,
    /// It contains the log at least up to here.
    pub lsn: Lsn,
    /// Up to where the index has its documents, where one came with the rows.
    indexed: Option<Lsn>,
}

/// Copies a checkpoint of a partition from the node that `link` leads to, up to where
/// [`Copied::install`] may follow. Dropping the future gives the attempt up; what is on the disk is
/// gone on with by the next, from this source or another.
///
/// # Errors
/// [`CopyError`] says whether to ask another.
pub(crate) async fn copy(
    link: &Link,
    partition: PartitionId,
    folders: &Folders,
    options: &CopyOptions,
    recovery: &Arc<Recovery>,
) -> Result<Copied, CopyError> {
    let mut random = Random::new(options.seed);
    let asking = Asking::new(link, partition, options, recovery);
    let mut verified = Verified::default();
    let mut fruitless = 0;
    loop {
        let mut offer = asking.open(&mut random).await?;
        let compared = in_question(folders, &offer.listing.files, &verified, recovery).await?;
        let mut has_progressed = false;
        let mut is_gone = false;
        match asking.checksums(&offer.listing, &compared, &mut random).await? {
            Told::Gone => is_gone = true,
            Told::Answer(checksums) => {
                for (place, checksum) in compared.into_iter().zip(checksums) {
                    offer.listing.files[place].checksum = Some(checksum);
                }
            }
        }
        if !is_gone {
            let there = prepare(folders, &offer.listing.files, &verified, recovery).await?;
            recovery.planned(offer.listing.files.iter().zip(there.iter().copied()));
            recovery.enter(Stage::Index);
            let mut transfer = Transfer::new(&asking, &offer, there, folders, recovery);
            let ended = transfer.run().await?;
            transfer.note_whole(&mut verified);
            match ended {
                Ended::Whole => break finish(&asking, offer, folders, recovery).await,
                Ended::Gone { has_progressed: progressed } => has_progressed = progressed,
            }
        }
        fruitless = if has_progressed { 1 } else { fruitless + 1 };
        if fruitless >= options.attempts_max {
            let last = "it forgets its checkpoints".to_owned();
            return Err(CopyError::GivenUp { attempts: fruitless, last });
        }
        recovery.world.time.sleep(options.pause(fruitless, &mut random)).await;
    }
}

/// Makes sure of what was copied, and lets the source's checkpoint go.
async fn finish(
    asking: &Asking<'_>,
    offer: Offer,
    folders: &Folders,
    recovery: &Arc<Recovery>,
) -> Result<Copied, CopyError> {
    let (number, lsn) = (offer.listing.number, Lsn(offer.listing.lsn));
    let indexed = offer.listing.indexed.map(Lsn);
    let complete = folders.clone();
    let files = offer.listing.files;
    let rows = files.iter().filter(|file| file.kind == FileKind::Rows);
    let rows_bytes: u64 = rows.map(|file| file.bytes).sum();
    blocking(recovery, move || reuse::complete(&complete, &files)).await?;
    asking.close(number);
    // Before it is installed, where that must not be waited for: its rows are compared then.
    keep_pace(asking.options, recovery, rows_bytes / VERIFIED_PART).await;
    let (folders, partition) = (folders.clone(), asking.partition());
    Ok(Copied { partition, folders, _recovery: Arc::clone(recovery), lsn, indexed })
}

impl Copied {
    /// Up to where the index that came with the rows has its documents.
    #[cfg(test)]
    pub(crate) fn indexed(&self) -> Option<Lsn> {
        self.indexed
    }

    /// Opens the copy, compares its rows with their checksums, makes it this node's own, and puts it
    /// in the replica's place, with the index that came along where `has_documents`: the old replica
    /// and its index must be closed, and are deleted. `incarnation` is the log here. It stands at the
    /// position returned, and is opened as any replica. Blocks.
    ///
    /// # Errors
    /// The old replica is as it was.
    pub(crate) fn install(
        self,
        resources: &Resources,
        incarnation: Incarnation,
        has_documents: bool,
    ) -> Result<Position, InstallError> {
        self.install_as(resources, incarnation, None, has_documents)
    }

    /// The same of a leader's replica: the copy follows it from its place on.
    ///
    /// # Errors
    /// The old replica is as it was.
    pub(crate) fn install_follower(
        self,
        resources: &Resources,
        incarnation: Incarnation,
        leader: OfLeader,
        has_documents: bool,
    ) -> Result<Position, InstallError> {
        self.install_as(resources, incarnation, Some(leader), has_documents)
    }

    fn install_as(
        self,
        resources: &Resources,
        incarnation: Incarnation,
        leader: Option<OfLeader>,
        has_documents: bool,
    ) -> Result<Position, InstallError> {
        let nowhere = Position { lsn: Lsn(0), hash: 0, log_time_ms: 0 };
        let dir = &self.folders.incoming;
        let opened = Replica::open_idle(self.partition, dir, resources, incarnation, nowhere);
        let verified = opened.and_then(|replica| {
            replica.store().verify()?;
            Ok(replica)
        });
        let mut replica = match verified {
            Err(ApplyError::Store(StoreError::Damaged(why))) => {
                self.folders.disk.remove_dir(dir)?;
                return Err(InstallError::Damaged(why));
            }
            verified => verified?,
        };
        let found = replica.stamp();
        if replica.is_new() || found.position.lsn < self.lsn {
            let found = (!replica.is_new()).then_some(found.position.lsn);
            return Err(InstallError::Misplaced { found, expected: self.lsn });
        }
        let expected = leader.map_or(incarnation, |leader| leader.log);
        if found.incarnation != expected {
            return Err(InstallError::OtherLog { found: found.incarnation, expected });
        }
        let to_index = self.to_index(&replica, has_documents)?;
        let position = match leader {
            None => replica.adopt(to_index).map_err(ApplyError::Store)?,
            Some(OfLeader { partition, log, position }) => {
                let at = (incarnation, position);
                let adopted = replica.adopt_leader((partition, log), at, to_index);
                adopted.map_err(ApplyError::Store)?;
                // What it lacks is touched at that position here.
                let before = position.lsn.0.saturating_sub(1);
                let incoming = self.folders.incoming_of(FileKind::Index);
                PartitionIndex::set_position(&self.folders.disk, &incoming, before)
                    .map_err(io::Error::other)?;
                position
            }
        };
        replica.store().flush().map_err(ApplyError::Store)?;
        drop(replica);
        self.folders.disk.sync_dir(dir)?;
        self.folders.swap()?;
        match to_index {
            ToIndex::After(indexed) => {
                let partition = self.partition;
                tracing::info!(%partition, %indexed, "the index came with the rows");
            }
            ToIndex::All => {
                tracing::info!(partition = %self.partition, "the rows came without an index");
            }
            ToIndex::Nothing => {}
        }
        Ok(position)
    }

    /// Which documents the index here is to take in. An index that came along and is of no use is
    /// deleted. Whether its files are whole is seen when it is opened.
    fn to_index(&self, replica: &Replica, has_documents: bool) -> io::Result<ToIndex> {
        let held = replica.stamp().position.lsn;
        let is_usable = has_documents && replica.notes_documents();
        match self.indexed {
            Some(indexed) if is_usable && indexed > Lsn(0) && indexed <= held => {
                Ok(ToIndex::After(indexed))
            }
            _ => {
                self.folders.drop_incoming_index()?;
                Ok(if has_documents { ToIndex::All } else { ToIndex::Nothing })
            }
        }
    }
}

/// Waits until the pace of the node's background work allows so many bytes.
async fn keep_pace(options: &CopyOptions, recovery: &Recovery, bytes: u64) {
    let wait = || options.pace.as_ref().map(|pace| pace(bytes));
    while let Some(wait) = wait().filter(|wait| !wait.is_zero()) {
        recovery.world.time.sleep(wait).await;
    }
}

async fn in_question(
    folders: &Folders,
    files: &[CopyFile],
    verified: &Verified,
    recovery: &Arc<Recovery>,
) -> io::Result<Vec<usize>> {
    let (folders, files, verified) = (folders.clone(), files.to_vec(), verified.clone());
    blocking(recovery, move || reuse::in_question(&folders, &files, &verified)).await
}

async fn prepare(
    folders: &Folders,
    files: &[CopyFile],
    verified: &Verified,
    recovery: &Arc<Recovery>,
) -> io::Result<Vec<u64>> {
    let (folders, files, verified) = (folders.clone(), files.to_vec(), verified.clone());
    blocking(recovery, move || reuse::prepare(&folders, &files, &verified)).await
}

/// Runs what blocks. The copy does not end before it, whoever waits.
async fn blocking<T: Send + 'static>(
    recovery: &Arc<Recovery>,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let recovery = Arc::clone(recovery);
    let tasks = recovery.world.tasks.clone();
    let done = tasks.begin_blocking("files of a copy", move || {
        let done = work();
        drop(recovery);
        done
    });
    done.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
