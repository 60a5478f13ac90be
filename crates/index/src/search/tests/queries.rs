//! Each kind of query finds what it should.

use serde_json::{Value, json};

use super::Fixture;

fn mapping() -> Value {
    json!({"properties": {
        "t": {"type": "text", "fields": {"raw": {"type": "keyword"}}},
        "k": {"type": "keyword"},
        "low": {"type": "keyword", "normalizer": "lowercase"},
        "n": {"type": "long"},
        "u": {"type": "unsigned_long"},
        "f": {"type": "float"},
        "b": {"type": "boolean"},
        "d": {"type": "date"},
        "ip": {"type": "ip"},
        "p": {"type": "geo_point"},
        "o": {"properties": {"x": {"type": "long"}, "y": {"type": "keyword"}}},
        "nest": {"type": "nested", "properties": {"x": {"type": "long"}}}}})
}

fn documents() -> Vec<Value> {
    vec![
        json!({"t": "the quick brown fox", "k": "alpha", "low": "ABC", "n": 1, "u": 1, "f": 1.1, "b": true,
            "d": "2024-01-01", "ip": "10.0.0.1", "p": {"lat": 52.5, "lon": 13.4}, "o": {"x": 1, "y": "a"}}),
        json!({"t": "a lazy brown dog", "k": "beta", "low": "abd", "n": 2, "u": 18_446_744_073_709_551_615_u64,
            "f": 2.5, "b": false, "d": "2024-02-01T10:00:00Z", "ip": "10.1.0.1", "p": [2.35, 48.85]}),
        json!({"t": "quick quick dogs", "k": ["gamma", "alphabet"], "n": [3, 30], "f": -1, "d": "2024-03-10T11:59:00Z",
            "ip": "192.168.1.1", "p": "40.7,-74.0", "nest": [{"x": 5}]}),
        json!({"k": "alpha beta", "n": -4, "b": "true", "ip": "::1", "o": {"x": 9}}),
        json!({"p": {"lat": -18.0, "lon": 179.9}}),
    ]
}

fn fixtures() -> [Fixture; 2] {
    [Fixture::new(mapping(), &documents()), Fixture::with_segments(mapping(), &documents(), 2)]
}

fn check(cases: &[(Value, &[&str])]) {
    for fixture in fixtures() {
        for (query, expected) in cases {
            fixture.check(query.clone(), expected);
        }
    }
}

#[test]
fn full_text() {
    check(&[
        (json!({"match": {"t": "quick dog"}}), &["1", "2", "3"]),
        (json!({"match": {"t": {"query": "quick fox", "operator": "and"}}}), &["1"]),
        (
            json!({"match": {"t": {"query": "quick brown dog", "minimum_should_match": 2}}}),
            &["1", "2"],
        ),
        (
            json!({"match": {"t": {"query": "quick brown dog", "minimum_should_match": "-1"}}}),
            &["1", "2"],
        ),
        (json!({"match": {"t": {"query": "qiuck", "fuzziness": "AUTO"}}}), &["1", "3"]),
        (json!({"match": {"t": ""}}), &[]),
        (
            json!({"match": {"t": {"query": "", "zero_terms_query": "all"}}}),
            &["1", "2", "3", "4", "5"],
        ),
        (json!({"match": {"n": 1}}), &["1"]),
        (json!({"match": {"n": {"query": "x", "lenient": true}}}), &[]),
        (json!({"match": {"nosuch": "x"}}), &[]),
        (json!({"match_phrase": {"t": "brown fox"}}), &["1"]),
        (json!({"match_phrase": {"t": "fox brown"}}), &[]),
        (json!({"match_phrase": {"t": {"query": "quick fox", "slop": 1}}}), &["1"]),
        (json!({"match_phrase_prefix": {"t": "brown f"}}), &["1"]),
        (json!({"match_phrase_prefix": {"t": "qui"}}), &["1", "3"]),
        (json!({"match_bool_prefix": {"t": "lazy do"}}), &["2", "3"]),
        (json!({"multi_match": {"query": "alpha", "fields": ["t", "k"]}}), &["1"]),
        (
            json!({"multi_match": {"query": "brown", "fields": ["t*"], "type": "most_fields"}}),
            &["1", "2"],
        ),
        (
            json!({"multi_match": {"query": "quick fox", "fields": ["t"], "type": "cross_fields", "operator": "and"}}),
            &["1"],
        ),
        (json!({"multi_match": {"query": "brown fox", "fields": ["t"], "type": "phrase"}}), &["1"]),
        (json!({"multi_match": {"query": "1"}}), &["1"]),
    ]);
}

