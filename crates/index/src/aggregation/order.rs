//! The order of keys, of the keys of composite buckets, and of hits: partitions and the answer sort alike.

use std::cmp::Ordering;

use super::partial::Key;
use super::request::{CompositeKind, CompositeSource, SortBy};
use crate::geo::cells;

/// Compares two keys; one that is missing comes first or last whatever the direction.
fn compare_keys(a: &Key, b: &Key, ascending: bool, null_first: bool) -> Ordering {
    let missing = if null_first { Ordering::Less } else { Ordering::Greater };
    match (a, b) {
        (Key::Null, Key::Null) => Ordering::Equal,
        (Key::Null, _) => missing,
        (_, Key::Null) => missing.reverse(),
        (a, b) if ascending => a.cmp(b),
        (a, b) => b.cmp(a),
    }
}

/// Compares keys in the order of a composite's sources.
pub(crate) fn compare_composite(sources: &[CompositeSource], a: &[Key], b: &[Key]) -> Ordering {
    for (source, (a, b)) in sources.iter().zip(a.iter().zip(b)) {
        let null_first = source.missing_first.unwrap_or(source.ascending);
        let found = match (&source.kind, a, b) {
            // Tiles are in the order of their numbers: `7/9/1` comes before `7/10/1`.
            (CompositeKind::Geotile { .. }, Key::Str(a), Key::Str(b)) => {
                let found = cells::tile_place(a).cmp(&cells::tile_place(b));
                if source.ascending { found } else { found.reverse() }
            }
            _ => compare_keys(a, b, source.ascending, null_first),
        };
        if found != Ordering::Equal {
            return found;
        }
    }
    Ordering::Equal
}

/// Compares sort values in the order of the steps.
pub(crate) fn compare_sort(steps: &[SortBy], a: &[Key], b: &[Key]) -> Ordering {
    for (step, (a, b)) in steps.iter().zip(a.iter().zip(b)) {
        let (ascending, null_first) = match step {
            SortBy::Score { ascending } | SortBy::Document { ascending } => (*ascending, false),
            SortBy::Field { ascending, missing_first, .. } => (*ascending, *missing_first),
        };
        let found = compare_keys(a, b, ascending, null_first);
        if found != Ordering::Equal {
            return found;
        }
    }
    Ordering::Equal
}
