//! C3 (Suresh, Canini, Schmid and Feldmann, NSDI 2015) in the form in which Elasticsearch ships
//! it: the score without the paper's rate control.
//!
//! ```text
//! rank  = R - S + q^b * S          corrected (7.13 on), times in ms
//! rank  = R - 1/S + q^b / S        as first shipped (6.1 to 7.12, Elasticsearch 65838): slower
//!                                  looks better
//! q     = 1 + outstanding * n + int(Q)
//! n     = number of nodes with statistics (the paper: number of clients)
//! R, Q  = averages of response time and of the node's queue length, 0.3 on the new sample
//! S     = the node's own average of task time, overwritten by each reply
//! ```
//!
//! Nodes without statistics come before all others; ties keep the order of a rotation. After
//! each ranking every known loser takes a made-up sample half way between its own values and the
//! winner's (also of S, which the first form replaced outright): forgetting by decision, not by
//! time. Failures leave no sample.

use super::book::Book;
use super::by_node::ByNode;
use super::node_id::NodeId;
use super::request::Candidate;
use super::rule_state::{Reply, RuleState, Scene};
use crate::random::Random;

/// Weight of a new sample.
const ALPHA: f64 = 0.3;
const MS: f64 = 1e6;

/// Which generation of the formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum C3Form {
    /// As corrected in 7.13.
    Corrected,
    /// As shipped from 6.1 to 7.12, with the service time where its inverse belongs.
    FirstShipped,
    /// As first proposed and measured, with `b` = 4: like the first shipped, but the count of
    /// outstanding requests asked for an action that only clients send, and was the same for all
    /// nodes (review of Elasticsearch 26128, 2017-08-11).
    Proposed,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    response_ms: f64,
    service_ms: f64,
    queue: f64,
}

#[derive(Clone, Debug)]
pub(super) struct C3 {
    b: u32,
    form: C3Form,
    seen: ByNode<Seen>,
    /// How many nodes have statistics.
    n: usize,
}

impl C3 {
    pub(super) fn new(b: u32, form: C3Form) -> Self {
        Self { b, form, seen: ByNode::default(), n: 0 }
    }

    fn rank_of(&self, seen: &Seen, outstanding: u32) -> f64 {
        let outstanding = if self.form == C3Form::Proposed { 1 } else { outstanding };
        let q = 1.0 + f64::from(outstanding) * self.n as f64 + seen.queue.trunc();
        let exponent = i32::try_from(self.b).unwrap_or(3);
        let (r, s) = (seen.response_ms, seen.service_ms.max(1e-6));
        match self.form {
            C3Form::Corrected => r - s + q.powi(exponent) * s,
            C3Form::FirstShipped | C3Form::Proposed => r - 1.0 / s + q.powi(exponent) / s,
        }
    }

    fn adjust_losers(&mut self, candidates: &[Candidate], winner: usize) {
        let Some(won) = self.seen.get(candidates[winner].node).copied() else { return };
        let form = self.form;
        for (at, candidate) in candidates.iter().enumerate() {
            if at == winner {
                continue;
            }
            let Some(lost) = self.seen.get_mut(candidate.node) else { continue };
            let half = |mine: f64, theirs: f64| f64::midpoint(mine, theirs);
            let service_ms = half(lost.service_ms, won.service_ms);
            lost.response_ms = fold(lost.response_ms, half(lost.response_ms, won.response_ms));
            lost.queue = fold(lost.queue, half(lost.queue, won.queue));
            lost.service_ms = match form {
                C3Form::Corrected => fold(lost.service_ms, service_ms),
                C3Form::FirstShipped | C3Form::Proposed => service_ms,
            };
        }
    }
}

fn fold(average: f64, sample: f64) -> f64 {
    average + ALPHA * (sample - average)
}

