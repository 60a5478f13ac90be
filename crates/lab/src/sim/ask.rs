//! The coordinators' side of a request: choose a copy for each part, send, take answers, try
//! another copy, hedge, give up. Every decision is the control crate's; this file only carries
//! it out.

use plimsoll_control::Class;
use plimsoll_control::LoadLine;
use plimsoll_control::selection::{Ask, Failure, FailureKind, Rule};

use super::event::Event;
use super::measure::Ending;
use super::request::Attempt;
use super::run::{Run, node_id};
use super::spec::SECOND_NS;

/// The time given to a request without a deadline, where a failure has to be put into time.
const NO_DEADLINE_NS: u64 = 30 * SECOND_NS;
/// A probe that has no answer by then is lost.
const PROBE_WAIT_NS: u64 = SECOND_NS;

impl Run<'_> {
    fn class(&self, request: usize) -> Class {
        if self.requests[request].fetching { Class::Fetch } else { self.spec.operation.class }
    }

    /// Asks a copy for a part, one that has not been asked for it; false where none is left.
    pub(super) fn ask(&mut self, request: usize, part: usize) -> bool {
        let now_ns = self.now_ns();
        let ask = self.question(request, part);
        let coordinator = self.requests[request].coordinator;
        let Some(place) = self.choose(request, part, ask) else { return false };
        let candidates = &self.candidates[self.requests[request].parts[part].partition];
        let node = candidates[place].node;
        let one = &mut self.coordinators[coordinator];
        let mut wanted = Vec::new();
        one.selector.probes(now_ns, ask, candidates, &mut wanted);
        for node in wanted {
            let number = self.next_number();
            let node = usize::try_from(node.0).unwrap_or(0);
            self.coordinators[coordinator].probes.push(number);
            let delay_ns = self.network_ns();
            self.agenda.after(delay_ns, Event::Probe { coordinator, node, number });
            self.agenda.after(PROBE_WAIT_NS, Event::Unprobed { coordinator, node, number });
        }
        self.send(request, part, place, usize::try_from(node.0).unwrap_or(0), false);
        true
    }

    fn question(&self, request: usize, part: usize) -> Ask {
        let partition = self.requests[request].parts[part].partition as u64;
        Ask { class: self.class(request), partition }
    }

    /// The place of the copy to ask next.
    fn choose(&mut self, request: usize, part: usize, ask: Ask) -> Option<usize> {
        let now_ns = self.agenda.now_ns();
        let one = &self.requests[request];
        let candidates = &self.candidates[one.parts[part].partition];
        let tried = &one.parts[part].tried;
        let selector = &mut self.coordinators[one.coordinator].selector;
        let Some(first) = tried.first() else { return selector.pick(now_ns, ask, candidates) };
        if tried.len() >= candidates.len() {
            return None;
        }
        if selector.rule() == Rule::RoundRobin {
            // Rotation fixes the order of the copies once, and goes on round the ring.
            return Some((first + tried.len()) % candidates.len());
        }
        let left: Vec<usize> = (0..candidates.len()).filter(|at| !tried.contains(at)).collect();
        let others: Vec<_> = left.iter().map(|at| candidates[*at]).collect();
        selector.pick(now_ns, ask, &others).and_then(|at| left.get(at).copied())
    }

    fn send(&mut self, request: usize, part: usize, place: usize, node: usize, hedge: bool) {
        let now_ns = self.now_ns();
        let ask = self.question(request, part);
        let one = &mut self.requests[request];
        let coordinator = &mut self.coordinators[one.coordinator];
        let flight = coordinator.selector.on_send(now_ns, ask, node_id(node));
        let late_ns = match coordinator.hedger.as_mut().filter(|_| !hedge) {
            Some(hedger) => hedger.on_send(ask.class),
            None => None,
        };
        let number = self.next_number();
        let attempt = self.attempts.insert(Attempt {
            number,
            request,
            part,
            node,
            class: ask.class,
            flight: Some(flight),
            cancelled: false,
            reached_ns: 0,
            started_ns: 0,
            job: None,
            started: None,
            answer: None,
        });
        let one = &mut self.requests[request];
        one.attempts += 1;
        one.parts[part].tried.push(place);
        one.parts[part].under_way.push(attempt);
        self.measure.send(now_ns, node, hedge);
        self.note([4, number, node as u64], format_args!("send {number} to {node}"));
        if let Some(late_ns) = late_ns {
            self.agenda.after(late_ns, Event::Late { attempt, number });
        }
        let delay_ns = self.network_ns();
        self.agenda.after(delay_ns, Event::Reach { attempt });
    }

    /// A node's answer has come.
    pub(super) fn answer(&mut self, attempt: usize) {
        let now_ns = self.now_ns();
        let Some(mut one) = self.attempts.remove(attempt) else { return };
        let (request, part) = (one.request, one.part);
        self.requests[request].attempts -= 1;
        self.requests[request].parts[part].under_way.retain(|other| *other != attempt);
        let answer = one.answer.take();
        // Where the coordinator no longer waits, the answer is nobody's.
        if let (Some(flight), Some(answer)) = (one.flight.take(), answer) {
            let coordinator = &mut self.coordinators[self.requests[request].coordinator];
            let took_ns = now_ns.saturating_sub(flight.sent_ns);
            match answer.failure {
                None => {
                    let (server_ns, line) = (Some(answer.server_ns), Some(&answer.line));
                    coordinator.selector.on_reply(now_ns, flight, server_ns, line);
                    if let Some(hedger) = coordinator.hedger.as_mut() {
                        hedger.on_reply(now_ns, one.class, took_ns);
                    }
                    self.part_done(request, part, one.node);
                }
                Some(kind) => {
                    let deadline_ns = self.spec.operation.deadline_ns.unwrap_or(NO_DEADLINE_NS);
                    let failure = Failure { kind, deadline_ns, line: Some(answer.line) };
                    coordinator.selector.on_failure(now_ns, flight, &failure);
                    self.part_failed(request, part, kind);
                }
            }
        }
        self.forget_request(request);
    }

    fn part_done(&mut self, request: usize, part: usize, node: usize) {
        let one = &mut self.requests[request];
        if one.over || one.parts[part].done {
            return;
        }
        one.parts[part].done = true;
        one.parts[part].served_by = node;
        one.parts_left -= 1;
        self.give_up(request, part);
        self.next_round(request);
    }

    /// Begins the second round, or ends the request.
    fn next_round(&mut self, request: usize) {
        let one = &mut self.requests[request];
        if one.parts_left > 0 {
            return;
        }
        let Some(fetch_ns) = self.spec.operation.fetch_ns.filter(|_| !one.fetching) else {
            self.end_request(request, Ending::Answered);
            return;
        };
        one.fetching = true;
        one.parts_left = one.parts.len();
        let ratio = fetch_ns / self.spec.operation.work_ns;
        for part in 0..one.parts.len() {
            let part_state = &mut self.requests[request].parts[part];
            part_state.done = false;
            part_state.tried.clear();
            part_state.work_ns *= ratio;
            // The documents are fetched where the query ran.
            let (node, partition) = (part_state.served_by, part_state.partition);
            let candidates = &self.candidates[partition];
            let place = candidates.iter().position(|c| c.node == node_id(node)).unwrap_or(0);
            self.send(request, part, place, node, false);
        }
    }

    fn part_failed(&mut self, request: usize, part: usize, kind: FailureKind) {
        let one = &self.requests[request];
        if one.over || one.parts[part].done || !one.parts[part].under_way.is_empty() {
            return;
        }
        if one.fetching {
            // What was found there can be fetched only there: that part of the answer is missing.
            self.requests[request].missing = true;
            let node = self.requests[request].parts[part].served_by;
            self.part_done(request, part, node);
        } else if !self.ask(request, part) {
            let ending = match kind {
                FailureKind::Refused => Ending::Refused,
                _ => Ending::Failed,
            };
            for other in 0..self.requests[request].parts.len() {
                self.give_up(request, other);
            }
            self.end_request(request, ending);
        }
    }

    /// Tells the book and the nodes that a part's attempts are no longer waited for.
    fn give_up(&mut self, request: usize, part: usize) {
        let now_ns = self.now_ns();
        let coordinator = self.requests[request].coordinator;
        for attempt in self.requests[request].parts[part].under_way.clone() {
            let one = &mut self.attempts[attempt];
            let (number, class) = (one.number, one.class);
            let Some(flight) = one.flight.take() else { continue };
            let age_ns = now_ns.saturating_sub(flight.sent_ns);
            self.coordinators[coordinator].selector.on_cancel(now_ns, flight);
            if let Some(hedger) = self.coordinators[coordinator].hedger.as_mut() {
                hedger.on_reply(now_ns, class, age_ns);
            }
            let delay_ns = self.network_ns();
            self.agenda.after(delay_ns, Event::Cancel { attempt, number });
        }
    }

    pub(super) fn deadline(&mut self, request: usize, number: u64) {
        let now_ns = self.now_ns();
        let waits = |one: &super::request::Request| one.number == number && !one.over;
        if !self.requests.get(request).is_some_and(waits) {
            return;
        }
        let deadline_ns = self.spec.operation.deadline_ns.unwrap_or(NO_DEADLINE_NS);
        let failure = Failure { kind: FailureKind::Timeout, deadline_ns, line: None };
        let coordinator = self.requests[request].coordinator;
        for part in 0..self.requests[request].parts.len() {
            for attempt in self.requests[request].parts[part].under_way.clone() {
                if let Some(flight) = self.attempts[attempt].flight.take() {
                    self.coordinators[coordinator].selector.on_failure(now_ns, flight, &failure);
                    // The call is dropped, and its handler with it.
                    let number = self.attempts[attempt].number;
                    let delay_ns = self.network_ns();
                    self.agenda.after(delay_ns, Event::Cancel { attempt, number });
                }
            }
        }
        self.end_request(request, Ending::Failed);
    }

    /// An attempt is late: perhaps another copy is asked as well.
    pub(super) fn late(&mut self, attempt: usize, number: u64) {
        let now_ns = self.now_ns();
        let waits = |one: &Attempt| one.number == number && one.flight.is_some();
        let Some(one) = self.attempts.get(attempt).filter(|one| waits(one)) else { return };
        let (request, part, class) = (one.request, one.part, one.class);
        let age_ns = now_ns.saturating_sub(one.flight.map_or(now_ns, |flight| flight.sent_ns));
        let ask = self.question(request, part);
        let of = &self.requests[request];
        if of.fetching || of.parts[part].under_way.len() > 1 {
            return;
        }
        let candidates = &self.candidates[of.parts[part].partition];
        let coordinator = &mut self.coordinators[of.coordinator];
        let cost = |at: usize| coordinator.selector.cost(now_ns, ask, candidates[at]).max(0.0);
        let others = (0..candidates.len()).filter(|at| !of.parts[part].tried.contains(at));
        let best = others.map(|at| (cost(at), at)).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((cost_ns, place)) = best else { return };
        let node = usize::try_from(candidates[place].node.0).unwrap_or(0);
        let cost_ns = plimsoll_control::average::whole(cost_ns);
        let goes = coordinator.hedger.as_mut().is_some_and(|h| h.hedge(class, age_ns, cost_ns));
        if goes {
            self.send(request, part, place, node, true);
        }
    }

    /// A node's load line has come, or is known not to come.
    pub(super) fn probed(
        &mut self,
        coordinator: usize,
        node: usize,
        number: u64,
        line: Option<&LoadLine>,
    ) {
        let now_ns = self.now_ns();
        let one = &mut self.coordinators[coordinator];
        let Some(at) = one.probes.iter().position(|open| *open == number) else { return };
        one.probes.swap_remove(at);
        match line {
            Some(line) => one.selector.on_probe(now_ns, node_id(node), line),
            None => one.selector.on_probe_lost(now_ns, node_id(node)),
        }
    }
}