#[test]
fn term_level() {
    check(&[
        (json!({"term": {"k": "alpha"}}), &["1"]),
        (json!({"term": {"k": {"value": "ALPHA", "case_insensitive": true}}}), &["1"]),
        (json!({"term": {"low": "Abc"}}), &["1"]),
        (json!({"term": {"n": 30}}), &["3"]),
        (json!({"term": {"n": "2"}}), &["2"]),
        (json!({"term": {"n": 1.5}}), &[]),
        (json!({"term": {"u": 18_446_744_073_709_551_615_u64}}), &["2"]),
        (json!({"term": {"f": 1.1}}), &["1"]),
        (json!({"term": {"b": true}}), &["1", "4"]),
        (json!({"term": {"b": "false"}}), &["2"]),
        (json!({"term": {"d": "2024-01-01"}}), &["1"]),
        (json!({"term": {"ip": "10.0.0.1"}}), &["1"]),
        (json!({"term": {"ip": "10.0.0.0/8"}}), &["1", "2"]),
        (json!({"term": {"t.raw": "a lazy brown dog"}}), &["2"]),
        (json!({"term": {"_id": "4"}}), &["4"]),
        (json!({"terms": {"k": ["alpha", "gamma", "zzz"]}}), &["1", "3"]),
        (json!({"terms": {"n": [1, "30", 99]}}), &["1", "3"]),
        (json!({"terms": {"b": [true, false]}}), &["1", "2", "4"]),
        (json!({"terms": {"_id": ["1", "5", "x"]}}), &["1", "5"]),
        (json!({"ids": {"values": ["2", "3"]}}), &["2", "3"]),
        (json!({"exists": {"field": "t"}}), &["1", "2", "3"]),
        (json!({"exists": {"field": "f"}}), &["1", "2", "3"]),
        (json!({"exists": {"field": "p"}}), &["1", "2", "3", "5"]),
        (json!({"exists": {"field": "o"}}), &["1", "4"]),
        (json!({"exists": {"field": "nosuch"}}), &[]),
        (json!({"prefix": {"k": "alp"}}), &["1", "3", "4"]),
        (json!({"prefix": {"k": {"value": "ALP", "case_insensitive": true}}}), &["1", "3", "4"]),
        (json!({"wildcard": {"k": "a*a"}}), &["1", "4"]),
        (json!({"wildcard": {"k": "?eta"}}), &["2"]),
        (json!({"wildcard": {"t": "qu*"}}), &["1", "3"]),
        (json!({"regexp": {"k": "[ab].*a"}}), &["1", "2", "4"]),
        (json!({"fuzzy": {"k": "alpa"}}), &["1"]),
        (json!({"fuzzy": {"k": {"value": "alphx", "fuzziness": 1}}}), &["1"]),
    ]);
}

