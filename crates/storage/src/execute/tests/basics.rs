//! Strings, hashes and keys.

use std::cell::Cell;

use bytes::Bytes;

use super::{Bench, check, show};
use crate::argv::Argv;
use crate::command;
use crate::execute::{ReadContext, Seed, read};
use crate::reply::Reply;
use crate::rows::field::FieldHead;
use crate::rows::key::RowKey;
use crate::rows::memory::MemoryRows;
use crate::rows::{RowsRead, StoreError, Visit};

#[test]
fn strings() {
    check(
        r#"
        GET a => nil
        SET a 1 => OK
        GET a => "1"
        SET a 2 NX => nil
        SET a 2 XX GET => "1"
        SET b 2 GET => nil
        MGET a none b => ["2" nil "2"]
        MSETNX a 9 z 9 => 0
        EXISTS z => 0
        APPEND a 34 => 3
        SETRANGE a 5 x => 6
        GET a => "234\x00\x00x"
        GETRANGE a -1 -1 => "x"
        SETRANGE a 8388608 x => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        INCRBY n 5 => 5
        DECRBY n 9223372036854775807 => -9223372036854775802
        DECRBY n 7 => -ERR increment or decrement would overflow
        DECRBY n -9223372036854775808 => -ERR decrement would overflow
        INCRBYFLOAT f 3.0e3 => "3000"
        INCRBYFLOAT f 0.5 => "3000.5"
        GETDEL f => "3000.5"
        DEL a b n f a => 3
        rows => 0
        "#,
    );
}

#[test]
fn hashes() {
    check(
        r#"
        HSET h f 1 g 2 f 3 => 2
        HGETALL h => {"f": "3", "g": "2"}
        HSETNX h f 9 => 0
        HSETNX h i 9 => 1
        HMGET h f none => ["3" nil]
        HINCRBY h f 4 => 7
        HINCRBY h f 9223372036854775807 => -ERR increment or decrement would overflow
        HINCRBYFLOAT h f 0.5 => "7.5"
        HINCRBY h f 1 => -ERR hash value is not an integer
        HINCRBY new f x => -ERR value is not an integer or out of range
        EXISTS new => 0
        HKEYS h => ["f" "g" "i"]
        HVALS h => ["7.5" "2" "9"]
        HSTRLEN h f => 3
        HDEL h f g none => 2
        HLEN h => 1
        HGETDEL h FIELDS 2 i j => ["9" nil]
        EXISTS h => 0
        rows => 0
        HSET s f v => 1
        GET s => -WRONGTYPE Operation against a key holding the wrong kind of value
        SET s v GET => -WRONGTYPE Operation against a key holding the wrong kind of value
        SET s v => OK
        HGET s f => -WRONGTYPE Operation against a key holding the wrong kind of value
        rows => 1
        "#,
    );
}

#[test]
fn keys_take_their_rows_along() {
    check(
        r#"
        HSET h f 1 g 2 => 2
        HPEXPIRE h 500 FIELDS 1 g => [1]
        PEXPIRE h 1000 => 1
        RENAME h k => OK
        HGETALL k => {"f": "1", "g": "2"}
        PTTL k => 1000
        HPTTL k FIELDS 2 f g => [-1 500]
        COPY k l => 1
        COPY k l => 0
        HSET k f 3 => 0
        HGET l f => "1"
        COPY k l REPLACE => 1
        HGET l f => "3"
        RENAMENX k l => 0
        SET s 1 => OK
        RENAME s l => OK
        RENAME s l => -ERR no such key
        RENAME l l => OK
        RENAMENX l l => 0
        TYPE l => string
        TYPE k => hash
        DBSIZE => 2
        FLUSHALL ASYNC => OK
        DBSIZE => 0
        rows => 0
        "#,
    );
}

