//! Rows in a map, for simulations: no thread and no clock of its own, and files that are made of a disk that
//! is handed in. What was written comes to files in the order in which it came, by a flush that is asked for
//! or by one that chance begins, so that a process that ends without warning leaves a beginning of it.

mod files;
mod rows;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use plimsoll_base::random::Stream;
use plimsoll_base::{Disk, Random};

pub(in crate::partition) use self::rows::{Change, Rows};

use self::files::Files;
use super::super::resources::{BeforeFlush, Resources};
use super::Backlog;
use crate::rows::StoreError;

/// One in so many batches is followed by a flush that nobody asked for, as RocksDB has them.
const FLUSHED_BATCHES: u64 = 200;

/// What the stores of a node share.
pub(in crate::partition) struct MemoryShared {
    disk: Disk,
    random: Random,
}

/// A store in memory.
pub(in crate::partition) struct Memory {
    before_flush: BeforeFlush,
    /// Whether files could not be written, and no flush worked since.
    has_failed: Arc<AtomicBool>,
    state: Mutex<State>,
    /// Held by who writes files.
    files: Mutex<Files>,
    unflushed: Counted,
    /// From so many unflushed bytes on a flush begins by itself.
    flush_bytes: usize,
}

struct State {
    rows: Rows,
    /// What no file has, in its order.
    unflushed: Vec<Change>,
    chance: Stream,
}

/// Bytes that are in no file, of this store and of the node.
struct Counted {
    own: AtomicUsize,
    of_node: Arc<AtomicUsize>,
}

impl MemoryShared {
    /// For stores whose files are on `disk`.
    pub fn new(disk: Disk, random: Random) -> Self {
        Self { disk, random }
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
        let (files, rows) = Files::open(&shared.disk, dir)?;
        // One purpose a folder: which one is opened first shifts nothing in another.
        let chance = shared.random.of(&format!("store {}", dir.display()));
        Ok(Self {
            before_flush: Arc::clone(&resources.before_flush),
            has_failed,
            state: Mutex::new(State { rows, unflushed: Vec::new(), chance }),
            files: Mutex::new(files),
            unflushed: Counted {
                own: AtomicUsize::new(0),
                of_node: Arc::clone(&resources.unflushed.pending_bytes),
            },
            flush_bytes: resources.memtable_bytes(),
        })
    }

    /// The rows as they are now.
    pub fn rows(&self) -> Rows {
        self.state.lock().rows.clone()
    }

    pub fn write(&self, changes: &[Change]) -> Result<(), StoreError> {
        if self.has_failed.load(Ordering::Relaxed) {
            return Err(StoreError::Failed("files cannot be written".to_owned()));
        }
        let is_due = {
            let mut held = self.state.lock();
            let state = &mut *held;
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

    /// Makes what was written durable, also after a failure.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.flush_with(&mut self.files.lock())
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
        Ok(())
    }

    pub fn checkpoint(&self, dir: &Path) -> Result<(), StoreError> {
        let mut files = self.files.lock();
        self.flush_with(&mut files)?;
        files.link(dir).map_err(|error| StoreError::Failed(error.to_string()))
    }

    pub fn verify(&self) -> Result<(), StoreError> {
        self.files.lock().verify()
    }

    pub fn compact(&self) -> Result<(), StoreError> {
        let mut files = self.files.lock();
        self.flush_with(&mut files)?;
        files.rewrite().map_err(|error| StoreError::Failed(error.to_string()))
    }

    /// Lets no more files be written.
    pub fn abandon(&self) {
        self.files.lock().abandon();
    }

    pub fn backlog(&self) -> Backlog {
        Backlog { level_0_files: self.files.lock().count(), pending_bytes: 0 }
    }

    pub fn unflushed_bytes(&self) -> u64 {
        self.unflushed.bytes() as u64
    }

    pub fn files_bytes(&self) -> u64 {
        self.files.lock().bytes()
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
