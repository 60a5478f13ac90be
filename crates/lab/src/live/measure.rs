//! One lap of load on a cluster, with the counters of its nodes at both ends of the measured
//! window, and whether the lap may be used: not where the generator ran late, the hypervisor took
//! the processor, or something else on this machine did.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::cluster::Cluster;
use super::load::{self, Load, Taken, Watch};
use super::node::{Counters, Node};
use super::processes::{self, Machine};
use crate::LabError;
use crate::result::{Conditions, Lap, NodeLap, QUANTILES, Series};
use crate::stats;

/// A generator that wakes later than this in one of a hundred cases was not in time, ms.
const LATE_MS_MAX: f64 = 20.0;
/// Time taken by the hypervisor beyond which a lap is of no use, %.
const STEAL_PERCENT_MAX: f64 = 3.0;
/// Processors used by others beyond which a lap is of no use.
const FOREIGN_MAX: f64 = 0.25;
/// The reason of a lap that was cut short.
pub(crate) const STOPPED: &str = "stopped";

/// A lap with what only this process has: its distributions.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) lap: Lap,
    pub(crate) latency_us: Histogram<u64>,
    pub(crate) service_us: Histogram<u64>,
    /// The number of the block of laps that it is paired in.
    pub(crate) block: usize,
}

impl Measured {
    /// A lap that is not of requests.
    pub(crate) fn without_requests(lap: Lap, block: usize) -> Self {
        let (latency_us, service_us) = (load::histogram(), load::histogram());
        Self { lap, latency_us, service_us, block }
    }
}

/// Counters of all nodes and of the machine at one moment.
pub(crate) struct Moment {
    nodes: Vec<Counters>,
    stress_cpu_s: f64,
    own_cpu_s: f64,
    machine: Machine,
}

impl Moment {
    pub(crate) fn take(nodes: &[Node]) -> Self {
        let counters = thread::scope(|scope| {
            let asked: Vec<_> = nodes.iter().map(|node| scope.spawn(|| node.counters())).collect();
            asked.into_iter().map(|one| one.join().unwrap_or_default()).collect()
        });
        Self {
            nodes: counters,
            stress_cpu_s: nodes.iter().map(|node| node.room.stress_cpu_s()).sum(),
            own_cpu_s: processes::cpu_s(std::process::id()).unwrap_or(0.0),
            machine: Machine::read(),
        }
    }

    /// The same of processes that are none of the lab's nodes. Where the lab's own is one of them, its time counts
    /// as theirs.
    pub(crate) fn of_processes(all: &[u32]) -> Self {
        let counters = |process: &u32| Counters {
            cpu_s: processes::cpu_s(*process).unwrap_or(0.0),
            ..Counters::default()
        };
        let around = Self::take(&[]);
        let own_cpu_s = if all.contains(&std::process::id()) { 0.0 } else { around.own_cpu_s };
        Self { nodes: all.iter().map(counters).collect(), own_cpu_s, ..around }
    }

    /// Processor time of each of the nodes.
    pub(crate) fn cpu_s_each(&self) -> impl Iterator<Item = f64> {
        self.nodes.iter().map(|node| node.cpu_s)
    }

    /// Processor time of the whole machine, and of the lab itself.
    pub(crate) fn around_s(&self) -> (Machine, f64) {
        (self.machine, self.own_cpu_s)
    }

    /// Processor time of the nodes.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.nodes.iter().map(|node| node.cpu_s).sum()
    }
}

