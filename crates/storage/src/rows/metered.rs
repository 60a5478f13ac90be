//! Rows to read whose readers ask before they hold a part of an answer. Who grants it, and out of
//! what, is not known here: a breaker, or a bound on what may be done on a thread that serves
//! others.

use std::cell::Cell;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::{RowsRead, StoreError, Visit};

/// Grants bytes, or says why not.
pub type Grant<'a> = &'a dyn Fn(usize) -> Result<(), StoreError>;

/// What a row that a scan shows counts as work, bytes: finding the next one takes about as long as
/// copying so many.
const SCANNED_ROW_BYTES: usize = 1024;

/// Rows, and who is asked. A command that is bounded by this is in no record, so what a record may
/// take ([`RowsRead::is_budgeted`]) does not concern it.
pub struct Metered<'a, R: ?Sized> {
    rows: &'a R,
    grant: Grant<'a>,
    value_bytes_max: usize,
    work_bytes_max: usize,
    worked_bytes: Cell<usize>,
}

impl<'a, R: RowsRead + ?Sized> Metered<'a, R> {
    /// The same rows; what a command holds beside them is asked of `grant`.
    pub fn new(rows: &'a R, grant: Grant<'a>) -> Self {
        let (value_bytes_max, work_bytes_max) = (usize::MAX, usize::MAX);
        Self { rows, grant, value_bytes_max, work_bytes_max, worked_bytes: Cell::new(0) }
    }

    /// The same, but for values of more than so many bytes: they count as not in memory, so that whoever
    /// looks through them does it where that holds nobody up.
    #[must_use]
    pub fn with_values_up_to(self, bytes: usize) -> Self {
        Self { value_bytes_max: bytes, ..self }
    }

    /// The same until a command has been through so many bytes, a row of a scan counting as
    /// 1,024: all that it looks at after that counts as not in memory. One value may be of any length.
    #[must_use]
    pub fn with_work_up_to(self, bytes: usize) -> Self {
        Self { work_bytes_max: bytes, ..self }
    }

    /// What the command has been through, bytes.
    #[must_use]
    pub fn worked_bytes(&self) -> usize {
        self.worked_bytes.get()
    }

    fn check(&self) -> Result<(), StoreError> {
        let is_over = self.worked_bytes.get() > self.work_bytes_max;
        if is_over { Err(StoreError::NotCached) } else { Ok(()) }
    }

    /// Shows what `scan` shows, as long as there is work left.
    fn counted(
        &self,
        visit: Visit<'_>,
        scan: impl FnOnce(Visit<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.check()?;
        let mut outcome = Ok(());
        scan(&mut |key, value| {
            self.count(SCANNED_ROW_BYTES);
            outcome = self.check();
            if outcome.is_err() { ControlFlow::Break(()) } else { visit(key, value) }
        })?;
        outcome
    }

    fn count(&self, bytes: usize) {
        self.worked_bytes.set(self.worked_bytes.get().saturating_add(bytes));
    }
}

impl<R: RowsRead + ?Sized> RowsRead for Metered<'_, R> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.check()?;
        let value = self.rows.get(key)?;
        let length = value.as_ref().map_or(0, Bytes::len);
        self.count(length);
        if length > self.value_bytes_max {
            return Err(StoreError::NotCached);
        }
        Ok(value)
    }

    /// A value of any length is shown: nobody looks through it.
    fn with_value(&self, key: &[u8], show: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        self.check()?;
        self.rows.with_value(key, &mut |value| {
            // The store copies what it was written last.
            self.count(value.len());
            show(value);
        })
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.counted(visit, |visit| self.rows.scan(from, to, visit))
    }

    fn scan_back(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.counted(visit, |visit| self.rows.scan_back(from, to, visit))
    }

    fn hold(&self, bytes: usize) -> Result<(), StoreError> {
        (self.grant)(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::RowsWrite;
    use crate::rows::memory::MemoryRows;

    fn grant(_bytes: usize) -> Result<(), StoreError> {
        Ok(())
    }

    fn rows() -> MemoryRows {
        let mut rows = MemoryRows::default();
        rows.put(b"a", &[0; 3000]);
        rows.put(b"b", &[0; 10]);
        rows.put(b"c", &[0; 10]);
        rows
    }

    #[test]
    fn a_command_is_through_with_its_work_over_all_that_it_looks_at() {
        let rows = rows();
        let metered = Metered::new(&rows, &grant).with_work_up_to(5000);
        for _ in 0..2 {
            assert_eq!(metered.get(b"a").unwrap().map(|value| value.len()), Some(3000));
        }
        assert_eq!(metered.worked_bytes(), 6000);
        assert_eq!(metered.get(b"b"), Err(StoreError::NotCached));
        assert_eq!(metered.with_value(b"b", &mut |_| ()), Err(StoreError::NotCached));
        let metered = Metered::new(&rows, &grant).with_work_up_to(5000);
        assert_eq!(
            (0..3).map(|_| metered.with_value(b"a", &mut |_| ())).last(),
            Some(Err(StoreError::NotCached))
        );
    }

    #[test]
    fn rows_of_several_scans_are_counted_together() {
        let rows = rows();
        let metered = Metered::new(&rows, &grant).with_work_up_to(5 * SCANNED_ROW_BYTES);
        let mut shown = 0;
        let mut scan = || {
            metered.scan(b"a", b"z", &mut |_, _| {
                shown += 1;
                ControlFlow::Continue(())
            })
        };
        assert_eq!([scan(), scan()], [Ok(()), Err(StoreError::NotCached)]);
        assert_eq!(shown, 5);
    }

    #[test]
    fn a_long_value_is_shown_to_who_does_not_look_through_it() {
        let rows = rows();
        let metered = Metered::new(&rows, &grant).with_values_up_to(100);
        assert_eq!(metered.get(b"a"), Err(StoreError::NotCached));
        let mut length = 0;
        assert_eq!(metered.with_value(b"a", &mut |value| length = value.len()), Ok(true));
        assert_eq!((length, metered.with_value(b"x", &mut |_| ())), (3000, Ok(false)));
    }
}
