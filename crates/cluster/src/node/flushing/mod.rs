//! When rows go to files, a role of its own: the fullest partition while all together take too much
//! memory or before RocksDB would flush it, and group by group what holds the log back, so that the log can be
//! trimmed and a restart has little to replay. Never all at once. Which is next says
//! `plimsoll_control::flushing`; what is done with a group, [`groups`].

mod groups;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use plimsoll_base::Time;
use plimsoll_base::tasks::{Role, Stopping};
use plimsoll_base::time::Instant;
use plimsoll_control::flushing::{self, Held, Limits};
use plimsoll_log::{GroupId, Lsn};
use plimsoll_storage::partition::Stops;

use crate::metadata::GROUPS;
use crate::node::shared::Shared;
use crate::replication::partition::Partition;
use crate::settings;

pub(crate) use groups::flush_all;

/// How often is looked for what to flush.
const INTERVAL: Duration = Duration::from_millis(50);
/// After how long what was written is flushed at the latest where the disk is nearly full: what is in
/// files needs no room in the log.
const INTERVAL_PRESSED: Duration = Duration::from_secs(5);
/// A group whose log somebody wants to be short is flushed no more often than this: with it go the rows of other
/// tables.
const WISHED_INTERVAL: Duration = Duration::from_secs(5);
/// How often it is said that stores took no rows.
const STOPS_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes of log that a restart replays at most: at least, and at most.
const LOG_BYTES_MIN: u64 = 256 << 20;
const LOG_BYTES_MAX: u64 = 1 << 30;

/// What stores hold is read from the log again after a restart: several memtables of each are kept for one file as far
/// as they would share a budget of so much, and one memtable of each beyond.
const REPLAYED_BUDGET_BYTES: u64 = 320 << 20;

/// By this part of the largest flush a store's turn comes before RocksDB flushes it, and so much is written between
/// two looks at least.
const TURN_PART: u64 = 16;
/// What a look at one store costs is paid by so many bytes that are written.
const LOOK_BYTES: u64 = 4 << 10;

/// Begins the role.
pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Role> {
    let (weak, time) = (Arc::downgrade(shared), shared.world.time.clone());
    let flushed = Flushed::new(shared);
    shared.world.tasks.role("flush", move |stopping| run(weak, time, stopping, flushed))
}

async fn run(shared: Weak<Shared>, time: Time, mut stopping: Stopping, mut flushed: Flushed) {
    let mut stops = SeenStops::default();
    let mut turns = Turns::default();
    while !stopping.told_within(&time, INTERVAL).await {
        let Some(shared) = shared.upgrade() else { return };
        let partitions = shared.tables.partitions();
        let flush_bytes = flush_bytes(&shared, partitions.len());
        shape_files(&partitions, flush_bytes);
        stops.check(&shared);
        relieve(&shared, &partitions);
        turns.take(&shared, &partitions, flush_bytes);
        let filling_bytes = turns.filling_bytes;
        // One at a time: what is due comes before the next wish.
        let mut next = flushed.due(&shared, filling_bytes).or_else(|| flushed.wished(&shared));
        while let Some(group) = next {
            flushed.note(&shared, group);
            groups::flush(&shared, group).await;
            if stopping.is_told() {
                return;
            }
            relieve(&shared, &shared.tables.partitions());
            next = flushed.due(&shared, filling_bytes);
        }
    }
}

/// When each group was flushed last.
struct Flushed {
    groups: BTreeMap<GroupId, (u64, Instant)>,
    /// What this node's log held when the node was opened, beside what was applied again: one that is killed again and
    /// again would never come to a group's turn otherwise, and its log would grow.
    opened_bytes: u64,
}

impl Flushed {
    fn new(shared: &Shared) -> Self {
        let now = shared.world.time.now();
        let groups = (0..=GROUPS).map(|group| (GroupId(group), (0, now))).collect();
        let replication = &shared.replication;
        let held = |group| replication.log.bytes_after(GroupId(group), Lsn(0)).ok().flatten();
        let held_bytes: u64 = (0..=GROUPS).filter_map(held).sum();
        let applied_bytes = replication.applied_bytes.load(Ordering::Relaxed);
        Self { groups, opened_bytes: held_bytes.saturating_sub(applied_bytes) }
    }

    /// Bytes that the log has had up to now.
    fn log_bytes(&self, shared: &Shared) -> u64 {
        self.opened_bytes + shared.replication.applied_bytes.load(Ordering::Relaxed)
    }

    /// The group to be flushed now, where the stores that are written hold `filling_bytes` when they are flushed.
    fn due(&self, shared: &Shared, filling_bytes: u64) -> Option<GroupId> {
        let log_bytes = self.log_bytes(shared);
        let interval = settings::cluster::flush_interval(&shared.metadata);
        let interval = if shared.replication.room.is_low() {
            interval.min(INTERVAL_PRESSED)
        } else {
            interval
        };
        let (_, budget) = shared.replication.resources.write_buffers();
        let bytes_max = (budget as u64).clamp(LOG_BYTES_MIN, LOG_BYTES_MAX);
        // Flushed sooner than by themselves, stores would have small files; later, the log would hold what is in files.
        let bytes = (2 * filling_bytes).clamp(LOG_BYTES_MIN, bytes_max);
        let limits = Limits { bytes, age_ns: nanoseconds(interval) };
        let now = shared.world.time.now();
        let held = self.groups.values().map(|(bytes, at)| Held {
            bytes: log_bytes.saturating_sub(*bytes),
            age_ns: nanoseconds(now - *at),
        });
        let at = flushing::due(&held.collect::<Vec<_>>(), limits)?;
        self.groups.keys().nth(at).copied()
    }

