//! How rows lie in the store, and what a command sees of it.
//!
//! - [`key`]: the keys of rows and of the expiry index, and which partition a Redis key is in.
//! - [`meta`], [`field`]: the values of rows.
//! - [`tombstone`]: what is kept of a deleted document.
//! - [`removal`]: when keys were last taken away.
//! - [`swept`]: how far the expiry index was swept.
//! - [`touch`]: which documents changed.
//! - [`memory`]: rows without a disk, for tests and simulations.
//! - [`metered`]: rows whose readers ask before they hold anything.
//!
//! What commands do with rows is [`crate::execute`]'s.

pub mod field;
pub mod key;
pub mod memory;
pub mod meta;
pub mod metered;
pub mod removal;
pub mod swept;
pub mod tombstone;
pub mod touch;

use std::ops::ControlFlow;

use bytes::Bytes;

use touch::Touch;

use crate::ErrorReply;

/// Why rows give no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk is full, failing, or damaged.
    #[error("the store failed: {0}")]
    Failed(String),
    /// What is on the disk is not what was written: reading it again says the same.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The log carries a command that this version does not know: it can go no further.
    #[error("the log carries the command `{0}`, which this version does not know")]
    UnknownCommand(String),
    /// Asked only for what is in memory, and it is not: ask again where blocking is allowed.
    #[error("not in memory")]
    NotCached,
    /// The command would take more than it may: bytes or steps of a record's budget, or memory
    /// that a breaker keeps for others. The words are for the client.
    #[error(transparent)]
    Refused(#[from] ErrorReply),
}

impl StoreError {
    /// Whether the same would fail in the same way whenever it is tried again.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::UnknownCommand(_))
    }
}

/// What one value in an answer takes beside its bytes, about: itself in a list that grows by
/// doubling, and its block.
pub const ANSWER_BYTES: usize = 96;
/// What any answer takes itself, about. What memory really takes differs between builds, and would
/// have replicas refuse different operations.
pub const REPLY_BYTES: usize = 48;

/// Is shown a key and its value, and says whether to go on.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Rows to read, as one consistent state. Keys are the store's own (see `rows::key`).
pub trait RowsRead {
    /// The value under a key.
    ///
    /// # Errors
    /// Where the store fails.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Shows the value under a key to who does not keep it, so that a large one need not be copied;
    /// says whether there is one.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn with_value(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let value = self.get(key)?;
        Ok(value.inspect(|value| show(value)).is_some())
    }

    /// Shows every (key, value) in `[from, to)` in the order of keys, until told to stop.
    ///
    /// # Errors
    /// Where the store fails.
    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError>;

    /// The same in the opposite order, from `to` (without it) down. Rows that can only be walked upwards
    /// are gathered first, which is asked for as what a command holds is.
    ///
    /// # Errors
    /// As [`Self::scan`] and [`Self::hold`].
    fn scan_back(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        gather_back(self, from, to, visit)
    }

    /// Asks for bytes that a command is about to hold beside rows: a part of its answer, a table
    /// that it works with. Rows that have no limit grant all.
    ///
    /// # Errors
    /// [`StoreError::Refused`] where the command may not take them, or
    /// [`StoreError::NotCached`] where it may elsewhere.
    fn hold(&self, _bytes: usize) -> Result<(), StoreError> {
        Ok(())
    }

    /// Asks for steps of work beside rows, a step being a few nanoseconds.
    ///
    /// # Errors
    /// As [`Self::hold`].
    fn work(&self, _steps: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether each look at a row counts towards a budget that is a part of the log's format: every
    /// replica has to look as often as every other, then.
    fn is_budgeted(&self) -> bool {
        false
    }

    /// Whether little is left of what may be taken: who can stop halfway does so.
    fn is_pressed(&self) -> bool {
        false
    }
}

/// [`RowsRead::scan_back`] of rows that can only be walked upwards.
pub(crate) fn gather_back<R: RowsRead + ?Sized>(
    rows: &R,
    from: &[u8],
    to: &[u8],
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    let mut gathered: Vec<(Bytes, Bytes)> = Vec::new();
    let mut refused = Ok(());
    rows.scan(from, to, &mut |key, value| {
        refused = rows.hold(key.len() + value.len() + ANSWER_BYTES);
        if refused.is_err() {
            return ControlFlow::Break(());
        }
        gathered.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    })?;
    refused?;
    for (key, value) in gathered.iter().rev() {
        if visit(key, value).is_break() {
            break;
        }
    }
    Ok(())
}

/// Rows to read and change; a change is seen by what is read after it.
pub trait RowsWrite: RowsRead {
    /// Sets a value, of parts one after the other: they are copied once.
    fn put_parts(&mut self, key: &[u8], parts: &[&[u8]]);

    /// Sets a value.
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_parts(key, &[value]);
    }

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
