//! Rows in a map, for simulations: no thread and no clock of its own, and files that are made of a disk that
//! is handed in. What was written comes to files in the order in which it came, by a flush that is asked for
//! or by one that chance begins, so that a process that ends without warning leaves a beginning of it.

mod files;
mod rows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use plimsoll_base::random::Stream;
use plimsoll_base::{Disk, Random};

pub(in crate::partition) use self::rows::{Change, Rows};

use self::files::Files;
use super::super::resources::{BeforeFlush, Resources};
use super::Reach;
use crate::rows::StoreError;
use plimsoll_control::pacing::debt::Backlog;

/// One in so many batches is followed by a flush that nobody asked for, as RocksDB has them.
const FLUSHED_BATCHES: u64 = 200;

/// One in so many times a read or a write that must not wait is told that it would have to.
const WOULD_WAIT: u64 = 16;

/// What the stores of a node share.
pub(in crate::partition) struct MemoryShared {
    disk: Disk,
    random: Random,
    /// The folders that are open: each is one store's.
    open: Arc<Mutex<BTreeSet<PathBuf>>>,
}

/// A store in memory.
pub(in crate::partition) struct Memory {
    before_flush: BeforeFlush,
    /// Whether files could not be written since [`Self::resume`] worked last.
    has_failed: Arc<AtomicBool>,
    state: Mutex<EngineRows>,
    /// Held by who writes files.
    files: Mutex<Files>,
    /// Files and their bytes, for who only asks.
    file_count: AtomicU64,
    file_bytes: AtomicU64,
    unflushed: Counted,
    /// From so many unflushed bytes on a flush begins by itself.
    flush_bytes: usize,
    _open: OpenFolder,
}

/// A folder that no other store opens.
struct OpenFolder {
    dir: PathBuf,
    open: Arc<Mutex<BTreeSet<PathBuf>>>,
}

/// The rows as they were at one moment, and whether all of them are in a cache.
pub(in crate::partition) struct Snapshot {
    rows: Rows,
    is_cached: bool,
}

struct EngineRows {
    rows: Rows,
    /// What no file has, in its order.
    unflushed: Vec<Change>,
    chance: Stream,
    /// Its own, so that reading shifts nothing of when files are written.
    waits: Stream,
}

/// Bytes that are in no file, of this store and of the node.
struct Counted {
    own: AtomicUsize,
    of_node: Arc<AtomicUsize>,
}

impl MemoryShared {
    /// For stores whose files are on `disk`.
    pub fn new(disk: Disk, random: Random) -> Self {
        Self { disk, random, open: Arc::default() }
    }

    pub fn is_in(&self, dir: &Path) -> bool {
        Files::are_in(&self.disk, dir)
    }
}

impl Memory {
    pub fn open(
        dir: &Path,
        shared: &MemoryShared,
        resources: &Resources,
        has_failed: Arc<AtomicBool>,
    ) -> Result<Self, StoreError> {
        if !shared.open.lock().insert(dir.to_owned()) {
            return Err(StoreError::Failed(format!("{} is in use", dir.display())));
        }
        let open = OpenFolder { dir: dir.to_owned(), open: Arc::clone(&shared.open) };
        let (files, rows) = Files::open(&shared.disk, dir)?;
        // One purpose a folder: which one is opened first shifts nothing in another.
        let chance = shared.random.of(&format!("store {}", dir.display()));
        let waits = shared.random.of(&format!("waits {}", dir.display()));
        let memory = Self {
            before_flush: Arc::clone(&resources.before_flush),
            has_failed,
            state: Mutex::new(EngineRows { rows, unflushed: Vec::new(), chance, waits }),
            file_count: AtomicU64::new(0),
            file_bytes: AtomicU64::new(0),
            files: Mutex::new(files),
            unflushed: Counted {
                own: AtomicUsize::new(0),
                of_node: Arc::clone(&resources.unflushed.pending_bytes),
            },
            flush_bytes: resources.flush_bytes(),
            _open: open,
        };
        memory.count(&memory.files.lock());
        Ok(memory)
    }

    /// The rows as they are now, of which chance says whether they can be read without a wait.
    pub fn snapshot(&self) -> Snapshot {
        let mut state = self.state.lock();
        let is_cached = !state.waits.once_in(WOULD_WAIT);
        Snapshot { rows: state.rows.clone(), is_cached }
    }

