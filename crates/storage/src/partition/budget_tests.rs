//! Tests of records that ask for too much: what is refused leaves nothing behind, what stands beside
//! it runs, memory stays bounded meanwhile, and a replay does the same again.

use bytes::Bytes;
use plimsoll_log::SessionId;
use plimsoll_log::record::Item;

use super::tests::{TestLog, open};
use super::*;
use crate::execute;
use crate::operation::{Action, Condition, DocumentWrite, Operation};
use crate::rows::{RowsRead, RowsWrite};
use crate::{Argv, ErrorKind, Reply};

fn argv(words: &str) -> Argv {
    Argv::of(&words.split(' ').collect::<Vec<_>>())
}

fn command(words: &str) -> Bytes {
    Operation::Command(argv(words)).encode()
}

fn transaction(commands: impl IntoIterator<Item = String>) -> Bytes {
    let commands = commands.into_iter().map(|words| argv(&words)).collect();
    Operation::Transaction { watched: Vec::new(), commands }.encode()
}

/// Far bits of so many keys: 8 MiB each.
fn far_bits(count: usize) -> Bytes {
    transaction((0..count).map(|at| format!("SETBIT k{at} 67108863 1")))
}

#[derive(Default)]
struct Replies(Vec<Reply>);

impl Observer for Replies {
    fn operation(&mut self, _: (usize, usize), effect: Effect, _: &Overlay<'_>, _: u64) {
        let Effect::Ran(reply) = effect else { panic!("{effect:?}") };
        self.0.push(reply);
    }
}

struct World {
    dir: tempfile::TempDir,
    log: TestLog,
    replica: Option<Replica>,
    number: u64,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let replica = Some(open(dir.path()));
        Self { dir, log: TestLog::new(), replica, number: 1 }
    }

    /// Applies one record of these operations, each of another client.
    fn record(&mut self, payloads: &[Bytes]) -> Vec<Reply> {
        let item = |(payload, at): (&Bytes, u64)| Item::Operations {
            session: SessionId(1 + at),
            first: self.number,
            acked: 0,
            stamp_ms: self.log.stamp_ms,
            payloads: vec![payload.clone()],
        };
        let items = payloads.iter().zip(0..).map(item).collect();
        self.number += 1;
        self.log.append_items(items);
        let (position, record) = self.log.entries.last().unwrap();
        let mut replies = Replies::default();
        let replica = self.replica.as_mut().unwrap();
        replica.apply(*position, record, OverBudget::Refuse, &mut replies).unwrap();
        replies.0
    }

    fn keys(&self) -> u64 {
        self.replica.as_ref().unwrap().stamp().keys
    }

    /// The same log, applied by a replica that knows nothing, and in the place of the first.
    fn replay(&mut self) {
        let replica = self.replica.take().unwrap();
        let digest = replica.digest().unwrap();
        drop(replica);
        let fresh = tempfile::tempdir().unwrap();
        for dir in [fresh.path(), self.dir.path()] {
            let mut again = open(dir);
            for (position, record) in &self.log.entries {
                again.apply(*position, record, OverBudget::Refuse, &mut ()).unwrap();
            }
            assert_eq!(again.digest().unwrap(), digest);
            self.replica = Some(again);
        }
    }
}

fn refused(reply: &Reply) -> &str {
    let Reply::Error(error) = reply else { panic!("not refused: {reply:?}") };
    &error.message
}

#[test]
fn a_transaction_over_the_budget_does_nothing_and_those_beside_it_run() {
    let mut world = World::new();
    world.record(&[command("SET k0 before"), command("HSET h f v")]);
    let replies = world.record(&[command("INCR n"), far_bits(700), command("INCR n")]);
    assert_eq!((&replies[0], &replies[2]), (&Reply::Integer(1), &Reply::Integer(2)));
    assert!(refused(&replies[1]).contains("67108864 bytes"), "{replies:?}");
    assert_eq!(world.keys(), 3);
    let replies = world.record(&[command("GETSET k0 x"), command("STRLEN k1")]);
    assert_eq!(replies, [Reply::bulk("before"), Reply::Integer(0)]);
    world.replay();
}

