//! RocksDB: one column family, no WAL, because the log is it. What the stores of a node share and how files
//! are laid out is in [`options`], which rows there are in the store's hands.

mod checksums;
mod failure;
mod manifest;
mod options;
mod walk;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use plimsoll_control::pacing::debt::Backlog;
use rust_rocksdb::checkpoint::Checkpoint;
use rust_rocksdb::{
    BottommostLevelCompaction, CompactOptions, DB, DBPinnableSlice, FlushOptions, ReadOptions,
    ReadTier, SnapshotWithThreadMode, WriteBatch, WriteOptions,
};

pub(in crate::partition) use options::RocksShared;

use self::failure::failed;
use self::options::{
    BLOCK_BYTES, DOCUMENT_BLOCK_BYTES, DOCUMENT_COMPRESSION, FileSizes, ROW_COMPRESSION,
};
use self::walk::{up_to_rows, walk, walk_back};
use super::super::pace::CompactionPace;
use super::super::resources::Resources;
use super::Reach;
use crate::rows::{StoreError, Visit};

/// A store in RocksDB.
pub(in crate::partition) struct Rocks {
    db: Arc<DB>,
    /// Whether files could not be written since [`Self::resume`] was called last.
    has_failed: Arc<AtomicBool>,
    /// How files are sized now.
    sizes: Mutex<FileSizes>,
    pace: Arc<CompactionPace>,
}

/// The rows as they were at one moment.
pub(in crate::partition) struct Snapshot<'a>(SnapshotWithThreadMode<'a, DB>);

thread_local! {
    /// Made once a thread: making them takes as long as reading a row from memory.
    static MEMORY_ONLY: ReadOptions = Reach::Memory.options();
}

impl Rocks {
    pub fn open(
        dir: &Path,
        shared: &RocksShared,
        resources: &Resources,
        has_failed: Arc<AtomicBool>,
        compacts: bool,
    ) -> Result<Self, StoreError> {
        let is_held = compacts && shared.holds_compactions();
        let is_old = Self::is_in(dir);
        if let Some(why) = manifest::fault(dir) {
            return Err(StoreError::Damaged(why));
        }
        let options = shared.options(resources, &has_failed, compacts && !is_held);
        let db = DB::open(&options, dir).map_err(|error| match failed(error) {
            // RocksDB calls a file that is gone an I/O error: trying again does not bring it back.
            StoreError::Failed(why) if is_old && why.contains("No such file") => {
                StoreError::Damaged(why)
            }
            error => error,
        })?;
        let db = Arc::new(db);
        if is_held {
            shared.hold(&db);
        }
        let sizes = Mutex::new(FileSizes::of(resources.flush_bytes() as u64));
        Ok(Self { db, has_failed, sizes, pace: Arc::clone(&resources.compactions) })
    }

    pub fn is_in(dir: &Path) -> bool {
        // The file that names the list of all others.
        dir.join("CURRENT").exists()
    }

