//! Tests of a replica: restart and replay, rules carried out, the overlay against a model.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use bytes::Bytes;
use plimsoll_log::record::{self, Item, LeadStamp, Record};
use plimsoll_log::rules::chain::{Chain, Position};
use plimsoll_log::rules::sessions::Verdict;
use plimsoll_log::{GroupId, Incarnation, LeadId, Lsn, PartitionId, SessionId};
use proptest::prelude::*;

use super::*;
use crate::operation::Operation;
use crate::rows::{RowsRead, RowsWrite, StoreError};
use crate::{Argv, Reply};

pub(super) const ID: PartitionId = PartitionId { table: 7, ordinal: 0 };
const LOG: Incarnation = Incarnation(1);
const START_MS: u64 = 1_700_000_000_000;

/// A log made by one lead, and what of it a replica may be given.
pub(super) struct TestLog {
    chain: Chain,
    epoch: u32,
    n: u64,
    pub version: u32,
    pub stamp_ms: u64,
    pub entries: Vec<(Position, Record)>,
}

impl TestLog {
    pub fn new() -> Self {
        let (version, stamp_ms) = (BUDGETED_SINCE, START_MS);
        Self { chain: Chain::new(LOG), epoch: 1, n: 0, version, stamp_ms, entries: Vec::new() }
    }

    /// Appends a record of one session's commands, one operation each.
    pub fn append(&mut self, session: u64, first: u64, commands: &[&str]) {
        let payload = |command: &&str| {
            let parts: Vec<&str> = command.split(' ').collect();
            Operation::Command(Argv::of(&parts)).encode()
        };
        let item = Item::Operations {
            session: SessionId(session),
            first,
            acked: 0,
            stamp_ms: self.stamp_ms,
            payloads: commands.iter().map(payload).collect(),
        };
        self.append_items(vec![item]);
    }

    pub fn append_items(&mut self, items: Vec<Item>) {
        self.n += 1;
        let record = Record {
            partition: ID,
            version: self.version,
            lead: LeadStamp { lead: LeadId(5), epoch: self.epoch, n: self.n },
            stamp_ms: self.stamp_ms,
            anchor: self.chain.anchor(),
            items,
        };
        let checksum = record::checksum(&record.encode()).unwrap();
        let lsn = self.chain.position().lsn.next();
        let position = self.chain.advance(lsn, checksum, record.stamp_ms, &record.anchor).unwrap();
        self.entries.push((position, record));
    }
}

#[derive(Default)]
struct Effects(Vec<Effect>);

impl Observer for Effects {
    fn operation(&mut self, _: (usize, usize), effect: Effect, _: &Overlay<'_>, _: u64) {
        self.0.push(effect);
    }
}

pub(super) fn resources() -> Resources {
    let resources = Resources::new(StoreOptions::default(), std::sync::Arc::new(|| ()));
    resources.pack_rows();
    resources
}

pub(super) fn open(dir: &Path) -> Replica {
    let genesis = Chain::new(LOG).position();
    Replica::open(ID, dir, &resources(), LOG, genesis).unwrap()
}

fn apply(replica: &mut Replica, log: &TestLog) -> Vec<Effect> {
    let mut effects = Effects::default();
    for (position, record) in &log.entries {
        replica.apply(*position, record, OverBudget::Refuse, &mut effects).unwrap();
    }
    effects.0
}

fn ran(reply: Reply) -> Effect {
    Effect::Ran(reply)
}

#[test]
fn replays_from_its_stamp_to_the_same_state() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = TestLog::new();
    log.append(1, 1, &["SET a 1", "HSET h f v g w", "INCR n"]);
    let mut replica = open(dir.path());
    apply(&mut replica, &log);
    let marked = replica.mark().unwrap();
    replica.store().flush().unwrap();
    log.append(1, 4, &["INCR n", "DEL a", "HDEL h f"]);
    log.append(2, 1, &["INCR n"]);
    apply(&mut replica, &log);
    let digest = replica.digest().unwrap();
    drop(replica);
    // What was applied after the flush was in memory only.
    let mut replica = open(dir.path());
    assert_eq!(replica.stamp().position, marked);
    assert_ne!(replica.digest().unwrap(), digest);
    let effects = apply(&mut replica, &log);
    assert_eq!(replica.digest().unwrap(), digest);
    assert_eq!(effects.last(), Some(&ran(Reply::Integer(3))));
}

