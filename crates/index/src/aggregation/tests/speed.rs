//! How long aggregations take and what they hold, beside Tantivy's own collector, whose counts have
//! to be the same. Small by default; `PLIMSOLL_SPEED_DOCS=1000000 cargo test --release -p
//! plimsoll-index aggregation::tests::speed -- --nocapture` prints figures for two partitions of
//! as many documents.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]

use std::cell::Cell;
use std::time::Instant;

use serde_json::{Value, json};
use tantivy::Searcher;
use tantivy::aggregation::agg_req::Aggregations as TantivyRequest;
use tantivy::aggregation::{AggContextParams, DistributedAggregationCollector};
use tantivy::query::AllQuery;

use super::harness::{Doc, partition, run_with};
use crate::Error;
use crate::aggregation::Memory;

/// Remembers the most that was held.
#[derive(Default)]
struct Peak {
    held: Cell<u64>,
    most: Cell<u64>,
}

impl Memory for Peak {
    fn take(&self, bytes: u64) -> Result<(), Error> {
        self.held.set(self.held.get() + bytes);
        self.most.set(self.most.get().max(self.held.get()));
        Ok(())
    }

    fn give(&self, bytes: u64) {
        self.held.set(self.held.get() - bytes);
    }
}

/// Milliseconds that this thread has run, where the system says so; else those that went by.
fn cpu_ms(start: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ran = text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
    ran.map_or(start.elapsed().as_secs_f64() * 1e3, |ns| ns / 1e6)
}

fn docs_count() -> i64 {
    std::env::var("PLIMSOLL_SPEED_DOCS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000)
}

fn docs(part: i64, count: i64) -> Vec<Doc> {
    let one = |i: i64| {
        let id = part * count + i;
        let random = id.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed());
        Doc {
            n: vec![id],
            // Random and unique: no flat layout fits.
            d: vec![random >> 20],
            k: vec![format!("k{}", id % 200)],
            x: vec![(id % 1_000) as f64],
            ip: Vec::new(),
            ..Doc::default()
        }
    };
    (0..count).map(one).collect()
}

fn tantivy(partitions: &[Searcher], body: &Value) -> usize {
    let request: TantivyRequest = serde_json::from_value(body.clone()).unwrap();
    let run = |searcher: &Searcher| {
        let collector = DistributedAggregationCollector::from_aggs(
            request.clone(),
            AggContextParams::default(),
        );
        searcher.search(&AllQuery, &collector).unwrap()
    };
    let mut whole = run(&partitions[0]);
    for searcher in &partitions[1..] {
        whole.merge_fruits(run(searcher)).unwrap();
    }
    let found = whole.into_final_result(request, Default::default()).unwrap();
    serde_json::to_value(found).unwrap()["a"]["buckets"].as_array().map_or(0, Vec::len)
}

fn measure(what: &str, partitions: &[Searcher], body: &Value, compare: bool) {
    let laps = if docs_count() > 100_000 { 7 } else { 1 };
    let mut own: Vec<f64> = Vec::new();
    let mut theirs: Vec<f64> = Vec::new();
    let peak = Peak::default();
    let start = Instant::now();
    for _ in 0..laps {
        let before = cpu_ms(start);
        let found = run_with(partitions, body, &peak, &|| false, false).unwrap();
        own.push(cpu_ms(start) - before);
        if compare {
            let before = cpu_ms(start);
            let count = tantivy(partitions, body);
            theirs.push(cpu_ms(start) - before);
            assert_eq!(found["a"]["buckets"].as_array().map_or(0, Vec::len), count, "{what}");
        }
    }
    let median = |list: &mut Vec<f64>| {
        list.sort_by(f64::total_cmp);
        list.get(list.len() / 2).copied().unwrap_or(f64::NAN)
    };
    println!(
        "{what}: median {:.1} ms of processor, Tantivy's collector {:.1} ms, most held {} bytes",
        median(&mut own),
        median(&mut theirs),
        peak.most.get()
    );
    assert_eq!(peak.held.get(), 0);
}

#[test]
fn figures() {
    let count = docs_count();
    let segment = usize::try_from(count).unwrap();
    let partitions: Vec<Searcher> =
        (0..2).map(|part| partition(&docs(part, count), segment)).collect();
    println!("two partitions of {count} documents, one after the other on one thread");
    measure(
        "top 25 of unique longs, incrementing",
        &partitions,
        &json!({ "a": { "terms": { "field": "n", "size": 25 } } }),
        true,
    );
    measure(
        "top 25 of unique longs, random",
        &partitions,
        &json!({ "a": { "terms": { "field": "d", "size": 25 } } }),
        true,
    );
    measure(
        "top 10 of 200 keywords",
        &partitions,
        &json!({ "a": { "terms": { "field": "k", "size": 10 } } }),
        true,
    );
    measure(
        "200 keywords with average",
        &partitions,
        &json!({ "a": { "terms": { "field": "k", "size": 10 }, "aggs": { "x": { "avg": { "field": "x" } } } } }),
        true,
    );
    measure(
        "histogram of 1,000",
        &partitions,
        &json!({ "a": { "histogram": { "field": "x", "interval": 10.0 } } }),
        true,
    );
    measure(
        "unique longs with average",
        &partitions,
        &json!({ "a": { "terms": { "field": "d", "size": 25 }, "aggs": { "x": { "avg": { "field": "x" } } } } }),
        true,
    );
    measure(
        "cardinality of unique longs",
        &partitions,
        &json!({ "a": { "cardinality": { "field": "n" } } }),
        false,
    );
    measure(
        "percentiles",
        &partitions,
        &json!({ "a": { "percentiles": { "field": "x" } } }),
        false,
    );
    measure("statistics", &partitions, &json!({ "a": { "stats": { "field": "x" } } }), false);
}