#[test]
fn what_fits_in_a_record_runs_and_the_rest_may_be_tried_again() {
    let mut world = World::new();
    let replies = world.record(&[far_bits(7), far_bits(7), far_bits(7), command("SET a b")]);
    assert!(matches!(replies[0], Reply::Array(_)) && matches!(replies[1], Reply::Array(_)));
    let Reply::Error(error) = &replies[2] else { panic!("{:?}", replies[2]) };
    assert_eq!((&error.kind, &replies[3]), (&ErrorKind::TryAgain, &Reply::OK));
    assert!(world.replica.as_ref().unwrap().shared_permille() > 800);
    assert!(matches!(world.record(&[far_bits(7)])[0], Reply::Array(_)), "a record of its own");
    world.replay();
}

#[test]
fn every_way_to_make_much_of_little_is_bounded() {
    let mut world = World::new();
    let long = "x".repeat(7 << 20);
    world.record(&[command(&format!("SET s {long}"))]);
    world.record(&[command(&format!("SET t {long}")), command("SET n 1")]);
    for at in 0..4 {
        let fields: Vec<String> = (0..40_000).map(|field| format!("f{at}-{field} v")).collect();
        world.record(&[command(&format!("HSET h {}", fields.join(" ")))]);
    }
    let many = |one: &str, count: usize| transaction((0..count).map(|_| one.to_owned()));
    let each = |one: &str, count: usize| {
        transaction((0..count).map(|at| one.replace('#', &at.to_string())))
    };
    for poison in [
        each("COPY s c#", 60),
        many("SETRANGE s 0 y", 60),
        many("APPEND s y", 60),
        many("GETRANGE s 0 -1", 60),
        many("GET s", 3000),
        many("MGET s s s s s s s s s s s s", 3),
        many("HGETALL h", 20),
        many("HVALS h", 20),
        many("HKEYS h", 20),
        many("HRANDFIELD h -1000000 WITHVALUES", 2),
        many("KEYS *", 100_000),
        many("LCS s n", 60),
        many("BITCOUNT s", 3000),
        each("COPY h c#", 8),
        many("MEMORY USAGE h", 60),
        many("PLIMSOLL.HRANGE h + - REV COUNT 1", 60),
    ] {
        let replies = world.record(&[poison.clone(), command("GET n")]);
        let what = format!("{:?}", Operation::decode(&poison).map(|_| poison.slice(..40)));
        assert!(refused(&replies[0]).contains("limit of 67108864"), "{what} {:?}", replies[0]);
        assert_eq!(replies[1], Reply::bulk("1"), "{what}");
    }
    // Replies are counted where nothing is changed, and pass where they are few.
    assert!(matches!(world.record(&[many("GET s", 5)])[0], Reply::Array(_)));
    assert_eq!(world.keys(), 4);
    world.replay();
}

#[test]
fn ranges_are_taken_away_in_parts_that_fit_a_record() {
    let mut world = World::new();
    let (long, each) = ("n".repeat(1500), 4000);
    for at in 0..4 {
        let names: Vec<String> = (0..each).map(|field| format!("{at}-{field:05}{long}")).collect();
        world.record(&[command(&format!("HSET h {} v", names.join(" v ")))]);
        let names = names.join(" ");
        world.record(&[command(&format!("HPEXPIRE h 99999999 FIELDS {each} {names}"))]);
    }
    let mut left = 4 * each;
    let mut rounds = 0;
    while left > 0 {
        let removals = (0..6).map(|_| "PLIMSOLL.HREMRANGE h - +".to_owned());
        let reply = world.record(&[transaction(removals)]).remove(0);
        let Reply::Array(parts) = reply else { panic!("{rounds}: {reply:?}") };
        for part in parts {
            let Reply::Array(part) = part else { panic!("{rounds}: {part:?}") };
            let [Reply::Integer(removed), next] = part.as_slice() else { panic!("{part:?}") };
            assert!(*removed > 0 || left == 0, "each goes on");
            left -= *removed;
            assert_eq!(*next == Reply::Nil, left == 0);
        }
        rounds += 1;
    }
    assert!((2..5).contains(&rounds), "{rounds}");
    assert_eq!((left, world.keys()), (0, 0));
    world.replay();
}