#[test]
fn what_stands_still_is_flushed_to_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = TestLog::new();
    log.append(1, 1, &["SET a 1"]);
    let mut replica = open(dir.path());
    apply(&mut replica, &log);
    let mut flushed = |position: &Position| {
        replica.pass(*position);
        replica.mark().unwrap();
        let store = replica.store();
        store.put_group(GroupId(3), position, b"note").unwrap();
        store.flush().unwrap();
        store.backlog().level_0_files
    };
    let at = log.entries[0].0;
    assert_eq!((flushed(&at), flushed(&at)), (1, 1));
    let later = Position { lsn: Lsn(at.lsn.0 + 1), ..at };
    assert_eq!((flushed(&later), flushed(&later)), (2, 2));
}

#[test]
fn runs_an_operation_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = open(dir.path());
    let mut log = TestLog::new();
    log.append(1, 1, &["INCR n"]);
    log.append(1, 1, &["INCR n", "INCR n"]);
    let effects = apply(&mut replica, &log);
    assert_eq!(effects[0], ran(Reply::Integer(1)));
    assert!(matches!(&effects[1], Effect::Settled(Verdict::Known(_))), "{:?}", effects[1]);
    assert_eq!(effects[2], ran(Reply::Integer(2)));
}

#[test]
fn a_fence_that_comes_first_wins_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = open(dir.path());
    let mut log = TestLog::new();
    log.append_items(vec![Item::Fence { session: SessionId(1), number: 1, stamp_ms: START_MS }]);
    apply(&mut replica, &log);
    replica.mark().unwrap();
    replica.store().flush().unwrap();
    drop(replica);
    let mut replica = open(dir.path());
    log.append(1, 1, &["SET a 1"]);
    let effects = apply(&mut replica, &log);
    assert!(matches!(effects[..], [Effect::Settled(Verdict::Known(_))]), "{effects:?}");
    assert_eq!(replica.stamp().keys, 0);
}

#[test]
fn an_old_operation_is_refused_once_its_session_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = open(dir.path());
    let mut log = TestLog::new();
    log.append(1, 1, &["INCR n"]);
    let old = log.entries[0].1.items[0].clone();
    log.stamp_ms += plimsoll_log::rules::WINDOW_MS + 60_000;
    // The lead is forgotten as well, and knows it.
    (log.epoch, log.n) = (2, 0);
    log.append(2, 1, &["INCR n"]);
    log.append_items(vec![old]);
    let effects = apply(&mut replica, &log);
    assert_eq!(effects[1], ran(Reply::Integer(2)));
    assert_eq!(effects[2], Effect::Settled(Verdict::TooOld));
}

#[test]
fn two_replicas_are_the_same_whatever_is_flushed_when() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut log = TestLog::new();
    for round in 0..20u64 {
        log.stamp_ms += 59_000;
        log.append(round % 3, round * 2 + 1, &["INCR n", "SET k v PX 90000"]);
    }
    let mut first = open(one.path());
    apply(&mut first, &log);
    let mut second = open(other.path());
    for (position, record) in &log.entries {
        second.apply(*position, record, OverBudget::Refuse, &mut ()).unwrap();
        if position.lsn.0 % 5 == 0 {
            second.mark().unwrap();
            second.store().flush().unwrap();
            drop(second);
            second = open(other.path());
        }
    }
    assert_eq!(first.digest().unwrap(), second.digest().unwrap());
}

#[test]
fn a_position_with_another_chain_stops_apply() {
    let dir = tempfile::tempdir().unwrap();
    let mut replica = open(dir.path());
    let mut log = TestLog::new();
    log.append(1, 1, &["SET a 1"]);
    apply(&mut replica, &log);
    let (position, record) = &log.entries[0];
    let forked = Position { hash: position.hash ^ 1, ..*position };
    let error = replica.apply(forked, record, OverBudget::Refuse, &mut ()).unwrap_err();
    assert!(matches!(error, ApplyError::Forked { position: Lsn(1), .. }), "{error}");
}

