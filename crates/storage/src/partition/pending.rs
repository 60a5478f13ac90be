//! What the last records changed and the engine was not given yet. Rows are handed to it many
//! records at a time, sorted and each in its latest state alone: a memtable takes sorted rows in
//! a fraction of the time, and what every record changes (sessions, the lead, the stamp) costs
//! one row for many records.
//!
//! It is memory only, as a memtable is: after a crash it comes from the log again. What is taken
//! out at once is the state after a whole record, stamp and all.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard, RwLock};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::engine::Batch;
use crate::rows::StoreError;

/// The latest change of each row; `None` is removed.
pub(super) type Rows = HashMap<Box<[u8]>, Option<Bytes>, BuildHasherDefault<KeyHasher>>;

/// Hashes a key at one go: a hasher that can be fed in parts has a large state to set up.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_usize(&mut self, length: usize) {
        self.0 ^= length as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The same in the order of keys.
pub(super) type SortedRows = BTreeMap<Box<[u8]>, Option<Bytes>>;

/// Beyond this many rows or bytes they are handed on before more come.
const ROWS_MAX: usize = 1024;
const BYTES_MAX: usize = 256 * 1024;
/// What a row takes beside its key and value, bytes, about.
const ROW_OVERHEAD_BYTES: usize = 64;
/// A batch that grew beyond this is let go.
const BATCH_BYTES_KEPT: usize = 4 * BYTES_MAX;

/// The pending changes of one store.
pub(super) struct Pending {
    state: RwLock<PendingRows>,
    /// Held by who hands rows on, one at a time, with the memory that it needs for that.
    handing: Mutex<Batch>,
    /// The store did not take what it was handed last.
    was_refused: AtomicBool,
    /// Of all stores of a node.
    bytes_of_node: Arc<AtomicUsize>,
}

#[derive(Default)]
struct PendingRows {
    rows: Rows,
    bytes: usize,
    /// Older than `rows`; being written to the store.
    handed: Arc<Rows>,
    /// Keys of which either may have rows.
    keys: KeyFilter,
    keys_handed: KeyFilter,
    /// Both in order, since somebody asked for them so and until they change.
    sorted: Option<Arc<SortedRows>>,
}

impl Pending {
    /// Nothing; rows are handed on in `batch`, and what is held is counted in `bytes_of_node` as well.
    pub(super) fn new(batch: Batch, bytes_of_node: Arc<AtomicUsize>) -> Self {
        let handing = Mutex::new(batch);
        let was_refused = AtomicBool::new(false);
        Self { state: RwLock::default(), handing, was_refused, bytes_of_node }
    }

