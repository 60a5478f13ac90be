//! `scale`: many coordinators over many nodes, each partition on three of them, one node in
//! twenty stressed: 20 coordinators and 200 nodes, in full 100 and 1,000. No coordinator sees
//! more than its own part of the traffic.

use super::bench::{Plain, by_rule, note, ns};
use super::compare::{count, find, value};
use super::plan::Plan;
use super::{Setup, Size};
use crate::result::{Finding, Results, Series};
use crate::sim::{Fault, FaultKind};

/// A pair of coordinator and node meets seldom in so large a cluster, so that learning takes long;
/// it is told apart from what comes after.
const SCENARIOS: [&str; 2] = ["one-in-twenty-stressed/learning", "one-in-twenty-stressed/learned"];
const LOAD: f64 = 0.6;

pub(crate) fn plan(setup: &Setup) -> Plan {
    let (nodes, coordinators, end_s, laps) = match setup.size {
        Size::Quick => (40, 4, 2.0, 1),
        Size::Study => (200, 20, 24.0, 3),
        Size::Full => (1_000, 100, 16.0, 1),
    };
    let nodes = setup.nodes.unwrap_or(nodes);
    let plain =
        Plain { nodes, cpus: 8, coordinators, work_ms: 50.0, variation: 0.5, deadline_ms: 5_000 };
    let mut spec = plain.spec(&[(0.0, LOAD)], end_s);
    let copies = |partition: usize| (0..3).map(|step| (partition + step * 7) % nodes).collect();
    spec.cluster.copies = (0..nodes).map(copies).collect();
    for node in spec.cluster.nodes.iter_mut().step_by(20) {
        node.faults = vec![Fault::always(FaultKind::Stress { competitors: 16.0 })];
    }
    spec.windows_ns = vec![0, ns(end_s / 2.0)];
    spec.sample_ns = ns(0.5);
    let notes =
        SCENARIOS.map(|name| Some(note(name.to_owned(), "stress", LOAD * plain.capacity())));
    Plan { experiment: "scale".to_owned(), jobs: by_rule(&spec, &notes, laps) }
}

pub(crate) fn findings(results: &Results, series: &[Series]) -> Vec<Finding> {
    let mut found = Vec::new();
    for scenario in &results.scenarios {
        for variant in &scenario.variants {
            found.push(told(results, series, &scenario.name, &variant.name));
        }
    }
    found
}

fn told(results: &Results, series: &[Series], scenario: &str, name: &str) -> Finding {
    let of = |path| value(results, scenario, name, path).unwrap_or(f64::NAN);
    let nodes =
        find(results, scenario, name).and_then(|one| one.laps.first()).map(|lap| &lap.nodes);
    let sent = |step| -> u64 {
        nodes.map_or(0, |nodes| nodes.iter().step_by(step).map(|node| node.completed).sum())
    };
    let hedges = count(series, scenario, name, "hedge_rate").unwrap_or(0.0);
    Finding::told(
        format!(
            "{scenario}, {name}: p50, p99 of the answered; lost; stressed twentieth's share; hedges"
        ),
        Some(format!(
            "{:.1} ms, {:.1} ms; {:.2} %; {:.2} %; {:.2} %",
            of("latency_ms.p50"),
            of("latency_ms.p99"),
            of("error_rate") * 100.0,
            sent(20) as f64 / sent(1).max(1) as f64 * 100.0,
            hedges * 100.0
        )),
    )
}
