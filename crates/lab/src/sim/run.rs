//! One run: the clock, the clients, and who gets which event. The coordinators' side of a request
//! stands in `ask.rs`, the nodes' side in `serve.rs`.

use std::fmt::Arguments;

use plimsoll_control::Random;
use plimsoll_control::average::whole;
use plimsoll_control::selection::{Candidate, Hedger, NodeId, Selector};
use plimsoll_control::LoadLine;

use super::agenda::Agenda;
use super::dist::{LogNormal, derive, exponential_ns};
use super::measure::{Ending, Measure, NodeCounts, Outcome};
use super::node::Node;
use super::request::{Attempt, Part, Request, Slab};
use super::spec::{FaultKind, Load, RunSpec, Spread, Stop};
use super::trace::Trace;

/// How long a coordinator takes to say that it does not understand.
const INVALID_NS: u64 = 7_000_000;

/// What can happen.
#[derive(Debug)]
pub(super) enum Event {
    /// A client of the closed loop issues its next request.
    Issue { client: usize },
    /// A request of the open loop comes.
    Arrive,
    /// An attempt is at its node.
    Reach { attempt: usize },
    /// The job that a node's processors were to end, unless something changed since.
    End { node: usize, version: u64 },
    /// A node's answer is at the coordinator.
    Answer { attempt: usize },
    /// The coordinator refuses to understand a request.
    Invalid { request: usize, number: u64 },
    /// A request's deadline.
    Deadline { request: usize, number: u64 },
    /// An attempt has been under way for so long that a second copy may be asked.
    Late { attempt: usize, number: u64 },
    /// Word that nobody waits for an attempt is at its node.
    Cancel { attempt: usize, number: u64 },
    /// A question for a node's load line, its answer, and its absence.
    Probe { coordinator: usize, node: usize, number: u64 },
    Probed { coordinator: usize, node: usize, number: u64, line: Box<LoadLine> },
    Unprobed { coordinator: usize, node: usize, number: u64 },
    /// A fault begins or ends.
    Edge { node: usize },
    /// A pause begins or ends.
    Pause { node: usize },
    /// A node becomes known.
    Join,
    Sample,
}

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
    arrivals: Random,
    pauses: Vec<Random>,
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
    seed: u64,
    /// When a paced client may issue next.
    next_turn_ns: u64,
    issued: u64,
    active: u64,
    between: LogNormal,
    within: LogNormal,
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
        let node = |(number, one): (usize, &super::spec::NodeSpec)| {
            Node::new(one.clone(), number, &spec.policy, spec.frame_tasks)
        };
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
        }
    }

    fn begin(&mut self) {
        self.know_candidates();
        for node in 0..self.nodes.len() {
            self.nodes[node].adjust(0);
            let spec = self.nodes[node].spec.clone();
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

    /// Copies on nodes that have joined.
    fn know_candidates(&mut self) {
        let now_ns = self.agenda.now_ns();
        let known = |nodes: &Vec<usize>| {
            let joined = nodes.iter().filter(|node| self.nodes[**node].spec.joins_ns <= now_ns);
            joined.map(|node| Candidate::near(node_id(*node))).collect()
        };
        self.candidates = self.spec.cluster.copies.iter().map(known).collect();
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

    fn is_over(&self) -> bool {
        match self.spec.stop {
            Stop::Requests(count) => self.issued >= count,
            Stop::At(end_ns) => self.agenda.now_ns() >= end_ns,
        }
    }

    fn arrive(&mut self) {
        let Load::Open { rates } = &self.spec.load else { return };
        let now_ns = self.agenda.now_ns();
        let rate = rates.iter().rev().find(|(from_ns, _)| *from_ns <= now_ns).map_or(0.0, |r| r.1);
        let gap_ns = exponential_ns(&mut self.streams.arrivals, 1e9 / rate.max(1e-3));
        if !self.is_over() {
            self.issue(None);
            self.agenda.after(gap_ns, Event::Arrive);
        }
    }

    fn issue(&mut self, client: Option<usize>) {
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
                tried: Vec::new(),
                under_way: Vec::new(),
                done: false,
                served_by: 0,
            })
            .collect();
        let count = parts.len();
        let number = self.next_number();
        let window = self.measure.issue(now_ns);
        let request = self.requests.insert(Request {
            number,
            coordinator: usize::try_from(order).unwrap_or(0) % self.coordinators.len(),
            client,
            issued_ns: now_ns,
            window,
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

    fn edge(&mut self, node: usize) {
        let now_ns = self.agenda.now_ns();
        self.note([3, node as u64, 0], format_args!("fault edge at {node}"));
        self.nodes[node].adjust(now_ns);
        self.go_on(node);
    }

    fn pause(&mut self, node: usize) {
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

    fn sample(&mut self) {
        let now_ns = self.agenda.now_ns();
        let queued = self.nodes.iter().map(|node| u32::try_from(node.admission.waiting()).unwrap_or(u32::MAX));
        self.measure.sample(now_ns, queued.collect());
        self.agenda.after(self.spec.sample_ns, Event::Sample);
    }

    fn finish(mut self) -> Outcome {
        let counts: Vec<NodeCounts> = self
            .nodes
            .iter_mut()
            .map(|node| {
                let cpu_s = node.cpu.used_s();
                NodeCounts { cpu_s, ..std::mem::take(&mut node.counts) }
            })
            .collect();
        self.measure.finish(counts, &self.trace)
    }
}

pub(super) fn node_id(node: usize) -> NodeId {
    NodeId(u32::try_from(node).unwrap_or(u32::MAX))
}