#[test]
fn a_document_beside_poison_keeps_its_version_and_its_touch() {
    let mut world = World::new();
    world.replica.as_mut().unwrap().set_documents(true).unwrap();
    let write = DocumentWrite {
        key: "d".into(),
        id: "d".into(),
        action: Action::Index("{}".into()),
        condition: Condition::None,
        mapping_version: 1,
    };
    let document = Operation::Document(write).encode();
    let replies = world.record(&[document.clone(), far_bits(30), document]);
    assert!(refused(&replies[1]).contains("67108864"));
    let replica = world.replica.as_mut().unwrap();
    assert_eq!(replica.stamp().sequence, 2, "one number for each write");
    let touches = replica.take_touches().unwrap();
    assert_eq!(touches.iter().count(), 1, "{:?}", touches.iter().collect::<Vec<_>>());
    world.replay_documents();
}

impl World {
    fn replay_documents(&mut self) {
        let digest = self.replica.as_ref().unwrap().digest().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let mut again = open(dir.path());
        again.set_documents(true).unwrap();
        for (position, record) in &self.log.entries {
            again.apply(*position, record, OverBudget::Refuse, &mut ()).unwrap();
        }
        assert_eq!(again.digest().unwrap(), digest);
    }
}

#[test]
fn where_not_all_know_the_budget_apply_stops_before_the_record() {
    let mut world = World::new();
    world.log.append(1, 1, &["SET a 1"]);
    let item = Item::Operations {
        session: SessionId(2),
        first: 1,
        acked: 0,
        stamp_ms: world.log.stamp_ms,
        payloads: vec![command("SET b 2"), far_bits(30)],
    };
    world.log.version = 1;
    world.log.append_items(vec![item]);
    let replica = world.replica.as_mut().unwrap();
    let [(at, first), (then, second)] = &world.log.entries[..] else { panic!() };
    replica.apply(*at, first, OverBudget::Stop, &mut ()).unwrap();
    for _ in 0..2 {
        let stopped = replica.apply(*then, second, OverBudget::Stop, &mut ()).unwrap_err();
        assert!(matches!(stopped, ApplyError::OverBudget(_)), "{stopped}");
        assert_eq!((replica.stamp().position, replica.stamp().keys), (*at, 1));
    }
    replica.apply(*then, second, OverBudget::Refuse, &mut ()).unwrap();
    assert_eq!(replica.stamp().keys, 2);
}

#[test]
fn a_replica_that_stopped_goes_on_with_the_same_log_once_all_know_the_budget() {
    let mut log = TestLog::new();
    log.version = 1;
    log.append(1, 1, &["SET a 1"]);
    let log_ms = log.stamp_ms;
    let item = |first: u64, payload: Bytes| Item::Operations {
        session: SessionId(1 + first),
        first,
        acked: 0,
        stamp_ms: log_ms,
        payloads: vec![payload],
    };
    log.append_items(vec![
        item(1, command("SET b 2")),
        item(2, far_bits(30)),
        item(3, command("INCR a")),
    ]);
    log.append(1, 2, &["GETSET a 9"]);
    let dir = tempfile::tempdir().unwrap();
    let before = log.entries[0].0;
    for _ in 0..2 {
        // Opened again it stops at the same place, and what it has is whole.
        let mut replica = open(dir.path());
        let stopped = log.entries.iter().find_map(|(position, record)| {
            replica.apply(*position, record, OverBudget::Stop, &mut ()).err()
        });
        let Some(ApplyError::OverBudget(why)) = &stopped else { panic!("{stopped:?}") };
        assert!(why.contains("limit of 67108864 bytes"), "{why}");
        assert!(stopped.unwrap().to_string().contains("not all nodes know that limit"));
        assert_eq!((replica.stamp().position, replica.stamp().keys), (before, 1));
        assert_eq!(replica.mark().unwrap(), before);
        replica.store().flush().unwrap();
    }
    // The version is raised: the same records, with a refusal in the place of the poison.
    let mut replica = open(dir.path());
    let mut replies = Replies::default();
    for (position, record) in &log.entries[1..] {
        let applied = replica.apply(*position, record, OverBudget::Refuse, &mut replies);
        assert_eq!(applied, Ok(Applied::Taken));
    }
    let [set, poison, incr, last] = &replies.0[..] else { panic!("{:?}", replies.0) };
    assert_eq!((set, incr, last), (&Reply::OK, &Reply::Integer(2), &Reply::bulk("2")));
    assert!(refused(poison).contains("limit of 67108864 bytes"), "{poison:?}");
    assert_eq!(replica.stamp().keys, 2);
    // One that comes to it later, and never stopped, is the same.
    let fresh = tempfile::tempdir().unwrap();
    let mut other = open(fresh.path());
    for (position, record) in &log.entries {
        other.apply(*position, record, OverBudget::Refuse, &mut ()).unwrap();
    }
    assert_eq!(other.digest(), replica.digest());
}

