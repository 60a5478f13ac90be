//! Answers that are known, most of them from Elasticsearch's documents and OpenSearch's own replies.

use serde_json::{Value, json};

use super::harness::{Doc, partition, run, run_with};
use crate::aggregation::Unlimited;

const JANUARY: i64 = 1_704_067_200_000;
const DAY_MS: i64 = 86_400_000;

fn doc(k: &str, n: i64) -> Doc {
    Doc { k: vec![k.to_owned()], n: vec![n], ..Doc::default() }
}

fn check(docs: &[Doc], body: &Value, expected: &Value) {
    let found = run(&[partition(docs, 2)], body).unwrap();
    assert_eq!(
        serde_json::to_string_pretty(&found).unwrap(),
        serde_json::to_string_pretty(expected).unwrap()
    );
}

/// What OpenSearch 2.19.1 answered for three documents.
#[test]
fn the_answers_are_those_of_opensearch() {
    let mut a = doc("a", 6);
    a.d = vec![JANUARY];
    let docs = [a, doc("b", 2), Doc { n: vec![5], ..Doc::default() }];
    let body = json!({
        "p": { "percentiles": { "field": "n" } },
        "hi": { "histogram": { "field": "n", "interval": 2 } },
        "r": { "range": { "field": "n", "ranges": [{ "to": 2 }, { "from": 2 }] } },
        "c": { "cardinality": { "field": "k" } },
        "f": { "filter": { "term": { "k": "a" } } },
        "h": { "date_histogram": { "field": "d", "calendar_interval": "month" } },
        "k": { "terms": { "field": "k" }, "aggs": { "s": { "stats": { "field": "n" } } } },
        "fs": { "filters": { "filters": { "x": { "term": { "k": "a" } } } } },
    });
    let expected: Value = serde_json::from_str(
        r#"{"p":{"values":{"1.0":2.0,"5.0":2.0,"25.0":2.75,"50.0":5.0,"75.0":5.75,"95.0":6.0,"99.0":6.0}},
        "hi":{"buckets":[{"key":2.0,"doc_count":1},{"key":4.0,"doc_count":1},{"key":6.0,"doc_count":1}]},
        "r":{"buckets":[{"key":"*-2.0","to":2.0,"doc_count":0},{"key":"2.0-*","from":2.0,"doc_count":3}]},
        "c":{"value":2},"f":{"doc_count":1},
        "h":{"buckets":[{"key_as_string":"2024-01-01T00:00:00.000Z","key":1704067200000,"doc_count":1}]},
        "k":{"doc_count_error_upper_bound":0,"sum_other_doc_count":0,"buckets":[
          {"key":"a","doc_count":1,"s":{"count":1,"min":6.0,"max":6.0,"avg":6.0,"sum":6.0}},
          {"key":"b","doc_count":1,"s":{"count":1,"min":2.0,"max":2.0,"avg":2.0,"sum":2.0}}]},
        "fs":{"buckets":{"x":{"doc_count":1}}}}"#,
    )
    .unwrap();
    check(&docs, &body, &expected);
}

#[test]
fn terms_say_what_they_left_out() {
    let docs: Vec<Doc> = [("a", 5), ("b", 3), ("c", 2), ("d", 1)]
        .iter()
        .flat_map(|(k, count)| vec![doc(k, 1); *count])
        .collect();
    let (left, right) = docs.split_at(6);
    let partitions = [partition(left, 4), partition(right, 3)];
    // Left: a 5, b 1. Right: b 2, c 2, d 1. Two buckets of each are sent, ties by key.
    let body = json!({ "k": { "terms": { "field": "k", "size": 2, "shard_size": 2, "show_term_doc_count_error": true } } });
    let expected = json!({ "k": {
        "doc_count_error_upper_bound": 2, "sum_other_doc_count": 3,
        "buckets": [
            { "key": "a", "doc_count": 5, "doc_count_error_upper_bound": 2 },
            { "key": "b", "doc_count": 3, "doc_count_error_upper_bound": 0 },
        ]
    }});
    assert_eq!(run(&partitions, &body).unwrap(), expected);
    let by_key =
        json!({ "k": { "terms": { "field": "k", "size": 2, "order": { "_key": "desc" } } } });
    let found = run(&partitions, &by_key).unwrap();
    assert_eq!(found["k"]["doc_count_error_upper_bound"], json!(0));
    assert_eq!(found["k"]["buckets"][0]["key"], json!("d"));
    let by_metric = json!({ "k": { "terms": { "field": "k", "size": 1, "shard_size": 1, "order": { "s.sum": "asc" } },
        "aggs": { "s": { "stats": { "field": "n" } } } } });
    assert_eq!(
        run(&partitions, &by_metric).unwrap()["k"]["doc_count_error_upper_bound"],
        json!(-1)
    );
}

