//! The role of one stream: it reads the groups of the followed partitions, has what it read put
//! into batches, and hands those over, with how far this node is.
//!
//! It never goes beyond what the node's own appliers have applied, and where it stands with one of
//! them their hashes must agree: nothing is given of a log that this node itself would not apply.
//! Where a group's applier has stopped, nothing more of it comes from here.

use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_base::Time;
use plimsoll_base::tasks::Stopping;
use plimsoll_base::time::Instant;
use plimsoll_log::record::Item;
use plimsoll_log::rules::carried::{AssembleFault, Assembler, CarriedFault};
use plimsoll_log::rules::chain::Position;
use plimsoll_log::{Entry, GroupId, LogError, Lsn, PartitionId, Reader};
use tokio::sync::mpsc::Sender;

use super::unreachable;
use crate::copies::LocalCopies;
use crate::following::remote::{FollowerPosition, Level, PartitionLevel, RemoteError, Told};
use crate::metadata;
use crate::settings;

/// What waits for a follower at the most: messages of about 1 MiB, or of one record.
pub(super) const STREAM_MESSAGES_MAX: usize = 4;
/// How much is read at once, bytes.
const READ_BYTES: usize = 1 << 20;
/// How much may be read before it is applied here, bytes.
const PENDING_BYTES_MAX: usize = 8 << 20;
/// How long a read waits for records where there are none.
const READ_TIME: Duration = Duration::from_millis(50);
/// How soon it is looked again whether what was read is applied.
const APPLY_PAUSE: Duration = Duration::from_millis(1);
/// How often it is said how far the leader is.
const LEVEL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a record waits for others while the log has more to read.
const REST_TIME: Duration = Duration::from_millis(200);
/// How often those are told how far the log is of which it has nothing.
const EMPTY_INTERVAL: Duration = Duration::from_secs(5);
/// How long a follower may read nothing.
const STALLED_MAX: Duration = Duration::from_secs(60);

/// The followed partitions of one group.
pub(super) struct Followed {
    pub group: GroupId,
    pub places: Vec<FollowerPosition>,
    assembler: Assembler,
    /// What was read and is not applied here yet.
    pending: VecDeque<Entry>,
    /// Since when there are records that are not handed over.
    since: Option<Instant>,
    /// When all were told last how far the log is.
    told_at: Instant,
}

impl Followed {
    pub(super) fn new(
        group: GroupId,
        assembler: Assembler,
        places: Vec<FollowerPosition>,
        now: Instant,
    ) -> Self {
        Self { group, places, assembler, pending: VecDeque::new(), since: None, told_at: now }
    }

    /// What of the log comes next.
    pub(super) fn next(&self) -> (GroupId, Lsn) {
        (self.group, self.assembler.position().lsn.next())
    }

    /// Takes what is applied here, up to the next batch that is full.
    fn take_until_full(
        &mut self,
        applied: Lsn,
        now: Instant,
    ) -> Result<Option<(PartitionId, Item)>, End> {
        loop {
            if let Some(full) = self.assembler.full() {
                return Ok(Some(full));
            }
            let is_applied = |entry: &Entry| entry.lsn <= applied;
            let Some(entry) = self.pending.front().filter(|it| is_applied(it)).cloned() else {
                return Ok(None);
            };
            self.pending.pop_front();
            let taken = self.assembler.take(entry.lsn, &entry.record);
            taken.map_err(|fault| self.fault(&fault))?;
            if self.since.is_none() && self.has_records() {
                self.since = Some(now);
            }
        }
    }

    fn has_records(&self) -> bool {
        self.places.iter().any(|place| self.assembler.has_records(place.partition))
    }

    /// Where it stands with this node's own replicas, they must have read the same.
    fn compare(&self, own: &Position) -> Result<(), End> {
        let position = self.assembler.position();
        if own.lsn != position.lsn || own.hash == position.hash {
            return Ok(());
        }
        let (lsn, expected, found) = (own.lsn, own.hash, position.hash);
        Err(self.fault(&CarriedFault::Forked { lsn, expected, found }.into()))
    }

    /// Refuses those whose fault it is: the ones that stand where it shows, or all.
    fn fault(&self, fault: &AssembleFault) -> End {
        let at = match fault {
            AssembleFault::Carried(CarriedFault::Forked { lsn, .. }) => Some(*lsn),
            _ => None,
        };
        let is_named = |place: &&FollowerPosition| Some(place.position.link.lsn) == at;
        let are_named = self.places.iter().any(|place| is_named(&place));
        let refused = self.places.iter().filter(|place| !are_named || is_named(place));
        let why = format!("log group {}: {fault}", self.group);
        let refuse = |place: &FollowerPosition| (place.partition, RemoteError::Forked(why.clone()));
        End::Refused(refused.map(refuse).collect())
    }
}

/// Why a stream ends.
enum End {
    /// Nobody listens any more, or the node stops.
    Quiet,
    /// What the follower is told of it.
    Said(RemoteError),
    /// Nothing more can be given of these: it begins anew without them.
    Refused(Vec<(PartitionId, RemoteError)>),
}

