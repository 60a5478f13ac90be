//! Tests of the query string languages.

use proptest::prelude::*;

use super::{flags, lucene, simple};

fn check(text: &str, expected: &str) {
    let found = match lucene::parse(text, false) {
        Ok(node) => format!("{node:?}"),
        Err(error) => format!("error: {}", error.to_string().lines().next().unwrap_or("")),
    };
    assert_eq!(found, expected, "{text}");
}

#[test]
fn lucenes_syntax_is_read() {
    check("a", r#"Leaf(None, Text("a"))"#);
    check("f:a^2", r#"Boosted(Leaf(Some("f"), Text("a")), 2.0)"#);
    check("a AND b", r#"Bool([(Must, Leaf(None, Text("a"))), (Must, Leaf(None, Text("b")))])"#);
    check(
        "+a -b c",
        r#"Bool([(Must, Leaf(None, Text("a"))), (MustNot, Leaf(None, Text("b"))), (Should, Leaf(None, Text("c")))])"#,
    );
    check(
        "f:(a OR b)",
        r#"Bool([(Should, Leaf(Some("f"), Text("a"))), (Should, Leaf(Some("f"), Text("b")))])"#,
    );
    check(r#""a b"~2"#, r#"Leaf(None, Phrase { text: "a b", slop: Some(2) })"#);
    check("ab*", r#"Leaf(None, Prefix("ab"))"#);
    check("a?b*c", r#"Leaf(None, Wildcard("a?b*c"))"#);
    check("/a.b/", r#"Leaf(None, Regexp("a.b"))"#);
    check("ab~1", r#"Leaf(None, Fuzzy { text: "ab", edits: Some(1) })"#);
    check(
        "n:[1 TO 5}",
        r#"Leaf(Some("n"), Range { from: Some(("1", true)), to: Some(("5", false)) })"#,
    );
    check("n:>=3", r#"Leaf(Some("n"), Range { from: Some(("3", true)), to: None })"#);
    check("*:*", "All");
    check("f:*", r#"Leaf(Some("f"), Exists)"#);
    check(r"a\:b", r#"Leaf(None, Text("a:b"))"#);
    check("NOT a", r#"Bool([(MustNot, Leaf(None, Text("a")))])"#);
}

#[test]
fn what_lucene_does_not_understand_is_refused() {
    check("a AND", r#"error: Encountered "<EOF>" at line 1, column 5."#);
    check("(a", r#"error: Encountered "<EOF>" at line 1, column 2."#);
    for text in [")", "\"a", "n:[1 5]", "OR a", "a:", "/a"] {
        assert!(lucene::parse(text, false).is_err(), "{text}");
    }
}

#[test]
fn the_simple_syntax_is_read() {
    let check = |text: &str, expected: &str| {
        assert_eq!(format!("{:?}", simple::parse(text, false, flags::ALL)), expected, "{text}");
    };
    check("a", r#"Leaf(None, Text("a"))"#);
    check("a + b", r#"Bool([(Must, Leaf(None, Text("a"))), (Must, Leaf(None, Text("b")))])"#);
    check("a | b", r#"Bool([(Should, Leaf(None, Text("a"))), (Should, Leaf(None, Text("b")))])"#);
    check("ab*", r#"Leaf(None, Prefix("ab"))"#);
    check(r#""a b"~3"#, r#"Leaf(None, Phrase { text: "a b", slop: Some(3) })"#);
    check("ab~2", r#"Leaf(None, Fuzzy { text: "ab", edits: Some(2) })"#);
    check("-a", r#"Bool([(MustNot, Leaf(None, Text("a")))])"#);
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,40}", is_and: bool, on in 0u32..1024) {
        let _ = lucene::parse(&text, is_and);
        let _ = simple::parse(&text, is_and, on);
    }

    #[test]
    fn no_text_of_operators_panics(text in r#"[ab*?~^:+|()"/\[\]{} ANDORT0-9<>=!&\\-]{0,30}"#, on in 0u32..1024) {
        let _ = lucene::parse(&text, false);
        let _ = simple::parse(&text, true, on);
    }
}
