//! Which hits are shown in which order, and how.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Fixture;
use crate::aggregation::Unlimited;
use crate::search::{
    Cancelled, FetchedRow, Hit, SearchRequest, SortValue, Surroundings, TrackTotal, fetch_phase,
    query_phase_in, reduce,
};

fn mapping() -> Value {
    json!({"properties": {"t": {"type": "text"}, "k": {"type": "keyword"}, "n": {"type": "long"},
        "f": {"type": "double"}, "d": {"type": "date"}, "p": {"type": "geo_point"}, "b": {"type": "boolean"}}})
}

/// 60 documents in segments of 7: `n` runs down, `k` has 5 values, each third has no `f`.
fn many() -> Fixture {
    let documents: Vec<Value> = (0..60i64)
        .map(|at| {
            let mut document = json!({"n": 100 - at, "k": format!("k{}", at % 5), "t": "word ".repeat(usize::try_from(1 + at % 4).unwrap()),
                "d": format!("2024-01-{:02}", 1 + at % 28), "p": [at as f64, 0.0]});
            if at % 3 != 0 {
                document["f"] = json!(at as f64 / 2.0);
            }
            document
        })
        .collect();
    Fixture::with_segments(mapping(), &documents, 7)
}

fn sorted(fixture: &Fixture, sort: Value, size: usize) -> Vec<Value> {
    let answer = fixture.search(&json!({"sort": sort, "size": size})).unwrap();
    answer["hits"].as_array().unwrap().iter().map(|hit| hit["sort"].clone()).collect()
}

#[test]
fn hits_are_sorted() {
    let fixture = many();
    assert_eq!(sorted(&fixture, json!(["n"]), 3), [json!([41]), json!([42]), json!([43])]);
    assert_eq!(sorted(&fixture, json!([{"n": "desc"}]), 2), [json!([100]), json!([99])]);
    assert_eq!(
        sorted(&fixture, json!([{"k": "desc"}, {"n": {"order": "asc"}}]), 2),
        [json!(["k4", 41]), json!(["k4", 46])]
    );
    assert_eq!(
        sorted(&fixture, json!([{"f": {"order": "asc", "missing": "_first"}}, "n"]), 1),
        [json!(["-Infinity", 43])]
    );
    assert_eq!(sorted(&fixture, json!([{"f": "desc"}]), 1), [json!([29.5])]);
    assert_eq!(
        sorted(&fixture, json!([{"f": {"order": "asc", "missing": 0.75}}]), 2),
        [json!([0.5]), json!([0.75])]
    );
    assert_eq!(
        sorted(&fixture, json!([{"d": {"order": "asc", "format": "yyyy-MM-dd"}}]), 1),
        [json!(["2024-01-01"])]
    );
    assert_eq!(sorted(&fixture, json!([{"d": "asc"}]), 1), [json!([1_704_067_200_000_i64])]);
    assert_eq!(
        sorted(&fixture, json!([{"zzz": {"unmapped_type": "long"}}]), 1),
        [json!([i64::MAX])]
    );
    assert_eq!(
        sorted(&fixture, json!([{"_geo_distance": {"p": [3.0, 0.0], "unit": "km"}}]), 1),
        [json!([0.0])]
    );
    assert_eq!(
        sorted(&fixture, json!([{"_script": {"type": "number", "script": "-doc['n'].value"}}]), 1),
        [json!([-100.0])]
    );
    let found =
        fixture.search(&json!({"sort": ["_score"], "query": {"match": {"t": "word"}}})).unwrap();
    assert!(found["hits"][0]["_score"].is_number() && found["max_score"].is_number());
    for (sort, reason) in [
        (json!(["t"]), "Text fields are not optimised"),
        (json!(["zzz"]), "No mapping found for [zzz] in order to sort on"),
        (json!([{"n": "sideways"}]), "Unknown SortOrder [sideways]"),
    ] {
        let error = fixture.search(&json!({"sort": sort})).unwrap_err();
        assert!(error.reason.starts_with(reason), "{}", error.reason);
    }
}

