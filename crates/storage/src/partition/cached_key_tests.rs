//! Tests of rows of one key that are read without a snapshot: as a snapshot shows them, also beside who writes them.

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_log::SessionId;
use plimsoll_log::record::Item;
use proptest::prelude::*;

use super::tests::{TestLog, open};
use super::*;
use crate::execute::{self, ReadContext, Seed};
use crate::operation::Operation;
use crate::rows::{RowsRead, StoreError};
use crate::{Argv, Reply, command};

const KEYS: [&str; 3] = ["h", "g", "long"];
const READS: [&str; 7] =
    ["HGETALL", "HKEYS", "HLEN", "HMGET % a b c", "HEXISTS % a", "HSTRLEN % b", "TYPE"];

struct Applied {
    log: TestLog,
    replica: Replica,
    number: u64,
    _dir: tempfile::TempDir,
}

impl Applied {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { log: TestLog::new(), replica: open(dir.path()), number: 1, _dir: dir }
    }

    fn record(&mut self, commands: &[String]) {
        let first = self.number;
        self.number += commands.len() as u64;
        let payload = |command: &String| Operation::Command(argv(command)).encode();
        let payloads = commands.iter().map(payload).collect();
        let (session, stamp_ms) = (SessionId(1), self.log.stamp_ms);
        let acked = first - 1;
        let item = Item::Operations { session, first, acked, stamp_ms, payloads };
        self.log.append_items(vec![item]);
        let (position, record) = self.log.entries.pop().unwrap();
        self.replica.apply(position, &record, OverBudget::Refuse, &mut ()).unwrap();
    }
}

fn argv(words: &str) -> Argv {
    Argv::of(&words.split(' ').collect::<Vec<_>>())
}

fn of_key(read: &str, key: &str) -> Argv {
    match read.contains('%') {
        true => argv(&read.replace('%', key)),
        false => argv(&format!("{read} {key}")),
    }
}

fn read(rows: &dyn RowsRead, argv: &Argv, now_ms: u64) -> Result<Reply, StoreError> {
    let context = ReadContext { now_ms, seed: Seed::Given(1), keys: 0, cursors: None };
    execute::read(&command::parse(argv).unwrap(), rows, &context)
}

/// Which answer the rows of the key alone give, where they give one.
fn cached(store: &Store, key: &str, argv: &Argv, now_ms: u64) -> Option<Reply> {
    let rows = CachedKey::new(store, key.as_bytes()).ok()?;
    let found = read(&rows, argv, now_ms);
    if !rows.is_still() || found == Err(StoreError::NotCached) {
        return None;
    }
    Some(found.unwrap())
}

fn a_command() -> impl Strategy<Value = String> {
    let key = prop::sample::select(&KEYS[..]);
    let field = prop::sample::select(&["a", "b", "c", "d"][..]);
    (key, field, 0..8u8, 0..1000u32).prop_map(|(key, field, kind, value)| match kind {
        0..=3 => format!("HSET {key} {field} {value}"),
        4 => format!("HDEL {key} {field}"),
        5 => format!("DEL {key}"),
        6 => format!("SET {key} {value}"),
        _ => format!("HPEXPIRE {key} {} FIELDS 1 {field}", 1 + value),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn shows_what_a_snapshot_shows(
        records in prop::collection::vec(prop::collection::vec(a_command(), 1..4), 1..24),
        flushed in prop::collection::vec(any::<bool>(), 24),
    ) {
        let mut applied = Applied::new();
        let many: Vec<String> = (0..100).map(|at| format!("HSET long f{at} {at}")).collect();
        applied.record(&many);
        for (record, is_flushed) in records.iter().zip(flushed) {
            // A key of another type refuses a part of them.
            applied.record(record);
            applied.log.stamp_ms += 100;
            if is_flushed {
                applied.replica.store().flush().unwrap();
            }
            let (store, now_ms) = (applied.replica.store().clone(), applied.log.stamp_ms);
            for key in KEYS {
                for argv in READS.map(|read| of_key(read, key)) {
                    let wanted = read(&store.snapshot().unwrap(), &argv, now_ms).unwrap();
                    // Twice: what is read first is kept.
                    for _ in 0..2 {
                        if let Some(found) = cached(&store, key, &argv, now_ms) {
                            prop_assert_eq!(&found, &wanted, "{:?}", argv);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_short_hash_is_read_from_memory_without_anything_handed_on() {
    let mut applied = Applied::new();
    applied.record(&["HSET h a 1 b 2".to_owned()]);
    let store = applied.replica.store().clone();
    let all = of_key("HGETALL", "h");
    assert!(cached(&store, "h", &all, 0).is_some(), "read from the engine, and kept");
    for value in 3..9 {
        applied.record(&[format!("HSET h a {value}")]);
        let before = store.unflushed_bytes();
        assert!(cached(&store, "h", &all, 0).is_some());
        assert_eq!(store.unflushed_bytes(), before, "what is pending stays so");
    }
    let long: Vec<String> = (0..100).map(|at| format!("HSET long f{at} 1")).collect();
    applied.record(&long);
    assert!(cached(&store, "long", &of_key("HGETALL", "long"), 0).is_none());
    assert!(cached(&store, "long", &of_key("HMGET % f1", "long"), 0).is_some());
}

#[test]
fn what_is_written_meanwhile_is_never_half_seen() {
    let mut applied = Applied::new();
    applied.record(&["HSET h a 0 b 0".to_owned()]);
    let store = applied.replica.store().clone();
    let (is_over, argv) = (AtomicBool::new(false), of_key("HGETALL", "h"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut has_read = false;
            while !has_read || !is_over.load(Ordering::Relaxed) {
                let Some(reply) = cached(&store, "h", &argv, 0) else { continue };
                let Reply::Map(fields) = reply else { panic!("{reply:?}") };
                assert_eq!(fields.len(), 2);
                assert_eq!(fields[0].1, fields[1].1);
                has_read = true;
            }
        });
        for value in 0..3000 {
            applied.record(&[format!("HSET h a {value}"), format!("HSET h b {value}")]);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
