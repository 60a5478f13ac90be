//! What is refused, and how.

use std::cell::Cell;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::harness::{Doc, partition, run, run_with};
use crate::Error;
use crate::aggregation::{Aggregations, Memory, Unlimited};

fn error(body: &Value) -> Error {
    let doc = Doc {
        k: vec!["a".to_owned()],
        n: vec![1, 1_000_000],
        d: vec![0, 4_000_000_000_000],
        ..Doc::default()
    };
    run(&[partition(&[doc], 1)], body).unwrap_err()
}

#[test]
fn errors_are_worded_as_elasticsearch_words_them() {
    for (body, kind, reason) in [
        (json!({ "a": { "bogus": {} } }), "parsing_exception", "Unknown aggregation type [bogus]"),
        (
            json!({ "a": { "term": {} } }),
            "parsing_exception",
            "Unknown aggregation type [term] did you mean [terms]?",
        ),
        (json!({ "a": {} }), "parsing_exception", "Missing definition for aggregation [a]"),
        (
            json!({ "a[": { "avg": { "field": "n" } } }),
            "parsing_exception",
            "Invalid aggregation name [a[]",
        ),
        (
            json!({ "a": { "avg": { "field": "n" }, "max": { "field": "n" } } }),
            "parsing_exception",
            "Found two aggregation type definitions in [a]: [avg] and [max]",
        ),
        (
            json!({ "a": { "avg": { "field": "n", "x": 1 } } }),
            "x_content_parse_exception",
            "[avg] unknown field [x]",
        ),
        (
            json!({ "a": { "avg": { "field": "n" }, "aggs": { "b": { "avg": { "field": "n" } } } } }),
            "aggregation_initialization_exception",
            "Aggregator [a] of type [avg] cannot accept sub-aggregations",
        ),
        (
            json!({ "a": { "avg": {} } }),
            "illegal_argument_exception",
            "Required one of fields [field, script]",
        ),
        (
            json!({ "a": { "terms": { "field": "t" } } }),
            "illegal_argument_exception",
            "Text fields are not optimised for operations that require per-document field data",
        ),
        (
            json!({ "a": { "terms": { "field": "k", "size": 0 } } }),
            "illegal_argument_exception",
            "[size] must be greater than 0. Found [0] in [a]",
        ),
        (
            json!({ "a": { "avg": { "field": "k" } } }),
            "illegal_argument_exception",
            "Field [k] of type [keyword] is not supported for aggregation [avg]",
        ),
        (
            json!({ "a": { "histogram": { "field": "n", "interval": 0 } } }),
            "illegal_argument_exception",
            "[interval] must be >0 for histogram aggregation [a]",
        ),
        (
            json!({ "a": { "date_histogram": { "field": "d", "calendar_interval": "2d" } } }),
            "illegal_argument_exception",
            "The supplied interval [2d] could not be parsed as a calendar interval.",
        ),
        (
            json!({ "a": { "date_histogram": { "field": "d", "fixed_interval": "month" } } }),
            "illegal_argument_exception",
            "failed to parse setting [date_histogram.fixedInterval] with value [month] as a time value",
        ),
        (
            json!({ "a": { "date_histogram": { "field": "d", "fixed_interval": "1m" } } }),
            "too_many_buckets_exception",
            "Trying to create too many buckets. Must be less than or equal to: [65535] but was [",
        ),
        (
            json!({ "a": { "histogram": { "field": "n", "interval": 1e-9 } } }),
            "too_many_buckets_exception",
            "Trying to create too many buckets.",
        ),
        (
            json!({ "a": { "date_histogram": { "field": "d", "interval": "1d", "time_zone": "Moon" } } }),
            "illegal_argument_exception",
            "Unknown time-zone ID: Moon",
        ),
        (
            json!({ "a": { "terms": { "field": "k", "order": { "b": "asc" } } } }),
            "aggregation_execution_exception",
            "Invalid aggregator order path [b].",
        ),
        (
            json!({ "a": { "avg_bucket": { "buckets_path": "x>y" } } }),
            "action_request_validation_exception",
            "Validation Failed: 1: buckets_path aggregation does not exist for aggregation [a]: x>y",
        ),
        (
            json!({ "a": { "terms": { "field": "k" }, "aggs": { "g": { "global": {} } } } }),
            "illegal_argument_exception",
            "Aggregation [g] cannot have a global sub-aggregation",
        ),
        (
            json!({ "a": { "terms": { "script": "1" } } }),
            "illegal_argument_exception",
            "[script] is not supported",
        ),
    ] {
        let error = error(&body);
        assert_eq!(error.class, crate::ErrorClass::Invalid, "{body}");
        assert_eq!(error.kind, kind, "{body}: {}", error.reason);
        assert!(error.reason.starts_with(reason), "{body}: {}", error.reason);
    }
}

