//! Which terms get buckets, how far their counts can be trusted, and what pipelines make of them.

use serde_json::{Value, json};

use super::harness::{Doc, partition, run};

const JANUARY: i64 = 1_704_067_200_000;
const DAY_MS: i64 = 86_400_000;

/// Terms `k0`, `k1`, … of which each has one document more than the next.
fn stairs(terms: usize) -> Vec<Doc> {
    (0..terms)
        .flat_map(|term| vec![format!("k{term}"); terms - term])
        .map(|k| Doc { k: vec![k], n: vec![1], ..Doc::default() })
        .collect()
}

fn days() -> Vec<Doc> {
    let day = |day: i64| Doc {
        d: vec![JANUARY + day * DAY_MS],
        n: vec![day],
        x: vec![day as f64 / 2.0],
        b: vec![day % 2 == 0],
        ip: vec![format!("10.0.0.{day}")],
        ..Doc::default()
    };
    (0..6).map(day).collect()
}

/// The keys of an aggregation's buckets, as text where they have one.
fn keys(answer: &Value) -> Vec<Value> {
    let buckets = answer["buckets"].as_array().unwrap().iter();
    buckets.map(|bucket| bucket.get("key_as_string").unwrap_or(&bucket["key"]).clone()).collect()
}

fn error(body: &Value) -> (String, String) {
    let error = run(&[partition(&days(), 10)], body).unwrap_err();
    assert_eq!(error.class, crate::ErrorClass::Invalid, "{body}: {}", error.reason);
    (error.kind.to_string(), error.reason)
}

#[test]
fn counts_of_one_partition_are_exact() {
    let docs = stairs(8);
    let two = json!([{ "field": "k" }, { "field": "n" }]);
    let body = json!({
        "t": { "terms": { "field": "k", "size": 2, "shard_size": 3, "show_term_doc_count_error": true } },
        "m": { "multi_terms": { "terms": two, "size": 2, "shard_size": 3, "show_term_doc_count_error": true } },
        "below": { "terms": { "field": "n" }, "aggs": { "t": { "terms": { "field": "k", "size": 2, "shard_size": 3 } } } },
        "rising": { "terms": { "field": "k", "size": 2, "shard_size": 3, "order": { "_count": "asc" } } },
    });
    let bounds = |answer: &Value| {
        let bound = |value: &Value| value["doc_count_error_upper_bound"].as_i64().unwrap();
        let below = &answer["below"]["buckets"][0]["t"];
        let (t, m) = (&answer["t"], &answer["m"]);
        [bound(t), bound(&t["buckets"][0]), bound(m), bound(&m["buckets"][0]), bound(below)]
    };
    let found = run(&[partition(&docs, 5)], &body).unwrap();
    assert_eq!(bounds(&found), [0; 5]);
    assert_eq!(found["t"]["sum_other_doc_count"], 36 - 8 - 7);
    // What has the fewest documents may be anywhere, so that nobody knows how wrong it is.
    assert_eq!(found["rising"]["doc_count_error_upper_bound"], -1);
    // The third term, the last one that is sent, has 6 documents in each of two partitions.
    let found = run(&[partition(&docs, 5), partition(&docs, 100)], &body).unwrap();
    assert_eq!(bounds(&found), [12, 0, 12, 0, 12]);
    let whole = json!({ "t": { "terms": { "field": "k", "size": 2, "shard_size": 8 } } });
    let found = run(&[partition(&docs, 5), partition(&docs, 100)], &whole).unwrap();
    assert_eq!(found["t"]["doc_count_error_upper_bound"], 0);
}

