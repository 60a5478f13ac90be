//! Streams of records: the questions that begin one are checked here, and what is read is handed over
//! a channel that holds little, so that a follower that is slow costs its leader little. The reading
//! is `reading.rs`'s, on a thread for each stream.

use std::collections::{BTreeMap, HashMap};

use plimsoll_log::rules::carried::Assembler;
use plimsoll_log::{GroupId, Log, LogError, PartitionId, Reader};
use tokio::sync::mpsc::{Receiver, channel};

use super::reading::{Followed, Reading, STREAM_MESSAGES_MAX};
use super::{Leading, METADATA_TIME, unreachable};
use crate::following::remote::{Asked, Place, Records, RemoteError, Told};
use crate::metadata;

/// The most partitions that one stream follows.
pub const PLACES_MAX: usize = 1024;
/// How many bytes of a follower's record a batch takes.
const BATCH_BYTES: usize = 1 << 20;

/// Records of partitions as this node reads them. Dropping it ends the reading.
pub struct RecordStream {
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
            let ended = || Err(unreachable("the node serves no more records"));
            self.told.recv().await.unwrap_or_else(ended)
        })
    }
}

impl Leading {
    /// The names of the tables that places are of, each once.
    ///
    /// # Errors
    /// [`RemoteError::NoTable`] where one of them is not there, [`RemoteError::Unreachable`] where
    /// that cannot be found out now.
    pub async fn names_of(&self, places: &[Place]) -> Result<Vec<String>, RemoteError> {
        let tables = self.tables(places).await?;
        Ok(tables.into_values().map(|(name, _)| name).collect())
    }

    /// The records of partitions from where their followers stand: those that this node has applied
    /// itself, so that what is read can be compared with what it read before.
    ///
    /// # Errors
    /// [`RemoteError::NoTable`], [`RemoteError::Trimmed`] and [`RemoteError::Forked`] as they say, for
    /// any of the places; [`RemoteError::Refused`] where they make no sense;
    /// [`RemoteError::Unreachable`] where the node serves as many streams as it can.
    pub async fn records(&self, places: Vec<Place>) -> Result<RecordStream, RemoteError> {
        check(&places)?;
        let tables = self.tables(&places).await?;
        let busy = |_| unreachable("the node serves as many followers as it can: come again");
        let room = std::sync::Arc::clone(&self.streams).try_acquire_owned().map_err(busy)?;
        let mut groups: BTreeMap<GroupId, Vec<Place>> = BTreeMap::new();
        for place in places {
            let (name, of_table) = &tables[&place.partition.table];
            let group = of_table.get(place.partition.ordinal as usize);
            let group = group.ok_or_else(|| {
                let ordinal = place.partition.ordinal;
                RemoteError::NoTable(format!("the table `{name}` has no partition {ordinal}"))
            })?;
            groups.entry(*group).or_default().push(place);
        }
        let log = std::sync::Arc::clone(&self.shared.log);
        let begun = tokio::task::spawn_blocking(move || begin(&*log, groups));
        let (reader, followed) = begun.await.map_err(unreachable)??;
        let (sender, told) = channel(STREAM_MESSAGES_MAX);
        let shared = std::sync::Arc::clone(&self.shared);
        let reading = Reading::new(shared, reader, followed, sender);
        let run = move || {
            reading.run();
            drop(room);
        };
        let thread = std::thread::Builder::new().name("follower".to_owned()).spawn(run);
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread.map_err(unreachable)?);
        Ok(RecordStream { told })
    }

    /// The tables of places by incarnation: the name of each, and its partitions' groups.
    async fn tables(
        &self,
        places: &[Place],
    ) -> Result<HashMap<u64, (String, Vec<GroupId>)>, RemoteError> {
        if !self.shared.pass_metadata(METADATA_TIME).await {
            return Err(unreachable("the node is cut off from its log"));
        }
        let mut wanted: HashMap<u64, Option<(String, Vec<GroupId>)>> =
            places.iter().map(|place| (place.partition.table, None)).collect();
        for (name, definition) in metadata::tables(&self.shared.metadata).map_err(unreachable)? {
            if let Some(found) = wanted.get_mut(&definition.incarnation) {
                *found = Some((name, super::holds::groups_of(&definition)));
            }
        }
        let found = wanted.into_iter().map(|(table, found)| {
            let gone = || RemoteError::NoTable(format!("the table {table} is gone"));
            Ok((table, found.ok_or_else(gone)?))
        });
        found.collect()
    }
}

fn check(places: &[Place]) -> Result<(), RemoteError> {
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

type Begun = (Box<dyn Reader>, Vec<Followed>);

/// Opens the log where the furthest behind of each group stands. Blocks.
fn begin(log: &dyn Log, groups: BTreeMap<GroupId, Vec<Place>>) -> Result<Begun, RemoteError> {
    let mut followed = Vec::new();
    for (group, places) in groups {
        let followers: Vec<_> = places.iter().map(|it| (it.partition, it.position)).collect();
        let assembler = Assembler::begin(log.incarnation(), BATCH_BYTES, &followers);
        let assembler = assembler.map_err(|fault| {
            let other = |place: &&Place| place.position.incarnation != log.incarnation();
            let place = places.iter().find(other).or(places.first());
            let partition = place.map_or_else(String::new, |it| it.partition.to_string());
            RemoteError::Forked(format!("partition {partition}: {fault}"))
        })?;
        followed.push(Followed::new(group, assembler, places));
    }
    let from: Vec<_> = followed.iter().map(Followed::next).collect();
    let reader = log.read(&from).map_err(|error| log_error(&error, &followed))?;
    Ok((reader, followed))
}

/// What a failure of the log means to the followers of these groups.
pub(super) fn log_error(error: &LogError, followed: &[Followed]) -> RemoteError {
    match error {
        LogError::Trimmed { group, first, .. } => {
            let places = followed.iter().find(|it| it.group == *group).map(|it| &it.places[..]);
            let is_lost = |place: &&Place| place.position.link.lsn.next() < *first;
            let lost = places.unwrap_or_default().iter().filter(is_lost);
            let lost: Vec<String> = lost.map(|place| place.partition.to_string()).collect();
            let names = lost.join(", ");
            RemoteError::Trimmed(format!("partition {names}: {error}"))
        }
        // Another node may be able to.
        LogError::Damaged(_) | LogError::Failed(_) => unreachable(error),
    }
}