#[test]
fn a_record_of_a_time_with_a_budget_is_refused_whatever_a_node_knows() {
    let mut log = TestLog::new();
    assert_eq!(log.version, BUDGETED_SINCE);
    let payloads = vec![far_bits(30), command("SET b 2")];
    let item = Item::Operations {
        session: SessionId(1),
        first: 1,
        acked: 0,
        stamp_ms: log.stamp_ms,
        payloads,
    };
    log.append_items(vec![item]);
    let dir = tempfile::tempdir().unwrap();
    let mut replica = open(dir.path());
    let (position, record) = &log.entries[0];
    let mut replies = Replies::default();
    replica.apply(*position, record, OverBudget::Stop, &mut replies).unwrap();
    assert!(refused(&replies.0[0]).contains("67108864"));
    assert_eq!(replies.0[1], Reply::OK);
}

#[test]
fn an_operation_taken_back_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let replica = open(dir.path());
    let mut overlay = Overlay::new(replica.store());
    let show = |overlay: &Overlay<'_>| {
        let mut rows = Vec::new();
        overlay
            .scan(b"a", b"z", &mut |key, value| {
                rows.push(format!("{}={}", key.escape_ascii(), value.escape_ascii()));
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        rows.join(" ")
    };
    overlay.begin(100);
    for key in ["b", "c", "d", "e", "f"] {
        overlay.put(key.as_bytes(), b"1");
    }
    overlay.delete_range(b"c", b"d");
    overlay.end().unwrap();
    assert_eq!(show(&overlay), "b=1 d=1 e=1 f=1");
    overlay.begin(100);
    overlay.put(b"b", b"2");
    overlay.put(b"b", b"3");
    overlay.put(b"g", b"1");
    overlay.delete(b"d");
    overlay.delete_range(b"b", b"f");
    overlay.put(b"c", b"4");
    overlay.delete_range(b"x", b"y");
    assert_eq!(show(&overlay), "c=4 f=1 g=1");
    overlay.take_back();
    assert_eq!(show(&overlay), "b=1 d=1 e=1 f=1");
    assert_eq!(overlay.get(b"c").unwrap(), None);
    assert_eq!(overlay.get(b"b").unwrap().as_deref(), Some(b"1".as_slice()));
    let changes = overlay.into_changes();
    assert_eq!(changes.removed.len(), 1);
    assert_eq!(changes.rows.len(), 4);
}

#[test]
fn a_sweep_of_much_does_a_part_of_it() {
    let mut world = World::new();
    let until = world.log.stamp_ms + 1000;
    let name = "n".repeat(500);
    let fields: Vec<String> = (0..250).map(|field| format!("{name}{field}")).collect();
    let pairs: Vec<String> = fields.iter().map(|field| format!("{field} v")).collect();
    let (fields, pairs) = (fields.join(" "), pairs.join(" "));
    for hash in 0..450 {
        world.record(&[
            command(&format!("HSET h{hash} {pairs}")),
            command(&format!("HPEXPIREAT h{hash} {} FIELDS 250 {fields}", until + 1000)),
            command(&format!("PEXPIREAT h{hash} {until}")),
        ]);
    }
    world.log.stamp_ms = until + 1;
    let mut swept = 0;
    let mut sweeps = 0;
    while world.keys() > 0 {
        let replies = world.record(&[Operation::Sweep { limit: 1000 }.encode()]);
        let [Reply::Integer(removed)] = replies[..] else { panic!("{replies:?}") };
        assert!(removed > 0, "a sweep does something");
        (swept, sweeps) = (swept + removed, sweeps + 1);
    }
    assert_eq!(swept, 450);
    assert!(sweeps > 1, "not at once");
    let replica = world.replica.as_ref().unwrap();
    assert!(execute::due_since(replica.store(), until + 1).unwrap().is_none());
    world.replay();
}
