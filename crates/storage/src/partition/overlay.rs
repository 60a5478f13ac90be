//! A partition's rows while a record is applied to them: the store's, with what the record has
//! changed so far on top. The changes are gathered and given to the store at the end. Those of the
//! operation that runs can be taken back, and what it takes is counted ([`super::budget`]).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::ControlFlow;

use bytes::Bytes;

use super::budget::Budget;
use super::journal::{Journal, Undo};
use super::merge::walk_merged;
use super::pending::Rows;
use super::store::Store;
use crate::ErrorReply;
use crate::rows::key::KIND_TOMBSTONE;
use crate::rows::touch::{Touch, TouchLog, TouchMark, Touches};
use crate::rows::{RowsRead, RowsWrite, StoreError, Visit};

/// What a record changed.
pub(super) struct Changes {
    /// The latest change of each row, but for those in `removed`.
    pub rows: Rows,
    /// Ranges removed before that, from and to.
    pub removed: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

/// The store's rows under the changes of one record.
pub struct Overlay<'a> {
    store: &'a Store,
    changes: Rows,
    /// The keys of `changes` in order, once something was asked for in order.
    order: RefCell<Option<BTreeSet<Box<[u8]>>>>,
    /// Ranges removed, from and to, each before some of `changes`: they hide the store's rows.
    /// None meets another.
    removed: BTreeMap<Box<[u8]>, Box<[u8]>>,
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
            changes: Rows::default(),
            order: RefCell::default(),
            removed: BTreeMap::new(),
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
        self.changes.reserve(rows);
    }

    /// Another record begins, with a budget of its own. Says what the one before took of what its
    /// operations share, thousandths.
    pub(super) fn begin_record(&mut self) -> u64 {
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
            match undo {
                Undo::Row(key, Some(value)) => {
                    if let Some(order) = self.order.get_mut() {
                        order.insert(key.into());
                    }
                    self.changes.insert(key.into(), value);
                }
                Undo::Row(key, None) => {
                    if let Some(order) = self.order.get_mut() {
                        order.remove(key);
                    }
                    self.changes.remove(key);
                }
                Undo::RangeAdded(from) => {
                    self.removed.remove(&from);
                }
                Undo::RangeTaken(from, to) => {
                    self.removed.insert(from, to);
                }
            }
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

    /// As [`RowsWrite::put`], of bytes that it can keep, and of no operation.
    pub(super) fn put_owned(&mut self, key: &[u8], value: Vec<u8>) {
        self.change(key, Some(value.into()));
    }

    /// All changes: a row that was changed before a range around it was removed is not among
    /// them.
    pub(super) fn into_changes(self) -> Changes {
        Changes { rows: self.changes, removed: self.removed }
    }

    fn change(&mut self, key: &[u8], value: Option<Bytes>) {
        if let Some(order) = self.order.get_mut()
            && !order.contains(key)
        {
            order.insert(key.into());
        }
        let before = self.changes.insert(key.into(), value);
        if let Some(journal) = &mut self.journal {
            journal.push_row(key, before);
        }
    }

    fn is_removed(&self, key: &[u8]) -> bool {
        if self.removed.is_empty() {
            return false;
        }
        let before = self.removed.range::<[u8], _>((Unbounded, Included(key))).next_back();
        before.is_some_and(|(_, to)| key < &**to)
    }

    /// Puts the keys of all changes in order, unless they are.
    fn put_in_order(&self) {
        // Who walks them already may walk them again meanwhile.
        if self.order.borrow().is_none() {
            *self.order.borrow_mut() = Some(self.changes.keys().cloned().collect());
        }
    }

    /// Notes a range as removed, as one with those that it meets.
    fn add_removed(&mut self, from: &[u8], to: &[u8]) {
        let (mut from, mut to): (Box<[u8]>, Box<[u8]>) = (from.into(), to.into());
        loop {
            let before = self.removed.range::<[u8], _>((Unbounded, Included(&*to))).next_back();
            let Some((met, _)) = before.filter(|(_, end)| **end >= from) else { break };
            let met = met.clone();
            let Some(end) = self.removed.remove(&met) else { break };
            if let Some(journal) = &mut self.journal {
                journal.push(Undo::RangeTaken(met.clone(), end.clone()));
            }
            from = from.min(met);
            to = to.max(end);
        }
        if let Some(journal) = &mut self.journal {
            journal.push(Undo::RangeAdded(from.clone()));
        }
        self.removed.insert(from, to);
    }
}

impl RowsRead for Overlay<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.budget.look(key.len())?;
        let found = if let Some(change) = self.changes.get(key) {
            change.clone()
        } else {
            let is_absent = key.first() == Some(&KIND_TOMBSTONE) && !self.store.has_tombstones();
            if is_absent || self.is_removed(key) { None } else { self.store.get(key)? }
        };
        if let Some(value) = &found {
            self.budget.look(value.len())?;
        }
        Ok(found)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        if from >= to {
            return Ok(());
        }
        self.budget.look(from.len())?;
        self.put_in_order();
        let order = self.order.borrow();
        let changed =
            order.iter().flat_map(|it| it.range::<[u8], _>((Included(from), Excluded(to))));
        let changed = changed.map(|key| (&**key, self.changes.get(key).and_then(Option::as_deref)));
        // What stops the walk before its end beside who is shown rows.
        let mut refused = Ok(());
        let counts = RefCell::new(&mut refused);
        let count = |bytes: usize| match self.budget.look(bytes) {
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
        walk_merged(changed, &mut show, |show| {
            self.store.scan(from, to, &mut |key, value| {
                if self.is_removed(key) {
                    // Unless it was put again, it is passed over, which takes time too.
                    return if self.changes.contains_key(key) {
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
    fn put(&mut self, key: &[u8], value: &[u8]) {
        if self.budget.change(key.len() + value.len()) {
            self.change(key, Some(Bytes::copy_from_slice(value)));
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
        self.put_in_order();
        let order = self.order.get_mut();
        let doomed =
            order.iter().flat_map(|it| it.range::<[u8], _>((Included(from), Excluded(to))));
        let doomed: Vec<Box<[u8]>> = doomed.cloned().collect();
        for key in doomed {
            if let Some(order) = self.order.get_mut() {
                order.remove(&key);
            }
            let before = self.changes.remove(&key);
            if let Some(journal) = &mut self.journal {
                journal.push_row(&key, before);
            }
        }
        self.add_removed(from, to);
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
