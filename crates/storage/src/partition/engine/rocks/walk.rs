//! Walks over rows as RocksDB shows them, up and down. What is not given to it yet is
//! the store's to put in its place.

use std::ops::ControlFlow;

use rust_rocksdb::{DBAccess, DBRawIteratorWithThreadMode};

use super::failure::failed;
use crate::rows::{StoreError, Visit};

/// How many rows are shown in one scan that reaches to memory alone: beyond, it would take too long for a
/// thread that must not block.
const CACHED_SCAN_ROWS_MAX: usize = 1024;

/// Shows rows from a key on, up to their upper bound.
pub(super) fn walk<D: DBAccess>(
    mut rows: DBRawIteratorWithThreadMode<'_, D>,
    from: &[u8],
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    rows.seek(from);
    while let Some((key, value)) = rows.item() {
        if visit(key, value).is_break() {
            return Ok(());
        }
        rows.next();
    }
    rows.status().map_err(failed)
}

/// The same from the rows' upper bound down to their lower one.
pub(super) fn walk_back<D: DBAccess>(
    mut rows: DBRawIteratorWithThreadMode<'_, D>,
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    rows.seek_to_last();
    while let Some((key, value)) = rows.item() {
        if visit(key, value).is_break() {
            return Ok(());
        }
        rows.prev();
    }
    rows.status().map_err(failed)
}

/// Shows what a walk shows, up to [`CACHED_SCAN_ROWS_MAX`] rows.
pub(super) fn up_to_rows(
    visit: Visit<'_>,
    walk: impl FnOnce(Visit<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut rows = 0;
    let mut is_cut = false;
    walk(&mut |key, value| {
        rows += 1;
        is_cut = rows > CACHED_SCAN_ROWS_MAX;
        if is_cut { ControlFlow::Break(()) } else { visit(key, value) }
    })?;
    if is_cut { Err(StoreError::NotCached) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::super::super::changes::Changes;
    use super::super::super::super::store::Store;
    use super::super::super::super::tests::resources;
    use super::*;
    use crate::rows::RowsRead;

    #[test]
    fn rows_are_walked_down_as_they_are_up() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &resources()).unwrap();
        let put = |key: &[u8]| {
            let rows = [(key.into(), Some(Bytes::from_static(b"1")))].into_iter().collect();
            store.write_changes(Changes { rows, removed: Default::default() }, 0, false).unwrap();
        };
        ["ma", "mb", "md", "me"].iter().for_each(|key| put(key.as_bytes()));
        let walked = |rows: &dyn RowsRead, from: &[u8], to: &[u8]| {
            let (mut up, mut down) = (Vec::new(), Vec::new());
            for (keys, is_back) in [(&mut up, false), (&mut down, true)] {
                let mut visit = |key: &[u8], _: &[u8]| {
                    keys.push(key.to_vec());
                    ControlFlow::Continue(())
                };
                match is_back {
                    true => rows.scan_back(from, to, &mut visit).unwrap(),
                    false => rows.scan(from, to, &mut visit).unwrap(),
                }
            }
            up.reverse();
            assert_eq!(up, down);
            down.len()
        };
        let counts = |rows: &dyn RowsRead| {
            let ranges: [[&[u8]; 2]; 5] =
                [[b"m", b"n"], [b"ma", b"me"], [b"mb", b"mc"], [b"mc", b"md"], [b"me", b"ma"]];
            ranges.map(|[from, to]| walked(rows, from, to))
        };
        let expected = [4, 3, 1, 0, 0];
        assert_eq!(counts(&store), expected);
        assert_eq!(counts(&store.cached().unwrap()), expected);
        assert_eq!(counts(&store.owned_snapshot().unwrap()), expected);
    }
}
