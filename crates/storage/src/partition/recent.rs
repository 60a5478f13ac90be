//! The documents that the last records wrote, in memory, for the index that follows the rows: it
//! would otherwise read each of them back from the store. Bounded; what is not here is read from
//! the rows, and nothing is here after a restart. Which documents changed is durable elsewhere
//! (`touches.rs`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use plimsoll_log::Lsn;

use crate::rows::touch::Touches;

/// What a document takes beside its source, bytes, about.
const DOCUMENT_OVERHEAD_BYTES: usize = 64;

/// What one record touched.
#[derive(Clone, Debug)]
pub struct RecentTouches {
    /// The record's position.
    pub lsn: Lsn,
    /// Its touches.
    pub touches: Touches,
    /// What became of each touch's document, where that is known.
    pub sources: Vec<Option<Bytes>>,
}

impl RecentTouches {
    fn bytes(&self) -> usize {
        let sources = self.sources.iter().flatten().map(Bytes::len).sum::<usize>();
        let documents = self.sources.len() * DOCUMENT_OVERHEAD_BYTES;
        sources + documents + self.touches.as_bytes().len()
    }
}

/// The last records' touches of one partition.
pub struct Recent {
    state: Mutex<RecentRecords>,
    /// Of all partitions of a node, and how many there may be.
    bytes_of_node: Arc<AtomicUsize>,
    bytes_max: usize,
}

#[derive(Default)]
struct RecentRecords {
    /// In the order of positions.
    records: VecDeque<RecentTouches>,
    /// Every touch after this position is in `records`.
    complete_after: Lsn,
    bytes: usize,
}

impl Recent {
    /// Nothing; what is held is counted in `bytes_of_node` as well.
    pub(super) fn new(bytes_of_node: Arc<AtomicUsize>, bytes_max: usize) -> Self {
        Self { state: Mutex::default(), bytes_of_node, bytes_max }
    }

    /// Forgets everything: touches up to `position` are to be read from the rows.
    pub(super) fn restart(&self, position: Lsn) {
        self.clear(&mut self.state.lock(), position);
    }

    /// Takes in what a record touches, before the rows show it. A record that is given again
    /// replaces what it gave before. Where there is no room, everything is forgotten.
    pub(super) fn push(&self, lsn: Lsn, touches: &Touches, sources: Vec<Option<Bytes>>) {
        let record = RecentTouches { lsn, touches: touches.clone(), sources };
        let bytes = record.bytes();
        let mut state = self.state.lock();
        while state.records.back().is_some_and(|last| last.lsn >= lsn) {
            let bytes = state.records.pop_back().map_or(0, |last| last.bytes());
            self.count(&mut state, 0, bytes);
        }
        if self.bytes_of_node.load(Ordering::Relaxed) + bytes > self.bytes_max {
            self.clear(&mut state, lsn);
            return;
        }
        self.count(&mut state, bytes, 0);
        state.records.push_back(record);
    }

    /// What was touched after a position and up to another, in order: all of it, or `None` where
    /// it is to be read from the rows. What is given, and what is older, is forgotten.
    #[must_use]
    pub fn take(&self, after: Lsn, up_to: Lsn) -> Option<Vec<RecentTouches>> {
        let mut state = self.state.lock();
        let is_complete = state.complete_after <= after;
        let mut taken = Vec::new();
        while state.records.front().is_some_and(|first| first.lsn <= up_to) {
            let Some(record) = state.records.pop_front() else { break };
            self.count(&mut state, 0, record.bytes());
            if record.lsn > after && is_complete {
                taken.push(record);
            }
        }
        state.complete_after = state.complete_after.max(up_to);
        is_complete.then_some(taken)
    }

    fn clear(&self, state: &mut RecentRecords, complete_after: Lsn) {
        let bytes = state.bytes;
        self.count(state, 0, bytes);
        state.records = VecDeque::new();
        state.complete_after = complete_after;
    }

    fn count(&self, state: &mut RecentRecords, more: usize, less: usize) {
        state.bytes = state.bytes + more - less;
        self.bytes_of_node.fetch_add(more, Ordering::Relaxed);
        self.bytes_of_node.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Drop for Recent {
    fn drop(&mut self) {
        self.bytes_of_node.fetch_sub(self.state.get_mut().bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    //! Tests of what is complete, and of the bounds.

    use super::*;
    use crate::rows::touch::{Touch, TouchLog};

    fn touches(id: &[u8]) -> Touches {
        let mut log = TouchLog::default();
        log.push(Touch::Document { key: id, id, is_new: true });
        log.finish().unwrap()
    }

    fn source(text: &'static str) -> Vec<Option<Bytes>> {
        vec![Some(Bytes::from_static(text.as_bytes()))]
    }

    fn lsns(taken: Option<Vec<RecentTouches>>) -> Option<Vec<u64>> {
        taken.map(|taken| taken.iter().map(|record| record.lsn.0).collect())
    }

    #[test]
    fn gives_what_is_complete_and_only_up_to_a_position() {
        let held = Arc::new(AtomicUsize::new(0));
        let recent = Recent::new(Arc::clone(&held), 1 << 20);
        recent.restart(Lsn(4));
        for lsn in 5..9 {
            recent.push(Lsn(lsn), &touches(b"a"), source("{}"));
        }
        assert_eq!(lsns(recent.take(Lsn(5), Lsn(6))), Some(vec![6]));
        assert_eq!(lsns(recent.take(Lsn(6), Lsn(6))), Some(vec![]));
        assert_eq!(lsns(recent.take(Lsn(3), Lsn(7))), None, "of 4 and 5 nothing is known");
        assert_eq!(lsns(recent.take(Lsn(7), Lsn(20))), Some(vec![8]));
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_record_given_again_replaces_itself() {
        let recent = Recent::new(Arc::default(), 1 << 20);
        recent.push(Lsn(1), &touches(b"a"), source("1"));
        recent.push(Lsn(2), &touches(b"a"), source("2"));
        recent.push(Lsn(2), &touches(b"a"), source("3"));
        let taken = recent.take(Lsn(0), Lsn(2)).unwrap();
        let sources: Vec<_> = taken.iter().flat_map(|record| record.sources.clone()).collect();
        assert_eq!(sources, [source("1"), source("3")].concat());
    }

    #[test]
    fn what_has_no_room_is_left_to_the_rows() {
        let held = Arc::new(AtomicUsize::new(0));
        let recent = Recent::new(Arc::clone(&held), 1000);
        let other = Recent::new(Arc::clone(&held), 1000);
        for lsn in 1..100 {
            recent.push(Lsn(lsn), &touches(b"a"), source("source"));
            assert!(held.load(Ordering::Relaxed) <= 1000);
        }
        assert_eq!(lsns(recent.take(Lsn(0), Lsn(99))), None);
        recent.push(Lsn(100), &touches(b"a"), source("source"));
        assert_eq!(lsns(recent.take(Lsn(99), Lsn(100))), Some(vec![100]));
        other.push(Lsn(1), &touches(b"a"), source("source"));
        assert!(held.load(Ordering::Relaxed) > 0);
        drop((recent, other));
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }
}
