//! Expiry of keys and fields: what has expired is absent before and after it is swept.

use super::{Bench, check, show};
use crate::execute::{NEVER_THERE, due_since, last_change, sweep};
use crate::operation::{self, Operation};
use crate::{Argv, Reply};

#[test]
fn keys_expire_by_log_time() {
    check(
        r#"
        SET a 1 PX 100 => OK
        SET b 1 EX 1 => OK
        PTTL a => 100
        TTL b => 1
        PEXPIRETIME b => 1001000
        +99
        EXISTS a => 1
        +1
        GET a => nil
        DBSIZE => 1
        INCR a => 1
        TTL a => -1
        SET b 2 KEEPTTL => OK
        PTTL b => 900
        APPEND b 3 => 2
        PTTL b => 900
        GETEX b PERSIST => "23"
        TTL b => -1
        EXPIREAT b 1 => 1
        EXISTS b => 0
        SET c v PXAT 1 => OK
        EXISTS c => 0
        SET a v => OK
        SET a w PXAT 1 => OK
        EXISTS a => 0
        rows => 0
        "#,
    );
}

/// A table's default expiry, of all ways to make a key and to change one that is there.
#[test]
fn keys_that_are_made_have_the_default_expiry_of_their_table() {
    let mut bench = Bench::new();
    let write = |bench: &mut Bench, words: &str| {
        let argv = Argv::of(&words.split(' ').collect::<Vec<_>>());
        let bytes = operation::with_default_expiry(&Operation::Command(argv).encode(), 1_000);
        bench.run(&Operation::decode(&bytes).unwrap())
    };
    for made in [
        "SET k v",
        "SET k v NX",
        "SETNX k v",
        "GETSET k v",
        "MSET k v l w",
        "MSETNX k v l w",
        "APPEND k v",
        "SETRANGE k 1 v",
        "INCR k",
        "INCRBYFLOAT k 1.5",
        "SETBIT k 1 1",
        "BITFIELD k SET u8 0 1",
        "HSET k f v",
        "HSETNX k f v",
        "HINCRBY k f 1",
        "HINCRBYFLOAT k f 1",
        "HSETEX k FIELDS 1 f v",
        "SET k v KEEPTTL",
    ] {
        write(&mut bench, "DEL k l");
        write(&mut bench, made);
        assert_eq!(bench.read(&["PTTL", "k"]), Reply::Integer(1_000), "{made}");
    }
    // What is there keeps its own; a string that is replaced begins anew.
    for (command, left_ms) in [
        ("SET k 1", 1_000),
        ("INCR k", 900),
        ("SET k 1 KEEPTTL", 800),
        ("SET k 1", 1_000),
        ("SET k 1 PX 5000", 5_000),
        ("APPEND k 1", 4_900),
        ("MSET k 1", 1_000),
        ("GETEX k PERSIST", -1),
        ("APPEND k 1", -1),
        ("DEL k", -2),
        ("HSET k f v", 1_000),
        ("HSET k f w g v", 900),
        ("PERSIST k", -1),
        ("HDEL k f", -1),
    ] {
        write(&mut bench, command);
        assert_eq!(bench.read(&["PTTL", "k"]), Reply::Integer(left_ms), "{command}");
        bench.pass(100);
    }
    // Only what makes keys carries one.
    let sweep = Operation::Sweep { limit: 1 }.encode();
    assert_eq!(operation::with_default_expiry(&sweep, 1), sweep);
    let nested =
        operation::with_default_expiry(&Operation::Command(Argv::of(&["GET", "k"])).encode(), 1);
    let nested = [&[7, 1], nested.as_ref()].concat();
    assert!(Operation::decode(&nested.into()).is_err());
}

#[test]
fn conditions_on_expiry() {
    check(
        r#"
        SET a 1 => OK
        EXPIRE a 10 GT => 0
        EXPIRE a 10 XX => 0
        EXPIRE a 10 LT => 1
        EXPIRE a 10 NX => 0
        EXPIRE a 5 GT => 0
        EXPIRE a 20 XX GT => 1
        EXPIRE a 30 LT => 0
        PTTL a => 20000
        PERSIST a => 1
        PERSIST a => 0
        "#,
    );
}

