//! What the RocksDB of each store of a node is opened with: the block cache and the limiter that they share,
//! how files are laid out, and what RocksDB's threads do before they write.

#![expect(
    clippy::disallowed_methods,
    reason = "threads of RocksDB and of apply wait by the machine's time"
)]

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rust_rocksdb::event_listener::{
    BackgroundErrorStatus, CompactionJobInfo, DBBackgroundErrorReason, DBWriteStallCondition,
    EventListener, FlushJobInfo, MutableStatus, WriteStallInfo,
};
use rust_rocksdb::{BlockBasedOptions, Cache, DB, DBCompressionType, DataBlockIndexType, Options};

use super::super::super::pace::PacedCompactions;
use super::super::super::resources::{BeforeFlush, Resources, StoreOptions};
use super::super::super::unflushed::Unflushed;

/// Rows that are compressed together, bytes: few, because a read of one row looks through a block.
pub(super) const BLOCK_BYTES: usize = 4 * 1024;
/// The same where an index follows the rows, so that most reads are of many. Their order is that of
/// a hash, so that neighbours are alike by chance alone: documents of a log took 155 bytes each in
/// blocks of 4 KiB and take 116 in these (and 95 with the dictionary), for less CPU.
pub(super) const DOCUMENT_BLOCK_BYTES: usize = 16 * 1024;
/// How the last level is compressed where an index follows the rows: documents are written once, and read rarely beside
/// their index. Each file keeps 16 KiB of its rows for its blocks to be compressed with.
pub(super) const DOCUMENT_COMPRESSION: [&str; 2] =
    ["kZSTD", "{window_bits=-14;level=3;strategy=0;max_dict_bytes=16384;enabled=true}"];
/// The same of single rows: as in all other levels. Under updates each row is compressed many times over, and that
/// took three quarters of what compaction costs (updates of 1 KB: 20 us of processor a row, 6 without).
pub(super) const ROW_COMPRESSION: [&str; 2] =
    ["kDisableCompressionOption", "{max_dict_bytes=0;enabled=false}"];

/// A file is rewritten soon where half of so many rows that follow each other are removals.
const DELETIONS_WINDOW_ROWS: usize = 16 * 1024;

/// From so many files on RocksDB merges level 0: its default.
const LEVEL_0_MERGED_FILES: u64 = 4;
/// The most that a file of the first level below level 0 takes, bytes: what is merged at once is a few of them.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// RocksDB's own limits, far beyond what the node lets it come to: it slows and stops all writes of a
/// store, and whoever applies records for others with it.
const MEMTABLES_MAX: i32 = 64;
const LEVEL_0_SLOWDOWN: i32 = 200;
const LEVEL_0_STOP: i32 = 400;
/// By how much threads that rewrite files are nicer than those that serve: it cannot be taken back
/// without privileges, so it is little.
const NICER: i32 = 5;

/// RocksDB's defaults of its limiter, which have to be said.
const LIMITER_REFILL_US: i64 = 100_000;
const LIMITER_FAIRNESS: i32 = 10;

/// How the files of a store are sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::partition) struct FileSizes {
    /// Bytes of the first level below level 0: what level 0 has when it is merged into it.
    pub first_level_bytes: u64,
    /// Bytes of a file there; twice as many in each level below.
    pub file_bytes: u64,
}

impl FileSizes {
    /// For flushes of so many bytes.
    pub fn of(flush_bytes: u64) -> Self {
        let first_level_bytes = (LEVEL_0_MERGED_FILES * flush_bytes).max(1 << 20);
        let file_bytes = (first_level_bytes / 4).clamp(1 << 20, FILE_BYTES_MAX);
        Self { first_level_bytes, file_bytes }
    }
}

/// RocksDB is the machine's, and so is the time that its stores go by.
fn now() -> Instant {
    Instant::now()
}

/// What the stores of a node share in RocksDB.
pub(in crate::partition) struct RocksShared {
    cache: Cache,
    /// What the options of every store are copied from: copies have the same limiter.
    shared: Options,
    held: Mutex<HeldCompactions>,
}

/// Stores whose files are not rewritten yet.
#[derive(Default)]
struct HeldCompactions {
    /// Whether one that is opened now becomes one of them.
    is_held: bool,
    stores: Vec<(Instant, Weak<DB>)>,
}

impl RocksShared {
    pub fn new(options: &StoreOptions) -> Self {
        Self {
            cache: Cache::new_hyper_clock_cache(options.block_cache_bytes, 0),
            shared: shared_options(options),
            held: Mutex::default(),
        }
    }

    pub fn cache_bytes(&self) -> usize {
        self.cache.get_usage()
    }

    /// It was made for as much as it was given at first: more than that it does not hold.
    pub fn resize_cache(&self, bytes: usize) {
        self.cache.clone().set_capacity(bytes);
    }

    pub fn hold_compactions(&self) {
        self.held.lock().is_held = true;
    }

    pub fn release_compactions(&self, age: Duration) {
        let now = now();
        let released: Vec<_> = {
            let mut held = self.held.lock();
            held.is_held &= age > Duration::ZERO;
            let is_over = |at: Instant| now.saturating_duration_since(at) >= age;
            held.stores.extract_if(.., |(at, _)| is_over(*at)).collect()
        };
        for db in released.iter().filter_map(|(_, db)| db.upgrade()) {
            if let Err(error) = db.set_options(&[("disable_auto_compactions", "false")]) {
                tracing::error!(%error, "the files of a partition are not rewritten");
            }
        }
    }

