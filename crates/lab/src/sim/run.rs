//! One run: its state, the clock, and who gets which event. The clients stand in `clients.rs`, the
//! coordinators' side of a request in `ask.rs`, the nodes' side in `serve.rs`, and what goes wrong
//! when in `faults.rs`.

use std::fmt::Arguments;

use plimsoll_control::Random;
use plimsoll_control::average::whole;
use plimsoll_control::selection::{Candidate, Hedger, NodeId, Selector};

use super::agenda::Agenda;
use super::dist::{LogNormal, derive, exponential_ns};
use super::event::Event;
use super::measure::{Ending, Measure, NodeCounts, Outcome};
use super::node::Node;
use super::request::{Attempt, Request, Slab};
use super::resources::Holdings;
use super::spec::{FaultKind, Load, RunSpec};
use super::trace::Trace;

/// One coordinator: its own view of the nodes, nobody else's.
pub(super) struct Coordinator {
    pub(super) selector: Selector,
    pub(super) hedger: Option<Hedger>,
    /// Probes not answered.
    pub(super) probes: Vec<u64>,
}

/// Streams of chance, one for each use, so that a variant that draws more often in one place
/// still meets the same requests.
pub(super) struct Streams {
    pub(super) network: Random,
    pub(super) arrivals: Random,
    pub(super) pauses: Vec<Random>,
}

pub(super) struct Run<'a> {
    pub(super) spec: &'a RunSpec,
    pub(super) agenda: Agenda<Event>,
    pub(super) trace: Trace,
    pub(super) measure: Measure,
    pub(super) nodes: Vec<Node>,
    pub(super) coordinators: Vec<Coordinator>,
    pub(super) requests: Slab<Request>,
    pub(super) attempts: Slab<Attempt>,
    pub(super) candidates: Vec<Vec<Candidate>>,
    pub(super) streams: Streams,
    pub(super) numbers: u64,
    pub(super) seed: u64,
    /// When a paced client may issue next.
    pub(super) next_turn_ns: u64,
    pub(super) issued: u64,
    pub(super) active: u64,
    pub(super) between: LogNormal,
    pub(super) within: LogNormal,
    pub(super) bytes: Option<LogNormal>,
}

/// Runs a specification. The same specification and seed give the same outcome, event by event.
/// With `words` the log's first lines are kept as text.
pub(crate) fn run(spec: &RunSpec, seed: u64, words: bool) -> Outcome {
    let mut run = Run::new(spec, seed, words);
    run.begin();
    while !(run.active == 0 && run.is_over()) {
        let Some(event) = run.agenda.next() else { break };
        run.handle(event);
    }
    run.finish()
}

impl<'a> Run<'a> {
    fn new(spec: &'a RunSpec, seed: u64, words: bool) -> Self {
        let node =
            |(number, one): (usize, &super::spec::NodeSpec)| Node::new(one.clone(), number, spec);
        let coordinator = |number: usize| Coordinator {
            selector: Selector::new(spec.policy.selection, derive(seed, 1_000 + number as u64)),
            hedger: spec.policy.hedging.then(Hedger::default),
            probes: Vec::new(),
        };
        let streams = Streams {
            network: Random::new(derive(seed, 1)),
            arrivals: Random::new(derive(seed, 2)),
            pauses: (0..spec.cluster.nodes.len())
                .map(|number| Random::new(derive(seed, 100_000 + number as u64)))
                .collect(),
        };
        Self {
            spec,
            agenda: Agenda::new(),
            trace: Trace::new(words),
            measure: Measure::new(spec),
            nodes: spec.cluster.nodes.iter().enumerate().map(node).collect(),
            coordinators: (0..spec.cluster.coordinators.max(1)).map(coordinator).collect(),
            requests: Slab::new(),
            attempts: Slab::new(),
            candidates: Vec::new(),
            streams,
            numbers: 0,
            seed,
            next_turn_ns: 0,
            issued: 0,
            active: 0,
            between: LogNormal::new(1.0, spec.operation.variation),
            within: LogNormal::new(1.0, spec.operation.part_variation),
            bytes: spec
                .resources
                .map(|all| LogNormal::new(all.request_bytes, all.request_variation)),
        }
    }

