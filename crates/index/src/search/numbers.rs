//! The number of a document among all that a search looks at, which `_doc` and `_shard_doc` sort by: that of its
//! partition in the upper 32 bits, its own there in the lower ones. A partition knows the lower ones alone; whoever
//! asks several puts theirs before them. As long as the views are held, a number is a document's for good, so that
//! no two tie and `search_after` passes over none.

use serde_json::Value;
use tantivy::Searcher;

use super::request::SearchRequest;
use super::result::{Hit, SortValue};
use super::sort::SortBy;
use crate::error::Error;

/// The bits of a document's own number.
const OWN_BITS: u32 = 32;
/// Before and after all documents of a partition.
const BEFORE_ALL: i64 = -1;
const AFTER_ALL: i64 = 1 << OWN_BITS;

/// The number of a segment's first document in its partition.
pub(super) fn first_of(searcher: &Searcher, segment: u32) -> i64 {
    let before = searcher.segment_readers().iter().take(segment as usize);
    before.map(|reader| i64::from(reader.max_doc())).sum()
}

/// Which values of a hit are such numbers.
fn places(request: &SearchRequest) -> impl Iterator<Item = usize> {
    let clauses = request.sort.iter().enumerate();
    clauses.filter(|(_, clause)| matches!(clause.by, SortBy::Doc)).map(|(at, _)| at)
}

fn shift(request: &SearchRequest, hit: &mut Hit, by: i64) {
    for at in places(request) {
        if let Some(SortValue::Long(number)) = hit.sort.get_mut(at) {
            *number = number.wrapping_add(by);
        }
    }
}

fn first_in(partition: usize) -> i64 {
    i64::try_from(partition).unwrap_or(i64::MAX) << OWN_BITS
}

/// The numbers among all of a hit that the partition of this number found.
pub fn among_all(request: &SearchRequest, partition: usize, hit: &mut Hit) {
    shift(request, hit, first_in(partition));
}

/// The numbers that the partition itself gave the hit.
pub fn in_its_own(request: &SearchRequest, partition: usize, hit: &mut Hit) {
    shift(request, hit, first_in(partition).wrapping_neg());
}

/// What a partition is asked where `search_after` goes by such numbers; none where it is asked the same as all.
///
/// # Errors
/// 400, as for any request that cannot be read.
pub fn asked_of(request: &SearchRequest, partition: usize) -> Result<Option<SearchRequest>, Error> {
    let Some(after) = &request.search_after else { return Ok(None) };
    let mut places = places(request).peekable();
    if places.peek().is_none() {
        return Ok(None);
    }
    let mut own = after.clone();
    for at in places {
        let Some(value) = own.get_mut(at) else { continue };
        // The partition says what is wrong with one that is no number.
        let Some(number) = value.as_i64() else { return Ok(None) };
        let number = number.saturating_sub(first_in(partition));
        *value = Value::from(number.clamp(BEFORE_ALL, AFTER_ALL));
    }
    if own == *after {
        return Ok(None);
    }
    request.with("search_after", Value::Array(own)).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(after: Value) -> SearchRequest {
        let sort = json!([{ "a": "asc" }, { "_shard_doc": "desc" }]);
        SearchRequest::parse(&json!({ "sort": sort, "search_after": after })).unwrap()
    }

    fn hit(number: i64) -> Hit {
        let sort = vec![SortValue::Long(7), SortValue::Long(number)];
        Hit { address: (0, 0), score: None, sort, group: None }
    }

    #[test]
    fn a_number_among_all_is_the_partitions_and_its_own() {
        let request = request(json!([1, 2]));
        let mut it = hit(5);
        among_all(&request, 3, &mut it);
        assert_eq!(it, hit(3 << 32 | 5));
        in_its_own(&request, 3, &mut it);
        assert_eq!(it, hit(5));
    }

    #[test]
    fn partitions_before_and_after_are_asked_for_none_or_all() {
        let of = |partition, number: i64| {
            let asked = asked_of(&request(json!([7, number])), partition).unwrap();
            asked.map(|asked| asked.search_after.unwrap()[1].as_i64().unwrap())
        };
        let number = 3 << 32 | 5;
        assert_eq!(of(3, number), Some(5));
        assert_eq!(of(2, number), Some(AFTER_ALL));
        assert_eq!(of(4, number), Some(BEFORE_ALL));
        assert_eq!((of(0, 5), of(0, i64::MAX), of(9, i64::MIN)), (None, Some(AFTER_ALL), Some(-1)));
    }

    #[test]
    fn what_does_not_go_by_numbers_is_asked_of_all_alike() {
        let parse = |body| SearchRequest::parse(&body).unwrap();
        let others = [
            parse(json!({ "sort": ["_shard_doc"] })),
            parse(json!({ "sort": ["a"], "search_after": [3i64 << 32] })),
            request(json!(["x", "y"])),
        ];
        for request in others {
            assert!(asked_of(&request, 1).unwrap().is_none());
        }
    }
}
