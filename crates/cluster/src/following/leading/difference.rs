//! What differs between a partition here and a copy of it that follows, where the log between the two
//! was trimmed: a snapshot of the rows is held for the follower, which asks for it range by range. What
//! ranges are is [`plimsoll_storage::partition::difference`]'s.
//!
//! A snapshot keeps the store from dropping what was deleted since: there are few, a follower has one of
//! a partition at a time, and those that nobody asks end by themselves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::time::Instant;
use plimsoll_log::PartitionId;
use plimsoll_log::rules::carried::Link;
use plimsoll_log::rules::difference::Counters;
use plimsoll_storage::partition::difference::{Limits, RangeError, Span, hashes, range, rows};
use plimsoll_storage::partition::{OwnedSnapshot, stamp_of};
use tokio::sync::Semaphore;

use super::files::May;
use super::{Leading, METADATA_TIME, unreachable};
use crate::copies::LocalCopies;
use crate::following::difference::{DifferenceAnswer, DifferenceAsk, Opened, hashes_in};
use crate::following::remote::RemoteError;
use crate::metadata;
use crate::replication::partition::Partition;
use crate::replication::tables::Tables;

/// How many snapshots are held at once.
const SNAPSHOTS_MAX: usize = 16;
/// After how long without a question one ends.
const IDLE_MAX: Duration = Duration::from_secs(3600);
/// How many ranges are read at once; others wait.
const READS_MAX: usize = 2;

/// The snapshots that a node holds for followers.
pub(crate) struct Snapshots {
    open: Mutex<BTreeMap<u64, Held>>,
    reads: Arc<Semaphore>,
}

#[derive(Clone)]
struct Held {
    /// Whose it is.
    follower: String,
    partition: PartitionId,
    local: Arc<Partition>,
    rows: Arc<OwnedSnapshot>,
    link: Link,
    counters: Counters,
    used_at: Instant,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self { open: Mutex::default(), reads: Arc::new(Semaphore::new(READS_MAX)) }
    }
}

impl Snapshots {
    /// Lets those go that nobody has asked for long before `now`, and those of copies that are no longer
    /// here.
    pub(crate) fn expire(&self, tables: &Tables, now: Instant) {
        self.open.lock().retain(|_, held| {
            let local = tables.copies(held.partition).and_then(|it| it.local());
            let is_here = local.is_some_and(|local| Arc::ptr_eq(&local, &held.local));
            is_here && now - held.used_at < IDLE_MAX
        });
    }

    /// The one of this name, if it is the asker's; it is in use from now on.
    fn used(&self, asker: &str, snapshot: u64, now: Instant) -> Option<Held> {
        let mut open = self.open.lock();
        let held = open.get_mut(&snapshot)?;
        if !is_of(held, asker) {
            return None;
        }
        held.used_at = now;
        Some(held.clone())
    }
}

/// The name of a follower's begins with its asker's.
fn is_of(held: &Held, asker: &str) -> bool {
    held.follower.strip_prefix(asker).is_some_and(|rest| rest.starts_with('/'))
}

impl Leading {
    /// Answers a question about what differs, of the tables that `may` allows. `asker` tells those apart
    /// who may ask; it has no slash.
    ///
    /// # Errors
    /// [`RemoteError::NoTable`] where there is no such table that the asker may follow;
    /// [`RemoteError::Forked`] where the log is another; [`RemoteError::Refused`] where the question makes
    /// no sense, and where the snapshot is gone; [`RemoteError::Unreachable`] where the node cannot answer
    /// now, or has no copy.
    pub async fn difference(
        &self,
        asker: &str,
        ask: DifferenceAsk,
        may: May<'_>,
    ) -> Result<DifferenceAnswer, RemoteError> {
        if !ask.is_bounded() {
            return Err(RemoteError::Refused("the question has no bounds".to_owned()));
        }
        match ask {
            DifferenceAsk::Open { table, ordinal, log, follower } => {
                let partition = PartitionId { table, ordinal };
                if !self.may_copy(partition, may) {
                    return Err(RemoteError::NoTable(format!("the table {table} is gone")));
                }
                if log != self.here.replication.log.incarnation().0 {
                    return Err(RemoteError::Forked("the leader's log is another".to_owned()));
                }
                let opened = self.open(partition, format!("{asker}/{follower}")).await?;
                Ok(DifferenceAnswer::Opened(opened))
            }
            DifferenceAsk::Range { snapshot, span } => {
                let span = Span::from(span);
                self.read(asker, snapshot, may, move |rows| {
                    Ok(DifferenceAnswer::Range(range(rows, &span, &Limits::default())?))
                })
                .await
            }
            DifferenceAsk::Hashes { snapshot, span } => {
                let span = Span::from(span);
                self.read(asker, snapshot, may, move |rows| {
                    Ok(DifferenceAnswer::Hashes(hashes(rows, &span)?))
                })
                .await
            }
            DifferenceAsk::Rows { snapshot, span, wanted, offset } => {
                let (span, wanted) = (Span::from(span), hashes_in(&wanted));
                self.read(asker, snapshot, may, move |snapshot| {
                    Ok(DifferenceAnswer::Rows(rows(snapshot, &span, &wanted, offset)?))
                })
                .await
            }
            DifferenceAsk::Close { snapshot } => {
                let mut open = self.snapshots.open.lock();
                if open.get(&snapshot).is_some_and(|held| is_of(held, asker)) {
                    open.remove(&snapshot);
                }
                Ok(DifferenceAnswer::Closed)
            }
        }
    }

