//! Our rule: the least time that a request takes from its sender and from those behind it.
//!
//! ```text
//! cost      = run * (pressure + 2 * crowd) + 2 * wait + network + failing * deadline,
//!             at least `unanswered`,  + zone penalty
//! crowd     = excess(running + competitors - cpus) / cpus
//! wait      = run * (1 + crowd) / workers * excess(in flight + 1 - workers),
//!             at least half the fresh part of the oldest
//! excess(x) = (x + sqrt(x^2 + v)) / 2,  v = 1 + workers / 2; for the crowd v = workers - cpus,
//!             from 0 to 1 + cpus / 2
//! in flight = own now + f * others then + (1 - f) * their average + (own now - own then) * peers
//!             f = exp(-age of the report / drain time), peers = average others / average own
//! ```
//!
//! `wait` counts twice because a request that joins a queue also delays what comes after it;
//! counted once, all crowd the fast nodes until these are as slow as the slow ones. A processor
//! that is shared is a queue that does not show, hence `crowd`: the node reports how many threads
//! want its processors, its own requests and everything else on the machine, and `run` is its run
//! time less the stretching that it reported with it. `run`, the work that waits and the total in
//! flight are measured by the node. `excess` is max(0, x) with its corner
//! rounded, because the number in flight is never known exactly: among nodes with free workers
//! the less busy one wins a little. Against herds, a report fades to the node's own average, and
//! what this coordinator sent since the report stands for what the others sent too, in the
//! proportion in which they usually do (C3's concurrency compensation, measured). `unanswered` is the age of the oldest own request that the node owes, and it
//! outranks any report; so a stopped node, which cannot speak about itself, leaves the ranking
//! within one response time.
//!
//! Around the score: the first tenth by which a node's run time differs from its peers' is taken
//! for chance; near-equals are chosen at random; a sick node is left out and tried again
//! after a wait that doubles ([`Health`]); one that was slow is tried with at most one request in
//! two hundred; a new or restarted one is entered by turn and then by rank, never above 1.8 fair
//! shares and, while its caches fill and it gets faster by that, not below a fifth of one. Where candidates are many, sixteen stand for all: those heard from last, and random
//! ones.

mod node;
mod score;

use std::collections::VecDeque;

use node::{Node, SPAN_NS};

use super::book::{Book, Flight};
use super::by_node::ByNode;
use super::estimate::{cost_ns, stretch};
use super::health::OUTCOMES_NS;
use super::node_id::NodeId;
use super::request::{Candidate, Failure, FailureKind};
use super::rule_state::{Reply, RuleState, Scene};
use crate::average::{FadingHistogram, FadingMean, whole};
use crate::load_line::{Class, LoadLine};
use crate::random::Random;

/// A node unheard of for this long is as good as new.
const FORGET_NS: u64 = 60_000_000_000;
/// Costs within this factor of the best are near-equals.
const NEAR: f64 = 1.05;
/// Candidates looked at in one choice, half of them those heard from last.
const LOOK_MAX: usize = 16;
/// Trials earned by one choice, and the most that can be saved.
const TRIALS_A_PICK: f64 = 0.005;
const TRIALS_MAX: f64 = 2.0;
/// How often the tail of each class is computed anew.
const TAIL_EVERY_NS: u64 = 50_000_000;
const TAIL_HALF_LIFE_NS: u64 = 5_000_000_000;
/// A few candidates are probed when their report is older than this, and than so many runs of the
/// class: a queue changes no faster, and a probe costs both sides about as much as a short read.
const PROBE_AFTER_NS: u64 = 10_000_000;
const PROBE_AFTER_RUNS: f64 = 2.0;

