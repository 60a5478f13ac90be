//! What is asked: searches of each corpus, reads and writes by key, as bytes ready to be sent.
//! Searches of one kind differ from one another where remembering an answer would help.

use plimsoll_control::Random;
use serde_json::{Value, json};

use super::corpus::{Corpus, DATE_MS, GROUPS, Shape, place};
use super::load::Requests;
use super::wire;

/// Different searches of one kind.
const SEARCHES: usize = 60;
/// Keys of reads and writes, rendered each.
pub(crate) const KEYS: usize = 2_000;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    /// A search with so many terms in its filter, a distance, decays and an expression.
    Complex {
        /// 1 to 2,000: the number of groups.
        terms: usize,
    },
    /// One of Rally's, by its name there.
    Named(&'static str),
    /// Documents by their id, and writes of them, with this share of reads.
    Documents {
        /// From 0 to 1.
        reads: f64,
    },
}

/// Rally's operations on each corpus that are made here.
const NAMED: [(&str, Shape); 12] = [
    ("default", Shape::Pmc),
    ("term", Shape::Pmc),
    ("phrase", Shape::Pmc),
    ("articles-monthly-agg-uncached", Shape::Pmc),
    ("articles-monthly-agg-cached", Shape::Pmc),
    ("range", Shape::HttpLogs),
    ("status-200s-in-range", Shape::HttpLogs),
    ("hourly-agg", Shape::HttpLogs),
    ("desc-sort-timestamp", Shape::HttpLogs),
    ("bbox", Shape::Geopoint),
    ("distance", Shape::Geopoint),
    ("distance-range", Shape::Geopoint),
];

impl Operation {
    /// The corpus that it searches.
    pub(crate) fn shape(self) -> Shape {
        let Self::Named(name) = self else { return Shape::Places };
        let known = NAMED.iter().find(|(known, _)| *known == name);
        known.map_or(Shape::Places, |(_, shape)| *shape)
    }
}

/// The requests of an operation on `index` of a corpus, for a REST server at `host`.
pub(crate) fn requests(
    operation: Operation,
    corpus: &Corpus,
    index: &str,
    host: &str,
    seed: u64,
) -> Requests {
    let mut random = Random::new(seed);
    let cache = operation == Operation::Named("articles-monthly-agg-cached");
    let path = format!("/{index}/_search?request_cache={cache}");
    let search = |body: &Value| wire::http("POST", &path, host, body.to_string().as_bytes());
    match operation {
        Operation::Complex { terms } => Requests::of_one_kind(
            (0..SEARCHES).map(|_| search(&complex(terms, &mut random))).collect(),
        ),
        Operation::Named(name) => Requests::of_one_kind(
            (0..SEARCHES).map(|_| search(&named(name, corpus, &mut random))).collect(),
        ),
        Operation::Documents { reads } => documents(corpus, index, host, reads, &mut random),
    }
}

fn documents(
    corpus: &Corpus,
    index: &str,
    host: &str,
    reads: f64,
    random: &mut Random,
) -> Requests {
    let keys: Vec<usize> = (0..KEYS).map(|_| random.below(corpus.count)).collect();
    let path = |key: &usize| format!("/{index}/_doc/{key}");
    let read = keys.iter().map(|key| wire::http("GET", &path(key), host, b"")).collect();
    let fresh = Corpus::of_seed(corpus.shape, KEYS, corpus.seed ^ 1).generate();
    let write = keys
        .iter()
        .zip(fresh)
        .map(|(key, document)| wire::http("PUT", &path(key), host, document.to_string().as_bytes()))
        .collect();
    Requests::mixed(read, write, reads)
}

/// Reads and writes of strings over RESP, with this share of reads; the keys begin with `prefix`.
pub(crate) fn rows(prefix: &str, value_bytes: usize, reads: f64) -> Requests {
    let key = |number: usize| format!("{prefix}{number}").into_bytes();
    let value = vec![b'v'; value_bytes];
    let read = (0..KEYS).map(|n| wire::command(&[b"GET", &key(n)])).collect();
    let write = (0..KEYS).map(|n| wire::command(&[b"SET", &key(n), &value])).collect();
    Requests::mixed(read, write, reads)
}

/// A filter of many terms and a distance, three decays and an expression.
fn complex(terms: usize, random: &mut Random) -> Value {
    let (lat, lon) = place(random);
    let begin = random.below(GROUPS);
    // Every third of a stretch: neither all of a range nor without neighbours.
    let terms: Vec<usize> = (0..terms).map(|n| (begin + n * 3) % GROUPS).collect();
    json!({
        "size": 10,
        "query": { "function_score": {
            "query": { "bool": { "filter": [
                { "terms": { "group": terms } },
                { "geo_distance": { "distance": "3000km", "location": { "lat": lat, "lon": lon } } },
            ] } },
            "functions": [
                { "gauss": { "location": { "origin": { "lat": lat, "lon": lon }, "scale": "500km" } } },
                { "exp": { "population": { "origin": 100_000, "scale": 50_000 } } },
                { "linear": { "at": { "origin": DATE_MS, "scale": "30d" } } },
                { "script_score": { "script": {
                    "lang": "expression", "source": "ln(1 + abs(doc['population']))" } } },
            ],
            "score_mode": "sum", "boost_mode": "replace" } },
    })
}

