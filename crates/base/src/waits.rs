//! Who waits for a moment, in the order in which they are due. Which time it is, is told each time.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use crate::instant::Instant;

/// Who waits, by when they are due and the order in which they came.
#[derive(Default)]
pub(crate) struct Waits {
    waiting: BTreeMap<(Instant, u64), Waker>,
    /// The number of the next who waits.
    next: u64,
}

impl Waits {
    pub(crate) fn key(&mut self, due: Instant) -> (Instant, u64) {
        self.next += 1;
        (due, self.next)
    }

    pub(crate) fn poll(
        &mut self,
        now: Instant,
        key: (Instant, u64),
        context: &Context<'_>,
    ) -> Poll<()> {
        if now >= key.0 {
            self.waiting.remove(&key);
            return Poll::Ready(());
        }
        self.waiting.insert(key, context.waker().clone());
        Poll::Pending
    }

    pub(crate) fn forget(&mut self, key: (Instant, u64)) {
        self.waiting.remove(&key);
    }

    /// When the next is due; `None` where nobody waits.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes those out who are due, in the order in which they are.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while let Some(entry) = self.waiting.first_entry()
            && entry.key().0 <= now
        {
            due.push(entry.remove());
        }
        due
    }
}
