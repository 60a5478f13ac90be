//! Where scans of large hashes go on: a client is told a number, and the node remembers what it
//! stands for. Forgotten with the node, and when there are too many.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use super::random;

/// How many scans are remembered; the oldest is forgotten first.
pub const CURSORS_MAX: usize = 65_536;
/// How many bytes of keys and fields they may take together.
const PLACES_BYTES_MAX: usize = 32 * 1024 * 1024;
/// A cursor is below this, so that a client that keeps it in a double keeps it exactly.
const CURSOR_LIMIT: u64 = 1 << 52;

/// Where one scan of a hash goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HashPlace {
    pub key: Vec<u8>,
    pub generation: u64,
    /// The first field not shown yet.
    pub field: Vec<u8>,
}

impl HashPlace {
    fn bytes(&self) -> usize {
        self.key.len() + self.field.len()
    }
}

/// The scans of large hashes that a node remembers, by their cursors.
#[derive(Debug, Default)]
pub struct ScanCursors {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    places: HashMap<u64, HashPlace>,
    /// The cursors in the order in which they were given out.
    order: VecDeque<u64>,
    /// Bytes of all places.
    bytes: usize,
}

impl Table {
    fn forget_oldest(&mut self) {
        let place = self.order.pop_front().and_then(|cursor| self.places.remove(&cursor));
        self.bytes -= place.map_or(0, |place| place.bytes());
    }
}

impl ScanCursors {
    /// How many scans it remembers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.lock().places.len()
    }

    /// Whether it remembers none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Remembers a place: its cursor, never 0.
    pub(super) fn put(&self, place: HashPlace, mut seed: u64) -> u64 {
        let mut table = self.table.lock();
        let cursor = loop {
            let cursor = random::next(&mut seed) % CURSOR_LIMIT;
            if cursor != 0 && !table.places.contains_key(&cursor) {
                break cursor;
            }
        };
        while table.order.len() == CURSORS_MAX
            || (table.bytes + place.bytes() > PLACES_BYTES_MAX && !table.order.is_empty())
        {
            table.forget_oldest();
        }
        table.bytes += place.bytes();
        table.order.push_back(cursor);
        table.places.insert(cursor, place);
        cursor
    }

    /// The place of a cursor, which stays: a client may ask again.
    pub(super) fn get(&self, cursor: u64) -> Option<HashPlace> {
        self.table.lock().places.get(&cursor).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_scan_is_forgotten_first() {
        let cursors = ScanCursors::default();
        let place = |n: u64| HashPlace { key: vec![], generation: n, field: vec![] };
        let first = cursors.put(place(0), 0);
        // One seed for all: a cursor in use is never given out again.
        let second = cursors.put(place(1), 0);
        for n in 2..CURSORS_MAX as u64 {
            cursors.put(place(n), n);
        }
        assert_eq!(cursors.get(first), Some(place(0)));
        cursors.put(place(7), 7);
        assert_eq!((cursors.get(first), cursors.len()), (None, CURSORS_MAX));
        assert_eq!(cursors.get(second), Some(place(1)));
    }

    #[test]
    fn large_keys_leave_room_for_fewer_scans() {
        let cursors = ScanCursors::default();
        for n in 0..100 {
            let place = HashPlace { key: vec![0; 1 << 20], generation: n, field: vec![] };
            cursors.put(place, n);
        }
        assert_eq!(cursors.len(), 32);
    }
}
