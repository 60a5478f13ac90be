//! Scans show everything once, however large the hashes between.

use std::collections::BTreeSet;

use super::{Bench, show};
use crate::Reply;
use crate::command::read::Split;

/// The cursor and the items of a page.
fn page(reply: Reply) -> (String, Vec<String>) {
    let Reply::Array(parts) = reply else { panic!("a page is a list, not {}", show(&reply)) };
    let [Reply::Bulk(cursor), Reply::Array(items)] = parts.as_slice() else {
        panic!("a page has two parts");
    };
    let cursor = String::from_utf8(cursor.to_vec()).unwrap();
    (cursor, items.iter().map(|item| show(item).trim_matches('"').into()).collect())
}

#[test]
fn a_scan_shows_every_key_once() {
    let mut bench = Bench::new();
    let mut expected = BTreeSet::new();
    for n in 0..300 {
        let key = format!("key:{n}");
        // Some hashes are large enough to be leapt over.
        let fields = if n % 50 == 0 { 200 } else { 1 };
        for field in 0..fields {
            bench.write(&["HSET", &key, &format!("f{field}"), "v"]);
        }
        expected.insert(key);
    }
    bench.write(&["SET", "gone", "v", "PX", "1"]);
    bench.pass(1);
    let (mut cursor, mut seen, mut pages) = ("0".to_string(), Vec::new(), 0);
    loop {
        let (next, items) = page(bench.read(&["SCAN", &cursor, "COUNT", "7"]));
        assert!(next == "0" || items.len() >= 7);
        seen.extend(items);
        pages += 1;
        if next == "0" {
            break;
        }
        assert!(next.parse::<u64>().unwrap() < 1 << 52);
        cursor = next;
    }
    assert!(pages > 30, "{pages}");
    assert_eq!(seen.len(), expected.len());
    assert_eq!(seen.iter().cloned().collect::<BTreeSet<_>>(), expected);
    let (_, all) = page(bench.read(&["SCAN", "0", "COUNT", "1000", "MATCH", "key:1?"]));
    assert_eq!(all.len(), 10);
    assert_eq!(show(&bench.read(&["SCAN", "0", "COUNT", "1000", "TYPE", "string"])), "[\"0\" []]");
    let Reply::Array(keys) = bench.read(&["KEYS", "key:*"]) else { panic!() };
    assert_eq!(keys.len(), 300);
    assert!(matches!(bench.read(&["RANDOMKEY"]), Reply::Bulk(_)));
}

#[test]
fn splits_of_a_scan_are_all_keys_together_and_about_as_many_each() {
    let mut bench = Bench::new();
    for n in 0..1000 {
        bench.write(&["SET", &format!("key:{n}"), "v"]);
    }
    for count in [1, 2, 3, 7] {
        let mut seen = Vec::new();
        for at in 0..count {
            let (at, of) = (at.to_string(), count.to_string());
            let (mut cursor, before) = ("0".to_string(), seen.len());
            loop {
                let words = ["SCAN", &cursor, "SPLIT", &at, &of, "COUNT", "30"];
                let (next, items) = page(bench.read(&words));
                seen.extend(items);
                cursor = next;
                if cursor == "0" {
                    break;
                }
            }
            let share = (seen.len() - before) * count / 10;
            assert!((75..=125).contains(&share), "{at} of {count}: {share} %");
        }
        assert_eq!(seen.len(), 1000);
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 1000);
    }
    // A cursor beyond the part has come to its end.
    let beyond = ((1u64 << 52) - 1).to_string();
    assert_eq!(show(&bench.read(&["SCAN", &beyond, "SPLIT", "0", "2"])), "[\"0\" []]");
    let most = Split::COUNT_MAX.to_string();
    let last = (Split::COUNT_MAX - 1).to_string();
    assert!(matches!(bench.read(&["SCAN", "0", "SPLIT", &last, &most]), Reply::Array(_)));
}

#[test]
fn splits_that_are_none_are_refused() {
    super::check(
        r#"
        SCAN 0 SPLIT 0 1 => ["0" []]
        SCAN 0 SPLIT 1 1 => -ERR value is out of range
        SCAN 0 SPLIT 0 0 => -ERR value is out of range
        SCAN 0 SPLIT -1 2 => -ERR value is out of range
        SCAN 0 SPLIT 0 65537 => -ERR value is out of range
        SCAN 0 SPLIT x 2 => -ERR value is not an integer or out of range
        SCAN 0 SPLIT 0 => -ERR syntax error
        HSCAN h 0 SPLIT 0 1 => -ERR syntax error
        "#,
    );
}

