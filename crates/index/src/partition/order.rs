//! The order of an index's segments, by which hits that nothing else tells apart are ranked.
//!
//! Tantivy orders segments by size, and those of equal size by chance, so that such hits would
//! change places from one refresh to the next. Here segments are in the order of their age, as in
//! Lucene: those that stay keep their order, new ones come last, and what a merge makes takes the
//! place of the first that it was made of. What is merged is `merges.rs`'s.

use std::collections::{HashMap, HashSet};

use super::IndexError;
use super::meta;

/// The places of a `meta.json`'s segments by age: for each that `next` names, in its order. None
/// where they are in order already.
pub(super) fn by_age(last: &[u8], next: &[u8]) -> Result<Option<Vec<usize>>, IndexError> {
    // A merge leaves the number of the last commit's last operation as it was.
    let is_merge = meta::operations(last)? == meta::operations(next)?;
    let last: Vec<String> = names(last)?;
    let next: Vec<String> = names(next)?;
    let stays: HashSet<&String> = next.iter().collect();
    let mut places: HashMap<&String, usize> = last.iter().zip(0..).collect();
    let merged = next.iter().find(|name| is_merge && !last.contains(name));
    let first_gone = last.iter().position(|name| !stays.contains(name));
    if let (Some(place), Some(merged)) = (first_gone, merged) {
        places.insert(merged, place);
    }
    let mut order: Vec<usize> = (0..next.len()).collect();
    let place = |at: &usize| next.get(*at).and_then(|name| places.get(name)).copied();
    order.sort_by_key(|at| place(at).unwrap_or(last.len()));
    Ok((!order.is_sorted()).then_some(order))
}

pub(super) fn names(meta: &[u8]) -> Result<Vec<String>, IndexError> {
    Ok(meta::segments(meta)?.into_iter().map(|segment| segment.name).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(operations: u64, segments: &str) -> Vec<u8> {
        let segments: Vec<_> = segments
            .chars()
            .map(|name| json!({ "segment_id": name.to_string(), "max_doc": 1 }))
            .collect();
        json!({ "opstamp": operations, "segments": segments }).to_string().into_bytes()
    }

    fn ordered(last: &str, next: &str, operations: u64) -> String {
        let names: Vec<char> = next.chars().collect();
        match by_age(&meta(1, last), &meta(operations, next)).unwrap() {
            Some(order) => order.into_iter().map(|at| names[at]).collect(),
            None => next.to_owned(),
        }
    }

    #[test]
    fn segments_that_stay_keep_their_order_and_new_ones_come_last() {
        assert_eq!(ordered("", "cab", 2), "cab");
        assert_eq!(ordered("abc", "cba", 2), "abc");
        assert_eq!(ordered("abc", "dcxba", 2), "abcdx");
        assert_eq!(ordered("abc", "xcb", 2), "bcx", "the only document of `a` was put again");
    }

    #[test]
    fn what_a_merge_makes_takes_the_place_of_the_first_it_was_made_of() {
        assert_eq!(ordered("abcd", "xda", 1), "axd");
        assert_eq!(ordered("abcd", "x", 1), "x");
        assert_eq!(ordered("abcd", "db", 1), "bd");
    }
}