    /// A row's latest change, where one is pending.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<Bytes>> {
        let state = self.state.read();
        state.rows.get(key).or_else(|| state.handed.get(key)).cloned()
    }

    /// Whether a row may be pending whose key begins with this, which is as long as a key's hash at least.
    pub(super) fn may_hold(&self, stem: &[u8]) -> bool {
        let state = self.state.read();
        state.keys.may_hold(stem) || state.keys_handed.may_hold(stem)
    }

    /// Takes the changes of one record in, all at one moment. Each is shown to `taken`, before
    /// that moment is over for those who look here.
    pub(super) fn merge(&self, rows: Rows, mut taken: impl FnMut(&[u8], Option<&Bytes>)) {
        let mut state = self.state.write();
        let before = state.bytes;
        state.rows.reserve(rows.len());
        state.sorted = None;
        for (key, value) in rows {
            taken(&key, value.as_ref());
            state.keys.add(&key);
            state.bytes += row_bytes(&key, value.as_ref());
            if let Some(replaced) = state.rows.get_mut(&key) {
                let replaced = std::mem::replace(replaced, value);
                state.bytes -= row_bytes(&key, replaced.as_ref());
            } else {
                state.rows.insert(key, value);
            }
        }
        // Adding the difference, which may be negative.
        let change = state.bytes.wrapping_sub(before);
        self.bytes_of_node.fetch_add(change, Ordering::Relaxed);
    }

    /// All of it, and what `look` sees of the store at the same moment: waits for nobody who hands
    /// rows on. Those who ask between two changes share the rows.
    pub(super) fn sorted_with<T>(&self, look: impl FnOnce() -> T) -> (Arc<SortedRows>, T) {
        let mut state = self.state.write();
        let PendingRows { rows, handed, sorted, .. } = &mut *state;
        let sorted = sorted.get_or_insert_with(|| {
            // The store may have what is being handed on, or not yet: here it is as it will be.
            let all = handed.iter().chain(rows.iter());
            Arc::new(all.map(|(key, value)| (key.clone(), value.clone())).collect())
        });
        (Arc::clone(sorted), look())
    }

    /// Whether the store did not take what it was handed last.
    pub(super) fn was_refused(&self) -> bool {
        self.was_refused.load(Ordering::Relaxed)
    }

    /// Whether it is time to hand rows on.
    pub(super) fn is_full(&self) -> bool {
        let state = self.state.read();
        state.rows.len() >= ROWS_MAX || state.bytes >= BYTES_MAX
    }

    /// Bytes held, about.
    pub(super) fn bytes(&self) -> usize {
        self.state.read().bytes
    }

    /// Hands everything on, and returns once `write` has it: whole, or not at all where it fails.
    pub(super) fn hand_on(
        &self,
        write: impl FnOnce(&Batch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.hand_on_with(self.handing.lock(), write)
    }

    /// As [`Self::hand_on`]; [`StoreError::NotCached`] where another is at it.
    pub(super) fn hand_on_at_once(
        &self,
        write: impl FnOnce(&Batch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let batch = self.handing.try_lock().ok_or(StoreError::NotCached)?;
        self.hand_on_with(batch, write)
    }

    fn hand_on_with(
        &self,
        mut batch: MutexGuard<'_, Batch>,
        write: impl FnOnce(&Batch) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (rows, bytes) = {
            let mut state = self.state.write();
            if state.rows.is_empty() {
                return Ok(());
            }
            // As large as it was: the next ones will be as many.
            let capacity = state.rows.len();
            let next = Rows::with_capacity_and_hasher(capacity, BuildHasherDefault::default());
            state.handed = Arc::new(std::mem::replace(&mut state.rows, next));
            state.keys_handed = std::mem::take(&mut state.keys);
            state.sorted = None;
            (Arc::clone(&state.handed), std::mem::take(&mut state.bytes))
        };
        fill(&mut batch, &rows);
        let written = write(&batch);
        self.was_refused.store(written.is_err(), Ordering::Relaxed);
        let mut state = self.state.write();
        state.handed = Arc::default();
        let keys_handed = std::mem::take(&mut state.keys_handed);
        state.sorted = None;
        if written.is_err() {
            for (key, value) in rows.iter() {
                state.rows.entry(key.clone()).or_insert_with(|| value.clone());
            }
            state.keys.add_all(&keys_handed);
            // Rows changed meanwhile are counted twice until they are handed on.
            state.bytes += bytes;
        } else {
            self.bytes_of_node.fetch_sub(bytes, Ordering::Relaxed);
        }
        drop(state);
        batch.clear(BATCH_BYTES_KEPT);
        written
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.bytes_of_node.fetch_sub(self.state.get_mut().bytes, Ordering::Relaxed);
    }
}

/// Which keys have rows, perhaps: a bit for the rows of some keys, of which all rows begin alike up to the key's hash.
struct KeyFilter([u64; FILTER_WORDS]);

const FILTER_WORDS: usize = 128;

impl Default for KeyFilter {
    fn default() -> Self {
        Self([0; FILTER_WORDS])
    }
}

impl KeyFilter {
    fn place(key: &[u8]) -> Option<(usize, u64)> {
        // After the first byte, which says what kind of row it is, the hash of its key, whose first bits are alike
        // in a partition.
        let [_, _, _, _, _, _, _, a, b, ..] = *key else { return None };
        let hash = usize::from(a) << 8 | usize::from(b);
        Some(((hash >> 6) % FILTER_WORDS, 1 << (hash & 63)))
    }

    fn add(&mut self, key: &[u8]) {
        if let Some((word, bit)) = Self::place(key) {
            self.0[word] |= bit;
        }
    }

    fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    fn may_hold(&self, stem: &[u8]) -> bool {
        Self::place(stem).is_none_or(|(word, bit)| self.0[word] & bit != 0)
    }
}

/// The rows in the order of their keys.
fn fill(batch: &mut Batch, rows: &Rows) {
    let mut sorted: Vec<(&[u8], Option<&Bytes>)> =
        rows.iter().map(|(key, value)| (&**key, value.as_ref())).collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    for (key, value) in sorted {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        }
    }
}