#[test]
fn a_small_hash_comes_whole_and_a_large_one_in_pages() {
    let mut bench = Bench::new();
    for n in 0..512 {
        bench.write(&["HSET", "h", &format!("f{n:04}"), "v"]);
    }
    let (cursor, items) = page(bench.read(&["HSCAN", "h", "0", "COUNT", "1"]));
    assert_eq!((cursor.as_str(), items.len()), ("0", 1024));

    bench.write(&["HSET", "h", "g", "v"]);
    let (mut cursor, mut seen) = ("0".to_string(), Vec::new());
    loop {
        let (next, items) = page(bench.read(&["HSCAN", "h", &cursor, "COUNT", "100"]));
        seen.extend(items.chunks(2).map(|pair| pair[0].clone()));
        if next == "0" {
            break;
        }
        assert_eq!(items.len(), 200);
        // Asked again, a cursor answers the same.
        assert_eq!(page(bench.read(&["HSCAN", "h", &cursor, "COUNT", "100"])).1, items);
        cursor = next;
    }
    assert_eq!(seen.len(), 513);
    assert!(seen.is_sorted());

    // A cursor belongs to its hash, and ends with it.
    bench.write(&["HSET", "other", "f", "v"]);
    let (next, items) = page(bench.read(&["HSCAN", "other", &cursor]));
    assert_eq!((next.as_str(), items.len()), ("0", 2), "an unknown cursor begins anew");
    bench.write(&["DEL", "h"]);
    bench.write(&["HSET", "h", "z", "v"]);
    assert_eq!(show(&bench.read(&["HSCAN", "h", &cursor])), "[\"0\" []]");
    // In a transaction there are no pages.
    for n in 0..600 {
        bench.write(&["HSET", "h", &format!("f{n}"), "v"]);
    }
    assert_eq!(page(bench.write(&["HSCAN", "h", "0"])).1.len(), 1202);
}

#[test]
fn a_cursor_of_a_hash_is_good_at_every_copy() {
    let mut bench = Bench::new();
    for n in 0..1500 {
        bench.write(&["HSET", "h", &format!("field:with:a:long:prefix:{n:05}"), "v"]);
    }
    let (mut cursor, mut seen, mut pages) = ("0".to_string(), Vec::new(), 0);
    loop {
        // Each page is read by a node that knows nothing of the page before.
        bench.cursors = super::ScanCursors::default();
        let (next, items) = page(bench.read(&["HSCAN", "h", &cursor, "COUNT", "100"]));
        seen.extend(items.chunks(2).map(|pair| pair[0].clone()));
        pages += 1;
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!((pages, seen.len()), (15, 1500), "each once, where nothing changes");
    // The field that a scan is to go on from is gone: it begins anew, and misses nothing.
    let (cursor, _) = page(bench.read(&["HSCAN", "h", "0", "COUNT", "700"]));
    bench.write(&["HDEL", "h", "field:with:a:long:prefix:00700"]);
    bench.cursors = super::ScanCursors::default();
    let (_, items) = page(bench.read(&["HSCAN", "h", &cursor, "COUNT", "1500"]));
    assert_eq!(items.len(), 2 * 1499);
}

#[test]
fn fields_are_drawn_without_repeats_unless_asked() {
    let mut bench = Bench::new();
    for n in 0..20 {
        bench.write(&["HSET", "h", &format!("f{n}"), &format!("v{n}")]);
    }
    let list = |reply: Reply| match reply {
        Reply::Array(items) => items.iter().map(show).collect::<Vec<_>>(),
        other => panic!("{}", show(&other)),
    };
    let drawn = list(bench.read(&["HRANDFIELD", "h", "15"]));
    assert_eq!((drawn.len(), drawn.iter().collect::<BTreeSet<_>>().len()), (15, 15));
    assert_eq!(list(bench.read(&["HRANDFIELD", "h", "100"])).len(), 20);
    assert_eq!(list(bench.read(&["HRANDFIELD", "h", "-100"])).len(), 100);
    let pairs = list(bench.read(&["HRANDFIELD", "h", "3", "WITHVALUES"]));
    assert_eq!(pairs.len(), 6);
    assert!(pairs.chunks(2).all(|pair| pair[0].replace('f', "v") == pair[1]));
    assert_eq!(list(bench.read(&["HRANDFIELD", "none", "-5"])).len(), 0);
}
