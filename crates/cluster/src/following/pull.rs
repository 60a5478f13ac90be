//! Following itself: the records of a leader's partitions are read from where the copies here stand, and
//! appended to this cluster's log as they came. Whatever goes wrong, the records are asked for anew
//! from where the copies stand then: what comes twice is taken once, and a gap is no more than a reason
//! to ask again ([`plimsoll_log::rules::carried`]).
//!
//! Which partitions this node pulls, and when, is decided in `keeper.rs`.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_log::record::Item;
use plimsoll_log::{PartitionId, SessionId};
use plimsoll_storage::Reply;
use plimsoll_storage::partition::leader_of;
use tokio::sync::{mpsc, oneshot};

use super::check::check;
use super::difference::{self, Levelled, Levelling};
use super::progress::{Progress, Trouble};
use super::remote::{Level, Place, Records, Remote, RemoteError, Told};
use crate::lead::{Answer, Step, Submission};
use crate::partition::Partition;
use crate::table::Table;
use crate::write_error::WriteError;

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

/// How soon a table is tried again that the leader does not give records of.
const LEFT_OUT: Duration = Duration::from_secs(30);
/// How long records wait here for their mapping before they are asked for anew.
const MAPPING_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked whether the mapping is there.
const MAPPING_PAUSE: Duration = Duration::from_millis(20);

/// A partition that this node pulls.
#[derive(Clone)]
pub(super) struct Pulled {
    /// Its name in the leader's cluster.
    pub leader: PartitionId,
    /// The table here.
    pub table: Arc<Table>,
    /// The copy here.
    pub local: Arc<Partition>,
}

/// Why a pull ended.
enum Ended {
    /// The copies here took less than came: ask again from where they stand.
    Behind,
    /// It waits for something.
    Waits(String),
    /// It will not mend by itself.
    Stopped(String),
}

/// What was handed to the log here and not applied yet.
struct Appending {
    local: PartitionId,
    /// Where it brings the copy in the leader's log.
    to: u64,
    bytes: usize,
    records: usize,
    /// By when the log here has to answer.
    until: tokio::time::Instant,
    answered: oneshot::Receiver<Answer>,
}

/// One run over the partitions of one remote.
pub(super) struct Pull {
    remote: Arc<dyn Remote>,
    partitions: HashMap<PartitionId, Pulled>,
    /// Tables of the leader's that it gives no records of, and until when they are left out.
    left_out: HashMap<u64, Instant>,
    progress: Arc<Progress>,
    /// Learns how far the leader's tables are.
    levels: mpsc::Sender<Level>,
    waiting: VecDeque<Appending>,
    waiting_bytes: usize,
    /// Those that the leader's log does not reach.
    levelled: Levelled,
}

impl Pull {
    pub(super) fn new(
        remote: Arc<dyn Remote>,
        pulled: Vec<Pulled>,
        progress: Arc<Progress>,
        levels: mpsc::Sender<Level>,
    ) -> Self {
        let partitions = pulled.into_iter().map(|it| (it.leader, it)).collect();
        let (left_out, waiting, waiting_bytes) = (HashMap::new(), VecDeque::new(), 0);
        let levelled = Levelled::default();
        Self { remote, partitions, left_out, progress, levels, waiting, waiting_bytes, levelled }
    }

    /// Pulls until it is dropped.
    pub(super) async fn run(mut self) {
        let mut failures = 0u32;
        loop {
            let before = self.taken();
            let ended = self.once().await;
            self.settle().await;
            if let Ended::Stopped(why) = &ended
                && self.leave_out(why).await
            {
                continue;
            }
            let has_progressed = self.taken() != before;
            failures = if has_progressed { 0 } else { failures.saturating_add(1) };
            let trouble = match ended {
                Ended::Behind => None,
                Ended::Waits(why) => Some(Trouble { why, is_fatal: false }),
                Ended::Stopped(why) => Some(Trouble { why, is_fatal: true }),
            };
            if let Some(Trouble { why, is_fatal }) = &trouble {
                tracing::warn!(why, is_fatal, "a leader is not followed for now");
            }
            for (leader, Pulled { local, .. }) in &self.partitions {
                let is_left_out = self.left_out.contains_key(&leader.table);
                self.progress.tell(local.id, |it| {
                    it.failed_reads += u64::from(trouble.is_some());
                    if !is_left_out {
                        it.trouble.clone_from(&trouble);
                    }
                });
            }
            let pause = PAUSE_MIN.saturating_mul(1 << failures.min(10)).min(PAUSE_MAX);
            if failures > 0 {
                tokio::time::sleep(pause).await;
            }
        }
    }

    /// Where all copies stand.
    fn taken(&self) -> u64 {
        self.partitions.values().map(|it| self.progress.of(it.local.id).taken).sum()
    }

