//! The rows read and written last, in memory, for all partitions of a node: what a lookup in
//! RocksDB's memtable and blocks costs is most of what a command on one row costs.
//!
//! It never shows a row that the store has moved on from. A write takes its rows out before the
//! store changes and puts them back after, so that in between they are read from the store,
//! which changes at once; a row read meanwhile is not kept. Scans and snapshots do not use it.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use lru::LruCache;
use parking_lot::Mutex;
use smallvec::SmallVec;

/// Parts with a lock each; a power of two.
const SHARDS: usize = 64;
/// A row over this many bytes is not kept.
const ROW_BYTES_MAX: usize = 16 * 1024;
/// What a row takes beside its key and value, bytes, about: its entry in a list, its place in a table, the shared part
/// of its value.
const ROW_OVERHEAD_BYTES: usize = 170;
/// Rows that were taken out all at once are let go with later ones, so many with each: who takes them out is whoever
/// applies for everybody.
const FORGOTTEN_AT_ONCE: usize = 4;
/// Rows of a part that are let go before others may use it.
const SHRUNK_AT_ONCE: usize = 256;
/// A row's key begins with a byte for its kind and eight of the hash by which it is ordered; the last of these says its
/// part.
const STEM_BYTES: usize = 9;
/// The first byte of the keys that are kept: rows, not the replica's own or the expiry index.
const ROWS_TAG: u8 = 0x01;
const ROWS_FROM: &[u8] = &[ROWS_TAG];
const ROWS_TO: &[u8] = &[ROWS_TAG + 1];

/// A partition's number in the cache, drawn when its store is opened.
pub(super) type StoreNumber = u32;

type CacheKey = SmallVec<[u8; 64]>;
type Rows = LruCache<CacheKey, Option<Bytes>>;

/// The cache.
pub(super) struct RowCache {
    shards: Vec<Mutex<Shard>>,
    shard_bytes_max: AtomicUsize,
}

struct Shard {
    /// `None` is out while it is written.
    rows: Rows,
    bytes: usize,
    /// Rows that are shown to nobody and were not let go yet.
    forgotten: Vec<Rows>,
    forgotten_bytes: usize,
    /// Writes that have taken rows out and not put them back yet.
    writers: u32,
    /// Raised by every write: a row read before it is not kept after it.
    version: u64,
    hits: u64,
    misses: u64,
}

/// What the cache holds and how often it helped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowCacheStatistics {
    /// Bytes held, about.
    pub bytes: usize,
    /// Rows asked for and found.
    pub hits: u64,
    /// Rows asked for and not found.
    pub misses: u64,
}

/// A row that was not there, and may be kept once it is read if nothing was written meanwhile.
pub(super) struct Miss {
    version: Option<u64>,
}

/// A look at several rows: see [`RowCache::begin_look`].
pub(super) struct Look {
    version: u64,
}

impl From<&Look> for Miss {
    fn from(look: &Look) -> Self {
        Self { version: Some(look.version) }
    }
}