#[test]
fn ranges() {
    check(&[
        (json!({"range": {"n": {"gte": 2, "lt": 30}}}), &["2", "3"]),
        (json!({"range": {"n": {"gt": 2}}}), &["3"]),
        (json!({"range": {"n": {"gte": 1.5}}}), &["2", "3"]),
        (json!({"range": {"n": {"lt": 0}}}), &["4"]),
        (json!({"range": {"n": {"from": 1, "to": 3, "include_upper": false}}}), &["1", "2"]),
        (json!({"range": {"n": {"gte": 5, "lte": 1}}}), &[]),
        (json!({"range": {"n": {"gt": 9_223_372_036_854_775_807_i64}}}), &[]),
        (json!({"range": {"n": {}}}), &["1", "2", "3", "4"]),
        (json!({"range": {"u": {"gt": 1}}}), &["2"]),
        (json!({"range": {"f": {"gt": 1.1}}}), &["2"]),
        (json!({"range": {"f": {"gte": 1.1}}}), &["1", "2"]),
        (json!({"range": {"d": {"gte": "now-1h"}}}), &["3"]),
        (json!({"range": {"d": {"gte": "now/d", "lte": "now/d"}}}), &["3"]),
        (json!({"range": {"d": {"gte": "2024-01-01||/M", "lte": "2024-01-01||/M"}}}), &["1"]),
        (json!({"range": {"d": {"gt": "2024-01-01", "lte": "2024-02-01"}}}), &["2"]),
        (json!({"range": {"d": {"gte": "01/02/2024", "format": "dd/MM/yyyy"}}}), &["2", "3"]),
        (
            json!({"range": {"d": {"gte": "2024-01-01T01:00:00", "time_zone": "+01:00", "lt": "2024-01-02"}}}),
            &["1"],
        ),
        (json!({"range": {"d": {"lt": 1_706_000_000_000_i64}}}), &["1"]),
        (json!({"range": {"ip": {"gte": "10.0.0.0", "lt": "11.0.0.0"}}}), &["1", "2"]),
        (json!({"range": {"k": {"gte": "alpha", "lt": "beta"}}}), &["1", "3", "4"]),
        (json!({"range": {"k": {"gt": "alpha", "lte": "beta"}}}), &["2", "3", "4"]),
        (json!({"range": {"t": {"gte": "fox", "lte": "lazy"}}}), &["1", "2"]),
        (json!({"range": {"b": {"gte": true}}}), &["1", "4"]),
    ]);
}

#[test]
fn compound() {
    let term = |value: &str| json!({"term": {"k": value}});
    check(&[
        (json!({"match_all": {}}), &["1", "2", "3", "4", "5"]),
        (json!({"match_none": {}}), &[]),
        (json!({"bool": {}}), &["1", "2", "3", "4", "5"]),
        (json!({"bool": {"must_not": [term("alpha")]}}), &["2", "3", "4", "5"]),
        (
            json!({"bool": {"filter": {"exists": {"field": "t"}}, "must_not": term("alpha")}}),
            &["2", "3"],
        ),
        (json!({"bool": {"should": [term("alpha"), term("beta")]}}), &["1", "2"]),
        (
            json!({"bool": {"should": [term("alpha"), {"term": {"n": 1}}, {"term": {"n": 2}}], "minimum_should_match": 2}}),
            &["1"],
        ),
        (
            json!({"bool": {"filter": {"range": {"n": {"gte": 1}}}, "should": [term("alpha")]}}),
            &["1", "2", "3"],
        ),
        (
            json!({"bool": {"filter": {"range": {"n": {"gte": 1}}}, "should": [term("alpha")], "minimum_should_match": 1}}),
            &["1"],
        ),
        (json!({"bool": {"should": [term("alpha")], "minimum_should_match": 2}}), &[]),
        (
            json!({"bool": {"must": [{"match": {"t": "brown"}}, {"range": {"n": {"lte": 1}}}]}}),
            &["1"],
        ),
        (json!({"bool": {"must": [{"match_none": {}}], "should": [{"match_all": {}}]}}), &[]),
        (json!({"constant_score": {"filter": term("alpha")}}), &["1"]),
        (json!({"dis_max": {"queries": [term("alpha"), term("gamma")]}}), &["1", "3"]),
        (
            json!({"boosting": {"positive": {"exists": {"field": "t"}}, "negative": term("alpha"), "negative_boost": 0.1}}),
            &["1", "2", "3"],
        ),
    ]);
}