/// Runs one lap.
///
/// # Errors
/// Where the generator cannot start.
pub(crate) fn lap(
    cluster: &mut Cluster,
    load: &Load<'_>,
    watch: &dyn Watch,
) -> Result<Measured, LabError> {
    for node in &cluster.nodes {
        processes::reset_peak(node.process());
    }
    let nodes = &cluster.nodes;
    let (taken, before, after) = between(load, watch, &|| Moment::take(nodes))?;
    let late_ms = taken.late_us.value_at_quantile(0.99) as f64 / 1e3;
    let conditions = conditions(late_ms, &before, &after);
    let reason = if watch.is_stopped() {
        Some(STOPPED.to_owned())
    } else {
        let ended = cluster.ended();
        match ended.is_empty() {
            true => disturbance(&conditions),
            false => Some(format!("the process of {} ended", ended.join(", "))),
        }
    };
    let peaks = cluster.nodes.iter().filter_map(|n| processes::resident_bytes_peak(n.process()));
    let lap = Lap {
        cpu_s: Some((after.cpu_s() - before.cpu_s()).max(0.0)),
        rss_peak_bytes: Some(peaks.sum()),
        nodes: node_laps(&cluster.nodes, &before, &after),
        ..of_load(&taken, conditions, reason)
    };
    let Taken { latency_us, service_us, .. } = taken;
    Ok(Measured { lap, latency_us, service_us, block: 0 })
}

/// Runs the load of one lap, and looks at both ends of its window.
///
/// # Errors
/// Where the generator cannot start.
pub(crate) fn between(
    load: &Load<'_>,
    watch: &dyn Watch,
    look: &(dyn Fn() -> Moment + Sync),
) -> Result<(Taken, Moment, Moment), LabError> {
    let (taken, before, after) = thread::scope(|scope| {
        let began = Instant::now();
        let looks = scope.spawn(move || {
            // By the clock of the lap: a node that hangs is waited for, and must not shift the end.
            wait_until(began + load.warm_up, watch);
            let before = look();
            wait_until(began + load.warm_up + load.window, watch);
            (before, look())
        });
        let taken = load::run(load, watch);
        let (before, after) = looks.join().unwrap_or_else(|_| {
            let none = Moment::take(&[]);
            (none, Moment::take(&[]))
        });
        (taken, before, after)
    });
    let taken = taken.map_err(|error| LabError::live("start the load".to_owned(), error))?;
    Ok((taken, before, after))
}

/// What the generator says of a lap, and whether something disturbed it.
pub(crate) fn of_load(taken: &Taken, conditions: Conditions, reason: Option<String>) -> Lap {
    let issued = taken.issued.max(1) as f64;
    Lap {
        valid: reason.is_none(),
        reason,
        n: taken.issued,
        throughput_ops_s: taken.throughput(),
        latency_ms: stats::quantiles(&taken.latency_us),
        service_time_ms: stats::quantiles(&taken.service_us),
        error_rate: taken.failures() as f64 / issued,
        errors: taken.failed.clone(),
        refused_rate: (taken.refused + taken.partial) as f64 / issued,
        conditions: Some(conditions),
        ..Lap::default()
    }
}

/// Waits, but not for a lap that is to end.
pub(crate) fn wait_until(moment: Instant, watch: &dyn Watch) {
    const STEP: Duration = Duration::from_millis(100);
    while !watch.is_stopped() && Instant::now() < moment {
        thread::sleep(STEP.min(moment.saturating_duration_since(Instant::now())));
    }
}

/// What else went on between two moments, where what drives the lap was so late.
pub(crate) fn conditions(late_ms: f64, before: &Moment, after: &Moment) -> Conditions {
    let machine = after.machine.since(before.machine);
    let ours_s = after.cpu_s() - before.cpu_s() + after.stress_cpu_s - before.stress_cpu_s
        + after.own_cpu_s
        - before.own_cpu_s;
    let length_s = machine.all_s / processes::processors() as f64;
    Conditions {
        generator_late_ms: late_ms,
        steal_percent: machine.steal_s / machine.all_s.max(1e-9) * 100.0,
        foreign_processors: ((machine.busy_s - ours_s) / length_s.max(1e-9)).max(0.0),
    }
}

