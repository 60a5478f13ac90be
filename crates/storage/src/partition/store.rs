//! RocksDB as a partition uses it: one column family, no WAL, what is shared between the
//! partitions of a node (block cache, write buffers). What the rows mean is not its business.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use bytes::Bytes;
use plimsoll_log::rules::chain::Position;
use plimsoll_log::{GroupId, PartitionId};
use rust_rocksdb::event_listener::{EventListener, FlushJobInfo};
use rust_rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DBPinnableSlice, DataBlockIndexType,
    FlushOptions, Options, ReadOptions, ReadTier, SnapshotWithThreadMode, WriteBatch,
    WriteBufferManager, WriteOptions,
};

use super::overlay::Changes;
use super::pending::Pending;
use super::recent::Recent;
use super::row_cache::{RowCache, StoreNumber};
use super::system;
use crate::rows::{RowsRead, StoreError, Visit, key};

/// What a node's partitions share, and how large it may grow.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// Blocks read from files, bytes. Default 256 MiB.
    pub block_cache_bytes: usize,
    /// Rows not yet flushed, over all partitions, bytes. Default 128 MiB.
    pub write_buffer_bytes: usize,
    /// Single rows read or written last, bytes. Default 64 MiB.
    pub row_cache_bytes: usize,
    /// Documents written last, until an index has them, bytes. Default 64 MiB.
    pub recent_bytes: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            block_cache_bytes: 256 << 20,
            write_buffer_bytes: 128 << 20,
            row_cache_bytes: 64 << 20,
            recent_bytes: 64 << 20,
        }
    }
}

/// The parts of RocksDB that all partitions of a node share.
pub struct Resources {
    cache: Cache,
    write_buffers: WriteBufferManager,
    options: StoreOptions,
    before_flush: BeforeFlush,
    rows: Arc<RowCache>,
    pending_bytes: Arc<AtomicUsize>,
    recent_bytes: Arc<AtomicUsize>,
    stores: AtomicU32,
}

/// Called before rows reach a file, on RocksDB's thread: makes the log durable that far, so that
/// rows never contain what the log may still lose.
pub type BeforeFlush = Arc<dyn Fn() + Send + Sync>;

struct FlushListener(BeforeFlush);

impl EventListener for FlushListener {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        (self.0)();
    }
}

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
}

impl Resources {
    /// Sets the shared parts up; memory is taken as it is used.
    #[must_use]
    pub fn new(options: StoreOptions, before_flush: BeforeFlush) -> Self {
        Self {
            cache: Cache::new_hyper_clock_cache(options.block_cache_bytes, 0),
            // Counts, and stalls nobody. Who is to flush is chosen by `cluster`, because this
            // would flush the partition written last, however little it holds.
            write_buffers: WriteBufferManager::new_write_buffer_manager(
                options.write_buffer_bytes * 2,
                false,
            ),
            options,
            before_flush,
            rows: Arc::new(RowCache::new(options.row_cache_bytes)),
            pending_bytes: Arc::default(),
            recent_bytes: Arc::default(),
            stores: AtomicU32::new(0),
        }
    }

    /// What is held now.
    #[must_use]
    pub fn statistics(&self) -> StoreStatistics {
        let rows = self.rows.statistics();
        StoreStatistics {
            block_cache_bytes: self.cache.get_usage(),
            write_buffer_bytes: self.write_buffers().0,
            row_cache_bytes: rows.bytes,
            recent_bytes: self.recent_bytes.load(Ordering::Relaxed),
            row_cache_hits: rows.hits,
            row_cache_misses: rows.misses,
        }
    }

    /// Bytes of rows not yet flushed, and how many there should be at most.
    #[must_use]
    pub fn write_buffers(&self) -> (usize, usize) {
        let pending_bytes = self.pending_bytes.load(Ordering::Relaxed);
        (self.write_buffers.get_usage() + pending_bytes, self.options.write_buffer_bytes)
    }

