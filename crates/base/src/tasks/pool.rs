//! Threads for work of one kind that blocks: no more than so many, whoever asks for it. What has none waits in the
//! order in which it was asked for.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// Such threads. They begin as they are needed, and end when they have had nothing to do for a while. Dropped,
/// what they do goes on by itself, and what waits for one is given up.
pub struct Pool {
    /// None of a simulation, where nothing blocks. Nobody runs it: it has threads that block alone.
    runtime: Option<Runtime>,
}

impl Pool {
    /// None: a simulation's.
    pub(super) fn simulated() -> Self {
        Self { runtime: None }
    }

    /// At most so many of this name, at least 1, and how long one stays with nothing to do.
    pub(super) fn of_threads(name: &str, threads_max: usize, idle_max: Duration) -> Self {
        let mut builder = Builder::new_current_thread();
        builder.thread_name(name).max_blocking_threads(threads_max.max(1));
        builder.thread_keep_alive(idle_max);
        let runtime = builder.build().expect("it opens nothing: it has no clock and no network");
        Self { runtime: Some(runtime) }
    }

    /// Does what blocks, once a thread has time for it; what nobody waits for any more is not begun. `None` where it
    /// panicked.
    ///
    /// # Panics
    /// In a simulation, where the work does.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let Some(runtime) = &self.runtime else { return Some(work()) };
        let (done, told) = oneshot::channel();
        let span = tracing::Span::current();
        drop(runtime.spawn_blocking(move || {
            if !done.is_closed() {
                // Who asked may go meanwhile.
                let _ = done.send(span.in_scope(work));
            }
        }));
        told.await.ok()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::future::{Future, poll_fn};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Barrier};
    use std::task::Poll;
    use std::thread;

    use super::*;
    use crate::tasks::parked;

    #[test]
    fn no_more_threads_work_than_there_may_be_and_those_side_by_side() {
        let pool = Arc::new(Pool::of_threads("test", 2, Duration::MAX));
        let (both, threads) = (Arc::new(Barrier::new(2)), 6);
        let asked = (0..threads).map(|_| {
            let (pool, both) = (Arc::clone(&pool), Arc::clone(&both));
            thread::spawn(move || {
                parked::run(async move {
                    let work = move || {
                        both.wait();
                        thread::current().id()
                    };
                    pool.run(work).await
                })
            })
        });
        let asked: Vec<_> = asked.collect();
        let ran: HashSet<_> = asked.into_iter().map(|it| it.join().unwrap().unwrap()).collect();
        assert_eq!(ran.len(), 2);
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_not_begun() {
        let pool = Pool::of_threads("test", 1, Duration::MAX);
        let (goes_on, begun) = (Arc::new(Barrier::new(2)), Arc::new(AtomicBool::new(false)));
        let waits = Arc::clone(&goes_on);
        let mut first = Box::pin(pool.run(move || waits.wait()));
        let told = Arc::clone(&begun);
        let mut second = Box::pin(pool.run(move || told.store(true, Ordering::Relaxed)));
        parked::run(poll_fn(|context| {
            // Both are asked for; there is one thread.
            assert!(first.as_mut().poll(context).is_pending());
            assert!(second.as_mut().poll(context).is_pending());
            Poll::Ready(())
        }));
        drop(second);
        goes_on.wait();
        assert!(parked::run(first).is_some());
        assert_eq!(parked::run(pool.run(|| 1)), Some(1));
        assert!(!begun.load(Ordering::Relaxed));
    }

    #[test]
    fn work_that_panics_is_lost_and_no_other() {
        let pool = Pool::of_threads("test", 1, Duration::MAX);
        assert_eq!(parked::run(pool.run(|| assert!(thread::panicking(), "no"))), None);
        assert_eq!(parked::run(pool.run(|| 1)), Some(1));
    }
}