    /// The group that somebody wants to be flushed, the one first that was flushed longest ago.
    fn wished(&self, shared: &Shared) -> Option<GroupId> {
        let now = shared.world.time.now();
        let flushed_at = |group| {
            let (_, at) = *self.groups.get(&group)?;
            (now - at >= WISHED_INTERVAL).then_some(at)
        };
        shared.replication.durable.lock().take_wish(flushed_at)
    }

    /// A group is being flushed: also where that fails, it is tried again when it is due again.
    fn note(&mut self, shared: &Shared, group: GroupId) {
        self.groups.insert(group, (self.log_bytes(shared), shared.world.time.now()));
    }
}

/// What was seen of stores that took no rows, which is to be said: whoever applies waits with them.
#[derive(Default)]
struct SeenStops {
    seen: Stops,
    said_at: Option<Instant>,
}

impl SeenStops {
    fn check(&mut self, shared: &Shared) {
        let (stops, now) = (shared.replication.resources.stops(), shared.world.time.now());
        let is_quiet = self.said_at.is_some_and(|at| now - at < STOPS_INTERVAL);
        if stops.count == self.seen.count || is_quiet {
            return;
        }
        let (count, for_ns) = (stops.count - self.seen.count, stops.time_ns - self.seen.time_ns);
        tracing::warn!(count, for_ns, "stores took no rows: files are not written fast enough");
        *self = Self { seen: stops, said_at: Some(now) };
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Flushes the partitions that hold most, until all together hold less than is too much.
pub(crate) fn relieve(shared: &Shared, partitions: &[Arc<Partition>]) {
    loop {
        let (held, budget) = shared.replication.resources.write_buffers();
        if !flushing::are_full(held as u64, budget as u64) {
            return;
        }
        let Some(fullest) = partitions.iter().max_by_key(|it| it.store.flushable_bytes()) else {
            return;
        };
        // Those that hold more are being flushed, and are waited for, or cannot be: `maintenance` tries again.
        if fullest.store.flushable_bytes() == 0 {
            return;
        }
        if !flush(fullest) {
            return;
        }
    }
}

/// Writes a partition's rows to files; whether that was done.
fn flush(partition: &Partition) -> bool {
    let flushed = partition.store.flush();
    if let Err(error) = &flushed {
        tracing::warn!(partition = %partition.id, %error, "rows cannot be flushed");
    }
    flushed.is_ok()
}

/// Stores that are flushed one after the other before RocksDB flushes them by itself: written alike they would all
/// be full at once.
#[derive(Default)]
struct Turns {
    /// How much was applied when they were looked at last.
    looked_bytes: u64,
    /// What those hold when they are flushed that hold much then.
    filling_bytes: u64,
}

impl Turns {
    /// Flushes the store whose turn it is, where there is one.
    fn take(&mut self, shared: &Shared, partitions: &[Arc<Partition>], expected_bytes: u64) {
        let memtable_bytes = shared.replication.resources.memtable_bytes() as u64;
        let flush_bytes = expected_bytes.max(memtable_bytes);
        let applied_bytes = shared.replication.applied_bytes.load(Ordering::Relaxed);
        // Nobody looks at a thousand stores that nobody writes to, nor at each of them all the time.
        let least = (flush_bytes / TURN_PART).max(partitions.len() as u64 * LOOK_BYTES);
        if applied_bytes.saturating_sub(self.looked_bytes) < least {
            return;
        }
        self.looked_bytes = applied_bytes;
        let limits = Limits { bytes: flush_bytes - flush_bytes / TURN_PART, age_ns: u64::MAX };
        let held = |it: &Arc<Partition>| Held { bytes: it.store.flushable_bytes(), age_ns: 0 };
        let held: Vec<Held> = partitions.iter().map(held).collect();
        // Of very many, none comes far before all together are full.
        let filling = held.iter().filter(|it| it.bytes >= expected_bytes / TURN_PART);
        self.filling_bytes = filling.count() as u64 * expected_bytes;
        let Some(at) = flushing::due(&held, limits) else { return };
        flush(&partitions[at]);
    }
}

/// Has the stores' files sized to flushes of so many bytes.
fn shape_files(partitions: &[Arc<Partition>], flush_bytes: u64) {
    for partition in partitions {
        if let Err(error) = partition.store.shape_files(flush_bytes) {
            tracing::warn!(partition = %partition.id, %error, "files keep their size");
        }
    }
}

/// How large one flush of a store is to be expected where there are so many, bytes.
fn flush_bytes(shared: &Shared, stores: usize) -> u64 {
    let resources = &shared.replication.resources;
    let (budget_bytes, stores) = (resources.write_buffers().1 as u64, stores as u64);
    let one = flushing::expected_bytes(budget_bytes, stores, resources.memtable_bytes() as u64);
    let replayed_bytes = budget_bytes.min(REPLAYED_BUDGET_BYTES);
    one.max(flushing::expected_bytes(replayed_bytes, stores, resources.flush_bytes() as u64))
}
