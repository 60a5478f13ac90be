//! A state of a partition's rows that outlives the call that took it: what a search saw, for as
//! long as its pages are fetched.

use bytes::Bytes;
use self_cell::self_cell;

use super::store::{Store, StoreSnapshot};
use crate::rows::{RowsRead, StoreError, Visit};

self_cell!(
    struct Held {
        owner: Store,
        #[covariant]
        dependent: StoreSnapshot,
    }
);

/// A consistent state of a partition's rows, unmoved by what is written after. While it is held
/// the partition's folder stays open, and files keep what has been deleted since.
pub struct OwnedSnapshot {
    held: Held,
}

impl Store {
    /// The rows as they are now, for as long as they are wanted.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn owned_snapshot(&self) -> Result<OwnedSnapshot, StoreError> {
        let held = Held::try_new(self.clone(), Store::snapshot)?;
        Ok(OwnedSnapshot { held })
    }
}

impl RowsRead for OwnedSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.held.borrow_dependent().get(key)
    }

    fn with_value(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        self.held.borrow_dependent().with_value(key, show)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.held.borrow_dependent().scan(from, to, visit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.held.borrow_dependent().scan_back(from, to, visit)
    }
}