    /// A store was opened without compactions; it has them later, or now.
    pub fn hold(&self, db: &Arc<DB>) {
        self.held.lock().stores.push((now(), Arc::downgrade(db)));
    }

    /// Whether a store that is opened now is to be held.
    pub fn holds_compactions(&self) -> bool {
        self.held.lock().is_held
    }

    /// `has_failed` is set where files cannot be written.
    pub fn options(
        &self,
        resources: &Resources,
        has_failed: &Arc<AtomicBool>,
        compacts: bool,
    ) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&self.cache);
        table.set_bloom_filter(10.0, false);
        table.set_cache_index_and_filter_blocks(true);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        // Of files of one memtable and a half at most. Larger ones' are asked for by every read that comes to files,
        // which keeps them in the cache.
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_block_size(BLOCK_BYTES);
        table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        table.set_data_block_hash_ratio(0.75);
        let mut options = self.shared.clone();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_manager(resources.unflushed.memtables());
        options.set_write_buffer_size(resources.memtable_bytes());
        // Whoever writes is held back by the budget of the node long before: RocksDB would stop one
        // partition however much room the others leave.
        options.set_max_write_buffer_number(MEMTABLES_MAX);
        let together = i32::try_from(resources.flush_memtables()).unwrap_or(i32::MAX);
        options.set_min_write_buffer_number_to_merge(together);
        options.set_level_zero_slowdown_writes_trigger(LEVEL_0_SLOWDOWN);
        options.set_level_zero_stop_writes_trigger(LEVEL_0_STOP);
        options.set_soft_pending_compaction_bytes_limit(0);
        options.set_hard_pending_compaction_bytes_limit(0);
        options.set_memtable_whole_key_filtering(true);
        options.set_memtable_prefix_bloom_ratio(0.02);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_max_background_jobs(background_jobs());
        let sizes = FileSizes::of(resources.flush_bytes() as u64);
        options.set_max_bytes_for_level_base(sizes.first_level_bytes);
        options.set_target_file_size_base(sizes.file_bytes);
        options.set_target_file_size_multiplier(2);
        // Else a whole file is synced at once, and the log waits behind it on the same disk. RocksDB takes
        // 1 MiB for 0 where it has a limiter.
        options.set_bytes_per_sync(resources.options.bytes_per_sync);
        options.set_strict_bytes_per_sync(true);
        options.set_disable_auto_compactions(!compacts);
        options.set_max_open_files(256);
        options.set_keep_log_file_num(2);
        options.set_stats_dump_period_sec(0);
        options.set_paranoid_checks(true);
        // What was removed goes out of files in which it is most: whoever walks passes over it.
        options.add_compact_on_deletion_collector_factory_count_only(
            DELETIONS_WINDOW_ROWS,
            DELETIONS_WINDOW_ROWS / 2,
        );
        options.set_compaction_filter_factory(PacedCompactions(Arc::clone(&resources.compactions)));
        options.add_event_listener(Listener {
            before_flush: Arc::clone(&resources.before_flush),
            unflushed: Arc::clone(&resources.unflushed),
            has_failed: Arc::clone(has_failed),
        });
        // Without a WAL the memtable would be lost at close; `Store::flush` is called instead.
        options.set_avoid_flush_during_shutdown(true);
        options
    }
}

/// The options that all stores have, with what they share by them.
fn shared_options(of: &StoreOptions) -> Options {
    let mut options = Options::default();
    if let Some(limiter) = &of.rate_limiter {
        let bytes_s = i64::try_from(limiter.bytes_s).unwrap_or(i64::MAX);
        match limiter.auto_tuned {
            false => options.set_ratelimiter(bytes_s, LIMITER_REFILL_US, LIMITER_FAIRNESS),
            true => {
                options.set_auto_tuned_ratelimiter(bytes_s, LIMITER_REFILL_US, LIMITER_FAIRNESS)
            }
        }
    }
    options
}

/// Threads for flushes and compactions, which all stores share: one compaction for every two processors,
/// and at least two, so that one that is needed at once waits for none that takes long.
fn background_jobs() -> i32 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let compactions = i32::try_from(processors / 2).unwrap_or(i32::MAX / 4).max(2);
    // RocksDB gives flushes a quarter, and one at least.
    compactions + (compactions / 3).max(1)
}

thread_local! {
    static IS_NICER: Cell<bool> = const { Cell::new(false) };
}

/// Makes this thread, which is RocksDB's, give way to those that serve: once, for good.
fn give_way() {
    if !IS_NICER.replace(true)
        && let Err(error) = rustix::process::nice(NICER)
    {
        tracing::debug!(%error, "compactions run like all others");
    }
}

struct Listener {
    before_flush: BeforeFlush,
    unflushed: Arc<Unflushed>,
    /// Set where RocksDB cannot write files.
    has_failed: Arc<AtomicBool>,
}

impl EventListener for Listener {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        (self.before_flush)();
    }

    fn on_background_error(&self, _: DBBackgroundErrorReason, _: MutableStatus) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        give_way();
    }

    fn on_stall_conditions_changed(&self, stall: &WriteStallInfo) {
        if stall.cur() != DBWriteStallCondition::KNormal {
            self.unflushed.note_stop();
        }
    }

    /// It would try by itself as soon as there is a little room, and where that is not enough give
    /// up for good: [`crate::partition::Store::resume`] is called once there is enough.
    fn on_error_recovery_begin(
        &self,
        _: DBBackgroundErrorReason,
        _: &BackgroundErrorStatus,
        may_recover: &mut bool,
    ) {
        *may_recover = false;
    }
}
