//! Rows in order, and what changes them. A state of them is kept by holding the map: who changes it then
//! changes a copy.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use bytes::Bytes;

use crate::rows::Visit;

/// All rows at one moment.
#[derive(Clone, Default)]
pub(in crate::partition) struct Rows(Arc<BTreeMap<Bytes, Bytes>>);

/// One change of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::partition) enum Change {
    Put(Bytes, Bytes),
    Delete(Bytes),
    /// From a key up to another, without that.
    DeleteRange(Bytes, Bytes),
}

impl Rows {
    pub fn get(&self, key: &[u8]) -> Option<Bytes> {
        self.0.get(key).cloned()
    }

    pub fn walk(&self, range: [&[u8]; 2], visit: Visit<'_>) {
        for (key, value) in self.range(range) {
            if visit(key, value).is_break() {
                return;
            }
        }
    }

    pub fn walk_back(&self, range: [&[u8]; 2], visit: Visit<'_>) {
        for (key, value) in self.range(range).rev() {
            if visit(key, value).is_break() {
                return;
            }
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        self.0.iter()
    }

    pub fn change(&mut self, change: &Change) {
        let rows = Arc::make_mut(&mut self.0);
        match change {
            Change::Put(key, value) => {
                rows.insert(key.clone(), value.clone());
            }
            Change::Delete(key) => {
                rows.remove(key);
            }
            Change::DeleteRange(from, to) if from < to => {
                rows.extract_if(from.clone()..to.clone(), |_, _| true).for_each(drop);
            }
            Change::DeleteRange(..) => {}
        }
    }

    fn range(&self, [from, to]: [&[u8]; 2]) -> impl DoubleEndedIterator<Item = (&Bytes, &Bytes)> {
        // A range that is upside down would panic; it holds nothing.
        let to = to.max(from);
        self.0.range::<[u8], _>((Included(from), Excluded(to)))
    }
}

impl Change {
    pub fn put(key: &[u8], value: &[u8]) -> Self {
        Self::Put(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value))
    }

    pub fn delete(key: &[u8]) -> Self {
        Self::Delete(Bytes::copy_from_slice(key))
    }

    pub fn delete_range(from: &[u8], to: &[u8]) -> Self {
        Self::DeleteRange(Bytes::copy_from_slice(from), Bytes::copy_from_slice(to))
    }

    /// Whether it is a range that ends before it begins.
    pub fn is_reversed(&self) -> bool {
        matches!(self, Self::DeleteRange(from, to) if to < from)
    }

    /// Bytes of its keys and its value.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Delete(key) => key.len(),
            Self::Put(one, other) | Self::DeleteRange(one, other) => one.len() + other.len(),
        }
    }
}