impl RowCache {
    /// An empty cache of at most about `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, shard_bytes_max: AtomicUsize::new(bytes_max / SHARDS) }
    }

    /// Keeps at most about `bytes_max` bytes from now on.
    pub(super) fn resize(&self, bytes_max: usize) {
        self.shard_bytes_max.store(bytes_max / SHARDS, Ordering::Relaxed);
        for shard in &self.shards {
            while shard.lock().shrink(self.shard_bytes_max(), SHRUNK_AT_ONCE) {}
        }
    }

    /// The row, or what allows to keep it once it is read.
    pub(super) fn get(&self, store: StoreNumber, key: &[u8]) -> Result<Bytes, Miss> {
        let mut shard = self.shard(key).lock();
        if let Some(Some(value)) = shard.rows.get(&cache_key(store, key)) {
            let value = value.clone();
            shard.hits += 1;
            return Ok(value);
        }
        shard.misses += 1;
        let is_kept = shard.writers == 0 && is_row(key);
        Err(Miss { version: is_kept.then_some(shard.version) })
    }

    /// Whether a value is short enough to be kept.
    pub(super) fn takes(value: &[u8]) -> bool {
        value.len() <= ROW_BYTES_MAX
    }

    /// Keeps a row that was missed and then read.
    pub(super) fn keep(&self, store: StoreNumber, key: &[u8], value: &Bytes, miss: &Miss) {
        let mut shard = self.shard(key).lock();
        if shard.writers == 0 && miss.version == Some(shard.version) {
            shard.put(cache_key(store, key), value.clone(), self.shard_bytes_max());
        }
    }

    /// Keeps under a key what is right whenever it was made, or is found to be wrong by who reads it.
    pub(super) fn keep_hint(&self, store: StoreNumber, key: &[u8], value: Bytes) {
        let mut shard = self.shard(key).lock();
        shard.put(cache_key(store, key), value, self.shard_bytes_max());
    }

    /// Begins a look at several rows of one key, which lie in one part; none while rows of that part are written.
    pub(super) fn begin_look(&self, stem: &[u8]) -> Option<Look> {
        let shard = self.shard(stem).lock();
        (shard.writers == 0).then_some(Look { version: shard.version })
    }

    /// Whether nothing that was looked at was written since the look began.
    pub(super) fn is_still(&self, stem: &[u8], look: &Look) -> bool {
        let shard = self.shard(stem).lock();
        shard.writers == 0 && shard.version == look.version
    }

    /// Takes a row out before it is written.
    pub(super) fn begin_write(&self, store: StoreNumber, key: &[u8]) {
        if is_row(key) {
            let mut shard = self.shard(key).lock();
            shard.take_out(&cache_key(store, key));
            shard.writers += 1;
        }
    }

    /// Puts a row back after it was written; `None` where it was removed, or is not known. With
    /// `is_new_kept` also one that was not there: it is likely to be asked for.
    pub(super) fn end_write(
        &self,
        store: StoreNumber,
        key: &[u8],
        value: Option<&Bytes>,
        is_new_kept: bool,
    ) {
        if is_row(key) {
            let mut shard = self.shard(key).lock();
            shard.writers -= 1;
            shard.version += 1;
            let key = cache_key(store, key);
            // Another write may have this row out as well; it is put back by the last.
            match value {
                Some(value) if is_new_kept || shard.rows.contains(&key) => {
                    shard.put(key, value.clone(), self.shard_bytes_max());
                }
                Some(_) => {}
                None => shard.remove(&key),
            }
        }
    }

    /// Lets go of rows that were taken out all at once, so many of each part at most: where nothing is kept any
    /// more, nothing else does.
    pub(super) fn let_forgotten_go(&self, rows_max: usize) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let _ = (0..rows_max).take_while(|_| shard.let_one_go()).count();
        }
    }

    /// Takes the rows out of all parts that a range concerns, before it is removed: of all stores.
    pub(super) fn begin_write_range(&self, from: &[u8], to: &[u8]) {
        for shard in self.shards_of(from, to) {
            let mut shard = shard.lock();
            shard.forget_all();
            shard.writers += 1;
        }
    }

    /// Ends what [`Self::begin_write_range`] began.
    pub(super) fn end_write_range(&self, from: &[u8], to: &[u8]) {
        for shard in self.shards_of(from, to) {
            let mut shard = shard.lock();
            shard.writers -= 1;
            shard.version += 1;
        }
    }

    /// The figures now.
    pub(super) fn statistics(&self) -> RowCacheStatistics {
        let mut sum = RowCacheStatistics::default();
        for shard in &self.shards {
            let shard = shard.lock();
            sum.bytes += shard.bytes + shard.forgotten_bytes;
            sum.hits += shard.hits;
            sum.misses += shard.misses;
        }
        sum
    }

    fn shard_bytes_max(&self) -> usize {
        self.shard_bytes_max.load(Ordering::Relaxed)
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Shard> {
        &self.shards[shard_at(key)]
    }

    /// The parts of all rows of a range: one where it is of one key, none where it is of no rows.
    fn shards_of(&self, from: &[u8], to: &[u8]) -> &[Mutex<Shard>] {
        if to <= ROWS_FROM || from >= ROWS_TO {
            return &[];
        }
        let (stem, other) = (from.get(..STEM_BYTES), to.get(..STEM_BYTES));
        if stem.is_some() && stem == other {
            let at = shard_at(from);
            return &self.shards[at..=at];
        }
        &self.shards
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            rows: LruCache::unbounded(),
            bytes: 0,
            forgotten: Vec::new(),
            forgotten_bytes: 0,
            writers: 0,
            version: 0,
            hits: 0,
            misses: 0,
        }
    }
}

