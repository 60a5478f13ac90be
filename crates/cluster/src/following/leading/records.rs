//! Streams of records: the questions that begin one are checked here, and what is read is handed over
//! a channel that holds little, so that a follower that is slow costs its leader little. The reading
//! is `reading.rs`'s, a role for each stream.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use plimsoll_base::time::Instant;
use plimsoll_log::rules::carried::{Assembler, CarriedFault};
use plimsoll_log::{GroupId, Log, LogError, PartitionId, Reader};
use tokio::sync::mpsc::{Receiver, channel};

use super::reading::{Followed, Reading, STREAM_MESSAGES_MAX};
use super::{Leading, METADATA_TIME, unreachable};
use crate::following::remote::{Asked, FollowerPosition, Records, RemoteError, Told};
use crate::metadata;
use crate::replication::groups::Lease;

/// The most partitions that one stream follows.
pub const PLACES_MAX: usize = 1024;
/// How many bytes of a follower's record a batch takes.
const BATCH_BYTES: usize = 1 << 20;

/// Records of partitions as this node reads them. Dropping it ends the reading.
pub struct RecordStream {
    /// What is refused from the beginning; told first.
    refused: VecDeque<Told>,
    told: Receiver<Result<Told, RemoteError>>,
}

#[cfg(test)]
impl RecordStream {
    /// How much is ready to be taken.
    pub(super) fn waiting(&self) -> usize {
        self.told.len()
    }
}

impl Records for RecordStream {
    fn next(&mut self) -> Asked<'_, Told> {
        Box::pin(async {
            if let Some(refused) = self.refused.pop_front() {
                return Ok(refused);
            }
            self.told.recv().await.unwrap_or_else(|| Err(ended()))
        })
    }
}

impl Leading {
    /// The names of the tables that places are of, by incarnation: of those that are there.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`] where that cannot be found out now.
    pub async fn names_of(
        &self,
        places: &[FollowerPosition],
    ) -> Result<BTreeMap<u64, String>, RemoteError> {
        let tables = self.tables(places).await?;
        Ok(tables.into_iter().map(|(table, (name, _))| (table, name)).collect())
    }

    /// The records of partitions from where their followers stand: those that this node has applied
    /// itself, so that what is read can be compared with what it read before. A place that nothing can
    /// be given from is refused on the stream ([`RemoteError::NoTable`], [`RemoteError::Trimmed`],
    /// [`RemoteError::Forked`]); the others go on.
    ///
    /// # Errors
    /// [`RemoteError::Refused`] where the places make no sense; [`RemoteError::Unreachable`] where the
    /// node serves as many streams as it can.
    pub async fn records(
        &self,
        places: Vec<FollowerPosition>,
    ) -> Result<RecordStream, RemoteError> {
        check(&places)?;
        let tables = self.tables(&places).await?;
        let busy = |_| unreachable("the node serves as many followers as it can: come again");
        let room = Arc::clone(&self.streams).try_acquire_owned().map_err(busy)?;
        let incarnation = self.here.replication.log.incarnation();
        let mut refused = Vec::new();
        let mut groups: BTreeMap<GroupId, Vec<FollowerPosition>> = BTreeMap::new();
        for place in places {
            match group_of(&tables, &place) {
                Err(error) => refused.push((place.partition, error)),
                Ok(_) if place.position.incarnation != incarnation => {
                    let (expected, found) = (place.position.incarnation, incarnation);
                    let fault = CarriedFault::OtherLog { expected, found };
                    refused.push((place.partition, forked(&fault)));
                }
                Ok(group) => groups.entry(group).or_default().push(place),
            }
        }
        let leases = self.lease(groups.keys().copied()).await?;
        let log = Arc::clone(&self.here.replication.log);
        let (tasks, now) = (&self.here.world.tasks, self.here.world.time.now());
        let begun = tasks.blocking(move || begin(&*log, groups, now)).await;
        let begun = begun.map_err(unreachable)??;
        refused.extend(begun.refused);
        let (sender, told) = channel(STREAM_MESSAGES_MAX);
        if let Some(reader) = begun.reader {
            let here = Arc::clone(&self.here);
            let mut roles = self.roles.lock();
            // Under the lock: what begins after `stop` would be ended by nobody.
            let roles = roles.as_mut().ok_or_else(ended)?;
            roles.retain(|role| !role.is_over());
            let role = tasks.role("follower", |stopping| async move {
                Reading::new(here, reader, begun.followed, sender, stopping).run().await;
                drop((room, leases));
            });
            roles.push(role.map_err(unreachable)?);
        }
        let refused = refused.into_iter();
        let refused = refused.map(|(partition, error)| Told::Refused { partition, error });
        Ok(RecordStream { refused: refused.collect(), told })
    }

    /// Has this node read groups, also those in which it has no copy: nothing goes out that it has not
    /// applied itself.
    async fn lease(
        &self,
        groups: impl Iterator<Item = GroupId>,
    ) -> Result<Vec<Lease>, RemoteError> {
        let mut leases = Vec::new();
        for group in groups {
            leases.push(self.here.replication.groups.lease(group));
            self.here.replication.take_up(group).await.map_err(unreachable)?;
        }
        Ok(leases)
    }

