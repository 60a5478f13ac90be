//! Following itself: the records of a leader's partitions are read from where the copies here stand, and
//! appended to this cluster's log as they came. Whatever goes wrong, the records are asked for anew
//! from where the copies stand then: what comes twice is taken once, and a gap is no more than a reason
//! to ask again ([`plimsoll_log::rules::carried`]).
//!
//! Which partitions this node pulls, and when, is decided in `keeper.rs`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::random::Draws;
use plimsoll_base::time::Instant;
use plimsoll_base::{Time, World};
use plimsoll_control::transfer::Lateness;
use plimsoll_log::record::Item;
use plimsoll_log::{PartitionId, SessionId};
use plimsoll_storage::Reply;
use plimsoll_storage::partition::leader_of;
use plimsoll_storage::rows::StoreError;
use tokio::sync::{mpsc, oneshot};

use super::check::check;
use super::difference::{Levelled, Levelling};
use super::left_out::LeftOut;
use super::progress::{Progress, Trouble};
use super::pulled::{Pulled, is_cut_off};
use super::remote::{FollowerPosition, Level, Records, Remote, RemoteError, Told};
use super::service::Keeping;
use crate::metadata::version::ClusterVersion;
use crate::pacing::Pacing;
use crate::replication::lead::{Answer, Step, Submission};
use crate::replication::tables::Table;
use crate::wire::write_error::WriteError;

/// How long a leader may be silent: it says how far it is once a second.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// What may wait for the log here, bytes; beyond it nothing more is taken from the leader.
const WAITING_BYTES_MAX: usize = 24 << 20;
/// How long the log here has to take records.
const APPEND_TIMEOUT: Duration = Duration::from_secs(30);
/// The first rest before a leader is asked again, doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long the others wait for a mapping that the records of one table need.
const MAPPING_TIMEOUT: Duration = Duration::from_secs(3);
/// How often it is looked whether the mapping is there.
const MAPPING_PAUSE: Duration = Duration::from_millis(20);
/// How often it is asked for.
const MAPPING_INTERVAL: Duration = Duration::from_secs(1);

/// Why a pull ended.
enum Ended {
    /// The copies here took less than came: ask again from where they stand.
    Behind,
    /// It waits for something.
    Waits(String),
}

/// What was handed to the log here and not applied yet.
struct Appending {
    leader: PartitionId,
    local: PartitionId,
    /// Where it brings the copy in the leader's log.
    to: u64,
    bytes: usize,
    records: usize,
    began: Instant,
    /// By when the log here has to answer.
    until: Instant,
    answered: oneshot::Receiver<Answer>,
}

/// One run over the partitions of one remote.
pub(super) struct Pull {
    world: World,
    remote: Arc<dyn Remote>,
    partitions: BTreeMap<PartitionId, Pulled>,
    left_out: LeftOut,
    progress: Arc<Progress>,
    pacing: Arc<Pacing>,
    /// What copies that are levelled are compared by.
    seeds: Arc<Draws>,
    /// What all nodes here know.
    version: Arc<ClusterVersion>,
    /// Learns how far the leader's tables are.
    levels: mpsc::Sender<Level>,
    waiting: VecDeque<Appending>,
    waiting_bytes: usize,
    /// Those that the leader's log does not reach.
    levelled: Levelled,
    /// How late the leader's messages come, in time since `began`.
    lateness: Lateness,
    began: Instant,
}

impl Pull {
    pub(super) fn new(
        keeping: &Keeping,
        remote: &Arc<dyn Remote>,
        pulled: Vec<Pulled>,
        version: Arc<ClusterVersion>,
        levels: mpsc::Sender<Level>,
    ) -> Self {
        let partitions = pulled.into_iter().map(|it| (it.leader, it)).collect();
        Self {
            world: keeping.world.clone(),
            remote: Arc::clone(remote),
            partitions,
            left_out: LeftOut::default(),
            progress: Arc::clone(&keeping.progress),
            pacing: Arc::clone(&keeping.pacing),
            seeds: Arc::clone(&keeping.seeds),
            version,
            levels,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            levelled: Levelled::new(&keeping.world.tasks),
            lateness: Lateness::default(),
            began: keeping.world.time.now(),
        }
    }

