//! The node's chores, on one thread: rows are flushed so that the log can be trimmed and a
//! restart has little to replay, and rows that have expired are swept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use plimsoll_log::{GroupId, Lsn, PartitionId};
use plimsoll_storage::execute;
use plimsoll_storage::operation::Operation;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::cluster_settings;
use crate::following::Holds;
use crate::lead::{Answer, Step, Submission, now_ms};
use crate::members::Beat;
use crate::node::Shared;
use crate::partition::Partition;
use crate::session::ClientSession;
use crate::trimming::Durable;
use crate::version::ClusterVersion;

/// How often chores are looked for.
const INTERVAL: Duration = Duration::from_millis(250);
/// How soon again while there is more to sweep.
const SWEEP_INTERVAL: Duration = Duration::from_millis(20);
/// After how long what was written is flushed at the latest where the disk is nearly full: what is in files needs no room in the log.
const FLUSH_INTERVAL_PRESSED: Duration = Duration::from_secs(5);
/// After how many bytes of log rows are flushed: what a restart replays at most.
const FLUSH_LOG_BYTES: u64 = 256 << 20;
/// How soon again stores are tried that could not write their files.
const RESUME_INTERVAL: Duration = Duration::from_secs(2);
/// What is to be free beside a store's rows for it to be tried again, bytes.
const RESUME_FREE_BYTES: u64 = 4 << 20;
/// How many rows one sweep removes.
const SWEEP_ROWS_MAX: u64 = 1000;

/// The handle of the thread.
pub(crate) struct Maintenance {
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Maintenance {
    pub(crate) fn start(shared: &Arc<Shared>) -> std::io::Result<Self> {
        let (stop, stopped) = sync_channel(1);
        let weak = Arc::downgrade(shared);
        let session = shared.sessions.session();
        let run = move || run(&weak, &stopped, session);
        let thread = std::thread::Builder::new().name("maintenance".to_owned()).spawn(run)?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread after what it is doing. Blocks.
    pub(crate) fn stop(self) {
        // A thread that is gone has stopped.
        let _ = self.stop.send(());
        if self.thread.join().is_err() {
            tracing::error!("the maintenance thread panicked");
        }
    }
}

fn run(shared: &Weak<Shared>, stopped: &Receiver<()>, mut session: ClientSession) {
    let mut flushed_at = Instant::now();
    let mut resumed_at = None;
    let mut flushed_bytes = 0;
    let mut sweeps = HashMap::new();
    let mut interval = INTERVAL;
    while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let Some(shared) = shared.upgrade() else { return };
        // What follows is swept where its leader is.
        for table in shared.tables.all().iter().filter(|table| table.follows().is_none()) {
            for (ordinal, partition) in table.local() {
                // One copy asks for it; the log carries it to all.
                if shared.members.speaks_for(partition.id, &table.copies()[ordinal].definition()) {
                    sweep(&shared.version, &partition, &mut session, &mut sweeps);
                }
            }
        }
        interval = if sweeps.is_empty() { INTERVAL } else { SWEEP_INTERVAL };
        relieve(&shared);
        look_at_disk(&shared, &mut resumed_at);
        shared.checkpoints.expire(Instant::now());
        shared.snapshots.expire(&shared, Instant::now());
        let log_bytes = shared.applied_bytes.load(Ordering::Relaxed);
        let interval_of_flush = cluster_settings::flush_interval(&shared.metadata);
        let is_due = log_bytes > flushed_bytes && flushed_at.elapsed() >= interval_of_flush;
        let is_pressed = shared.room.is_low()
            && log_bytes > flushed_bytes
            && flushed_at.elapsed() >= FLUSH_INTERVAL_PRESSED;
        if is_due || is_pressed || log_bytes - flushed_bytes >= FLUSH_LOG_BYTES {
            flush(&shared);
            flushed_at = Instant::now();
            flushed_bytes = log_bytes;
        }
    }
}

/// Makes all rows durable and trims the log behind them. What fails is reported and left for the
/// next time: it costs space and replay, no data.
pub(crate) fn flush(shared: &Shared) {
    // Before the marks: of what is said after this the marks may know nothing.
    let known = shared.metadata.applied();
    let mut groups = BTreeMap::new();
    let mut seen = BTreeMap::new();
    let needed = groups_of_stopped_copies(shared);
    let mut spared = Sparing::new(shared);
    for applier in shared.appliers.get().map(Vec::as_slice).unwrap_or_default() {
        for mut mark in applier.mark() {
            let mut durable = mark.position.lsn;
            for (partition, position) in &mark.replicas {
                match partition.store.flush() {
                    Ok(()) => durable = durable.min(position.lsn),
                    Err(error) => {
                        tracing::warn!(partition = %partition.id, %error, "rows cannot be flushed");
                        partition.note(&error);
                        durable = Lsn(0);
                    }
                }
            }
            if durable == Lsn(0) || needed.contains(&mark.group) {
                continue;
            }
            let metadata = &shared.metadata.store;
            mark.last.prune(|id| shared.tables.copies(id).is_some());
            let note = serde_json::to_vec(&mark.last).unwrap_or_default();
            let kept = metadata.put_group(mark.group, &mark.position, &note);
            let kept = kept.and_then(|()| metadata.flush()).map_err(|error| error.to_string());
            groups.insert(mark.group.0, durable.0);
            let group = mark.group;
            seen.insert(group, (mark.position, mark.last));
            // Where others read the log too, it is not this node's alone to trim.
            let trimmed = match kept {
                Ok(()) if shared.is_alone => spared.trim(shared, group, durable),
                kept => kept,
            };
            if let Err(error) = trimmed {
                tracing::warn!(%group, error, "the log cannot be trimmed");
                groups.remove(&group.0);
            }
        }
    }
    // Elsewhere the node that acts for all does.
    if shared.is_alone
        && let Ok(holds) = &mut spared.holds
    {
        holds.write_aside(shared);
    }
    // A copy that is being made may need the log from where its partition begins.
    for table in shared.tables.all() {
        for copies in table.copies() {
            let definition = copies.definition();
            if copies.local().is_none() && definition.copy_on(&shared.members.own).is_some() {
                let durable = groups.entry(copies.group.0).or_default();
                *durable = (*durable).min(definition.begin().lsn.0);
            }
        }
    }
    let beat = Beat { metadata: known.0, durable: groups, ..Beat::default() };
    *shared.durable.lock() = Durable { beat, seen };
}

/// What followers in other clusters need of the log of a node that is alone.
struct Sparing {
    holds: Result<Holds, String>,
    bytes_max: u64,
}

impl Sparing {
    fn new(shared: &Shared) -> Self {
        let bytes_max = cluster_settings::followers_retention_bytes(&shared.metadata);
        Self { holds: Holds::read(&shared.metadata), bytes_max }
    }