#[test]
fn lists_are_read_as_the_field_reads_values() {
    let partitions = [partition(&days()[..4], 2), partition(&days()[4..], 10)];
    let terms = |options: Value| {
        let found = run(&partitions, &json!({ "t": { "terms": options } })).unwrap();
        keys(&found["t"])
    };
    let days = |days: &[i64]| -> Vec<Value> {
        days.iter().map(|day| json!(format!("2024-01-{:02}T00:00:00.000Z", day + 1))).collect()
    };
    let milliseconds = JANUARY + 2 * DAY_MS;
    let list = json!(["2024-01-01", "2024-01-02T00:00:00.000Z", milliseconds]);
    assert_eq!(terms(json!({ "field": "d", "include": list })), days(&[0, 1, 2]));
    assert_eq!(terms(json!({ "field": "d", "exclude": list })), days(&[3, 4, 5]));
    assert_eq!(
        terms(
            json!({ "field": "d", "format": "dd.MM.yyyy", "include": ["03.01.2024", "01.02.2024"] })
        ),
        [json!("03.01.2024")]
    );
    assert_eq!(terms(json!({ "field": "n", "include": [1, "3", 9] })), [json!(1), json!(3)]);
    assert_eq!(
        terms(json!({ "field": "x", "exclude": [0, 1.5, 2] })),
        [json!(0.5), json!(1.0), json!(2.5)]
    );
    assert_eq!(terms(json!({ "field": "b", "include": [true] })), [json!("true")]);
    assert_eq!(
        terms(json!({ "field": "ip", "include": ["10.0.0.5", "::1"] })),
        [json!("10.0.0.5")]
    );
    let found = run(
        &partitions,
        &json!({ "r": { "rare_terms": { "field": "d", "exclude": ["2024-01-01"] } } }),
    );
    assert_eq!(keys(&found.unwrap()["r"]), days(&[1, 2, 3, 4, 5]));
}

/// The parts of the terms are disjoint and cover all, whichever partition a document is in.
#[test]
fn parts_of_terms_are_the_same_in_all_partitions() {
    let mut turned = days();
    turned.reverse();
    let partitions = [partition(&days(), 10), partition(&turned, 2)];
    for field in ["d", "n", "x", "ip"] {
        let mut seen = Vec::new();
        for part in 0..3 {
            let include = json!({ "partition": part, "num_partitions": 3 });
            let body = json!({ "t": { "terms": { "field": field, "include": include } } });
            let found = run(&partitions, &body).unwrap();
            for bucket in found["t"]["buckets"].as_array().unwrap() {
                assert_eq!(bucket["doc_count"], 2, "{field}");
                seen.push(bucket["key"].to_string());
            }
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 6, "{field}");
    }
}

#[test]
fn lists_that_cannot_be_read_are_refused() {
    for (field, include, kind, reason) in [
        ("d", json!(["soon"]), "parse_exception", "failed to parse date field [soon]"),
        (
            "d",
            json!("2024.*"),
            "aggregation_execution_exception",
            "cannot support regular expression",
        ),
        ("n", json!(["x"]), "number_format_exception", "For input string: \"x\""),
        ("b", json!(["maybe"]), "illegal_argument_exception", "Cannot parse boolean [maybe]"),
        (
            "ip",
            json!(["10.0.0"]),
            "illegal_argument_exception",
            "'10.0.0' is not an IP string literal.",
        ),
    ] {
        let body = json!({ "a": { "terms": { "field": field, "include": include } } });
        let (found, words) = error(&body);
        assert!(found == kind && words.contains(reason), "{body}: {found}: {words}");
    }
}