#[test]
fn strings_of_queries() {
    let of = |text: &str| json!({"query_string": {"query": text, "default_field": "t"}});
    let simple = |text: &str| json!({"simple_query_string": {"query": text, "fields": ["t"]}});
    check(&[
        (of("quick AND fox"), &["1"]),
        (of("quick OR lazy"), &["1", "2", "3"]),
        (of("quick -fox"), &["3"]),
        (of("NOT quick"), &["2", "4", "5"]),
        (of("\"brown fox\""), &["1"]),
        (of("k:alpha"), &["1"]),
        (of("n:[2 TO 30]"), &["2", "3"]),
        (of("n:>2"), &["3"]),
        (of("qu*"), &["1", "3"]),
        (of("QU*"), &["1", "3"]),
        (of("k:/[ab]eta/"), &["2"]),
        (of("qiuck~"), &["1", "3"]),
        (of("*:*"), &["1", "2", "3", "4", "5"]),
        (of("f:*"), &["1", "2", "3"]),
        (of("_exists_:b"), &["1", "2", "4"]),
        (of("d:{2024-01-01 TO *}"), &["2", "3"]),
        (json!({"query_string": {"query": "alpha"}}), &["1"]),
        (
            json!({"query_string": {"query": "quick fox", "default_field": "t", "default_operator": "AND"}}),
            &["1"],
        ),
        (simple("quick + fox"), &["1"]),
        (simple("fox | dog"), &["1", "2"]),
        (simple("\"lazy brown\""), &["2"]),
        (simple("qu*"), &["1", "3"]),
        (simple("((("), &[]),
    ]);
}

#[test]
fn places() {
    check(&[
        (json!({"geo_distance": {"distance": "10km", "p": "52.5,13.4"}}), &["1"]),
        (json!({"geo_distance": {"distance": "900km", "p": {"lat": 50, "lon": 8}}}), &["1", "2"]),
        (json!({"geo_distance": {"distance": "100km", "p": [-179.9, -18]}}), &["5"]),
        (
            json!({"geo_bounding_box": {"p": {"top_left": {"lat": 53, "lon": 2}, "bottom_right": {"lat": 48, "lon": 14}}}}),
            &["1", "2"],
        ),
        (
            json!({"geo_bounding_box": {"p": {"top": 0, "left": 170, "bottom": -20, "right": -170}}}),
            &["5"],
        ),
        (json!({"geo_distance": {"distance": "1km", "zzz": [1, 1], "ignore_unmapped": true}}), &[]),
    ]);
}

#[test]
fn scripts() {
    let script = |source: &str| json!({"script": {"script": {"source": source}}});
    check(&[
        (script("doc['n'].size() > 0 && doc['n'].value > 1"), &["2", "3"]),
        (script("doc['p'].size() == 0"), &["4"]),
        (
            json!({"script_score": {"query": {"exists": {"field": "f"}}, "script": {"source": "doc['f'].value > 1 ? 5 : 0"}, "min_score": 1}}),
            &["1", "2"],
        ),
    ]);
}