#[derive(Clone, Debug)]
pub(super) struct LoadAware {
    nodes: ByNode<Node>,
    /// The nodes heard from last, the latest at the back.
    lately: VecDeque<NodeId>,
    /// Run times of all nodes, for one that has not reported its own.
    class_run: [FadingMean; Class::COUNT],
    /// Outcomes of all nodes: 1 for a refusal.
    refusals: FadingMean,
    responses: Vec<FadingHistogram>,
    tail_ns: [u64; Class::COUNT],
    tail_at_ns: u64,
    trials: f64,
    look: Vec<usize>,
    /// Whether any of those looked at has earned its full share. Where none has, there is nothing
    /// to measure the young against, and all are ranked alike.
    any_grown: bool,
}

impl Default for LoadAware {
    fn default() -> Self {
        Self {
            nodes: ByNode::default(),
            lately: VecDeque::new(),
            class_run: [FadingMean::new(SPAN_NS); Class::COUNT],
            refusals: FadingMean::new(OUTCOMES_NS),
            responses: vec![FadingHistogram::new(TAIL_HALF_LIFE_NS); Class::COUNT],
            tail_ns: [0; Class::COUNT],
            tail_at_ns: 0,
            trials: 1.0,
            look: Vec::new(),
            any_grown: false,
        }
    }
}

impl LoadAware {
    /// Fills `look` with the indices to decide among.
    fn look_at(&mut self, scene: &Scene<'_>, random: &mut Random) {
        let count = scene.candidates.len();
        self.look.clear();
        if count <= LOOK_MAX {
            self.look.extend(0..count);
            return;
        }
        for node in self.lately.iter().rev().take(LOOK_MAX / 2) {
            // Candidates usually come in order; where they do not, a node may be missed, and a
            // random one takes its place.
            let found = scene.candidates.binary_search_by_key(node, |c| c.node);
            self.look.extend(found.ok());
        }
        for _ in 0..2 * LOOK_MAX {
            let at = random.below(count);
            if self.look.len() < LOOK_MAX && !self.look.contains(&at) {
                self.look.push(at);
            }
        }
    }

    /// A node that is worth a trial now, if the budget has one.
    fn trial(&mut self, scene: &Scene<'_>) -> Option<usize> {
        self.trials = (self.trials + TRIALS_A_PICK).min(TRIALS_MAX);
        if self.trials < 1.0 || self.look.len() < 2 {
            return None;
        }
        let due = |at: &usize| {
            let id = scene.candidates[*at].node;
            let out = scene.book.outstanding(id);
            self.nodes.get(id).is_some_and(|node| node.health.trial_due(scene.now_ns, out))
        };
        let at = self.look.iter().copied().find(due)?;
        self.trials -= 1.0;
        if let Some(node) = self.nodes.get_mut(scene.candidates[at].node) {
            node.health.on_trial();
        }
        Some(at)
    }

    /// Gives the young among the looked-at their share of this choice; returns one whose turn it
    /// is whatever it costs: an infant, or one that warms up.
    fn enter_young(&mut self, scene: &Scene<'_>) -> Option<usize> {
        let count = self.look.len();
        let mut turn = None;
        self.any_grown = false;
        for at in &self.look {
            let id = scene.candidates[*at].node;
            let node = self.nodes.get_or(id, || Node::new(scene.now_ns));
            if scene.now_ns.saturating_sub(node.last_heard_ns) > FORGET_NS
                && scene.book.outstanding(id) == 0
            {
                *node = Node::new(scene.now_ns);
            }
            let health = &mut node.health;
            self.any_grown |= !health.is_young();
            health.grant(count);
            let may = health.may_be_chosen(scene.book.outstanding(id)) && !health.is_sick();
            if may && (health.is_infant() || health.take_owed(scene.now_ns)) {
                turn = Some(*at);
            }
        }
        turn.filter(|_| self.any_grown)
    }

    fn is_eligible(&self, scene: &Scene<'_>, at: usize) -> bool {
        let id = scene.candidates[at].node;
        self.nodes.get(id).is_none_or(|node| {
            let health = &node.health;
            let earned = !health.is_infant() && health.may_be_chosen(scene.book.outstanding(id));
            !health.is_sick() && (earned || !self.any_grown)
        })
    }

