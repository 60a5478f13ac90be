//! How queries are read. What they find is `search/tests/queries.rs`.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::parse;
use super::parse::KNOWN;

fn error(body: &Value) -> String {
    let error = parse(body).expect_err(&body.to_string());
    format!("{} {}", error.kind, error.reason)
}

#[test]
fn queries_are_read() {
    for body in [
        json!({"match_all": {}}),
        json!({"match_all": {"boost": 2}}),
        json!({"match": {"t": "fox"}}),
        json!({"match": {"t": {"query": "fox", "operator": "and", "fuzziness": "AUTO"}}}),
        json!({"match_phrase": {"t": {"query": "a b", "slop": 1}}}),
        json!({"match_phrase_prefix": {"t": "a b"}}),
        json!({"match_bool_prefix": {"t": "a b"}}),
        json!({"multi_match": {"query": "a", "fields": ["t^2", "k*"], "type": "cross_fields"}}),
        json!({"term": {"k": "a"}}),
        json!({"term": {"k": {"value": "a", "case_insensitive": true}}}),
        json!({"terms": {"k": ["a", "b"], "boost": 2}}),
        json!({"range": {"n": {"gte": 1, "lt": 2}}}),
        json!({"range": {"n": {"from": 1, "to": 2, "include_lower": false}}}),
        json!({"bool": {"must": {"match_all": {}}, "should": [], "minimum_should_match": "75%"}}),
        json!({"exists": {"field": "n"}}),
        json!({"prefix": {"k": "a"}}),
        json!({"wildcard": {"k": {"value": "a*", "rewrite": "constant_score"}}}),
        json!({"regexp": {"k": "a.*"}}),
        json!({"fuzzy": {"k": {"value": "abc", "fuzziness": 1}}}),
        json!({"ids": {"values": ["1", 2]}}),
        json!({"constant_score": {"filter": {"term": {"k": "a"}}, "boost": 3}}),
        json!({"dis_max": {"queries": [{"match_all": {}}], "tie_breaker": 0.5}}),
        json!({"boosting": {"positive": {"match_all": {}}, "negative": {"match_all": {}}, "negative_boost": 0.5}}),
        json!({"query_string": {"query": "a AND b"}}),
        json!({"simple_query_string": {"query": "a + b", "flags": "AND|OR"}}),
        json!({"geo_distance": {"distance": "10km", "p": [1, 2]}}),
        json!({"geo_bounding_box": {"p": {"top_left": [0, 2], "bottom_right": {"lat": 1, "lon": 2}}}}),
        json!({"geo_bounding_box": {"p": {"wkt": "BBOX (-74.1, -71.12, 40.73, 40.01)"}}}),
        json!({"function_score": {"functions": [
            {"filter": {"match_all": {}}, "weight": 2},
            {"gauss": {"n": {"origin": 1, "scale": 2}}},
            {"field_value_factor": {"field": "n", "modifier": "log2p"}},
            {"random_score": {"seed": 1, "field": "n"}},
            {"script_score": {"script": {"lang": "expression", "source": "doc['n']"}}}],
            "score_mode": "sum", "boost_mode": "replace", "max_boost": 3, "min_score": 1}}),
        json!({"function_score": {"field_value_factor": {"field": "n"}}}),
        json!({"script_score": {"query": {"match_all": {}}, "script": {"source": "_score"}}}),
        json!({"distance_feature": {"field": "d", "origin": "now", "pivot": "7d"}}),
    ] {
        assert!(parse(&body).is_ok(), "{body}: {:?}", parse(&body).err());
    }
}

#[test]
fn mistakes_have_elasticsearchs_words() {
    for (body, expected) in [
        (json!({"bogus": {}}), "parsing_exception unknown query [bogus]"),
        (json!({}), "illegal_argument_exception query malformed, empty clause found"),
        (json!([]), "parsing_exception [_na] query malformed, must start with start_object"),
        (
            json!({"match": 3}),
            "parsing_exception [match] query malformed, no start_object after query name",
        ),
        (
            json!({"match_all": {}, "term": {}}),
            "parsing_exception [match_all] malformed query, expected [END_OBJECT] but found [FIELD_NAME]",
        ),
        (
            json!({"match": {"t": {"query": "a", "bogus": 1}}}),
            "parsing_exception [match] query does not support [bogus]",
        ),
        (
            json!({"match": {"a": "x", "b": "y"}}),
            "parsing_exception [match] query doesn't support multiple fields, found [a] and [b]",
        ),
        (
            json!({"term": {"k": ["a"]}}),
            "parsing_exception [term] query does not support array of values",
        ),
        (json!({"exists": {}}), "parsing_exception [exists] must be provided with a [field]"),
        (json!({"bool": {"bogus": 1}}), "parsing_exception [bool] query does not support [bogus]"),
        (json!({"span_term": {"k": "a"}}), "parsing_exception query [span_term] is not supported"),
        (
            json!({"geo_distance": {"distance": "10km", "p": [1, 200]}}),
            "illegal_argument_exception illegal latitude value [200.0] for [geo_distance]",
        ),
    ] {
        assert_eq!(error(&body), expected);
    }
}

#[test]
fn an_error_knows_its_place() {
    let text = r#"{"query": {"bogus": {}}}"#;
    let body: Value = serde_json::from_str(text).unwrap();
    let found = crate::search::SearchRequest::parse_text(text, &body).unwrap_err();
    assert_eq!((found.extra["line"].as_u64(), found.extra["col"].as_u64()), (Some(1), Some(21)));
    let cause = found.caused_by.unwrap();
    assert_eq!(cause.reason, "[1:21] unknown field [bogus]");
}

#[test]
fn depth_and_size_have_limits() {
    let mut body = json!({"match_all": {}});
    for _ in 0..100 {
        body = json!({"bool": {"must": body}});
    }
    assert!(error(&body).contains("nested depth"));
    let many: Vec<u32> = (0..70_000).collect();
    assert!(
        error(&json!({"terms": {"n": many}}))
            .contains("has exceeded the allowed maximum of [65536]")
    );
    assert!(error(&json!({"regexp": {"k": "a".repeat(1001)}})).contains("length of regex [1001]"));
}

/// JSON that looks like queries: known names and keys with values of any shape.
fn any_query() -> impl Strategy<Value = Value> {
    let within = [
        "nested",
        "must",
        "should",
        "filter",
        "query",
        "fields",
        "functions",
        "gauss",
        "weight",
        "boost",
        "n",
        "p",
        "t",
        "value",
        "values",
        "gte",
        "lt",
        "distance",
        "top_left",
        "bottom_right",
        "origin",
        "scale",
        "source",
        "lang",
        "params",
        "minimum_should_match",
        "path",
        "negative_boost",
        "positive",
        "negative",
        "queries",
        "wkt",
    ];
    let names: Vec<&str> = KNOWN.into_iter().chain(within).collect();
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("10km")),
        Just(json!("doc['n'].value")),
    ];
    leaf.prop_recursive(6, 64, 5, move |inner| {
        let names = names.clone();
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((prop::sample::select(names), inner), 0..4).prop_map(
                |pairs| pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            ),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_json_panics(body in any_query()) {
        let _ = parse(&body);
        let _ = crate::search::SearchRequest::parse(&body);
    }
}

#[test]
fn the_list_for_users_has_every_query() {
    let page = include_str!("../../../../docs/elasticsearch.md");
    let missing: Vec<_> =
        KNOWN.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/elasticsearch.md lacks {missing:?}");
}
