//! Values that hits show: what scripts compute, what was left out, sort values of dates; and when
//! a search says that it ended early.

use serde_json::{Value, json};

use super::Fixture;

fn fixture() -> Fixture {
    let mapping = json!({"properties": {
        "n": {"type": "long"}, "u": {"type": "unsigned_long"}, "f": {"type": "double"},
        "d": {"type": "date"}, "dn": {"type": "date_nanos"}, "b": {"type": "boolean"},
        "m": {"type": "long", "ignore_malformed": true}, "k": {"type": "keyword", "ignore_above": 3},
        "p": {"type": "geo_point"},
    }});
    let documents = [
        json!({"n": [7, 5], "u": 18_446_744_073_709_551_615_u64, "f": 2.0, "d": "2024-01-02", "b": true,
            "dn": "2024-01-02T00:00:00.123456789Z", "m": "bad", "k": ["long", "ok"], "p": [2, 1]}),
        json!({"n": 9_007_199_254_740_993_i64, "m": 3, "k": "ok"}),
        json!({"m": ["bad", "worse", 3]}),
    ];
    Fixture::with_segments(mapping, &documents, 2)
}

/// What a script gives of the first document, or the words of its error.
fn shown(fixture: &Fixture, id: &str, script: Value) -> Result<Value, String> {
    let body =
        json!({"query": {"ids": {"values": [id]}}, "script_fields": {"s": {"script": script}}});
    match fixture.search(&body) {
        Ok(found) => {
            let hit = &found["hits"][0];
            assert!(hit.get("_source").is_none(), "{hit}");
            assert_eq!(hit["fields"]["s"].as_array().unwrap().len(), 1);
            Ok(hit["fields"]["s"][0].clone())
        }
        Err(error) => {
            assert_eq!(error.class, crate::ErrorClass::Invalid, "{script}");
            let cause = error.caused_by.as_ref().map(|cause| cause.reason.as_str());
            Err(format!("{} {}", error.reason, cause.unwrap_or_default()))
        }
    }
}

#[test]
fn scripts_give_values_of_their_types() {
    let fixture = fixture();
    for (script, expected) in [
        ("doc['n'].value", json!(5)),
        ("doc['n'].value * 2", json!(10)),
        ("doc['n'].value * 2.0", json!(10.0)),
        ("doc['n'].value / 2", json!(2)),
        ("-doc['n'].value / 2", json!(-2)),
        ("(double) doc['n'].value / 2", json!(2.5)),
        ("double x = doc['n'].value; return x / 2", json!(2.5)),
        ("double x = 1; x = doc['n'].value; x += 1; return x / 4", json!(1.5)),
        ("long x = doc['n'].value; x++; return x / 4", json!(1)),
        ("doc['n'].value % 2", json!(1)),
        ("doc['f'].value * 5", json!(10.0)),
        ("doc['f'].value / 0", json!("Infinity")),
        ("doc['n'].size()", json!(2)),
        ("doc['n'].empty", json!(false)),
        ("doc['n'].value > 3", json!(true)),
        ("doc['n'].value > 3 ? 1 : 2", json!(1)),
        ("Math.max(doc['n'].value, 6)", json!(6)),
        ("Math.sqrt(doc['f'].value * 8)", json!(4.0)),
        ("Math.round(doc['f'].value)", json!(2)),
        ("doc['u'].value", json!(18_446_744_073_709_551_615_u64)),
        ("doc['b'].value", json!(true)),
        ("doc['d'].value", json!("2024-01-02T00:00:00.000Z")),
        ("doc['d'].value.millis", json!(1_704_153_600_000_i64)),
        ("doc['dn'].value", json!("2024-01-02T00:00:00.123456789Z")),
        ("doc['dn'].value.toInstant().toEpochMilli()", json!(1_704_153_600_123_i64)),
        ("doc['p'].lat", json!(1.0)),
    ] {
        assert_eq!(shown(&fixture, "1", json!(script)), Ok(expected), "{script}");
    }
    let with_params =
        json!({"source": "doc['n'].value * params.a + params.b", "params": {"a": 2, "b": 1}});
    assert_eq!(shown(&fixture, "1", with_params), Ok(json!(11)));
    let expression = json!({"source": "doc['n'] * 2", "lang": "expression"});
    assert_eq!(shown(&fixture, "1", expression), Ok(json!(10.0)));
    // Beyond 2^53 a double would be another number.
    let large = 9_007_199_254_740_993_i64;
    assert_eq!(shown(&fixture, "2", json!("doc['n'].value")), Ok(json!(large)));
    for (id, script, reason) in [
        ("2", "doc['n'].value + 10", "beyond 2^53"),
        ("3", "doc['n'].value", "A document doesn't have a value for a field!"),
        ("3", "doc['n'].value + 1", "A document doesn't have a value for a field!"),
        ("1", "doc['n'].value / 0", "/ by zero"),
        ("1", "doc['k'].value", "must be numeric, date, or geopoint"),
        ("1", "doc['p'].value", "[script_fields] [s]: a point is shown by its [lat] and [lon]"),
    ] {
        let error = shown(&fixture, id, json!(script)).unwrap_err();
        assert!(error.contains(reason), "{script}: {error}");
    }
}

