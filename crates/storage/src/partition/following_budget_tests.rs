//! Tests of a replica that follows and of operations near what they may take: they end there, or do
//! not, as they did at the leader, whichever records are carried out together.

use std::sync::LazyLock;

use plimsoll_log::Lsn;
use proptest::prelude::*;

use super::following_tests::{Follower, Leaders, Step, carry, command, follow};
use super::tests::resources;
use super::*;
use crate::Argv;
use crate::execute::WriteContext;
use crate::operation::Operation;

/// What of the steps that an operation may take is used up in large pieces of.
const PIECE_BYTES: u64 = 4 << 20;

/// An empty store, to see what operations take.
static EMPTY: LazyLock<(tempfile::TempDir, Store)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &resources()).unwrap();
    (dir, store)
});

/// A transaction that takes so many pieces, and one of so many bytes, before what it is made for.
fn transaction(pieces: u64, rest_bytes: u64, body: &[&str]) -> Operation {
    let mut commands = vec![format!("SETRANGE big {} x", PIECE_BYTES - 1)];
    commands.extend((0..pieces).map(|_| "STRLEN big".to_owned()));
    commands.extend([format!("SETRANGE pad {rest_bytes} x"), "STRLEN pad".to_owned()]);
    commands.push("DEL big pad".to_owned());
    commands.extend(body.iter().map(|it| (*it).to_owned()));
    let argv = |words: &String| Argv::of(&words.split(' ').collect::<Vec<_>>());
    Operation::Transaction { watched: Vec::new(), commands: commands.iter().map(argv).collect() }
}

/// How many steps are left to one of so many bytes after it took these pieces.
fn steps_left(pieces: u64, rest_bytes: u64, payload_bytes: usize) -> u64 {
    let mut overlay = Overlay::new(&EMPTY.1);
    overlay.begin(payload_bytes);
    let mut context = WriteContext {
        now_ms: 1,
        stamp_ms: 1,
        seed: 0,
        sequence: 0,
        keys: 0,
        expires: 0,
        is_bounded: true,
        default_expiry_ms: None,
    };
    crate::operation::run(&transaction(pieces, rest_bytes, &[]), &mut overlay, &mut context)
        .unwrap();
    overlay.budget_left()[1]
}

/// An operation that has about so many steps left for what it is made for.
fn near_limit(spare: u64, body: &[&str]) -> Operation {
    let left = |pieces: u64, rest_bytes: u64| {
        let bytes = transaction(pieces, rest_bytes, body).encode().len();
        steps_left(pieces, rest_bytes, bytes)
    };
    // Of seven digits, so that it takes the same of the operation's own.
    const REST_BYTES: u64 = 1_000_000;
    // Each piece takes its bytes' steps, less what is the operation's own by its length.
    let each = (left(0, REST_BYTES) - left(10, REST_BYTES)) / 10;
    let pieces = (left(0, REST_BYTES) - spare) / each - 1;
    let for_a_million = left(pieces, REST_BYTES) - left(pieces, 2 * REST_BYTES);
    let rest_bytes = (left(pieces, REST_BYTES) - spare) * REST_BYTES / for_a_million;
    transaction(pieces, REST_BYTES + rest_bytes, body)
}

const FIELDS: &str = "f0 v f1 v f2 v f3 v f4 v f5 v f6 v f7 v f8 v f9 v";
const FIELD_NAMES: &str = "f0 f1 f2 f3 f4 f5 f6 f7 f8 f9";

fn light() -> impl Strategy<Value = Operation> {
    let commands = vec![
        format!("HSET h {FIELDS}"),
        format!("HSET g {FIELDS}"),
        format!("HDEL h {FIELD_NAMES} none"),
        "HDEL h f1 f3 f5 f7".to_owned(),
        "HPEXPIRE h 500 FIELDS 2 f2 f4".to_owned(),
        "DEL h".to_owned(),
        "DEL g none".to_owned(),
        "DEL none".to_owned(),
        "FLUSHDB".to_owned(),
        "SET a 1 PX 500".to_owned(),
        "MSET a 1 b 2 c 3 d 4 e 5".to_owned(),
        "DEL a b c d e".to_owned(),
        "RENAME g h".to_owned(),
        "COPY h g REPLACE".to_owned(),
    ];
    let sweep = Just(Operation::Sweep { limit: 9 });
    prop_oneof![
        12 => prop::sample::select(commands).prop_map(|text| command(&text)),
        1 => sweep,
    ]
}