#[test]
fn refusals_have_the_words_of_redis() {
    check(
        r#"
        GET => -ERR wrong number of arguments for 'get' command
        HSET h f => -ERR wrong number of arguments for 'hset' command
        HSET h f v g => -ERR wrong number of arguments for 'hset' command
        OBJECT NOPE a => -ERR unknown subcommand 'NOPE'. Try OBJECT HELP.
        OBJECT ENCODING => -ERR wrong number of arguments for 'object|encoding' command
        SET a 2 EX 0 => -ERR invalid expire time in 'set' command
        SETEX a 9223372036854775 v => -ERR invalid expire time in 'setex' command
        SET a 2 EX abc => -ERR value is not an integer or out of range
        SET a 2 NX XX => -ERR syntax error
        EXPIRE a 50 NX XX => -ERR NX and XX, GT or LT options at the same time are not compatible
        EXPIRE a 50 GT LT => -ERR GT and LT options at the same time are not compatible
        SCAN abc => -ERR invalid cursor
        SCAN 0 COUNT 0 => -ERR syntax error
        HSCAN nope 5 => ["0" []]
        LCS a b LEN IDX => -ERR If you want both the length and indexes, please just use IDX.
        SETBIT a 67108864 1 => -ERR bit offset is not an integer or out of range
        HEXPIRE h -1 FIELDS 1 f => -ERR invalid expire time, must be >= 0
        HEXPIRE h 1 FIELD 1 f => -ERR Mandatory argument FIELDS is missing or not at the right position
        HEXPIRE h 1 FIELDS 0 f => -ERR Parameter `numFields` should be greater than 0
        HEXPIRE h 1 FIELDS 2 f => -ERR The `numfields` parameter must match the number of arguments
        HTTL h FIELDS x f => -ERR Number of fields must be a positive integer
        HSETEX h FNX FXX FIELDS 1 f v => -ERR Only one of FXX or FNX arguments can be specified
        HSETEX h EX 1 KEEPTTL FIELDS 1 f v => -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
        HSETEX h FIELDS 2 f v => -ERR wrong number of arguments for 'hsetex' command
        HGETEX h NOPE FIELDS 1 f => -ERR unknown argument: NOPE
        rows => 0
        "#,
    );
}

#[test]
fn an_unknown_command_is_refused_before_it_runs() {
    let Err(refusal) = crate::command::parse(&Argv::of(&["BOGUS", "a", "b"])) else {
        panic!("BOGUS is a command");
    };
    let words = "-ERR unknown command 'BOGUS', with args beginning with: 'a' 'b' ";
    assert_eq!(show(&Reply::Error(refusal)), words);
}

#[test]
fn a_field_counts_its_overwrites() {
    let mut bench = Bench::new();
    for value in ["1", "2", "3"] {
        bench.write(&["HSET", "h", "f", value]);
    }
    bench.write(&["HEXPIRE", "h", "100", "FIELDS", "1", "f"]);
    let mut versions = Vec::new();
    for (row, value) in bench.rows.rows.iter() {
        if RowKey::parse(row).is_some_and(|row| row.field.is_some()) {
            let (head, _) = FieldHead::decode(value).unwrap();
            versions.push((head.version, head.sequence <= bench.context.sequence));
        }
    }
    assert_eq!(versions, [(3, true)]);
}

#[test]
fn a_large_hash_goes_at_once() {
    let mut bench = Bench::new();
    for n in 0..200 {
        bench.write(&["HSET", "h", &format!("f{n}"), "v"]);
    }
    bench.write(&["HEXPIRE", "h", "100", "FIELDS", "2", "f7", "f8"]);
    bench.write(&["SET", "other", "v"]);
    assert_eq!(show(&bench.write(&["DEL", "h"])), "1");
    assert_eq!(bench.row_count(), 1);
    let from = crate::rows::key::rows_from(0);
    assert!(bench.rows.get(&from).unwrap().is_none());
}

#[test]
fn bits_and_subsequences() {
    check(
        r#"
        SETBIT b 7 1 => 0
        SETBIT b 16 1 => 0
        GET b => "\x01\x00\x80"
        BITCOUNT b => 2
        BITCOUNT b 0 0 => 1
        BITCOUNT b 7 16 BIT => 2
        BITCOUNT b 8 15 BIT => 0
        SET x ohmytext => OK
        SET y mynewtext => OK
        LCS x y => "mytext"
        LCS x y LEN => 6
        LCS x y IDX MINMATCHLEN 4 WITHMATCHLEN => {"matches": [[[4 7] [5 8] 4]], "len": 6}
        OBJECT ENCODING x => "embstr"
        MEMORY USAGE none => nil
        "#,
    );
}