    fn rocksdb_options(&self) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&self.cache);
        table.set_bloom_filter(10.0, false);
        table.set_cache_index_and_filter_blocks(true);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        table.set_data_block_hash_ratio(0.75);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_manager(&self.write_buffers);
        // Small, because a memtable that fits in the processor cache takes rows twice as fast.
        options.set_write_buffer_size(self.options.write_buffer_bytes / 8);
        options.set_max_write_buffer_number(4);
        options.set_memtable_whole_key_filtering(true);
        options.set_memtable_prefix_bloom_ratio(0.02);
        options.set_compression_type(DBCompressionType::Lz4);
        options.set_bottommost_compression_type(DBCompressionType::Zstd);
        options.set_max_background_jobs(2);
        options.set_max_open_files(256);
        options.set_keep_log_file_num(2);
        options.set_stats_dump_period_sec(0);
        options.set_paranoid_checks(true);
        options.add_event_listener(FlushListener(Arc::clone(&self.before_flush)));
        // Without a WAL the memtable would be lost at close; `Store::flush` is called instead.
        options.set_avoid_flush_during_shutdown(true);
        options
    }
}

/// One partition's RocksDB; cloned handles read and write the same rows.
#[derive(Clone)]
pub struct Store {
    db: Arc<DB>,
    pending: Arc<Pending>,
    rows: Arc<RowCache>,
    number: StoreNumber,
    recent: Arc<Recent>,
    /// Whether a document's tombstone may be among the rows.
    has_tombstones: Arc<AtomicBool>,
}

impl Store {
    /// Opens the rows in `dir`, or makes an empty folder of them.
    ///
    /// # Errors
    /// Where RocksDB cannot open it: damaged, in use, or not writable.
    pub fn open(dir: &Path, resources: &Resources) -> Result<Self, StoreError> {
        let db = DB::open(&resources.rocksdb_options(), dir).map_err(failed)?;
        let number = resources.stores.fetch_add(1, Ordering::Relaxed);
        let pending = Arc::new(Pending::new(Arc::clone(&resources.pending_bytes)));
        let recent =
            Recent::new(Arc::clone(&resources.recent_bytes), resources.options.recent_bytes);
        let store = Self {
            db: Arc::new(db),
            pending,
            rows: Arc::clone(&resources.rows),
            number,
            recent: Arc::new(recent),
            has_tombstones: Arc::default(),
        };
        store.scan(&[key::KIND_TOMBSTONE], &[key::KIND_TOMBSTONE + 1], &mut |_, _| {
            store.has_tombstones.store(true, Ordering::Relaxed);
            ControlFlow::Break(())
        })?;
        Ok(store)
    }

    /// The documents that were written last.
    #[must_use]
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Whether a tombstone may be among the rows: where none was ever written, none is looked for.
    pub(super) fn has_tombstones(&self) -> bool {
        self.has_tombstones.load(Ordering::Relaxed)
    }

