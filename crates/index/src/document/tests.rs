//! Tests of documents taken apart by a mapping.

use std::fmt::Write as _;

use serde_json::json;

use super::*;

/// Writes down what it is given.
#[derive(Default)]
struct Lines(String);

impl Sink for Lines {
    fn leaf(&mut self, field: &Field, leaf: Leaf<'_>) {
        let value = match leaf {
            Leaf::Text(text) => format!("{text:?}"),
            Leaf::Long(value) => value.to_string(),
            Leaf::Unsigned(value) => format!("{value}u"),
            Leaf::Double(value) => format!("{value:?}"),
            Leaf::Ip(address) => address.to_string(),
            Leaf::Point { latitude, longitude } => format!("({latitude}, {longitude})"),
            Leaf::Present => "present".to_owned(),
            Leaf::TooLong => "too long".to_owned(),
        };
        let _ = write!(self.0, "{}={value} ", field.path());
    }

    fn ignored(&mut self, path: &str) {
        let _ = write!(self.0, "!{path} ");
    }
}

fn mapping(properties: &Value) -> Mapping {
    Mapping::parse(&json!({ "properties": properties })).unwrap()
}

fn lines(mapping: &Mapping, source: &Value) -> String {
    let mut lines = Lines::default();
    index(mapping, "1", source.to_string().as_bytes(), &mut lines).unwrap();
    lines.0.trim_end().to_owned()
}

fn refusal(mapping: &Mapping, source: &str) -> Error {
    mapping.check("9", source.as_bytes()).unwrap_err()
}

fn added(mapping: &Mapping, source: &Value) -> Value {
    mapping.check("1", source.to_string().as_bytes()).unwrap().unwrap_or_default()
}

#[test]
fn values_become_what_their_field_indexes() {
    for (field, value, expected) in [
        (json!({"type": "long"}), json!([1, "2", 3.9, "-4.5", null]), "f=1 f=2 f=3 f=-4"),
        (json!({"type": "byte", "null_value": 7}), json!([null, -128]), "f=7 f=-128"),
        (json!({"type": "short", "null_value": 7}), json!(["", "8"]), "f=7 f=8"),
        (json!({"type": "float"}), json!(["", "0.5"]), "f=0.5"),
        (json!({"type": "unsigned_long"}), json!([u64::MAX, "1"]), "f=18446744073709551615u f=1u"),
        (json!({"type": "double"}), json!(["1.5", 2, -0.25]), "f=1.5 f=2.0 f=-0.25"),
        (json!({"type": "float"}), json!(1.1), "f=1.100000023841858"),
        (json!({"type": "half_float"}), json!([1.1, 65504, 0.0]), "f=1.099609375 f=65504.0 f=0.0"),
        (json!({"type": "scaled_float", "scaling_factor": 100}), json!(12.345), "f=12.35"),
        (json!({"type": "boolean"}), json!([true, "false", ""]), "f=1u f=0u f=0u"),
        (json!({"type": "date"}), json!(["1970-01-02", 50000, "1970"]), "f=86400000 f=50000 f=0"),
        (json!({"type": "date", "format": "epoch_second"}), json!([2, "3"]), "f=2000 f=3000"),
        (
            json!({"type": "date", "format": "yyyy-MM-dd HH:mm:ss"}),
            json!("1970-01-01 00:00:01"),
            "f=1000",
        ),
        (json!({"type": "date_nanos"}), json!("1970-01-01T00:00:00.000000002Z"), "f=2"),
        (json!({"type": "ip"}), json!(["1.2.3.4", "::1"]), "f=::ffff:1.2.3.4 f=::1"),
        (json!({"type": "geo_point"}), json!([[1.0, 2.0], "3,4"]), "f=(2, 1) f=(3, 4)"),
        (json!({"type": "geo_point"}), json!({"lat": 2, "lon": 1}), "f=(2, 1)"),
        (
            json!({"type": "keyword", "ignore_above": 3}),
            json!(["abc", "abcd", 12, true, 1.5]),
            "f=\"abc\" !f f=\"12\" !f f=\"1.5\"",
        ),
        (json!({"type": "keyword", "normalizer": "lowercase"}), json!("ABC"), "f=\"abc\""),
        (
            json!({"type": "text", "fields": {"k": {"type": "keyword"}, "n": {"type": "long", "ignore_malformed": true}}}),
            json!(["a", "1"]),
            "f=\"a\" f.k=\"a\" !f.n f=\"1\" f.k=\"1\" f.n=1",
        ),
        (
            json!({"type": "integer", "ignore_malformed": true}),
            json!(["x", {"a": 1}, 1]),
            "!f !f f=1",
        ),
        (json!({"type": "binary"}), json!("AAA="), "f=present"),
        (json!({"type": "flattened"}), json!({"a": "x", "b": {"c": [1, null]}}), "f=\"1\" f=\"x\""),
        (json!({"type": "long"}), json!([[1, [2]], []]), "f=1 f=2"),
        (
            json!({"properties": {"a": {"type": "long"}}}),
            json!([{"a": 1}, null, {"a": [2, 3]}]),
            "f.a=1 f.a=2 f.a=3",
        ),
        (json!({"type": "object", "enabled": false}), json!({"a": [1, "x"]}), ""),
        (
            json!({"type": "nested", "properties": {"a": {"type": "long"}}}),
            json!([{"a": 1}, {"a": 2}]),
            "f.a=1 f.a=2",
        ),
    ] {
        let mapping = mapping(&json!({"f": field}));
        assert_eq!(lines(&mapping, &json!({"f": value})), expected, "{field} {value}");
        assert_eq!(added(&mapping, &json!({"f": value})), Value::Null);
    }
}

