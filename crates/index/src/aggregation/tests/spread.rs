//! However documents are spread over partitions and segments, the answer is the same.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::harness::{Doc, partition, run};

pub(super) fn any_doc() -> impl Strategy<Value = Doc> {
    let words = prop::collection::vec("[a-e]{1,2}", 0..3);
    let numbers = prop::collection::vec(-20i64..40, 0..3);
    // Halves add up without rounding, in whatever order.
    let doubles = prop::collection::vec((-60i32..60).prop_map(|half| f64::from(half) / 2.0), 0..3);
    let dates = prop::collection::vec(1_700_000_000_000i64..1_720_000_000_000, 0..3);
    let truths = prop::collection::vec(any::<bool>(), 0..2);
    let addresses =
        prop::collection::vec((0u8..4, 0u8..4).prop_map(|(a, b)| format!("10.0.{a}.{b}")), 0..3);
    let points = prop::collection::vec((-8i32..8, -16i32..16), 0..2).prop_map(|list| {
        list.into_iter().map(|(y, x)| (f64::from(y) * 10.0, f64::from(x) * 10.0)).collect()
    });
    (words, numbers, doubles, dates, truths, addresses, points)
        .prop_map(|(k, n, x, d, b, ip, p)| Doc { k, n, x, d, b, ip, p })
}

/// Requests whose answer does not depend on how documents are spread: enough buckets are sent.
fn requests() -> Vec<Value> {
    let all = |field: &str| json!({ "field": field, "size": 500 });
    let subs = json!({
        "s": { "stats": { "field": "x" } }, "c": { "cardinality": { "field": "k" } }, "v": { "value_count": { "field": "k" } },
        "q": { "percentiles": { "field": "n", "percents": [10, 50, 99] } }, "e": { "extended_stats": { "field": "n" } },
        "inner": { "terms": all("n"), "aggs": { "m": { "max": { "field": "d" } } } },
    });
    vec![
        json!({ "a": { "terms": all("k"), "aggs": subs }, "b": { "terms": all("n") }, "c": { "terms": all("k") } }),
        json!({ "a": { "terms": { "field": "x", "size": 500, "missing": 1.5, "order": [{ "m": "desc" }, { "_count": "asc" }] },
            "aggs": { "m": { "min": { "field": "n" } } } } }),
        json!({ "a": { "terms": all("b") }, "b": { "terms": all("ip") }, "c": { "terms": all("d") },
            "d": { "terms": { "field": "k", "size": 500, "missing": "zz", "min_doc_count": 0 } },
            "e": { "rare_terms": { "field": "k", "max_doc_count": 3 } } }),
        json!({ "a": { "histogram": { "field": "x", "interval": 2.5, "offset": 0.5, "extended_bounds": { "min": -40, "max": 2 } }, "aggs": subs },
            "b": { "histogram": { "field": "n", "interval": 7, "min_doc_count": 2, "hard_bounds": { "min": -5, "max": 20 }, "keyed": true } } }),
        json!({ "a": { "date_histogram": { "field": "d", "calendar_interval": "month", "time_zone": "Europe/Berlin" }, "aggs": subs },
            "b": { "date_histogram": { "field": "d", "fixed_interval": "10d", "offset": "+6h", "order": { "_count": "desc" } } } }),
        json!({ "a": { "range": { "field": "x", "ranges": [{ "to": 0 }, { "from": -5, "to": 10, "key": "mid" }, { "from": 3 }] }, "aggs": subs },
            "b": { "date_range": { "field": "d", "ranges": [{ "to": "2024-03-01" }, { "from": "2024-02-01||-1M/d" }] } },
            "c": { "ip_range": { "field": "ip", "keyed": true, "ranges": [{ "mask": "10.0.1.0/24" }, { "from": "10.0.2.0" }] } },
            "d": { "geo_distance": { "field": "p", "origin": "0,0", "unit": "km", "ranges": [{ "to": 3000 }, { "from": 2000 }] } } }),
        json!({ "a": { "filters": { "filters": { "a": { "term": { "k": "a" } }, "b": { "term": { "k": "b" } } }, "other_bucket": true }, "aggs": subs },
            "b": { "filter": { "term": { "k": "c" } }, "aggs": subs }, "c": { "missing": { "field": "k" }, "aggs": subs },
            "d": { "global": {}, "aggs": subs } }),
        json!({ "a": { "composite": { "size": 1000, "sources": [{ "k": { "terms": { "field": "k", "missing_bucket": true } } },
                { "d": { "date_histogram": { "field": "d", "calendar_interval": "1M", "order": "desc" } } }] }, "aggs": subs },
            "b": { "multi_terms": { "size": 1000, "terms": [{ "field": "k" }, { "field": "n", "missing": 7 }, { "field": "b" }] } } }),
        json!({ "a": { "geohash_grid": { "field": "p", "precision": 2 }, "aggs": subs }, "b": { "geotile_grid": { "field": "p", "precision": 4 } },
            "c": { "geo_bounds": { "field": "p" } }, "d": { "geo_centroid": { "field": "p" } }, "e": { "value_count": { "field": "p" } } }),
        json!({ "a": { "weighted_avg": { "value": { "field": "x" }, "weight": { "field": "b", "missing": 1 } } },
            "b": { "percentile_ranks": { "field": "b", "values": [0, 5], "hdr": { "number_of_significant_value_digits": 3 }, "missing": 3 } },
            "c": { "median_absolute_deviation": { "field": "n" } }, "d": { "sum": { "field": "b" } }, "e": { "min": { "field": "nope" } },
            "f": { "auto_date_histogram": { "field": "d", "buckets": 5 }, "aggs": subs } }),
        json!({ "a": { "terms": all("k"), "aggs": {
            "h": { "date_histogram": { "field": "d", "calendar_interval": "week" },
                "aggs": { "s": { "sum": { "field": "x" } }, "d": { "derivative": { "buckets_path": "s" } } } },
            "best": { "max_bucket": { "buckets_path": "h>s" } },
            "top": { "top_hits": { "sort": [{ "n": "asc" }], "size": 2 } } } } }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn spreading_documents_changes_nothing(docs in prop::collection::vec(any_doc(), 1..60), cuts in prop::collection::vec(1usize..20, 1..4), segment in 1usize..12) {
        let whole = [partition(&docs, docs.len())];
        let mut parts = Vec::new();
        let mut rest = docs.as_slice();
        for cut in cuts {
            let (part, after) = rest.split_at(cut.min(rest.len()));
            parts.push(partition(part, segment));
            rest = after;
        }
        parts.push(partition(rest, segment));
        for body in requests() {
            let together = run(&whole, &body);
            let apart = run(&parts, &body);
            prop_assert_eq!(together, apart, "{}", body);
        }
    }
}
