//! Sorted searches over segments of many ranges give what a sort of all documents gives: where values rise, fall or are
//! everywhere, are equal, missing, or of deleted documents.

use std::cmp::Ordering;

use bytes::Bytes;
use plimsoll_base::Disk;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::NOW_MS;
use crate::mapping::Mapping;
use crate::partition::{Options, PartitionIndex, View};
use crate::search::{Cancelled, SearchRequest, query_phase};

const SEGMENT_DOCS: u64 = 1500;
const SEGMENTS: u64 = 3;

fn mixed(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

/// The values of a document; the segment in the middle holds the newest.
fn document(n: u64) -> Value {
    let age = if n / SEGMENT_DOCS == 1 { n + 10_000 } else { n };
    let mut document = json!({
        "rising": age * 10 + mixed(n) % 40,
        "falling": 1e6 - age as f64 / 3.0,
        "random": mixed(n) % 1_000_000,
        "step": age / 100,
        "some_high": u64::from(n % SEGMENT_DOCS == 900),
        "many": (0..mixed(n) % 4).map(|at| age + at * 3).collect::<Vec<_>>(),
        "class": mixed(n) % 3,
        "half": mixed(n) % 2,
        "word": format!("w{:05}", n * 7 % 2000),
    });
    if mixed(n).is_multiple_of(7) {
        document["some"] = json!(n);
    }
    document
}

/// Whether a document was deleted after its segment was written.
fn is_deleted(n: u64) -> bool {
    n % SEGMENT_DOCS > SEGMENT_DOCS - 20 || mixed(n).is_multiple_of(11)
}

fn index(dir: &TempDir) -> View {
    let mapping = json!({"properties": {
        "rising": {"type": "long"}, "falling": {"type": "double"}, "random": {"type": "long"}, "step": {"type": "long"},
        "some_high": {"type": "long"}, "many": {"type": "long"},
        "class": {"type": "integer"}, "half": {"type": "integer"}, "some": {"type": "long"},
        "word": {"type": "keyword"},
    }});
    let mapping = Mapping::parse(&mapping).unwrap();
    let disk = Disk::of_the_machine();
    let mut index = PartitionIndex::open(&disk, dir.path(), &mapping, Options::default()).unwrap();
    for n in 0..SEGMENTS * SEGMENT_DOCS {
        let source = Bytes::from(document(n).to_string());
        index.put(n.to_string().as_bytes(), &n.to_string(), &source, true).unwrap();
        if (n + 1) % SEGMENT_DOCS == 0 {
            index.refresh(n + 1).unwrap();
        }
    }
    for n in (0..SEGMENTS * SEGMENT_DOCS).filter(|n| is_deleted(*n)) {
        index.delete(n.to_string().as_bytes(), &n.to_string()).unwrap();
    }
    index.refresh(u64::from(u32::MAX)).unwrap()
}

/// What a document is sorted by, of several values.
fn value(document: &Value, field: &str, mode: &str) -> Value {
    let Value::Array(many) = &document[field] else { return document[field].clone() };
    let many = many.iter().map(|it| it.as_u64().unwrap());
    match mode {
        _ if many.len() == 0 => Value::Null,
        "sum" => json!(many.sum::<u64>()),
        "min" => json!(many.min()),
        _ => json!(many.max()),
    }
}

/// The order of two values; who lacks one comes last, or first.
fn by(descending: bool, missing_first: bool, a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) if missing_first => Ordering::Less,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) if missing_first => Ordering::Greater,
        (_, Value::Null) => Ordering::Less,
        (a, b) => {
            let order = match (a.as_str(), b.as_str()) {
                (Some(a), Some(b)) => a.cmp(b),
                _ => a.as_f64().unwrap().total_cmp(&b.as_f64().unwrap()),
            };
            if descending { order.reverse() } else { order }
        }
    }
}

#[test]
fn ranges_that_are_left_out_change_no_answer() {
    let dir = TempDir::new().unwrap();
    let view = index(&dir);
    assert_eq!(view.searcher().segment_readers().len() as u64, SEGMENTS, "addresses are numbers");
    let there: Vec<u64> = (0..SEGMENTS * SEGMENT_DOCS).filter(|n| !is_deleted(*n)).collect();
    let documents: Vec<Value> = (0..SEGMENTS * SEGMENT_DOCS).map(document).collect();
    let of = |n: u64| &documents[usize::try_from(n).unwrap()];
    let fields = [
        ("rising", "max"),
        ("falling", "min"),
        ("random", "min"),
        ("step", "max"),
        ("class", "max"),
        ("some", "min"),
        ("some_high", "max"),
        ("many", "sum"),
        ("many", "min"),
        ("many", "max"),
        ("word", "min"),
    ];
    let (mut seen, mut left_out) = (0, 0);
    for (case, (field, mode)) in fields.iter().cycle().take(11 * 48).enumerate() {
        let (descending, missing_first) = (case / 11 % 2 == 1, case / 22 % 2 == 1);
        let second = [None, Some("random"), Some("class")][case / 44 % 3];
        let size = [1, 10, 300][case / 7 % 3];
        let query =
            [json!({"match_all": {}}), json!({"term": {"half": 1}}), json!({"term": {"class": 2}})];
        let query = query[case / 5 % 3].clone();
        let total = [json!(10_000), json!(true), json!(100), json!(false)][case / 13 % 4].clone();
        let matches = |n: &u64| match case / 5 % 3 {
            0 => true,
            1 => of(*n)["half"] == 1,
            _ => of(*n)["class"] == 2,
        };
        let mut expected: Vec<u64> = there.iter().copied().filter(|n| matches(n)).collect();
        let count = expected.len() as u64;
        expected.sort_by(|a, b| {
            by(descending, missing_first, &value(of(*a), field, mode), &value(of(*b), field, mode))
                .then_with(|| match second {
                    Some(second) => by(true, false, &of(*a)[second], &of(*b)[second]),
                    None => Ordering::Equal,
                })
        });
        let order = if descending { "desc" } else { "asc" };
        let missing = if missing_first { "_first" } else { "_last" };
        let mut sort = vec![json!({*field: {"order": order, "missing": missing, "mode": mode}})];
        sort.extend(second.map(|second| json!({second: "desc"})));
        let body = json!({"query": query, "sort": sort, "size": size, "track_total_hits": total});
        let request = SearchRequest::parse(&body).unwrap();
        let found = query_phase(&view, &request, NOW_MS, &Cancelled::never()).unwrap();
        let hits: Vec<u64> = found
            .hits
            .iter()
            .map(|hit| {
                let (segment, doc) = hit.address;
                u64::from(segment) * SEGMENT_DOCS + u64::from(doc)
            })
            .collect();
        expected.truncate(size);
        assert_eq!(hits, expected, "{body}");
        match &total {
            Value::Bool(true) => {
                assert_eq!((found.total, found.total_is_exact), (count, true), "{body}")
            }
            Value::Bool(false) => {}
            limit => {
                let limit = limit.as_u64().unwrap();
                assert_eq!(found.total_is_exact, count <= limit, "{body}");
                let enough = if count <= limit { count } else { limit + 1 };
                assert!((enough..=count).contains(&found.total), "{body}: {}", found.total);
            }
        }
        seen += 1;
        left_out += u32::from(found.total < count);
    }
    assert!(seen == 11 * 48 && left_out > 40, "{left_out} of {seen} left anything out");
}
