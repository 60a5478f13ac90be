//! Tests of checkpoints: the same state elsewhere, also while records are applied, and what
//! becomes of the rows that were the other node's own.

use std::ops::ControlFlow;
use std::path::Path;

use plimsoll_log::rules::chain::Position;
use plimsoll_log::{GroupId, Lsn, PartitionId};

use super::tests::{ID, TestLog, open};
use super::*;
use crate::rows::touch::{Touch, Touches};

fn apply(replica: &mut Replica, log: &TestLog) {
    for (position, record) in &log.entries {
        replica.apply(*position, record, OverBudget::Refuse, &mut ()).unwrap();
    }
}

fn touches(replica: &Replica) -> Vec<(Lsn, Touches)> {
    let mut found = Vec::new();
    replica
        .store()
        .touches(Lsn(0), &mut |lsn, touches| {
            found.push((lsn, touches));
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

/// A replica that notes documents and has rows of its own kind, flushed and not.
fn with_own_rows(dir: &Path, log: &mut TestLog) -> Replica {
    let mut replica = open(dir);
    replica.set_documents(true).unwrap();
    log.append(1, 1, &["HSET h f 1", "SET a 1"]);
    apply(&mut replica, log);
    replica.store().flush().unwrap();
    let position = Position { lsn: Lsn(9), hash: 3, log_time_ms: 4 };
    replica.store().put_group(GroupId(3), &position, b"").unwrap();
    replica.store().put_held(PartitionId { table: 8, ordinal: 1 }).unwrap();
    log.append(1, 3, &["SET b 2"]);
    apply(&mut replica, log);
    replica
}

#[test]
fn a_checkpoint_is_the_same_state_and_goes_on_from_there() {
    let dir = tempfile::tempdir().unwrap();
    let copied = dir.path().join("copied");
    let mut log = TestLog::new();
    let mut replica = open(&dir.path().join("first"));
    log.append(1, 1, &["HSET h f 1", "SET a 1", "INCR n"]);
    apply(&mut replica, &log);
    replica.store().flush().unwrap();
    log.append(2, 1, &["INCR n", "DEL a"]);
    apply(&mut replica, &log);
    replica.store().checkpoint(&copied).unwrap();
    let digest = replica.digest().unwrap();
    log.append(2, 3, &["SET later 1"]);
    apply(&mut replica, &log);
    let mut copy = open(&copied);
    assert_eq!(copy.digest().unwrap(), digest);
    assert!(!copy.is_new());
    apply(&mut copy, &log);
    assert_eq!(copy.digest().unwrap(), replica.digest().unwrap());
    assert!(replica.store().checkpoint(&copied).is_err(), "it is there already");
}

#[test]
fn a_checkpoint_made_while_records_are_applied_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = TestLog::new();
    for round in 0..4000u64 {
        log.append(1, 2 * round + 1, &["INCR n", "INCR m"]);
    }
    let mut replica = open(&dir.path().join("first"));
    let store = replica.store().clone();
    let folders: Vec<_> = (0..5).map(|at| dir.path().join(at.to_string())).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| apply(&mut replica, &log));
        folders.iter().for_each(|folder| store.checkpoint(folder).unwrap());
    });
    let digest = replica.digest().unwrap();
    for folder in &folders {
        let mut copy = open(folder);
        // Some records of it alone lead to the state that the copy has.
        let mut again = open(&folder.with_extension("again"));
        let contained = copy.stamp().position.lsn;
        let records = log.entries.iter().take_while(|(position, _)| position.lsn <= contained);
        for (position, record) in records {
            again.apply(*position, record, OverBudget::Refuse, &mut ()).unwrap();
        }
        assert_eq!(copy.digest().unwrap(), again.digest().unwrap(), "at {contained}");
        apply(&mut copy, &log);
        assert_eq!(copy.digest().unwrap(), digest);
    }
}