#[test]
fn terms_take_missing_values_and_filters() {
    let docs = [doc("apple", 1), doc("bee", 2), doc("ape", 3), Doc::default()];
    check(
        &docs,
        &json!({
            "regex": { "terms": { "field": "k", "include": "a.*", "exclude": ["ape"] } },
            "missing": { "terms": { "field": "k", "missing": "none", "order": { "_key": "asc" } } },
            "zero": { "terms": { "field": "k", "min_doc_count": 0, "include": ["ape", "bee"] } },
            "numbers": { "terms": { "field": "n", "include": [1, 3], "missing": 1 } },
            "unmapped": { "terms": { "field": "nope" } },
        }),
        &json!({
            "regex": { "doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [{ "key": "apple", "doc_count": 1 }] },
            "missing": { "doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [
                { "key": "ape", "doc_count": 1 }, { "key": "apple", "doc_count": 1 },
                { "key": "bee", "doc_count": 1 }, { "key": "none", "doc_count": 1 }] },
            "zero": { "doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [
                { "key": "ape", "doc_count": 1 }, { "key": "bee", "doc_count": 1 }] },
            "numbers": { "doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [
                { "key": 1, "doc_count": 2 }, { "key": 3, "doc_count": 1 }] },
            "unmapped": { "doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [] },
        }),
    );
}

#[test]
fn dates_are_rounded_and_printed_in_their_zone() {
    let at = |ms: i64| Doc { d: vec![ms], n: vec![1], ..Doc::default() };
    let docs = [at(JANUARY), at(JANUARY + 3 * DAY_MS), at(JANUARY + 3 * DAY_MS + 1)];
    check(
        &docs,
        &json!({
            "gaps": { "date_histogram": { "field": "d", "calendar_interval": "day", "time_zone": "-01:00", "format": "yyyy-MM-dd" } },
            "bounds": { "date_histogram": { "field": "d", "fixed_interval": "2d", "keyed": true,
                "extended_bounds": { "min": "2023-12-30", "max": "2024-01-02" }, "format": "yyyy-MM-dd" } },
            "ranges": { "date_range": { "field": "d", "format": "yyyy-MM-dd", "ranges": [
                { "from": "2024-01-01||+1d" }, { "to": "now", "key": "before" }] } },
            "max": { "max": { "field": "d" } },
            "auto": { "auto_date_histogram": { "field": "d", "buckets": 2 } },
        }),
        &json!({
            "gaps": { "buckets": [
                { "key_as_string": "2023-12-31", "key": JANUARY - 23 * 3_600_000, "doc_count": 1 },
                { "key_as_string": "2024-01-01", "key": JANUARY + 3_600_000, "doc_count": 0 },
                { "key_as_string": "2024-01-02", "key": JANUARY + DAY_MS + 3_600_000, "doc_count": 0 },
                { "key_as_string": "2024-01-03", "key": JANUARY + 2 * DAY_MS + 3_600_000, "doc_count": 2 },
            ] },
            "bounds": { "buckets": {
                "2023-12-29": { "key_as_string": "2023-12-29", "key": JANUARY - 3 * DAY_MS, "doc_count": 0 },
                "2023-12-31": { "key_as_string": "2023-12-31", "key": JANUARY - DAY_MS, "doc_count": 1 },
                "2024-01-02": { "key_as_string": "2024-01-02", "key": JANUARY + DAY_MS, "doc_count": 0 },
                "2024-01-04": { "key_as_string": "2024-01-04", "key": JANUARY + 3 * DAY_MS, "doc_count": 2 },
            } },
            "ranges": { "buckets": [
                { "key": "before", "to": 1_704_067_200_000.0, "to_as_string": "2024-01-01", "doc_count": 0 },
                { "key": "2024-01-02-*", "from": 1_704_153_600_000.0, "from_as_string": "2024-01-02", "doc_count": 2 },
            ] },
            "max": { "value": 1_704_326_400_001.0, "value_as_string": "2024-01-04T00:00:00.001Z" },
            "auto": { "buckets": [
                { "key_as_string": "2024-01-01T00:00:00.000Z", "key": JANUARY, "doc_count": 3 },
            ], "interval": "7d" },
        }),
    );
}

