//! The rows of all stores of a node that are in no file yet: how many bytes they take, and the limit
//! beyond which a store takes no more until some of them are in files. It replaces RocksDB's own stop,
//! which would stop one partition however much room the others leave.

#![expect(
    clippy::disallowed_methods,
    reason = "threads of RocksDB and of apply wait by the machine's time"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rust_rocksdb::WriteBufferManager;

use crate::rows::StoreError;

/// How soon it is looked again whether there is room.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// For how long room is waited for, before that is a failure of the store, which is named.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// What is in no file yet.
pub(super) struct Unflushed {
    memtables: WriteBufferManager,
    /// Rows that RocksDB was not given yet, bytes.
    pub pending_bytes: Arc<AtomicUsize>,
    budget_bytes: usize,
    stops: AtomicU64,
    stopped_at: Mutex<Option<Instant>>,
    stopped_ns: AtomicU64,
}

/// What was held back so far because too much was in no file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// How often a store was held back, by this limit or by RocksDB's own.
    pub count: u64,
    /// For how long by this limit, ns.
    pub time_ns: u64,
}

impl Unflushed {
    /// Nothing, and what there is to be at most.
    pub(super) fn new(budget_bytes: usize) -> Self {
        Self {
            // Counts, and stalls nobody. Who is to flush is chosen by `cluster`, because this
            // would flush the partition written last, however little it holds.
            memtables: WriteBufferManager::new_write_buffer_manager(budget_bytes * 4, false),
            pending_bytes: Arc::default(),
            budget_bytes,
            stops: AtomicU64::new(0),
            stopped_at: Mutex::default(),
            stopped_ns: AtomicU64::new(0),
        }
    }

    pub(super) fn memtables(&self) -> &WriteBufferManager {
        &self.memtables
    }

    /// Bytes, and how many there should be at most.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let pending_bytes = self.pending_bytes.load(Ordering::Relaxed);
        (self.memtables.get_usage() + pending_bytes, self.budget_bytes)
    }

    pub(super) fn stops(&self) -> Stops {
        let [count, time_ns] = [&self.stops, &self.stopped_ns].map(|it| it.load(Ordering::Relaxed));
        Stops { count, time_ns }
    }

    /// RocksDB holds a store back.
    pub(super) fn note_stop(&self) {
        self.stops.fetch_add(1, Ordering::Relaxed);
        *self.stopped_at.lock() = Some(Instant::now());
    }

    /// Whether a store was held back for the last time not longer ago than that.
    pub(super) fn was_stopped_within(&self, time: Duration) -> bool {
        self.stopped_at.lock().is_some_and(|at| at.elapsed() <= time)
    }

    /// Waits until there is room for more, at twice the budget. Blocks, for a second at most.
    ///
    /// # Errors
    /// Where there is none by then, or files cannot be written.
    pub(super) fn await_room(&self, has_failed: &AtomicBool) -> Result<(), StoreError> {
        let has_room = || {
            let (held, budget) = self.bytes();
            held <= budget.saturating_mul(2)
        };
        if has_room() {
            return Ok(());
        }
        self.note_stop();
        let began = Instant::now();
        let found = loop {
            std::thread::sleep(LOOK_INTERVAL);
            let waited = began.elapsed();
            if has_room() {
                break Ok(());
            }
            if waited >= WAIT_MAX || has_failed.load(Ordering::Relaxed) {
                break Err(StoreError::Failed(format!(
                    "{} MB of rows wait to be in files, twice of what they may take",
                    self.bytes().0 >> 20
                )));
            }
        };
        let waited_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.stopped_ns.fetch_add(waited_ns, Ordering::Relaxed);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_goes_on_once_there_is_room_and_fails_where_there_never_is() {
        let unflushed = Arc::new(Unflushed::new(1 << 20));
        let (is_well, has_failed) = (AtomicBool::new(false), AtomicBool::new(true));
        assert!(unflushed.await_room(&has_failed).is_ok(), "there is room");
        assert_eq!(unflushed.stops(), Stops::default());
        assert!(!unflushed.was_stopped_within(Duration::MAX));
        unflushed.pending_bytes.store((2 << 20) + 1, Ordering::Relaxed);
        let refused = unflushed.await_room(&has_failed).unwrap_err().to_string();
        assert!(refused.contains("2 MB of rows"), "{refused}");
        let other = Arc::clone(&unflushed);
        let waiting = std::thread::spawn(move || other.await_room(&is_well).is_ok());
        while unflushed.stops().count < 2 {
            std::thread::yield_now();
        }
        unflushed.pending_bytes.store(1 << 20, Ordering::Relaxed);
        assert!(waiting.join().unwrap());
        assert!(unflushed.stops().time_ns > 0);
        assert!(unflushed.was_stopped_within(Duration::MAX));
    }
}
