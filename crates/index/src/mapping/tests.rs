//! Tests of mappings: parsing, merging, what they show.

use serde_json::json;

use super::*;

fn parse(properties: &Value) -> Result<Mapping, Error> {
    Mapping::parse(&json!({ "properties": properties }))
}

#[test]
fn a_mapping_is_shown_as_it_was_put() {
    for (put, shown) in [
        (json!({}), r#"{}"#),
        (json!({"properties": {}}), r#"{}"#),
        (
            json!({"properties": {"t": {"type": "text", "fields": {"k": {"type": "keyword"}}}, "a": {"ignore_above": 10, "type": "keyword"}}}),
            r#"{"properties":{"a":{"type":"keyword","ignore_above":10},"t":{"type":"text","fields":{"k":{"type":"keyword"}}}}}"#,
        ),
        (
            json!({"dynamic": false, "properties": {"o": {"properties": {"x": {"type": "long"}}}, "e": {"type": "object"}, "n": {"type": "nested", "dynamic": "strict", "properties": {"y": {"type": "ip"}}}}}),
            r#"{"dynamic":"false","properties":{"e":{"type":"object"},"n":{"type":"nested","dynamic":"strict","properties":{"y":{"type":"ip"}}},"o":{"properties":{"x":{"type":"long"}}}}}"#,
        ),
        (
            json!({"properties": {"o": {"type": "object", "enabled": false}, "d": {"type": "date", "format": "yyyy-MM-dd"}, "c": {"type": "keyword", "copy_to": "o2", "index": "false"}}}),
            r#"{"properties":{"c":{"type":"keyword","copy_to":["o2"],"index":false},"d":{"type":"date","format":"yyyy-MM-dd"},"o":{"type":"object","enabled":false}}}"#,
        ),
        (
            json!({"_routing": {"required": true}, "_source": {"excludes": ["x"]}, "date_detection": false, "dynamic_templates": [{"all": {"match": "*", "mapping": {"type": "keyword"}}}]}),
            r#"{"_routing":{"required":true},"_source":{"excludes":["x"]},"date_detection":false,"dynamic_templates":[{"all":{"match":"*","mapping":{"type":"keyword"}}}]}"#,
        ),
        (
            json!({"properties": {"a.b.c": {"type": "long"}}}),
            r#"{"properties":{"a":{"properties":{"b":{"properties":{"c":{"type":"long"}}}}}}}"#,
        ),
    ] {
        let mapping = Mapping::parse(&put).unwrap();
        assert_eq!(mapping.to_json().to_string(), shown);
        // What is shown gives the same mapping again.
        assert_eq!(Mapping::parse(&mapping.to_json()).unwrap().to_json().to_string(), shown);
    }
}

#[test]
fn fields_are_found_by_their_paths() {
    let mapping = parse(&json!({
        "user": {"properties": {"name": {"type": "text", "fields": {"raw": {"type": "keyword"}}}, "age": {"type": "short"}}},
        "who": {"type": "alias", "path": "user.name"},
        "items": {"type": "nested", "properties": {"n": {"type": "long"}}},
    }))
    .unwrap();
    assert_eq!(mapping.field("user.name.raw").unwrap().field_type(), FieldType::Keyword);
    assert_eq!(mapping.field("who").unwrap().path(), "user.name");
    assert_eq!(mapping.exact("who").unwrap().alias_of(), Some("user.name"));
    assert!(mapping.field("user").is_none() && mapping.field("user.x").is_none());
    assert_eq!(mapping.paths("user.*"), ["user.age", "user.name", "user.name.raw"]);
    assert_eq!(mapping.paths("*n*e"), ["user.name"]);
    assert!(mapping.is_object("user") && mapping.is_nested("items") && !mapping.is_nested("user"));
    assert_eq!(
        mapping.field_json("user.age").unwrap().to_string(),
        r#"{"full_name":"user.age","mapping":{"age":{"type":"short"}}}"#
    );
}

#[test]
fn what_is_wrong_is_said_as_elasticsearch_says_it() {
    let error = parse(&json!({"x": {"type": "bogus"}})).unwrap_err();
    assert_eq!(
        error.rooted_json().to_string(),
        r#"{"root_cause":[{"type":"mapper_parsing_exception","reason":"No handler for type [bogus] declared on field [x]"}],"type":"mapper_parsing_exception","reason":"Failed to parse mapping [_doc]: No handler for type [bogus] declared on field [x]","caused_by":{"type":"mapper_parsing_exception","reason":"No handler for type [bogus] declared on field [x]"}}"#
    );
    for (properties, reason) in [
        (json!({"x": {}, "y": {"index": true}}), "No type specified for field [y]"),
        (
            json!({"x": {"type": "long", "analyzer": "standard"}}),
            "unknown parameter [analyzer] on mapper [x] of type [long]",
        ),
        (
            json!({"x": {"type": "text", "analyzer": "nope"}}),
            "Failed to parse mapping: analyzer [nope] has not been configured in mappings",
        ),
        (
            json!({"x": {"type": "keyword", "normalizer": "nope"}}),
            "normalizer [nope] not found for field [x]",
        ),
        (
            json!({"x": {"type": "date", "format": "bogus"}}),
            "Invalid format: [bogus]: Unknown pattern letter: b",
        ),
        (
            json!({"x": {"type": "scaled_float"}}),
            "Field [x] misses required parameter [scaling_factor]",
        ),
        (
            json!({"x": {"type": "alias", "path": "y"}}),
            "Invalid [path] value [y] for field alias [x]: an alias must refer to an existing field in the mappings.",
        ),
        (
            json!({"x..y": {"type": "long"}}),
            "object field starting or ending with a [.] makes object resolution ambiguous: [x..y]",
        ),
        (json!({"": {"type": "long"}}), "name cannot be empty string"),
        (
            json!({"x": {"type": "object", "index": true}}),
            "Mapping definition for [x] has unsupported parameters:  [index : true]",
        ),
        (
            json!({"x": {"type": "long", "index": "maybe"}}),
            "Failed to parse value [maybe] as only [true] or [false] are allowed for [index].",
        ),
    ] {
        assert_eq!(
            parse(&properties).unwrap_err().caused_by.unwrap().reason,
            reason,
            "{properties}"
        );
    }
    assert_eq!(
        Mapping::parse(&json!({"bogus": {"a": 1}})).unwrap_err().caused_by.unwrap().reason,
        "Root mapping definition has unsupported parameters:  [bogus : {a=1}]"
    );
    let long = "x".repeat(256);
    assert!(parse(&json!({long: {"type": "long"}})).is_err());
}

#[test]
fn a_mapping_grows_and_what_cannot_change_does_not() {
    let mapping = parse(&json!({
        "n": {"type": "long"}, "k": {"type": "keyword"}, "t": {"type": "text"},
        "o": {"properties": {"a": {"type": "long"}}}, "x": {"type": "keyword", "index": false},
    }))
    .unwrap();
    for (properties, reason) in [
        (
            json!({"n": {"type": "keyword"}}),
            "mapper [n] cannot be changed from type [long] to [keyword]",
        ),
        (
            json!({"o": {"properties": {"a": {"type": "ip"}}}}),
            "mapper [o.a] cannot be changed from type [long] to [ip]",
        ),
        (
            json!({"o": {"type": "long"}}),
            "can't merge a non object mapping [o] with an object mapping",
        ),
        (
            json!({"n": {"properties": {"a": {"type": "long"}}}}),
            "mapper [n] cannot be changed from type [long] to [object]",
        ),
        (
            json!({"o": {"type": "nested"}}),
            "can't merge a non nested mapping [o] with a nested mapping",
        ),
        (
            json!({"t": {"type": "text", "analyzer": "english"}}),
            "Mapper for [t] conflicts with existing mapper:\n\tCannot update parameter [analyzer] from [default] to [english]",
        ),
        (
            json!({"x": {"type": "keyword"}}),
            "Mapper for [x] conflicts with existing mapper:\n\tCannot update parameter [index] from [false] to [true]",
        ),
    ] {
        assert_eq!(mapping.merge(&json!({"properties": properties})).unwrap_err().reason, reason);
    }
    let grown = mapping
        .merge(&json!({"properties": {
            "t": {"type": "text", "analyzer": "default", "fields": {"k": {"type": "keyword"}}},
            "k": {"type": "keyword", "ignore_above": 5}, "o": {"properties": {"b": {"type": "ip"}}},
        }}))
        .unwrap();
    assert_eq!(grown.paths("*"), ["k", "n", "o.a", "o.b", "t", "t.k", "x"]);
    assert_eq!(grown.field("k").unwrap().ignore_above(), Some(5));
    assert_eq!(mapping.paths("*").len(), 5, "the old one is as it was");
    let again = grown.merge(&json!({"properties": {"t": {"type": "text"}}})).unwrap();
    assert!(again.field("t.k").is_some(), "multi-fields stay");
}

#[test]
fn limits_hold() {
    let many: serde_json::Map<String, Value> =
        (0..FIELDS_MAX).map(|at| (format!("f{at}"), json!({"type": "long"}))).collect();
    let full = parse(&Value::Object(many)).unwrap();
    assert_eq!(
        full.merge(&json!({"properties": {"one": {"type": "long"}}})).unwrap_err().reason,
        "Limit of total fields [1000] has been exceeded"
    );
    let nest = |levels: usize| {
        (1..levels).fold(json!({"type": "long"}), |inner, _| json!({"properties": {"a": inner}}))
    };
    assert!(parse(&json!({"a": nest(20)})).is_ok());
    let reason = parse(&json!({"a": nest(21)})).unwrap_err().caused_by.unwrap().reason;
    assert!(
        reason
            .starts_with("Limit of mapping depth [20] has been exceeded due to object field [a.a"),
        "{reason}"
    );
    assert!(parse(&json!({"a": nest(100)})).is_err());
}

#[test]
fn analyzers_of_the_settings_are_known() {
    let analysis = Analysis::parse(&json!({
        "analyzer": {"own": {"tokenizer": "whitespace"}, "default": {"type": "simple"}},
        "normalizer": {"low": {"filter": ["lowercase"]}},
    }))
    .unwrap();
    let mapping = Mapping::with_analysis(analysis)
        .create(&json!({"properties": {
            "a": {"type": "text", "analyzer": "own", "search_analyzer": "keyword"}, "b": {"type": "text"},
            "k": {"type": "keyword", "normalizer": "low"},
        }}))
        .unwrap();
    assert_eq!(mapping.field("a").unwrap().analyzer().terms("A b-C"), ["A", "b-C"]);
    assert_eq!(mapping.field("a").unwrap().search_analyzer().terms("A b"), ["A b"]);
    assert_eq!(mapping.field("b").unwrap().analyzer().terms("A b2"), ["a", "b"]);
    assert_eq!(mapping.field("k").unwrap().normalizer().unwrap().normalize("ABC"), "abc");
}