impl Shard {
    fn put(&mut self, key: CacheKey, value: Bytes, bytes_max: usize) {
        if !RowCache::takes(&value) {
            self.remove(&key);
            return;
        }
        let key_bytes = key.len();
        self.bytes += row_bytes(key_bytes, Some(&value));
        if let Some(replaced) = self.rows.put(key, Some(value)) {
            self.bytes -= row_bytes(key_bytes, replaced.as_ref());
        }
        for _ in 0..FORGOTTEN_AT_ONCE {
            self.let_one_go();
        }
        self.shrink(bytes_max, usize::MAX);
    }

    /// Lets rows go until the rest is no more than `bytes_max`, so many at most; whether that is too few.
    fn shrink(&mut self, bytes_max: usize, rows_max: usize) -> bool {
        for _ in 0..rows_max {
            if self.bytes + self.forgotten_bytes <= bytes_max {
                return false;
            }
            if self.let_one_go() {
                continue;
            }
            let Some((key, value)) = self.rows.pop_lru() else { return false };
            self.bytes -= row_bytes(key.len(), value.as_ref());
        }
        true
    }

    /// Shows none of its rows any more.
    fn forget_all(&mut self) {
        if self.rows.is_empty() {
            return;
        }
        self.forgotten.push(std::mem::replace(&mut self.rows, LruCache::unbounded()));
        self.forgotten_bytes += std::mem::take(&mut self.bytes);
    }

    /// Lets go of a row that was forgotten, where there is one.
    fn let_one_go(&mut self) -> bool {
        let Some(rows) = self.forgotten.last_mut() else { return false };
        if let Some((key, value)) = rows.pop_lru() {
            self.forgotten_bytes -= row_bytes(key.len(), value.as_ref());
        }
        if rows.is_empty() {
            self.forgotten.pop();
        }
        true
    }

    /// Keeps the row's place for what it is about to become.
    fn take_out(&mut self, key: &CacheKey) {
        if let Some(value) = self.rows.peek_mut(key).and_then(Option::take) {
            self.bytes -= value.len();
        }
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(value) = self.rows.pop(key) {
            self.bytes -= row_bytes(key.len(), value.as_ref());
        }
    }
}

fn row_bytes(key_bytes: usize, value: Option<&Bytes>) -> usize {
    key_bytes + value.map_or(0, Bytes::len) + ROW_OVERHEAD_BYTES
}

fn shard_at(key: &[u8]) -> usize {
    usize::from(key.get(STEM_BYTES - 1).copied().unwrap_or_default()) % SHARDS
}

fn is_row(key: &[u8]) -> bool {
    key.first() == Some(&ROWS_TAG)
}

fn cache_key(store: StoreNumber, key: &[u8]) -> CacheKey {
    let mut cached = CacheKey::from_slice(&store.to_le_bytes());
    cached.extend_from_slice(key);
    cached
}

#[cfg(test)]
mod tests {
    //! Tests of what is kept and what is not.

    use super::*;

    const KEY: &[u8] = b"\x01hashhashkey";

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn keeps_what_was_read_unless_it_was_written_meanwhile() {
        let cache = RowCache::new(1 << 20);
        let Err(miss) = cache.get(1, KEY) else { panic!("empty") };
        cache.keep(1, KEY, &bytes("old"), &miss);
        assert_eq!(cache.get(1, KEY).ok(), Some(bytes("old")));
        assert_eq!((cache.statistics().hits, cache.statistics().misses), (1, 1));
        assert!(cache.get(2, KEY).is_err(), "another store's row");
        cache.begin_write(1, KEY);
        let Err(during) = cache.get(1, KEY) else { panic!("taken out") };
        cache.keep(1, KEY, &bytes("old"), &during);
        assert!(cache.get(1, KEY).is_err(), "not kept while it is written");
        cache.end_write(1, KEY, Some(&bytes("new")), false);
        assert_eq!(cache.get(1, KEY).ok(), Some(bytes("new")));
        cache.begin_write(1, KEY);
        cache.end_write(1, KEY, None, true);
        cache.begin_write(1, KEY);
        cache.end_write(1, KEY, Some(&bytes("new")), false);
        assert!(cache.get(1, KEY).is_err(), "was not there, and not to be kept");
        cache.keep(1, KEY, &bytes("old"), &miss);
        cache.keep(1, KEY, &bytes("old"), &during);
        assert!(cache.get(1, KEY).is_err(), "read before the write, kept after it");
    }

