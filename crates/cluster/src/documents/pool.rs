//! The threads that searches run on, apart from those that serve connections: so many at once,
//! a queue of a limit before them, and refusal beyond.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crossbeam_channel::{Sender, TrySendError, bounded};
use plimsoll_index::Error;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// The pool of a node.
pub(crate) struct SearchPool {
    jobs: Sender<Job>,
    queue_max: usize,
    threads: usize,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    active: AtomicUsize,
    largest: AtomicUsize,
    completed: AtomicU64,
    rejected: AtomicU64,
}

/// What the pool has done, and does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStatistics {
    /// Its threads.
    pub threads: usize,
    /// Jobs that wait.
    pub queue: usize,
    /// Jobs that run.
    pub active: usize,
    /// Jobs refused so far.
    pub rejected: u64,
    /// The most jobs that ran at once.
    pub largest: usize,
    /// Jobs done so far.
    pub completed: u64,
}

impl SearchPool {
    /// Starts `threads` threads before which `queue_max` jobs may wait.
    ///
    /// # Panics
    /// Where the system has no room for a thread: the node is being opened.
    pub(crate) fn start(threads: usize, queue_max: usize) -> Self {
        let (jobs, queue) = bounded::<Job>(queue_max);
        let counters: Arc<Counters> = Arc::default();
        for _ in 0..threads {
            let (queue, counters) = (queue.clone(), Arc::clone(&counters));
            let run = move || {
                for job in queue {
                    let active = counters.active.fetch_add(1, Ordering::Relaxed) + 1;
                    counters.largest.fetch_max(active, Ordering::Relaxed);
                    // A panic is a fault of ours in one search; its waiter sees the channel end.
                    let job = std::panic::AssertUnwindSafe(job);
                    if std::panic::catch_unwind(move || { job }.0()).is_err() {
                        tracing::error!("a search panicked");
                    }
                    counters.active.fetch_sub(1, Ordering::Relaxed);
                    counters.completed.fetch_add(1, Ordering::Relaxed);
                }
            };
            let thread = std::thread::Builder::new().name("search".to_owned()).spawn(run);
            assert!(thread.is_ok(), "the system has no room for a thread");
        }
        Self { jobs, queue_max, threads, counters }
    }

    /// Runs `work` on a thread of the pool.
    ///
    /// # Errors
    /// 429 where the queue is full.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (done, answered) = oneshot::channel();
        let work = plimsoll_memory::carry(work);
        let job = Box::new(move || {
            // Nobody waits where the client has hung up.
            let _ = done.send(work());
        });
        match self.jobs.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.counters.rejected.fetch_add(1, Ordering::Relaxed);
                let reason = format!(
                    "rejected execution of search: queue capacity [{}], pool size [{}]",
                    self.queue_max, self.threads
                );
                return Err(Error::new(429, "es_rejected_execution_exception", reason));
            }
        }
        answered.await.map_err(|_| Error::internal("the search failed; the log says why"))
    }

    pub(crate) fn statistics(&self) -> PoolStatistics {
        PoolStatistics {
            threads: self.threads,
            queue: self.jobs.len(),
            active: self.counters.active.load(Ordering::Relaxed),
            rejected: self.counters.rejected.load(Ordering::Relaxed),
            largest: self.counters.largest.load(Ordering::Relaxed),
            completed: self.counters.completed.load(Ordering::Relaxed),
        }
    }
}

/// Set by whoever does not want an answer any more: work that sees it stops.
#[derive(Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets it when the guard goes: a request whose future is dropped stops its work.
    pub(crate) fn guard(&self) -> CancelGuard {
        CancelGuard(self.clone())
    }
}

/// Cancels when it goes.
pub(crate) struct CancelGuard(Cancel);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_memory::{Account, Action, Charged, Standing};

    fn account() -> Account {
        Account::open(Action {
            name: "test",
            description: String::new(),
            standing: Standing::Read,
            opaque_id: None,
        })
    }

    #[tokio::test]
    async fn a_job_works_for_the_request_that_gave_it() {
        let pool = SearchPool::start(1, 10);
        let account = account();
        let job = || {
            let number = plimsoll_memory::current().map(|it| it.number());
            (number, std::hint::black_box(vec![1u8; 3 << 20]))
        };
        let (number, block) =
            Charged::new(account.clone(), || pool.run(job)).await.unwrap().unwrap();
        assert_eq!(number, Some(account.number()));
        assert!(account.bytes() >= 3 << 20);
        drop(block);
        assert!(account.bytes() < 1 << 10, "{}", account.bytes());
        assert!(account.cpu().as_nanos() > 0);
    }

    #[tokio::test]
    async fn a_panic_gives_back_what_the_job_held() {
        let pool = SearchPool::start(1, 10);
        let account = account();
        let job = || {
            let held = std::hint::black_box(vec![1u8; 3 << 20]);
            std::panic::resume_unwind(Box::new(held.len()));
        };
        let answer = Charged::new(account.clone(), || pool.run::<()>(job)).await.unwrap();
        assert_eq!(answer.unwrap_err().status, 500);
        assert!(account.peak_bytes() >= 3 << 20);
        // The next job's thread is the same, and works for nobody.
        let next = pool.run(plimsoll_memory::current).await.unwrap();
        assert!(next.is_none());
        assert!(account.bytes() < 1 << 10, "{}", account.bytes());
    }
}
