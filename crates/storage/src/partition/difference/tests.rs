//! Tests of levelling: whatever history a leader has, whatever of it a follower has taken, and however
//! often it is cut off and begun again with another snapshot, both contain the same in the end.

use std::collections::HashMap;

use bytes::Bytes;
use plimsoll_log::record::Item;
use plimsoll_log::rules::carried::Link;
use plimsoll_log::rules::chain::Position;
use plimsoll_log::rules::difference::{Counters, Difference, End, Standing, since};
use proptest::prelude::*;

use super::super::following_tests::{Follower, Leaders, Step, command, step};
use super::super::{Effect, leader_of, stamp_of};
use super::*;
use crate::operation::Operation;
use crate::rows::RowsRead;

/// How far behind the leader's the follower's clocks are.
const BEHIND_MS: u64 = 30_000;
const SEED: u64 = 7;

/// What came of a step of levelling.
struct Levelled {
    is_over: bool,
    /// Rows that the leader gave.
    given: usize,
    item: Item,
}

/// Works out the next range of a follower and has it taken.
fn level(leader: &Leaders, follower: &mut Follower, limits: &Limits, target: usize) -> Levelled {
    let theirs = leader.replica.store().owned_snapshot().unwrap();
    let stamp = leader.replica.stamp();
    let Position { lsn, hash, log_time_ms } = stamp.position;
    let to = Link { lsn, hash, log_time_ms };
    let own = follower.replica().store().owned_snapshot().unwrap();
    let held = leader_of(&own).unwrap().unwrap();
    let levelling = held.levelling.as_ref();
    let begins = levelling.is_none_or(|it| it.to != to);
    let after = if begins { Bytes::new() } else { levelling.unwrap().cursor.clone() };
    let (since, until) =
        since(levelling, begins, &after, stamp_of(&own).unwrap().unwrap().sequence);
    let span = Span { after: after.clone(), until, since, seed: SEED };
    let range = range(&theirs, &span, limits).unwrap();
    let mut given = range.rows.len();
    let mut comparison = Comparison::new(span, range).unwrap().with_target(target);
    if !comparison.is_rest_same(&own).unwrap() {
        let span = comparison.span().clone();
        let hashes = hashes(&theirs, &span).unwrap();
        let mut missing = comparison.missing(&own, &hashes).unwrap();
        given += missing.len();
        while !missing.is_empty() {
            let found = rows(&theirs, &span, &missing, 0).unwrap();
            assert_eq!(found.left, 0);
            let known = |hash: &u64| {
                found.rows.iter().any(|(key, value)| comparison.hash_of(key, value) == *hash)
            };
            missing.retain(|hash| !known(hash));
            comparison.take(found.rows).unwrap();
        }
    }
    let Compared { changes, end } = comparison.changes(&own, &after).unwrap();
    let is_over = end.is_none();
    let counters = Counters {
        sequence: stamp.sequence,
        keys: stamp.keys,
        expires: stamp.expires,
        swept_ms: stamp.swept_ms,
    };
    let difference = Difference {
        incarnation: held.position.incarnation,
        at: Standing::of(held.position.link, levelling),
        begins,
        to,
        sequence: stamp.sequence,
        mapping_version: 1,
        end: end.map_or(End::Last(counters), End::Before),
    };
    assert!(difference.is_ordered(&changes));
    let item = Item::Difference { difference, changes };
    let effects = follower.append(leader.stamp_ms - BEHIND_MS, vec![item.clone()]).unwrap();
    assert!(matches!(effects[..], [Effect::Carried(Ok(_))]));
    Levelled { is_over, given, item }
}

fn small() -> Limits {
    Limits { rows: 3, bytes: 300, given_bytes: 100 }
}

/// Keys and expiries as the rows have them.
fn counted<R: RowsRead>(rows: &R) -> [u64; 2] {
    let (mut keys, mut expires) = (0, 0);
    rows.scan(&key::rows_from(0), key::ROWS_END, &mut |row, value| {
        if RowKey::parse(row).unwrap().field.is_none() {
            keys += 1;
            expires += u64::from(Meta::decode(value).unwrap().0.expiry_ms.is_some());
        }
        NEXT
    })
    .unwrap();
    [keys, expires]
}

/// What happens to a follower while it is levelled.
#[derive(Clone, Debug)]
enum Turn {
    /// So many ranges.
    Level(usize),
    /// The leader goes on, so that the next round has another snapshot.
    Leader(Vec<Step>),
    Flush,
    Restart,
    /// The item before the last comes again, and carried records.
    Again,
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => (1usize..6).prop_map(Turn::Level),
        2 => prop::collection::vec(step(), 1..6).prop_map(Turn::Leader),
        1 => Just(Turn::Flush),
        1 => Just(Turn::Restart),
        1 => Just(Turn::Again),
    ]
}

