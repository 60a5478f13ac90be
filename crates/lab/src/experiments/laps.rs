//! From what a run measured to laps and series of the report.

use std::collections::BTreeMap;

use super::job::Job;
use crate::result::{Frame, Lap, NodeLap, QUANTILES, Series, Spread};
use crate::sim::{FrameRow, Outcome, RunSpec, Window};
use crate::stats;

/// Points of a series that are kept for the pictures.
const POINTS_MAX: usize = 240;
/// Nodes whose queues are kept for the pictures.
const NODES_MAX: usize = 12;

/// One lap for each window of the run.
pub(crate) fn of_windows(spec: &RunSpec, outcome: &Outcome) -> Vec<Lap> {
    let whole_run = outcome.windows.len() == 1;
    let last = outcome.windows.len() - 1;
    let until = |at: usize| match at == last {
        true => outcome.ended_ns,
        false => outcome.windows[at + 1].from_ns,
    };
    let laps = outcome.windows.iter().enumerate().map(|(at, window)| {
        let nodes = match whole_run {
            true => whole_nodes(spec, outcome),
            false => sent_nodes(spec, window),
        };
        let latency_ms = stats::quantiles(&window.latency_us);
        let issued = window.issued.max(1) as f64;
        Lap {
            valid: true,
            reason: None,
            n: window.issued,
            throughput_ops_s: throughput(outcome, window, until(at)),
            latency_ms,
            // The simulated client sends at the moment that is meant.
            service_time_ms: latency_ms,
            error_rate: (window.failed + window.invalid) as f64 / issued,
            errors: BTreeMap::new(),
            refused_rate: (window.refused + window.partial) as f64 / issued,
            cpu_s: whole_run.then(|| outcome.nodes.iter().map(|node| node.cpu_s).sum()),
            rss_peak_bytes: None,
            segment_count: None,
            memory: None,
            conditions: None,
            recovery: None,
            lag_ms: None,
            foreground: None,
            course: None,
            lag_told_ms: None,
            rows: None,
            nodes,
        }
    });
    laps.collect()
}

/// Answers a second counted from the window's start, as it stood at each point.
fn throughput(outcome: &Outcome, window: &Window, until_ns: u64) -> Spread {
    let length_s = until_ns.saturating_sub(window.from_ns) as f64 / 1e9;
    let mut answered = 0u64;
    let mut rates = Vec::new();
    for point in &outcome.points {
        if point.at_ns > window.from_ns && point.at_ns <= until_ns {
            answered += point.answered;
            rates.push(answered as f64 / ((point.at_ns - window.from_ns) as f64 / 1e9));
        }
    }
    let mean = window.came as f64 / length_s.max(1e-9);
    if rates.is_empty() {
        return Spread { min: mean, median: mean, mean, max: mean };
    }
    Spread {
        min: rates.iter().copied().fold(f64::INFINITY, f64::min),
        median: stats::median(&rates),
        mean,
        max: rates.iter().copied().fold(0.0, f64::max),
    }
}

fn whole_nodes(spec: &RunSpec, outcome: &Outcome) -> Vec<NodeLap> {
    let nodes = spec.cluster.nodes.iter().zip(&outcome.nodes);
    let lap = |(node, counts): (&crate::sim::NodeSpec, &crate::sim::NodeCounts)| NodeLap {
        name: node.name.clone(),
        completed: counts.completed,
        rejected: counts.rejected,
        cpu_s: Some(counts.cpu_s),
        io_bytes: None,
        net_bytes: None,
        periods: None,
        nr_throttled: None,
        frames: counts.frames.iter().map(frame).collect(),
    };
    nodes.map(lap).collect()
}

fn frame(row: &FrameRow) -> Frame {
    Frame {
        seconds: row.seconds,
        avg_task_ms: row.task_ms,
        tasks_s: row.tasks_s,
        optimal: row.optimal,
        capacity: row.capacity,
    }
}