/// Every order by pages is the order as a whole, whether by `search_after` or by going on.
#[test]
fn pages_follow_one_another() {
    let fixture = many();
    for sort in [
        json!([{"n": "asc"}]),
        json!([{"k": "asc"}, {"n": "desc"}]),
        json!([{"f": {"order": "desc"}}, {"n": "asc"}]),
        json!([{"k": {"order": "desc", "missing": "_first"}}, {"n": "asc"}]),
        json!([{"_score": "desc"}, {"n": "asc"}]),
        json!(["_doc"]),
    ] {
        let query = json!({"match": {"t": "word"}});
        let whole = fixture.ids(&json!({"query": query, "sort": sort, "size": 60}));
        assert_eq!(whole.len(), 60);
        let (mut paged, mut after) = (Vec::new(), Value::Null);
        loop {
            let mut body = json!({"query": query, "sort": sort, "size": 7});
            if !after.is_null() {
                body["search_after"] = after.clone();
            }
            let answer = fixture.search(&body).unwrap();
            let hits = answer["hits"].as_array().unwrap();
            let Some(last) = hits.last() else { break };
            after = last["sort"].clone();
            paged.extend(hits.iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()));
        }
        assert_eq!(paged, whole, "{sort}");
        assert_eq!(
            continued(&fixture, &json!({"query": query, "sort": sort, "size": 7})),
            60,
            "{sort}"
        );
    }
    assert_eq!(continued(&fixture, &json!({"size": 7})), 60);
    assert_eq!(continued(&fixture, &json!({"size": 7, "query": {"match": {"t": "word"}}})), 60);
}

/// Of documents that score nearly alike, pages show each once: the first is not chosen by scores that are rounded
/// otherwise than those that the next goes on from.
#[test]
fn pages_by_score_lose_none_of_those_that_score_alike() {
    let mut drawn = 3_u32;
    let mut word = || {
        drawn = drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ["x", "y", "z"][(drawn >> 16) as usize % 3]
    };
    let documents: Vec<Value> =
        (0..600).map(|_| json!({"t": format!("{} {} {}", word(), word(), word())})).collect();
    for segment in [600, 150] {
        let fixture = Fixture::with_segments(mapping(), &documents, segment);
        for size in [1, 3, 7, 50] {
            let body = json!({"size": size, "query": {"match": {"t": "x y z"}}});
            assert_eq!(continued(&fixture, &body), 600, "{size} of segments of {segment}");
            let mut by_numbers = Vec::new();
            for from in (0..600).step_by(size) {
                let mut body = body.clone();
                body["from"] = json!(from);
                by_numbers.extend(fixture.ids(&body));
            }
            let mut whole = body;
            whole["size"] = json!(600);
            assert!(by_numbers == fixture.ids(&whole), "{size} of segments of {segment}");
        }
    }
}

/// How many different documents going on from the last hit finds, each better than the next.
fn continued(fixture: &Fixture, body: &Value) -> usize {
    let request = SearchRequest::parse(body).unwrap();
    let mut seen = std::collections::HashSet::new();
    let mut after: Option<Hit> = None;
    loop {
        let never = Cancelled::never();
        let mut around = Surroundings::simple(super::NOW_MS, &never);
        (around.after, around.goes_on) = (after.as_ref(), true);
        let found = query_phase_in(&fixture.view, &request, &around).unwrap();
        let Some(last) = found.hits.last() else { break };
        for hit in &found.hits {
            assert!(seen.insert(hit.address), "{:?} was found twice", hit.address);
        }
        let last = last.clone();
        after = Some(last);
    }
    seen.len()
}

#[test]
fn scores_order_hits_and_pruning_changes_nothing() {
    let fixture = many();
    let body = |total: Value| json!({"query": {"match": {"t": "word"}}, "size": 9, "track_total_hits": total});
    let exact = fixture.query(&body(json!(true))).unwrap();
    let pruned = fixture.query(&body(json!(false))).unwrap();
    assert_eq!(exact.hits, pruned.hits);
    assert_eq!((exact.total, exact.total_is_exact), (60, true));
    assert!(exact.hits.is_sorted_by(|a, b| a.score > b.score || (a.score == b.score && a.address < b.address)));
}

