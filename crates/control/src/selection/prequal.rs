//! Prequal (Wydrowski, Kleinberg, Rumble and Archer, NSDI 2024): probe asynchronously, keep a
//! small pool of answers, choose hot-cold lexicographically.
//!
//! ```text
//! threshold = Q-quantile of the estimated requests in flight, Q = 2^-0.25
//! hot       = in flight above the threshold
//! choose    = the cold probe of least latency, or, if all are hot, of least in flight
//! probes    3 a query, uniformly without replacement; pool of 16; at most 1 s old
//! reuse     max(1, (1 + d) / ((1 - m/n) * 3 - 1)) times, d = 1, fraction rounded by chance
//! removal   1 a query, by turns the oldest and the worst; a used probe counts one more in flight
//! ```
//!
//! With fewer than two probes among the candidates it falls back to a random one.

use std::collections::VecDeque;

use super::book::Book;
use super::node_id::NodeId;
use super::request::Candidate;
use super::rule_state::{Reply, RuleState, Scene};
use crate::load_line::LoadLine;
use crate::random::Random;

const POOL_MAX: usize = 16;
const PROBES_A_QUERY: usize = 3;
const AGE_MAX_NS: u64 = 1_000_000_000;
const DELTA: f64 = 1.0;
/// 2 to the power of -0.25.
const QUANTILE: f64 = 0.840_896_415_253_714_6;
/// How many recent answers estimate the distribution of requests in flight.
const RECENT_MAX: usize = 128;

#[derive(Clone, Copy, Debug)]
struct Probe {
    node: NodeId,
    in_flight: u32,
    latency_ns: u64,
    at_ns: u64,
    uses_left: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Prequal {
    pool: Vec<Probe>,
    recent: VecDeque<u32>,
    remove_worst: bool,
    /// Replicas to choose among, as last seen.
    replicas: usize,
    random: Random,
}

impl Prequal {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            pool: Vec::new(),
            recent: VecDeque::new(),
            remove_worst: false,
            replicas: 0,
            random: Random::new(seed),
        }
    }

    fn threshold(&self) -> u32 {
        let mut sorted: Vec<u32> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        let rank = crate::average::whole(QUANTILE * last as f64);
        sorted.get(usize::try_from(rank).unwrap_or(0)).copied().unwrap_or(0)
    }

    /// Lower is better: cold by latency, then hot by requests in flight.
    fn key(probe: &Probe, threshold: u32) -> (bool, u64) {
        match probe.in_flight > threshold {
            false => (false, probe.latency_ns),
            true => (true, u64::from(probe.in_flight)),
        }
    }

    fn uses(&mut self) -> u32 {
        let (m, n) = (POOL_MAX as f64, self.replicas.max(1) as f64);
        let net = (1.0 - m / n) * PROBES_A_QUERY as f64 - 1.0;
        // With no more replicas than the pool holds the formula has no finite answer.
        let budget = if net > 0.0 { ((1.0 + DELTA) / net).clamp(1.0, 100.0) } else { 100.0 };
        let up = f64::from(u8::from(self.random.unit() < budget.fract()));
        u32::try_from(crate::average::whole(budget.trunc() + up)).unwrap_or(1)
    }

    fn remove_one(&mut self, threshold: u32) {
        let oldest = (0..self.pool.len()).min_by_key(|at| self.pool[*at].at_ns);
        let worst = (0..self.pool.len()).max_by_key(|at| Self::key(&self.pool[*at], threshold));
        let victim = if self.remove_worst { worst } else { oldest };
        self.remove_worst = !self.remove_worst;
        if let Some(at) = victim {
            self.pool.swap_remove(at);
        }
    }
}

