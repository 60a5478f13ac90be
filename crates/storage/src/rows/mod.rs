//! How rows lie in the store, and what a command sees of it.
//!
//! - [`key`]: the keys of rows and of the expiry index, and which partition a Redis key is in.
//! - [`meta`], [`field`]: the values of rows.
//! - [`tombstone`]: what is kept of a deleted document.
//! - [`removal`]: when keys were last taken away.
//! - [`touch`]: which documents changed.
//! - [`memory`]: rows without a disk, for tests and simulations.
//!
//! What commands do with rows is [`crate::execute`]'s.

pub mod field;
pub mod key;
pub mod memory;
pub mod meta;
pub mod removal;
pub mod tombstone;
pub mod touch;

use std::ops::ControlFlow;

use bytes::Bytes;

use touch::Touch;

/// The store failed under a command: never a command's own doing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full, failing, or damaged.
    #[error("the store failed: {0}")]
    Failed(String),
    /// Asked only for what is in memory, and it is not: ask again where blocking is allowed.
    #[error("not in memory")]
    NotCached,
}

/// Is shown a key and its value, and says whether to go on.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Rows to read, as one consistent state. Keys are the store's own (see `rows::key`).
pub trait RowsRead {
    /// The value under a key.
    ///
    /// # Errors
    /// Where the store fails.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Shows every (key, value) in `[from, to)` in the order of keys, until told to stop.
    ///
    /// # Errors
    /// Where the store fails.
    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError>;
}

/// Rows to read and change; a change is seen by what is read after it.
pub trait RowsWrite: RowsRead {
    /// Sets a value.
    fn put(&mut self, key: &[u8], value: &[u8]);

    /// Removes a value; nothing happens where there is none.
    fn delete(&mut self, key: &[u8]);

    /// Removes all values in `[from, to)`.
    fn delete_range(&mut self, from: &[u8], to: &[u8]);

    /// Learns that documents changed. Nothing happens where no index follows the rows.
    fn touch(&mut self, _touch: Touch<'_>) {}

    /// Learns that a document was written, and what it is now.
    fn touch_written(&mut self, touch: Touch<'_>, _source: &Bytes) {
        self.touch(touch);
    }

    /// Learns the version of the mapping that a document was checked against.
    fn note_mapping(&mut self, _version: u64) {}
}