#[test]
fn positions_of_groups_are_kept_and_are_not_part_of_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let replica = open(dir.path());
    let digest = replica.digest().unwrap();
    let position = Position { lsn: Lsn(9), hash: 3, log_time_ms: 4 };
    replica.store().put_group(plimsoll_log::GroupId(300), &position, b"a note").unwrap();
    let groups = replica.store().groups().unwrap();
    let kept = (position, b"a note".to_vec());
    assert_eq!(groups.get(&plimsoll_log::GroupId(300)), Some(&kept));
    assert_eq!(replica.digest().unwrap(), digest);
}

/// A change of a row or a range of rows, keys being single bytes.
#[derive(Clone, Debug)]
enum Change {
    Put(u8, u8),
    Delete(u8),
    DeleteRange(u8, u8),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        3 => (10..30u8, any::<u8>()).prop_map(|(key, value)| Change::Put(key, value)),
        1 => (10..30u8).prop_map(Change::Delete),
        1 => (10..30u8, 10..30u8).prop_map(|(a, b)| Change::DeleteRange(a.min(b), a.max(b))),
    ];
    prop::collection::vec(change, 0..40)
}

fn rows_of(rows: &impl RowsRead) -> BTreeMap<u8, u8> {
    let mut found = BTreeMap::new();
    let mut last = None;
    rows.scan(&[10], &[30], &mut |key, value| {
        assert!(last < Some(key[0]), "in the order of keys");
        last = Some(key[0]);
        found.insert(key[0], value[0]);
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_overlay_shows_what_the_store_will(before in changes(), after in changes()) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &resources()).unwrap();
        let mut model = BTreeMap::new();
        for round in [before, after] {
            let mut overlay = Overlay::new(&store);
            for change in round {
                match change {
                    Change::Put(key, value) => {
                        overlay.put(&[key], &[value]);
                        model.insert(key, value);
                    }
                    Change::Delete(key) => {
                        overlay.delete(&[key]);
                        model.remove(&key);
                    }
                    Change::DeleteRange(from, to) => {
                        overlay.delete_range(&[from], &[to]);
                        model.retain(|key, _| *key < from || to <= *key);
                    }
                }
            }
            prop_assert_eq!(&rows_of(&overlay), &model);
            for key in 10..30u8 {
                let value = overlay.get(&[key]).unwrap();
                prop_assert_eq!(value, model.get(&key).map(|value| Bytes::from(vec![*value])));
            }
            store.write_changes(overlay.into_changes(), 0, false).unwrap();
            prop_assert_eq!(&rows_of(&store), &model);
        }
    }
}

#[test]
fn a_store_whose_files_are_gone_or_changed_is_damaged() {
    type Damage = fn(&Path);
    let damages: [(&str, &str, Damage); 4] = [
        ("rows are gone", ".sst", |file| std::fs::remove_file(file).unwrap()),
        ("the list of files is gone", "MANIFEST-", |file| std::fs::remove_file(file).unwrap()),
        ("rows are cut", ".sst", |file| {
            let bytes = std::fs::read(file).unwrap();
            std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("a bit is another", ".sst", |file| {
            let mut bytes = std::fs::read(file).unwrap();
            // In the index block, which is read when the file is opened.
            let at = bytes.len() - 100;
            bytes[at] ^= 4;
            std::fs::write(file, bytes).unwrap();
        }),
    ];
    for (name, of, damage) in damages {
        let dir = tempfile::tempdir().unwrap();
        let mut log = TestLog::new();
        log.append(1, 1, &["SET k v"]);
        let mut replica = open(dir.path());
        apply(&mut replica, &log);
        replica.mark().unwrap();
        replica.store().flush().unwrap();
        drop(replica);
        let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = files.filter(|it| it.to_string_lossy().contains(of)).collect();
        assert!(!files.is_empty(), "{name}: there is no such file");
        files.iter().for_each(|file| damage(file));
        assert!(Replica::is_in(dir.path(), &resources()));
        let genesis = Chain::new(LOG).position();
        let opened = Replica::open(ID, dir.path(), &resources(), LOG, genesis);
        let error = opened.err().unwrap_or_else(|| panic!("{name}: it is opened"));
        let is_damaged = matches!(&error, ApplyError::Store(StoreError::Damaged(_)));
        assert!(is_damaged, "{name}: {error:?}");
    }
}
