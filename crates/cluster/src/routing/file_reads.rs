//! Reads of rows that may have to come from files, on threads that may wait for the disk: so many, however many
//! reads there are. Each thread has memory of its own that the allocator keeps for it; with one for every read,
//! five hundred of them held up to 9 MiB each, which no limit was asked for. What a read does is not decided here.

use std::num::NonZero;
use std::thread;

use plimsoll_base::Tasks;
use plimsoll_base::tasks::{Lost, Pool};
use plimsoll_storage::rows::StoreError;

/// Threads for reads of one kind, for each processor: as many as keep a disk busy, and few enough for those who serve
/// connections to get their turn where what is read is large and in the system's memory.
const THREADS_A_PROCESSOR: usize = 4;
/// All together, at least and at most.
const THREADS_MIN: usize = 8;
const THREADS_MAX: usize = 64;

/// What a read looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Few rows, of given keys.
    Few,
    /// Any number: it may take long, and no read of few waits for it.
    Many,
}

/// The threads for such reads.
pub(crate) struct FileReads {
    few: Pool,
    many: Pool,
}

impl FileReads {
    /// None at work.
    pub(crate) fn new(tasks: &Tasks) -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = (THREADS_A_PROCESSOR * processors).clamp(THREADS_MIN, THREADS_MAX);
        let pool = |name| tasks.pool(name, threads);
        Self { few: pool("read-few"), many: pool("read-many") }
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
        };
        let outcome = pool.run(plimsoll_memory::carry(read)).await;
        outcome.unwrap_or_else(|| Err(StoreError::Failed(Lost.to_string())))
    }
}
