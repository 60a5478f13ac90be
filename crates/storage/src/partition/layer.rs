//! Changes of rows that lie over others: rows put and removed, and ranges removed before them. One
//! operation's can be taken back with a [`Journal`]. What they cost is not counted here.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::ControlFlow;

use bytes::Bytes;

use super::changes::Changes;
use super::journal::{Journal, Undo};
use super::merge::{Show, walk_merged};
use super::pending::Rows;
use crate::rows::{StoreError, Visit};

/// Changes over other rows.
#[derive(Default)]
pub(super) struct Layer {
    rows: Rows,
    /// The keys of `rows` in order, once something was asked for in order.
    order: RefCell<Option<BTreeSet<Box<[u8]>>>>,
    /// Ranges removed, from and to, each before some of `rows`: they hide what lies under the layer.
    /// None meets another.
    removed: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

impl Layer {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.removed.is_empty()
    }

    /// Makes room for so many changed rows.
    pub fn reserve(&mut self, rows: usize) {
        self.rows.reserve(rows);
    }

    /// What became of a row, `None` where only a removed range may have changed it.
    pub fn get(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        self.rows.get(key)
    }

    /// Whether a removed range hides what lies under a row that [`Self::get`] does not know.
    pub fn is_removed(&self, key: &[u8]) -> bool {
        if self.removed.is_empty() {
            return false;
        }
        let before = self.removed.range::<[u8], _>((Unbounded, Included(key))).next_back();
        before.is_some_and(|(_, to)| key < &**to)
    }

    /// Changes a row.
    pub fn change(&mut self, key: &[u8], value: Option<Bytes>, journal: Option<&mut Journal>) {
        if let Some(order) = self.order.get_mut()
            && !order.contains(key)
        {
            order.insert(key.into());
        }
        let before = self.rows.insert(key.into(), value);
        if let Some(journal) = journal {
            journal.push_row(key, before);
        }
    }

    /// Removes all rows of a range, those under the layer too.
    pub fn remove_range(&mut self, from: &[u8], to: &[u8], mut journal: Option<&mut Journal>) {
        if !self.rows.is_empty() {
            self.put_in_order();
            let order = self.order.get_mut();
            let doomed =
                order.iter().flat_map(|it| it.range::<[u8], _>((Included(from), Excluded(to))));
            let doomed: Vec<Box<[u8]>> = doomed.cloned().collect();
            for key in doomed {
                if let Some(order) = self.order.get_mut() {
                    order.remove(&key);
                }
                let before = self.rows.remove(&key);
                if let Some(journal) = journal.as_deref_mut() {
                    journal.push_row(&key, before);
                }
            }
        }
        self.add_removed(from, to, journal);
    }

    /// Makes one change undone.
    pub fn undo(&mut self, undo: Undo<'_>) {
        match undo {
            Undo::Row(key, Some(value)) => {
                if let Some(order) = self.order.get_mut() {
                    order.insert(key.into());
                }
                self.rows.insert(key.into(), value);
            }
            Undo::Row(key, None) => {
                if let Some(order) = self.order.get_mut() {
                    order.remove(key);
                }
                self.rows.remove(key);
            }
            Undo::RangeAdded(from) => {
                self.removed.remove(&from);
            }
            Undo::RangeTaken(from, to) => {
                self.removed.insert(from, to);
            }
        }
    }

    /// Takes over the changes of a layer that lies over this one, which is empty then and keeps its
    /// room.
    pub fn absorb(&mut self, later: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, later);
            return;
        }
        // First: its rows were changed after its ranges were removed.
        for (from, to) in std::mem::take(&mut later.removed) {
            self.remove_range(&from, &to, None);
        }
        *later.order.get_mut() = None;
        self.rows.reserve(later.rows.len());
        for (key, value) in later.rows.drain() {
            if let Some(order) = self.order.get_mut()
                && !order.contains(&key)
            {
                order.insert(key.clone());
            }
            self.rows.insert(key, value);
        }
    }

    /// Shows the rows of a range that `walk` shows of what lies under the layer, with those changed
    /// in their place. What a removed range hides is left to `walk`.
    pub fn walk(
        &self,
        from: &[u8],
        to: &[u8],
        show: Show<'_>,
        walk: impl FnOnce(Visit<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.put_in_order();
        let order = self.order.borrow();
        let changed =
            order.iter().flat_map(|it| it.range::<[u8], _>((Included(from), Excluded(to))));
        let changed = changed.map(|key| (&**key, self.rows.get(key).and_then(Option::as_deref)));
        walk_merged(changed, show, walk)
    }

    /// Shows, in order, what removed ranges leave of a range.
    pub fn each_left(
        &self,
        from: &[u8],
        to: &[u8],
        mut show: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let before = self.removed.range::<[u8], _>((Unbounded, Excluded(from))).next_back();
        let within = self.removed.range::<[u8], _>((Included(from), Excluded(to)));
        let mut at = from;
        for (removed_from, removed_to) in before.into_iter().chain(within) {
            if at < &**removed_from && show(at, removed_from)?.is_break() {
                return Ok(());
            }
            at = at.max(removed_to);
        }
        if at < to {
            let _ = show(at, to)?;
        }
        Ok(())
    }

    /// All changes: a row that was changed before a range around it was removed is not among
    /// them.
    pub fn into_changes(self) -> Changes {
        Changes { rows: self.rows, removed: self.removed }
    }

    /// Puts the keys of all changes in order, unless they are.
    fn put_in_order(&self) {
        // Who walks them already may walk them again meanwhile.
        if self.order.borrow().is_none() {
            *self.order.borrow_mut() = Some(self.rows.keys().cloned().collect());
        }
    }

    /// Notes a range as removed, as one with those that it meets.
    fn add_removed(&mut self, from: &[u8], to: &[u8], mut journal: Option<&mut Journal>) {
        let (mut from, mut to): (Box<[u8]>, Box<[u8]>) = (from.into(), to.into());
        loop {
            let before = self.removed.range::<[u8], _>((Unbounded, Included(&*to))).next_back();
            let Some((met, _)) = before.filter(|(_, end)| **end >= from) else { break };
            let met = met.clone();
            let Some(end) = self.removed.remove(&met) else { break };
            if let Some(journal) = journal.as_deref_mut() {
                journal.push(Undo::RangeTaken(met.clone(), end.clone()));
            }
            from = from.min(met);
            to = to.max(end);
        }
        if let Some(journal) = journal {
            journal.push(Undo::RangeAdded(from.clone()));
        }
        self.removed.insert(from, to);
    }
}
