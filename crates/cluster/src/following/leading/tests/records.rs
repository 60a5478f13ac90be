//! Streams of records: what comes, from where, and why one ends.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::collections::BTreeMap;

use bytes::Bytes;
use plimsoll_log::Lsn;
use plimsoll_log::record::Item;
use plimsoll_log::rules::carried::Verdict;

use super::*;
use crate::following::leading::{RecordStream, STREAMS_MAX};
use crate::following::remote::{Level, Records, RemoteError, Told};

/// What followers of partitions have taken.
struct Takers(BTreeMap<PartitionId, (LeaderPosition, Vec<Bytes>)>);

impl Takers {
    fn new(places: &[FollowerPosition]) -> Self {
        Self(places.iter().map(|it| (it.partition, (it.position, Vec::new()))).collect())
    }

    /// Takes what comes until all stand at the ends; gives the last level.
    async fn take(&mut self, leader: &Leader, stream: &mut RecordStream) -> Level {
        let mut last = Level::default();
        let is_behind = |(id, (held, _)): (&PartitionId, &(LeaderPosition, Vec<Bytes>))| {
            held.link != leader.position(*id)
        };
        while self.0.iter().any(is_behind) {
            match soon(stream.next()).await.unwrap() {
                Told::Level(level) => last = level,
                Told::Carried { partition, item: Item::Carried { batch, records } } => {
                    let (held, taken) = self.0.get_mut(&partition).unwrap();
                    assert_eq!(batch.admit(held), Ok(Verdict::Take { from: 0 }));
                    *held = batch.position(records.len());
                    taken.extend(records);
                }
                other => panic!("{other:?}"),
            }
        }
        last
    }

    fn places(&self) -> Vec<FollowerPosition> {
        let place = |(partition, (position, _)): (&PartitionId, &(LeaderPosition, _))| {
            FollowerPosition { partition: *partition, position: *position }
        };
        self.0.iter().map(place).collect()
    }
}

/// The records of a partition as they stand in the log.
fn in_log(leader: &Leader, partition: PartitionId) -> Vec<Bytes> {
    let (group, end) = (leader.group(partition), leader.position(partition).lsn);
    let mut reader = leader.shared().replication.log.read(&[(group, Lsn(1))]).unwrap();
    let mut entries = Vec::new();
    while entries.last().is_none_or(|it: &plimsoll_log::Entry| it.lsn < end) {
        reader.next(&mut entries, 1 << 20, LONG).unwrap();
    }
    let of = |bytes: &Bytes| plimsoll_log::record::partition(bytes) == Ok(partition);
    entries.into_iter().map(|it| it.record).filter(of).collect()
}

async fn refused(leader: &Leader, places: Vec<FollowerPosition>) -> RemoteError {
    match leader.leading.records(places).await {
        Err(error) => error,
        Ok(mut stream) => refusal(&mut stream).await.1,
    }
}

