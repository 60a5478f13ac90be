//! A small discrete-event cluster for the checks of selection: nodes with workers, a queue and a
//! meter; coordinators with a selector each; faults by schedule. It models no disk and no CPU
//! contention; the lab's simulator does.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use plimsoll_control::average::whole;
use plimsoll_control::selection::{
    Ask, Candidate, Failure, FailureKind, Flight, NodeId, Rule, Selector,
};
use plimsoll_control::{Class, Job, LoadLine, Meter, Outside, Random};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// What is wrong with a node from one moment to another.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Every run takes this many times longer.
    Slow(f64),
    /// It takes in and answers nothing; what it holds goes on afterwards.
    Hung,
    /// It answers at once with an error.
    Failing,
    /// It is not there yet: not a candidate.
    Absent,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub rule: Rule,
    pub nodes: usize,
    pub workers: u32,
    pub copies: usize,
    pub partitions: usize,
    /// Whether a request goes to all partitions or to one at random.
    pub scatter: bool,
    pub coordinators: usize,
    /// Mean run time of one part, exponential.
    pub run_ns: u64,
    /// Requests per second; 0 for a closed loop of `clients`.
    pub rate: f64,
    pub clients: usize,
    pub deadline_ns: u64,
    pub end_ns: u64,
    pub faults: Vec<(usize, Fault, u64, u64)>,
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            rule: Rule::LoadAware,
            nodes: 6,
            workers: 8,
            copies: 3,
            partitions: 6,
            scatter: false,
            coordinators: 3,
            run_ns: 5 * MS,
            rate: 0.0,
            clients: 0,
            deadline_ns: SECOND,
            end_ns: 4 * SECOND,
            faults: Vec::new(),
            seed: 1,
        }
    }
}

/// What came of it. Times are of whole requests; sends of parts.
#[derive(Debug, Default)]
pub struct Outcome {
    /// (sent at, took, succeeded)
    pub requests: Vec<(u64, u64, bool)>,
    /// (sent at, node)
    pub sends: Vec<(u64, usize)>,
    pub probes: u64,
}

impl Outcome {
    /// The share of parts that went to the node in a span of time.
    pub fn share(&self, node: usize, from_ns: u64, to_ns: u64) -> f64 {
        let within = |at: &&(u64, usize)| at.0 >= from_ns && at.0 < to_ns;
        let all = self.sends.iter().filter(within).count();
        let its = self.sends.iter().filter(within).filter(|(_, to)| *to == node).count();
        its as f64 / all.max(1) as f64
    }

    /// The quantile of the time of requests sent from `from_ns` on, ms.
    pub fn quantile_ms(&self, p: f64, from_ns: u64) -> f64 {
        let mut times: Vec<u64> =
            self.requests.iter().filter(|r| r.0 >= from_ns).map(|r| r.1).collect();
        times.sort_unstable();
        let at = usize::try_from(whole((p * times.len() as f64).floor())).expect("it fits");
        times.get(at.min(times.len().saturating_sub(1))).map_or(0.0, |ns| *ns as f64 / 1e6)
    }

    /// Requests answered a second from `from_ns` to the last one.
    pub fn throughput(&self, from_ns: u64, to_ns: u64) -> f64 {
        let done = |r: &&(u64, u64, bool)| r.2 && r.0 + r.1 >= from_ns && r.0 + r.1 < to_ns;
        let count = self.requests.iter().filter(done).count();
        count as f64 / ((to_ns - from_ns) as f64 / 1e9)
    }
}

enum Event {
    Issue,
    Arrive { node: usize, part: Part },
    Finish { node: usize, part: Part },
    Answer { part: Part, node: usize, server_ns: u64, line: LoadLine, failed: bool },
    Timeout { part: usize },
    ProbeArrive { coordinator: usize, node: usize, probe: u64 },
    ProbeAnswer { coordinator: usize, node: usize, probe: u64, line: LoadLine },
    ProbeLost { coordinator: usize, node: usize, probe: u64 },
    Wake { node: usize },
}

#[derive(Clone, Copy)]
struct Part {
    id: usize,
    coordinator: usize,
    job: Option<Job>,
    arrived_ns: u64,
}

struct Node {
    meter: Meter,
    waiting: VecDeque<Part>,
    running: u32,
    held: Vec<Event>,
}

struct Request {
    sent_ns: u64,
    left: usize,
    ok: bool,
}

struct Sim {
    plan: Plan,
    now: u64,
    number: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slab: Vec<Option<Event>>,
    nodes: Vec<Node>,
    selectors: Vec<Selector>,
    random: Random,
    requests: Vec<Request>,
    /// Flight and request of each part; the flight is taken when it ends.
    parts: Vec<(Option<Flight>, usize, usize)>,
    /// The number of the probe under way, by coordinator and node; 0 for none.
    probes_out: Vec<Vec<u64>>,
    outcome: Outcome,
}