#[test]
fn a_write_over_what_expired_takes_its_rows_away() {
    check(
        r#"
        HSET h f 1 g 2 => 2
        HEXPIRE h 100 FIELDS 1 f => [1]
        PEXPIRE h 50 => 1
        +50
        EXISTS h => 0
        HGETALL h => {}
        HSET h x 1 => 1
        HGETALL h => {"x": "1"}
        TTL h => -1
        rows => 2
        "#,
    );
}

#[test]
fn fields_expire() {
    check(
        r#"
        HSET h a 1 b 2 c 3 => 3
        HPEXPIRE h 100 FIELDS 2 a none => [1 -2]
        HEXPIRE none 1 FIELDS 1 a => [-2]
        HPTTL h FIELDS 3 a b none => [100 -1 -2]
        HTTL h FIELDS 1 a => [1]
        HPEXPIRETIME h FIELDS 1 a => [1000100]
        HPEXPIRE h 50 GT FIELDS 2 a b => [0 0]
        HPEXPIRE h 200 LT FIELDS 2 a b => [0 1]
        HPERSIST h FIELDS 3 b c none => [1 -1 -2]
        HINCRBY h a 1 => 2
        HPTTL h FIELDS 1 a => [100]
        +100
        HLEN h => 2
        HEXISTS h a => 0
        HMGET h a b => [nil "2"]
        HGETALL h => {"b": "2", "c": "3"}
        HSETNX h a 9 => 1
        HPTTL h FIELDS 1 a => [-1]
        HPEXPIRE h 100 FIELDS 1 a => [1]
        HSET h a 8 => 0
        HPTTL h FIELDS 1 a => [-1]
        HPEXPIREAT h 1 FIELDS 3 a b c => [2 2 2]
        EXISTS h => 0
        rows => 0
        "#,
    );
}

#[test]
fn the_last_field_takes_its_key_along() {
    check(
        r#"
        HSETEX h PX 100 FIELDS 2 a 1 b 2 => 1
        HSETEX h FNX FIELDS 1 a 3 => 0
        HSETEX h FXX KEEPTTL FIELDS 1 a 3 => 1
        HPTTL h FIELDS 1 a => [100]
        HGETEX h PX 200 FIELDS 2 b none => ["2" nil]
        +100
        HLEN h => 1
        EXISTS h => 1
        +100
        EXISTS h => 0
        HLEN h => 0
        TYPE h => none
        DBSIZE => 0
        KEYS * => []
        HSETEX new PXAT 1 FIELDS 1 a 1 => 1
        EXISTS new => 0
        sweep 10 => 2
        rows => 0
        "#,
    );
}

#[test]
fn sweeps_take_what_is_due_and_no_more() {
    check(
        r#"
        SET a 1 PX 10 => OK
        SET b 1 PX 20 => OK
        SET c 1 PX 1000 => OK
        HSET h f 1 g 2 => 2
        HPEXPIRE h 15 FIELDS 1 f => [1]
        HSET k f 1 => 1
        HPEXPIRE k 15 FIELDS 1 f => [1]
        sweep 10 => 0
        +20
        sweep 1 => 1
        sweep 10 => 3
        sweep 10 => 0
        DBSIZE => 2
        HGETALL h => {"g": "2"}
        rows => 4
        "#,
    );
}

#[test]
fn something_is_due_from_its_expiry_on() {
    let mut bench = Bench::new();
    bench.write(&["SET", "a", "1", "PX", "10"]);
    let now_ms = bench.context.now_ms;
    assert_eq!(due_since(&bench.rows, now_ms + 9).unwrap(), None);
    assert_eq!(due_since(&bench.rows, now_ms + 15).unwrap(), Some(now_ms + 10));
}

fn transaction(bench: &mut Bench, watched: u64, commands: &[&[&str]]) -> Reply {
    let commands = commands.iter().map(|parts| Argv::of(parts)).collect();
    let operation = Operation::Transaction { watched: vec![("w".into(), watched)], commands };
    let operation = Operation::decode(&operation.encode()).unwrap();
    let reply = operation::run(&operation, &mut bench.rows, &mut bench.context).unwrap();
    bench.check_rows();
    reply
}