    /// The tables of places that are there, by incarnation: the name of each, and its partitions'
    /// groups.
    async fn tables(&self, places: &[FollowerPosition]) -> Result<Tables, RemoteError> {
        if !self.here.router.pass_metadata(METADATA_TIME).await {
            return Err(unreachable("the node is cut off from its log"));
        }
        let is_wanted = |table: u64| places.iter().any(|place| place.partition.table == table);
        let all = metadata::tables(&self.here.metadata).map_err(unreachable)?;
        let wanted = all.into_iter().filter(|(_, definition)| is_wanted(definition.incarnation));
        let found = wanted.map(|(name, definition)| {
            (definition.incarnation, (name, super::holds::groups_of(&definition)))
        });
        Ok(found.collect())
    }
}

fn ended() -> RemoteError {
    unreachable("the node serves no more records")
}

type Tables = BTreeMap<u64, (String, Vec<GroupId>)>;

fn group_of(tables: &Tables, place: &FollowerPosition) -> Result<GroupId, RemoteError> {
    let PartitionId { table, ordinal } = place.partition;
    let gone = || RemoteError::NoTable(format!("the table {table} is gone"));
    let (name, groups) = tables.get(&table).ok_or_else(gone)?;
    let none = || RemoteError::NoTable(format!("the table `{name}` has no partition {ordinal}"));
    groups.get(ordinal as usize).copied().ok_or_else(none)
}

fn forked(fault: &dyn std::fmt::Display) -> RemoteError {
    RemoteError::Forked(fault.to_string())
}

fn check(places: &[FollowerPosition]) -> Result<(), RemoteError> {
    if !(1..=PLACES_MAX).contains(&places.len()) {
        let count = places.len();
        let words = format!("{count} partitions are asked for, 1 to {PLACES_MAX} can be");
        return Err(RemoteError::Refused(words));
    }
    let mut partitions: Vec<PartitionId> = places.iter().map(|it| it.partition).collect();
    partitions.sort_by_key(|it| (it.table, it.ordinal));
    match partitions.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => {
            let words = format!("partition {} is asked for twice", pair[0]);
            Err(RemoteError::Refused(words))
        }
        None => Ok(()),
    }
}

/// What can be read, and what cannot.
struct Begun {
    /// None where nothing can.
    reader: Option<Box<dyn Reader>>,
    followed: Vec<Followed>,
    refused: Vec<(PartitionId, RemoteError)>,
}

/// Opens the log where the furthest behind of each group stands, without those that nothing can be given
/// to. Blocks.
fn begin(
    log: &dyn Log,
    mut groups: BTreeMap<GroupId, Vec<FollowerPosition>>,
    now: Instant,
) -> Result<Begun, RemoteError> {
    let mut refused = Vec::new();
    loop {
        let mut followed = Vec::new();
        for (group, places) in &mut groups {
            followed.extend(follow(log, *group, places, &mut refused, now));
        }
        if followed.is_empty() {
            return Ok(Begun { reader: None, followed, refused });
        }
        let from: Vec<_> = followed.iter().map(Followed::next).collect();
        let error = match log.read(&from) {
            Ok(reader) => return Ok(Begun { reader: Some(reader), followed, refused }),
            Err(error) => error,
        };
        // Of another failure another node may know better.
        let LogError::Trimmed { group, first, .. } = &error else { return Err(unreachable(error)) };
        let places = groups.get_mut(group).ok_or_else(|| unreachable(&error))?;
        let is_lost = |place: &mut FollowerPosition| place.position.link.lsn.next() < *first;
        let lost: Vec<FollowerPosition> = places.extract_if(.., is_lost).collect();
        if lost.is_empty() {
            return Err(unreachable(error));
        }
        let trimmed = || RemoteError::Trimmed(error.to_string());
        refused.extend(lost.into_iter().map(|place| (place.partition, trimmed())));
    }
}

/// The places of a group that agree with each other; takes the others out. None where none is left.
fn follow(
    log: &dyn Log,
    group: GroupId,
    places: &mut Vec<FollowerPosition>,
    refused: &mut Vec<(PartitionId, RemoteError)>,
    now: Instant,
) -> Option<Followed> {
    while !places.is_empty() {
        let followers: Vec<_> = places.iter().map(|it| (it.partition, it.position)).collect();
        let fault = match Assembler::begin(log.incarnation(), BATCH_BYTES, &followers) {
            Ok(assembler) => return Some(Followed::new(group, assembler, places.clone(), now)),
            Err(fault) => fault,
        };
        // Which of two is right, nothing tells here: alone, each is compared with the log.
        let first = places.iter().map(|place| place.position.link.lsn).min();
        let at_first = |place: &mut FollowerPosition| Some(place.position.link.lsn) == first;
        let named: Vec<FollowerPosition> = places.extract_if(.., at_first).collect();
        refused.extend(named.into_iter().map(|place| (place.partition, forked(&fault))));
    }
    None
}