#[test]
fn scripts_that_fail_are_left_out_where_that_is_asked_for() {
    let fixture = fixture();
    let script = json!({"script": "doc['n'].value + 1", "ignore_failure": true});
    let found = fixture.search(&json!({"sort": ["_doc"], "script_fields": {"s": script}})).unwrap();
    assert_eq!(found["hits"][0]["fields"]["s"], json!([6]));
    assert!(found["hits"][2].get("fields").is_none());
    let many: serde_json::Map<String, Value> =
        (0..33).map(|at| (format!("s{at}"), json!({"script": "1"}))).collect();
    for (fields, reason) in [
        (json!({"s": {"script": "1", "bogus": 1}}), "Unknown key for a VALUE_NUMBER in [bogus]."),
        (json!({"s": {}}), "[script_fields] [s] requires a [script]"),
        (Value::from(many), "Trying to retrieve too many script_fields."),
    ] {
        let error = fixture.search(&json!({"script_fields": fields})).unwrap_err();
        assert!(
            error.class == crate::ErrorClass::Invalid && error.reason.starts_with(reason),
            "{}",
            error.reason
        );
    }
}

#[test]
fn the_source_is_shown_with_scripts_where_it_is_asked_for() {
    let fixture = fixture();
    let scripts = json!({"s": {"script": "doc['n'].size()"}});
    for (options, expected) in [
        (json!({}), false),
        (json!({"_source": true}), true),
        (json!({"_source": ["n"]}), true),
        (json!({"_source": false}), false),
        (json!({"stored_fields": ["_source"]}), true),
    ] {
        let mut body = options.clone();
        body["script_fields"] = scripts.clone();
        let found = fixture.search(&body).unwrap();
        assert_eq!(found["hits"][0].get("_source").is_some(), expected, "{options}");
    }
}

#[test]
fn values_that_were_left_out_are_named_and_found() {
    let fixture = fixture();
    let found = fixture.search(&json!({"sort": ["_doc"], "_source": false})).unwrap();
    let ignored: Vec<Value> =
        found["hits"].as_array().unwrap().iter().map(|hit| hit["_ignored"].clone()).collect();
    assert_eq!(ignored, [json!(["k", "m"]), Value::Null, json!(["m"])]);
    fixture.check(json!({"exists": {"field": "_ignored"}}), &["1", "3"]);
    fixture.check(json!({"term": {"_ignored": "k"}}), &["1"]);
    fixture.check(json!({"terms": {"_ignored": ["m", "x"]}}), &["1", "3"]);
    fixture.check(json!({"match": {"_ignored": "m"}}), &["1", "3"]);
    fixture.check(json!({"prefix": {"_ignored": "k"}}), &["1"]);
    fixture.check(json!({"query_string": {"query": "_ignored:k"}}), &["1"]);
    fixture.check(json!({"bool": {"must_not": {"exists": {"field": "_ignored"}}}}), &["2"]);
    let none = fixture.search(&json!({"stored_fields": "_none_", "sort": ["_doc"]})).unwrap();
    assert!(none["hits"][0].get("_ignored").is_none());
    let error =
        fixture.search(&json!({"aggs": {"i": {"terms": {"field": "_ignored"}}}})).unwrap_err();
    assert!(
        error.class == crate::ErrorClass::Invalid && error.reason.contains("[_ignored]"),
        "{}",
        error.reason
    );
}

/// Dates a nanosecond apart, two of each, some documents without one.
fn instants() -> Fixture {
    let documents: Vec<Value> = (0..40)
        .map(|at| match at % 8 {
            7 => json!({"n": at}),
            _ => json!({"n": at, "d": format!("2024-01-01T00:00:00.{:09}Z", 123_456_780 + at / 2)}),
        })
        .collect();
    let mapping = json!({"properties": {"d": {"type": "date_nanos"}, "n": {"type": "long"}}});
    Fixture::with_segments(mapping, &documents, 7)
}

