//! A partition's rows while a record is applied to them: the store's, with what the record has
//! changed so far on top. The changes are gathered and given to the store at the end. Those of the
//! operation that runs can be taken back, and what it takes is counted ([`super::budget`]).
//!
//! Where several records are applied at once, what those before the running one changed lies in a
//! layer of its own. It is read as the store is: where each record is applied by itself those changes
//! are in the store, and an operation must take the same in both ways.

use std::cell::RefCell;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::budget::Budget;
use super::changes::Changes;
use super::journal::Journal;
use super::layer::Layer;
use super::store::Store;
use crate::ErrorReply;
use crate::rows::key::KIND_TOMBSTONE;
use crate::rows::touch::{Touch, TouchLog, TouchMark, Touches};
use crate::rows::{RowsRead, RowsWrite, StoreError, Visit};

/// The store's rows under the changes of one record, or of several that are written together.
pub struct Overlay<'a> {
    store: &'a Store,
    /// What records before the running one changed: never counted, never taken back.
    earlier: Layer,
    /// What the running record changed.
    current: Layer,
    /// Which documents changed, where an index follows.
    touches: Option<TouchLog>,
    budget: Budget,
    /// How the running operation's changes are taken back; `None` between operations.
    journal: Option<Journal>,
    /// The last operation's journal, empty.
    spare: Journal,
    mark: Option<TouchMark>,
}

impl<'a> Overlay<'a> {
    /// No changes yet.
    #[must_use]
    pub fn new(store: &'a Store) -> Self {
        Self {
            store,
            earlier: Layer::default(),
            current: Layer::default(),
            touches: None,
            budget: Budget::default(),
            journal: None,
            spare: Journal::default(),
            mark: None,
        }
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
        self.current.reserve(rows);
    }

    /// Another record begins, with a budget of its own. Says what the one before took of what its
    /// operations share, thousandths.
    pub(super) fn begin_record(&mut self) -> u64 {
        if !self.current.is_empty() {
            self.earlier.absorb(&mut self.current);
        }
        std::mem::take(&mut self.budget).shared_permille()
    }

    /// An operation of so many bytes in the log begins: what it takes is counted, and can be taken
    /// back.
    pub(super) fn begin(&mut self, payload_bytes: usize) {
        self.budget.begin(payload_bytes);
        self.journal = Some(std::mem::take(&mut self.spare));
        self.mark = self.touches.as_ref().map(TouchLog::mark);
    }

    /// The running operation's changes stay, unless it is to be refused.
    ///
    /// # Errors
    /// The refusal: its changes were taken back.
    pub(super) fn end(&mut self) -> Result<(), ErrorReply> {
        if let Some(refusal) = self.budget.refusal() {
            self.take_back();
            return Err(refusal);
        }
        self.budget.end(true);
        if let Some(mut journal) = self.journal.take() {
            journal.clear();
            self.spare = journal;
        }
        Ok(())
    }

    /// Takes the running operation's changes back, and ends it.
    pub(super) fn take_back(&mut self) {
        self.budget.end(false);
        let Some(mut journal) = self.journal.take() else { return };
        while let Some(undo) = journal.pop() {
            self.current.undo(undo);
        }
        self.spare = journal;
        if let (Some(touches), Some(mark)) = (&mut self.touches, self.mark.take()) {
            touches.take_back(mark);
        }
    }

    /// What the operations so far took of what a record's share, thousandths.
    pub(super) fn shared_permille(&self) -> u64 {
        self.budget.shared_permille()
    }

    /// Bytes and steps that the running operation may still take.
    #[cfg(test)]
    pub(super) fn budget_left(&self) -> [u64; 2] {
        self.budget.left()
    }

    /// As [`RowsWrite::put`], of bytes that it can keep, and of no operation.
    pub(super) fn put_owned(&mut self, key: &[u8], value: Vec<u8>) {
        self.change(key, Some(value.into()));
    }

