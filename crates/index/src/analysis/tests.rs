//! Tests of analyzers and their parts.

use serde_json::json;

use super::Analysis;

fn terms(analyzer: &str, text: &str) -> String {
    Analysis::default().analyzer(analyzer).unwrap().terms(text).join("|")
}

#[test]
fn built_in_analyzers_cut_as_documented() {
    let text = "The 2 QUICK Brown-Foxes jumped over the lazy dog's bone.";
    assert_eq!(terms("standard", text), "the|2|quick|brown|foxes|jumped|over|the|lazy|dog's|bone");
    assert_eq!(terms("simple", text), "the|quick|brown|foxes|jumped|over|the|lazy|dog|s|bone");
    assert_eq!(
        terms("whitespace", text),
        "The|2|QUICK|Brown-Foxes|jumped|over|the|lazy|dog's|bone."
    );
    assert_eq!(terms("stop", text), "quick|brown|foxes|jumped|over|lazy|dog|s|bone");
    assert_eq!(terms("keyword", "The 2"), "The 2");
    assert_eq!(terms("english", text), "2|quick|brown|fox|jump|over|lazi|dog|bone");
    assert_eq!(terms("german", "Die Häuser"), "haus");
    assert_eq!(terms("french", "l'avion des élèves"), "avion|élev");
    assert!(Analysis::default().analyzer("bogus").is_none());
}

#[test]
fn a_token_of_more_than_255_characters_is_cut() {
    let analyzer = Analysis::default().analyzer("standard").unwrap();
    let lengths: Vec<usize> = analyzer.terms(&"x".repeat(600)).iter().map(String::len).collect();
    assert_eq!(lengths, [255, 255, 90]);
}

#[test]
fn offsets_count_utf16_units_and_stop_words_leave_gaps() {
    let shown = Analysis::default().analyzer("english").unwrap().explain("𝄞 the Fox", 10).unwrap();
    assert_eq!(
        json!(shown),
        json!([{"token": "fox", "start_offset": 7, "end_offset": 10, "type": "<ALPHANUM>", "position": 1}])
    );
}

#[test]
fn custom_parts_are_put_together() {
    let analysis = Analysis::parse(&json!({
        "filter": {
            "begin": {"type": "edge_ngram", "min_gram": 1, "max_gram": 3},
            "small": {"type": "length", "min": "2"},
            "no": {"type": "stop", "stopwords": ["foo"]},
        },
        "tokenizer": {"dots": {"type": "char_group", "tokenize_on_chars": [".", "whitespace"]}},
        "char_filter": {"and": {"type": "mapping", "mappings": ["& => and"]}},
        "analyzer": {
            "prefixes": {"tokenizer": "standard", "filter": ["lowercase", "begin"]},
            "words": {"type": "custom", "tokenizer": "dots", "filter": ["small", "no"], "char_filter": "and"},
            "stopping": {"type": "standard", "stopwords": "_english_"},
            "plain": {"tokenizer": "keyword", "char_filter": ["html_strip"], "filter": "trim"},
            "pairs": {"tokenizer": "whitespace", "filter": {"type": "shingle", "output_unigrams": false}},
        },
        "normalizer": {"flat": {"filter": ["lowercase", "asciifolding"]}},
    }))
    .unwrap();
    let terms = |name: &str, text: &str| analysis.analyzer(name).unwrap().terms(text).join("|");
    assert_eq!(terms("prefixes", "Quick Fo"), "q|qu|qui|f|fo");
    assert_eq!(terms("words", "a.bc foo R&D"), "bc|RandD");
    assert_eq!(terms("stopping", "The Fox"), "fox");
    assert_eq!(terms("plain", "<b>a &amp; b</b>"), "a & b");
    assert_eq!(terms("pairs", "a b c"), "a b|b c");
    assert_eq!(analysis.normalizer("flat").unwrap().normalize("Çà Ét"), "ca et");
}

#[test]
fn what_is_not_known_is_refused() {
    for (body, reason) in [
        (
            json!({"analyzer": {"a": {"tokenizer": "bogus"}}}),
            "failed to find global tokenizer under [bogus]",
        ),
        (
            json!({"analyzer": {"a": {"tokenizer": "standard", "filter": ["bogus"]}}}),
            "failed to find global filter under [bogus]",
        ),
        (
            json!({"analyzer": {"a": {"filter": []}}}),
            "analyzer [a] must specify either an analyzer type, or a tokenizer",
        ),
    ] {
        assert_eq!(Analysis::parse(&body).unwrap_err().reason, reason);
    }
}

#[test]
fn a_request_can_bring_its_own_parts() {
    let analysis = Analysis::default();
    let body =
        json!({"tokenizer": "keyword", "filter": ["lowercase", {"type": "truncate", "length": 2}]});
    assert_eq!(analysis.for_request(&body).unwrap().terms("HELLO"), ["he"]);
    assert!(analysis.for_request(&json!({"analyzer": "bogus"})).is_err());
}
