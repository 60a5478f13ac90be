//! The interface that all rules of admission have, and the bound that they all keep to.

use super::littles_law::Frame;
use super::request::{Arrival, Reason, Refusal, Started};

/// How many requests a rule in the shadow would have refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WouldRefuse {
    /// [`Reason::Full`].
    pub full: u64,
    /// [`Reason::Hopeless`].
    pub hopeless: u64,
    /// [`Reason::Overload`].
    pub overload: u64,
    /// [`Reason::Elsewhere`].
    pub elsewhere: u64,
}

impl WouldRefuse {
    pub(super) fn add(&mut self, refusal: Refusal) {
        let count = match refusal.reason {
            Reason::Full => &mut self.full,
            Reason::Hopeless => &mut self.hopeless,
            Reason::Overload => &mut self.overload,
            Reason::Elsewhere => &mut self.elsewhere,
        };
        *count += 1;
    }
}

/// A rule's state and queue.
pub(super) trait AdmissionState: Send {
    fn offer(&mut self, now_ns: u64, arrival: Arrival) -> Result<(), Refusal>;
    fn next(&mut self, now_ns: u64, dropped: &mut Vec<(Arrival, Refusal)>) -> Option<Started>;
    /// Gives up what has to be given up now; `next` does so as well.
    fn shed(&mut self, _now_ns: u64, _dropped: &mut Vec<(Arrival, Refusal)>) {}
    fn on_finish(&mut self, now_ns: u64, done: &Started, run_ns: u64) -> Option<Frame>;
    fn cancel(&mut self, id: u64) -> Option<Arrival>;
    fn waiting(&self) -> usize;
    fn oldest_arrived_ns(&self) -> Option<u64>;
    fn would_refuse(&self) -> WouldRefuse {
        WouldRefuse::default()
    }
}

/// Requests that may wait for each worker, whatever the rule: the bound on memory, not the policy.
pub const WAITING_PER_WORKER_MAX: usize = 1_000;