    /// All changes: a row that was changed before a range around it was removed is not among
    /// them.
    pub(super) fn into_changes(mut self) -> Changes {
        self.earlier.absorb(&mut self.current);
        self.earlier.into_changes()
    }

    fn change(&mut self, key: &[u8], value: Option<Bytes>) {
        self.current.change(key, value, self.journal.as_mut());
    }

    /// The row before the running record.
    fn get_before(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        if !self.earlier.is_empty() {
            if let Some(change) = self.earlier.get(key) {
                return Ok(change.clone());
            }
            if self.earlier.is_removed(key) {
                return Ok(None);
            }
        }
        let is_absent = key.first() == Some(&KIND_TOMBSTONE) && !self.store.has_tombstones();
        if is_absent { Ok(None) } else { self.store.get(key) }
    }

    /// Shows the rows before the running record. What earlier records removed is passed over, which
    /// the operation is not charged for.
    fn scan_before(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        if self.earlier.is_empty() {
            return self.store.scan(from, to, visit);
        }
        let mut show = |key: &[u8], value: Option<&[u8]>| match value {
            Some(value) => visit(key, value),
            None => {
                self.budget.pass(key.len());
                ControlFlow::Continue(())
            }
        };
        self.earlier.walk(from, to, &mut show, |show| {
            // Removed ranges are leapt over: they may hide any number of rows.
            self.earlier.each_left(from, to, |from, to| {
                self.budget.pass(from.len());
                let mut flow = ControlFlow::Continue(());
                self.store.scan(from, to, &mut |key, value| {
                    flow = show(key, value);
                    flow
                })?;
                Ok(flow)
            })
        })
    }
}

impl RowsRead for Overlay<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.budget.count_read(key.len())?;
        let found = match self.current.get(key) {
            Some(change) => change.clone(),
            None if self.current.is_removed(key) => None,
            None => self.get_before(key)?,
        };
        if let Some(value) = &found {
            self.budget.count_read(value.len())?;
        }
        Ok(found)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        self.budget.count_read(from.len())?;
        // What stops the walk before its end beside who is shown rows.
        let mut refused = Ok(());
        let counts = RefCell::new(&mut refused);
        let count = |bytes: usize| match self.budget.count_read(bytes) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                **counts.borrow_mut() = Err(error);
                ControlFlow::Break(())
            }
        };
        let mut show = |key: &[u8], value: Option<&[u8]>| {
            count(key.len() + value.map_or(0, <[u8]>::len))?;
            value.map_or(ControlFlow::Continue(()), |value| visit(key, value))
        };
        self.current.walk(from, to, &mut show, |show| {
            self.scan_before(from, to, &mut |key, value| {
                if self.current.is_removed(key) {
                    // Unless it was put again, it is passed over, which takes time too.
                    return if self.current.get(key).is_some() {
                        show(key, value)
                    } else {
                        count(key.len())
                    };
                }
                show(key, value)
            })
        })?;
        refused
    }

    fn hold(&self, bytes: usize) -> Result<(), StoreError> {
        self.budget.hold(bytes)
    }

    fn work(&self, steps: u64) -> Result<(), StoreError> {
        self.budget.work(steps)
    }

    fn is_budgeted(&self) -> bool {
        true
    }

    fn is_pressed(&self) -> bool {
        self.budget.is_pressed()
    }
}

impl RowsWrite for Overlay<'_> {
    fn put_parts(&mut self, key: &[u8], parts: &[&[u8]]) {
        if self.budget.change(key.len() + parts.iter().map(|part| part.len()).sum::<usize>()) {
            self.change(key, Some(parts.concat().into()));
        }
    }

    fn delete(&mut self, key: &[u8]) {
        if self.budget.change(key.len()) {
            self.change(key, None);
        }
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        if from >= to || !self.budget.change(from.len() + to.len()) {
            return;
        }
        self.current.remove_range(from, to, self.journal.as_mut());
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
