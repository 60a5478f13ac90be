//! What the stores of a node share, and how large it may grow: an engine's own (RocksDB's block cache, its
//! limiter) and what is beside it. What is read and written is `store.rs`'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use plimsoll_base::{Disk, Random, World};

use super::engine::{MemoryShared, RocksShared};
use super::format::store_format;
use super::pace::CompactionPace;
use super::row_cache::RowCache;
use super::unflushed::{Stops, Unflushed};

/// The most that a memtable takes, bytes: little, because one that fits in the processor cache takes rows twice as
/// fast.
const MEMTABLE_BYTES_MAX: usize = 16 << 20;
/// The most memtables that one flush makes one file of. Levels below are sized by it, and the more, the fewer times a
/// row is written again: 1,500,000 updates of 1,000,000 rows of 1 KB took 96 us of processor each with one, 81 with
/// four and 76 with eight. With eight, a node that was killed takes more than a second to start.
const FLUSH_MEMTABLES_MAX: usize = 4;
/// Cached rows of each part of the cache that are let go at one call: nobody may use the part meanwhile.
const FORGOTTEN_ROWS_AT_ONCE: usize = 512;
/// What is synced of a file at once, bytes. With half of it a disk held to 60 MB/s went on taking 4,300 writes of
/// 1 KB a second instead of 8,200.
const SYNC_BYTES: u64 = 512 * 1024;

/// What a node's partitions share, and how large it may grow.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Blocks read from files, bytes. Default 256 MiB.
    pub block_cache_bytes: usize,
    /// Rows not yet flushed, over all partitions, bytes: they are flushed from three quarters of it on,
    /// and at twice of it no more are taken. Default 128 MiB.
    pub write_buffer_bytes: usize,
    /// Single rows read or written last, bytes. Default 64 MiB.
    pub row_cache_bytes: usize,
    /// Documents written last, until an index has them, bytes. Default 64 MiB.
    pub recent_bytes: usize,
    /// How much of a file is written before it is synced, bytes; 0 syncs a file once, as a whole. Default
    /// 512 KiB. RocksDB makes it 1 MiB where it is 0 and there is a [`Self::rate_limiter`].
    pub bytes_per_sync: u64,
    /// RocksDB's own limiter of flushes and compactions. Default none.
    pub rate_limiter: Option<RateLimiter>,
}

/// RocksDB's own limiter of what flushes and compactions of all stores write, to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimiter {
    /// The most, bytes a second; above zero.
    pub bytes_s: u64,
    /// Whether it looks for a lower rate by itself.
    pub auto_tuned: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            block_cache_bytes: 256 << 20,
            write_buffer_bytes: 128 << 20,
            row_cache_bytes: 64 << 20,
            recent_bytes: 64 << 20,
            bytes_per_sync: SYNC_BYTES,
            rate_limiter: None,
        }
    }
}

/// What RocksDB is opened with for the rows of a partition, with a cache of its own: for one that is compared with
/// a store. That it has no WAL in a store is a matter of each write.
#[must_use]
pub fn rocksdb_options(options: StoreOptions) -> rust_rocksdb::Options {
    let rocks = RocksShared::new(&options);
    let resources = Resources::new(options, Arc::new(|| ()));
    rocks.options(&resources, &Arc::default(), true)
}

/// What the stores of a node share.
pub struct Resources {
    pub(super) kind: Kind,
    pub(super) unflushed: Arc<Unflushed>,
    pub(super) compactions: Arc<CompactionPace>,
    pub(super) options: StoreOptions,
    pub(super) before_flush: BeforeFlush,
    pub(super) rows: Arc<RowCache>,
    pub(super) recent_bytes: Arc<AtomicUsize>,
    pub(super) stores: AtomicU32,
    pub(super) packs: Arc<AtomicBool>,
}

/// What they share by the engine that they have.
pub(super) enum Kind {
    Rocks(RocksShared),
    Memory(MemoryShared),
}

/// Called before rows reach a file, of RocksDB's on its thread: makes the log durable that far, so that
/// rows never contain what the log may still lose. It must ask nothing of a store.
pub type BeforeFlush = Arc<dyn Fn() + Send + Sync>;

/// What the stores of a node hold, bytes, and what that is good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStatistics {
    /// Blocks in the shared cache.
    pub block_cache_bytes: usize,
    /// Rows not yet flushed.
    pub write_buffer_bytes: usize,
    /// Single rows read or written last.
    pub row_cache_bytes: usize,
    /// Documents written last that an index does not have yet.
    pub recent_bytes: usize,
    /// Single rows that were asked for and found among them, by clients and by apply.
    pub row_cache_hits: u64,
    /// Single rows that were asked for and not found among them.
    pub row_cache_misses: u64,
    /// How often and for how long stores took no rows.
    pub stops: Stops,
    /// For how long compactions slept to make way, all together, or would have in the shadow.
    pub compactions_held: Duration,
    /// Bytes of rows that compactions passed.
    pub compactions_passed_bytes: u64,
    /// How fast they may pass, bytes a second; none is no limit.
    pub compactions_bytes_s: Option<u64>,
}

impl Resources {
    /// Sets the shared parts up, for stores in RocksDB; memory is taken as it is used.
    #[must_use]
    pub fn new(options: StoreOptions, before_flush: BeforeFlush) -> Self {
        Self::with(Kind::Rocks(RocksShared::new(&options)), options, before_flush)
    }

