//! Reads of rows that may have to come from files, on threads that may wait for the disk: so many, however many
//! reads there are. Each thread has memory of its own that the allocator keeps for it; with one for every read,
//! five hundred of them held up to 9 MiB each, which no limit was asked for. What a read does is not decided here.

use plimsoll_base::Tasks;
use plimsoll_base::tasks::Pool;
use plimsoll_storage::rows::StoreError;

/// Threads for reads of one kind: as many as keep a disk busy.
const THREADS: usize = 32;

/// What a read looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One row.
    Row,
    /// Any number: it may take long, or wait for memory, and no read of one row waits for it.
    Rows,
}

/// The threads for such reads.
pub(crate) struct FileReads {
    row: Pool,
    rows: Pool,
}

impl FileReads {
    /// None at work.
    pub(crate) fn new(tasks: &Tasks) -> Self {
        let pool = |name| tasks.pool(name, THREADS);
        Self { row: pool("read-row"), rows: pool("read-rows") }
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
            Extent::Row => &self.row,
            Extent::Rows => &self.rows,
        };
        let outcome = pool.run(plimsoll_memory::carry(read)).await;
        outcome.unwrap_or_else(|lost| Err(StoreError::Failed(lost.to_string())))
    }
}
