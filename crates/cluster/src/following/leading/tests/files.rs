//! Files for followers: what is asked, by whom, and of which tables.

use bytes::Bytes;

use super::*;
use crate::wire::{Envelope, Problem, Question, Reply, decode_answer, encode_question};

pub(super) fn question(leader: &Leader, question: Question) -> Bytes {
    let (from, cluster) = ("n".to_owned(), leader.shared().replication.log.incarnation().0);
    let (timeout_ms, trace, alternatives, rank) = (1000, 0, 0, 0);
    encode_question(&Envelope { from, cluster, timeout_ms, trace, alternatives, rank, question })
}

/// A reply, and how long it was held back, ns.
pub(super) fn told(answer: &Bytes) -> (Reply, Option<u64>) {
    let (reply, told) = decode_answer(answer);
    (reply, told.server_ns)
}

async fn asked(leader: &Leader, asker: &str, of: Question) -> Reply {
    let may = |name: &str| name == "db0";
    let answer = leader.leading.files(asker, question(leader, of), &may).await;
    decode_answer(&answer).0
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_table_are_given_to_whom_they_were_made_for() {
    let leader = Leader::open().await;
    leader.write(0..100, 100).await;
    let table = leader.table().await.incarnation;
    let partition = PartitionId { table, ordinal: 0 }.into();
    let opened = asked(&leader, "a", Question::OpenCopy { partition }).await;
    let Reply::Copy { listing, checksum } = opened else { panic!("{opened:?}") };
    assert_eq!(listing.checksum(), checksum);
    let again = asked(&leader, "a", Question::OpenCopy { partition }).await;
    assert!(matches!(again, Reply::Copy { listing: it, .. } if it == listing), "the same again");

    let checkpoint = listing.number;
    let chunk = Question::CopyChunk { checkpoint, file: 0, offset: 0, bytes_max: 1 << 20 };
    let checksums = Question::FileChecksums { checkpoint, files: vec![0] };
    let given = asked(&leader, "a", chunk.clone()).await;
    assert!(matches!(given, Reply::CopyChunk { .. }), "{given:?}");
    let given = asked(&leader, "a", checksums.clone()).await;
    assert!(matches!(given, Reply::FileChecksums { .. }), "{given:?}");
    // A node of the same name in another cluster, whose key is another.
    for theirs in [chunk.clone(), checksums, Question::CloseCheckpoint { checkpoint }] {
        let answer = asked(&leader, "b", theirs).await;
        assert!(matches!(answer, Reply::Problem(Problem::CheckpointGone)), "{answer:?}");
    }
    let other = asked(&leader, "b", Question::OpenCopy { partition }).await;
    assert!(matches!(other, Reply::Copy { listing: it, .. } if it.number != checkpoint));
    // The key may follow the table no longer.
    let none = |_: &str| false;
    let answer = leader.leading.files("a", question(&leader, chunk.clone()), &none).await;
    assert!(matches!(decode_answer(&answer).0, Reply::Problem(Problem::CheckpointGone)));
    let closed = asked(&leader, "a", Question::CloseCheckpoint { checkpoint }).await;
    assert!(matches!(closed, Reply::Done), "{closed:?}");
    let gone = asked(&leader, "a", chunk).await;
    assert!(matches!(gone, Reply::Problem(Problem::CheckpointGone)), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_files_is_asked_for() {
    let leader = Leader::open().await;
    leader.write(0..1, 1).await;
    leader.coordinator.documents().create_index("i", crate::IndexBody::default()).await.unwrap();
    let table = leader.leading.table("i").await.unwrap().unwrap().incarnation;
    let other = PartitionId { table, ordinal: 0 }.into();
    let own = PartitionId { table: leader.table().await.incarnation, ordinal: 0 }.into();
    let argv = vec![b"GET".to_vec(), b"key-0".to_vec()];
    let freshness = crate::wire::Freshness::Eventual;
    for refused in [
        // A table that the key may not follow, and the metadata.
        Question::OpenCopy { partition: other },
        Question::OpenCopy { partition: crate::metadata::PARTITION.into() },
        Question::OpenCheckpoint { partition: own },
        Question::Read { partition: own, argv, freshness },
        Question::Digest { partition: own },
        Question::Statistics,
        Question::Positions,
        Question::Probe,
    ] {
        let words = format!("{refused:?}");
        let answer = asked(&leader, "a", refused).await;
        assert!(matches!(answer, Reply::Problem(Problem::NotHere(_))), "{words}: {answer:?}");
    }
    let mut theirs = question(&leader, Question::Probe).to_vec();
    for _ in 0..theirs.len() {
        theirs.pop();
        let answer = leader.leading.files("a", theirs.clone().into(), &|_| true).await;
        assert!(matches!(decode_answer(&answer).0, Reply::Problem(_)));
    }
    // Another cluster's.
    let envelope = Envelope {
        from: "n".to_owned(),
        cluster: leader.shared().replication.log.incarnation().0 ^ 1,
        timeout_ms: 1000,
        trace: 0,
        alternatives: 0,
        rank: 0,
        question: Question::OpenCopy { partition: own },
    };
    let answer = leader.leading.files("a", encode_question(&envelope), &|_| true).await;
    assert!(matches!(decode_answer(&answer).0, Reply::Problem(Problem::OtherCluster)));
}