    async fn open(&self, partition: PartitionId, follower: String) -> Result<Opened, RemoteError> {
        let (here, snapshots) = (Arc::clone(&self.here), Arc::clone(&self.snapshots));
        let open = move || open(&here, &snapshots, partition, follower);
        let opened = self.here.world.tasks.blocking(open).await;
        let (snapshot, held) = opened.map_err(unreachable)??;
        let mapping_version = self.mapping_version(partition.table).await?;
        let Held { link, counters, .. } = held;
        Ok(Opened { snapshot, link, counters, mapping_version })
    }

    /// The version of a table's mapping, 0 where it has none. It is read from the metadata after the rows
    /// that it is for: another node may have changed it, and this one have applied what was checked
    /// against it before it took the change over.
    async fn mapping_version(&self, table: u64) -> Result<u64, RemoteError> {
        let here = &self.here;
        if !here.router.pass_metadata(METADATA_TIME).await {
            return Err(unreachable("the node is cut off from its log"));
        }
        let tables = here.tables.all();
        let known = tables.iter().find(|known| known.incarnation() == table);
        let gone = || RemoteError::NoTable(format!("the table {table} is gone"));
        let name = known.map(|known| known.name()).ok_or_else(gone)?;
        let found = metadata::definition(&here.metadata, name).map_err(unreachable)?;
        let definition = found.map(|(it, _)| it).filter(|it| it.incarnation == table);
        let documents = definition.ok_or_else(gone)?.documents;
        Ok(documents.map_or(0, |documents| documents.mapping_version))
    }

    /// Reads a snapshot where that may block, once there is room for one more.
    async fn read(
        &self,
        asker: &str,
        snapshot: u64,
        may: May<'_>,
        read: impl FnOnce(&OwnedSnapshot) -> Result<DifferenceAnswer, RangeError> + Send + 'static,
    ) -> Result<DifferenceAnswer, RemoteError> {
        let gone = || RemoteError::Refused("the snapshot is gone: open another".to_owned());
        let now = self.here.world.time.now();
        let held = self.snapshots.used(asker, snapshot, now).ok_or_else(gone)?;
        if !self.may_copy(held.partition, may) {
            return Err(gone());
        }
        let permit = Arc::clone(&self.snapshots.reads).acquire_owned().await;
        let permit = permit.map_err(unreachable)?;
        let read = move || {
            let _permit = permit;
            read(&held.rows)
        };
        match self.here.world.tasks.blocking(read).await.map_err(unreachable)? {
            Ok(answer) => Ok(answer),
            Err(RangeError::Store(error)) => Err(unreachable(error)),
            Err(error) => Err(RemoteError::Refused(error.to_string())),
        }
    }
}

/// The snapshot that the follower has of a partition, where the log still has everything behind it, or
/// another. Blocks.
fn open(
    here: &LocalCopies,
    snapshots: &Snapshots,
    partition: PartitionId,
    follower: String,
) -> Result<(u64, Held), RemoteError> {
    let not_here = || unreachable(format!("partition {partition} is not served here"));
    let copies = here.tables.copies(partition).ok_or_else(not_here)?;
    let local = copies.local().filter(|it| it.fault().is_none()).ok_or_else(not_here)?;
    let tail = here.replication.tails.get(&copies.group).ok_or_else(not_here)?;
    let bounds = here.replication.log.bounds(copies.group).map_err(unreachable)?;
    let now = here.world.time.now();
    snapshots.expire(&here.tables, now);
    let mut open = snapshots.open.lock();
    open.retain(|_, held| {
        let is_same = held.follower == follower && held.partition == partition;
        !is_same || held.link.lsn.next() >= bounds.first
    });
    let known =
        open.iter_mut().find(|(_, held)| held.follower == follower && held.partition == partition);
    if let Some((snapshot, held)) = known {
        held.used_at = now;
        return Ok((*snapshot, held.clone()));
    }
    if open.len() >= SNAPSHOTS_MAX {
        return Err(unreachable("as many snapshots are held as can be: come again"));
    }
    // Before the rows: they have everything up to there, and say how much more.
    let position = tail.get().position();
    let rows = local.store.owned_snapshot().map_err(unreachable)?;
    // One that halts meanwhile lacks a record that the position is behind of.
    if local.fault().is_some() || here.replication.is_stopping.load(Ordering::Relaxed) {
        return Err(not_here());
    }
    let stamp = stamp_of(&rows).map_err(unreachable)?;
    let stamp = stamp.ok_or_else(|| unreachable("nothing was applied here yet"))?;
    // Where the records behind the last of the partition's are others', the log may be trimmed up to
    // there.
    let at = if stamp.position.lsn > position.lsn { stamp.position } else { position };
    let link = Link { lsn: at.lsn, hash: at.hash, log_time_ms: at.log_time_ms };
    let counters = Counters {
        sequence: stamp.sequence,
        keys: stamp.keys,
        expires: stamp.expires,
        swept_ms: stamp.swept_ms,
    };
    let rows = Arc::new(rows);
    let held = Held { follower, partition, local, rows, link, counters, used_at: now };
    // Drawn at random, so that one of an earlier run is not taken for another.
    let snapshot = here.router.names.next_u64();
    open.insert(snapshot, held.clone());
    Ok((snapshot, held))
}
