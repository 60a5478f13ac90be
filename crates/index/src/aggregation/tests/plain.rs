//! Answers against computing them plainly, one document after the other.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::harness::{Doc, partition, run};
use super::spread::any_doc;

/// Counts documents by each of their distinct values.
fn counts<K: Ord>(docs: &[Doc], values: impl Fn(&Doc) -> Vec<K>) -> BTreeMap<K, u64> {
    let mut counts = BTreeMap::new();
    for doc in docs {
        for value in values(doc).into_iter().collect::<BTreeSet<K>>() {
            *counts.entry(value).or_insert(0) += 1;
        }
    }
    counts
}

fn buckets(answer: &Value, name: &str) -> Vec<(Value, u64)> {
    let buckets = answer[name]["buckets"].as_array().unwrap().iter();
    buckets.map(|bucket| (bucket["key"].clone(), bucket["doc_count"].as_u64().unwrap())).collect()
}

fn sorted_by_count<K: Ord + Clone + Into<Value>>(
    counts: &BTreeMap<K, u64>,
    size: usize,
) -> Vec<(Value, u64)> {
    let mut list: Vec<_> = counts.iter().map(|(key, count)| (key.clone(), *count)).collect();
    list.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    list.into_iter().take(size).map(|(key, count)| (key.into(), count)).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "the values are small")]
fn floor(value: f64, interval: f64) -> i64 {
    (value / interval).floor() as i64
}