fn check(before: &[Step], after: &[Step], turns: Vec<Turn>, target: usize) {
    let mut leader = Leaders::new();
    before.iter().for_each(|step| leader.step(step));
    let mut follower = Follower::new(&mut leader);
    after.iter().for_each(|step| leader.step(step));
    let mut items = Vec::new();
    let last = |leader: &Leaders| leader.log.chain.position().lsn;
    for turn in turns {
        match turn {
            Turn::Level(count) => {
                for _ in 0..count {
                    if follower.at() < last(&leader) {
                        items.push(level(&leader, &mut follower, &small(), target).item);
                    }
                }
            }
            Turn::Leader(steps) => steps.iter().for_each(|step| leader.step(step)),
            Turn::Flush => {
                follower.replica().mark().unwrap();
                follower.replica().store().flush().unwrap();
            }
            Turn::Restart => follower.restart(),
            Turn::Again => {
                let contents = follower.content();
                let mut late: Vec<Item> = items.iter().rev().take(3).cloned().collect();
                if follower.replica().leader().unwrap().levelling.is_some() {
                    late.push(leader.batch(follower.at(), last(&leader)));
                }
                follower.append(leader.stamp_ms - BEHIND_MS, late).unwrap();
                assert_eq!(follower.content(), contents, "they are no-ops");
            }
        }
        let stamp = follower.replica().stamp();
        assert_eq!(counted(follower.replica().store()), [stamp.keys, stamp.expires]);
    }
    while follower.at() < last(&leader) {
        level(&leader, &mut follower, &small(), target);
    }
    assert_eq!(follower.content(), leader.replica.content_digest().unwrap());
    assert_eq!(follower.replica().leader().unwrap().levelling, None);
    // What it knows beside its rows is right too: it goes on with the log.
    let steps = [command("INCR n"), command("SET a 1"), Operation::Sweep { limit: 9 }];
    for operation in steps {
        let (at, skip) = (follower.at(), 2);
        leader.step(&Step::Run { lead: 0, skip, session: 1, operations: vec![operation] });
        let batch = leader.batch(at, last(&leader));
        follower.append(leader.stamp_ms - BEHIND_MS, vec![batch]).unwrap();
        assert_eq!(follower.content(), leader.replica.content_digest().unwrap());
    }
    let digest = follower.replica().digest().unwrap();
    follower.restart_at_each();
    assert_eq!(follower.replica().digest().unwrap(), digest, "wherever it was killed");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_difference_from_any_state_makes_both_equal(
        before in prop::collection::vec(step(), 0..20),
        after in prop::collection::vec(step(), 1..20),
        turns in prop::collection::vec(turn(), 0..8),
        target in 1usize..400,
    ) {
        check(&before, &after, turns, target);
    }

    #[test]
    fn any_row_is_read_or_refused(key: Vec<u8>, value: Vec<u8>, kind in 0u8..6) {
        let key = [&[kind], &key[..]].concat();
        let _ = check_row(&key, &value);
    }

    #[test]
    fn a_boundary_parts_its_neighbours(mut keys in prop::array::uniform2(prop::collection::vec(0u8..3, 0..6))) {
        keys.sort();
        if keys[0] != keys[1] {
            let between = boundary(&keys[0], &keys[1]);
            prop_assert!(*keys[0] < *between && *between <= *keys[1]);
        }
    }
}

fn check_row(key: &[u8], value: &[u8]) -> Result<(), StoreError> {
    super::check(key, value)
}

fn run(operations: Vec<Operation>) -> Step {
    Step::Run { lead: 0, skip: 0, session: 0, operations }
}

fn set(prefix: &str, number: usize, value: &str) -> Operation {
    command(&format!("SET {prefix}{number} {value}"))
}

