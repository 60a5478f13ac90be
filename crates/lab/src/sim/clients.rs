//! The clients: when they issue a request, what it is, and what they do when it has ended.

use plimsoll_control::Random;
use plimsoll_control::average::whole;

use super::dist::{derive, exponential_ns};
use super::event::Event;
use super::measure::Ending;
use super::request::{Part, Request};
use super::run::Run;
use super::spec::{Load, Spread, Stop};

/// How long a coordinator takes to say that it does not understand.
const INVALID_NS: u64 = 7_000_000;

impl Run<'_> {
    pub(super) fn is_over(&self) -> bool {
        match self.spec.stop {
            Stop::Requests(count) => self.issued >= count,
            Stop::At(end_ns) => self.agenda.now_ns() >= end_ns,
        }
    }

    pub(super) fn arrive(&mut self) {
        let Load::Open { rates } = &self.spec.load else { return };
        let now_ns = self.agenda.now_ns();
        let rate = rates.iter().rev().find(|(from_ns, _)| *from_ns <= now_ns).map_or(0.0, |r| r.1);
        let gap_ns = exponential_ns(&mut self.streams.arrivals, 1e9 / rate.max(1e-3));
        if !self.is_over() {
            self.issue(None);
            self.agenda.after(gap_ns, Event::Arrive);
        }
    }

    pub(super) fn issue(&mut self, client: Option<usize>) {
        if self.is_over() {
            return;
        }
        let now_ns = self.agenda.now_ns();
        let (order, operation) = (self.issued, &self.spec.operation);
        self.issued += 1;
        self.active += 1;
        // A request is the same in every variant, whatever happened before it.
        let mut random = Random::new(derive(self.seed, 1 << 32 | order));
        let invalid = random.unit() < operation.invalid_share;
        let factor = self.between.draw(&mut random) * operation.work_ns;
        let partitions = self.spec.cluster.copies.len();
        let touched = match operation.spread {
            Spread::All => 0..partitions,
            Spread::One => {
                let one = random.below(partitions);
                one..one + 1
            }
        };
        let parts: Vec<Part> = touched
            .map(|partition| Part {
                partition,
                work_ns: factor * self.within.draw(&mut random),
                bytes: self.bytes.map_or(0, |bytes| whole(bytes.draw(&mut random))),
                tried: Vec::new(),
                under_way: Vec::new(),
                done: false,
                served_by: 0,
            })
            .collect();
        let count = parts.len();
        let rank = u32::try_from(random.next_u64() >> 32).unwrap_or(0);
        let number = self.next_number();
        let window = self.measure.issue(now_ns);
        let request = self.requests.insert(Request {
            number,
            coordinator: usize::try_from(order).unwrap_or(0) % self.coordinators.len(),
            client,
            issued_ns: now_ns,
            window,
            rank,
            parts,
            parts_left: count,
            fetching: false,
            over: false,
            missing: false,
            attempts: 0,
        });
        self.note([1, number, 0], format_args!("issue {number}"));
        if let Some(deadline_ns) = self.spec.operation.deadline_ns {
            self.agenda.after(deadline_ns, Event::Deadline { request, number });
        }
        if invalid {
            self.agenda.after(INVALID_NS, Event::Invalid { request, number });
            return;
        }
        for part in 0..count {
            self.ask(request, part);
        }
    }

    /// A request has come to its end for its client, who goes on.
    pub(super) fn end_request(&mut self, request: usize, ending: Ending) {
        let now_ns = self.agenda.now_ns();
        let one = &mut self.requests[request];
        one.over = true;
        let (number, client, missing) = (one.number, one.client, one.missing);
        self.measure.end(now_ns, one.issued_ns, one.window, ending, missing);
        self.active -= 1;
        self.note([2, number, ending as u64], format_args!("{ending:?} {number}"));
        if let (Some(client), Load::Closed { pace_ns, .. }) = (client, &self.spec.load) {
            self.next_turn_ns = self.next_turn_ns.saturating_add(*pace_ns).max(now_ns);
            self.agenda.at(self.next_turn_ns, Event::Issue { client });
        }
        self.forget_request(request);
    }

    /// Frees the slot once nobody refers to it.
    pub(super) fn forget_request(&mut self, request: usize) {
        let gone = self.requests.get(request).is_some_and(|one| one.over && one.attempts == 0);
        if gone {
            self.requests.remove(request);
        }
    }
}
