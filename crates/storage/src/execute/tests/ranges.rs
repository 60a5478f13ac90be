//! Ranges of a hash's fields: each field that is meant comes once and in order, a page after another,
//! whatever the ends, the filter and the limits are.

use proptest::prelude::*;

use super::{Bench, check, show};
use crate::Reply;
use crate::execute::range::{DELETED_ROWS_MAX, LOOKED_ROWS_MAX};

#[test]
fn a_range_shows_fields_in_the_order_of_their_bytes() {
    check(
        r#"
        HSET h b 2 a 1 d 4 c 3 '' 0 => 5
        PLIMSOLL.HRANGE h - + => [nil ["" "0" "a" "1" "b" "2" "c" "3" "d" "4"]]
        PLIMSOLL.HRANGE h a c => [nil ["a" "1" "b" "2" "c" "3"]]
        PLIMSOLL.HRANGE h a c NOVALUES => [nil ["a" "b" "c"]]
        PLIMSOLL.HRANGE h a c NOVALUES EXCLFROM => [nil ["b" "c"]]
        PLIMSOLL.HRANGE h a c novalues exclto => [nil ["a" "b"]]
        PLIMSOLL.HRANGE h a c NOVALUES EXCLFROM EXCLTO => [nil ["b"]]
        PLIMSOLL.HRANGE h aa bb NOVALUES => [nil ["b"]]
        PLIMSOLL.HRANGE h '' a NOVALUES EXCLFROM => [nil ["a"]]
        PLIMSOLL.HRANGE h - '' NOVALUES => [nil [""]]
        PLIMSOLL.HRANGE h b b NOVALUES => [nil ["b"]]
        PLIMSOLL.HRANGE h b b EXCLFROM => [nil []]
        PLIMSOLL.HRANGE h b b EXCLTO => [nil []]
        PLIMSOLL.HRANGE h c a => [nil []]
        PLIMSOLL.HRANGE h + - => [nil []]
        PLIMSOLL.HRANGE h + + => [nil []]
        PLIMSOLL.HRANGE h - - => [nil []]
        PLIMSOLL.HRANGE none - + => [nil []]
        "#,
    );
}

#[test]
fn a_reversed_range_begins_at_its_upper_end() {
    check(
        r#"
        HSET h a 1 b 2 c 3 d 4 => 4
        PLIMSOLL.HRANGE h + - REV => [nil ["d" "4" "c" "3" "b" "2" "a" "1"]]
        PLIMSOLL.HRANGE h c a REV NOVALUES EXCLFROM => [nil ["b" "a"]]
        PLIMSOLL.HRANGE h c a REV NOVALUES EXCLTO => [nil ["c" "b"]]
        PLIMSOLL.HRANGE h + - REV NOVALUES COUNT 3 => ["a" ["d" "c" "b"]]
        PLIMSOLL.HRANGE h a - REV NOVALUES COUNT 3 => [nil ["a"]]
        PLIMSOLL.HRANGE h a c REV => [nil []]
        PLIMSOLL.HRANGE h - + REV => [nil []]
        "#,
    );
}