#[test]
fn a_watched_key_that_changed_stops_a_transaction() {
    let mut bench = Bench::new();
    let seen = |bench: &Bench| last_change(&bench.rows, b"w", bench.context.now_ms).unwrap();
    assert_eq!(seen(&bench), NEVER_THERE);
    let absent = seen(&bench);
    bench.write(&["HSET", "w", "f", "1", "g", "2"]);
    assert_eq!(transaction(&mut bench, absent, &[&["DEL", "w"]]), Reply::NilArray);

    let unchanged = seen(&bench);
    bench.write(&["HGET", "w", "f"]);
    bench.write(&["SET", "other", "1"]);
    let commands: &[&[&str]] =
        &[&["HINCRBY", "w", "f", "1"], &["GET", "w"], &["GET"], &["HGETALL", "w"]];
    assert_eq!(
        show(&transaction(&mut bench, unchanged, commands)),
        "[2 -WRONGTYPE Operation against a key holding the wrong kind of value \
         -ERR wrong number of arguments for 'get' command {\"f\": \"2\", \"g\": \"2\"}]"
    );

    // A field that expires is a change, though nothing is written; so is the whole key's end.
    bench.write(&["HPEXPIRE", "w", "10", "FIELDS", "1", "f"]);
    let before = seen(&bench);
    bench.pass(10);
    assert_eq!(transaction(&mut bench, before, &[&["DEL", "w"]]), Reply::NilArray);
    bench.write(&["PEXPIRE", "w", "10"]);
    let before = seen(&bench);
    bench.pass(10);
    assert_eq!(transaction(&mut bench, before, &[]), Reply::NilArray);
    assert_eq!(transaction(&mut bench, 0, &[]), Reply::Array(vec![]));
}

#[test]
fn a_watched_key_that_was_absent_and_made_and_taken_away_stops_a_transaction() {
    let mut bench = Bench::new();
    let seen = |bench: &Bench| last_change(&bench.rows, b"w", bench.context.now_ms).unwrap();
    let is_stopped = |bench: &mut Bench, watched| match transaction(bench, watched, &[]) {
        Reply::NilArray => true,
        Reply::Array(replies) => !replies.is_empty(),
        other => panic!("{other:?}"),
    };
    let made_and_gone: [&[&[&str]]; 6] = [
        &[&["SET", "w", "1"], &["DEL", "w"]],
        &[&["HSET", "w", "f", "1"], &["HDEL", "w", "f"]],
        &[&["SET", "w", "1"], &["RENAME", "w", "elsewhere"]],
        &[&["SET", "w", "1"], &["FLUSHDB"]],
        &[&["SET", "w", "1"], &["PEXPIRE", "w", "-1"]],
        &[&["SET", "w", "1"], &["GETDEL", "w"]],
    ];
    for commands in made_and_gone {
        let absent = seen(&bench);
        for command in commands {
            bench.write(command);
        }
        assert!(is_stopped(&mut bench, absent), "{commands:?}");
        let absent = seen(&bench);
        assert!(!is_stopped(&mut bench, absent), "nothing happened after {commands:?}");
    }

    // Where all are taken away, one that was not there was not touched.
    let absent = seen(&bench);
    bench.write(&["SET", "other", "1", "PX", "5"]);
    bench.write(&["HSET", "h", "f", "v"]);
    bench.pass(5);
    bench.write(&["FLUSHDB"]);
    assert!(!is_stopped(&mut bench, absent), "nobody touched it");

    // What expires meanwhile was there; its rows' going is then no change of its own.
    let absent = seen(&bench);
    bench.write(&["SET", "w", "1", "PX", "10"]);
    let there = seen(&bench);
    bench.pass(10);
    assert!(is_stopped(&mut bench, absent) && is_stopped(&mut bench, there));
    let expired = seen(&bench);
    assert_eq!(sweep(&mut bench.rows, &mut bench.context, 10).unwrap(), 1);
    assert!(!is_stopped(&mut bench, expired) && is_stopped(&mut bench, absent));
    assert!(is_stopped(&mut bench, there));
}
