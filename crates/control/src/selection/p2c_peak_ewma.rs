//! Power of two choices over Finagle's Peak EWMA (twitter/finagle, `p2c/P2CPick.scala`,
//! `PeakEwma.scala`).
//!
//! ```text
//! load = cost * (outstanding + 1)
//! cost := sample                                  where sample > cost
//!         cost * w + sample * (1 - w)             else, w = exp(-dt / 10 s)
//! reading the load decays the cost as if a sample of 0 had arrived
//! no history: load 0 while idle, a huge penalty + outstanding while something is out
//! ```
//!
//! As published, a request that fails records its own, often short, time: the weakness that
//! failure accrual beside it is meant to cover.

use super::book::{Book, Flight};
use super::by_node::ByNode;
use super::node_id::NodeId;
use super::request::{Candidate, Failure};
use super::rule_state::{Reply, RuleState, Scene};
use crate::average::fade;
use crate::random::Random;

const TAU_NS: u64 = 10_000_000_000;
/// Half the largest exponent of nothing in particular: larger than any real load.
const PENALTY: f64 = (u64::MAX >> 16) as f64;

#[derive(Clone, Copy, Debug)]
struct Peak {
    cost_ns: f64,
    at_ns: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct P2cPeakEwma {
    peaks: ByNode<Peak>,
}

impl P2cPeakEwma {
    fn sample(&mut self, now_ns: u64, node: NodeId, sample_ns: u64) {
        let peak = self.peaks.get_or(node, || Peak { cost_ns: 0.0, at_ns: now_ns });
        let sample = sample_ns as f64;
        let keep = fade(now_ns.saturating_sub(peak.at_ns), TAU_NS);
        let smoothed = peak.cost_ns * keep + sample * (1.0 - keep);
        peak.cost_ns = if sample > peak.cost_ns { sample } else { smoothed };
        peak.at_ns = now_ns;
    }
}

impl RuleState for P2cPeakEwma {
    fn pick(&mut self, scene: &Scene<'_>, random: &mut Random) -> usize {
        let count = scene.candidates.len();
        let first = random.below(count);
        // The second draw skips the first, so that the two differ where they can.
        let second = (first + 1 + random.below(count.saturating_sub(1))) % count;
        let load = |at: usize| self.cost(scene, scene.candidates[at]);
        if load(second) < load(first) { second } else { first }
    }

    fn cost(&self, scene: &Scene<'_>, candidate: Candidate) -> f64 {
        let outstanding = f64::from(scene.book.outstanding(candidate.node));
        match self.peaks.get(candidate.node) {
            Some(peak) => {
                let age_ns = scene.now_ns.saturating_sub(peak.at_ns);
                peak.cost_ns * fade(age_ns, TAU_NS) * (outstanding + 1.0)
            }
            None if outstanding == 0.0 => 0.0,
            None => PENALTY + outstanding,
        }
    }

    fn on_reply(&mut self, now_ns: u64, reply: &Reply<'_>, _book: &Book) {
        self.sample(now_ns, reply.flight.node, reply.response_ns);
    }

    fn on_failure(&mut self, now_ns: u64, flight: &Flight, _failure: &Failure, _book: &Book) {
        self.sample(now_ns, flight.node, now_ns.saturating_sub(flight.sent_ns));
    }

    fn forget(&mut self, node: NodeId) {
        self.peaks.remove(node);
    }
}
