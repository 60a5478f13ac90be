//! What changes at the nodes over a run: faults that begin and end, pauses, background work, nodes
//! that join.

use plimsoll_control::selection::Candidate;

use super::dist::exponential_ns;
use super::event::Event;
use super::resources::Holdings;
use super::run::{Run, node_id};
use super::spec::FaultKind;

impl Run<'_> {
    /// Copies on nodes that have joined.
    pub(super) fn know_candidates(&mut self) {
        let now_ns = self.agenda.now_ns();
        let known = |nodes: &Vec<usize>| {
            let joined = nodes.iter().filter(|node| self.nodes[**node].spec.joins_ns <= now_ns);
            joined.map(|node| Candidate::near(node_id(*node))).collect()
        };
        self.candidates = self.spec.cluster.copies.iter().map(known).collect();
    }

    pub(super) fn edge(&mut self, node: usize) {
        let now_ns = self.agenda.now_ns();
        self.note([3, node as u64, 0], format_args!("fault edge at {node}"));
        self.nodes[node].adjust(now_ns);
        self.go_on(node);
    }

    pub(super) fn pause(&mut self, node: usize) {
        let pauses = |kind| match kind {
            FaultKind::Pauses { every_ns, for_ns } => Some((every_ns, for_ns)),
            _ => None,
        };
        let found = self.nodes[node].spec.faults.iter().find_map(|fault| pauses(fault.kind));
        let Some((every_ns, for_ns)) = found else { return };
        let paused = !self.nodes[node].paused;
        self.nodes[node].paused = paused;
        let mean_ns = if paused { for_ns } else { every_ns };
        let next_ns = exponential_ns(&mut self.streams.pauses[node], mean_ns);
        self.agenda.after(next_ns, Event::Pause { node });
        self.edge(node);
    }

    pub(super) fn step(&mut self, node: usize) {
        let now_ns = self.agenda.now_ns();
        let at_node = &mut self.nodes[node];
        let served_ns = at_node.cpu.served_ns(now_ns);
        let share = (served_ns - at_node.served_before_ns) / Holdings::STEP_NS as f64;
        at_node.served_before_ns = served_ns;
        if let Some(holdings) = at_node.holdings.as_mut() {
            holdings.step(now_ns, share);
        }
        self.agenda.after(Holdings::STEP_NS, Event::Step { node });
        self.edge(node);
    }
}
