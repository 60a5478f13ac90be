//! Names, numbers of arguments, positions of keys; what refusals say is tested where commands
//! run.

use super::*;

fn keys(parts: &[&str]) -> Vec<String> {
    let argv = Argv::of(parts);
    let command = parse(&argv).unwrap();
    command.keys().map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
}

#[test]
fn every_name_is_found_in_any_case() {
    for spec in table::SPECS {
        assert_eq!(table::find(spec.name.as_bytes()).unwrap().name, spec.name);
        let upper = spec.name.to_ascii_uppercase();
        assert_eq!(table::find(upper.as_bytes()).unwrap().name, spec.name);
    }
    for name in ["", "ge", "gett", "get\0", "a-name-longer-than-any", "object|help"] {
        assert!(table::find(name.as_bytes()).is_none(), "{name}");
    }
}

#[test]
fn keys_stand_where_the_table_says() {
    for (command, expected) in [
        (vec!["get", "a"], vec!["a"]),
        (vec!["MSET", "a", "1", "b", "2"], vec!["a", "b"]),
        (vec!["DEL", "a", "b", "a"], vec!["a", "b", "a"]),
        (vec!["RENAME", "a", "b"], vec!["a", "b"]),
        (vec!["COPY", "a", "b", "REPLACE"], vec!["a", "b"]),
        (vec!["HSETEX", "h", "FIELDS", "1", "f", "v"], vec!["h"]),
        (vec!["OBJECT", "encoding", "k"], vec!["k"]),
        (vec!["MEMORY", "USAGE", "k", "SAMPLES", "5"], vec!["k"]),
        (vec!["SCAN", "0"], vec![]),
        (vec!["FLUSHALL"], vec![]),
    ] {
        assert_eq!(keys(&command), expected, "{command:?}");
    }
}

#[test]
fn writes_are_told_from_reads() {
    for (command, is_write) in [
        (vec!["GET", "a"], false),
        (vec!["SET", "a", "1"], true),
        (vec!["GETEX", "a"], true),
        (vec!["TOUCH", "a"], false),
        (vec!["DBSIZE"], false),
        (vec!["FLUSHDB"], true),
    ] {
        let argv = Argv::of(&command);
        let command = parse(&argv).unwrap();
        assert_eq!(command.is_write(), is_write);
        assert_eq!(command.spec().access == spec::Access::Write, is_write);
    }
}

#[test]
fn the_cursor_of_a_scan_is_shown() {
    let argv = Argv::of(&["SCAN", "4503599627370497"]);
    assert_eq!(parse(&argv).unwrap().scan_cursor(), Some((1 << 52) + 1));
    assert_eq!(parse(&Argv::of(&["DBSIZE"])).unwrap().scan_cursor(), None);
}

#[test]
fn later_options_are_told_from_earlier_ones() {
    for (words, since) in [
        ("SET k v", 1),
        ("SET k IFEQ", 1),
        ("SET IFEQ v EX 1", 1),
        ("SET k v ifeq x", 4),
        ("SET k v IFEQ", 4),
        ("SET k v EX 0 IFDNE x", 4),
        ("GET k", 1),
        ("SCAN 0 COUNT 5", 1),
        ("SCAN 0 SPLIT 0 2", 4),
        ("BITOP AND a b", 2),
        ("PLIMSOLL.HRANGE h - +", 4),
        ("PLIMSOLL.HREMRANGE h - +", 4),
        ("PLIMSOLL.HCHECKSET h f NX DEL f", 4),
        ("DELEX k", 4),
        ("DIGEST k", 4),
    ] {
        let argv = Argv::of(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(lookup(&argv).unwrap().since_with(&argv), since, "{words}");
    }
}

#[test]
fn what_command_info_shows() {
    let spec = table::find(b"get").unwrap();
    assert_eq!(spec.flag_names().collect::<Vec<_>>(), ["readonly", "fast"]);
    assert_eq!(spec.category_names().collect::<Vec<_>>(), ["read", "string", "fast"]);
    let spec = table::find(b"flushall").unwrap();
    let categories: Vec<_> = spec.category_names().collect();
    assert_eq!(categories, ["keyspace", "write", "slow", "dangerous"]);
}

#[test]
fn whole_numbers_are_read_as_strictly_as_redis_does() {
    use args::parse_integer;
    for (text, expected) in [
        ("0", Some(0)),
        ("-1", Some(-1)),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", None),
        ("99999999999999999999", None),
        ("", None),
        ("-", None),
        ("-0", None),
        ("+1", None),
        ("01", None),
        (" 1", None),
        ("1x", None),
    ] {
        assert_eq!(parse_integer(text.as_bytes()), expected, "{text}");
    }
}
