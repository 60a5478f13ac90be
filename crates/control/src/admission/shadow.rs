//! Admission in the shadow: one rule decides, another is shown the same requests and counts whom
//! it would have refused. Its queue holds what it would have let wait and what still waits in fact,
//! so that its counts tell what the first hours of being on would do.

use super::littles_law::Frame;
use super::request::{Arrival, Refusal, Started};
use super::state::{AdmissionState, WouldRefuse};

pub(super) struct Shadowed {
    pub(super) acting: Box<dyn AdmissionState>,
    pub(super) shadow: Box<dyn AdmissionState>,
    pub(super) counts: WouldRefuse,
}

impl Shadowed {
    fn count(&mut self, dropped: Vec<(Arrival, Refusal)>) {
        dropped.into_iter().for_each(|(_, refusal)| self.counts.add(refusal));
    }
}

impl AdmissionState for Shadowed {
    fn offer(&mut self, now_ns: u64, arrival: Arrival) -> Result<(), Refusal> {
        self.acting.offer(now_ns, arrival)?;
        if let Err(refusal) = self.shadow.offer(now_ns, arrival) {
            self.counts.add(refusal);
        }
        Ok(())
    }

    fn next(&mut self, now_ns: u64, dropped: &mut Vec<(Arrival, Refusal)>) -> Option<Started> {
        let mut given_up = Vec::new();
        self.shadow.shed(now_ns, &mut given_up);
        self.count(given_up);
        let before = dropped.len();
        let started = self.acting.next(now_ns, dropped);
        let gone = dropped[before..].iter().map(|(arrival, _)| arrival.id);
        for id in gone.chain(started.iter().map(|started| started.arrival.id)) {
            self.shadow.cancel(id);
        }
        started
    }

    fn shed(&mut self, now_ns: u64, dropped: &mut Vec<(Arrival, Refusal)>) {
        self.acting.shed(now_ns, dropped);
    }

    fn on_finish(&mut self, now_ns: u64, done: &Started, run_ns: u64) -> Option<Frame> {
        // What the acting rule made of the request is not the shadow's affair.
        let plain = Started { heavy: false, ..*done };
        self.shadow.on_finish(now_ns, &plain, run_ns);
        self.acting.on_finish(now_ns, done, run_ns)
    }

    fn cancel(&mut self, id: u64) -> Option<Arrival> {
        self.shadow.cancel(id);
        self.acting.cancel(id)
    }

    fn waiting(&self) -> usize {
        self.acting.waiting()
    }

    fn oldest_arrived_ns(&self) -> Option<u64> {
        self.acting.oldest_arrived_ns()
    }

    fn would_refuse(&self) -> WouldRefuse {
        self.counts
    }
}