    pub fn get(&self, key: &[u8], reach: Reach) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        let value = match reach {
            Reach::Files => self.db.get_pinned(key),
            Reach::Memory => MEMORY_ONLY.with(|options| self.db.get_pinned_opt(key, options)),
        };
        value.map_err(failed)
    }

    pub fn walk(
        &self,
        [from, to]: [&[u8]; 2],
        reach: Reach,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let mut options = reach.options();
        options.set_iterate_upper_bound(to);
        let rows = self.db.raw_iterator_opt(options);
        match reach {
            Reach::Files => walk(rows, from, visit),
            Reach::Memory => up_to_rows(visit, |visit| walk(rows, from, visit)),
        }
    }

    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot(self.db.snapshot())
    }

    pub fn write(&self, batch: &WriteBatch, may_wait: bool) -> Result<(), StoreError> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        options.set_no_slowdown(!may_wait);
        self.db.write_opt(batch, &options).map_err(failed)
    }

    pub fn flush(&self) -> Result<(), StoreError> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        self.db.flush_opt(&options).map_err(failed)
    }

    pub fn resume(&self) -> Result<(), StoreError> {
        // First, so that a failure from here on is not forgotten.
        self.has_failed.store(false, Ordering::Relaxed);
        let resumed = self.db.resume().map_err(failed);
        if resumed.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        resumed
    }

    pub fn checkpoint(&self, dir: &Path) -> Result<(), StoreError> {
        // It flushes first: without a WAL nothing else would hold what is in memory.
        Checkpoint::new(&self.db).and_then(|it| it.create_checkpoint(dir)).map_err(failed)
    }

    pub fn verify(&self) -> Result<(), StoreError> {
        checksums::verify(&self.db)
    }

    pub fn compact(&self) {
        let _free = self.pace.free();
        let mut options = CompactOptions::default();
        options.set_exclusive_manual_compaction(false);
        // Else all would be written anew each time, because compactions have a filter.
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Skip);
        self.db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &options);
    }

    pub fn abandon(&self) {
        self.db.cancel_all_background_work(true);
    }

    pub fn lay_out_for(&self, has_documents: bool) -> Result<(), StoreError> {
        let (bytes, [compression, means]) = match has_documents {
            true => (DOCUMENT_BLOCK_BYTES, DOCUMENT_COMPRESSION),
            false => (BLOCK_BYTES, ROW_COMPRESSION),
        };
        let table = format!("{{block_size={bytes};}}");
        let set = self.db.set_options(&[
            ("block_based_table_factory", &table),
            ("bottommost_compression", compression),
            ("bottommost_compression_opts", means),
        ]);
        set.map_err(failed)
    }

    pub fn shape_files(&self, flush_bytes: u64) -> Result<(), StoreError> {
        let wanted = FileSizes::of(flush_bytes);
        let mut sizes = self.sizes.lock();
        // Noting it writes a file: only where it makes a difference.
        let [now, then] = [sizes.first_level_bytes, wanted.first_level_bytes];
        if now < then * 2 && then < now * 2 {
            return Ok(());
        }
        let [first_level, file] =
            [wanted.first_level_bytes, wanted.file_bytes].map(|it| it.to_string());
        let noted = self.db.set_options(&[
            ("max_bytes_for_level_base", &first_level),
            ("target_file_size_base", &file),
        ]);
        noted.map_err(failed)?;
        *sizes = wanted;
        Ok(())
    }

    pub fn backlog(&self) -> Backlog {
        Backlog {
            level_0_files: self.figure("rocksdb.num-files-at-level0"),
            pending_bytes: self.figure("rocksdb.estimate-pending-compaction-bytes"),
            // Asked once a second: those of older versions, which readers hold, take a walk over all of them.
            files_bytes: self.figure("rocksdb.live-sst-files-size"),
        }
    }

    pub fn flushable_bytes(&self) -> u64 {
        let active = self.figure("rocksdb.cur-size-active-mem-table");
        let full = self.unflushed_bytes().saturating_sub(active);
        let is_empty = self.figure("rocksdb.num-entries-active-mem-table") == 0;
        // What is on its way to a file already is not told apart from what waits for more.
        let is_flushing = ["rocksdb.num-running-flushes", "rocksdb.mem-table-flush-pending"]
            .iter()
            .any(|it| self.figure(it) > 0);
        // An empty memtable has its arena's first block.
        let of_active = if is_empty { 0 } else { active };
        let of_full = if is_flushing { 0 } else { full };
        of_active + of_full
    }

    pub fn unflushed_bytes(&self) -> u64 {
        self.figure("rocksdb.cur-size-all-mem-tables")
    }

    pub fn files_bytes(&self) -> u64 {
        self.figure("rocksdb.total-sst-files-size")
    }

    fn figure(&self, name: &str) -> u64 {
        self.db.property_int_value(name).ok().flatten().unwrap_or(0)
    }
}

impl Snapshot<'_> {
    pub fn get(&self, key: &[u8], reach: Reach) -> Result<Option<DBPinnableSlice<'_>>, StoreError> {
        let value = match reach {
            Reach::Files => self.0.get_pinned(key),
            Reach::Memory => self.0.get_pinned_opt(key, Reach::Memory.options()),
        };
        value.map_err(failed)
    }

    pub fn walk(
        &self,
        [from, to]: [&[u8]; 2],
        reach: Reach,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let mut options = reach.options();
        options.set_iterate_upper_bound(to);
        let rows = self.0.raw_iterator_opt(options);
        match reach {
            Reach::Files => walk(rows, from, visit),
            Reach::Memory => up_to_rows(visit, |visit| walk(rows, from, visit)),
        }
    }

    pub fn walk_back(
        &self,
        [from, to]: [&[u8]; 2],
        reach: Reach,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        let mut options = reach.options();
        options.set_iterate_upper_bound(to);
        options.set_iterate_lower_bound(from);
        let rows = self.0.raw_iterator_opt(options);
        match reach {
            Reach::Files => walk_back(rows, visit),
            Reach::Memory => up_to_rows(visit, |visit| walk_back(rows, visit)),
        }
    }
}

