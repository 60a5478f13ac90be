//! The score of our rule: what it is made of and the one function that puts it together. The
//! formula is explained at the head of the rule's file; this one keeps its laws: in no field does a
//! worse value give a better score.

use crate::load_line::{Class, LoadLine};

/// How often a wait counts: for the request and for those that it delays.
const QUEUE: f64 = 2.0;
/// Differences of run time within this part of the peers' are chance.
const CHANCE: f64 = 0.1;
/// So many runs tell as much about a node as its peers do.
const PEERS_RUNS: f64 = 4.0;

/// All that the score is made of. Larger is worse in each field except `workers` and `cpus`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Run time of the asked class at the node with a processor to itself, ns.
    pub run_ns: f64,
    /// At least 1; by how much debts slow the run.
    pub pressure: f64,
    /// Requests in flight there, own and others', without the one to be sent.
    pub in_flight: f64,
    /// Reported run time of all that waits there over the workers, ns.
    pub backlog_ns: f64,
    /// Requests that can run at once, at least 1.
    pub workers: f64,
    /// Processors for them, at least 1; infinite where unknown.
    pub cpus: f64,
    /// What else wants these processors, in threads.
    pub competitors: f64,
    /// The part of the reported oldest wait that is still news, ns.
    pub oldest_wait_ns: f64,
    /// Time to and from the node, ns.
    pub network_ns: f64,
    /// Share of requests that fail, 0 to 1.
    pub failing: f64,
    /// What a failure costs, ns.
    pub deadline_ns: f64,
    /// Age of the oldest own request that the node owes, ns; 0 where it owes none.
    pub unanswered_ns: f64,
    /// The zone penalty, ns.
    pub zone_ns: f64,
}

/// What sending a request there costs, ns: the formula at the head of the rule's file. Never less than
/// the expected time to the answer.
#[must_use]
pub fn cost_ns(e: &Estimate) -> f64 {
    let jobs = e.in_flight + 1.0;
    // A pool wider than the processors queues inside them; one that is not only shares them with
    // others, and its own queue is counted below.
    let corner = (e.workers - e.cpus).clamp(0.0, 1.0 + e.cpus / 2.0);
    let wanting = jobs.min(e.workers) + e.competitors - e.cpus;
    let crowd = if e.cpus.is_finite() { excess(wanting, corner) / e.cpus } else { 0.0 };
    let stretched = e.run_ns * (1.0 + crowd);
    let queued = excess(jobs - e.workers, 1.0 + e.workers / 2.0);
    let wait = (stretched / e.workers * queued).max(e.backlog_ns).max(e.oldest_wait_ns / 2.0);
    let failing_ns = e.failing * e.deadline_ns;
    let shared = QUEUE * crowd * e.run_ns;
    let reported = e.run_ns * e.pressure + shared + QUEUE * wait + e.network_ns + failing_ns;
    reported.max(e.unanswered_ns) + e.zone_ns
}

/// max(0, x) with its corner rounded.
fn excess(x: f64, corner: f64) -> f64 {
    f64::midpoint(x, (x * x + corner).sqrt())
}

/// A run time as far as it can be told from its peers': it counts by the number of runs that it
/// rests on, and the first tenth of a difference is taken for chance, or noise would decide between
/// nodes that are alike and queue at the lucky one.
pub(super) fn told_apart(run_ns: f64, runs: u32, peers_ns: f64) -> f64 {
    let runs = f64::from(runs);
    let run_ns = (run_ns * runs + peers_ns * PEERS_RUNS) / (runs + PEERS_RUNS);
    let chance = CHANCE * peers_ns;
    if run_ns > peers_ns {
        (run_ns - chance).max(peers_ns)
    } else {
        (run_ns + chance).min(peers_ns)
    }
}

/// By how much the processors stretched a run at the node when it spoke, at least 1.
pub(super) fn stretch(line: &LoadLine) -> f64 {
    if line.cpus == 0 { 1.0 } else { (f64::from(line.cpu_demand_permille) / 1e3).max(1.0) }
}

/// What wants the node's processors beside its requests, in threads.
pub(super) fn competitors(line: &LoadLine) -> f64 {
    let wanted = f64::from(line.cpu_demand_permille) / 1e3 * f64::from(line.cpus);
    (wanted - f64::from(line.in_flight.saturating_sub(line.queued))).max(0.0)
}

/// Debts beyond four fifths slow a node, up to five times at the limit: memory for all, the write
/// path for writes.
pub(super) fn pressure(line: &LoadLine, class: Class) -> f64 {
    let over = |permille: u32| f64::from(permille.saturating_sub(800)) / 200.0;
    let writes = if class == Class::Write { over(line.write_debt_permille) } else { 0.0 };
    1.0 + 4.0 * over(line.memory_debt_permille).max(writes)
}