    /// Waits for what was handed to the log here: what is asked for anew comes after it then, and is not
    /// appended twice.
    async fn settle(&mut self) {
        while let Some(first) = self.waiting.front_mut() {
            let answer = tokio::time::timeout_at(first.until, &mut first.answered).await;
            let answer = answer.ok().and_then(Result::ok).unwrap_or(Err(WriteError::Unknown));
            // How it ended is seen where the copy stands.
            let _ = self.appended(answer);
        }
    }

    /// Leaves those tables out for a while that the leader gives no records of, so that others go on;
    /// false where all are the same.
    async fn leave_out(&mut self, why: &str) -> bool {
        let now = Instant::now();
        self.left_out.retain(|_, until| *until > now);
        let places = self.places().unwrap_or_default();
        let tables: BTreeSet<u64> = places.iter().map(|it| it.partition.table).collect();
        if tables.len() < 2 {
            return false;
        }
        let mut is_found = false;
        for table in tables {
            let own = places.iter().filter(|it| it.partition.table == table).copied().collect();
            let Err(error) = self.remote.records(own).await else { continue };
            let Ended::Stopped(why) = ended(error) else { continue };
            is_found = true;
            self.left_out.insert(table, now + LEFT_OUT);
            for (_, it) in self.partitions.iter().filter(|(leader, _)| leader.table == table) {
                let trouble = Some(Trouble { why: why.clone(), is_fatal: true });
                self.progress.tell(it.local.id, |it| it.trouble = trouble);
            }
        }
        tracing::warn!(why, is_found, "tables of a leader are left out");
        is_found
    }

    /// Pulls until something is wrong.
    async fn once(&mut self) -> Ended {
        let places = match self.places() {
            Ok(places) => places,
            Err(why) => return Ended::Waits(why),
        };
        if places.is_empty() && self.levelled.is_busy() {
            self.levelled.ended().await;
            return Ended::Behind;
        }
        if places.is_empty() {
            return Ended::Waits("no copy here follows yet".to_owned());
        }
        let mut records = match self.remote.records(places.clone()).await {
            Ok(records) => records,
            Err(error @ RemoteError::Trimmed(_)) => {
                let begun = self.level_trimmed(&places).await;
                return if begun { Ended::Behind } else { ended(error) };
            }
            Err(error) => return ended(error),
        };
        loop {
            if self.levelled.has_ended() {
                return Ended::Behind;
            }
            // Whoever was left out may come again.
            if self.left_out.values().any(|until| *until <= Instant::now()) {
                self.left_out.clear();
                return Ended::Behind;
            }
            match self.step(&mut *records).await {
                Ok(()) => {}
                Err(ended) => return ended,
            }
        }
    }

    /// Has those levelled that the leader's log no longer reaches back to; false where there are none.
    async fn level_trimmed(&mut self, places: &[Place]) -> bool {
        let trimmed = difference::trimmed(&*self.remote, places).await;
        trimmed.iter().for_each(|leader| self.level_one(*leader));
        !trimmed.is_empty()
    }

    fn level_one(&mut self, leader: PartitionId) {
        let Some(pulled) = self.partitions.get(&leader).cloned() else { return };
        let (remote, levels) = (Arc::clone(&self.remote), self.levels.clone());
        let progress = Arc::clone(&self.progress);
        self.levelled.begin(Levelling { remote, pulled, progress, levels });
    }

    /// Where the copies here stand in the leader's log.
    fn places(&mut self) -> Result<Vec<Place>, String> {
        let cut_off = self.partitions.values().filter(|it| difference::is_cut_off(it));
        let cut_off: Vec<PartitionId> = cut_off.map(|it| it.leader).collect();
        cut_off.into_iter().for_each(|leader| self.level_one(leader));
        let mut places = Vec::new();
        let now = Instant::now();
        for (partition, Pulled { local, .. }) in &self.partitions {
            let is_left_out = self.left_out.get(&partition.table).is_some_and(|it| *it > now);
            if local.fault().is_some() || is_left_out || self.levelled.has(*partition) {
                continue;
            }
            let leader = leader_of(&local.store).map_err(|error| error.to_string())?;
            // One that follows no more is about to be told so.
            let Some(leader) = leader.filter(|it| it.partition == *partition) else { continue };
            self.progress.stands_at(local.id, leader.position.link.lsn.0);
            places.push(Place { partition: *partition, position: leader.position });
        }
        Ok(places)
    }

    /// Takes what comes next: from the leader, or from the log here.
    async fn step(&mut self, records: &mut dyn Records) -> Result<(), Ended> {
        let has_room = self.waiting_bytes < WAITING_BYTES_MAX;
        let told = match self.waiting.front_mut() {
            Some(first) => tokio::select! {
                answer = &mut first.answered => {
                    return self.appended(answer.unwrap_or(Err(WriteError::Unknown)));
                }
                told = heard(records), if has_room => told,
                // Apply of the group may have stopped: nobody answers then.
                () = tokio::time::sleep_until(first.until) => {
                    return self.appended(Err(WriteError::Unknown));
                }
            },
            None => heard(records).await,
        };
        match told.map_err(ended)? {
            Told::Carried { partition, item } => self.append(partition, item).await,
            Told::Level(level) => {
                self.level(level);
                Ok(())
            }
        }
    }