    fn is_sick(&self, scene: &Scene<'_>, at: usize) -> bool {
        let node = self.nodes.get(scene.candidates[at].node);
        node.is_some_and(|node| node.health.is_sick())
    }

    /// The cheapest of `among`, near-equals by chance.
    fn cheapest(&self, scene: &Scene<'_>, among: &[usize], random: &mut Random) -> Option<usize> {
        let cost = |at: usize| cost_ns(&self.estimate(scene, scene.candidates[at]));
        let costs: Vec<(usize, f64)> = among.iter().map(|at| (*at, cost(*at))).collect();
        let best = costs.iter().map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
        let near: Vec<usize> =
            costs.iter().filter(|(_, cost)| *cost <= best * NEAR).map(|(at, _)| *at).collect();
        near.get(random.below(near.len())).copied()
    }

    fn refresh_tails(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.tail_at_ns) >= TAIL_EVERY_NS {
            self.tail_at_ns = now_ns;
            for (tail_ns, responses) in self.tail_ns.iter_mut().zip(&self.responses) {
                *tail_ns = responses.quantile(0.99).unwrap_or(0);
            }
        }
    }

    fn hear(&mut self, now_ns: u64, id: NodeId, line: &LoadLine, own: u32) {
        let node = self.nodes.get_or(id, || Node::new(now_ns));
        node.hear(now_ns, line, own);
        node.last_heard_ns = now_ns;
        if self.lately.back() != Some(&id) {
            self.lately.retain(|known| *known != id);
            self.lately.push_back(id);
            if self.lately.len() > LOOK_MAX {
                self.lately.pop_front();
            }
        }
    }
}

impl RuleState for LoadAware {
    fn pick(&mut self, scene: &Scene<'_>, random: &mut Random) -> usize {
        self.refresh_tails(scene.now_ns);
        self.look_at(scene, random);
        let turn = self.enter_young(scene);
        if let Some(at) = turn.or_else(|| self.trial(scene)) {
            if let Some(node) = self.nodes.get_mut(scene.candidates[at].node) {
                node.health.spend();
            }
            return at;
        }
        let look = std::mem::take(&mut self.look);
        let mut among: Vec<usize> =
            look.iter().copied().filter(|at| self.is_eligible(scene, *at)).collect();
        if among.is_empty() {
            among = look.iter().copied().filter(|at| !self.is_sick(scene, *at)).collect();
        }
        let best = self.cheapest(scene, if among.is_empty() { &look } else { &among }, random);
        self.look = look;
        let at = best.unwrap_or(0);
        if let Some(node) = self.nodes.get_mut(scene.candidates[at].node) {
            node.health.spend();
        }
        at
    }

    fn cost(&self, scene: &Scene<'_>, candidate: Candidate) -> f64 {
        let expected = cost_ns(&self.estimate(scene, candidate));
        let sick = self.nodes.get(candidate.node).is_some_and(|node| node.health.is_sick());
        // After all that are not, by a day.
        expected + if sick { 8.64e13 } else { 0.0 }
    }

    fn on_send(&mut self, now_ns: u64, flight: &Flight) {
        self.nodes.get_or(flight.node, || Node::new(now_ns)).health.on_send(now_ns);
    }

