//! From what is believed about a node to the numbers of its score.

use super::LoadAware;
use super::node::Node;
use crate::load_line::Class;
use crate::selection::estimate::{Estimate, competitors, pressure};
use crate::selection::health::share;
use crate::selection::node_id::NodeId;
use crate::selection::request::Candidate;
use crate::selection::rule_state::Scene;

/// The run time assumed before anything is known.
const RUN_NS: f64 = 1_000_000.0;

impl LoadAware {
    pub(super) fn estimate(&self, scene: &Scene<'_>, candidate: Candidate) -> Estimate {
        let (now_ns, class) = (scene.now_ns, scene.ask.class);
        let own = f64::from(scene.book.outstanding(candidate.node));
        let peers_run = self.class_run[class.slot()].mean().unwrap_or(RUN_NS);
        let mut estimate = Estimate {
            run_ns: peers_run,
            pressure: 1.0,
            in_flight: own,
            backlog_ns: 0.0,
            workers: 1.0,
            cpus: f64::INFINITY,
            competitors: 0.0,
            oldest_wait_ns: 0.0,
            network_ns: 0.0,
            failing: 0.0,
            deadline_ns: 0.0,
            unanswered_ns: 0.0,
            zone_ns: f64::from(candidate.zone_penalty_us) * 1e3,
        };
        let Some(node) = self.nodes.get(candidate.node) else { return estimate };
        estimate.failing = node.health.failing(now_ns, share(&self.refusals, now_ns));
        estimate.deadline_ns = node.health.deadline_ns as f64;
        estimate.unanswered_ns = self.unanswered_ns(scene, candidate.node, node) as f64;
        let Some(heard) = node.heard else {
            let response = node.response.mean().unwrap_or(peers_run);
            return Estimate { run_ns: response, ..estimate };
        };
        let line = &heard.line;
        estimate.run_ns = node.run_ns(class, peers_run);
        if line.cpus > 0 {
            estimate.cpus = f64::from(line.cpus);
            estimate.competitors = competitors(line);
        }
        let fresh = node.freshness(now_ns);
        estimate.in_flight = node.in_flight(own, fresh);
        estimate.backlog_ns = node.backlog_ns(fresh);
        estimate.workers = f64::from(line.workers.max(1));
        estimate.pressure = pressure(line, class);
        estimate.oldest_wait_ns = line.oldest_wait_ns as f64 * fresh;
        estimate.network_ns = node.network.mean().unwrap_or(0.0);
        estimate
    }

    /// The age of the oldest request that the node owes: of the asked class while the node says
    /// nothing at all, of any class once it is far beyond that class's tail.
    fn unanswered_ns(&self, scene: &Scene<'_>, id: NodeId, node: &Node) -> u64 {
        if scene.book.outstanding(id) == 0 {
            return 0;
        }
        let silence_ns = node.health.silence_ns(scene.now_ns);
        let owed = |class: Class| {
            let age_ns = scene.now_ns.saturating_sub(scene.book.oldest_sent_ns(id, class)?);
            let tail_ns = self.tail_ns[class.slot()];
            let late = tail_ns > 0 && age_ns > tail_ns.saturating_mul(2);
            match class == scene.ask.class {
                true if late => Some(age_ns),
                true => Some(age_ns.min(silence_ns)),
                false if late => Some(age_ns.min(silence_ns)),
                false => None,
            }
        };
        Class::ALL.into_iter().filter_map(owed).max().unwrap_or(0)
    }
}