#[test]
fn pages_of_nanoseconds_follow_one_another() {
    let fixture = instants();
    let nanos = "strict_date_optional_time_nanos";
    for (order, clause) in [
        ("asc", json!({"order": "asc"})),
        ("desc", json!({"order": "desc"})),
        ("asc", json!({"order": "asc", "format": nanos})),
        ("desc", json!({"order": "desc", "format": nanos})),
        ("asc", json!({"order": "asc", "missing": "_first"})),
        ("desc", json!({"order": "desc", "missing": "2024-01-01T00:00:00.123456790Z"})),
    ] {
        let sort = json!([{"d": clause}, {"n": order}]);
        let whole = fixture.ids(&json!({"sort": sort, "size": 60}));
        let (mut paged, mut after) = (Vec::new(), Value::Null);
        while paged.len() < 60 {
            let mut body = json!({"sort": sort, "size": 3});
            if !after.is_null() {
                body["search_after"] = after.clone();
            }
            let found = fixture.search(&body).unwrap();
            let hits = found["hits"].as_array().unwrap();
            let Some(last) = hits.last() else { break };
            after = last["sort"].clone();
            paged.extend(hits.iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()));
        }
        assert_eq!(paged, whole, "{sort}");
    }
}

#[test]
fn instants_are_read_in_every_spelling() {
    let fixture = instants();
    let behind = |after: Value, format: Value| {
        let sort = json!([{"d": {"order": "asc", "format": format}}]);
        let body = json!({"sort": sort, "search_after": [after], "size": 2});
        let found = fixture.search(&body).unwrap();
        found["hits"].as_array().unwrap().iter().map(|hit| hit["_id"].clone()).collect::<Vec<_>>()
    };
    let expected = [json!("5"), json!("6")];
    let second = 1_704_067_200_123_456_781_i64;
    for (after, format) in [
        (json!(second), Value::Null),
        (json!(second.to_string()), Value::Null),
        (json!("2024-01-01T00:00:00.123456781Z"), Value::Null),
        (json!("2024-01-01T00:00:00.123456781Z"), json!("strict_date_optional_time_nanos")),
    ] {
        let body = json!({"a": after, "f": format});
        let found = match &format {
            Value::Null => {
                let body = json!({"sort": [{"d": "asc"}], "search_after": [after], "size": 2});
                fixture.ids(&body).into_iter().map(Value::from).collect()
            }
            _ => behind(after, format),
        };
        assert_eq!(found, expected, "{body}");
    }
    // What a format cuts off is not there to be read again: all of the millisecond come after it.
    assert_eq!(behind(json!("1704067200123"), json!("epoch_millis")), [json!("1"), json!("2")]);
    // Those without a date come last, and null stands for them.
    let rest = json!({"sort": [{"d": "asc"}], "search_after": [null], "size": 50});
    assert!(fixture.ids(&rest).is_empty());
    let first = json!({"sort": [{"d": {"order": "asc", "missing": "_first"}}], "search_after": [null], "size": 50});
    assert_eq!(fixture.ids(&first).len(), 35);
    // An index that lacks the field takes what one that has it gave.
    let lacking = json!({"none": {"order": "desc", "unmapped_type": "date_nanos"}});
    let body =
        json!({"sort": [lacking], "search_after": ["2024-01-01T00:00:00.123456781Z"], "size": 50});
    assert_eq!(fixture.ids(&body).len(), 40);
    let body = json!({"sort": [{"d": {"order": "asc", "numeric_type": "date"}}]});
    let error = fixture.search(&body).unwrap_err();
    assert_eq!(
        error.reason,
        "[numeric_type] [date] is not supported on field [d] of type [date_nanos]"
    );
}

#[test]
fn a_search_that_saw_all_did_not_end_early() {
    let documents: Vec<Value> =
        (0..9).map(|at| json!({"n": at, "t": "x ".repeat(at + 1)})).collect();
    let mapping = json!({"properties": {"n": {"type": "long"}, "t": {"type": "text"}}});
    let fixture = Fixture::with_segments(mapping, &documents, 4);
    let some = |count: i64| json!({"range": {"n": {"lt": count}}});
    for query in [
        json!({"bool": {"filter": some(4)}}),
        json!({"bool": {"must": {"match": {"t": "x"}}, "filter": some(4)}}),
    ] {
        for options in [json!({}), json!({"sort": ["n"]}), json!({"size": 0}), json!({"size": 1})] {
            for (after, expected) in
                [(1, (true, 1)), (3, (true, 3)), (4, (false, 4)), (5, (false, 4))]
            {
                let mut body = options.clone();
                body["query"] = query.clone();
                body["terminate_after"] = json!(after);
                let found = fixture.query(&body).unwrap();
                assert_eq!((found.terminated_early, found.total), expected, "{body}");
                let answer = fixture.search(&body).unwrap();
                assert_eq!(
                    answer["total"],
                    json!({"value": expected.1, "relation": "eq"}),
                    "{body}"
                );
            }
        }
    }
}