    /// Trims a group of which the node itself needs nothing up to `durable`.
    fn trim(&mut self, shared: &Shared, group: GroupId, durable: Lsn) -> Result<(), String> {
        let holds = self.holds.as_mut().map_err(|error| error.clone())?;
        let bytes = holds.kept_bytes(&*shared.log, group, durable.0);
        let spared = holds.spare(group, durable.0, bytes, self.bytes_max);
        shared.trim(group, Lsn(spared.up_to))
    }
}

/// The groups of copies that could not be opened: what of the log these lack is not known, so all of
/// it is kept for the time when their files are restored.
fn groups_of_stopped_copies(shared: &Shared) -> BTreeSet<GroupId> {
    let tables = shared.tables.all();
    let copies = tables.iter().flat_map(|table| table.copies());
    copies.filter(|copies| copies.stopped().is_some()).map(|copies| copies.group).collect()
}

/// Flushes the partition that holds most, where all together hold too much.
fn relieve(shared: &Shared) {
    let (held, budget) = shared.resources.write_buffers();
    if held < budget / 4 * 3 {
        return;
    }
    let partitions = shared.tables.partitions();
    if let Some(fullest) = partitions.iter().max_by_key(|it| it.store.unflushed_bytes())
        && let Err(error) = fullest.store.flush()
    {
        tracing::warn!(partition = %fullest.id, %error, "rows cannot be flushed");
    }
}

/// A sweep, in the newest form that the cluster's version allows.
fn sweep_bytes(version: &ClusterVersion) -> Bytes {
    #[cfg(feature = "next-version")]
    if version.allows(crate::version::KNOWN) {
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
    if resumed_at.is_some_and(|at| at.elapsed() < RESUME_INTERVAL) {
        return;
    }
    for partition in all.filter(|partition| partition.store.has_failed()) {
        if !shared.room.has(partition.store.unflushed_bytes() + RESUME_FREE_BYTES) {
            continue;
        }
        *resumed_at = Some(Instant::now());
        match partition.store.resume() {
            Ok(()) => tracing::info!(partition = %partition.id, "rows are written to files again"),
            Err(error) => {
                tracing::warn!(partition = %partition.id, %error, "files cannot be written yet");
            }
        }
    }
}

/// Has a partition remove rows that are due, one sweep at a time.
fn sweep(
    version: &ClusterVersion,
    partition: &Partition,
    session: &mut ClientSession,
    sweeps: &mut HashMap<PartitionId, oneshot::Receiver<Answer>>,
) {
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
            let sweep = sweep_bytes(version);
            let steps = vec![Step::Write(sweep)];
            let (session, acked) = (session.id(), first - 1);
            let stamp_ms = now_ms().max(partition.lead.log_time_ms());
            partition.lead.submit(Submission { session, first, acked, stamp_ms, steps, done });
        }
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(partition = %partition.id, %error, "expired rows cannot be looked for");
        }
    }
}
