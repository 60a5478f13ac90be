//! The node's chores, one role: rows that have expired are swept (`sweeping`), checkpoints that nobody
//! fetches go, so do cached rows that were removed, and the disk is looked at. When rows go to files is `flushing`'s.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use plimsoll_base::Time;
use plimsoll_base::tasks::{Role, Stopping};
use plimsoll_base::time::Instant;
use plimsoll_log::PartitionId;
use plimsoll_storage::rows::StoreError;

use crate::node::shared::Shared;
use crate::node::sweeping::Sweeps;
use crate::replication::partition::Partition;
use crate::replication::session::ClientSession;

/// How often chores are looked for.
const INTERVAL: Duration = Duration::from_millis(250);
/// How soon again sweeps are looked at while there is something to sweep.
const SWEEP_INTERVAL: Duration = Duration::from_millis(1);
/// How soon again stores are tried that could not write their files.
const RESUME_INTERVAL: Duration = Duration::from_secs(2);
/// A store that failed for so long though there was room is given up: RocksDB goes on after a full disk, but not after
/// every error, and not where it could open no file. Its copy is made anew from another; without one, the node is
/// opened anew.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(60);
/// A node runs for so long before it is opened anew for a store's sake: what fails may do so again.
const REOPEN_AFTER: Duration = Duration::from_secs(600);
/// What is to be free beside a store's rows for it to be tried again, bytes.
const RESUME_FREE_BYTES: u64 = 4 << 20;

/// Begins the role.
pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Role> {
    let (weak, session) = (Arc::downgrade(shared), shared.replication.sessions.session());
    let time = shared.world.time.clone();
    shared.world.tasks.role("maintenance", move |stopping| run(weak, time, stopping, session))
}

async fn run(shared: Weak<Shared>, time: Time, mut stopping: Stopping, session: ClientSession) {
    let mut resumes = Resumes { began_at: time.now(), ..Resumes::default() };
    let mut sweeps = Sweeps::new(session);
    let (mut interval, mut looked_at) = (INTERVAL, None::<Instant>);
    while !stopping.told_within(&time, interval).await {
        let Some(shared) = shared.upgrade() else { return };
        let now = time.now();
        let looks = looked_at.is_none_or(|at| now - at >= INTERVAL);
        if looks {
            looked_at = Some(now);
            sweeps.check(&shared);
        }
        sweeps.step(&shared);
        interval = if sweeps.is_idle() { INTERVAL } else { SWEEP_INTERVAL };
        if looks {
            resumes.check(&shared, now);
            shared.copies.checkpoints.expire(now);
            shared.snapshots.expire(&shared.tables, now);
            shared.replication.resources.let_forgotten_go();
        }
    }
}

/// Stores that could not write their files, and are tried again.
#[derive(Default)]
struct Resumes {
    /// When the node was opened.
    began_at: Instant,
    tried_at: Option<Instant>,
    /// Since when each has failed although there was room.
    failing: BTreeMap<PartitionId, Instant>,
}

impl Resumes {
    /// Looks how much room there is, and has stores go on that could not write their files.
    fn check(&mut self, shared: &Shared, now: Instant) {
        shared.replication.room.measure(shared.replication.resources.write_buffers().0 as u64);
        if self.tried_at.is_some_and(|at| now - at < RESUME_INTERVAL) {
            return;
        }
        let mut partitions = shared.tables.partitions();
        partitions.push(Arc::clone(&shared.metadata));
        partitions.retain(|it| it.store.has_failed());
        self.failing.retain(|id, _| partitions.iter().any(|it| it.id == *id));
        for partition in partitions {
            if !shared.replication.room.has(partition.store.unflushed_bytes() + RESUME_FREE_BYTES) {
                continue;
            }
            self.tried_at = Some(now);
            match partition.store.resume() {
                Ok(()) => {
                    tracing::info!(partition = %partition.id, "rows are written to files again");
                }
                Err(error) => {
                    let since = *self.failing.entry(partition.id).or_insert(now);
                    let for_s = (now - since).as_secs();
                    tracing::warn!(partition = %partition.id, for_s, %error, "files cannot be written");
                    if now - since >= GIVEN_UP_AFTER {
                        self.give_up(shared, &partition, &error, now);
                    }
                }
            }
        }
    }

    fn give_up(&self, shared: &Shared, partition: &Partition, error: &StoreError, now: Instant) {
        let replication = &shared.replication;
        if is_elsewhere(shared, partition) {
            let why = format!("files cannot be written, though there is room: {error}");
            partition.note(&StoreError::Damaged(why));
        } else if now - self.began_at >= REOPEN_AFTER && replication.reopening.why().is_none() {
            match replication.room.try_write() {
                Ok(()) => {
                    let id = partition.id;
                    replication.reopening.tell(&format!(
                        "the files of {id} cannot be written, though the disk takes others: {error}"
                    ));
                }
                Err(error) => tracing::warn!(%error, "the disk takes no file"),
            }
        }
    }
}

/// Whether another node that is there has a copy that serves.
fn is_elsewhere(shared: &Shared, partition: &Partition) -> bool {
    let copies = shared.tables.copies(partition.id);
    copies.is_some_and(|copies| shared.router.members_with(&copies).iter().any(|it| it.is_alive()))
}
