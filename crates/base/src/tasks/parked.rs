//! What polls the role of a node that has a thread of its own and no runtime: the thread parks until the role
//! is woken or one of its waits is due. A wait is as exact as the system's, where a runtime's is one of whole
//! milliseconds, and a wake costs no more than the system's.
//!
//! In such a role nothing can be begun that needs a runtime: no task of tokio's, no socket.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::instant::{Instant, nanos};
use crate::waits::Waits;

thread_local! {
    /// The waits of the role that this thread polls.
    static TIMERS: RefCell<Option<Arc<Timers>>> = const { RefCell::new(None) };
}

/// The waits of one role.
pub(crate) struct Timers {
    began: std::time::Instant,
    waits: Mutex<Waits>,
}

impl Timers {
    /// By a time of its own.
    pub(crate) fn now(&self) -> Instant {
        Instant(nanos(self.began.elapsed()))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock()
    }
}

/// Those of the role that this thread polls, if it does.
pub(crate) fn timers() -> Option<Arc<Timers>> {
    TIMERS.with_borrow(Option::clone)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// How long a thread waits that has nothing else to do.
pub struct Patience(Option<std::time::Instant>);

impl Patience {
    /// For ever.
    #[must_use]
    pub fn without_end() -> Self {
        Self(None)
    }

    /// For so long, from now on and all together.
    #[must_use]
    pub fn of(duration: Duration) -> Self {
        Self(std::time::Instant::now().checked_add(duration))
    }

    /// Polls until something comes of it; nothing where that takes too long. Blocks.
    pub fn wait<T>(&self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(found) = poll(&mut context) {
                return Some(found);
            }
            let left = self.0.map(|at| at.saturating_duration_since(std::time::Instant::now()));
            match left {
                None => std::thread::park(),
                Some(left) if left.is_zero() => return None,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }
}

/// Polls a role to its end on this thread.
pub(super) fn run<T>(role: impl Future<Output = T>) -> T {
    let timers = Arc::new(Timers { began: std::time::Instant::now(), waits: Mutex::default() });
    let before = TIMERS.replace(Some(Arc::clone(&timers)));
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut role = pin!(role);
    let output = loop {
        if let Poll::Ready(output) = role.as_mut().poll(&mut context) {
            break output;
        }
        let due = timers.lock().next_due();
        match due {
            None => std::thread::park(),
            Some(due) => std::thread::park_timeout(due - timers.now()),
        }
        let due = timers.lock().take_due(timers.now());
        due.into_iter().for_each(Waker::wake);
    };
    TIMERS.set(before);
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    #[test]
    fn a_role_waits_for_time_and_for_other_threads() {
        let time = Time::of_the_machine();
        let (told, hears) = tokio::sync::oneshot::channel();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            told.send(7)
        });
        let (heard, late) = run(async {
            let long = time.timeout(Duration::from_secs(60), hears).await;
            let never = std::future::pending::<()>();
            (long, time.timeout(Duration::from_micros(300), never).await)
        });
        assert_eq!((heard, late.is_err()), (Ok(Ok(7)), true));
        assert_eq!(other.join().unwrap(), Ok(()));
        assert!(timers().is_none());
    }

    #[test]
    fn waits_of_which_only_some_are_polled_are_all_kept() {
        use futures_util::stream::{FuturesUnordered, StreamExt};
        let time = Time::of_the_machine();
        let waited = run(async {
            let wait = |ms| {
                let wait = time.sleep(Duration::from_millis(ms));
                async move {
                    wait.await;
                    ms
                }
            };
            let waits: FuturesUnordered<_> = [3, 1, 2].into_iter().map(wait).collect();
            waits.collect::<Vec<u64>>().await
        });
        assert_eq!(waited, [1, 2, 3]);
    }
}