impl RuleState for C3 {
    fn pick(&mut self, scene: &Scene<'_>, random: &mut Random) -> usize {
        let count = scene.candidates.len();
        let start = random.below(count);
        let mut best = (start, f64::INFINITY);
        for at in (0..count).map(|at| (at + start) % count) {
            let cost = self.cost(scene, scene.candidates[at]);
            if cost < best.1 {
                best = (at, cost);
            }
        }
        self.adjust_losers(scene.candidates, best.0);
        best.0
    }

    fn cost(&self, scene: &Scene<'_>, candidate: Candidate) -> f64 {
        let outstanding = scene.book.outstanding(candidate.node);
        match self.seen.get(candidate.node) {
            Some(seen) => self.rank_of(seen, outstanding),
            None => f64::NEG_INFINITY,
        }
    }

    fn on_reply(&mut self, _now_ns: u64, reply: &Reply<'_>, _book: &Book) {
        let Some(line) = reply.line else { return };
        let response_ms = reply.response_ns as f64 / MS;
        let queue = f64::from(line.queued);
        let service_ms = line.run_ns[reply.flight.class.slot()] as f64 / MS;
        match self.seen.get_mut(reply.flight.node) {
            Some(seen) => {
                seen.response_ms = fold(seen.response_ms, response_ms);
                seen.queue = fold(seen.queue, queue);
                seen.service_ms = service_ms;
            }
            None => {
                self.seen.get_or(reply.flight.node, || Seen { response_ms, service_ms, queue });
                self.n = self.seen.len();
            }
        }
    }

    fn forget(&mut self, node: NodeId) {
        self.seen.remove(node);
        self.n = self.seen.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outstanding_request_drowns_the_service_time() {
        let mut c3 = C3::new(3, C3Form::Corrected);
        c3.n = 10;
        let seen = |ms: f64| Seen { response_ms: ms, service_ms: ms, queue: 0.99 };
        // An idle node of 500 ms beats one of 5 ms with one request out: 500 against 6,655.
        assert_eq!(c3.rank_of(&seen(500.0), 0), 500.0);
        assert_eq!(c3.rank_of(&seen(5.0), 1), 6655.0);
    }

    #[test]
    fn the_first_form_prefers_the_slower_of_two_queues() {
        let mut c3 = C3::new(3, C3Form::FirstShipped);
        c3.n = 1;
        let seen = |ms: f64| Seen { response_ms: ms, service_ms: ms, queue: 5.0 };
        assert!(c3.rank_of(&seen(50.0), 1) < c3.rank_of(&seen(5.0), 1));
        let corrected = C3 { form: C3Form::Corrected, ..c3 };
        assert!(corrected.rank_of(&seen(50.0), 1) > corrected.rank_of(&seen(5.0), 1));
    }

    #[test]
    fn a_losers_excess_shrinks_by_fifteen_percent_a_decision() {
        let mut c3 = C3::new(3, C3Form::Corrected);
        let of = |ms: f64| Seen { response_ms: ms, service_ms: ms, queue: 0.0 };
        c3.seen.get_or(NodeId(0), || of(10.0));
        c3.seen.get_or(NodeId(1), || of(110.0));
        c3.adjust_losers(&[Candidate::near(NodeId(0)), Candidate::near(NodeId(1))], 0);
        let lost = c3.seen.get(NodeId(1)).map(|seen| seen.response_ms);
        assert!(lost.is_some_and(|ms| (ms - 95.0).abs() < 1e-9), "{lost:?}");
    }

    #[test]
    fn the_proposed_form_does_not_see_what_is_outstanding() {
        let mut c3 = C3::new(4, C3Form::Proposed);
        c3.n = 5;
        let seen = Seen { response_ms: 50.0, service_ms: 50.0, queue: 3.0 };
        assert_eq!(c3.rank_of(&seen, 0), c3.rank_of(&seen, 100));
        let shipped = C3 { form: C3Form::FirstShipped, ..c3 };
        assert!(shipped.rank_of(&seen, 0) < shipped.rank_of(&seen, 100));
    }
}
