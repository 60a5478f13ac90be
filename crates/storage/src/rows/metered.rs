//! Rows to read whose readers ask before they hold a part of an answer. Who grants it, and out of
//! what, is not known here: a breaker, or a bound on what may be done on a thread that serves
//! others.

use bytes::Bytes;

use super::{RowsRead, StoreError, Visit};

/// Grants bytes, or says why not.
pub type Grant<'a> = &'a dyn Fn(usize) -> Result<(), StoreError>;

/// Rows, and who is asked.
pub struct Metered<'a, R: ?Sized> {
    rows: &'a R,
    grant: Grant<'a>,
}

impl<'a, R: RowsRead + ?Sized> Metered<'a, R> {
    /// The same rows; what a command holds beside them is asked of `grant`.
    pub fn new(rows: &'a R, grant: Grant<'a>) -> Self {
        Self { rows, grant }
    }
}

impl<R: RowsRead + ?Sized> RowsRead for Metered<'_, R> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.rows.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.rows.scan(from, to, visit)
    }

    fn hold(&self, bytes: usize) -> Result<(), StoreError> {
        (self.grant)(bytes)
    }
}