#[test]
fn totals_are_counted_as_far_as_asked() {
    let fixture = many();
    let total = |track: Value, query: Value| {
        fixture.search(&json!({"query": query, "track_total_hits": track, "size": 1})).unwrap()["total"].to_string()
    };
    let all = || json!({"match_all": {}});
    assert_eq!(total(json!(true), all()), r#"{"value":60,"relation":"eq"}"#);
    assert_eq!(total(json!(10), all()), r#"{"value":10,"relation":"gte"}"#);
    assert_eq!(total(json!(60), all()), r#"{"value":60,"relation":"eq"}"#);
    assert_eq!(
        total(json!(10), json!({"match": {"t": "word"}})),
        r#"{"value":10,"relation":"gte"}"#
    );
    assert_eq!(total(json!(false), all()), "null");
    let sorted =
        fixture.search(&json!({"sort": ["n"], "track_total_hits": 10, "size": 1})).unwrap();
    assert_eq!(sorted["total"].to_string(), r#"{"value":10,"relation":"gte"}"#);
    let request = SearchRequest::parse(&json!({})).unwrap();
    assert_eq!(request.track_total(), TrackTotal::UpTo(10_000));
}

#[test]
fn parts_of_a_search_work_together() {
    let fixture = many();
    let found = fixture
        .search(
            &json!({"query": {"match_all": {}}, "post_filter": {"term": {"k": "k0"}}, "size": 100}),
        )
        .unwrap();
    assert_eq!(found["hits"].as_array().unwrap().len(), 12);
    let found = fixture.search(&json!({"from": 58, "size": 10})).unwrap();
    assert_eq!(found["hits"].as_array().unwrap().len(), 2);
    let found = fixture.query(&json!({"terminate_after": 5})).unwrap();
    assert!(found.terminated_early && found.hits.len() == 5);
    let found =
        fixture.search(&json!({"query": {"match": {"t": "word"}}, "min_score": 1000})).unwrap();
    assert_eq!(found["total"]["value"], 0);
    let found = fixture.search(&json!({"size": 0})).unwrap();
    assert_eq!(
        found.to_string(),
        r#"{"max_score":null,"hits":[],"total":{"value":60,"relation":"eq"}}"#
    );
    let found = fixture
        .search(&json!({"collapse": {"field": "k"}, "sort": [{"n": "desc"}], "size": 100}))
        .unwrap();
    let sorts: Vec<i64> = found["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["sort"][0].as_i64().unwrap())
        .collect();
    assert_eq!(sorts, [100, 99, 98, 97, 96]);
    assert_eq!(found["hits"][1]["fields"], json!({"k": ["k1"]}));
    let found = fixture.search(&json!({"query": {"match_all": {}}, "size": 2, "rescore": {"window_size": 60,
        "query": {"rescore_query": {"function_score": {"field_value_factor": {"field": "n"}}}, "query_weight": 0}}})).unwrap();
    assert_eq!(found["hits"][0]["_score"], 100.0);
    let cancelled = query_phase_in(
        &fixture.view,
        &SearchRequest::parse(&json!({"sort": ["n"]})).unwrap(),
        &Surroundings::simple(0, &Cancelled::by(|| true)),
    )
    .unwrap();
    assert!(cancelled.hits.len() <= 10);
}

/// Says that a search is cancelled from a look on, and counts the looks.
fn cancelled_from(look: usize) -> (Cancelled, Arc<AtomicUsize>) {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&looks);
    (Cancelled::by(move || counted.fetch_add(1, Ordering::Relaxed) + 1 >= look), looks)
}

#[test]
fn queries_that_walk_through_terms_end_before_their_first_match() {
    let documents: Vec<Value> = (0..3000)
        .map(|n| json!({"k": [format!("a{n:05}"), format!("b{n:05}")], "n": n, "t": format!("w{n}")}))
        .collect();
    let fixture = Fixture::new(mapping(), &documents);
    let ids: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    for clause in [
        json!({"prefix": {"k": "a"}}),
        json!({"wildcard": {"k": "*1"}}),
        json!({"regexp": {"k": "a[0-9]+"}}),
        json!({"term": {"k": {"value": "A00001", "case_insensitive": true}}}),
        json!({"fuzzy": {"t": {"value": "w1000", "fuzziness": 2}}}),
        json!({"query_string": {"query": "w*", "fields": ["t"]}}),
        json!({"match_bool_prefix": {"t": "w"}}),
        json!({"range": {"t": {"gte": "w"}}}),
        json!({"terms": {"k": ids}}),
        json!({"ids": {"values": ids}}),
        json!({"bool": {"filter": {"script": {"script": "doc['n'].value > 5000"}}}}),
    ] {
        let clauses = vec![clause; 400];
        let query = json!({"bool": {"should": clauses}});
        let request = SearchRequest::parse(&json!({"size": 1, "query": query})).unwrap();
        let search = |cancelled: &Cancelled| {
            query_phase_in(&fixture.view, &request, &Surroundings::simple(0, cancelled))
        };
        let (never, looks) = cancelled_from(usize::MAX);
        let whole = search(&never).unwrap();
        assert!(!whole.timed_out);
        let whole = looks.load(Ordering::Relaxed);
        let (middle, _) = cancelled_from(whole / 2);
        let error = search(&middle).unwrap_err();
        assert_eq!(error.kind, "task_cancelled_exception");
        assert!(whole >= 800, "{whole} looks of 400 clauses");
    }
    // Nor is one walk through many terms too long.
    let request = json!({"size": 1, "query": {"wildcard": {"k": "*1*"}}});
    let (never, looks) = cancelled_from(usize::MAX);
    let request = SearchRequest::parse(&request).unwrap();
    query_phase_in(&fixture.view, &request, &Surroundings::simple(0, &never)).unwrap();
    assert!(looks.load(Ordering::Relaxed) >= 5);
}

#[test]
fn nothing_is_shown_of_hits_that_nobody_waits_for() {
    let documents: Vec<Value> = (0..100).map(|n| json!({"n": n})).collect();
    let fixture = Fixture::with_segments(mapping(), &documents, 10);
    let request = json!({"size": 100, "sort": [{"n": "desc"}], "query": {"match_all": {"_name": "all"}},
        "script_fields": {"twice": {"script": "doc['n'].value * 2"}}});
    let request = SearchRequest::parse(&request).unwrap();
    let never = Cancelled::never();
    let hits =
        query_phase_in(&fixture.view, &request, &Surroundings::simple(0, &never)).unwrap().hits;
    let shown = Cell::new(0);
    let rows = |_: &[u8], id: &str| {
        shown.set(shown.get() + 1);
        Ok(Some(FetchedRow { source: fixture.rows[id].clone(), version: 1, seq_no: 0 }))
    };
    let fetch =
        |cancelled| fetch_phase(&fixture.view, &request, "g", &hits, &rows, &Unlimited, cancelled);
    let whole = fetch(&never).unwrap();
    // In the order of the hits, whatever the order of their segments.
    let twice = |hit: &Option<Box<RawValue>>| -> Value {
        let hit: Value = serde_json::from_str(hit.as_ref().unwrap().get()).unwrap();
        assert_eq!(hit["matched_queries"], json!(["all"]));
        hit["fields"]["twice"][0].clone()
    };
    let found: Vec<Value> = whole.iter().map(twice).collect();
    assert_eq!(found, (0..100).rev().map(|n| json!(2 * n)).collect::<Vec<_>>());
    shown.set(0);
    let error = fetch(&cancelled_from(20).0).unwrap_err();
    assert_eq!(error.kind, "task_cancelled_exception");
    assert!(shown.get() < 20, "{} hits were shown", shown.get());
}

#[test]
fn hits_show_what_is_asked() {
    let document = json!({"t": "Foxes run. The quick brown fox jumps over the lazy dog. Dogs sleep.", "k": ["b", "a"],
        "n": [3, 1], "d": "2024-01-02", "b": true, "p": {"lat": 1.5, "lon": 2}});
    let fixture = Fixture::new(mapping(), &[document]);
    let shown = |body: Value| fixture.search(&body).unwrap()["hits"][0].clone();
    assert_eq!(shown(json!({"docvalue_fields": ["k", "n", {"field": "d", "format": "yyyy"}, "b", "p"]}))["fields"].to_string(),
        r#"{"k":["a","b"],"n":[1,3],"d":["2024"],"b":[true],"p":["1.5, 2"]}"#);
    assert_eq!(
        shown(json!({"fields": ["k", "n", "d"], "_source": false})).to_string(),
        r#"{"_index":"g","_id":"1","_score":1.0,"fields":{"k":["b","a"],"n":[3,1],"d":["2024-01-02T00:00:00.000Z"]}}"#
    );
    assert_eq!(
        shown(json!({"stored_fields": []})).to_string(),
        r#"{"_index":"g","_id":"1","_score":1.0}"#
    );
    assert_eq!(
        shown(json!({"stored_fields": "_none_"})).to_string(),
        r#"{"_index":"g","_score":1.0}"#
    );
    assert_eq!(
        shown(json!({"_source": {"excludes": ["t", "p"]}}))["_source"].to_string(),
        r#"{"k":["b","a"],"n":[3,1],"d":"2024-01-02","b":true}"#
    );
    assert_eq!(
        shown(json!({"script_fields": {"s": {"script": "doc['n'].value * 2"}}}))["fields"]["s"],
        json!([2])
    );
    assert_eq!(
        shown(
            json!({"query": {"bool": {"should": [{"term": {"k": {"value": "a", "_name": "first"}}},
        {"term": {"k": {"value": "z", "_name": "second"}}}]}}})
        )["matched_queries"],
        json!(["first"])
    );
    let explained = shown(json!({"explain": true, "query": {"match": {"t": "fox"}}}));
    assert!(
        explained["_explanation"]["value"].is_number()
            && explained["_explanation"]["details"].is_array()
    );
    let highlight = |body: Value| {
        shown(json!({"query": {"match": {"t": "fox dog"}}, "highlight": body}))["highlight"]["t"]
            .clone()
    };
    assert_eq!(
        highlight(json!({"fields": {"t": {"fragment_size": 30}}})),
        json!(["The quick brown <em>fox</em> jumps over", "over the lazy <em>dog</em>."])
    );
    assert_eq!(
        highlight(
            json!({"fields": {"t": {"number_of_fragments": 0}}, "pre_tags": ["["], "post_tags": ["]"]})
        ),
        json!(["Foxes run. The quick brown [fox] jumps over the lazy [dog]. Dogs sleep."])
    );
    let none = shown(
        json!({"query": {"match_all": {}}, "highlight": {"fields": {"t": {"no_match_size": 9}}}}),
    );
    assert_eq!(none["highlight"]["t"], json!(["Foxes run"]));
    let phrase = shown(
        json!({"query": {"match_phrase": {"t": "lazy dog"}}, "highlight": {"fields": {"*": {}}}}),
    );
    assert!(phrase["highlight"]["t"][0].as_str().unwrap().contains("<em>lazy</em> <em>dog</em>"));
}

#[test]
fn a_result_survives_its_bytes_and_partitions_are_merged() {
    let fixture = many();
    let request = SearchRequest::parse(
        &json!({"sort": [{"n": "desc"}], "size": 3, "from": 1, "track_total_hits": 100}),
    )
    .unwrap();
    let copied: SearchRequest =
        serde_json::from_str(&serde_json::to_string(&request).unwrap()).unwrap();
    assert_eq!((copied.size(), copied.from()), (3, 1));
    let result = fixture.query(&json!({"sort": [{"n": "desc"}], "size": 4})).unwrap();
    let copy = serde_json::from_str(&serde_json::to_string(&result).unwrap()).unwrap();
    let reduced = reduce(&request, vec![result, copy]).unwrap();
    let found: Vec<(usize, SortValue)> =
        reduced.hits.iter().map(|(partition, hit)| (*partition, hit.sort[0].clone())).collect();
    assert_eq!(
        found,
        [(1, SortValue::Long(100)), (0, SortValue::Long(99)), (1, SortValue::Long(99))]
    );
    assert_eq!((reduced.total, reduced.total_is_at_least), (Some(100), true));
}