fn row_bytes(key: &[u8], value: Option<&Bytes>) -> usize {
    key.len() + value.map_or(0, Bytes::len) + ROW_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    //! Tests of what is shown while rows are handed on, and of a write that fails.

    use super::*;

    fn rows(changes: &[(&[u8], Option<&'static [u8]>)]) -> Rows {
        let row = |(key, value): &(&[u8], Option<&'static [u8]>)| {
            ((*key).into(), value.map(Bytes::from_static))
        };
        changes.iter().map(row).collect()
    }

    fn empty(bytes_of_node: Arc<AtomicUsize>) -> Pending {
        Pending::new(Batch::Memory(Vec::new()), bytes_of_node)
    }

    fn value(text: &'static [u8]) -> Option<Option<Bytes>> {
        Some(Some(Bytes::from_static(text)))
    }

    #[test]
    fn shows_rows_until_they_are_in_the_store() {
        let bytes = Arc::new(AtomicUsize::new(0));
        let pending = empty(Arc::clone(&bytes));
        pending.merge(rows(&[(b"a", Some(b"1")), (b"b", Some(b"1")), (b"c", None)]), |_, _| ());
        pending.merge(rows(&[(b"b", Some(b"22"))]), |_, _| ());
        assert_eq!(pending.bytes(), bytes.load(Ordering::Relaxed));
        let handed = pending.hand_on(|batch| {
            assert_eq!(batch.len(), 3, "each row once");
            assert_eq!(pending.get(b"a"), value(b"1"));
            pending.merge(rows(&[(b"a", Some(b"3"))]), |_, _| ());
            assert_eq!((pending.get(b"a"), pending.get(b"b")), (value(b"3"), value(b"22")));
            assert_eq!(pending.get(b"c"), Some(None), "removed");
            let other = pending.hand_on_at_once(|_| panic!("one at a time"));
            assert_eq!(other, Err(StoreError::NotCached));
            Ok(())
        });
        handed.unwrap();
        assert_eq!((pending.get(b"a"), pending.get(b"b")), (value(b"3"), None));
        assert_eq!(pending.bytes(), bytes.load(Ordering::Relaxed));
        drop(pending);
        assert_eq!(bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn keeps_what_could_not_be_written_under_what_came_meanwhile() {
        let pending = empty(Arc::default());
        pending.merge(rows(&[(b"a", Some(b"1")), (b"b", Some(b"1"))]), |_, _| ());
        let failed = pending.hand_on(|_| {
            pending.merge(rows(&[(b"a", Some(b"2"))]), |_, _| ());
            Err(StoreError::Failed("full".to_owned()))
        });
        assert!(failed.is_err());
        assert_eq!((pending.get(b"a"), pending.get(b"b")), (value(b"2"), value(b"1")));
        let handed = pending.hand_on(|batch| {
            assert_eq!(batch.len(), 2);
            Ok(())
        });
        handed.unwrap();
        assert_eq!((pending.get(b"a"), pending.bytes()), (None, 0));
    }

    #[test]
    fn those_who_ask_between_two_changes_share_the_sorted_rows() {
        let pending = empty(Arc::default());
        pending.merge(rows(&[(b"b", Some(b"1")), (b"a", None)]), |_, _| ());
        let first = pending.sorted_with(|| ()).0;
        let keys = |rows: &SortedRows| rows.keys().map(|key| key.to_vec()).collect::<Vec<_>>();
        assert_eq!(keys(&first), [b"a", b"b"]);
        assert!(Arc::ptr_eq(&first, &pending.sorted_with(|| ()).0));
        pending.merge(rows(&[(b"c", Some(b"1"))]), |_, _| ());
        let second = pending.sorted_with(|| ()).0;
        assert_eq!((keys(&first).len(), keys(&second).len()), (2, 3));
        let failed = pending.hand_on(|_| {
            pending.merge(rows(&[(b"d", Some(b"1"))]), |_, _| ());
            Err(StoreError::Failed("full".to_owned()))
        });
        assert!(failed.is_err() && pending.was_refused());
        assert_eq!(keys(&pending.sorted_with(|| ()).0).len(), 4);
        pending.hand_on(|_| Ok(())).unwrap();
        assert!(!pending.was_refused() && pending.sorted_with(|| ()).0.is_empty());
    }

    #[test]
    fn all_rows_are_shown_while_some_are_handed_on() {
        let pending = empty(Arc::default());
        pending.merge(rows(&[(b"a", Some(b"1")), (b"b", Some(b"1"))]), |_, _| ());
        let handed = pending.hand_on(|_| {
            pending.merge(rows(&[(b"b", None), (b"c", Some(b"1"))]), |_, _| ());
            let shown = pending.sorted_with(|| ()).0;
            let shown: Vec<_> =
                shown.iter().map(|(key, value)| (&**key, value.is_some())).collect();
            assert_eq!(shown, [(&b"a"[..], true), (b"b", false), (b"c", true)]);
            Ok(())
        });
        handed.unwrap();
        assert_eq!(pending.sorted_with(|| ()).0.len(), 2, "the store has the others");
    }

    #[test]
    fn is_full_by_rows_and_by_bytes() {
        let pending = empty(Arc::default());
        for at in 0..ROWS_MAX {
            assert!(!pending.is_full(), "{at}");
            pending.merge(rows(&[(&at.to_be_bytes(), None)]), |_, _| ());
        }
        assert!(pending.is_full());
        let pending = empty(Arc::default());
        static LARGE: [u8; BYTES_MAX] = [0; BYTES_MAX];
        pending.merge(rows(&[(b"a", Some(&LARGE))]), |_, _| ());
        assert!(pending.is_full());
    }
}
