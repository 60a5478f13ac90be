//! What records changed, on its way from the overlay, which gathers it, to the store, which takes it in at once.

use std::collections::BTreeMap;

use super::pending::Rows;

/// What a record changed.
pub(super) struct Changes {
    /// The latest change of each row, but for those in `removed`.
    pub rows: Rows,
    /// Ranges removed before that, from and to.
    pub removed: BTreeMap<Box<[u8]>, Box<[u8]>>,
}