#[test]
fn bounds_of_dates_are_read_by_the_format() {
    let ranges = |options: Value| {
        let found = run(&[partition(&days(), 10)], &json!({ "r": { "date_range": options } }));
        let found = found.unwrap()["r"]["buckets"].clone();
        found
            .as_array()
            .unwrap()
            .iter()
            .map(|bucket| bucket["doc_count"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let third = JANUARY + 2 * DAY_MS;
    let both = |bound: Value| json!([{ "to": bound }, { "from": bound }]);
    assert_eq!(ranges(json!({ "field": "d", "ranges": both(json!(third)) })), [2, 4]);
    assert_eq!(
        ranges(
            json!({ "field": "d", "format": "epoch_second", "ranges": both(json!(third / 1000)) })
        ),
        [2, 4]
    );
    // A year, as it is where it is written as text.
    assert_eq!(ranges(json!({ "field": "d", "ranges": both(json!(2024)) })), [0, 6]);
}

#[test]
fn tiles_are_in_the_order_of_their_numbers() {
    let at = |x: f64| Doc { p: vec![(0.0, -180.0 + x * 360.0 / 128.0 + 0.1)], ..Doc::default() };
    let docs: Vec<Doc> = [5.0, 100.0, 20.0, 64.0, 9.0].into_iter().map(at).collect();
    let partitions = [partition(&docs[..3], 2), partition(&docs[3..], 10)];
    for (order, expected) in [("asc", [5, 9, 20, 64, 100]), ("desc", [100, 64, 20, 9, 5])] {
        let (mut seen, mut after) = (Vec::new(), Value::Null);
        loop {
            let tile = json!({ "field": "p", "precision": 7, "order": order });
            let mut composite =
                json!({ "size": 2, "sources": [{ "g": { "geotile_grid": tile } }] });
            if !after.is_null() {
                composite["after"] = after.clone();
            }
            let found = run(&partitions, &json!({ "c": { "composite": composite } })).unwrap();
            let buckets = found["c"]["buckets"].as_array().unwrap();
            let Some(last) = buckets.last() else { break };
            after = last["key"].clone();
            assert_eq!(found["c"]["after_key"], after);
            seen.extend(
                buckets.iter().map(|bucket| bucket["key"]["g"].as_str().unwrap().to_owned()),
            );
        }
        assert_eq!(seen, expected.map(|x| format!("7/{x}/64")));
    }
    let sources = json!([{ "g": { "geotile_grid": { "field": "p" } } }]);
    let body = json!({ "c": { "composite": { "sources": sources, "after": { "g": "7/200/0" } } } });
    assert_eq!(error(&body).1, "Invalid value for [after.g]: [\"7/200/0\"]");
}

#[test]
fn siblings_find_numbers_or_say_why_not() {
    let max = json!({ "m": { "max": { "field": "n" } } });
    for (name, options) in [
        ("rare_terms", json!({ "field": "d" })),
        ("terms", json!({ "field": "d" })),
        ("auto_date_histogram", json!({ "field": "d", "buckets": 10 })),
        (
            "date_range",
            json!({ "field": "d", "ranges": [{ "to": "2024-01-02" }, { "from": "2024-01-02" }] }),
        ),
        (
            "ip_range",
            json!({ "field": "ip", "ranges": [{ "to": "10.0.0.1" }, { "from": "10.0.0.1" }] }),
        ),
    ] {
        let body = json!({
            "a": { name: options, "aggs": max },
            "dot": { "sum_bucket": { "buckets_path": "a._count" } },
            "arrow": { "sum_bucket": { "buckets_path": "a>_count" } },
            "best": { "max_bucket": { "buckets_path": "a>m" } },
        });
        let found = run(&[partition(&days(), 4)], &body).unwrap();
        let values = ["dot", "arrow", "best"].map(|sibling| found[sibling]["value"].clone());
        assert_eq!(values, [6.0, 6.0, 5.0].map(|value| json!(value)), "{name}");
    }
    for (path, kind, reason) in [
        ("a", "aggregation_execution_exception", "got: [a] at [a]"),
        ("a>s", "aggregation_execution_exception", "got: [s] at [a>s]"),
        (
            "a>nope",
            "invalid_aggregation_path_exception",
            "Cannot find an aggregation named [nope] in [a]",
        ),
    ] {
        let subs = json!({ "s": { "stats": { "field": "n" } } });
        let body = json!({
            "a": { "rare_terms": { "field": "d" }, "aggs": subs },
            "x": { "avg_bucket": { "buckets_path": path } },
        });
        let (found, words) = error(&body);
        assert!(found == kind && words.ends_with(reason), "{path}: {found}: {words}");
    }
}