    /// Pulls until it is dropped.
    pub(super) async fn run(mut self) {
        let mut failures = 0u32;
        loop {
            let before = self.taken();
            let ended = self.once().await;
            self.await_appends().await;
            let has_progressed = self.taken() != before;
            failures = if has_progressed { 0 } else { failures.saturating_add(1) };
            if let Ended::Waits(why) = ended {
                tracing::warn!(why, "a leader is not followed for now");
                for (leader, Pulled { local, .. }) in &self.partitions {
                    let is_left_out = self.left_out.has(*leader);
                    self.progress.tell(local.id, |it| {
                        it.counters.failed_reads += 1;
                        if !is_left_out {
                            it.trouble = Some(Trouble { why: why.clone(), is_fatal: false });
                        }
                    });
                }
            }
            let pause = PAUSE_MIN.saturating_mul(1 << failures.min(10)).min(PAUSE_MAX);
            if failures > 0 {
                self.world.time.sleep(pause).await;
            }
        }
    }

    /// Where all copies stand.
    fn taken(&self) -> u64 {
        self.partitions.values().map(|it| self.progress.of(it.local.id).taken).sum()
    }

    /// Waits for what was handed to the log here: what is asked for anew comes after it then, and is not
    /// appended twice.
    async fn await_appends(&mut self) {
        while let Some(first) = self.waiting.front_mut() {
            let left = first.until - self.world.time.now();
            let answer = self.world.time.timeout(left, &mut first.answered).await;
            let answer = answer.ok().and_then(Result::ok).unwrap_or(Err(WriteError::Unknown));
            // How it ended is seen where the copy stands.
            let _ = self.appended(answer);
        }
    }

    /// Leaves a partition out for a while, so that the others go on.
    fn leave_out(&mut self, partition: PartitionId, why: String, is_fatal: bool) {
        let Some(pulled) = self.partitions.get(&partition) else { return };
        tracing::warn!(partition = %pulled.local.id, why, "a leader's partition is not followed now");
        self.progress.tell(pulled.local.id, |it| {
            it.counters.failed_reads += 1;
            it.trouble = Some(Trouble { why, is_fatal });
        });
        self.left_out.add(partition, self.world.time.now());
    }

    /// Pulls until something is wrong.
    async fn once(&mut self) -> Ended {
        let places = match self.places() {
            Ok(places) => places,
            Err(error) => return Ended::Waits(error.to_string()),
        };
        if places.is_empty() && self.levelled.is_busy() {
            // Whoever is left out comes again before those are level.
            match self.left_out.until() {
                Some(until) => {
                    let left = until - self.world.time.now();
                    let _ = self.world.time.timeout(left, self.levelled.ended()).await;
                }
                None => self.levelled.ended().await,
            }
            return Ended::Behind;
        }
        if places.is_empty() {
            return Ended::Waits("no copy here can follow now".to_owned());
        }
        let mut records = match self.remote.records(places).await {
            Ok(records) => records,
            Err(error) => return ended(error),
        };
        // Of this stream: another may come from a node with another clock.
        self.lateness = Lateness::default();
        loop {
            if self.levelled.has_ended() {
                return Ended::Behind;
            }
            // Whoever was left out may come again.
            if self.left_out.until().is_some_and(|until| until <= self.world.time.now()) {
                return Ended::Behind;
            }
            match self.step(&mut *records).await {
                Ok(()) => {}
                Err(ended) => return ended,
            }
        }
    }

    /// Has a partition levelled that the leader's log no longer reaches back to.
    fn level_one(&mut self, leader: PartitionId) {
        let Some(pulled) = self.partitions.get(&leader).cloned() else { return };
        let (remote, levels) = (Arc::clone(&self.remote), self.levels.clone());
        let (world, progress) = (self.world.clone(), Arc::clone(&self.progress));
        let (seeds, source) = (Arc::clone(&self.seeds), Mutex::default());
        self.levelled.begin(Levelling { world, remote, pulled, progress, levels, seeds, source });
    }

