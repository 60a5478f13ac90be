//! Where scans of large hashes go on. A cursor is a hash of the field to go on from, so that every
//! copy of the hash finds its place; the node remembers places, so that it mostly need not look.
//! Forgotten with the node, and when there are too many.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How many scans are remembered; the oldest is forgotten first.
pub const CURSORS_MAX: usize = 65_536;
/// How many bytes of keys and fields they may take together.
const PLACES_BYTES_MAX: usize = 32 * 1024 * 1024;
/// A cursor is below 2 to this, so that a client that keeps it in a double keeps it exactly.
const CURSOR_BITS: u32 = 52;

/// The cursor of a scan that goes on from a field of a hash, never 0.
pub(super) fn cursor_of(generation: u64, field: &[u8]) -> u64 {
    (xxh3_64_with_seed(field, generation) >> (u64::BITS - CURSOR_BITS)).max(1)
}

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

    /// Remembers a place: its cursor.
    pub(super) fn put(&self, place: HashPlace) -> u64 {
        let cursor = cursor_of(place.generation, &place.field);
        let mut table = self.table.lock();
        if table.places.get(&cursor) == Some(&place) {
            return cursor;
        }
        while table.order.len() == CURSORS_MAX
            || (table.bytes + place.bytes() > PLACES_BYTES_MAX && !table.order.is_empty())
        {
            table.forget_oldest();
        }
        table.bytes += place.bytes();
        match table.places.insert(cursor, place) {
            Some(replaced) => table.bytes -= replaced.bytes(),
            None => table.order.push_back(cursor),
        }
        cursor
    }

    /// The place of a cursor in a hash, where it is remembered. It stays: a client may ask again.
    pub(super) fn get(&self, cursor: u64, key: &[u8]) -> Option<HashPlace> {
        self.table.lock().places.get(&cursor).filter(|place| place.key == key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_scan_is_forgotten_first() {
        let cursors = ScanCursors::default();
        let place = |generation: u64| HashPlace { key: vec![], generation, field: vec![] };
        let first = cursors.put(place(0));
        let second = cursors.put(place(1));
        assert_eq!(cursors.put(place(1)), second, "the same place");
        for n in 2..CURSORS_MAX as u64 {
            cursors.put(place(n));
        }
        assert_eq!(cursors.get(first, b""), Some(place(0)));
        assert_eq!(cursors.get(first, b"other"), None);
        cursors.put(place(u64::MAX));
        assert_eq!((cursors.get(first, b""), cursors.len()), (None, CURSORS_MAX));
        assert_eq!(cursors.get(second, b""), Some(place(1)));
    }

    #[test]
    fn large_keys_leave_room_for_fewer_scans() {
        let cursors = ScanCursors::default();
        for generation in 0..100 {
            let place = HashPlace { key: vec![0; 1 << 20], generation, field: vec![] };
            cursors.put(place.clone());
            cursors.put(place);
        }
        assert_eq!(cursors.len(), 32);
    }

    #[test]
    fn a_cursor_is_exact_in_a_double_and_never_the_end() {
        for generation in 0..1000 {
            let cursor = cursor_of(generation, b"field");
            assert!((1..1 << CURSOR_BITS).contains(&cursor));
        }
    }
}