/// Why a lap under these conditions may not be used.
pub(crate) fn disturbance(of: &Conditions) -> Option<String> {
    if of.generator_late_ms > LATE_MS_MAX {
        return Some(format!("the generator ran late by {:.1} ms (p99)", of.generator_late_ms));
    }
    if of.steal_percent > STEAL_PERCENT_MAX {
        return Some(format!("the hypervisor took {:.1} % of the time", of.steal_percent));
    }
    let others = of.foreign_processors;
    (others > FOREIGN_MAX).then(|| format!("other programs used {others:.2} processors"))
}

/// What each node did between two moments.
pub(crate) fn node_laps(nodes: &[Node], before: &Moment, after: &Moment) -> Vec<NodeLap> {
    let pairs = nodes.iter().zip(before.nodes.iter().zip(&after.nodes));
    let lap = |(node, (before, after)): (&Node, (&Counters, &Counters))| {
        let throttled = after.throttled.zip(before.throttled).map(|(a, b)| a.since(b));
        // A node that did not answer at one end tells nothing about between.
        let is_told = before.is_told && after.is_told;
        let count = |a: u64, b: u64| if is_told { a.saturating_sub(b) } else { 0 };
        NodeLap {
            name: node.spec.name.clone(),
            completed: count(after.completed, before.completed),
            rejected: count(after.rejected, before.rejected),
            cpu_s: Some((after.cpu_s - before.cpu_s).max(0.0)),
            io_bytes: after.io_bytes.zip(before.io_bytes).map(|(a, b)| a.saturating_sub(b)),
            frames: after.frames.clone(),
            periods: throttled.map(|of| of.periods),
            nr_throttled: throttled.map(|of| of.throttled),
            ..NodeLap::default()
        }
    };
    pairs.map(lap).collect()
}

/// The course of an arm for the pictures: all laps' response times, and the first lap's rate.
pub(crate) fn series(scenario: &str, variant: &str, laps: &[Measured]) -> Option<Series> {
    let has_valid = laps.iter().any(|one| one.lap.valid);
    let usable = || laps.iter().filter(|one| one.lap.valid || !has_valid);
    let first = usable().next()?;
    let mut latency_us = load::histogram();
    for one in usable() {
        latency_us.add(&one.latency_us).ok()?;
    }
    let n = latency_us.len() as f64;
    let enough = QUANTILES.iter().filter(|p| n * (1.0 - **p) >= 1.0);
    let latency_ms = enough.map(|p| latency_us.value_at_quantile(*p) as f64 / 1e3).collect();
    Some(Series {
        scenario: scenario.to_owned(),
        variant: variant.to_owned(),
        latency_ms,
        at_s: Vec::new(),
        answered_s: Vec::new(),
        queued: Vec::new(),
        nodes: first.lap.nodes.iter().map(|node| node.name.clone()).collect(),
        counts: BTreeMap::new(),
        log_checksum: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labs_own_process_counts_once() {
        let own = Moment::of_processes(&[std::process::id()]);
        assert!(own.cpu_s() >= 0.0 && own.around_s().1 == 0.0);
        assert_eq!(own.cpu_s_each().count(), 1);
    }

    #[test]
    fn a_lap_that_was_disturbed_says_by_what() {
        let quiet =
            Conditions { generator_late_ms: 2.0, steal_percent: 0.1, foreign_processors: 0.02 };
        assert_eq!(disturbance(&quiet), None);
        let late = Conditions { generator_late_ms: 30.0, ..quiet };
        assert!(disturbance(&late).is_some_and(|why| why.contains("late by 30.0 ms")));
        let stolen = Conditions { steal_percent: 9.0, ..quiet };
        assert!(disturbance(&stolen).is_some_and(|why| why.contains("hypervisor")));
        let shared = Conditions { foreign_processors: 0.9, ..quiet };
        assert!(disturbance(&shared).is_some_and(|why| why.contains("0.90 processors")));
    }
}
