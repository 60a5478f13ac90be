//! The nodes' side of a request: admission's queue, the workers, answers and refusals. What a
//! sick node does with a request is decided here as well.

use plimsoll_control::admission::{Arrival, Started, Tier};
use plimsoll_control::selection::FailureKind;

use super::event::Event;
use super::request::{Answer, Attempt};
use super::resources::Memory;
use super::run::Run;

impl Run<'_> {
    /// An attempt is at its node.
    pub(super) fn reach(&mut self, attempt: usize) {
        let now_ns = self.now_ns();
        let one = &mut self.attempts[attempt];
        one.reached_ns = now_ns;
        let node = one.node;
        if self.nodes[node].is_hung(now_ns) {
            self.nodes[node].stalled.push(attempt);
        } else if self.nodes[node].is_failing(now_ns) {
            self.reply(attempt, Some(FailureKind::Error));
        } else {
            self.take_in(attempt);
        }
    }

    fn take_in(&mut self, attempt: usize) {
        let now_ns = self.now_ns();
        let one = &self.attempts[attempt];
        let request = &self.requests[one.request];
        let copies = self.candidates[request.parts[one.part].partition].len();
        let tried = request.parts[one.part].tried.len();
        let arrival = Arrival {
            id: attempt as u64,
            class: one.class,
            tier: Tier::Interactive,
            cost_ns: None,
            deadline_ns: match self.spec.operation.deadline_ns {
                Some(deadline_ns) => request.issued_ns + deadline_ns,
                None => u64::MAX,
            },
            rank: request.rank,
            // What was found here can be fetched only here.
            alternatives: match request.fetching {
                true => 0,
                false => u32::try_from(copies.saturating_sub(tried)).unwrap_or(u32::MAX),
            },
        };
        let (number, node) = (one.number, one.node);
        match self.nodes[node].offer(now_ns, arrival) {
            Some(job) => {
                self.attempts[attempt].job = Some(job);
                self.fill(node);
            }
            None => {
                self.note([5, number, node as u64], format_args!("{node} refuses {number}"));
                self.reply(attempt, Some(FailureKind::Refused));
            }
        }
    }

    /// Gives free workers what waits.
    fn fill(&mut self, node: usize) {
        let now_ns = self.now_ns();
        if self.nodes[node].is_hung(now_ns) {
            return;
        }
        let mut dropped = Vec::new();
        while let Some(started) = self.nodes[node].admission.next(now_ns, &mut dropped) {
            self.start(node, started);
        }
        for (arrival, _) in dropped {
            let attempt = slot(&arrival);
            if let Some(job) = self.attempts[attempt].job.take() {
                self.nodes[node].meter.abandon(job);
            }
            self.nodes[node].counts.rejected += 1;
            let number = self.attempts[attempt].number;
            self.note([6, number, node as u64], format_args!("{node} drops {number}"));
            self.reply(attempt, Some(FailureKind::Refused));
        }
        self.foresee(node);
    }

    fn start(&mut self, node: usize, started: Started) {
        let now_ns = self.now_ns();
        let attempt = slot(&started.arrival);
        let one = &mut self.attempts[attempt];
        let Some(mut job) = one.job.take() else { return };
        if one.cancelled {
            self.nodes[node].skip(now_ns, job, &started);
            self.reply(attempt, None);
            return;
        }
        let bytes = self.requests[one.request].parts[one.part].bytes;
        one.job = Some(job);
        if !self.get_memory(node, attempt, bytes) {
            self.nodes[node].skip(now_ns, job, &started);
            self.nodes[node].counts.rejected += 1;
            self.attempts[attempt].job = None;
            self.reply(attempt, Some(FailureKind::Refused));
            return;
        }
        let one = &mut self.attempts[attempt];
        let at_node = &mut self.nodes[node];
        at_node.meter.start(now_ns, &mut job);
        one.started_ns = now_ns;
        one.job = Some(job);
        one.started = Some(started);
        let work_ns = at_node.work_ns(now_ns, self.requests[one.request].parts[one.part].work_ns);
        at_node.cpu.start(now_ns, attempt, work_ns);
    }

    /// Whether an attempt may hold so much; whoever has to yield for it is given up.
    fn get_memory(&mut self, node: usize, attempt: usize, bytes: u64) -> bool {
        loop {
            let Some(holdings) = self.nodes[node].holdings.as_mut() else { return true };
            match holdings.reserve(attempt, bytes) {
                Memory::Granted => {
                    self.swap(node);
                    return true;
                }
                Memory::Victim(victim) => self.yield_memory(node, victim),
                Memory::Refused => return false,
            }
        }
    }

    /// A running attempt is given up for its memory.
    fn yield_memory(&mut self, node: usize, victim: usize) {
        let now_ns = self.now_ns();
        let one = &mut self.attempts[victim];
        let (job, started, started_ns) = (one.job.take(), one.started.take(), one.started_ns);
        let at_node = &mut self.nodes[node];
        if let Some(holdings) = at_node.holdings.as_mut() {
            holdings.free(victim);
        }
        at_node.cpu.stop(now_ns, victim);
        if let (Some(job), Some(started)) = (job, started) {
            at_node.meter.finish(now_ns, job, false);
            at_node.admission.on_finish(now_ns, &started, now_ns.saturating_sub(started_ns));
        }
        at_node.counts.rejected += 1;
        let number = self.attempts[victim].number;
        self.note([8, number, node as u64], format_args!("{node} takes back {number}"));
        self.reply(victim, Some(FailureKind::Refused));
    }

    /// Takes into account that the node may have begun or ceased to swap.
    fn swap(&mut self, node: usize) {
        let now_ns = self.now_ns();
        if self.nodes[node].holdings.is_some() {
            self.nodes[node].adjust(now_ns);
        }
    }

    /// Enters when the next job will end, as things stand.
    fn foresee(&mut self, node: usize) {
        let at_node = &mut self.nodes[node];
        at_node.version += 1;
        if let Some(end_ns) = at_node.cpu.next_end_ns() {
            self.agenda.at(end_ns, Event::End { node, version: at_node.version });
        }
    }

    /// A job ends.
    pub(super) fn end_job(&mut self, node: usize, version: u64) {
        let now_ns = self.now_ns();
        if self.nodes[node].version != version {
            return;
        }
        let Some(attempt) = self.nodes[node].cpu.end(now_ns) else { return };
        let one = &mut self.attempts[attempt];
        let started_ns = one.started_ns;
        if let (Some(job), Some(started)) = (one.job.take(), one.started.take()) {
            self.nodes[node].complete(now_ns, job, &started, started_ns);
        }
        if let Some(holdings) = self.nodes[node].holdings.as_mut() {
            holdings.free(attempt);
        }
        self.swap(node);
        self.reply(attempt, None);
        self.fill(node);
    }

    /// Sends a node's answer on its way.
    fn reply(&mut self, attempt: usize, failure: Option<FailureKind>) {
        let now_ns = self.now_ns();
        let one = &mut self.attempts[attempt];
        let line = self.nodes[one.node].line(now_ns);
        let server_ns = now_ns.saturating_sub(one.reached_ns);
        one.answer = Some(Answer { failure, server_ns, line });
        let (number, node) = (one.number, one.node);
        self.note([7, number, node as u64], format_args!("{node} answers {number}"));
        let delay_ns = self.network_ns();
        self.agenda.after(delay_ns, Event::Answer { attempt });
    }

    pub(super) fn cancel_at_node(&mut self, attempt: usize, number: u64) {
        let Some(one) = self.attempts.get_mut(attempt).filter(|one| one.number == number) else {
            return;
        };
        one.cancelled = true;
        let at_node = &mut self.nodes[one.node];
        if at_node.admission.cancel(attempt as u64).is_some() {
            if let Some(job) = one.job.take() {
                at_node.meter.abandon(job);
            }
            self.reply(attempt, None);
        }
    }

    pub(super) fn probe(&mut self, coordinator: usize, node: usize, number: u64) {
        let now_ns = self.now_ns();
        // A stopped process does not answer probes, and nothing else says so.
        if !self.nodes[node].is_hung(now_ns) {
            let line = Box::new(self.nodes[node].line(now_ns));
            let delay_ns = self.network_ns();
            self.agenda.after(delay_ns, Event::Probed { coordinator, node, number, line });
        }
    }

    /// After a change at a node: what came while it was stopped is taken in, workers go on.
    pub(super) fn go_on(&mut self, node: usize) {
        let now_ns = self.now_ns();
        if !self.nodes[node].is_hung(now_ns) {
            let stalled = std::mem::take(&mut self.nodes[node].stalled);
            for attempt in stalled {
                match self.attempts.get(attempt).is_some_and(Attempt::is_cancelled) {
                    true => self.reply(attempt, None),
                    false => self.take_in(attempt),
                }
            }
            self.fill(node);
        }
        self.foresee(node);
    }
}

/// The attempt that admission knows by this arrival.
fn slot(arrival: &Arrival) -> usize {
    usize::try_from(arrival.id).unwrap_or(usize::MAX)
}
