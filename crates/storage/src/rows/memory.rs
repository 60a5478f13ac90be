//! Rows without a disk: for tests and simulations. Nothing here is durable.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included};

use bytes::Bytes;

use super::{RowsRead, RowsWrite, StoreError, Visit};

/// Rows in one sorted map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryRows {
    rows: BTreeMap<Vec<u8>, Bytes>,
}

impl MemoryRows {
    /// How many rows there are, index entries included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.rows.iter().map(|(key, value)| (key.as_slice(), value.as_ref()))
    }
}

impl RowsRead for MemoryRows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.rows.get(key).cloned())
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        for (key, value) in self.rows.range::<[u8], _>((Included(from), Excluded(to))) {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn scan_back(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        for (key, value) in self.rows.range::<[u8], _>((Included(from), Excluded(to))).rev() {
            if visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl RowsWrite for MemoryRows {
    fn put_parts(&mut self, key: &[u8], parts: &[&[u8]]) {
        self.rows.insert(key.to_vec(), parts.concat().into());
    }

    fn delete(&mut self, key: &[u8]) {
        self.rows.remove(key);
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        if from >= to {
            return;
        }
        let doomed = self.rows.range::<[u8], _>((Included(from), Excluded(to)));
        let doomed: Vec<Vec<u8>> = doomed.map(|(key, _)| key.clone()).collect();
        for key in doomed {
            self.rows.remove(&key);
        }
    }
}
