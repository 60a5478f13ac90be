//! Answers captured from OpenSearch 2.19.1.

use serde_json::{Value, json};

use super::Fixture;

fn mapping() -> Value {
    json!({"properties": {"t": {"type": "text"}, "k": {"type": "keyword"}, "n": {"type": "long"},
        "d": {"type": "date"}, "p": {"type": "geo_point"}}})
}

fn fixture() -> Fixture {
    let fox = json!({"t": "quick brown fox", "k": "a", "n": 6, "d": "2024-01-01", "p": {"lat": 1, "lon": 2}});
    Fixture::new(mapping(), &[fox, json!({"t": "lazy dog", "k": "b", "n": 2}), json!({"n": 5})])
}

#[test]
fn a_score_is_lucenes() {
    // The captured index had deleted documents: 6 texts of 2.5 words on average, 4 with the word.
    let fox = || json!({"t": "quick brown fox"});
    let documents = [fox(), fox(), fox(), fox(), json!({"t": "lazy dog"}), json!({"t": "ext"})];
    let fixture = Fixture::new(mapping(), &documents);
    let answer = fixture.search(&json!({"query": {"match": {"t": "fox"}}})).unwrap();
    assert_eq!(answer["hits"][0]["_score"].to_string(), "0.40841687");
    assert_eq!(answer["max_score"].to_string(), "0.40841687");
}

#[test]
fn a_match_shows_its_highlight_and_versions() {
    let answer = fixture()
        .search(&json!({"query": {"match": {"t": "fox"}}, "highlight": {"fields": {"t": {}}}, "explain": false, "version": true, "seq_no_primary_term": true}))
        .unwrap();
    let mut hit = answer["hits"][0].clone();
    hit["_score"] = Value::Null;
    assert_eq!(
        hit.to_string(),
        r#"{"_index":"g","_id":"1","_version":4,"_seq_no":6,"_primary_term":1,"_score":null,"_source":{"t":"quick brown fox","k":"a","n":6,"d":"2024-01-01","p":{"lat":1,"lon":2}},"highlight":{"t":["quick brown <em>fox</em>"]}}"#
    );
}

#[test]
fn sorted_hits_have_no_scores() {
    let answer = fixture()
        .search(&json!({"query": {"term": {"k": "a"}}, "sort": [{"n": "desc"}], "track_total_hits": false, "_source": ["n"], "highlight": {"fields": {"t": {}}}}))
        .unwrap();
    assert_eq!(
        answer.to_string(),
        r#"{"max_score":null,"hits":[{"_index":"g","_id":"1","_score":null,"_source":{"n":6},"sort":[6]}]}"#
    );
}

fn check_error(body: Value, expected: Value) {
    let error = fixture().search(&body).expect_err(&body.to_string());
    assert_eq!(error.cause_json(), expected, "{body}");
}

#[test]
fn errors_are_elasticsearchs() {
    check_error(
        json!({"query": {"bogus": {}}}),
        json!({"type": "parsing_exception", "reason": "unknown query [bogus]", "line": 1, "col": 19,
            "caused_by": {"type": "named_object_not_found_exception", "reason": "[1:19] unknown field [bogus]"}}),
    );
    check_error(
        json!({"bogus": {}}),
        json!({"type": "parsing_exception", "reason": "Unknown key for a START_OBJECT in [bogus].", "line": 1, "col": 10}),
    );
    check_error(
        json!({"query": {"range": {"n": {"gte": "x"}}}}),
        json!({"type": "query_shard_exception", "reason": "failed to create query: For input string: \"x\"",
            "caused_by": {"type": "number_format_exception", "reason": "For input string: \"x\""}}),
    );
    let plain =
        "failed to parse date field [x] with format [strict_date_optional_time||epoch_millis]";
    check_error(
        json!({"query": {"range": {"d": {"gte": "x"}}}}),
        json!({"type": "parse_exception", "reason": format!("{plain}: [{plain}]"),
            "caused_by": {"type": "illegal_argument_exception", "reason": plain,
                "caused_by": {"type": "date_time_parse_exception", "reason": "Failed to parse with all enclosed parsers"}}}),
    );
    check_error(
        json!({"sort": ["nosuch"]}),
        json!({"type": "query_shard_exception", "reason": "No mapping found for [nosuch] in order to sort on"}),
    );
    check_error(
        json!({"query": {"geo_distance": {"distance": "10km", "n": [1, 2]}}}),
        json!({"type": "query_shard_exception", "reason": "type [long] for field [n] is not supported for [geo_distance] queries. Must be one of [geo_point] or [geo_shape]"}),
    );
    check_error(
        json!({"from": 10_000, "size": 10}),
        json!({"type": "illegal_argument_exception", "reason": "Result window is too large, from + size must be less than or equal to: [10000] but was [10010]. See the scroll api for a more efficient way to request large data sets. This limit can be set by changing the [index.max_result_window] index level setting."}),
    );
}