/// For a stretch of a run a node's count is of what was sent to it then.
fn sent_nodes(spec: &RunSpec, window: &Window) -> Vec<NodeLap> {
    let nodes = spec.cluster.nodes.iter().zip(&window.sent);
    let lap = |(node, sent): (&crate::sim::NodeSpec, &u64)| NodeLap {
        name: node.name.clone(),
        completed: *sent,
        rejected: 0,
        cpu_s: None,
        io_bytes: None,
        net_bytes: None,
        periods: None,
        nr_throttled: None,
        frames: Vec::new(),
    };
    nodes.map(lap).collect()
}

/// The course of a run, for the scenario of its first reported window; the distribution of
/// response times for each.
pub(crate) fn series(job: &Job, outcome: &Outcome) -> Vec<Series> {
    let step = outcome.points.len().div_ceil(POINTS_MAX).max(1);
    let names = job.spec.cluster.nodes.iter().map(|node| node.name.clone()).take(NODES_MAX);
    let mut course = Series {
        scenario: String::new(),
        variant: job.variant.clone(),
        latency_ms: Vec::new(),
        at_s: Vec::new(),
        answered_s: Vec::new(),
        queued: vec![Vec::new(); job.spec.cluster.nodes.len().min(NODES_MAX)],
        nodes: names.collect(),
        counts: BTreeMap::new(),
        log_checksum: format!("{:016x}", outcome.checksum),
    };
    let mut before_s = 0.0;
    for points in outcome.points.chunks(step) {
        let Some(last) = points.last() else { continue };
        let at_s = last.at_ns as f64 / 1e9;
        let answered: u64 = points.iter().map(|point| point.answered).sum();
        course.at_s.push(at_s);
        course.answered_s.push(answered as f64 / (at_s - before_s).max(1e-9));
        before_s = at_s;
        for (node, queued) in course.queued.iter_mut().enumerate() {
            queued.push(points.iter().map(|point| point.queued[node]).max().unwrap_or(0));
        }
    }
    let reported = job.notes.iter().zip(&outcome.windows);
    let mut all: Vec<Series> = Vec::new();
    for (note, window) in reported {
        let Some(note) = note else { continue };
        let latency_ms = match window.latency_us.len() {
            0 => Vec::new(),
            n => QUANTILES
                .iter()
                .filter(|p| n as f64 * (1.0 - **p) >= 1.0)
                .map(|p| window.latency_us.value_at_quantile(*p) as f64 / 1e3)
                .collect(),
        };
        let scenario = note.scenario.clone();
        all.push(match all.is_empty() {
            true => Series {
                scenario,
                latency_ms,
                counts: counts(&job.spec, outcome, window),
                ..course.clone()
            },
            false => Series {
                scenario,
                latency_ms,
                at_s: Vec::new(),
                answered_s: Vec::new(),
                queued: Vec::new(),
                nodes: Vec::new(),
                counts: counts(&job.spec, outcome, window),
                ..course.clone()
            },
        });
    }
    all
}

fn counts(spec: &RunSpec, outcome: &Outcome, window: &Window) -> BTreeMap<String, f64> {
    let issued = window.issued.max(1) as f64;
    let held_s: f64 = outcome.nodes.iter().map(|node| node.stalled_s).sum();
    let owed_s: f64 = outcome.nodes.iter().map(|node| node.owed_s).sum();
    let ran_s = outcome.ended_ns.max(1) as f64 / 1e9;
    BTreeMap::from([
        ("events".to_owned(), outcome.events as f64),
        ("partial_rate".to_owned(), window.partial as f64 / issued),
        ("hedge_rate".to_owned(), window.hedges as f64 / issued),
        ("writes_held_s".to_owned(), held_s),
        // As many requests a second could not have been served had the debt been paid as well.
        ("owed_ops_s".to_owned(), owed_s / (spec.operation.work_ns / 1e9) / ran_s),
    ])
}
