//! Reads of rows that may have to come from files, on threads that may wait for the disk: so many at once. Each
//! thread has memory of its own that the allocator keeps for it, and with one for every read under way, five
//! hundred of them held up to 9 MiB each, which no limit was asked for. What a read does is not decided here.

use std::sync::Arc;

use plimsoll_base::tasks::Tasks;
use plimsoll_storage::rows::StoreError;
use tokio::sync::Semaphore;

/// Reads of one kind at once: as many as keep a disk busy.
const AT_ONCE: usize = 32;

/// What a read looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One row.
    Row,
    /// Any number: it may take long, or wait for memory, and no read of one row waits for it.
    Rows,
}

/// The places for such reads.
pub(crate) struct FileReads {
    tasks: Tasks,
    row: Arc<Semaphore>,
    rows: Arc<Semaphore>,
}

impl FileReads {
    /// None under way, on the threads of these tasks.
    pub(crate) fn new(tasks: &Tasks) -> Self {
        let places = || Arc::new(Semaphore::new(AT_ONCE));
        Self { tasks: tasks.clone(), row: places(), rows: places() }
    }

    /// Reads once there is a place, for the request that is being answered.
    ///
    /// # Errors
    /// What the read says; [`StoreError::Failed`] where it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        extent: Extent,
        read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let places = match extent {
            Extent::Row => &self.row,
            Extent::Rows => &self.rows,
        };
        // Nobody closes it.
        let place = Arc::clone(places).acquire_owned().await.ok();
        let read = plimsoll_memory::carry(read);
        // A read goes on where nobody waits for it any more, and keeps its place until it is over.
        let read = move || {
            let _place = place;
            read()
        };
        let outcome = self.tasks.blocking(read).await;
        outcome.unwrap_or_else(|lost| Err(StoreError::Failed(lost.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use plimsoll_base::World;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn so_many_go_on_at_once_whoever_waits_for_them_and_one_row_waits_for_no_others() {
        let reads = Arc::new(FileReads::new(&World::of_the_machine().tasks));
        let (begun, begins) = mpsc::channel();
        let mut ends = Vec::new();
        for at in 0..=AT_ONCE {
            let (end, ended) = mpsc::channel::<()>();
            ends.push(end);
            let (reads, begun) = (Arc::clone(&reads), begun.clone());
            let reading = tokio::spawn(async move {
                let read = move || {
                    begun.send(at).unwrap();
                    let _ = ended.recv();
                    Ok(())
                };
                reads.run(Extent::Rows, read).await
            });
            if at < AT_ONCE {
                assert_eq!(begins.recv(), Ok(at));
                // It goes on.
                reading.abort();
            }
        }
        assert_eq!(reads.run(Extent::Row, || Ok(1)).await, Ok(1));
        assert!(begins.try_recv().is_err(), "no place for one more");
        drop(ends.remove(0));
        assert_eq!(begins.recv(), Ok(AT_ONCE));
    }
}