/// Runs the plan to its end.
pub fn run(plan: Plan) -> Outcome {
    let seed = plan.seed;
    let mut sim = Sim {
        now: 0,
        number: 0,
        events: BinaryHeap::new(),
        slab: Vec::new(),
        nodes: (0..plan.nodes)
            .map(|at| Node {
                meter: Meter::new(at as u64 + 1, plan.workers),
                waiting: VecDeque::new(),
                running: 0,
                held: Vec::new(),
            })
            .collect(),
        selectors: (0..plan.coordinators)
            .map(|at| Selector::new(plan.rule, seed * 1_000 + at as u64))
            .collect(),
        random: Random::new(seed),
        requests: Vec::new(),
        parts: Vec::new(),
        probes_out: vec![vec![0; plan.nodes]; plan.coordinators],
        outcome: Outcome::default(),
        plan,
    };
    sim.go();
    sim.outcome
}

impl Sim {
    fn go(&mut self) {
        for client in 0..self.plan.clients {
            self.at(client as u64 * 1_000, Event::Issue);
        }
        if self.plan.rate > 0.0 {
            self.at(0, Event::Issue);
        }
        for (node, fault, _, to_ns) in self.plan.faults.clone() {
            if matches!(fault, Fault::Hung) {
                self.at(to_ns, Event::Wake { node });
            }
        }
        while let Some(Reverse((at, _, slot))) = self.events.pop() {
            self.now = at;
            if at >= self.plan.end_ns {
                break;
            }
            let event = self.slab[slot].take().expect("an event happens once");
            self.handle(event);
        }
        // What is still out at the end took at least until then.
        for request in &self.requests {
            if request.left > 0 {
                let took = self.plan.end_ns.saturating_sub(request.sent_ns);
                self.outcome.requests.push((request.sent_ns, took, false));
            }
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.slab.push(Some(event));
        self.events.push(Reverse((at, self.number, self.slab.len() - 1)));
    }

    fn fault(&self, node: usize) -> Option<Fault> {
        let on = |f: &&(usize, Fault, u64, u64)| f.0 == node && self.now >= f.2 && self.now < f.3;
        self.plan.faults.iter().find(on).map(|f| f.1)
    }

    fn network(&mut self) -> u64 {
        50_000 + whole(self.random.unit() * 50_000.0)
    }

    fn exponential(&mut self, mean: f64) -> u64 {
        whole(-(1.0 - self.random.unit()).ln() * mean)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Issue => self.issue(),
            Event::Arrive { node, part } => self.arrive(node, part),
            Event::Finish { node, part } => self.finish(node, part),
            Event::Answer { part, node, server_ns, line, failed } => {
                let coordinator = part.coordinator;
                let Some(flight) = self.parts[part.id].0.take() else { return };
                let now = self.now;
                match failed {
                    false => self.selectors[coordinator].on_reply(
                        now,
                        flight,
                        Some(server_ns),
                        Some(&line),
                    ),
                    true => {
                        let kind = FailureKind::Error;
                        let deadline_ns = self.plan.deadline_ns;
                        let failure = Failure { kind, deadline_ns, line: Some(line) };
                        self.selectors[coordinator].on_failure(now, flight, &failure);
                    }
                }
                let _ = node;
                self.part_done(part.id, !failed);
            }
            Event::Timeout { part } => {
                let Some(flight) = self.parts[part].0.take() else { return };
                let kind = FailureKind::Timeout;
                let failure = Failure { kind, deadline_ns: self.plan.deadline_ns, line: None };
                let coordinator = self.parts[part].2;
                self.selectors[coordinator].on_failure(self.now, flight, &failure);
                self.part_done(part, false);
            }
            Event::ProbeArrive { coordinator, node, probe } => {
                if matches!(self.fault(node), Some(Fault::Hung)) {
                    self.nodes[node].held.push(Event::ProbeArrive { coordinator, node, probe });
                    return;
                }
                let line = self.line(node);
                let at = self.now + self.network();
                self.at(at, Event::ProbeAnswer { coordinator, node, probe, line });
            }
            Event::ProbeAnswer { coordinator, node, probe, line } => {
                if self.probes_out[coordinator][node] == probe {
                    self.probes_out[coordinator][node] = 0;
                    let id = id_of(node);
                    self.selectors[coordinator].on_probe(self.now, id, &line);
                }
            }
            Event::ProbeLost { coordinator, node, probe } => {
                if self.probes_out[coordinator][node] == probe {
                    self.probes_out[coordinator][node] = 0;
                    self.selectors[coordinator].on_probe_lost(self.now, id_of(node));
                }
            }
            Event::Wake { node } => {
                for event in std::mem::take(&mut self.nodes[node].held) {
                    self.at(self.now, event);
                }
            }
        }
    }