#[test]
fn only_what_differs_is_sent() {
    let mut leader = Leaders::new();
    for number in 0..2000 {
        leader.step(&run(vec![set("k", number, &"v".repeat(100))]));
    }
    for number in 0..50 {
        leader.step(&run(vec![command(&format!("SET t{number} v PX 9000000"))]));
    }
    let mut follower = Follower::new(&mut leader);
    for number in 0..100 {
        leader.step(&run(vec![set("k", number * 20, "changed")]));
    }
    for number in 0..20 {
        leader.step(&run(vec![command(&format!("DEL k{}", number * 20 + 1))]));
        leader.step(&run(vec![command(&format!("PEXPIRE t{number} 99000000"))]));
    }
    let limits = Limits { rows: 256, ..Limits::default() };
    let mut given = 0;
    loop {
        let levelled = level(&leader, &mut follower, &limits, 1 << 20);
        given += levelled.given;
        if levelled.is_over {
            break;
        }
    }
    assert_eq!(follower.content(), leader.replica.content_digest().unwrap());
    // The changed rows, where keys went, and the session and the lead that ran it.
    assert!((120..=170).contains(&given), "{given}");
}

#[test]
fn a_leader_that_lost_everything_is_followed_in_small_steps() {
    let mut leader = Leaders::new();
    for number in 0..300 {
        leader.step(&run(vec![set("k", number, "v")]));
    }
    let mut follower = Follower::new(&mut leader);
    leader.step(&run(vec![command("FLUSHDB"), command("SET a 1")]));
    let mut steps = 0;
    while !level(&leader, &mut follower, &Limits::default(), 500).is_over {
        steps += 1;
    }
    assert!(steps > 5, "{steps}");
    assert_eq!(follower.content(), leader.replica.content_digest().unwrap());
}

#[test]
fn a_large_row_comes_in_pieces() {
    let mut leader = Leaders::new();
    let mut follower = Follower::new(&mut leader);
    leader.step(&run(vec![set("large", 0, &"x".repeat(6 << 20))]));
    let theirs = leader.replica.store().owned_snapshot().unwrap();
    let span = Span { after: Bytes::new(), until: None, since: 0, seed: SEED };
    let found = range(&theirs, &span, &Limits::default()).unwrap();
    let mut comparison = Comparison::new(span.clone(), found).unwrap();
    let own = follower.replica().store().owned_snapshot().unwrap();
    let hashes = hashes(&theirs, &span).unwrap();
    let mut missing = comparison.missing(&own, &hashes).unwrap();
    let mut all: HashMap<Bytes, Vec<u8>> = HashMap::new();
    let mut pieces = 0;
    while let Some(first) = missing.first() {
        let mut offset = 0;
        loop {
            let Rows { rows, left } = rows(&theirs, &span, &[*first], offset).unwrap();
            let [(key, piece)] = &rows[..] else { panic!() };
            all.entry(key.clone()).or_default().extend_from_slice(piece);
            offset += piece.len() as u64;
            pieces += 1;
            if left == 0 {
                break;
            }
        }
        missing.remove(0);
    }
    assert!(pieces > hashes.len());
    let all = all.into_iter().map(|(key, value)| (key, value.into())).collect();
    comparison.take(all).unwrap();
    let Compared { changes, end } = comparison.changes(&own, &[]).unwrap();
    assert_eq!(end.is_none(), changes.iter().any(|it| it.key[0] == key::KIND_ROW));
    let far = rows(&theirs, &span, &hashes, u64::MAX).unwrap();
    assert!(far.rows[0].1.is_empty());
}

#[test]
fn what_a_leader_would_not_send_is_refused() {
    let span = |until: Option<&'static [u8]>| {
        let until = until.map(Bytes::from_static);
        Span { after: Bytes::from_static(b"\x01m"), until, since: 0, seed: SEED }
    };
    let ends = |end: Option<&'static [u8]>| {
        let end = end.map(Bytes::from_static);
        Range { end, ..Range::default() }
    };
    assert!(Comparison::new(span(None), ends(Some(b"\x01m"))).is_err());
    assert!(Comparison::new(span(Some(b"\x01p")), ends(None)).is_err());
    assert!(Comparison::new(span(Some(b"\x01p")), ends(Some(b"\x01q"))).is_err());
    let mut comparison = Comparison::new(span(None), ends(Some(b"\x05"))).unwrap();
    let mut refused = |key: &'static [u8], value: &'static [u8]| {
        comparison.take(vec![(Bytes::from_static(key), Bytes::from_static(value))]).unwrap_err()
    };
    for key in [&b"\x00P"[..], b"\x00S12345678", b"\x05"] {
        assert!(refused(key, b"").to_string().contains("another range"));
    }
    for key in [&b"\x01x"[..], b"\x02x", b"\x03x", b"\x04x"] {
        assert!(matches!(refused(key, b""), StoreError::Damaged(_)), "{key:?}");
    }
    let own = crate::rows::memory::MemoryRows::default();
    assert!(comparison.missing(&own, &[5]).is_err(), "those are not of the range");
}