#[test]
fn what_does_not_fit_a_field_is_refused() {
    let fixture = &fixtures()[0];
    for (query, kind) in [
        (json!({"term": {"n": "x"}}), "query_shard_exception"),
        (json!({"terms": {"n": [1, "x"]}}), "query_shard_exception"),
        (json!({"term": {"b": "maybe"}}), "query_shard_exception"),
        (json!({"term": {"ip": "x"}}), "query_shard_exception"),
        (json!({"range": {"d": {"gte": "now-1x"}}}), "parse_exception"),
        (json!({"prefix": {"n": "1"}}), "query_shard_exception"),
        (json!({"regexp": {"k": "a{1000}{1000}"}}), "query_shard_exception"),
        (json!({"regexp": {"k": "("}}), "query_shard_exception"),
        (json!({"nested": {"path": "o", "query": {"match_all": {}}}}), "parsing_exception"),
        (json!({"geo_distance": {"distance": "1km", "zzz": [1, 1]}}), "query_shard_exception"),
        (
            json!({"script_score": {"query": {"term": {"n": -4}}, "script": "doc['f'].value"}}),
            "script_exception",
        ),
        (
            json!({"script_score": {"query": {"term": {"n": -4}}, "script": "doc['n'].value"}}),
            "illegal_argument_exception",
        ),
        (
            json!({"function_score": {"gauss": {"zzz": {"origin": 1, "scale": 1}}}}),
            "parsing_exception",
        ),
        (
            json!({"function_score": {"gauss": {"n": {"origin": 1, "scale": 0}}}}),
            "illegal_argument_exception",
        ),
    ] {
        let error = fixture.search(&json!({"query": query})).expect_err(&query.to_string());
        assert_eq!(
            (error.class, error.kind.as_ref()),
            (crate::ErrorClass::Invalid, kind),
            "{query}: {}",
            error.reason
        );
    }
    let clauses: Vec<Value> = (0..1025).map(|_| json!({"match_all": {}})).collect();
    let error = fixture.search(&json!({"query": {"bool": {"should": clauses}}})).unwrap_err();
    assert!(error.reason.contains("maxClauseCount is set to 1024"));
}

/// BM25 by hand, with Lucene's factor k1 + 1.
fn bm25(freq: f64, length: f64, mean: f64, doc_freq: f64, count: f64) -> f64 {
    let idf = (1.0 + (count - doc_freq + 0.5) / (doc_freq + 0.5)).ln();
    2.2 * idf * freq / (freq + 1.2 * (0.25 + 0.75 * length / mean))
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-5 * expected.abs().max(1.0), "{found} is not {expected}");
}

#[test]
fn scores_are_those_of_bm25() {
    for fixture in fixtures() {
        // Three documents have a text, of 4, 4 and 3 words.
        let mean = 11.0 / 3.0;
        near(fixture.score(&json!({"match": {"t": "fox"}}), "1"), bm25(1.0, 4.0, mean, 1.0, 3.0));
        near(fixture.score(&json!({"match": {"t": "quick"}}), "3"), bm25(2.0, 3.0, mean, 2.0, 3.0));
        let both = bm25(1.0, 4.0, mean, 1.0, 3.0) + bm25(1.0, 4.0, mean, 2.0, 3.0);
        near(fixture.score(&json!({"match": {"t": "quick fox"}}), "1"), both);
        near(fixture.score(&json!({"bool": {"must": [{"match": {"t": "fox"}}, {"match_all": {}}], "filter": {"term": {"n": 1}}}}), "1"),
            bm25(1.0, 4.0, mean, 1.0, 3.0) + 1.0);
        near(
            fixture.score(&json!({"match": {"t": {"query": "fox", "boost": 3}}}), "1"),
            3.0 * bm25(1.0, 4.0, mean, 1.0, 3.0),
        );
        // A keyword has no lengths: each counts as 1. Four documents have five values.
        near(fixture.score(&json!({"term": {"k": "beta"}}), "2"), bm25(1.0, 1.0, 1.25, 1.0, 4.0));
        near(fixture.score(&json!({"term": {"n": 1}}), "1"), 1.0);
        near(fixture.score(&json!({"terms": {"k": ["beta"]}}), "2"), 1.0);
        near(fixture.score(&json!({"bool": {"filter": {"term": {"k": "beta"}}}}), "2"), 0.0);
        near(
            fixture.score(
                &json!({"constant_score": {"filter": {"match": {"t": "fox"}}, "boost": 2.5}}),
                "1",
            ),
            2.5,
        );
        near(fixture.score(&json!({"bool": {"should": [{"term": {"n": 1}}, {"term": {"b": true}}, {"exists": {"field": "f"}}]}}), "2"), 1.0);
        near(fixture.score(&json!({"dis_max": {"queries": [{"constant_score": {"filter": {"term": {"n": 1}}, "boost": 3}}, {"term": {"n": 1}}], "tie_breaker": 0.5}}), "1"), 3.5);
        near(fixture.score(&json!({"boosting": {"positive": {"match_all": {}}, "negative": {"term": {"n": 1}}, "negative_boost": 0.25}}), "1"), 0.25);
    }
}