    fn issue(&mut self) {
        if self.plan.rate > 0.0 {
            let gap = self.exponential(1e9 / self.plan.rate);
            self.at(self.now + gap, Event::Issue);
        }
        let coordinator = self.random.below(self.plan.coordinators);
        let request = self.requests.len();
        let parts: Vec<usize> = match self.plan.scatter {
            true => (0..self.plan.partitions).collect(),
            false => vec![self.random.below(self.plan.partitions)],
        };
        self.requests.push(Request { sent_ns: self.now, left: parts.len(), ok: true });
        for partition in parts {
            self.send(coordinator, request, partition);
        }
    }

    fn send(&mut self, coordinator: usize, request: usize, partition: usize) {
        let candidates: Vec<Candidate> = (0..self.plan.copies)
            .map(|copy| (partition + copy) % self.plan.nodes)
            .filter(|node| !matches!(self.fault(*node), Some(Fault::Absent)))
            .map(|node| Candidate::near(id_of(node)))
            .collect();
        let ask = Ask { class: Class::Search, partition: partition as u64 };
        let selector = &mut self.selectors[coordinator];
        let picked = selector.pick(self.now, ask, &candidates).expect("there are copies");
        let flight = selector.on_send(self.now, ask, candidates[picked].node);
        let mut probes = Vec::new();
        selector.probes(self.now, ask, &candidates, &mut probes);
        let node = candidates[picked].node.0 as usize;
        self.outcome.sends.push((self.now, node));
        let id = self.parts.len();
        self.parts.push((Some(flight), request, coordinator));
        let part = Part { id, coordinator, job: None, arrived_ns: 0 };
        let at = self.now + self.network();
        self.at(at, Event::Arrive { node, part });
        self.at(self.now + self.plan.deadline_ns, Event::Timeout { part: id });
        for node in probes {
            let node = node.0 as usize;
            self.outcome.probes += 1;
            if self.probes_out[coordinator][node] == 0 {
                let probe = self.outcome.probes;
                self.probes_out[coordinator][node] = probe;
                let at = self.now + self.network();
                self.at(at, Event::ProbeArrive { coordinator, node, probe });
                self.at(self.now + 100 * MS, Event::ProbeLost { coordinator, node, probe });
            }
        }
    }

    fn arrive(&mut self, node: usize, mut part: Part) {
        match self.fault(node) {
            Some(Fault::Hung) => {
                self.nodes[node].held.push(Event::Arrive { node, part });
                return;
            }
            Some(Fault::Failing) => {
                let line = self.line(node);
                let at = self.now + self.network();
                self.at(at, Event::Answer { part, node, server_ns: 0, line, failed: true });
                return;
            }
            _ => {}
        }
        part.arrived_ns = self.now;
        part.job = Some(self.nodes[node].meter.arrive(self.now, Class::Search));
        self.nodes[node].waiting.push_back(part);
        self.start(node);
    }

    fn start(&mut self, node: usize) {
        while self.nodes[node].running < self.plan.workers {
            let Some(mut part) = self.nodes[node].waiting.pop_front() else { return };
            let slow = match self.fault(node) {
                Some(Fault::Slow(factor)) => factor,
                _ => 1.0,
            };
            let run = self.exponential(self.plan.run_ns as f64 * slow);
            let now = self.now;
            let it = &mut self.nodes[node];
            it.running += 1;
            it.meter.start(now, part.job.as_mut().expect("it arrived"));
            self.at(now + run, Event::Finish { node, part });
        }
    }

    fn finish(&mut self, node: usize, part: Part) {
        if matches!(self.fault(node), Some(Fault::Hung)) {
            self.nodes[node].held.push(Event::Finish { node, part });
            return;
        }
        let now = self.now;
        let it = &mut self.nodes[node];
        it.running -= 1;
        it.meter.finish(now, part.job.expect("it arrived"), true);
        self.start(node);
        let line = self.line(node);
        let server_ns = now - part.arrived_ns;
        let at = now + self.network();
        self.at(at, Event::Answer { part, node, server_ns, line, failed: false });
    }

    fn line(&self, node: usize) -> LoadLine {
        let it = &self.nodes[node];
        let oldest = it.waiting.front().map(|part| part.arrived_ns);
        it.meter.line(self.now, oldest, &Outside::default())
    }

    fn part_done(&mut self, part: usize, ok: bool) {
        let request = &mut self.requests[self.parts[part].1];
        request.left -= 1;
        request.ok &= ok;
        if request.left == 0 {
            let took = self.now - request.sent_ns;
            let took = if request.ok { took } else { took.max(self.plan.deadline_ns) };
            self.outcome.requests.push((request.sent_ns, took, request.ok));
            if self.plan.clients > 0 {
                self.at(self.now, Event::Issue);
            }
        }
    }
}

fn id_of(node: usize) -> NodeId {
    NodeId(u32::try_from(node).expect("few nodes"))
}