/// Rows that count how they are read.
struct CountedRows {
    rows: MemoryRows,
    is_budgeted: bool,
    gets: Cell<usize>,
    looks: Cell<usize>,
    scanned: Cell<usize>,
}

impl RowsRead for CountedRows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.gets.set(self.gets.get() + 1);
        self.rows.get(key)
    }

    fn with_value(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        self.looks.set(self.looks.get() + 1);
        self.rows.with_value(key, show)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.rows.scan(from, to, &mut |key, value| {
            self.scanned.set(self.scanned.get() + 1);
            visit(key, value)
        })
    }

    fn is_budgeted(&self) -> bool {
        self.is_budgeted
    }
}

/// What a command answers, and the gets, looks and rows of scans that it takes.
fn counted(bench: &Bench, is_budgeted: bool, parts: &[&str]) -> (String, [usize; 3]) {
    let zero = || Cell::new(0);
    let (gets, looks, scanned) = (zero(), zero(), zero());
    let rows = CountedRows { rows: bench.rows.rows.clone(), is_budgeted, gets, looks, scanned };
    let argv = Argv::of(parts);
    let command = command::parse(&argv).unwrap();
    let context =
        ReadContext { now_ms: bench.context.now_ms, seed: Seed::Given(1), keys: 0, cursors: None };
    let answer = show(&read(&command, &rows, &context).unwrap());
    (answer, [rows.gets, rows.looks, rows.scanned].map(|it| it.get()))
}

#[test]
fn what_asks_about_a_value_takes_none() {
    let mut bench = Bench::new();
    bench.write(&["SET", "s", "long"]);
    bench.write(&["HSET", "h", "f", "longer"]);
    let one = [
        ("EXISTS s", "1"),
        ("TOUCH s", "1"),
        ("TYPE s", "string"),
        ("TTL s", "-1"),
        ("PEXPIRETIME s", "-1"),
        ("STRLEN s", "4"),
        ("HLEN h", "1"),
        ("EXISTS none", "0"),
    ];
    for (line, answer) in one {
        let parts: Vec<&str> = line.split(' ').collect();
        assert_eq!(counted(&bench, false, &parts), (answer.to_owned(), [0, 1, 0]), "{line}");
    }
    // The key, then the field.
    for (line, answer) in
        [("HEXISTS h f", "1"), ("HSTRLEN h f", "6"), ("HTTL h FIELDS 1 f", "[-1]")]
    {
        let parts: Vec<&str> = line.split(' ').collect();
        assert_eq!(counted(&bench, false, &parts), (answer.to_owned(), [0, 2, 0]), "{line}");
    }
    let (answer, _) = counted(&bench, false, &["STRLEN", "h"]);
    assert!(answer.starts_with("-WRONGTYPE"), "{answer}");
}

#[test]
fn a_key_that_is_named_again_is_not_looked_at_again_but_at_apply() {
    let mut bench = Bench::new();
    bench.write(&["SET", "s", "v"]);
    for field in ["a", "b", "c"] {
        bench.write(&["HSET", "h", field, "v"]);
        bench.write(&["HPEXPIRE", "h", "1000", "FIELDS", "1", field]);
    }
    bench.write(&["HPERSIST", "h", "FIELDS", "1", "c"]);
    bench.write(&["HPEXPIRE", "h", "9000", "FIELDS", "1", "c"]);
    bench.pass(2000);
    let one = counted(&bench, false, &["EXISTS", "h"]).1;
    assert!(one[2] > 0, "what has expired is looked for: {one:?}");
    let mut parts = vec!["EXISTS"];
    parts.extend(["h"; 50]);
    parts.extend(["none"; 50]);
    parts.extend(["s"; 50]);
    let (answer, [gets, looks, scanned]) = counted(&bench, false, &parts);
    assert_eq!((answer.as_str(), gets, looks, scanned), ("100", one[0], one[1] + 2, one[2]));
    let (answer, [_, looks, scanned]) = counted(&bench, true, &parts);
    assert_eq!((answer.as_str(), looks, scanned), ("100", 150, 50 * one[2]));
}