#[test]
fn nesting_has_an_end() {
    let mut body = json!({ "a": { "avg": { "field": "n" } } });
    for _ in 0..150 {
        body = json!({ "a": { "filter": {}, "aggs": body } });
    }
    assert!(error(&body).reason.starts_with("The nested depth of the aggregations exceeds"));
}

/// Grants so many bytes.
struct Limited {
    left: Cell<u64>,
}

impl Memory for Limited {
    fn take(&self, bytes: u64) -> Result<(), Error> {
        let left = self.left.get().checked_sub(bytes);
        self.left.set(
            left.ok_or_else(|| Error::overloaded("circuit_breaking_exception", "Data too large"))?,
        );
        Ok(())
    }

    fn give(&self, bytes: u64) {
        self.left.set(self.left.get() + bytes);
    }
}

#[test]
fn memory_is_asked_for_and_given_back() {
    let docs: Vec<Doc> = (0..20_000)
        .map(|i| Doc { n: vec![i * 1_000_003], k: vec![format!("k{i}")], ..Doc::default() })
        .collect();
    let partitions = [partition(&docs, 7_000)];
    for body in [
        json!({ "a": { "terms": { "field": "n" } } }),
        json!({ "a": { "terms": { "field": "n" }, "aggs": { "b": { "avg": { "field": "n" } } } } }),
        json!({ "a": { "terms": { "field": "k" } } }),
        json!({ "a": { "terms": { "field": "k" }, "aggs": { "b": { "cardinality": { "field": "n" } } } } }),
        json!({ "a": { "terms": { "field": "k" }, "aggs": { "b": { "percentiles": { "field": "n" } } } } }),
        json!({ "a": { "composite": { "sources": [{ "n": { "terms": { "field": "n" } } }] } } }),
        json!({ "a": { "histogram": { "field": "n", "interval": 1000, "min_doc_count": 1 } } }),
    ] {
        let memory = Limited { left: Cell::new(100_000) };
        let refused = run_with(&partitions, &body, &memory, &|| false, false).unwrap_err();
        assert_eq!(
            (refused.class, memory.left.get()),
            (crate::ErrorClass::Overloaded, 100_000),
            "{body}"
        );
        let memory = Limited { left: Cell::new(100_000_000) };
        let _ = run_with(&partitions, &body, &memory, &|| false, false);
        assert_eq!(memory.left.get(), 100_000_000, "{body}");
    }
}

#[test]
fn a_cancelled_request_ends() {
    let docs = vec![Doc { n: vec![1], ..Doc::default() }; 10_000];
    let asked = Cell::new(0);
    let cancelled = || {
        asked.set(asked.get() + 1);
        asked.get() == 2
    };
    let body = json!({ "a": { "avg": { "field": "n" } } });
    let error =
        run_with(&[partition(&docs, 10_000)], &body, &Unlimited, &cancelled, false).unwrap_err();
    assert_eq!((error.kind.as_ref(), asked.get()), ("task_cancelled_exception", 2));
}

/// JSON of any shape, made of words that the parser knows.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "terms",
        "avg",
        "field",
        "n",
        "k",
        "d",
        "x",
        "aggs",
        "size",
        "order",
        "_count",
        "desc",
        "date_histogram",
        "interval",
        "1d",
        "month",
        "range",
        "ranges",
        "from",
        "to",
        "filters",
        "filter",
        "composite",
        "sources",
        "a",
        "script",
        "params.a",
        "histogram",
        "keyed",
        "missing",
        "buckets_path",
        "bucket_script",
        "percentiles",
        "percents",
        "top_hits",
        "sort",
        "geotile_grid",
        "precision",
        "p",
        "multi_terms",
        "meta",
        "after",
        "min_doc_count",
        "extended_bounds",
        "min",
        "max",
        "bucket_sort",
        "derivative",
        "a>b",
        "cardinality",
        "format",
        "0.0",
        "yyyy",
        "offset",
        "-1h",
        "ip_range",
        "mask",
        "1.2.3.4/33",
        "geo_distance",
        "origin",
        "0,0",
        "include",
        "(",
        "moving_fn",
        "window",
        "auto_date_histogram",
        "buckets",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3i64..30).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(7, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..5).prop_map(|pairs| Value::Object(
                pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn no_json_panics_the_parser(body in any_json(), kind in 0usize..30) {
        let _ = Aggregations::parse(&body);
        let kinds = ["terms", "date_histogram", "histogram", "range", "composite", "multi_terms", "percentiles", "top_hits",
            "geo_distance", "geohash_grid", "filters", "bucket_sort", "bucket_script", "moving_fn", "ip_range", "date_range",
            "auto_date_histogram", "significant_terms", "rare_terms", "weighted_avg", "extended_stats", "cardinality",
            "percentile_ranks", "geotile_grid", "nested", "missing", "derivative", "max_bucket", "serial_diff", "global"];
        let mut inner = body.clone();
        if let Value::Object(map) = &mut inner {
            map.insert("field".to_owned(), json!("n"));
        }
        let _ = Aggregations::parse(&json!({ "a": { kinds[kind]: inner } }));
    }
}
