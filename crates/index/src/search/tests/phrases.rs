//! Phrases whose documents are passed over once enough are counted: the best hits are those of a search that looks at
//! all of them.

use serde_json::{Value, json};

use super::Fixture;

fn text(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let length = 2 + next(40);
    let words: Vec<&str> =
        (0..length).map(|_| ["a", "b", "c", "a"][usize::try_from(next(4)).unwrap()]).collect();
    words.join(" ")
}

#[test]
fn documents_that_are_passed_over_change_no_best_hits() {
    let documents: Vec<Value> = (0..3000).map(|n| json!({"text": text(n)})).collect();
    let mapping = json!({"properties": {"text": {"type": "text"}}});
    let fixture = Fixture::with_segments(mapping, &documents, 1100);
    let mut passed_over = 0;
    for phrase in ["a b", "a a", "b a b", "c c", "a b c a", "b b b b b b"] {
        for size in [1, 10, 200] {
            let query = json!({"match_phrase": {"text": phrase}});
            let found = |total: Value| {
                let body = json!({"query": query, "size": size, "track_total_hits": total});
                fixture.query(&body).unwrap()
            };
            let (all, few) = (found(json!(true)), found(json!(5)));
            assert_eq!(few.hits, all.hits, "{phrase} {size}");
            assert!(all.total_is_exact && few.total <= all.total);
            passed_over += all.total - few.total;
        }
    }
    assert!(passed_over > 5_000, "{passed_over}");
}
