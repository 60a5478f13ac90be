//! A partition's rows while a record is applied to them: the store's, with what the record has
//! changed so far on top. The changes are gathered into one batch and written at the end.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::ControlFlow;

use bytes::Bytes;
use rust_rocksdb::WriteBatch;
use xxhash_rust::xxh3::Xxh3Default;

use super::store::Store;
use crate::rows::{RowsRead, RowsWrite, StoreError, Visit};

/// The latest change of each row; `None` is removed.
type Rows = HashMap<Box<[u8]>, Option<Bytes>, BuildHasherDefault<Xxh3Default>>;

/// What a record changed, as far as caches must know it.
pub(super) struct Changes {
    pub rows: Rows,
    /// Whether ranges were removed besides.
    pub has_ranges: bool,
}

/// The store's rows under the changes of one record.
pub struct Overlay<'a> {
    store: &'a Store,
    batch: WriteBatch,
    changes: Rows,
    /// Ranges removed, from and to, each before some of `changes`: they hide the store's rows.
    removed: Vec<[Box<[u8]>; 2]>,
}

impl<'a> Overlay<'a> {
    /// No changes yet.
    #[must_use]
    pub fn new(store: &'a Store) -> Self {
        let changes = Rows::default();
        Self { store, batch: WriteBatch::default(), changes, removed: Vec::new() }
    }

    /// All changes in order, and the latest of each row.
    pub(super) fn into_parts(self) -> (WriteBatch, Changes) {
        let has_ranges = !self.removed.is_empty();
        (self.batch, Changes { rows: self.changes, has_ranges })
    }

    fn is_removed(&self, key: &[u8]) -> bool {
        self.removed.iter().any(|[from, to]| &**from <= key && key < &**to)
    }
}

impl RowsRead for Overlay<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        if let Some(change) = self.changes.get(key) {
            return Ok(change.clone());
        }
        if self.is_removed(key) {
            return Ok(None);
        }
        self.store.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let mut changed: Vec<(&[u8], &Option<Bytes>)> = self
            .changes
            .iter()
            .map(|(key, value)| (&**key, value))
            .filter(|(key, _)| from <= *key && *key < to)
            .collect();
        changed.sort_unstable_by_key(|(key, _)| *key);
        let mut changed = changed.into_iter().peekable();
        let mut flow = ControlFlow::Continue(());
        self.store.scan(from, to, &mut |key, value| {
            while let Some((at, change)) = changed.next_if(|(at, _)| *at < key) {
                if let Some(value) = change {
                    flow = visit(at, value);
                    if flow.is_break() {
                        return flow;
                    }
                }
            }
            if let Some((at, change)) = changed.next_if(|(at, _)| *at == key) {
                if let Some(value) = change {
                    flow = visit(at, value);
                }
            } else if !self.is_removed(key) {
                flow = visit(key, value);
            }
            flow
        })?;
        for (at, change) in changed {
            if flow.is_break() {
                break;
            }
            if let Some(value) = change {
                flow = visit(at, value);
            }
        }
        Ok(())
    }
}

impl RowsWrite for Overlay<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(key, value);
        self.changes.insert(key.into(), Some(Bytes::copy_from_slice(value)));
    }

    fn delete(&mut self, key: &[u8]) {
        self.batch.delete(key);
        self.changes.insert(key.into(), None);
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        self.batch.delete_range(from, to);
        self.changes.retain(|key, _| &**key < from || to <= &**key);
        self.removed.push([from.into(), to.into()]);
    }
}