    #[test]
    fn a_range_takes_everything_out() {
        let cache = RowCache::new(1 << 20);
        let Err(miss) = cache.get(1, KEY) else { panic!("empty") };
        cache.keep(1, KEY, &bytes("old"), &miss);
        cache.begin_write_range(b"\x01", b"\x02");
        assert!(cache.get(1, KEY).is_err());
        cache.end_write_range(b"\x01", b"\x02");
        cache.keep(1, KEY, &bytes("old"), &miss);
        assert!(cache.get(1, KEY).is_err());
        let Err(miss) = cache.get(1, KEY) else { panic!("taken out") };
        for [from, to] in [[&b"\x00a"[..], b"\x01"], [b"\x02", b"\x03"]] {
            cache.begin_write_range(from, to);
            cache.end_write_range(from, to);
        }
        cache.keep(1, KEY, &bytes("old"), &miss);
        assert!(cache.get(1, KEY).is_ok(), "a range of no rows concerns none");
    }

    #[test]
    fn a_range_of_one_key_takes_out_what_shares_its_part_and_is_let_go_with_later_rows() {
        let cache = RowCache::new(16 << 20);
        let key = |part: u8, at: u16| {
            [b"\x01hash-of".as_slice(), &[part], b"key", &at.to_be_bytes()].concat()
        };
        let put = |key: &[u8]| {
            cache.begin_write(1, key);
            cache.end_write(1, key, Some(&bytes("row")), true);
        };
        (0..100).for_each(|at| put(&key(1, at)));
        put(&key(2, 0));
        let held = cache.statistics().bytes;
        cache.begin_write_range(&key(1, 0), &key(1, 100));
        cache.end_write_range(&key(1, 0), &key(1, 100));
        assert!((0..100).all(|at| cache.get(1, &key(1, at)).is_err()));
        assert!(cache.get(1, &key(2, 0)).is_ok(), "another key's row stays");
        assert_eq!(cache.statistics().bytes, held, "nothing was let go yet, and all is counted");
        (0..25).for_each(|at| put(&key(1, at)));
        assert!((0..25).all(|at| cache.get(1, &key(1, at)).is_ok()));
        assert_eq!(cache.statistics().bytes, held / 101 * 26);
        cache.begin_write_range(b"\x01", b"\x02");
        cache.end_write_range(b"\x01", b"\x02");
        assert_eq!(cache.statistics().bytes, held / 101 * 26, "a part each, counted still");
        cache.let_forgotten_go(20);
        assert_eq!(cache.statistics().bytes, held / 101 * 5, "so many of each part");
        cache.let_forgotten_go(20);
        assert_eq!(cache.statistics().bytes, 0, "without a row that comes");
    }

    #[test]
    fn stays_within_its_bytes_and_counts_them() {
        let cache = RowCache::new(64 * 1024);
        for round in 0..2 {
            for at in 0..5_000u32 {
                let key = [b"\x01".as_slice(), &at.to_be_bytes(), b"has", &at.to_be_bytes()[3..]];
                let key = key.concat();
                cache.begin_write(1, &key);
                let value = Bytes::from(vec![round; usize::from(at.to_be_bytes()[3])]);
                cache.end_write(1, &key, Some(&value), true);
            }
            assert!(cache.statistics().bytes <= 64 * 1024, "{}", cache.statistics().bytes);
            assert!(cache.statistics().bytes > 32 * 1024, "{}", cache.statistics().bytes);
        }
        cache.begin_write_range(b"\x01", b"\x02");
        cache.end_write_range(b"\x01", b"\x02");
        cache.resize(32 * 1024);
        assert!((1..=32 * 1024).contains(&cache.statistics().bytes), "what is not shown is let go");
        cache.resize(0);
        assert_eq!(cache.statistics().bytes, 0);
    }
}