/// What a stream refuses first, or why it ends.
async fn refusal(stream: &mut RecordStream) -> (Option<PartitionId>, RemoteError) {
    loop {
        match soon(stream.next()).await {
            Ok(Told::Refused { partition, error }) => return (Some(partition), error),
            Ok(_) => {}
            Err(error) => return (None, error),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_records_come_from_where_a_follower_stands() {
    let leader = Leader::open().await;
    leader.write(0..100, 10_000).await;
    let places = leader.beginnings().await;
    let mut takers = Takers::new(&places);
    let mut stream = leader.leading.records(places.clone()).await.unwrap();
    let first = soon(stream.next()).await.unwrap();
    let Told::Level(level) = first else { panic!("{first:?}") };
    assert_eq!(level.partitions.len(), 2);
    for it in &level.partitions {
        let id = PartitionId { table: it.table, ordinal: it.ordinal };
        assert_eq!(it.lsn, leader.position(id).lsn.0);
    }
    let changes: u64 = level.partitions.iter().filter_map(|it| it.sequence).sum();
    assert_eq!(changes, 100, "one for each write");
    takers.take(&leader, &mut stream).await;
    // What is written from now on comes by itself.
    leader.write(100..110, 10).await;
    takers.take(&leader, &mut stream).await;
    for (partition, (_, taken)) in &takers.0 {
        assert_eq!(*taken, in_log(&leader, *partition));
    }
    // Another goes on from there, and gets nothing twice.
    drop(stream);
    leader.write(110..120, 10).await;
    let mut again = Takers::new(&takers.places());
    let mut stream = leader.leading.records(takers.places()).await.unwrap();
    again.take(&leader, &mut stream).await;
    for (partition, (_, taken)) in again.0 {
        let all = [takers.0[&partition].1.clone(), taken].concat();
        assert_eq!(all, in_log(&leader, partition));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_has_all_waits_for_more() {
    let leader = Leader::open().await;
    leader.write(0..10, 10).await;
    let places = leader.beginnings().await;
    let at_end =
        |place: &FollowerPosition| leader.place(place.partition, leader.position(place.partition));
    let places: Vec<FollowerPosition> = places.iter().map(at_end).collect();
    let mut takers = Takers::new(&places);
    let mut stream = leader.leading.records(places).await.unwrap();
    leader.write(10..20, 10).await;
    takers.take(&leader, &mut stream).await;
    assert!(takers.0.values().map(|(_, taken)| taken.len()).sum::<usize>() >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_followed_another_log_is_told_so() {
    let leader = Leader::open().await;
    leader.write(0..20, 10).await;
    let [first, second] = leader.beginnings().await.try_into().unwrap();
    let mut other = first;
    other.position.incarnation = Incarnation(7);
    assert!(matches!(refused(&leader, vec![other]).await, RemoteError::Forked(_)));
    // From its first record on: seen where both have read the same.
    let mut forked = first;
    forked.position.link.hash ^= 1;
    assert!(matches!(refused(&leader, vec![forked]).await, RemoteError::Forked(_)));
    // Further on, which names the partition where another is followed from before it.
    let end = leader.position(first.partition);
    forked.position.link = Link { hash: end.hash ^ 1, ..end };
    let mut stream = leader.leading.records(vec![forked, second]).await.unwrap();
    let (partition, error) = refusal(&mut stream).await;
    assert!(matches!(error, RemoteError::Forked(_)), "{error}");
    assert_eq!(partition, Some(first.partition));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_can_be_given_records_is_where_others_cannot() {
    let leader = Leader::open().await;
    leader.write(0..20, 10).await;
    let [first, second] = leader.beginnings().await.try_into().unwrap();
    let (mut other_log, mut gone) = (first, first);
    other_log.position.incarnation = Incarnation(7);
    gone.partition.table = 7;
    let mut stream = leader.leading.records(vec![gone, other_log, second]).await.unwrap();
    let (partition, error) = refusal(&mut stream).await;
    assert!(matches!(error, RemoteError::NoTable(_)), "{error}");
    assert_eq!(partition, Some(gone.partition));
    let (partition, error) = refusal(&mut stream).await;
    assert!(matches!(error, RemoteError::Forked(_)), "{error}");
    assert_eq!(partition, Some(first.partition));
    let mut takers = Takers::new(&[second]);
    takers.take(&leader, &mut stream).await;
    assert_eq!(takers.0[&second.partition].1, in_log(&leader, second.partition));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_trimmed_is_said_to_be() {
    let leader = Leader::open().await;
    leader.write(0..100, 10).await;
    let places = leader.beginnings().await;
    leader.flush().await;
    assert!(leader.first(places[0].partition) > 1);
    let mut stream = leader.leading.records(places.clone()).await.unwrap();
    let (partition, error) = refusal(&mut stream).await;
    assert!(matches!(error, RemoteError::Trimmed(_)), "{error}");
    // Both were trimmed, each in a group of its own: either may come first.
    let refused = places.iter().find(|place| Some(place.partition) == partition);
    assert!(leader.first(refused.expect("one of those asked for").partition) > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused() {
    let leader = Leader::open().await;
    leader.write(0..1, 10).await;
    let places = leader.beginnings().await;
    assert!(matches!(refused(&leader, vec![]).await, RemoteError::Refused(_)));
    let twice = vec![places[0], places[1], places[0]];
    assert!(matches!(refused(&leader, twice).await, RemoteError::Refused(_)));
    let mut none = places[0];
    none.partition.table = 7;
    assert!(matches!(refused(&leader, vec![none]).await, RemoteError::NoTable(_)));
    none = places[0];
    none.partition.ordinal = 2;
    assert!(matches!(refused(&leader, vec![none]).await, RemoteError::NoTable(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_follower_costs_little_and_streams_are_few() {
    let leader = Leader::open().await;
    leader.write(0..40, 1 << 20).await;
    let places = leader.beginnings().await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS_MAX {
        streams.push(leader.leading.records(places.clone()).await.unwrap());
    }
    let busy = refused(&leader, places.clone()).await;
    assert!(matches!(busy, RemoteError::Unreachable(_)), "{busy}");
    let is_full = async {
        while streams.iter().any(|it| it.waiting() < 4) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(is_full).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(streams.iter().all(|it| it.waiting() == 4), "no more waits for it");
    streams.truncate(1);
    let has_room = async {
        while leader.leading.records(places.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(has_room).await;
    // It has lost nothing by its slowness.
    let mut takers = Takers::new(&places);
    takers.take(&leader, &mut streams[0]).await;
    for (partition, (_, taken)) in &takers.0 {
        assert_eq!(*taken, in_log(&leader, *partition));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_stream_begins_once_the_node_has_ended_them() {
    let leader = Leader::open().await;
    leader.write(0..1, 10).await;
    let places = leader.beginnings().await;
    // As for one that was let in just before.
    drop(leader.leading.roles.lock().take());
    let error = refused(&leader, places).await;
    assert!(matches!(error, RemoteError::Unreachable(_)), "{error}");
    leader.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_table_and_with_the_node() {
    let leader = Leader::open().await;
    leader.write(0..1, 10).await;
    leader.coordinator.documents().create_index("i", crate::IndexBody::default()).await.unwrap();
    let table = leader.leading.table("i").await.unwrap().unwrap();
    let id = PartitionId { table: table.incarnation, ordinal: 0 };
    let mut stream =
        leader.leading.records(vec![leader.place(id, leader.position(id))]).await.unwrap();
    let first = soon(stream.next()).await.unwrap();
    let Told::Level(level) = first else { panic!("{first:?}") };
    assert_eq!(level.mappings, [(table.incarnation, 1)].into());
    let mut other = leader.leading.records(leader.beginnings().await).await.unwrap();
    leader.coordinator.documents().delete_index("i").await.unwrap();
    let (partition, error) = refusal(&mut stream).await;
    assert!(matches!(error, RemoteError::NoTable(_)), "{error}");
    assert_eq!(partition, Some(id));
    leader.close().await;
    let error = loop {
        if let Err(error) = soon(other.next()).await {
            break error;
        }
    };
    assert!(matches!(error, RemoteError::Unreachable(_)), "{error}");
}