    pub fn write(&self, changes: &[Change], may_wait: bool) -> Result<(), StoreError> {
        self.check_files()?;
        if changes.iter().any(Change::is_reversed) {
            return Err(StoreError::Failed("a range ends before it begins".to_owned()));
        }
        let is_due = {
            let mut held = self.state.lock();
            let state = &mut *held;
            if !may_wait && state.waits.once_in(WOULD_WAIT) {
                return Err(StoreError::NotCached);
            }
            for change in changes {
                state.rows.change(change);
                self.unflushed.add(change.bytes());
            }
            state.unflushed.extend_from_slice(changes);
            state.chance.once_in(FLUSHED_BATCHES) || self.unflushed.bytes() >= self.flush_bytes
        };
        if is_due {
            // The batch is taken whatever becomes of it: who writes the next one is told.
            let _ = self.flush();
        }
        Ok(())
    }

    pub fn flush(&self) -> Result<(), StoreError> {
        self.check_files()?;
        self.flush_with(&mut self.files.lock())
    }

    /// Writes files again, after a failure.
    pub fn resume(&self) -> Result<(), StoreError> {
        self.flush_with(&mut self.files.lock())
    }

    fn check_files(&self) -> Result<(), StoreError> {
        if self.has_failed.load(Ordering::Relaxed) {
            return Err(StoreError::Failed("files cannot be written".to_owned()));
        }
        Ok(())
    }

    fn flush_with(&self, files: &mut Files) -> Result<(), StoreError> {
        let changes = std::mem::take(&mut self.state.lock().unflushed);
        let written = match changes.is_empty() {
            true => Ok(()),
            false => {
                (self.before_flush)();
                files.add(&changes)
            }
        };
        self.has_failed.store(written.is_err(), Ordering::Relaxed);
        if let Err(error) = written {
            let mut state = self.state.lock();
            let later = std::mem::replace(&mut state.unflushed, changes);
            state.unflushed.extend(later);
            return Err(StoreError::Failed(error.to_string()));
        }
        self.unflushed.take(changes.iter().map(Change::bytes).sum());
        if files.are_many() && files.rewrite().is_err() {
            // What was flushed is durable all the same, as where RocksDB's compaction fails.
            self.has_failed.store(true, Ordering::Relaxed);
        }
        self.count(files);
        Ok(())
    }

    fn count(&self, files: &Files) {
        self.file_count.store(files.count(), Ordering::Relaxed);
        self.file_bytes.store(files.bytes(), Ordering::Relaxed);
    }

    pub fn checkpoint(&self, dir: &Path) -> Result<(), StoreError> {
        self.check_files()?;
        let mut files = self.files.lock();
        self.flush_with(&mut files)?;
        files.link(dir).map_err(|error| StoreError::Failed(error.to_string()))
    }

    pub fn verify(&self) -> Result<(), StoreError> {
        self.files.lock().verify()
    }

    pub fn compact(&self) -> Result<(), StoreError> {
        let mut files = self.files.lock();
        files.rewrite()?;
        self.count(&files);
        Ok(())
    }

    /// Lets no more files be written.
    pub fn abandon(&self) {
        self.files.lock().abandon();
    }

    pub fn backlog(&self) -> Backlog {
        let level_0_files = self.file_count.load(Ordering::Relaxed);
        Backlog { level_0_files, ..Backlog::default() }
    }

    pub fn unflushed_bytes(&self) -> u64 {
        self.unflushed.bytes() as u64
    }

    pub fn files_bytes(&self) -> u64 {
        self.file_bytes.load(Ordering::Relaxed)
    }
}

impl Snapshot {
    /// The rows, as far as a read may go.
    pub fn within(&self, reach: Reach) -> Result<&Rows, StoreError> {
        match reach {
            Reach::Memory if !self.is_cached => Err(StoreError::NotCached),
            _ => Ok(&self.rows),
        }
    }
}

impl Drop for OpenFolder {
    fn drop(&mut self) {
        self.open.lock().remove(&self.dir);
    }
}

impl Counted {
    fn bytes(&self) -> usize {
        self.own.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.own.fetch_add(bytes, Ordering::Relaxed);
        self.of_node.fetch_add(bytes, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.of_node.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.of_node.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}
