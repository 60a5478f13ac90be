//! Reads of rows that may have to come from files, on threads that may wait for the disk: so many, however many
//! reads there are. Each thread has memory of its own that the allocator keeps for it; with one for every read,
//! five hundred of them held up to 9 MiB each, which no limit was asked for. No thread waits for memory: whoever has
//! no room for what it reads waits without one, and reads anew. What a read does is not decided here.

use std::num::NonZero;
use std::thread;
use std::time::Duration;

use plimsoll_base::tasks::{Lost, Pool};
use plimsoll_base::{Tasks, Time};
use plimsoll_memory::breakers::{WAIT_MAX, WAIT_STEP};
use plimsoll_memory::{Account, Stop};
use plimsoll_storage::rows::StoreError;
use tokio::sync::Mutex;

/// Threads for reads of one kind, for each processor: as many as keep a disk busy, and few enough for those who serve
/// connections to get their turn where what is read is large and in the system's memory.
const THREADS_A_PROCESSOR: usize = 4;
/// All together, at least and at most.
const THREADS_MIN: usize = 8;
const THREADS_MAX: usize = 64;
/// One thread for large reads to so many of the others: each may hold a block of a file of any size beside what it
/// copies of it.
const OTHERS_A_LARGE: usize = 2;

/// How long a thread stays with nothing to do.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// What a thread allocated and others free stays its own, for its next read, until it ends: tens of megabytes of those
/// that read much.
const LARGE_IDLE_MAX: Duration = Duration::from_millis(50);

/// What a read looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Few rows, of given keys.
    Few,
    /// Any number.
    Many,
    /// More than a megabyte of them: no other read waits for it.
    Large,
}

/// The threads for such reads.
pub(crate) struct FileReads {
    few: Pool,
    many: Pool,
    large: Pool,
    time: Time,
    /// Whose turn it is to ask for room, in the order in which they came.
    turn: Mutex<()>,
}

/// How long a read may still wait for room, all its tries together.
pub(crate) struct Patience(Duration);

impl Default for Patience {
    fn default() -> Self {
        Self(WAIT_MAX)
    }
}

impl Patience {
    /// Whether it has waited as long as it may.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_zero()
    }
}

impl FileReads {
    /// None at work.
    pub(crate) fn new(tasks: &Tasks, time: &Time) -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = (THREADS_A_PROCESSOR * processors).clamp(THREADS_MIN, THREADS_MAX);
        Self {
            few: tasks.pool("read-few", threads, IDLE_MAX),
            many: tasks.pool("read-many", threads, IDLE_MAX),
            large: tasks.pool("read-large", threads / OTHERS_A_LARGE, LARGE_IDLE_MAX),
            time: time.clone(),
            turn: Mutex::default(),
        }
    }

    /// Reads once a thread has time for it, for the request that is being answered.
    ///
    /// # Errors
    /// What the read says; [`StoreError::Failed`] where it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        extent: Extent,
        read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let pool = match extent {
            Extent::Few => &self.few,
            Extent::Many => &self.many,
            Extent::Large => &self.large,
        };
        let outcome = pool.run(plimsoll_memory::carry(read)).await;
        outcome.unwrap_or_else(|| Err(StoreError::Failed(Lost.to_string())))
    }

    /// Waits until there is room for so many bytes, which others were told to give back, or its patience is over.
    ///
    /// # Errors
    /// Why the request has to stop, where it is the one that is told to.
    pub(crate) async fn room(
        &self,
        account: &Account,
        bytes: u64,
        patience: &mut Patience,
    ) -> Result<(), Stop> {
        let began = self.time.now();
        let asked = async {
            let _turn = self.turn.lock().await;
            while !account.try_ask(bytes)? {
                self.time.sleep(WAIT_STEP).await;
            }
            Ok(())
        };
        let asked = self.time.timeout(patience.0, asked).await;
        // A try that finds no room again has waited for a step at least, so that there is a last one.
        let waited = self.time.now().since(began).max(WAIT_STEP);
        patience.0 = patience.0.saturating_sub(waited);
        asked.unwrap_or(Ok(()))
    }
}
