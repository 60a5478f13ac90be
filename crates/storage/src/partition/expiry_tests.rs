//! Tests of what is walked over after much has expired: rows that were deleted, as RocksDB counts
//! them, and not time.

use std::ops::ControlFlow;

use plimsoll_log::SessionId;
use plimsoll_log::record::Item;
use rust_rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};

use super::tests::{TestLog, open};
use super::*;
use crate::execute::{self, ReadContext, Seed};
use crate::operation::Operation;
use crate::rows::{RowsRead, key};
use crate::{Argv, Reply};

/// More than one sweep takes, many times over.
const KEYS: usize = 20_000;
/// What may be passed by a look: what one sweep left, and no more.
const PASSED_MAX: u64 = 100;

struct World {
    log: TestLog,
    replica: Replica,
    number: u64,
    _dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { log: TestLog::new(), replica: open(dir.path()), number: 1, _dir: dir }
    }

    fn record(&mut self, operations: &[Operation]) {
        let first = self.number;
        self.number += operations.len() as u64;
        let payloads = operations.iter().map(Operation::encode).collect();
        let (session, stamp_ms) = (SessionId(1), self.log.stamp_ms);
        let acked = first - 1;
        let item = Item::Operations { session, first, acked, stamp_ms, payloads };
        self.log.append_items(vec![item]);
        let (position, record) = self.log.entries.last().unwrap();
        self.replica.apply(*position, record, OverBudget::Refuse, &mut ()).unwrap();
    }

    /// Keys that all expire in the same millisecond, swept as the node would, but for the last few.
    fn expire(&mut self, until_ms: u64) {
        for from in (0..KEYS).step_by(1000) {
            let set = |at| argv(&format!("SET k{at} v PXAT {until_ms}"));
            let sets: Vec<Operation> =
                (from..from + 1000).map(|at| Operation::Command(set(at))).collect();
            self.record(&sets);
        }
        self.record(&[Operation::Command(argv("HSET h f v g v"))]);
        let expire = format!("HPEXPIREAT h {until_ms} FIELDS 1 f");
        self.record(&[Operation::Command(argv(&expire))]);
        self.replica.store().flush().unwrap();
        self.log.stamp_ms = until_ms + 1;
        while execute::due_since(self.replica.store(), self.log.stamp_ms).unwrap().is_some() {
            self.record(&[Operation::Sweep { limit: 1000 }]);
        }
        self.replica.store().flush().unwrap();
    }

    fn read(&self, words: &str) -> Reply {
        let argv = argv(words);
        let command = crate::command::parse(&argv).unwrap();
        let (now_ms, keys) = (self.log.stamp_ms + 1, self.replica.stamp().keys);
        let context = ReadContext { now_ms, seed: Seed::Given(1), keys, cursors: None };
        let rows = self.replica.store().snapshot().unwrap();
        execute::read(&command, &rows, &context).unwrap()
    }
}

fn argv(words: &str) -> Argv {
    Argv::of(&words.split(' ').collect::<Vec<_>>())
}

/// How many deleted rows were passed over by `work` on this thread.
fn passed<T>(work: impl FnOnce() -> T) -> (T, u64) {
    set_perf_stats(PerfStatsLevel::EnableCount);
    let mut context = PerfContext::default();
    context.reset();
    let done = work();
    let passed = context.metric(PerfMetric::InternalDeleteSkippedCount);
    set_perf_stats(PerfStatsLevel::Disable);
    (done, passed)
}