fn heavy() -> impl Strategy<Value = Operation> {
    let bodies: Vec<&[&str]> = vec![
        &["FLUSHDB"],
        &["SET a 2", "FLUSHDB"],
        &["HGETALL h"],
        &["HKEYS g", "HVALS h"],
        &["DEL h g"],
        &["HRANDFIELD h 3"],
        &["COPY h g REPLACE"],
        &["HDEL h f1 f2 f3", "HGETALL h"],
        &["RENAME h g"],
    ];
    let body = prop::sample::select(bodies);
    (prop_oneof![0u64..2500, 0u64..6000], body).prop_map(|(spare, body)| near_limit(spare, body))
}

fn step() -> impl Strategy<Value = Step> {
    let run = |operations| Step::Run { lead: 0, skip: 0, session: 0, operations };
    prop_oneof![
        1 => prop_oneof![1u64..1000, Just(61_000)].prop_map(Step::Pass),
        8 => prop::collection::vec(light(), 1..4).prop_map(run),
        4 => (prop::option::of(light()), heavy()).prop_map(move |(light, heavy)| {
            run(light.into_iter().chain([heavy]).collect())
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn what_ends_at_its_budget_ends_there_on_both_sides(
        before in prop::collection::vec(step(), 0..6),
        after in prop::collection::vec(step(), 1..24),
        carries in prop::collection::vec(carry(), 1..16),
    ) {
        follow(&before, &after, carries);
    }
}

#[test]
fn the_operations_of_this_test_are_near_their_limit() {
    let mut leader = Leaders::new();
    let mut is_refused = |spare: u64| {
        let operations = vec![near_limit(spare, &["SET a 1", "GET a"])];
        leader.step(&Step::Run { lead: 0, skip: 0, session: 0, operations });
        let keys = leader.replica.stamp().keys;
        leader.step(&Step::Run {
            lead: 0,
            skip: 0,
            session: 0,
            operations: vec![command("DEL a")],
        });
        keys == 0
    };
    assert!(is_refused(50) && !is_refused(2500));
}

#[test]
fn a_flush_after_a_flush_of_much_costs_what_it_cost_the_leader() {
    let mut leader = Leaders::new();
    let run = |leader: &mut Leaders, texts: &[String]| {
        let operations = texts.iter().map(|text| command(text)).collect();
        leader.step(&Step::Run { lead: 0, skip: 0, session: 0, operations });
    };
    // So many keys that the first flush looks at none of them, and more rows than an operation may
    // pass over.
    let keys: Vec<String> = (0..1100).map(|at| format!("k{at} v")).collect();
    run(&mut leader, &[format!("MSET {}", keys.join(" "))]);
    for hash in 0..27 {
        let fields: Vec<String> = (0..40_000).map(|at| format!("field{at} v")).collect();
        run(&mut leader, &[format!("HSET hash{hash} {}", fields.join(" "))]);
    }
    let mut follower = Follower::new(&mut leader);
    let at = follower.at();
    for text in ["FLUSHDB", "SET a 1", "FLUSHDB", "SET b 1"] {
        run(&mut leader, &[text.to_owned()]);
    }
    assert_eq!(leader.replica.stamp().keys, 1);
    let last = Lsn(at.0 + 4);
    let batch = leader.batch(at, last);
    follower.append(leader.stamp_ms, vec![batch]).unwrap();
    assert_eq!(follower.at(), last, "nothing of it is heavy");
    assert_eq!(follower.content(), leader.contents[&last]);
}

#[test]
fn one_that_is_refused_after_another_record_leaves_what_that_did() {
    let mut leader = Leaders::new();
    let mut follower = Follower::new(&mut leader);
    let refused = near_limit(300, &["HDEL h f1 f2", "FLUSHDB", "SET c 1"]);
    for operation in [
        command(&format!("HSET h {FIELDS}")),
        command("HDEL h f0 f9"),
        refused,
        command("HDEL h f3"),
    ] {
        leader.step(&Step::Run { lead: 0, skip: 0, session: 0, operations: vec![operation] });
    }
    assert_eq!(leader.replica.stamp().keys, 1, "it was refused");
    while follower.at() < Lsn(4) {
        let batch = leader.batch(follower.at(), Lsn(4));
        follower.append(leader.stamp_ms, vec![batch]).unwrap();
        assert_eq!(follower.content(), leader.contents[&follower.at()]);
    }
}
