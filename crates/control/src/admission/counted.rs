//! A first-come, first-served queue bounded by a number, which is fixed or moved by Little's law.
//! It knows no deadline, no cost and no tier; it is what most search servers have.

use std::collections::VecDeque;

use super::littles_law::{Frame, QueueSizer};
use super::request::{Arrival, Reason, Refusal, Started};
use super::state::AdmissionState;

/// A refusal by count knows nothing about when there will be room.
const RETRY_AFTER_NS: u64 = 1_000_000_000;

#[derive(Debug)]
enum Bound {
    Fixed(usize),
    Sized(QueueSizer),
}

#[derive(Debug)]
pub(super) struct Counted {
    bound: Bound,
    waiting: VecDeque<(Arrival, u64)>,
}

impl Counted {
    pub(super) fn fixed(capacity: usize) -> Self {
        Self { bound: Bound::Fixed(capacity), waiting: VecDeque::new() }
    }

    pub(super) fn sized(sizer: QueueSizer) -> Self {
        Self { bound: Bound::Sized(sizer), waiting: VecDeque::new() }
    }

    fn capacity(&self) -> usize {
        match &self.bound {
            Bound::Fixed(capacity) => *capacity,
            Bound::Sized(sizer) => usize::try_from(sizer.capacity()).unwrap_or(usize::MAX),
        }
    }
}

impl AdmissionState for Counted {
    fn offer(&mut self, now_ns: u64, arrival: Arrival) -> Result<(), Refusal> {
        if self.waiting.len() >= self.capacity() {
            return Err(Refusal { reason: Reason::Full, retry_after_ns: RETRY_AFTER_NS });
        }
        self.waiting.push_back((arrival, now_ns));
        Ok(())
    }

    fn next(&mut self, now_ns: u64, _dropped: &mut Vec<(Arrival, Refusal)>) -> Option<Started> {
        let (arrival, arrived_ns) = self.waiting.pop_front()?;
        let waited_ns = now_ns.saturating_sub(arrived_ns);
        Some(Started { arrival, waited_ns, heavy: false })
    }

    fn on_finish(&mut self, now_ns: u64, done: &Started, run_ns: u64) -> Option<Frame> {
        match &mut self.bound {
            Bound::Fixed(_) => None,
            Bound::Sized(sizer) => sizer.on_finish(now_ns, done.waited_ns + run_ns),
        }
    }

    fn cancel(&mut self, id: u64) -> Option<Arrival> {
        let at = self.waiting.iter().position(|(arrival, _)| arrival.id == id)?;
        self.waiting.remove(at).map(|(arrival, _)| arrival)
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn oldest_arrived_ns(&self) -> Option<u64> {
        self.waiting.front().map(|(_, arrived_ns)| *arrived_ns)
    }
}