    /// The rows as they are now, unmoved by what is written after.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn snapshot(&self) -> Result<StoreSnapshot<'_>, StoreError> {
        self.hand_on()?;
        Ok(StoreSnapshot { snapshot: self.db.snapshot() })
    }

    /// The rows as they are now, as far as they are in memory.
    ///
    /// # Errors
    /// Where the store fails; [`StoreError::NotCached`] where it would have to be waited for.
    pub fn cached(&self) -> Result<CachedStore<'_>, StoreError> {
        self.pending.hand_on_at_once(|batch| {
            let mut options = write_options();
            options.set_no_slowdown(true);
            self.db.write_opt(batch, &options).map_err(failed)
        })?;
        Ok(CachedStore { snapshot: self.db.snapshot() })
    }

    /// Single rows, as far as they are in memory.
    #[must_use]
    pub fn cached_row(&self) -> CachedRow<'_> {
        CachedRow { store: self }
    }

    /// Keeps the position of a group of which the node may hold no replica.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn put_group(&self, group: GroupId, position: &Position) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        batch.put(system::group_key(group), system::encode_position(position));
        self.write(&batch)
    }

    /// Notes that the node holds a replica: its folder must be there from now on.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn put_held(&self, id: PartitionId) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        batch.put(system::held_key(id), []);
        self.write(&batch)
    }

    /// Whether the node was noted to hold a replica.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn is_held(&self, id: PartitionId) -> Result<bool, StoreError> {
        Ok(self.get(&system::held_key(id))?.is_some())
    }

    /// Bytes of rows that were not flushed.
    #[must_use]
    pub fn unflushed_bytes(&self) -> u64 {
        let property = self.db.property_int_value("rocksdb.cur-size-all-mem-tables");
        property.ok().flatten().unwrap_or(0) + self.pending.bytes() as u64
    }

    /// The positions kept by [`Self::put_group`].
    ///
    /// # Errors
    /// Where the store fails or holds what this version cannot read.
    pub fn groups(&self) -> Result<HashMap<GroupId, Position>, StoreError> {
        let mut groups = HashMap::new();
        let mut unreadable = Ok(());
        self.scan(system::GROUPS_FROM, system::GROUPS_TO, &mut |key, value| {
            match (system::group_of(key), system::decode_position(value)) {
                (Some(group), Ok(position)) => {
                    groups.insert(group, position);
                }
                (_, decoded) => {
                    let error = decoded.err();
                    unreadable = Err(StoreError::Failed(format!("a group's position: {error:?}")));
                }
            }
            ControlFlow::Continue(())
        })?;
        unreadable.map(|()| groups)
    }

    /// Reads a row from memory, or by `read` and then keeps it there. What is pending is looked at
    /// before the store: it leaves there only once the store has it.
    fn get_through<'a>(
        &'a self,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> Result<Option<DBPinnableSlice<'a>>, rust_rocksdb::Error>,
    ) -> Result<Option<Bytes>, StoreError> {
        let miss = match self.rows.get(self.number, key) {
            Ok(value) => return Ok(Some(value)),
            Err(miss) => miss,
        };
        let value = match self.pending.get(key) {
            Some(value) => value,
            None => read(key).map_err(failed)?.map(|value| Bytes::copy_from_slice(&value)),
        };
        if let Some(value) = &value {
            self.rows.keep(self.number, key, value, &miss);
        }
        Ok(value)
    }

    /// Takes the changes of a record in, whole or not at all; visible at once. Rows of documents
    /// are kept in memory only once they are read: most are not, and an index asks for them.
    pub(super) fn write_changes(
        &self,
        changes: Changes,
        are_documents: bool,
    ) -> Result<(), StoreError> {
        if changes.rows.keys().any(|key| key.first() == Some(&key::KIND_TOMBSTONE)) {
            self.has_tombstones.store(true, Ordering::Relaxed);
        }
        if !changes.removed.is_empty() {
            return self.write_ranges(&changes);
        }
        if self.pending.is_full() {
            self.hand_on()?;
        }
        changes.rows.keys().for_each(|key| self.rows.begin_write(self.number, key));
        // Who misses a row in memory waits for all of them; so none is seen without the others.
        self.pending.merge(changes.rows, |key, value| {
            self.rows.end_write(self.number, key, value, !are_documents);
        });
        Ok(())
    }

    /// Takes in what removes ranges, which the store alone can keep.
    fn write_ranges(&self, changes: &Changes) -> Result<(), StoreError> {
        let mut batch = WriteBatch::default();
        changes.removed.iter().for_each(|[from, to]| batch.delete_range(from, to));
        for (key, value) in &changes.rows {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            }
        }
        self.rows.begin_write_all();
        changes.rows.keys().for_each(|key| self.rows.begin_write(self.number, key));
        let written = self.write(&batch);
        for (key, value) in &changes.rows {
            let value = value.as_ref().filter(|_| written.is_ok());
            self.rows.end_write(self.number, key, value, true);
        }
        self.rows.end_write_all();
        written
    }

    /// Writes a batch whole or not at all, after what is pending; visible at once, durable after
    /// the next flush.
    pub(super) fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.hand_on()?;
        self.write_now(batch)
    }

    /// Gives RocksDB what is pending.
    fn hand_on(&self) -> Result<(), StoreError> {
        self.pending.hand_on(|batch| self.write_now(batch))
    }

    fn write_now(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.db.write_opt(batch, &write_options()).map_err(failed)
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// Where the disk is full or fails; the rows stay in memory then.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.hand_on()?;
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_opt(&options).map_err(failed)
    }

    /// Bytes in the files of this partition.
    #[must_use]
    pub fn files_bytes(&self) -> u64 {
        let property = self.db.property_int_value("rocksdb.total-sst-files-size");
        property.ok().flatten().unwrap_or(0)
    }
}