impl RuleState for Prequal {
    fn pick(&mut self, scene: &Scene<'_>, random: &mut Random) -> usize {
        self.pool.retain(|probe| scene.now_ns.saturating_sub(probe.at_ns) <= AGE_MAX_NS);
        let threshold = self.threshold();
        let place = |node: NodeId| scene.candidates.iter().position(|c| c.node == node);
        let mut usable: Vec<(usize, usize)> =
            (0..self.pool.len()).filter_map(|at| Some((at, place(self.pool[at].node)?))).collect();
        if usable.len() < scene.candidates.len().min(2) {
            return random.below(scene.candidates.len());
        }
        usable.sort_by_key(|(at, _)| Self::key(&self.pool[*at], threshold));
        let (at, picked) = usable[0];
        let probe = &mut self.pool[at];
        probe.in_flight += 1;
        probe.uses_left -= 1;
        if probe.uses_left == 0 {
            self.pool.swap_remove(at);
        }
        // Probes of a pool that the copies fit into are renewed, not used up.
        if self.pool.len() > scene.candidates.len().min(POOL_MAX / 2) {
            self.remove_one(threshold);
        }
        picked
    }

    fn cost(&self, _scene: &Scene<'_>, candidate: Candidate) -> f64 {
        let threshold = self.threshold();
        match self.pool.iter().find(|probe| probe.node == candidate.node) {
            None => f64::MAX,
            Some(probe) => {
                let (hot, key) = Self::key(probe, threshold);
                // Every hot probe comes after every cold one.
                key as f64 + if hot { 1e30 } else { 0.0 }
            }
        }
    }

    fn on_reply(&mut self, _now_ns: u64, _reply: &Reply<'_>, _book: &Book) {}

    fn on_probe(&mut self, now_ns: u64, node: NodeId, line: &LoadLine, _book: &Book) {
        // One probe of each replica, or the quantile would count a busy one several times.
        self.pool.retain(|probe| probe.node != node);
        let uses_left = self.uses();
        let (in_flight, latency_ns) = (line.in_flight, line.latency_ns);
        if self.pool.len() == POOL_MAX {
            self.remove_one(self.threshold());
        }
        self.pool.push(Probe { node, in_flight, latency_ns, at_ns: now_ns, uses_left });
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(in_flight);
    }

    fn on_probe_lost(&mut self, _now_ns: u64, node: NodeId) {
        self.pool.retain(|probe| probe.node != node);
    }

    fn probes(&mut self, scene: &Scene<'_>, random: &mut Random, out: &mut Vec<NodeId>) {
        self.replicas = scene.candidates.len();
        let (from, wanted) = (out.len(), PROBES_A_QUERY.min(scene.candidates.len()));
        // Enough draws to find that many different ones, nearly always.
        for _ in 0..8 * PROBES_A_QUERY {
            if out.len() - from == wanted {
                break;
            }
            let node = scene.candidates[random.below(scene.candidates.len())].node;
            if !out[from..].contains(&node) {
                out.push(node);
            }
        }
    }

    fn forget(&mut self, node: NodeId) {
        self.pool.retain(|probe| probe.node != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(in_flight: u32, latency_ns: u64) -> Probe {
        Probe { node: NodeId(0), in_flight, latency_ns, at_ns: 0, uses_left: 1 }
    }

    #[test]
    fn cold_by_latency_then_hot_by_requests_in_flight() {
        let mut probes = [probe(9, 1), probe(2, 50), probe(8, 2), probe(1, 70)];
        probes.sort_by_key(|probe| Prequal::key(probe, 5));
        let order: Vec<_> = probes.iter().map(|probe| probe.in_flight).collect();
        assert_eq!(order, [2, 1, 8, 9]);
    }

    #[test]
    fn reuse_follows_the_formula() {
        let mut prequal = Prequal { replicas: 100, ..Prequal::new(1) };
        // (1 + 1) / ((1 - 0.16) * 3 - 1) = 1.3158
        let mean = (0..10_000).map(|_| f64::from(prequal.uses())).sum::<f64>() / 10_000.0;
        assert!((mean - 1.3158).abs() < 0.02, "{mean}");
    }
}