    fn begin(&mut self) {
        self.know_candidates();
        for node in 0..self.nodes.len() {
            self.nodes[node].adjust(0);
            let spec = self.nodes[node].spec.clone();
            if self.nodes[node].holdings.is_some() {
                self.agenda.at(Holdings::STEP_NS, Event::Step { node });
            }
            if spec.joins_ns > 0 {
                self.agenda.at(spec.joins_ns, Event::Join);
            }
            for fault in &spec.faults {
                for edge_ns in [fault.from_ns, fault.until_ns] {
                    if edge_ns > 0 && edge_ns < u64::MAX {
                        self.agenda.at(edge_ns, Event::Edge { node });
                    }
                }
                if let FaultKind::Pauses { every_ns, .. } = fault.kind {
                    let first_ns = exponential_ns(&mut self.streams.pauses[node], every_ns);
                    self.agenda.at(first_ns, Event::Pause { node });
                }
            }
        }
        self.agenda.at(self.spec.sample_ns, Event::Sample);
        match &self.spec.load {
            Load::Closed { clients, pace_ns } => {
                for client in 0..*clients {
                    self.next_turn_ns = pace_ns * client as u64;
                    self.agenda.at(self.next_turn_ns, Event::Issue { client });
                }
            }
            Load::Open { .. } => self.agenda.at(0, Event::Arrive),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Issue { client } => self.issue(Some(client)),
            Event::Arrive => self.arrive(),
            Event::Reach { attempt } => self.reach(attempt),
            Event::End { node, version } => self.end_job(node, version),
            Event::Answer { attempt } => self.answer(attempt),
            Event::Invalid { request, number } => {
                if self.requests.get(request).is_some_and(|one| one.number == number && !one.over) {
                    self.end_request(request, Ending::Invalid);
                }
            }
            Event::Deadline { request, number } => self.deadline(request, number),
            Event::Late { attempt, number } => self.late(attempt, number),
            Event::Cancel { attempt, number } => self.cancel_at_node(attempt, number),
            Event::Probe { coordinator, node, number } => self.probe(coordinator, node, number),
            Event::Probed { coordinator, node, number, line } => {
                self.probed(coordinator, node, number, Some(&line));
            }
            Event::Unprobed { coordinator, node, number } => {
                self.probed(coordinator, node, number, None);
            }
            Event::Edge { node } => self.edge(node),
            Event::Pause { node } => self.pause(node),
            Event::Step { node } => self.step(node),
            Event::Join => self.know_candidates(),
            Event::Sample => self.sample(),
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.agenda.now_ns()
    }

    pub(super) fn note(&mut self, numbers: [u64; 3], text: Arguments<'_>) {
        self.trace.note(self.agenda.now_ns(), numbers, text);
    }

    /// One way through the network.
    pub(super) fn network_ns(&mut self) -> u64 {
        let half_ns = self.spec.cluster.network_ns / 2.0;
        whole(half_ns) + exponential_ns(&mut self.streams.network, half_ns)
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn sample(&mut self) {
        let now_ns = self.agenda.now_ns();
        let queued = self
            .nodes
            .iter()
            .map(|node| u32::try_from(node.admission.waiting()).unwrap_or(u32::MAX));
        self.measure.sample(now_ns, queued.collect());
        self.agenda.after(self.spec.sample_ns, Event::Sample);
    }

    fn finish(mut self) -> Outcome {
        let counts: Vec<NodeCounts> = self
            .nodes
            .iter_mut()
            .map(|node| {
                let cpu_s = node.cpu.used_s();
                let stalled_s = node.holdings.as_ref().map_or(0.0, |all| all.stalled_s);
                let owed_s = node.holdings.as_ref().map_or(0.0, Holdings::owed_s);
                NodeCounts { cpu_s, stalled_s, owed_s, ..std::mem::take(&mut node.counts) }
            })
            .collect();
        self.measure.finish(counts, &self.trace)
    }
}

pub(super) fn node_id(node: usize) -> NodeId {
    NodeId(u32::try_from(node).unwrap_or(u32::MAX))
}
