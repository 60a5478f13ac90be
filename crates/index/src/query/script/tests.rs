//! Tests of scripts.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Expr, Language, Script};

/// Computes a script whose fields are all 3 and whose score is 2.
fn value(expr: &Expr) -> f64 {
    super::alone::value(expr, &|leaf| match leaf {
        Expr::Score => 2.0,
        Expr::Field { .. } => 3.0,
        Expr::Decay(_) => 0.5,
        _ => f64::NAN,
    })
}

fn params() -> Map<String, Value> {
    match json!({"a": 5, "b": {"c": 7}, "s": "10km"}) {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn check(source: &str, language: Language, expected: f64) {
    let script = Script::compile(source, language, &params()).unwrap();
    let found = value(&script.tree);
    assert!((found - expected).abs() < 1e-9, "{source}: {found}");
}

#[test]
fn expressions_are_computed() {
    for (source, expected) in [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("10 - 4 - 3", 3.0),
        ("-2 * 3", -6.0),
        ("doc['n'].value * _score", 6.0),
        ("doc['n'] + doc.n", 6.0),
        (
            "abs(ln(abs(doc['population']) + 1) + doc['location'].lon + doc['location'].lat) * _score",
            ((4.0f64).ln() + 6.0) * 2.0,
        ),
        ("a + 1", 6.0),
        ("doc['n'].empty ? 1 : 2", 2.0),
        ("1 < 2 && 3 >= 3 ? 10 : 20", 10.0),
        ("pow(2, 10)", 1024.0),
        ("max(1, min(5, 3))", 3.0),
    ] {
        check(source, Language::Expression, expected);
    }
}

#[test]
fn painless_is_computed() {
    for (source, expected) in [
        (
            "Math.abs(Math.log(Math.abs(doc['population'].value) + 1) + doc['location'].lon * doc['location'].lat)/_score",
            ((4.0f64).ln() + 9.0) / 2.0,
        ),
        ("return doc['n'].value * params.a;", 15.0),
        ("double x = doc['n'].value; x += 1; return x * params.b.c", 28.0),
        ("if (doc['n'].size() == 0) { return 0; } return 4", 4.0),
        (
            "if (doc['n'].value > 5) { return 1 } else if (_score > 1) { return 2 } else { return 3 }",
            2.0,
        ),
        ("def x = 1; if (_score > 1) { x = 5; } x * 2", 10.0),
        ("(int) (7 / 2.0)", 3.0),
        ("decayGeoGauss('1,2', params.s, '0km', 0.5, doc['p'].value)", 0.5),
        ("params['a'] % 3", 2.0),
        ("saturation(doc['n'].value, 3)", 0.5),
    ] {
        check(source, Language::Painless, expected);
    }
}

#[test]
fn what_is_no_arithmetic_is_refused() {
    for source in [
        "",
        "1 +",
        "doc['n'",
        "foo(1)",
        "Math.foo(1)",
        "params.zzz",
        "for (;;) {}",
        "'text'",
        "x",
        "abs(1, 2)",
        "doc['n'].bogus()",
        "if (1) { return 2 }",
        "1 2",
    ] {
        let error = Script::compile(source, Language::Painless, &params());
        let error = error.expect_err(source);
        assert_eq!(
            (error.class, error.kind.as_ref()),
            (crate::ErrorClass::Invalid, "script_exception"),
            "{source}"
        );
    }
    let deep = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
    assert!(Script::compile(&deep, Language::Expression, &params()).is_err());
    // Each of these would hang on the one before it when it is computed.
    for step in ["x = x + 1;", "x++;", "x = abs(abs(abs(x)));"] {
        let high = format!("double x = 1; {} return x", step.repeat(600));
        assert!(Script::compile(&high, Language::Painless, &params()).is_err(), "{step}");
        let low = format!("double x = 1; {} return x", step.repeat(60));
        assert!(Script::compile(&low, Language::Painless, &params()).is_ok(), "{step}");
    }
    let doubling = format!("double x = _score; {} return x", "x = x + x;".repeat(60));
    assert!(Script::compile(&doubling, Language::Painless, &params()).is_err());
}

proptest! {
    #[test]
    fn no_text_panics(source in "\\PC{0,40}") {
        let _ = Script::compile(&source, Language::Painless, &params());
        let _ = Script::compile(&source, Language::Expression, &params());
    }

    #[test]
    fn no_tokens_panic(words in proptest::collection::vec(
        prop::sample::select(vec!["doc", "['n']", ".value", "_score", "params", ".a", "+", "-", "*", "(", ")",
            "if", "else", "{", "}", "return", ";", "?", ":", "1", "x", "=", "def", "Math", ".", "abs", ",", "decayGeoExp"]), 0..20)) {
        let _ = Script::compile(&words.join(" "), Language::Painless, &params());
    }
}