impl From<RemoteError> for End {
    fn from(error: RemoteError) -> Self {
        Self::Said(error)
    }
}

/// One stream.
pub(super) struct Reading {
    here: Arc<LocalCopies>,
    reader: Box<dyn Reader>,
    followed: Vec<Followed>,
    sender: Sender<Result<Told, RemoteError>>,
    stopping: Stopping,
    time: Time,
    /// The change of tables at which those that are followed were there.
    tables: Option<u64>,
    level_at: Option<Instant>,
}

impl Reading {
    pub(super) fn new(
        here: Arc<LocalCopies>,
        reader: Box<dyn Reader>,
        followed: Vec<Followed>,
        sender: Sender<Result<Told, RemoteError>>,
        stopping: Stopping,
    ) -> Self {
        let time = here.world.time.clone();
        Self { here, reader, followed, sender, stopping, time, tables: None, level_at: None }
    }

    /// Reads until the follower goes, the node stops, or nothing more can be given.
    pub(super) async fn run(mut self) {
        let end = loop {
            if let Err(end) = self.step().await {
                break end;
            }
        };
        let error = match end {
            End::Quiet => return,
            End::Said(error) => error,
            End::Refused(refused) => {
                for (partition, error) in refused {
                    if self.send(Ok(Told::Refused { partition, error })).await.is_err() {
                        return;
                    }
                }
                unreachable("the stream begins anew, without what was refused")
            }
        };
        tracing::debug!(%error, "a follower's stream ends");
        // A follower that went meanwhile is told nothing.
        let _ = self.send(Err(error)).await;
    }

    async fn step(&mut self) -> Result<(), End> {
        if self.is_over() {
            return Err(End::Quiet);
        }
        self.level().await?;
        let mut entries = Vec::new();
        let pending = self.followed.iter().flat_map(|it| &it.pending);
        let pending_bytes: usize = pending.map(|entry| entry.record.len()).sum();
        let is_pending = self.followed.iter().any(|it| !it.pending.is_empty());
        let is_gathered = self.followed.iter().any(|it| it.since.is_some());
        if pending_bytes < PENDING_BYTES_MAX {
            let time = match (is_gathered, is_pending) {
                (_, true) => APPLY_PAUSE,
                // What was gathered goes out as soon as there is nothing more.
                (true, false) => Duration::ZERO,
                (false, false) => READ_TIME,
            };
            self.read(&mut entries, time).await?;
        } else {
            self.time.sleep(APPLY_PAUSE).await;
        }
        let is_level = entries.is_empty();
        for entry in entries {
            if let Some(followed) = self.followed.iter_mut().find(|it| it.group == entry.group) {
                followed.pending.push_back(entry);
            }
        }
        for at in 0..self.followed.len() {
            self.take(at).await?;
            self.rests(at, is_level).await?;
        }
        Ok(())
    }

    /// Reads what the log has; where that is nothing, waits for something for so long.
    async fn read(&mut self, entries: &mut Vec<Entry>, patience: Duration) -> Result<(), End> {
        self.read_now(entries)?;
        if !entries.is_empty() || patience.is_zero() {
            return Ok(());
        }
        let ready = poll_fn(|context| self.reader.poll_ready(context));
        tokio::select! {
            biased;
            () = self.stopping.told() => return Err(End::Quiet),
            () = self.sender.closed() => return Err(End::Quiet),
            () = ready => {}
            () = self.time.sleep(patience) => return Ok(()),
        }
        self.read_now(entries)
    }

    fn read_now(&mut self, entries: &mut Vec<Entry>) -> Result<(), End> {
        self.reader.take(entries, READ_BYTES).map_err(|error| self.unread(error))
    }

    /// Why nothing more is read. An engine that asks a server tells what was trimmed only now: those who lack it
    /// are told so, as nothing is given to them until they are levelled.
    fn unread(&self, error: LogError) -> End {
        let LogError::Trimmed { group, first, .. } = &error else {
            return unreachable(error).into();
        };
        let of_group = self.followed.iter().filter(|it| it.group == *group);
        let lost = of_group
            .flat_map(|it| &it.places)
            .filter(|place| place.position.link.lsn.next() < *first);
        let refused: Vec<_> =
            lost.map(|place| (place.partition, RemoteError::Trimmed(error.to_string()))).collect();
        // Of another failure another node may know better.
        if refused.is_empty() { unreachable(error).into() } else { End::Refused(refused) }
    }

    /// Takes what is applied here by now, and hands over the batches that are full.
    async fn take(&mut self, at: usize) -> Result<(), End> {
        let here = Arc::clone(&self.here);
        let Some(tail) = here.replication.tails.get(&self.followed[at].group) else {
            return Ok(());
        };
        let applied = tail.applied();
        let has_stopped = tail.has_stopped();
        // Each batch goes as soon as it is full: they are what takes memory.
        while let Some((partition, item)) =
            self.followed[at].take_until_full(applied, self.time.now())?
        {
            self.send(Ok(Told::Carried { partition, item })).await?;
        }
        let followed = &mut self.followed[at];
        followed.compare(&tail.get().position())?;
        if has_stopped {
            // Another node may go on; of other groups this one can.
            let error = unreachable("apply of the group has stopped on this node");
            let places = followed.places.iter();
            return Err(End::Refused(places.map(|it| (it.partition, error.clone())).collect()));
        }
        Ok(())
    }

