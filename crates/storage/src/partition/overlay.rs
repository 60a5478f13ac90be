//! A partition's rows while a record is applied to them: the store's, with what the record has
//! changed so far on top. The changes are gathered and given to the store at the end.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::pending::Rows;
use super::store::Store;
use crate::rows::key::KIND_TOMBSTONE;
use crate::rows::touch::{Touch, TouchLog, Touches};
use crate::rows::{RowsRead, RowsWrite, StoreError, Visit};

/// What a record changed.
pub(super) struct Changes {
    /// The latest change of each row, but for those in `removed`.
    pub rows: Rows,
    /// Ranges removed before that, from and to.
    pub removed: Vec<[Box<[u8]>; 2]>,
}

/// The store's rows under the changes of one record.
pub struct Overlay<'a> {
    store: &'a Store,
    changes: Rows,
    /// Ranges removed, from and to, each before some of `changes`: they hide the store's rows.
    removed: Vec<[Box<[u8]>; 2]>,
    /// Which documents changed, where an index follows.
    touches: Option<TouchLog>,
}

impl<'a> Overlay<'a> {
    /// No changes yet.
    #[must_use]
    pub fn new(store: &'a Store) -> Self {
        Self { store, changes: Rows::default(), removed: Vec::new(), touches: None }
    }

    /// No changes yet; which documents change is noted.
    pub(super) fn with_touches(store: &'a Store) -> Self {
        Self { touches: Some(TouchLog::default()), ..Self::new(store) }
    }

    /// Which documents changed, where that is noted and any did, and what became of them.
    pub(super) fn take_touches(&mut self) -> Option<(Touches, Vec<Option<Bytes>>)> {
        self.touches.take()?.finish_with()
    }

    /// Makes room for so many changed rows.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.changes.reserve(rows);
    }

    /// As [`RowsWrite::put`], of bytes that it can keep.
    pub(super) fn put_owned(&mut self, key: &[u8], value: Vec<u8>) {
        self.changes.insert(key.into(), Some(value.into()));
    }

    /// All changes: a row that was changed before a range around it was removed is not among
    /// them.
    pub(super) fn into_changes(self) -> Changes {
        Changes { rows: self.changes, removed: self.removed }
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
        let is_absent = key.first() == Some(&KIND_TOMBSTONE) && !self.store.has_tombstones();
        if is_absent || self.is_removed(key) {
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
        self.changes.insert(key.into(), Some(Bytes::copy_from_slice(value)));
    }

    fn delete(&mut self, key: &[u8]) {
        self.changes.insert(key.into(), None);
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        self.changes.retain(|key, _| &**key < from || to <= &**key);
        self.removed.push([from.into(), to.into()]);
    }

    fn touch(&mut self, touch: Touch<'_>) {
        if let Some(touches) = &mut self.touches {
            touches.push(touch);
        }
    }

    fn touch_written(&mut self, touch: Touch<'_>, source: &Bytes) {
        if let Some(touches) = &mut self.touches {
            touches.push_with(touch, Some(source.clone()));
        }
    }

    fn note_mapping(&mut self, version: u64) {
        if let Some(touches) = &mut self.touches {
            touches.note_mapping(version);
        }
    }
}