    /// Where the copies here stand in the leader's log.
    fn places(&mut self) -> Result<Vec<FollowerPosition>, StoreError> {
        let cut_off = self.partitions.values().filter(|it| is_cut_off(it));
        let cut_off: Vec<PartitionId> = cut_off.map(|it| it.leader).collect();
        cut_off.into_iter().for_each(|leader| self.level_one(leader));
        self.left_out.end(self.world.time.now());
        let mut places = Vec::new();
        for (partition, Pulled { local, .. }) in &self.partitions {
            let is_left_out = self.left_out.has(*partition);
            if local.fault().is_some() || is_left_out || self.levelled.has(*partition) {
                continue;
            }
            let leader = leader_of(&local.store)?;
            // One that follows no more is about to be told so.
            let Some(leader) = leader.filter(|it| it.partition == *partition) else { continue };
            self.progress.stands_at(local.id, leader.position.link.lsn.0);
            places.push(FollowerPosition { partition: *partition, position: leader.position });
        }
        Ok(places)
    }

    /// Takes what comes next: from the leader, or from the log here.
    async fn step(&mut self, records: &mut dyn Records) -> Result<(), Ended> {
        // What this node's own clients ask for goes first.
        let (time, held) = (&self.world.time, self.pacing.records.wait());
        let has_room = held.is_zero() && self.waiting_bytes < WAITING_BYTES_MAX;
        let told = match self.waiting.front_mut() {
            Some(first) => tokio::select! {
                biased;
                answer = &mut first.answered => {
                    return self.appended(answer.unwrap_or(Err(WriteError::Unknown)));
                }
                // Apply of the group may have stopped: nobody answers then.
                () = time.sleep_until(first.until) => {
                    return self.appended(Err(WriteError::Unknown));
                }
                told = heard(time, records), if has_room => told,
                () = time.sleep(held), if !held.is_zero() => return Ok(()),
            },
            None if !held.is_zero() => {
                time.sleep(held).await;
                return Ok(());
            }
            None => heard(time, records).await,
        };
        match told.map_err(ended)? {
            Told::Carried { partition, item } => {
                self.append(partition, item).await;
                Ok(())
            }
            Told::Refused { partition, error: RemoteError::Trimmed(_) } => {
                self.level_one(partition);
                Ok(())
            }
            Told::Refused { partition, error } => {
                let is_fatal = error.is_final();
                self.leave_out(partition, error.to_string(), is_fatal);
                Ok(())
            }
            Told::Level(level) => {
                self.level(level);
                Ok(())
            }
        }
    }

    /// Hands records to the log here, once they are known to be right and their mapping is there.
    async fn append(&mut self, partition: PartitionId, item: Item) {
        // What comes of one that is left out comes again.
        let pulled = self.partitions.get(&partition).filter(|_| !self.left_out.has(partition));
        let Some(pulled) = pulled.cloned() else { return };
        let Pulled { table, local, .. } = &pulled;
        if !table.follows().is_some_and(|it| it.is_active()) {
            // It stands still, and this pull is about to end: what is not taken is asked for again then.
            return;
        }
        let allows = |since| self.version.allows(since);
        let needed = match check(partition, &item, allows) {
            Ok(needed) => needed,
            Err(why) => return self.leave_out(partition, why.to_string(), true),
        };
        if !self.await_mapping(table, partition.table, needed).await {
            let why = format!("version {needed} of the leader's mapping is not there yet");
            return self.leave_out(partition, why, false);
        }
        let Item::Carried { batch, records } = &item else { return };
        let (to, bytes, count) = (batch.to.lsn.0, item.bytes_max(), records.len());
        self.pacing.records.add(Pacing::weight(bytes));
        let began = self.world.time.now();
        self.progress.tell(local.id, |it| {
            it.heard_at = Some(began);
            it.trouble = None;
            it.counters.batches += 1;
            it.counters.records += count as u64;
            it.counters.bytes += bytes as u64;
            it.counters.waiting_bytes += bytes as u64;
            it.counters.waiting_records += count as u64;
        });
        let (done, answered) = oneshot::channel();
        local.lead.submit(Submission {
            session: SessionId(0),
            first: 0,
            acked: 0,
            stamp_ms: 0,
            steps: vec![Step::Carry(item)],
            done,
        });
        let (leader, local) = (partition, local.id);
        self.waiting_bytes += bytes;
        let (records, until) = (count, began + APPEND_TIMEOUT);
        let appending = Appending { leader, local, to, bytes, records, began, until, answered };
        self.waiting.push_back(appending);
    }