impl RowsRead for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.get_through(key, |key| self.db.get_pinned(key))
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.hand_on()?;
        walk(self.db.raw_iterator_opt(bounds(to)), from, visit)
    }
}

/// A consistent state of a partition's rows.
pub struct StoreSnapshot<'a> {
    snapshot: SnapshotWithThreadMode<'a, DB>,
}

impl RowsRead for StoreSnapshot<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let value = self.snapshot.get_pinned(key).map_err(failed)?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        walk(self.snapshot.raw_iterator_opt(bounds(to)), from, visit)
    }
}

/// How many rows a [`CachedStore`] shows in one scan: beyond, it would take too long for a
/// thread that must not block.
const CACHED_SCAN_ROWS_MAX: usize = 1024;

/// A consistent state of the rows, read only as far as that needs no disk and little time;
/// [`StoreError::NotCached`] otherwise, so that the read can be handed on.
pub struct CachedStore<'a> {
    snapshot: SnapshotWithThreadMode<'a, DB>,
}

impl RowsRead for CachedStore<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let value = self.snapshot.get_pinned_opt(key, cached_only()).map_err(failed)?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let mut options = cached_only();
        options.set_iterate_upper_bound(to);
        let mut rows = 0;
        let mut is_cut = false;
        walk(self.snapshot.raw_iterator_opt(options), from, &mut |key, value| {
            rows += 1;
            is_cut = rows > CACHED_SCAN_ROWS_MAX;
            if is_cut { ControlFlow::Break(()) } else { visit(key, value) }
        })?;
        if is_cut { Err(StoreError::NotCached) } else { Ok(()) }
    }
}

/// The current rows, one at a time: for commands that read a single row, which need no
/// consistent state.
pub struct CachedRow<'a> {
    store: &'a Store,
}

thread_local! {
    /// Made once a thread: making them takes as long as reading a row from memory.
    static CACHED_ONLY: ReadOptions = cached_only();
}

impl RowsRead for CachedRow<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.store.get_through(key, |key| {
            CACHED_ONLY.with(|options| self.store.db.get_pinned_opt(key, options))
        })
    }

    fn scan(&self, _from: &[u8], _to: &[u8], _visit: Visit<'_>) -> Result<(), StoreError> {
        Err(StoreError::NotCached)
    }
}

/// The log is the WAL.
fn write_options() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.disable_wal(true);
    options
}

fn cached_only() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_read_tier(ReadTier::BlockCache);
    options
}

fn bounds(to: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_iterate_upper_bound(to);
    options
}

fn walk<D: rust_rocksdb::DBAccess>(
    mut rows: rust_rocksdb::DBRawIteratorWithThreadMode<'_, D>,
    from: &[u8],
    visit: Visit<'_>,
) -> Result<(), StoreError> {
    rows.seek(from);
    while let Some((key, value)) = rows.item() {
        if visit(key, value).is_break() {
            return Ok(());
        }
        rows.next();
    }
    rows.status().map_err(failed)
}

fn failed(error: rust_rocksdb::Error) -> StoreError {
    if error.kind() == rust_rocksdb::ErrorKind::Incomplete {
        return StoreError::NotCached;
    }
    StoreError::Failed(error.into_string())
}