    /// Hands over what waits for no more records, and tells the others now and then where the log is.
    async fn rests(&mut self, at: usize, is_level: bool) -> Result<(), End> {
        let (followed, now) = (&mut self.followed[at], self.time.now());
        let is_due = followed.since.is_some_and(|since| {
            (is_level && followed.pending.is_empty()) || now - since >= REST_TIME
        });
        let is_turn = now - followed.told_at >= EMPTY_INTERVAL;
        if !is_due && !is_turn {
            return Ok(());
        }
        followed.since = None;
        if is_turn {
            followed.told_at = now;
        }
        let assembler = &mut followed.assembler;
        let mut rests = Vec::new();
        for place in &followed.places {
            if is_turn || assembler.has_records(place.partition) {
                rests.extend(assembler.rest(place.partition).map(|item| (place.partition, item)));
            }
        }
        for (partition, item) in rests {
            self.send(Ok(Told::Carried { partition, item })).await?;
        }
        Ok(())
    }

    /// Says now and then how far this node is, after it looked whether the tables are still there.
    async fn level(&mut self) -> Result<(), End> {
        let now = self.time.now();
        if self.level_at.is_some_and(|at| now - at < LEVEL_INTERVAL) {
            return Ok(());
        }
        self.level_at = Some(now);
        self.check_tables()?;
        let mut level = Level { clock_ms: self.time.wall_ms(), ..Level::default() };
        for followed in &self.followed {
            let Some(tail) = self.here.replication.tails.get(&followed.group) else { continue };
            let held_permille = self.held_permille(followed);
            for place in &followed.places {
                let PartitionId { table, ordinal } = place.partition;
                let copies = self.here.tables.copies(place.partition);
                let local = copies.and_then(|copies| copies.local());
                // The position first: a sequence that is newer than it is taken for a lag, never for
                // the reverse.
                let position = tail.get().position();
                level.partitions.push(PartitionLevel {
                    table,
                    ordinal,
                    lsn: position.lsn.0,
                    log_time_ms: position.log_time_ms,
                    sequence: local.map(|local| local.sequence()),
                    held_permille,
                });
                if !level.mappings.contains_key(&table)
                    && let Some(index) = self.here.tables.index_of(table)
                {
                    level.mappings.insert(table, index.mapping_version);
                }
            }
        }
        self.send(Ok(Told::Level(level))).await
    }

    /// What the log of a group has that was not given yet, of `ccr.retention.max_bytes`, in thousandths.
    fn held_permille(&self, followed: &Followed) -> u32 {
        let after = followed.assembler.position().lsn;
        let held = self
            .here
            .replication
            .log
            .bytes_after(followed.group, after)
            .ok()
            .flatten()
            .unwrap_or(0);
        let most = settings::cluster::followers_retention_bytes(&self.here.metadata);
        u32::try_from(held.saturating_mul(1000) / most.max(1)).unwrap_or(u32::MAX)
    }

    fn check_tables(&mut self) -> Result<(), End> {
        let metadata = &self.here.metadata;
        // The change first: a table that goes after it is missed the next time.
        let change = metadata::tables_change(metadata).map_err(unreachable)?;
        if self.tables == Some(change) {
            return Ok(());
        }
        let tables = metadata::tables(metadata).map_err(unreachable)?;
        let there: BTreeSet<u64> = tables.iter().map(|(_, it)| it.incarnation).collect();
        let places = self.followed.iter().flat_map(|it| &it.places).map(|place| place.partition);
        let gone = places.filter(|partition| !there.contains(&partition.table));
        let error = |table| RemoteError::NoTable(format!("the table {table} is gone"));
        let gone: Vec<_> = gone.map(|it| (it, error(it.table))).collect();
        if !gone.is_empty() {
            return Err(End::Refused(gone));
        }
        self.tables = Some(change);
        Ok(())
    }

    /// Hands a message over; waits for a follower that is slow.
    async fn send(&mut self, told: Result<Told, RemoteError>) -> Result<(), End> {
        // Who reads nothing begins anew once it can: others want the room.
        let sent = self.time.timeout(STALLED_MAX, self.sender.send(told));
        tokio::select! {
            biased;
            () = self.stopping.told() => Err(End::Quiet),
            sent = sent => match sent {
                Ok(Ok(())) => Ok(()),
                _ => Err(End::Quiet),
            },
        }
    }

    fn is_over(&self) -> bool {
        self.stopping.is_told()
            || self.here.replication.is_stopping.load(Ordering::Relaxed)
            || self.sender.is_closed()
    }
}
