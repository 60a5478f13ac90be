//! What is kept for followers, and that trimming spares it.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use super::*;
use crate::following::remote::{Hold, HoldChange, RemoteError};

async fn hold(leader: &Leader, change: HoldChange) -> Hold {
    Hold {
        name: "db0".to_owned(),
        table: leader.table().await.incarnation,
        cluster_uuid: "u".to_owned(),
        follower: "db0".to_owned(),
        follower_incarnation: 6,
        change,
        key: String::new(),
    }
}

async fn change(leader: &Leader, change: HoldChange) -> Result<Vec<u64>, RemoteError> {
    let hold = hold(leader, change).await;
    leader.leading.hold(hold).await.map(|held| held.positions)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_kept_until_the_follower_has_it() {
    let leader = Leader::open().await;
    leader.write(0..100, 10).await;
    let table = leader.table().await.incarnation;
    let partitions = [0, 1].map(|ordinal| PartitionId { table, ordinal });
    assert_eq!(change(&leader, HoldChange::Begin).await, Ok(vec![0, 0]));
    leader.flush().await;
    assert_eq!(partitions.map(|it| leader.first(it)), [1, 1], "all is kept");

    let ends = partitions.map(|it| leader.position(it).lsn.0);
    let told = HoldChange::Positions(vec![ends[0], 3]);
    assert_eq!(change(&leader, told).await, Ok(vec![ends[0], 3]));
    // It is further than this node: nobody is.
    let told = HoldChange::Positions(vec![ends[0] + 9, 2]);
    assert_eq!(change(&leader, told).await, Ok(vec![ends[0], 3]));
    leader.write(100..200, 10).await;
    leader.flush().await;
    if leader.group(partitions[0]) != leader.group(partitions[1]) {
        assert_eq!(partitions.map(|it| leader.first(it)), [ends[0] + 1, 4]);
    }
    assert_eq!(leader.leading.holds().unwrap().len(), 1);

    assert_eq!(change(&leader, HoldChange::End).await, Ok(vec![]));
    assert_eq!(change(&leader, HoldChange::End).await, Ok(vec![]));
    assert_eq!(leader.leading.holds(), Ok(vec![]));
    leader.write(200..201, 10).await;
    leader.flush().await;
    assert!(leader.first(partitions[1]) > 4, "nobody needs it any more");
    leader.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused() {
    let leader = Leader::open().await;
    leader.write(0..1, 10).await;
    let begin = hold(&leader, HoldChange::Begin).await;
    let refused = |hold: Hold| async { leader.leading.hold(hold).await.unwrap_err() };
    let other = refused(Hold { table: 1, ..begin.clone() }).await;
    assert!(matches!(other, RemoteError::NoTable(_)), "{other}");
    let none = refused(Hold { name: "db1".to_owned(), ..begin.clone() }).await;
    assert!(matches!(none, RemoteError::NoTable(_)), "{none}");
    let nameless = refused(Hold { cluster_uuid: String::new(), ..begin.clone() }).await;
    assert!(matches!(nameless, RemoteError::Refused(_)), "{nameless}");
    let few = HoldChange::Positions(vec![1]);
    let few = refused(Hold { change: few, ..begin.clone() }).await;
    assert!(matches!(few, RemoteError::Refused(_)), "{few}");
    for follower_incarnation in 0..64 {
        leader.leading.hold(Hold { follower_incarnation, ..begin.clone() }).await.unwrap();
    }
    let more = refused(Hold { follower_incarnation: 64, ..begin.clone() }).await;
    assert!(matches!(more, RemoteError::Refused(_)), "{more}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_of_a_table_goes_with_it() {
    let leader = Leader::open().await;
    leader.coordinator.documents().create_index("i", crate::IndexBody::default()).await.unwrap();
    let table = leader.leading.table("i").await.unwrap().unwrap().incarnation;
    let hold = Hold {
        name: "i".to_owned(),
        table,
        cluster_uuid: "u".to_owned(),
        follower: "j".to_owned(),
        ..Hold::default()
    };
    leader.leading.hold(hold).await.unwrap();
    leader.coordinator.documents().delete_index("i").await.unwrap();
    leader.write(0..1, 10).await;
    leader.flush().await;
    let is_gone = async {
        while !leader.leading.holds().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(is_gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_budget_nothing_is_kept_any_more() {
    let leader = Leader::open().await;
    leader.write(0..20, 10).await;
    change(&leader, HoldChange::Begin).await.unwrap();
    let partition = PartitionId { table: leader.table().await.incarnation, ordinal: 0 };
    let group = leader.group(partition);
    let mut holds = crate::following::Holds::read(&leader.shared().metadata).unwrap();
    let end = leader.position(partition).lsn.0;
    assert_eq!(holds.spare(group, end, Some(7), 7).up_to, 0);
    let spared = holds.spare(group, end, Some(8), 7);
    assert!(spared.up_to == end && spared.dropped.is_some());
    holds.write_aside(&leader.shared().copies);
    let is_dropped = async {
        while !leader.leading.holds().unwrap()[0].is_dropped {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(is_dropped).await;
    assert_eq!(leader.leading.holds().unwrap()[0].bytes, Some(8));
    let mut holds = crate::following::Holds::read(&leader.shared().metadata).unwrap();
    assert_eq!(holds.spare(group, end, Some(8), 7).up_to, end);
    // Nothing was trimmed meanwhile, so that it has lost nothing.
    let told = HoldChange::Positions(vec![1, 1]);
    assert_eq!(change(&leader, told).await, Ok(vec![1, 1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_alone_counts_what_it_keeps_and_gives_it_up() {
    let leader = Leader::open().await;
    leader.write(0..1, 10).await;
    change(&leader, HoldChange::Begin).await.unwrap();
    let set = Argv::of(&[
        b"HSET".as_slice(),
        b"objects:settings",
        b"persistent",
        br#"{"ccr.retention.max_bytes":"1mb"}"#,
    ]);
    leader.shared().replication.write_metadata(set).await.unwrap();
    leader.write(1..100, 10).await;
    leader.flush().await;
    assert!(!leader.leading.holds().unwrap()[0].is_dropped);
    leader.write(100..104, 1 << 20).await;
    leader.flush().await;
    let is_dropped = async {
        while !leader.leading.holds().unwrap()[0].is_dropped {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(is_dropped).await;
    assert!(leader.leading.holds().unwrap()[0].bytes > Some(1 << 20));
    let table = leader.table().await.incarnation;
    let firsts = [0, 1].map(|ordinal| leader.first(PartitionId { table, ordinal }));
    assert!(firsts.iter().any(|first| *first > 1), "{firsts:?}");
}
