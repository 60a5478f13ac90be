//! What a run is made of, as plain data: machines and what is wrong with them, where the copies
//! lie, what is asked of them and by whom, and which rules are in force.

use plimsoll_control::Class;
use plimsoll_control::admission::AdmissionRule;
use plimsoll_control::selection::Rule;

/// One second in the simulator's unit.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// One millisecond.
pub(crate) const MS_NS: u64 = 1_000_000;

/// Something wrong with a node for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
    pub(crate) kind: FaultKind,
}

impl Fault {
    /// From the start to the end of the run.
    pub(crate) fn always(kind: FaultKind) -> Self {
        Self { from_ns: 0, until_ns: u64::MAX, kind }
    }

    pub(crate) fn between(from_ns: u64, until_ns: u64, kind: FaultKind) -> Self {
        Self { from_ns, until_ns, kind }
    }

    pub(crate) fn is_on(&self, now_ns: u64) -> bool {
        (self.from_ns..self.until_ns).contains(&now_ns)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FaultKind {
    /// Threads of others want the processors (the studies' `stress`, as many as it has workers
    /// that the scheduler sees).
    Stress { competitors: f64 },
    /// A task costs more processor time where many are in flight, as garbage collection over all
    /// that they hold does: by the factor `1 + (in flight / at)^3`.
    Crowding { at: f64 },
    /// Everything takes this many times as long.
    Slow { factor: f64 },
    /// The process is stopped: it takes requests in and does nothing, but loses none.
    Hung,
    /// Every request is answered with an error at once.
    Failing,
    /// The whole process pauses now and then, as for garbage collection.
    Pauses { every_ns: f64, for_ns: f64 },
}

/// A machine with one pool of workers.
#[derive(Clone, Debug)]
pub(crate) struct NodeSpec {
    pub(crate) name: String,
    pub(crate) cpus: f64,
    pub(crate) workers: u32,
    pub(crate) faults: Vec<Fault>,
    /// When it joins; before that nobody knows it.
    pub(crate) joins_ns: u64,
    /// A cold cache: the first request takes this many times as long, and the excess falls by e
    /// every `cold_requests`.
    pub(crate) cold_factor: f64,
    pub(crate) cold_requests: f64,
}

impl NodeSpec {
    /// A healthy node with Elasticsearch's search pool: one and a half threads a processor and
    /// one more.
    pub(crate) fn healthy(name: String, cpus: u32) -> Self {
        Self {
            name,
            cpus: f64::from(cpus),
            workers: cpus * 3 / 2 + 1,
            faults: Vec::new(),
            joins_ns: 0,
            cold_factor: 1.0,
            cold_requests: 1.0,
        }
    }
}

/// The machines and where the copies lie.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<NodeSpec>,
    /// For each partition its nodes, in the order in which rotation goes round them.
    pub(crate) copies: Vec<Vec<usize>>,
    pub(crate) coordinators: usize,
    /// One way; half of it is constant and half exponential.
    pub(crate) network_ns: f64,
}

/// Which partitions one request touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All of them, as a search does.
    All,
    /// One, by the key, as a read does.
    One,
}

/// A kind of request.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) class: Class,
    pub(crate) spread: Spread,
    /// Processor time of one part.
    pub(crate) work_ns: f64,
    /// How much requests differ from one another (coefficient of variation)...
    pub(crate) variation: f64,
    /// ...and the parts of one request from one another.
    pub(crate) part_variation: f64,
    /// Processor time of a second round to the same copies, where there is one.
    pub(crate) fetch_ns: Option<f64>,
    /// The share of requests that deserve an error and get it from the coordinator.
    pub(crate) invalid_share: f64,
    /// After this the client no longer waits.
    pub(crate) deadline_ns: Option<u64>,
}

/// Who asks, and how fast.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Load {
    /// So many clients, each with one request at a time. `pace_ns` is the least time between two
    /// requests of whichever clients, as a shared throughput timer keeps it; 0 for none.
    Closed { clients: usize, pace_ns: u64 },
    /// Requests come at random (Poisson), whatever becomes of them: rates per second, each from a
    /// time on.
    Open { rates: Vec<(u64, f64)> },
}

/// When no more requests are issued; those under way are seen to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Requests(u64),
    At(u64),
}

/// The rules in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Policy {
    pub(crate) selection: Rule,
    pub(crate) hedging: bool,
    pub(crate) admission: AdmissionRule,
    /// Memory breakers and the pacing of background work; they matter only with [`Resources`].
    pub(crate) breakers: bool,
    pub(crate) pacing: bool,
}

/// Memory and disk of each node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Resources {
    pub(crate) memory_bytes: u64,
    /// What a request holds while it runs: mean, and coefficient of variation.
    pub(crate) request_bytes: f64,
    pub(crate) request_variation: f64,
    pub(crate) disk_bytes_s: u64,
    /// Threads that background work keeps busy at the disk's full rate.
    pub(crate) background_threads: f64,
    pub(crate) amplification: f64,
    /// Debt at which writes stall.
    pub(crate) stall_bytes: f64,
    /// Writes: a quiet rate and a burst's, which takes a third of every `burst_every_s`.
    pub(crate) quiet_bytes_s: f64,
    pub(crate) burst_bytes_s: f64,
    pub(crate) burst_every_s: u64,
}

impl Resources {
    pub(crate) fn ingest_bytes_s(&self, now_ns: u64) -> f64 {
        let second = now_ns / SECOND_NS % self.burst_every_s.max(1);
        if second * 3 < self.burst_every_s { self.burst_bytes_s } else { self.quiet_bytes_s }
    }
}

impl Policy {
    /// Selection alone, with the queue of 1,000 that Elasticsearch had.
    pub(crate) fn select(selection: Rule) -> Self {
        Self {
            selection,
            hedging: false,
            admission: AdmissionRule::Fixed { capacity: 1_000 },
            breakers: false,
            pacing: false,
        }
    }
}

/// All of a run but its seed.
#[derive(Clone, Debug)]
pub(crate) struct RunSpec {
    pub(crate) cluster: Cluster,
    pub(crate) operation: Operation,
    pub(crate) load: Load,
    pub(crate) policy: Policy,
    pub(crate) stop: Stop,
    /// Starts of the stretches of time that are measured apart, the first one 0.
    pub(crate) windows_ns: Vec<u64>,
    /// Distance of the points of the series over time.
    pub(crate) sample_ns: u64,
    /// Completed tasks of a node that make one frame of its table; 0 for none.
    pub(crate) frame_tasks: u32,
    /// Memory and disk, where they are part of the experiment.
    pub(crate) resources: Option<Resources>,
}
