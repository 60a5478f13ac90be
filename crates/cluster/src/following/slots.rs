//! What runs once at a time: a slot is taken while a task runs, and given back however that ends, also
//! where it panics.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::time::Instant;

/// The slots that are taken, by what they are for.
pub(super) struct Slots<K>(Arc<Mutex<BTreeSet<K>>>);

/// One that is taken; given back where it is dropped.
pub(super) struct Taken<K: Ord> {
    slots: Arc<Mutex<BTreeSet<K>>>,
    key: K,
}

impl<K> Default for Slots<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Clone + Ord> Slots<K> {
    /// Takes one; `None` where it is taken, or as many are as may be at once.
    pub(super) fn take(&self, key: K, at_once_max: usize) -> Option<Taken<K>> {
        self.take_where(key, |taken| taken.len() < at_once_max)
    }

    /// The same, where there is room beside those that are taken.
    pub(super) fn take_where(
        &self,
        key: K,
        has_room: impl FnOnce(&BTreeSet<K>) -> bool,
    ) -> Option<Taken<K>> {
        let mut taken = self.0.lock();
        if !has_room(&taken) || !taken.insert(key.clone()) {
            return None;
        }
        Some(Taken { slots: Arc::clone(&self.0), key })
    }
}

impl<K> Slots<K> {
    /// Whether none is taken.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// What is done now and then, and not before it is through.
#[derive(Default)]
pub(super) struct Turn {
    slot: Slots<()>,
    at: Option<Instant>,
}

impl Turn {
    /// Takes the turn; `None` where the last is not that long ago, or not through.
    pub(super) fn take(&mut self, interval: Duration, now: Instant) -> Option<Taken<()>> {
        if self.at.is_some_and(|at| now - at < interval) {
            return None;
        }
        let taken = self.slot.take((), 1)?;
        self.at = Some(now);
        Some(taken)
    }
}

impl<K: Ord> Drop for Taken<K> {
    fn drop(&mut self) {
        self.slots.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_given_back_however_its_task_ends() {
        let slots = Slots::default();
        let first = slots.take(1, 2);
        assert!(first.is_some() && slots.take(1, 2).is_none(), "it is taken");
        let second = slots.take(2, 2);
        assert!(second.is_some() && slots.take(3, 2).is_none(), "no more at once");
        drop(second);
        let third = slots.take(3, 2);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _third = third;
            panic!("as tasks do");
        }));
        assert!(panicked.is_err());
        assert!(slots.take(3, 2).is_some());
    }
}