#[test]
fn nobody_walks_over_what_expired_and_was_swept() {
    let mut world = World::new();
    let until_ms = world.log.stamp_ms + 1000;
    let (swept, in_sweeps) = passed(|| {
        world.expire(until_ms);
        world.replica.stamp().keys
    });
    assert_eq!(swept, 1);
    // Each sweep begins where the last one ended, though all keys expired in one millisecond.
    assert!(in_sweeps < KEYS as u64, "{in_sweeps} passed by sweeps");
    let now_ms = world.log.stamp_ms + 1;
    let ((), in_all) = passed(|| {
        let (from, to) = (key::expiry_from(0), key::expiry_after(now_ms));
        world.replica.store().scan(&from, &to, &mut |_, _| ControlFlow::Continue(())).unwrap();
    });
    assert!(in_all > KEYS as u64 / 2, "{in_all}: what is there to be passed is counted");
    let (due, in_look) =
        passed(|| execute::due_since(world.replica.store(), now_ms).unwrap().is_some());
    assert!(!due && in_look < PASSED_MAX, "{in_look} passed by a look for what is due");
    for (words, answer) in [("DBSIZE", Reply::Integer(1)), ("HLEN h", Reply::Integer(1))] {
        let (reply, in_read) = passed(|| world.read(words));
        assert_eq!(reply, answer);
        assert!(in_read < PASSED_MAX, "{in_read} passed by {words}");
    }
    let write = Operation::Command(argv("HSET h i v"));
    let ((), in_write) = passed(|| world.record(&[write]));
    assert!(in_write < PASSED_MAX, "{in_write} passed by a write");
}

#[test]
fn what_expires_after_a_sweep_is_found_again_also_after_a_restart() {
    let mut world = World::new();
    let at = |world: &World, ms: u64| world.log.stamp_ms + ms;
    let set =
        |key: &str, until: u64| Operation::Command(argv(&format!("SET {key} v PXAT {until}")));
    let (soon, later) = (at(&world, 10), at(&world, 20));
    world.record(&[set("a", soon), set("b", later)]);
    world.log.stamp_ms = soon;
    world.record(&[Operation::Sweep { limit: 10 }]);
    assert_eq!(world.replica.stamp().keys, 1);
    // An expiry that is past already leaves no entry behind the place where sweeps go on.
    world.record(&[set("c", soon - 5), set("d", soon), set("e", soon + 1)]);
    assert_eq!(world.replica.stamp().keys, 2);
    world.replica.store().flush().unwrap();
    world.log.stamp_ms = later;
    assert_eq!(world.read("DBSIZE"), Reply::Integer(0));
    assert!(execute::due_since(world.replica.store(), later).unwrap().is_some());
    world.record(&[Operation::Sweep { limit: 10 }]);
    assert_eq!(world.replica.stamp().keys, 0);
    assert!(execute::due_since(world.replica.store(), later).unwrap().is_none());
}

#[test]
fn a_large_hash_leaves_its_entries_to_sweeps() {
    let mut world = World::new();
    let until = world.log.stamp_ms + 50;
    let fields: Vec<String> = (0..1000).map(|field| format!("f{field}")).collect();
    let names = fields.join(" ");
    let pairs = fields.iter().map(|name| format!("{name} v")).collect::<Vec<_>>().join(" ");
    for _ in 0..2 {
        world.record(&[Operation::Command(argv(&format!("HSET h {pairs}")))]);
        let expire = format!("HPEXPIREAT h {until} FIELDS 1000 {names}");
        world.record(&[Operation::Command(argv(&expire))]);
        world.record(&[Operation::Command(argv("DEL h"))]);
        // A few rows, however many fields it had.
        assert!(world.replica.shared_permille() == 0);
    }
    world.record(&[Operation::Command(argv("HSET h f1 v"))]);
    world.log.stamp_ms = until + 1;
    assert_eq!(world.read("HLEN h"), Reply::Integer(1));
    assert_eq!(world.read("DBSIZE"), Reply::Integer(1));
    while execute::due_since(world.replica.store(), until + 1).unwrap().is_some() {
        world.record(&[Operation::Sweep { limit: 700 }]);
    }
    assert_eq!(world.read("HLEN h"), Reply::Integer(1));
    assert_eq!(world.replica.stamp().keys, 1);
}