#[test]
fn names_with_dots_and_escapes_are_found() {
    let mapping =
        mapping(&json!({"a": {"properties": {"b": {"properties": {"c": {"type": "long"}}}}}}));
    for source in [
        r#"{"a.b.c": 1}"#,
        r#"{"a": {"b.c": 1}}"#,
        r#"{"a.b": {"c": 1}}"#,
        r#"{"\u0061": {"b": {"c": 1}}}"#,
    ] {
        let mut lines = Lines::default();
        index(&mapping, "1", source.as_bytes(), &mut lines).unwrap();
        assert_eq!(lines.0, "a.b.c=1 ");
        assert_eq!(mapping.check("1", source.as_bytes()).unwrap(), None);
    }
}

#[test]
fn values_are_copied() {
    let mapping = mapping(&json!({
        "a": {"type": "keyword", "copy_to": ["all", "n"]}, "all": {"type": "text", "fields": {"k": {"type": "keyword"}}},
        "n": {"type": "long", "ignore_malformed": true}, "b": {"type": "long", "copy_to": "new.x"},
    }));
    assert_eq!(lines(&mapping, &json!({"a": "7"})), r#"a="7" all="7" all.k="7" n=7"#);
    let delta = added(&mapping, &json!({"b": 1}));
    let grown = mapping.merge(&delta).unwrap();
    assert_eq!(lines(&grown, &json!({"b": 1})), "b=1 new.x=1");
}

#[test]
fn errors_have_elasticsearchs_words() {
    let mapping = mapping(&json!({
        "n": {"type": "long"}, "i": {"type": "integer"}, "e": {"type": "integer", "coerce": false}, "d": {"type": "date"}, "b": {"type": "boolean"},
        "ip": {"type": "ip"}, "k": {"type": "keyword"}, "o": {"properties": {"x": {"type": "byte"}}}, "p": {"type": "geo_point"},
        "f": {"type": "double"}, "a": {"type": "alias", "path": "n"},
    }));
    let golden = refusal(&mapping, r#"{"n": "notanumber"}"#);
    assert_eq!(
        golden.rooted_json().to_string(),
        r#"{"root_cause":[{"type":"mapper_parsing_exception","reason":"failed to parse field [n] of type [long] in document with id '9'. Preview of field's value: 'notanumber'"}],"type":"mapper_parsing_exception","reason":"failed to parse field [n] of type [long] in document with id '9'. Preview of field's value: 'notanumber'","caused_by":{"type":"illegal_argument_exception","reason":"For input string: \"notanumber\""}}"#
    );
    for (source, field, cause) in [
        (
            r#"{"i": 2147483648}"#,
            "i] of type [integer",
            "Value [2147483648] is out of range for an integer",
        ),
        (
            r#"{"n": 9223372036854775808}"#,
            "n] of type [long",
            "Value [9223372036854775808] is out of range for a long",
        ),
        (r#"{"o": {"x": 128}}"#, "o.x] of type [byte", "Value [128] is out of range for a byte"),
        (r#"{"e": "1"}"#, "e] of type [integer", "Integer value passed as String"),
        (r#"{"e": ""}"#, "e] of type [integer", "Integer value passed as String"),
        (
            r#"{"e": 1.5}"#,
            "e] of type [integer",
            "1.5 cannot be converted to Integer without data loss",
        ),
        (
            r#"{"d": "x"}"#,
            "d] of type [date",
            "failed to parse date field [x] with format [strict_date_optional_time||epoch_millis]",
        ),
        (
            r#"{"b": "x"}"#,
            "b] of type [boolean",
            "Failed to parse value [x] as only [true] or [false] are allowed.",
        ),
        (
            r#"{"b": 1}"#,
            "b] of type [boolean",
            "Current token (VALUE_NUMBER_INT) not of boolean type",
        ),
        (r#"{"ip": "x"}"#, "ip] of type [ip", "'x' is not an IP string literal."),
        (r#"{"k": {"a": 1}}"#, "k] of type [keyword", "Can't get text on a START_OBJECT"),
        (r#"{"n": {"a": 1}}"#, "n] of type [long", "Cannot parse object as number"),
        (r#"{"f": "x"}"#, "f] of type [double", "For input string: \"x\""),
        (r#"{"a": 1}"#, "a] of type [alias", "Cannot write to a field alias [a]."),
        (r#"{"p": "x,y"}"#, "p] of type [geo_point", "latitude must be a number"),
    ] {
        let error = refusal(&mapping, source);
        assert!(
            error.reason.starts_with(&format!("failed to parse field [{field}]")),
            "{}",
            error.reason
        );
        assert_eq!(error.caused_by.unwrap().reason, cause, "{source}");
    }
    for (source, reason) in [
        (
            r#"{"o": 1}"#,
            "object mapping for [o] tried to parse field [o] as object, but found a concrete value",
        ),
        (
            r#"{"n.x": 1}"#,
            "Could not dynamically add mapping for field [n.x]. Existing mapping for [n] must be of type object but found [long].",
        ),
        (
            r#"{"_id": 1}"#,
            "Field [_id] is a metadata field and cannot be added inside a document. Use the index API request parameters.",
        ),
        (
            r#"{"x..y": 1}"#,
            "object field starting or ending with a [.] makes object resolution ambiguous: [x..y]",
        ),
    ] {
        assert_eq!(refusal(&mapping, source).reason, reason);
    }
    for (source, kind) in [
        ("{\"n\":", "json_e_o_f_exception"),
        ("{\"n\": 1} x", "json_parse_exception"),
        ("[1]", "not_x_content_exception"),
        ("1", "not_x_content_exception"),
        ("", "json_e_o_f_exception"),
        (r#"{"n": 1, "n": 2}"#, "json_parse_exception"),
    ] {
        let error = refusal(&mapping, source);
        assert_eq!(
            (error.reason.as_str(), &*error.caused_by.unwrap().kind),
            ("failed to parse", kind),
            "{source}"
        );
    }
    let long = "x".repeat(32_767);
    assert!(
        refusal(&mapping, &json!({"k": long}).to_string())
            .reason
            .starts_with("Document contains at least one immense term in field=\"k\"")
    );
    assert!(mapping.check(&"x".repeat(513), b"{}").is_err());
}

#[test]
fn new_fields_are_mapped_by_their_first_value() {
    let text =
        json!({"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}});
    for (value, expected) in [
        (json!("x"), text.clone()),
        (json!("2024-01-01"), json!({"type": "date"})),
        (
            json!("2024/01/01 10:00:00"),
            json!({"type": "date", "format": "yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis"}),
        ),
        (json!("2024"), text.clone()),
        (json!(1), json!({"type": "long"})),
        (json!(1.5), json!({"type": "float"})),
        (json!(true), json!({"type": "boolean"})),
        (json!([null, [], [2]]), json!({"type": "long"})),
        (
            json!([{"a": 1}, {"b": "x"}]),
            json!({"type": "object", "properties": {"a": {"type": "long"}, "b": text}}),
        ),
        (json!({}), json!({"type": "object"})),
    ] {
        let delta = added(&Mapping::empty(), &json!({"f": value}));
        assert_eq!(delta, json!({"properties": {"f": expected}}), "{value}");
    }
    assert_eq!(added(&Mapping::empty(), &json!({"f": null, "g": []})), Value::Null);
    let delta = added(&Mapping::empty(), &json!({"a.b": 1, "a": {"c": 2}, "d.e.f": true}));
    let grown = Mapping::empty().merge(&delta).unwrap();
    assert_eq!(grown.paths("*"), ["a.b", "a.c", "d.e.f"]);
    let object = mapping(&json!({"o": {"type": "nested", "properties": {"x": {"type": "long"}}}}));
    let grown = object.merge(&added(&object, &json!({"o": {"y": 1}}))).unwrap();
    assert_eq!(grown.paths("*"), ["o.x", "o.y"]);
    assert!(grown.is_nested("o"));
    // The second value does not fit what the first has added.
    let error = Mapping::empty().check("1", br#"{"f": [1, "x"]}"#).unwrap_err();
    assert!(
        error.reason.starts_with("failed to parse field [f] of type [long]"),
        "{}",
        error.reason
    );
}

#[test]
fn dynamic_says_what_happens_with_new_fields() {
    let of = |dynamic: &str, templates: Value| {
        let body = json!({"dynamic": dynamic, "dynamic_templates": templates, "properties": {"o": {"dynamic": "true", "properties": {}}}});
        Mapping::parse(&body).unwrap()
    };
    assert_eq!(added(&of("false", json!([])), &json!({"x": 1})), Value::Null);
    assert_eq!(
        added(&of("false", json!([])), &json!({"o": {"x": 1}}))["properties"]["o"]["properties"]["x"]
            ["type"],
        "long"
    );
    let strict = refusal(&of("strict", json!([])), r#"{"x": 1}"#);
    assert_eq!(strict.kind, "strict_dynamic_mapping_exception");
    assert_eq!(
        strict.reason,
        "mapping set to strict, dynamic introduction of [x] within [_doc] is not allowed"
    );
    let template = json!([{"k": {"match": "k_*", "mapping": {"type": "keyword"}}}]);
    let allow = of("strict_allow_templates", template);
    assert_eq!(added(&allow, &json!({"k_1": 1}))["properties"]["k_1"]["type"], "keyword");
    assert!(allow.check("1", br#"{"x": 1}"#).is_err());
    assert!(Mapping::parse(&json!({"dynamic": "runtime"})).is_err());
}

#[test]
fn templates_map_new_fields() {
    let mapping = Mapping::parse(&json!({"dynamic_templates": [
        {"ints": {"match_mapping_type": "long", "unmatch": "*_l", "mapping": {"type": "integer"}}},
        {"strings": {"match_mapping_type": "string", "path_match": "o.*", "mapping": {"type": "keyword", "copy_to": "all_{name}"}}},
        {"same": {"match": "same*", "mapping": {"type": "{dynamic_type}", "index": false}}},
    ]}))
    .unwrap();
    assert_eq!(
        added(&mapping, &json!({"a": 1, "b_l": 2, "o": {"s": "x"}, "same": 1.5})),
        json!({"properties": {
            "a": {"type": "integer"}, "b_l": {"type": "long"}, "same": {"type": "float", "index": false},
            "o": {"type": "object", "properties": {"s": {"type": "keyword", "copy_to": "all_s"}}},
        }})
    );
    for (template, reason) in [
        (
            json!({"x": {"mapping": {}}}),
            "dynamic template [x] must have match, path_match or match_mapping_type set",
        ),
        (json!({"x": {"match": "*"}}), "dynamic template [x] must have mapping set"),
        (
            json!({"x": {"match": "*", "mapping": {}, "bogus": 1}}),
            "Illegal dynamic template parameter: [bogus]",
        ),
    ] {
        let error = Mapping::parse(&json!({"dynamic_templates": [template]})).unwrap_err();
        assert_eq!(error.caused_by.unwrap().reason, reason);
    }
}

#[test]
fn detection_can_be_set() {
    let mapping =
        Mapping::parse(&json!({"date_detection": false, "numeric_detection": true})).unwrap();
    let delta = added(&mapping, &json!({"a": "1", "b": "1.5", "c": "2024-01-01"}));
    let kinds: Vec<&Value> =
        ["a", "b", "c"].iter().map(|name| &delta["properties"][name]["type"]).collect();
    assert_eq!(kinds, ["long", "float", "text"]);
    let mapping = Mapping::parse(&json!({"dynamic_date_formats": ["dd.MM.yyyy"]})).unwrap();
    let delta = added(&mapping, &json!({"a": "01.02.2024", "b": "2024-01-01"}));
    assert_eq!(delta["properties"]["a"], json!({"type": "date", "format": "dd.MM.yyyy"}));
    assert_eq!(delta["properties"]["b"]["type"], "text");
}

#[test]
fn a_constant_is_set_by_the_first_document() {
    let mapping = mapping(&json!({"c": {"type": "constant_keyword"}}));
    let grown = mapping.merge(&added(&mapping, &json!({"c": "x"}))).unwrap();
    assert!(grown.check("1", br#"{"c": "x"}"#).is_ok());
    assert!(grown.check("1", br#"{"c": "y"}"#).is_err());
}

#[test]
fn limits_hold_for_documents() {
    let nest = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    assert!(Mapping::empty().check("1", nest(20).as_bytes()).is_ok());
    assert!(Mapping::empty().check("1", nest(21).as_bytes()).is_err());
    assert!(Mapping::empty().check("1", nest(5000).as_bytes()).is_err());
    let lists = format!("{{\"a\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
    assert!(Mapping::empty().check("1", lists.as_bytes()).is_err());
    let many: Map<String, Value> = (0..1001).map(|at| (format!("f{at}"), json!(1))).collect();
    let error = refusal(&Mapping::empty(), &Value::Object(many).to_string());
    assert_eq!(error.reason, "Limit of total fields [1000] has been exceeded");
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), text in ".{0,100}") {
        let mapping = mapping(&json!({"a": {"type": "date"}, "b": {"type": "geo_point"}, "c": {"type": "ip"}, "d": {"type": "text", "analyzer": "english"}}));
        let _ = mapping.check("1", &bytes);
        for name in ["a", "b", "c", "d", "e"] {
            let _ = mapping.check("1", json!({name: text}).to_string().as_bytes());
            let _ = mapping.check("1", format!("{{\"{name}\": {text}}}").as_bytes());
        }
        let _ = mapping.field("d").unwrap().analyzer().explain(&text, 10_000);
        let _ = Mapping::parse(&json!({"properties": {&text: {"type": "date", "format": text}}}));
    }
}
