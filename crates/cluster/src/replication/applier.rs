//! The applier of one log group: a role that reads the group's log in order, keeps its chain, and
//! brings the replicas forward. It answers the clients whose records it applies.
//!
//! Each group that the node reads has a role, and so a thread, of its own, so a store that stops or is slow holds up
//! its own group and no other, least of all the metadata. Which groups are read is decided in
//! `groups/`.
//!
//! A replica that cannot go on (a full disk) holds its thread at that record, named in its
//! fault, and is tried again; a chain fault stops the group for good.

mod commands;
mod group;
mod replies;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_base::tasks::Role;
use plimsoll_log::{GroupId, LogError, PartitionId};
use plimsoll_storage::partition::Replica;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::replication::digest::{Digest, DigestError};
use crate::replication::partition::Partition;
use commands::Command;
pub(crate) use commands::{Added, ApplierContext, GroupStart, Mark, NotAdded};
use group::Group;
use worker::Worker;

/// Commands that may wait for it.
const COMMANDS_MAX: usize = 64;
/// How long a mark is waited for: a thread that stands still holds up nobody who flushes other groups.
const MARK_TIMEOUT: Duration = Duration::from_secs(5);

/// The handle of an applier.
pub(crate) struct Applier {
    commands: mpsc::Sender<Command>,
    has_left: Arc<AtomicBool>,
    time: Time,
    role: Mutex<Option<Role>>,
}

impl Applier {
    /// Begins; it reads the group from after its chain on.
    pub(crate) fn start(context: &ApplierContext, start: GroupStart) -> Result<Self, LogError> {
        let name = role_name(start.group);
        let reader = context.log.read(&[(start.group, start.chain.position().lsn.next())])?;
        let (commands, received) = mpsc::channel(COMMANDS_MAX);
        let (group, has_left) = (Group::new(start), Arc::<AtomicBool>::default());
        let (world, left) = (context.world.clone(), Arc::clone(&has_left));
        let context = context.clone();
        let role = world.tasks.role(&name, move |stopping| {
            Worker::new(context, reader, group, received, left, stopping).run_until_stopped()
        });
        let role = role.map_err(|error| LogError::Failed(error.to_string()))?;
        Ok(Self { commands, has_left, time: world.time, role: Mutex::new(Some(role)) })
    }

    /// Whether it takes no replica any more: it was told so ([`Self::leave`]), or the log was trimmed past
    /// it while it brought none forward. Another has to begin where the log does now.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// Hands a replica to it, and waits until it is served or given back.
    pub(crate) async fn add(&self, replica: Box<Replica>, partition: Arc<Partition>) -> Added {
        let (done, added) = oneshot::channel();
        let stopping = || Added::Refused(NotAdded::GroupLeft);
        match self.try_send(Command::Add(replica, partition, done)) {
            Ok(()) => added.await.unwrap_or_else(|_| stopping()),
            Err(TrySendError::Full(Command::Add(replica, ..))) => Added::Behind(replica),
            Err(_) => stopping(),
        }
    }

    /// Takes a replica out: what the log still holds for it is passed over.
    pub(crate) async fn remove(&self, id: PartitionId) -> bool {
        let (done, removed) = oneshot::channel();
        self.try_send(Command::Remove(id, done)).is_ok() && removed.await.is_ok()
    }

    /// Has a replica note which documents change from now on.
    pub(crate) async fn note_documents(&self, id: PartitionId) -> bool {
        let (done, noting) = oneshot::channel();
        self.try_send(Command::NoteDocuments(id, done)).is_ok() && noting.await.is_ok()
    }

    /// What a replica contains at the position that its group has then.
    pub(crate) async fn digest(&self, id: PartitionId) -> Result<Digest, DigestError> {
        let (done, told) = oneshot::channel();
        self.try_send(Command::Digest(id, done)).map_err(|_| DigestError::Busy)?;
        told.await.unwrap_or(Err(DigestError::Waits))
    }

    /// Stamps every replica, and says where they stand; none where that cannot be said now.
    pub(crate) async fn mark(&self) -> Option<Mark> {
        let (done, marked) = oneshot::channel();
        self.try_send(Command::Mark(done)).ok()?;
        self.time.timeout(MARK_TIMEOUT, marked).await.ok()?.ok()?
    }

    /// Has it take no replica any more, where it has none, and says where the group stands.
    pub(crate) async fn leave(&self) -> Option<Mark> {
        let (done, left) = oneshot::channel();
        self.try_send(Command::Leave(done)).ok()?;
        self.time.timeout(MARK_TIMEOUT, left).await.ok()?.ok()?
    }

    /// Ends it after what it is doing. A node's blocks its caller meanwhile.
    pub(crate) async fn stop(&self) {
        let role = self.role.lock().take();
        if let Some(role) = role {
            role.stop().await;
        }
    }

    /// The same of one that is not waited for where it has no thread.
    pub(crate) fn end(&self) {
        let role = self.role.lock().take();
        role.into_iter().for_each(Role::end);
    }

    /// Has it end; several end at once so.
    pub(crate) fn begin_to_stop(&self) {
        self.role.lock().iter().for_each(Role::tell_to_stop);
    }

    fn try_send(&self, command: Command) -> Result<(), TrySendError<Command>> {
        self.commands.try_send(command)
    }
}

/// At most 15 bytes: the system keeps no more.
fn role_name(group: GroupId) -> String {
    if group == crate::metadata::GROUP {
        return "apply-metadata".to_owned();
    }
    format!("apply-{group}")
}
