//! The node's chores, one role: rows that have expired are swept (`sweeping`), checkpoints that nobody
//! fetches go, and the disk is looked at. When rows go to files is `flushing`'s.

use std::sync::{Arc, Weak};
use std::time::Duration;

use plimsoll_base::Time;
use plimsoll_base::tasks::{Role, Stopping};
use plimsoll_base::time::Instant;

use crate::node::Shared;
use crate::node::sweeping::Sweeps;
use crate::replication::session::ClientSession;

/// How often chores are looked for.
const INTERVAL: Duration = Duration::from_millis(250);
/// How soon again sweeps are looked at while there is something to sweep.
const SWEEP_INTERVAL: Duration = Duration::from_millis(1);
/// How soon again stores are tried that could not write their files.
const RESUME_INTERVAL: Duration = Duration::from_secs(2);
/// What is to be free beside a store's rows for it to be tried again, bytes.
const RESUME_FREE_BYTES: u64 = 4 << 20;

/// Begins the role.
pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Role> {
    let (weak, session) = (Arc::downgrade(shared), shared.sessions.session());
    let time = shared.world.time.clone();
    shared.world.tasks.role("maintenance", move |stopping| run(weak, time, stopping, session))
}

async fn run(shared: Weak<Shared>, time: Time, mut stopping: Stopping, session: ClientSession) {
    let mut resumed_at = None;
    let mut sweeps = Sweeps::new(session);
    let (mut interval, mut looked_at) = (INTERVAL, None::<Instant>);
    while !stopping.told_within(&time, interval).await {
        let Some(shared) = shared.upgrade() else { return };
        let now = time.now();
        let looks = looked_at.is_none_or(|at| now - at >= INTERVAL);
        if looks {
            looked_at = Some(now);
            sweeps.look(&shared);
        }
        sweeps.step(&shared);
        interval = if sweeps.is_idle() { INTERVAL } else { SWEEP_INTERVAL };
        if looks {
            look_at_disk(&shared, &mut resumed_at);
            shared.checkpoints.expire(now);
            // By the machine's time still, as who reads them does.
            shared.snapshots.expire(&shared, std::time::Instant::now());
        }
    }
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
