//! The node's chores, one role: rows that have expired are swept, checkpoints that nobody fetches go,
//! and the disk is looked at. When rows go to files is `flushing`'s.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use plimsoll_base::Time;
use plimsoll_base::tasks::{Role, Stopping};
use plimsoll_base::time::Instant;
use plimsoll_log::PartitionId;
use plimsoll_storage::Reply;
use plimsoll_storage::execute;
use plimsoll_storage::operation::Operation;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::metadata::version::ClusterVersion;
use crate::node::Shared;
use crate::replication::lead::{Answer, Step, Submission};
use crate::replication::partition::Partition;
use crate::replication::session::ClientSession;

/// How often chores are looked for.
const INTERVAL: Duration = Duration::from_millis(250);
/// How soon again partitions are looked at of which there is more to sweep.
const SWEEP_INTERVAL: Duration = Duration::from_millis(4);
/// How soon again stores are tried that could not write their files.
const RESUME_INTERVAL: Duration = Duration::from_secs(2);
/// What is to be free beside a store's rows for it to be tried again, bytes.
const RESUME_FREE_BYTES: u64 = 4 << 20;
/// How many rows one sweep removes: what comes after it in its group waits for it.
const SWEEP_ROWS_MAX: u64 = 200;

/// The sweeps that are under way, by partition.
type Sweeps = BTreeMap<PartitionId, oneshot::Receiver<Answer>>;

/// Begins the role.
pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Role> {
    let (weak, session) = (Arc::downgrade(shared), shared.sessions.session());
    let time = shared.world.time.clone();
    shared.world.tasks.role("maintenance", move |stopping| run(weak, time, stopping, session))
}

async fn run(shared: Weak<Shared>, time: Time, mut stopping: Stopping, mut session: ClientSession) {
    let mut resumed_at = None;
    let mut sweeps = Sweeps::new();
    let (mut interval, mut looked_at) = (INTERVAL, None::<Instant>);
    while !stopping.told_within(&time, interval).await {
        let Some(shared) = shared.upgrade() else { return };
        let looks = looked_at.is_none_or(|at| time.now() - at >= INTERVAL);
        if looks {
            // Also of partitions that are no longer here.
            sweeps.retain(|_, running| running.try_recv() == Err(TryRecvError::Empty));
        }
        if !looks {
            sweep_on(&shared, &mut session, &mut sweeps);
            interval = if sweeps.is_empty() { INTERVAL } else { SWEEP_INTERVAL };
            continue;
        }
        // What follows is swept where its leader is.
        for table in shared.tables.all().iter().filter(|table| table.follows().is_none()) {
            for (ordinal, partition) in table.local() {
                // One copy asks for it; the log carries it to all.
                if shared.members.speaks_for(partition.id, &table.copies()[ordinal].definition()) {
                    sweep(&shared, &partition, &mut session, &mut sweeps);
                }
            }
        }
        interval = if sweeps.is_empty() { INTERVAL } else { SWEEP_INTERVAL };
        let now = time.now();
        looked_at = Some(now);
        look_at_disk(&shared, &mut resumed_at);
        shared.checkpoints.expire(now);
        // By the machine's time still, as who reads them does.
        shared.snapshots.expire(&shared, std::time::Instant::now());
    }
}

/// Goes on in partitions whose last sweep removed as much as it may: there is more, most likely. The others
/// are looked at when all are.
fn sweep_on(shared: &Shared, session: &mut ClientSession, sweeps: &mut Sweeps) {
    let mut full = Vec::new();
    sweeps.retain(|id, running| match running.try_recv() {
        Err(TryRecvError::Empty) => true,
        Ok(Ok(replies)) if was_full(&replies) => {
            full.push(*id);
            false
        }
        _ => false,
    });
    for id in full {
        if let Some(partition) = shared.tables.copies(id).and_then(|it| it.local()) {
            sweep(shared, &partition, session, sweeps);
        }
    }
}

fn was_full(replies: &[Reply]) -> bool {
    let [Reply::Integer(removed)] = replies else { return false };
    u64::try_from(*removed).is_ok_and(|removed| removed >= SWEEP_ROWS_MAX)
}

/// A sweep, in the newest form that the cluster's version allows.
fn sweep_bytes(version: &ClusterVersion) -> Bytes {
    #[cfg(feature = "next-version")]
    if version.allows(crate::metadata::version::KNOWN) {
        return Operation::encode_next_sweep(SWEEP_ROWS_MAX);
    }
    let _ = version;
    Operation::Sweep { limit: SWEEP_ROWS_MAX }.encode()
}

/// Looks how much room there is, and has stores go on that could not write their files.
fn look_at_disk(shared: &Shared, resumed_at: &mut Option<Instant>) {
    shared.room.look(shared.resources.write_buffers().0 as u64);
    let partitions = shared.tables.partitions();
    let all = partitions.iter().chain(std::iter::once(&shared.metadata));
    if resumed_at.is_some_and(|at| shared.world.time.now() - at < RESUME_INTERVAL) {
        return;
    }
    for partition in all.filter(|partition| partition.store.has_failed()) {
        if !shared.room.has(partition.store.unflushed_bytes() + RESUME_FREE_BYTES) {
            continue;
        }
        *resumed_at = Some(shared.world.time.now());
        match partition.store.resume() {
            Ok(()) => tracing::info!(partition = %partition.id, "rows are written to files again"),
            Err(error) => {
                tracing::warn!(partition = %partition.id, %error, "files cannot be written yet");
            }
        }
    }
}

/// Has a partition remove rows that are due, one sweep at a time.
fn sweep(shared: &Shared, partition: &Partition, session: &mut ClientSession, sweeps: &mut Sweeps) {
    if let Some(running) = sweeps.get_mut(&partition.id) {
        if running.try_recv() == Err(TryRecvError::Empty) {
            return;
        }
        sweeps.remove(&partition.id);
    }
    if partition.fault().is_some() {
        return;
    }
    match execute::has_due(&partition.store, partition.read_time_ms()) {
        Ok(true) => {
            let (done, running) = oneshot::channel();
            sweeps.insert(partition.id, running);
            let first = session.take(1);
            let sweep = sweep_bytes(&shared.version);
            let steps = vec![Step::Write(sweep)];
            let (session, acked) = (session.id(), first - 1);
            let stamp_ms = shared.world.time.wall_ms().max(partition.lead.log_time_ms());
            partition.lead.submit(Submission { session, first, acked, stamp_ms, steps, done });
        }
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(partition = %partition.id, %error, "expired rows cannot be looked for");
        }
    }
}