impl Reach {
    fn options(self) -> ReadOptions {
        let mut options = ReadOptions::default();
        if self == Self::Memory {
            options.set_read_tier(ReadTier::BlockCache);
        }
        options
    }
}

#[expect(clippy::disallowed_methods, reason = "a test of the machine's")]
#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::super::resources::{RateLimiter, StoreOptions, rocksdb_options};
    use super::super::super::tests::resources;
    use super::*;

    /// What RocksDB noted that it runs with.
    fn noted(dir: &Path, name: &str) -> String {
        let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let is_noted = |path: &std::path::PathBuf| {
            path.file_name().unwrap().to_string_lossy().starts_with("OPTIONS-")
        };
        let text = std::fs::read_to_string(files.filter(is_noted).max().unwrap()).unwrap();
        let start = format!("{name}=");
        text.lines().find_map(|line| line.trim().strip_prefix(&start)).unwrap().to_owned()
    }

    #[test]
    fn files_are_synced_piece_by_piece_as_it_is_set_and_always_with_a_limiter() {
        let limiter = Some(RateLimiter { bytes_s: 50 << 20, auto_tuned: false });
        let none = StoreOptions { bytes_per_sync: 0, ..StoreOptions::default() };
        for (options, expected) in [
            (StoreOptions::default(), "524288"),
            (none, "0"),
            (StoreOptions { rate_limiter: limiter, ..none }, "1048576"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let db = DB::open(&rocksdb_options(options), dir.path()).unwrap();
            assert_eq!(noted(dir.path(), "bytes_per_sync"), expected, "{options:?}");
            assert_eq!(noted(dir.path(), "strict_bytes_per_sync"), "true");
            drop(db);
        }
    }

    #[test]
    fn the_last_level_is_compressed_for_what_the_store_holds() {
        let (dir, resources) = (tempfile::tempdir().unwrap(), resources());
        let super::super::Kind::Rocks(shared) = &resources.kind else { panic!("another engine") };
        let store = Rocks::open(dir.path(), shared, &resources, Arc::default(), true).unwrap();
        let last_level = || {
            let name = |it: &str| noted(dir.path(), &format!("bottommost_compression{it}"));
            (name(""), name("_opts").contains("max_dict_bytes=16384"))
        };
        let of_rows = ("kDisableCompressionOption".to_owned(), false);
        assert_eq!(last_level(), of_rows);
        store.lay_out_for(true).unwrap();
        assert_eq!(last_level(), ("kZSTD".to_owned(), true));
        store.lay_out_for(false).unwrap();
        assert_eq!(last_level(), of_rows);
    }

    #[test]
    fn files_of_a_store_that_is_held_are_rewritten_once_it_is_released() {
        let (dir, resources) = (tempfile::tempdir().unwrap(), resources());
        let super::super::Kind::Rocks(shared) = &resources.kind else { panic!("another engine") };
        resources.hold_compactions();
        let store = Rocks::open(dir.path(), shared, &resources, Arc::default(), true).unwrap();
        for number in 0..8u8 {
            let mut batch = WriteBatch::default();
            batch.put([b'm', number], [number; 1000]);
            store.write(&batch, true).unwrap();
            store.flush().unwrap();
        }
        let files = || store.backlog().level_0_files;
        assert_eq!(files(), 8, "twice as many as are rewritten otherwise");
        resources.release_compactions(Duration::from_secs(60));
        assert_eq!(files(), 8, "it is younger");
        resources.release_compactions(Duration::ZERO);
        assert!(!shared.holds_compactions());
        let end = Instant::now() + Duration::from_secs(60);
        while files() > 4 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(files() <= 4, "{} files", files());
    }
}
