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
    value_bytes_max: usize,
}

impl<'a, R: RowsRead + ?Sized> Metered<'a, R> {
    /// The same rows; what a command holds beside them is asked of `grant`.
    pub fn new(rows: &'a R, grant: Grant<'a>) -> Self {
        Self { rows, grant, value_bytes_max: usize::MAX }
    }

    /// The same, but for values of more than so many bytes: they count as not in memory, so that whoever
    /// looks through them does it where that holds nobody up.
    #[must_use]
    pub fn with_values_up_to(self, bytes: usize) -> Self {
        Self { value_bytes_max: bytes, ..self }
    }
}

impl<R: RowsRead + ?Sized> RowsRead for Metered<'_, R> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let value = self.rows.get(key)?;
        if value.as_ref().is_some_and(|value| value.len() > self.value_bytes_max) {
            return Err(StoreError::NotCached);
        }
        Ok(value)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.rows.scan(from, to, visit)
    }

    fn hold(&self, bytes: usize) -> Result<(), StoreError> {
        (self.grant)(bytes)
    }
}
