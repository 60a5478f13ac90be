//! A node: a pool of workers behind admission's queue, on processors that others may want as
//! well, and what is wrong with it. It decides nothing about requests but what admission decides,
//! and measures its load line with the meter that a real node uses.

use plimsoll_control::admission::{Admission, AdmissionRule, Arrival, Started};
use plimsoll_control::{Job, LoadLine, Meter, Outside};

use super::cpu::Cpu;
use super::measure::{FrameRow, NodeCounts};
use super::resources::{Holdings, SWAPPING};
use super::spec::{Fault, FaultKind, NodeSpec, RunSpec};

/// A node of the run.
pub(crate) struct Node {
    pub(crate) spec: NodeSpec,
    pub(crate) cpu: Cpu,
    pub(crate) admission: Admission,
    pub(crate) meter: Meter,
    pub(crate) counts: NodeCounts,
    pub(super) holdings: Option<Holdings>,
    /// Requests that came while the process was stopped.
    pub(crate) stalled: Vec<usize>,
    /// Whether it pauses now.
    pub(crate) paused: bool,
    /// Counts the changes of what runs; an end that was foreseen before the last one is void.
    pub(crate) version: u64,
    /// What a thread had had of a processor at the last step of background work.
    pub(super) served_before_ns: f64,
    frame_tasks: u32,
    fixed_capacity: Option<u64>,
    frame_from_ns: u64,
    frame_task_ns: u64,
}

impl Node {
    pub(crate) fn new(spec: NodeSpec, number: usize, run: &RunSpec) -> Self {
        let policy = &run.policy;
        let workers = usize::try_from(spec.workers).unwrap_or(1);
        Self {
            cpu: Cpu::new(spec.cpus),
            admission: Admission::new(policy.admission, workers, spec.joins_ns),
            meter: Meter::new(number as u64 + 1, spec.workers),
            counts: NodeCounts::default(),
            holdings: run.resources.map(|resources| Holdings::new(resources, policy)),
            stalled: Vec::new(),
            paused: false,
            version: 0,
            served_before_ns: 0.0,
            frame_tasks: run.frame_tasks,
            fixed_capacity: match policy.admission {
                AdmissionRule::Fixed { capacity } => u64::try_from(capacity).ok(),
                _ => None,
            },
            frame_from_ns: spec.joins_ns,
            frame_task_ns: 0,
            spec,
        }
    }

    pub(crate) fn is_hung(&self, now_ns: u64) -> bool {
        self.paused || self.has(now_ns, |kind| kind == FaultKind::Hung)
    }

    pub(crate) fn is_failing(&self, now_ns: u64) -> bool {
        self.has(now_ns, |kind| kind == FaultKind::Failing)
    }

    fn has(&self, now_ns: u64, wanted: impl Fn(FaultKind) -> bool) -> bool {
        self.spec.faults.iter().any(|fault| fault.is_on(now_ns) && wanted(fault.kind))
    }

    /// Takes the faults of now into account.
    pub(crate) fn adjust(&mut self, now_ns: u64) {
        let (mut competitors, mut speed) = (0.0, 1.0);
        for fault in self.spec.faults.iter().filter(|fault| fault.is_on(now_ns)) {
            match fault.kind {
                FaultKind::Stress { competitors: more } => competitors += more,
                FaultKind::Slow { factor } => speed /= factor,
                FaultKind::Hung => speed = 0.0,
                FaultKind::Failing | FaultKind::Crowding { .. } | FaultKind::Pauses { .. } => {}
            }
        }
        if let Some(holdings) = &self.holdings {
            competitors += holdings.competitors();
            speed *= if holdings.is_swapping() { SWAPPING } else { 1.0 };
        }
        self.cpu.set(now_ns, competitors, if self.paused { 0.0 } else { speed });
        self.version += 1;
    }

    /// The work that a request is here, with the cache as it is and all that is in flight.
    pub(crate) fn work_ns(&mut self, now_ns: u64, work_ns: f64) -> f64 {
        let in_flight = f64::from(self.meter.in_flight());
        let crowd = |fault: &Fault| match fault.kind {
            FaultKind::Crowding { at } if fault.is_on(now_ns) => (in_flight / at).powi(3),
            _ => 0.0,
        };
        let crowd: f64 = self.spec.faults.iter().map(crowd).sum();
        self.counts.crowding_s += work_ns * crowd / 1e9;
        let seen = self.counts.completed as f64 / self.spec.cold_requests;
        work_ns * (1.0 + crowd + (self.spec.cold_factor - 1.0) * (-seen).exp())
    }

    /// Offers a request to admission, with the cost that the node itself would predict.
    pub(crate) fn offer(&mut self, now_ns: u64, mut arrival: Arrival) -> Option<Job> {
        arrival.cost_ns = self.meter.run_ns(arrival.class);
        if self.admission.offer(now_ns, arrival).is_ok() {
            Some(self.meter.arrive(now_ns, arrival.class))
        } else {
            self.counts.rejected += 1;
            None
        }
    }

    /// A request ran to its end.
    pub(crate) fn complete(&mut self, now_ns: u64, job: Job, started: &Started, started_ns: u64) {
        self.meter.finish(now_ns, job, true);
        let task_ns = now_ns.saturating_sub(job.arrived_ns);
        let closed = self.admission.on_finish(now_ns, started, now_ns.saturating_sub(started_ns));
        self.counts.completed += 1;
        if let Some(holdings) = self.holdings.as_mut() {
            holdings.completed(task_ns);
        }
        self.frame_task_ns += task_ns;
        let frame = u64::from(self.frame_tasks);
        if frame > 0 && self.counts.completed.is_multiple_of(frame) {
            let seconds = now_ns.saturating_sub(self.frame_from_ns) as f64 / 1e9;
            self.counts.frames.push(FrameRow {
                seconds,
                task_ms: self.frame_task_ns as f64 / frame as f64 / 1e6,
                tasks_s: frame as f64 / seconds.max(1e-9),
                optimal: closed.map(|frame| frame.optimal),
                capacity: closed.map(|frame| frame.capacity).or(self.fixed_capacity),
            });
            (self.frame_from_ns, self.frame_task_ns) = (now_ns, 0);
        }
    }

    /// A request whose turn came after nobody waited for it any more gives its worker back. The
    /// run time it did not have must not count as one of zero.
    pub(crate) fn skip(&mut self, now_ns: u64, job: Job, started: &Started) {
        self.meter.abandon(job);
        let run_ns = self.meter.run_ns(job.class).unwrap_or(0);
        self.admission.on_finish(now_ns, started, run_ns);
    }

    /// The load line of now.
    pub(crate) fn line(&self, now_ns: u64) -> LoadLine {
        let debts = self.holdings.as_ref();
        let outside = Outside {
            cpus: u32::try_from(plimsoll_control::average::whole(self.spec.cpus)).unwrap_or(0),
            cpu_demand_permille: self.cpu.demand_permille(),
            memory_debt_permille: debts.map_or(0, Holdings::memory_debt_permille),
            write_debt_permille: debts.map_or(0, Holdings::write_debt_permille),
        };
        self.meter.line(now_ns, self.admission.oldest_arrived_ns(), &outside)
    }
}