#[test]
fn an_adopted_copy_has_all_to_index_and_nothing_of_the_other_node() {
    let dir = tempfile::tempdir().unwrap();
    let copied = dir.path().join("copied");
    let mut log = TestLog::new();
    let replica = with_own_rows(&dir.path().join("first"), &mut log);
    assert_eq!(touches(&replica).len(), 2);
    replica.store().checkpoint(&copied).unwrap();
    let mut copy = open(&copied);
    let position = copy.adopt(ToIndex::All).unwrap();
    assert_eq!(position, replica.stamp().position);
    for reopened in [false, true] {
        if reopened {
            copy.store().flush().unwrap();
            drop(copy);
            copy = open(&copied);
        }
        assert_eq!(copy.digest().unwrap(), replica.digest().unwrap());
        assert!(copy.notes_documents());
        let noted = touches(&copy);
        assert_eq!(noted.len(), 1);
        assert_eq!(noted[0].0, position.lsn);
        assert_eq!(noted[0].1.iter().collect::<Vec<_>>(), [Touch::All]);
        assert!(copy.store().groups().unwrap().is_empty());
        assert!(!copy.store().is_held(PartitionId { table: 8, ordinal: 1 }).unwrap());
    }
    let touches_before = touches(&copy);
    copy.adopt(ToIndex::All).unwrap();
    assert_eq!(touches(&copy), touches_before, "it may be called again");
}

#[test]
fn an_adopted_copy_without_documents_notes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let copied = dir.path().join("copied");
    let mut log = TestLog::new();
    let mut replica = with_own_rows(&dir.path().join("first"), &mut log);
    replica.store().checkpoint(&copied).unwrap();
    let mut copy = open(&copied);
    copy.adopt(ToIndex::Nothing).unwrap();
    log.append(3, 1, &["SET c 3"]);
    apply(&mut replica, &log);
    apply(&mut copy, &log);
    assert!(!copy.notes_documents());
    assert_eq!(touches(&copy), []);
    assert_eq!(copy.digest().unwrap(), replica.digest().unwrap());
    assert_eq!(copy.id(), ID);
}

#[test]
fn an_adopted_copy_whose_index_came_along_keeps_what_that_index_has_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let copied = dir.path().join("copied");
    let mut log = TestLog::new();
    let replica = with_own_rows(&dir.path().join("first"), &mut log);
    let [(first, _), (second, _)] = touches(&replica)[..] else { panic!("two records") };
    replica.store().checkpoint(&copied).unwrap();
    let mut copy = open(&copied);
    for _ in 0..2 {
        copy.adopt(ToIndex::After(first)).unwrap();
        let noted = touches(&copy);
        assert_eq!(noted.iter().map(|(lsn, _)| *lsn).collect::<Vec<_>>(), [second]);
        assert_eq!(noted[0].1, touches(&replica)[1].1, "as the other node noted it");
        assert!(copy.notes_documents());
        assert!(copy.store().groups().unwrap().is_empty());
        assert!(!copy.store().is_held(PartitionId { table: 8, ordinal: 1 }).unwrap());
    }
    copy.adopt(ToIndex::After(second)).unwrap();
    assert_eq!(touches(&copy), []);
    assert_eq!(copy.digest().unwrap(), replica.digest().unwrap());
}

#[test]
fn an_adopted_copy_that_noted_nothing_has_all_to_index_whatever_index_came_along() {
    let dir = tempfile::tempdir().unwrap();
    let copied = dir.path().join("copied");
    let mut log = TestLog::new();
    let mut replica = open(&dir.path().join("first"));
    log.append(1, 1, &["HSET h f 1"]);
    apply(&mut replica, &log);
    replica.store().checkpoint(&copied).unwrap();
    let mut copy = open(&copied);
    let position = copy.adopt(ToIndex::After(Lsn(1))).unwrap();
    let noted = touches(&copy);
    assert_eq!(noted.len(), 1);
    assert_eq!(
        (noted[0].0, noted[0].1.iter().collect::<Vec<_>>()),
        (position.lsn, vec![Touch::All])
    );
}