    /// Waits until a table's mapping here is as new as records need it: an index without it would wait,
    /// and the leader may be gone then. False where it does not come soon.
    async fn await_mapping(&self, table: &Table, leader: u64, needed: u64) -> bool {
        let time = &self.world.time;
        let end = time.now() + MAPPING_TIMEOUT;
        let mut asked_at: Option<Instant> = None;
        // A table of rows has none until it is known that the leader has become an index.
        while table.index().map_or(0, |index| index.mapping_version) < needed {
            if time.now() >= end {
                return false;
            }
            if asked_at.is_none_or(|at| time.now() - at >= MAPPING_INTERVAL) {
                asked_at = Some(time.now());
                let mappings = [(leader, needed)].into_iter().collect();
                let _ = self.levels.try_send(Level { mappings, ..Level::default() });
            }
            time.sleep(MAPPING_PAUSE).await;
        }
        true
    }

    /// The log here has answered for the first that waits.
    fn appended(&mut self, answer: Answer) -> Result<(), Ended> {
        let Some(appending) = self.waiting.pop_front() else { return Ok(()) };
        let Appending { leader, local, to, bytes, records, began, .. } = appending;
        self.waiting_bytes -= bytes;
        let took = self.world.time.now() - began;
        let stands_at = match answer.as_deref() {
            Ok([Reply::Integer(lsn)]) => u64::try_from(*lsn).ok(),
            _ => None,
        };
        self.progress.tell(local, |it| {
            let it = &mut it.counters;
            it.leave(bytes, records);
            if stands_at.is_some() {
                it.appended += 1;
                it.appended_records += records as u64;
                it.append_time_ms += u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            }
            it.failed_appends += u64::from(answer.is_err());
        });
        if let Some(lsn) = stands_at {
            self.left_out.forget(leader);
            self.progress.stands_at(local, lsn);
        }
        match (answer, stands_at) {
            (_, Some(lsn)) if lsn >= to => Ok(()),
            (_, Some(_)) => Err(Ended::Behind),
            (Err(error), _) => Err(Ended::Waits(format!("the records are not appended: {error}"))),
            // The copy follows nobody, or another log: the leader says which when it is asked again.
            (Ok(replies), None) => {
                let why = match replies.into_iter().next() {
                    Some(Reply::Error(error)) => error.message.into_owned(),
                    other => format!("carried records are answered {other:?}"),
                };
                self.leave_out(leader, why, false);
                Ok(())
            }
        }
    }

    fn level(&mut self, level: Level) {
        let now = self.world.time.now();
        let now_ms = u64::try_from((now - self.began).as_millis()).unwrap_or(u64::MAX);
        let late_ms = self.lateness.on_message(now_ms, level.clock_ms);
        for told in &level.partitions {
            let partition = PartitionId { table: told.table, ordinal: told.ordinal };
            if let Some(Pulled { local, .. }) = self.partitions.get(&partition)
                && !self.left_out.has(partition)
            {
                self.progress.level(local.id, told.clone(), late_ms, now);
                self.progress.tell(local.id, |it| it.trouble = None);
            }
        }
        // Where the last has not been looked at yet, the next comes soon.
        let _ = self.levels.try_send(level);
    }
}

async fn heard(time: &Time, records: &mut dyn Records) -> Result<Told, RemoteError> {
    match time.timeout(SILENCE_MAX, records.next()).await {
        Ok(told) => told,
        Err(_) => {
            Err(RemoteError::Unreachable(format!("the leader was silent for {SILENCE_MAX:?}")))
        }
    }
}

fn ended(error: RemoteError) -> Ended {
    Ended::Waits(error.to_string())
}

impl Drop for Pull {
    /// What the log here has still to take is told of by nobody any more.
    fn drop(&mut self) {
        for Appending { local, bytes, records, .. } in &self.waiting {
            self.progress.tell(*local, |it| it.counters.leave(*bytes, *records));
        }
    }
}