#[test]
fn pipelines_compute_from_results() {
    let docs = [doc("a", 1), doc("a", 2), doc("b", 5), doc("c", 9)];
    check(
        &docs,
        &json!({
            "h": {
                "histogram": { "field": "n", "interval": 4 },
                "aggs": {
                    "s": { "sum": { "field": "n" } },
                    "d": { "derivative": { "buckets_path": "s" } },
                    "c": { "cumulative_sum": { "buckets_path": "_count" } },
                    "x": { "bucket_script": { "buckets_path": { "a": "s", "n": "_count" }, "script": "params.a / params.n" } },
                    "m": { "moving_fn": { "buckets_path": "s", "window": 2, "script": "MovingFunctions.sum(values)" } },
                },
            },
            "best": { "max_bucket": { "buckets_path": "h>s" } },
            "mean": { "avg_bucket": { "buckets_path": "h>s" } },
            "t": {
                "terms": { "field": "k" },
                "aggs": {
                    "s": { "sum": { "field": "n" } },
                    "big": { "bucket_selector": { "buckets_path": { "s": "s" }, "script": "params.s > 3" } },
                    "sort": { "bucket_sort": { "sort": [{ "s": { "order": "desc" } }], "size": 1 } },
                },
            },
        }),
        &json!({
            "h": { "buckets": [
                { "key": 0.0, "doc_count": 2, "s": { "value": 3.0 }, "c": { "value": 2.0 }, "x": { "value": 1.5 }, "m": { "value": 0.0 } },
                { "key": 4.0, "doc_count": 1, "s": { "value": 5.0 }, "d": { "value": 2.0 }, "c": { "value": 3.0 }, "x": { "value": 5.0 }, "m": { "value": 3.0 } },
                { "key": 8.0, "doc_count": 1, "s": { "value": 9.0 }, "d": { "value": 4.0 }, "c": { "value": 4.0 }, "x": { "value": 9.0 }, "m": { "value": 8.0 } },
            ] },
            "t": { "doc_count_error_upper_bound": 0, "sum_other_doc_count": 0, "buckets": [
                { "key": "c", "doc_count": 1, "s": { "value": 9.0 } },
            ] },
            "best": { "value": 9.0, "keys": ["8.0"] },
            "mean": { "value": 17.0 / 3.0 },
        }),
    );
}

#[test]
fn names_say_kinds_where_asked() {
    let body = json!({
        "a": { "terms": { "field": "n" }, "aggs": { "m": { "max": { "field": "x" } } } },
        "b": { "terms": { "field": "k" }, "meta": { "color": "blue" } },
        "c": { "date_histogram": { "field": "d", "interval": "1d" } },
    });
    let found =
        run_with(&[partition(&[doc("a", 1)], 1)], &body, &Unlimited, &|| false, true).unwrap();
    let names: Vec<&String> = found.as_object().unwrap().keys().collect();
    assert_eq!(names, ["lterms#a", "sterms#b", "date_histogram#c"]);
    assert_eq!(found["lterms#a"]["buckets"][0]["max#m"], json!({ "value": null }));
    assert_eq!(found["sterms#b"]["meta"], json!({ "color": "blue" }));
}

#[test]
fn composite_pages_to_the_end() {
    let docs: Vec<Doc> = (0..20).map(|i| doc(["a", "b", "c"][i % 3], i as i64 % 5)).collect();
    let partitions = [partition(&docs[..9], 4), partition(&docs[9..], 100)];
    let mut after = Value::Null;
    let mut seen = Vec::new();
    loop {
        let mut composite = json!({ "size": 4, "sources": [
            { "k": { "terms": { "field": "k", "order": "desc" } } }, { "n": { "histogram": { "field": "n", "interval": 2 } } }] });
        if !after.is_null() {
            composite["after"] = after.clone();
        }
        let found = run(&partitions, &json!({ "c": { "composite": composite } })).unwrap();
        let buckets = found["c"]["buckets"].as_array().unwrap().clone();
        let Some(last) = buckets.last() else { break };
        assert_eq!(found["c"]["after_key"], last["key"]);
        after = last["key"].clone();
        seen.extend(buckets);
    }
    assert_eq!(seen.len(), 9);
    assert_eq!(seen[0]["key"], json!({ "k": "c", "n": 0.0 }));
    assert_eq!(seen.iter().map(|bucket| bucket["doc_count"].as_u64().unwrap()).sum::<u64>(), 20);
}