    fn on_reply(&mut self, now_ns: u64, reply: &Reply<'_>, book: &Book) {
        let (id, slot) = (reply.flight.node, reply.flight.class.slot());
        let own = book.outstanding(id);
        if let Some(line) = reply.line {
            self.hear(now_ns, id, line, own);
            if line.run_ns[slot] > 0 {
                if let Some(node) = self.nodes.get_mut(id) {
                    let run_ns = line.run_ns[slot] as f64 / stretch(line);
                    node.health.on_run(now_ns, reply.flight.class, run_ns, line.runs);
                }
                self.class_run[slot].add(now_ns, line.run_ns[slot] as f64 / stretch(line));
            }
        }
        self.responses[slot].add(now_ns, reply.response_ns);
        self.refusals.add(now_ns, 0.0);
        let usual = self.class_run[slot].mean().unwrap_or(f64::INFINITY);
        let node = self.nodes.get_or(id, || Node::new(now_ns));
        node.last_heard_ns = now_ns;
        node.response.add(now_ns, reply.response_ns as f64);
        if let Some(server_ns) = reply.server_ns {
            node.network.add(now_ns, reply.response_ns.saturating_sub(server_ns) as f64);
        }
        let slow = reply.response_ns as f64 > 2.0 * usual;
        node.health.on_answer(now_ns, own, slow);
    }

    fn on_failure(&mut self, now_ns: u64, flight: &Flight, failure: &Failure, book: &Book) {
        let out = book.outstanding(flight.node);
        if let Some(line) = &failure.line {
            self.hear(now_ns, flight.node, line, out);
        }
        let refused = failure.kind == FailureKind::Refused;
        self.refusals.add(now_ns, if refused { 1.0 } else { 0.0 });
        let node = self.nodes.get_or(flight.node, || Node::new(now_ns));
        let took_ns = now_ns.saturating_sub(flight.sent_ns).max(failure.deadline_ns);
        node.health.deadline_ns = took_ns;
        node.response.add(now_ns, took_ns as f64);
        node.health.on_failure(now_ns, flight.sent_ns, failure.kind, out);
    }

    fn on_cancel(&mut self, now_ns: u64, flight: &Flight, book: &Book) {
        let out = book.outstanding(flight.node);
        let waited_ns = now_ns.saturating_sub(flight.sent_ns);
        if let Some(node) = self.nodes.get_mut(flight.node) {
            // It would have taken longer, so the average may only rise by this.
            if node.response.mean().is_none_or(|mean| waited_ns as f64 > mean) {
                node.response.add(now_ns, waited_ns as f64);
            }
            node.health.on_cancel(now_ns, flight.sent_ns, out);
        }
    }

    fn on_probe(&mut self, now_ns: u64, id: NodeId, line: &LoadLine, book: &Book) {
        self.hear(now_ns, id, line, book.outstanding(id));
        if let Some(node) = self.nodes.get_mut(id) {
            node.probing = false;
            node.health.on_probe(now_ns, true);
        }
    }

    fn on_probe_lost(&mut self, now_ns: u64, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(id) {
            node.probing = false;
            node.health.on_probe(now_ns, false);
        }
    }

    fn probes(&mut self, scene: &Scene<'_>, random: &mut Random, out: &mut Vec<NodeId>) {
        // Among few, the one with the oldest report; among many, two at random.
        let count = scene.candidates.len();
        let tries = if count <= LOOK_MAX { 1 } else { 2 };
        let run_ns = self.class_run[scene.ask.class.slot()].mean().unwrap_or(0.0);
        let after_ns = PROBE_AFTER_NS.max(whole(run_ns * PROBE_AFTER_RUNS));
        for _ in 0..tries {
            let age = |at: usize| {
                let node = self.nodes.get(scene.candidates[at].node)?;
                let heard_ns = node.heard.map_or(0, |heard| heard.at_ns);
                (!node.probing).then(|| scene.now_ns.saturating_sub(heard_ns))
            };
            let at = match count <= LOOK_MAX {
                true => (0..count).max_by_key(|at| age(*at)).unwrap_or(0),
                false => random.below(count),
            };
            if age(at).is_some_and(|age_ns| age_ns >= after_ns) {
                let id = scene.candidates[at].node;
                if let Some(node) = self.nodes.get_mut(id) {
                    node.probing = true;
                    out.push(id);
                }
            }
        }
    }

    fn forget(&mut self, node: NodeId) {
        self.nodes.remove(node);
        self.lately.retain(|known| *known != node);
    }
}