/// A search of Rally's, where and when the corpus has documents.
fn named(name: &str, corpus: &Corpus, random: &mut Random) -> Value {
    let (lat, lon) = corpus.place(random);
    let (begin_s, length_s) = corpus.times_s();
    let from_s = begin_s + random.below(usize::try_from(length_s / 2).unwrap_or(1)) as u64;
    let to_s = from_s + (length_s / 20).max(1);
    let range = json!({ "range": { "@timestamp": { "gte": from_s, "lt": to_s } } });
    let point = json!({ "lat": lat, "lon": lon });
    let distance =
        |km: u32| json!({ "geo_distance": { "distance": format!("{km}km"), "location": point } });
    let monthly = json!({ "size": 0, "query": { "match_all": {} }, "aggs": { "articles_over_time": {
        "date_histogram": { "field": "timestamp", "calendar_interval": "month" } } } });
    match name {
        "term" => json!({ "query": { "term": { "body": "physician" } } }),
        "phrase" => json!({ "query": { "match_phrase": { "body": "newspaper coverage" } } }),
        "articles-monthly-agg-uncached" | "articles-monthly-agg-cached" => monthly,
        "range" => json!({ "query": range }),
        "status-200s-in-range" => json!({ "query": { "bool": {
            "must": [range, { "match": { "status": 200 } }] } } }),
        "hourly-agg" => json!({ "size": 0, "aggs": { "by_hour": {
            "date_histogram": { "field": "@timestamp", "fixed_interval": "1h" } } } }),
        "desc-sort-timestamp" => json!({
            "query": range, "sort": [{ "@timestamp": "desc" }] }),
        "bbox" => json!({ "query": { "geo_bounding_box": { "location": {
            "top_left": { "lat": (lat + 5.0).min(90.0), "lon": (lon - 5.0).max(-180.0) },
            "bottom_right": {
                "lat": (lat - 5.0).max(-90.0), "lon": (lon + 5.0).min(180.0) } } } } }),
        "distance" => json!({ "query": distance(200) }),
        "distance-range" => json!({ "query": { "bool": {
            "must": [distance(2_000)], "must_not": [distance(200)] } } }),
        _ => json!({ "query": { "match_all": {} } }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(operation: Operation, shape: Shape) -> Vec<Value> {
        let corpus = Corpus::of_seed(shape, 1_000, 1);
        let all = requests(operation, &corpus, "i", "h", 1).rendered;
        let body = |bytes: &Vec<u8>| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
            serde_json::from_str(body).unwrap_or(Value::Null)
        };
        all.iter().map(body).collect()
    }

    #[test]
    fn the_complex_query_has_the_terms_that_were_asked_for() {
        let all = bodies(Operation::Complex { terms: 500 }, Shape::Places);
        assert_eq!(all.len(), SEARCHES);
        let filters = &all[0]["query"]["function_score"]["query"]["bool"]["filter"];
        let terms = filters[0]["terms"]["group"].as_array().unwrap();
        let different: std::collections::BTreeSet<u64> =
            terms.iter().filter_map(Value::as_u64).collect();
        assert_eq!((terms.len(), different.len()), (500, 500));
        assert_ne!(all[0], all[1]);
    }

    #[test]
    fn named_operations_ask_for_fields_that_their_corpus_has() {
        for (name, shape) in NAMED {
            let all = bodies(Operation::Named(name), shape);
            let properties = Corpus::of_seed(shape, 1, 1).properties();
            let fields = ["body", "timestamp", "@timestamp", "status", "location"];
            for field in fields {
                let is_asked = all[0].to_string().contains(&format!("\"{field}\""));
                assert!(!is_asked || properties.get(field).is_some(), "{name}: {field}");
            }
            assert!(
                name == "default"
                    || all[0].get("aggs").is_some()
                    || all[0]["query"]["match_all"].is_null()
            );
        }
    }

    #[test]
    fn a_mix_has_reads_and_writes_of_the_same_documents() {
        let all = bodies(Operation::Documents { reads: 0.9 }, Shape::Places);
        let writes = all.iter().filter(|body| body.is_object()).count();
        assert_eq!((all.len(), writes), (2 * KEYS, KEYS));
        let rows = rows("k", 10, 0.5);
        assert!(rows.rendered[KEYS].starts_with(b"*3\r\n$3\r\nSET\r\n"));
    }
}
