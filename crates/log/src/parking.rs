//! Waits on a thread that has nothing else to do: it parks until it is woken, and polls again.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls until something comes of it; nothing where that is not before `deadline`. Blocks.
pub(crate) fn wait<T>(
    deadline: Option<Instant>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(found) = poll(&mut context) {
            return Some(found);
        }
        match deadline.map(|at| at.saturating_duration_since(Instant::now())) {
            None => std::thread::park(),
            Some(left) if left.is_zero() => return None,
            Some(left) => std::thread::park_timeout(left),
        }
    }
}
