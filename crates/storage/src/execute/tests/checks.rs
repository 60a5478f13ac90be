//! Checks before a change: of a field before others are set or deleted, of a string before it is.

use super::check;

#[test]
fn fields_are_set_where_another_is_what_it_must_be() {
    check(
        r#"
        PLIMSOLL.HCHECKSET h v XX SET v 1 => 0
        EXISTS h => 0
        PLIMSOLL.HCHECKSET h v NX SET v 1 a x => 1
        PLIMSOLL.HCHECKSET h v NX SET v 2 => 0
        HGETALL h => {"a": "x", "v": "1"}
        PLIMSOLL.HCHECKSET h v EQ 1 GET SET v 2 => [1 "1"]
        PLIMSOLL.HCHECKSET h v eq 1 get set v 3 => [0 "2"]
        PLIMSOLL.HCHECKSET h none XX GET SET v 3 => [0 nil]
        PLIMSOLL.HCHECKSET h none NE x GET SET b y => [1 nil]
        PLIMSOLL.HCHECKSET h v INT>= 2 SET v 10 => 1
        PLIMSOLL.HCHECKSET h v BYTES< 2 SET v 11 => 1
        PLIMSOLL.HCHECKSET h v INT> 11 SET v 12 => 0
        PLIMSOLL.HCHECKSET h v CONTAINS 1 SET e '' => 1
        PLIMSOLL.HCHECKSET h e EMPTY SET GET DEL => 1
        HGET h GET => "DEL"
        PLIMSOLL.HCHECKSET h e NOTEMPTY DEL v => 0
        PLIMSOLL.HCHECKSET h e NXEMPTY GET DEL v a none GET => [1 ""]
        HGETALL h => {"b": "y", "e": ""}
        PLIMSOLL.HCHECKSET h b ANY DEL b e => 1
        EXISTS h => 0
        PLIMSOLL.HCHECKSET h b NX DEL b => 1
        rows => 0
        "#,
    );
}

#[test]
fn a_field_that_expired_is_checked_as_absent() {
    check(
        r#"
        HSET h lock me a 1 => 2
        HPEXPIRE h 10 FIELDS 2 lock a => [1 1]
        PLIMSOLL.HCHECKSET h lock NX SET lock you => 0
        +10
        PLIMSOLL.HCHECKSET h lock NX GET SET lock you => [1 nil]
        HGETALL h => {"lock": "you"}
        HPTTL h FIELDS 1 lock => [-1]
        HPEXPIRE h 10 FIELDS 1 lock => [1]
        PLIMSOLL.HCHECKSET h lock EQ you SET b 1 => 1
        HPTTL h FIELDS 1 lock => [10]
        "#,
    );
}

#[test]
fn checks_of_fields_are_refused_by_name() {
    check(
        r#"
        SET s v => OK
        HSET h a x => 1
        PLIMSOLL.HCHECKSET s a NX SET a 1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        PLIMSOLL.HCHECKSET h a LIKE SET a 1 => -ERR unknown check 'LIKE'
        PLIMSOLL.HCHECKSET h a INT< x SET a 1 => -ERR value is not an integer or out of range
        PLIMSOLL.HCHECKSET h a INT< 1 SET a 1 => -ERR hash value is not an integer
        PLIMSOLL.HCHECKSET h none INT< 1 SET a 1 => 0
        PLIMSOLL.HCHECKSET h a NX PUT a 1 => -ERR syntax error
        PLIMSOLL.HCHECKSET h a NX GET GET a => -ERR syntax error
        PLIMSOLL.HCHECKSET h a EQ SET a 1 => -ERR syntax error
        PLIMSOLL.HCHECKSET h a NX SET a => -ERR wrong number of arguments for 'plimsoll.hcheckset' command
        PLIMSOLL.HCHECKSET h a NX GET SET => -ERR wrong number of arguments for 'plimsoll.hcheckset' command
        PLIMSOLL.HCHECKSET h a EQ x DEL => -ERR wrong number of arguments for 'plimsoll.hcheckset' command
        PLIMSOLL.HCHECKSET h a NX DEL => -ERR wrong number of arguments for 'plimsoll.hcheckset' command
        HGETALL h => {"a": "x"}
        "#,
    );
}

#[test]
fn strings_are_set_where_they_are_what_they_must_be() {
    check(
        r#"
        SET k v IFEQ x => nil
        SET k v IFDEQ x => nil
        EXISTS k => 0
        SET k hello IFNE x => OK
        SET j hello IFDNE x => OK
        SET k world IFEQ other => nil
        SET k world ifeq hello EX 10 => OK
        TTL k => 10
        SET k hello IFNE world GET => "world"
        SET k hello IFNE other GET KEEPTTL => "world"
        TTL k => 10
        SET k x IFDEQ 0000000000000000 => nil
        SET k x IFDNE 9555e8555c62dcfd => nil
        SET k x IFDEQ 9555E8555C62DCFD GET => "hello"
        TTL k => -1
        SET k y IFDNE zzzzzzzzzzzzzzzz => OK
        SET k z IFDEQ 123 => -ERR must be exactly 16 hexadecimal characters
        SET k z NX IFEQ y => -ERR syntax error
        SET k z IFEQ y XX => -ERR syntax error
        SET k z IFEQ y IFNE x => -ERR syntax error
        SET k z IFEQ => -ERR syntax error
        GET k => "y"
        HSET h f v => 1
        SET h z IFNE y => -WRONGTYPE Operation against a key holding the wrong kind of value
        SET n v IFEQ x GET => nil
        EXISTS n => 0
        SET k IFEQ => OK
        GET k => "IFEQ"
        "#,
    );
}

#[test]
fn digests_are_those_of_redis() {
    check(
        r#"
        SET k hello => OK
        DIGEST k => "9555e8555c62dcfd"
        SET k '' => OK
        DIGEST k => "2d06800538d394c2"
        SET k v8 => OK
        DIGEST k => "0cc76dbb41381419"
        DIGEST none => nil
        HSET h f v => 1
        DIGEST h => -WRONGTYPE Operation against a key holding the wrong kind of value
        DIGEST k k => -ERR wrong number of arguments for 'digest' command
        "#,
    );
}

#[test]
fn strings_are_deleted_where_they_are_what_they_must_be() {
    check(
        r#"
        DELEX k => 0
        DELEX k IFEQ x => 0
        DELEX k FOO x => 0
        DELEX k IFDEQ x => 0
        SET k hello => OK
        DELEX k IFEQ other => 0
        DELEX k IFNE hello => 0
        DELEX k IFDNE 9555e8555c62dcfd => 0
        DELEX k IFDEQ 123 => -ERR must be exactly 16 hexadecimal characters
        DELEX k FOO x => -ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE
        DELEX k IFEQ => -ERR wrong number of arguments for 'delex' command
        DELEX k IFEQ hello x => -ERR wrong number of arguments for 'delex' command
        DELEX k ifdeq 9555E8555C62DCFD => 1
        EXISTS k => 0
        SET k hello => OK
        DELEX k IFEQ hello => 1
        HSET h f v => 1
        DELEX h IFEQ x => -ERR Key should be of string type if conditions are specified
        DELEX h => 1
        rows => 0
        "#,
    );
}