    /// The same for stores that keep their rows in memory and their files on `disk`, without threads or a clock,
    /// and in which what is left to chance follows from `random`: for simulations.
    #[must_use]
    pub fn in_memory(
        options: StoreOptions,
        before_flush: BeforeFlush,
        disk: Disk,
        random: Random,
    ) -> Self {
        Self::with(Kind::Memory(MemoryShared::new(disk, random)), options, before_flush)
    }

    /// For stores in RocksDB where the disk is the machine's, and in memory where it is a simulation's.
    #[must_use]
    pub fn of(world: &World, options: StoreOptions, before_flush: BeforeFlush) -> Self {
        if world.disk.is_the_machines() {
            return Self::new(options, before_flush);
        }
        let random = world.random.part("stores");
        Self::in_memory(options, before_flush, world.disk.clone(), random)
    }

    fn with(kind: Kind, options: StoreOptions, before_flush: BeforeFlush) -> Self {
        Self {
            kind,
            unflushed: Arc::new(Unflushed::new(options.write_buffer_bytes)),
            compactions: Arc::default(),
            options,
            before_flush,
            rows: Arc::new(RowCache::new(options.row_cache_bytes)),
            recent_bytes: Arc::default(),
            stores: AtomicU32::new(0),
            packs: Arc::default(),
        }
    }

    /// Has rows packed from now on where two can be one: no older version reads them.
    pub fn pack_rows(&self) {
        self.packs.store(true, Ordering::Relaxed);
    }

    /// The newest format that stores of this node may be in: see [`Store::format`].
    #[must_use]
    pub fn format_max(&self) -> u8 {
        store_format(self.packs.load(Ordering::Relaxed))
    }

    /// Has no files rewritten of stores that are opened from now on, until [`Self::release_compactions`]: while
    /// many replicas are being copied, that would take the processors from the copying.
    pub fn hold_compactions(&self) {
        if let Kind::Rocks(rocks) = &self.kind {
            rocks.hold_compactions();
        }
    }

    /// Has files rewritten of stores that were opened longer ago than `age`; with an age of zero of all, and
    /// those that are opened from now on are as any other.
    pub fn release_compactions(&self, age: Duration) {
        if let Kind::Rocks(rocks) = &self.kind {
            rocks.release_compactions(age);
        }
    }

    /// Changes what caches may hold from now on, bytes: blocks of rows, no more than there could be at first, which go
    /// as others are read, and single rows, which go at once.
    pub fn resize_caches(&self, block_cache_bytes: usize, row_cache_bytes: usize) {
        if let Kind::Rocks(rocks) = &self.kind {
            rocks.resize_cache(block_cache_bytes);
        }
        self.rows.resize(row_cache_bytes);
    }

    /// Lets go of single rows that were removed all at once, some of them: to be called now and then.
    pub fn let_forgotten_go(&self) {
        self.rows.let_forgotten_go(FORGOTTEN_ROWS_AT_ONCE);
    }

    /// What is held now.
    #[must_use]
    pub fn statistics(&self) -> StoreStatistics {
        let rows = self.rows.statistics();
        StoreStatistics {
            block_cache_bytes: match &self.kind {
                Kind::Rocks(rocks) => rocks.cache_bytes(),
                Kind::Memory(_) => 0,
            },
            write_buffer_bytes: self.write_buffers().0,
            row_cache_bytes: rows.bytes,
            recent_bytes: self.recent_bytes.load(Ordering::Relaxed),
            row_cache_hits: rows.hits,
            row_cache_misses: rows.misses,
            stops: self.stops(),
            compactions_held: self.compactions.held(),
            compactions_passed_bytes: self.compactions.passed_bytes(),
            compactions_bytes_s: self.compactions.bytes_s(),
        }
    }

    /// Bytes of rows not yet flushed, and how many there should be at most.
    #[must_use]
    pub fn write_buffers(&self) -> (usize, usize) {
        self.unflushed.bytes()
    }

    /// How often and for how long stores took no rows so far.
    #[must_use]
    pub fn stops(&self) -> Stops {
        self.unflushed.stops()
    }

    /// How fast the compactions of all stores may go.
    #[must_use]
    pub fn compactions(&self) -> &CompactionPace {
        &self.compactions
    }

    /// Whether RocksDB's own limiter says how fast they go.
    #[must_use]
    pub fn has_rate_limiter(&self) -> bool {
        self.options.rate_limiter.is_some()
    }

    /// Whether a store took no rows for a while, the last time not longer ago than that.
    #[must_use]
    pub fn were_stopped_within(&self, time: Duration) -> bool {
        self.unflushed.was_stopped_within(time)
    }

    /// The most that one flush writes of a store, bytes: a number of whole memtables.
    #[must_use]
    pub fn flush_bytes(&self) -> usize {
        self.memtable_bytes() * self.flush_memtables()
    }

    /// The most that a memtable takes, bytes.
    #[must_use]
    pub fn memtable_bytes(&self) -> usize {
        MEMTABLE_BYTES_MAX.min(self.options.write_buffer_bytes / 8)
    }

    /// How many full memtables of a store RocksDB writes as one file, without being told to.
    pub(super) fn flush_memtables(&self) -> usize {
        // While a quarter of the budget is being written, there is room for as much again, and for other stores.
        let within_budget = self.options.write_buffer_bytes / 4 / self.memtable_bytes().max(1);
        within_budget.clamp(1, FLUSH_MEMTABLES_MAX)
    }
}
