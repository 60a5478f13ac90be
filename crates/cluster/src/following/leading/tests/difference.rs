//! What differs, for followers that the log no longer reaches: what is asked, by whom, of which tables.

use bytes::Bytes;
use plimsoll_storage::partition::difference::{Range, Rest, Span};

use super::*;
use crate::following::difference::{DifferenceAnswer, DifferenceAsk, Opened, SpanForm};
use crate::following::remote::RemoteError;

async fn asked(
    leader: &Leader,
    asker: &str,
    ask: DifferenceAsk,
) -> Result<DifferenceAnswer, RemoteError> {
    leader.leading.difference(asker, ask, &|name: &str| name == "db0").await
}

fn open(partition: PartitionId, log: Incarnation, follower: &str) -> DifferenceAsk {
    let PartitionId { table, ordinal } = partition;
    DifferenceAsk::Open { table, ordinal, log: log.0, follower: follower.to_owned() }
}

async fn opened(leader: &Leader, partition: PartitionId, follower: &str) -> Opened {
    let ask = open(partition, leader.shared().replication.log.incarnation(), follower);
    match asked(leader, "a", ask).await {
        Ok(DifferenceAnswer::Opened(opened)) => opened,
        other => panic!("{other:?}"),
    }
}

fn all(since: u64) -> SpanForm {
    (&Span { after: Bytes::new(), until: None, since, seed: 5 }).into()
}

async fn range(leader: &Leader, snapshot: u64, since: u64) -> Range {
    match asked(leader, "a", DifferenceAsk::Range { snapshot, span: all(since) }).await {
        Ok(DifferenceAnswer::Range(range)) => range,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_stays_as_it_was_and_is_its_followers_alone() {
    let leader = Leader::open().await;
    leader.write(0..20, 10).await;
    let partition = PartitionId { table: leader.table().await.incarnation, ordinal: 0 };
    let first = opened(&leader, partition, "f").await;
    assert_eq!(first.link.lsn, leader.position(partition).lsn);
    let before = range(&leader, first.snapshot, 0).await;
    leader.write(20..40, 10).await;
    assert_eq!(range(&leader, first.snapshot, 0).await, before);
    assert_eq!(opened(&leader, partition, "f").await, first, "the same again");
    // What is as new as the follower has it is told by count alone.
    let rest = range(&leader, first.snapshot, first.counters.sequence).await;
    assert!(rest.rows.is_empty() && rest.rest.count >= before.rows.len() as u64);
    let another = opened(&leader, partition, "g").await;
    assert_ne!(another.snapshot, first.snapshot);
    assert!(another.counters.sequence > first.counters.sequence);
    let snapshot = first.snapshot;
    for ask in [
        DifferenceAsk::Range { snapshot, span: all(0) },
        DifferenceAsk::Hashes { snapshot, span: all(0) },
        DifferenceAsk::Rows { snapshot, span: all(0), wanted: Bytes::new(), offset: 0 },
    ] {
        // A key of another name, and one that may follow the table no longer.
        let theirs = asked(&leader, "ab", ask.clone()).await;
        assert!(matches!(theirs, Err(RemoteError::Refused(_))), "{theirs:?}");
        let none = leader.leading.difference("a", ask, &|_| false).await;
        assert!(matches!(none, Err(RemoteError::Refused(_))), "{none:?}");
    }
    asked(&leader, "b", DifferenceAsk::Close { snapshot }).await.unwrap();
    assert_eq!(range(&leader, snapshot, 0).await, before, "it is another's to close");
    asked(&leader, "a", DifferenceAsk::Close { snapshot }).await.unwrap();
    let gone = asked(&leader, "a", DifferenceAsk::Range { snapshot, span: all(0) }).await;
    assert!(matches!(gone, Err(RemoteError::Refused(_))), "{gone:?}");
    leader.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_few_and_of_what_may_be_followed() {
    let leader = Leader::open().await;
    leader.write(0..5, 10).await;
    let (table, log) =
        (leader.table().await.incarnation, leader.shared().replication.log.incarnation());
    let partition = PartitionId { table, ordinal: 0 };
    for other in [
        PartitionId { table: table ^ 1, ordinal: 0 },
        crate::metadata::PARTITION,
        PartitionId { table: u64::MAX, ordinal: 9 },
    ] {
        let refused = asked(&leader, "a", open(other, log, "f")).await;
        assert!(matches!(refused, Err(RemoteError::NoTable(_))), "{refused:?}");
    }
    let far = asked(&leader, "a", open(PartitionId { table, ordinal: 9 }, log, "f")).await;
    assert!(matches!(far, Err(RemoteError::Unreachable(_))), "{far:?}");
    let forked = asked(&leader, "a", open(partition, Incarnation(log.0 ^ 1), "f")).await;
    assert!(matches!(forked, Err(RemoteError::Forked(_))), "{forked:?}");
    let long = asked(&leader, "a", open(partition, log, &"f".repeat(256))).await;
    assert!(matches!(long, Err(RemoteError::Refused(_))), "{long:?}");
    for number in 0..16 {
        opened(&leader, partition, &number.to_string()).await;
    }
    let many = asked(&leader, "a", open(partition, log, "more")).await;
    assert!(matches!(many, Err(RemoteError::Unreachable(_))), "{many:?}");
    let later = leader.shared().world.time.now() + Duration::from_secs(3600);
    leader.shared().snapshots.expire(&leader.shared().tables, later);
    let snapshot = opened(&leader, partition, "more").await.snapshot;
    // Whatever a range is said to be, no more than one of it is read.
    let none = SpanForm::from(&Span {
        after: Bytes::from_static(b"\xff"),
        until: None,
        since: 0,
        seed: 5,
    });
    let empty = asked(&leader, "a", DifferenceAsk::Range { snapshot, span: none }).await;
    let rest = Rest { count: 0, ..range(&leader, snapshot, 0).await.rest };
    match empty {
        Ok(DifferenceAnswer::Range(Range { end: None, rows, rest: found })) => {
            assert!(rows.is_empty() && found.count == rest.count);
        }
        other => panic!("{other:?}"),
    }
    leader.close().await;
}