#[test]
fn an_answer_says_where_to_go_on() {
    check(
        r#"
        HSET h a 11 b 22 c 33 - 0 + 0 [- 0 => 6
        PLIMSOLL.HRANGE h - + COUNT 1 NOVALUES => ["[-" ["+"]]
        PLIMSOLL.HRANGE h [- + COUNT 1 NOVALUES => ["[[-" ["-"]]
        PLIMSOLL.HRANGE h [[- + COUNT 1 NOVALUES => ["a" ["[-"]]
        PLIMSOLL.HRANGE h a + COUNT 2 NOVALUES => ["c" ["a" "b"]]
        PLIMSOLL.HRANGE h a + COUNT 3 NOVALUES => [nil ["a" "b" "c"]]
        PLIMSOLL.HRANGE h a b COUNT 2 NOVALUES => [nil ["a" "b"]]
        PLIMSOLL.HRANGE h a + BYTES 1 => ["b" ["a" "11"]]
        PLIMSOLL.HRANGE h a + BYTES 5 => ["b" ["a" "11"]]
        PLIMSOLL.HRANGE h a + BYTES 6 => ["c" ["a" "11" "b" "22"]]
        PLIMSOLL.HRANGE h a + BYTES 2 NOVALUES => ["c" ["a" "b"]]
        PLIMSOLL.HRANGE h a + BYTES 6 COUNT 1 => ["b" ["a" "11"]]
        "#,
    );
}

#[test]
fn a_filter_chooses_among_a_range() {
    check(
        r#"
        HSET h aa 1 ab 2 b 3 bab 4 ca 5 => 5
        PLIMSOLL.HRANGE h - + NOVALUES PREFIX a => [nil ["aa" "ab"]]
        PLIMSOLL.HRANGE h ab + NOVALUES PREFIX a => [nil ["ab"]]
        PLIMSOLL.HRANGE h - aa NOVALUES EXCLTO PREFIX a => [nil []]
        PLIMSOLL.HRANGE h b + NOVALUES PREFIX a => [nil []]
        PLIMSOLL.HRANGE h + - REV NOVALUES PREFIX a => [nil ["ab" "aa"]]
        PLIMSOLL.HRANGE h - + NOVALUES PREFIX '' COUNT 1 => ["ab" ["aa"]]
        PLIMSOLL.HRANGE h - + NOVALUES SUFFIX ab => [nil ["ab" "bab"]]
        PLIMSOLL.HRANGE h - + NOVALUES MATCH ?a* => [nil ["aa" "bab" "ca"]]
        PLIMSOLL.HRANGE h - + NOVALUES MATCH ?a* COUNT 1 => ["bab" ["aa"]]
        PLIMSOLL.HRANGE h - + NOVALUES MATCH *a COUNT 2 => [nil ["aa" "ca"]]
        "#,
    );
}

#[test]
fn what_expired_is_in_no_range() {
    check(
        r#"
        HSET h a 1 b 2 c 3 => 3
        HPEXPIRE h 10 FIELDS 1 b => [1]
        PLIMSOLL.HRANGE h a + NOVALUES COUNT 1 => ["b" ["a"]]
        +10
        PLIMSOLL.HRANGE h - + => [nil ["a" "1" "c" "3"]]
        PLIMSOLL.HRANGE h a + NOVALUES COUNT 1 => ["c" ["a"]]
        HPEXPIRE h 10 FIELDS 2 a c => [1 1]
        +10
        PLIMSOLL.HRANGE h - + => [nil []]
        "#,
    );
}

#[test]
fn ranges_are_refused_in_the_words_of_redis() {
    check(
        r#"
        SET s v => OK
        PLIMSOLL.HRANGE s - + => -WRONGTYPE Operation against a key holding the wrong kind of value
        PLIMSOLL.HRANGE h - => -ERR wrong number of arguments for 'plimsoll.hrange' command
        PLIMSOLL.HRANGE h - + COUNT => -ERR syntax error
        PLIMSOLL.HRANGE h - + COUNT 0 => -ERR syntax error
        PLIMSOLL.HRANGE h - + COUNT x => -ERR value is not an integer or out of range
        PLIMSOLL.HRANGE h - + BYTES -1 => -ERR syntax error
        PLIMSOLL.HRANGE h - + PREFIX => -ERR syntax error
        PLIMSOLL.HRANGE h - + PREFIX a SUFFIX b => -ERR syntax error
        PLIMSOLL.HRANGE h - + MATCH a MATCH b => -ERR syntax error
        PLIMSOLL.HRANGE h - + LIMIT 0 1 => -ERR syntax error
        "#,
    );
}

#[test]
fn a_range_is_taken_away() {
    check(
        r#"
        HSET h a 1 b 2 c 3 d 4 e 5 - 6 => 6
        HPEXPIRE h 100 FIELDS 1 b => [1]
        PLIMSOLL.HREMRANGE h b d EXCLTO => [2 nil]
        HKEYS h => ["-" "a" "d" "e"]
        PLIMSOLL.HREMRANGE h - + COUNT 1 => [1 "a"]
        PLIMSOLL.HREMRANGE h a a EXCLFROM => [0 nil]
        PLIMSOLL.HREMRANGE h z a => [0 nil]
        PLIMSOLL.HREMRANGE h a + SUFFIX e => [1 nil]
        PLIMSOLL.HREMRANGE h - + PREFIX d EXCLFROM => [1 nil]
        PLIMSOLL.HREMRANGE h - + MATCH [ab] => [1 nil]
        EXISTS h => 0
        PLIMSOLL.HREMRANGE h - + => [0 nil]
        rows => 0
        SET s v => OK
        PLIMSOLL.HREMRANGE s - + => -WRONGTYPE Operation against a key holding the wrong kind of value
        PLIMSOLL.HREMRANGE h - + REV => -ERR syntax error
        PLIMSOLL.HREMRANGE h - + BYTES 5 => -ERR syntax error
        PLIMSOLL.HREMRANGE h - + NOVALUES => -ERR syntax error
        PLIMSOLL.HREMRANGE h - + COUNT 0 => -ERR syntax error
        PLIMSOLL.HREMRANGE h - => -ERR wrong number of arguments for 'plimsoll.hremrange' command
        "#,
    );
}

#[test]
fn what_expired_is_not_counted_as_taken_away() {
    check(
        r#"
        HSET h a 1 b 2 c 3 => 3
        HPEXPIRE h 10 FIELDS 2 a b => [1 1]
        +10
        PLIMSOLL.HREMRANGE h - b => [0 nil]
        HLEN h => 1
        PLIMSOLL.HREMRANGE h - + => [1 nil]
        rows => 0
        "#,
    );
}

#[test]
fn a_large_range_is_taken_away_in_parts() {
    let mut bench = Bench::new();
    let names: Vec<String> = (0..DELETED_ROWS_MAX + 10).map(|n| format!("f{n:06}")).collect();
    let mut parts = vec!["HSET", "h"];
    parts.extend(names.iter().flat_map(|name| [name.as_str(), "v"]));
    bench.write(&parts);
    let next = &names[DELETED_ROWS_MAX];
    let all = ["PLIMSOLL.HREMRANGE", "h", "-", "+", "COUNT", "99999"];
    assert_eq!(show(&bench.write(&all)), format!("[{DELETED_ROWS_MAX} \"{next}\"]"));
    assert_eq!(show(&bench.write(&["HLEN", "h"])), "10");
    assert_eq!(show(&bench.write(&all)), "[10 nil]");
    assert_eq!(bench.row_count(), 0);
}

/// The place to go on and the names of a page without values.
fn page(reply: Reply) -> (Option<String>, Vec<String>) {
    let Reply::Array(parts) = reply else { panic!("no page: {}", show(&reply)) };
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{}", show(other)),
    };
    let [next, Reply::Array(items)] = parts.as_slice() else { panic!("a page has two parts") };
    let next = (*next != Reply::Nil).then(|| text(next));
    (next, items.iter().map(text).collect())
}

#[test]
fn a_walk_that_finds_nothing_ends_too() {
    let mut bench = Bench::new();
    let names: Vec<String> = (0..LOOKED_ROWS_MAX + 10).map(|n| format!("f{n:06}")).collect();
    let mut parts = vec!["HSET", "h"];
    parts.extend(names.iter().flat_map(|name| [name.as_str(), "v"]));
    bench.write(&parts);
    let last = names.last().unwrap();
    let range = |from: &str| {
        page(bench.read(&["PLIMSOLL.HRANGE", "h", from, "+", "NOVALUES", "MATCH", last]))
    };
    let (next, items) = range("-");
    assert_eq!((next.as_deref(), items.len()), (Some(names[LOOKED_ROWS_MAX].as_str()), 0));
    assert_eq!(range(&next.unwrap()), (None, vec![last.clone()]));
    let back = ["PLIMSOLL.HRANGE", "h", "+", "-", "REV", "NOVALUES", "SUFFIX", "f000000"];
    assert_eq!(page(bench.read(&back)), (Some(names[9].clone()), Vec::new()));
}

#[test]
fn a_pattern_that_takes_long_ends_a_walk() {
    let mut bench = Bench::new();
    for n in 0..10 {
        bench.write(&["HSET", "h", &format!("{n}{}", "a".repeat(20_000)), "v"]);
    }
    let pattern = format!("*{}b", "a".repeat(10_000));
    let words = ["PLIMSOLL.HRANGE", "h", "-", "+", "NOVALUES", "MATCH", &pattern];
    let (next, items) = page(bench.read(&words));
    assert!(next.is_some_and(|next| next.starts_with('1')) && items.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Pages of any size, in both directions and between any ends, are the sorted map's range.
    #[test]
    fn pages_are_a_range_of_a_sorted_map(
        fields in prop::collection::btree_map("[-+\\[ab]{0,3}", any::<bool>(), 1..20),
        low in prop::option::of("[-+\\[ab]{0,3}"),
        high in prop::option::of("[-+\\[ab]{0,3}"),
        excluded in any::<(bool, bool)>(),
        filter in prop::option::of((prop::sample::select(vec!["PREFIX", "SUFFIX"]), "[-ab]{0,2}")),
        is_reversed: bool,
        count in 1usize..5,
    ) {
        let mut bench = Bench::new();
        for (field, is_expiring) in &fields {
            bench.write(&["HSET", "h", field, "v"]);
            if *is_expiring {
                bench.write(&["HPEXPIRE", "h", "5", "FIELDS", "1", field]);
            }
        }
        bench.pass(5);
        let name = |field: &String| {
            let name = crate::command::range::End::name(field.as_bytes());
            String::from_utf8(name).unwrap()
        };
        let is_meant = |field: &&String| {
            low.as_ref().is_none_or(|low| *field > low || (*field == low && !excluded.0))
                && high.as_ref().is_none_or(|high| *field < high || (*field == high && !excluded.1))
                && filter.as_ref().is_none_or(|(kind, part)| match *kind {
                    "PREFIX" => field.starts_with(part),
                    _ => field.ends_with(part),
                })
        };
        let live = fields.iter().filter(|(_, is_expiring)| !**is_expiring);
        let mut live: Vec<String> = live.map(|(field, _)| field.clone()).collect();
        let mut expected: Vec<String> = live.iter().filter(is_meant).cloned().collect();
        let (mut from, mut to) =
            (low.as_ref().map_or("-".into(), name), high.as_ref().map_or("+".into(), name));
        let (mut is_from_excluded, mut is_to_excluded) = excluded;
        if is_reversed {
            expected.reverse();
            std::mem::swap(&mut from, &mut to);
            std::mem::swap(&mut is_from_excluded, &mut is_to_excluded);
        }
        let count = count.to_string();
        let mut seen = Vec::new();
        loop {
            let mut parts = vec!["PLIMSOLL.HRANGE", "h", &from, &to, "NOVALUES", "COUNT", &count];
            parts.extend(is_reversed.then_some("REV"));
            parts.extend(is_from_excluded.then_some("EXCLFROM"));
            parts.extend(is_to_excluded.then_some("EXCLTO"));
            if let Some((kind, part)) = &filter {
                parts.extend([kind, part.as_str()]);
            }
            let (next, items) = page(bench.read(&parts));
            seen.extend(items);
            let Some(next) = next else { break };
            prop_assert!(seen.len() < expected.len(), "there is said to be more");
            (from, is_from_excluded) = (next, false);
        }
        prop_assert_eq!(&seen, &expected);
        if !is_reversed {
            let (mut removed, mut from) = (0, low.as_ref().map_or("-".into(), name));
            let mut is_from_excluded = excluded.0;
            loop {
                let mut parts = vec!["PLIMSOLL.HREMRANGE", "h", &from, &to, "COUNT", &count];
                parts.extend(is_from_excluded.then_some("EXCLFROM"));
                parts.extend(is_to_excluded.then_some("EXCLTO"));
                if let Some((kind, part)) = &filter {
                    parts.extend([kind, part.as_str()]);
                }
                let Reply::Array(reply) = bench.write(&parts) else { panic!("no answer") };
                let [Reply::Integer(some), next] = reply.as_slice() else { panic!("{reply:?}") };
                removed += some;
                let Reply::Bulk(next) = next else { break };
                prop_assert!(*some > 0, "each goes on");
                (from, is_from_excluded) = (String::from_utf8(next.to_vec()).unwrap(), false);
            }
            prop_assert_eq!(usize::try_from(removed).unwrap(), expected.len());
            live.retain(|field| !expected.contains(field));
            let (_, left) = page(bench.read(&["PLIMSOLL.HRANGE", "h", "-", "+", "NOVALUES"]));
            prop_assert_eq!(left, live);
        }
    }
}
