//! Measures searches over one generated partition: the processor's time of each, which a busy
//! machine changes little, and the hits, so that one run can be compared with another.
//!
//! `cargo run --release -p plimsoll-index --example search_bench [documents]`; 200,000 by default.

#![expect(clippy::disallowed_methods, reason = "an example measures the machine")]

use std::time::Instant;

use plimsoll_base::Disk;
use plimsoll_index::mapping::Mapping;
use plimsoll_index::partition::{Options, PartitionIndex, View};
use plimsoll_index::search::{Cancelled, SearchRequest, query_phase};
use serde_json::{Value, json};

const NOW_MS: u64 = 1_710_072_000_000;

/// A generator of numbers that are the same in every run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn document(numbers: &mut Numbers, id: u64) -> Value {
    let words = ["quick", "brown", "fox", "lazy", "dog", "red", "ship", "line", "water", "load"];
    let text: Vec<&str> = (0..8)
        .map(|_| words[usize::try_from(numbers.below(10).min(numbers.below(10))).unwrap_or(0)])
        .collect();
    let degrees = |n: u64, span: u64| (n % (span * 10_000)) as f64 / 10_000.0;
    json!({
        "id": id,
        "key": format!("key-{id:08}"),
        "population": numbers.below(1_000_000),
        "rank": numbers.below(100_000),
        "created": NOW_MS - numbers.below(365 * 86_400_000),
        "location": {
            "lat": degrees(numbers.next(), 20) + 40.0,
            "lon": degrees(numbers.next(), 20),
        },
        "text": text.join(" "),
    })
}

/// The time that this thread has had the processor, in nanoseconds.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

fn complex(terms: &Value) -> Value {
    json!({"function_score": {
        "query": {"bool": {"filter": [
            terms,
            {"geo_distance": {"distance": "800km", "location": {"lat": 50, "lon": 10}}},
        ]}},
        "functions": [
            {"gauss": {"location": {"origin": {"lat": 50, "lon": 10}, "scale": "300km", "offset": "10km"}}},
            {"exp": {"created": {"origin": NOW_MS, "scale": "90d"}}},
            {"linear": {"rank": {"origin": 0, "scale": 50_000}}},
            {"script_score": {"script": {"lang": "expression",
                "source": "abs(ln(abs(doc['population']) + 1) + doc['location'].lon + doc['location'].lat) * _score"}}},
        ],
        "score_mode": "sum", "boost_mode": "replace",
    }})
}

fn main() {
    let documents: u64 =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200_000);
    let dir = tempfile::TempDir::new().expect("a folder for the index");
    let mapping = Mapping::parse(&json!({"properties": {
        "id": {"type": "long"}, "key": {"type": "keyword"}, "population": {"type": "long"},
        "rank": {"type": "integer"}, "created": {"type": "date"},
        "location": {"type": "geo_point"}, "text": {"type": "text"}}}))
    .expect("a mapping");
    let mut index =
        PartitionIndex::open(&Disk::of_the_machine(), dir.path(), &mapping, Options::default())
            .expect("an index");
    let started = Instant::now();
    let mut numbers = Numbers(7);
    for id in 0..documents {
        let source = document(&mut numbers, id).to_string();
        let name = id.to_string();
        index.put(name.as_bytes(), &name, source.as_bytes(), true).expect("a document");
    }
    let view = index.refresh(documents).expect("a refresh");
    report(&format!(
        "{documents} documents indexed in {:.1} s; {} segments",
        started.elapsed().as_secs_f64(),
        view.searcher().segment_readers().len()
    ));
    let ids: Vec<u64> = (0..5000).map(|_| numbers.below(documents)).collect();
    let scattered: Vec<u64> = ids.iter().map(|id| id * 1_000_003 % (documents * 5)).collect();
    let keys: Vec<String> = ids.iter().map(|id| format!("key-{id:08}")).collect();
    let searches = [
        ("complex, 5000 longs", json!({"query": complex(&json!({"terms": {"id": ids}}))})),
        (
            "complex, 5000 longs, few there",
            json!({"query": complex(&json!({"terms": {"id": scattered}}))}),
        ),
        ("complex, 5000 keywords", json!({"query": complex(&json!({"terms": {"key": keys}}))})),
        ("complex, no terms", json!({"query": complex(&json!({"match_all": {}}))})),
        ("terms alone", json!({"query": {"terms": {"id": ids}}, "track_total_hits": true})),
        (
            "geo_distance alone",
            json!({"query": {"geo_distance": {"distance": "800km", "location": "50,10"}}, "track_total_hits": true}),
        ),
        ("match_all", json!({})),
        ("sort by a long", json!({"sort": [{"population": "desc"}], "track_total_hits": false})),
        ("sort by two", json!({"sort": [{"rank": "asc"}, {"population": "desc"}]})),
        ("sort by a keyword", json!({"sort": [{"key": "desc"}]})),
        (
            "range, exact total",
            json!({"query": {"range": {"population": {"gte": 250_000, "lt": 750_000}}}, "track_total_hits": true}),
        ),
        ("term of a text", json!({"query": {"match": {"text": "load"}}})),
        ("two words", json!({"query": {"match": {"text": "load water"}}})),
        ("phrase", json!({"query": {"match_phrase": {"text": "red ship"}}})),
    ];
    for (name, body) in &searches {
        measure(&view, name, body);
    }
}

fn measure(view: &View, name: &str, body: &Value) {
    // The kernel counts in steps of milliseconds, so that only sums over many runs mean anything.
    let runs = 200;
    let before = processor_ns();
    for _ in 0..runs {
        SearchRequest::parse(body).expect("a request");
    }
    let parse_ms = (processor_ns() - before) as f64 / 1e6 / f64::from(runs);
    let request = SearchRequest::parse(body).expect("a request");
    let mut found = query_phase(view, &request, NOW_MS, &Cancelled::never()).expect("an answer");
    let before = processor_ns();
    for _ in 0..runs {
        found = query_phase(view, &request, NOW_MS, &Cancelled::never()).expect("an answer");
    }
    let query_ms = (processor_ns() - before) as f64 / 1e6 / f64::from(runs);
    let best = found.hits.first().map(|hit| (hit.address, hit.score));
    report(&format!(
        "{name:32} query {query_ms:7.3} ms  parse {parse_ms:6.3} ms  total {:6}  first {best:?}",
        found.total
    ));
}

#[expect(clippy::print_stdout, reason = "the report is what the tool is for")]
fn report(line: &str) {
    println!("{line}");
}