#[test]
fn functions_change_scores() {
    let with = |rest: Value| {
        let mut body = json!({"query": {"exists": {"field": "f"}}});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"function_score": body})
    };
    for fixture in fixtures() {
        near(fixture.score(&with(json!({"weight": 4})), "1"), 4.0);
        near(
            fixture.score(
                &with(
                    json!({"field_value_factor": {"field": "n", "factor": 2, "modifier": "log2p"}}),
                ),
                "2",
            ),
            6f64.log10(),
        );
        near(fixture.score(&with(json!({"gauss": {"n": {"origin": 1, "scale": 1}}})), "2"), 0.5);
        near(
            fixture
                .score(&with(json!({"gauss": {"n": {"origin": 1, "scale": 1, "offset": 1}}})), "2"),
            1.0,
        );
        near(
            fixture
                .score(&with(json!({"exp": {"n": {"origin": 0, "scale": 1, "decay": 0.3}}})), "2"),
            0.09,
        );
        near(fixture.score(&with(json!({"linear": {"n": {"origin": 0, "scale": 4}}})), "2"), 0.75);
        // The nearer of two values counts.
        near(fixture.score(&with(json!({"linear": {"n": {"origin": 30, "scale": 4}}})), "3"), 1.0);
        near(
            fixture.score(
                &with(json!({"gauss": {"d": {"origin": "2024-01-11", "scale": "10d"}}})),
                "1",
            ),
            0.5,
        );
        near(
            fixture
                .score(&with(json!({"exp": {"p": {"origin": "52.5,13.4", "scale": "10km"}}})), "1"),
            1.0,
        );
        near(fixture.score(&with(json!({"functions": [{"weight": 2}, {"filter": {"term": {"n": 1}}, "weight": 3}], "score_mode": "sum", "boost_mode": "sum"})), "1"), 6.0);
        near(fixture.score(&with(json!({"functions": [{"weight": 2}, {"filter": {"term": {"n": 1}}, "weight": 3}], "score_mode": "sum", "boost_mode": "replace"})), "2"), 2.0);
        near(
            fixture.score(
                &with(json!({"functions": [{"weight": 2}, {"weight": 4}], "score_mode": "avg"})),
                "2",
            ),
            (2.0 * 1.0 + 4.0 * 1.0) / 6.0,
        );
        near(fixture.score(&with(json!({"functions": [{"filter": {"term": {"n": 1}}, "weight": 9}, {"weight": 4}], "score_mode": "first", "max_boost": 5})), "1"), 5.0);
        near(fixture.score(&with(json!({"script_score": {"script": {"lang": "expression", "source": "abs(ln(abs(doc['n']) + 1) + doc['p'].lon) * _score"}}})), "2"), (3f64.ln() + 2.35).abs());
        near(fixture.score(&json!({"script_score": {"query": {"match_all": {}}, "script": {"source": "params.a * 2", "params": {"a": 3}}}}), "5"), 6.0);
        let body = json!({"query": with(json!({"weight": 2, "min_score": 2.5}))});
        assert!(fixture.ids(&body).is_empty());
        let random = |seed: u64| {
            fixture.ids(&json!({"query": {"function_score": {"random_score": {"seed": seed, "field": "_seq_no"}}}}))
        };
        assert_eq!(random(1), random(1));
        near(fixture.score(&json!({"distance_feature": {"field": "d", "origin": "2024-01-11", "pivot": "10d"}}), "1"), 0.5);
    }
}