/// The quantile between the middles of the sorted values, as for few values it has to be.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place in a short list"
)]
fn quantile(values: &mut [f64], q: f64) -> Value {
    values.sort_by(f64::total_cmp);
    if values.is_empty() {
        return Value::Null;
    }
    let place = (q * values.len() as f64 - 0.5).clamp(0.0, values.len() as f64 - 1.0);
    let (low, share) = (place.floor() as usize, place.fract());
    let high = values[(low + 1).min(values.len() - 1)];
    json!(values[low] + (high - values[low]) * share)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn buckets_are_those_of_counting(docs in prop::collection::vec(any_doc(), 1..80), size in 1usize..8, segment in 1usize..90) {
        let answer = run(&[partition(&docs, segment)], &json!({
            "k": { "terms": { "field": "k", "size": size } },
            "n": { "terms": { "field": "n", "size": size } },
            "sub": { "terms": { "field": "k", "size": 100, "order": { "_key": "asc" } }, "aggs": { "n": { "terms": { "field": "n", "size": size } } } },
            "h": { "histogram": { "field": "x", "interval": 4, "min_doc_count": 1 } },
            "day": { "date_histogram": { "field": "d", "calendar_interval": "day", "min_doc_count": 1 } },
            "r": { "range": { "field": "n", "ranges": [{ "to": 0 }, { "from": 0, "to": 10 }, { "from": 5 }] } },
            "none": { "missing": { "field": "k" } },
            "f": { "filter": { "term": { "k": "a" } }, "aggs": { "n": { "value_count": { "field": "n" } } } },
        })).unwrap();
        let by_k = counts(&docs, |doc| doc.k.clone());
        let by_n = counts(&docs, |doc| doc.n.clone());
        prop_assert_eq!(buckets(&answer, "k"), sorted_by_count(&by_k, size));
        prop_assert_eq!(buckets(&answer, "n"), sorted_by_count(&by_n, size));
        let kept: u64 = sorted_by_count(&by_n, size).iter().map(|(_, count)| count).sum();
        prop_assert_eq!(answer["n"]["sum_other_doc_count"].as_u64().unwrap(), by_n.values().sum::<u64>() - kept);
        for (bucket, key) in answer["sub"]["buckets"].as_array().unwrap().iter().zip(by_k.keys()) {
            let own: Vec<Doc> = docs.iter().filter(|doc| doc.k.contains(key)).cloned().collect();
            prop_assert_eq!(buckets(bucket, "n"), sorted_by_count(&counts(&own, |doc| doc.n.clone()), size));
        }
        let by_x = counts(&docs, |doc| doc.x.iter().map(|x| floor(*x, 4.0)).collect());
        let expected: Vec<(Value, u64)> = by_x.iter().map(|(key, count)| (json!(*key as f64 * 4.0), *count)).collect();
        prop_assert_eq!(buckets(&answer, "h"), expected);
        let by_day = counts(&docs, |doc| doc.d.iter().map(|ms| ms.div_euclid(86_400_000) * 86_400_000).collect());
        let expected: Vec<(Value, u64)> = by_day.iter().map(|(key, count)| (json!(key), *count)).collect();
        prop_assert_eq!(buckets(&answer, "day"), expected);
        let within = |low: i64, high: i64| docs.iter().filter(|doc| doc.n.iter().any(|n| (low..high).contains(n))).count() as u64;
        let found: Vec<u64> = buckets(&answer, "r").iter().map(|(_, count)| *count).collect();
        prop_assert_eq!(found, vec![within(i64::MIN, 0), within(0, 10), within(5, i64::MAX)]);
        prop_assert_eq!(answer["none"]["doc_count"].as_u64().unwrap(), docs.iter().filter(|doc| doc.k.is_empty()).count() as u64);
        let own = docs.iter().filter(|doc| doc.k.iter().any(|k| k == "a"));
        prop_assert_eq!(answer["f"]["n"]["value"].as_u64().unwrap(), own.map(|doc| doc.n.len() as u64).sum::<u64>());
    }

    #[test]
    fn numbers_are_those_of_computing(docs in prop::collection::vec(any_doc(), 1..60), segment in 1usize..70) {
        let answer = run(&[partition(&docs, segment)], &json!({
            "s": { "extended_stats": { "field": "x" } },
            "p": { "percentiles": { "field": "x", "percents": [0, 25, 50, 90, 100] } },
            "k": { "cardinality": { "field": "k" } },
            "ip": { "cardinality": { "field": "ip" } },
            "w": { "weighted_avg": { "value": { "field": "n" }, "weight": { "field": "b", "missing": 2 } } },
            "mt": { "multi_terms": { "size": 10_000, "terms": [{ "field": "k" }, { "field": "n" }] } },
            "bad": { "max": { "field": "nope" } },
        })).unwrap();
        let mut values: Vec<f64> = docs.iter().flat_map(|doc| doc.x.clone()).collect();
        let n = values.len() as f64;
        let sum: f64 = values.iter().sum();
        prop_assert_eq!(&answer["s"]["count"], &json!(values.len()));
        prop_assert_eq!(answer["s"]["sum"].as_f64().unwrap(), sum);
        if !values.is_empty() {
            let variance = values.iter().map(|x| (x - sum / n).powi(2)).sum::<f64>() / n;
            prop_assert!((answer["s"]["variance"].as_f64().unwrap() - variance).abs() < 1e-6);
            prop_assert_eq!(answer["s"]["max"].as_f64().unwrap(), values.iter().copied().fold(f64::MIN, f64::max));
        }
        for (name, q) in [("0.0", 0.0), ("25.0", 0.25), ("50.0", 0.5), ("90.0", 0.9), ("100.0", 1.0)] {
            let expected = quantile(&mut values, q);
            match (answer["p"]["values"][name].as_f64(), expected.as_f64()) {
                (Some(found), Some(expected)) => prop_assert!((found - expected).abs() < 1e-9, "{} {} {}", name, found, expected),
                (found, expected) => prop_assert_eq!(found, expected),
            }
        }
        prop_assert_eq!(&answer["k"]["value"], &json!(counts(&docs, |doc| doc.k.clone()).len()));
        prop_assert_eq!(&answer["ip"]["value"], &json!(counts(&docs, |doc| doc.ip.clone()).len()));
        let pairs = docs.iter().flat_map(|doc| {
            let weight = doc.b.first().map_or(2.0, |b| f64::from(u8::from(*b)));
            doc.n.iter().map(move |n| (*n as f64 * weight, weight))
        });
        let (top, bottom) = pairs.fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        match answer["w"]["value"].as_f64() {
            Some(found) => prop_assert!((found - top / bottom).abs() < 1e-9),
            None => prop_assert_eq!(bottom, 0.0),
        }
        let pairs = counts(&docs, |doc| doc.k.iter().flat_map(|k| doc.n.iter().map(move |n| (k.clone(), *n))).collect());
        let mut expected: Vec<_> = pairs.into_iter().collect();
        expected.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        let expected: Vec<(Value, u64)> = expected.into_iter().map(|((k, n), count)| (json!([k, n]), count)).collect();
        prop_assert_eq!(buckets(&answer, "mt"), expected);
        prop_assert_eq!(&answer["bad"], &json!({ "value": null }));
    }
}