    /// Hands records to the log here, once they are known to be right and their mapping is there.
    async fn append(&mut self, partition: PartitionId, item: Item) -> Result<(), Ended> {
        let Some(pulled) = self.partitions.get(&partition).cloned() else { return Ok(()) };
        let Pulled { table, local, .. } = &pulled;
        let needed = check(partition, &item).map_err(Ended::Stopped)?;
        self.await_mapping(table, partition.table, needed).await?;
        let Item::Carried { batch, records } = &item else { return Ok(()) };
        let (to, bytes, count) = (batch.to.lsn.0, item.bytes_max(), records.len());
        self.progress.tell(local.id, |it| {
            it.heard_at = Some(Instant::now());
            it.trouble = None;
            it.batches += 1;
            it.records += count as u64;
            it.bytes += bytes as u64;
            it.waiting_bytes += bytes as u64;
            it.waiting_records += count as u64;
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
        let local = local.id;
        self.waiting_bytes += bytes;
        let until = tokio::time::Instant::now() + APPEND_TIMEOUT;
        self.waiting.push_back(Appending { local, to, bytes, records: count, until, answered });
        Ok(())
    }

    /// Waits until a table's mapping here is as new as records need it: an index without it would wait,
    /// and the leader may be gone then.
    async fn await_mapping(&self, table: &Table, leader: u64, needed: u64) -> Result<(), Ended> {
        let end = Instant::now() + MAPPING_TIMEOUT;
        // A table of rows has none until it is known that the leader has become an index.
        while table.index().map_or(0, |index| index.mapping_version) < needed {
            if Instant::now() >= end {
                return Err(Ended::Waits("the leader's mapping is not there yet".to_owned()));
            }
            let mappings = [(leader, needed)].into_iter().collect();
            let _ = self.levels.try_send(Level { mappings, ..Level::default() });
            tokio::time::sleep(MAPPING_PAUSE).await;
        }
        Ok(())
    }

    /// The log here has answered for the first that waits.
    fn appended(&mut self, answer: Answer) -> Result<(), Ended> {
        let Some(Appending { local, to, bytes, records, .. }) = self.waiting.pop_front() else {
            return Ok(());
        };
        self.waiting_bytes -= bytes;
        let stands_at = match answer.as_deref() {
            Ok([Reply::Integer(lsn)]) => u64::try_from(*lsn).ok(),
            _ => None,
        };
        self.progress.tell(local, |it| {
            it.waiting_bytes = it.waiting_bytes.saturating_sub(bytes as u64);
            it.waiting_records = it.waiting_records.saturating_sub(records as u64);
            it.appended += u64::from(stands_at.is_some());
            it.appended_records += if stands_at.is_some() { records as u64 } else { 0 };
            it.failed_appends += u64::from(answer.is_err());
        });
        if let Some(lsn) = stands_at {
            self.progress.stands_at(local, lsn);
        }
        match (answer, stands_at) {
            (_, Some(lsn)) if lsn >= to => Ok(()),
            (_, Some(_)) => Err(Ended::Behind),
            (Err(error), _) => Err(Ended::Waits(format!("the records are not appended: {error}"))),
            (Ok(_), None) => Err(Ended::Waits(format!("partition {local} follows nobody"))),
        }
    }

    fn level(&self, level: Level) {
        let now = Instant::now();
        for told in &level.partitions {
            let partition = PartitionId { table: told.table, ordinal: told.ordinal };
            if let Some(Pulled { local, .. }) = self.partitions.get(&partition) {
                self.progress.level(local.id, told.clone(), now);
                self.progress.tell(local.id, |it| it.trouble = None);
            }
        }
        // Where the last has not been looked at yet, the next comes soon.
        let _ = self.levels.try_send(level);
    }
}

async fn heard(records: &mut dyn Records) -> Result<Told, RemoteError> {
    match tokio::time::timeout(SILENCE_MAX, records.next()).await {
        Ok(told) => told,
        Err(_) => {
            Err(RemoteError::Unreachable(format!("the leader was silent for {SILENCE_MAX:?}")))
        }
    }
}

fn ended(error: RemoteError) -> Ended {
    match error {
        RemoteError::Unreachable(why) | RemoteError::Refused(why) | RemoteError::Denied(why) => {
            Ended::Waits(why)
        }
        RemoteError::NoTable(why) | RemoteError::Trimmed(why) | RemoteError::Forked(why) => {
            Ended::Stopped(why)
        }
    }
}