#[test]
fn a_query_string_that_ends_early_is_lucenes_error() {
    let error =
        fixture().search(&json!({"query": {"query_string": {"query": "a AND"}}})).unwrap_err();
    assert_eq!(
        (error.kind.as_ref(), error.reason.as_str()),
        ("query_shard_exception", "Failed to parse query [a AND]")
    );
    let cause = error.caused_by.unwrap();
    let expected = "Cannot parse 'a AND': Encountered \"<EOF>\" at line 1, column 5.\nWas expecting one of:\n    <NOT> ...\n    \"+\" ...\n    \"-\" ...\n    <BAREOPER> ...\n    \"(\" ...\n    \"*\" ...\n    <QUOTED> ...\n    <TERM> ...\n    <PREFIXTERM> ...\n    <WILDTERM> ...\n    <REGEXPTERM> ...\n    \"[\" ...\n    \"{\" ...\n    <NUMBER> ...\n    <TERM> ...\n    \"*\" ...\n    ";
    assert_eq!(cause.reason, expected);
    assert_eq!(
        cause.caused_by.unwrap().reason,
        expected.trim_start_matches("Cannot parse 'a AND': ")
    );
}

#[test]
fn an_explanation_is_lucenes() {
    let fox = || json!({"t": "quick brown fox"});
    let documents = [fox(), fox(), fox(), fox(), json!({"t": "lazy dog"}), json!({"t": "ext"})];
    let fixture = Fixture::new(mapping(), &documents);
    let request = crate::search::SearchRequest::parse(
        &json!({"query": {"query_string": {"query": "t:fox"}}}),
    )
    .unwrap();
    let found = crate::search::explain(&fixture.view, &request, 0, "4").unwrap().unwrap();
    assert_eq!(
        found,
        json!({"value":0.40841687,"description":"weight(t:fox in 3) [PerFieldSimilarity], result of:","details":[{"value":0.40841687,"description":"score(freq=1.0), computed as boost * idf * tf from:","details":[{"value":2.2,"description":"boost","details":[]},{"value":0.44183275,"description":"idf, computed as log(1 + (N - n + 0.5) / (n + 0.5)) from:","details":[{"value":4,"description":"n, number of documents containing term","details":[]},{"value":6,"description":"N, total number of documents with field","details":[]}]},{"value":0.4201681,"description":"tf, computed as freq / (freq + k1 * (1 - b + b * dl / avgdl)) from:","details":[{"value":1.0,"description":"freq, occurrences of term within document","details":[]},{"value":1.2,"description":"k1, term saturation parameter","details":[]},{"value":0.75,"description":"b, length normalization parameter","details":[]},{"value":3.0,"description":"dl, length of field","details":[]},{"value":2.5,"description":"avgdl, average length of field","details":[]}]}]}]})
    );
    assert_eq!(crate::search::explain(&fixture.view, &request, 0, "5").unwrap(), None);
}
